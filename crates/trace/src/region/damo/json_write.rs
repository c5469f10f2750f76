//! Writes damo's `json`: one record for each target, one line for each region.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::export::Output;
use crate::region::{Intervals, IntervalsGoal, RecordMeta, Region, RegionStore, SchemeStats, Snapshot, Warning};
use crate::{Result, TraceError};

pub(crate) fn write(store: &mut RegionStore, path: &Path) -> Result<Vec<Warning>> {
    // Intervals of the first snapshot of each target that has one.
    let mut firsts: Vec<Option<Intervals>> = vec![None; store.meta().targets.len()];
    let mut has_levels = false;
    store.for_each(|snapshot| {
        firsts[snapshot.target as usize].get_or_insert(snapshot.intervals);
        has_levels |= snapshot.regions.iter().any(|region| region.level != 0);
        Ok::<(), TraceError>(())
    })?;
    let are_unique = are_unique(store.meta());
    let mut output = Output::create(path)?;
    output.write(b"[")?;
    let mut separator = "\n";
    for (target, &first) in firsts.iter().enumerate() {
        let Some(first) = first else { continue };
        let id = if are_unique { store.meta().targets[target].id } else { Some(target as u64) };
        output.write(separator.as_bytes())?;
        separator = ",\n";
        write_record(store, target, id, first, &mut output)?;
    }
    output.write(b"\n]\n")?;
    output.finish()?;
    let meta = store.meta();
    let all = [
        (has_levels, "page-table levels"),
        (firsts.contains(&None), "targets without snapshots"),
        (!are_unique, "ids of targets that are not unique (they are numbered anew)"),
        (
            meta.contexts.iter().any(|context| context.address_unit_bytes != 1),
            "the address unit (addresses are in bytes)",
        ),
        (!meta.command.is_empty() || !meta.host.is_empty(), "command and host"),
        (
            meta.targets.iter().any(|target| !target.name.is_empty() || target.pid.is_some()),
            "names and pids of targets",
        ),
        (
            meta.contexts.iter().any(|context| {
                !context.operations.is_empty() || context.min_regions.is_some() || context.max_regions.is_some()
            }),
            "the operations set and the limits of regions",
        ),
        (meta.contexts.iter().any(|context| !context.probes.is_empty()), "names of probes"),
    ];
    Ok(all.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, what)| Warning::NotCarried { what }).collect())
}

/// Whether the ids of targets are unique within each context and scheme.
fn are_unique(meta: &RecordMeta) -> bool {
    let mut seen = BTreeSet::new();
    meta.targets.iter().all(|target| {
        let context = &meta.contexts[target.context];
        let filters = serde_json::to_string(&target.scheme_filters).expect("plain data");
        seen.insert((context.kdamond, context.context, target.scheme, filters, target.id))
    })
}

fn write_record(
    store: &mut RegionStore,
    target: usize,
    id: Option<u64>,
    first: Intervals,
    output: &mut Output,
) -> Result<()> {
    let meta = store.meta();
    let this = &meta.targets[target];
    let context = &meta.contexts[this.context];
    let intervals = if context.intervals.max_nr_accesses().is_some() { context.intervals } else { first };
    let known = intervals.max_nr_accesses().is_some();
    let of_record = if known { intervals } else { Intervals::default() };
    let unit_bytes = context.address_unit_bytes;
    let path = store.path().to_owned();
    let head = [
        ("kdamond_idx", json!(context.kdamond)),
        ("context_idx", json!(context.context)),
        ("intervals", if known { intervals_json(intervals, context.intervals_goal) } else { Value::Null }),
        ("scheme_idx", json!(this.scheme)),
        ("target_id", json!(id)),
        ("scheme_filters", json!(this.scheme_filters)),
    ];
    let source = this.data_source.clone().unwrap_or_else(|| "unknown".to_owned());
    let head: Vec<String> = head.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    output.write(format!("{{{}, \"snapshots\": [", head.join(", ")).as_bytes())?;
    let mut separator = "\n";
    store.for_each(|snapshot| {
        if snapshot.target as usize != target {
            return Ok(());
        }
        output.write(separator.as_bytes())?;
        separator = ",\n";
        write_snapshot(&path, snapshot, of_record, unit_bytes, output)
    })?;
    output.write(format!("\n], \"data_source\": {}}}", json!(source)).as_bytes())
}

