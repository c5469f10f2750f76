//! How many moves of a space failed, in windows that fade: patch version 3 (docs/spec/promotion.md#s2-3).

/// Attempts of one window.
const WINDOW: u64 = 1024;

/// Moves of one space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Feedback {
    succeeded: u64,
    failed: u64,
    in_window: [u64; 2],
}

impl Feedback {
    /// Counts moves. Each window of 1024 attempts halves the earlier sum twice and adds its own.
    pub(super) fn count(&mut self, succeeded: u64, failed: u64) {
        self.in_window[0] += succeeded;
        self.in_window[1] += failed;
        if self.in_window[0] + self.in_window[1] >= WINDOW {
            let [succeeded, failed] = std::mem::take(&mut self.in_window);
            self.succeeded = (self.succeeded >> 2) + succeeded;
            self.failed = (self.failed >> 2) + failed;
        }
    }

    /// Failed moves of all, in percent; 0 before the first window is full.
    pub(super) fn failed_percent(&self) -> u64 {
        100 * self.failed / (self.succeeded + self.failed).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/promotion.md#s7, example 16.
    #[test]
    fn windows_fade_by_four() {
        let mut feedback = Feedback::default();
        feedback.count(768, 255);
        assert_eq!(feedback.failed_percent(), 0, "the window is one short");
        feedback.count(0, 1);
        assert_eq!((feedback.succeeded, feedback.failed, feedback.failed_percent()), (768, 256, 25), "example 16");
        feedback.count(0, 1024);
        assert_eq!((feedback.succeeded, feedback.failed, feedback.failed_percent()), (192, 1088, 85), "example 16");
    }
}
