//! The accesses of a masim configuration.

use isotherm_units::access::{After, Batch, Run, Stream, StreamError};
use isotherm_units::{Instant, PAGE_BYTES, PAGE_SHIFT, hash};

use super::PhasesEnd;
use super::config::{MasimConfig, Mode, Order, Pattern};
use crate::chance::{Random, Rng, below, random};

/// Settings of the spec besides the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) access_ns: u32,
    pub(super) accesses_per_pick: u64,
    pub(super) repeat: u64,
    pub(super) limits: bool,
    pub(super) touch_first: bool,
    pub(super) phases_end: PhasesEnd,
    pub(super) seed: u64,
}

pub(super) struct Masim {
    regions: Vec<Placed>,
    phases: Vec<TimedPhase>,
    options: Options,
    random: Random,
    /// Pages to write before the first phase, as (next, end), last first.
    to_touch: Vec<(u64, u64)>,
    rounds_left: u64,
    phase: usize,
    phase_end: Option<PhaseEnd>,
    picked: usize,
    picked_left: u64,
}

/// When the present phase is over.
#[derive(Clone, Copy, Debug)]
enum PhaseEnd {
    At(Instant),
    /// The phase ends after this number of further accesses.
    After(u64),
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    start_page: u64,
    bytes: u64,
}

struct TimedPhase {
    duration: isotherm_units::Duration,
    patterns: Vec<(Pattern, Cursor)>,
    weights: u64,
}

/// The offset of a pattern's next sequential access.
type Cursor = u64;

/// masim's table of random offsets.
const LIMITED_OFFSETS: u64 = 1000 * 1000;
/// A batch ends after this number of accesses, or 1 ms of computing, so that phases end in time.
const BATCH_ACCESSES: u64 = 4096;
const BATCH_NS: u64 = 1_000_000;
const RUN_PAGES: u64 = 512;

impl Masim {
    /// `starts`: first page of each region.
    pub(super) fn new(config: MasimConfig, starts: &[u64], options: Options) -> Self {
        let placed = config.regions.iter().zip(starts);
        let regions = placed.map(|(region, &start_page)| Placed { start_page, bytes: region.bytes.get() }).collect();
        let touched = config.regions.iter().zip(starts).filter(|(r, _)| options.touch_first || r.has_initial_data);
        let mut to_touch: Vec<(u64, u64)> =
            touched.map(|(region, &start)| (start, start + region.bytes.pages_ceil().get())).collect();
        to_touch.reverse();
        let phases = config.phases.into_iter().map(|phase| TimedPhase {
            duration: phase.duration,
            weights: phase.patterns.iter().map(|pattern| pattern.weight).sum(),
            patterns: phase.patterns.into_iter().map(|pattern| (pattern, 0)).collect(),
        });
        Self {
            regions,
            phases: phases.collect(),
            options,
            random: random(options.seed, 0),
            to_touch,
            rounds_left: options.repeat,
            phase: 0,
            phase_end: None,
            picked: 0,
            picked_left: 0,
        }
    }

    /// Appends writes of regions that are touched at the start. Whether there were any.
    fn touch(&mut self, batch: &mut Batch) -> bool {
        while let Some((next, end)) = self.to_touch.last_mut()
            && batch.runs.len() < 64
        {
            let pages = (*end - *next).min(RUN_PAGES);
            batch.runs.push(Run::write(*next, u32::try_from(pages).expect("at most RUN_PAGES")));
            *next += pages;
            if next == end {
                self.to_touch.pop();
            }
        }
        !batch.runs.is_empty()
    }

    /// Goes to the phase of time `now`; `false` after the last.
    fn enter_phase(&mut self, now: Instant) -> bool {
        let is_over = match self.phase_end {
            Some(PhaseEnd::At(end)) => now >= end,
            Some(PhaseEnd::After(accesses)) => accesses == 0,
            None => false,
        };
        if is_over {
            self.phase_end = None;
            self.phase += 1;
            if self.phase == self.phases.len() {
                self.phase = 0;
                self.rounds_left -= 1;
            }
        }
        if self.rounds_left == 0 {
            return false;
        }
        if self.phase_end.is_none() {
            let phase = &mut self.phases[self.phase];
            self.phase_end = Some(match self.options.phases_end {
                PhasesEnd::ByTime => PhaseEnd::At(now + phase.duration),
                PhasesEnd::ByWork => {
                    let access_ns = u64::from(self.options.access_ns.max(1));
                    PhaseEnd::After((phase.duration.ns() / access_ns).max(1))
                }
            });
            self.picked_left = 0;
            phase.patterns.iter_mut().for_each(|(_, cursor)| *cursor = 0);
        }
        true
    }

