//! A policy over tiers of memory in a scenario, and how it is attached to machines.

use crate::daemons::Site;
use crate::metrics::needs_promotions_judged;
use crate::validate::{Checked, Refused};
use crate::{Scenario, ScenarioError};
use isotherm_document::KeyPath;
use isotherm_units::Duration;

/// Interval at which touches of the tiers are sampled: the resolution of the time in which their shares settle.
const TOUCHES_EVERY: Duration = Duration::from_ms(250);

/// Whether the policy makes sense on the scenario's machine.
pub(crate) fn check(scenario: &Scenario) -> Checked {
    let Some(Err(error)) = scenario.tiering.as_ref().map(|tiering| tiering.check(&scenario.machine)) else {
        return Ok(());
    };
    Err(Refused::new(KeyPath::from("tiering").join(&*error.field), format!("[tiering] {error}")))
}

/// Attaches the policy to a machine, and its statistics.
pub(crate) fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError> {
    if let Some(tiering) = &site.scenario.tiering {
        site.builder.tiering(tiering, site.seed).map_err(site.error)?;
        site.builder.record_series(TOUCHES_EVERY);
        if needs_promotions_judged(&site.scenario.metrics) {
            site.builder.ground_truth();
        }
    }
    Ok(())
}
