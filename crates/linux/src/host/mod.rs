//! The live machine as a Host of `isotherm-core`: its targets, and its roles, one file each.

mod adopting;
mod applying;
mod compacting;
mod compactors;
mod gauging;
mod generations;
mod mappings;
mod marks;
mod nodes;
mod physical;
mod probing;
mod tiering;

pub use compacting::free_zones;

use crate::module::Module;
use crate::process::Process;
use crate::{LiveError, Root, sys};
use isotherm_core::host::{HostError, TargetId};
use isotherm_units::Duration;
use marks::Marks;
use physical::Physical;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A target on this machine.
#[derive(Debug)]
pub enum LiveTarget {
    /// Virtual memory of a process.
    Process(Process),
    /// Physical memory of the machine.
    Physical,
}

/// Answers requests of `core` from the machine below a [`Root`].
#[derive(Debug, Default)]
pub struct LiveHost {
    pub(crate) root: Root,
    pub(crate) targets: BTreeMap<TargetId, LiveTarget>,
    pub(crate) module: Option<Module>,
    /// Marks that scans left on pages, by target.
    pub(crate) marks: BTreeMap<TargetId, Marks>,
    groups: gauging::KnownGroups,
    physical: Physical,
    types: compacting::Types,
    compactors: compactors::Compactors,
}

impl LiveHost {
    /// A host over a machine, without targets and without the module.
    pub fn new(root: Root) -> Self {
        Self { root, ..Self::default() }
    }

    /// Uses the accessed-bit module from now on, or no longer.
    pub fn use_module(&mut self, module: Option<Module>) {
        self.module = module;
    }

    /// Enables compaction, by a program that takes the path of a file as its last argument, writes `1` to it, and ends with its
    /// parent. Without one the host only reports how scattered free memory is.
    pub fn use_compactor(&mut self, program: impl Into<PathBuf>, arguments: &[&str]) {
        self.compactors.set_program(program.into(), arguments.iter().map(Into::into).collect());
    }

    /// Adds a target under a number, and drops a previous one with this number.
    pub fn add(&mut self, number: TargetId, target: LiveTarget) {
        self.marks.remove(&number);
        self.targets.insert(number, target);
    }

    /// Drops a target; later requests for it get [`HostError::Gone`].
    pub fn remove(&mut self, number: TargetId) -> Option<LiveTarget> {
        self.marks.remove(&number);
        self.targets.remove(&number)
    }

    /// Whether a target lives, and runs the same program as when it was added. Always true for physical memory.
    pub fn is_as_added(&self, number: TargetId) -> bool {
        match self.targets.get(&number) {
            Some(LiveTarget::Process(process)) => process.check().is_ok(),
            Some(LiveTarget::Physical) => true,
            None => false,
        }
    }

    pub(crate) fn target(&self, number: TargetId) -> Result<&LiveTarget, HostError> {
        self.targets.get(&number).ok_or(HostError::Gone(number))
    }

    /// The process of a target, checked to live and to run the same program as when it was added.
    pub(crate) fn process(&self, number: TargetId, physical: &'static str) -> Result<&Process, HostError> {
        match self.target(number)? {
            LiveTarget::Process(process) => process.check().map(|()| process).map_err(|error| answer(number, error)),
            LiveTarget::Physical => Err(HostError::NotHere(physical)),
        }
    }

    /// A process and the module that probes it.
    pub(crate) fn looked_at(
        &self,
        number: TargetId,
        physical: &'static str,
        missing: &'static str,
    ) -> Result<(&Process, &Module), HostError> {
        let process = self.process(number, physical)?;
        self.module.as_ref().map(|module| (process, module)).ok_or(HostError::NotHere(missing))
    }
}

/// Converts a failure to an answer to `core`.
pub(crate) fn answer(target: TargetId, error: LiveError) -> HostError {
    match error {
        LiveError::Gone(_) => HostError::Gone(target),
        other => HostError::Failed(other.to_string()),
    }
}

/// Result of work, and CPU time of all threads of this process during the work; for work on a worker.
pub(crate) fn measured_with_workers<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = sys::own_cpu_time().ns();
    let done = work();
    (done, Duration::from_ns(sys::own_cpu_time().ns().saturating_sub(before)))
}

/// Result of work, and CPU time of this thread during the work.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = sys::thread_cpu_time().ns();
    let done = work();
    (done, Duration::from_ns(sys::thread_cpu_time().ns().saturating_sub(before)))
}
