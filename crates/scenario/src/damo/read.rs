//! A context of damo's as a monitor of ours.

use super::{DamoError, actions, damo_name, filter_types, metrics, place};
use crate::monitoring::RangeSpec;
use isotherm_core::monitor::{Attributes, IntervalsGoal, MonitorConfig, Operations};
use isotherm_core::schemes::{
    ACTIONS, AccessPattern, Action, Age, Bounds, Destination, FILTER_TYPES, FailCharge, Filter, FilterRange, Frequency,
    Goal, Layer, METRICS, Metric, Quotas, Scheme, Tuner, WatermarkMetric, Watermarks, Weights,
};
use isotherm_trace::region::kdamonds::{self as damo, AccessUnit, AgeUnit, Context, Limit, SampleControl};
use isotherm_units::{Bytes, Duration, Ratio};

/// The monitor that a context of damo's describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamoMonitor {
    /// Monitor and schemes.
    pub config: MonitorConfig,
    /// Ranges to monitor; empty: all that the target has.
    pub ranges: Vec<RangeSpec>,
    /// Number of targets that the context names by process id.
    pub nr_processes: usize,
}

/// Takes over a whole context, which is at `place` of its file.
///
/// # Errors
/// The first value that cannot be taken over, or is invalid.
pub fn monitor_of(context: &Context, place: &str) -> Result<DamoMonitor, DamoError> {
    let refuse = |key: &str, got: String, allowed: &str| Err(DamoError::new(format!("{place}.{key}"), got, allowed));
    let (mut config, ranges) = watching_of(context, place)?;
    if !context.probes.is_empty() {
        return refuse("probes", format!("{} of them", context.probes.len()), "none");
    }
    if context.sample_control != SampleControl::default() {
        return refuse("sample_control", "not the usual one".to_owned(), "page_table alone, without filters");
    }
    if !context.schemes.is_empty() && context.address_unit_bytes != 1 {
        let got = format!("{} B", context.address_unit_bytes);
        return refuse("addr_unit", got, "1 B beside schemes, whose sizes are in bytes here");
    }
    for (index, target) in context.targets.iter().enumerate() {
        if target.obsolete {
            return refuse(
                &format!("targets[{index}].obsolete"),
                "true".to_owned(),
                "false, in what is no change of another",
            );
        }
        if index > 0 && !target.regions.is_empty() {
            let got = format!("{} of them", target.regions.len());
            return refuse(&format!("targets[{index}].regions"), got, "none but for the first target");
        }
    }
    config.paused = context.pause;
    for (index, scheme) in context.schemes.iter().enumerate() {
        config.schemes.push(At(format!("{place}.schemes[{index}]")).scheme(scheme)?);
    }
    config.validate().map_err(|error| place::of_monitor(error, context, place))?;
    let nr_processes = context.targets.iter().filter(|target| target.pid.is_some()).count();
    Ok(DamoMonitor { config, ranges, nr_processes })
}

/// Where and how a context monitors, without its schemes.
///
/// # Errors
/// The first value that cannot be taken over; limits are not checked.
pub fn watching_of(context: &Context, place: &str) -> Result<(MonitorConfig, Vec<RangeSpec>), DamoError> {
    let at = At(place.to_owned());
    let operations = match context.operations.as_str() {
        "vaddr" => Operations::Vaddr,
        "fvaddr" => Operations::Fvaddr,
        "paddr" => Operations::Paddr,
        other => return at.refuse("ops", format!("`{other}`"), "vaddr, fvaddr, paddr"),
    };
    let damo::MonitorIntervals { sample_ns, aggregation_ns, update_ns, goal } = context.intervals;
    let intervals_goal = (goal.nr_aggregations > 0).then(|| -> Result<IntervalsGoal, DamoError> {
        Ok(IntervalsGoal {
            access: Ratio::from_ppm(goal.access_ppm),
            aggrs: at.count("intervals.intervals_goal.aggrs", goal.nr_aggregations)?,
            min_sample_interval: Duration::from_ns(goal.min_sample_ns),
            max_sample_interval: Duration::from_ns(goal.max_sample_ns),
        })
    });
    let attributes = Attributes {
        sample_interval: Duration::from_ns(sample_ns),
        aggr_interval: Duration::from_ns(aggregation_ns),
        ops_update_interval: Duration::from_ns(update_ns),
        min_nr_regions: at.count("nr_regions.min", context.min_regions)?,
        max_nr_regions: at.count("nr_regions.max", context.max_regions)?,
        intervals_goal: intervals_goal.transpose()?,
    };
    let addr_unit = Bytes::new(context.address_unit_bytes);
    let config = MonitorConfig { operations, attributes, addr_unit, ..MonitorConfig::default() };
    let ranges = context.targets.first().map_or(&[][..], |target| &target.regions);
    Ok((config, ranges.iter().map(|range| RangeSpec { start: range.start, end: range.end }).collect()))
}

