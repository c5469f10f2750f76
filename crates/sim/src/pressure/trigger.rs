//! Triggers: an event when stalls grow by a threshold within a window (docs/spec/pressure.md#s4).

use isotherm_units::{Duration, Instant};
use std::str::FromStr;

/// Longest window.
const WINDOW_MAX: Duration = Duration::from_secs(10);
/// Windows of unprivileged users are multiples of this: they are checked with the averages.
const UNPRIVILEGED_STEP: Duration = Duration::from_secs(2);
/// A privileged trigger is checked so often per window while there is pressure.
pub const CHECKS_PER_WINDOW: u64 = 10;

/// Some tasks stalled, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// At least one task waits.
    Some,
    /// Nothing makes progress.
    Full,
}

/// Who set the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// `CAP_SYS_RESOURCE`: checked ten times a window.
    Privileged,
    /// Checked with the averages, every two seconds.
    Unprivileged,
}

/// What is written to a pressure file: `some|full <threshold us> <window us>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerSpec {
    /// Which stalls.
    pub severity: Severity,
    /// Growth that makes an event; above zero, at most the window.
    pub threshold: Duration,
    /// Time in which it must grow; at most 10 s.
    pub window: Duration,
}

/// Why a trigger is refused. The kernel says `EINVAL`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// Not of the form.
    #[error("trigger `{0}`; expected `some|full THRESHOLD_US WINDOW_US`, for example `some 150000 1000000`")]
    Syntax(String),
    /// The window is zero or too long.
    #[error("trigger window of {0}; allowed: above 0, at most 10s")]
    Window(Duration),
    /// The threshold is zero or exceeds the window.
    #[error("trigger threshold of {threshold}; allowed: above 0, at most the window of {window}")]
    Threshold {
        /// As given.
        threshold: Duration,
        /// As given.
        window: Duration,
    },
    /// An unprivileged window is no multiple of two seconds.
    #[error("trigger window of {0}; allowed without privilege: multiples of 2s")]
    Unprivileged(Duration),
}

impl FromStr for TriggerSpec {
    type Err = TriggerError;
    fn from_str(text: &str) -> Result<Self, TriggerError> {
        let syntax = || TriggerError::Syntax(text.trim_end().to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [severity, threshold, window] = words[..] else { return Err(syntax()) };
        let severity = match severity {
            "some" => Severity::Some,
            "full" => Severity::Full,
            _ => return Err(syntax()),
        };
        let us = |word: &str| {
            let digits = word.bytes().all(|b| b.is_ascii_digit());
            word.parse::<u32>().ok().filter(|_| digits).map(|us| Duration::from_us(us.into())).ok_or_else(syntax)
        };
        let (threshold, window) = (us(threshold)?, us(window)?);
        if window == Duration::ZERO || window > WINDOW_MAX {
            return Err(TriggerError::Window(window));
        }
        if threshold == Duration::ZERO || threshold > window {
            return Err(TriggerError::Threshold { threshold, window });
        }
        Ok(Self { severity, threshold, window })
    }
}

impl TriggerSpec {
    /// Checks what depends on who sets it.
    ///
    /// # Errors
    /// A window that is too fine without privilege.
    pub fn check(&self, privilege: Privilege) -> Result<(), TriggerError> {
        let fits = self.window.ns().is_multiple_of(UNPRIVILEGED_STEP.ns());
        match privilege {
            Privilege::Unprivileged if !fits => Err(TriggerError::Unprivileged(self.window)),
            _ => Ok(()),
        }
    }
}

/// A trigger at work on one total.
#[derive(Clone, Debug)]
pub struct Trigger {
    spec: TriggerSpec,
    window_start: Instant,
    /// Total (ns) at the start of the window.
    start_value: u64,
    /// Growth (ns) of the window before.
    previous_growth: u64,
    /// Total (ns) at the last check.
    seen: u64,
    last_event: Option<Instant>,
    /// The threshold was reached but an event came too recently.
    pending: bool,
}

impl Trigger {
    /// Begins to watch at `now`, when the total is `value` ns.
    pub const fn new(spec: TriggerSpec, now: Instant, value: u64) -> Self {
        Self {
            spec,
            window_start: now,
            start_value: value,
            previous_growth: 0,
            seen: value,
            last_event: None,
            pending: false,
        }
    }

    /// What it watches for.
    pub const fn spec(&self) -> TriggerSpec {
        self.spec
    }

    /// Begins a new window without history: there was no pressure for a while.
    pub const fn reset(&mut self, now: Instant, value: u64) {
        self.window_start = now;
        self.start_value = value;
        self.previous_growth = 0;
        self.seen = value;
    }

