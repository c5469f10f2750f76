//! Filter between a section and the host: the section sees only its own groups, and acts only if allowed.

use super::guard::Guard;
use super::line::{Act, Effect, Line};
use super::targets::meant;
use super::{AuditError, Log, LoopHost, System};
use crate::changes::{protected, protected_command};
use crate::config::group_path;
use isotherm_core::host::{
    Ageing, Answer, Eviction, Gauge, GaugeCapabilities, Gauging, GenerationCapabilities, Generational, HostError,
    Listing, Lruvec, TargetId,
};
use isotherm_units::PAGE_BYTES;
use isotherm_units::wildcard::{is_within, reaches_below};
use std::collections::{BTreeMap, BTreeSet};

/// Most pages in one system call: 16 MiB, so that no call takes long.
const PIECE_PAGES: u64 = 4096;

/// Most groups that one search names as left alone: a program that makes many groups must not fill the audit.
const NAMED: usize = 16;

/// Whether a section may act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Act,
    /// It is not enabled.
    Observe,
    /// It is enabled, but may not act now.
    Withheld(String),
}

impl Permit {
    /// State of a section with this permit.
    pub(super) fn state(&self) -> String {
        match self {
            Self::Act => "acting".to_owned(),
            Self::Observe => "observing".to_owned(),
            Self::Withheld(why) => why.clone(),
        }
    }

    /// # Errors
    /// Why nothing may be done.
    pub(super) fn check(&self) -> Result<(), Held> {
        match self {
            Self::Act => Ok(()),
            Self::Observe => Err(Held::Observing),
            Self::Withheld(why) => Err(Held::Withheld(why.clone())),
        }
    }
}

/// Why an action is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Held {
    #[error("it only observes: enable = true lets it act")]
    Observing,
    #[error("{0}")]
    Withheld(String),
    #[error("{0} is there")]
    KillFile(String),
    #[error("the group does not belong to this section")]
    NotOurs,
    #[error("it could not be written down before it was done: {0}")]
    NotLogged(AuditError),
}

impl From<Held> for HostError {
    fn from(held: Held) -> Self {
        Self::Failed(held.to_string())
    }
}

/// A section's host.
pub(super) struct Gate<'a> {
    pub(super) host: &'a mut dyn LoopHost,
    pub(super) world: &'a mut dyn System,
    /// Paths of groups; each includes the groups below it.
    pub(super) groups: &'a [String],
    /// Groups that are never acted on, even if `groups` names them: those met so far, with the reason.
    pub(super) spared: &'a mut Skipped,
    pub(super) permit: &'a Permit,
    /// Which groups it may not act on now.
    pub(super) guard: &'a Guard,
    /// Last listing of its groups.
    pub(super) seen: &'a mut BTreeMap<Lruvec, Listing>,
    /// The section.
    pub(super) label: &'a str,
    /// Each action is logged before it is carried out.
    pub(super) log: &'a mut dyn Log,
    /// Actions that were carried out, in order.
    pub(super) acts: &'a mut Vec<Act>,
}

/// Groups that a section leaves alone.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// The section may act, so some groups must be left alone.
    pub(super) acts: bool,
    /// An action on a group also reaches all groups below it.
    reaches_below: bool,
    /// Groups that the configuration protects: paths, with `*` and `?`.
    protected: Vec<String>,
    /// Groups met since the last search for groups, with the reason.
    pub(super) met: BTreeMap<String, String>,
    /// Groups already reported.
    told: BTreeSet<String>,
}

impl Skipped {
    pub(super) fn new(acts: bool) -> Self {
        Self { acts, ..Self::default() }
    }

    /// Filter for a section whose actions on a group reach the groups below it too.
    pub(super) fn with_below(acts: bool) -> Self {
        Self { reaches_below: true, ..Self::new(acts) }
    }

    /// Begins a search for groups: forgets those that no longer exist.
    pub(super) fn begin(&mut self, protected: &[String]) {
        self.protected = protected.iter().map(|pattern| group_path(pattern)).collect();
        self.met.clear();
    }

    /// Lines about groups that were met and not reported yet. The first groups are named and the others counted.
    pub(super) fn news(&mut self, section: &str) -> Vec<Line> {
        self.told.retain(|target| self.met.contains_key(target));
        let new: Vec<(String, String)> = self
            .met
            .iter()
            .filter(|(target, _)| !self.told.contains(*target))
            .map(|(target, why)| (target.clone(), why.clone()))
            .collect();
        self.told.extend(new.iter().map(|(target, _)| target.clone()));
        let more = new.len().saturating_sub(NAMED) as u64;
        let section = || section.to_owned();
        let mut lines: Vec<Line> = new
            .into_iter()
            .take(NAMED)
            .map(|(target, why)| Line::LeftAlone { section: section(), target, why })
            .collect();
        lines.extend((more > 0).then(|| Line::MoreLeftAlone { section: section(), groups: more }));
        lines
    }

