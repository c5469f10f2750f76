//! Kind `fragmenter`: fills memory and gives most of it back in pieces too small for a huge page, as the original test program of proactive
//! compaction does; threads may then use the remaining pages.

use std::sync::Arc;

use isotherm_units::access::{
    Advice, After, Batch, LayoutChange, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Duration, Instant, PageRange, Pages, Ratio};
use serde::{Deserialize, Serialize};

use crate::chance::{Permutation, Random, Ranked, Rng, Weight, below, fill_words, random, threshold};
use crate::extent::{Budget, Extent};
use crate::scan::{run, run_pages};
use crate::spaces::{Spaces, check_share, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{Access, BuildContext, Storage, WorkloadError};

/// Pages of 2 MiB.
const SECTION_PAGES: u64 = 512;
/// Most that is taken before: 64 MiB.
const LEAD_PAGES_MAX: u64 = 32 * SECTION_PAGES;
/// Most threads that use the rest.
const THREADS_MAX: usize = 256;

/// Pages of each 2 MiB that are given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The first ones: one large hole.
    #[default]
    Contiguous,
    /// Evenly spread: as many holes as there can be. The contents of these pages are dropped, and the mapping stays.
    Strided,
}

/// Writes each page of its memory once, gives most of each 2 MiB back, and stays. How that lies in physical memory is up to the
/// machine: on a fresh one nearly as it lies in the address space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct FragmenterSpec {
    /// Bytes filled, whole 2 MiB. Default 1 GiB.
    pub footprint: Bytes,
    /// Memory taken before and kept, of a length drawn at random from a page to this: with 2 MiB and more, an aligned 2 MiB of its address
    /// space begins anywhere in a block of physical memory. Default 0.
    pub lead: Bytes,
    /// Pages of each 2 MiB that are given back. Default `contiguous`.
    pub pattern: Pattern,
    /// Share of each 2 MiB that is given back. Default 75 %.
    pub freed: Ratio,
    /// Share of the kept pages that are pinned where they are, drawn at random. Default 0 %.
    pub pinned: Ratio,
    /// CPU time spent on each page filled, up to 4.29 s, in addition to the latency of its memory. Default 100 ns.
    pub fill_compute: Duration,
    /// Threads that use the remaining pages, single pages drawn from a Zipf distribution, an operation each. 0: it sleeps. Default 0.
    pub threads: usize,
    /// Skew of that distribution, 0 to 10; 0 is uniform. The hot pages are drawn at random. Default 0.99.
    pub theta: f64,
    /// CPU time between two of these accesses, up to 4.29 s, in addition to the latency of its memory. Default 1 µs.
    pub compute: Duration,
    /// Share of these accesses that store. Default 0 %.
    pub writes: Ratio,
    /// Time for which it stays after that: asleep, or using the remaining pages. Default 10 s.
    pub duration: Duration,
}

impl Default for FragmenterSpec {
    fn default() -> Self {
        Self {
            footprint: Bytes::from_gib(1),
            lead: Bytes::ZERO,
            pattern: Pattern::Contiguous,
            freed: Ratio::from_percent(75),
            pinned: Ratio::ZERO,
            fill_compute: Duration::from_ns(100),
            threads: 0,
            theta: 0.99,
            compute: Duration::from_us(1),
            writes: Ratio::ZERO,
            duration: Duration::from_secs(10),
        }
    }
}

