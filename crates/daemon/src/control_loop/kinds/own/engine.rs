//! The engines: a monitor with its schemes, and promotion. Each is a type of `core`, and both are
//! driven the same way.

use super::Spec;
use super::gate::Gate;
use crate::config::{MonitorsConfig, TieringConfig};
use crate::control_loop::LoopHost;
use crate::control_loop::trouble::Trouble;
use isotherm_core::host::TargetId;
use isotherm_core::monitor::{Event, Monitor, MonitorConfig, Operations};
use isotherm_core::presets::PresetError;
use isotherm_core::promotion::{Promotion, PromotionError};
use isotherm_core::schemes;
use isotherm_units::Instant;

/// An engine, created with the first process.
#[derive(Debug, Default)]
pub(super) enum Engine {
    #[default]
    None,
    Monitor(Box<Monitor>),
    Promotion(Box<Promotion>),
}

impl Engine {
    /// Adds a process.
    ///
    /// # Errors
    /// A feature that the host lacks.
    pub(super) fn enter(
        &mut self,
        spec: &Spec,
        seed: u64,
        target: TargetId,
        now: Instant,
        stretch: u32,
        host: &mut dyn LoopHost,
    ) -> Result<(), Trouble> {
        if let Self::None = self {
            *self = match spec {
                Spec::Monitors(spec) => Self::Monitor(Box::new(monitor(spec, seed, stretch)?)),
                Spec::Tiering(spec) => Self::Promotion(Box::new(promotion(spec, seed, host)?)),
            };
        }
        let entered = match self {
            Self::None => Ok(()),
            Self::Monitor(monitor) => {
                let added = monitor.add_target(target, &[], host).map_err(Trouble::Monitor);
                if added.is_ok() && !monitor.is_running() {
                    monitor.start(now);
                }
                added
            }
            Self::Promotion(promotion) => promotion.enter(target, None, now).map_err(Trouble::Promotion),
        };
        if entered.is_err() && self.is_empty() {
            *self = Self::None;
        }
        entered
    }

    /// Removes a process. The host no longer knows it, so a monitor drops it at its next sample.
    pub(super) fn exit(&mut self, target: TargetId) {
        if let Self::Promotion(promotion) = self {
            promotion.exit(target);
            if self.is_empty() {
                *self = Self::None;
            }
        }
    }

    /// Changes controls of a promotion daemon, and scales of spaces. Returns whether all were
    /// accepted.
    pub(super) fn control(
        &mut self,
        knobs: &[(&'static str, String)],
        scales: &[(TargetId, u32)],
        now: Instant,
    ) -> bool {
        let Self::Promotion(promotion) = self else { return true };
        let mut is_done = knobs.iter().all(|(name, text)| promotion.set_knob(name, text, now).is_ok());
        for &(space, scale) in scales {
            // A mode without scales only has scale 1.
            is_done &= promotion.set_scale(space, scale).is_ok() || scale == 1;
        }
        is_done
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Monitor(monitor) => monitor.targets().next().is_none(),
            Self::Promotion(promotion) => promotion.spaces().next().is_none(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Monitor(monitor) => monitor.poll_timeout(),
            Self::Promotion(promotion) => promotion.next_timeout().map(|(at, _)| at),
        }
    }

    /// Whether the engine stretches its own intervals, instead of the time until its next run.
    pub(super) const fn is_stretched_inside(&self) -> bool {
        matches!(self, Self::Monitor(_))
    }

    pub(super) fn stretch(&mut self, spec: &Spec, stretch: u32, host: &mut dyn LoopHost) {
        if let (Self::Monitor(monitor), Spec::Monitors(spec)) = (self, spec)
            && let Ok(config) = config(spec)
        {
            // The configuration was accepted at the start, and longer intervals are valid too.
            let _ = monitor.commit(stretched(config, stretch), None, host);
        }
    }

    /// Does the work that is due. Returns the errors of the run.
    pub(super) fn run(&mut self, now: Instant, gate: &mut Gate<'_>) -> Option<Trouble> {
        match self {
            Self::None => None,
            Self::Monitor(monitor) => {
                let tick = monitor.handle_timeout(now, gate);
                let trouble = tick.events.iter().find_map(|event| match event {
                    Event::HostFailed { call, error, .. } if *call != "apply" => {
                        Some(Trouble::SampleLost { call, error: error.clone() })
                    }
                    Event::NoLayout { why, .. } => Some(Trouble::NoLayout(*why)),
                    _ => None,
                });
                if tick.events.contains(&Event::Stopped) {
                    *self = Self::None;
                }
                trouble
            }
            Self::Promotion(promotion) => {
                if let Some((_, thread)) = promotion.next_timeout().filter(|(at, _)| *at <= now) {
                    promotion.handle_timeout(thread, now, gate);
                }
                None
            }
        }
    }

    /// Results of the engine and its limitations.
    pub(super) fn words(&self, nr_processes: usize) -> Vec<String> {
        let mut words = vec![format!("{nr_processes} processes are watched")];
        match self {
            Self::None => words.clear(),
            Self::Monitor(monitor) => {
                let reports = monitor.scheme_reports();
                let explained = monitor.config().schemes.iter().zip(&reports);
                words.extend(explained.flat_map(|(scheme, report)| schemes::explain(scheme, report)));
            }
            Self::Promotion(promotion) => {
                let rows = promotion.counters().rows().into_iter().filter(|&(_, count)| count > 0);
                words.extend(rows.map(|(name, count)| format!("{name} {count}")));
            }
        }
        words
    }
}

/// Monitor configuration of a section. It is always one for processes, even if the preset was made for physical memory.
fn config(spec: &MonitorsConfig) -> Result<MonitorConfig, PresetError> {
    Ok(MonitorConfig { operations: Operations::Vaddr, ..spec.setup()?.config })
}

fn stretched(mut config: MonitorConfig, stretch: u32) -> MonitorConfig {
    config.stretch(stretch);
    config
}

fn monitor(spec: &MonitorsConfig, seed: u64, stretch: u32) -> Result<Monitor, Trouble> {
    Ok(Monitor::new(stretched(config(spec)?, stretch), seed)?)
}

fn promotion(spec: &TieringConfig, seed: u64, host: &dyn LoopHost) -> Result<Promotion, PromotionError> {
    Promotion::new(spec.promotion(), seed, host)
}
