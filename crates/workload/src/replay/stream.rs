//! One recorded thread, played.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use isotherm_trace::{RowBatch, TraceReader};
use isotherm_units::access::{After, Batch, Forks, Run, Stream, StreamError};
use isotherm_units::{Duration, Instant, Ratio};

use super::epoch_order::Feed;
use super::script::{Mark, Outline, Script, ThreadPart, WholePart};
use super::timeline::Timeline;
use super::{PlayAs, TraceStore};
use crate::WorkloadError;

/// Runs in a batch: 16 KiB.
const BATCH_RUNS: usize = 1024;

/// The changes of a spec to a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transform {
    pub(super) play_as: PlayAs,
    pub(super) time_scale: Ratio,
    /// At least 1.
    pub(super) epoch_repeat: u32,
}

/// How often a thread plays its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Rounds after the present one.
    pub(super) left: u64,
    /// Whether each row is an operation.
    pub(super) count_operations: bool,
}

/// Where a thread's accesses come from.
#[derive(Debug)]
pub(super) enum Part {
    /// All accesses are known.
    Whole { script: Arc<Script>, thread: usize },
    /// Decoded piece by piece.
    Live { rows: Arc<Mutex<LiveRows>>, thread: usize, piece: ThreadPart },
}

/// The rows of a trace that is too long to hold, decoded once for all threads. Rows of a thread that is behind wait in
/// memory.
#[derive(Debug)]
pub(super) struct LiveRows {
    reader: TraceReader,
    outline: Arc<Outline>,
    feed: Feed,
    batch: RowBatch,
    is_finished: bool,
    timeline: Arc<Timeline>,
    store: Arc<TraceStore>,
}

impl Part {
    pub(super) fn whole(script: Arc<Script>, thread: usize) -> Self {
        Self::Whole { script, thread }
    }

    /// The parts of all threads of a trace that is decoded while it is played.
    pub(super) fn live(
        outline: &Arc<Outline>,
        timeline: &Arc<Timeline>,
        store: &Arc<TraceStore>,
    ) -> Result<Vec<Self>, WorkloadError> {
        let error = |source| WorkloadError::Trace { path: outline.path.clone(), source };
        let rows = Arc::new(Mutex::new(LiveRows {
            reader: TraceReader::open(&outline.path).map_err(error)?,
            feed: Feed::new(outline),
            outline: Arc::clone(outline),
            batch: RowBatch::new(),
            is_finished: false,
            timeline: Arc::clone(timeline),
            store: Arc::clone(store),
        }));
        let part = |thread| Self::Live { rows: Arc::clone(&rows), thread, piece: ThreadPart::default() };
        Ok((0..outline.threads.len()).map(part).collect())
    }

    /// How many runs are at hand, and what happens between them.
    fn at_hand(&self) -> (usize, &[(usize, Mark)]) {
        match self {
            Self::Whole { script, thread } => {
                let WholePart { runs, marks } = &script.parts[*thread];
                (runs.len(), marks)
            }
            Self::Live { piece, .. } => (piece.runs.len(), &piece.marks),
        }
    }

    /// Puts the runs at hand in `range` into a batch, which holds none.
    fn put(&self, range: Range<usize>, batch: &mut Batch) {
        match self {
            Self::Whole { script, thread } => script.parts[*thread].runs.put(range, batch),
            Self::Live { piece, .. } => batch.runs.extend(piece.runs[range].iter().copied()),
        }
    }

    /// Replaces the present accesses by the following ones; `false` at the end.
    fn advance(&mut self) -> Result<bool, StreamError> {
        match self {
            Self::Whole { .. } => Ok(false),
            Self::Live { rows, thread, piece } => {
                rows.lock().unwrap_or_else(PoisonError::into_inner).take(*thread, piece)
            }
        }
    }

    /// Goes back to the first accesses (of a trace with one thread); `false` if there are none.
    fn restart(&mut self) -> Result<bool, StreamError> {
        match self {
            Self::Whole { .. } => Ok(true),
            Self::Live { rows, thread, piece } => {
                let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                rows.rewind();
                rows.take(*thread, piece)
            }
        }
    }
}

impl LiveRows {
    fn take(&mut self, thread: usize, piece: &mut ThreadPart) -> Result<bool, StreamError> {
        loop {
            if self.feed.decoder.take(thread, piece) {
                return Ok(true);
            }
            if self.is_finished {
                return Ok(false);
            }
            if self.reader.next_batch(&mut self.batch)? {
                self.batch.rows().for_each(|row| self.feed.row(&self.outline, row));
            } else {
                self.feed.finish(&self.outline);
                self.is_finished = true;
                self.store.warn(self.feed.decoder.warnings(&self.outline));
            }
            self.feed.decoder.take_changes().for_each(|(process, change)| self.timeline.add(process, change));
        }
    }

    fn rewind(&mut self) {
        self.reader.rewind();
        self.feed = Feed::new(&self.outline);
        self.is_finished = false;
    }
}

/// The stream of a recorded thread.
#[derive(Debug)]
pub(super) struct Replay {
    thread: usize,
    part: Part,
    timeline: Arc<Timeline>,
    transform: Transform,
    rounds: Rounds,
    epoch: Option<Duration>,
    /// Next run and next mark at hand.
    run_at: usize,
    mark_at: usize,
    /// Start of the runs that are played again up to the next mark, and the number of repeats.
    lap_from: usize,
    laps_left: u32,
    /// Scaled time not yet handed out, in millionths of nanoseconds.
    owed: u128,
}

