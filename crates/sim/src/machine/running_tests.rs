//! Runs that differ in a limit, forked where the limit begins to matter, against the same runs from their beginning.

use super::tests::{config, parent_and_child, program, sweeps};
use super::*;
use isotherm_core::monitor::MonitorConfig;
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_kernel::reclaim::{POLICIES, policy_by_name};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{Advice, After, Backing, Batch, LayoutChange, Mapping, Run, Sharing, Stream, StreamError};
use isotherm_units::{Bytes, PageRange, Pages};
use proptest::prelude::*;

/// Pages of the heap, and of the file.
const PAGES: u64 = 5000;
const HEAP: u64 = 70_001;
const FILE: u64 = 90_000;

#[derive(Clone, Copy, Debug)]
enum Then {
    GoOn,
    Compute(u64),
    Sleep(u64),
    Drop(u64, u64),
}

/// Touches of runs of pages, of the file beyond the heap, with a time to think before each, and what follows.
type Step = (Vec<(u64, u32, bool, u32)>, Then);

#[derive(Clone, Debug)]
struct Case {
    /// Steps of a parent and of its child.
    steps: [Vec<Step>; 2],
    policy: &'static str,
    swap: DeviceKind,
    cpus: u32,
    translated: bool,
    /// Ascending.
    limits: Vec<u64>,
}

impl Case {
    /// A machine that is ready to run, and the group of the program.
    fn machine(&self, limit: u64) -> (Machine, CgroupId) {
        let mmu = MmuConfig { translation: self.translated.then(TranslationConfig::default), ..MmuConfig::default() };
        let config = MachineConfig { cpus: self.cpus, mmu, ..config(Bytes::from_mib(96), self.swap) };
        let mut builder = MachineBuilder::new(&config, policy_by_name(self.policy).unwrap().build()).unwrap();
        let app = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
        builder.set(app, Knob::Max, Limit::At(Pages::new(limit)));
        let id = builder.add_program(family(&self.steps), app).unwrap();
        builder.start_at(id, Instant::START + Duration::from_ms(3));
        builder.record_series(Duration::from_ms(20));
        builder.record_residency();
        (builder.build(), app)
    }

    /// The outcome with each limit, from as few beginnings as possible, and the number of beginnings that are forks.
    fn forked(&self) -> (Vec<Outcome>, usize) {
        let largest = *self.limits.last().unwrap();
        let (machine, app) = self.machine(largest);
        let mut trunk = machine.begin(UNTIL);
        let (mut outcomes, mut nr_forks) = (Vec::new(), 0);
        for &limit in &self.limits[..self.limits.len() - 1] {
            let outcome = if trunk.play_below(app, Pages::new(limit)).unwrap() {
                let mut fork = trunk.fork().expect("nothing on it is alone");
                fork.limit(app, Pages::new(limit));
                nr_forks += 1;
                fork.finish()
            } else {
                self.machine(limit).0.run(UNTIL)
            };
            outcomes.push(outcome.unwrap());
        }
        outcomes.push(trunk.finish().unwrap());
        (outcomes, nr_forks)
    }
}

/// Policies that need no future, which a generated program has not: `opt` is played with a recording, in `isotherm-scenario`.
fn policies() -> Vec<&'static str> {
    POLICIES.iter().filter(|entry| !entry.build().needs_future()).map(|entry| entry.name).collect()
}

const UNTIL: Instant = Instant::from_ns(900_000_000);

/// A parent and its child, with a heap and a file.
fn family(steps: &[Vec<Step>; 2]) -> Program {
    let file = Backing::File { file: 0, first_page: 0, sharing: Sharing::Private };
    let layout = vec![
        Mapping::anonymous(PageRange::at(HEAP, PAGES)),
        Mapping { backing: file, ..Mapping::anonymous(PageRange::at(FILE, PAGES)) },
    ];
    let stream = |steps: &[Step]| {
        let step = |(touches, then): &Step| {
            let touch = |&(page, pages, is_write, think_ns): &(u64, u32, bool, u32)| {
                let page = if page < PAGES { HEAP + page } else { FILE + page - PAGES };
                let run = if is_write { Run::write(page, pages) } else { Run::read(page, pages) };
                run.after_ns(think_ns)
            };
            let after = match *then {
                Then::GoOn => After::Continue,
                Then::Compute(us) => After::Compute(Duration::from_us(us)),
                Then::Sleep(us) => After::Sleep(Duration::from_us(us)),
                // Zeroes from now on.
                Then::Drop(page, pages) => {
                    let range = PageRange::at(HEAP + page, pages);
                    After::Change(LayoutChange::Advise(range, Advice::DontNeed))
                }
            };
            (touches.iter().map(touch).collect(), after)
        };
        steps.iter().map(step).collect::<Vec<_>>()
    };
    let [mut parent, child] = [&steps[0], &steps[1]].map(|steps| stream(steps));
    parent.insert(2, (Vec::new(), After::Start(1)));
    parent_and_child(layout, PAGES, [parent, child])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0..2 * PAGES - 400;
    let pages = prop_oneof![2 => Just(1u32), 3 => 1..120u32];
    let think = prop_oneof![1 => Just(0u32), 3 => 0..6_000_000u32];
    let touches = prop::collection::vec((page, pages, any::<bool>(), think), 1..12);
    let then = prop_oneof![
        3 => Just(Then::GoOn),
        1 => (0..5000u64).prop_map(Then::Compute),
        2 => (0..20_000u64).prop_map(Then::Sleep),
        1 => (0..PAGES - 600, 1..600u64).prop_map(|(page, pages)| Then::Drop(page, pages)),
    ];
    prop::collection::vec((touches, then), 3..40)
}