    /// Returns whether this group is left alone, and if so, notes it.
    pub(super) fn has(&mut self, path: &str, world: &mut dyn System) -> bool {
        if !self.acts {
            return false;
        }
        let why = protected(path).map(str::to_owned).or_else(|| self.why_group(path, world));
        self.note(path, why)
    }

    /// Whether a process that is named by itself is left alone, and if so, notes it. `name` is its name in reports.
    pub(super) fn has_process(&mut self, name: &str, command: &str, group: &str, world: &mut dyn System) -> bool {
        if !self.acts {
            return false;
        }
        // Naming a process does not include all of its group.
        let of_group = || protected(group).filter(|_| !matches!(group, "/" | "/system.slice"));
        let built_in = protected_command(command).or_else(of_group).map(str::to_owned);
        let why = built_in.or_else(|| self.why_group(group, world));
        self.note(name, why)
    }

    /// Whether this group was left alone when it was last reported which are.
    pub(super) fn was_met(&self, path: &str) -> bool {
        self.told.contains(path)
    }

    fn why_group(&self, path: &str, world: &mut dyn System) -> Option<String> {
        if self.protected.iter().any(|pattern| is_within(pattern, path)) {
            return Some("[daemon] protect names it".to_owned());
        }
        if self.reaches_below
            && let Some(below) = self.protected.iter().find_map(|pattern| there_below(pattern, path, world))
        {
            return Some(format!("[daemon] protect names {below}, which is below it: name the groups beside that one"));
        }
        let guaranteed = world.guaranteed(path, self.reaches_below)?;
        Some(if guaranteed == path {
            "memory is guaranteed to it (memory.min or memory.low)".to_owned()
        } else {
            let place = if is_below(path, &guaranteed) { "below" } else { "above" };
            format!("memory is guaranteed to {guaranteed}, {place} it (memory.min or memory.low)")
        })
    }

    fn note(&mut self, name: &str, why: Option<String>) -> bool {
        let is_noted = why.is_some();
        self.met.extend(why.map(|why| (name.to_owned(), why)));
        is_noted
    }
}

/// A group below a path that a pattern matches; a group that cannot be searched for counts as existing.
fn there_below(pattern: &str, path: &str, world: &mut dyn System) -> Option<String> {
    if !reaches_below(pattern, path) {
        return None;
    }
    match world.groups(pattern) {
        Ok(groups) => groups.into_iter().find(|group| is_below(path, group)),
        Err(_) => Some(pattern.to_owned()),
    }
}

/// Whether a group is this one, or below it. Names of groups may hold any character but `/`.
pub(super) fn is_below(group: &str, path: &str) -> bool {
    let rest = path.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Gate<'_> {
    /// Pages that an order covers, by the last listing.
    fn asked(&self, order: &Eviction) -> u64 {
        let rows = self.seen.get(&order.lruvec).map_or(&[][..], |listing| &listing.rows);
        let of_types = |row: &isotherm_core::vocabulary::GenerationRow| {
            let anon = if order.swappiness.takes_anon() { row.anon_pages } else { 0 };
            anon.saturating_add(if order.swappiness.takes_file() { row.file_pages } else { 0 })
        };
        let pages = rows.iter().filter(|row| row.seq <= order.min_gen_nr).map(of_types).fold(0, u64::saturating_add);
        pages.min(order.limit_pages.unwrap_or(u64::MAX))
    }

    /// Checks that it may act on a group, and announces the action.
    fn begin(&mut self, target: Option<&str>, write: &str) -> Result<(), Held> {
        let target = target.ok_or(Held::NotOurs)?.to_owned();
        self.permit.check()?;
        if let Some(why) = self.guard.group(&target) {
            return Err(Held::Withheld(why));
        }
        let asks = Line::Asks { section: self.label.to_owned(), target, write: write.to_owned() };
        self.log.line(&asks).map_err(Held::NotLogged)
    }

    /// Evicts in pieces until the order is done, nothing more can be evicted, or the daemon must end.
    fn evicted(&mut self, order: &Eviction, asked: u64) -> Answer {
        let (mut left, mut bytes) = (asked, 0u64);
        loop {
            if self.world.has_to_end() {
                return Answer::Partly { bytes };
            }
            let piece = Eviction { limit_pages: Some(left.clamp(1, PIECE_PAGES)), ..*order };
            let mut answers = Vec::with_capacity(1);
            self.host.evict_generations(std::slice::from_ref(&piece), &mut answers);
            let gone = match answers.pop() {
                Some(Answer::Done { bytes } | Answer::Partly { bytes }) => bytes,
                Some(refused) if bytes == 0 => return refused,
                Some(_) => return Answer::Partly { bytes },
                None => return Answer::Failed("the host did not answer".to_owned()),
            };
            bytes = bytes.saturating_add(gone);
            left = left.saturating_sub(gone / PAGE_BYTES);
            if left == 0 {
                return Answer::Done { bytes };
            }
            if gone == 0 {
                return Answer::Partly { bytes };
            }
        }
    }
}

