//! Processes and their mappings.

use super::{AnyPolicy, Kit};
use crate::cgroup::CgroupId;
use crate::fault;
use crate::memory::FileId;
use crate::mmu::SpaceId;
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, FileKind, LayoutChange, Mapping, Sharing};

impl<P: AnyPolicy> Kit<P> {
    /// A process of `cgroup` with nothing mapped.
    pub fn process_of(&mut self, cgroup: CgroupId) -> SpaceId {
        let index = self.memory.spaces.len();
        fault::new_space(&mut self.memory, "process", (0, index), cgroup)
    }

    /// A process with `pages` of anonymous memory from page 0.
    pub fn anonymous(&mut self, pages: u64) -> SpaceId {
        let space = self.process_of(self.cgroup);
        self.map(space, Mapping::anonymous(PageRange::new(0, pages)));
        space
    }

    pub fn fork(&mut self, parent: SpaceId) -> SpaceId {
        let child = self.process_of(self.memory.space(parent).cgroup);
        fault::fork(&mut self.memory, parent, child).unwrap();
        self.policy.as_mut().forked(&mut self.memory, parent, child);
        self.after_step();
        child
    }

    pub fn exit(&mut self, space: SpaceId) {
        fault::exit(&mut self.memory, self.policy.as_mut(), space);
        self.after_step();
    }

    pub fn map(&mut self, space: SpaceId, mapping: Mapping) {
        fault::map(&mut self.memory, self.policy.as_mut(), space, mapping).unwrap();
    }

    /// Maps anonymous memory in which huge pages may be made.
    pub fn map_huge(&mut self, space: SpaceId, pages: PageRange) {
        self.map(space, Mapping { huge: true, ..Mapping::anonymous(pages) });
    }

    pub fn unmap(&mut self, space: SpaceId, pages: PageRange) {
        fault::unmap(&mut self.memory, self.policy.as_mut(), space, pages);
    }

    pub fn change(&mut self, space: SpaceId, change: LayoutChange) {
        fault::change_layout(&mut self.memory, self.policy.as_mut(), space, change, &[]).unwrap();
        self.after_step();
    }

    pub fn file(&mut self, name: &str, pages: u64) -> FileId {
        self.memory.files.open(name, FileKind::Regular, pages).expect("few files")
    }

    /// Maps `pages` of a file called `name`, which is that long, from virtual page `at` on.
    pub fn map_file(&mut self, space: SpaceId, name: &str, at: u64, pages: u64, sharing: Sharing, kind: FileKind) {
        let file = self.memory.files.open(name, kind, pages).expect("few files").index();
        let backing = Backing::File { file, first_page: 0, sharing };
        self.map(space, Mapping { backing, ..Mapping::anonymous(PageRange::at(at, pages)) });
    }

    /// Maps the first `pages` of a file, shared, from virtual page `at` on.
    pub fn map_open_file(&mut self, space: SpaceId, at: u64, file: FileId, pages: u64, executable: bool) {
        let backing = Backing::File { file: file.index(), first_page: 0, sharing: Sharing::Shared };
        self.map(space, Mapping { backing, executable, ..Mapping::anonymous(PageRange::at(at, pages)) });
    }
}
