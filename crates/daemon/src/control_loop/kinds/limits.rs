//! A section that sizes groups: each has a controller of its own, and its `memory.high` is written through the journal.

use super::without_groups;
use crate::changes::{Refusal, is_rounded};
use crate::config::{Config, LimitsConfig};
use crate::control_loop::gate::{Held, Permit, Skipped};
use crate::control_loop::guard::Reach;
use crate::control_loop::line::{Act, Effect, Line, SectionStatus};
use crate::control_loop::run::LoopError;
use crate::control_loop::section::{Context, Due, Head, Kind, Section, Totals, Watched};
use crate::control_loop::targets::meant;
use crate::control_loop::trouble::{AuditError, NotNoted, TargetError, Trouble};
use crate::control_loop::{Knobs, Log, LoopHost, System, SystemError};
use isotherm_core::daemon::Daemon;
use isotherm_core::host::{
    Ageing, Answer, Gauge, GaugeCapabilities, Gauging, GenerationCapabilities, Generational, HostError, Limiting,
    Listing, TargetId,
};
use isotherm_core::limits::{LimitsDaemon, explain_limits};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the engine.
const OURS: &str = "isotherm: memory.high";
/// Most bytes that one write may ask the kernel to reclaim, so that no write takes long.
const PIECE: u64 = 16 << 20;
/// A section that only observes skips a limit that differs from the last reported one by less than 1/`TELL_SHARE`.
const TELL_SHARE: u64 = 20;

/// A group that the section sizes.
#[derive(Debug)]
struct Sized {
    daemon: LimitsDaemon,
    ran: Instant,
    /// Inode of the group, after its first run.
    number: Option<u64>,
    /// The file, and the value that we wrote; `None` if it is unchanged.
    file: String,
    held: Option<u64>,
    /// Why the group is left alone permanently.
    foreign: Option<String>,
    told: Option<u64>,
    /// A refusal was reported since the last successful write; further ones are only counted.
    is_refusal_told: bool,
}

/// A `[[limits]]` section.
#[derive(Debug)]
pub(super) struct LimitsSection {
    head: Head,
    totals: Totals,
    spec: LimitsConfig,
    groups: BTreeMap<String, Sized>,
    spared: Skipped,
}

impl Kind for LimitsSection {
    type Spec = LimitsConfig;

    fn specs(config: &Config) -> Vec<LimitsConfig> {
        config.limits.clone()
    }

    fn begin(spec: &LimitsConfig, _: Instant, _: &mut Watched) -> Result<Self, LoopError> {
        spec.of("/any").validate()?;
        Ok(Self {
            head: Head::new(format!("limits.{}", spec.name), OURS, spec.enable),
            totals: Totals::default(),
            spec: spec.clone(),
            groups: BTreeMap::new(),
            spared: Skipped::with_below(true),
        })
    }

    fn lacks(spec: &LimitsConfig, config: &Config, world: &mut dyn System) -> Option<String> {
        without_groups(&format!("limits.{}", spec.name), std::slice::from_ref(&spec.limits.target), config, world)
    }

    fn becomes(&mut self, spec: &LimitsConfig, _: Instant) -> bool {
        self.spec == *spec
    }
}

impl Section for LimitsSection {
    fn began(&self) -> Line {
        self.head.began("no kernel finds limits by itself; what a group suffers is read from its own files")
    }

