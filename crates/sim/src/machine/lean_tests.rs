//! The lean engine against the full machine: every field of the outcome, on made accesses of many kinds.

#![expect(clippy::cast_possible_truncation, reason = "small random numbers")]

use super::lean::LeanRun;
use super::tests::{config, program, script};
use super::*;
use isotherm_kernel::cgroup::{CgroupId, Limit};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{Advice, After, LayoutChange, Mapping, Run, Timing};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, PageRange, Pages};
use proptest::prelude::*;

const POLICIES: [&str; 4] = ["lru", "clock", "classic", "mglru"];
type Steps = Vec<(Vec<Run>, After)>;

/// A run: what is played, and with which memory.
#[derive(Clone)]
struct Case {
    steps: Steps,
    layout: Vec<Mapping>,
    timing: Timing,
    limit: Option<u64>,
    machine: MachineConfig,
    until: Instant,
    /// Other tasks run once a tick.
    has_others: bool,
    /// Limit of the group above that of the program, if there is one.
    outer: Option<Limit>,
}

impl Case {
    /// Steps in a mapping of `pages` from page 1000 on, without a limit.
    fn new(pages: u64, steps: Steps) -> Self {
        Self {
            steps,
            layout: vec![Mapping::anonymous(PageRange::at(1000, pages))],
            timing: Timing::Recorded,
            limit: None,
            machine: config(Bytes::from_mib(64 + pages / 64), DeviceKind::Zram),
            until: Instant::NEVER,
            has_others: false,
            outer: None,
        }
    }

    fn limit(self, pages: u64) -> Self {
        Self { limit: Some(pages), ..self }
    }

    fn begin(&self, policy: &str, in_full: bool) -> Running {
        let policy = policy_by_name(policy).unwrap().build_with(&self.machine.policy_settings());
        let mut builder = MachineBuilder::new(&self.machine, policy).unwrap();
        let mut above = CgroupId::ROOT;
        if let Some(limit) = self.outer {
            above = builder.add_cgroup(above, "outer").unwrap();
            builder.set(above, Knob::Max, limit);
        }
        let group = builder.add_cgroup(above, "app").unwrap();
        if let Some(limit) = self.limit {
            builder.set(group, Knob::Max, Limit::At(Pages::new(limit)));
        }
        let mut app = program("app", vec![script(self.steps.clone())]);
        app.timing = self.timing;
        app.processes[0].layout = self.layout.clone();
        let app = builder.add_program(app, group).unwrap();
        builder.start_at(app, Instant::START);
        if self.has_others {
            builder.other_tasks(Duration::from_ms(4), Instant::START, self.until);
        }
        if in_full {
            builder.in_full();
        }
        builder.build().begin(self.until)
    }

    /// Plays on both engines under every policy. Returns whether the lean one came to the end, by policy.
    fn compare(&self, what: &str) -> [bool; 4] {
        POLICIES.map(|policy| self.compare_under(policy, what))
    }

    fn compare_under(&self, policy: &str, what: &str) -> bool {
        let expected = self.begin(policy, true).finish();
        let mut lean = self.begin(policy, false);
        let played = lean.0.play_on(&|| true, |_| false);
        let is_lean = matches!(lean.0.lean, LeanRun::Plays(_));
        let got = played.map(|()| lean.0.finish());
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_same(&got, &expected, &format!("{policy}, {what}")),
            (got, expected) => {
                assert_eq!(got.map_err(|e| e.to_string()), expected.map_err(|e| e.to_string()), "{what}")
            }
        }
        is_lean
    }

    fn assert_lean(&self, what: &str) {
        assert_eq!(self.compare(what), [true; 4], "{what}: the lean engine covers it");
    }
}

/// Compares part by part, so that a difference is found.
fn assert_same(got: &Outcome, expected: &Outcome, what: &str) {
    for (got, expected) in got.cgroups.iter().zip(&expected.cgroups) {
        let differences: Vec<_> = got.counters.iter().zip(expected.counters.iter()).filter(|(a, b)| a != b).collect();
        assert!(differences.is_empty(), "{what}: counters of {}: {differences:?}", got.path);
        assert_eq!(got, expected, "{what}");
    }
    assert_eq!(got.work, expected.work, "{what}");
    assert_eq!(got.kernel, expected.kernel, "{what}");
    assert_eq!(got.programs, expected.programs, "{what}");
    assert_eq!(got.reclaim_latencies_ns.len(), expected.reclaim_latencies_ns.len(), "{what}");
    assert!(got == expected, "{what}: other fields");
}

