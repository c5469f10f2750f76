//! Processes that our own engines sample: memory that is always in use, memory that never is, and its
//! node.

use super::super::*;
use super::configs::*;
use super::system::*;
use crate::config::{Engine, MonitorsConfig, TieringConfig};
use isotherm_core::host::{
    Action, Adopting, Applied, Applying, Area, Capabilities, HostError, Mappings, MoveOrder, NodeId, NodeMemory, Order,
    PageMarks, PageMove, Probe, ProbeResult, Probing, ScanFilter, Scanned, ScannedPage, SchemeCapabilities, Seen,
    TargetId, TierNode, Tiering, TieringCapabilities,
};
use isotherm_core::monitor::MonitorConfig;
use isotherm_core::promotion::PromotionConfig;
use isotherm_core::schemes::{AccessPattern, Frequency, Scheme};
use isotherm_units::{Instant, PAGE_BYTES};
use std::collections::BTreeMap;

pub(super) const HOT: AddressRange = AddressRange { start: 0x1000_0000, end: 0x1000_0000 + HOT_PAGES * PAGE_BYTES };
pub(super) const COLD: AddressRange = AddressRange { start: 0x2000_0000, end: 0x2000_0000 + COLD_PAGES * PAGE_BYTES };
const STACK: AddressRange = AddressRange { start: 0x7fff_0000, end: 0x7fff_4000 };
const HOT_PAGES: u64 = 256;
pub(super) const COLD_PAGES: u64 = 1024;

/// A process: cold pages that are gone, and hot pages on the fast node.
#[derive(Debug)]
pub(super) struct Space {
    process: u32,
    gone: Vec<bool>,
    pub(super) fast: Vec<bool>,
    marks: Vec<PageMarks>,
}

/// Processes by id, and targets that are sampled.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) by_process: BTreeMap<u32, Space>,
    targets: BTreeMap<TargetId, u32>,
    pub(super) calls: u64,
}

impl Spaces {
    fn space(&mut self, target: TargetId) -> Result<&mut Space, HostError> {
        self.calls += 1;
        let process = self.targets.get(&target).copied().ok_or(HostError::Gone(target))?;
        let new = || Space {
            process,
            gone: vec![false; usize::try_from(COLD_PAGES).unwrap()],
            fast: vec![false; usize::try_from(HOT_PAGES).unwrap()],
            marks: vec![PageMarks::default(); usize::try_from(HOT_PAGES).unwrap()],
        };
        Ok(self.by_process.entry(process).or_insert_with(new))
    }

    /// Processes that are sampled now.
    pub(super) fn sampled(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.targets.values().copied().collect();
        all.sort_unstable();
        all
    }

    /// Whether a process was sampled or acted on.
    pub(super) fn is_touched(&self, process: u32) -> bool {
        self.by_process.get(&process).is_some_and(|space| space.fast.contains(&true) || space.gone.contains(&true))
    }

    pub(super) fn gone(&self, process: u32) -> u64 {
        self.by_process.get(&process).map_or(0, |space| space.gone.iter().filter(|gone| **gone).count() as u64)
    }
}

/// Indices, within `of`, of the pages of `range`.
fn pages(range: AddressRange, of: AddressRange) -> std::ops::Range<usize> {
    let index = |address: u64| usize::try_from((address.clamp(of.start, of.end) - of.start) / PAGE_BYTES).unwrap();
    index(range.start)..index(range.end)
}

impl Machine {
    fn of_space<T>(&self, target: TargetId, work: impl FnOnce(&mut Space) -> T) -> Result<T, HostError> {
        if self.0.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        self.0.spaces.borrow_mut().space(target).map(work)
    }

    fn acts(&self, what: &str) {
        if self.0.has_kill_file.get() {
            self.0.forbidden.borrow_mut().push(format!("{what} at {}", self.0.now()));
        }
    }
}

impl Adopting for Machine {
    fn can_look(&mut self) -> Result<(), HostError> {
        if self.0.fails() { Err(HostError::Failed("no module".to_owned())) } else { Ok(()) }
    }

    fn adopt(&mut self, target: TargetId, process: u32) -> Result<(), HostError> {
        if self.0.fails() {
            return Err(HostError::Gone(target));
        }
        self.0.spaces.borrow_mut().targets.insert(target, process);
        Ok(())
    }

    fn dismiss(&mut self, target: TargetId) {
        self.0.spaces.borrow_mut().targets.remove(&target);
    }

    fn is_as_adopted(&mut self, target: TargetId) -> bool {
        self.0.spaces.borrow().targets.contains_key(&target)
    }

    fn present_bytes(&mut self, target: TargetId, range: AddressRange) -> Result<u64, HostError> {
        self.of_space(target, |space| {
            let cold = space.gone[pages(range, COLD)].iter().filter(|gone| !**gone).count() as u64;
            (cold + pages(range, HOT).len() as u64) * PAGE_BYTES
        })
    }
}

impl Probing for Machine {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        Capabilities { flush: true, ..Capabilities::four_levels() }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.test(target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.of_space(target, |space| {
            for (probe, result) in probes.iter().zip(results) {
                let page = AddressRange::new(probe.address, probe.address + PAGE_BYTES);
                let seen = if HOT.overlaps(page) {
                    Seen::Accessed
                } else if pages(page, COLD).any(|index| !space.gone[index]) {
                    Seen::Idle
                } else {
                    Seen::NotMapped
                };
                *result = ProbeResult { seen, level: probe.level };
            }
        })
    }
}

