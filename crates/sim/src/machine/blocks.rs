//! Several pages in a row: threads that make huge pages for their faults, programs that take memory of the kernel, kcompactd.

use super::schedule::Verdict;
use super::task::{KernelTask, TaskId, UserTask, Work};
use super::{Machine, SimError};
use isotherm_kernel::compaction::{AllocateStep, HugeAllocation, HugeEffort, HugePath, Kcompactd, Persistence};
use isotherm_kernel::memory::buddy::{BLOCK_ORDER, MAX_ORDER, MigrateType};
use isotherm_kernel::memory::{Memory, NodeId};
use isotherm_units::access::{BlockEffort, BlockKind, BlockRequest, KernelCall};
use isotherm_units::{Duration, Instant};

/// Blocks that a thread is taking.
#[derive(Clone, Debug)]
pub(super) struct Taking {
    request: BlockRequest,
    taken: u64,
    failed: u64,
    current: Option<HugeAllocation>,
    /// Free blocks were tried, and are not to be tried again by themselves.
    is_fallback: bool,
}

/// Consequence of a step of a thread's allocation.
pub(super) enum BlockStep {
    GoOn,
    Wait(Instant),
}

const fn migrate_type(kind: BlockKind) -> MigrateType {
    match kind {
        BlockKind::Unmovable => MigrateType::Unmovable,
        BlockKind::Reclaimable => MigrateType::Reclaimable,
        BlockKind::Movable => MigrateType::Movable,
    }
}

impl Taking {
    /// The next attempt. Nodes in the order in which they help out.
    fn attempt(&self, memory: &Memory, node: NodeId) -> HugeAllocation {
        let BlockRequest { order, kind, effort, .. } = self.request;
        let effort_now = match (effort, self.is_fallback) {
            (BlockEffort::Light, _) | (BlockEffort::LightThenFallback, false) => HugeEffort::Light,
            (BlockEffort::LightThenFallback, true) => HugeEffort::Direct(Persistence::MayFail),
            (BlockEffort::Normal, _) => HugeEffort::Direct(Persistence::Normal),
        };
        let nodes = memory.tiers.fallback(node);
        let allocation = HugeAllocation::new(memory, order, migrate_type(kind), effort_now, nodes);
        if effort == BlockEffort::Normal { allocation.waking_daemons() } else { allocation }
    }

    const fn is_over(&self) -> bool {
        self.taken >= self.request.count || self.failed >= self.request.failures
    }
}

impl Machine {
    /// One step of the allocation of a huge page for a thread's fault.
    pub(super) fn huge_step(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant) -> BlockStep {
        self.set_stall(id, true, *now);
        self.memory.now = *now;
        let step = user.fault.step_huge(&mut self.memory, self.policy.as_mut());
        self.book_blocks(user, now);
        match step {
            AllocateStep::Wait(until) => BlockStep::Wait(until),
            _ => BlockStep::GoOn,
        }
    }

    /// CPU time of an allocation passes; a finished one is noted with the program.
    fn book_blocks(&mut self, user: &mut UserTask, now: &mut Instant) {
        let ns = self.memory.ledger.take();
        user.time.fault_cpu_ns += ns;
        self.kernel.direct_compaction_ns += ns;
        *now += Duration::from_ns(ns);
        self.note_blocks(user);
    }

    /// Notes allocations that are over with the program.
    pub(super) fn note_blocks(&mut self, user: &UserTask) {
        if !self.memory.blocks_taken.is_empty() {
            self.programs[user.program].blocks.append(&mut self.memory.blocks_taken);
        }
    }

    /// A program asks for memory of the kernel, gives some back, or reads the kernel's counters.
    ///
    /// # Errors
    /// A block larger than there are.
    pub(super) fn kernel_call(
        &mut self,
        user: &mut UserTask,
        call: KernelCall,
        now: &mut Instant,
    ) -> Result<(), SimError> {
        match call {
            KernelCall::Take(request) => {
                if request.order > MAX_ORDER {
                    let program = self.programs[user.program].program.name.clone();
                    return Err(SimError::BlockTooLarge { program, order: request.order });
                }
                let taking = Taking { request, taken: 0, failed: 0, current: None, is_fallback: false };
                user.taking = (!taking.is_over()).then(|| Box::new(taking));
            }
            KernelCall::Give { tag, count } => {
                let Some(blocks) = self.programs[user.program].kernel_blocks.get_mut(&tag) else { return Ok(()) };
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(blocks.len());
                for block in blocks.drain(..count) {
                    self.memory.give_from_kernel(block);
                }
                let ns = self.memory.ledger.take();
                user.time.fault_cpu_ns += ns;
                *now += Duration::from_ns(ns);
            }
            KernelCall::ReadStatistics => {
                self.memory.now = *now;
                self.policy.flush_statistics();
            }
        }
        Ok(())
    }