impl Generational for Gate<'_> {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        self.host.generation_capabilities()
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        let mut all = Vec::new();
        self.host.read_generations(&mut all)?;
        let is_meant = |listing: &Listing, world: &mut dyn System| {
            self.groups.iter().any(|group| is_below(group, &listing.path)) && !self.spared.has(&listing.path, world)
        };
        // Where the daemon has to end nothing is listed, and so nothing is done.
        let mut all: Vec<Listing> = meant(all, self.world, is_meant).unwrap_or_default();
        self.seen.clear();
        self.seen.extend(all.iter().map(|listing| (listing.lruvec, listing.clone())));
        out.append(&mut all);
        Ok(())
    }

    /// Monitoring itself needs it, so it is always allowed.
    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        self.host.age_generations(orders, answers);
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        for order in orders {
            let asked = self.asked(order);
            let target = self.seen.get(&order.lruvec).map(|listing| listing.path.clone());
            let write = order.to_string();
            let answer = match self.begin(target.as_deref(), &write) {
                Ok(()) => self.evicted(order, asked),
                Err(held) => Answer::Failed(held.to_string()),
            };
            let (verified_bytes, effect) = match &answer {
                Answer::Done { bytes } => (*bytes, Effect::Done),
                Answer::Partly { bytes } => (*bytes, Effect::Partly),
                Answer::Failed(_) if *self.permit == Permit::Observe && target.is_some() => (0, Effect::Would),
                Answer::Failed(why) => (0, Effect::Refused { why: why.clone() }),
                Answer::NotHere(why) => (0, Effect::Refused { why: (*why).to_owned() }),
            };
            self.acts.push(Act {
                action: "evict".into(),
                target: target.unwrap_or_default(),
                node: order.lruvec.node.0,
                write,
                asked_bytes: asked.saturating_mul(PAGE_BYTES),
                verified_bytes,
                effect,
            });
            answers.push(answer);
        }
    }
}

impl Gauging for Gate<'_> {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        self.host.gauge_capabilities(target)
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        self.host.gauges(gauges, values)
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        self.host.memcg(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::NoHost;

    #[test]
    fn each_reason_to_hold_back_has_its_words() {
        assert_eq!(Permit::Act.check(), Ok(()));
        let withheld = Permit::Withheld("memory is short".to_owned());
        for (held, words) in [
            (Permit::Observe.check().unwrap_err(), "it only observes: enable = true lets it act"),
            (withheld.check().unwrap_err(), "memory is short"),
            (Held::KillFile("/run/stop".to_owned()), "/run/stop is there"),
            (Held::NotOurs, "the group does not belong to this section"),
            (
                Held::NotLogged(AuditError::new("it is full")),
                "it could not be written down before it was done: it is full",
            ),
        ] {
            assert_eq!(HostError::from(held), HostError::Failed(words.to_owned()));
        }
    }

    /// A user makes groups, new ones each time.
    #[test]
    fn those_that_are_gone_are_forgotten_and_many_are_counted() {
        let mut spared = Skipped::new(true);
        for round in 0..3 {
            for is_again in [false, true] {
                spared.begin(&[]);
                assert!((0..1000).all(|group| spared.has(&format!("/u/{round}-{group}"), &mut NoHost)));
                let lines = spared.news("limits.x");
                if is_again {
                    assert!(lines.is_empty(), "{lines:?}");
                } else {
                    assert_eq!(lines.len(), NAMED + 1);
                    assert!(matches!(lines.last(), Some(Line::MoreLeftAlone { groups: 984, .. })), "{lines:?}");
                }
                assert_eq!((spared.met.len(), spared.told.len()), (1000, 1000));
            }
        }
    }

    #[test]
    fn a_name_that_only_begins_like_a_group_is_not_below_it() {
        assert!(is_below("/a", "/a/b") && is_below("/a", "/a") && is_below("/", "/ab"));
        assert!(!is_below("/a", "/ab") && !is_below("/a/b", "/a"));
    }
}
