//! Reads a configuration.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::node::{Flaw, Node};
use super::{
    AccessPattern, AccessUnit, AddressRange, AgeUnit, Bounds, Context, Destination, Kdamond, Kdamonds, Limit,
    MonitorIntervals, Probe, ProbeFilter, QuotaGoal, Quotas, SampleControl, SampleFilter, Scheme, SchemeFilter, Target,
    Watermarks,
};
use crate::region::damo::quantity::{COUNT, RATIO, SIZE, TIME, Units};
use crate::region::{IntervalsGoal, Warning};
use crate::{Result, TraceError};

/// Longest configuration that is read.
const BYTES_MAX: u64 = 16 << 20;
/// Units of the names that damo's keys end in, in ours.
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const BP: u64 = 100;
const PERMIL: u64 = 1_000;
const PERCENT: u64 = 10_000;

/// Reads damo's `kdamonds` from a file; with a warning for each unknown key.
///
/// # Errors
/// The file cannot be read or is not such a configuration; with the place, and the allowed values.
pub fn read_kdamonds(path: impl AsRef<Path>) -> Result<(Kdamonds, Vec<Warning>)> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| TraceError::io("open", path, error))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| TraceError::io("read", path, error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(path, "it has more than 16 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        TraceError::damaged(path, offset, "not UTF-8 text, as a configuration must be")
    })?;
    parse_kdamonds(path, &text)
}

/// The same from text; messages call it `name`.
///
/// # Errors
/// As [`read_kdamonds`].
pub fn parse_kdamonds(name: &Path, text: &str) -> Result<(Kdamonds, Vec<Warning>)> {
    if text.trim_start().is_empty() {
        return Err(wrong(name, "it is empty. `damo args damon` prints one"));
    }
    if is_yaml(text) {
        return Err(wrong(name, "it is YAML. `damo args damon FILE.yaml --format json` makes JSON of it"));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let what = if error.is_eof() {
            "the file ends inside its JSON: it is cut off".to_owned()
        } else {
            format!("not JSON: {error}")
        };
        TraceError::bad_value(name, "line", error.line() as u64, what)
    })?;
    let mut reader = Reader { unknown: Vec::new() };
    let kdamonds = reader.kdamonds(&Node::root(&value));
    let kdamonds = kdamonds
        .map_err(|(place, what)| TraceError::Unsupported { path: name.to_owned(), what: format!("{place}: {what}") })?;
    Ok((kdamonds, reader.unknown.into_iter().map(|key| Warning::UnknownKey { key }).collect()))
}

/// Whether a line starts like the document, the list or the single key of a configuration in YAML, which JSON never
/// does.
fn is_yaml(text: &str) -> bool {
    text.lines().any(|line| ["---", "- ", "kdamonds:"].iter().any(|begin| line.starts_with(begin)))
}

fn wrong(path: &Path, found: &str) -> TraceError {
    let expected = "a configuration (damo's `kdamonds` in JSON)";
    TraceError::WrongFormat { path: path.to_owned(), expected, found: found.to_owned() }
}

struct Reader {
    unknown: Vec<String>,
}

impl Reader {
    fn note(&mut self, node: &Node<'_>, known: &[&str]) -> Result<(), Flaw> {
        self.unknown.extend(node.others(known)?);
        Ok(())
    }

