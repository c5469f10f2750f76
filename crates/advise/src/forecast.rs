//! Forecast of the work for an answer, made before it is planned, to show the remaining time.
//!
//! The search plans as it goes. A forecast from the planned work so far would be far too short for most of the time. So the amount measured
//! on the bundled recordings is announced at the start, and plans are subtracted from it until it is used up.

use super::Question;
use super::scale::Scale;
use isotherm_scenario::Progress;
use isotherm_trace::sample::SampleRate;
use std::sync::atomic::{AtomicU64, Ordering};

/// Progress of an answer.
pub(super) struct Forecast<'a> {
    progress: &'a dyn Progress,
    /// Work that was announced and not planned yet.
    ahead: AtomicU64,
}

/// Replays of the whole after a scout.
const AFTER_A_SCOUT: u64 = 28;

impl<'a> Forecast<'a> {
    pub(super) fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, ahead: AtomicU64::new(0) }
    }

    /// Announces the search on a recording each of whose pages represents `pages`.
    pub(super) fn expect_search(&self, question: &Question, pages: u32) {
        self.expect(replays_of_search(question) * Scale::units_of(pages));
    }

    /// Announces the search of a scout, and the replays after it.
    pub(super) fn expect_scouted(&self, question: &Question, rate: SampleRate) {
        self.expect_search(question, rate.get());
        self.expect(AFTER_A_SCOUT * question.kernels.len() as u64 * Scale::units_of(1));
    }

    fn expect(&self, work: u64) {
        self.ahead.fetch_add(work, Ordering::Relaxed);
        self.progress.planned(work);
    }
}

/// Replays of a search, by effort: a multiple of the configurations times the sizes (`docs/use/advise.md#effort`).
fn replays_of_search(question: &Question) -> u64 {
    let shape = (question.candidates().len() * question.memory.len() * question.kernels.len()) as u64;
    shape * question.effort.replays_per_shape_tenths() / 10
}

impl Progress for Forecast<'_> {
    fn planned(&self, work: u64) {
        let take = |ahead: u64| Some(ahead.saturating_sub(work));
        let ahead = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        self.progress.planned(work.saturating_sub(ahead));
    }
    fn done(&self, work: u64) {
        self.progress.done(work);
    }
    fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Progress for Sum {
        fn planned(&self, work: u64) {
            self.0.fetch_add(work, Ordering::Relaxed);
        }
        fn done(&self, _work: u64) {}
    }

    #[test]
    fn plans_are_taken_from_what_was_announced() {
        let sum = Sum::default();
        let forecast = Forecast::new(&sum);
        let total = || sum.0.load(Ordering::Relaxed);
        forecast.planned(5);
        assert_eq!(total(), 5, "nothing was announced");
        forecast.expect(100);
        assert_eq!(total(), 105);
        forecast.planned(60);
        assert_eq!(total(), 105);
        forecast.planned(60);
        assert_eq!(total(), 125, "20 more than announced");
        forecast.planned(1);
        assert_eq!(total(), 126);
    }
}
