//! One run of a scenario, for callers that judge its outcome themselves: advice, which plays the same recording many times.

pub use crate::assemble::{Limits, Peaks, group_path};
pub use crate::metrics::{fast_settled_ns, fast_shares};
pub use crate::run::{check_ended, without_limits};
pub use crate::variant::{Variant, name_of};

use crate::ScenarioError;
use crate::assemble;
use crate::monitoring::Watching;
use crate::run::Unit;
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_sim::machine::{MachineBuilder, Outcome, SimError};
use isotherm_units::{Duration, Instant};
use isotherm_workload::BuildContext;

impl Variant {
    /// The machine that plays it, before it is finished: only its first workload, or all workloads if they share the machine. Monitors run
    /// unless limits are off; effects of their schemes are in the outcome.
    ///
    /// # Errors
    /// The machine or a workload cannot be made.
    ///
    /// # Panics
    /// Without workloads.
    pub fn builder(&self, context: &BuildContext, limits: Limits<'_>) -> Result<MachineBuilder, ScenarioError> {
        let watching = match limits {
            Limits::Off => Watching::Off,
            Limits::Of(_) => Watching::On { period: None, emit: None },
        };
        let (builder, _observers) =
            assemble::builder(self, &self.unit(), context, limits, watching, &AddedPolicies::default())?;
        Ok(builder)
    }

    /// Plays that machine to its end. `sample`: interval at which the memory charge is sampled.
    ///
    /// # Errors
    /// Errors of [`Self::builder`], or the machine broke.
    ///
    /// # Panics
    /// As [`Self::builder`].
    pub fn play(
        &self,
        context: &BuildContext,
        limits: Limits<'_>,
        sample: Option<Duration>,
    ) -> Result<Outcome, ScenarioError> {
        let mut builder = self.builder(context, limits)?;
        if let Some(sample) = sample {
            builder.record_series(sample);
        }
        let outcome = builder.build().run(Instant::START + self.scenario.until);
        outcome.map_err(|source| self.failed(source))
    }

    /// The error of that machine when it broke.
    ///
    /// # Panics
    /// As [`Self::builder`].
    pub fn failed(&self, source: SimError) -> ScenarioError {
        self.unit().failed(self, source)
    }

    fn unit(&self) -> Unit {
        Unit::all(&self.scenario).swap_remove(0)
    }
}