/// A place of the file.
struct At(String);

impl At {
    fn refuse<T>(&self, key: &str, got: impl std::fmt::Display, allowed: impl Into<String>) -> Result<T, DamoError> {
        Err(DamoError::new(format!("{}.{key}", self.0), got, allowed))
    }

    fn count(&self, key: &str, value: u64) -> Result<u32, DamoError> {
        u32::try_from(value).or_else(|_| self.refuse(key, value, format!("up to {}", u32::MAX)))
    }

    fn scheme(&self, scheme: &damo::Scheme) -> Result<Scheme, DamoError> {
        let action = ACTIONS.iter().find(|entry| damo_name(entry.name) == scheme.action).map(|entry| entry.action);
        let Some(action) = action else { return self.refuse("action", format!("`{}`", scheme.action), actions()) };
        let target_nid = scheme.target_nid.map(|nid| self.count("target_nid", nid)).transpose()?;
        let (core_filters, ops_filters) = self.filters(&scheme.filters)?;
        Ok(Scheme {
            marks_accessed: false,
            action,
            access_pattern: self.pattern(&scheme.pattern)?,
            apply_interval: Duration::from_ns(scheme.apply_interval_ns),
            quotas: self.quotas(&scheme.quotas)?,
            watermarks: self.watermarks(&scheme.watermarks)?,
            core_filters,
            ops_filters,
            target_nid,
            dests: self.destinations(&scheme.destinations, action)?,
            max_nr_snapshots: scheme.max_nr_snapshots,
        })
    }

    fn destinations(&self, all: &[damo::Destination], action: Action) -> Result<Vec<Destination>, DamoError> {
        if !all.is_empty() && !action.migrates() {
            return self.refuse(
                "dests",
                format!("{} of them", all.len()),
                format!("none with `{}`", damo_name(action.name())),
            );
        }
        let each = |(index, destination): (usize, &damo::Destination)| {
            Ok(Destination {
                nid: self.count(&format!("dests[{index}].id"), destination.id)?,
                weight: self.count(&format!("dests[{index}].weight"), destination.weight)?,
            })
        };
        all.iter().enumerate().map(each).collect()
    }

    fn pattern(&self, pattern: &damo::AccessPattern) -> Result<AccessPattern, DamoError> {
        let frequency = |value: u64, key: &str| match pattern.access_unit {
            // 0 is the same in every unit; samples are the simplest.
            AccessUnit::Ppm if value == 0 => Ok(Frequency::Samples(0)),
            AccessUnit::Ppm => Ok(Frequency::Share(Ratio::from_ppm(value))),
            AccessUnit::Samples => {
                self.count(&format!("access_pattern.nr_accesses.{key}"), value).map(Frequency::Samples)
            }
        };
        let age = |value: u64, key: &str| match pattern.age_unit {
            AgeUnit::Nanoseconds if value == 0 => Ok(Age::Aggregations(0)),
            AgeUnit::Nanoseconds => Ok(Age::Time(Duration::from_ns(value))),
            AgeUnit::Aggregations => self.count(&format!("access_pattern.age.{key}"), value).map(Age::Aggregations),
        };
        Ok(AccessPattern {
            size: bounds(pattern.bytes, |bytes, _| Ok(Bytes::new(bytes)))?,
            nr_accesses: bounds(pattern.accesses, frequency)?,
            age: bounds(pattern.age, age)?,
        })
    }

