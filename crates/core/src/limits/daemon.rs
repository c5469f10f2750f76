//! Right-sizing as a daemon: reads the gauges of its group, decides, and sets the limit.

use super::config::{LimitsConfig, LimitsError};
use super::controller::{Controller, Decision, Observation};
use super::decision_counts::{LimitAction, LimitReason, LimitsWhy};
use super::explain::explain_limits;
use crate::daemon::{Account, Daemon, DaemonError, Report};
use crate::host::{Ageing, Answer, Gauge, HostError, LimitsHost, Listing};
use crate::vocabulary::Swappiness;
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES};
use serde::Serialize;

/// Readings of gauges per interval: harm that is too much for a whole interval is answered at once.
const LOOKS_PER_INTERVAL: u64 = 4;

/// One decision, with the readings it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LimitsStep {
    pub at_ns: u64,
    pub action: LimitAction,
    pub reason: LimitReason,
    /// Memory in use, bytes; 0 where it could not be read.
    pub usage_bytes: u64,
    /// The limit from now on, bytes; `None`: no limit.
    pub limit_bytes: Option<u64>,
    /// Share of the interval in which some task of the group was stalled by memory, in millionths.
    pub stalled_ppm: u64,
    /// Pages (4 KiB) that came back in the interval.
    pub refaulted_pages: u64,
    /// The greater harm in millionths of its goal.
    pub harm_ppm: u64,
}

/// Totals of a group, as the host counts them since the group was made.
#[derive(Clone, Copy, Debug)]
struct Totals {
    memcg: u64,
    at: Instant,
    usage: u64,
    stalled_us: u64,
    refaulted_bytes: u64,
    high_events: u64,
}

/// Keeps one group at the least limit that its goal allows.
#[derive(Debug)]
pub struct LimitsDaemon {
    controller: Controller,
    due: Instant,
    before: Option<Totals>,
    why: LimitsWhy,
}

impl LimitsDaemon {
    /// Begins at `now`.
    ///
    /// # Errors
    /// An invalid value.
    pub fn start(config: LimitsConfig, now: Instant) -> Result<Self, LimitsError> {
        config.validate()?;
        Ok(Self { controller: Controller::new(config), due: now, before: None, why: LimitsWhy::default() })
    }

    pub const fn config(&self) -> &LimitsConfig {
        self.controller.config()
    }

    /// Counts of decisions so far, with their reasons.
    pub const fn why(&self) -> &LimitsWhy {
        &self.why
    }

    /// The group's totals; `None` where it is not there.
    fn read(
        &self,
        memcg: u64,
        now: Instant,
        host: &mut (impl LimitsHost + ?Sized),
    ) -> Result<Option<Totals>, HostError> {
        let gauges = [
            Gauge::GroupBytes { memcg },
            Gauge::GroupStallSomeUs { memcg },
            Gauge::RefaultBytes { memcg },
            Gauge::GroupHighEvents { memcg },
        ];
        let mut values = [None; 4];
        host.gauges(&gauges, &mut values)?;
        let [Some(usage), Some(stalled_us), Some(refaulted_bytes), Some(high_events)] = values else { return Ok(None) };
        Ok(Some(Totals { memcg, at: now, usage, stalled_us, refaulted_bytes, high_events }))
    }

