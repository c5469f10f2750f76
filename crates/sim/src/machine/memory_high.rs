//! `memory.high` on the way back to user mode: reclaim, then a penalty sleep (docs/spec/pressure.md#s6-2).

use super::Machine;
use super::task::{Cause, HighDebt, OwnReclaim, TaskId, UserTask};
use isotherm_kernel::cgroup::high::{self, HighStep, HighThrottle};
use isotherm_kernel::cgroup::{Cgroup, CgroupId};
use isotherm_kernel::reclaim::driver::Attempt;
use isotherm_units::{Duration, Instant};

impl Machine {
    /// Books the charges of the last fault; starts reclaiming if some level is over its `high`.
    #[inline]
    pub(super) fn pay_for_high(&mut self, id: TaskId, user: &mut UserTask, now: Instant) {
        let charged = std::mem::take(&mut self.memory.charged);
        if charged > 0 && self.memory.cgroups.has_soft_limits() {
            self.pay_for_charges(id, user, charged, now);
        }
    }

    fn pay_for_charges(&mut self, id: TaskId, user: &mut UserTask, charged: u64, now: Instant) {
        let own = self.tasks[id.0].cgroup;
        let Some(nearest) = self.nearest_over_high(own) else { return };
        self.memory.cgroups.for_lineage(nearest, |group| group.events.high += u64::from(is_over_high(group)));
        let (throttle, step) = HighThrottle::start(charged);
        user.high = Some(HighDebt { throttle, pending_pages: charged });
        self.set_stall(id, true, now);
        self.follow_high(user, nearest, step, now);
    }

    /// After an attempt that freed `reclaimed`: sleeps for the returned span, or (with `None`) goes on, perhaps with
    /// another attempt in `user.reclaim`.
    pub(super) fn high_attempt_over(
        &mut self,
        user: &mut UserTask,
        group: CgroupId,
        reclaimed: u64,
        now: Instant,
    ) -> Option<Duration> {
        let own = self.memory.space(user.space).cgroup;
        let worst = |of: fn(&Cgroup) -> u64| {
            self.memory.cgroups.lineage(own).map(|id| of(self.memory.cgroups.get(id))).max().unwrap_or(0)
        };
        let memory = worst(|group| high::overage(group.usage, group.high));
        let swap = worst(|group| high::overage(group.swap_usage, group.swap_high));
        let rate = self.config.tick_rate();
        let debt = user.high.as_mut().expect("an attempt for `high` has a debt");
        let step = debt.throttle.next(high::penalty(memory, swap, debt.pending_pages, rate), reclaimed, rate);
        let nearest = self.nearest_over_high(own).unwrap_or(group);
        self.follow_high(user, nearest, step, now)
    }

    fn follow_high(&mut self, user: &mut UserTask, group: CgroupId, step: HighStep, now: Instant) -> Option<Duration> {
        match step {
            HighStep::Reclaim(pages) => {
                let attempt = Attempt::once(group, pages);
                self.use_code(user);
                user.reclaim = Some(OwnReclaim { attempt, began: now, cause: Cause::High(group) });
                None
            }
            HighStep::Return => {
                user.high = None;
                None
            }
            HighStep::Sleep(span) => {
                user.high = None;
                Some(span)
            }
        }
    }

    fn nearest_over_high(&self, group: CgroupId) -> Option<CgroupId> {
        let cgroups = &self.memory.cgroups;
        cgroups.lineage(group).find(|&group| is_over_high(cgroups.get(group)))
    }
}

fn is_over_high(group: &Cgroup) -> bool {
    high::overage(group.usage, group.high) > 0 || high::overage(group.swap_usage, group.swap_high) > 0
}
