//! Tools over generations as one daemon.

use super::{
    Estimator, EstimatorConfig, GenerationWhy, GenerationsError, Pass, Reading, Reclaimer, ReclaimerConfig,
    explain_estimator, explain_reclaimer,
};
use crate::daemon::{Account, Daemon, DaemonError, Report};
use crate::host::GenerationsHost;
use isotherm_units::Instant;
use serde::{Deserialize, Serialize};

/// Kind and settings of a tool: `mode` and its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum ToolConfig {
    /// Estimates the working set.
    Estimate(EstimatorConfig),
    /// Evicts old generations before memory is short.
    Reclaim(ReclaimerConfig),
}

impl ToolConfig {
    /// Paths of the groups that the tool works on.
    pub fn targets(&self) -> &[String] {
        match self {
            Self::Estimate(config) => &config.targets,
            Self::Reclaim(config) => &config.targets,
        }
    }

    /// The settings with these groups as targets.
    #[must_use]
    pub fn with_targets(self, targets: Vec<String>) -> Self {
        match self {
            Self::Estimate(config) => Self::Estimate(EstimatorConfig { targets, ..config }),
            Self::Reclaim(config) => Self::Reclaim(ReclaimerConfig { targets, ..config }),
        }
    }

    /// Checks all values.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), GenerationsError> {
        match self {
            Self::Estimate(config) => config.validate(),
            Self::Reclaim(config) => config.validate(),
        }
    }
}

/// A running tool.
#[derive(Debug)]
pub enum Tool {
    /// Estimates the working set.
    Estimate(Box<Estimator>),
    /// Evicts old generations.
    Reclaim(Box<Reclaimer>),
}

/// The result of one run of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The estimator's reading.
    Estimate(Reading),
    /// Generations were read, and the old ones were evicted.
    Reclaim(Pass),
}

/// Counts of a tool's work so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAccount {
    /// Counts of what happened to the groups.
    pub why: GenerationWhy,
    /// Intervals without a reading because it came too late.
    pub missed: u64,
}

impl Tool {
    /// A tool that begins at `now`.
    ///
    /// # Errors
    /// An invalid value.
    pub fn start(config: ToolConfig, now: Instant) -> Result<Self, GenerationsError> {
        Ok(match config {
            ToolConfig::Estimate(config) => {
                let mut tool = Estimator::new(config)?;
                tool.start(now);
                Self::Estimate(Box::new(tool))
            }
            ToolConfig::Reclaim(config) => {
                let mut tool = Reclaimer::new(config)?;
                tool.start(now);
                Self::Reclaim(Box::new(tool))
            }
        })
    }

    fn why(&self) -> GenerationWhy {
        match self {
            Self::Estimate(tool) => tool.why().clone(),
            Self::Reclaim(tool) => tool.why(),
        }
    }
}

impl<H: GenerationsHost> Daemon<H> for Tool {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        match self {
            Self::Estimate(tool) => tool.poll_timeout(),
            Self::Reclaim(tool) => tool.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, _worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        // What the host refuses is counted among the reasons.
        Ok(Report::Generations(match self {
            Self::Estimate(tool) => tool.handle_timeout(now, host).map(Sample::Estimate),
            Self::Reclaim(tool) => tool.handle_timeout(now, host).map(Sample::Reclaim),
        }))
    }

    fn account(&self) -> Account {
        let missed = match self {
            Self::Estimate(tool) => tool.missed(),
            Self::Reclaim(tool) => tool.missed(),
        };
        Account::Generations(ToolAccount { why: self.why(), missed })
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Estimate(tool) => explain_estimator(tool.config(), &self.why()),
            Self::Reclaim(tool) => explain_reclaimer(tool.config(), &self.why()),
        }
    }
}