    /// The limit of a removed group is removed with it.
    fn follow(&mut self, context: &mut Context<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        self.spared.begin(&context.config.daemon.protect);
        let mut found = BTreeSet::new();
        match context.config.cgroup_of(&self.spec.limits.target, "").map(|pattern| context.world.groups(&pattern)) {
            Ok(Ok(groups)) => found.extend(groups),
            // A group stays managed until it is known to be gone.
            Ok(Err(why)) => {
                lines.extend(self.head.troubled(Some(why.into())));
                return lines;
            }
            Err(_) => {}
        }
        let is_meant = |path: &String, world: &mut dyn System| !self.spared.has(path, world);
        let Some(found) = meant::<_, BTreeSet<String>>(found, context.world, is_meant) else { return lines };
        lines.extend(self.spared.news(&self.head.label));
        // One that was left alone, and has been made again since, is another group.
        let is_another =
            |path: &str, sized: &Sized| sized.foreign.is_some() && context.host.memcg(path) != sized.number;
        let is_gone = |(path, sized): &(&String, &Sized)| !found.contains(*path) || is_another(path, sized);
        let gone = meant::<_, Vec<_>>(&self.groups, context.world, |group, _| is_gone(group));
        let Some(gone) = gone else { return lines };
        let gone: BTreeSet<String> = gone.into_iter().map(|(path, _)| path.clone()).collect();
        let held: Vec<String> = gone
            .iter()
            .filter(|path| self.groups.get(*path).is_some_and(|sized| sized.held.is_some()))
            .cloned()
            .collect();
        lines.extend(self.lift(&held, context.knobs));
        self.groups.retain(|path, _| !gone.contains(path));
        let mut came = Vec::new();
        for path in found {
            if self.groups.contains_key(&path) {
                continue;
            }
            if context.world.has_to_end() {
                break;
            }
            // The values were checked when the section was made; only the target differs.
            let Ok(daemon) = LimitsDaemon::start(self.spec.of(&path), context.now) else { continue };
            let Ok(file) = context.world.group_file(&path, "memory.high") else { continue };
            let sized = Sized {
                daemon,
                ran: context.now,
                number: None,
                file,
                held: None,
                foreign: None,
                told: None,
                is_refusal_told: false,
            };
            came.push(path.clone());
            self.groups.insert(path, sized);
        }
        lines.extend(Line::moves(&self.head.label, came, gone));
        // Without groups it never runs, so it is said here.
        lines.extend(self.head.troubled(self.lacks_groups()));
        lines
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn reach(&self) -> Reach {
        Reach::groups(self.groups.keys().map(String::as_str))
    }

    fn limited(&self, groups: &mut BTreeSet<String>) {
        groups.extend(self.groups.iter().filter(|(_, sized)| sized.held.is_some()).map(|(path, _)| path.clone()));
    }

    fn due(&self) -> Due {
        let stretch = self.head.pace.stretch();
        let groups = self.groups.values().filter(|sized| sized.foreign.is_none());
        let dues = groups.filter_map(|sized| {
            let due = Daemon::<Bound<'_>>::poll_timeout(&sized.daemon, 0)?;
            Some(sized.ran + due.since(sized.ran).saturating_mul(u64::from(stretch)))
        });
        dues.min().into()
    }

    /// Runs the groups that are due. Groups that it may not act on now get back their original limits.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        let now = context.now;
        self.head.runs += 1;
        let permit = self.head.permit(context.guard);
        self.head.state = permit.state();
        let is_stalled = |path: &String| self.head.enabled && context.guard.group(path).is_some();
        let (stalled, paths): (Vec<String>, Vec<String>) = self.groups.keys().cloned().partition(is_stalled);
        self.rest(&stalled, now);
        self.put_back_of(&stalled, context)?;
        if matches!(permit, Permit::Withheld(_)) {
            return Ok(());
        }
        for path in paths {
            let section = self.section_of(&path);
            let Some(sized) = self.groups.get_mut(&path) else { continue };
            // A thousand groups take longer than an end may.
            if context.world.has_to_end() {
                break;
            }
            let is_due = Daemon::<Bound<'_>>::poll_timeout(&sized.daemon, 0).is_some_and(|due| due <= now);
            if sized.foreign.is_some() || !is_due {
                continue;
            }
            sized.ran = now;
            let mut acts = Vec::new();
            let mut bound = Bound {
                host: &mut *context.host,
                world: &mut *context.world,
                knobs: &mut *context.knobs,
                log: &mut *context.log,
                path: &path,
                section: &section,
                enabled: self.head.enabled,
                file: &sized.file,
                number: &mut sized.number,
                held: &mut sized.held,
                foreign: &mut sized.foreign,
                told: &mut sized.told,
                acts: &mut acts,
                muted: None,
            };
            let ran = sized.daemon.handle_timeout(0, now, &mut bound);
            let muted = bound.muted.take();
            let foreign = sized.foreign.clone();
            if acts.iter().any(|act| !matches!(act.effect, Effect::Refused { .. })) {
                sized.is_refusal_told = false;
            }
            let refusal = match &ran {
                // The section only observes, which was reported already.
                Err(_) if !self.head.enabled => None,
                Err(error) => Some(error.to_string()),
                Ok(_) => None,
            };
            let tells = refusal.is_some() && !sized.is_refusal_told;
            sized.is_refusal_told |= tells;
            for act in acts {
                context.log.line(&self.totals.acted(act, &self.head, now))?;
            }
            if let Some(why) = foreign {
                context.log.line(&Line::LeftAlone { section: self.head.label.clone(), target: path.clone(), why })?;
            } else if let Some(why) = refusal.filter(|_| tells) {
                context.log.line(&Line::Trouble { section: self.head.label.clone(), why: format!("{path}: {why}") })?;
            }
            if let Some(why) = muted {
                return Err(why.into());
            }
        }
        let trouble = self.lacks_groups();
        Ok(self.head.troubled(trouble).map_or(Ok(()), |line| context.log.line(&line))?)
    }

