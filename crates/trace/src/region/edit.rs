//! Cuts, filters and merges region records.

use std::path::{Path, PathBuf};

use isotherm_units::Duration;

use super::{ContextMeta, Intervals, OpenOptions, RecordMeta, Region, RegionStore, RegionWriter, Snapshot, TargetMeta};
use crate::edit::{AddressRange, Moment, joined, window_ns};
use crate::{Result, TraceError};

/// A part of a region record: all that every given criterion keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSelection {
    /// Snapshots that end later than this, relative to the record's first moment; 0 keeps all from the first on.
    pub from: Option<Moment>,
    /// Snapshots that end no later than this.
    pub to: Option<Moment>,
    /// Targets by number, pid or name. A number is a target's number if that exists. Empty: all.
    pub targets: Vec<String>,
    /// The parts of regions in one of these ranges. Empty: all.
    pub ranges: Vec<AddressRange>,
}

/// First moment and end of a record on its own clock, nanoseconds; equal if it holds no snapshots. One pass.
///
/// # Errors
/// When the record is damaged.
pub fn record_span_ns(store: &mut RegionStore) -> Result<(u64, u64)> {
    let mut span: Option<(u64, u64)> = None;
    store.for_each(|snapshot| {
        let (start, end) = span.unwrap_or((u64::MAX, 0));
        span = Some((start.min(snapshot.start_ns()), end.max(snapshot.time_ns)));
        Ok::<(), TraceError>(())
    })?;
    Ok(span.unwrap_or((0, 0)))
}

/// Writes the part as a finished record in our format at `output`, which appears in one step; times stay on the record's clock.
/// `progress` gets the number of snapshots written. Memory: one snapshot.
///
/// # Errors
/// When the selection names a target that is not there, nothing is left, the record is damaged, or the output cannot be written.
pub fn write_selected(
    store: &mut RegionStore,
    selection: &RecordSelection,
    output: impl AsRef<Path>,
    mut progress: impl FnMut(u64),
) -> Result<RecordMeta> {
    let kept = targets_kept(store.meta(), &selection.targets)?;
    let (origin_ns, end_ns) = record_span_ns(store)?;
    let (from_ns, to_ns) = window_ns(selection.from, selection.to, end_ns - origin_ns)?;
    let mut meta = with_warnings(store);
    let mut numbers = vec![None; meta.targets.len()];
    meta.targets.clear();
    for (index, target) in store.meta().targets.iter().enumerate().filter(|(index, _)| kept[*index]) {
        numbers[index] = u32::try_from(meta.targets.len()).ok();
        meta.targets.push(target.clone());
    }
    let units: Vec<u64> = (0..store.meta().targets.len())
        .map(|target| store.meta().contexts[store.meta().targets[target].context].address_unit_bytes)
        .collect();
    meta.notes.extend(notes(selection, (from_ns, to_ns)));
    let cut_at_end = end_ns - origin_ns > to_ns;
    meta.complete &= !cut_at_end;
    let nr_before = store.meta().snapshots;
    let mut writer = RegionWriter::create_finished(output, meta)?;
    let mut clipped = Snapshot::default();
    let ranges = joined(selection.ranges.iter().map(|range| (range.start, range.end)).collect());
    store.for_each(|snapshot| {
        let time_ns = snapshot.time_ns - origin_ns;
        let is_in_window = (time_ns > from_ns || from_ns == 0) && time_ns <= to_ns;
        let Some(target) = numbers[snapshot.target as usize].filter(|_| is_in_window) else { return Ok(()) };
        clipped.clone_from(snapshot);
        clipped.target = target;
        if !ranges.is_empty() {
            clip(&mut clipped.regions, &snapshot.regions, &ranges, units[snapshot.target as usize]);
        }
        progress(1);
        writer.push(&clipped)
    })?;
    let (snapshots, regions) = (writer.meta().snapshots, writer.meta().regions);
    if snapshots == 0 || (regions == 0 && !selection.ranges.is_empty()) {
        let length = Duration::from_ns(end_ns - origin_ns).approx();
        let what = if snapshots == 0 { "no snapshot" } else { "no region" };
        let what = format!(
            "nothing is left: {what} of what was asked for. The record has {nr_before} snapshots from 0 to {length}"
        );
        return Err(TraceError::Unsupported { path: store.path().to_owned(), what });
    }
    writer.finish()
}

