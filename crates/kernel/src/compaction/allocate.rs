//! An allocation of several contiguous pages, step by step (docs/spec/compaction.md#s2-7): free blocks, then compaction, then reclaim, then
//! harder compaction.

use super::direct::DirectStep;
use super::{CompactResult, DirectCompaction, Priority};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::MigrateType;
use crate::memory::{FrameId, Memory, NodeId};
use crate::reclaim::ReclaimPolicy;
use crate::reclaim::driver::{Attempt, ReclaimStep};
use isotherm_core::compaction::{COSTLY_ORDER, Level, Suitability};
use isotherm_units::{Duration, Instant};
use serde::Serialize;

/// Retries after compaction that succeeded and left no page (`MAX_COMPACT_RETRIES`).
const COMPACT_RETRIES: u32 = 16;
/// Rounds of reclaim without progress (`MAX_RECLAIM_RETRIES`).
const RECLAIM_RETRIES: u32 = 16;

/// How often an allocation is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// One round that waits for nothing (`__GFP_NORETRY`): a fault that did not ask for a huge page.
    NoRetry,
    /// One round: a fault of `MADV_HUGEPAGE`.
    #[default]
    Normal,
    /// Retries as long as something changes (`__GFP_RETRY_MAYFAIL`).
    MayFail,
}

/// How far an allocation may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugeEffort {
    /// Takes a free block or none (`GFP_TRANSHUGE_LIGHT`).
    Light,
    /// Compacts and reclaims (`GFP_TRANSHUGE`).
    Direct(Persistence),
}

/// Path of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePath {
    /// A block was free.
    Light,
    /// A block had to be made.
    Fallback,
}

/// An allocation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BlockTaken {
    /// log2 of the pages.
    pub order: u32,
    /// The path that it took.
    pub path: HugePath,
    /// Whether there was a block.
    pub got: bool,
    /// Time from the call to its end, waits included; without zeroing.
    pub latency_ns: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateStep {
    /// Call again after its CPU time.
    Again,
    /// Sleeps until then, or until a write to a device ends.
    Wait(Instant),
    /// The first frame of the block; no group is charged.
    Got(FrameId),
    /// There is none.
    Failed,
}

/// An allocation under way. The CPU time of each step passes before the next.
#[derive(Clone, Debug)]
pub struct HugeAllocation {
    order: u32,
    wanted: MigrateType,
    effort: HugeEffort,
    zones: Vec<(NodeId, usize)>,
    stage: Stage,
    /// Priority of the next compaction after the first.
    priority: Priority,
    compact_retries: u32,
    reclaim_rounds: u32,
    /// The last round reclaimed at least one page.
    has_progressed: bool,
    last: CompactResult,
    path: HugePath,
    /// kswapd and kcompactd are woken where little is free.
    wakes_daemons: bool,
    began: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Steps 1 and 2.
    Free,
    /// ReclaimStep 4, and 6: compaction.
    Compact { compaction: Box<DirectCompaction>, is_first: bool },
    /// ReclaimStep 5.
    Retry,
    /// Reclaim under way.
    Reclaim(Box<Attempt>),
    /// Steps 7 to 9.
    Decide,
}

/// The watermark that must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Low,
    Min,
    High,
}

impl HugeAllocation {
    /// For a block of 2^`order` pages of a type, from these nodes in this order.
    pub fn new(memory: &Memory, order: u32, wanted: MigrateType, effort: HugeEffort, nodes: &[NodeId]) -> Self {
        let zones_of = |&node: &NodeId| (0..memory.nodes.get(node).zones.len()).rev().map(move |zone| (node, zone));
        Self {
            order,
            wanted,
            effort,
            zones: nodes.iter().flat_map(zones_of).collect(),
            stage: Stage::Free,
            priority: Priority::SyncLight,
            compact_retries: 0,
            reclaim_rounds: 0,
            has_progressed: false,
            last: CompactResult::Skipped,
            path: HugePath::Light,
            wakes_daemons: false,
            began: None,
        }
    }

