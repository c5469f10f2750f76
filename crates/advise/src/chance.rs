//! Chance: differences between two replays of one configuration at one size that the real world does not fix.
//!
//! One [`Draw`] is one such world. Draws are numbered; equal numbers give equal worlds on every machine. Draws of one size spread their
//! limits evenly, so that a few draws already reach both ends.

use isotherm_core::monitor::context_seed;
use isotherm_scenario::{Scenario, WorldSpec};
use isotherm_units::{Amount, Bytes, Duration, PAGE_BYTES, Ratio};

/// A limit is up to this many ten-thousandths above or below the size: another run of the same program takes a few pages more
/// or less.
pub(super) const LIMIT_SPREAD_BP: u64 = 300;
/// Page tables, kernel stacks and slabs are charged to the group too, and recordings do not contain them: up to this many
/// ten-thousandths of the limit (`docs/evidence/fidelity.md`: 0.5 to 1 % of the limits there).
pub(super) const KERNEL_CHARGE_BP: u64 = 150;
/// A program starts at any moment of the kernel's slowest clock that matters here: the worker that adds statistics up every 2 s
/// (`mm/memcontrol.c: FLUSH_TIME`, 6.12 and 7.2), whoever runs.
const START_MAX_NS: u64 = 2_000_000_000;
/// Devices answer by up to a quarter sooner or later than their model, in percent.
const LATENCY_PERCENT: [u64; 4] = [80, 90, 110, 125];
/// Limits below this are not tried: a fault may need several pages at once.
pub(super) const LIMIT_MIN: Bytes = Bytes::new(32 * PAGE_BYTES);

/// The world of one replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    /// Number among the draws of a size; 0 has every parameter in the middle of its range.
    pub(super) number: u64,
    /// Seed of sampling: which page of a region a monitor checks, where it splits regions.
    pub(super) seed: u64,
    /// The limit in ten-thousandths of the size, less the kernel's own charges.
    limit_bp: u64,
    /// Start of the program after the start of the machine: tick phase, phase of workers.
    start: Duration,
    /// Processors that the program gets: the requested number, a quarter fewer, or half of them.
    pub(super) cpus: u32,
    /// Whether counters of the group are added up only now and then.
    lazy_statistics: bool,
    /// Whether the program's files are in memory already, read and paid by others, as after a restart.
    warm_files: bool,
    /// Whether other tasks run for a moment once a tick.
    pub(super) others: bool,
    /// Latencies of devices in percent of their model's.
    latency_percent: u64,
}

/// What a draw changes of the runtime without limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hardware {
    /// Processors.
    cpus: u32,
    /// Latency of devices in percent of their model's.
    latency_percent: u64,
    warm_files: bool,
}

impl Hardware {
    /// The same for a program that waits for no device: their latency makes no difference then, and takes one value.
    pub(super) fn that_matters(self, has_files: bool, waits_for_swap: bool) -> Self {
        let waits = waits_for_swap || has_files && !self.warm_files;
        Self { latency_percent: if waits { self.latency_percent } else { 100 }, ..self }
    }
}

impl Draw {
    /// Draw `number` for a machine of `cpus` processors.
    pub(super) fn of(number: u64, cpus: u32) -> Self {
        if number == 0 {
            return Self {
                number,
                seed: 1,
                limit_bp: 10_000 - KERNEL_CHARGE_BP / 2,
                start: Duration::ZERO,
                cpus,
                lazy_statistics: true,
                warm_files: false,
                others: true,
                latency_percent: 100,
            };
        }
        let word = |what: u32| context_seed(number, what);
        // The golden ratio of 2^16 spreads neighbouring numbers over the whole range.
        let spread = number.wrapping_mul(40_503) % (1 << 16);
        let limit_bp = 10_000 - LIMIT_SPREAD_BP + spread * 2 * LIMIT_SPREAD_BP / (1 << 16);
        Self {
            number,
            seed: 1 + number,
            limit_bp: limit_bp - word(0) % (KERNEL_CHARGE_BP + 1),
            start: Duration::from_ns(word(1) % START_MAX_NS),
            cpus: [cpus, cpus, cpus - cpus / 4, cpus.div_ceil(2)][(word(2) % 4) as usize],
            lazy_statistics: word(3).is_multiple_of(2),
            others: word(4).is_multiple_of(2),
            latency_percent: LATENCY_PERCENT[(word(5) % 4) as usize],
            warm_files: word(6).is_multiple_of(2),
        }
    }

