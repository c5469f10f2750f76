//! A thread of a program on a CPU: plays its accesses, enters the kernel at faults, reclaims when it must.

use super::blocks::BlockStep;
use super::lean::LeanRun;
use super::oom::VICTIM_WAIT;
use super::schedule::Verdict;
use super::task::{Blocked, Cause, OwnReclaim, TaskId, UserTask};
use super::{Incident, Machine, SimError};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::fault::{self, AtOnce, FaultOutcome, Playing, Shortage};
use isotherm_kernel::mmu::{Cursor, Need, Pace, Stop};
use isotherm_kernel::reclaim::Touches;
use isotherm_kernel::reclaim::driver::{Attempt, ReclaimStep};
use isotherm_units::access::{After, Run};
use isotherm_units::{Duration, Instant};

/// Times that one access may be short of memory although each reclaim succeeded. Some accesses need two pages at once (the source
/// and the copy of a copy-on-write). Where only one fits, each pushes the other out for ever, and the group is in effect out of
/// memory.
const SHORTAGES_MAX: u32 = 1000;

/// Action after one step of a thread.
pub(super) enum Next {
    GoOn,
    Leave(Verdict),
}

impl From<BlockStep> for Next {
    fn from(step: BlockStep) -> Self {
        match step {
            BlockStep::GoOn => Self::GoOn,
            BlockStep::Wait(until) => Self::Leave(Verdict::Block(until, Blocked::Reclaim)),
        }
    }
}

impl Machine {
    /// Runs a user thread from `start` until `horizon` or until it blocks or ends. Returns when it stopped, and why.
    pub(super) fn run_user(
        &mut self,
        id: TaskId,
        user: &mut UserTask,
        start: Instant,
        horizon: Instant,
    ) -> Result<(Instant, Verdict), SimError> {
        self.memory.running = Some(user.space);
        let mut now = start;
        self.answer_flushes(user, &mut now);
        let in_faults_ns = self.tiering.hint_fault_ns();
        let stretch = self.run_stretch(id, user, now, horizon);
        // The flushes that it asked for interrupt others only.
        user.flushes_seen = self.memory.space(user.space).shootdowns;
        if let Ok((end, _)) = stretch {
            user.last_stretch_ns = [self.tiering.hint_fault_ns() - in_faults_ns, end.since(start).ns()];
        }
        self.memory.running = None;
        stretch
    }

    fn run_stretch(
        &mut self,
        id: TaskId,
        user: &mut UserTask,
        start: Instant,
        horizon: Instant,
    ) -> Result<(Instant, Verdict), SimError> {
        if matches!(self.lean, LeanRun::Plays(_)) {
            return self.run_lean(id, user, start, horizon);
        }
        let mut now = start;
        let horizon = self.until_tick(start, horizon);
        if self.tiering.balancer.is_some() {
            self.memory.stir();
        }
        self.balance(id, user, &mut now);
        user.interrupted = None; // others may have brought its page
        loop {
            if self.tasks[id.0].dying {
                return Ok((now, Verdict::End));
            }
            // Completions of what was just submitted must not wait for the end of a long slice.
            let horizon =
                self.memory.io.next_completion().map_or(horizon, |io| horizon.min(io.max(start + self.config.step)));
            if now >= horizon {
                return Ok((now, Verdict::Preempted));
            }
            let next = if user.reclaim.is_some() {
                self.memory.stir();
                self.reclaim_step(id, user, &mut now)
            } else if user.fault.is_allocating() {
                self.memory.stir();
                self.huge_step(id, user, &mut now).into()
            } else if user.taking.is_some() {
                self.memory.stir();
                self.taking_step(id, user, &mut now).into()
            } else if user.compute_left_ns > 0 {
                let ns = user.compute_left_ns.min(horizon.since(now).ns());
                user.compute_left_ns -= ns;
                user.time.compute_ns += ns;
                now += Duration::from_ns(ns);
                Next::GoOn
            } else if let Some((page, need)) = user.interrupted.take()
                && self.memory.migration.is_empty()
            {
                self.memory.stir();
                self.memory.now = now;
                self.memory.migration.note_played(now);
                let (memory, policy) = (&mut self.memory, self.policy.as_mut());
                let outcome = fault::fault_again(memory, policy, user.space, page, need, &mut user.fault);
                self.after_fault_at(id, user, (page, need), outcome, &mut now)
            } else {
                self.play(id, user, &mut now, horizon)?
            };
            if let Next::Leave(verdict) = next {
                return Ok((now, verdict));
            }
        }
    }

