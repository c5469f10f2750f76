//! The simulated machine as a host in every role: requests that a monitor may make of simulated memory, and their costs.
//!
//! Virtual targets are address spaces; the physical target is all page frames, behind them memory without frames. Clearing a
//! page's accessed bit follows Linux (docs/spec/monitoring.md#s4): the use that it recorded is left to reclaim as a mark of the
//! page. CPU time goes to [`Memory::ledger`], for the thread that runs the monitor.

#[cfg(test)]
mod action_tests;
mod actions;
mod advice;
mod compaction;
#[cfg(test)]
mod compaction_tests;
#[cfg(test)]
mod conformance_tests;
mod folios;
mod gauges;
mod generations;
#[cfg(test)]
mod generations_tests;
mod physical;
#[cfg(test)]
mod random_actions;
#[cfg(test)]
mod random_probes;
#[cfg(test)]
mod random_tiers;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod tests;
mod tiering;
#[cfg(test)]
mod tiering_tests;
mod untouched;
mod virtual_space;

use isotherm_core::host::{
    AddressRange, Ageing, Answer, Applied, Applying, Area, Attribute, Capabilities, CompactStep, Compacted, Compacting,
    CompactionSignals, Eviction, Gauge, GaugeCapabilities, Gauging, GenerationCapabilities, Generational, Granularity,
    HostError, Level as HostLevel, Limiting, Listing, Mappings, MoveOrder, NodeId, NodeMemory, Order, PageMove, Probe,
    ProbeResult, Probing, ScanFilter, Scanned, SchemeCapabilities, Seen, TargetId, Tiering, TieringCapabilities,
    ZoneState,
};
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::memory::{Flag, FrameId, Memory};
use isotherm_kernel::mmu::translation::Caches;
use isotherm_kernel::mmu::{Level, SpaceId};
use isotherm_kernel::pressure::Pressure;
use isotherm_kernel::reclaim::ReclaimPolicy;
use isotherm_units::{Bytes, Duration, PAGE_SHIFT};
use physical::Found;
use serde::Serialize;
use untouched::Looks;
pub(crate) use untouched::Samples;

/// The object of a [`TargetId`]; the number is its index in the list of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTarget {
    /// Virtual memory of a process.
    Space(SpaceId),
    /// Physical memory: page frame numbers times 4 KiB.
    Physical,
}

/// Probes by monitors, by the level of the entry that was read: index 0 is the leaf of a base page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeCounts {
    /// Accessed bits cleared, or found clear when they were to be cleared.
    pub clears: [u64; 5],
    /// Accessed bits tested.
    pub tests: [u64; 5],
    /// Tables scanned whole, by the level of the entry that points to them.
    pub scans: [u64; 5],
    /// Flushes of cached translations.
    pub flushes: u64,
    /// Mappings read.
    pub mappings: u64,
    /// Pages asked for an attribute.
    pub attributes: u64,
}

impl ProbeCounts {
    /// Single bits cleared and tested, all levels.
    pub fn checks(&self) -> u64 {
        self.clears.iter().chain(&self.tests).sum()
    }
}

/// A view of a machine's memory for the time of one call.
pub struct MemoryHost<'a> {
    memory: &'a mut Memory,
    policy: &'a mut dyn ReclaimPolicy,
    pressure: &'a Pressure,
    caches: &'a mut [Caches],
    targets: &'a [HostTarget],
    counts: &'a mut ProbeCounts,
    /// `None`: changes of memory between two calls are not reported.
    samples: Option<&'a mut Samples>,
}

impl<'a> MemoryHost<'a> {
    /// `caches` are the caches of all processors, or empty without the model; `targets` are numbered from 0.
    pub fn new(
        memory: &'a mut Memory,
        policy: &'a mut dyn ReclaimPolicy,
        pressure: &'a Pressure,
        caches: &'a mut [Caches],
        targets: &'a [HostTarget],
        counts: &'a mut ProbeCounts,
    ) -> Self {
        Self { memory, policy, pressure, caches, targets, counts, samples: None }
    }

