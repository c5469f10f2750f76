//! A monitor with its schemes as files of DAMON's folder in sysfs (docs/spec/live-linux.md; the kernel's
//! Documentation/admin-guide/mm/damon/usage.rst).

use super::Write;
use isotherm_core::host::AddressRange;
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::schemes::{Filter, FilterRange, Goal, Quotas, Scheme, Tuner, WatermarkMetric};
use isotherm_core::vocabulary::FilterType;
use isotherm_units::{Bytes, Duration};

pub(super) const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
pub(super) const CONTEXT: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";

/// Whom a kdamond looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Processes by number, with all that they have mapped.
    Processes(Vec<u32>),
    /// These ranges of physical memory. Pages of these groups alone are treated; `None`: pages of everyone.
    Physical(Vec<AddressRange>, Option<Vec<String>>),
}

/// All that makes and starts a kdamond, in its order. The knobs are the number of kdamonds and the switch: everything else lies in
/// folders that come and go with that number.
///
/// # Errors
/// What DAMON has no file for, in words.
pub(super) fn writes(config: &MonitorConfig, watched: &Watched) -> Result<Vec<Write>, String> {
    let mut writes = vec![Write::knob(format!("{ADMIN}/nr_kdamonds"), "1")];
    let mut list = List(&mut writes);
    list.at(ADMIN).put("0/contexts/nr_contexts", 1);
    context(&mut list, config, watched);
    for (nth, scheme) in config.schemes.iter().enumerate() {
        if nth == 0 {
            list.at(CONTEXT).put("schemes/nr_schemes", config.schemes.len());
        }
        self::scheme(&mut list, nth, scheme, config, watched)?;
    }
    writes.push(Write::knob(format!("{ADMIN}/0/state"), "on"));
    Ok(writes)
}

/// Writes below folders that were made.
struct List<'a>(&'a mut Vec<Write>);

struct Folder<'a, 'b> {
    list: &'a mut List<'b>,
    path: String,
}

impl<'b> List<'b> {
    fn at(&mut self, path: impl Into<String>) -> Folder<'_, 'b> {
        Folder { list: self, path: path.into() }
    }
}

impl Folder<'_, '_> {
    fn put(&mut self, file: &str, value: impl ToString) -> &mut Self {
        self.list.0.push(Write::within(format!("{}/{file}", self.path), value.to_string()));
        self
    }

    /// Numbers that are 0 in a folder just made are left out: kernels that lack the file can do without.
    fn put_unless_zero(&mut self, file: &str, value: u64) -> &mut Self {
        if value == 0 { self } else { self.put(file, value) }
    }
}

fn us(time: Duration) -> u64 {
    time.ns() / 1000
}

fn context(list: &mut List<'_>, config: &MonitorConfig, watched: &Watched) {
    let mut folder = list.at(CONTEXT);
    let operations = match watched {
        Watched::Processes(_) => Operations::Vaddr,
        Watched::Physical(..) => Operations::Paddr,
    };
    let name = match operations {
        Operations::Paddr => "paddr",
        Operations::Vaddr | Operations::Fvaddr => "vaddr",
    };
    folder.put("operations", name);
    if config.addr_unit != Bytes::new(1) {
        folder.put("addr_unit", config.addr_unit.get());
    }
    let attributes = &config.attributes;
    folder
        .put("monitoring_attrs/intervals/sample_us", us(attributes.sample_interval))
        .put("monitoring_attrs/intervals/aggr_us", us(attributes.aggr_interval))
        .put("monitoring_attrs/intervals/update_us", us(attributes.ops_update_interval))
        // The bounds are checked at each write: the upper one first.
        .put("monitoring_attrs/nr_regions/max", attributes.max_nr_regions)
        .put("monitoring_attrs/nr_regions/min", attributes.min_nr_regions);
    if let Some(goal) = &attributes.intervals_goal {
        folder
            .put("monitoring_attrs/intervals/intervals_goal/access_bp", goal.access.ppm() / 100)
            .put("monitoring_attrs/intervals/intervals_goal/aggrs", goal.aggrs)
            .put("monitoring_attrs/intervals/intervals_goal/min_sample_us", us(goal.min_sample_interval))
            .put("monitoring_attrs/intervals/intervals_goal/max_sample_us", us(goal.max_sample_interval));
    }
    match watched {
        Watched::Processes(pids) => {
            folder.put("targets/nr_targets", pids.len());
            for (nth, pid) in pids.iter().enumerate() {
                folder.put(&format!("targets/{nth}/pid_target"), pid);
            }
        }
        Watched::Physical(ranges, _) => {
            folder.put("targets/nr_targets", 1).put("targets/0/regions/nr_regions", ranges.len());
            let unit = config.addr_unit.get().max(1);
            for (nth, range) in ranges.iter().enumerate() {
                folder
                    .put(&format!("targets/0/regions/{nth}/start"), range.start / unit)
                    .put(&format!("targets/0/regions/{nth}/end"), range.end / unit);
            }
        }
    }
}