impl Mappings for Machine {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        self.of_space(target, |_| out.extend([HOT, COLD, STACK]))
    }
}

impl Applying for Machine {
    fn scheme_capabilities(&self, _: TargetId) -> SchemeCapabilities {
        let actions = vec![Action::Stat, Action::Pageout, Action::LruPrio, Action::LruDeprio, Action::Willneed];
        SchemeCapabilities { actions, ..SchemeCapabilities::default() }
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        if order.range.len() > 16 << 20 {
            self.0.forbidden.borrow_mut().push(format!("{} bytes in one call", order.range.len()));
        }
        self.acts(order.action.name());
        let (range, action) = (order.range, order.action);
        let (process, nr_gone) = self.of_space(target, |space| {
            let mut nr_gone = 0;
            if action == Action::Pageout {
                for index in pages(range, COLD) {
                    nr_gone += u64::from(!std::mem::replace(&mut space.gone[index], true));
                }
            }
            (space.process, nr_gone)
        })?;
        if nr_gone > 0 {
            let index = usize::try_from(process / 100).unwrap();
            let path = self.0.groups.borrow()[index].path;
            self.0.evicted.borrow_mut().push((self.0.now(), path, nr_gone));
        }
        Ok(Applied { bytes: range.len(), spent: Duration::from_us(10), ..Applied::default() })
    }
}

impl Tiering for Machine {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        let node = |node, is_top_tier| TierNode { node: NodeId(node), is_top_tier, has_memory: true };
        TieringCapabilities {
            nodes: vec![node(0, true), node(1, false)],
            spaces: false,
            scan_accessed: true,
            page_nodes: true,
            node_memory: true,
            migrate: true,
            knows_active: false,
        }
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        let area = |range| Area { range, ..Area::default() };
        self.of_space(target, |_| out.extend([HOT, COLD].map(area)))
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        self.of_space(target, |space| {
            for index in pages(range, HOT) {
                let node = NodeId(u32::from(!space.fast[index]));
                let page = ScannedPage::new(HOT.start + index as u64 * PAGE_BYTES, node, true);
                filter.see(&page, &mut space.marks[index]);
            }
            for index in pages(range, COLD) {
                let mut marks = PageMarks { idle: true, ..PageMarks::default() };
                filter.see(&ScannedPage::new(COLD.start + index as u64 * PAGE_BYTES, NodeId(1), false), &mut marks);
            }
            Scanned { next: range.end, spent: Duration::from_us(range.len() / PAGE_BYTES) }
        })
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        self.of_space(target, |space| {
            for (&address, out) in addresses.iter().zip(out) {
                let is_fast = pages(AddressRange::new(address, address + 1), HOT).start;
                *out = Some(NodeId(u32::from(!space.fast.get(is_fast).copied().unwrap_or(false))));
            }
        })
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        self.acts("promotion");
        self.of_space(target, |space| {
            for (&address, result) in order.pages.iter().zip(results) {
                let range = AddressRange::new(address, address + PAGE_BYTES);
                *result = match pages(range, HOT).next() {
                    Some(index) if !space.fast[index] => {
                        space.fast[index] = order.to == NodeId(0);
                        PageMove::Moved(1)
                    }
                    Some(_) => PageMove::SameNode,
                    None => PageMove::NotPresent,
                };
            }
            Duration::from_us(order.pages.len() as u64)
        })
    }

    fn node_memory(&mut self, _: NodeId) -> Result<Option<NodeMemory>, HostError> {
        Ok(Some(NodeMemory { present: 1 << 20, free: 1 << 18, high: 1 << 10, promo: 1 << 10 }))
    }
}

/// With our own monitor, which pages out cold memory of processes.
pub(super) fn with_monitor(enable: bool) -> Config {
    let mut pattern = AccessPattern::default();
    pattern.nr_accesses.max = Some(Frequency::Samples(0));
    let scheme = Scheme { action: Action::Pageout, access_pattern: pattern, ..Scheme::default() };
    let mut monitor = MonitorConfig { schemes: vec![scheme], ..MonitorConfig::default() };
    let attributes = &mut monitor.attributes;
    attributes.sample_interval = Duration::from_secs(1);
    attributes.aggr_interval = Duration::from_secs(5);
    attributes.ops_update_interval = Duration::from_secs(30);
    let section = MonitorsConfig {
        name: "cold".to_owned(),
        enable,
        targets: vec!["web".to_owned()],
        preset: None,
        config: Some(monitor),
        engine: Engine::Isotherm,
        take_damon_stat: false,
    };
    let own = Config { monitors: vec![section], generations: Vec::new(), ..config(false) };
    own.check().unwrap();
    own
}

/// A configuration with a scan daemon.
pub(super) fn with_promotion(enable: bool) -> Config {
    let section = TieringConfig {
        enable,
        policy: Some("rch".to_owned()),
        targets: vec!["web".to_owned()],
        promotion: Some(PromotionConfig { cover: Some(Duration::from_secs(10)), ..PromotionConfig::default() }),
        ..TieringConfig::default()
    };
    let own = Config { tiering: Some(section), generations: Vec::new(), ..config(false) };
    own.check().unwrap();
    own
}

/// A machine with NUMA balancing off.
pub(super) fn unbalanced() -> std::rc::Rc<Truth> {
    let truth = Truth::new();
    truth.knobs.borrow_mut().insert(super::memory::BALANCING.to_owned(), "0".to_owned());
    truth
}

pub(super) fn since_start(seconds: u64) -> Instant {
    Instant::START + Duration::from_secs(seconds)
}
