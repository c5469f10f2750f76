//! Messages to the service manager: the daemon is ready, reloads its configuration, ends, or is not stuck.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager, if one started us (`NOTIFY_SOCKET`).
#[derive(Debug, Default)]
pub(crate) struct Manager {
    /// Half of its watchdog timeout; `None` if it has no watchdog.
    watchdog: Option<Duration>,
    told: Cell<Option<Instant>>,
}

impl Manager {
    pub(crate) fn find() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled().map(|time| time / 2), told: Cell::default() }
    }

    /// Sends states; a failure is ignored.
    fn tell(states: &[NotifyState<'_>]) {
        let _ = sd_notify::notify(states);
    }

    pub(crate) fn ready(&self) {
        Self::tell(&[NotifyState::Ready]);
    }

    /// The configuration is about to be read again; [`ready`](Self::ready) follows.
    pub(crate) fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            Self::tell(&[NotifyState::Reloading, now]);
        }
    }

    pub(crate) fn stopping(&self) {
        Self::tell(&[NotifyState::Stopping]);
    }

    /// The loop has finished a turn.
    pub(crate) fn turned(&self) {
        let Some(every) = self.watchdog else { return };
        // A turn takes up to a second, so notify early rather than late.
        let every = every.saturating_sub(Duration::from_secs(1));
        if self.told.get().is_none_or(|told| told.elapsed() >= every) {
            self.told.set(Some(Instant::now()));
            Self::tell(&[NotifyState::Watchdog]);
        }
    }
}
