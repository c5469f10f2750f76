//! Small whole machines: properties that a user of the simulator relies on.

use super::*;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::prices::Prices;
use isotherm_kernel::reclaim::{POLICIES, policy_by_name};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{
    After, Backing, Batch, FileKind, FileSpec, Forks, LayoutChange, Mapping, Process, Run, Sharing, Stream,
    StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, PageRange, Pages};

/// Plays given steps.
#[derive(Clone)]
struct Script(std::vec::IntoIter<(Vec<Run>, After)>);

impl Stream for Script {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        match self.0.next() {
            Some((runs, after)) => {
                batch.operations = runs.len() as u64;
                batch.runs = runs.into();
                Ok(after)
            }
            None => Ok(After::Finish),
        }
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

pub(super) fn script(steps: Vec<(Vec<Run>, After)>) -> Box<dyn Stream> {
    Box::new(Script(steps.into_iter()))
}

/// Sweeps `pages` pages from page 0 `sweeps` times, `think_ns` before each page.
pub(super) fn sweeps(pages: u64, sweeps: usize, think_ns: u32) -> Box<dyn Stream> {
    let sweep: Vec<Run> = (0..pages).map(|page| Run::write(page, 1).after_ns(think_ns)).collect();
    script(vec![(sweep, After::Continue); sweeps])
}

pub(super) fn program(name: &str, streams: Vec<Box<dyn Stream>>) -> Program {
    let layout = vec![Mapping::anonymous(PageRange::new(0, 1 << 20))];
    let threads = streams.into_iter().map(|stream| Thread { process: 0, start: ThreadStart::WithProgram, stream });
    Program {
        name: name.to_owned(),
        files: Vec::new(),
        processes: vec![Process { name: name.to_owned(), forked_from: None, layout }],
        threads: threads.collect(),
        timing: Timing::Recorded,
        future: None,
    }
}

/// A process and its child, which the parent's steps start, with a file of this number of pages.
pub(super) fn parent_and_child(layout: Vec<Mapping>, pages: u64, steps: [Vec<(Vec<Run>, After)>; 2]) -> Program {
    let [parent, child] = steps;
    let thread = |process, start, steps| Thread { process, start, stream: script(steps) };
    Program {
        name: "app".to_owned(),
        files: vec![FileSpec { name: "data".to_owned(), pages, kind: FileKind::Regular }],
        processes: vec![
            Process { layout, ..Process::default() },
            Process { forked_from: Some(0), ..Process::default() },
        ],
        threads: vec![thread(0, ThreadStart::WithProgram, parent), thread(1, ThreadStart::ByThread, child)],
        timing: Timing::Recorded,
        future: None,
    }
}

pub(super) fn config(memory: Bytes, swap: DeviceKind) -> MachineConfig {
    MachineConfig {
        nodes: vec![NodeConfig { memory, ..NodeConfig::default() }],
        swap: SwapConfig { device: swap.into(), ..SwapConfig::default() },
        ..MachineConfig::default()
    }
}

pub(super) struct Rig {
    pub(super) builder: MachineBuilder,
    pub(super) app: CgroupId,
}

impl Rig {
    pub(super) fn new(config: &MachineConfig) -> Self {
        let mut builder = MachineBuilder::new(config, policy_by_name("classic").unwrap().build()).unwrap();
        builder.strict();
        let app = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
        Self { builder, app }
    }
    fn max(mut self, pages: u64) -> Self {
        self.builder.set(self.app, Knob::Max, Limit::At(Pages::new(pages)));
        self
    }
    fn play(mut self, programs: Vec<Program>) -> Outcome {
        for program in programs {
            let id = self.builder.add_program(program, self.app).unwrap();
            self.builder.start_at(id, Instant::START);
        }
        self.builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap()
    }
}

fn count(outcome: &Outcome, counter: Counter) -> u64 {
    outcome.system().counters.get(counter)
}

#[test]
fn with_enough_memory_each_page_faults_once() {
    let outcome =
        Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram)).play(vec![program("p", vec![sweeps(500, 3, 100)])]);
    assert_eq!(count(&outcome, Counter::PgFault), 500);
    assert_eq!(count(&outcome, Counter::PgMajFault), 0);
    let p = &outcome.programs[0];
    assert_eq!((p.ending, p.time.compute_ns, p.operations), (Ending::Finished, 150_000, 1500));
    assert_eq!(p.runtime().ns(), p.time.compute_ns + p.time.fault_cpu_ns);
    assert_eq!(outcome.system().pressure.memory_some_ns, 0);
    assert_eq!(outcome.cgroups[1].usage_pages, 0, "exit frees everything");
    assert!(p.peak_resident_pages == 500 && outcome.cgroups[1].peak_pages >= 500);
}