    fn put_back(&mut self, context: &mut Context<'_>) -> Result<Vec<String>, AuditError> {
        let paths: Vec<String> = self.groups.keys().cloned().collect();
        self.put_back_of(&paths, context)
    }

    fn status(&self, now: Instant, _: &mut dyn System) -> SectionStatus {
        let mut words = Vec::new();
        for (path, sized) in &self.groups {
            if let Some(why) = &sized.foreign {
                words.push(format!("{path}: left alone: {why}"));
                continue;
            }
            let limit =
                sized.held.map_or("no limit of ours".to_owned(), |bytes| Bytes::new(bytes).approx().to_string());
            words.push(format!("{path}: {limit}"));
            words.extend(explain_limits(sized.daemon.config(), sized.daemon.why()));
        }
        self.head.status(now, &self.totals, self.groups.keys().cloned().collect(), words)
    }
}

impl LimitsSection {
    /// Restores the limits of some groups. Returns what could not be restored, as text.
    fn put_back_of(&mut self, paths: &[String], context: &mut Context<'_>) -> Result<Vec<String>, AuditError> {
        let is_held = |path: &&String| self.groups.get(*path).is_some_and(|sized| sized.held.is_some());
        let paths: Vec<String> = paths.iter().filter(is_held).cloned().collect();
        let (mut left, mut lines) = (Vec::new(), Vec::new());
        for line in self.lift(&paths, context.knobs) {
            match line {
                Line::Trouble { why, .. } => left.push(why),
                line => lines.push(line),
            }
        }
        lines.iter().try_for_each(|line| context.log.line(line))?;
        Ok(left)
    }

    fn lacks_groups(&self) -> Option<Trouble> {
        let is_left_alone = !self.spared.met.is_empty();
        let none = || TargetError::none_there("groups", &[&self.spec.limits.target]).into();
        (self.groups.is_empty() && !is_left_alone).then(none)
    }

    /// Section name under which the journal has the knobs of one group.
    fn section_of(&self, group: &str) -> String {
        format!("{} {group}", self.head.label)
    }

    /// Restores the limits of groups that hold one, in one write of the journal.
    fn lift(&mut self, paths: &[String], knobs: &mut dyn Knobs) -> Vec<Line> {
        if paths.is_empty() {
            return Vec::new();
        }
        let sections: Vec<String> = paths.iter().map(|path| self.section_of(path)).collect();
        let (mut lines, refusal) = match knobs.put_back(&sections) {
            Ok(None) => (Vec::new(), None),
            Ok(Some(why)) => (vec![self.head.not_noted(why)], None),
            Err(why) => (Vec::new(), Some(why)),
        };
        // Of several, each is asked again: one that is stuck keeps no other one.
        if refusal.is_some() && paths.len() > 1 {
            return paths.iter().flat_map(|path| self.lift(std::slice::from_ref(path), knobs)).collect();
        }
        for (path, section) in paths.iter().zip(sections) {
            match &refusal {
                Some(why) => lines.push(Line::Trouble { section, why: why.to_string() }),
                None => {
                    if let Some(sized) = self.groups.get_mut(path) {
                        sized.held = None;
                    }
                    lines.push(Line::PutBack { section });
                }
            }
        }
        lines
    }

