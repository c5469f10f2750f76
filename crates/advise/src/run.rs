//! Figures of one replay.

use super::chance::Draw;
use super::scale::Scale;
use isotherm_core::generations::GenerationWhy;
use isotherm_core::schemes::SchemeReport;
use isotherm_sim::counters::Counter;
use isotherm_sim::machine::{Ending, Outcome, ProgramOutcome};
use isotherm_units::{Bytes, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// How long a program takes, and how long it works: a program that sleeps most of the time can be slowed down a hundred times in what its
/// users wait for, and take no longer as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// Time from its start to its end.
    pub(super) runtime_ns: u64,
    /// Time in which its threads did not sleep, stalls included, summed over threads.
    pub(super) awake_ns: u64,
}

impl Pace {
    pub(super) fn of(program: &ProgramOutcome) -> Self {
        Self { runtime_ns: program.runtime().ns(), awake_ns: program.time.awake_ns() }
    }

    /// How many times slower this is than `free`, in millionths: as a whole or in its work, whichever is worse.
    pub(super) fn slower_than(&self, free: &Self) -> Option<u64> {
        let whole = ppm(self.runtime_ns, free.runtime_ns)?;
        Some(whole.max(ppm(self.awake_ns, free.awake_ns).unwrap_or(0)))
    }

    /// The same at another scale of time: `of` relates to `to` as this does to the result.
    pub(super) fn scaled(&self, of: &Self, to: &Self) -> Self {
        let scaled = |ns: u64, of: u64, to: u64| {
            u64::try_from(u128::from(ns) * u128::from(to) / u128::from(of.max(1))).unwrap_or(u64::MAX)
        };
        Self {
            runtime_ns: scaled(self.runtime_ns, of.runtime_ns, to.runtime_ns),
            awake_ns: scaled(self.awake_ns, of.awake_ns, to.awake_ns),
        }
    }
}

/// Figures of one replay.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// Number of its draw.
    pub(super) draw: u64,
    /// `memory.max` of the run, less the kernel's own charges.
    pub(super) limit: Bytes,
    pub(super) pace: Pace,
    /// Pace against unlimited memory on as many processors, in millionths; `None` if it did not finish.
    pub(super) ratio_ppm: Option<u64>,
    pub(super) major_faults: u64,
    pub(super) ending: Ending,
    pub(super) pressure_some_ns: u64,
    pub(super) reclaim_cpu_ns: u64,
    pub(super) monitor_cpu_ns: u64,
    /// Charge of the program's group, mean over time.
    pub(super) mean_bytes: u64,
    pub(super) schemes: Vec<SchemeReport>,
    /// Results of tools over generations.
    pub(super) generations: Vec<GenerationWhy>,
    /// Pages that each page of the replay represents: 1, or more in a sample. Bytes of schemes and tools refer to the sample.
    pub(super) pages: u32,
}

impl Run {
    /// `limit`: of the whole, like all figures except bytes of schemes and tools; `free`: the pace without limits on as many
    /// processors.
    pub(super) fn of(outcome: Outcome, draw: &Draw, limit: Bytes, free: &Pace, scale: &Scale) -> Self {
        let program = &outcome.programs[0];
        // The root and the program's own group. If the run ends before the first sample, the maximum is known.
        let group = &outcome.cgroups[1];
        let mean_pages = group.mean_pages.unwrap_or(group.peak_pages);
        let pace = Pace::of(program);
        let has_finished = program.ending == Ending::Finished;
        Self {
            draw: draw.number,
            limit,
            pace,
            ratio_ppm: if has_finished { pace.slower_than(free) } else { None },
            major_faults: scale.count(outcome.system().counters.get(Counter::PgMajFault)),
            ending: program.ending,
            pressure_some_ns: outcome.system().pressure.memory_some_ns,
            reclaim_cpu_ns: outcome.kernel.kswapd_ns + outcome.kernel.direct_ns,
            monitor_cpu_ns: outcome.monitors.iter().map(|monitor| monitor.cpu_ns).sum::<u64>()
                + outcome.generations.iter().map(|tool| tool.cpu_ns).sum::<u64>(),
            mean_bytes: scale.whole(Bytes::new(mean_pages * PAGE_BYTES)).get(),
            schemes: outcome.monitors.into_iter().flat_map(|monitor| monitor.schemes).collect(),
            generations: outcome.generations.into_iter().map(|tool| tool.why).collect(),
            pages: scale.pages,
        }
    }
}

/// `part` of `whole` in millionths; `None` if `whole` is 0, or beyond 64 bits.
pub(super) fn ppm(part: u64, whole: u64) -> Option<u64> {
    let ratio = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
    u64::try_from(ratio).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A service that answers for 0.24 ms each half a second, and takes 35 ms for it with too little memory.
    #[test]
    fn waiting_is_no_work() {
        let free = Pace { runtime_ns: 5_000_000_000, awake_ns: 2_400_000 };
        let limited = Pace { runtime_ns: 5_035_000_000, awake_ns: 350_000_000 };
        assert_eq!(limited.slower_than(&free), Some(145_833_333));
        assert_eq!(free.slower_than(&free), Some(1_000_000));
        // Of four threads one is slower, and the others wait for it.
        let free = Pace { runtime_ns: 1000, awake_ns: 4000 };
        assert_eq!(Pace { runtime_ns: 1400, awake_ns: 4400 }.slower_than(&free), Some(1_400_000));
        let double = free.scaled(&free, &Pace { runtime_ns: 2000, awake_ns: 12_000 });
        assert_eq!(double, Pace { runtime_ns: 2000, awake_ns: 12_000 });
        // Nothing was ever awake: the whole counts.
        let asleep = Pace { runtime_ns: 1000, awake_ns: 0 };
        assert_eq!(asleep.slower_than(&asleep), Some(1_000_000));
    }

    pub(crate) fn run(limit: Bytes, major_faults: u64) -> Run {
        Run {
            draw: 0,
            limit,
            pace: Pace { runtime_ns: 1, awake_ns: 1 },
            ratio_ppm: Some(1_000_000),
            major_faults,
            ending: Ending::Finished,
            pressure_some_ns: 0,
            reclaim_cpu_ns: 0,
            monitor_cpu_ns: 0,
            mean_bytes: 0,
            schemes: Vec::new(),
            generations: Vec::new(),
            pages: 1,
        }
    }
}