    fn play(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant, horizon: Instant) -> Result<Next, SimError> {
        let mut pace = self.pace(user.program, *now, horizon);
        let before = user.cursor;
        let touches = self.touches;
        // The run that faulted goes alone where the policy wants to see it.
        let is_watched = user.faulted && touches == Touches::AfterFault;
        let end = if is_watched { user.cursor.run + 1 } else { user.batch.runs.len() };
        let is_shown = is_watched || touches == Touches::All || self.memory.ground_truth.is_some();
        let mut stop = self.touch(id, user, end, &mut pace);
        let fault_cpu_ns = user.time.fault_cpu_ns;
        let has_faulted = matches!(stop, Stop::Fault { .. })
            && !is_shown
            && touches == Touches::None
            && self.faults_at_once()
            && self.play_over_faults(id, user, end, &mut pace, &mut stop);
        match stop {
            Stop::Done | Stop::TimeUp if !is_shown && !has_faulted => {
                let ends = user.cursor.run + usize::from(user.cursor.page > 0);
                self.memory.note_touches(user.space, &user.batch.runs[before.run..ends]);
            }
            _ => self.memory.stir(),
        }
        self.access.count(self.programs[user.program].program.timing, &pace.hits);
        user.time.compute_ns += pace.now_ns - now.ns() - (user.time.fault_cpu_ns - fault_cpu_ns);
        *now = Instant::from_ns(pace.now_ns);
        self.memory.migration.note_played(*now);
        if user.cursor != before {
            user.fault.moved_on();
            user.faulted = false;
            self.memory.now = *now;
            if is_shown {
                self.report_touches(user, before, is_watched || touches == Touches::All);
            }
        }
        self.memory.now = *now;
        match stop {
            Stop::Done if user.cursor.run < user.batch.runs.len() => Ok(Next::GoOn),
            Stop::TimeUp => Ok(self.let_kswapd_wake()), // the loop sees that the time is up
            Stop::Done => self.batch_done(id, user, now),
            Stop::Fault { page, .. } if self.hint_fault(id, user, page, *now) => {
                self.book_fault_cpu(user, now);
                Ok(self.let_kswapd_wake())
            }
            Stop::Fault { page, need } => {
                user.faulted = true;
                self.memory.look_ahead(user.space, &user.batch.runs, user.cursor.run, &mut user.looked_ahead);
                let (memory, policy) = (&mut self.memory, self.policy.as_mut());
                let outcome = fault::fault(memory, policy, user.space, page, need, &mut user.fault);
                Ok(self.after_fault_at(id, user, (page, need), outcome, now))
            }
            Stop::Descriptor => {
                let run = user.batch.runs[user.cursor.run].rest_after(user.cursor.page);
                let (memory, page, state) = (&mut self.memory, &mut user.cursor.page, &mut user.fault);
                let outcome = fault::descriptor(memory, self.policy.as_mut(), user.space, run, page, state);
                self.book_fault_cpu(user, now);
                if user.cursor.page == user.batch.runs[user.cursor.run].pages {
                    user.cursor = Cursor { run: user.cursor.run + 1, ..Cursor::default() };
                }
                Ok(self.after_fault(id, user, outcome, *now))
            }
        }
    }

    /// Whether a fault that nothing holds up needs its thread alone, and leaves the cost of touches as it is.
    fn faults_at_once(&self) -> bool {
        self.memory.migration.is_empty() && self.tiering.balancer.is_none() && self.access.is_steady()
    }

