//! Schemes in whole machines: their effects on programs, their costs, their reports.

use super::kdamond_tests::HotSet;
use super::tests::config;
use super::*;
use isotherm_core::host::Action as Act;
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::schemes::{
    AccessPattern, Age, Bounds, Filter, FilterType, Frequency, Quotas, Reason, Scheme, SchemeReport, Watermarks,
};
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{Mapping, Process, Thread, ThreadStart, Timing};
use isotherm_units::{Bytes, PageRange, Pages};
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::{Arc, Mutex};

const ALL: PageRange = PageRange { start: 70_001, end: 73_001 };
const HOT: PageRange = PageRange { start: 71_001, end: 71_301 };

/// A program of 3000 pages that uses 300 of its pages, and the schemes on it.
struct Case {
    policy: &'static str,
    swap: DeviceKind,
    operations: Operations,
    schemes: Vec<Scheme>,
    think_ns: u32,
    hot: PageRange,
    /// `memory.max` in pages from this second on.
    limit: Option<(u64, u64)>,
    run: Duration,
}

impl Case {
    fn new(operations: Operations, schemes: Vec<Scheme>) -> Self {
        let (policy, swap) = ("classic", DeviceKind::Zram);
        Self { policy, swap, operations, schemes, think_ns: 2000, hot: HOT, limit: None, run: Duration::from_secs(4) }
    }

    /// The outcome, and the reports after each aggregation.
    fn play(self) -> Result<(Outcome, Vec<Vec<SchemeReport>>), SimError> {
        let machine = config(Bytes::from_mib(64), self.swap);
        let mut builder = MachineBuilder::new(&machine, policy_by_name(self.policy).unwrap().build())?;
        builder.strict();
        let app = builder.add_cgroup(CgroupId::ROOT, "app")?;
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        let stream = HotSet { all: ALL, hot: self.hot, populate: true, think_ns: self.think_ns, random };
        let small = |start| Mapping::anonymous(PageRange::at(start, 20));
        let layout = vec![small(1024), Mapping::anonymous(ALL), small(0x7_ffff_0000)];
        let program = Program {
            name: "hot set".to_owned(),
            files: Vec::new(),
            processes: vec![Process { layout, ..Process::default() }],
            threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
            timing: Timing::Recorded,
            future: None,
        };
        let id = builder.add_program(program, app)?;
        builder.start_at(id, Instant::START);
        if let Some((second, pages)) = self.limit {
            let action = Action::Set(app, Knob::Max, Limit::At(Pages::new(pages)));
            builder.plan(Plan { at: Instant::START + Duration::from_secs(second), every: None, action });
        }
        let reports = Arc::new(Mutex::new(Vec::new()));
        let noted = reports.clone();
        let sink: TickSink = Box::new(move |monitor, tick| {
            if tick.has_snapshot {
                noted.lock().unwrap().push(monitor.scheme_reports());
            }
        });
        let (target, ranges) = match self.operations {
            Operations::Paddr => (MonitorTarget::Physical, vec![builder.physical_range(Bytes::new(1))]),
            _ => (MonitorTarget::Process(id, 0), Vec::new()),
        };
        let monitor = MonitorConfig { operations: self.operations, schemes: self.schemes, ..MonitorConfig::default() };
        builder.kdamond("kdamond.0", monitor, 3, vec![Watched { target, ranges }], sink)?;
        let outcome = builder.build().run(Instant::START + self.run)?;
        let reports = std::mem::take(&mut *reports.lock().unwrap());
        Ok((outcome, reports))
    }
}

/// Not used for half a second.
fn cold(action: Act) -> Scheme {
    let access_pattern = AccessPattern {
        nr_accesses: Bounds { min: Frequency::Samples(0), max: Some(Frequency::Samples(0)) },
        age: Bounds { min: Age::Aggregations(5), max: None },
        ..AccessPattern::default()
    };
    Scheme { action, access_pattern, ..Scheme::default() }
}

