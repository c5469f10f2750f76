//! One run of a program, and what is made of several.

use serde::{Deserialize, Serialize};

/// What a run took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Run {
    /// It ended by itself with exit code 0.
    pub(super) is_complete: bool,
    pub(super) wall_ns: u64,
    /// CPU time of the program and of those that it waited for.
    #[serde(default)]
    pub(super) cpu_ns: u64,
    /// Of that, in the kernel.
    #[serde(default)]
    pub(super) system_ns: u64,
    pub(super) major_faults: u64,
    /// The group's highest use of memory.
    pub(super) peak_bytes: u64,
    /// Kills by the group's limit.
    pub(super) kills: u64,
    /// What the program printed: the length of each burst. The whole run of a program that is timed as one.
    pub(super) bursts_ns: Vec<u64>,
}

impl Run {
    /// The time of all bursts together: computing and waiting for memory.
    pub(super) fn work_ns(&self) -> u64 {
        self.bursts_ns.iter().sum()
    }

    /// Of a hundred bursts the second longest.
    pub(super) fn p99_ns(&self) -> u64 {
        let mut bursts = self.bursts_ns.clone();
        bursts.sort_unstable();
        bursts.get((bursts.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// The middle one, the lower of two.
pub(super) fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_bursts_the_second_longest_is_the_99th_percentile() {
        let run = Run { bursts_ns: (1..=100).rev().collect(), ..Run::default() };
        assert_eq!((run.p99_ns(), run.work_ns()), (99, 5050));
        assert_eq!(Run::default().p99_ns(), 0);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median([5, 1, 9].into_iter()), 5);
        assert_eq!(median([4, 1].into_iter()), 1);
        assert_eq!(median(std::iter::empty()), 0);
    }
}
