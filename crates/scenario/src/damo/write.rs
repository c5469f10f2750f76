//! A monitor of ours as a context of damo's.

use super::{DamoError, damo_name};
use crate::monitoring::RangeSpec;
use isotherm_core::monitor::{Attributes, MonitorConfig, Operations};
use isotherm_core::schemes::{
    AccessPattern, Age, Bounds, FailCharge, Filter, Frequency, Goal, Quotas, Scheme, Tuner, WatermarkMetric, Watermarks,
};
use isotherm_trace::region::IntervalsGoal;
use isotherm_trace::region::kdamonds::{self as damo, AccessUnit, AddressRange, AgeUnit, Context, Limit, Target};
use isotherm_units::{Bytes, Duration};

/// The context of a monitor with one target over `ranges`. Processes have no number here; damo requires one as `pid`.
///
/// # Errors
/// The first value that damo cannot express, by our key.
pub fn context_of(config: &MonitorConfig, ranges: &[RangeSpec]) -> Result<Context, DamoError> {
    let MonitorConfig { operations, attributes, addr_unit, schemes, paused, .. } = config;
    refuse_our_own(config)?;
    if !schemes.is_empty() && *addr_unit != Bytes::new(1) {
        return Err(DamoError::new("addr-unit", addr_unit, "1B beside schemes, whose sizes damo counts in units"));
    }
    let range = |range: &RangeSpec| AddressRange { start: range.start, end: range.end };
    let each = |(index, scheme)| scheme_of(scheme, &format!("schemes[{index}]"));
    Ok(Context {
        operations: match operations {
            Operations::Vaddr => "vaddr",
            Operations::Fvaddr => "fvaddr",
            Operations::Paddr => "paddr",
        }
        .to_owned(),
        address_unit_bytes: addr_unit.get(),
        targets: vec![Target { regions: ranges.iter().map(range).collect(), ..Target::default() }],
        intervals: intervals_of(attributes),
        min_regions: u64::from(attributes.min_nr_regions),
        max_regions: u64::from(attributes.max_nr_regions),
        pause: *paused,
        schemes: schemes.iter().enumerate().map(each).collect::<Result<_, _>>()?,
        ..Context::default()
    })
}

/// Refuses settings that DAMON does not have.
fn refuse_our_own(config: &MonitorConfig) -> Result<(), DamoError> {
    let usual = MonitorConfig::default();
    let keys = [
        ("strategy", config.strategy != usual.strategy, "leaf"),
        ("sampling", config.sampling != usual.sampling, "spread"),
        ("flush", config.flush != usual.flush, "none"),
        ("baseline", config.baseline != usual.baseline, "v7_2"),
        ("min-region-size", config.min_region_size != usual.min_region_size, "a page, by leaving it out"),
        ("leaks", config.leaks != usual.leaks, "none"),
        ("descend", config.descend != usual.descend, "none"),
        ("probes", !config.probes.is_empty(), "none: those of damo name groups by paths"),
    ];
    match keys.into_iter().find(|(_, is_own, _)| *is_own) {
        Some((key, _, allowed)) => Err(DamoError::new(key, "set to what damo has no word for", allowed)),
        None => Ok(()),
    }
}

fn intervals_of(attributes: &Attributes) -> damo::MonitorIntervals {
    let goal = attributes.intervals_goal.as_ref().map(|goal| IntervalsGoal {
        access_ppm: goal.access.ppm(),
        nr_aggregations: u64::from(goal.aggrs),
        min_sample_ns: goal.min_sample_interval.ns(),
        max_sample_ns: goal.max_sample_interval.ns(),
    });
    damo::MonitorIntervals {
        sample_ns: attributes.sample_interval.ns(),
        aggregation_ns: attributes.aggr_interval.ns(),
        update_ns: attributes.ops_update_interval.ns(),
        goal: goal.unwrap_or_default(),
    }
}

fn scheme_of(scheme: &Scheme, place: &str) -> Result<damo::Scheme, DamoError> {
    if scheme.marks_accessed {
        let allowed = "false: the kernel's DAMON makes pages active at once";
        return Err(DamoError::new(format!("{place}.marks-accessed"), true, allowed));
    }
    if scheme.max_nr_snapshots != 0 {
        let allowed = "0: damo takes it on its command line alone, as --damos_max_nr_snapshots";
        return Err(DamoError::new(format!("{place}.max-nr-snapshots"), scheme.max_nr_snapshots, allowed));
    }
    let destination = |destination: &isotherm_core::schemes::Destination| damo::Destination {
        id: u64::from(destination.nid),
        weight: u64::from(destination.weight),
    };
    Ok(damo::Scheme {
        action: damo_name(scheme.action.name()),
        target_nid: scheme.target_nid.map(u64::from),
        destinations: scheme.dests.iter().map(destination).collect(),
        pattern: pattern_of(&scheme.access_pattern, place)?,
        apply_interval_ns: scheme.apply_interval.ns(),
        quotas: quotas_of(&scheme.quotas),
        watermarks: watermarks_of(&scheme.watermarks),
        filters: scheme.core_filters.iter().chain(&scheme.ops_filters).map(filter_of).collect(),
        max_nr_snapshots: 0,
    })
}

