//! One monitored address space of a context.

use super::level::Levels;
use super::level::ptp_descend::Descent;
use super::region::Region;
use crate::host::{Probe, ProbeResult, TargetId};
use crate::vocabulary::UnitRange;

/// A target and all that is kept for it. Buffers live here so that a tick makes none.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: TargetId,
    pub(crate) levels: Levels,
    /// Ranges that regions are to cover from the start on; a process may have none and get them from its mappings.
    pub(crate) wanted: Vec<UnitRange>,
    /// Regions come from mappings in fewer than three places.
    pub(crate) has_few_places: bool,
    /// Ascending and disjoint.
    pub(crate) regions: Vec<Region>,
    /// Probes of the sample under way: first companions (see `flush.rs`), then one a region. Empty: no sample is under way.
    pub(crate) probes: Vec<Probe>,
    /// Results of the probes, at the same places.
    pub(crate) results: Vec<ProbeResult>,
    /// For each companion probe, the region whose entry it checks.
    pub(crate) doubted: Vec<usize>,
    /// For each region the place behind its last probe, where regions have several (see `batch.rs`).
    pub(crate) batch_ends: Vec<usize>,
    pub(crate) descent: Descent,
}

impl Target {
    pub(crate) fn new(id: TargetId, levels: Levels, wanted: Vec<UnitRange>) -> Self {
        Self {
            id,
            levels,
            wanted,
            has_few_places: false,
            regions: Vec::new(),
            probes: Vec::new(),
            results: Vec::new(),
            doubted: Vec::new(),
            batch_ends: Vec::new(),
            descent: Descent::default(),
        }
    }

    /// Ends the sample under way without a result: regions have changed between clear and test.
    pub(crate) fn drop_sample(&mut self) {
        self.probes.clear();
        self.results.clear();
        self.doubted.clear();
        self.batch_ends.clear();
    }

    /// Whether regions are as they must be: none empty, ascending, disjoint.
    pub(crate) fn is_in_order(&self) -> bool {
        let ascends = |pair: &[Region]| pair[0].range.end <= pair[1].range.start;
        self.regions.windows(2).all(ascends) && self.regions.iter().all(|region| !region.is_empty())
    }

    /// Bytes of all regions, in the units of the context.
    pub(crate) fn total(&self) -> u128 {
        self.regions.iter().map(|region| u128::from(region.len())).sum()
    }
}

#[cfg(test)]
impl Target {
    /// A target of these regions on x86-64 tables of four levels.
    pub(crate) fn for_test(regions: Vec<Region>) -> Self {
        use crate::host::Capabilities;
        let capabilities = Capabilities { flush: true, scan_children: true, ..Capabilities::four_levels() };
        let id = TargetId(0);
        Self { regions, ..Self::new(id, Levels::new(id, capabilities, &[]).expect("x86-64"), Vec::new()) }
    }
}