/// Merges records into one finished record in our format at `output`, one after the other, as separate targets and contexts.
/// Times stay on the records' clocks, which are assumed to be the same. `progress` gets the number of snapshots written.
///
/// # Errors
/// When there are fewer than two, their intervals differ or are known only for some, they hold nothing, one is damaged, or the
/// output cannot be written.
pub fn merge_records(
    inputs: &[PathBuf],
    options: OpenOptions,
    output: impl AsRef<Path>,
    mut progress: impl FnMut(u64),
) -> Result<RecordMeta> {
    if inputs.len() < 2 {
        return Err(TraceError::option("inputs", format!("are {}; allowed: two records or more", inputs.len())));
    }
    let mut stores: Vec<RegionStore> =
        inputs.iter().map(|input| RegionStore::open_with(input, options)).collect::<Result<_>>()?;
    check_intervals(&mut stores)?;
    let mut meta = RecordMeta {
        complete: stores.iter().all(|store| store.meta().complete),
        recorder: "merge".to_owned(),
        ..RecordMeta::default()
    };
    let firsts: Vec<u32> = stores.iter().map(|store| append(&mut meta, store)).collect();
    meta.notes.push("all records are taken to have the same clock".to_owned());
    let mut writer = RegionWriter::create_finished(output, meta)?;
    let mut moved = Snapshot::default();
    for (store, first) in stores.iter_mut().zip(firsts) {
        store.for_each(|snapshot| {
            moved.clone_from(snapshot);
            moved.target += first;
            progress(1);
            writer.push(&moved)
        })?;
    }
    if writer.meta().snapshots == 0 {
        let what = "nothing to merge: no record has snapshots".to_owned();
        return Err(TraceError::Unsupported { path: inputs[0].clone(), what });
    }
    writer.finish()
}

/// Adds contexts, targets and notes of a record. Returns the number of its first target.
fn append(meta: &mut RecordMeta, store: &RegionStore) -> u32 {
    let theirs = with_warnings(store);
    let first_context = meta.contexts.len();
    let first = u32::try_from(meta.targets.len()).unwrap_or(u32::MAX);
    // Different records have different kernel threads.
    let first_kdamond = meta.contexts.iter().map(|context| context.kdamond + 1).max().unwrap_or(0);
    let moved = |context: &ContextMeta| ContextMeta {
        kdamond: context.kdamond.saturating_add(first_kdamond),
        ..context.clone()
    };
    meta.contexts.extend(theirs.contexts.iter().map(moved));
    meta.targets.extend(
        theirs.targets.iter().map(|target| TargetMeta { context: target.context + first_context, ..target.clone() }),
    );
    let name = store.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    meta.notes.push(match theirs.targets.len() {
        1 => format!("target {first} is merged from {name}"),
        count => format!("targets {first} to {} are merged from {name}", first as usize + count.max(1) - 1),
    });
    meta.notes.extend(theirs.notes.iter().map(|note| format!("{name}: {note}")));
    first
}

/// Fails unless all records have the same sampling and aggregation intervals at their first snapshot, or none gives them.
fn check_intervals(stores: &mut [RegionStore]) -> Result<()> {
    let mut first: Option<(PathBuf, Intervals)> = None;
    for store in stores {
        let mut found = None;
        // Ends the pass at the first snapshot.
        let stopped = store.for_each(|snapshot| {
            found = Some(snapshot.intervals);
            Err(TraceError::option("", ""))
        });
        if found.is_none() {
            stopped?;
            continue;
        }
        let intervals = found.unwrap_or_default();
        match &first {
            None => first = Some((store.path().to_owned(), intervals)),
            Some((path, known)) => {
                let alike = (known.sample_ns, known.aggregation_ns) == (intervals.sample_ns, intervals.aggregation_ns);
                if !alike {
                    let what = format!(
                        "it was sampled and aggregated every {}, not as {} ({}); only records of the same intervals can be \
                         merged. --sample and --aggr say them for files that do not",
                        words(&intervals),
                        path.display(),
                        words(known)
                    );
                    return Err(TraceError::Unsupported { path: store.path().to_owned(), what });
                }
            }
        }
    }
    Ok(())
}