/// A service wakes ten times and reads all of its memory. Without a limit only the first burst waits for memory, with one each does.
#[test]
fn bursts_end_at_waits_and_know_what_memory_takes() {
    let sweep: Vec<Run> = (0..500).map(|page| Run::write(page, 1).after_ns(100)).collect();
    let bursts = |limit: Option<u64>| {
        let waking = (sweep.clone(), After::Sleep(Duration::from_ms(500)));
        let rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
        let rig = limit.into_iter().fold(rig, Rig::max);
        let outcome = rig.play(vec![program("p", vec![script(vec![waking; 10])])]);
        let service = &outcome.programs[0];
        assert_eq!(service.processes[0].time, service.time, "there is one process");
        service.processes[0].bursts.clone()
    };
    let (free, limited) = (bursts(None), bursts(Some(400)));
    assert_eq!([free.lengths.nr(), free.stalls.nr(), limited.lengths.nr()], [10; 3], "a burst for each waking");
    // 500 times 100 ns, known to 1/64.
    assert!((50_000..=50_782).contains(&free.lengths.percentile_ns(50)), "{}", free.lengths.percentile_ns(50));
    assert_eq!(free.stalls.percentile_ns(90), 0);
    assert!(free.stalls.longest_ns() > 0, "first touches");
    assert!(limited.stalls.percentile_ns(50) > 50_000, "{}", limited.stalls.percentile_ns(50));
}

/// A thread wakes up after its transfer has ended, and that is CPU time, not a wait.
#[test]
fn waking_up_after_a_transfer_takes_time() {
    let outcome = |io_wait_ns: u64| {
        let prices = Prices::new([("io_wait_ns".to_owned(), io_wait_ns)].into()).unwrap();
        let config = MachineConfig { prices, page_cluster: 0, ..config(Bytes::from_mib(12), DeviceKind::Nvme) };
        Rig::new(&config).max(400).play(vec![program("p", vec![sweeps(500, 4, 100)])])
    };
    let (free, priced) = (outcome(1), outcome(20_000));
    let faults = count(&free, Counter::PgMajFault);
    assert!(faults > 100 && count(&priced, Counter::PgMajFault) == faults, "{faults}");
    let [free, priced] = [&free, &priced].map(|outcome| outcome.programs[0].time);
    // Each major fault waits for its page once; further waits are for memory.
    let more = priced.fault_cpu_ns - free.fault_cpu_ns;
    assert!((faults * 19_999..=faults * 20_000 + faults * 400).contains(&more), "{more} ns of {faults} faults");
    assert!(priced.io_wait_ns <= free.io_wait_ns + faults * 1000, "{} {}", priced.io_wait_ns, free.io_wait_ns);
}

#[test]
fn a_limit_makes_major_faults_and_pressure_on_every_device() {
    for swap in [DeviceKind::Zram, DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Disk] {
        let outcome =
            Rig::new(&config(Bytes::from_mib(12), swap)).max(400).play(vec![program("p", vec![sweeps(500, 4, 100)])]);
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{swap:?}");
        assert!(count(&outcome, Counter::PgMajFault) > 100, "{swap:?}");
        assert!(outcome.cgroups[1].peak_pages <= 400, "{swap:?}");
        assert!(outcome.cgroups[1].events.max > 0);
        assert!(outcome.cgroups[1].pressure.memory_some_ns > 0, "{swap:?}");
        assert!(outcome.cgroups[1].pressure.memory_some_ns <= outcome.programs[0].runtime().ns());
    }
}

#[test]
fn every_policy_ends_under_the_limit() {
    for entry in POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
        let mut builder = MachineBuilder::new(&config(Bytes::from_mib(12), DeviceKind::Nvme), entry.build()).unwrap();
        builder.strict();
        let app = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
        builder.set(app, Knob::Max, Limit::At(Pages::new(200)));
        let id = builder.add_program(program("p", vec![sweeps(300, 4, 100)]), app).unwrap();
        builder.start_at(id, Instant::START);
        let outcome = builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap();
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{}", entry.name);
        assert!(outcome.cgroups[1].peak_pages <= 200, "{}", entry.name);
    }
}