/// Single-page accesses, one in `reads` a load.
fn accesses(pages: impl Iterator<Item = u64>, reads: u64, think_ns: u32, seed: u64) -> Steps {
    let mut random = Random::new(seed);
    let runs: Vec<Run> = pages
        .map(|page| {
            let run = if reads > 0 && random.below(reads) == 0 {
                Run::read(1000 + page, 1)
            } else {
                Run::write(1000 + page, 1)
            };
            run.after_ns(think_ns)
        })
        .collect();
    runs.chunks(4096).map(|runs| (runs.to_vec(), After::Continue)).collect()
}

/// As the benchmark of replay has them: every power of two of ranks has the same weight.
fn zipf(pages: u64, requests: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let levels = u64::from(pages.ilog2()) + 1;
    (0..requests).map(move |_| {
        loop {
            let level = random.below(levels);
            let rank = (1 << level) + random.below(1 << level);
            if rank < pages {
                return rank * 2_654_435_761 % pages;
            }
        }
    })
}

const LIMITS: [u64; 5] = [95, 75, 50, 30, 10];

#[test]
fn zipf_at_many_limits() {
    for (pages, requests, seed) in [(1 << 16, 500_000, 1), (1 << 13, 100_000, 2), (3000, 60_000, 3), (300, 10_000, 4)] {
        for percent in LIMITS {
            let case = Case::new(pages, accesses(zipf(pages, requests, seed), 0, 0, seed)).limit(pages * percent / 100);
            case.assert_lean(&format!("{requests} stores to {pages} pages at {percent} %"));
        }
    }
}

#[test]
fn loads_stores_and_think_time() {
    for (seed, (reads, think_ns)) in [(2, 0), (3, 130), (0, 2000), (1, 50_000), (4, 900)].into_iter().enumerate() {
        for percent in LIMITS {
            let steps = accesses(zipf(4000, 40_000, seed as u64), reads, think_ns, seed as u64);
            for timing in [Timing::Recorded, Timing::Modelled] {
                let case = Case { timing, ..Case::new(4000, steps.clone()).limit(4000 * percent / 100) };
                case.assert_lean(&format!("one of {reads} loads, {think_ns} ns, {percent} %, {timing:?}"));
            }
        }
    }
}

#[test]
fn cycles_loops_and_scans() {
    let cycle = |pages: u64, rounds: u64| (0..pages * rounds).map(move |at| at % pages);
    let scattered = |pages: u64, rounds: u64| (0..pages * rounds).map(move |at| at.wrapping_mul(0x9e37_79b1) % pages);
    for (pages, limit) in [(1 << 14, 1 << 13), (1050, 1000), (2000, 1990), (700, 64), (700, 33), (5000, 5000), (64, 40)]
    {
        for (what, steps) in [
            ("a cycle", accesses(cycle(pages, 6), 0, 0, 1)),
            ("a scattered cycle", accesses(scattered(pages, 6), 0, 0, 1)),
            ("a scattered cycle of loads and stores", accesses(scattered(pages, 4), 2, 300, 1)),
            ("a scan", accesses(cycle(pages, 1), 5, 100, 1)),
        ] {
            Case::new(pages, steps).limit(limit).assert_lean(&format!("{what} of {pages} pages with {limit}"));
        }
    }
}

