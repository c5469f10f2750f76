//! Other tasks of the machine: one task stands for all of them. It wakes once a tick, touches nothing, and takes no time.
//!
//! Kernel threads (read-copy-update, statistics, write-back) and other programs run for a moment now and then. They touch nothing of the
//! measured program, but the task that runs after them is switched to. The Multi-Gen LRU learns from such switches which address spaces
//! were in use (`include/linux/mm_types.h: lru_gen_use_mm`, 7.2).
//!
//! At a tick at which a processor is idle the task takes that one, and no task is switched to. So ticks are events only while all processors
//! are busy: a run costs its accesses, not its ticks.

use super::Machine;
use super::events::Event;
use super::schedule::Verdict;
use super::task::{Blocked, RunState, TaskId};
use isotherm_units::{Duration, Instant};

/// The task, and when it wakes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherTasks {
    pub(super) task: TaskId,
    /// Its first wake.
    pub(super) from: Instant,
    pub(super) tick: Duration,
    /// It does not wake after this.
    pub(super) until: Instant,
    /// Its next wake, if a processor is idle and no event wakes it.
    pub(super) asleep: Option<Instant>,
}

impl Machine {
    pub(super) fn start_others(&mut self) {
        let Some(others) = self.others else { return };
        let task = &mut self.tasks[others.task.0];
        task.state = RunState::Blocked(Instant::START, Blocked::Sleep);
        self.events.push(others.from, Event::Wake(others.task, task.wait_number));
    }

    /// It has run at `now`.
    pub(super) fn others_step(&self, now: Instant) -> Option<Verdict> {
        let others = self.others.as_ref()?;
        let next = now + others.tick;
        Some(if next > others.until { Verdict::Park } else { Verdict::Block(next, Blocked::Sleep) })
    }

    /// It sleeps until then, or until all processors are busy.
    pub(super) fn others_sleep(&mut self, until: Instant) {
        if let Some(others) = &mut self.others {
            others.asleep = Some(until);
        }
    }

    /// A task has got a processor: if all are busy now, the next tick is an event.
    pub(super) fn wake_others_if_busy(&mut self, now: Instant) {
        let Some(others) = &mut self.others else { return };
        let Some(next) = others.asleep.filter(|_| self.cpus.iter().all(|cpu| cpu.running.is_some())) else { return };
        let missed = now.ns().saturating_sub(next.ns()).div_ceil(others.tick.ns());
        let next = next + others.tick.saturating_mul(missed);
        others.asleep = None;
        if next <= others.until {
            let number = self.tasks[others.task.0].wait_number;
            self.events.push(next, Event::Wake(others.task, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, program, script};
    use super::super::*;
    use isotherm_kernel::cgroup::CgroupId;
    use isotherm_kernel::reclaim::policy_by_name;
    use isotherm_kernel::swap::device::DeviceKind;
    use isotherm_units::Bytes;
    use isotherm_units::access::{After, Process, Run, Thread, ThreadStart, Timing};

    const TICK: Duration = Duration::from_ms(4);
    /// They end before the program does, so that no run goes on for their sake.
    const TICKS: u8 = 25;

    /// A large area swept next to a hot set, by this number of threads.
    fn busy(threads: u64) -> Program {
        let runs = |thread: u64| {
            let pages = (0..20_000u64).flat_map(move |page| [1000 + (page * threads + thread) % 4000, page * 7 % 400]);
            pages.map(|page| Run::write(page, 1).after_ns(2000)).collect()
        };
        program("busy", (0..threads).map(|thread| script(vec![(runs(thread), After::Continue)])).collect())
    }

    /// Other tasks as a program that wakes and sleeps.
    fn awake() -> Program {
        let stream = script(vec![(Vec::new(), After::Sleep(TICK)); usize::from(TICKS)]);
        Program {
            name: "others".to_owned(),
            files: Vec::new(),
            processes: vec![Process::default()],
            threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream }],
            timing: Timing::Modelled,
            future: None,
        }
    }

    fn play(policy: &str, cpus: u32, threads: u64, add: impl Fn(&mut MachineBuilder)) -> (Outcome, Outcome) {
        let machine = MachineConfig { cpus, ..config(Bytes::from_mib(12), DeviceKind::Zram) };
        let run = |add: &dyn Fn(&mut MachineBuilder)| {
            let mut builder = MachineBuilder::new(&machine, policy_by_name(policy).unwrap().build()).unwrap();
            builder.strict();
            let app = builder.add_program(busy(threads), CgroupId::ROOT).unwrap();
            builder.start_at(app, Instant::START);
            add(&mut builder);
            builder.build().run(Instant::START + Duration::from_secs(100)).unwrap()
        };
        let ticks = |builder: &mut MachineBuilder| {
            builder.other_tasks(TICK, Instant::START, Instant::START + TICK.saturating_mul(TICKS.into()));
        };
        (run(&ticks), run(&add))
    }

    #[test]
    fn with_an_idle_processor_they_change_nothing() {
        for policy in ["classic", "mglru"] {
            let (with, without) = play(policy, 4, 1, |_| ());
            assert_eq!(with.programs[0], without.programs[0], "{policy}");
            assert_eq!(with.system().counters, without.system().counters, "{policy}");
        }
    }

    #[test]
    fn on_a_busy_processor_they_do_what_a_program_does_that_wakes_each_tick() {
        for threads in [1, 2] {
            for policy in ["classic", "mglru"] {
                let (with, program) = play(policy, 1, threads, |builder| {
                    let id = builder.add_program(awake(), CgroupId::ROOT).unwrap();
                    builder.start_at(id, Instant::START);
                });
                assert_eq!(with.programs[0], program.programs[0], "{policy}, {threads} threads");
                assert_eq!(with.system().counters, program.system().counters, "{policy}, {threads} threads");
                let (_, without) = play(policy, 1, threads, |_| ());
                // Two threads take turns without them.
                assert!(threads == 2 || with.programs[0] != without.programs[0], "{policy}: they matter here");
            }
        }
    }

    /// A run of a minute that computes takes few events with an idle processor.
    #[test]
    fn ticks_are_no_events_while_a_processor_is_idle() {
        let machine = MachineConfig { cpus: 2, ..config(Bytes::from_mib(12), DeviceKind::Zram) };
        let events = |ticks: bool| {
            let mut builder = MachineBuilder::new(&machine, policy_by_name("mglru").unwrap().build()).unwrap();
            let minute = Duration::from_secs(60);
            let app = program("app", vec![script(vec![(vec![Run::write(0, 1)], After::Compute(minute))])]);
            let app = builder.add_program(app, CgroupId::ROOT).unwrap();
            builder.start_at(app, Instant::START);
            if ticks {
                builder.other_tasks(TICK, Instant::START, Instant::START + minute);
            }
            let mut running = builder.build().begin(Instant::NEVER);
            running.0.play_on(&|| true, |_| false).unwrap();
            running.0.events.nr_placed()
        };
        let (with, without) = (events(true), events(false));
        assert!(with < without + 10, "{with} {without}");
    }
}
