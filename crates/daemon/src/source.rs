//! Sources of findings: one implementation for each way of sampling memory.

use isotherm_core::host::AddressRange;
use isotherm_core::monitor::RegionRecord;
use isotherm_units::{Duration, Instant};

/// A way to sample memory repeatedly.
pub trait Source {
    /// Time of the next sample; `None` if the source has ended.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Samples, if a sample is due, and appends its findings.
    ///
    /// # Errors
    /// The source cannot go on. Earlier findings stay valid.
    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError>;

    /// CPU time that kernel threads used for it so far, which the [`Meter`](isotherm_units::Meter) does not see.
    fn spent_by_kernel(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Multiplies its intervals by `stretch` from now on; 1 is as configured.
    ///
    /// # Errors
    /// Why the source cannot change its pace; it goes on as before.
    fn stretch(&mut self, stretch: u32, now: Instant) -> Result<(), SourceError>;
}

/// A finding of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Regions of one target.
    Regions(RegionLook),
    /// A target was added; its regions follow.
    Came {
        /// Index of the target, as in [`RegionLook::target`].
        target: u32,
        pid: Option<u32>,
        name: String,
    },
    /// A target has ended, or now runs another program.
    Went {
        /// Index of the target.
        target: u32,
    },
    /// An unusual event, as text.
    Said(String),
}

/// Regions of one target at the end of an aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionLook {
    /// Index of the target, in the order in which they were given or came.
    pub target: u32,
    /// End of the aggregation.
    pub at: Instant,
    /// Length of the aggregation.
    pub elapsed: Duration,
    /// Interval between two samples.
    pub sample_interval: Duration,
    /// Aggregation interval as in force.
    pub aggr_interval: Duration,
    /// Ascending and disjoint.
    pub regions: Vec<RegionRecord>,
}

impl RegionLook {
    /// Bytes of regions in which any sample was positive, and bytes of all regions.
    pub fn used_and_all(&self) -> (u64, u64) {
        let bytes = |region: &AddressRange| region.len();
        let used = self.regions.iter().filter(|region| region.nr_accesses > 0).map(|region| bytes(&region.range)).sum();
        (used, self.regions.iter().map(|region| bytes(&region.range)).sum())
    }
}

/// Why a source cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The target has ended, or now runs another program. This ends a run and is not a failure.
    #[error("{0}")]
    Gone(String),
    /// Another process took away a resource that the source needs.
    #[error("{0}")]
    Lost(String),
    /// Any other cause.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}