impl Kind for FragmenterSpec {
    const NAME: &'static str = "fragmenter";
    const SUMMARY: &'static str = "memory filled and mostly given back in pieces, to scatter what is free";
    const EXAMPLE: &'static str = "kind = \"fragmenter\"\nfootprint = \"2GiB\"\nlead = \"2MiB\"\npattern = \"strided\"\n\
                                   freed = \"75%\"\npinned = \"1%\"\nthreads = 2\ntheta = 0.99\ncompute = \"2us\"\nwrites = \"10%\"\n\
                                   duration = \"20s\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        let pages = footprint_pages(kind, "footprint", self.footprint)?;
        if !pages.is_multiple_of(SECTION_PAGES) {
            return Err(WorkloadError::field(kind, "footprint", self.footprint, "multiples of 2MiB"));
        }
        let lead = self.lead.pages_floor().get();
        if lead > LEAD_PAGES_MAX || self.lead != self.lead.pages_floor().bytes() {
            let most = Pages::new(LEAD_PAGES_MAX).bytes();
            return Err(WorkloadError::field(kind, "lead", self.lead, format!("multiples of 4KiB up to {most}")));
        }
        check_share(kind, "freed", self.freed)?;
        check_share(kind, "pinned", self.pinned)?;
        check_share(kind, "writes", self.writes)?;
        if self.threads > THREADS_MAX {
            return Err(WorkloadError::field(kind, "threads", self.threads, format!("0 to {THREADS_MAX}")));
        }
        if !(0.0..=10.0).contains(&self.theta) {
            return Err(WorkloadError::field(kind, "theta", self.theta, "0 to 10"));
        }
        let kept = Kept { kept: SECTION_PAGES - self.freed.of(SECTION_PAGES), pattern: self.pattern };
        if kept.kept == 0 && (self.threads > 0 || self.pinned > Ratio::ZERO) {
            let problem = "all of its memory is given back, and then some of it is to be used or held";
            return Err(WorkloadError::contradiction(kind, problem, "lower `freed`, or drop `threads` and `pinned`"));
        }
        let fill_ns = think_ns(kind, "fill-compute", self.fill_compute)?;
        let compute_ns = think_ns(kind, "compute", self.compute)?;
        let mut spaces = Spaces::new(context.name_or(kind));
        let mut preparation_random = random(context.seed, 0);
        let lead = (lead > 0).then(|| {
            let start = spaces.map("lead", lead, Storage::Anonymous, None, false);
            (start, 1 + below(preparation_random.next_u64(), lead).0)
        });
        let start = spaces.map("data", pages, Storage::Anonymous, None, false);
        let sections = pages / SECTION_PAGES;
        let preparation = Preparation {
            start,
            sections,
            kept,
            fill_ns,
            pinned_below: threshold(self.pinned),
            random: preparation_random,
            lead,
            filled: 0,
            next: Next::Fill,
            threads: self.threads,
            sleep: self.duration,
        };
        let mut program = spaces.into_program(vec![Box::new(preparation)]);
        if self.threads > 0 {
            let len = sections * kept.kept;
            let shared = Arc::new(Shared {
                ranks: Ranked::new(Weight::Zipf { theta: self.theta }, len),
                places: Permutation::new(len, context.seed),
                start,
                kept,
                think_ns: compute_ns,
                write_below: threshold(self.writes),
            });
            let extent = Extent::Time(self.duration);
            program.threads.extend((0..self.threads).map(|index| Thread {
                process: 0,
                start: ThreadStart::ByThread,
                stream: Box::new(Use {
                    shared: Arc::clone(&shared),
                    batch: extent.batch_operations(self.compute.ns() + 100),
                    budget: extent.share(0, 1),
                    random: random(context.seed, index + 1),
                }),
            }));
        }
        program.timing = Timing::Modelled;
        Ok(program)
    }

    fn depends_on_time(&self) -> Option<String> {
        (self.threads > 0).then(|| "it uses what is left for a `duration`; set `threads = 0`".to_owned())
    }
}

/// Pages of a section that stay.
#[derive(Clone, Copy, Debug)]
struct Kept {
    kept: u64,
    pattern: Pattern,
}

impl Kept {
    /// Page `nth` of the staying pages; below [`SECTION_PAGES`].
    fn place(self, nth: u64) -> u64 {
        match self.pattern {
            Pattern::Contiguous => SECTION_PAGES - self.kept + nth,
            // The first page of each stretch of equal length, as near as whole pages allow.
            Pattern::Strided => (nth * SECTION_PAGES).div_ceil(self.kept),
        }
    }

