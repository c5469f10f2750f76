//! Ticks of monitors that take short cuts, where nothing happens or little is touched, compared with the same ticks without. Results,
//! actions, costs and effects are the same, tick by tick, for any programs and other monitors.

use super::tests::config;
use super::*;
use isotherm_core::host::Action as Act;
use isotherm_core::monitor::{
    Activity, Attributes, FlushPolicy, MonitorConfig, Operations, Region, STRATEGIES, Sampling, Snapshot, Tick,
};
use isotherm_core::schemes::{Quotas, Scheme, SchemeReport, Watermarks};
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{After, Backing, Mapping, Run, Sharing};
use isotherm_units::{Bytes, PageRange, Pages};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Pages of each mapping of a program.
const PAGES: u64 = 600;
const HEAP: u64 = 70_001;
const FILE: u64 = 90_000;

/// A batch of touches, and what follows.
#[derive(Clone, Debug)]
struct Step {
    touches: Vec<(u64, u32, bool, u32)>,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    GoOn,
    Compute(u64),
    Sleep(u64),
}

/// A monitor and its target: a process of a program, or all memory.
#[derive(Clone, Debug)]
struct Watcher {
    config: MonitorConfig,
    program: usize,
    process: usize,
}

impl Watcher {
    /// Keeps only schemes that can be carried out.
    fn under(mut self, policy: &str) -> Self {
        let is_physical = self.config.operations == Operations::Paddr;
        self.config.schemes.retain(|scheme| match scheme.action {
            Act::Cold => !is_physical && policy != "lru",
            Act::LruPrio | Act::LruDeprio => is_physical && policy != "lru",
            _ => true,
        });
        self
    }
}

#[derive(Clone, Debug)]
struct Case {
    programs: Vec<[Vec<Step>; 2]>,
    premapped: bool,
    policy: &'static str,
    cpus: u32,
    translated: bool,
    limit_pages: Option<u64>,
    watchers: Vec<Watcher>,
}

/// State after a tick.
type Sight = (usize, Tick, Option<Snapshot>, Vec<Vec<Region>>, Activity, Vec<SchemeReport>);

impl Case {
    fn play(&self, folds: bool) -> (Outcome, Vec<Sight>) {
        let mmu = MmuConfig { translation: self.translated.then(TranslationConfig::default), ..MmuConfig::default() };
        let machine = MachineConfig { cpus: self.cpus, mmu, ..config(Bytes::from_mib(16), DeviceKind::Zram) };
        let mut builder = MachineBuilder::new(&machine, policy_by_name(self.policy).unwrap().build()).unwrap();
        if !folds {
            builder.without_folds();
        }
        let app = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
        if let Some(pages) = self.limit_pages {
            builder.set(app, Knob::Max, Limit::At(Pages::new(pages)));
        }
        let ids: Vec<_> = self.programs.iter().map(|steps| builder.add_program(program(steps), app).unwrap()).collect();
        for (at_ms, &id) in (0..).step_by(7).zip(&ids) {
            builder.start_at(id, Instant::START + Duration::from_ms(at_ms));
        }
        if self.premapped {
            builder.premap(ids[0]);
        }
        let sights = Arc::new(Mutex::new(Vec::new()));
        for (number, watcher) in self.watchers.iter().enumerate() {
            let (target, ranges) = match watcher.config.operations {
                Operations::Paddr => (MonitorTarget::Physical, vec![builder.physical_range(Bytes::new(1))]),
                _ => (MonitorTarget::Process(ids[watcher.program % ids.len()], watcher.process), Vec::new()),
            };
            let noted = sights.clone();
            let sink: TickSink = Box::new(move |monitor, tick| {
                let regions = monitor.targets().map(|target| monitor.regions(target).unwrap().to_vec()).collect();
                let snapshot = tick.has_snapshot.then(|| monitor.snapshot().clone());
                let (activity, reports) = (*monitor.activity(), monitor.scheme_reports());
                noted.lock().unwrap().push((number, tick.clone(), snapshot, regions, activity, reports));
            });
            let watched = vec![Watched { target, ranges }];
            builder.kdamond(&format!("kdamond.{number}"), watcher.config.clone(), 3, watched, sink).unwrap();
        }
        builder.record_series(Duration::from_ms(50));
        builder.record_residency();
        let outcome = builder.build().run(Instant::START + Duration::from_ms(700)).unwrap();
        let sights = std::mem::take(&mut *sights.lock().unwrap());
        (outcome, sights)
    }
}

