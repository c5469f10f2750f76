//! A monitor with its schemes, as writes to DAMON's sysfs directory ([`isotherm_texts::damon`]).

use super::{EngineError, Write};
use isotherm_core::host::AddressRange;
use isotherm_core::monitor::MonitorConfig;
use isotherm_core::schemes::{self, Age, Filter, FilterRange, Frequency, Scheme, Tuner, WatermarkMetric};
use isotherm_core::vocabulary::FilterType;
use isotherm_texts::damon::{self, Bounds};
use isotherm_units::{Bytes, Duration};

/// The memory that a kdamond monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Processes by id, with all that they map.
    Processes(Vec<u32>),
    /// These ranges of physical memory. Schemes act only on pages of these groups; `None`: on all pages.
    Physical(Vec<AddressRange>, Option<Vec<String>>),
}

/// All writes that create and start a kdamond, in order. Only the number of kdamonds and the switch are knobs: all other files lie in
/// directories that exist because of that number.
///
/// # Errors
/// A setting for which DAMON has no file.
pub(super) fn writes(config: &MonitorConfig, watched: &Watched) -> Result<Vec<Write>, EngineError> {
    let within = context(config, watched)?.settings().into_iter().map(|one| Write::within(one.path, one.value));
    let mut writes = vec![Write::knob(damon::NR_KDAMONDS, "1")];
    writes.extend(within);
    writes.push(Write::knob(damon::STATE, "on"));
    Ok(writes)
}

fn us(time: Duration) -> u64 {
    time.ns() / 1000
}

fn context(config: &MonitorConfig, watched: &Watched) -> Result<damon::Context, EngineError> {
    let attributes = &config.attributes;
    let (operations, targets) = match watched {
        Watched::Processes(pids) => (
            damon::Operations::Vaddr,
            pids.iter().map(|&pid| damon::Target { pid: Some(pid), regions: None }).collect(),
        ),
        Watched::Physical(ranges, _) => {
            let unit = config.addr_unit.get().max(1);
            let in_units = |range: &AddressRange| AddressRange::new(range.start / unit, range.end / unit);
            let regions = Some(ranges.iter().map(in_units).collect());
            (damon::Operations::Paddr, vec![damon::Target { pid: None, regions }])
        }
    };
    Ok(damon::Context {
        operations,
        addr_unit: config.addr_unit.get(),
        attributes: damon::Attributes {
            sample_us: us(attributes.sample_interval),
            aggr_us: us(attributes.aggr_interval),
            update_us: us(attributes.ops_update_interval),
            min_nr_regions: attributes.min_nr_regions.into(),
            max_nr_regions: attributes.max_nr_regions.into(),
            intervals_goal: attributes.intervals_goal.as_ref().map(|goal| damon::IntervalsGoal {
                access_bp: goal.access.ppm() / 100,
                aggrs: goal.aggrs.into(),
                min_sample_us: us(goal.min_sample_interval),
                max_sample_us: us(goal.max_sample_interval),
            }),
        },
        targets,
        schemes: config.schemes.iter().map(|one| scheme(one, config, watched)).collect::<Result<_, _>>()?,
    })
}