    /// Whether the program's files are in memory when it starts.
    pub(super) fn is_warm(&self) -> bool {
        self.warm_files
    }

    /// The same with files that the program reads itself.
    pub(super) fn cold(self) -> Self {
        Self { warm_files: false, ..self }
    }

    /// The limit of this replay at a size.
    pub(super) fn limit(&self, size: Bytes) -> Bytes {
        let bytes = u128::from(size.get()) * u128::from(self.limit_bp) / 10_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).pages_floor().bytes().max(LIMIT_MIN)
    }

    /// The parts of a draw that change the runtime without limits.
    pub(super) fn hardware(&self) -> Hardware {
        Hardware { cpus: self.cpus, latency_percent: self.latency_percent, warm_files: self.warm_files }
    }

    /// Applies this world to `scenario`. The limit is set by the caller. `runtime`: of the program, without limits.
    pub(super) fn apply(&self, scenario: &mut Scenario, runtime: Duration) {
        *scenario = WorldSpec { limit: None, ..self.world(Bytes::ZERO, runtime) }.of(scenario, 0);
    }

    /// This world with a limit, as an entry of a scenario.
    pub(super) fn world(&self, limit: Bytes, runtime: Duration) -> WorldSpec {
        WorldSpec {
            seed: Some(self.seed),
            limit: Some(Amount::Absolute(limit)),
            start: Some(self.start),
            cpus: Some(self.cpus),
            device_latency: Some(Ratio::from_percent(self.latency_percent)),
            lazy_statistics: Some(self.lazy_statistics),
            warm_files: Some(self.warm_files),
            other_tasks: Some(if self.others { runtime } else { Duration::ZERO }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draw_is_the_middle_and_others_spread_over_all_limits() {
        let size = Bytes::from_mib(100);
        assert_eq!(Draw::of(0, 4).limit(size).get(), (size.get() * 9_925 / 10_000) & !(PAGE_BYTES - 1));
        let limits: Vec<u64> = (1..=16).map(|number| Draw::of(number, 4).limit_bp).collect();
        let (least, most) = (limits.iter().min().copied(), limits.iter().max().copied());
        assert!(least < Some(9_700) && most > Some(10_150), "{limits:?}");
        assert!(limits.iter().all(|bp| (9_550..=10_300).contains(bp)), "{limits:?}");
        assert_eq!(Draw::of(3, 4).limit(Bytes::new(1)), LIMIT_MIN, "never below the smallest limit");
    }

    #[test]
    fn latency_matters_to_who_waits() {
        let of = |latency_percent, warm_files| Hardware { cpus: 2, latency_percent, warm_files };
        assert_eq!(of(125, false).that_matters(true, false), of(125, false), "it reads files");
        assert_eq!(of(125, true).that_matters(true, false), of(100, true), "which are there already");
        assert_eq!(of(125, true).that_matters(true, true), of(125, true), "it swaps without a limit too");
        assert_eq!(of(80, false).that_matters(false, false), of(100, false), "no files");
    }

    #[test]
    fn everything_that_is_left_open_is_drawn() {
        let draws: Vec<Draw> = (1..64).map(|number| Draw::of(number, 4)).collect();
        for cpus in [4, 3, 2] {
            assert!(draws.iter().any(|draw| draw.cpus == cpus), "{cpus}");
        }
        for flag in [false, true] {
            assert!(draws.iter().any(|draw| draw.lazy_statistics == flag));
            assert!(draws.iter().any(|draw| draw.warm_files == flag));
            assert!(draws.iter().any(|draw| draw.others == flag));
        }
        assert!(draws.iter().all(|draw| draw.start.ns() < START_MAX_NS));
        assert_eq!(Draw::of(17, 4), Draw::of(17, 4));
        assert!(draws.iter().all(|draw| Draw::of(draw.number, 1).cpus == 1));
    }
}
