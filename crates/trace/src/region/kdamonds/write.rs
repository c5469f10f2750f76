//! Writes a configuration as damo prints it, with every number exact.

use std::path::Path;

use super::tree::Tree;
use super::{
    AccessPattern, AccessUnit, AddressRange, AgeUnit, Bounds, Context, Destination, Kdamond, Kdamonds, Limit,
    MonitorIntervals, Probe, QuotaGoal, Quotas, SampleControl, Scheme, SchemeFilter, Target, Watermarks,
};
use crate::Result;
use crate::export::Output;

/// Writes damo's `kdamonds` to a file.
///
/// # Errors
/// When the file cannot be written; it is then untouched.
pub fn write_kdamonds(path: impl AsRef<Path>, kdamonds: &Kdamonds) -> Result<()> {
    let mut output = Output::create(path.as_ref())?;
    output.write(print_kdamonds(kdamonds).as_bytes())?;
    output.finish()
}

/// The configuration as text, in the notation of damo's files.
pub fn print_kdamonds(kdamonds: &Kdamonds) -> String {
    let tree = Tree::Map(vec![("kdamonds", Tree::list(&kdamonds.kdamonds, kdamond))]);
    serde_json::to_string_pretty(&tree).expect("a tree is plain data") + "\n"
}

fn kdamond(kdamond: &Kdamond) -> Tree {
    // The only number without a unit in damo.
    let refresh = if kdamond.refresh_ns.is_multiple_of(1_000_000) {
        Tree::Number(kdamond.refresh_ns / 1_000_000)
    } else {
        time(kdamond.refresh_ns)
    };
    Tree::Map(vec![("refresh_ms", refresh), ("contexts", Tree::list(&kdamond.contexts, context))])
}

fn context(context: &Context) -> Tree {
    Tree::Map(vec![
        ("ops", Tree::text(&context.operations)),
        ("addr_unit", size(context.address_unit_bytes)),
        ("targets", Tree::list(&context.targets, target)),
        ("intervals", intervals(&context.intervals)),
        (
            "nr_regions",
            Tree::Map(vec![("min", Tree::count(context.min_regions)), ("max", Tree::count(context.max_regions))]),
        ),
        ("probes", Tree::list(&context.probes, probe)),
        ("sample_control", sample_control(&context.sample_control)),
        ("pause", Tree::Flag(context.pause)),
        ("schemes", Tree::list(&context.schemes, scheme)),
    ])
}

fn range(range: &AddressRange) -> Tree {
    Tree::Map(vec![("start", Tree::count(range.start)), ("end", Tree::count(range.end))])
}

fn target(target: &Target) -> Tree {
    Tree::Map(vec![
        ("pid", target.pid.map_or(Tree::Null, |pid| Tree::Number(u64::from(pid)))),
        ("obsolete", Tree::Flag(target.obsolete)),
        ("regions", Tree::list(&target.regions, range)),
    ])
}

fn intervals(intervals: &MonitorIntervals) -> Tree {
    let goal = Tree::Map(vec![
        ("access_bp", ratio(intervals.goal.access_ppm)),
        ("aggrs", Tree::count(intervals.goal.nr_aggregations)),
        ("min_sample_us", time(intervals.goal.min_sample_ns)),
        ("max_sample_us", time(intervals.goal.max_sample_ns)),
    ]);
    Tree::Map(vec![
        ("sample_us", time(intervals.sample_ns)),
        ("aggr_us", time(intervals.aggregation_ns)),
        ("ops_update_us", time(intervals.update_ns)),
        ("intervals_goal", goal),
    ])
}

fn probe(probe: &Probe) -> Tree {
    let preparation = |action: &String| Tree::Map(vec![("prep_action", Tree::text(action))]);
    let filters = Tree::list(&probe.filters, |filter| {
        Tree::Map(vec![
            ("filter_type", Tree::text(&filter.filter_type)),
            ("matching", Tree::Flag(filter.matching)),
            ("allow", Tree::Flag(filter.allow)),
            ("path", Tree::optional_text(filter.path.as_deref())),
        ])
    });
    let preparations = Tree::list(&probe.preparations, preparation);
    Tree::Map(vec![("preps", preparations), ("filters", filters), ("weight", Tree::Number(probe.weight))])
}

fn sample_control(control: &SampleControl) -> Tree {
    let enabled = vec![("page_table", Tree::Flag(control.page_table)), ("page_fault", Tree::Flag(control.page_fault))];
    let filters = Tree::list(&control.filters, |filter| {
        Tree::Map(vec![
            ("filter_type", Tree::text(&filter.filter_type)),
            ("matching", Tree::Flag(filter.matching)),
            ("allow", Tree::Flag(filter.allow)),
            ("cpumask", Tree::optional_text(filter.cpumask.as_deref())),
            ("tid_arr", Tree::optional_text(filter.threads.as_deref())),
        ])
    });
    Tree::Map(vec![("primitives_enabled", Tree::Map(enabled)), ("sample_filters", filters)])
}

fn scheme(scheme: &Scheme) -> Tree {
    let mut entries =
        vec![("action", Tree::text(&scheme.action)), ("dests", Tree::list(&scheme.destinations, destination))];
    // damo only has it with migrating actions.
    if let Some(nid) = scheme.target_nid {
        entries.push(("target_nid", Tree::Number(nid)));
    }
    entries.extend([
        ("access_pattern", pattern(&scheme.pattern)),
        ("apply_interval_us", time(scheme.apply_interval_ns)),
        ("quotas", quotas(&scheme.quotas)),
        ("watermarks", watermarks(&scheme.watermarks)),
        ("filters", Tree::list(&scheme.filters, scheme_filter)),
    ]);
    if scheme.max_nr_snapshots > 0 {
        entries.push(("stats", Tree::Map(vec![("max_nr_snapshots", Tree::count(scheme.max_nr_snapshots))])));
    }
    Tree::Map(entries)
}