impl Replay {
    pub(super) fn new(
        thread: usize,
        part: Part,
        timeline: Arc<Timeline>,
        transform: Transform,
        rounds: Rounds,
        epoch_ns: u64,
    ) -> Self {
        let laps_left = transform.epoch_repeat - 1;
        let scaled = u128::from(epoch_ns) * u128::from(transform.time_scale.ppm()) / 1_000_000;
        let epoch = (epoch_ns > 0).then(|| Duration::from_ns(u64::try_from(scaled).unwrap_or(u64::MAX)));
        Self {
            thread,
            part,
            timeline,
            transform,
            rounds,
            epoch,
            run_at: 0,
            mark_at: 0,
            lap_from: 0,
            laps_left,
            owed: 0,
        }
    }

    /// Scales `ns`, adds the owed time, and returns at most `limit`; the rest stays owed.
    fn scaled(&mut self, ns: u64, limit: u64) -> u64 {
        const MILLION: u128 = 1_000_000;
        self.owed += u128::from(ns) * u128::from(self.transform.time_scale.ppm());
        let handed_out = u64::try_from(self.owed / MILLION).unwrap_or(u64::MAX).min(limit);
        self.owed -= u128::from(handed_out) * MILLION;
        handed_out
    }

    /// Puts runs up to `end` into `batch`.
    fn hand_out(&mut self, end: usize, batch: &mut Batch) {
        self.part.put(self.run_at..end, batch);
        self.run_at = end;
        if self.transform.time_scale != Ratio::ONE {
            for run in batch.runs.own() {
                run.think_ns =
                    u32::try_from(self.scaled(u64::from(run.think_ns), u64::from(u32::MAX))).expect("limited");
            }
        }
        let force: fn(u64, u32) -> Run = match self.transform.play_as {
            PlayAs::Recorded => return self.count(batch),
            PlayAs::Read => Run::read,
            PlayAs::Write => Run::write,
        };
        for run in batch.runs.own() {
            *run = force(run.page(), run.pages).through(run.channel()).after_ns(run.think_ns);
        }
        self.count(batch);
    }

    fn count(&self, batch: &mut Batch) {
        if self.rounds.count_operations {
            batch.operations += batch.runs.len() as u64;
        }
    }

    /// The action of the mark at hand; `None` when the thread can go on.
    fn perform(&mut self, mark: Mark) -> Option<After> {
        let after = match mark {
            Mark::Need(upto) | Mark::Pass(upto) => {
                let change = match mark {
                    Mark::Need(_) => self.timeline.need(self.thread, upto),
                    _ => self.timeline.pass(self.thread, upto),
                };
                // One at a time; the mark is asked again.
                if let Some(change) = change {
                    return Some(After::Change(change));
                }
                None
            }
            Mark::Start(started) => {
                self.timeline.start(self.thread, started);
                Some(After::Start(started))
            }
            Mark::EpochEnd => None,
            Mark::Compute(ns) => {
                let ns = ns.saturating_mul(u64::from(self.transform.epoch_repeat));
                Some(After::Compute(Duration::from_ns(self.scaled(ns, u64::MAX))))
            }
            Mark::Sleep(ns) => {
                let scale = u128::from(self.transform.time_scale.ppm()) * u128::from(self.transform.epoch_repeat);
                let ns = u128::from(ns) * scale / 1_000_000;
                Some(After::Sleep(Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))))
            }
        };
        self.mark_at += 1;
        after
    }
}

impl Stream for Replay {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        loop {
            if self.transform.epoch_repeat == 1 {
                // Nothing happens at the ends of epochs.
                let (_, marks) = self.part.at_hand();
                let marks = marks.iter().skip(self.mark_at);
                self.mark_at += marks.take_while(|(_, mark)| *mark == Mark::EpochEnd).count();
            }
            let (nr_runs, marks) = self.part.at_hand();
            let mark = marks.get(self.mark_at).copied();
            let end = mark.map_or(nr_runs, |(at, _)| at);
            if self.run_at < end {
                self.hand_out(end.min(self.run_at + BATCH_RUNS), batch);
                return Ok(After::Continue);
            }
            if self.laps_left > 0 && self.lap_from < end {
                self.laps_left -= 1;
                self.run_at = self.lap_from;
                continue;
            }
            (self.lap_from, self.laps_left) = (end, self.transform.epoch_repeat - 1);
            if let Some((_, mark)) = mark {
                match self.perform(mark) {
                    Some(after) => return Ok(after),
                    None => continue,
                }
            }
            let goes_on = self.part.advance()? || {
                let is_last = self.rounds.left == 0;
                self.rounds.left = self.rounds.left.saturating_sub(1);
                !is_last && self.part.restart()?
            };
            if goes_on {
                (self.run_at, self.mark_at, self.lap_from) = (0, 0, 0);
                continue;
            }
            // Time owed is less than a nanosecond unless runs could not hold it.
            let owed = self.scaled(0, u64::MAX);
            if owed > 0 {
                return Ok(After::Compute(Duration::from_ns(owed)));
            }
            return Ok(self.timeline.finish(self.thread).map_or(After::Finish, After::Change));
        }
    }

    fn epoch(&self) -> Option<Duration> {
        self.epoch
    }

    fn fork(&self, forks: &mut Forks) -> Option<Box<dyn Stream>> {
        // The thread that decodes for all does so once.
        let Part::Whole { script, thread } = &self.part else { return None };
        let part = Part::whole(Arc::clone(script), *thread);
        let timeline = forks.copy_of(&self.timeline, Timeline::clone);
        Some(Box::new(Self { part, timeline, ..*self }))
    }
}
