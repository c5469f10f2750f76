//! Pressure states of a CPU for a group, from the tasks on it (docs/spec/pressure.md#s1).

/// Activity of a task on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Runs now. At most one task of a CPU has this activity.
    OnCpu,
    /// Wants the CPU.
    Runnable,
    /// Sleeps until a block device answers.
    IoWait,
    /// Sleeps for another reason, or does not exist.
    Asleep,
}

/// A task, as far as pressure is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskState {
    pub activity: Activity,
    /// It is inside a memory-stall section; see [`StallNesting`].
    pub memstall: bool,
}

impl TaskState {
    /// Sleeping and not stalled: counted nowhere. The state before a task starts and after it ended.
    pub const ASLEEP: Self = Self { activity: Activity::Asleep, memstall: false };
    /// Running and not stalled.
    pub const ON_CPU: Self = Self { activity: Activity::OnCpu, memstall: false };
    /// Waiting for a CPU and not stalled.
    pub const RUNNABLE: Self = Self { activity: Activity::Runnable, memstall: false };
    /// Waiting for a block device and not stalled for memory.
    pub const IO_WAIT: Self = Self { activity: Activity::IoWait, memstall: false };

    /// Whether a running task entered a memory-stall section, or left it, by going to `to`.
    #[inline]
    pub(super) fn toggled_on_cpu(self, to: Self) -> bool {
        self.activity == Activity::OnCpu && to.activity == Activity::OnCpu && self.memstall != to.memstall
    }

    /// The same activity inside a memory-stall section.
    pub const fn stalled(self) -> Self {
        Self { memstall: true, ..self }
    }
}

/// Depth of a task's memory-stall sections: nested ones count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallNesting(u32);

impl StallNesting {
    /// Enters a section. Returns whether the task was outside: only then its state changes.
    pub const fn enter(&mut self) -> bool {
        self.0 += 1;
        self.0 == 1
    }
    /// Leaves the innermost section. Returns whether the task is outside now.
    ///
    /// # Panics
    /// If the task is in no section.
    pub const fn leave(&mut self) -> bool {
        assert!(self.0 > 0, "leaves no more sections than it entered");
        self.0 -= 1;
        self.0 == 0
    }
}

/// A pressure state of one CPU for one group. The discriminant is the index into arrays of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A task waits for a block device.
    IoSome = 0,
    /// A task waits for a block device and none runs.
    IoFull = 1,
    /// A task is stalled for memory.
    MemorySome = 2,
    /// Nothing but stalled tasks makes progress.
    MemoryFull = 3,
    /// A task waits for the CPU.
    CpuSome = 4,
    /// Tasks wait for the CPU, and a task of another group runs on it.
    CpuFull = 5,
    /// There is a task that is not simply asleep: the weight of the CPU.
    NonIdle = 6,
}

/// States that are reported: all but [`State::NonIdle`].
pub const NR_REPORTED: usize = 6;
pub const NR_STATES: usize = 7;

/// A set of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateSet(u8);

impl StateSet {
    /// Whether `state` is in it.
    #[inline]
    pub const fn has(self, state: State) -> bool {
        self.0 & (1 << state as u8) != 0
    }
    /// The set with `state` added if `condition` holds.
    #[inline]
    #[must_use]
    pub const fn with(self, state: State, condition: bool) -> Self {
        Self(self.0 | ((condition as u8) << state as u8))
    }
    /// Indices of its states into arrays of times.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let index = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(index)
        })
    }
}

/// Tasks of one group on one CPU, descendants' included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTasks {
    running: u32,
    memstall: u32,
    memstall_running: u32,
    iowait: u32,
    oncpu: bool,
    oncpu_memstall: bool,
}

impl CpuTasks {
    /// A task went from one state to another. Each `from` must be the `to` of an earlier call, or [`TaskState::ASLEEP`].
    #[inline]
    pub fn change(&mut self, from: TaskState, to: TaskState) {
        if from == to {
            return;
        }
        if from.activity == to.activity {
            // The common case: a running task begins or ends to reclaim.
            let step = if to.memstall { 1u32 } else { u32::MAX };
            let runs = matches!(to.activity, Activity::OnCpu | Activity::Runnable);
            self.memstall = self.memstall.wrapping_add(step);
            self.memstall_running = self.memstall_running.wrapping_add(if runs { step } else { 0 });
            self.oncpu_memstall = if to.activity == Activity::OnCpu { to.memstall } else { self.oncpu_memstall };
            return;
        }
        self.count(from, u32::wrapping_sub);
        self.count(to, u32::wrapping_add);
        if from.activity == Activity::OnCpu {
            self.oncpu = false;
            self.oncpu_memstall = false;
        }
        if to.activity == Activity::OnCpu {
            debug_assert!(!self.oncpu, "one task runs on a CPU");
            self.oncpu = true;
            self.oncpu_memstall = to.memstall;
        }
        debug_assert!(self.running < 1 << 31 && self.memstall < 1 << 31 && self.iowait < 1 << 31, "{self:?}");
    }

