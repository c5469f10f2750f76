//! Where findings come from: one implementation for each way of looking.

use isotherm_core::host::AddressRange;
use isotherm_core::monitor::RegionRecord;
use isotherm_units::{Duration, Instant};

/// A way to look at memory again and again.
pub trait Source {
    /// When it wants to look next; `None`: it has ended.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Looks, if it is due. Appends what it found.
    ///
    /// # Errors
    /// It cannot go on. What was found before is right.
    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError>;

    /// CPU time that threads of the kernel took for it so far, which the [`Meter`](crate::Meter) does not see.
    fn spent_by_kernel(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Looks only once in `stretch` times its intervals from now on; 1 is as it was asked for.
    ///
    /// # Errors
    /// It cannot change its pace, in words; it goes on as before.
    fn stretch(&mut self, stretch: u32, now: Instant) -> Result<(), SourceError>;
}

/// Something that a source found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Regions of one target.
    Regions(RegionLook),
    /// A target came; its regions follow.
    Came {
        /// Its index, as in [`RegionLook::target`].
        target: u32,
        pid: Option<u32>,
        name: String,
    },
    /// A target has ended, or is another program now.
    Went {
        /// Its index.
        target: u32,
    },
    /// Something out of the ordinary, in words.
    Said(String),
}

/// The regions of one target at the end of an aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionLook {
    /// Index of the target, in the order in which they were given or came.
    pub target: u32,
    /// End of the aggregation.
    pub at: Instant,
    /// Its length.
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
    /// The target has ended, or is another program now. The end of a run, not a failure.
    #[error("{0}")]
    Gone(String),
    /// Somebody took away what it needs.
    #[error("{0}")]
    Lost(String),
    /// Whatever else.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}
