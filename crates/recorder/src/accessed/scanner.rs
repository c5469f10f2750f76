//! Access to running processes for a recording.

use isotherm_trace::MapRange;
use isotherm_units::Duration;

/// A process, by a number from [`BitScanner`]. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who(pub u32);

/// A process started or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A process is there: at the start, by fork, or as another program after exec.
    Came {
        who: Who,
        pid: u32,
        name: String,
        /// Parent of the process, if the parent is recorded too.
        parent: Option<Who>,
        /// The memory started as a copy of the parent's, and the process has not called exec since.
        shares_with_parent: bool,
    },
    /// The process has ended, or runs another program now.
    Went(Who),
}

/// Why a scan failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// The process has ended, or runs another program now; the next [`BitScanner::changes`] reports it.
    #[error("the process has ended")]
    Gone,
    /// Another program took away a resource that scanning needs; the text names it.
    #[error("{0}")]
    Lost(String),
}

/// Bits of consecutive pages, 64 a word, bit 0 of the first word for the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// Accessed since the previous scan.
    pub young: Vec<u64>,
    /// Present in memory.
    pub present: Vec<u64>,
    /// Written since the previous scan.
    pub written: Vec<u64>,
}

impl Bits {
    /// Resizes for this number of pages, and clears all bits.
    pub fn resize(&mut self, pages: u64) {
        let words = usize::try_from(pages.div_ceil(64)).expect("ranges are looked at in pieces");
        for bits in [&mut self.young, &mut self.present, &mut self.written] {
            bits.clear();
            bits.resize(words, 0);
        }
    }
}

/// Scans running processes.
pub trait BitScanner {
    /// Bytes of a base page.
    fn page_bytes(&self) -> u64;

    /// Processes started and ended since the last call, in order; the first call reports all running ones.
    ///
    /// # Errors
    /// [`LookError::Lost`]: no process can be scanned any more.
    fn changes(&mut self) -> Result<Vec<Change>, LookError>;

    /// Mappings of a process, except those without pages of their own (devices, vdso). Ascending and disjoint, in pages.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn mappings(&mut self, who: Who) -> Result<Vec<MapRange>, LookError>;

    /// CPU time of all threads of a process so far.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn cpu_time(&mut self, who: Who) -> Result<Duration, LookError>;

    /// Reads the bits of the pages `[start, end)`, and clears the accessed and written bits. `bits` has room for all pages.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn look(&mut self, who: Who, start: u64, end: u64, bits: &mut Bits) -> Result<(), LookError>;

    /// Ends the scans of a process in an epoch: flushes the TLBs, so that the next access sets bits again.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn settle(&mut self, who: Who) -> Result<(), LookError>;
}
