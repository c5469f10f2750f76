//! Judging: verdicts on a size from the replays of a player, by chance and by the known error of the model.

use super::calibration::{ModelError, model_error};
use super::candidate::CANDIDATES;
use super::expected::{Expected, FaultCost};
use super::player::Player;
use super::run::Run;
use isotherm_units::{Bytes, Ratio};

/// Sizes within this number of steps of the smallest count as equal: the search is no finer.
pub(super) const EQUAL_STEPS: u64 = 1;

/// A player, and how its replays are judged.
pub(super) struct Judge<'a> {
    pub(super) player: Player<'a>,
    /// Allowed slow-down against unlimited memory.
    pub(super) slowdown: Ratio,
    /// Whether replays of a sample have found the sizes to try.
    pub(super) is_scouted: bool,
}

impl<'a> Judge<'a> {
    pub(super) fn of(player: Player<'a>) -> Self {
        Self { slowdown: player.question.slowdown, player, is_scouted: false }
    }

    /// The model's error for a configuration, if it was measured, which was done by release and only for policies without schemes and
    /// tools.
    pub(super) fn model_error(&self, index: usize) -> Option<&'static ModelError> {
        let candidate = &CANDIDATES[index];
        let is_plain = candidate.nr_parts() == 0;
        is_plain.then(|| model_error(candidate.name, self.player.kernel, "major_faults")).flatten()
    }

    /// Expected results of a configuration at a size, from the replays made; `None` without any.
    pub(super) fn expected(&self, index: usize, size: Bytes) -> Option<Expected> {
        self.expected_of(index, &self.player.pool.around(index, size))
    }

    /// The same from some of its replays.
    pub(super) fn expected_of(&self, index: usize, runs: &[&Run]) -> Option<Expected> {
        let expected = Expected::of(runs, self.model_error(index), self.fault_cost(index))?;
        Some(expected.where_allowed(self.allowed_ppm()))
    }

    /// All major faults that cost the allowed slow-down, by the cost of a fault under this configuration; `None` where no replay had more
    /// faults than without limits.
    pub(super) fn allowed_faults(&self, index: usize) -> Option<u64> {
        let in_all = self.fault_cost(index).faults_in(self.slowdown.ppm())?;
        Some(self.player.unlimited.major_faults.saturating_add(in_all))
    }

    /// Number of replays that judge a size: with a sample as a scout, only replays of the whole count.
    pub(super) fn nr_judging(&self, index: usize, size: Bytes) -> usize {
        if self.is_scouted {
            self.player.pool.nr_whole_around(index, size)
        } else {
            self.player.pool.around(index, size).len()
        }
    }

    /// Cost of a major fault under a configuration.
    fn fault_cost(&self, index: usize) -> FaultCost {
        FaultCost::of(self.player.pool.of(index), self.player.unlimited.major_faults, self.slowdown.ppm())
    }

    pub(super) fn allowed_ppm(&self) -> u64 {
        Ratio::ONE.ppm() + self.slowdown.ppm()
    }

    /// Whether even the upper end of its interval is within the allowed slow-down, and it is no gamble.
    pub(super) fn is_fast_enough(&self, expected: &Expected) -> bool {
        expected.gamble.is_none() && expected.ratio.is_some_and(|ratio| ratio.high <= self.allowed_ppm())
    }
}
