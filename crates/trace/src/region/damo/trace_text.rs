//! Text of `damon_aggregated` events, assembled into snapshots; read twice.
//!
//! A line is a region; the next `nr_regions` lines of the same target are its snapshot. Only the end of a snapshot is known:
//! it starts at the end of the previous one. Events can be lost while recording: addresses that do not ascend, or a
//! different `nr_regions`, start a new snapshot, and the incomplete one is left out with a warning.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::trace_line::{Line, RegionLine, parse};
use crate::import::Input;
use crate::region::{ContextMeta, Intervals, RecordMeta, Region, Snapshot, TargetMeta, Warning};
use crate::{Result, TraceError};

/// Most regions of a snapshot: no monitor keeps that many.
const SNAPSHOT_REGIONS_MAX: u64 = 1 << 24;

/// Identity of a target in the kernel's text: kernel thread and target.
type Key = (u32, u64);

/// A text file, opened.
#[derive(Debug)]
pub(crate) struct TraceText {
    path: PathBuf,
    intervals: Intervals,
    /// Whether there are lines of `damon_region_aggregated`, which other lines repeat.
    with_probes: bool,
    /// Last line, if it has no line break.
    cut_line: Option<u64>,
    targets: BTreeMap<Key, Survey>,
}

/// Results of the first pass for one target.
#[derive(Clone, Copy, Debug, Default)]
struct Survey {
    target: u32,
    snapshots: u64,
    first_ns: u64,
    last_ns: u64,
    /// Length of an only snapshot, from damo's placeholder after it.
    stand_in_ns: Option<u64>,
}

impl Survey {
    fn first_duration(&self, intervals: Intervals) -> Option<u64> {
        if self.snapshots > 1 {
            return Some((self.last_ns - self.first_ns) / (self.snapshots - 1)).filter(|&mean| mean > 0);
        }
        let stand_in = self.stand_in_ns.and_then(|end| end.checked_sub(self.first_ns)).filter(|&length| length > 0);
        stand_in.or(intervals.aggregation_ns)
    }
}

impl TraceText {
    /// Reads the file once, and checks everything. `intervals`: settings of the recording's monitor, if known.
    pub(crate) fn open(path: &Path, intervals: Intervals) -> Result<(Self, RecordMeta, Vec<Warning>)> {
        let mut this =
            Self { path: path.to_owned(), intervals, with_probes: false, cut_line: None, targets: BTreeMap::new() };
        let lines = this.survey_lines()?;
        let mut assembly = Assembly::new(intervals);
        let mut meta = RecordMeta { recorder: "damon_aggregated".to_owned(), complete: true, ..RecordMeta::default() };
        let mut no_ages = 0;
        let mut deduced = 0;
        let mut targets: BTreeMap<Key, Survey> = BTreeMap::new();
        this.assemble(&mut assembly, &mut |key, snapshot| {
            let nr_targets = u32::try_from(targets.len()).unwrap_or(u32::MAX);
            let survey = targets.entry(key).or_insert_with(|| {
                add_target(&mut meta, key, intervals);
                Survey { target: nr_targets, first_ns: snapshot.time_ns, ..Survey::default() }
            });
            survey.snapshots += 1;
            survey.last_ns = snapshot.time_ns;
            meta.snapshots += 1;
            meta.regions += snapshot.regions.len() as u64;
            deduced += 1;
            no_ages += snapshot.regions.iter().filter(|region| region.age.is_none()).count() as u64;
            ControlFlow::Continue(())
        })?;
        for (key, stand_in_ns) in std::mem::take(&mut assembly.stand_ins) {
            if let Some(survey) = targets.get_mut(&key) {
                survey.stand_in_ns = Some(stand_in_ns);
            }
        }
        if meta.snapshots == 0 {
            return Err(TraceError::WrongFormat {
                path: path.to_owned(),
                expected: "a region record (text of damon_aggregated events, damo's JSON, or our own)",
                found: if assembly.incomplete == 0 {
                    "text without any line of these events".to_owned()
                } else {
                    "text that is cut off inside its first snapshot".to_owned()
                },
            });
        }
        this.targets = targets;
        let mut warnings = Vec::new();
        if intervals.max_nr_accesses().is_none() {
            warnings.push(Warning::NoIntervals);
        }
        let (incomplete, first_line) = (assembly.incomplete, assembly.first_incomplete);
        let all = [
            (no_ages, Warning::NoAges { regions: no_ages }),
            (deduced, Warning::DurationsDeduced { snapshots: deduced }),
            (incomplete, Warning::IncompleteSnapshots { snapshots: incomplete, first_line }),
            (lines.other, Warning::OtherLines { lines: lines.other }),
            (assembly.repeated, Warning::RepeatedLines { lines: assembly.repeated }),
        ];
        warnings.extend(all.into_iter().filter(|(count, _)| *count > 0).map(|(_, warning)| warning));
        warnings.extend(this.cut_line.map(|line| Warning::LastLineCut { line }));
        Ok((this, meta, warnings))
    }

