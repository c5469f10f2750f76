//! A world in a few lines, for tests: sparse accessed bits at every level, mappings, targets that end.

use crate::host::{
    AddressRange, Applied, Applying, Attribute, Capabilities, Gauge, GaugeCapabilities, Gauging, HostError, Level,
    Mappings, NodeId, Order, Probe, ProbeResult, Probing, SchemeCapabilities, Seen, TargetId,
};
use crate::schemes::fake::Machine;
use std::collections::{BTreeMap, BTreeSet};

/// One address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) mappings: Vec<AddressRange>,
    /// Set accessed bits, as (level, number of the entry).
    set: BTreeSet<(u8, u64)>,
    /// Entries from this level on are cached: accesses do not set their bits until translations are dropped.
    pub(crate) cached_from: Option<usize>,
    is_flushed: bool,
    /// Entries change their kind all the time: their probes have no result.
    pub(crate) is_restless: bool,
    /// Addresses that are touched between PREPARE and CHECK of every tick.
    pub(crate) hot: Vec<u64>,
}

/// All spaces, and the calls for them.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) capabilities: Capabilities,
    pub(crate) spaces: BTreeMap<TargetId, Space>,
    /// Pages that are anonymous, for attribute probes; others are there too.
    pub(crate) anon: Vec<AddressRange>,
    /// Requests that fail, by name.
    pub(crate) failing: Option<&'static str>,
    pub(crate) calls: Vec<&'static str>,
    /// State that schemes read and change.
    pub(crate) machine: Machine,
}

impl World {
    /// x86-64 with four levels; target 0 has these mappings.
    pub(crate) fn new(mappings: &[(u64, u64)]) -> Self {
        let capabilities = Capabilities { flush: true, scan_children: true, ..Capabilities::four_levels() };
        let mut world = Self {
            capabilities,
            spaces: BTreeMap::new(),
            anon: Vec::new(),
            failing: None,
            calls: Vec::new(),
            machine: Machine::default(),
        };
        world.map(TargetId(0), mappings);
        world
    }

    pub(crate) fn map(&mut self, target: TargetId, mappings: &[(u64, u64)]) {
        self.spaces.entry(target).or_default().mappings =
            mappings.iter().map(|&(start, end)| AddressRange::new(start, end)).collect();
    }

    pub(crate) fn space(&mut self, target: u32) -> &mut Space {
        self.spaces.get_mut(&TargetId(target)).expect("a space that was made")
    }

    /// Time passes: all hot addresses are touched.
    pub(crate) fn run(&mut self) {
        for space in self.spaces.values_mut() {
            let all = self.capabilities.shifts.len();
            let levels = space.cached_from.filter(|_| !space.is_flushed).unwrap_or(all);
            for address in space.hot.clone() {
                for (level, shift) in (0..).zip(&self.capabilities.shifts[..levels]) {
                    space.set.insert((level, address >> shift));
                }
            }
            space.is_flushed = false;
        }
    }

    fn called(&mut self, call: &'static str, target: TargetId) -> Result<&mut Space, HostError> {
        self.calls.push(call);
        if self.failing == Some(call) {
            return Err(HostError::Failed("as the test wants".to_owned()));
        }
        self.spaces.get_mut(&target).ok_or(HostError::Gone(target))
    }

    fn look(
        &mut self,
        call: &'static str,
        target: TargetId,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<(), HostError> {
        assert_eq!(probes.len(), results.len());
        let shifts = self.capabilities.shifts.clone();
        let space = self.called(call, target)?;
        for (probe, result) in probes.iter().zip(results) {
            let entry = (probe.level.0, probe.address >> shifts[usize::from(probe.level.0)]);
            let is_mapped =
                space.mappings.iter().any(|range| range.start <= probe.address && probe.address < range.end);
            let seen = match (is_mapped || probe.level > Level::LEAF, space.set.contains(&entry)) {
                (false, _) => Seen::NotMapped,
                (true, true) => Seen::Accessed,
                (true, false) => Seen::Idle,
            };
            let seen = if space.is_restless { Seen::Unknown } else { seen };
            *result = ProbeResult { seen, level: probe.level };
            if call == "clear" {
                space.set.remove(&entry);
            }
        }
        Ok(())
    }
}

impl Probing for World {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        self.capabilities.clone()
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.look("clear", target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.look("test", target, probes, results)
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        let shifts = self.capabilities.shifts.clone();
        let space = self.called("scan_children", target)?;
        let (below, above) = (shifts[usize::from(parent.level.0 - 1)], shifts[usize::from(parent.level.0)]);
        let first = (parent.address >> above) << (above - below);
        let nr_entries = 1u64 << (above - below);
        for word in (first..first + nr_entries).step_by(64) {
            let is_set = |entry: &u64| space.set.remove(&(parent.level.0 - 1, word + entry));
            out.push((0..64).filter(is_set).map(|entry| 1 << entry).sum());
        }
        Ok(())
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        self.called("flush", target)?.is_flushed = true;
        Ok(())
    }

    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        self.called("has_attribute", target)?;
        for (address, has) in addresses.iter().zip(out) {
            let is_anon = self.anon.iter().any(|range| range.start <= *address && *address < range.end);
            *has = Some(is_anon && attribute == Attribute::Anon);
        }
        Ok(())
    }
}

impl Mappings for World {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        out.extend_from_slice(&self.called("mappings", target)?.mappings);
        Ok(())
    }
}

impl Applying for World {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        self.machine.scheme_capabilities(target)
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        self.called("apply", target)?;
        self.machine.apply(target, order)
    }
}

impl Gauging for World {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        self.machine.gauge_capabilities(target)
    }

    fn node_bytes(
        &mut self,
        _: TargetId,
        ranges: &[AddressRange],
        out: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), HostError> {
        out.push((NodeId(0), ranges.iter().map(|range| range.len()).sum()));
        Ok(())
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        self.machine.gauges(gauges, values)
    }
}
