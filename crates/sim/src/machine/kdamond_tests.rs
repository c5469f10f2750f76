//! The monitor of `isotherm-core` in whole machines: it finds the hot memory, at every size and level.

use super::tests::config;
use super::*;
use isotherm_core::host::AddressRange;
use isotherm_core::monitor::{Event, FlushPolicy, MonitorConfig, Operations, Snapshot};
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{After, Batch, Mapping, Process, Run, Stream, StreamError, Thread, ThreadStart, Timing};
use isotherm_units::{Bytes, Duration, PageRange};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::{Arc, Mutex};

/// Touches `all` once if `populate`, then pages of `hot` at random, one each `think_ns`.
pub(super) struct HotSet {
    pub(super) all: PageRange,
    pub(super) hot: PageRange,
    pub(super) populate: bool,
    pub(super) think_ns: u32,
    pub(super) random: Xoshiro256PlusPlus,
}

impl Stream for HotSet {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if std::mem::take(&mut self.populate) {
            batch.runs.push(Run::write(self.all.start, u32::try_from(self.all.len())?));
        }
        for _ in 0..1000 {
            let offset = (u128::from(self.random.next_u64()) * u128::from(self.hot.len())) >> 64;
            batch.runs.push(Run::write(self.hot.start + u64::try_from(offset)?, 1).after_ns(self.think_ns));
        }
        Ok(After::Continue)
    }
}

/// A program of one thread that writes all pages once, and then hot ones, one after `think_ns` each.
pub(super) fn hot_set(all: PageRange, hot: PageRange, think_ns: u32) -> Program {
    let stream = HotSet { all, hot, populate: true, think_ns, random: Xoshiro256PlusPlus::seed_from_u64(1) };
    Program {
        name: "hot set".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout: vec![Mapping::anonymous(all)], ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: None,
    }
}

struct Case {
    all: PageRange,
    hot: PageRange,
    premapped: bool,
    huge: bool,
    think_ns: u32,
    mmu: MmuConfig,
    monitor: MonitorConfig,
    run: Duration,
}

struct Seen {
    snapshots: Vec<Snapshot>,
    events: Vec<Event>,
    outcome: Outcome,
}

/// Precision and recall of hot memory in the last second of snapshots, in percent. Hot is more than five samples in all, as the
/// author of page-table profiling counts (docs/spec/page-table-profiling.md#s6-2).
fn precision_and_recall(seen: &Seen, hot: PageRange) -> (u64, u64) {
    let hot = AddressRange::new(hot.start << 12, hot.end << 12);
    let windows = usize::try_from(1_000_000_000 / seen.snapshots[0].aggr_interval.ns()).unwrap();
    let last = seen.snapshots.len().saturating_sub(windows);
    // Each region of the last window, with the results of the windows before for its middle.
    let count_at = |address: u64| -> u32 {
        let of = |snapshot: &Snapshot| {
            let holds = |range: AddressRange| range.start <= address && address < range.end;
            snapshot.regions.iter().find(|region| holds(region.range)).map_or(0, |region| region.nr_accesses)
        };
        seen.snapshots[last..].iter().map(of).sum()
    };
    let (mut found, mut right) = (0, 0);
    for region in &seen.snapshots.last().unwrap().regions {
        let range = region.range;
        if count_at(range.start + range.len() / 2) > 5 {
            found += range.len();
            right += AddressRange::new(range.start.max(hot.start), range.end.min(hot.end)).len();
        }
    }
    (right * 100 / found.max(1), right * 100 / hot.len())
}

fn watch(case: Case) -> Result<Seen, SimError> {
    let nodes = vec![NodeConfig { memory: Bytes::from_mib(64), ..NodeConfig::default() }];
    let config = MachineConfig { nodes, mmu: case.mmu, ..config(Bytes::from_mib(64), DeviceKind::None) };
    let mut builder =
        MachineBuilder::new(&config, isotherm_kernel::reclaim::policy_by_name("classic").unwrap().build()).unwrap();
    let stream = HotSet {
        all: case.all,
        hot: case.hot,
        populate: !case.premapped,
        think_ns: case.think_ns,
        random: Xoshiro256PlusPlus::seed_from_u64(1),
    };
    // Code and stack far from the heap: a process is monitored as the ranges around its two largest gaps.
    let small = |start| Mapping::anonymous(PageRange::at(start, 20));
    let layout = vec![small(1024), Mapping { huge: case.huge, ..Mapping::anonymous(case.all) }, small(0x7_ffff_0000)];
    let program = Program {
        name: "hot set".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout, ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: None,
    };
    let id = builder.add_program(program, CgroupId::ROOT).unwrap();
    builder.start_at(id, Instant::START);
    if case.premapped {
        builder.premap(id);
    }
    let log = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let (target, ranges) = match case.monitor.operations {
        Operations::Paddr => (MonitorTarget::Physical, vec![builder.physical_range(Bytes::new(1))]),
        _ => (MonitorTarget::Process(id, 0), Vec::new()),
    };
    let noted = log.clone();
    let sink: TickSink = Box::new(move |monitor, tick| {
        let mut noted = noted.lock().unwrap();
        if tick.has_snapshot {
            noted.0.push(monitor.snapshot().clone());
        }
        noted.1.extend(tick.events.iter().cloned());
    });
    builder.kdamond("kdamond.0", case.monitor, 3, vec![Watched { target, ranges }], sink).unwrap();
    let outcome = builder.build().run(Instant::START + case.run)?;
    let (snapshots, events) = std::mem::take(&mut *log.lock().unwrap());
    Ok(Seen { snapshots, events, outcome })
}

