//! Kind `abench`: many threads touch random pages of one area again and again, each page line by line.
//!
//! The program of that name is not published. Known facts: `abench -m 2 -d 1 -i 512 -s SIZE` allocates SIZE, makes 64 threads that access
//! random pages of 4 KiB in 512 iterations with a microsecond between, and takes time linear in SIZE. So each iteration of all threads
//! touches as many pages as there are. That a touch uses each cache line of the page is a reconstruction too: it makes 173 to 179 ns a line
//! of the published times on slow memory at all four sizes (docs/spec/promotion.md#s6-2).

use isotherm_units::access::{After, Batch, Program, Run, Stream, StreamError, ThreadStart, Timing};
use isotherm_units::{Bytes, Duration, Instant, Ratio};
use serde::{Deserialize, Serialize};

use crate::chance::{Random, Rng, below, random, threshold};
use crate::hot_cold::{LINES_MAX, check_threads};
use crate::scan::RUN_PAGES;
use crate::spaces::{Spaces, check_huge, check_share, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

/// Touched pages of a batch.
const BATCH_PAGES: u64 = 256;
/// Runs of a batch while memory is filled.
const FILL_RUNS: usize = 64;

/// The benchmark of the scan daemon: everything is hot, so what counts is how soon it is on fast memory, and at which cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AbenchSpec {
    /// Bytes of the area, `-s`. Default 8 GiB.
    pub footprint: Bytes,
    /// Threads that touch it side by side, made by one thread that does nothing else. Default 64.
    pub threads: usize,
    /// Iterations of each thread, `-i`; each is an operation, and touches a number of pages that is the area's divided by the threads,
    /// drawn from the whole area. Default 512.
    pub iterations: u64,
    /// Cache lines used of each touched page, one after the other, also while memory is filled; each costs the latency of the page's
    /// memory. A touch is one access to the page table. 1 to 64. Default 64: all.
    pub lines: u32,
    /// Sleep of a thread between two iterations, `-d`. Default 1 us.
    pub delay: Duration,
    /// Share of touches that store. Default 0 %: which accesses the program makes is not known.
    pub writes: Ratio,
    /// CPU time of an access, in addition to the latency of its memory. Default 0.
    pub compute: Duration,
    /// Whether each thread writes its share of the area once before it begins. Default yes.
    pub fill: bool,
    /// Whether memory uses 2 MiB pages. Default no.
    pub huge: bool,
}

impl Default for AbenchSpec {
    fn default() -> Self {
        Self {
            footprint: Bytes::from_gib(8),
            threads: 64,
            iterations: 512,
            lines: LINES_MAX,
            delay: Duration::from_us(1),
            writes: Ratio::from_percent(0),
            compute: Duration::ZERO,
            fill: true,
            huge: false,
        }
    }
}

impl Kind for AbenchSpec {
    const NAME: &'static str = "abench";
    const SUMMARY: &'static str = "threads touch random pages of one area, line by line: everything is hot";
    const EXAMPLE: &'static str =
        "kind = \"abench\"\nfootprint = \"128MiB\"\nthreads = 8\niterations = 512\nlines = 64\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let pages = footprint_pages(Self::NAME, "footprint", self.footprint)?;
        check_huge(Self::NAME, self.huge, Storage::Anonymous)?;
        check_share(Self::NAME, "writes", self.writes)?;
        check_threads(Self::NAME, self.threads)?;
        if self.iterations == 0 {
            return Err(WorkloadError::field(Self::NAME, "iterations", 0, "1 or more"));
        }
        if !(1..=LINES_MAX).contains(&self.lines) {
            return Err(WorkloadError::field(Self::NAME, "lines", self.lines, "1 to 64"));
        }
        let page_ns = u64::from(think_ns(Self::NAME, "compute", self.compute)?) * u64::from(self.lines);
        let page_ns = u32::try_from(page_ns).map_err(|_| {
            WorkloadError::field(Self::NAME, "compute", self.compute, "0 to 4.29s for all lines of a page together")
        })?;
        let touches = touches_of_an_iteration(pages, self.threads);
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let start = spaces.map("data", pages, Storage::Anonymous, None, self.huge);
        let streams = (0..self.threads).map(|index| -> Box<dyn Stream> {
            let share = |index: usize| pages * index as u64 / self.threads as u64;
            let to_fill = if self.fill { share(index)..share(index + 1) } else { 0..0 };
            Box::new(Abench {
                start,
                pages,
                page_ns,
                write_below: threshold(self.writes),
                touches,
                touches_left: touches,
                iterations_left: self.iterations,
                delay: self.delay,
                to_fill,
                random: random(context.seed, index),
            })
        });
        let main: Box<dyn Stream> = Box::new(Main { to_start: 1..self.threads + 1 });
        let mut program = spaces.into_program(std::iter::once(main).chain(streams).collect());
        program.threads[1..].iter_mut().for_each(|thread| thread.start = ThreadStart::ByThread);
        Ok(Program { timing: Timing::Lines(self.lines), ..program })
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

/// Pages that one thread touches in one iteration: all threads together touch as many pages as there are.
fn touches_of_an_iteration(pages: u64, threads: usize) -> u64 {
    (pages / threads as u64).max(1)
}

/// The thread that makes the others.
struct Main {
    to_start: std::ops::Range<usize>,
}

impl Stream for Main {
    fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
        Ok(self.to_start.next().map_or(After::Finish, After::Start))
    }
}

