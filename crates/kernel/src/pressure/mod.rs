//! Pressure-stall information: how much time tasks lose for want of memory, I/O or CPU (docs/spec/pressure.md#s1 to #s4).
//!
//! [`Pressure`] keeps account of the stall times of all groups. The machine reports each change of a task's state with
//! [`Pressure::task_change`] and calls [`Pressure::handle_timeout`] at the time that [`Pressure::poll_timeout`] returns; results are read
//! as totals and averages.

mod accounting;
pub mod averages;
mod bout;
pub mod states;
pub mod totals;

pub use averages::Average;
pub use states::{Activity, StallNesting, State, TaskState};

use crate::cgroup::CgroupId;
use crate::tick::TickRate;
use accounting::Group;
use bout::Bout;
use isotherm_units::{Duration, Instant};

/// Some tasks stalled, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// At least one task waits.
    Some,
    /// Nothing makes progress.
    Full,
}

/// Resource that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// `io.pressure`
    Io,
    /// `memory.pressure`
    Memory,
    /// `cpu.pressure`
    Cpu,
}

impl Resource {
    /// State of a resource at a severity.
    pub const fn state(self, severity: Severity) -> State {
        match (self, severity) {
            (Self::Io, Severity::Some) => State::IoSome,
            (Self::Io, Severity::Full) => State::IoFull,
            (Self::Memory, Severity::Some) => State::MemorySome,
            (Self::Memory, Severity::Full) => State::MemoryFull,
            (Self::Cpu, Severity::Some) => State::CpuSome,
            (Self::Cpu, Severity::Full) => State::CpuFull,
        }
    }
}

/// The accounting of all groups. The root group represents the system. Time never goes back from one call to the next.
#[derive(Clone, Debug)]
pub struct Pressure {
    rate: TickRate,
    nr_cpus: usize,
    groups: Vec<Group>,
    /// Bouts by CPU.
    bouts: Vec<Bout>,
    next_due: Instant,
}

impl Pressure {
    /// Only the root group, without tasks, on this number of CPUs.
    pub fn new(now: Instant, nr_cpus: usize, rate: TickRate) -> Self {
        let groups = vec![Group::new(now, nr_cpus, rate)];
        Self { rate, nr_cpus, groups, bouts: vec![Bout::default(); nr_cpus], next_due: Instant::NEVER }
    }

    /// Adds a group. Groups are numbered in the order of the calls, as [`Cgroups::add`](crate::cgroup::Cgroups::add) numbers
    /// them.
    ///
    /// # Panics
    /// If there are 65 535 groups already.
    pub fn add_group(&mut self, now: Instant) -> CgroupId {
        let id = CgroupId(u16::try_from(self.groups.len()).expect("as many as control groups"));
        self.groups.push(Group::new(now, self.nr_cpus, self.rate));
        id
    }

    /// A task on `cpu` went from one state to another. A new task comes from [`TaskState::ASLEEP`]; a task that ends goes there, and so
    /// does a task that moves to another CPU, before it appears there. `groups` are its group and all its ancestors, the root included
    /// ([`Cgroups::lineage`](crate::cgroup::Cgroups::lineage)). When the CPU switches tasks, report the leaving task first.
    #[inline]
    pub fn task_change(
        &mut self,
        now: Instant,
        cpu: usize,
        groups: impl IntoIterator<Item = CgroupId, IntoIter: Clone>,
        from: TaskState,
        to: TaskState,
    ) {
        let groups = groups.into_iter();
        let Some(own) = groups.clone().next().filter(|_| from != to) else { return };
        if !from.toggled_on_cpu(to) || !self.bouts[cpu].goes_on(now, own, to.memstall) {
            self.change_all(now, cpu, groups, from, to);
        }
    }

    /// A task of `group` that runs on `cpu` enters a memory stall, or leaves it. Returns whether that was enough; otherwise nothing was
    /// done, and the caller uses [`task_change`](Self::task_change).
    #[inline]
    pub fn toggle_stall(&mut self, now: Instant, cpu: usize, group: CgroupId, stalled: bool) -> bool {
        self.bouts[cpu].goes_on(now, group, stalled)
    }

    fn change_all(
        &mut self,
        now: Instant,
        cpu: usize,
        groups: impl Iterator<Item = CgroupId> + Clone,
        from: TaskState,
        to: TaskState,
    ) {
        self.end_bout(cpu);
        for id in groups.clone() {
            let due = self.groups[id.index()].task_change(now, cpu, from, to, self.rate);
            self.next_due = self.next_due.min(due);
        }
        if from.toggled_on_cpu(to) {
            self.bouts[cpu].begin(now, groups, to);
        }
    }

    fn end_bout(&mut self, cpu: usize) {
        if let Some(bout) = self.bouts[cpu].end() {
            for id in bout.groups {
                self.groups[id.index()].cpus[cpu].add_bout(bout.since, bout.inside, bout.ns);
            }
        }
    }