    /// Handles faults that nothing holds up, and plays on after each, from the fault at `stop` to the next stop. Whether there was one.
    fn play_over_faults(
        &mut self,
        id: TaskId,
        user: &mut UserTask,
        end: usize,
        pace: &mut Pace,
        stop: &mut Stop,
    ) -> bool {
        let Some(mut faults) = AtOnce::new(&self.memory, user.space, &user.fault) else { return false };
        let has_soft_limits = self.memory.cgroups.has_soft_limits();
        let is_walked = !self.caches.is_empty() || !self.memory.space(user.space).table.is_plain();
        let mut has_faulted = false;
        while matches!(stop, Stop::Fault { .. }) {
            // The first one ends the stall of its thread.
            let is_alone = !has_faulted || has_soft_limits || is_walked;
            let (runs, looked_ahead) = (&user.batch.runs[..end], &mut user.looked_ahead);
            let playing = Playing { runs, cursor: &mut user.cursor, pace: &mut *pace, looked_ahead, is_alone };
            let Some(ns) = self.policy.play_over_faults(&mut self.memory, &mut faults, playing, stop) else { break };
            user.time.fault_cpu_ns += ns;
            if is_alone {
                self.fault_done(id, user, Instant::from_ns(pace.now_ns));
            }
            has_faulted = true;
            if user.reclaim.is_some() || self.memory.kswapd_wanted.iter().any(|&is_wanted| is_wanted) {
                *stop = Stop::TimeUp; // before the access is tried again
                break;
            }
            if is_walked {
                *stop = self.touch(id, user, end, pace);
            } else if is_alone {
                let table = &mut self.memory.space_mut(user.space).table;
                *stop = table.play_on(&user.batch.runs[..end], &mut user.cursor, pace);
            }
        }
        if has_faulted {
            faults.book(&mut self.memory);
            self.memory.charged = 0; // no `memory.high` pays for them, or it has
            user.faulted = true;
            self.note_blocks(user);
            self.note_resident(user);
        }
        has_faulted
    }

    /// A fault at a page has come so far.
    #[inline]
    fn after_fault_at(
        &mut self,
        id: TaskId,
        user: &mut UserTask,
        at: (u64, Need),
        outcome: FaultOutcome,
        now: &mut Instant,
    ) -> Next {
        if matches!(outcome, FaultOutcome::Short(_)) && self.faults_until_served(user) {
            user.interrupted = Some(at);
        }
        self.book_fault_cpu(user, now);
        self.after_fault(id, user, outcome, *now)
    }

    /// Whether an access that faulted faults again if it is tried before the fault is over and before another thread has run, and the
    /// attempt changes nothing. Reclaim may set pages in motion in that time; no other state here can change.
    fn faults_until_served(&self, user: &UserTask) -> bool {
        self.caches.is_empty()
            && self.access.is_steady()
            && self.tiering.balancer.is_none()
            && self.memory.space(user.space).table.is_plain()
    }

    fn book_fault_cpu(&mut self, user: &mut UserTask, now: &mut Instant) {
        let ns = self.memory.ledger.take();
        user.time.fault_cpu_ns += ns;
        *now += Duration::from_ns(ns);
        self.note_blocks(user);
    }

    /// The access that faulted will succeed.
    #[inline]
    fn fault_done(&mut self, id: TaskId, user: &mut UserTask, now: Instant) {
        user.nr_shortages = 0;
        self.set_stall(id, false, now);
        self.pay_for_high(id, user, now);
    }