    /// Restarts the controllers of some groups, because their limits are restored.
    fn rest(&mut self, paths: &[String], now: Instant) {
        for path in paths {
            let Some(sized) = self.groups.get_mut(path) else { continue };
            if let Ok(daemon) = LimitsDaemon::start(self.spec.of(path), now + Duration::from_secs(1)) {
                (sized.daemon, sized.ran) = (daemon, now);
            }
        }
    }
}

/// Why a limit is not written.
#[derive(Clone, Debug, thiserror::Error)]
enum LimitError {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    Knobs(#[from] Refusal),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Held(#[from] Held),
    #[error("it has no memory.high")]
    NoFile,
    #[error("it is in other hands")]
    Foreign,
    #[error(
        "{} is less than the anonymous memory that free swap cannot take, {}: it would stall for good",
        .high.approx(),
        .least.approx()
    )]
    TooLow { high: Bytes, least: Bytes },
}

/// Host for one group: reads the same as the machine's host, and writes the limit through the journal.
struct Bound<'a> {
    host: &'a mut dyn LoopHost,
    world: &'a mut dyn System,
    knobs: &'a mut dyn Knobs,
    log: &'a mut dyn Log,
    path: &'a str,
    section: &'a str,
    enabled: bool,
    file: &'a str,
    number: &'a mut Option<u64>,
    held: &'a mut Option<u64>,
    foreign: &'a mut Option<String>,
    told: &'a mut Option<u64>,
    acts: &'a mut Vec<Act>,
    /// Why an audit line could not be written.
    muted: Option<AuditError>,
}

