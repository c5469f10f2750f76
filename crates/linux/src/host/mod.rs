//! The live machine as a Host of `isotherm-core`: which target is which process, and the roles, a file each.

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

/// What a target is on this machine.
#[derive(Debug)]
pub enum LiveTarget {
    /// Virtual memory of a process.
    Process(Process),
    /// Physical memory of the machine.
    Physical,
}

/// Answers what `core` asks, from the machine below a [`Root`].
#[derive(Debug, Default)]
pub struct LiveHost {
    pub(crate) root: Root,
    pub(crate) targets: BTreeMap<TargetId, LiveTarget>,
    pub(crate) module: Option<Module>,
    /// What scans noted of pages, by target.
    pub(crate) marks: BTreeMap<TargetId, Marks>,
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

    /// Lets it compact, by a program that is given the path of a file as its last argument, writes `1` to it, and ends with its
    /// parent. Without one it only tells how scattered free memory is.
    pub fn use_compactor(&mut self, program: impl Into<PathBuf>, arguments: &[&str]) {
        self.compactors.set_program(program.into(), arguments.iter().map(Into::into).collect());
    }

    /// Gives a number to a target. One that had this number before is dropped.
    pub fn add(&mut self, number: TargetId, target: LiveTarget) {
        self.marks.remove(&number);
        self.targets.insert(number, target);
    }

    /// Drops a target, which is [`HostError::Gone`] from now on.
    pub fn remove(&mut self, number: TargetId) -> Option<LiveTarget> {
        self.marks.remove(&number);
        self.targets.remove(&number)
    }

    /// Whether a target lives, and runs the program that it ran when it was added. Physical memory does.
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

    /// The process of a target, which lives and runs the program that it ran when it was added.
    pub(crate) fn process(&self, number: TargetId, physical: &'static str) -> Result<&Process, HostError> {
        match self.target(number)? {
            LiveTarget::Process(process) => process.check().map(|()| process).map_err(|error| answer(number, error)),
            LiveTarget::Physical => Err(HostError::NotHere(physical)),
        }
    }

    /// A process and the module that looks at it.
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

/// A failure as an answer to `core`.
pub(crate) fn answer(target: TargetId, error: LiveError) -> HostError {
    match error {
        LiveError::Gone(_) => HostError::Gone(target),
        other => HostError::Failed(other.to_string()),
    }
}

/// CPU time of all threads of this process while something is done, for what a worker does.
pub(crate) fn measured_with_workers<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = sys::own_cpu_time().ns();
    let done = work();
    (done, Duration::from_ns(sys::own_cpu_time().ns().saturating_sub(before)))
}

/// CPU time of this thread while something is done.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = sys::thread_cpu_time().ns();
    let done = work();
    (done, Duration::from_ns(sys::thread_cpu_time().ns().saturating_sub(before)))
}
