//! Placement of tasks on processors: run queue, slices, blocking and waking, and its reports to pressure accounting.

use super::events::{CpuId, Event};
use super::task::{Blocked, KernelTask, RunState, TaskId, Work};
use super::{Machine, SimError};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::pressure::{Activity, TaskState};
use isotherm_units::Instant;

/// How a stretch on a CPU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Out of time; goes on later.
    Preempted,
    /// Waits until then.
    Block(Instant, Blocked),
    /// Waits until another task wakes it.
    Park,
    End,
}

/// Whether a task is inside a memory-stall section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stall(pub(super) bool);

impl Machine {
    /// Lets the task on `cpu` run from `at` to the horizon, and again each time it wakes before anything else has happened.
    pub(super) fn run_slice(&mut self, cpu: CpuId, at: Instant) -> Result<(), SimError> {
        let mut next = Some(at);
        while let Some(at) = next {
            next = self.run_to_horizon(cpu, at)?;
        }
        Ok(())
    }

    /// Returns when the task on `cpu` has slept and goes on, if nothing happened in between.
    fn run_to_horizon(&mut self, cpu: CpuId, at: Instant) -> Result<Option<Instant>, SimError> {
        let Some(id) = self.cpus[cpu.0].running else { return Ok(None) };
        let slice_end = self.cpus[cpu.0].since + self.config.time_slice;
        let step = self.config.step;
        let others = self.events.next_time().unwrap_or(Instant::NEVER).max(at + step);
        let horizon = if self.queue.is_empty() { others } else { others.min(slice_end.max(at + step)) };
        let mut work = self.tasks[id.0].work.take().expect("a running task has its work");
        let is_kernels = |kind: fn(&KernelTask) -> bool| matches!(&work, Work::Kernel(kernel) if kind(kernel));
        let is_daemon = is_kernels(|kernel| matches!(kernel, KernelTask::Daemon { .. }));
        let is_others = is_kernels(|kernel| matches!(kernel, KernelTask::Others));
        let result = match &mut work {
            Work::User(user) => self.run_user(id, user, at, horizon),
            Work::Kernel(kernel) => Ok(self.run_kernel(id, kernel, at, horizon)),
        };
        let ended_user = match (&result, work) {
            (Ok((_, Verdict::End)), Work::User(user)) => Some(user),
            (_, work) => {
                self.tasks[id.0].work = Some(work);
                None
            }
        };
        let (now, verdict) = result?;
        self.wake_kswapds(now);
        match verdict {
            Verdict::Preempted if now < slice_end || self.queue.is_empty() => self.events.push(now, Event::Slice(cpu)),
            Verdict::Preempted => {
                self.tasks[id.0].state = RunState::Queued(now);
                self.queue.push_back(id);
                self.report_pressure(id, now);
                self.release(cpu, now);
            }
            Verdict::Block(until, why) => {
                let until = until.max(now);
                let task = &mut self.tasks[id.0];
                task.state = RunState::Blocked(now, why);
                task.wait_number += 1;
                let number = task.wait_number;
                self.report_pressure(id, now);
                let place = self.events.next_place();
                if is_daemon && self.pass_alone_to(until) {
                    self.put_on(id, cpu, None, until);
                    return Ok(Some(until));
                }
                if is_others {
                    self.others_sleep(until);
                } else {
                    self.events.push_at(place, until, Event::Wake(id, number));
                }
                self.release(cpu, now);
            }
            Verdict::Park => {
                self.tasks[id.0].state = RunState::Parked;
                self.report_pressure(id, now);
                self.release(cpu, now);
            }
            Verdict::End => {
                self.tasks[id.0].state = RunState::Dead;
                self.tasks[id.0].stall = Stall(false);
                self.report_pressure(id, now);
                self.release(cpu, now);
                if let Some(user) = ended_user {
                    self.memory.stir();
                    self.thread_ended(*user, now);
                }
            }
        }
        Ok(None)
    }

    /// Gives the CPU to the next in the queue.
    fn release(&mut self, cpu: CpuId, now: Instant) {
        self.cpus[cpu.0].running = None;
        if let Some(space) = self.cpus[cpu.0].space.take() {
            self.memory.space_mut(space).running_cpus -= 1;
        }
        if let Some(next) = self.queue.pop_front() {
            self.dispatch(next, cpu, now);
        }
    }

    fn dispatch(&mut self, id: TaskId, cpu: CpuId, now: Instant) {
        let now = match self.tasks[id.0].state {
            RunState::Queued(since) => {
                // The CPU may be up to a step behind the one that queued the task.
                let now = now.max(since);
                if let Some(Work::User(user)) = &mut self.tasks[id.0].work {
                    user.time.queue_wait_ns += now.since(since).ns();
                }
                now
            }
            _ => now,
        };
        let mut of_program = None;
        if let Some(Work::User(user)) = &mut self.tasks[id.0].work {
            user.fault.runs_on(self.memory.tiers.node_of_cpu(cpu.0, self.cpus.len()));
            if let Some(space) = self.memory.spaces.get_mut(user.space.index()) {
                space.used = u64::MAX;
                space.running_cpus += 1;
                user.flushes_seen = space.shootdowns;
                of_program = Some(user.space);
            }
        }
        self.put_on(id, cpu, of_program, now);
        self.events.push(now, Event::Slice(cpu));
    }