impl Bound<'_> {
    fn number(&mut self, name: &str) -> Result<Option<u64>, SystemError> {
        let file = self.world.group_file(self.path, name)?;
        Ok(self.world.value(&file)?.and_then(|text| text.trim().parse().ok()))
    }

    /// Smallest size that the group can shrink to: anonymous memory can only go to free swap. `None` if not known.
    fn least(&mut self) -> Result<Option<u64>, SystemError> {
        let file = self.world.group_file(self.path, "memory.stat")?;
        let Some(stat) = self.world.value(&file)? else { return Ok(None) };
        let count = |name: &str| -> Option<u64> {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line?.trim().parse().ok()
        };
        let (Some(anon), Some(shmem), Some(swap)) = (count("anon"), count("shmem"), self.world.swap_free()) else {
            return Ok(None);
        };
        Ok(Some(anon.saturating_add(shmem).saturating_sub(swap.get())))
    }

    /// A group that was removed and made again under the same name has no limit of ours: our limit vanished with the old group.
    fn heed(&mut self, number: u64) {
        if self.number.replace(number).is_some_and(|before| before != number) {
            (*self.held, *self.told) = (None, None);
            // The journal sees that the group is another one, and closes the change.
            let _ = self.knobs.put_back(&[self.section.to_owned()]);
        }
    }

    /// Whether the file holds an expected value: its original one, or our last one.
    fn is_ours(&mut self) -> Result<bool, LimitError> {
        let Some(now) = self.world.value(self.file)? else { return Err(LimitError::NoFile) };
        let now = now.trim();
        *self.foreign = match *self.held {
            None if now == "max" => None,
            None => Some(format!("its memory.high is {now}, which somebody else set")),
            Some(bytes) if is_rounded(&bytes.to_string(), now) => None,
            Some(bytes) => Some(format!("its memory.high was set to {bytes}, and is {now}: somebody else wrote it")),
        };
        if self.foreign.is_some() {
            *self.held = None;
            self.knobs.forget(self.section)?;
        }
        Ok(self.foreign.is_none())
    }

    fn lift(&mut self) -> Result<(), LimitError> {
        if self.held.is_none() {
            return Ok(());
        }
        // Giving memory back waits for no line, and no disk.
        let not_noted = self.knobs.put_back(&[self.section.to_owned()])?;
        *self.held = None;
        if let Some(why) = not_noted {
            self.tell(&Line::Trouble { section: self.section.to_owned(), why: NotNoted(why).to_string() })?;
        }
        Ok(self.tell(&Line::PutBack { section: self.section.to_owned() })?)
    }

    fn tell(&mut self, line: &Line) -> Result<(), AuditError> {
        self.log.line(line).inspect_err(|why| self.muted = Some(why.clone()))
    }

    fn set(&mut self, high: u64) -> Result<(), LimitError> {
        let value = high.to_string();
        if !self.enabled {
            let is_near = |told: u64| told.abs_diff(high) < high / TELL_SHARE;
            if !self.told.is_some_and(is_near) {
                *self.told = Some(high);
                let (section, path) = (self.section.to_owned(), self.file.to_owned());
                self.tell(&Line::WouldWrite { section, path, value })?;
            }
            return Err(Held::Observing.into());
        }
        if let Some(least) = self.least()?.filter(|&least| high < least) {
            return Err(LimitError::TooLow { high: Bytes::new(high), least: Bytes::new(least) });
        }
        let usage = self.number("memory.current")?.unwrap_or(0);
        let (section, path) = (self.section.to_owned(), self.file.to_owned());
        self.tell(&Line::Writes { section, path, value: value.clone() })?;
        let mut next = usage.max(high);
        let outcome = loop {
            next = high.max(next.saturating_sub(PIECE) / PAGE_BYTES * PAGE_BYTES);
            if let Err(why) = self.knobs.set_often(self.section, self.file, next) {
                break Err(why);
            }
            *self.held = Some(next);
            if next == high || self.world.has_to_end() {
                break Ok(());
            }
        };
        let left = self.number("memory.current").ok().flatten().unwrap_or(usage);
        let asked_bytes = usage.saturating_sub(high);
        let verified_bytes = usage.saturating_sub(left).min(asked_bytes);
        let effect = match &outcome {
            Err(why) => Effect::Refused { why: why.to_string() },
            Ok(()) if verified_bytes < asked_bytes => Effect::Partly,
            Ok(()) => Effect::Done,
        };
        self.acts.push(Act {
            action: "limit".into(),
            target: self.path.to_owned(),
            node: 0,
            write: format!("memory.high = {value}"),
            asked_bytes,
            verified_bytes,
            effect,
        });
        Ok(outcome?)
    }
}

impl Limiting for Bound<'_> {
    fn set_memory_high(&mut self, memcg: u64, high: Option<Bytes>) -> Result<(), HostError> {
        self.heed(memcg);
        let whole = |high: Bytes| high.get() / PAGE_BYTES * PAGE_BYTES;
        let set = match self.is_ours() {
            Ok(false) => Err(LimitError::Foreign),
            Ok(true) => match high {
                Some(high) => self.set(whole(high)),
                None => self.lift(),
            },
            Err(why) => Err(why),
        };
        set.map_err(|error| HostError::Failed(error.to_string()))
    }
}

impl Gauging for Bound<'_> {
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

/// For sorting before a squeeze: ageing changes no more than monitoring does.
impl Generational for Bound<'_> {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        self.host.generation_capabilities()
    }
    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        self.host.read_generations(out)
    }
    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        self.host.age_generations(orders, answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_words() {
        let too_low = LimitError::TooLow { high: Bytes::from_mib(10), least: Bytes::from_mib(30) };
        for (error, words) in [
            (SystemError::new("EIO").into(), "EIO"),
            (Held::Observing.into(), "it only observes: enable = true lets it act"),
            (LimitError::NoFile, "it has no memory.high"),
            (LimitError::Foreign, "it is in other hands"),
            (
                too_low,
                "10.0 MiB is less than the anonymous memory that free swap cannot take, 30.0 MiB: it would stall for good",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