/// Used in a fifth of all samples.
fn hot(action: Act) -> Scheme {
    let nr_accesses = Bounds { min: Frequency::Samples(4), max: None };
    Scheme { action, access_pattern: AccessPattern { nr_accesses, ..AccessPattern::default() }, ..Scheme::default() }
}

fn major_faults(outcome: &Outcome) -> u64 {
    outcome.system().counters.get(Counter::PgMajFault)
}

#[test]
fn pageout_of_cold_memory_leaves_what_is_used() {
    let spaces = [Operations::Vaddr, Operations::Paddr];
    for (policy, operations) in ["classic", "mglru"].into_iter().flat_map(|policy| spaces.map(|space| (policy, space)))
    {
        let case = Case { policy, ..Case::new(operations, vec![cold(Act::Pageout)]) };
        let (outcome, _) = case.play().unwrap();
        let app = outcome.cgroup("/app").unwrap();
        assert!(app.usage_pages < 600, "{policy}, {operations:?}: {} pages", app.usage_pages);
        assert!(app.swap_pages > 2400 && app.usage_pages + app.swap_pages >= 3000, "{policy}, {operations:?}: {app:?}");
        assert!(major_faults(&outcome) < 300, "{policy}, {operations:?}: {}", major_faults(&outcome));
        let report = &outcome.monitors[0].schemes[0];
        assert!(
            report.stats.sz_applied >= 2400 << 12 && report.stats.nr_applied > 0,
            "{policy}, {operations:?}: {report:?}"
        );
        assert!(report.all_passes.of(Reason::Applied).bytes > 0 && report.all_passes.of(Reason::TooYoung).regions > 0);
        assert_eq!(report.all_passes.last_refusal, None);
    }
    let (untouched, _) = Case::new(Operations::Vaddr, Vec::new()).play().unwrap();
    assert!(untouched.cgroup("/app").unwrap().usage_pages >= 3000 && untouched.monitors[0].schemes.is_empty());
}

/// docs/spec/schemes.md#s8: a first test finds every page young, so that physical pageout spares all pages once.
#[test]
fn physical_pageout_spares_pages_that_nobody_looked_at() {
    let (outcome, reports) = Case::new(Operations::Paddr, vec![cold(Act::Pageout)]).play().unwrap();
    let first = reports.iter().find(|reports| reports[0].all_passes.page_filter_bytes[0] > 0).unwrap();
    let spared = first[0].all_passes.page_filter_bytes[0];
    assert!(spared > 0 && spared > first[0].stats.sz_applied, "{:?}", first[0]);
    assert!(outcome.monitors[0].schemes[0].stats.sz_applied > spared / 2);
}

/// Under sudden pressure, sorted lists make reclaim take the right pages.
#[test]
fn sorted_lists_keep_what_is_used() {
    // A page of the hot set is used each 9 ms: not often enough to be met young twice in one go.
    let pressed = |schemes| {
        let case = Case::new(Operations::Paddr, schemes);
        Case { think_ns: 30_000, limit: Some((3, 1000)), ..case }.play().unwrap().0
    };
    let (plain, sorted) = (pressed(Vec::new()), pressed(vec![hot(Act::LruPrio), cold(Act::LruDeprio)]));
    let faults = [&plain, &sorted].map(major_faults);
    assert!(faults[1] * 4 < faults[0], "major faults without and with: {faults:?}");
    let lists = |outcome: &Outcome| outcome.cgroup("/app").unwrap().lists;
    assert!(lists(&sorted).active_anon >= 250, "{:?}", lists(&sorted));
    // The other way round: pages in use go first.
    let wrong = pressed(vec![cold(Act::LruPrio), hot(Act::LruDeprio)]);
    assert!(major_faults(&wrong) > faults[0], "{} against {faults:?}", major_faults(&wrong));
}