fn strategy(name: &str) -> MonitorConfig {
    MonitorConfig { strategy: name.parse().unwrap(), ..MonitorConfig::default() }
}

/// 12 MiB on a machine of 64 MiB; a tenth of the memory is used.
fn small(monitor: MonitorConfig) -> Case {
    Case {
        all: PageRange::at(70_001, 3000),
        hot: PageRange::at(71_001, 300),
        premapped: false,
        huge: false,
        think_ns: 1000,
        mmu: MmuConfig::default(),
        monitor,
        run: Duration::from_secs(4),
    }
}

/// 5 TiB; 10 GiB of the memory are used.
fn large(monitor: MonitorConfig) -> Case {
    let gib = 1u64 << 18;
    let all = PageRange::at(77_777, 5 * 1024 * gib);
    Case {
        all,
        hot: PageRange::at(all.start + 3_000 * gib + 4_321, 10 * gib),
        premapped: true,
        think_ns: 500,
        ..small(monitor)
    }
}

#[test]
fn the_monitor_finds_the_hot_tenth_of_a_program() {
    let case = small(strategy("leaf"));
    let hot = case.hot;
    let seen = watch(case).unwrap();
    let (precision, recall) = precision_and_recall(&seen, hot);
    assert!(precision >= 90 && recall >= 90, "precision {precision} %, recall {recall} %");
    assert!(seen.snapshots.len() >= 38 && seen.events.is_empty(), "{:?}", seen.events);
    let monitor = &seen.outcome.monitors[0];
    assert!(monitor.wakeups >= 790 && monitor.probes.checks() >= 10 * 2 * 790, "{monitor:?}");
    assert!(monitor.probes.tests[0] > monitor.probes.checks() / 3, "leaves, but where a table is missing");
    assert!(monitor.cpu_ns < 4_000_000_000 / 50, "{} ns of 4 s", monitor.cpu_ns);
}

#[test]
fn at_5_tib_upper_entries_find_what_leaves_do_not() {
    for (name, converges) in [("leaf", false), ("ptp", true), ("ptp-descend", true)] {
        let mut monitor = strategy(name);
        monitor.attributes.aggr_interval = Duration::from_ms(200);
        let case = large(monitor);
        let hot = case.hot;
        let seen = watch(case).unwrap();
        let (precision, recall) = precision_and_recall(&seen, hot);
        let found = precision >= 90 && recall >= 80;
        assert_eq!(found, converges, "{name}: precision {precision} %, recall {recall} %");
        assert!(converges || recall == 0, "{name}: {recall}");
        let probes = seen.outcome.monitors[0].probes;
        assert_eq!(probes.tests[2] > 0, converges, "{name}: {probes:?}");
    }
}

#[test]
fn with_huge_pages_leaves_find_it_as_well() {
    let mut monitor = strategy("leaf");
    monitor.attributes.aggr_interval = Duration::from_ms(200);
    let gib = 1u64 << 18;
    let all = PageRange::at(77_777, 100 * gib);
    let hot = PageRange::at(all.start + 30 * gib, 10 * gib);
    let case = Case { all, hot, huge: true, run: Duration::from_secs(6), ..large(monitor) };
    let seen = watch(case).unwrap();
    let (precision, recall) = precision_and_recall(&seen, hot);
    assert!(precision >= 90 && recall >= 90, "precision {precision} %, recall {recall} %");
    assert!(seen.outcome.monitors[0].probes.tests[1] > 0, "one bit for 2 MiB");
}

#[test]
fn physical_memory_is_monitored_as_well() {
    let mut monitor = strategy("leaf");
    monitor.operations = Operations::Paddr;
    let case = small(monitor);
    let seen = watch(case).unwrap();
    let hot: u64 = {
        let regions = &seen.snapshots.last().unwrap().regions;
        regions.iter().filter(|region| region.nr_accesses > 10).map(|region| region.range.len()).sum()
    };
    // 300 pages that lie together, since they were first touched in order.
    assert!((200..=450).contains(&(hot >> 12)), "{} pages", hot >> 12);
}