fn scheme(scheme: &Scheme, config: &MonitorConfig, watched: &Watched) -> Result<damon::Scheme, EngineError> {
    let (pattern, attributes) = (&scheme.access_pattern, &config.attributes);
    let samples = |frequency: Frequency| u64::from(frequency.samples(attributes));
    let aggregations = |age: Age| u64::from(age.aggregations(attributes));
    let bounds = |min, max: Option<u64>, most| Bounds { min: Some(min), max: max.unwrap_or(most) };
    let most = u64::from(u32::MAX);
    let marks = &scheme.watermarks;
    Ok(damon::Scheme {
        action: kernel_word(scheme.action.name()),
        access_pattern: damon::AccessPattern {
            sz: bounds(pattern.size.min.get(), pattern.size.max.map(Bytes::get), u64::MAX),
            nr_accesses: bounds(samples(pattern.nr_accesses.min), pattern.nr_accesses.max.map(samples), most),
            age: bounds(aggregations(pattern.age.min), pattern.age.max.map(aggregations), most),
        },
        apply_interval_us: us(scheme.apply_interval),
        max_nr_snapshots: scheme.max_nr_snapshots,
        target_nid: scheme.target_nid,
        dests: scheme.dests.iter().map(|destination| (destination.nid, destination.weight)).collect(),
        quotas: quotas(&scheme.quotas),
        watermarks: (marks.metric == WatermarkMetric::FreeMemRate).then(|| damon::Watermarks {
            interval_us: us(marks.interval),
            high: marks.high.ppm() / 1000,
            mid: marks.mid.ppm() / 1000,
            low: marks.low.ppm() / 1000,
        }),
        filters: all_filters(scheme, watched)?.iter().map(filter).collect::<Result<_, _>>()?,
    })
}

fn quotas(quotas: &schemes::Quotas) -> damon::Quotas {
    let goal = |goal: &schemes::Goal| damon::Goal {
        target_metric: kernel_word(goal.metric.entry().name),
        target_value: goal.target_value,
        current_value: goal.current_value,
        nid: goal.nid,
        path: goal.memcg_path.clone(),
    };
    damon::Quotas {
        ms: quotas.time.map_or(0, |time| time.ns() / 1_000_000),
        bytes: quotas.size.map_or(0, Bytes::get),
        reset_interval_ms: quotas.reset_interval.ns() / 1_000_000,
        sz_permil: quotas.weights.sz.into(),
        nr_accesses_permil: quotas.weights.nr_accesses.into(),
        age_permil: quotas.weights.age.into(),
        fail_charge: quotas.fail_charge.as_ref().map(|charge| (charge.num, charge.denom)),
        goal_tuner: (!quotas.goals.is_empty() && quotas.goal_tuner == Tuner::Temporal).then_some("temporal"),
        goals: quotas.goals.iter().map(goal).collect(),
    }
}

/// Filters of the scheme, and filters that restrict it to its groups. The first match decides: group filters come first for one
/// group, and last for several, where no earlier filter may overrule them.
fn all_filters(scheme: &Scheme, watched: &Watched) -> Result<Vec<Filter>, EngineError> {
    let own = || scheme.core_filters.iter().chain(&scheme.ops_filters).cloned();
    let of = |path: &String, matching, allow| Filter {
        memcg_path: Some(path.clone()),
        ..Filter::new(FilterType::Memcg, matching, allow)
    };
    let Watched::Physical(_, Some(groups)) = watched else { return Ok(own().collect()) };
    if let [group] = &groups[..] {
        return Ok([of(group, false, false)].into_iter().chain(own()).collect());
    }
    if own().any(|filter| filter.allow) {
        return Err(EngineError::AllowFilters(groups.len()));
    }
    Ok(own().chain(groups.iter().map(|group| of(group, true, true))).collect())
}

fn filter(filter: &Filter) -> Result<damon::Filter, EngineError> {
    if filter.filter_type == FilterType::Target {
        return Err(EngineError::TargetFilter);
    }
    Ok(damon::Filter {
        kind: kernel_word(filter.filter_type.entry().name),
        matching: filter.matching,
        allow: filter.allow,
        addresses: filter.address_range.map(|FilterRange { start, end }| AddressRange::new(start, end)),
        memcg_path: filter.memcg_path.clone(),
        size: filter.hugepage_size.as_ref().map(|size| (size.min.get(), size.max.map_or(u64::MAX, Bytes::get))),
    })
}