    fn after_fault(&mut self, id: TaskId, user: &mut UserTask, outcome: FaultOutcome, now: Instant) -> Next {
        match outcome {
            FaultOutcome::Done => {
                self.fault_done(id, user, now);
                self.note_resident(user);
                self.let_kswapd_wake()
            }
            FaultOutcome::Wait { until, memstall } => {
                self.set_stall(id, memstall, now);
                // Its last part is waking up, which `wake` books as CPU time. Nothing else waits for the processor meanwhile.
                let until = until + Duration::from_ns(self.memory.costs.io_wait_ns());
                Next::Leave(Verdict::Block(until, Blocked::Io))
            }
            FaultOutcome::Huge => Next::GoOn,
            FaultOutcome::Migrating { until } => Next::Leave(Verdict::Block(until, Blocked::Migration)),
            FaultOutcome::Short(shortage) => {
                user.nr_shortages += 1;
                if user.nr_shortages > SHORTAGES_MAX && !user.fault.shortage_is_optional() {
                    user.nr_shortages = 0;
                    let group = match shortage {
                        Shortage::Limit(cgroup) => cgroup,
                        Shortage::Node(_) | Shortage::Bound(_) => CgroupId::ROOT,
                    };
                    return self.out_of_memory(id, user, group, now);
                }
                let (attempt, cause) = match shortage {
                    Shortage::Limit(cgroup) => {
                        (Attempt::limit(cgroup, user.fault.take_shortage_pages()), Cause::Limit(cgroup))
                    }
                    Shortage::Node(node) => (Attempt::direct(node), Cause::Node(node)),
                    Shortage::Bound(node) => (Attempt::direct_on(node), Cause::Node(node)),
                };
                self.use_code(user);
                user.reclaim = Some(OwnReclaim { attempt, began: now, cause });
                self.set_stall(id, true, now);
                self.let_kswapd_wake()
            }
            FaultOutcome::Bad { page } => {
                let program = self.programs[user.program].program.name.clone();
                self.incidents.push(Incident::BadAccess { at_ns: now.ns(), program, page });
                self.programs[user.program].ending = super::Ending::Fault;
                self.stop_process(user.program, user.process, now);
                Next::Leave(Verdict::End)
            }
        }
    }

    /// A daemon that is wanted is woken when the stretch ends: end it now, this thread goes on at once.
    fn let_kswapd_wake(&self) -> Next {
        if self.memory.kswapd_wanted.contains(&true) { Next::Leave(Verdict::Preempted) } else { Next::GoOn }
    }

    /// Makes one step of the thread's own reclaim attempt.
    fn reclaim_step(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant) -> Next {
        let own = user.reclaim.as_mut().expect("called with an attempt");
        self.memory.now = *now;
        let step = own.attempt.step(&mut self.memory, self.policy.as_mut());
        let ns = self.memory.ledger.take();
        user.time.reclaim_cpu_ns += ns;
        self.kernel.direct_ns += ns;
        *now += Duration::from_ns(ns);
        match step {
            ReclaimStep::Again => Next::GoOn,
            ReclaimStep::Wait(span) => Next::Leave(Verdict::Block(self.throttled_until(*now, span), Blocked::Reclaim)),
            ReclaimStep::Done { reclaimed } => self.reclaim_over(id, user, reclaimed, *now),
            ReclaimStep::Failed if user.fault.shortage_is_optional() => self.reclaim_over(id, user, 0, *now),
            ReclaimStep::Failed => match own.cause {
                Cause::High(_) => self.reclaim_over(id, user, 0, *now),
                Cause::Limit(cgroup) => self.out_of_memory(id, user, cgroup, *now),
                Cause::Node(_) => self.out_of_memory(id, user, CgroupId::ROOT, *now),
            },
        }
    }

    fn reclaim_over(&mut self, id: TaskId, user: &mut UserTask, reclaimed: u64, now: Instant) -> Next {
        let &OwnReclaim { began, cause, .. } = user.reclaim.as_ref().expect("it was running");
        user.reclaim = None;
        self.reclaim_latencies_ns.push(now.since(began).ns());
        match cause {
            Cause::High(group) => match self.high_attempt_over(user, group, reclaimed, now) {
                None => {
                    if user.reclaim.is_none() {
                        self.set_stall(id, false, now);
                    }
                    Next::GoOn
                }
                Some(penalty) => Next::Leave(Verdict::Block(now + penalty, Blocked::Reclaim)),
            },
            // The stall ends when the retried allocation has gone through.
            Cause::Limit(_) | Cause::Node(_) => Next::GoOn,
        }
    }