    /// A host that remembers samples from one call to the next: changes of memory between them are [reported](Memory::stir).
    pub(crate) fn remembering(self, samples: &'a mut Samples) -> Self {
        Self { samples: Some(samples), ..self }
    }

    /// The target, if it still lives.
    fn target(&self, id: TargetId) -> Result<HostTarget, HostError> {
        let target = self.targets.get(usize::try_from(id.0).unwrap_or(usize::MAX)).copied();
        match target.ok_or_else(|| HostError::Failed(format!("target {} was never given", id.0)))? {
            HostTarget::Space(space) if !self.memory.space(space).alive => Err(HostError::Gone(id)),
            target => Ok(target),
        }
    }

    /// The living process that a target refers to.
    fn space_of(&self, id: TargetId, not_here: &'static str) -> Result<SpaceId, HostError> {
        match self.target(id)? {
            HostTarget::Space(space) => Ok(space),
            HostTarget::Physical => Err(HostError::NotHere(not_here)),
        }
    }

    /// Charges one read of an entry, where the walk ended.
    fn pay(&mut self, at: Level, is_leaf: bool) {
        self.memory.ledger.spend(self.memory.costs.probe_of_ns(at.number(), is_leaf));
    }

    /// Charges a pass over a table in which `nr_cleared` bits were set.
    fn pay_scan(&mut self, nr_cleared: u32) {
        self.memory.ledger.spend(self.memory.costs.table_pass_ns(nr_cleared));
    }
}

/// Reads by clears and by tests differ in places (docs/spec/monitoring.md#s4, traps), so each request names its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Clear,
    Test,
}

impl Probing for MemoryHost<'_> {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        let mmu = &self.memory.mmu;
        let is_virtual = matches!(self.target(target), Ok(HostTarget::Space(_)));
        Capabilities {
            shifts: mmu.shifts(),
            highest_level: HostLevel(mmu.highest_level().number()),
            flush: !self.caches.is_empty(),
            scan_children: is_virtual,
            rules_out: !is_virtual,
        }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        let before = (self.memory.ledger.peek(), self.counts.clears);
        let looks = self.probe(Wish::Clear, target, probes, results)?;
        self.remember(target, probes, looks, before);
        Ok(())
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.probe(Wish::Test, target, probes, results).map(|_| ())
    }

    fn test_known(&mut self, target: TargetId, probes: &[Probe], accessed: &mut Vec<usize>) -> Result<bool, HostError> {
        self.book_known(target, probes, accessed)
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        let HostTarget::Space(space) = self.target(target)? else {
            return Err(HostError::NotHere("physical memory has no page table; probe its pages"));
        };
        let highest = self.memory.mmu.highest_level();
        let level = Level::new(parent.level.0).filter(|level| {
            let number = level.number();
            (1..self.memory.mmu.levels).contains(&number) && number <= highest.number() + 1
        });
        let Some(level) = level else {
            return Err(HostError::NotHere("no table with accessed bits lies below that level on this machine"));
        };
        self.scan_table(space, level, parent.address >> PAGE_SHIFT, out);
        Ok(())
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        let target = self.target(target)?;
        if self.caches.is_empty() {
            return Err(HostError::NotHere(
                "translation caches are not modelled (`mmu.translation`): every walk is whole",
            ));
        }
        for caches in &mut *self.caches {
            match target {
                HostTarget::Space(space) => caches.flush(space),
                HostTarget::Physical => caches.flush_everything(),
            }
        }
        let others = self.caches.len() as u64 - 1;
        self.memory.ledger.spend(self.memory.costs.flush_ns(others));
        self.counts.flushes += 1;
        Ok(())
    }

    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        let HostTarget::Physical = self.target(target)? else {
            return Err(HostError::NotHere("attributes are those of page frames; monitor physical memory"));
        };
        assert_eq!(addresses.len(), out.len(), "one answer an address");
        for (&address, out) in addresses.iter().zip(out) {
            *out = self.attribute_at(attribute, address >> PAGE_SHIFT);
        }
        self.counts.attributes += addresses.len() as u64;
        self.memory.ledger.spend(addresses.len() as u64 * self.memory.costs.probe_ns());
        Ok(())
    }
}

