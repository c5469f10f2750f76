//! Kind `hot-cold`: a hot set takes most accesses; it may move.

use isotherm_units::access::{After, Batch, Program, Run, Stream, StreamError, Timing};
use isotherm_units::{Amount, Bytes, Duration, Instant, PageRange, Ratio};
use serde::{Deserialize, Serialize};

use crate::chance::{Random, below, fill_words, random, threshold};
use crate::extent::{Budget, Extent};
use crate::spaces::{Spaces, check_huge, check_share, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

/// Random single pages, most of them from a contiguous hot set. A moving hot set measures how fast a policy forgets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct HotColdSpec {
    /// Bytes in all. Default 1 GiB.
    pub footprint: Bytes,
    /// Size of the hot set, as a share of the footprint or in bytes; at least one page. Default 10 %.
    pub hot: Amount,
    /// Cuts the hot set into this number of equal pieces and lays each at a random page of its own part of the footprint, never on a border
    /// of 1 GiB. Default: one piece at the beginning of the footprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_pieces: Option<u32>,
    /// Share of accesses that go to the hot set; the others go anywhere, hot pages included. Default 90 %.
    pub hot_accesses: Ratio,
    /// The hot set moves on by its own size after this time, and wraps. Default: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_every: Option<Duration>,
    /// Share of accesses that store. Default 50 %.
    pub writes: Ratio,
    /// Accesses in all, over all threads; each is an operation. Give this or `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// How long it runs. Give this or `operations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Cache lines used of each touched page, one after the other; each costs the latency of the page's memory. 1 to 64. Default 1.
    #[serde(skip_serializing_if = "is_one")]
    pub lines: u32,
    /// CPU time per touched page, up to 4.29 s, in addition to the latency of the memory. Default 100 ns.
    pub compute: Duration,
    /// Accesses a second of all threads together, faults apart, in place of `compute` and latency: to the nearest nanosecond an
    /// access, 1 to 10^9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses_per_second: Option<u64>,
    /// Threads that do this side by side. Default 1.
    pub threads: usize,
    /// `anonymous`, `mapped-file` or `file`. Default `anonymous`.
    pub storage: Storage,
    /// Path of the file for file storage. Default: the workload's name with `.data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether anonymous memory uses 2 MiB pages. Default no.
    pub huge: bool,
}

impl Default for HotColdSpec {
    fn default() -> Self {
        Self {
            footprint: Bytes::from_gib(1),
            hot: Amount::Share(Ratio::from_percent(10)),
            hot_pieces: None,
            hot_accesses: Ratio::from_percent(90),
            move_every: None,
            writes: Ratio::from_percent(50),
            operations: None,
            duration: None,
            lines: 1,
            compute: Duration::from_ns(100),
            accesses_per_second: None,
            threads: 1,
            storage: Storage::Anonymous,
            file: None,
            huge: false,
        }
    }
}

impl Kind for HotColdSpec {
    const NAME: &'static str = "hot-cold";
    const SUMMARY: &'static str = "a hot set takes most accesses; it may move over time";
    const EXAMPLE: &'static str = "kind = \"hot-cold\"\nfootprint = \"1GiB\"\nhot = \"20%\"\nhot-accesses = \"95%\"\n\
                                   move-every = \"5s\"\nwrites = \"10%\"\nduration = \"30s\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let pages = footprint_pages(Self::NAME, "footprint", self.footprint)?;
        check_huge(Self::NAME, self.huge, self.storage)?;
        let hot_pages = self.hot_pages(pages)?;
        check_share(Self::NAME, "hot-accesses", self.hot_accesses)?;
        check_share(Self::NAME, "writes", self.writes)?;
        check_threads(Self::NAME, self.threads)?;
        if self.move_every == Some(Duration::ZERO) {
            return Err(WorkloadError::field(Self::NAME, "move-every", "0", "1ns or more; leave it out to stay"));
        }
        let extent = Extent::of(Self::NAME, self.operations, self.duration)?;
        let (timing, compute_ns) = self.timing()?;
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let start = spaces.map("data", pages, self.storage, self.file.as_deref(), self.huge);
        let threads = self.threads as u64;
        let pieces = self.pieces(start, pages, hot_pages, context.seed)?;
        let streams = (0..self.threads).map(|index| -> Box<dyn Stream> {
            Box::new(HotCold {
                start,
                pages,
                hot_pages: pieces.as_ref().map_or(hot_pages, |pieces| pieces.iter().map(|piece| piece.len()).sum()),
                pieces: pieces.clone().unwrap_or_default(),
                hot_below: threshold(self.hot_accesses),
                write_below: threshold(self.writes),
                template: Run::read(0, 1).after_ns(compute_ns).through(self.storage.channel()),
                move_every: self.move_every,
                moving_since: None,
                batch_operations: extent.batch_operations(u64::from(compute_ns) + 100),
                budget: extent.share(index as u64, threads),
                random: random(context.seed, index),
            })
        });
        let streams = streams.collect();
        Ok(Program { timing, ..spaces.into_program(streams) })
    }

    fn depends_on_time(&self) -> Option<String> {
        let moving = self.move_every.map(|_| "the hot set moves with time; leave `move-every` out".to_owned());
        Extent::depends_on_time(self.duration).or(moving)
    }
}

