//! What a recording of running processes looks through.

use isotherm_trace::MapRange;
use isotherm_units::Duration;

/// A process, by the number that the eyes gave it. Numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who(pub u32);

/// Somebody came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A process is there: at the beginning, by fork, or as another program after exec.
    Came {
        who: Who,
        pid: u32,
        name: String,
        /// Who started it, if that one is recorded too.
        parent: Option<Who>,
        /// Its memory began as a copy of its parent's, and it has not become another program since.
        shares_with_parent: bool,
    },
    /// It has ended, or is another program now.
    Went(Who),
}

/// Why a look failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// The process has ended, or is another program now; the next [`Eyes::changes`] says so.
    #[error("the process has ended")]
    Gone,
    /// Somebody took away what looking needs, in words.
    #[error("{0}")]
    Lost(String),
}

/// Bits of consecutive pages, 64 a word, bit 0 of the first word for the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// Used since the look before.
    pub young: Vec<u64>,
    /// Mapped to memory.
    pub present: Vec<u64>,
    /// Written since the look before.
    pub written: Vec<u64>,
}

impl Bits {
    /// For so many pages, all clear.
    pub fn resize(&mut self, pages: u64) {
        let words = usize::try_from(pages.div_ceil(64)).expect("ranges are looked at in pieces");
        for bits in [&mut self.young, &mut self.present, &mut self.written] {
            bits.clear();
            bits.resize(words, 0);
        }
    }
}

/// Looks at running processes.
pub trait Eyes {
    /// Bytes of a base page.
    fn page_bytes(&self) -> u64;

    /// Who came and went since the last call, in order; the first call tells all that are there.
    ///
    /// # Errors
    /// [`LookError::Lost`]: nobody can be watched any more.
    fn changes(&mut self) -> Result<Vec<Change>, LookError>;

    /// What a process maps, without what has no pages of its own (devices, vdso). Ascending and disjoint, in pages.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn mappings(&mut self, who: Who) -> Result<Vec<MapRange>, LookError>;

    /// CPU time of all threads of a process so far.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn cpu_time(&mut self, who: Who) -> Result<Duration, LookError>;

    /// Reads the bits of the pages `[start, end)` and clears those of use and writing. `bits` has room for all of them.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn look(&mut self, who: Who, start: u64, end: u64, bits: &mut Bits) -> Result<(), LookError>;

    /// All looks of an epoch at a process are done: cached translations are dropped, so that the next use sets bits again.
    ///
    /// # Errors
    /// [`LookError::Gone`], [`LookError::Lost`].
    fn settle(&mut self, who: Who) -> Result<(), LookError>;
}