fn destination(destination: &Destination) -> Tree {
    Tree::Map(vec![("id", Tree::Number(destination.id)), ("weight", Tree::Number(destination.weight))])
}

fn bounds(bounds: Bounds, print: impl Fn(u64) -> Tree) -> Tree {
    Tree::Map(vec![("min", limit(bounds.min, &print)), ("max", limit(bounds.max, &print))])
}

fn limit(limit: Limit, print: impl Fn(u64) -> Tree) -> Tree {
    match limit {
        Limit::Max => Tree::text("max"),
        Limit::At(value) => print(value),
    }
}

fn pattern(pattern: &AccessPattern) -> Tree {
    // damo requires the unit at both bounds, and accepts no `max` next to a unit.
    let counted = |bounds: Bounds, unit: &str| {
        let text = |limit: Limit| {
            let value = if let Limit::At(value) = limit { value } else { u64::MAX };
            Tree::text(format!("{value} {unit}"))
        };
        Tree::Map(vec![("min", text(bounds.min)), ("max", text(bounds.max))])
    };
    let accesses = match pattern.access_unit {
        AccessUnit::Ppm => bounds(pattern.accesses, ratio),
        AccessUnit::Samples => counted(pattern.accesses, "samples"),
    };
    let age = match pattern.age_unit {
        AgeUnit::Nanoseconds => bounds(pattern.age, time),
        AgeUnit::Aggregations => counted(pattern.age, "aggr_intervals"),
    };
    Tree::Map(vec![("sz_bytes", bounds(pattern.bytes, size)), ("nr_accesses", accesses), ("age", age)])
}

fn quotas(quotas: &Quotas) -> Tree {
    let weights = vec![
        ("sz_permil", ratio(quotas.weight_size_ppm)),
        ("nr_accesses_permil", ratio(quotas.weight_accesses_ppm)),
        ("age_permil", ratio(quotas.weight_age_ppm)),
    ];
    Tree::Map(vec![
        ("time_ms", time(quotas.time_ns)),
        ("sz_bytes", size(quotas.bytes)),
        ("reset_interval_ms", limit(quotas.reset_interval_ns, time)),
        ("fail_charge_num", Tree::count(quotas.fail_charge_numerator)),
        ("fail_charge_denom", Tree::count(quotas.fail_charge_denominator)),
        ("goals", Tree::list(&quotas.goals, quota_goal)),
        ("goal_tuner", Tree::text(&quotas.goal_tuner)),
        ("effective_sz_bytes", size(quotas.effective_bytes)),
        ("weights", Tree::Map(weights)),
    ])
}

fn quota_goal(goal: &QuotaGoal) -> Tree {
    Tree::Map(vec![
        ("metric", Tree::text(&goal.metric)),
        ("complement", Tree::Flag(goal.complement)),
        ("nid", goal.nid.map_or(Tree::Null, Tree::count)),
        ("memcg_path", Tree::optional_text(goal.memcg_path.as_deref())),
        ("target_value", Tree::count(goal.target_value)),
        ("current_value", Tree::count(goal.current_value)),
    ])
}

fn watermarks(watermarks: &Watermarks) -> Tree {
    Tree::Map(vec![
        ("metric", Tree::text(&watermarks.metric)),
        ("interval_us", time(watermarks.interval_ns)),
        ("high_permil", ratio(watermarks.high_ppm)),
        ("mid_permil", ratio(watermarks.mid_ppm)),
        ("low_permil", ratio(watermarks.low_ppm)),
    ])
}

fn scheme_filter(filter: &SchemeFilter) -> Tree {
    let pair = |bounds: Option<Bounds>, print: fn(u64) -> Tree| {
        bounds.map_or(Tree::Null, |bounds| Tree::List(vec![limit(bounds.min, print), limit(bounds.max, print)]))
    };
    Tree::Map(vec![
        ("filter_type", Tree::text(&filter.filter_type)),
        ("matching", Tree::Flag(filter.matching)),
        ("allow", Tree::Flag(filter.allow)),
        ("memcg_path", Tree::optional_text(filter.memcg_path.as_deref())),
        ("address_range", filter.address_range.as_ref().map_or(Tree::Null, range)),
        ("damon_target_idx", filter.target_index.map_or(Tree::Null, Tree::count)),
        ("hugepage_size", pair(filter.hugepage_bytes, size)),
        ("probe_hits_wsum_range", pair(filter.probe_hits, Tree::count)),
    ])
}

/// The value in the largest exact unit.
fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let (unit, factor) = units.iter().rev().find(|(_, factor)| value.is_multiple_of(*factor)).unwrap_or(&units[0]);
    if value == 0 { format!("0 {}", units[0].0) } else { format!("{} {unit}", value / factor) }
}

fn time(nanoseconds: u64) -> Tree {
    Tree::Text(exact(nanoseconds, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]))
}

fn size(bytes: u64) -> Tree {
    Tree::Text(exact(bytes, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)]))
}

/// Percent with as many decimals as needed.
fn ratio(ppm: u64) -> Tree {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    let digits = format!("{rest:04}");
    let decimals = digits.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    Tree::Text(format!("{whole}{point}{decimals} %"))
}