/// Cache lines of a page.
pub(crate) const LINES_MAX: u32 = 64;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(lines: &u32) -> bool {
    *lines == 1
}

/// 1 GiB in pages.
const GIB_PAGES: u64 = 1 << 18;

impl HotColdSpec {
    /// The hot pages, if they stay where they are.
    pub(crate) fn hot_set(&self, context: &BuildContext) -> Option<Vec<PageRange>> {
        if self.move_every.is_some() {
            return None;
        }
        let pages = footprint_pages(Self::NAME, "footprint", self.footprint).ok()?;
        let hot_pages = self.hot_pages(pages).ok()?;
        let start = Spaces::new(String::new()).map("data", pages, self.storage, self.file.as_deref(), self.huge);
        let pieces = self.pieces(start, pages, hot_pages, context.seed).ok()?;
        Some(pieces.unwrap_or_else(|| vec![PageRange::at(start, hot_pages)]))
    }

    fn hot_pages(&self, pages: u64) -> Result<u64, WorkloadError> {
        let hot = match self.hot {
            Amount::Share(share) => {
                check_share(Self::NAME, "hot", share)?;
                share.of(pages)
            }
            Amount::Absolute(size) => size.pages_ceil().get(),
        };
        if hot > pages {
            let allowed = format!("up to the footprint of {}", self.footprint);
            return Err(WorkloadError::field(Self::NAME, "hot", self.hot, allowed));
        }
        Ok(hot.max(1))
    }

    /// How the time of an access is known, and its think time.
    fn timing(&self) -> Result<(Timing, u32), WorkloadError> {
        const SECOND_NS: u64 = 1_000_000_000;
        if !(1..=LINES_MAX).contains(&self.lines) {
            return Err(WorkloadError::field(Self::NAME, "lines", self.lines, "1 to 64"));
        }
        let Some(rate) = self.accesses_per_second else {
            let timing = if self.lines == 1 { Timing::Modelled } else { Timing::Lines(self.lines) };
            return Ok((timing, think_ns(Self::NAME, "compute", self.compute)?));
        };
        if self.lines != 1 {
            return Err(WorkloadError::contradiction(
                Self::NAME,
                "both `lines` and `accesses-per-second` are given",
                "keep the one that shall set the pace",
            ));
        }
        if self.compute != Self::default().compute {
            return Err(WorkloadError::contradiction(
                Self::NAME,
                "both `compute` and `accesses-per-second` are given",
                "keep the one that shall set the pace",
            ));
        }
        // One thread makes its share of the accesses.
        let access_ns = (rate > 0 && rate <= SECOND_NS)
            .then(|| (self.threads as u64 * SECOND_NS + rate / 2) / rate)
            .and_then(|ns| u32::try_from(ns).ok());
        let allowed = "1 to 1000000000, and at least one each 4.29s of a thread";
        let access_ns =
            access_ns.ok_or_else(|| WorkloadError::field(Self::NAME, "accesses-per-second", rate, allowed))?;
        Ok((Timing::Recorded, access_ns))
    }

    /// The pieces of the hot set, ascending, if it is cut into any.
    fn pieces(
        &self,
        start: u64,
        pages: u64,
        hot_pages: u64,
        seed: u64,
    ) -> Result<Option<Vec<PageRange>>, WorkloadError> {
        let Some(count) = self.hot_pieces.map(u64::from) else { return Ok(None) };
        if self.move_every.is_some() {
            return Err(WorkloadError::contradiction(
                Self::NAME,
                "the hot set is cut into pieces and moves",
                "drop `hot-pieces` or `move-every`",
            ));
        }
        if count == 0 || count > hot_pages || count > 1 << 20 {
            return Err(WorkloadError::field(Self::NAME, "hot-pieces", count, "1 to 1048576, a page each at least"));
        }
        let (piece_pages, part_pages) = (hot_pages / count, pages / count);
        // Other numbers than the accesses draw.
        let mut random = random(!seed, 0);
        let mut words = vec![0; usize::try_from(count).expect("at most 2^20")];
        fill_words(&mut random, &mut words);
        let piece = |(part, word): (u64, u64)| {
            let room = part_pages - piece_pages;
            let first = start + part * part_pages + below(word, room + 1).0;
            let is_bad = first.is_multiple_of(GIB_PAGES) && room > 0;
            // One page aside, within the part.
            let first = match is_bad {
                true if first > start + part * part_pages => first - 1,
                true => first + 1,
                false => first,
            };
            PageRange::at(first, piece_pages)
        };
        Ok(Some((0..).zip(words).map(piece).collect()))
    }
}