    /// Picks the next pattern by weight if the last one is done.
    fn pick(&mut self) {
        if self.picked_left > 0 {
            return;
        }
        let phase = &self.phases[self.phase];
        let (mut at, _) = below(self.random.next_u64(), phase.weights);
        self.picked = 0;
        for (index, (pattern, _)) in phase.patterns.iter().enumerate() {
            if at < pattern.weight {
                self.picked = index;
                break;
            }
            at -= pattern.weight;
        }
        self.picked_left = self.options.accesses_per_pick;
    }
}

impl Stream for Masim {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.touch(batch) {
            return Ok(After::Continue);
        }
        if !self.enter_phase(now) {
            return Ok(After::Finish);
        }
        let access_ns = self.options.access_ns;
        let mut left = (BATCH_NS / u64::from(access_ns.max(1))).clamp(1, BATCH_ACCESSES);
        if let Some(PhaseEnd::After(accesses)) = &mut self.phase_end {
            left = left.min(*accesses);
            *accesses -= left;
        }
        while left > 0 {
            self.pick();
            let wanted = left.min(self.picked_left);
            let (pattern, cursor) = &mut self.phases[self.phase].patterns[self.picked];
            let region = self.regions[pattern.region];
            match pattern.order {
                Order::Sequential { stride } => {
                    sweep(region, stride, cursor, wanted, pattern.mode, access_ns, batch.runs.own());
                }
                Order::Random => {
                    let limits = self.options.limits.then_some(self.options.seed ^ pattern.region as u64);
                    scatter(region, limits, wanted, pattern.mode, access_ns, &mut self.random, batch.runs.own());
                }
            }
            self.picked_left -= wanted;
            left -= wanted;
            batch.operations += wanted;
        }
        Ok(After::Continue)
    }
}

fn run(mode: Mode, page: u64, pages: u32) -> Run {
    match mode {
        Mode::ReadOnly => Run::read(page, pages),
        Mode::WriteOnly | Mode::ReadWrite => Run::write(page, pages),
    }
}

/// `accesses` accesses from `cursor` on, folded into runs of neighbouring pages. Several accesses to a page cost their CPU
/// time each, but touch it once.
fn sweep(
    region: Placed,
    stride: u64,
    cursor: &mut Cursor,
    mut accesses: u64,
    mode: Mode,
    access_ns: u32,
    runs: &mut Vec<Run>,
) {
    while accesses > 0 {
        let first_page = *cursor >> PAGE_SHIFT;
        // Up to the end of the region, or of the longest run; strides beyond a page leave pages out.
        let reach = if stride > PAGE_BYTES { 1 } else { RUN_PAGES };
        let limit = region.bytes.min((first_page + reach) << PAGE_SHIFT);
        let folded = accesses.min((limit - *cursor).div_ceil(stride));
        let last_page = (*cursor + (folded - 1) * stride) >> PAGE_SHIFT;
        let pages = u32::try_from(last_page - first_page + 1).expect("at most RUN_PAGES");
        // At most 4096 accesses of at most 1 ms, together at most about 1 ms: see `next_batch`.
        let think_ns = u32::try_from(folded * u64::from(access_ns)).unwrap_or(u32::MAX);
        runs.push(run(mode, region.start_page + first_page, pages).after_ns(think_ns));
        accesses -= folded;
        // Saturates only for strides that leave the region anyway.
        *cursor = cursor.saturating_add(folded.saturating_mul(stride));
        if *cursor >= region.bytes {
            *cursor = 0;
        }
    }
}