/// docs/spec/page-table-profiling.md#s3-2: what hits the TLB sets no bit. A flush brings it back.
#[test]
fn translation_caches_blind_the_monitor_and_a_flush_cures_it() {
    let translated = || MmuConfig { translation: Some(TranslationConfig::default()), ..MmuConfig::default() };
    for (flush, found) in [(FlushPolicy::None, false), (FlushPolicy::Batched, true)] {
        let case = small(MonitorConfig { flush, ..strategy("leaf") });
        let hot = case.hot;
        let seen = watch(Case { mmu: translated(), ..case }).unwrap();
        let (precision, recall) = precision_and_recall(&seen, hot);
        assert_eq!(precision >= 90 && recall >= 90, found, "{flush:?}: {precision} %, {recall} %");
        assert_eq!(seen.outcome.monitors[0].probes.flushes > 700, found);
    }
}

#[test]
fn what_a_machine_cannot_do_ends_the_run_with_a_reason() {
    let xen = MmuConfig { nonleaf_accessed: false, ..MmuConfig::default() };
    let error = watch(Case { mmu: xen, ..small(strategy("ptp")) }).err().unwrap().to_string();
    assert!(error.starts_with("monitor `kdamond.0`: ") && error.contains("accessed bits above the leaves"), "{error}");
    let error = watch(small(MonitorConfig { flush: FlushPolicy::Batched, ..strategy("leaf") })).err().unwrap();
    assert!(error.to_string().contains("drop cached translations"), "{error}");

    let mut builder =
        MachineBuilder::new(&MachineConfig::default(), isotherm_kernel::reclaim::POLICIES[0].build()).unwrap();
    let mut add = |config, target| {
        let watched = vec![Watched { target, ranges: Vec::new() }];
        builder.kdamond("k", config, 1, watched, Box::new(|_, _| {})).unwrap_err().to_string()
    };
    let mut bad = MonitorConfig::default();
    bad.attributes.min_nr_regions = 1;
    let error = add(bad, MonitorTarget::Physical);
    assert_eq!(error, "monitor `k`: `min-nr-regions` is 1; allowed: 3 and more");
    let error = add(MonitorConfig::default(), MonitorTarget::Process(ProgramId(0), 3));
    assert_eq!(error, "monitor `k` watches process 3 of program 0, which was not added");
}

/// The target ends, its monitor with it; the machine's result depends on the monitor only through CPU time.
#[test]
fn equal_runs_give_equal_snapshots() {
    let run = || watch(Case { run: Duration::from_ms(700), ..large(strategy("ptp")) }).unwrap();
    let (first, second) = (run(), run());
    assert_eq!((first.snapshots, first.outcome), (second.snapshots, second.outcome));
}

/// T10, the pass criteria (1) to (4) of docs/spec/page-table-profiling.md#s6-4: leaves find less the larger the footprint, upper
/// entries find nine tenths everywhere, and noise makes leaves costly at 10 GiB. There the specified model has a recall
/// below one half; here it is six tenths.
#[test]
fn t10_the_published_shape_is_met() {
    let gib = 1u64 << 18;
    // (footprint, hot, accesses a second in millions, bounds of the recall of leaves in percent)
    let sizes = [
        (gib, gib / 10, 10, 90..=100),
        (10 * gib, gib, 2, 1..=70),
        (100 * gib, 10 * gib, 2, 0..=9),
        (5 * 1024 * gib, 10 * gib, 2, 0..=0),
    ];
    let watch_all = |name: &str| {
        sizes.clone().map(|(mapped, hot_pages, rate, _)| {
            let mut monitor = strategy(name);
            monitor.attributes.aggr_interval = Duration::from_ms(200);
            let all = PageRange::at(77_777, mapped);
            let hot = PageRange::at(all.start + mapped / 3 + 4_321, hot_pages);
            let run = Duration::from_secs(8);
            let seen = watch(Case { all, hot, think_ns: 1000 / rate, run, ..large(monitor) }).unwrap();
            let (precision, recall) = precision_and_recall(&seen, hot);
            let monitor = &seen.outcome.monitors[0];
            (precision, recall, monitor.probes.checks(), monitor.cpu_ns)
        })
    };
    let (leaf, ptp) = (watch_all("leaf"), watch_all("ptp"));
    for ((_, recall, ..), (.., bounds)) in leaf.into_iter().zip(sizes.clone()) {
        assert!(bounds.contains(&recall), "leaf: {leaf:?}");
    }
    assert!(ptp.iter().all(|&(precision, recall, ..)| precision >= 90 && recall >= 90), "ptp: {ptp:?}");
    assert!(leaf[1].2 >= 10 * leaf[0].2, "leaf, looks: {leaf:?}");
    assert!(ptp[1].2 * 5 <= leaf[1].2 && ptp[1].3 * 5 <= leaf[1].3, "looks and CPU time: {leaf:?}, {ptp:?}");
}
