//! A section that an engine of the kernel carries out: its files are written, it is switched on, and both are taken back.

use super::kernel::{Counts, Kdamond, Kernel, Module, Proactive, Standing, Tiers};
use super::line::{Line, SectionStatus};
use super::{Knobs, Log, World};
use crate::config::{CompactionConfig, Config, MonitorsConfig, TieringConfig};
use isotherm_core::compaction::{Design, MergedConfig};
use isotherm_core::presets::PresetError;
use isotherm_units::{Duration, Instant, Ratio};

/// What failed is tried again after so long.
const RETRY: Duration = Duration::from_secs(60);
/// An engine that should run for others goes on so long before it is begun anew: what it knows is lost then.
const RENEW: Duration = Duration::from_secs(300);
/// The CPU time of a kernel's thread is judged over so long, and an engine that takes too much is left off for so long.
const JUDGED: Duration = Duration::from_secs(60);
const EXPENSIVE: Duration = Duration::from_secs(600);
/// Time between two lines about what the kernel did.
const COUNT: Duration = Duration::from_secs(60);

/// A section that an engine of the kernel carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Monitors(MonitorsConfig),
    Compaction(CompactionConfig),
    Tiering(TieringConfig),
}

impl Spec {
    /// Those of a configuration.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let monitors = config.monitors.iter().filter(|section| !section.is_own()).cloned().map(Self::Monitors);
        let compaction = config.compaction.iter().filter(|section| section.is_kernels());
        let tiering = config.tiering.iter().filter(|section| !section.is_own()).cloned().map(Self::Tiering);
        monitors.chain(compaction.cloned().map(Self::Compaction)).chain(tiering).collect()
    }

    fn enable(&self) -> bool {
        match self {
            Self::Monitors(spec) => spec.enable,
            Self::Compaction(spec) => spec.enable,
            Self::Tiering(spec) => spec.enable,
        }
    }

    /// Table and name.
    fn label(&self) -> String {
        match self {
            Self::Monitors(spec) => format!("monitors.{}", spec.name),
            Self::Compaction(spec) => format!("compaction.{}", spec.name),
            // What the journal has of sections has a dot.
            Self::Tiering(_) => "tiering.kernel".to_owned(),
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
        })
    }
}

/// An engine of the kernel, and whether it is on.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) label: String,
    pub(super) spec: Spec,
    kernel: Box<dyn Kernel>,
    /// Since when.
    on: Option<Instant>,
    /// Somebody else switched it off.
    is_forbidden: bool,
    /// The list of writes was told.
    is_told: bool,
    tried: Option<Instant>,
    trouble: Option<String>,
    state: String,
    runs: u64,
    refused: u64,
    counted: Instant,
    counts: Counts,
    /// `[daemon] max-cpu`.
    max_cpu: Ratio,
    /// When its thread was looked at last, and its CPU time then.
    spent: Option<(Instant, Duration)>,
}

impl Switch {
    /// # Errors
    /// A preset whose values make no sense.
    pub(super) fn new(spec: &Spec, now: Instant) -> Result<Self, PresetError> {
        let label = spec.label();
        let kernel = spec.kernel(&label)?;
        Ok(Self {
            label,
            spec: spec.clone(),
            kernel,
            on: None,
            is_forbidden: false,
            is_told: false,
            tried: None,
            trouble: None,
            state: "has not run yet".to_owned(),
            runs: 0,
            refused: 0,
            counted: now,
            counts: Counts::default(),
            max_cpu: Ratio::ONE,
            spent: None,
        })
    }

    pub(super) fn began(&self) -> Line {
        let (section, engine) = (self.label.clone(), self.kernel.engine());
        Line::Section { section, engine, enabled: self.spec.enable(), why: self.kernel.why() }
    }

    /// Looks for whom there is.
    pub(super) fn follow(&mut self, config: &Config, world: &mut dyn World) -> Vec<Line> {
        self.max_cpu = config.daemon.max_cpu;
        self.kernel.follow(config, world)
    }

