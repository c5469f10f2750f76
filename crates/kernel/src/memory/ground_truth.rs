//! Every use of every page: the truth that estimates are compared with. Nothing on the machine can see it, and it costs no
//! simulated time.

use super::{Flag, FrameId, Memory};
use crate::cgroup::CgroupId;
use crate::mmu::SpaceId;
use isotherm_units::Instant;
use isotherm_units::access::Run;
use serde::Serialize;

/// When the page in each frame was used last.
#[derive(Clone, Debug)]
pub struct GroundTruth {
    /// Last use by frame: one plus nanoseconds since the start; 0: not since it was allocated.
    last_use: Vec<u64>,
    /// No frame from here on was ever used.
    end: usize,
    /// By frame: one plus the time when its page was promoted to it, as long as that promotion was not judged.
    promoted_at: Vec<u64>,
    /// Pages that were promoted and not used before they left their frame.
    in_vain: u64,
    /// Last uses of pages whose frames belong to others by now, and the groups that the pages were charged to.
    gone: Vec<(u64, CgroupId)>,
}

/// Pages that were used in a window. A page that several processes map counts once; uses through descriptors are not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// Used pages that still exist.
    pub present_pages: u64,
    /// All used pages, including pages that were freed since.
    pub touched_pages: u64,
}

impl GroundTruth {
    /// Ground truth for this number of frames, none used yet.
    pub fn new(frames: usize) -> Self {
        // Fresh zero pages: only those of used frames are ever touched.
        Self { last_use: vec![0; frames], end: 0, promoted_at: Vec::new(), in_vain: 0, gone: Vec::new() }
    }

    /// A page was promoted to this frame.
    pub(crate) fn promoted(&mut self, frame: FrameId, now: Instant) {
        if self.promoted_at.is_empty() {
            self.promoted_at = vec![0; self.last_use.len()];
        }
        self.promoted_at[frame.index()] = now.ns() + 1;
    }

    /// Pages that were promoted and not used since, or not before they left.
    pub fn promoted_in_vain(&self) -> u64 {
        let still = self.promoted_at.iter().zip(&self.last_use).filter(|&(&at, &used)| at > 0 && used <= at).count();
        self.in_vain + still as u64
    }

    /// The page leaves the frame: whether its promotion was useless is known by now.
    fn judge(&mut self, frame: FrameId) {
        let Some(at) = self.promoted_at.get_mut(frame.index()).map(std::mem::take).filter(|at| *at > 0) else { return };
        self.in_vain += u64::from(self.last_use[frame.index()] <= at);
    }

    /// The frame holds another page from now on; the one before was charged to that group.
    pub(crate) fn forget(&mut self, frame: FrameId, before: CgroupId) {
        let index = frame.index();
        self.judge(frame);
        if index < self.end && self.last_use[index] > 0 {
            self.gone.push((std::mem::take(&mut self.last_use[index]), before));
        }
    }
}

impl GroundTruth {
    /// The page in `from` is in `to`, which held another one before.
    pub(crate) fn relocate(&mut self, from: FrameId, to: FrameId, before: CgroupId) {
        debug_assert!(from != to, "a page moves to another frame");
        self.forget(to, before);
        self.judge(from);
        let used = std::mem::take(&mut self.last_use[from.index()]);
        if used > 0 {
            self.last_use[to.index()] = used;
            self.end = self.end.max(to.index() + 1);
        }
    }
}

impl Memory {
    /// Notes the accesses that a process played up to now.
    pub fn ground_truth_uses(&mut self, space: SpaceId, runs: &[Run]) {
        let Some(ground_truth) = &mut self.ground_truth else { return };
        let owner = &self.spaces[space.index()];
        let used = self.now.ns() + 1;
        for run in runs {
            for frame in (run.range().start..run.range().end).filter_map(|page| owner.table.frame_at(page)) {
                ground_truth.last_use[frame.index()] = used;
                ground_truth.end = ground_truth.end.max(frame.index() + 1);
            }
        }
    }

    /// Pages charged to these groups that were used after `since`; `None` without ground truth.
    pub fn used_after(&self, since: Instant, groups: &[CgroupId]) -> Option<Used> {
        let ground_truth = self.ground_truth.as_ref()?;
        let counts = |last: u64, group: CgroupId| last > since.ns() + 1 && groups.contains(&group);
        let gone = ground_truth.gone.iter().filter(|&&(last, group)| counts(last, group));
        let mut used = Used { present_pages: 0, touched_pages: gone.count() as u64 };
        for (frame, &last) in (0..).map(FrameId::new).zip(&ground_truth.last_use[..ground_truth.end]) {
            if last > 0 && counts(last, self.frames.cgroup(frame)) {
                used.touched_pages += 1;
                used.present_pages += u64::from(self.frames.has(frame, Flag::OnList));
            }
        }
        Some(used)
    }
}
