//! Requests to the disk for pages of files.

use super::io::{Kind, Target};
use super::{FileId, Flag, FrameId, Frames, Memory, PageOwner};
use crate::swap::device::Transfer;
use smallvec::SmallVec;

impl Memory {
    /// Reads folios of `file`, named by their heads; folios that follow each other go in one request.
    pub fn submit_file_read(&mut self, file: FileId, frames: &[FrameId]) {
        self.submit_file(file, frames, Transfer::Read);
    }

    /// Writes pages of `file`, which are clean from now on, as are their folios: all dirty pages of a folio go together, in one request.
    /// They must be write-protected everywhere.
    pub fn submit_file_write(&mut self, file: FileId, frames: &[FrameId]) {
        self.submit_file(file, frames, Transfer::Write);
    }

    /// Writes a page of a file that gives its frame back at once; see
    /// [`submit_swap_write_detached`](Self::submit_swap_write_detached).
    pub fn submit_file_write_detached(&mut self, frame: FrameId) {
        debug_assert!(
            !self.frames.has(frame, Flag::Reading) && !self.frames.has(frame, Flag::Writeback),
            "one transfer a page"
        );
        let PageOwner::File { file, page } = self.frames.owner(frame) else { unreachable!("a page of a file") };
        self.frames.clear(frame, Flag::Dirty);
        self.forget_dirty(file, page);
        self.request(Target::Storage, file_position(file, page), 1, Transfer::Write);
    }

    fn submit_file(&mut self, file: FileId, frames: &[FrameId], transfer: Transfer) {
        let page_of = |frames: &Frames, frame| match frames.owner(frame) {
            PageOwner::File { page, .. } => page,
            PageOwner::Anonymous { .. } => unreachable!("a page of a file"),
        };
        // Readahead names them in order.
        let mut sorted = SmallVec::<[FrameId; 32]>::new();
        let frames = if frames.is_sorted_by_key(|&frame| page_of(&self.frames, frame)) {
            frames
        } else {
            sorted.extend_from_slice(frames);
            sorted.sort_unstable_by_key(|&frame| page_of(&self.frames, frame));
            &sorted
        };
        let mut left = frames;
        while let Some(&first) = left.first() {
            let start = page_of(&self.frames, first);
            let goes_on = |&(&frame, page): &(&FrameId, u32)| page_of(&self.frames, frame) == page;
            let (count, pages) = if self.frames.has_folios() {
                self.request_of_folios(left, transfer)
            } else {
                let count = left.iter().zip(start..).take_while(goes_on).count();
                (count, count as u64)
            };
            let (request, rest) = left.split_at(count);
            left = rest;
            let at = self.request(Target::Storage, file_position(file, start), pages, transfer);
            let Some(at) = at else { continue };
            let mut heads = SmallVec::<[FrameId; 32]>::new();
            let request = if self.frames.has_folios() {
                heads.extend(request.iter().map(|&frame| self.frames.head(frame)));
                heads.dedup();
                &heads
            } else {
                request
            };
            for &frame in request {
                debug_assert!(
                    !self.frames.flags(frame).has_any([Flag::Reading, Flag::Writeback]),
                    "one transfer a page"
                );
                match transfer {
                    Transfer::Read => self.frames.set(frame, Flag::Reading),
                    Transfer::Write => {
                        self.frames.update(frame, [Flag::Dirty], [Flag::Writeback]);
                    }
                }
            }
            let kind = if transfer == Transfer::Read { Kind::FileRead } else { Kind::FileWrite };
            self.io.push_all(at, kind, request.iter().copied());
        }
    }

    /// How many of `frames`, which are in the order of their pages, the next request takes, and its pages: to read, each stands for its
    /// folio; to write, each is a dirty page, and those of one folio go together.
    fn request_of_folios(&self, frames: &[FrameId], transfer: Transfer) -> (usize, u64) {
        let table = &self.frames;
        let place_of = |frame| match table.owner(frame) {
            PageOwner::File { page, .. } => u64::from(page),
            PageOwner::Anonymous { .. } => unreachable!("a page of a file"),
        };
        let length_of = |frame| if transfer == Transfer::Read { table.nr_pages(frame) } else { 1 };
        let goes_on = |one: FrameId, next: FrameId| {
            place_of(next) == place_of(one) + length_of(one) || table.head(next) == table.head(one)
        };
        let count = 1 + frames.windows(2).take_while(|pair| goes_on(pair[0], pair[1])).count();
        (count, frames[..count].iter().map(|&frame| length_of(frame)).sum())
    }
}

/// Where a file page lies on the disk: each file in one piece, files far apart.
fn file_position(file: FileId, page: u32) -> u64 {
    (file.index() as u64) << 32 | u64::from(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_far_apart() {
        assert_eq!(file_position(FileId(1), 0), 1 << 32);
    }
}
