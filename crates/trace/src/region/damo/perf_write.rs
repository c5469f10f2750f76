//! Writes damo's `perf_script`: the kernel's `damon_aggregated` events as perf prints them.

use std::fmt::Write;
use std::path::Path;

use crate::Result;
use crate::export::Output;
use crate::region::format::RecordFormat;
use crate::region::survey::{Survey, in_bytes};
use crate::region::{RegionStore, Snapshot, Warning};

pub(crate) const PERF_SCRIPT: RecordFormat = RecordFormat {
    name: "perf_script",
    about: "damo's perf_script: damon_aggregated events as text",
    endings: &[".txt", ".perf"],
    write,
};

fn write(store: &mut RegionStore, path: &Path) -> Result<Vec<Warning>> {
    let mut survey = Survey::of(store)?;
    let renumbered = survey.number_targets(store, false);
    let mut output = Output::create(path)?;
    let meta = store.meta().clone();
    let store_path = store.path().to_owned();
    let mut text = String::new();
    store.for_each(|snapshot| {
        text.clear();
        let context = meta.context_of(snapshot.target);
        let target = &survey.targets[snapshot.target as usize];
        let id = target.id.unwrap_or(u64::from(snapshot.target));
        let front = |time_ns: u64, nr_regions: usize| {
            let time = seconds(time_ns);
            let kdamond = context.kdamond;
            format!("kdamond.{kdamond} 0 [000] {time}: damon:damon_aggregated: target_id={id} nr_regions={nr_regions}")
        };
        let line = front(snapshot.time_ns, snapshot.regions.len());
        for region in &snapshot.regions {
            let (start, end) = in_bytes(&store_path, region, context.address_unit_bytes)?;
            let _ = write!(text, "{line} {start}-{end}: {}", region.nr_accesses);
            if let Some(age) = region.age {
                let _ = write!(text, " {age}");
            }
            text.push('\n');
        }
        if let Some(end_ns) = stand_in(snapshot, target.snapshots) {
            let _ = writeln!(text, "{} 0-0: -1 -1", front(end_ns, 1));
        }
        output.write(text.as_bytes())
    })?;
    output.finish()?;
    Ok(lost(store, &survey, renumbered))
}

/// damo finds the begin of an only snapshot by a stand-in after it, which ends as much later as the snapshot is long.
fn stand_in(snapshot: &Snapshot, nr_snapshots: u64) -> Option<u64> {
    (nr_snapshots == 1 && !snapshot.regions.is_empty()).then(|| snapshot.time_ns.checked_add(snapshot.duration_ns?))?
}

/// Six decimals as perf prints them, nine where that would lose something.
fn seconds(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    if rest.is_multiple_of(1000) { format!("{whole}.{:06}", rest / 1000) } else { format!("{whole}.{rest:09}") }
}

fn lost(store: &RegionStore, survey: &Survey, renumbered: bool) -> Vec<Warning> {
    let meta = store.meta();
    let all = [
        (survey.intervals, "intervals (give them when reading it)"),
        (survey.gaps, "begins of snapshots that are not the end of the one before"),
        (survey.empty_snapshots, "snapshots without regions"),
        (survey.levels, "page-table levels"),
        (survey.probe_hits, "hits of probes"),
        (survey.filter_passed, "bytes that passed filters"),
        (survey.stats, "what schemes had done"),
        (renumbered, "ids of targets that are not unique (they are numbered anew)"),
        (meta.targets.iter().any(|target| target.scheme.is_some()), "which scheme a record is of"),
        (
            meta.contexts.iter().any(|context| context.address_unit_bytes != 1),
            "the address unit (addresses are in bytes)",
        ),
        (!meta.command.is_empty() || !meta.host.is_empty(), "command and host"),
        (
            meta.targets.iter().any(|target| !target.name.is_empty() || target.pid.is_some()),
            "names and pids of targets",
        ),
    ];
    all.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, what)| Warning::NotCarried { what }).collect()
}