/// Threads of a generator: at least one, and no more than a program may sensibly have.
pub(crate) fn check_threads(kind: &'static str, threads: usize) -> Result<(), WorkloadError> {
    if threads == 0 || threads > 4096 {
        return Err(WorkloadError::field(kind, "threads", threads, "1 to 4096"));
    }
    Ok(())
}

/// Accesses that are drawn together.
const BLOCK: usize = 256;

struct HotCold {
    start: u64,
    pages: u64,
    hot_pages: u64,
    /// Pieces of equal length; empty if the hot set is in one piece that may move.
    pieces: Vec<PageRange>,
    hot_below: u64,
    write_below: u64,
    template: Run,
    move_every: Option<Duration>,
    moving_since: Option<Instant>,
    batch_operations: u64,
    budget: Budget,
    random: Random,
}

impl Stream for HotCold {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let operations = self.budget.take(self.batch_operations, now);
        if operations == 0 {
            return Ok(After::Finish);
        }
        let began = *self.moving_since.get_or_insert(now);
        let moves = self.move_every.map_or(0, |every| now.since(began).ns() / every.ns());
        // The product wraps once in centuries; the modulus keeps it in range all the same.
        let hot_start = moves.wrapping_mul(self.hot_pages) % self.pages;
        let template = self.template;
        let (hot_below, write_below) = (self.hot_below, self.write_below);
        let (hot_pages, pages, start) = (self.hot_pages, self.pages, self.start);
        let pieces = self.pieces.as_slice();
        let mut left = usize::try_from(operations).expect("a batch");
        if hot_below == u64::MAX && !pieces.is_empty() {
            // Nothing to choose.
            let mut places = vec![0; left];
            fill_words(&mut self.random, &mut places);
            left = 0;
            batch.runs.extend(places.into_iter().map(|place| {
                let (offset, fraction) = below(place, hot_pages);
                let page = in_pieces(pieces, offset).unwrap_or(start);
                let run = if fraction < write_below { Run::write(page, 1) } else { Run::read(page, 1) };
                run.through(template.channel()).after_ns(template.think_ns)
            }));
        }
        while left > 0 {
            let (mut choices, mut places) = ([0; BLOCK], [0; BLOCK]);
            let block = left.min(BLOCK);
            left -= block;
            fill_words(&mut self.random, &mut choices[..block]);
            fill_words(&mut self.random, &mut places[..block]);
            batch.runs.extend(choices[..block].iter().zip(&places).map(|(&choice, &place)| {
                let (among, from) =
                    std::hint::select_unpredictable(choice < hot_below, (hot_pages, hot_start), (pages, 0));
                let (offset, fraction) = below(place, among);
                let page = from + offset;
                let page = start + page - if page >= pages { pages } else { 0 };
                let page = if choice < hot_below { in_pieces(pieces, offset).unwrap_or(page) } else { page };
                let run = if fraction < write_below { Run::write(page, 1) } else { Run::read(page, 1) };
                run.through(template.channel()).after_ns(template.think_ns)
            }));
        }
        batch.operations = operations;
        Ok(After::Continue)
    }
}