struct Abench {
    start: u64,
    pages: u64,
    page_ns: u32,
    write_below: u64,
    touches: u64,
    touches_left: u64,
    iterations_left: u64,
    delay: Duration,
    /// Pages that are still to be written.
    to_fill: std::ops::Range<u64>,
    random: Random,
}

impl Abench {
    fn fill(&mut self, batch: &mut Batch) {
        while batch.runs.len() < FILL_RUNS && !self.to_fill.is_empty() {
            let pages = RUN_PAGES.min(self.to_fill.end - self.to_fill.start);
            let run = Run::write(self.start + self.to_fill.start, u32::try_from(pages).expect("at most RUN_PAGES"));
            batch.runs.push(run);
            self.to_fill.start += pages;
        }
    }
}

impl Stream for Abench {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if !self.to_fill.is_empty() {
            self.fill(batch);
            return Ok(After::Continue);
        }
        if self.iterations_left == 0 {
            return Ok(After::Finish);
        }
        let touches = BATCH_PAGES.min(self.touches_left);
        for _ in 0..touches {
            let (page, fraction) = below(self.random.next_u64(), self.pages);
            let page = self.start + page;
            let run = if fraction < self.write_below { Run::write(page, 1) } else { Run::read(page, 1) };
            batch.runs.push(run.after_ns(self.page_ns));
        }
        self.touches_left -= touches;
        if self.touches_left > 0 {
            return Ok(After::Continue);
        }
        batch.operations = 1;
        self.touches_left = self.touches;
        self.iterations_left -= 1;
        let is_last = self.iterations_left == 0 || self.delay == Duration::ZERO;
        Ok(if is_last { After::Continue } else { After::Sleep(self.delay) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::chance::check;
    use crate::order::testing::drain_spec;

    fn small() -> AbenchSpec {
        AbenchSpec { footprint: Bytes::from_kib(400), threads: 4, iterations: 200, lines: 3, ..AbenchSpec::default() }
    }

    /// docs/spec/promotion.md#s6-2: per-thread touches of 8 GiB in 512 iterations.
    #[test]
    fn all_threads_together_touch_as_many_pages_as_there_are() {
        let spec = AbenchSpec::default();
        let touches = touches_of_an_iteration(spec.footprint.pages_ceil().get(), spec.threads) * spec.iterations;
        assert_eq!(touches, 16_777_216, "section 6.2");
        assert_eq!(touches_of_an_iteration(3, 64), 1, "at least one");
    }

    #[test]
    fn memory_is_filled_once_and_then_touched_at_random() {
        let played = drain_spec(&WorkloadSpec::Abench(small()));
        assert_eq!(played.operations, 800, "an operation is a thread's iteration");
        let start = played.runs.iter().map(|run| run.page()).min().unwrap();
        for thread in 0..4 {
            let share = start + 25 * thread as u64;
            assert_eq!(played.of_thread(thread + 1)[0], Run::write(share, 25), "each fills its share before it begins");
        }
        let touched: Vec<&Run> = played.runs.iter().filter(|run| run.pages == 1).collect();
        assert_eq!((touched.len(), played.runs.len()), (4 * 200 * 25, 4 + 4 * 200 * 25));
        let mut counts = vec![0u64; 100];
        for run in touched {
            assert_eq!(*run, Run::read(run.page(), 1));
            counts[usize::try_from(run.page() - start).unwrap()] += 1;
        }
        let program = small().build(&BuildContext::new(".")).unwrap();
        assert_eq!(program.timing, Timing::Lines(3), "each touch costs the latency of three lines");
        check::near(&counts, &[0.01; 100]);
        let sleeps = played.afters.iter().filter(|after| **after == After::Sleep(Duration::from_us(1))).count();
        assert_eq!(sleeps, 4 * 199, "between iterations");
    }

    #[test]
    fn filling_and_delays_can_be_left_out() {
        let spec = AbenchSpec { fill: false, delay: Duration::ZERO, writes: Ratio::ONE, ..small() };
        let played = drain_spec(&WorkloadSpec::Abench(spec));
        assert_eq!(played.runs.len(), 4 * 200 * 25);
        assert!(played.runs.iter().all(|run| run.is_write() && run.pages == 1));
        let is_plain = |after: &After| matches!(after, After::Finish | After::Start(_));
        assert!(played.afters.iter().all(is_plain), "{:?}", played.afters);
    }

    #[test]
    fn compute_is_paid_for_each_line() {
        let spec = AbenchSpec { fill: false, compute: Duration::from_ns(7), ..small() };
        let played = drain_spec(&WorkloadSpec::Abench(spec));
        assert_eq!(played.compute_ns.values().copied().collect::<Vec<_>>(), [200 * 25 * 3 * 7; 4]);
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |spec: AbenchSpec| spec.build(&BuildContext::new(".")).err().unwrap().to_string();
        let table = [
            (AbenchSpec { footprint: Bytes::ZERO, ..small() }, "abench: `footprint` is 0B"),
            (AbenchSpec { threads: 0, ..small() }, "`threads` is 0; allowed: 1 to 4096"),
            (AbenchSpec { iterations: 0, ..small() }, "`iterations` is 0; allowed: 1 or more"),
            (AbenchSpec { lines: 65, ..small() }, "`lines` is 65; allowed: 1 to 64"),
            (AbenchSpec { writes: Ratio::from_percent(101), ..small() }, "`writes` is 101%; allowed: 0% to 100%"),
            (AbenchSpec { compute: Duration::from_secs(5), ..small() }, "`compute` is 5s; allowed: 0 to 4.29s"),
        ];
        for (spec, expected) in table {
            let message = message(spec);
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }
}