    /// Whether the task that runs is inside a memory-stall section.
    pub(super) const fn is_running_stalled(&self) -> bool {
        self.oncpu_memstall
    }

    #[inline]
    fn count(&mut self, task: TaskState, step: fn(u32, u32) -> u32) {
        let runs = matches!(task.activity, Activity::OnCpu | Activity::Runnable);
        self.running = step(self.running, u32::from(runs));
        self.memstall = step(self.memstall, u32::from(task.memstall));
        self.memstall_running = step(self.memstall_running, u32::from(runs && task.memstall));
        self.iowait = step(self.iowait, u32::from(task.activity == Activity::IoWait));
    }

    /// The states that hold.
    #[inline]
    pub fn states(&self) -> StateSet {
        let all_stalled = self.running == self.memstall_running;
        StateSet::default()
            .with(State::IoSome, self.iowait > 0)
            .with(State::IoFull, self.iowait > 0 && self.running == 0)
            .with(State::MemorySome, self.memstall > 0)
            .with(State::MemoryFull, (self.memstall > 0 && all_stalled) || self.oncpu_memstall)
            .with(State::CpuSome, self.running > u32::from(self.oncpu))
            .with(State::CpuFull, self.running > 0 && !self.oncpu)
            .with(State::NonIdle, self.iowait > 0 || self.memstall > 0 || self.running > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{CpuFull, CpuSome, IoFull, IoSome, MemoryFull, MemorySome, NonIdle};

    const ALL: [State; NR_STATES] = [IoSome, IoFull, MemorySome, MemoryFull, CpuSome, CpuFull, NonIdle];

    fn states(tasks: &[TaskState]) -> Vec<State> {
        let mut cpu = CpuTasks::default();
        tasks.iter().for_each(|&task| cpu.change(TaskState::ASLEEP, task));
        ALL.into_iter().filter(|&state| cpu.states().has(state)).collect()
    }

    #[test]
    fn p9_states() {
        let refault = TaskState::ASLEEP.stalled();
        // A sleeps on a refault, B runs normally: some only.
        assert_eq!(states(&[refault, TaskState::ON_CPU]), [MemorySome, NonIdle]);
        // A alone: some and full.
        assert_eq!(states(&[refault]), [MemorySome, MemoryFull, NonIdle]);
        // A reclaims on the CPU, B waits for it: full all the same, and CPU some.
        let both = [TaskState::ON_CPU.stalled(), TaskState::RUNNABLE];
        assert_eq!(states(&both), [MemorySome, MemoryFull, CpuSome, NonIdle]);
    }

    #[test]
    fn each_task_state_is_counted_where_the_table_says() {
        let table: [(&[TaskState], &[State]); 8] = [
            (&[TaskState::ASLEEP], &[]),
            (&[TaskState::ON_CPU], &[NonIdle]),
            (&[TaskState::RUNNABLE], &[CpuSome, CpuFull, NonIdle]),
            (&[TaskState::IO_WAIT], &[IoSome, IoFull, NonIdle]),
            (&[TaskState::IO_WAIT, TaskState::ON_CPU], &[IoSome, NonIdle]),
            (&[TaskState::IO_WAIT.stalled()], &[IoSome, IoFull, MemorySome, MemoryFull, NonIdle]),
            // All that is runnable is stalled, though another group has the CPU.
            (&[TaskState::RUNNABLE.stalled()], &[MemorySome, MemoryFull, CpuSome, CpuFull, NonIdle]),
            // One stalled, one not, another group has the CPU: some.
            (&[TaskState::RUNNABLE.stalled(), TaskState::RUNNABLE], &[MemorySome, CpuSome, CpuFull, NonIdle]),
        ];
        for (tasks, expected) in table {
            assert_eq!(states(tasks), expected, "{tasks:?}");
        }
    }

    #[test]
    fn a_task_that_leaves_leaves_nothing() {
        let mut cpu = CpuTasks::default();
        let stations =
            [TaskState::RUNNABLE, TaskState::ON_CPU, TaskState::ON_CPU.stalled(), TaskState::IO_WAIT.stalled()];
        let mut last = TaskState::ASLEEP;
        for next in stations.into_iter().chain([TaskState::ASLEEP]) {
            cpu.change(last, next);
            last = next;
        }
        assert_eq!(cpu, CpuTasks::default());
    }

    #[test]
    fn nested_sections_count_once() {
        let mut nesting = StallNesting::default();
        assert_eq!((nesting.enter(), nesting.enter()), (true, false));
        assert_eq!((nesting.leave(), nesting.leave()), (false, true));
    }
}