    /// Looks at the total. Returns whether there is an event: at most one per window, others are delivered later.
    pub fn check(&mut self, now: Instant, value: u64) -> bool {
        if value != self.seen {
            self.seen = value;
            self.pending |= self.growth(now, value) >= self.spec.threshold.ns();
        }
        let too_soon = self.last_event.is_some_and(|last| now < last + self.spec.window);
        let event = self.pending && !too_soon;
        if event {
            self.last_event = Some(now);
            self.pending = false;
        }
        event
    }

    /// Growth within the last window: what grew in this one, and the share of the one before that still counts.
    fn growth(&mut self, now: Instant, value: u64) -> u64 {
        let (elapsed, window) = (now.since(self.window_start), self.spec.window);
        let growth = value - self.start_value;
        if elapsed > window {
            self.reset(now, value);
            self.previous_growth = growth;
            return growth;
        }
        let remaining = u128::from(window.saturating_sub(elapsed).ns());
        let share = u128::from(self.previous_growth) * remaining / u128::from(window.ns());
        growth.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }
    fn spec() -> TriggerSpec {
        "some 150000 1000000".parse().unwrap()
    }

    #[test]
    fn p11_trigger() {
        let mut trigger = Trigger::new(spec(), at(0), 0);
        // 100 ms in a first window of 1001 ms: no event, and the growth of "the window before" from here on.
        assert!(!trigger.check(at(1001), 100 * MS));
        // 400 ms later 100 ms more: 100 + 100 * 600 / 1000 = 160 >= 150.
        assert_eq!(trigger.clone().growth(at(1401), 200 * MS), 160 * MS);
        assert!(trigger.check(at(1401), 200 * MS));
    }

    #[test]
    fn one_event_a_window_and_the_rest_later() {
        let mut trigger = Trigger::new(spec(), at(0), 0);
        assert!(trigger.check(at(200), 150 * MS), "exactly the threshold, at once");
        assert!(!trigger.check(at(300), 400 * MS), "too soon");
        assert!(!trigger.check(at(1199), 400 * MS));
        assert!(trigger.check(at(1200), 400 * MS), "delivered though nothing grew since");
        assert!(!trigger.check(at(2500), 400 * MS));
    }

    #[test]
    fn a_reset_forgets_the_window_before() {
        let mut trigger = Trigger::new(spec(), at(0), 0);
        assert!(!trigger.check(at(1001), 149 * MS));
        trigger.reset(at(1100), 149 * MS);
        assert!(!trigger.check(at(1200), 298 * MS), "149 ms, not more");
        assert!(trigger.check(at(1300), 299 * MS));
    }

    #[test]
    fn triggers_are_read_as_the_kernel_does() {
        let read = |text: &str| text.parse::<TriggerSpec>();
        let full =
            TriggerSpec { severity: Severity::Full, threshold: Duration::from_ms(1), window: Duration::from_secs(10) };
        assert_eq!(read("full 1000 10000000\n"), Ok(full));
        for text in
            ["", "some", "some 1", "some 1 x", "many 1 2", "some -1 5", "some +1 5", "some 1 2 3", "some 1 9999999999"]
        {
            assert!(matches!(read(text), Err(TriggerError::Syntax(_))), "{text:?}");
        }
        assert!(matches!(read("some 1 0"), Err(TriggerError::Window(_))));
        assert!(matches!(read("some 1 10000001"), Err(TriggerError::Window(_))));
        let error = read("some 3000000 2000000").unwrap_err().to_string();
        assert_eq!(error, "trigger threshold of 3s; allowed: above 0, at most the window of 2s");
        assert!(matches!(read("some 0 2000000"), Err(TriggerError::Threshold { .. })));
        assert!(spec().check(Privilege::Privileged).is_ok());
        assert_eq!(spec().check(Privilege::Unprivileged), Err(TriggerError::Unprivileged(Duration::from_secs(1))));
        assert!(full.check(Privilege::Unprivileged).is_ok());
    }

    proptest! {
        #[test]
        fn events_keep_a_window_apart_and_need_growth(checks in prop::collection::vec((1u64..400, 0u64..300), 1..80)) {
            let mut trigger = Trigger::new(spec(), at(0), 0);
            let (mut now, mut value, mut events) = (0, 0, Vec::new());
            for (gap, growth) in checks {
                now += gap;
                value += growth.min(gap);
                if trigger.check(at(now), value * MS) {
                    events.push(now);
                }
            }
            prop_assert!(events.windows(2).all(|pair| pair[1] - pair[0] >= 1000));
            prop_assert!(value >= 150 || events.is_empty());
        }
        #[test]
        fn reading_never_panics(text in "\\PC{0,30}") {
            let _ = text.parse::<TriggerSpec>();
        }
    }
}
