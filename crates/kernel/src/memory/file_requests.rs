//! Requests to the disk for pages of files.

use super::io::{Kind, Target};
use super::{FileId, Flag, FrameId, Frames, Memory, PageOwner};
use crate::swap::device::Transfer;
use smallvec::SmallVec;

impl Memory {
    /// Reads pages of `file`; pages that follow each other go in one request.
    pub fn submit_file_read(&mut self, file: FileId, frames: &[FrameId]) {
        self.submit_file(file, frames, Transfer::Read);
    }

    /// Writes pages of `file`, which are clean from now on. They must be write-protected everywhere.
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
            let (request, rest) = left.split_at(left.iter().zip(start..).take_while(goes_on).count());
            left = rest;
            let at = self.request(Target::Storage, file_position(file, start), request.len() as u64, transfer);
            let Some(at) = at else { continue };
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
