//! Writes damo's `json` and `json_compressed`: a record a target, one region a line.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

use crate::export::{Output, write_error};
use crate::region::format::RecordFormat;
use crate::region::survey::{Survey, in_bytes};
use crate::region::{Intervals, IntervalsGoal, Region, RegionStore, SchemeStats, Snapshot, Warning};
use crate::{Result, TraceError};

pub(crate) const JSON: RecordFormat = RecordFormat {
    name: "json",
    about: "damo's json: a list of records with snapshots",
    endings: &[".json"],
    write: |store, output| write(store, output, false),
};
pub(crate) const JSON_COMPRESSED: RecordFormat = RecordFormat {
    name: "json_compressed",
    about: "damo's default: its json in a zlib stream",
    endings: &[".data", ".damon", ".zlib"],
    write: |store, output| write(store, output, true),
};

/// Compressed on the way, or not.
struct Sink {
    path: std::path::PathBuf,
    output: Output,
    zlib: Option<ZlibEncoder<Vec<u8>>>,
}

impl Sink {
    fn put(&mut self, text: &str) -> Result<()> {
        let Some(encoder) = &mut self.zlib else { return self.output.write(text.as_bytes()) };
        encoder.write_all(text.as_bytes()).map_err(|error| write_error(&self.path, error))?;
        if encoder.get_ref().len() >= 1 << 16 {
            self.output.write(encoder.get_ref())?;
            encoder.get_mut().clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if let Some(encoder) = self.zlib.take() {
            let rest = encoder.finish().map_err(|error| write_error(&self.path, error))?;
            self.output.write(&rest)?;
        }
        self.output.finish()
    }
}

fn write(store: &mut RegionStore, path: &Path, zlib: bool) -> Result<Vec<Warning>> {
    let mut survey = Survey::of(store)?;
    let renumbered = survey.number_targets(store, true);
    let zlib = zlib.then(|| ZlibEncoder::new(Vec::new(), Compression::default()));
    let mut sink = Sink { path: path.to_owned(), output: Output::create(path)?, zlib };
    sink.put("[")?;
    let mut separator = "\n";
    for target in 0..survey.targets.len() {
        if survey.targets[target].snapshots == 0 {
            continue;
        }
        sink.put(separator)?;
        separator = ",\n";
        write_record(store, &survey, target, &mut sink)?;
    }
    sink.put("\n]\n")?;
    sink.finish()?;
    Ok(lost(store, &survey, renumbered))
}

fn lost(store: &RegionStore, survey: &Survey, renumbered: bool) -> Vec<Warning> {
    let meta = store.meta();
    let all = [
        (survey.levels, "page-table levels"),
        (survey.targets.iter().any(|target| target.snapshots == 0), "targets without snapshots"),
        (renumbered, "ids of targets that are not unique (they are numbered anew)"),
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
    all.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, what)| Warning::NotCarried { what }).collect()
}

fn write_record(store: &mut RegionStore, survey: &Survey, target: usize, sink: &mut Sink) -> Result<()> {
    let meta = store.meta();
    let this = &meta.targets[target];
    let context = &meta.contexts[this.context];
    let first = survey.targets[target].intervals;
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
        ("target_id", json!(survey.targets[target].id)),
        ("scheme_filters", json!(this.scheme_filters)),
    ];
    let source = this.data_source.clone().unwrap_or_else(|| "unknown".to_owned());
    let head: Vec<String> = head.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    sink.put(&format!("{{{}, \"snapshots\": [", head.join(", ")))?;
    let mut separator = "\n";
    store.for_each(|snapshot| {
        if snapshot.target as usize != target {
            return Ok(());
        }
        sink.put(separator)?;
        separator = ",\n";
        write_snapshot(&path, snapshot, of_record, unit_bytes, sink)
    })?;
    sink.put(&format!("\n], \"data_source\": {}}}", json!(source)))
}

/// Microseconds, as damo has them, or nanoseconds with their unit where that would lose something.
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
    sink: &mut Sink,
) -> Result<(), TraceError> {
    let (start, end) = (snapshot.start_ns(), snapshot.time_ns);
    sink.put(&format!("{{\"start_time\": \"{start}\", \"end_time\": \"{end}\", \"regions\": ["))?;
    let mut separator = "\n";
    let mut total_bytes = 0u64;
    for region in &snapshot.regions {
        let (start, end) = in_bytes(path, region, unit_bytes)?;
        total_bytes = total_bytes.saturating_add(end - start);
        sink.put(separator)?;
        separator = ",\n";
        sink.put(&region_json(region, start, end))?;
    }
    let stats = snapshot.stats.map_or(Value::Null, stats_json);
    sink.put(&format!("], \"total_bytes\": \"{total_bytes}\", \"damos_stats\": {stats}, "))?;
    let own = |own: Option<u64>, record: Option<u64>| (own != record).then(|| time_us(own.unwrap_or(0)));
    let sample = own(snapshot.intervals.sample_ns, of_record.sample_ns);
    sink.put(&format!("\"sample_interval_us\": {}", json!(sample)))?;
    // damo knows no key for these and passes them over.
    let others = [
        ("aggr_interval_us", own(snapshot.intervals.aggregation_ns, of_record.aggregation_ns)),
        ("ops_update_interval_us", own(snapshot.intervals.update_ns, of_record.update_ns)),
    ];
    for (key, value) in others.iter().filter_map(|(key, value)| value.as_ref().map(|value| (key, value))) {
        sink.put(&format!(", \"{key}\": \"{value}\""))?;
    }
    sink.put("}")
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
