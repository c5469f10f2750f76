//! Address spaces.

use super::{DensePage, PageTable, VmaList};
use crate::cgroup::CgroupId;
use crate::memory::FileId;
use crate::readahead::file::FileReadahead;
use crate::readahead::swap::VmaReadahead;
use isotherm_units::PageRange;
use std::collections::{BTreeMap, BTreeSet};

/// Index of an address space. At most 65 535 spaces are made in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub(crate) u16);

impl SpaceId {
    /// The space with this [`index`](Self::index).
    ///
    /// # Panics
    /// Above 65 535.
    pub fn from_index(index: usize) -> Self {
        Self(u16::try_from(index).expect("at most 65 535 spaces"))
    }
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The memory of one process.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    pub name: String,
    /// Program and process in it, as the machine numbers them.
    pub process: (usize, usize),
    /// The group that pays for its pages.
    pub cgroup: CgroupId,
    /// Mapped ranges.
    pub vmas: VmaList,
    pub table: PageTable,
    /// Spaces with which it may share anonymous pages after fork, itself included; empty without fork. Sharers map a page at
    /// the same address, so this list is the reverse map of shared anonymous pages.
    pub family: Vec<SpaceId>,
    /// Pages resident (anonymous and file), without the zero page.
    pub nr_resident: u64,
    /// Pages swapped out.
    pub nr_swapped: u64,
    /// Its memory policy keeps pages where they are: only the program itself moves them.
    pub is_bound: bool,
    /// False once its last thread has ended.
    pub alive: bool,
    /// Files it has open: all mappings and descriptors of a file in one space are one open file.
    pub open_files: BTreeMap<FileId, OpenFile>,
    /// Swap readahead of each mapped range, by the range's first page.
    pub swap_readahead: BTreeMap<u64, VmaReadahead>,
    /// Aligned 2 MiB blocks (first page / 512) that one huge entry maps.
    pub huge_blocks: BTreeSet<u64>,
    /// A bit per node (modulo 64): a thread of the space was switched to since a walk that ages pages of the node passed here.
    pub used: u64,
    /// Processors that run a thread of the space now: a flush of its translations interrupts them.
    pub running_cpus: u32,
    /// Flushes of its translations that interrupted a processor that ran it.
    pub shootdowns: u64,
}

/// Physical addresses of memory that has no frames: page `pages.start + i` lies in page frame number `first_frame + i`, behind
/// all frames of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PremappedFrames {
    /// The space that maps it.
    pub space: SpaceId,
    /// Virtual pages of the mapping.
    pub pages: PageRange,
    /// Page frame number of the first.
    pub first_frame: u64,
}

/// A file as one address space has it open.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFile {
    /// The state of readahead.
    pub readahead: FileReadahead,
    /// The page at which the last `read()` ended.
    pub last_read: Option<u64>,
}

impl AddressSpace {
    /// The dense number of `page`, whose page table is made now if it is the first touch near it: mapping costs nothing, for any size of
    /// the mapping. `None` when the process is spread over more than a table holds (16 384 blocks of 1 GiB).
    #[inline]
    pub fn reach(&mut self, page: u64) -> Option<DensePage> {
        if let Some(dense) = self.table.dense(page) {
            return Some(dense);
        }
        self.table.reserve(PageRange::at(page, 1)).ok()?;
        self.table.dense(page)
    }
}