    /// Also wakes the nodes' daemons when less than the low mark is free, or no block.
    pub const fn waking_daemons(mut self) -> Self {
        self.wakes_daemons = true;
        self
    }

    /// Path taken so far.
    pub const fn path(&self) -> HugePath {
        self.path
    }

    /// Does the next step. The last block is recorded in [`Memory::blocks_taken`].
    pub fn step(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> AllocateStep {
        let began = *self.began.get_or_insert_with(|| memory.now + Duration::from_ns(memory.ledger.peek()));
        let step = self.go_on(memory, policy);
        let got = matches!(step, AllocateStep::Got(_));
        if got || step == AllocateStep::Failed {
            let ended = memory.now + Duration::from_ns(memory.ledger.peek());
            let latency_ns = ended.since(began).ns();
            memory.blocks_taken.push(BlockTaken { order: self.order, path: self.path, got, latency_ns });
        }
        step
    }

    fn go_on(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> AllocateStep {
        match std::mem::replace(&mut self.stage, Stage::Decide) {
            Stage::Free => self.take_free(memory),
            Stage::Compact { mut compaction, is_first } => match compaction.step(memory, policy) {
                DirectStep::Again => {
                    self.stage = Stage::Compact { compaction, is_first };
                    AllocateStep::Again
                }
                DirectStep::Wait(until) => {
                    self.stage = Stage::Compact { compaction, is_first };
                    AllocateStep::Wait(until)
                }
                DirectStep::Done(result, got) => self.compacted(memory, result, got, is_first),
            },
            Stage::Retry => self.retry(memory, policy),
            Stage::Reclaim(mut attempt) => match attempt.step(memory, policy) {
                ReclaimStep::Again => {
                    self.stage = Stage::Reclaim(attempt);
                    AllocateStep::Again
                }
                ReclaimStep::Wait(span) => {
                    self.stage = Stage::Reclaim(attempt);
                    AllocateStep::Wait(memory.now + span)
                }
                ReclaimStep::Done { reclaimed } => self.reclaimed(memory, reclaimed),
                ReclaimStep::Failed => self.reclaimed(memory, 0),
            },
            Stage::Decide => self.decide(memory, policy),
        }
    }

    /// Gives up the work under way.
    pub fn cancel(&mut self, memory: &mut Memory) {
        if let Stage::Compact { compaction, .. } = &mut self.stage {
            compaction.cancel(memory);
        }
    }

    /// Steps 1 to 3.
    fn take_free(&mut self, memory: &mut Memory) -> AllocateStep {
        let mut taken = self.walk(memory, Above::Low);
        if taken.is_none() {
            if self.wakes_daemons {
                for &(node, _) in &self.zones {
                    memory.kswapd_wanted[node.index()] = true;
                    let wanted = &mut memory.kcompactd_wanted[node.index()];
                    *wanted = (*wanted).max(self.order);
                }
            }
            taken = self.walk(memory, Above::Min);
        }
        match (taken, self.effort) {
            (Some(block), _) => AllocateStep::Got(block),
            (None, HugeEffort::Light) => AllocateStep::Failed,
            (None, HugeEffort::Direct(_)) => {
                self.path = HugePath::Fallback;
                // Small orders reclaim first.
                self.stage = if self.is_costly() { self.compact(Priority::Async, true) } else { Stage::Retry };
                AllocateStep::Again
            }
        }
    }

    fn compact(&self, priority: Priority, is_first: bool) -> Stage {
        let compaction = DirectCompaction::new(self.order, self.wanted, priority, self.zones.clone());
        Stage::Compact { compaction: Box::new(compaction), is_first }
    }

    const fn is_costly(&self) -> bool {
        self.order > COSTLY_ORDER
    }

    const fn persistence(&self) -> Persistence {
        match self.effort {
            HugeEffort::Light => Persistence::NoRetry,
            HugeEffort::Direct(persistence) => persistence,
        }
    }

    /// Step after compaction: the page that was kept, or another try. Source: `__alloc_pages_direct_compact`.
    fn compacted(
        &mut self,
        memory: &mut Memory,
        result: CompactResult,
        got: Option<FrameId>,
        is_first: bool,
    ) -> AllocateStep {
        self.last = result;
        if result > CompactResult::Deferred || got.is_some() {
            memory.count(Counter::CompactStall, CgroupId::ROOT, 1);
            let block = got.or_else(|| self.walk(memory, Above::Min));
            if let Some(block) = block {
                let zone = memory.nodes.zone_of_mut(block);
                zone.compaction.flush_wanted = false;
                zone.compaction.deferral.reset(self.order, true);
                memory.count(Counter::CompactSuccess, CgroupId::ROOT, 1);
                return AllocateStep::Got(block);
            }
            memory.count(Counter::CompactFail, CgroupId::ROOT, 1);
        }
        match (is_first, self.persistence()) {
            (true, _) => self.stage = Stage::Retry,
            (false, Persistence::NoRetry) => return AllocateStep::Failed,
            (false, Persistence::Normal) if self.is_costly() => return AllocateStep::Failed,
            (false, _) => self.stage = Stage::Decide,
        }
        AllocateStep::Again
    }

    /// ReclaimStep 5: another walk, then reclaim, unless there is enough to compact with.
    fn retry(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> AllocateStep {
        if let Some(block) = self.walk(memory, Above::Min) {
            return AllocateStep::Got(block);
        }
        if self.is_costly() && self.zones.iter().any(|&zone| self.is_spared(memory, zone)) {
            memory.ledger.spend(memory.costs.direct_reclaim_entry_ns);
            return self.reclaimed(memory, 1);
        }
        let node = self.zones.first().map_or(NodeId::default(), |&(node, _)| node);
        if policy.is_exact() {
            return AllocateStep::Failed;
        }
        memory.count(Counter::AllocStall, CgroupId::ROOT, 1);
        self.stage = Stage::Reclaim(Box::new(Attempt::direct_once(node)));
        AllocateStep::Again
    }

    /// Whether reclaim would leave a zone alone. Source: `compaction_ready`.
    fn is_spared(&self, memory: &Memory, (node, at): (NodeId, usize)) -> bool {
        let zone = &memory.nodes.get(node).zones[at];
        let reserve = memory.nodes.get(node).reserve(at);
        let blocks = zone.buddy().blocks();
        let level = Level { free: zone.free_in_blocks(), blocks: &blocks, reserve };
        level.watermark_ok(self.order, zone.marks.min)
            || zone.suitability(self.order, zone.marks.high, reserve) == Suitability::Suitable
    }

    fn reclaimed(&mut self, memory: &mut Memory, pages: u64) -> AllocateStep {
        self.has_progressed = pages > 0;
        if let Some(block) = self.walk(memory, Above::Min) {
            return AllocateStep::Got(block);
        }
        if pages > 0 {
            let mut drained = 0;
            for &(node, zone) in &self.zones {
                let Memory { nodes, frames, .. } = memory;
                drained += nodes.zone_mut(node, zone).drain(frames);
            }
            if drained > 0 {
                memory.ledger.spend(memory.costs.drain_lists_ns);
            }
            if let Some(block) = self.walk(memory, Above::Min) {
                return AllocateStep::Got(block);
            }
        }
        if self.order == 0 {
            self.reclaim_rounds = if self.has_progressed { 0 } else { self.reclaim_rounds + 1 };
            if self.reclaim_rounds > RECLAIM_RETRIES {
                return AllocateStep::Failed;
            }
            self.stage = Stage::Retry;
            return AllocateStep::Again;
        }
        let priority = if self.persistence() == Persistence::NoRetry { Priority::Async } else { self.priority };
        self.stage = self.compact(priority, false);
        AllocateStep::Again
    }

    /// Steps 7 to 9.
    fn decide(&mut self, memory: &mut Memory, policy: &dyn ReclaimPolicy) -> AllocateStep {
        if self.should_reclaim_again(memory, policy) || self.has_progressed && self.should_compact_again(memory, policy)
        {
            self.stage = Stage::Retry;
            return AllocateStep::Again;
        }
        match self.walk(memory, Above::High) {
            Some(block) => AllocateStep::Got(block),
            None => AllocateStep::Failed,
        }
    }

    /// Source: `should_reclaim_retry`.
    fn should_reclaim_again(&mut self, memory: &Memory, policy: &dyn ReclaimPolicy) -> bool {
        // Progress for one page says nothing of a costly order.
        self.reclaim_rounds = if self.has_progressed && !self.is_costly() { 0 } else { self.reclaim_rounds + 1 };
        self.reclaim_rounds <= RECLAIM_RETRIES
            && self.zones.iter().any(|&(node, at)| {
                let zone = &memory.nodes.get(node).zones[at];
                let blocks = zone.buddy().blocks();
                let free = zone.free_in_blocks() + memory.reclaimable_pages(policy, node);
                let level = Level { free, blocks: &blocks, reserve: memory.nodes.get(node).reserve(at) };
                level.watermark_ok(self.order, zone.marks.min)
            })
    }

    /// Source: `should_compact_retry`.
    fn should_compact_again(&mut self, memory: &Memory, policy: &dyn ReclaimPolicy) -> bool {
        match self.last {
            CompactResult::Skipped => {
                return self.zones.iter().any(|&(node, at)| {
                    let zone = &memory.nodes.get(node).zones[at];
                    let blocks = zone.buddy().blocks();
                    let reclaimable = memory.reclaimable_pages(policy, node) / u64::from(self.order.max(1));
                    let level = Level {
                        free: zone.free_in_blocks() + reclaimable,
                        blocks: &blocks,
                        reserve: memory.nodes.get(node).reserve(at),
                    };
                    let margin = isotherm_core::compaction::margin(
                        self.order,
                        &zone.core_marks(),
                        isotherm_core::compaction::Gap::Capped,
                    );
                    level.watermark_ok(0, zone.marks.min + margin)
                });
            }
            CompactResult::Success => {
                let most = if self.is_costly() { COMPACT_RETRIES / 4 } else { COMPACT_RETRIES };
                self.compact_retries += 1;
                if self.compact_retries <= most {
                    return true;
                }
            }
            _ => {}
        }
        let hardest = if self.is_costly() { Priority::SyncLight } else { Priority::Full };
        if self.priority >= hardest {
            return false;
        }
        self.priority = hardest;
        self.compact_retries = 0;
        true
    }

    /// A search of all zones. Source: `get_page_from_freelist`.
    fn walk(&self, memory: &mut Memory, above: Above) -> Option<FrameId> {
        for &(node, at) in &self.zones {
            let reserve = memory.nodes.get(node).reserve(at);
            let Memory { nodes, frames, ledger, costs, .. } = memory;
            let zone = nodes.zone_mut(node, at);
            let mark = match above {
                Above::Low => zone.marks.low,
                Above::Min => zone.marks.min,
                Above::High => zone.marks.high,
            };
            // Single pages come from those at hand; watermarks of blocks do not count these.
            let free = if self.order == 0 { zone.free() } else { zone.free_in_blocks() };
            let blocks = zone.buddy().blocks();
            if (Level { free, blocks: &blocks, reserve }).watermark_ok(self.order, mark)
                && let Some(block) = zone.take_block(frames, self.order, self.wanted)
            {
                ledger.spend(costs.block_take_ns);
                return Some(block);
            }
            ledger.spend(costs.zone_walk_ns);
        }
        None
    }
}

impl Memory {
    /// Pages of a node that reclaim could free, by its lists. Source: `zone_reclaimable_pages`.
    pub(crate) fn reclaimable_pages(&self, policy: &dyn ReclaimPolicy, node: NodeId) -> u64 {
        let has_swap = self.slots.free() > 0;
        let of = |id| {
            let sizes = policy.sizes(self.lruvec(id, node));
            sizes.file() + if has_swap { sizes.anon() } else { 0 }
        };
        self.cgroups.ids().map(of).sum()
    }
}