/// The page with number `offset` of all pieces together; `None` without any.
#[inline]
fn in_pieces(pieces: &[PageRange], offset: u64) -> Option<u64> {
    match pieces {
        [] => None,
        [only] => Some(only.start + offset),
        [first, ..] => {
            let piece = usize::try_from(offset / first.len()).expect("at most 2^20 pieces");
            Some(pieces[piece].start + offset % first.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::chance::check;
    use crate::order::testing::drain_spec;

    #[test]
    fn shares_are_kept() {
        let spec = HotColdSpec {
            footprint: Bytes::from_kib(400),
            operations: Some(100_001),
            writes: Ratio::from_percent(25),
            threads: 3,
            ..HotColdSpec::default()
        };
        let played = drain_spec(&WorkloadSpec::HotCold(spec));
        assert_eq!((played.operations, played.runs.len()), (100_001, 100_001));
        let start = played.runs.iter().map(|run| run.page()).min().unwrap();
        let mut counts = vec![0u64; 100];
        played.runs.iter().for_each(|run| counts[usize::try_from(run.page() - start).unwrap()] += 1);
        // Ten hot pages share 90 % and, with all others, the remaining 10 %.
        let shares: Vec<f64> = (0..100).map(|page| if page < 10 { 0.091 } else { 0.001 }).collect();
        check::near(&counts, &shares);
        let writes = played.runs.iter().filter(|run| run.is_write()).count() as u64;
        check::near(&[writes, 100_001 - writes], &[0.25, 0.75]);
    }

    #[test]
    fn the_hot_set_moves_by_its_size_and_wraps() {
        let spec = HotColdSpec {
            footprint: Bytes::from_kib(400),
            hot_accesses: Ratio::ONE,
            move_every: Some(Duration::from_ms(10)),
            operations: Some(1 << 20),
            ..HotColdSpec::default()
        };
        let mut program = spec.build(&BuildContext::new(".")).unwrap();
        let start = program.processes[0].layout[0].pages.start;
        let mut pages_at = |ms: u64| {
            let mut batch = Batch::default();
            program.threads[0].stream.next_batch(Instant::from_ns(ms * 1_000_000), &mut batch).unwrap();
            let pages: Vec<u64> = batch.runs.iter().map(|run| run.page() - start).collect();
            (*pages.iter().min().unwrap(), *pages.iter().max().unwrap())
        };
        assert_eq!([5, 14, 15, 104, 105].map(&mut pages_at), [(0, 9), (0, 9), (10, 19), (90, 99), (0, 9)]);
    }

    #[test]
    fn pieces_lie_apart_and_take_all_accesses() {
        let spec = HotColdSpec {
            footprint: Bytes::from_gib(8),
            hot: Amount::Absolute(Bytes::from_mib(64)),
            hot_pieces: Some(4),
            hot_accesses: Ratio::ONE,
            accesses_per_second: Some(2_000_000),
            threads: 2,
            operations: Some(40_000),
            ..HotColdSpec::default()
        };
        let context = BuildContext::new(".").with_seed(3);
        let pieces = spec.hot_set(&context).unwrap();
        let lengths: Vec<u64> = pieces.iter().map(|piece| piece.len()).collect();
        assert_eq!(lengths, [4096; 4], "16 MiB each");
        assert!(pieces.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(pieces.iter().all(|piece| !piece.start.is_multiple_of(GIB_PAGES)));
        assert_ne!(spec.hot_set(&context.clone().with_seed(4)), Some(pieces.clone()), "elsewhere with another seed");
        let program = spec.build(&context).unwrap();
        assert_eq!(program.timing, Timing::Recorded);
        let mut counts = [0; 4];
        for mut thread in program.threads {
            let mut batch = Batch::default();
            while thread.stream.next_batch(Instant::START, &mut batch).unwrap() != After::Finish {}
            for run in &batch.runs {
                assert_eq!(run.think_ns, 1000, "two threads share the rate");
                counts[pieces.iter().position(|piece| piece.contains(run.page())).expect("a hot page")] += 1;
            }
        }
        check::near(&counts, &[0.25; 4]);
    }

    #[test]
    fn bad_places_and_paces_are_refused() {
        let message = |change: fn(&mut HotColdSpec)| {
            let mut spec = HotColdSpec { operations: Some(1), ..HotColdSpec::default() };
            change(&mut spec);
            spec.build(&BuildContext::new(".")).err().unwrap().to_string()
        };
        type Row = (fn(&mut HotColdSpec), &'static str);
        let table: [Row; 5] = [
            (
                |spec| spec.hot = Amount::Absolute(Bytes::from_gib(2)),
                "`hot` is 2GiB; allowed: up to the footprint of 1GiB",
            ),
            (|spec| spec.hot_pieces = Some(0), "`hot-pieces` is 0; allowed: 1 to 1048576, a page each at least"),
            (
                |spec| (spec.hot_pieces, spec.move_every) = (Some(1), Some(Duration::from_secs(1))),
                "drop `hot-pieces` or `move-every`",
            ),
            (|spec| spec.accesses_per_second = Some(0), "`accesses-per-second` is 0; allowed: 1 to 1000000000"),
            (
                |spec| (spec.accesses_per_second, spec.compute) = (Some(1), Duration::from_ns(7)),
                "both `compute` and `accesses-per-second` are given",
            ),
        ];
        for (change, expected) in table {
            let message = message(change);
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }

    #[test]
    fn the_future_needs_a_length_in_operations() {
        let context = BuildContext::new(".").with_future(true);
        let timed = HotColdSpec { duration: Some(Duration::from_secs(1)), ..HotColdSpec::default() };
        let error = WorkloadSpec::HotCold(timed).build(&context).err().unwrap().to_string();
        assert!(error.contains("give `operations` instead"), "{error}");
    }
}
