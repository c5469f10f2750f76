//! A small machine for tests: memory, one policy, and a thread that touches pages, waits and reclaims as it must.
//!
//! [`Kit`] is that machine, of any [`setup()`] and policy. A `Rig` has a policy that only records its calls, and all invariants are
//! checked after each step; a [`Testbed`] has a real policy. Tests of
//! hosts, in the crate above, put a stage around one.

mod access;
#[cfg(test)]
mod fifo;
mod layout;
mod policies;
#[cfg(test)]
mod rig;
mod setup;

pub use access::Trouble;
pub use policies::{Testbed, Touch};
#[cfg(test)]
pub(crate) use rig::{MACHINE_PAGES, Rig};
pub use setup::setup;

use crate::cgroup::{CgroupId, Knob, Limit};
use crate::fault::FaultState;
use crate::memory::{Flag, FrameId, Memory, MemorySetup};
use crate::mmu::{DensePage, Entry, SpaceId};
use crate::reclaim::ReclaimPolicy;
use isotherm_units::Pages;

/// A policy, or a box with one.
pub trait AnyPolicy: AsRef<dyn ReclaimPolicy> + AsMut<dyn ReclaimPolicy> {}
impl<P: AsRef<dyn ReclaimPolicy> + AsMut<dyn ReclaimPolicy>> AnyPolicy for P {}

pub struct Kit<P> {
    pub memory: Memory,
    pub policy: P,
    /// The group of processes that ask for no other.
    pub cgroup: CgroupId,
    /// State of the thread that touches pages.
    pub state: FaultState,
    /// All invariants are checked after each step, and not only where a test does.
    is_strict: bool,
}

impl<P: AnyPolicy> Kit<P> {
    pub fn assemble(setup: &MemorySetup, policy: P) -> Self {
        let memory = Memory::assemble(setup).expect("preset devices");
        let mut bed = Self { memory, policy, cgroup: CgroupId::ROOT, state: FaultState::default(), is_strict: false };
        if bed.policy.as_ref().is_exact() {
            bed.memory.cgroups.charge_batch = 1;
        }
        bed.announce(CgroupId::ROOT);
        bed
    }

    fn announce(&mut self, cgroup: CgroupId) {
        for node in self.memory.nodes.ids() {
            self.memory.nonresident_age.push(0);
            self.policy.as_mut().add_lruvec(self.memory.lruvec(cgroup, node));
        }
    }

    pub fn group(&mut self, parent: CgroupId, name: &str) -> CgroupId {
        let cgroup = self.memory.cgroups.add(parent, name).expect("few groups");
        self.announce(cgroup);
        cgroup
    }

    pub fn set(&mut self, cgroup: CgroupId, knob: Knob, pages: u64) {
        self.memory.cgroups.set(cgroup, knob, Limit::At(Pages::new(pages)));
    }

    /// Limits the group of processes, which pay page by page from now on.
    pub fn limit(&mut self, pages: u64) {
        self.set(self.cgroup, Knob::Max, pages);
        self.memory.cgroups.charge_batch = 1;
        self.memory.cgroups.drain_stock(CgroupId::ROOT);
    }

    pub fn dense(&self, space: SpaceId, page: u64) -> DensePage {
        self.memory.space(space).table.dense(page).unwrap()
    }
    pub fn entry(&self, space: SpaceId, page: u64) -> Entry {
        self.memory.space(space).table.entry(self.dense(space, page))
    }
    pub fn frame(&self, space: SpaceId, page: u64) -> Option<FrameId> {
        self.memory.space(space).table.frame_at(page)
    }
    pub fn is_writable(&self, space: SpaceId, page: u64) -> bool {
        self.memory.space(space).table.is_writable(self.dense(space, page))
    }
    pub fn has(&self, space: SpaceId, page: u64, flag: Flag) -> bool {
        self.memory.frames.has(self.frame(space, page).expect("resident"), flag)
    }

    /// All invariants, of memory and of the policy.
    pub fn check(&self) {
        self.memory.check().unwrap_or_else(|what| panic!("memory: {what}"));
        self.policy.as_ref().check(&self.memory).unwrap_or_else(|what| panic!("policy: {what}"));
    }

    fn after_step(&self) {
        if self.is_strict {
            self.check();
        }
    }
}