/// The kernel writes our names with underscores.
fn kernel_word(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::schemes::{AccessPattern, Bounds, Quotas};
    use isotherm_core::vocabulary::Action;

    fn pageout() -> MonitorConfig {
        let access_pattern = AccessPattern {
            nr_accesses: Bounds::new(Frequency::Samples(0), Frequency::Samples(0)),
            age: Bounds::from(Age::Time(Duration::from_secs(30))),
            ..AccessPattern::default()
        };
        let quotas =
            Quotas { size: Some(Bytes::from_mib(100)), reset_interval: Duration::from_secs(1), ..Quotas::default() };
        let scheme = Scheme { action: Action::Pageout, access_pattern, quotas, ..Scheme::default() };
        MonitorConfig { schemes: vec![scheme], ..MonitorConfig::default() }
    }

    fn value<'a>(writes: &'a [Write], file: &str) -> Option<&'a str> {
        let found = writes.iter().find(|write| write.path.ends_with(file));
        found.map(|write| write.value.as_str())
    }

    #[test]
    fn a_scheme_becomes_its_files() {
        let writes = writes(&pageout(), &Watched::Processes(vec![7, 9])).unwrap();
        for (file, expected) in [
            ("contexts/0/operations", "vaddr"),
            ("intervals/sample_us", "5000"),
            ("intervals/aggr_us", "100000"),
            ("targets/nr_targets", "2"),
            ("targets/1/pid_target", "9"),
            ("schemes/nr_schemes", "1"),
            ("schemes/0/action", "pageout"),
            ("nr_accesses/max", "0"),
            ("age/min", "300"),
            ("age/max", "4294967295"),
            ("sz/max", "18446744073709551615"),
            ("quotas/bytes", "104857600"),
            ("quotas/reset_interval_ms", "1000"),
        ] {
            assert_eq!(value(&writes, file), Some(expected), "{file}");
        }
        // Files that are 0 in a new directory are not written.
        for file in ["quotas/ms", "apply_interval_us", "watermarks/metric", "filters/nr_filters", "goal_tuner"] {
            assert_eq!(value(&writes, file), None, "{file}");
        }
        let knobs: Vec<&str> = writes.iter().filter(|write| !write.is_within).map(|write| &write.path[..]).collect();
        assert_eq!(knobs, [damon::NR_KDAMONDS, damon::STATE]);
        assert!(writes[0].path.ends_with("nr_kdamonds") && writes.last().unwrap().value == "on");
    }

    #[test]
    fn groups_become_filters() {
        let ranges = vec![AddressRange::new(0x1000, 0x9000)];
        let groups = |names: &[&str]| {
            Watched::Physical(ranges.clone(), Some(names.iter().map(|&name| name.to_owned()).collect()))
        };
        let one = writes(&pageout(), &groups(&["/app/web"])).unwrap();
        assert_eq!(value(&one, "operations"), Some("paddr"));
        assert_eq!(value(&one, "regions/0/end"), Some("36864"));
        assert_eq!((value(&one, "filters/0/matching"), value(&one, "filters/0/allow")), (Some("N"), None));
        assert_eq!(value(&one, "filters/0/memcg_path"), Some("/app/web"));
        let two = writes(&pageout(), &groups(&["/a", "/b"])).unwrap();
        assert_eq!((value(&two, "filters/1/matching"), value(&two, "filters/1/allow")), (Some("Y"), Some("Y")));
        let mut young = pageout();
        young.schemes[0].ops_filters = vec![Filter::new(FilterType::Young, true, false)];
        let first = writes(&young, &groups(&["/a"])).unwrap();
        assert_eq!((value(&first, "filters/0/type"), value(&first, "filters/1/type")), (Some("memcg"), Some("young")));
        let last = writes(&young, &groups(&["/a", "/b"])).unwrap();
        assert_eq!((value(&last, "filters/0/type"), value(&last, "filters/2/type")), (Some("young"), Some("memcg")));
        young.schemes[0].ops_filters[0].allow = true;
        assert_eq!(writes(&young, &groups(&["/a", "/b"])), Err(EngineError::AllowFilters(2)));
        assert!(writes(&young, &groups(&["/a"])).is_ok());
    }
}
