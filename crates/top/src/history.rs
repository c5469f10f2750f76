//! The frames received, bounded.

use std::collections::VecDeque;

use crate::Frame;

/// Rows, regions and generations that are kept, at most.
const PARTS_MAX: usize = 400_000;
/// Frames that are kept, at most.
const FRAMES_MAX: usize = 4096;

/// Frames by time. When it is full, every other frame of the older half is dropped: the whole time stays visible, the older part
/// more coarsely.
#[derive(Debug, Default)]
pub(crate) struct History {
    frames: VecDeque<Frame>,
    parts: usize,
}

impl History {
    pub(crate) fn push(&mut self, frame: Frame) {
        self.parts += frame.parts();
        self.frames.push_back(frame);
        while (self.frames.len() > FRAMES_MAX || self.parts > PARTS_MAX) && self.frames.len() > 2 {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let older = (self.frames.len() / 2).max(2);
        let mut index = 0;
        self.frames.retain(|_| {
            index += 1;
            index > older || index % 2 == 1
        });
        self.parts = self.frames.iter().map(Frame::parts).sum();
    }

    /// Oldest first.
    pub(crate) fn frames(&self) -> &VecDeque<Frame> {
        &self.frames
    }

    pub(crate) fn newest(&self) -> Option<&Frame> {
        self.frames.back()
    }

    /// The newest frame not after `at_ns`; the oldest if all are after.
    pub(crate) fn at(&self, at_ns: u64) -> Option<&Frame> {
        let after = self.frames.partition_point(|frame| frame.at_ns <= at_ns);
        self.frames.get(after.saturating_sub(1))
    }

    /// The newest frame after `from_ns` and not after `to_ns`.
    pub(crate) fn within(&self, from_ns: Option<u64>, to_ns: u64) -> Option<&Frame> {
        let after = self.frames.partition_point(|frame| frame.at_ns <= to_ns);
        let frame = self.frames.get(after.checked_sub(1)?)?;
        from_ns.is_none_or(|from_ns| frame.at_ns > from_ns).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_history_keeps_its_span_and_its_newest_frames() {
        let mut history = History::default();
        for at_ns in 0..20_000 {
            history.push(Frame { at_ns, ..Frame::default() });
        }
        let frames = history.frames();
        assert!(frames.len() <= FRAMES_MAX && frames.len() > FRAMES_MAX / 2, "{}", frames.len());
        assert_eq!((frames[0].at_ns, frames.back().unwrap().at_ns), (0, 19_999));
        assert!(frames.iter().rev().take(1000).map(|frame| frame.at_ns).eq((19_000..20_000).rev()));
        assert_eq!(history.within(Some(19_998), 30_000).unwrap().at_ns, 19_999);
        assert!(history.within(Some(19_999), 30_000).is_none());
        assert_eq!(history.at(0).unwrap().at_ns, 0);
    }
}
