//! Test doubles: a clock that jumps, a host with a given use of memory, a meter that counts probes.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::host::{
    AddressRange, Applying, Capabilities, Gauging, HostError, Level, Mappings, Probe, ProbeResult, Probing, Seen,
    TargetId,
};
use isotherm_units::{Clock, Duration, Instant, Meter, Woken};

/// Jumps to the end of each sleep. Clones share the time.
#[derive(Clone, Debug)]
pub(crate) struct FakeClock {
    pub(crate) now: Rc<Cell<Instant>>,
    pub(crate) stop_at: Option<Instant>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self { now: Rc::new(Cell::new(Instant::START)), stop_at: None }
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        self.now.set(self.now.get().max(until));
        if self.stop_at.is_some_and(|stop| stop <= self.now.get()) { Woken::Stopped } else { Woken::Due }
    }
}

/// Counts what each probe costs.
#[derive(Debug)]
pub(crate) struct Cost {
    probes: Rc<Cell<u64>>,
    each: Duration,
}

impl Cost {
    pub(crate) fn per_probe(probes: &Rc<Cell<u64>>, each: Duration) -> Self {
        Self { probes: probes.clone(), each }
    }
}

impl Meter for Cost {
    fn spent(&mut self) -> Duration {
        self.each.saturating_mul(self.probes.get())
    }
}

/// Every target maps 256 MiB; the first eighth is in use all the time.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) clock: FakeClock,
    pub(crate) probes: Rc<Cell<u64>>,
    pub(crate) gone_at: Option<Instant>,
}

const MAPPED: AddressRange = AddressRange::new(1 << 30, (1 << 30) + (256 << 20));

impl System {
    pub(crate) fn new(clock: &FakeClock) -> Self {
        Self { clock: clock.clone(), probes: Rc::default(), gone_at: None }
    }

    fn alive(&self, target: TargetId) -> Result<(), HostError> {
        match self.gone_at {
            Some(at) if at <= self.clock.now() => Err(HostError::Gone(target)),
            _ => Ok(()),
        }
    }
}

impl Probing for System {
    fn capabilities(&self, _target: TargetId) -> Capabilities {
        Capabilities { highest_level: Level(2), ..Capabilities::four_levels() }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.test(target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.alive(target)?;
        self.probes.set(self.probes.get() + probes.len() as u64);
        for (probe, result) in probes.iter().zip(results) {
            let is_used = probe.address - MAPPED.start < MAPPED.len() / 8;
            *result = ProbeResult { seen: if is_used { Seen::Accessed } else { Seen::Idle }, level: probe.level };
        }
        Ok(())
    }
}

impl Mappings for System {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        self.alive(target)?;
        // Three mappings with the two holes that a process has.
        let piece = MAPPED.len() / 4;
        out.push(AddressRange::new(MAPPED.start, MAPPED.start + 2 * piece));
        out.push(AddressRange::new(MAPPED.start + 2 * piece + (1 << 30), MAPPED.start + 3 * piece + (1 << 30)));
        out.push(AddressRange::new(MAPPED.start + 3 * piece + (2 << 30), MAPPED.start + 4 * piece + (2 << 30)));
        Ok(())
    }
}

impl Applying for System {}
impl Gauging for System {}
