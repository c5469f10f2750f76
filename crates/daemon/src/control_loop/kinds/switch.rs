//! A section that an engine of the kernel carries out: its files are written, it is switched on, and both are undone
//! later.

use crate::changes::Refusal;
use crate::config::{CompactionConfig, Config, MonitorsConfig, TieringConfig, TimeToLive};
use crate::control_loop::guard::Reach;
use crate::control_loop::kernel::{
    Counts, Kdamond, Kernel, MIN_TTL, Module, Proactive, Standing, Thrashing, Tiers, foretold, refuse_off,
};
use crate::control_loop::line::{Line, SectionStatus};
use crate::control_loop::run::LoopError;
use crate::control_loop::section::{Context, Due, Head, Kind, Phase, Section, Totals, Watched};
use crate::control_loop::trouble::{AuditError, Trouble};
use crate::control_loop::{Log, System};
use isotherm_core::compaction::{Design, MergedConfig};
use isotherm_core::presets::PresetError;
use isotherm_units::{Duration, Instant, Ratio};

/// Time until a failed attempt is repeated.
const RETRY: Duration = Duration::from_secs(60);
/// Shortest run of an engine before it is restarted for other targets: a restart loses its state.
const RENEW: Duration = Duration::from_secs(300);
/// Time over which the CPU time of a kernel thread is judged, and time for which an engine that takes too much stays off.
const JUDGED: Duration = Duration::from_secs(60);
const EXPENSIVE: Duration = Duration::from_secs(600);
/// Time between two lines about the work of the kernel.
const COUNT: Duration = Duration::from_secs(60);

/// A section that an engine of the kernel carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Monitors(MonitorsConfig),
    Compaction(CompactionConfig),
    Tiering(TieringConfig),
    TimeToLive(TimeToLive),
}

impl Spec {
    fn enable(&self) -> bool {
        match self {
            Self::Monitors(spec) => spec.enable,
            Self::Compaction(spec) => spec.enable,
            Self::Tiering(spec) => spec.enable,
            Self::TimeToLive(spec) => spec.enable,
        }
    }

    /// Table and name.
    fn label(&self) -> String {
        match self {
            Self::Monitors(spec) => format!("monitors.{}", spec.name),
            Self::Compaction(spec) => format!("compaction.{}", spec.name),
            // What the journal has of sections has a dot.
            Self::Tiering(_) => "tiering.kernel".to_owned(),
            Self::TimeToLive(_) => "min-ttl.kernel".to_owned(),
        }
    }

    fn kernel(&self, label: &str) -> Result<Box<dyn Kernel>, PresetError> {
        Ok(match self {
            Self::Monitors(spec) => match Module::new(spec) {
                Some(module) => Box::new(module),
                None => Box::new(Kdamond::new(label, spec)?),
            },
            Self::Compaction(CompactionConfig { design: Design::Merged(config), .. }) => {
                Box::new(Proactive::new(config))
            }
            // The check refuses other designs for kcompactd.
            Self::Compaction(_) => Box::new(Proactive::new(&MergedConfig::default())),
            Self::Tiering(spec) => Box::new(Tiers::new(spec)),
            Self::TimeToLive(spec) => Box::new(Thrashing::new(spec)),
        })
    }
}

/// An engine of the kernel, and whether it is on.
#[derive(Debug)]
pub(super) struct KernelSection {
    head: Head,
    /// Number of attempts that failed.
    refused: u64,
    /// When its counters last showed memory for which it did its part.
    acted_at: Option<Instant>,
    spec: Spec,
    kernel: Box<dyn Kernel>,
    /// Time at which it was switched on; `None` while it is off.
    on: Option<Instant>,
    /// Another program switched it off.
    is_forbidden: bool,
    /// The list of writes was reported.
    is_told: bool,
    tried: Option<Instant>,
    counted: Instant,
    counts: Counts,
    /// `[daemon] max-cpu`.
    max_cpu: Ratio,
    /// Time and value of the last reading of its thread's CPU time.
    spent: Option<(Instant, Duration)>,
}

impl Kind for KernelSection {
    type Spec = Spec;

    fn specs(config: &Config) -> Vec<Spec> {
        let monitors = config.monitors.iter().filter(|section| !section.is_own()).cloned().map(Spec::Monitors);
        let compaction = config.compaction.iter().filter(|section| section.is_kernels());
        let tiering = config.tiering.iter().filter(|section| !section.is_own()).cloned().map(Spec::Tiering);
        let time_to_live = TimeToLive::of(&config.generations).map(Spec::TimeToLive);
        monitors.chain(compaction.cloned().map(Spec::Compaction)).chain(tiering).chain(time_to_live).collect()
    }

