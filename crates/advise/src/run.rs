//! Figures of one replay.

use super::chance::Draw;
use super::pace::{BurstBound, Pace, SlowdownOf};
use super::scale::Scale;
use isotherm_core::generations::GenerationWhy;
use isotherm_core::schemes::SchemeReport;
use isotherm_kernel::counters::Counter;
use isotherm_sim::machine::{Ending, Outcome};
use isotherm_units::{Bytes, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Figures of one replay.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// Number of its draw.
    pub(super) draw: u64,
    /// Whether the program's files were in memory when it started: a restart, not a first start.
    pub(super) is_warm: bool,
    /// `memory.max` of the run, less the kernel's own charges.
    pub(super) limit: Bytes,
    pub(super) pace: Pace,
    /// Pace against unlimited memory on as many processors, in millionths; `None` if it did not finish.
    pub(super) ratio_ppm: Option<u64>,
    /// What that ratio is of.
    pub(super) slowdown_of: Option<SlowdownOf>,
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
    /// `limit`: of the whole, like all figures except bytes of schemes and tools; `free`: the pace without limits on the same hardware.
    pub(super) fn of(
        outcome: Outcome,
        draw: &Draw,
        limit: Bytes,
        (free, bound): (&Pace, BurstBound),
        scale: &Scale,
    ) -> Self {
        let program = &outcome.programs[0];
        // The root and the program's own group. If the run ends before the first sample, the maximum is known.
        let group = &outcome.cgroups[1];
        let mean_pages = group.mean_pages.unwrap_or(group.peak_pages);
        let pace = Pace::next_to(free, program);
        let has_finished = program.ending == Ending::Finished;
        let slowdown = pace.slower_than(free, bound).filter(|_| has_finished);
        Self {
            draw: draw.number,
            is_warm: draw.is_warm(),
            limit,
            ratio_ppm: slowdown.map(|slowdown| slowdown.ratio_ppm),
            slowdown_of: slowdown.map(|slowdown| slowdown.of),
            pace,
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

    pub(crate) fn run(limit: Bytes, major_faults: u64) -> Run {
        Run {
            draw: 0,
            is_warm: false,
            limit,
            pace: Pace { runtime_ns: 1, work_ns: 1, processes: Vec::new() },
            ratio_ppm: Some(1_000_000),
            slowdown_of: Some(SlowdownOf::Runtime),
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
