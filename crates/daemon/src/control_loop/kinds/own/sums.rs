//! Sums of an engine's actions: engines act many times a second, and the audit has one line a second for each process and
//! action.

use crate::control_loop::line::{Act, Effect, Line};
use crate::control_loop::section::Totals;
use isotherm_core::host::TargetId;
use isotherm_units::{Duration, Instant};
use std::collections::BTreeMap;

/// Time between two lines about the same action on a process.
const TELL: Duration = Duration::from_secs(1);
/// The same for actions that are not carried out.
const REMIND: Duration = Duration::from_secs(60);

/// Actions of one kind on one process since the last line about them.
#[derive(Clone, Debug, Default)]
struct Sum {
    told: Option<Instant>,
    /// A line has announced the action.
    is_announced: bool,
    times: u64,
    first: String,
    asked_bytes: u64,
    verified_bytes: u64,
    /// Why an action was not carried out.
    refusal: Option<String>,
    /// The action would have been carried out.
    would: bool,
}

/// Acts by process and action.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    open: BTreeMap<(TargetId, &'static str), Sum>,
    pub(super) totals: Totals,
}

impl Sums {
    fn sum(&mut self, target: TargetId, action: &'static str) -> &mut Sum {
        self.open.entry((target, action)).or_default()
    }

    fn noted(&mut self, target: TargetId, action: &'static str, write: String, bytes: u64) -> &mut Sum {
        let sum = self.sum(target, action);
        if sum.times == 0 {
            sum.first = write;
        }
        sum.times += 1;
        sum.asked_bytes = sum.asked_bytes.saturating_add(bytes);
        sum
    }

    /// Whether a line must announce the action first.
    pub(super) fn wants_asking(&self, target: TargetId, action: &'static str) -> bool {
        self.open.get(&(target, action)).is_none_or(|sum| !sum.is_announced)
    }

    pub(super) fn asked_for(&mut self, target: TargetId, action: &'static str) {
        self.sum(target, action).is_announced = true;
    }

    pub(super) fn asked(&mut self, target: TargetId, action: &'static str, write: String, bytes: u64) {
        self.totals.add(bytes, 0);
        self.noted(target, action, write, bytes);
    }

    pub(super) fn did(&mut self, target: TargetId, action: &'static str, verified: u64) {
        self.totals.add(0, verified);
        let sum = self.sum(target, action);
        sum.verified_bytes = sum.verified_bytes.saturating_add(verified);
    }

    pub(super) fn failed(&mut self, target: TargetId, action: &'static str, why: &str) {
        self.totals.refused += 1;
        self.sum(target, action).refusal = Some(why.to_owned());
    }

    /// Notes an action that was refused: because of `why`, or because no section may act.
    pub(super) fn held(
        &mut self,
        target: TargetId,
        action: &'static str,
        write: String,
        bytes: u64,
        why: Option<String>,
    ) {
        self.totals.refused += u64::from(why.is_some());
        let sum = self.noted(target, action, write, bytes);
        sum.would = why.is_none();
        sum.refusal = why;
    }

    /// The lines that are due, or with `all` every line not reported yet.
    pub(super) fn lines(
        &mut self,
        label: &str,
        now: Instant,
        targets: &BTreeMap<TargetId, String>,
        all: bool,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        for ((target, action), sum) in &mut self.open {
            let pause = if sum.verified_bytes == 0 && (sum.would || sum.refusal.is_some()) { REMIND } else { TELL };
            if sum.times == 0 || (!all && sum.told.is_some_and(|told| now.since(told) < pause)) {
                continue;
            }
            let (asked_bytes, verified_bytes) = (sum.asked_bytes, sum.verified_bytes);
            let effect = match sum.refusal.take() {
                _ if sum.would => Effect::Would,
                Some(why) if verified_bytes == 0 => Effect::Refused { why },
                None if verified_bytes >= asked_bytes => Effect::Done,
                _ => Effect::Partly,
            };
            self.totals.note_time(&effect, now);
            let more = if sum.times > 1 { format!(", and {} more", sum.times - 1) } else { String::new() };
            let act = Act {
                action: (*action).into(),
                target: targets.get(target).cloned().unwrap_or_else(|| "a process that has ended".to_owned()),
                node: 0,
                write: format!("{}{more}", sum.first),
                asked_bytes,
                verified_bytes,
                effect,
            };
            *sum = Sum { told: Some(now), ..Sum::default() };
            lines.push(Line::Acted { section: label.to_owned(), at_ns: now.since(Instant::START).ns(), act });
        }
        self.open.retain(|(target, _), sum| sum.times > 0 || targets.contains_key(target));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_acts_make_one_line_a_second() {
        let (mut sums, target) = (Sums::default(), TargetId(3));
        let targets = BTreeMap::from([(target, "/app/web (process 7)".to_owned())]);
        let at = |ms: u64| Instant::START + Duration::from_ms(ms);
        let mut told = Vec::new();
        for ms in (0..3000).step_by(100) {
            assert_eq!(sums.wants_asking(target, "pageout"), ms == 0 || ms % 1000 == 100, "{ms}");
            sums.asked_for(target, "pageout");
            sums.asked(target, "pageout", format!("pageout {ms}"), 10);
            sums.did(target, "pageout", 4);
            told.extend(sums.lines("monitors.a", at(ms), &targets, false));
        }
        told.extend(sums.lines("monitors.a", at(3000), &targets, true));
        let bytes = |line: &Line| {
            if let Line::Acted { act, .. } = line { (act.asked_bytes, act.verified_bytes) } else { (0, 0) }
        };
        let sum = told.iter().map(bytes).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!((sum, told.len()), ((300, 120), 4), "{told:?}");
        assert_eq!((sums.totals.asked_bytes, sums.totals.verified_bytes), (300, 120));
    }

    #[test]
    fn what_is_held_is_told_once_a_minute() {
        let (mut sums, target) = (Sums::default(), TargetId(3));
        let targets = BTreeMap::from([(target, "x".to_owned())]);
        let mut told = 0;
        for second in 0..120 {
            sums.held(target, "pageout", "pageout".to_owned(), 10, Some("pressure".to_owned()));
            told += sums.lines("a", Instant::START + Duration::from_secs(second), &targets, false).len();
        }
        assert_eq!((told, sums.totals.refused, sums.totals.asked_bytes), (2, 120, 0));
    }
}