#[test]
fn runs_of_several_pages_in_several_mappings() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let ranges = [
            PageRange::new(1000, 1100),
            PageRange::new(1100, 2600),
            PageRange::new(3000, 3001),
            PageRange::new(3071, 6000),
        ];
        let runs: Vec<Run> = (0..6000)
            .map(|_| {
                let range = ranges[random.below(4) as usize];
                let pages = 1 + random.below(range.len().min(200));
                let page = range.start + random.below(range.len() - pages + 1);
                let pages = u32::try_from(pages).unwrap();
                let run = if random.below(3) == 0 { Run::read(page, pages) } else { Run::write(page, pages) };
                run.after_ns(u32::try_from(random.below(5000)).unwrap())
            })
            .collect();
        let steps = runs.chunks(500).map(|runs| (runs.to_vec(), After::Continue)).collect();
        for limit in [4300, 3000, 1200, 300] {
            let timing = if seed % 2 == 0 { Timing::Recorded } else { Timing::Modelled };
            let layout = ranges.map(Mapping::anonymous).to_vec();
            let case = Case { layout, timing, ..Case::new(6000, Vec::clone(&steps)).limit(limit) };
            case.assert_lean(&format!("runs of seed {seed} with {limit}"));
        }
    }
}

#[test]
fn sleeps_computing_and_other_tasks() {
    for (cpus, has_others) in [(2, true), (1, true), (2, false), (1, false)] {
        for limit in [3000, 1500, 400] {
            let mut random = Random::new(limit);
            let steps: Steps = accesses(zipf(3500, 60_000, limit), 3, 400, 5)
                .into_iter()
                .flat_map(|(runs, _)| runs.chunks(700).map(<[Run]>::to_vec).collect::<Vec<_>>())
                .map(|runs| {
                    let span = Duration::from_us(random.below(20_000));
                    let after = [After::Continue, After::Sleep(span), After::Compute(span)];
                    (runs, after[random.below(3) as usize].clone())
                })
                .collect();
            let until = Instant::START + Duration::from_secs(20);
            let case = Case::new(3500, steps).limit(limit);
            let machine = MachineConfig { cpus, ..case.machine.clone() };
            Case { machine, has_others, until, ..case }
                .assert_lean(&format!("{cpus} processors, {has_others}, {limit}"));
        }
    }
}

#[test]
fn other_machines() {
    let steps = accesses(zipf(6000, 60_000, 9), 4, 200, 9);
    let case = Case::new(6000, steps).limit(2500);
    let machines = [
        MachineConfig { swappiness: 1, ..case.machine.clone() },
        MachineConfig { swappiness: 200, ..case.machine.clone() },
        MachineConfig { sample: 8, ..case.machine.clone() },
        MachineConfig { hz: 1000, time_slice: Duration::from_ms(1), ..case.machine.clone() },
        MachineConfig { step: Duration::from_us(400), page_cluster: 0, ..case.machine.clone() },
        config(Bytes::from_gib(6), DeviceKind::Zram),
    ];
    for machine in machines {
        Case { machine: machine.clone(), ..case.clone() }.assert_lean(&format!("{machine:?}"));
    }
}

#[test]
fn groups_and_no_limit() {
    let case = Case::new(4000, accesses(zipf(4000, 40_000, 13), 4, 200, 13));
    case.assert_lean("no limit");
    Case { outer: Some(Limit::Unlimited), ..case.clone() }.limit(1500).assert_lean("a group in a group");
    let outer = Some(Limit::At(Pages::new(1000)));
    assert_eq!(Case { outer, ..case.clone() }.limit(1500).compare("a limit above"), [false; 4]);
    let machine = config(Bytes::from_mib(12), DeviceKind::Zram);
    assert_eq!(Case { machine: machine.clone(), ..case.clone() }.compare("short of memory"), [false; 4]);
    let disk = config(Bytes::from_mib(64), DeviceKind::Nvme);
    assert_eq!(Case { machine: disk, ..case.clone() }.limit(1500).compare("another device"), [false; 4]);
    let batches = MachineConfig { lru_batches: true, ..case.machine.clone() };
    assert_eq!(Case { machine: batches, ..case.clone() }.limit(1500).compare("batches"), [false; 4]);
    let old = MachineConfig { kernel: isotherm_kernel::memory::KernelRelease::V6_12, ..case.machine.clone() };
    assert_eq!(Case { machine: old, ..case }.limit(1500).compare("6.12"), [true, true, true, false]);
}

/// Counters are added up every two seconds of a run of a minute.
#[test]
fn lazy_statistics() {
    for limit in [4000, 2500, 600] {
        let case = Case::new(6000, accesses(zipf(6000, 60_000, limit), 4, 1_000_000, limit)).limit(limit);
        let machine = MachineConfig { lazy_statistics: true, ..case.machine.clone() };
        Case { machine, ..case }.assert_lean(&format!("lazy statistics, {limit}"));
    }
}