impl Mappings for MemoryHost<'_> {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        let HostTarget::Space(space) = self.target(target)? else {
            return Err(HostError::NotHere("physical memory has no mappings; give its ranges"));
        };
        let before = out.len();
        let vmas = self.memory.space(space).vmas.iter().map(|vma| vma.pages());
        out.extend(vmas.map(|pages| AddressRange::new(pages.start << PAGE_SHIFT, pages.end << PAGE_SHIFT)));
        let nr_read = (out.len() - before) as u64;
        self.counts.mappings += nr_read;
        self.memory.ledger.spend(nr_read * self.memory.costs.read_mapping_ns());
        Ok(())
    }
}

impl Applying for MemoryHost<'_> {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        self.target(target).map_or_else(|_| SchemeCapabilities::default(), |target| self.offers(target))
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        self.memory.stir();
        let target = self.target(target)?;
        self.carry_out(target, order)
    }
}

impl Gauging for MemoryHost<'_> {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        self.target(target).map_or_else(|_| GaugeCapabilities::default(), |target| self.gauges_for(target))
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        assert_eq!(gauges.len(), values.len(), "one value a gauge");
        for (&gauge, value) in gauges.iter().zip(values) {
            *value = self.read_gauge(gauge)?;
        }
        Ok(())
    }

    fn node_bytes(
        &mut self,
        target: TargetId,
        ranges: &[AddressRange],
        out: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), HostError> {
        let HostTarget::Physical = self.target(target)? else {
            return Err(HostError::NotHere("page frames are on nodes; give ranges of physical memory"));
        };
        self.count_by_node(ranges, out);
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        self.memory.cgroups.find(path).map(|group| group.index() as u64)
    }
}

impl Limiting for MemoryHost<'_> {
    fn set_memory_high(&mut self, memcg: u64, high: Option<Bytes>) -> Result<(), HostError> {
        let group = self.group(memcg).filter(|group| *group != CgroupId::ROOT);
        let group = group.ok_or_else(|| HostError::Failed(format!("group {memcg} is not there, or has no limits")))?;
        let limit = high.map_or(Limit::Unlimited, |high| Limit::At(high.pages_floor()));
        self.memory.cgroups.set(group, Knob::High, limit);
        self.memory.high_written.push(group);
        Ok(())
    }
}

impl Compacting for MemoryHost<'_> {
    fn compaction_granularity(&self) -> Option<Granularity> {
        Some(Granularity::Zone)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        self.report_zones(out);
        Ok(())
    }

    fn compaction_signals(&mut self, node: NodeId) -> Result<CompactionSignals, HostError> {
        self.signals(node)
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        self.memory.stir();
        self.compact_some(step)
    }
}

impl Generational for MemoryHost<'_> {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        self.can_do_with_generations()
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        self.read_lru_gen(out)
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        self.memory.stir();
        self.write_ageings(orders, answers);
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        self.memory.stir();
        self.write_evictions(orders, answers);
    }
}

impl Tiering for MemoryHost<'_> {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        self.offers_for_tiers()
    }

    fn spaces(&mut self, out: &mut Vec<TargetId>) -> Result<(), HostError> {
        self.living_spaces(out);
        Ok(())
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        let space = self.space_of(target, "physical memory has no areas; promotion is for processes")?;
        self.areas_of(space, out);
        Ok(())
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        let space = self.space_of(target, "physical memory has no page table to scan; promotion is for processes")?;
        self.memory.stir();
        Ok(self.scan_space(space, range, filter))
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        let space = self.space_of(target, "nodes of page frames are told in bytes by range; ask for a process")?;
        self.nodes_of(space, addresses, out);
        Ok(())
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        let space = self.space_of(target, "pages are moved by their addresses in a process")?;
        self.memory.stir();
        self.migrate_pages(space, order, results)
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        Ok(self.memory_of(node))
    }
}