    /// Looks whether it is to be on, and makes it so. `withheld`: why nothing may act now.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        withheld: Option<&str>,
        log: &mut dyn Log,
    ) -> Result<(), String> {
        self.runs += 1;
        let may_act = self.spec.enable() && !self.is_forbidden;
        let trouble = match (may_act, withheld, self.on) {
            (false, ..) if self.is_forbidden => return Ok(()),
            (false, ..) => {
                self.state = "observing".to_owned();
                if self.is_told || !self.is_time_to_try(now) {
                    return Ok(());
                }
                self.tell_writes(world, log)?
            }
            (true, Some(why), on) => {
                self.state = why.to_owned();
                self.tried = None;
                if on.is_some() { self.put_back(world, knobs, log)? } else { None }
            }
            (true, None, Some(since)) => self.watch(now, since, world, knobs, log)?,
            (true, None, None) if !self.is_time_to_try(now) => return Ok(()),
            (true, None, None) => self.switch_on(now, world, knobs, log)?,
        };
        self.told(trouble, log)
    }

    /// What failed is tried again a minute later.
    fn is_time_to_try(&mut self, now: Instant) -> bool {
        if self.tried.is_some_and(|tried| now.since(tried) < RETRY) {
            return false;
        }
        self.tried = Some(now);
        true
    }

    fn told(&mut self, trouble: Option<String>, log: &mut dyn Log) -> Result<(), String> {
        if trouble == self.trouble {
            return Ok(());
        }
        self.trouble.clone_from(&trouble);
        match trouble {
            Some(why) => {
                self.refused += 1;
                log.line(&Line::Trouble { section: self.label.clone(), why })
            }
            None => Ok(()),
        }
    }

    fn tell_writes(&mut self, world: &mut dyn World, log: &mut dyn Log) -> Result<Option<String>, String> {
        let writes = match self.kernel.writes(world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why)),
        };
        self.is_told = true;
        for write in writes {
            log.line(&Line::WouldWrite { section: self.label.clone(), path: write.path, value: write.value })?;
        }
        Ok(None)
    }

    fn switch_on(
        &mut self,
        now: Instant,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        log: &mut dyn Log,
    ) -> Result<Option<String>, String> {
        let writes = match self.kernel.writes(world) {
            Ok(writes) => writes,
            Err(why) => return Ok(Some(why)),
        };
        let back = |knobs: &mut dyn Knobs| {
            knobs.put_back(&self.label).err().map_or_else(String::new, |error| format!("; {error}"))
        };
        for write in writes {
            let (path, value) = (write.path.clone(), write.value.clone());
            if let Err(why) = log.line(&Line::Writes { section: self.label.clone(), path, value }) {
                // What is left of it stays in the journal, and is told when it can be.
                let _ = knobs.put_back(&self.label);
                return Err(why);
            }
            if let Err(why) = write.carry_out(&self.label, knobs) {
                return Ok(Some(format!("{why}; what was written before it is put back{}", back(knobs))));
            }
        }
        if let Err(why) = self.kernel.begins(world) {
            return Ok(Some(format!("{why}; put back{}", back(knobs))));
        }
        self.on = Some(now);
        self.spent = None;
        self.counted = now;
        self.counts = Counts::default();
        self.state = "acting".to_owned();
        Ok(self.kernel.shortcoming(world))
    }

    fn watch(
        &mut self,
        now: Instant,
        since: Instant,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        log: &mut dyn Log,
    ) -> Result<Option<String>, String> {
        if let Some(share) = self.overspends(now, world) {
            // It is tried again when this has passed.
            self.tried = Some(now + EXPENSIVE.saturating_sub(RETRY));
            let failed = self.put_back(world, knobs, log)?;
            let why = format!(
                "its thread took {share} of a processor, more than [daemon] max-cpu, {}: it is off for {EXPENSIVE}; longer intervals or \
                 fewer regions take less",
                self.max_cpu
            );
            return Ok(Some(failed.map_or(why.clone(), |failed| format!("{why}; {failed}"))));
        }
        match self.kernel.standing(world)? {
            Standing::Outdated if now.since(since) >= RENEW => {
                self.tried = None;
                self.put_back(world, knobs, log)
            }
            Standing::Runs | Standing::Outdated => {
                if now.since(self.counted) >= COUNT {
                    self.counted = now;
                    self.count(world, log)?;
                }
                Ok(self.kernel.shortcoming(world))
            }
            Standing::Ended(why) => {
                let failed = self.put_back(world, knobs, log)?;
                Ok(Some(failed.map_or(why.clone(), |failed| format!("{why}; {failed}"))))
            }
            Standing::SwitchedOff => {
                let failed = self.put_back(world, knobs, log)?;
                self.is_forbidden = true;
                self.state = "switched off by somebody else".to_owned();
                let why =
                    "somebody switched it off, or set it otherwise; it stays off until the configuration is read anew";
                Ok(Some(failed.map_or(why.to_owned(), |failed| format!("{why}; {failed}"))))
            }
        }
    }

    /// The share of a processor that its thread took over the last minute, if that is too much.
    fn overspends(&mut self, now: Instant, world: &mut dyn World) -> Option<Ratio> {
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

    /// What the kernel did since the last line about it.
    fn count(&mut self, world: &mut dyn World, log: &mut dyn Log) -> Result<(), String> {
        let counts = self.kernel.counts(true, world);
        let asked_bytes = counts.asked_bytes.saturating_sub(self.counts.asked_bytes);
        let verified_bytes = counts.verified_bytes.saturating_sub(self.counts.verified_bytes);
        if asked_bytes == 0 && verified_bytes == 0 {
            return Ok(());
        }
        self.counts = counts;
        log.line(&Line::Counted { section: self.label.clone(), asked_bytes, verified_bytes })
    }

    /// Puts back what it wrote, if it is on.
    pub(super) fn put_back(
        &mut self,
        world: &mut dyn World,
        knobs: &mut dyn Knobs,
        log: &mut dyn Log,
    ) -> Result<Option<String>, String> {
        if self.on.is_none() {
            return Ok(None);
        }
        // Afterwards they are gone. What cannot be written down is put back all the same.
        let counted = self.count(world, log);
        self.on = None;
        let trouble = knobs.put_back(&self.label).err();
        counted?;
        log.line(&Line::PutBack { section: self.label.clone() })?;
        Ok(trouble)
    }

    pub(super) fn status(&self, world: &mut dyn World) -> SectionStatus {
        let counts = self.kernel.counts(self.on.is_some(), world);
        SectionStatus {
            section: self.label.clone(),
            engine: self.kernel.engine(),
            enabled: self.spec.enable(),
            state: self.trouble.clone().unwrap_or_else(|| self.state.clone()),
            targets: self.kernel.targets(),
            runs: self.runs,
            asked_bytes: counts.asked_bytes,
            verified_bytes: counts.verified_bytes,
            refused: self.refused,
            words: counts.words,
        }
    }
}
