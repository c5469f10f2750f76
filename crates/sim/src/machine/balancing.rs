//! NUMA balancing on the machine: the kernel's tick of each thread, scans in the thread's own time, and hint faults.

use super::Machine;
use super::task::{TaskId, UserTask};
use crate::host::{HostTarget, MemoryHost, ProbeCounts};
use crate::tiering::Where;
use isotherm_core::host::{MoveOrder, NodeId as HostNode, PageMove, TargetId, Tiering};
use isotherm_kernel::memory::NodeId;
use isotherm_kernel::mmu::SpaceId;
use isotherm_units::{Duration, Instant, PAGE_SHIFT};

impl Machine {
    /// A thread of a program comes to its next stretch, and handles the flushes of its translations that were requested since. Because
    /// others may be up to a step ahead, the flushes come all at once. Flushes that interrupted a hint fault made that fault longer: they
    /// count there too, by the share of its last stretch.
    pub(super) fn answer_flushes(&mut self, user: &mut UserTask, now: &mut Instant) {
        let asked = self.memory.space(user.space).shootdowns - user.flushes_seen;
        if asked == 0 {
            return;
        }
        let ns = asked * self.memory.costs.tlb_answer_ns();
        user.time.interrupted_ns += ns;
        *now += Duration::from_ns(ns);
        let [in_faults, all] = user.last_stretch_ns.map(u128::from);
        let longer = u128::from(ns) * in_faults / all.max(1);
        self.tiering.interrupted(ns, u64::try_from(longer).expect("a part of it"));
    }

    /// A thread runs no further than to its next tick, where it may have to scan.
    pub(super) fn until_tick(&self, start: Instant, horizon: Instant) -> Instant {
        let Some(balancer) = &self.tiering.balancer else { return horizon };
        let tick_ns = balancer.tick_length().ns();
        horizon.min(Instant::from_ns((start.ns() / tick_ns + 1) * tick_ns))
    }

    /// A thread goes on at `now`. After a tick it may have to scan its space first, in its own time.
    pub(super) fn balance(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant) {
        if self.tiering.balancer.is_none() {
            return;
        }
        let who = self.who(id, user);
        let Some(balancer) = &mut self.tiering.balancer else { return };
        let time = &user.time;
        let runtime = Duration::from_ns(time.compute_ns + time.fault_cpu_ns + time.reclaim_cpu_ns);
        if !balancer.is_due(who, runtime, &self.memory, *now) {
            return;
        }
        self.memory.now = *now;
        balancer.scan(who, &mut self.memory, *now);
        let ns = self.memory.ledger.take();
        balancer.worked(id.0, Duration::from_ns(ns));
        user.time.fault_cpu_ns += ns;
        *now += Duration::from_ns(ns);
    }

    /// Handles the fault at `page` if the page is mapped and was only made inaccessible. `false`: it is a fault of another kind.
    pub(super) fn hint_fault(&mut self, id: TaskId, user: &UserTask, page: u64, now: Instant) -> bool {
        if self.tiering.balancer.is_none() {
            return false;
        }
        let table = &self.memory.space(user.space).table;
        let marked = table.dense(page).filter(|&dense| table.is_marked(dense));
        let Some((dense, frame)) = marked.and_then(|dense| Some((dense, table.frame_of(dense)?))) else { return false };
        let who = self.who(id, user);
        let Some(balancer) = &mut self.tiering.balancer else { return false };
        let fault = balancer.fault(who, dense, frame, &mut self.memory, now);
        let moved = fault.to.and_then(|to| self.move_one(user.space, page, to));
        let Some(balancer) = &mut self.tiering.balancer else { return false };
        balancer.end(who, fault, moved, &mut self.memory);
        balancer.fault_ns += self.memory.ledger.peek();
        true
    }

    /// Moves the folio at `page` in the running thread's time. Returns its new frame.
    fn move_one(&mut self, space: SpaceId, page: u64, to: NodeId) -> Option<isotherm_kernel::memory::FrameId> {
        let order = MoveOrder {
            pages: &[page << PAGE_SHIFT],
            to: HostNode(u32::try_from(to.index()).expect("a few nodes")),
            together: 1,
            keeps_high_watermark: true,
            only_active: false,
            leaves_shared: false,
            only_promotes: false,
        };
        let (mut results, mut counts) = ([PageMove::NotPresent], ProbeCounts::default());
        let targets = [HostTarget::Space(space)];
        let mut host = MemoryHost::new(
            &mut self.memory,
            self.policy.as_mut(),
            &self.pressure,
            &mut self.caches,
            &targets,
            &mut counts,
        );
        host.migrate(TargetId(0), &order, &mut results).ok()?;
        let is_moved = matches!(results, [PageMove::Moved(_)]);
        is_moved.then(|| self.memory.space(space).table.frame_at(page)).flatten()
    }

    fn who(&self, id: TaskId, user: &UserTask) -> Where {
        let cpu = self.tasks[id.0].last_cpu;
        Where {
            task: id.0,
            space: user.space,
            node: self.memory.tiers.node_of_cpu(cpu.0, self.cpus.len()),
            threads: self.programs[user.program].alive_threads[user.process] as u64,
        }
    }
}