#[test]
fn a_quota_in_time_goes_by_what_actions_took() {
    let quotas =
        Quotas { time: Some(Duration::from_ms(1)), reset_interval: Duration::from_ms(100), ..Quotas::default() };
    let scheme = Scheme { quotas, ..cold(Act::Pageout) };
    let run = Duration::from_ms(1500);
    let cpu_ns = |schemes| {
        let (outcome, reports) = Case { run, ..Case::new(Operations::Vaddr, schemes) }.play().unwrap();
        (outcome.monitors[0].cpu_ns, reports)
    };
    let ((watching, _), (acting, reports)) = (cpu_ns(Vec::new()), cpu_ns(vec![scheme]));
    // The first window trusts a guess, 4 MiB a millisecond; the others know that a page takes about 7 us.
    let quotas: Vec<u64> = reports.iter().map(|reports| reports[0].effective_quota_bytes.unwrap() >> 12).collect();
    assert_eq!(quotas[0], 1024, "{quotas:?}");
    assert!((100..200).contains(quotas.last().unwrap()), "{quotas:?}");
    let windows = quotas.len() as u64;
    let budget = 1024 * 8000 + windows * 1_100_000;
    assert!((5_000_000..budget).contains(&(acting - watching)), "{} of {budget} ns", acting - watching);
}

/// docs/spec/schemes.md#s15, example 46: a megabyte a window of two hot buffers.
#[test]
fn example_46_no_window_tries_more_than_its_quota() {
    let mib = 1 << 20;
    let quotas = Quotas { size: Some(Bytes::from_mib(1)), reset_interval: Duration::from_ms(100), ..Quotas::default() };
    let anon = Filter::new(FilterType::Anon, true, true);
    let scheme = Scheme { quotas, ops_filters: vec![anon], ..hot(Act::Stat) };
    let case = Case { hot: ALL, think_ns: 500, ..Case::new(Operations::Vaddr, vec![scheme]) };
    let (outcome, reports) = case.play().unwrap();
    let tried: Vec<u64> = reports.iter().map(|reports| reports[0].stats.sz_tried).collect();
    let steps: Vec<u64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|&step| step <= mib), "example 46: {steps:?}");
    let full = steps.iter().filter(|&&step| step == mib).count() as u64;
    let stats = outcome.monitors[0].schemes[0].stats;
    assert!(full > 20 && stats.qt_exceeds + 1 >= full, "example 46: {full} full windows, {stats:?}");
    assert!(stats.sz_applied == 0 && stats.sz_ops_filter_passed > stats.sz_tried * 9 / 10, "{stats:?}");
}

#[test]
fn reports_say_why_nothing_happened() {
    let reject = Filter::new(FilterType::Anon, true, false);
    let schemes = vec![
        Scheme { ops_filters: vec![reject], ..hot(Act::LruPrio) },
        Scheme {
            access_pattern: AccessPattern {
                size: Bounds { min: Bytes::from_gib(1), max: None },
                ..AccessPattern::default()
            },
            ..hot(Act::LruPrio)
        },
    ];
    let (outcome, _) = Case::new(Operations::Paddr, schemes).play().unwrap();
    let [filtered, too_small] = &outcome.monitors[0].schemes[..] else { panic!("two schemes") };
    assert!(filtered.stats.nr_tried > 0 && filtered.stats.sz_applied == 0, "{filtered:?}");
    assert!(filtered.all_passes.page_filter_bytes[0] > 0 && filtered.all_passes.of(Reason::NoEffect).regions > 0);
    assert!(too_small.stats.nr_tried == 0 && too_small.all_passes.of(Reason::TooSmall).regions > 0, "{too_small:?}");
}

#[test]
fn what_a_machine_cannot_do_ends_the_run() {
    let case = Case { policy: "lru", ..Case::new(Operations::Paddr, vec![hot(Act::LruPrio)]) };
    let error = case.play().err().unwrap().to_string();
    assert!(error.starts_with("monitor `kdamond.0`: ") && error.contains("lru-prio"), "{error}");
    let (outcome, _) = Case { policy: "lru", ..Case::new(Operations::Paddr, vec![cold(Act::Pageout)]) }.play().unwrap();
    assert!(outcome.cgroup("/app").unwrap().swap_pages > 2000, "pages can be taken from any policy");
}