    /// Gives `cpu` to a task, a thread of the program with the space `space` if any.
    fn put_on(&mut self, id: TaskId, cpu: CpuId, space: Option<SpaceId>, now: Instant) {
        self.cpus[cpu.0] = super::Cpu { running: Some(id), space, since: now };
        let task = &mut self.tasks[id.0];
        task.state = RunState::Running(cpu);
        task.last_cpu = cpu;
        self.report_pressure(id, now);
        self.wake_others_if_busy(now);
    }

    /// Makes a parked or blocked task runnable: on the CPU it ran on if that is idle, else on any idle one, else queued.
    pub(super) fn wake(&mut self, id: TaskId, now: Instant) {
        let task = &mut self.tasks[id.0];
        match task.state {
            RunState::Parked => {}
            RunState::Blocked(since, why) => {
                task.wait_number += 1;
                let waited_ns = now.since(since).ns();
                if let Some(Work::User(user)) = &mut task.work {
                    match why {
                        Blocked::Sleep => {
                            self.programs[user.program].book_burst(user);
                            user.time.sleep_ns += waited_ns;
                            user.burst_began = user.time;
                        }
                        Blocked::Io => {
                            let waking_ns = self.memory.costs.io_wait_ns().min(waited_ns);
                            user.time.io_wait_ns += waited_ns - waking_ns;
                            user.time.fault_cpu_ns += waking_ns;
                        }
                        Blocked::Reclaim => user.time.reclaim_wait_ns += waited_ns,
                        Blocked::Migration => {
                            user.time.migration_wait_ns += waited_ns;
                            self.programs[user.program].migration_stalls_ns.push(waited_ns);
                        }
                    }
                }
            }
            RunState::Queued(_) | RunState::Running(_) | RunState::Dead => return,
        }
        task.state = RunState::Queued(now);
        let last = task.last_cpu;
        let idle = |cpu: &CpuId| self.cpus[cpu.0].running.is_none();
        let cpu = Some(last).filter(idle).or_else(|| self.cpu_ids().find(idle));
        match cpu {
            Some(cpu) => self.dispatch(id, cpu, now),
            None => {
                self.queue.push_back(id);
                self.report_pressure(id, now);
            }
        }
    }

    /// Wakes `id` if its wait still has this number.
    pub(super) fn wake_numbered(&mut self, id: TaskId, number: u64, now: Instant) {
        if self.tasks[id.0].wait_number == number && matches!(self.tasks[id.0].state, RunState::Blocked(..)) {
            self.wake(id, now);
        }
    }

    /// Opens or closes the memory-stall section of a task.
    #[inline]
    pub(super) fn set_stall(&mut self, id: TaskId, stall: bool, now: Instant) {
        let task = &mut self.tasks[id.0];
        if task.stall == Stall(stall) {
            return;
        }
        task.stall = Stall(stall);
        // Mostly it runs, and has just gone the other way.
        if task.state == RunState::Running(task.pressure_cpu)
            && task.pressure == (TaskState { activity: Activity::OnCpu, memstall: !stall })
        {
            let now = self.pressure_now.max(now);
            if self.pressure.toggle_stall(now, task.pressure_cpu.0, task.cgroup, stall) {
                self.pressure_now = now;
                task.pressure.memstall = stall;
                return;
            }
        }
        self.report_pressure(id, now);
    }

    /// Reports a task's present activity to pressure accounting, if it changed.
    pub(super) fn report_pressure(&mut self, id: TaskId, now: Instant) {
        let task = &self.tasks[id.0];
        let Stall(memstall) = task.stall;
        let activity = match task.state {
            RunState::Running(_) => Activity::OnCpu,
            RunState::Queued(_) => Activity::Runnable,
            // A thread that waits for a page on its way sleeps as for a device.
            RunState::Blocked(_, Blocked::Io | Blocked::Migration) => Activity::IoWait,
            RunState::Blocked(..) | RunState::Parked | RunState::Dead => Activity::Asleep,
        };
        let state = TaskState { activity, memstall };
        if state != task.pressure {
            let (from, from_cpu, cpu) = (task.pressure, task.pressure_cpu, task.last_cpu);
            self.pressure_now = self.pressure_now.max(now);
            let (now, cgroups) = (self.pressure_now, &self.memory.cgroups);
            let pressure = &mut self.pressure;
            let mut tell = |cpu: CpuId, from, to| {
                pressure.task_change(now, cpu.0, cgroups.lineage(task.cgroup), from, to);
            };
            if from_cpu == cpu {
                tell(cpu, from, state);
            } else {
                tell(from_cpu, from, TaskState::ASLEEP);
                tell(cpu, TaskState::ASLEEP, state);
            }
            self.tasks[id.0].pressure = state;
            self.tasks[id.0].pressure_cpu = cpu;
        }
    }
}