    fn survey_lines(&mut self) -> Result<Lines> {
        let mut lines = Lines::default();
        let mut input = Input::open(&self.path)?;
        while let Some((number, bytes)) = input.next_line()? {
            lines.all = number;
            let text = String::from_utf8_lossy(bytes);
            self.with_probes |= text.contains("damon_region_aggregated:");
            let blank = text.trim_start().is_empty() || text.starts_with('#');
            let known = ["damon_aggregated:", "damon_region_aggregated:", "damon_monitor_intervals_tune:"];
            lines.other += u64::from(!blank && !known.iter().any(|name| text.contains(name)));
        }
        if !ends_with_line_end(&self.path)? {
            self.cut_line = Some(lines.all);
        }
        Ok(lines)
    }

    /// Passes on every whole snapshot in the order of the file.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Snapshot) -> ControlFlow<()>) -> Result<()> {
        let mut number = 0;
        let mut ends_ns = BTreeMap::new();
        self.assemble(&mut Assembly::new(self.intervals), &mut |key, snapshot| {
            let Some(survey) = self.targets.get(&key) else { return ControlFlow::Continue(()) };
            let before = ends_ns.insert(key, snapshot.time_ns);
            snapshot.duration_ns = match before {
                Some(before) => Some(snapshot.time_ns - before).filter(|&length| length > 0),
                None => survey.first_duration(snapshot.intervals),
            };
            snapshot.target = survey.target;
            snapshot.number = number;
            number += 1;
            each(snapshot)
        })
    }

    fn assemble(
        &self,
        assembly: &mut Assembly,
        each: &mut dyn FnMut(Key, &mut Snapshot) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut input = Input::open(&self.path)?;
        while let Some((number, bytes)) = input.next_line()? {
            if self.cut_line == Some(number) {
                break;
            }
            let text = String::from_utf8_lossy(bytes);
            let bad = |what: String| TraceError::bad_value(&self.path, "line", number, what);
            match parse(&text).map_err(bad)? {
                Line::Other => {}
                Line::Tune { sample_ns } => assembly.tune(sample_ns),
                Line::Region(line) if line.with_probes != self.with_probes => assembly.repeated += 1,
                Line::Region(line) => {
                    let key = (line.kdamond, line.target_id);
                    let Some(snapshot) = assembly.take(number, *line).map_err(bad)? else { continue };
                    if each(key, snapshot).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        assembly.end();
        Ok(())
    }
}

#[derive(Default)]
struct Lines {
    all: u64,
    other: u64,
}

fn ends_with_line_end(path: &Path) -> Result<bool> {
    let read = || {
        let file = std::fs::File::open(path)?;
        let mut last = [0];
        let len = file.metadata()?.len();
        file.read_exact_at(&mut last, len.saturating_sub(1))?;
        Ok(last == *b"\n")
    };
    read().map_err(|error| TraceError::io("read", path, error))
}

fn add_target(meta: &mut RecordMeta, (kdamond, id): Key, intervals: Intervals) {
    let context = meta.contexts.iter().position(|context| context.kdamond == kdamond).unwrap_or_else(|| {
        meta.contexts.push(ContextMeta { kdamond, intervals, ..ContextMeta::default() });
        meta.contexts.len() - 1
    });
    meta.targets.push(TargetMeta { context, id: Some(id), ..TargetMeta::default() });
}

/// Unfinished snapshots.
struct Assembly {
    base: Intervals,
    now: Intervals,
    pending: BTreeMap<Key, Pending>,
    stand_ins: BTreeMap<Key, u64>,
    done: Snapshot,
    incomplete: u64,
    first_incomplete: u64,
    repeated: u64,
}

#[derive(Default)]
struct Pending {
    first_line: u64,
    nr_regions: u64,
    intervals: Intervals,
    time_ns: u64,
    regions: Vec<Region>,
    /// End of the last whole snapshot.
    end_ns: u64,
}

impl Assembly {
    fn new(intervals: Intervals) -> Self {
        Self {
            base: intervals,
            now: intervals,
            pending: BTreeMap::new(),
            stand_ins: BTreeMap::new(),
            done: Snapshot::default(),
            incomplete: 0,
            first_incomplete: 0,
            repeated: 0,
        }
    }

    /// Tuning keeps the number of samples in an aggregation (docs/spec/monitoring.md#s10).
    fn tune(&mut self, sample_ns: u64) {
        self.now.sample_ns = Some(sample_ns);
        let samples = self.base.max_nr_accesses();
        self.now.aggregation_ns = samples.map(|samples| sample_ns.saturating_mul(samples));
    }

    /// Adds a region. Returns the snapshot that it completes.
    fn take(&mut self, number: u64, line: RegionLine) -> Result<Option<&mut Snapshot>, String> {
        let key = (line.kdamond, line.target_id);
        let Some(region) = line.region else {
            self.stand_ins.insert(key, line.time_ns);
            return Ok(None);
        };
        if line.nr_regions == 0 || line.nr_regions > SNAPSHOT_REGIONS_MAX {
            return Err(format!("nr_regions={}; 1 to {SNAPSHOT_REGIONS_MAX} are allowed", line.nr_regions));
        }
        let pending = self.pending.entry(key).or_default();
        let goes_on = pending.nr_regions == line.nr_regions
            && pending.regions.last().is_some_and(|last| last.end <= region.start);
        if !goes_on {
            if !pending.regions.is_empty() {
                if self.incomplete == 0 {
                    self.first_incomplete = pending.first_line;
                }
                self.incomplete += 1;
            }
            pending.regions.clear();
            pending.first_line = number;
            pending.nr_regions = line.nr_regions;
            pending.intervals = self.now;
            pending.time_ns = line.time_ns;
            if pending.time_ns < pending.end_ns {
                let end_ns = pending.end_ns;
                return Err(format!(
                    "time goes back from {end_ns} to {} ns; sort the lines by time (perf script and trace-cmd do)",
                    line.time_ns
                ));
            }
        }
        pending.regions.push(region);
        if pending.regions.len() as u64 != pending.nr_regions {
            return Ok(None);
        }
        pending.end_ns = pending.time_ns;
        self.done.time_ns = pending.time_ns;
        self.done.intervals = pending.intervals;
        std::mem::swap(&mut self.done.regions, &mut pending.regions);
        pending.regions.clear();
        Ok(Some(&mut self.done))
    }

    fn end(&mut self) {
        for pending in self.pending.values().filter(|pending| !pending.regions.is_empty()) {
            if self.incomplete == 0 {
                self.first_incomplete = pending.first_line;
            }
            self.incomplete += 1;
        }
    }
}