    fn out_of_memory(&mut self, id: TaskId, user: &mut UserTask, cgroup: CgroupId, now: Instant) -> Next {
        user.reclaim = None; // tried again after the kill
        if self.has_dying(cgroup) {
            return Next::Leave(Verdict::Block(now + VICTIM_WAIT, Blocked::Reclaim));
        }
        self.kill_for_memory(cgroup, Some((id, user)), now);
        Next::GoOn
    }

    /// The batch is done: handles the thread's next action.
    pub(super) fn batch_done(&mut self, id: TaskId, user: &mut UserTask, now: &mut Instant) -> Result<Next, SimError> {
        self.programs[user.program].operations += std::mem::take(&mut user.batch.operations);
        self.code_of_batch_done(user);
        user.batch.clear();
        user.looked_ahead = 0;
        user.cursor = Cursor::default();
        self.set_stall(id, false, *now);
        let after = std::mem::replace(&mut user.after, After::Continue);
        if !matches!(after, After::Continue | After::Compute(_) | After::Sleep(_)) {
            self.memory.stir();
        }
        match after {
            After::Continue => {
                user.after = user.stream.next_batch(*now, &mut user.batch).map_err(|source| SimError::Stream {
                    program: self.programs[user.program].program.name.clone(),
                    thread: user.thread,
                    source,
                })?;
                if user.batch.operations > 0 {
                    self.programs[user.program].first_operation.get_or_insert(*now);
                }
            }
            After::Change(change) => {
                let files = &self.programs[user.program].files;
                fault::change_layout(&mut self.memory, self.policy.as_mut(), user.space, change, files)
                    .map_err(|page| self.layout_error(user.program, page))?;
                self.book_fault_cpu(user, now);
            }
            After::Compute(span) => user.compute_left_ns += span.ns(),
            After::Sleep(span) => return Ok(Next::Leave(Verdict::Block(*now + span, Blocked::Sleep))),
            After::Kernel(call) => self.kernel_call(user, call, now)?,
            After::Start(thread) => self.start_thread(user.program, thread, *now)?,
            After::Finish => return Ok(Next::Leave(Verdict::End)),
        }
        Ok(Next::GoOn)
    }

    /// Reports the touches between `before` and the cursor to ground truth, and to the policy if it wants them, in one call.
    fn report_touches(&mut self, user: &UserTask, before: Cursor, to_policy: bool) {
        let (runs, after) = (&user.batch.runs, user.cursor);
        let mut report = |runs: &[Run]| {
            self.memory.ground_truth_uses(user.space, runs);
            if to_policy {
                self.policy.touched(&mut self.memory, user.space, runs);
            }
        };
        if before.page == 0 && after.page == 0 {
            return report(&runs[before.run..after.run]);
        }
        let ends = after.run + usize::from(after.page > 0);
        // One run, mostly: the one that faulted.
        if let [run] = runs[before.run..ends] {
            let mut touched = run;
            if after.page > 0 {
                touched.pages = after.page;
            }
            return report(&[touched.rest_after(before.page)]);
        }
        let mut touched = runs[before.run..ends].to_vec();
        if let Some(last) = touched.last_mut().filter(|_| after.page > 0) {
            last.pages = after.page;
        }
        touched[0] = touched[0].rest_after(before.page);
        report(&touched);
    }

    /// Notes the resident pages of the user's program.
    fn note_resident(&mut self, user: &UserTask) {
        let program = &mut self.programs[user.program];
        let resident: u64 =
            program.spaces.iter().flatten().map(|&space| self.memory.spaces[space.index()].nr_resident).sum();
        program.peak_resident = program.peak_resident.max(resident);
    }
}