#[test]
fn a_run_that_is_cut_off() {
    for ms in [1, 9, 10, 33, 90] {
        let steps = accesses(zipf(4000, 200_000, ms), 4, 300, ms);
        let case = Case::new(4000, steps).limit(1500);
        Case { until: Instant::START + Duration::from_ms(ms), ..case }.assert_lean(&format!("{ms} ms"));
    }
}

#[test]
fn what_is_not_covered_is_played_in_full() {
    let steps = |after: After| {
        let mut steps = accesses(zipf(3000, 30_000, 7), 4, 100, 7);
        steps[4].1 = after;
        steps
    };
    let of = |after: After| Case::new(3000, steps(after)).limit(1200);
    let cases = [
        ("an unmapped range", of(After::Change(LayoutChange::Unmap(PageRange::at(1100, 500))))),
        ("an advice", of(After::Change(LayoutChange::Advise(PageRange::at(1100, 500), Advice::Cold)))),
        ("a thread that is not there", of(After::Start(3))),
        ("a bad access", Case::new(2000, accesses(zipf(3000, 30_000, 7), 4, 100, 7)).limit(1200)),
        ("a limit of a few pages", Case::new(300, accesses(zipf(300, 3000, 7), 4, 100, 7)).limit(0)),
    ];
    for (what, case) in cases {
        assert_eq!(case.compare(what), [false; 4], "{what}");
    }
    let full = of(After::Continue);
    let swap = SwapConfig { size: Some(Bytes::from_mib(4)), ..full.machine.swap.clone() };
    let machine = MachineConfig { swap, ..full.machine.clone() };
    assert_eq!(Case { machine, ..full }.compare("full swap"), [false; 4]);
}

#[test]
fn forks_go_on_alike_and_limits_may_be_set() {
    for policy in POLICIES {
        let case = Case::new(4000, accesses(zipf(4000, 60_000, 11), 5, 500, 11)).limit(100_000);
        for limit in [3800, 2500, 1500] {
            let play = |in_full: bool| {
                let mut trunk = case.begin(policy, in_full);
                let group = trunk.group("/app").unwrap();
                let is_below = trunk.play_below(group, Pages::new(limit)).unwrap();
                let mut branch = trunk.fork().unwrap();
                branch.limit(group, Pages::new(limit));
                (is_below, branch.finish().unwrap(), trunk.finish().unwrap())
            };
            let (expected, got) = (play(true), play(false));
            assert_eq!(got.0, expected.0);
            assert_same(&got.1, &expected.1, &format!("{policy}, branch at {limit}"));
            assert_same(&got.2, &expected.2, &format!("{policy}, trunk at {limit}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn random_small_traces(
        seed in any::<u64>(),
        pages in 40u64..1200,
        percent in 5u64..110,
        hot in 1u64..100,
        reads in 0u64..4,
        think_ns in 0u32..4000,
        accesses_max in 100usize..6000,
    ) {
        let mut random = Random::new(seed);
        let hot = 1 + pages * hot / 100;
        let mut steps = Steps::new();
        let mut left = accesses_max;
        while left > 0 {
            let len = left.min(1 + random.below(700) as usize);
            left -= len;
            let base = random.below(pages);
            let runs = (0..len).map(|at| {
                let page = match random.below(3) {
                    0 => random.below(pages),
                    1 => random.below(hot),
                    _ => (base + at as u64) % pages,
                };
                let most = (pages - page).min(if random.below(10) == 0 { 90 } else { 1 });
                let nr = u32::try_from(1 + random.below(most)).unwrap();
                let run = if reads > 0 && random.below(reads) == 0 { Run::read(1000 + page, nr) } else { Run::write(1000 + page, nr) };
                run.after_ns(think_ns)
            });
            let runs = runs.collect();
            let span = Duration::from_us(random.below(3000));
            let after = match random.below(6) {
                0 => After::Sleep(span),
                1 => After::Compute(span),
                _ => After::Continue,
            };
            steps.push((runs, after));
        }
        Case::new(pages, steps).limit(pages * percent / 100).compare(&format!("seed {seed}"));
    }
}