/// Two processes, the second a child of the first, each with a heap, a file and a stack far off.
fn program(steps: &[Vec<Step>; 2]) -> Program {
    let file = Backing::File { file: 0, first_page: 0, sharing: Sharing::Private };
    let layout = vec![
        Mapping::anonymous(PageRange::at(1024, 20)),
        Mapping::anonymous(PageRange::at(HEAP, PAGES)),
        Mapping { backing: file, ..Mapping::anonymous(PageRange::at(FILE, PAGES)) },
        Mapping::anonymous(PageRange::at(0x7_ffff_0000, 20)),
    ];
    let stream = |steps: &[Step]| {
        let step = |step: &Step| {
            let touch = |&(page, pages, is_write, think_ns): &(u64, u32, bool, u32)| {
                let is_file = page >= PAGES;
                let page = if is_file { FILE + page - PAGES } else { HEAP + page };
                let run = if is_write && !is_file { Run::write(page, pages) } else { Run::read(page, pages) };
                run.after_ns(think_ns)
            };
            let after = match step.then {
                Then::GoOn => After::Continue,
                Then::Compute(us) => After::Compute(Duration::from_us(us)),
                Then::Sleep(us) => After::Sleep(Duration::from_us(us)),
            };
            (step.touches.iter().map(touch).collect(), after)
        };
        steps.iter().map(step).collect::<Vec<_>>()
    };
    let [mut parent, child] = [&steps[0], &steps[1]].map(|steps| stream(steps));
    parent.insert(1, (Vec::new(), After::Start(1)));
    super::tests::parent_and_child(layout, PAGES, [parent, child])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![3 => 0..40u64, 2 => 0..PAGES - 8, 2 => PAGES..2 * PAGES - 8];
    let pages = prop_oneof![8 => Just(1u32), 1 => 1..8u32];
    let think = prop_oneof![3 => Just(0u32), 2 => 0..5_000_000u32];
    let touches = prop_oneof![
        3 => prop::collection::vec((page.clone(), pages.clone(), any::<bool>(), think.clone()), 0..4),
        1 => prop::collection::vec((page, pages, any::<bool>(), think), 4..60),
    ];
    let then = prop_oneof![
        1 => Just(Then::GoOn),
        2 => (0..9000u64).prop_map(Then::Compute),
        4 => (0..60_000u64).prop_map(Then::Sleep),
    ];
    prop::collection::vec((touches, then).prop_map(|(touches, then)| Step { touches, then }), 4..30)
}

fn scheme() -> impl Strategy<Value = Scheme> {
    let actions = [Act::Stat, Act::Pageout, Act::LruPrio, Act::LruDeprio, Act::Cold];
    (prop::sample::select(actions.to_vec()), 0u64..3, any::<bool>()).prop_map(|(action, mib, has_marks)| Scheme {
        action,
        quotas: Quotas {
            size: (mib > 0).then(|| Bytes::from_mib(mib)),
            reset_interval: Duration::from_ms(20),
            ..Quotas::default()
        },
        watermarks: match has_marks {
            true => Watermarks::free_mem_rate(Duration::from_ms(15), 800, 600, 50),
            false => Watermarks::default(),
        },
        ..Scheme::default()
    })
}

fn watcher() -> impl Strategy<Value = Watcher> {
    let attributes = (1u64..30, 1u64..8, 3u32..20, 0u32..60, 0u64..100).prop_map(
        |(sample_ms, samples, min_nr_regions, more, update_ms)| Attributes {
            sample_interval: Duration::from_ms(sample_ms),
            aggr_interval: Duration::from_ms(sample_ms * samples),
            ops_update_interval: Duration::from_ms(update_ms),
            min_nr_regions,
            max_nr_regions: min_nr_regions + more,
            ..Attributes::default()
        },
    );
    let names: Vec<_> = STRATEGIES.iter().map(|entry| entry.name).collect();
    let strategy = prop_oneof![3 => Just(STRATEGIES[0].name), 2 => prop::sample::select(names)];
    let sampling = prop_oneof![3 => Just(Sampling::Spread), 1 => Just(Sampling::Batch)];
    let schemes = prop::collection::vec(scheme(), 0..3);
    (attributes, strategy, sampling, schemes, any::<bool>(), 0..2usize, 0..2usize).prop_map(
        |(attributes, strategy, sampling, schemes, is_physical, program, process)| {
            let is_descending = strategy == "ptp-descend";
            let config = MonitorConfig {
                operations: if is_physical { Operations::Paddr } else { Operations::Vaddr },
                strategy: if is_physical && is_descending { "ptp" } else { strategy }.parse().unwrap(),
                sampling: if is_descending { Sampling::Spread } else { sampling },
                flush: FlushPolicy::None,
                attributes,
                schemes,
                ..MonitorConfig::default()
            };
            Watcher { config, program, process }
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let programs = prop::collection::vec([steps(), steps()], 1..3);
    let policy = prop::sample::select(vec!["classic", "classic", "mglru", "lru"]);
    let watchers = prop::collection::vec(watcher(), 1..4);
    let limit = prop::option::of(200u64..1500);
    (programs, any::<bool>(), policy, 1u32..4, any::<bool>(), limit, watchers).prop_map(
        |(programs, premapped, policy, cpus, translated, limit_pages, watchers)| Case {
            programs,
            premapped,
            policy,
            cpus,
            translated,
            limit_pages,
            // Exact policies have no lists of active pages.
            watchers: watchers.into_iter().map(|watcher| watcher.under(policy)).collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn short_cuts_change_nothing(case in case()) {
        let ((outcome, sights), (expected, expected_sights)) = (case.play(true), case.play(false));
        for (sight, expected) in sights.iter().zip(&expected_sights) {
            prop_assert_eq!(sight, expected);
        }
        prop_assert_eq!(sights.len(), expected_sights.len());
        prop_assert_eq!(outcome, expected);
    }
}