    /// The next pages that go, at or behind `from`.
    fn hole(self, from: u64) -> Option<PageRange> {
        let kept_from = |page: u64| match self.pattern {
            Pattern::Contiguous => (SECTION_PAGES - self.kept).max(page),
            Pattern::Strided if self.kept == 0 => SECTION_PAGES,
            Pattern::Strided => self.place((page * self.kept).div_euclid(SECTION_PAGES) + u64::from(!self.stays(page))),
        };
        let mut start = from;
        while start < SECTION_PAGES && self.stays(start) {
            start += 1;
        }
        (start < SECTION_PAGES).then(|| PageRange::new(start, kept_from(start).min(SECTION_PAGES)))
    }

    fn stays(self, page: u64) -> bool {
        match self.pattern {
            Pattern::Contiguous => page >= SECTION_PAGES - self.kept,
            Pattern::Strided => page * self.kept % SECTION_PAGES < self.kept,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Fill,
    /// Gives back the part of the section that follows the page.
    Free(u64, u64),
    /// Holds the pages that stay of the section, from number `nth` on.
    Pin(u64, u64),
    Start(usize),
    Sleep,
    End,
}

struct Preparation {
    start: u64,
    sections: u64,
    kept: Kept,
    fill_ns: u32,
    pinned_below: u64,
    random: Random,
    /// First page and how many, until they are taken.
    lead: Option<(u64, u64)>,
    /// Pages.
    filled: u64,
    next: Next,
    threads: usize,
    sleep: Duration,
}

impl Stream for Preparation {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        loop {
            match self.next {
                Next::Fill => {
                    self.fill(batch);
                    return Ok(After::Continue);
                }
                Next::Free(section, from) if section < self.sections => match self.kept.hole(from) {
                    Some(hole) => {
                        self.next = Next::Free(section, hole.end);
                        let at = self.start + section * SECTION_PAGES;
                        let hole = PageRange::new(at + hole.start, at + hole.end);
                        return Ok(After::Change(match self.kept.pattern {
                            Pattern::Contiguous => LayoutChange::Unmap(hole),
                            // Unmapped they would leave more mappings than Linux allows a process (65530).
                            Pattern::Strided => LayoutChange::Advise(hole, Advice::DontNeed),
                        }));
                    }
                    None => self.next = Next::Free(section + 1, 0),
                },
                Next::Free(..) => self.next = Next::Pin(0, 0),
                Next::Pin(section, nth) if section < self.sections && self.pinned_below > 0 => {
                    self.next =
                        if nth + 1 < self.kept.kept { Next::Pin(section, nth + 1) } else { Next::Pin(section + 1, 0) };
                    if self.pinned_below == u64::MAX || self.random.next_u64() < self.pinned_below {
                        let page = self.start + section * SECTION_PAGES + self.kept.place(nth);
                        return Ok(After::Change(LayoutChange::Pin(PageRange::at(page, 1))));
                    }
                }
                Next::Pin(..) => self.next = if self.threads > 0 { Next::Start(1) } else { Next::Sleep },
                Next::Start(thread) => {
                    self.next = if thread < self.threads { Next::Start(thread + 1) } else { Next::End };
                    return Ok(After::Start(thread));
                }
                Next::Sleep => {
                    self.next = Next::End;
                    return Ok(After::Sleep(self.sleep));
                }
                Next::End => return Ok(After::Finish),
            }
        }
    }
}

impl Preparation {
    fn fill(&mut self, batch: &mut Batch) {
        let pages = self.sections * SECTION_PAGES;
        if let Some((start, count)) = self.lead.take() {
            let mut taken = 0;
            while taken < count {
                let some = u32::try_from((count - taken).min(SECTION_PAGES)).expect("at most 512");
                batch.runs.push(run(Access::Write, start + taken, some));
                taken += u64::from(some);
            }
        }
        while self.filled < pages && batch.runs.len() < 64 {
            let some = u32::try_from((pages - self.filled).min(run_pages(self.fill_ns))).expect("at most 512");
            batch.runs.push(run(Access::Write, self.start + self.filled, some).after_ns(self.fill_ns * some));
            self.filled += u64::from(some);
        }
        if self.filled == pages {
            self.next = Next::Free(0, 0);
        }
    }
}

/// The data shared by threads that use the rest.
struct Shared {
    ranks: Ranked,
    places: Permutation,
    start: u64,
    kept: Kept,
    think_ns: u32,
    write_below: u64,
}

struct Use {
    shared: Arc<Shared>,
    batch: u64,
    budget: Budget,
    random: Random,
}

impl Stream for Use {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let operations = self.budget.take(self.batch, now);
        if operations == 0 {
            return Ok(After::Finish);
        }
        let Shared { ranks, places, start, kept, think_ns, write_below } = self.shared.as_ref();
        let count = usize::try_from(operations).expect("a batch");
        let (mut numbers, mut choices) = (vec![0; count], vec![0; count]);
        ranks.fill(&mut self.random, &mut numbers);
        places.apply(&mut numbers);
        fill_words(&mut self.random, &mut choices);
        batch.runs.extend(numbers.iter().zip(choices).map(|(&number, choice)| {
            let page = start + number / kept.kept * SECTION_PAGES + kept.place(number % kept.kept);
            let is_write = below(choice, u64::MAX).0 < *write_below;
            (if is_write { Run::write(page, 1) } else { Run::read(page, 1) }).after_ns(*think_ns)
        }));
        batch.operations = operations;
        Ok(After::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    fn spec(pattern: Pattern) -> FragmenterSpec {
        FragmenterSpec { footprint: Bytes::from_mib(4), pattern, ..FragmenterSpec::default() }
    }

    fn freed(spec: &FragmenterSpec) -> Vec<PageRange> {
        let played = drain_spec(&WorkloadSpec::Fragmenter(spec.clone()));
        assert_eq!(played.runs.iter().map(|run| u64::from(run.pages)).sum::<u64>(), 1024, "all is written");
        let first = played.runs[0].page();
        let holes = played.afters.iter().filter_map(|after| match after {
            After::Change(LayoutChange::Unmap(range) | LayoutChange::Advise(range, Advice::DontNeed)) => {
                Some(PageRange::new(range.start - first, range.end - first))
            }
            _ => None,
        });
        holes.collect()
    }

    /// docs/spec/compaction.md#s9-1: the first 384 of 512, or all but every fourth.
    #[test]
    fn both_patterns_of_the_specification() {
        assert_eq!(freed(&spec(Pattern::Contiguous)), [PageRange::new(0, 384), PageRange::new(512, 896)]);
        let holes = freed(&spec(Pattern::Strided));
        assert_eq!((holes.len(), holes[0], holes[1]), (256, PageRange::new(1, 4), PageRange::new(5, 8)));
        assert_eq!(holes[255], PageRange::new(1021, 1024));
    }

    #[test]
    fn shares_that_do_not_divide_a_section_are_rounded_to_pages() {
        for percent in [0, 1, 10, 33, 50, 60, 90, 99, 100] {
            for pattern in [Pattern::Contiguous, Pattern::Strided] {
                let freed_share = Ratio::from_percent(percent);
                let kept = Kept { kept: SECTION_PAGES - freed_share.of(SECTION_PAGES), pattern };
                let stays: Vec<u64> = (0..SECTION_PAGES).filter(|&page| kept.stays(page)).collect();
                let named: Vec<u64> = (0..kept.kept).map(|nth| kept.place(nth)).collect();
                assert_eq!(stays, named, "{percent} {pattern:?}");
                let mut gone = Vec::new();
                let mut from = 0;
                while let Some(hole) = kept.hole(from) {
                    gone.extend(hole.start..hole.end);
                    from = hole.end;
                }
                let others: Vec<u64> = (0..SECTION_PAGES).filter(|&page| !kept.stays(page)).collect();
                assert_eq!(gone, others, "{percent} {pattern:?}");
            }
        }
    }

    /// docs/spec/compaction.md#s9-1: an aligned range of the address space is not aligned in physical memory.
    #[test]
    fn a_lead_of_a_length_that_the_seed_draws_is_taken_before() {
        let spec = FragmenterSpec { lead: Bytes::from_mib(2), ..spec(Pattern::Contiguous) };
        let lead = |seed| {
            let context = BuildContext::new(".").with_seed(seed);
            let mut program = WorkloadSpec::Fragmenter(spec.clone()).build(&context).unwrap();
            let layout = &program.processes[0].layout;
            let (lead, data) = (layout[0].pages, layout[1].pages);
            let mut batch = Batch::default();
            program.threads[0].stream.next_batch(Instant::START, &mut batch).unwrap();
            let is_lead = |run: &&Run| run.page() < lead.end;
            let before: Vec<&Run> = batch.runs.iter().take_while(is_lead).collect();
            assert!(before.iter().all(|run| run.is_write() && run.page() >= lead.start));
            assert_eq!(batch.runs[before.len()].page(), data.start, "then the sections");
            before.iter().map(|run| u64::from(run.pages)).sum::<u64>()
        };
        let lengths: Vec<u64> = (0..8).map(lead).collect();
        assert!(lengths.iter().all(|length| (1..=512).contains(length)) && lengths[0] != lengths[1], "{lengths:?}");
        assert_eq!(lead(5), lengths[5], "the same seed, the same length");
    }

    #[test]
    fn some_of_what_stays_is_held() {
        let pins = |pinned: u64| {
            let spec = FragmenterSpec { pinned: Ratio::from_percent(pinned), ..spec(Pattern::Contiguous) };
            let played = drain_spec(&WorkloadSpec::Fragmenter(spec));
            played.afters.iter().filter(|after| matches!(after, After::Change(LayoutChange::Pin(_)))).count()
        };
        assert_eq!((pins(0), pins(100)), (0, 256));
        assert!((5..50).contains(&pins(10)), "{}", pins(10));
    }

    #[test]
    fn threads_use_what_stays_and_nothing_else() {
        let spec = FragmenterSpec { threads: 2, duration: Duration::from_ms(20), ..spec(Pattern::Strided) };
        let played = drain_spec(&WorkloadSpec::Fragmenter(spec));
        let first = played.runs[0].page();
        let uses: Vec<&Run> = played.runs.iter().filter(|run| !run.is_write()).collect();
        assert!(uses.len() > 1000 && uses.iter().all(|run| (run.page() - first).is_multiple_of(4)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |spec: FragmenterSpec| {
            WorkloadSpec::Fragmenter(spec).build(&BuildContext::new(".")).map(|_| ()).unwrap_err().to_string()
        };
        let base = FragmenterSpec::default;
        assert_eq!(
            said(FragmenterSpec { footprint: Bytes::from_mib(3), ..base() }),
            "fragmenter: `footprint` is 3MiB; allowed: multiples of 2MiB"
        );
        assert_eq!(
            said(FragmenterSpec { lead: Bytes::new(5000), ..base() }),
            "fragmenter: `lead` is 5000B; allowed: multiples of 4KiB up to 64MiB"
        );
        assert!(said(FragmenterSpec { lead: Bytes::from_mib(65), ..base() }).contains("up to 64MiB"));
        assert!(said(FragmenterSpec { freed: Ratio::from_percent(101), ..base() }).contains("0% to 100%"));
        assert!(said(FragmenterSpec { theta: -1.0, ..base() }).contains("0 to 10"));
        assert!(said(FragmenterSpec { threads: 257, ..base() }).contains("0 to 256"));
        assert!(said(FragmenterSpec { freed: Ratio::ONE, threads: 1, ..base() }).contains("lower `freed`"));
    }
}