    /// Reads all members of a list with `read`.
    fn all<T>(
        &mut self,
        nodes: &[Node<'_>],
        read: fn(&mut Self, &Node<'_>) -> Result<T, Flaw>,
    ) -> Result<Vec<T>, Flaw> {
        nodes.iter().map(|node| read(self, node)).collect()
    }

    fn kdamonds(&mut self, node: &Node<'_>) -> Result<Kdamonds, Flaw> {
        // The file that `damo record` writes next to a record only has the list.
        if node.value.is_array() {
            let members = node.members()?;
            if members.first().is_some_and(|first| first.value.get("action").is_some()) {
                return self.of_schemes(&members);
            }
            return Ok(Kdamonds { kdamonds: self.all(&members, Self::kdamond)? });
        }
        self.note(node, &["kdamonds"])?;
        let list = node.need("kdamonds")?.members()?;
        Ok(Kdamonds { kdamonds: self.all(&list, Self::kdamond)? })
    }

    /// A list of schemes alone, as `damo schemes` takes it: for virtual addresses, all else as damo has it.
    fn of_schemes(&mut self, schemes: &[Node<'_>]) -> Result<Kdamonds, Flaw> {
        let schemes = self.all(schemes, Self::scheme)?;
        let context = Context { operations: "vaddr".to_owned(), schemes, ..Context::default() };
        Ok(Kdamonds { kdamonds: vec![Kdamond { refresh_ns: 0, contexts: vec![context] }] })
    }

    fn kdamond(&mut self, node: &Node<'_>) -> Result<Kdamond, Flaw> {
        self.note(node, &["state", "pid", "refresh_ms", "contexts"])?;
        Ok(Kdamond {
            refresh_ns: node.quantity_or("refresh_ms", TIME, MS, 0)?,
            contexts: self.all(&node.need("contexts")?.members()?, Self::context)?,
        })
    }

    fn context(&mut self, node: &Node<'_>) -> Result<Context, Flaw> {
        let keys = ["ops", "addr_unit", "targets", "intervals", "nr_regions", "probes", "sample_control"];
        self.note(node, &[&keys[..], &["pause", "schemes"]].concat())?;
        let default = Context::default();
        let intervals = node.get("intervals")?.map(|node| self.intervals(&node)).transpose()?;
        let mut context = Context {
            operations: node.need("ops")?.text()?,
            address_unit_bytes: node.quantity_or("addr_unit", SIZE, 1, 1)?,
            targets: self.all(&node.list("targets")?, Self::target)?,
            intervals: intervals.unwrap_or_default(),
            probes: self.all(&node.list("probes")?, Self::probe)?,
            pause: node.flag("pause", false)?,
            schemes: self.all(&node.list("schemes")?, Self::scheme)?,
            ..default
        };
        if let Some(limits) = node.get("nr_regions")? {
            self.note(&limits, &["min", "max"])?;
            context.min_regions = limits.quantity_or("min", COUNT, 1, context.min_regions)?;
            context.max_regions = limits.quantity_or("max", COUNT, 1, context.max_regions)?;
            if context.min_regions > context.max_regions {
                return limits.flaw(format!("min {} is above max {}", context.min_regions, context.max_regions));
            }
        }
        if context.address_unit_bytes == 0 {
            return node.need("addr_unit")?.flaw("0; an address must count at least 1 byte");
        }
        if let Some(control) = node.get("sample_control")? {
            context.sample_control = self.sample_control(&control)?;
        }
        Ok(context)
    }

    fn range(&mut self, node: &Node<'_>) -> Result<AddressRange, Flaw> {
        let (start, end) = (node.need("start")?.quantity(SIZE, 1)?, node.need("end")?.quantity(SIZE, 1)?);
        if start >= end {
            return node.flaw(format!("from {start} to {end}; its end must be above its start"));
        }
        Ok(AddressRange { start, end })
    }

    fn target(&mut self, node: &Node<'_>) -> Result<Target, Flaw> {
        self.note(node, &["pid", "obsolete", "regions"])?;
        let pid = node.get("pid")?.map(|node| {
            let pid = node.quantity(COUNT, 1)?;
            u32::try_from(pid).or_else(|_| node.flaw(format!("{pid} is no process id; at most 2^32 - 1 is allowed")))
        });
        Ok(Target {
            pid: pid.transpose()?,
            obsolete: node.flag("obsolete", false)?,
            regions: self.all(&node.list("regions")?, Self::range)?,
        })
    }

    fn intervals(&mut self, node: &Node<'_>) -> Result<MonitorIntervals, Flaw> {
        self.note(node, &["sample_us", "aggr_us", "ops_update_us", "intervals_goal"])?;
        let default = MonitorIntervals::default();
        let goal = node.get("intervals_goal")?.map(|node| self.intervals_goal(&node)).transpose()?;
        Ok(MonitorIntervals {
            sample_ns: node.quantity_or("sample_us", TIME, US, default.sample_ns)?,
            aggregation_ns: node.quantity_or("aggr_us", TIME, US, default.aggregation_ns)?,
            update_ns: node.quantity_or("ops_update_us", TIME, US, default.update_ns)?,
            goal: goal.unwrap_or_default(),
        })
    }

    fn intervals_goal(&mut self, node: &Node<'_>) -> Result<IntervalsGoal, Flaw> {
        self.note(node, &["access_bp", "aggrs", "min_sample_us", "max_sample_us"])?;
        Ok(IntervalsGoal {
            access_ppm: node.quantity_or("access_bp", RATIO, BP, 0)?,
            nr_aggregations: node.quantity_or("aggrs", COUNT, 1, 0)?,
            min_sample_ns: node.quantity_or("min_sample_us", TIME, US, 0)?,
            max_sample_ns: node.quantity_or("max_sample_us", TIME, US, 0)?,
        })
    }

    fn probe(&mut self, node: &Node<'_>) -> Result<Probe, Flaw> {
        self.note(node, &["preps", "filters", "weight"])?;
        Ok(Probe {
            preparations: self.all(&node.list("preps")?, |_, node| node.need("prep_action")?.text())?,
            filters: self.all(&node.list("filters")?, Self::probe_filter)?,
            weight: node.quantity_or("weight", COUNT, 1, 0)?,
        })
    }

    fn probe_filter(&mut self, node: &Node<'_>) -> Result<ProbeFilter, Flaw> {
        self.note(node, &["filter_type", "matching", "allow", "path"])?;
        Ok(ProbeFilter {
            filter_type: node.need("filter_type")?.text()?,
            matching: node.flag("matching", true)?,
            allow: node.flag("allow", false)?,
            path: node.optional_text("path")?,
        })
    }

    fn sample_control(&mut self, node: &Node<'_>) -> Result<SampleControl, Flaw> {
        self.note(node, &["primitives_enabled", "sample_filters"])?;
        let mut control = SampleControl::default();
        if let Some(enabled) = node.get("primitives_enabled")? {
            self.note(&enabled, &["page_table", "page_fault"])?;
            control.page_table = enabled.flag("page_table", true)?;
            control.page_fault = enabled.flag("page_fault", false)?;
        }
        control.filters = self.all(&node.list("sample_filters")?, Self::sample_filter)?;
        Ok(control)
    }

    fn sample_filter(&mut self, node: &Node<'_>) -> Result<SampleFilter, Flaw> {
        self.note(node, &["filter_type", "matching", "allow", "cpumask", "tid_arr"])?;
        Ok(SampleFilter {
            filter_type: node.need("filter_type")?.text()?,
            matching: node.flag("matching", true)?,
            allow: node.flag("allow", false)?,
            cpumask: node.optional_text("cpumask")?,
            threads: node.optional_text("tid_arr")?,
        })
    }

    fn scheme(&mut self, node: &Node<'_>) -> Result<Scheme, Flaw> {
        let keys = ["action", "dests", "target_nid", "access_pattern", "apply_interval_us", "quotas", "watermarks"];
        self.note(node, &[&keys[..], &["filters", "stats", "tried_regions", "tried_bytes"]].concat())?;
        let pattern = node.get("access_pattern")?.map(|node| self.pattern(&node)).transpose()?;
        let quotas = node.get("quotas")?.map(|node| self.quotas(&node)).transpose()?;
        let watermarks = node.get("watermarks")?.map(|node| self.watermarks(&node)).transpose()?;
        let max_nr_snapshots =
            node.get("stats")?.map(|stats| stats.quantity_or("max_nr_snapshots", COUNT, 1, 0)).transpose()?;
        Ok(Scheme {
            action: node.text_or("action", "stat")?,
            target_nid: node.get("target_nid")?.map(|node| node.quantity(COUNT, 1)).transpose()?,
            destinations: self.all(&node.list("dests")?, Self::destination)?,
            pattern: pattern.unwrap_or_default(),
            apply_interval_ns: node.quantity_or("apply_interval_us", TIME, US, 0)?,
            quotas: quotas.unwrap_or_default(),
            watermarks: watermarks.unwrap_or_default(),
            filters: self.all(&node.list("filters")?, Self::scheme_filter)?,
            max_nr_snapshots: max_nr_snapshots.unwrap_or_default(),
        })
    }

    fn destination(&mut self, node: &Node<'_>) -> Result<Destination, Flaw> {
        self.note(node, &["id", "weight"])?;
        let number = |key| node.quantity_or(key, COUNT, 1, 0);
        Ok(Destination { id: number("id")?, weight: number("weight")? })
    }

    fn bounds(&mut self, node: &Node<'_>, units: Units, plain: u64) -> Result<Bounds, Flaw> {
        self.note(node, &["min", "max"])?;
        let limit = |key, default| node.get(key)?.map_or(Ok(default), |node| node.limit(units, plain));
        let bounds = Bounds { min: limit("min", Limit::At(0))?, max: limit("max", Limit::Max)? };
        if bounds.min > bounds.max {
            return node.flaw("min is above max");
        }
        Ok(bounds)
    }

    fn pattern(&mut self, node: &Node<'_>) -> Result<AccessPattern, Flaw> {
        self.note(node, &["sz_bytes", "nr_accesses", "age"])?;
        let mut pattern = AccessPattern::default();
        if let Some(bytes) = node.get("sz_bytes")? {
            pattern.bytes = self.bounds(&bytes, SIZE, 1)?;
        }
        if let Some(accesses) = node.get("nr_accesses")? {
            let samples = counted_in(&accesses, "samples", "percent")?;
            pattern.access_unit = if samples { AccessUnit::Samples } else { AccessUnit::Ppm };
            let (units, plain) = if samples { (COUNT, 1) } else { (RATIO, PERCENT) };
            pattern.accesses = self.bounds(&accesses, units, plain)?;
        }
        if let Some(age) = node.get("age")? {
            let aggregations = counted_in(&age, "aggr_intervals", "a unit of time")?;
            pattern.age_unit = if aggregations { AgeUnit::Aggregations } else { AgeUnit::Nanoseconds };
            let (units, plain) = if aggregations { (COUNT, 1) } else { (TIME, US) };
            pattern.age = self.bounds(&age, units, plain)?;
        }
        Ok(pattern)
    }

    fn quotas(&mut self, node: &Node<'_>) -> Result<Quotas, Flaw> {
        let keys = ["time_ms", "sz_bytes", "reset_interval_ms", "fail_charge_num", "fail_charge_denom", "goals"];
        self.note(node, &[&keys[..], &["goal_tuner", "effective_sz_bytes", "weights"]].concat())?;
        let mut quotas = Quotas {
            time_ns: node.quantity_or("time_ms", TIME, MS, 0)?,
            bytes: node.quantity_or("sz_bytes", SIZE, 1, 0)?,
            fail_charge_numerator: node.quantity_or("fail_charge_num", COUNT, 1, 0)?,
            fail_charge_denominator: node.quantity_or("fail_charge_denom", COUNT, 1, 0)?,
            goals: self.all(&node.list("goals")?, Self::quota_goal)?,
            goal_tuner: node.text_or("goal_tuner", "consist")?,
            effective_bytes: node.quantity_or("effective_sz_bytes", SIZE, 1, 0)?,
            ..Quotas::default()
        };
        match node.get("reset_interval_ms")? {
            Some(reset) => quotas.reset_interval_ns = reset.limit(TIME, MS)?,
            None if !quotas.goals.is_empty() => {
                return node.flaw(
                    "a quota with goals needs `reset_interval_ms`, such as \"1 s\"; the kernel refuses it without",
                );
            }
            None => {}
        }
        if let Some(weights) = node.get("weights")? {
            self.note(&weights, &["sz_permil", "nr_accesses_permil", "age_permil"])?;
            quotas.weight_size_ppm = weights.quantity_or("sz_permil", RATIO, PERMIL, 0)?;
            quotas.weight_accesses_ppm = weights.quantity_or("nr_accesses_permil", RATIO, PERMIL, 0)?;
            quotas.weight_age_ppm = weights.quantity_or("age_permil", RATIO, PERMIL, 0)?;
        }
        Ok(quotas)
    }

    fn quota_goal(&mut self, node: &Node<'_>) -> Result<QuotaGoal, Flaw> {
        let keys = ["metric", "complement", "nid", "memcg_path", "target_value", "current_value"];
        self.note(node, &[&keys[..], &["target_value_bp", "current_value_bp"]].concat())?;
        let metric = node.text_or("metric", "user_input")?;
        // The unit comes from the metric's name; the value may carry its own.
        let (units, plain) = match metric.rsplit('_').next() {
            Some("us") => (TIME, US),
            Some("bp") => (RATIO, BP),
            _ => (COUNT, 1),
        };
        let value = |key: &str, older: &str| -> Result<u64, Flaw> {
            match node.get(key)? {
                Some(value) => Ok(value.quantity(units, plain)? / plain),
                // damo's name before there were other metrics; the number had no unit.
                None => node.quantity_or(older, COUNT, 1, 0),
            }
        };
        Ok(QuotaGoal {
            target_value: value("target_value", "target_value_bp")?,
            current_value: value("current_value", "current_value_bp")?,
            metric,
            complement: node.flag("complement", false)?,
            nid: node.get("nid")?.map(|node| node.quantity(COUNT, 1)).transpose()?,
            memcg_path: node.optional_text("memcg_path")?,
        })
    }

    fn watermarks(&mut self, node: &Node<'_>) -> Result<Watermarks, Flaw> {
        self.note(node, &["metric", "interval_us", "high_permil", "mid_permil", "low_permil"])?;
        let permil = |key| node.quantity_or(key, RATIO, PERMIL, 0);
        Ok(Watermarks {
            metric: node.text_or("metric", "none")?,
            interval_ns: node.quantity_or("interval_us", TIME, US, 0)?,
            high_ppm: permil("high_permil")?,
            mid_ppm: permil("mid_permil")?,
            low_ppm: permil("low_permil")?,
        })
    }

    fn scheme_filter(&mut self, node: &Node<'_>) -> Result<SchemeFilter, Flaw> {
        let keys = ["filter_type", "matching", "allow", "filter_pass", "memcg_path", "address_range"];
        self.note(node, &[&keys[..], &["damon_target_idx", "hugepage_size", "probe_hits_wsum_range"]].concat())?;
        // Some versions called `allow` `filter_pass`.
        let allow = node.flag("filter_pass", false)?;
        let pair = |key, units| -> Result<Option<Bounds>, Flaw> {
            let Some(node) = node.get(key)? else { return Ok(None) };
            let members = node.members()?;
            let [min, max] = &members[..] else { return node.flaw("not two numbers, min and max") };
            Ok(Some(Bounds { min: min.limit(units, 1)?, max: max.limit(units, 1)? }))
        };
        Ok(SchemeFilter {
            filter_type: node.need("filter_type")?.text()?,
            matching: node.flag("matching", true)?,
            allow: node.flag("allow", allow)?,
            memcg_path: node.optional_text("memcg_path")?,
            address_range: node.get("address_range")?.map(|node| self.range(&node)).transpose()?,
            target_index: node.get("damon_target_idx")?.map(|node| node.quantity(COUNT, 1)).transpose()?,
            hugepage_bytes: pair("hugepage_size", SIZE)?,
            probe_hits: pair("probe_hits_wsum_range", COUNT)?,
        })
    }
}

/// Whether both bounds carry the unit `unit`, or neither does.
fn counted_in(node: &Node<'_>, unit: &str, other: &str) -> Result<bool, Flaw> {
    let mut with = 0;
    let mut without = 0;
    for key in ["min", "max"] {
        let Some(bound) = node.get(key)? else { continue };
        match bound.value.as_str() {
            Some(text) if text.trim_end().ends_with(unit) => with += 1,
            // These are the same in every unit.
            Some("min" | "max") => {}
            _ => without += 1,
        }
    }
    if with > 0 && without > 0 {
        return node
            .flaw(format!("one bound is in {unit}, the other is not; both in {unit} or both in {other} are allowed"));
    }
    Ok(with > 0)
}