fn case() -> impl Strategy<Value = Case> {
    let policy = prop::sample::select(policies());
    let swap = prop::sample::select(vec![DeviceKind::Zram, DeviceKind::Ssd]);
    let limits = prop::collection::vec(1200u64..9000, 2..5);
    ([steps(), steps()], policy, swap, 1u32..4, any::<bool>(), limits).prop_map(
        |(steps, policy, swap, cpus, translated, mut limits)| {
            limits.sort_unstable();
            Case { steps, policy, swap, cpus, translated, limits }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_fork_ends_as_a_machine_of_its_own(case in case()) {
        for (outcome, &limit) in case.forked().0.into_iter().zip(&case.limits) {
            let expected = case.machine(limit).0.run(UNTIL).unwrap();
            prop_assert_eq!(outcome, expected, "limit {}", limit);
        }
    }
}

/// A program that grows: each limit is met late, and half of the first run is played once.
fn growing(policy: &'static str) -> Case {
    let step = |at: u64| (vec![(at * 50 % PAGES, 50, true, 5_000_000), (at * 7 % PAGES, 1, false, 0)], Then::GoOn);
    let steps = [(0..150).map(step).collect(), vec![step(3)]];
    Case { steps, policy, swap: DeviceKind::Zram, cpus: 2, translated: false, limits: vec![2200, 2900, 4000, 9000] }
}

#[test]
fn limits_that_are_met_late_share_what_comes_before() {
    for policy in policies() {
        let case = growing(policy);
        let (outcomes, nr_forks) = case.forked();
        assert_eq!(nr_forks, 3, "{policy}");
        let evicted = |outcome: &Outcome| outcome.system().counters.get(isotherm_kernel::counters::Counter::PswpOut);
        assert!(evicted(&outcomes[0]) > evicted(&outcomes[1]) && evicted(&outcomes[3]) == 0, "{policy}");
        for (outcome, &limit) in outcomes.iter().zip(&case.limits) {
            assert_eq!(*outcome, case.machine(limit).0.run(UNTIL).unwrap(), "{policy}, {limit}");
        }
    }
}

#[test]
fn a_run_goes_no_further_than_where_the_limit_may_matter() {
    let (machine, app) = growing("classic").machine(9000);
    let mut running = machine.begin(UNTIL);
    let charged = |running: &Running| running.0.memory.cgroups.get(app).peak;
    assert!(!running.play_below(app, Pages::new(1000)).unwrap(), "less than what may be asked for at once");
    assert_eq!(charged(&running), 0);
    assert!(running.play_below(app, Pages::new(4000)).unwrap());
    let first = charged(&running);
    assert!((4000 - 1024 - 250 - 1..=4000 - 1024).contains(&first), "{first}");
    assert!(!running.play_below(app, Pages::new(3900 - 1024)).unwrap(), "it has gone beyond");
    assert_eq!(charged(&running), first, "and not further");
}

#[test]
fn what_there_can_be_one_of_only_is_not_forked() {
    let machine = |wants_daemon: bool, stream| {
        let config = config(Bytes::from_mib(16), DeviceKind::Zram);
        let mut builder = MachineBuilder::new(&config, policy_by_name("classic").unwrap().build()).unwrap();
        let id = builder.add_program(program("p", vec![stream]), CgroupId::ROOT).unwrap();
        builder.start_at(id, Instant::START);
        if wants_daemon {
            let watched = vec![Watched { target: MonitorTarget::Process(id, 0), ranges: Vec::new() }];
            builder.kdamond("kdamond", MonitorConfig::default(), 1, watched, Box::new(|_, _| ())).unwrap();
        }
        builder.build().begin(UNTIL)
    };
    assert!(machine(false, sweeps(10, 1, 0)).fork().is_some());
    assert!(machine(true, sweeps(10, 1, 0)).fork().is_none(), "a daemon");
    struct Once;
    impl Stream for Once {
        fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
            Ok(After::Finish)
        }
    }
    assert!(machine(false, Box::new(Once)).fork().is_none(), "a workload");
}