#[test]
fn without_swap_the_killer_ends_what_cannot_be_reclaimed() {
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::None))
        .max(400)
        .play(vec![program("p", vec![sweeps(500, 1, 100)])]);
    assert_eq!(outcome.programs[0].ending, Ending::OutOfMemory);
    assert_eq!(outcome.cgroups[1].events.oom_kill, 1);
    let victim = Some("p".to_owned());
    assert!(matches!(&outcome.incidents[..], [Incident::OutOfMemory { victim: v, .. }] if *v == victim));
    assert_eq!(outcome.cgroups[1].usage_pages, 0);
}

/// A JVM is killed before it has started its later threads, and ends all the same.
#[test]
fn threads_that_have_not_started_do_not_keep_a_killed_program_alive() {
    let later = || script(vec![(vec![Run::write(0, 1)], After::Continue)]);
    let mut killed = program("p", vec![sweeps(500, 1, 100), later(), later()]);
    killed.threads[1].start = ThreadStart::ByThread;
    killed.threads[2].start = ThreadStart::ByThread;
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::None)).max(400).play(vec![killed]);
    assert_eq!(outcome.programs[0].ending, Ending::OutOfMemory);
    assert_eq!((outcome.cgroups[1].events.oom_kill, outcome.cgroups[1].usage_pages), (1, 0));
}

#[test]
fn the_largest_process_is_killed_and_the_others_go_on() {
    let big = program("big", vec![sweeps(350, 1, 1000)]);
    let small = program("small", vec![sweeps(100, 20, 5000)]);
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::None)).max(400).play(vec![big, small]);
    assert_eq!(outcome.programs[0].ending, Ending::OutOfMemory);
    assert_eq!(outcome.programs[1].ending, Ending::Finished);
}

#[test]
fn threads_share_processors() {
    let run = |cpus| {
        let config = MachineConfig { cpus, ..config(Bytes::from_mib(12), DeviceKind::Zram) };
        Rig::new(&config).play(vec![program("p", vec![sweeps(10, 1000, 1000), sweeps(10, 1000, 1000)])])
    };
    let (one, two) = (run(1).programs[0].runtime().ns(), run(2).programs[0].runtime().ns());
    assert!((19_000_000..21_000_000).contains(&one), "{one}");
    assert!((9_900_000..11_000_000).contains(&two), "{two}");
}

#[test]
fn kswapd_keeps_memory_free_when_the_whole_machine_is_short() {
    let outcome =
        Rig::new(&config(Bytes::from_mib(8), DeviceKind::Zram)).play(vec![program("p", vec![sweeps(3000, 3, 2000)])]);
    assert_eq!(outcome.programs[0].ending, Ending::Finished);
    assert!(outcome.kernel.kswapd_ns > 0);
    assert!(count(&outcome, Counter::PageOutRun) > 0);
    assert!(count(&outcome, Counter::PgMajFault) > 1000);
}

#[test]
fn a_lowered_limit_reclaims_at_once() {
    let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
    let at = Instant::START + Duration::from_ms(5);
    let action = Action::Set(rig.app, Knob::Max, Limit::At(Pages::new(100)));
    rig.builder.plan(Plan { at, every: None, action });
    rig.builder.record_series(Duration::from_ms(1));
    let sleep = After::Sleep(Duration::from_ms(10));
    let touch_all: Vec<Run> = (0..500).map(|page| Run::write(page, 1)).collect();
    let outcome = rig.play(vec![program("p", vec![script(vec![(touch_all, sleep)])])]);
    let usage: Vec<u64> = outcome.series.iter().map(|row| row.usage_pages[1]).collect();
    assert!(usage[4] >= 500 && usage[8] <= 100, "{usage:?}");
    assert_eq!(outcome.programs[0].ending, Ending::Finished);
}

#[test]
fn memory_high_slows_a_task_down_and_never_kills() {
    let run = |high| {
        let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::None));
        rig.builder.set(rig.app, Knob::High, high);
        rig.play(vec![program("p", vec![sweeps(2000, 1, 100)])])
    };
    let (free, throttled) = (run(Limit::Unlimited), run(Limit::At(Pages::new(1000))));
    assert_eq!(throttled.programs[0].ending, Ending::Finished);
    assert!(throttled.cgroups[1].events.high > 0);
    assert!(throttled.programs[0].runtime().ns() > 10 * free.programs[0].runtime().ns());
    assert!(throttled.cgroups[1].pressure.memory_full_ns > 0);
}