    /// Before a read: books all times.
    fn end_bouts(&mut self) {
        (0..self.nr_cpus).for_each(|cpu| self.end_bout(cpu));
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; `None` while all is idle.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.next_due != Instant::NEVER).then_some(self.next_due)
    }

    /// Samples the groups that are due. Early calls do nothing; after a long sleep missed periods are made up for.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now < self.next_due {
            return;
        }
        self.end_bouts();
        self.next_due = Instant::NEVER;
        for group in &mut self.groups {
            group.handle_timeout(now, self.rate);
            self.next_due = self.next_due.min(group.due());
        }
    }

    /// Time lost so far, CPUs weighted as the kernel does. Takes a sample; see [`totals::Totals::sample`] for the losses of
    /// frequent reading. CPU `full` of the whole system is always zero.
    pub fn total(&mut self, now: Instant, group: CgroupId, resource: Resource, severity: Severity) -> Duration {
        let state = resource.state(severity);
        if group == CgroupId::ROOT && state == State::CpuFull {
            return Duration::ZERO;
        }
        self.end_bouts();
        self.groups[group.index()].read(now, self.rate);
        Duration::from_ns(self.groups[group.index()].totals.ns()[state as usize])
    }

    /// Time lost up to the last sample: for kernel code, which takes no sample. The value is up to 2 s old.
    pub fn sampled_total(&self, group: CgroupId, resource: Resource, severity: Severity) -> Duration {
        Duration::from_ns(self.groups[group.index()].totals.ns()[resource.state(severity) as usize])
    }

    /// The averages of the last sample: for kernel code, which takes no sample. The value is up to 2 s old.
    pub fn sampled_average(&self, group: CgroupId, resource: Resource, severity: Severity) -> Average {
        self.groups[group.index()].averages.get(resource.state(severity) as usize)
    }

    /// The averages as of `now`, taking a sample if one is due. CPU `full` of the whole system is always zero.
    pub fn average(&mut self, now: Instant, group: CgroupId, resource: Resource, severity: Severity) -> Average {
        let state = resource.state(severity);
        if group == CgroupId::ROOT && state == State::CpuFull {
            return Average::default();
        }
        self.end_bouts();
        self.groups[group.index()].read(now, self.rate);
        self.groups[group.index()].averages.get(state as usize)
    }

    /// The contents of the group's pressure file: a line for `some` and one for `full`.
    pub fn text(&mut self, now: Instant, group: CgroupId, resource: Resource) -> String {
        let mut line = |name: &str, severity| {
            let average = self.average(now, group, resource, severity);
            let total_us = self.total(now, group, resource, severity).ns() / 1000;
            format!("{name} {average} total={total_us}\n")
        };
        line("some", Severity::Some) + &line("full", Severity::Full)
    }

    /// Time that CPU `cpu` was in a state for the group, unweighted and exact; takes no sample.
    pub fn time_in(&mut self, now: Instant, group: CgroupId, cpu: usize, state: State) -> Duration {
        self.end_bouts();
        Duration::from_ns(self.groups[group.index()].cpus[cpu].at(now)[state as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOT: CgroupId = CgroupId::ROOT;

    fn ms(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }
    fn rate() -> TickRate {
        TickRate::new(1000).unwrap()
    }
    /// Runs all timers up to `until`.
    fn run(pressure: &mut Pressure, until: Instant) {
        while let Some(due) = pressure.poll_timeout().filter(|&due| due <= until) {
            pressure.handle_timeout(due);
        }
    }

    #[test]
    fn a_stalled_group_and_its_parent_and_not_its_sibling() {
        let mut pressure = Pressure::new(ms(0), 1, rate());
        let (stalled, sibling) = (pressure.add_group(ms(0)), pressure.add_group(ms(0)));
        let (asleep, running) = (TaskState::ASLEEP, TaskState::ON_CPU);
        pressure.task_change(ms(0), 0, [sibling, ROOT], asleep, running);
        pressure.task_change(ms(100), 0, [stalled, ROOT], asleep, asleep.stalled());
        pressure.task_change(ms(350), 0, [stalled, ROOT], asleep.stalled(), asleep);
        let mut totals = |group| {
            [Severity::Some, Severity::Full]
                .map(|s| pressure.total(ms(400), group, Resource::Memory, s).ns() / 1_000_000)
        };
        assert_eq!((totals(stalled), totals(ROOT), totals(sibling)), ([250, 250], [250, 0], [0, 0]));
        assert_eq!(pressure.time_in(ms(400), ROOT, 0, State::NonIdle), Duration::from_ms(400));
    }

    #[test]
    fn averages_are_sampled_while_tasks_run_and_sampling_stops_when_idle() {
        let mut pressure = Pressure::new(ms(0), 1, rate());
        assert_eq!(pressure.poll_timeout(), None);
        let stalled = TaskState::ASLEEP.stalled();
        pressure.task_change(ms(0), 0, [ROOT], TaskState::ASLEEP, stalled);
        assert_eq!(pressure.poll_timeout(), Some(ms(2001)));
        run(&mut pressure, ms(2001));
        let text = pressure.text(ms(2001), ROOT, Resource::Memory);
        assert_eq!(
            text,
            "some avg10=18.11 avg60=3.27 avg300=0.68 total=2001000\nfull avg10=18.11 avg60=3.27 avg300=0.68 total=2001000\n"
        );
        pressure.task_change(ms(2001), 0, [ROOT], stalled, TaskState::ASLEEP);
        run(&mut pressure, ms(100_000));
        assert_eq!(pressure.poll_timeout(), None, "the clock stops");
        // Reading makes up for what was missed.
        let average = pressure.average(ms(100_000), ROOT, Resource::Memory, Severity::Some);
        assert_eq!(average.hundredths()[0], 0);
        assert!(average.hundredths()[2] > 0);
    }

    #[test]
    fn cpu_full_is_zero_for_the_system() {
        let mut pressure = Pressure::new(ms(0), 1, rate());
        let group = pressure.add_group(ms(0));
        pressure.task_change(ms(0), 0, [group, ROOT], TaskState::ASLEEP, TaskState::RUNNABLE);
        let full = |p: &mut Pressure, group| p.total(ms(50), group, Resource::Cpu, Severity::Full);
        assert_eq!((full(&mut pressure, group), full(&mut pressure, ROOT)), (Duration::from_ms(50), Duration::ZERO));
        assert!(
            pressure.text(ms(5000), ROOT, Resource::Cpu).ends_with("full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        );
    }

    /// Reading in between ends the bout each time; what is read at the end is the same.
    #[test]
    fn stalls_of_a_running_task_add_up_however_often_somebody_reads() {
        let stalls = |reads_every: u64| {
            let mut pressure = Pressure::new(ms(0), 2, rate());
            let group = pressure.add_group(ms(0));
            let (running, lineage) = (TaskState::ON_CPU, [group, ROOT]);
            // Another task waits for a device on the same CPU all the time, and one runs on the other.
            pressure.task_change(ms(0), 0, [ROOT], TaskState::ASLEEP, TaskState::IO_WAIT);
            pressure.task_change(ms(0), 1, [ROOT], TaskState::ASLEEP, running);
            pressure.task_change(ms(0), 0, lineage, TaskState::ASLEEP, running);
            for at in 0..3000 {
                let (from, to) = if at % 3 == 0 { (running, running.stalled()) } else { (running.stalled(), running) };
                pressure.task_change(ms(at), 0, lineage, from, if at % 3 == 1 { from } else { to });
                if at % reads_every == 0 {
                    pressure.total(ms(at), group, Resource::Memory, Severity::Some);
                }
                run(&mut pressure, ms(at));
            }
            pressure.task_change(ms(3000), 0, lineage, running, TaskState::ASLEEP);
            let states = [State::MemorySome, State::MemoryFull, State::IoSome, State::IoFull, State::NonIdle];
            [group, ROOT].map(|id| states.map(|state| pressure.time_in(ms(3100), id, 0, state)))
        };
        let times = stalls(5000);
        assert_eq!(times, stalls(1));
        let in_ms = times.map(|of| of.map(|time| time.ns() / 1_000_000));
        // Two thirds of the time it is in a stall; the whole system has its device to wait for as well.
        assert_eq!(in_ms, [[2000, 2000, 0, 0, 3000], [2000, 2000, 3100, 100, 3100]]);
    }

    proptest! {
        /// A group's stall time on one CPU, computed in the plainest way, equals what the accounting says.
        #[test]
        fn the_accounting_equals_a_plain_sum(changes in prop::collection::vec((1u64..50, 0usize..3, 0usize..6), 1..60)) {
            let menu = [
                TaskState::ASLEEP,
                TaskState::ASLEEP.stalled(),
                TaskState::RUNNABLE,
                TaskState::RUNNABLE.stalled(),
                TaskState::IO_WAIT,
                TaskState::IO_WAIT.stalled(),
            ];
            let mut pressure = Pressure::new(ms(0), 1, rate());
            let mut tasks = [TaskState::ASLEEP; 3];
            let (mut now, mut some, mut full) = (0, 0, 0);
            for (gap, task, state) in changes {
                let stalled = tasks.iter().any(|t| t.memstall);
                let productive = tasks.iter().any(|t| t.activity == Activity::Runnable && !t.memstall);
                some += if stalled { gap } else { 0 };
                full += if stalled && !productive { gap } else { 0 };
                now += gap;
                pressure.task_change(ms(now), 0, [ROOT], tasks[task], menu[state]);
                tasks[task] = menu[state];
            }
            prop_assert_eq!(pressure.time_in(ms(now), ROOT, 0, State::MemorySome), Duration::from_ms(some));
            prop_assert_eq!(pressure.time_in(ms(now), ROOT, 0, State::MemoryFull), Duration::from_ms(full));
            // Whole ticks throughout: the weighted total of a single CPU is the same.
            let total = pressure.total(ms(now), ROOT, Resource::Memory, Severity::Full);
            prop_assert_eq!(total, Duration::from_ms(full));
        }
    }
}
