//! What the service manager is told: that the daemon is ready, reads its configuration, ends, and is not stuck.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager, if one started us (`NOTIFY_SOCKET`).
#[derive(Debug, Default)]
pub(crate) struct Manager {
    /// Half of the time after which it takes us for stuck; `None`: it does not watch.
    watchdog: Option<Duration>,
    told: Cell<Option<Instant>>,
}

impl Manager {
    pub(crate) fn find() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled().map(|time| time / 2), told: Cell::default() }
    }

    /// Nothing depends on whether it hears.
    fn tell(states: &[NotifyState<'_>]) {
        let _ = sd_notify::notify(states);
    }

    pub(crate) fn ready(&self) {
        Self::tell(&[NotifyState::Ready]);
    }

    /// The configuration is about to be read anew; [`ready`](Self::ready) follows.
    pub(crate) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            Self::tell(&[NotifyState::Reloading, now]);
        }
    }

    pub(crate) fn stopping(&self) {
        Self::tell(&[NotifyState::Stopping]);
    }

    /// The loop has turned.
    pub(crate) fn turned(&self) {
        let Some(every) = self.watchdog else { return };
        // A turn takes up to a second: rather too often than too late.
        let every = every.saturating_sub(Duration::from_secs(1));
        if self.told.get().is_none_or(|told| told.elapsed() >= every) {
            self.told.set(Some(Instant::now()));
            Self::tell(&[NotifyState::Watchdog]);
        }
    }
}