fn scheme(
    list: &mut List<'_>,
    nth: usize,
    scheme: &Scheme,
    config: &MonitorConfig,
    watched: &Watched,
) -> Result<(), String> {
    let mut folder = list.at(format!("{CONTEXT}/schemes/{nth}"));
    folder.put("action", kernel_word(scheme.action.name()));
    let (pattern, attributes) = (&scheme.access_pattern, &config.attributes);
    let most = |frequency: Option<_>, none: u64| frequency.unwrap_or(none);
    let samples = |frequency: isotherm_core::schemes::Frequency| u64::from(frequency.samples(attributes));
    let aggregations = |age: isotherm_core::schemes::Age| u64::from(age.aggregations(attributes));
    let limit = u64::from(u32::MAX);
    folder
        .put("access_pattern/sz/max", most(pattern.size.max.map(Bytes::get), u64::MAX))
        .put("access_pattern/sz/min", pattern.size.min.get())
        .put("access_pattern/nr_accesses/max", most(pattern.nr_accesses.max.map(samples), limit))
        .put("access_pattern/nr_accesses/min", samples(pattern.nr_accesses.min))
        .put("access_pattern/age/max", most(pattern.age.max.map(aggregations), limit))
        .put("access_pattern/age/min", aggregations(pattern.age.min))
        .put_unless_zero("apply_interval_us", us(scheme.apply_interval))
        .put_unless_zero("stats/max_nr_snapshots", scheme.max_nr_snapshots);
    if let Some(nid) = scheme.target_nid {
        folder.put("target_nid", nid);
    }
    if !scheme.dests.is_empty() {
        folder.put("dests/nr_dests", scheme.dests.len());
        for (nth, destination) in scheme.dests.iter().enumerate() {
            folder
                .put(&format!("dests/{nth}/id"), destination.nid)
                .put(&format!("dests/{nth}/weight"), destination.weight);
        }
    }
    quotas(&mut folder, &scheme.quotas);
    let marks = &scheme.watermarks;
    if marks.metric == WatermarkMetric::FreeMemRate {
        folder
            .put("watermarks/metric", "free_mem_rate")
            .put("watermarks/interval_us", us(marks.interval))
            .put("watermarks/high", marks.high.ppm() / 1000)
            .put("watermarks/mid", marks.mid.ppm() / 1000)
            .put("watermarks/low", marks.low.ppm() / 1000);
    }
    let filters = all_filters(scheme, watched)?;
    if !filters.is_empty() {
        folder.put("filters/nr_filters", filters.len());
        for (nth, one) in filters.iter().enumerate() {
            filter(&mut folder, &format!("filters/{nth}"), one)?;
        }
    }
    Ok(())
}

