//! What happens when nothing can be reclaimed: the choice of a process to kill, and how processes end.

use super::task::{RunState, TaskId, UserTask, Work};
use super::{Ending, Incident, Machine};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::fault;
use isotherm_units::{Duration, Instant};
use std::cmp::Reverse;

/// How long a task waits for victims to end on other CPUs.
pub(super) const VICTIM_WAIT: Duration = Duration::from_ms(1);

impl Machine {
    /// Kills the process with the most resident and swapped pages in `cgroup`. `current` is the task that asks: it is
    /// out of the accounting while it runs, so it comes separately.
    pub(super) fn kill_for_memory(&mut self, cgroup: CgroupId, current: Option<(TaskId, &UserTask)>, now: Instant) {
        for group in self.memory.cgroups.lineage(cgroup).collect::<Vec<_>>() {
            self.memory.cgroups.get_mut(group).events.oom += 1;
        }
        let path = self.memory.cgroups.get(cgroup).path.clone();
        let candidates = self
            .memory
            .spaces
            .iter()
            .filter(|space| space.alive && self.memory.cgroups.is_within(space.cgroup, cgroup));
        // The oldest of equals.
        let size = |space: &isotherm_kernel::mmu::AddressSpace| space.nr_resident + space.nr_swapped;
        let victim = candidates.enumerate().max_by_key(|(age, space)| (size(space), Reverse(*age)));
        let Some((program, process, resident_pages, victim_cgroup)) =
            victim.map(|(_, space)| (space.process.0, space.process.1, space.nr_resident, space.cgroup))
        else {
            self.incidents.push(Incident::OutOfMemory {
                at_ns: now.ns(),
                cgroup: path,
                victim: None,
                resident_pages: 0,
            });
            if let Some((id, _)) = current {
                self.tasks[id.0].dying = true; // it could only ask again
            }
            return;
        };
        let name = self.programs[program].program.name.clone();
        self.incidents.push(Incident::OutOfMemory {
            at_ns: now.ns(),
            cgroup: path,
            victim: Some(name),
            resident_pages,
        });
        self.memory.count(Counter::OomKill, victim_cgroup, 1);
        for group in self.memory.cgroups.lineage(victim_cgroup).collect::<Vec<_>>() {
            self.memory.cgroups.get_mut(group).events.oom_kill += 1;
        }
        self.programs[program].ending = Ending::OutOfMemory;
        self.stop_process(program, process, now);
    }

    /// Whether a victim in `cgroup` has yet to end.
    pub(super) fn has_dying(&self, cgroup: CgroupId) -> bool {
        self.tasks.iter().any(|task| {
            task.dying && task.state != RunState::Dead && self.memory.cgroups.is_within(task.cgroup, cgroup)
        })
    }

    /// Ends all threads of a process: those on a CPU at their next step, all others now.
    pub(super) fn stop_process(&mut self, program: usize, process: usize, now: Instant) {
        for id in self.programs[program].tasks.clone() {
            let task = &mut self.tasks[id.0];
            if task.process != Some(process) || task.state == RunState::Dead {
                continue;
            }
            task.dying = true;
            if matches!(task.state, RunState::Running(_)) {
                continue;
            }
            self.queue.retain(|&queued| queued != id);
            let task = &mut self.tasks[id.0];
            // One that has not started yet is not among the living threads.
            let has_started = task.wait_number > 0;
            task.state = RunState::Dead;
            task.wait_number += 1;
            task.stall = super::schedule::Stall(false);
            let work = task.work.take();
            self.report_pressure(id, now);
            if let Some(Work::User(user)) = work.filter(|_| has_started) {
                self.thread_ended(*user, now);
            }
        }
    }

    /// Kills a whole program, as a plan asks.
    pub(super) fn stop_program(&mut self, program: usize, now: Instant) {
        if self.programs[program].started.is_some() && self.programs[program].ended.is_none() {
            self.programs[program].ending = Ending::Stopped;
            for process in 0..self.programs[program].program.processes.len() {
                self.stop_process(program, process, now);
            }
        }
    }

    /// Books the time of a thread that ended; the last one of a process frees its memory.
    pub(super) fn thread_ended(&mut self, mut user: UserTask, now: Instant) {
        self.abandon_blocks(&mut user);
        if let Some(balancer) = &mut self.tiering.balancer {
            balancer.thread_ended(self.programs[user.program].tasks[user.thread].0);
        }
        let program = &mut self.programs[user.program];
        program.book(&user);
        program.alive_threads[user.process] -= 1;
        if program.alive_threads[user.process] == 0
            && let Some(space) = program.spaces[user.process]
        {
            self.memory.now = now;
            self.notify_daemons_end_of(space);
            self.tiering.space_ended(space);
            fault::exit(&mut self.memory, self.policy.as_mut(), space);
            self.memory.ledger.take(); // exit runs after the program's end
        }
        let program = &mut self.programs[user.program];
        if program.alive_threads.iter().all(|&alive| alive == 0) {
            program.ended = Some(now);
            if program.ending == Ending::NotStarted {
                program.ending = Ending::Finished;
            }
        }
    }
}
