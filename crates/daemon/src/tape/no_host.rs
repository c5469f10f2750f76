//! The host of a replay, without a machine: the tape answers in its place.

use crate::changes::Refusal;
use crate::config::{Config, Target};
use crate::control_loop::{
    AuditError, GroupStall, KillFacts, Knobs, Line, Log, Member, NodeFree, Running, Status, System, SystemError,
};
use isotherm_core::host::{
    AddressRange, Adopting, Applying, Compacting, Gauging, Generational, Mappings, Probing, Tiering,
};
use isotherm_units::{Bytes, Clock, Duration, Instant, Meter, Woken};

const NONE: &str = "a replay has no machine";

/// A host without a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl System for NoHost {
    fn groups(&mut self, _: &str) -> Result<Vec<String>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn members(&mut self, _: &str) -> Result<Vec<Member>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn processes(&mut self, _: &Target) -> Result<Vec<Running>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn largest(&mut self, processes: &[u32], most: usize) -> Vec<u32> {
        processes.iter().copied().take(most).collect()
    }
    fn group_file(&mut self, _: &str, _: &str) -> Result<String, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn command(&mut self, _: &str, _: &str) -> Result<(), SystemError> {
        Err(NONE.to_owned().into())
    }
    fn guaranteed(&mut self, path: &str, _: bool) -> Option<String> {
        Some(path.to_owned())
    }
    fn full_stall(&mut self) -> Option<Duration> {
        None
    }
    fn full_stall_of(&mut self, _: &str) -> Option<Duration> {
        None
    }
    fn group_stalls(&mut self) -> Vec<GroupStall> {
        Vec::new()
    }
    fn kill_facts(&mut self) -> Result<KillFacts, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn swap_free(&mut self) -> Option<Bytes> {
        None
    }
    fn value(&mut self, _: &str) -> Result<Option<String>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn counters(&mut self, _: &[&str]) -> Result<Vec<Option<u64>>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn is_there(&mut self, _: &str) -> bool {
        false
    }
    fn cpu_of(&mut self, _: u32) -> Option<Duration> {
        None
    }
    fn resident(&mut self) -> Option<Bytes> {
        None
    }
    fn configuration(&mut self) -> Result<Config, SystemError> {
        Err(NONE.to_owned().into())
    }
    fn has_to_end(&mut self) -> bool {
        true
    }
}

impl Knobs for NoHost {
    fn set(&mut self, _: &str, _: &str, _: &str) -> Result<(), Refusal> {
        Err(NONE.to_owned().into())
    }
    fn set_within(&mut self, _: &str, _: &str, _: &str) -> Result<(), Refusal> {
        Err(NONE.to_owned().into())
    }
    fn set_often(&mut self, _: &str, _: &str, _: u64) -> Result<(), Refusal> {
        Err(NONE.to_owned().into())
    }
    fn forget(&mut self, _: &str) -> Result<(), Refusal> {
        Err(NONE.to_owned().into())
    }
    fn put_back(&mut self, _: &[String]) -> Result<Option<String>, Refusal> {
        Err(NONE.to_owned().into())
    }
}

impl Clock for NoHost {
    fn now(&self) -> Instant {
        Instant::START
    }
    fn sleep_until(&mut self, _: Instant) -> Woken {
        Woken::Stopped
    }
}

impl Meter for NoHost {
    fn spent(&mut self) -> Duration {
        Duration::ZERO
    }
}

impl Log for NoHost {
    fn line(&mut self, _: &Line) -> Result<(), AuditError> {
        Err(NONE.to_owned().into())
    }
    fn status(&mut self, _: &Status) {}
}

impl Generational for NoHost {}

impl Gauging for NoHost {}

impl Compacting for NoHost {}

impl Probing for NoHost {}

impl Mappings for NoHost {}

impl Applying for NoHost {}

impl Tiering for NoHost {}

impl Adopting for NoHost {}