fn quotas(folder: &mut Folder<'_, '_>, quotas: &Quotas) {
    folder
        .put_unless_zero("quotas/ms", quotas.time.map_or(0, |time| time.ns() / 1_000_000))
        .put_unless_zero("quotas/bytes", quotas.size.map_or(0, Bytes::get))
        .put_unless_zero("quotas/reset_interval_ms", quotas.reset_interval.ns() / 1_000_000)
        .put_unless_zero("quotas/weights/sz_permil", u64::from(quotas.weights.sz))
        .put_unless_zero("quotas/weights/nr_accesses_permil", u64::from(quotas.weights.nr_accesses))
        .put_unless_zero("quotas/weights/age_permil", u64::from(quotas.weights.age));
    if let Some(charge) = &quotas.fail_charge {
        folder.put("quotas/fail_charge_num", charge.num).put("quotas/fail_charge_denom", charge.denom);
    }
    if quotas.goals.is_empty() {
        return;
    }
    if quotas.goal_tuner == Tuner::Temporal {
        folder.put("quotas/goal_tuner", "temporal");
    }
    folder.put("quotas/goals/nr_goals", quotas.goals.len());
    for (nth, goal) in quotas.goals.iter().enumerate() {
        let Goal { metric, target_value, current_value, nid, memcg_path } = goal;
        let place = format!("quotas/goals/{nth}");
        folder
            .put(&format!("{place}/target_metric"), kernel_word(metric.entry().name))
            .put(&format!("{place}/target_value"), target_value)
            .put_unless_zero(&format!("{place}/current_value"), *current_value);
        if let Some(nid) = nid {
            folder.put(&format!("{place}/nid"), nid);
        }
        if let Some(path) = memcg_path {
            folder.put(&format!("{place}/path"), path);
        }
    }
}

/// Those of the scheme, and those that keep it to its groups. The first that matches decides, so that those of groups can stand first
/// for one group, and last for several, which no filter before them may overrule.
fn all_filters(scheme: &Scheme, watched: &Watched) -> Result<Vec<Filter>, String> {
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
        return Err(format!(
            "filters that allow cannot be joined with {} groups; give each group a scheme of its own, or use filters that reject",
            groups.len()
        ));
    }
    Ok(own().chain(groups.iter().map(|group| of(group, true, true))).collect())
}

fn filter(folder: &mut Folder<'_, '_>, place: &str, filter: &Filter) -> Result<(), String> {
    let flag = |is_so: bool| if is_so { "Y" } else { "N" };
    folder.put(&format!("{place}/type"), kernel_word(filter.filter_type.entry().name));
    folder.put(&format!("{place}/matching"), flag(filter.matching));
    // Kernels before 6.14 know rejecting filters alone, and have no such file.
    if filter.allow {
        folder.put(&format!("{place}/allow"), flag(true));
    }
    if filter.filter_type == FilterType::Target {
        return Err(
            "filters of type `target` number processes, which have no order here; name other targets".to_owned()
        );
    }
    if let Some(FilterRange { start, end }) = filter.address_range {
        // The end is checked against the start at each write.
        folder.put(&format!("{place}/addr_end"), end).put(&format!("{place}/addr_start"), start);
    }
    if let Some(path) = &filter.memcg_path {
        folder.put(&format!("{place}/memcg_path"), path);
    }
    if let Some(size) = &filter.hugepage_size {
        folder
            .put(&format!("{place}/max"), size.max.map_or(u64::MAX, Bytes::get))
            .put(&format!("{place}/min"), size.min.get());
    }
    Ok(())
}

/// The kernel writes our names with underscores.
fn kernel_word(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::schemes::{AccessPattern, Age, Bounds, Frequency};
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
        // What is 0 in a folder just made is not written.
        for file in ["quotas/ms", "apply_interval_us", "watermarks/metric", "filters/nr_filters", "goal_tuner"] {
            assert_eq!(value(&writes, file), None, "{file}");
        }
        let knobs: Vec<&str> = writes.iter().filter(|write| !write.is_within).map(|write| &write.path[..]).collect();
        assert_eq!(knobs, [format!("{ADMIN}/nr_kdamonds"), format!("{ADMIN}/0/state")]);
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
        assert!(writes(&young, &groups(&["/a", "/b"])).unwrap_err().contains("filters that allow"));
        assert!(writes(&young, &groups(&["/a"])).is_ok());
    }
}
