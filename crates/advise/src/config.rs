//! The recommended configuration as a scenario.

use super::candidate::CANDIDATES;
use super::choice::percent;
use super::judge::Judge;
use isotherm_scenario::single::name_of;
use isotherm_scenario::{ExpectationSpec, Scenario, VariantSpec};
use isotherm_units::Bytes;

/// Name of the program without limits, in the scenario that advice writes.
const WITHOUT_LIMITS: &str = "without limits";

/// A configuration with a limit, for a user to play: in the worlds of the replays behind its figures, next to the program without
/// limits.
pub(super) fn scenario_for(judge: &Judge<'_>, index: usize, size: Bytes) -> Scenario {
    let player = &judge.player;
    let scenario = player.whole_scenario(&CANDIDATES[index], size);
    let runtime = player.recording.runtime;
    let runs = player.pool.around(index, size);
    let worlds = runs.iter().map(|run| player.draw(run.draw).world(player.left_for_program(run.limit), runtime));
    let own = name_of(&scenario.policy, scenario.limit);
    let is_fast_enough = ExpectationSpec {
        workload: player.question.name.clone(),
        variant: own.clone(),
        metric: "runtime_ns".to_owned(),
        against: Some(WITHOUT_LIMITS.to_owned()),
        at_least: None,
        at_most: Some(judge.allowed_ppm() as f64 / 1e6),
        source: format!("at most {} slower was asked for", percent(judge.slowdown.ppm())),
    };
    Scenario {
        worlds: worlds.collect(),
        against: Some(WITHOUT_LIMITS.to_owned()),
        variants: vec![
            VariantSpec { name: own, only: Vec::new(), patch: toml::Table::new() },
            VariantSpec { name: WITHOUT_LIMITS.to_owned(), only: Vec::new(), patch: patch_without_limits() },
        ],
        expectations: vec![is_fast_enough],
        ..scenario
    }
}

/// The changes of [`without_limits`](isotherm_scenario::single::without_limits), as a patch.
fn patch_without_limits() -> toml::Table {
    toml::toml! {
        policy = "fifo"
        limit = "256GiB"
        other-tasks = "0"
        machine.nodes = [{ memory = "256GiB" }]
        monitors = []
        generations = []
        limits = []
    }
}