    /// One reading, and the decision from it. `None`: the interval is not over, and no decision is due before its
    /// end.
    fn look(&mut self, now: Instant, host: &mut (impl LimitsHost + ?Sized)) -> Result<Option<LimitsStep>, HostError> {
        let idle = |reason, usage_bytes, limit: Option<Bytes>| LimitsStep {
            at_ns: now.ns(),
            action: LimitAction::Hold,
            reason,
            usage_bytes,
            limit_bytes: limit.map(Bytes::get),
            stalled_ppm: 0,
            refaulted_pages: 0,
            harm_ppm: 0,
        };
        let before = self.before.take();
        let found = match host.memcg(&self.config().target) {
            Some(memcg) => self.read(memcg, now, host)?,
            None => None,
        };
        let Some(totals) = found else {
            // If it comes again, it is another group, which knows no limit.
            self.controller = Controller::new(self.config().clone());
            return Ok(Some(idle(LimitReason::NoGroup, 0, None)));
        };
        let Some(before) = before.filter(|before| before.memcg == totals.memcg) else {
            if before.is_some() {
                self.controller = Controller::new(self.config().clone());
            }
            if let Some(ceiling) = self.controller.limit() {
                host.set_memory_high(totals.memcg, Some(ceiling))?;
            }
            self.before = Some(totals);
            return Ok(Some(idle(LimitReason::FirstLook, totals.usage, self.controller.limit())));
        };
        let interval = self.config().interval;
        let span = now.since(before.at);
        let seen = Observation {
            at: now,
            span: span.max(interval),
            usage: Bytes::new(totals.usage),
            stalled: Duration::from_us(totals.stalled_us.saturating_sub(before.stalled_us)),
            refaulted_pages: totals.refaulted_bytes.saturating_sub(before.refaulted_bytes) / PAGE_BYTES,
            has_reached_limit: totals.high_events > before.high_events,
        };
        let old = self.controller.limit();
        // A reading that came late must not make the next one, which is in time, seem too early.
        let is_over = span.ns().saturating_add(interval.ns() / LOOKS_PER_INTERVAL / 2) >= interval.ns();
        let decided = if is_over { Some(self.controller.decide(&seen)) } else { self.controller.decide_early(&seen) };
        let Some(Decision { action, reason, limit, harm_ppm }) = decided else {
            self.before = Some(before);
            return Ok(None);
        };
        self.before = Some(totals);
        if action == LimitAction::Sort
            && let Err(error) = sort(totals.memcg, host)
        {
            self.why.sorts_refused += 1;
            self.why.last_refusal = Some(error.to_string());
        }
        if limit != old
            && let Err(error) = host.set_memory_high(totals.memcg, limit)
        {
            self.controller.correct(old);
            return Err(error);
        }
        Ok(Some(LimitsStep {
            at_ns: now.ns(),
            action,
            reason,
            usage_bytes: totals.usage,
            limit_bytes: limit.map(Bytes::get),
            stalled_ppm: seen.stalled_ppm(),
            refaulted_pages: seen.refaulted_pages,
            harm_ppm,
        }))
    }
}

/// Makes a generation of the group on each node: pages used since the last one leave the old ones.
fn sort(memcg: u64, host: &mut (impl LimitsHost + ?Sized)) -> Result<(), HostError> {
    let mut listings: Vec<Listing> = Vec::new();
    host.read_generations(&mut listings)?;
    let orders: Vec<Ageing> = (listings.iter().filter(|listing| listing.lruvec.memcg == memcg))
        .filter_map(|listing| {
            let max_gen_nr = listing.rows.last()?.seq;
            Some(Ageing { lruvec: listing.lruvec, max_gen_nr, swappiness: Swappiness::Of(1), force_scan: true })
        })
        .collect();
    if orders.is_empty() {
        return Err(HostError::Failed("no generations of the group are known".to_owned()));
    }
    let mut answers = Vec::new();
    host.age_generations(&orders, &mut answers);
    for answer in answers {
        match answer {
            Answer::Done { .. } | Answer::Partly { .. } => {}
            Answer::NotHere(missing) => return Err(HostError::NotHere(missing)),
            Answer::Failed(cause) => return Err(HostError::Failed(cause)),
        }
    }
    Ok(())
}

impl<H: LimitsHost + ?Sized> Daemon<H> for LimitsDaemon {
    fn poll_timeout(&self, _worker: usize) -> Option<Instant> {
        Some(self.due)
    }

    fn handle_timeout(&mut self, _worker: usize, now: Instant, host: &mut H) -> Result<Report, DaemonError> {
        if now < self.due {
            return Ok(Report::Limits(None));
        }
        let interval = self.config().interval;
        let every = Duration::from_ns(interval.ns() / LOOKS_PER_INTERVAL);
        let late = now.since(self.due);
        self.why.missed = self.why.missed.saturating_add(late.ns() / interval.ns());
        self.due += every.saturating_mul(late.ns() / every.ns() + 1);
        match self.look(now, host) {
            Ok(step) => {
                if let Some(step) = step {
                    self.why.count(step.action, step.reason);
                }
                Ok(Report::Limits(step))
            }
            Err(error) => {
                self.why.count(LimitAction::Hold, LimitReason::Refused);
                self.why.last_refusal = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    fn account(&self) -> Account {
        Account::Limits(self.why.clone())
    }

    fn words(&self) -> Vec<String> {
        explain_limits(self.config(), &self.why)
    }
}