/// `accesses` accesses to random bytes; with `limits` (a seed) only to the bytes of a table.
fn scatter(
    region: Placed,
    limits: Option<u64>,
    accesses: u64,
    mode: Mode,
    access_ns: u32,
    random: &mut Random,
    runs: &mut Vec<Run>,
) {
    runs.extend((0..accesses).map(|_| {
        let random = random.next_u64();
        let random = limits.map_or(random, |seed| table_word(seed, below(random, LIMITED_OFFSETS).0));
        let (offset, _) = below(random, region.bytes);
        run(mode, region.start_page + (offset >> PAGE_SHIFT), 1).after_ns(access_ns)
    }));
}

/// Word `index` of a table of random words that is computed, not stored (SplitMix64).
fn table_word(seed: u64, index: u64) -> u64 {
    hash::mix(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(index.wrapping_mul(hash::GOLDEN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::check;
    use crate::order::testing::{Played, drain_spec, hash};
    use crate::{MasimSpec, WorkloadSpec};

    fn play(text: &str, change: impl FnOnce(&mut MasimSpec)) -> Played {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.masim");
        std::fs::write(&path, text).unwrap();
        let mut spec = MasimSpec::new(path);
        change(&mut spec);
        drain_spec(&WorkloadSpec::Masim(spec))
    }

    fn offsets(played: &Played) -> Vec<(u64, u32)> {
        let start = played.runs.iter().map(|run| run.page()).min().unwrap();
        played.runs.iter().map(|run| (run.page() - start, run.pages)).collect()
    }

    #[test]
    fn a_small_stride_touches_each_page_once_a_sweep() {
        // 3.5 pages of 16 accesses of 256 bytes: 56 accesses a sweep, 20 ns each.
        let played = play("a, 14336\n\np\n1\na, 0, 256, 1", |_| {});
        assert_eq!(offsets(&played)[..3], [(0, 4), (0, 4), (0, 4)]);
        assert_eq!(played.runs[0], Run::write(played.runs[0].page(), 4).after_ns(56 * 20));
        assert_eq!(played.operations % 4096, 0);
    }

    #[test]
    fn a_large_stride_skips_pages_and_wraps_to_the_start() {
        // 10 pages, every third: 0, 3, 6, 9, 0, …
        let played = play("a, 40960\n\np\n1\na, 0, 12288, 1, ro", |_| {});
        assert_eq!(offsets(&played)[..6], [(0, 1), (3, 1), (6, 1), (9, 1), (0, 1), (3, 1)]);
        assert!(played.runs.iter().all(|run| !run.is_write() && run.think_ns == 20));
        let played = play("a, 40960\n\np\n1\na, 0, 18446744073709551615, 1", |_| {});
        assert!(offsets(&played).iter().all(|&run| run == (0, 1)));
    }

    #[test]
    fn long_sweeps_are_cut_into_runs() {
        let played = play("a, 8388608\n\np\n1\na, 0, 4096, 1", |spec| spec.accesses_per_pick = 700);
        assert_eq!(offsets(&played)[..4], [(0, 512), (512, 188), (700, 512), (1212, 188)]);
    }

    #[test]
    fn weights_share_the_picks() {
        let text = "a, 4096\nb, 4096\n\np\n200\na, 1, 0, 70, ro\nb, 1, 0, 30, rw";
        let played = play(text, |spec| spec.accesses_per_pick = 1);
        let writes = played.runs.iter().filter(|run| run.is_write()).count() as u64;
        check::near(&[played.runs.len() as u64 - writes, writes], &[0.7, 0.3]);
    }

    #[test]
    fn phases_last_their_time() {
        // 20 ns of computing and, on the clock of `order`, 100 ns a page: 8333 accesses a millisecond.
        let text = "a, 4096\n\np\n30\na, 1, 0, 1, ro\n\nq\n10\na, 1, 0, 1, wo";
        let played = play(text, |spec| spec.repeat = 2);
        let switches = played.runs.windows(2).filter(|pair| pair[0].is_write() != pair[1].is_write()).count();
        assert_eq!(switches, 3);
        let reads = played.runs.iter().filter(|run| !run.is_write()).count();
        assert!((500_000..=500_000 + 2 * 4096).contains(&reads), "{reads}");
    }

    #[test]
    fn phases_by_work_are_the_same_accesses_on_any_clock() {
        // 20 us each: 3 ms are 150 accesses, 1 ms 50.
        let text = "a, 4096\nb, 4096\n\np\n3\na, 1, 0, 1, ro\n\nq\n1\nb, 1, 0, 1, wo";
        let played = play(text, |spec| {
            spec.repeat = 2;
            spec.access_time = isotherm_units::Duration::from_us(20);
            spec.phases_end = PhasesEnd::ByWork;
        });
        let writes: Vec<bool> = played.runs.iter().map(|run| run.is_write()).collect();
        let expected = [vec![false; 150], vec![true; 50]].concat();
        assert_eq!(writes, [expected.clone(), expected].concat());
        let spec =
            |text: &str| WorkloadSpec::Masim(MasimSpec { config: Some(text.into()), path: None, ..MasimSpec::new("") });
        assert!(crate::WorkloadSpec::depends_on_time(&spec(text)).is_some());
    }

    #[test]
    fn a_configuration_comes_from_a_file_or_from_the_scenario() {
        let text = "a, 8192\n\np\n1\na, 0, 4096, 1";
        let message = |change: fn(&mut MasimSpec)| {
            let mut spec = MasimSpec { path: None, config: Some(text.to_owned()), ..MasimSpec::new("") };
            change(&mut spec);
            WorkloadSpec::Masim(spec).build(&crate::BuildContext::new(".")).err().map(|error| error.to_string())
        };
        assert_eq!(message(|_| {}), None);
        let both = message(|spec| spec.path = Some("x".into())).unwrap();
        assert!(both.contains("both `path` and `config` are given"), "{both}");
        let neither = message(|spec| spec.config = None).unwrap();
        assert!(neither.contains("no configuration is given"), "{neither}");
        let line = message(|spec| spec.config = Some("a\n".to_owned())).unwrap();
        assert!(line.contains("config:1"), "{line}");
        let free = message(|spec| {
            spec.access_time = isotherm_units::Duration::ZERO;
            spec.phases_end = PhasesEnd::ByWork;
        });
        assert!(free.unwrap().contains("an access takes no time"));
    }

    #[test]
    fn limits_bound_the_distinct_pages() {
        // 4 M pages; 10^6 random offsets can hit at most 10^6 of them.
        let text = "a, 17179869184\n\np\n20\na, 1, 0, 1";
        let distinct = |limits| {
            let mut pages: Vec<u64> =
                play(text, |spec| spec.limits = limits).runs.iter().map(|run| run.page()).collect();
            pages.sort_unstable();
            pages.dedup();
            pages.len()
        };
        assert!(distinct(true) < distinct(false));
        let offset_of = |index| below(table_word(5, index), 1 << 34).0 >> PAGE_SHIFT;
        let mut counts = [0u64; 16];
        (0..LIMITED_OFFSETS).for_each(|index| counts[usize::try_from(offset_of(index) >> 18).unwrap()] += 1);
        check::near(&counts, &[1.0 / 16.0; 16]);
    }

    #[test]
    fn regions_are_touched_first_only_on_request_or_with_data() {
        let text = "a, 8192, none\nb, 12288, x.bin\n\np\n1\na, 0, 4096, 1, ro";
        let written = |played: Played| -> u64 {
            played.runs.iter().filter(|run| run.is_write()).map(|run| u64::from(run.pages)).sum()
        };
        assert_eq!(written(play(text, |_| {})), 3);
        assert_eq!(written(play(text, |spec| spec.touch_first = true)), 5);
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let text = "a, 104857600\nb, 10485760\n\nwarm up\n3\na, 0, 64, 80\nb, 1, 4096, 20, ro";
        let play = || hash(&play(text, |spec| spec.accesses_per_pick = 100).runs);
        // Blessed on 2026-11-21: any machine must give this.
        assert_eq!(play(), 0xfca2_c76f_1475_d229);
    }

    #[test]
    fn a_missing_file_is_named() {
        let spec = WorkloadSpec::Masim(MasimSpec::new("/nowhere/x.masim"));
        let error = spec.build(&crate::BuildContext::new(".")).err().unwrap().to_string();
        assert_eq!(error, "masim: cannot read /nowhere/x.masim");
    }
}
