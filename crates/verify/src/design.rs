//! Which runs are made, and in which order.

use crate::Start;
use isotherm_units::Bytes;
use isotherm_units::random::Random;
use serde::Serialize;

/// A limit that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    #[serde(rename = "memory_bytes", serialize_with = "bytes")]
    pub bytes: Bytes,
    /// It is the one that is to hold.
    pub is_asked: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn bytes<S: serde::Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.get())
}

/// Starts that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
    Cold,
    Warm,
    /// In turns: whether the files of a program are in memory can decide whether it is killed.
    Both,
}

/// The plan of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    pub sizes: Vec<Size>,
    /// Number of turns: each has a run without a limit, and one at each size.
    pub pairs: u32,
    pub starts: Starts,
    /// Decides the order of the runs of a turn.
    pub seed: u64,
}

/// Runs that are compared with one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub start: Start,
    /// `None`: the run without a limit. Else the index of a size.
    pub runs: Vec<Option<usize>>,
}

/// Fewest and most turns, and the time that their runs take together where no number is given.
const PAIRS: (u64, u64) = (6, 30);
const IN_NS: u64 = 120_000_000_000;

/// Number of turns where none is given: as many as fit into two minutes, between 6 and 30, an even number. Short runs are noisy ones.
pub fn usual_pairs(run_ns: u64, nr_sizes: usize) -> u32 {
    let turn_ns = run_ns.max(1).saturating_mul(nr_sizes as u64 + 1);
    let pairs = (IN_NS / turn_ns).clamp(PAIRS.0, PAIRS.1);
    u32::try_from(pairs / 2 * 2).unwrap_or(u32::MAX)
}

impl Design {
    /// Turns in order. The order within a turn is random, so that what slows the machine for a while spares no size.
    pub fn turns(&self) -> Vec<Turn> {
        let mut random = Random::new(self.seed);
        let turn = |nr: u32| {
            let mut runs: Vec<Option<usize>> = std::iter::once(None).chain((0..self.sizes.len()).map(Some)).collect();
            for last in (1..runs.len()).rev() {
                let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
                runs.swap(last, other);
            }
            let start = match self.starts {
                Starts::Cold => Start::Cold,
                Starts::Warm => Start::Warm,
                Starts::Both if nr.is_multiple_of(2) => Start::Warm,
                Starts::Both => Start::Cold,
            };
            Turn { start, runs }
        };
        (0..self.pairs).map(turn).collect()
    }

    /// Number of all runs.
    pub fn nr_runs(&self) -> u64 {
        u64::from(self.pairs) * (self.sizes.len() as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(starts: Starts, seed: u64) -> Design {
        let size = |mib| Size { bytes: Bytes::from_mib(mib), is_asked: mib == 2 };
        Design { sizes: [1, 2, 3].map(size).to_vec(), pairs: 6, starts, seed }
    }

    #[test]
    fn each_turn_has_each_run_once_and_starts_alternate() {
        let design = design(Starts::Both, 1);
        let turns = design.turns();
        assert_eq!((turns.len(), design.nr_runs()), (6, 24));
        for turn in &turns {
            let mut runs = turn.runs.clone();
            runs.sort_unstable();
            assert_eq!(runs, [None, Some(0), Some(1), Some(2)]);
        }
        let starts: Vec<Start> = turns.iter().map(|turn| turn.start).collect();
        assert_eq!(starts, [Start::Warm, Start::Cold].repeat(3));
        assert!(turns.iter().any(|turn| turn.runs != turns[0].runs), "the order differs");
    }

    #[test]
    fn short_runs_are_made_more_often() {
        for (run_ms, pairs) in [(0, 30), (500, 30), (2_000, 14), (10_000, 6), (3_600_000, 6)] {
            assert_eq!(usual_pairs(run_ms * 1_000_000, 3), pairs, "{run_ms} ms");
        }
    }

    #[test]
    fn a_seed_decides_the_order() {
        assert_eq!(design(Starts::Cold, 7).turns(), design(Starts::Cold, 7).turns());
        assert_ne!(design(Starts::Cold, 7).turns(), design(Starts::Cold, 8).turns());
    }
}
