//! Share of the time in which all tasks waited for memory, and whether it exceeded its limit.

use isotherm_units::{Duration, Instant, Ratio};

/// Time for which pressure must stay below half of its limit before sections act again.
const CALM: Duration = Duration::from_secs(60);

/// Pressure of a group, or of the machine.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Pressure exceeded the limit, and has been below half of it since then.
    calm_since: Option<Instant>,
    is_tripped: bool,
    /// Of the last judgement; `None` before the first.
    pub(super) share: Option<Ratio>,
}

impl Meter {
    /// Whether pressure exceeded its limit and has not calmed down since.
    pub(super) fn has_tripped(&self) -> bool {
        self.is_tripped
    }

    pub(super) fn judge(&mut self, limit: Ratio, share: Ratio, now: Instant) {
        self.share = Some(share);
        if share > limit {
            self.is_tripped = true;
            self.calm_since = None;
        } else if !is_below_half(share, limit) {
            self.calm_since = None;
        } else if self.is_tripped {
            let since = *self.calm_since.get_or_insert(now);
            if now.since(since) >= CALM {
                self.is_tripped = false;
                self.calm_since = None;
            }
        }
    }
}

/// Whether this is too little pressure to matter.
pub(super) fn is_below_half(share: Ratio, limit: Ratio) -> bool {
    share.ppm().saturating_mul(2) < limit.ppm()
}

/// Share of the elapsed time. A total that went back is that of another group of the same name: 0.
pub(super) fn share(before: Duration, total: Duration, elapsed: Duration) -> Ratio {
    let stalled = u128::from(total.saturating_sub(before).ns()) * 1_000_000 / u128::from(elapsed.ns().max(1));
    Ratio::from_ppm(u64::try_from(stalled).unwrap_or(u64::MAX))
}