#[test]
fn a_touch_outside_mappings_ends_the_program_and_is_told() {
    let stray = script(vec![(vec![Run::read(1 << 30, 1)], After::Continue)]);
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram)).play(vec![program("p", vec![stray])]);
    assert_eq!(outcome.programs[0].ending, Ending::Fault);
    assert!(matches!(outcome.incidents[..], [Incident::BadAccess { page: 0x4000_0000, .. }]));
}

#[test]
fn layout_changes_threads_and_forks_take_effect() {
    let far = PageRange::new(1 << 24, (1 << 24) + 50);
    let write_far: Vec<Run> = vec![Run::write(far.start, 50)];
    let main = script(vec![
        (vec![Run::write(0, 100)], After::Change(LayoutChange::Map(Mapping::anonymous(far)))),
        (write_far, After::Change(LayoutChange::Unmap(far))),
        (Vec::new(), After::Start(1)),
        (vec![Run::write(0, 10)], After::Compute(Duration::from_ms(1))),
    ]);
    let child = script(vec![(vec![Run::read(0, 100), Run::write(0, 20)], After::Continue)]);
    let mut program = program("p", vec![main, child]);
    program.processes.push(Process { name: "child".to_owned(), forked_from: Some(0), layout: Vec::new() });
    program.threads[1].process = 1;
    program.threads[1].start = ThreadStart::ByThread;
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram)).play(vec![program]);
    assert_eq!(outcome.programs[0].ending, Ending::Finished);
    // 100 + 50 first touches; after fork the parent copies 10 pages and the child 20 (10 or fewer of them need no copy).
    let faults = count(&outcome, Counter::PgFault);
    assert!((170..=180).contains(&faults), "{faults}");
    assert_eq!(outcome.cgroups[1].usage_pages, 0);
}

#[test]
fn file_pages_are_read_once_and_shared_between_programs() {
    let reader = |name: &str| {
        let mut program = program(name, vec![script(vec![(vec![Run::read(5000, 64)], After::Continue)])]);
        program.files.push(FileSpec { name: "lib.so".to_owned(), pages: 64, kind: FileKind::Regular });
        let backing = Backing::File { file: 0, first_page: 0, sharing: Sharing::Private };
        program.processes[0].layout = vec![Mapping { backing, ..Mapping::anonymous(PageRange::at(5000, 64)) }];
        program
    };
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram)).play(vec![reader("a"), reader("b")]);
    let major = count(&outcome, Counter::PgMajFault);
    assert!((1..=4).contains(&major), "two windows of 32 pages, read once for both: {major}");
    assert!(outcome.programs.iter().all(|program| program.ending == Ending::Finished));
}

#[test]
fn equal_runs_give_equal_outcomes() {
    let run = || {
        let config = MachineConfig { cpus: 2, ..config(Bytes::from_mib(8), DeviceKind::Nvme) };
        let streams = vec![sweeps(1500, 2, 700), sweeps(1500, 2, 900), sweeps(800, 4, 300)];
        Rig::new(&config).max(900).play(vec![program("p", streams)])
    };
    assert_eq!(run(), run());
}

#[test]
fn a_stream_that_fails_names_program_and_thread() {
    struct Broken;
    impl Stream for Broken {
        fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
            Err("row group 3 is damaged".into())
        }
    }
    let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
    let id = rig.builder.add_program(program("p", vec![Box::new(Broken)]), rig.app).unwrap();
    rig.builder.start_at(id, Instant::START);
    let error = rig.builder.build().run(Instant::NEVER).unwrap_err();
    assert_eq!(error.to_string(), "workload `p`, thread 0: row group 3 is damaged");
}

#[test]
fn an_access_that_needs_two_pages_where_one_fits_ends_in_the_killer() {
    let main = script(vec![
        (vec![Run::write(0, 1)], After::Start(1)),
        (Vec::new(), After::Sleep(Duration::from_ms(50))),
        (vec![Run::read(0, 1)], After::Continue),
    ]);
    let child = script(vec![(vec![Run::write(0, 1)], After::Continue)]);
    let mut program = program("p", vec![main, child]);
    program.processes.push(Process { name: "child".to_owned(), forked_from: Some(0), layout: Vec::new() });
    program.threads[1].process = 1;
    program.threads[1].start = ThreadStart::ByThread;
    let outcome = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram)).max(1).play(vec![program]);
    assert_eq!(outcome.programs[0].ending, Ending::OutOfMemory);
    assert!(outcome.cgroups[1].events.oom_kill >= 1);
}