    /// One step towards the next block.
    pub(super) fn taking_step(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant) -> BlockStep {
        let Some(mut taking) = user.taking.take() else { return BlockStep::GoOn };
        self.memory.now = *now;
        let mut allocation = match taking.current.take() {
            Some(allocation) => allocation,
            None => {
                if taking.request.order >= BLOCK_ORDER && !taking.is_fallback {
                    self.memory.kernel.note_huge_wanted();
                }
                taking.attempt(&self.memory, user.fault.node)
            }
        };
        self.set_stall(id, allocation.path() == HugePath::Fallback, *now);
        let step = allocation.step(&mut self.memory, self.policy.as_mut());
        let BlockRequest { tag, order, kind, effort, .. } = taking.request;
        match step {
            AllocateStep::Again | AllocateStep::Wait(_) => taking.current = Some(allocation),
            AllocateStep::Got(block) => {
                self.memory.keep_for_kernel(block, order, migrate_type(kind));
                self.programs[user.program].kernel_blocks.entry(tag).or_default().push_back(block);
                taking.taken += 1;
                taking.is_fallback = false;
            }
            AllocateStep::Failed if effort == BlockEffort::LightThenFallback && !taking.is_fallback => {
                // Each call is timed by itself (docs/spec/compaction.md#s9-1), and a failed try of free blocks is no failure.
                self.memory.blocks_taken.pop();
                taking.is_fallback = true;
            }
            AllocateStep::Failed => {
                taking.failed += 1;
                taking.is_fallback = false;
            }
        }
        if taking.is_over() {
            self.set_stall(id, false, *now);
        } else {
            user.taking = Some(taking);
        }
        self.book_blocks(user, now);
        match step {
            AllocateStep::Wait(until) => BlockStep::Wait(until),
            _ => BlockStep::GoOn,
        }
    }

    /// Allocations under way are given up when their thread ends.
    pub(super) fn abandon_blocks(&mut self, user: &mut UserTask) {
        user.fault.abandon(&mut self.memory);
        if let Some(mut allocation) = user.taking.take().and_then(|taking| taking.current) {
            allocation.cancel(&mut self.memory);
        }
    }

    /// Asks a node's kcompactd for blocks of 2^`order` pages.
    pub(super) fn ask_kcompactd(&mut self, node: NodeId, order: u32, now: Instant) {
        let id = self.kcompactds[node.index()];
        let is_worth_it = match &mut self.tasks[id.0].work {
            Some(Work::Kernel(task)) => match task.as_mut() {
                KernelTask::Kcompactd { daemon } => daemon.ask(&self.memory, order),
                _ => false,
            },
            _ => false,
        };
        if is_worth_it {
            self.wake(id, now);
        }
    }

    /// One batch of kcompactd.
    pub(super) fn kcompactd_step(&mut self, id: TaskId, daemon: &mut Kcompactd, now: &mut Instant) -> Option<Verdict> {
        if !daemon.has_work() {
            self.set_stall(id, false, *now);
            return Some(Verdict::Park);
        }
        self.set_stall(id, true, *now);
        daemon.step(&mut self.memory, self.policy.as_mut());
        let ns = self.memory.ledger.take();
        self.kernel.kcompactd_ns += ns;
        *now += Duration::from_ns(ns);
        None
    }

    /// kswapd of a node goes to sleep: kcompactd takes over the waiting requests, and hints of page blocks are forgotten.
    pub(super) fn kswapd_sleeps(&mut self, node: NodeId, now: Instant) {
        self.memory.note_kswapd(node, false);
        for zone in 0..self.memory.nodes.get(node).zones.len() {
            self.memory.flush_compaction_hints(node, zone);
        }
        self.serve_kcompactd(node, now);
    }

    /// Hands the waiting requests to kcompactd.
    pub(super) fn serve_kcompactd(&mut self, node: NodeId, now: Instant) {
        let order = std::mem::take(&mut self.memory.kcompactd_wanted[node.index()]);
        if order > 0 {
            self.ask_kcompactd(node, order, now);
        }
    }
}