impl MemoryHost<'_> {
    fn probe(
        &mut self,
        wish: Wish,
        target: TargetId,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<Looks, HostError> {
        assert_eq!(probes.len(), results.len(), "one result a probe");
        let pairs = probes.iter().zip(results);
        let mut looks = Looks::default();
        match self.target(target)? {
            HostTarget::Space(space) => {
                let is_plain = self.is_plain(space);
                // Pages that are there; and entries that are empty, in tables that are there and above.
                let (mut nr_plain, mut nr_empty) = (0, [0; 2]);
                for (probe, result) in pairs {
                    let page = probe.address >> PAGE_SHIFT;
                    let plain = if is_plain && probe.level == HostLevel::LEAF {
                        self.probe_plain_page(wish, space, page)
                    } else {
                        None
                    };
                    let (seen, level) = match plain {
                        Some((seen, level)) => {
                            match seen {
                                Seen::NotMapped => nr_empty[usize::from(level.number())] += 1,
                                _ => nr_plain += 1,
                            }
                            (seen, level)
                        }
                        None => {
                            let (seen, level) = self.probe_space(wish, space, page, probe.level);
                            self.count(wish, level, 1);
                            (seen, level)
                        }
                    };
                    let level = HostLevel(level.number());
                    *result = ProbeResult { seen, level };
                    looks.is_passed_over |= seen == Seen::Unknown;
                    looks.is_upper |= level != HostLevel::LEAF && seen != Seen::NotMapped;
                }
                let costs = &self.memory.costs;
                let [leaf, empty, above] =
                    [(0, true), (0, false), (1, false)].map(|(at, is)| costs.probe_of_ns(at, is));
                self.memory.ledger.spend(nr_plain * leaf + nr_empty[0] * empty + nr_empty[1] * above);
                self.count(wish, Level::LEAF, nr_plain + nr_empty[0]);
                self.count(wish, Level::PMD, nr_empty[1]);
            }
            HostTarget::Physical => {
                let mut nr_plain = 0;
                for (probe, result) in pairs {
                    let number = probe.address >> PAGE_SHIFT;
                    let plain = if probe.level == HostLevel::LEAF { self.probe_plain(wish, number) } else { None };
                    *result = if let Some(seen) = plain {
                        nr_plain += 1;
                        ProbeResult { seen, level: HostLevel::LEAF }
                    } else {
                        let Found { seen, leaf, ended } = self.probe_frame(wish, number, probe.level);
                        self.count(wish, ended, 1);
                        looks.is_passed_over |= seen == Seen::Unknown;
                        looks.is_upper |= leaf != Level::LEAF && seen != Seen::NotMapped;
                        ProbeResult { seen, level: HostLevel(leaf.number()) }
                    };
                }
                self.memory.ledger.spend(nr_plain * self.memory.costs.probe_of_ns(Level::LEAF.number(), true));
                self.count(wish, Level::LEAF, nr_plain);
            }
        }
        Ok(looks)
    }

    /// Counts probes of entries of one level.
    fn count(&mut self, wish: Wish, at: Level, nr_looks: u64) {
        let counts = if wish == Wish::Clear { &mut self.counts.clears } else { &mut self.counts.tests };
        counts[usize::from(at.number())] += nr_looks;
    }

    /// Whether the page in `frame` may be probed: it is on a list of its policy.
    fn is_listed(&self, frame: FrameId) -> bool {
        self.memory.frames.has(frame, Flag::OnList)
    }
}

fn seen(accessed: bool) -> Seen {
    if accessed { Seen::Accessed } else { Seen::Idle }
}
