//! A race of the configurations that may be recommended, pair by pair: on equal limits, in equal worlds.
//!
//! Once one is settled, another can only matter if it does with about the same memory. So it is played there before the search for its own
//! border. The replays of a size have the numbers of the other's replays, and so the same draws.

use super::expected::Expected;
use super::judge::{EQUAL_STEPS, Judge};
use super::run::Run;
use isotherm_scenario::ScenarioError;
use isotherm_units::Bytes;

/// Whether a configuration needs clearly more than `best` on one of these releases: with a little more than that it is too slow, even
/// without the slowest of its replays there. Intervals of up to 39 replays leave out at most one, so more replays could not save it.
pub(super) fn is_beaten(releases: &mut [Judge<'_>], index: usize, best: Bytes) -> Result<bool, ScenarioError> {
    for judge in releases {
        let size = judge.player.on_lattice(Bytes::new(best.get() + EQUAL_STEPS * judge.player.step_at(best).get()));
        let lacks = judge.player.question.effort.to_compare().saturating_sub(judge.nr_judging(index, size));
        if lacks > 0 {
            judge.player.play_more(&[(index, size, lacks)])?;
        }
        let runs = without_slowest(judge.player.pool.around(index, size));
        let is_fast_enough = |rest: Expected| judge.is_fast_enough(&rest);
        let needs_more = judge.expected_of(index, &runs).is_some_and(|rest| !is_fast_enough(rest));
        // If the user stopped it, there may be too few replays to decide.
        if needs_more && judge.nr_judging(index, size) >= judge.player.question.effort.to_compare() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A replay that did not finish is the slowest.
fn without_slowest(mut runs: Vec<&Run>) -> Vec<&Run> {
    runs.sort_by_key(|run| run.ratio_ppm.unwrap_or(u64::MAX));
    runs.pop();
    runs
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    #[test]
    fn the_one_that_is_left_out_is_the_slowest() {
        let ratio = |faults, ratio_ppm| Run { ratio_ppm, ..run(Bytes::from_mib(1), faults) };
        let runs = [ratio(1, Some(1_200_000)), ratio(2, None), ratio(3, Some(1_000_000)), ratio(4, Some(1_400_000))];
        let faults = |runs: Vec<&Run>| runs.iter().map(|run| run.major_faults).collect::<Vec<u64>>();
        assert_eq!(faults(without_slowest(runs.iter().collect())), [3, 1, 4]);
        assert_eq!(faults(without_slowest(vec![&runs[0], &runs[2], &runs[3]])), [3, 1]);
        assert_eq!(faults(without_slowest(Vec::new())), [0_u64; 0]);
    }
}