    fn begin(spec: &Spec, now: Instant, _: &mut Watched) -> Result<Self, LoopError> {
        let label = spec.label();
        let kernel = spec.kernel(&label)?;
        Ok(Self {
            head: Head::new(label, kernel.engine(), spec.enable()),
            refused: 0,
            acted_at: None,
            spec: spec.clone(),
            kernel,
            on: None,
            is_forbidden: false,
            is_told: false,
            tried: None,
            counted: now,
            counts: Counts::default(),
            max_cpu: Ratio::ONE,
            spent: None,
        })
    }

    fn lacks(spec: &Spec, _: &Config, world: &mut dyn System) -> Option<String> {
        let Spec::TimeToLive(_) = spec else { return None };
        refuse_off(world).err().map(|why| format!("{}: {why}", spec.label()))
    }

    fn foretells(spec: &Spec, world: &mut dyn System) -> Option<String> {
        let Spec::TimeToLive(time) = spec else { return None };
        let is_there = world.value(MIN_TTL).is_ok_and(|value| value.is_some());
        (is_there && refuse_off(world).is_ok()).then(|| foretold(time, world))
    }

    fn becomes(&mut self, spec: &Spec, _: Instant) -> bool {
        self.spec == *spec
    }
}

impl Section for KernelSection {
    fn phase(&self) -> Phase {
        Phase::Kernel
    }

    fn began(&self) -> Line {
        self.head.began(self.kernel.why())
    }

    fn follow(&mut self, context: &mut Context<'_>) -> Vec<Line> {
        self.max_cpu = context.config.daemon.max_cpu;
        self.kernel.follow(context.config, context.world)
    }

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    fn reach(&self) -> Reach {
        self.kernel.reach()
    }

    fn due(&self) -> Due {
        Due::EachTurn
    }

    /// Checks whether it should be on, and switches it.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        self.head.runs += 1;
        let now = context.now;
        let may_act = self.head.enabled && !self.is_forbidden;
        let trouble = match (may_act, context.guard.any(&self.head.label), self.on) {
            (false, ..) if self.is_forbidden => return Ok(()),
            (false, ..) => {
                self.head.state = "observing".to_owned();
                if self.is_told || !self.is_time_to_try(now) {
                    return Ok(());
                }
                self.report_writes(context)?
            }
            (true, Some(why), on) => {
                self.head.state = why;
                self.tried = None;
                if on.is_some() { self.switch_off(context)?.map(Trouble::Knobs) } else { None }
            }
            (true, None, Some(since)) => self.watch(since, context)?,
            (true, None, None) if !self.is_time_to_try(now) => return Ok(()),
            (true, None, None) => self.switch_on(context)?,
        };
        let line = self.head.troubled(trouble);
        self.refused += u64::from(line.is_some());
        Ok(line.map_or(Ok(()), |line| context.log.line(&line))?)
    }

    fn put_back(&mut self, context: &mut Context<'_>) -> Result<Vec<String>, AuditError> {
        Ok(self.switch_off(context)?.iter().map(ToString::to_string).collect())
    }

    fn status(&self, now: Instant, world: &mut dyn System) -> SectionStatus {
        let Counts { asked_bytes, verified_bytes, words } = self.kernel.counts(self.on.is_some(), world);
        let totals = Totals { asked_bytes, verified_bytes, refused: self.refused, acted_at: self.acted_at };
        self.head.status(now, &totals, self.kernel.targets(), words)
    }
}

impl KernelSection {
    /// A failed attempt is repeated a minute later.
    fn is_time_to_try(&mut self, now: Instant) -> bool {
        if self.tried.is_some_and(|tried| now.since(tried) < RETRY) {
            return false;
        }
        self.tried = Some(now);
        true
    }