/// The region's start and end in bytes, as in damo's files.
fn in_bytes(store_path: &Path, region: &Region, unit_bytes: u64) -> Result<(u64, u64)> {
    let ends = region.start.checked_mul(unit_bytes).zip(region.end.checked_mul(unit_bytes));
    ends.ok_or_else(|| TraceError::Unsupported {
        path: store_path.to_owned(),
        what: format!(
            "region {}-{} × {unit_bytes} bytes is beyond 2^64 and cannot be written",
            region.start, region.end
        ),
    })
}

/// Microseconds, as in damo's files, or nanoseconds with their unit if that would lose precision.
fn time_us(nanoseconds: u64) -> String {
    if nanoseconds.is_multiple_of(1000) { (nanoseconds / 1000).to_string() } else { format!("{nanoseconds} ns") }
}

fn intervals_json(intervals: Intervals, goal: Option<IntervalsGoal>) -> Value {
    let time = |time: Option<u64>| time_us(time.unwrap_or(0));
    let goal = goal.unwrap_or_default();
    let bp = format!("{}.{:02}0000", goal.access_ppm / 100, goal.access_ppm % 100);
    json!({
        "sample_us": time(intervals.sample_ns),
        "aggr_us": time(intervals.aggregation_ns),
        "ops_update_us": time(intervals.update_ns),
        "intervals_goal": {
            "access_bp": bp,
            "aggrs": goal.nr_aggregations.to_string(),
            "min_sample_us": time_us(goal.min_sample_ns),
            "max_sample_us": time_us(goal.max_sample_ns),
        },
    })
}

fn write_snapshot(
    path: &Path,
    snapshot: &Snapshot,
    of_record: Intervals,
    unit_bytes: u64,
    output: &mut Output,
) -> Result<(), TraceError> {
    let (start, end) = (snapshot.start_ns(), snapshot.time_ns);
    output.write(format!("{{\"start_time\": \"{start}\", \"end_time\": \"{end}\", \"regions\": [").as_bytes())?;
    let mut separator = "\n";
    let mut total_bytes = 0u64;
    for region in &snapshot.regions {
        let (start, end) = in_bytes(path, region, unit_bytes)?;
        total_bytes = total_bytes.saturating_add(end - start);
        output.write(separator.as_bytes())?;
        separator = ",\n";
        output.write(region_json(region, start, end).as_bytes())?;
    }
    let stats = snapshot.stats.map_or(Value::Null, stats_json);
    output.write(format!("], \"total_bytes\": \"{total_bytes}\", \"damos_stats\": {stats}, ").as_bytes())?;
    let own = |own: Option<u64>, record: Option<u64>| (own != record).then(|| time_us(own.unwrap_or(0)));
    let sample = own(snapshot.intervals.sample_ns, of_record.sample_ns);
    output.write(format!("\"sample_interval_us\": {}", json!(sample)).as_bytes())?;
    // damo has no key for these, and ignores them.
    let others = [
        ("aggr_interval_us", own(snapshot.intervals.aggregation_ns, of_record.aggregation_ns)),
        ("ops_update_interval_us", own(snapshot.intervals.update_ns, of_record.update_ns)),
    ];
    for (key, value) in others.iter().filter_map(|(key, value)| value.as_ref().map(|value| (key, value))) {
        output.write(format!(", \"{key}\": \"{value}\"").as_bytes())?;
    }
    output.write(b"}")
}

fn region_json(region: &Region, start: u64, end: u64) -> String {
    let age = region.age.map_or("null".to_owned(), |age| format!("\"{age}\""));
    let nr_probes = region.probe_hits.iter().rposition(|&hits| hits != 0).map_or(0, |last| last + 1);
    let hits: Vec<String> = region.probe_hits[..nr_probes].iter().map(u32::to_string).collect();
    format!(
        "{{\"start\": \"{start}\", \"end\": \"{end}\", \"nr_accesses\": {{\"samples\": {}, \"percent\": null}}, \
         \"age\": {{\"usec\": null, \"aggr_intervals\": {age}}}, \"probe_hits\": [{}], \"sz_filter_passed\": \"{}\"}}",
        region.nr_accesses,
        hits.join(", "),
        region.filter_passed_bytes
    )
}

fn stats_json(stats: SchemeStats) -> Value {
    json!({
        "nr_tried": stats.nr_tried.to_string(),
        "sz_tried": stats.tried_bytes.to_string(),
        "nr_applied": stats.nr_applied.to_string(),
        "sz_applied": stats.applied_bytes.to_string(),
        "sz_ops_filter_passed": stats.filter_passed_bytes.to_string(),
        "qt_exceeds": stats.nr_quota_exceeded.to_string(),
        "nr_snapshots": stats.nr_snapshots.to_string(),
        "max_nr_snapshots": stats.max_nr_snapshots.to_string(),
    })
}
