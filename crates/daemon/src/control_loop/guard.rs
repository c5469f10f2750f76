//! The guard: pauses all sections that act while memory is short, or while an operator asks for it.

use super::System;
use crate::config::GuardConfig;
use isotherm_units::{Duration, Instant, Ratio};

/// Shortest time over which a share is computed.
const WINDOW: Duration = Duration::from_secs(1);
/// Time for which pressure must stay below half of its limit before sections act again.
const CALM: Duration = Duration::from_secs(60);

/// Whether sections may act.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Time and value of the last reading of pressure.
    before: Option<(Instant, Duration)>,
    /// Pressure exceeded the limit, and has been below half of it since then.
    calm_since: Option<Instant>,
    is_tripped: bool,
    share: Option<Ratio>,
}

impl Guard {
    /// Why no section may act now; `None` if they may.
    pub(crate) fn look(&mut self, config: &GuardConfig, now: Instant, world: &mut dyn System) -> Option<String> {
        if world.is_there(&config.file) {
            return Some(format!("the file {} is there; remove it to go on", config.file));
        }
        if config.pressure_full >= Ratio::ONE {
            return None;
        }
        let Some(total) = world.full_stall() else {
            return Some(
                "this kernel does not tell memory pressure (PSI), so that nobody would see harm: boot with psi=1, or switch the guard \
                 off by [guard] pressure-full = \"100%\""
                    .to_owned(),
            );
        };
        let Some((since, before)) = self.before else {
            self.before = Some((now, total));
            return Some("pressure is not known yet: it takes a second".to_owned());
        };
        let elapsed = now.since(since);
        if elapsed >= WINDOW {
            self.before = Some((now, total));
            let stalled = u128::from(total.saturating_sub(before).ns()) * 1_000_000 / u128::from(elapsed.ns().max(1));
            let share = Ratio::from_ppm(u64::try_from(stalled).unwrap_or(u64::MAX));
            self.share = Some(share);
            self.judge(config.pressure_full, share, now);
        }
        let Some(share) = self.share else { return Some("pressure is not known yet: it takes a second".to_owned()) };
        self.is_tripped.then(|| {
            format!(
                "all tasks waited for memory for more than {} of the time ({} just now); it goes on after a minute below half \
                 of it",
                config.pressure_full,
                share.approx()
            )
        })
    }

    /// Whether pressure exceeded its limit and has not calmed down since.
    pub(crate) fn has_tripped(&self) -> bool {
        self.is_tripped
    }

    fn judge(&mut self, limit: Ratio, share: Ratio, now: Instant) {
        if share > limit {
            self.is_tripped = true;
            self.calm_since = None;
        } else if share.ppm() * 2 >= limit.ppm() {
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