    fn report_writes(&mut self, context: &mut Context<'_>) -> Result<Option<Trouble>, AuditError> {
        let writes = match self.kernel.writes(context.world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why.into())),
        };
        self.is_told = true;
        self.foretell(context.log)?;
        for write in writes {
            context.log.line(&Line::WouldWrite {
                section: self.head.label.clone(),
                path: write.path,
                value: write.value,
            })?;
        }
        Ok(None)
    }

    fn foretell(&self, log: &mut dyn Log) -> Result<(), AuditError> {
        let line = |words| Line::Forecast { section: self.head.label.clone(), words };
        self.kernel.forecast().map(line).map_or(Ok(()), |line| log.line(&line))
    }

    fn switch_on(&mut self, context: &mut Context<'_>) -> Result<Option<Trouble>, AuditError> {
        let writes = match self.kernel.writes(context.world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why.into())),
        };
        self.foretell(context.log)?;
        let label = [self.head.label.clone()];
        let back = |context: &mut Context<'_>| context.knobs.put_back(&label).err().map(Box::new);
        for write in writes {
            let (path, value) = (write.path.clone(), write.value.clone());
            if let Err(why) = context.log.line(&Line::Writes { section: self.head.label.clone(), path, value }) {
                // The rest stays in the journal, and is reported when possible.
                let _ = context.knobs.put_back(&label);
                return Err(why);
            }
            if let Err(error) = write.carry_out(&self.head.label, context.knobs) {
                return Ok(Some(Trouble::NotWritten { error, left: back(context) }));
            }
        }
        if let Err(error) = self.kernel.begins(context.world) {
            return Ok(Some(Trouble::NotBegun { error, left: back(context) }));
        }
        self.on = Some(context.now);
        self.spent = None;
        self.counted = context.now;
        self.counts = Counts::default();
        self.head.state = "acting".to_owned();
        Ok(self.kernel.shortcoming(context.world))
    }

    fn watch(&mut self, since: Instant, context: &mut Context<'_>) -> Result<Option<Trouble>, Trouble> {
        let now = context.now;
        if let Some(share) = self.overspends(now, context.world) {
            // It is tried again at this time.
            self.tried = Some(now + EXPENSIVE.saturating_sub(RETRY));
            let left = self.switch_off(context)?;
            return Ok(Some(Trouble::Overspent { share, max: self.max_cpu, off: EXPENSIVE }.leaving(left)));
        }
        match self.kernel.standing(context.world)? {
            Standing::Outdated if now.since(since) >= RENEW => {
                self.tried = None;
                Ok(self.switch_off(context)?.map(Trouble::Knobs))
            }
            Standing::Runs | Standing::Outdated => {
                if now.since(self.counted) >= COUNT {
                    self.counted = now;
                    self.count(now, context.world, context.log)?;
                }
                Ok(self.kernel.shortcoming(context.world))
            }
            Standing::Ended(why) => {
                let left = self.switch_off(context)?;
                Ok(Some(Trouble::Engine(why).leaving(left)))
            }
            Standing::SwitchedOff => {
                let left = self.switch_off(context)?;
                self.is_forbidden = true;
                self.head.state = "switched off by somebody else".to_owned();
                Ok(Some(Trouble::SwitchedOff.leaving(left)))
            }
        }
    }

    /// Share of a processor that its thread used over the last minute, if that is too much.
    fn overspends(&mut self, now: Instant, world: &mut dyn System) -> Option<Ratio> {
        if self.spent.is_some_and(|(since, _)| now.since(since) < JUDGED) {
            return None;
        }
        let file = self.kernel.thread_file()?;
        let thread = world.value(&file).ok().flatten()?.trim().parse().ok()?;
        let total = world.cpu_of(thread)?;
        let (since, before) = self.spent.replace((now, total))?;
        let elapsed = u128::from(now.since(since).ns()).max(1);
        // Tenths of a percent, as the kernel counts in ticks of up to 10 ms.
        let permille = u128::from(total.saturating_sub(before).ns()) * 1000 / elapsed;
        let share = Ratio::from_ppm(u64::try_from(permille).unwrap_or(u64::MAX).saturating_mul(1000));
        (share > self.max_cpu).then_some(share)
    }

    /// Reports the work of the kernel since the last line about it.
    fn count(&mut self, now: Instant, world: &mut dyn System, log: &mut dyn Log) -> Result<(), AuditError> {
        let counts = self.kernel.counts(true, world);
        let asked_bytes = counts.asked_bytes.saturating_sub(self.counts.asked_bytes);
        let verified_bytes = counts.verified_bytes.saturating_sub(self.counts.verified_bytes);
        if asked_bytes == 0 && verified_bytes == 0 {
            return Ok(());
        }
        self.counts = counts;
        if verified_bytes > 0 {
            self.acted_at = Some(now);
        }
        log.line(&Line::Counted { section: self.head.label.clone(), asked_bytes, verified_bytes })
    }

    /// Restores the knobs that it wrote, if it is on.
    fn switch_off(&mut self, context: &mut Context<'_>) -> Result<Option<Refusal>, AuditError> {
        if self.on.is_none() {
            return Ok(None);
        }
        // The counters are gone afterwards. Knobs are restored even if no line can be written.
        let counted = self.count(context.now, context.world, context.log);
        self.on = None;
        let restored = context.knobs.put_back(std::slice::from_ref(&self.head.label));
        counted?;
        match restored {
            Ok(not_noted) => {
                let lines = not_noted.map(|why| self.head.not_noted(why));
                let lines = lines.into_iter().chain([Line::PutBack { section: self.head.label.clone() }]);
                lines.into_iter().try_for_each(|line| context.log.line(&line))?;
                Ok(None)
            }
            Err(left) => Ok(Some(left)),
        }
    }
}