fn words(intervals: &Intervals) -> String {
    let one = |ns: Option<u64>| ns.map_or("(not known)".to_owned(), |ns| Duration::from_ns(ns).to_string());
    format!("{} and {}", one(intervals.sample_ns), one(intervals.aggregation_ns))
}

/// Metadata of the record, with the warnings of reading it among the notes.
pub(super) fn with_warnings(store: &RegionStore) -> RecordMeta {
    let mut meta = store.meta().clone();
    for warning in store.warnings() {
        let note = warning.to_string();
        if !meta.notes.contains(&note) {
            meta.notes.push(note);
        }
    }
    meta
}

/// By number: whether a target is selected.
fn targets_kept(meta: &RecordMeta, wanted: &[String]) -> Result<Vec<bool>> {
    let mut kept = vec![wanted.is_empty(); meta.targets.len()];
    for word in wanted {
        let number = word.parse::<u32>().ok();
        let index = number.filter(|&number| (number as usize) < meta.targets.len());
        let mut any = false;
        for (place, target) in meta.targets.iter().enumerate() {
            let meant = match index {
                Some(index) => index as usize == place,
                None => (number.is_some() && target.pid == number) || target.name == *word,
            };
            kept[place] |= meant;
            any |= meant;
        }
        if !any {
            let name = |(place, target): (usize, &TargetMeta)| match target.pid {
                Some(pid) => format!("{place} (pid {pid}, {})", target.name),
                None => format!("{place} ({})", target.name),
            };
            let known: Vec<String> = meta.targets.iter().enumerate().take(20).map(name).collect();
            let what = format!("there is no target `{word}`; the record has {}", known.join(", "));
            return Err(TraceError::option("target", what));
        }
    }
    Ok(kept)
}

/// The parts of `regions` in the ranges of bytes, which are ascending and disjoint. Bytes that passed filters are scaled with the
/// region's length.
fn clip(out: &mut Vec<Region>, regions: &[Region], ranges: &[(u64, u64)], unit_bytes: u64) {
    out.clear();
    for region in regions {
        for &(range_start, range_end) in ranges {
            // With units larger than a byte, a unit that two ranges touch belongs to the first.
            let taken = out.last().map_or(0, |last| last.end);
            let start = region.start.max(range_start / unit_bytes).max(taken);
            let end = region.end.min(range_end.div_ceil(unit_bytes));
            if start < end {
                let passed =
                    u128::from(region.filter_passed_bytes) * u128::from(end - start) / u128::from(region.len());
                let filter_passed_bytes = u64::try_from(passed).unwrap_or(u64::MAX);
                out.push(Region { start, end, filter_passed_bytes, ..*region });
            }
        }
    }
}

fn notes(selection: &RecordSelection, (from_ns, to_ns): (u64, u64)) -> Vec<String> {
    let mut notes = Vec::new();
    if from_ns > 0 || to_ns < u64::MAX {
        let from = Duration::from_ns(from_ns);
        let to = if to_ns == u64::MAX { "the end".to_owned() } else { Duration::from_ns(to_ns).to_string() };
        notes.push(format!("cut to snapshots that end in {from} to {to} from the record's first moment"));
    }
    if !selection.targets.is_empty() {
        notes.push(format!("filtered to target {}", selection.targets.join(" or ")));
    }
    if !selection.ranges.is_empty() {
        let ranges: Vec<String> = selection.ranges.iter().map(|r| format!("{:#x}-{:#x}", r.start, r.end)).collect();
        notes.push(format!(
            "filtered to range {}; counts and ages of regions that were cut are those of the whole",
            ranges.join(" or ")
        ));
    }
    notes
}
