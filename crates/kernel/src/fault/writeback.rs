//! Dirty file pages on their way to the disk: the flusher (docs/spec/classic-lru.md#s3-4).
//!
//! As in Linux a file is written as a whole once its oldest dirty page is 30 s old; the flusher checks every 5 s, or when reclaim wakes it
//! because it finds only dirty pages. Not modelled: throttling of writers by dirty ratios.

use crate::memory::{CachePage, FileId, Flag, FrameId, Memory, PageOwner};
use isotherm_units::access::FileKind;
use isotherm_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Age at which dirty pages are written (`dirty_expire_centisecs`).
const DIRTY_EXPIRE: Duration = Duration::from_secs(30);

/// File pages that are dirty and not being written.
#[derive(Clone, Debug, Default)]
pub struct Flusher {
    dirty: BTreeMap<FileId, DirtyFile>,
}

#[derive(Clone, Debug)]
struct DirtyFile {
    /// Time at which the oldest of them became dirty.
    since: Instant,
    pages: BTreeSet<u32>,
}

impl Flusher {
    /// Pages that are dirty and not being written.
    pub fn nr_dirty(&self) -> u64 {
        self.dirty.values().map(|file| file.pages.len() as u64).sum()
    }

    /// Whether the page is listed as dirty.
    pub(crate) fn has(&self, file: FileId, page: u32) -> bool {
        self.dirty.get(&file).is_some_and(|file| file.pages.contains(&page))
    }
}

/// Work of the flusher every 5 s: writes the files whose dirty pages are old enough.
pub fn flush_old(memory: &mut Memory) {
    let now = memory.now;
    let old = memory.flusher.dirty.iter().filter(|(_, dirty)| now.since(dirty.since) >= DIRTY_EXPIRE);
    let files: Vec<FileId> = old.map(|(&file, _)| file).collect();
    files.into_iter().for_each(|file| memory.write_file(file));
}

impl Memory {
    /// Marks a page of a file dirty, and with it its folio. Pages of regular files are written by the flusher some time later.
    pub fn dirty_file_page(&mut self, frame: FrameId) {
        let PageOwner::File { file, page } = self.frames.owner(frame) else { unreachable!("a page of a file") };
        let head = self.frames.head(frame);
        self.frames.set(head, Flag::Dirty);
        if self.files.get(file).kind == FileKind::Regular {
            let now = self.now;
            let fresh = || DirtyFile { since: now, pages: BTreeSet::new() };
            self.flusher.dirty.entry(file).or_insert_with(fresh).pages.insert(page);
        }
    }

    /// Begins to write all dirty file pages, of any age: reclaim found too many of them. The CPU time is the flusher's, not the caller's.
    pub fn wake_flusher(&mut self) {
        let ledger = self.ledger;
        let files: Vec<FileId> = self.flusher.dirty.keys().copied().collect();
        files.into_iter().for_each(|file| self.write_file(file));
        self.ledger = ledger;
    }

    /// Begins to write the dirty pages of one file. Pages still under an earlier write stay dirty.
    fn write_file(&mut self, file: FileId) {
        let Some(DirtyFile { pages, .. }) = self.flusher.dirty.remove(&file) else { return };
        let mut frames = Vec::with_capacity(pages.len());
        let mut busy = BTreeSet::new();
        for page in pages {
            let CachePage::Frame(frame) = self.files.get(file).page(u64::from(page)) else {
                debug_assert!(false, "dirty pages stay cached");
                continue;
            };
            if self.frames.has(self.frames.head(frame), Flag::Writeback) {
                busy.insert(page);
                continue;
            }
            for mapper in self.mappers(frame) {
                self.space_mut(mapper.space).table.clean_and_protect(mapper.page);
            }
            frames.push(frame);
        }
        // A folio is looked up, locked and begun once.
        let nr_folios = frames.chunk_by(|&one, &other| self.frames.head(one) == self.frames.head(other)).count();
        self.ledger.spend(nr_folios as u64 * self.costs.writeback_page_ns);
        self.submit_file_write(file, &frames);
        if !busy.is_empty() {
            let since = self.now;
            self.flusher.dirty.insert(file, DirtyFile { since, pages: busy });
        }
    }

    /// Takes a page off the flusher's list, because it is freed or was written by another thread.
    pub(crate) fn forget_dirty(&mut self, file: FileId, page: u32) {
        if let Some(dirty) = self.flusher.dirty.get_mut(&file) {
            dirty.pages.remove(&page);
            if dirty.pages.is_empty() {
                self.flusher.dirty.remove(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter::PgFault;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::access::Sharing;

    fn at(rig: &mut Rig, seconds: u64) {
        rig.pass_time(Instant::START + Duration::from_secs(seconds));
        flush_old(&mut rig.memory);
        rig.check();
    }

    #[test]
    fn a_file_is_written_when_its_oldest_dirty_page_is_30_s_old() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.space();
        rig.map_file(space, "data", 0, 64, Sharing::Shared, FileKind::Regular);
        rig.write(space, 3);
        at(&mut rig, 20);
        rig.write(space, 9);
        at(&mut rig, 25);
        assert_eq!(rig.memory.flusher.nr_dirty(), 2);
        at(&mut rig, 31);
        assert_eq!((rig.memory.flusher.nr_dirty(), rig.memory.io.writes_in_flight()), (0, 2));
        assert!(rig.has(space, 3, Flag::Writeback) && !rig.has(space, 3, Flag::Dirty));
        assert!(!rig.is_writable(space, 3), "the next store is seen");
        let faults = rig.count(PgFault);
        rig.write(space, 3); // while it is being written
        assert_eq!((rig.count(PgFault) - faults, rig.memory.flusher.nr_dirty()), (1, 1));
        rig.memory.wake_flusher();
        assert_eq!(rig.memory.flusher.nr_dirty(), 1, "still under the earlier write");
        rig.settle();
        assert!(!rig.has(space, 9, Flag::Writeback));
        rig.memory.wake_flusher();
        rig.settle();
        assert_eq!((rig.memory.flusher.nr_dirty(), rig.memory.io.nr_in_flight()), (0, 0));
    }

    #[test]
    fn reclaim_marks_dirty_pages_and_gets_them_at_the_tail_when_they_are_clean() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.space();
        rig.map_file(space, "data", 0, 64, Sharing::Shared, FileKind::Regular);
        rig.write(space, 3);
        assert!(rig.reclaim(32) >= 31, "all but the dirty page");
        assert_eq!(rig.memory.files.get(FileId::from_index(0)).nr_cached, 1);
        rig.memory.ledger.take();
        rig.memory.wake_flusher();
        assert_eq!(rig.memory.ledger.take(), 0, "the flusher's time");
        rig.settle();
        assert_eq!(rig.policy.nr_rotated, 1);
        assert_eq!(rig.reclaim(32), 1);
        rig.exit(space);
        rig.assert_empty();
    }
}