/// damo has one unit for both bounds of frequency, and one for both of age; 0 is the same in every unit.
fn pattern_of(pattern: &AccessPattern, place: &str) -> Result<damo::AccessPattern, DamoError> {
    let (least, most) = (pattern.nr_accesses.min, pattern.nr_accesses.max);
    let samples = |frequency| matches!(frequency, Frequency::Samples(count) if count > 0);
    let shares = |frequency| matches!(frequency, Frequency::Share(share) if share.ppm() > 0);
    let is_any = |is: fn(Frequency) -> bool| is(least) || most.is_some_and(is);
    if is_any(samples) && is_any(shares) {
        let allowed = "both bounds in samples, or both in percent";
        return Err(DamoError::new(format!("{place}.access-pattern.nr-accesses"), "in two units", allowed));
    }
    let (youngest, oldest) = (pattern.age.min, pattern.age.max);
    let counts = |age| matches!(age, Age::Aggregations(count) if count > 0);
    let times = |age| matches!(age, Age::Time(time) if time > Duration::ZERO);
    let is_any = |is: fn(Age) -> bool| is(youngest) || oldest.is_some_and(is);
    if is_any(counts) && is_any(times) {
        let allowed = "both bounds in aggregations, or both as times";
        return Err(DamoError::new(format!("{place}.access-pattern.age"), "in two units", allowed));
    }
    let frequency = |frequency: Frequency| match frequency {
        Frequency::Samples(count) => u64::from(count),
        Frequency::Share(share) => share.ppm(),
    };
    let age = |age: Age| match age {
        Age::Aggregations(count) => u64::from(count),
        Age::Time(time) => time.ns(),
    };
    Ok(damo::AccessPattern {
        bytes: bounds_of(pattern.size, Bytes::get),
        accesses: bounds_of(pattern.nr_accesses, frequency),
        access_unit: if samples(least) || most.is_some_and(samples) { AccessUnit::Samples } else { AccessUnit::Ppm },
        age: bounds_of(pattern.age, age),
        age_unit: if counts(youngest) || oldest.is_some_and(counts) {
            AgeUnit::Aggregations
        } else {
            AgeUnit::Nanoseconds
        },
    })
}

fn bounds_of<T: Default + Copy>(bounds: Bounds<T>, value: impl Fn(T) -> u64) -> damo::Bounds {
    damo::Bounds { min: limit_of(value(bounds.min)), max: bounds.max.map_or(Limit::Max, |max| limit_of(value(max))) }
}

/// The largest number means no limit in these files.
fn limit_of(value: u64) -> Limit {
    if value == u64::MAX { Limit::Max } else { Limit::At(value) }
}

fn quotas_of(quotas: &Quotas) -> damo::Quotas {
    let goal = |goal: &Goal| damo::QuotaGoal {
        metric: damo_name(goal.metric.entry().name),
        complement: false,
        nid: goal.nid.map(u64::from),
        memcg_path: goal.memcg_path.clone(),
        target_value: goal.target_value,
        current_value: goal.current_value,
    };
    let ppm = |weight: u32| u64::from(weight) * 1000;
    let FailCharge { num, denom } = quotas.fail_charge.unwrap_or(FailCharge { num: 0, denom: 0 });
    damo::Quotas {
        time_ns: quotas.time.map_or(0, Duration::ns),
        bytes: quotas.size.map_or(0, Bytes::get),
        reset_interval_ns: match quotas.reset_interval {
            Duration::ZERO => Limit::Max,
            interval => limit_of(interval.ns()),
        },
        weight_size_ppm: ppm(quotas.weights.sz),
        weight_accesses_ppm: ppm(quotas.weights.nr_accesses),
        weight_age_ppm: ppm(quotas.weights.age),
        fail_charge_numerator: u64::from(num),
        fail_charge_denominator: u64::from(denom),
        goals: quotas.goals.iter().map(goal).collect(),
        goal_tuner: match quotas.goal_tuner {
            Tuner::Consist => "consist",
            Tuner::Temporal => "temporal",
        }
        .to_owned(),
        effective_bytes: 0,
    }
}

fn watermarks_of(marks: &Watermarks) -> damo::Watermarks {
    let metric = match marks.metric {
        WatermarkMetric::None => "none",
        WatermarkMetric::FreeMemRate => "free_mem_rate",
    };
    damo::Watermarks {
        metric: metric.to_owned(),
        interval_ns: marks.interval.ns(),
        high_ppm: marks.high.ppm(),
        mid_ppm: marks.mid.ppm(),
        low_ppm: marks.low.ppm(),
    }
}

fn filter_of(filter: &Filter) -> damo::SchemeFilter {
    damo::SchemeFilter {
        filter_type: damo_name(filter.filter_type.entry().name),
        matching: filter.matching,
        allow: filter.allow,
        memcg_path: filter.memcg_path.clone(),
        address_range: filter.address_range.map(|range| AddressRange { start: range.start, end: range.end }),
        target_index: filter.target_idx.map(u64::from),
        hugepage_bytes: filter.hugepage_size.map(|sizes| bounds_of(sizes, Bytes::get)),
        probe_hits: None,
    }
}