    fn quotas(&self, quotas: &damo::Quotas) -> Result<Quotas, DamoError> {
        let weight = |key: &str, ppm: u64| {
            let place = format!("quotas.weights.{key}");
            if !ppm.is_multiple_of(1000) {
                return self.refuse(&place, format!("{}", Ratio::from_ppm(ppm)), "whole per mille (0.1 %)");
            }
            self.count(&place, ppm / 1000)
        };
        let goal = |(index, goal): (usize, &damo::QuotaGoal)| {
            let at = Self(format!("{}.quotas.goals[{index}]", self.0));
            let metric = METRICS.iter().find(|entry| damo_name(entry.name) == goal.metric).map(|entry| entry.metric);
            let Some(metric) = metric else { return at.refuse("metric", format!("`{}`", goal.metric), metrics()) };
            if goal.complement {
                return at.refuse("complement", "true", "false");
            }
            if metric != Metric::UserInput && goal.current_value != 0 {
                return at.refuse("current_value", goal.current_value, "0 but with `user_input`: it is measured");
            }
            Ok(Goal {
                metric,
                target_value: goal.target_value,
                current_value: goal.current_value,
                nid: goal.nid.map(|nid| at.count("nid", nid)).transpose()?,
                memcg_path: goal.memcg_path.clone(),
            })
        };
        let goals = quotas.goals.iter().enumerate().map(goal).collect::<Result<Vec<_>, _>>()?;
        let fail_charge = match (quotas.fail_charge_numerator, quotas.fail_charge_denominator) {
            (0, 0) => None,
            (num, 0) => return self.refuse("quotas.fail_charge_denom", format!("0 below {num}"), "1 and more"),
            (num, denom) => Some(FailCharge {
                num: self.count("quotas.fail_charge_num", num)?,
                denom: self.count("quotas.fail_charge_denom", denom)?,
            }),
        };
        let goal_tuner = match quotas.goal_tuner.as_str() {
            "consist" => Tuner::Consist,
            "temporal" => Tuner::Temporal,
            other => return self.refuse("quotas.goal_tuner", format!("`{other}`"), "consist, temporal"),
        };
        // 0 is damo's way to say "no limit"; without a quota the length of windows has no meaning, and `max` is its default.
        let is_set = quotas.time_ns != 0 || quotas.bytes != 0 || !goals.is_empty();
        let reset_interval = match quotas.reset_interval_ns {
            Limit::At(ns) => Duration::from_ns(ns),
            Limit::Max if is_set => Duration::MAX,
            Limit::Max => Duration::ZERO,
        };
        Ok(Quotas {
            time: (quotas.time_ns != 0).then(|| Duration::from_ns(quotas.time_ns)),
            size: (quotas.bytes != 0).then(|| Bytes::new(quotas.bytes)),
            reset_interval,
            goals,
            goal_tuner,
            weights: Weights {
                sz: weight("sz_permil", quotas.weight_size_ppm)?,
                nr_accesses: weight("nr_accesses_permil", quotas.weight_accesses_ppm)?,
                age: weight("age_permil", quotas.weight_age_ppm)?,
            },
            fail_charge,
        })
    }

    fn watermarks(&self, marks: &damo::Watermarks) -> Result<Watermarks, DamoError> {
        let metric = match marks.metric.as_str() {
            "none" => WatermarkMetric::None,
            "free_mem_rate" => WatermarkMetric::FreeMemRate,
            other => return self.refuse("watermarks.metric", format!("`{other}`"), "none, free_mem_rate"),
        };
        Ok(Watermarks {
            metric,
            interval: Duration::from_ns(marks.interval_ns),
            high: Ratio::from_ppm(marks.high_ppm),
            mid: Ratio::from_ppm(marks.mid_ppm),
            low: Ratio::from_ppm(marks.low_ppm),
        })
    }

    /// damo's single list of filters, split as in the kernel: filters of the core, and of pages.
    fn filters(&self, all: &[damo::SchemeFilter]) -> Result<(Vec<Filter>, Vec<Filter>), DamoError> {
        let mut lists = (Vec::new(), Vec::new());
        for (index, filter) in all.iter().enumerate() {
            let at = Self(format!("{}.filters[{index}]", self.0));
            let Some(entry) = FILTER_TYPES.iter().find(|entry| damo_name(entry.name) == filter.filter_type) else {
                return at.refuse("filter_type", format!("`{}`", filter.filter_type), filter_types());
            };
            if filter.probe_hits.is_some() {
                return at.refuse("probe_hits_wsum_range", "given", format!("none with `{}`", filter.filter_type));
            }
            let size = |sizes| bounds(sizes, |bytes, _| Ok(Bytes::new(bytes)));
            let range = filter.address_range.map(|range| FilterRange { start: range.start, end: range.end });
            let list = if entry.layer == Layer::Core { &mut lists.0 } else { &mut lists.1 };
            list.push(Filter {
                address_range: range,
                target_idx: filter.target_index.map(|index| at.count("damon_target_idx", index)).transpose()?,
                memcg_path: filter.memcg_path.clone(),
                hugepage_size: filter.hugepage_bytes.map(size).transpose()?,
                ..Filter::new(entry.filter_type, filter.matching, filter.allow)
            });
        }
        Ok(lists)
    }
}

fn bounds<T: Default>(
    bounds: damo::Bounds,
    value: impl Fn(u64, &str) -> Result<T, DamoError>,
) -> Result<Bounds<T>, DamoError> {
    let min = if let Limit::At(min) = bounds.min { min } else { u64::MAX };
    let max = if let Limit::At(max) = bounds.max { Some(value(max, "max")?) } else { None };
    Ok(Bounds { min: value(min, "min")?, max })
}