/// As in the kernel, threads wait for writes that the device's queue does not hold.
#[test]
fn a_thread_waits_for_its_writes() {
    let slow = |swap| Case { swap, ..Case::new(Operations::Vaddr, vec![cold(Act::Pageout)]) }.play().unwrap().0;
    let (zram, disk) = (slow(DeviceKind::Zram), slow(DeviceKind::Disk));
    let late = [&zram, &disk].map(|outcome| outcome.monitors[0].late_ns);
    assert!(late[1] > 100_000_000 && late[0] < late[1] / 4, "{late:?}");
    assert!(disk.cgroup("/").unwrap().pressure.io_some_ns > 0);
}

#[test]
fn equal_runs_with_schemes_are_equal() {
    let run = || {
        let schemes = vec![hot(Act::LruPrio), cold(Act::LruDeprio), cold(Act::Pageout)];
        let case = Case { run: Duration::from_ms(1500), ..Case::new(Operations::Paddr, schemes) };
        case.play().unwrap()
    };
    assert!(run() == run());
}

/// Limits of a scheme in [`quotas_and_watermarks_hold`].
#[derive(Clone, Debug)]
struct Limits {
    action: Act,
    quotas: Quotas,
    watermarks: Watermarks,
}

fn limits() -> impl Strategy<Value = Limits> {
    let action = prop::sample::select(vec![Act::Pageout, Act::LruPrio, Act::LruDeprio]);
    let reset_ms = prop::sample::select(vec![100, 300, 1000]);
    let (pages, time_ms) = (prop::option::of(1..800u64), prop::option::of(1..3u64));
    let marks = prop::option::of([0..=1000u64, 0..=1000u64, 0..=1000u64]);
    (action, reset_ms, pages, time_ms, marks).prop_map(|(action, reset_ms, pages, time_ms, marks)| {
        let quotas = Quotas {
            size: pages.map(|pages| Pages::new(pages).bytes()),
            time: time_ms.map(Duration::from_ms),
            reset_interval: Duration::from_ms(reset_ms),
            ..Quotas::default()
        };
        let watermarks = marks.map(|mut marks| {
            marks.sort_unstable();
            Watermarks::free_mem_rate(Duration::from_ms(200), marks[2], marks[1], marks[0])
        });
        Limits { action, quotas, watermarks: watermarks.unwrap_or_default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// On a machine: no window treats more than its quota, nothing is done in a window whose time is spent, nor while
    /// watermarks have the scheme switched off.
    #[test]
    fn quotas_and_watermarks_hold(policy in prop::sample::select(vec!["classic", "mglru"]), limits in limits()) {
        let Limits { action, quotas, watermarks } = limits;
        let scheme = Scheme { action, quotas, watermarks, ..Scheme::default() };
        // One that keeps the monitor awake while the other is off.
        let case = Case { policy, run: Duration::from_ms(1500), ..Case::new(Operations::Paddr, vec![scheme.clone(), Scheme::default()]) };
        let (_, reports) = case.play().unwrap();
        let mut before: Option<&SchemeReport> = None;
        for report in reports.iter().map(|reports| &reports[0]) {
            let limit = report.effective_quota_bytes.unwrap_or(u64::MAX);
            prop_assert!(report.charged_bytes <= limit, "{report:?}");
            let (tried, bytes, spent_before) = before.map_or((report.stats.nr_tried, report.stats.sz_tried, 0), |before| {
                let (now, then) = (report.stats, before.stats);
                (now.nr_tried - then.nr_tried, now.sz_tried - then.sz_tried, before.charged_ns)
            });
            // After the time is spent, tries are those of a new window, in which nothing else is charged.
            if scheme.quotas.time.is_some_and(|time| spent_before >= time.ns()) && tried > 0 {
                prop_assert_eq!(report.charged_bytes, bytes, "{:?}", report);
            }
            // Not `is_active`: a tick ends with a check of watermarks, after its pass.
            if report.last_pass.inactive_passes > 0 {
                prop_assert_eq!(tried, 0, "off: {:?}", report);
            }
            before = Some(report);
        }
        prop_assert!(!reports.is_empty());
    }
}
