//! Huge pages that have to be made, in whole machines: who pays, who waits, and the memory that is left.

use super::tests::{config, program, script};
use super::*;
use isotherm_kernel::compaction::{CompactionConfig, Defrag, HugePath};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{
    Advice, After, BlockEffort, BlockKind, BlockRequest, KernelCall, LayoutChange, Mapping, Run,
};
use isotherm_units::{Bytes, PageRange};

const MIB: u64 = 256;

/// Writes all of its memory, then drops the first three quarters of each 2 MiB.
fn fragmenter(pages: u64) -> Vec<(Vec<Run>, After)> {
    let mut steps = vec![(vec![Run::write(0, u32::try_from(pages).unwrap())], After::Continue)];
    let holes = (0..pages / 512).map(|block| PageRange::at(block * 512, 384));
    steps.extend(holes.map(|hole| (Vec::new(), After::Change(LayoutChange::Advise(hole, Advice::DontNeed)))));
    steps
}

const fn take(kind: BlockKind, order: u32, effort: BlockEffort, count: u64, failures: u64) -> After {
    After::Kernel(KernelCall::Take(BlockRequest { tag: 7, order, kind, effort, count, failures }))
}

fn machine(compaction: CompactionConfig, policy: &str) -> MachineBuilder {
    let config = MachineConfig { compaction, cpus: 4, ..config(Bytes::from_mib(64), DeviceKind::None) };
    let mut builder = MachineBuilder::new(&config, policy_by_name(policy).unwrap().build()).unwrap();
    builder.strict();
    builder
}

fn play(mut builder: MachineBuilder, programs: Vec<Program>) -> Outcome {
    for program in programs {
        let id = builder.add_program(program, CgroupId::ROOT).unwrap();
        builder.start_at(id, Instant::START);
    }
    builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap()
}

fn count(outcome: &Outcome, counter: Counter) -> u64 {
    outcome.system().counters.get(counter)
}

/// A driver takes huge pages in fragmented memory, as the original does: first free ones, then ones that it makes. A program that uses the
/// rest of the memory waits for pages in flight, and loses nothing else.
#[test]
fn a_driver_makes_huge_pages_and_others_wait_for_their_pages() {
    for policy in ["classic", "mglru"] {
        let pages = 56 * MIB;
        let mut steps = fragmenter(pages);
        steps.push((Vec::new(), After::Sleep(Duration::from_secs(1))));
        let uses: Vec<Run> = (0..200_000u64)
            .map(|at| Run::read(at * 7919 % (pages / 512) * 512 + 384 + at * 31 % 128, 1).after_ns(500))
            .collect();
        steps.push((uses, After::Continue));
        let driver = vec![
            (Vec::new(), After::Sleep(Duration::from_ms(1010))),
            (Vec::new(), take(BlockKind::Movable, 9, BlockEffort::LightThenFallback, 1000, 100)),
            (Vec::new(), After::Sleep(Duration::from_ms(500))),
            (Vec::new(), After::Kernel(KernelCall::Give { tag: 7, count: u64::MAX })),
        ];
        let programs = vec![program("user", vec![script(steps)]), program("driver", vec![script(driver)])];
        let outcome = play(machine(CompactionConfig::default(), policy), programs);
        let [user, driver] = &outcome.programs[..] else { panic!("two") };
        assert_eq!([user.ending, driver.ending], [Ending::Finished; 2], "{policy}");
        let got = |path| driver.blocks.iter().filter(|block| block.got && block.path == path).count();
        let (light, fallback) = (got(HugePath::Light), got(HugePath::Fallback));
        // 64 MiB are 32 blocks, 28 of them fragmented; three quarters of those can be freed.
        assert!(light >= 1 && fallback >= 10 && light + fallback <= 26, "{policy}: {light} and {fallback}");
        assert_eq!(driver.blocks.iter().filter(|block| !block.got).count(), 100, "{policy}: all that may fail");
        let slowest_light =
            driver.blocks.iter().filter(|block| block.path == HugePath::Light).map(|block| block.latency_ns);
        let fastest_fallback = driver.blocks.iter().filter(|block| block.path == HugePath::Fallback && block.got);
        let (slowest, fastest) = (slowest_light.max(), fastest_fallback.map(|block| block.latency_ns).min());
        assert!(slowest < fastest, "{policy}: {slowest:?} {fastest:?}");
        let moved = count(&outcome, Counter::PgMigrateSuccess);
        assert!(moved >= 128 * fallback as u64, "{policy}: {moved}");
        assert_eq!(count(&outcome, Counter::CompactSuccess), fallback as u64, "{policy}");
        assert!(!user.migration_stalls_ns.is_empty(), "{policy}: somebody waited");
        assert_eq!(user.migration_stalls_ns.iter().sum::<u64>(), user.time.migration_wait_ns, "{policy}");
        // The wait for a page ends with its batch: at most all of a page block under one flush.
        let longest = *user.migration_stalls_ns.last().unwrap();
        assert!(longest < 128 * 5000 + 20_000, "{policy}: {longest} ns");
        assert!(outcome.kernel.direct_compaction_ns > 0 && driver.migration_stalls_ns.is_empty(), "{policy}");
    }
}

/// The effort of faults for a huge page, by `compaction`.
#[test]
fn a_fault_compacts_if_it_may() {
    let of = |defrag| {
        let pages = 56 * MIB;
        let mut user = program(
            "user",
            vec![script({
                let mut steps = fragmenter(pages);
                let at = 1 << 18;
                let map = Mapping { huge: true, ..Mapping::anonymous(PageRange::at(at, 4 * 512)) };
                steps.push((Vec::new(), After::Change(LayoutChange::Map(map))));
                // The first takes what was never used.
                steps.push((
                    (0..4).map(|block| Run::write(at + block * 512, 1)).collect(),
                    After::Sleep(Duration::from_secs(2)),
                ));
                steps
            })],
        );
        user.processes[0].layout = vec![Mapping::anonymous(PageRange::new(0, pages))];
        // Nothing but pieces: the rest is the driver's.
        let driver = vec![(Vec::new(), take(BlockKind::Movable, 9, BlockEffort::Light, 3, 1))];
        let outcome = play(
            machine(CompactionConfig { defrag, ..CompactionConfig::default() }, "classic"),
            vec![program("driver", vec![script(driver)]), user],
        );
        let counts =
            [Counter::ThpFaultAlloc, Counter::ThpFaultFallback, Counter::CompactStall, Counter::CompactDaemonWake];
        (counts.map(|counter| count(&outcome, counter)), outcome.programs[1].blocks.len())
    };
    let ([got, fallback, stalls, wakes], reported) = of(Defrag::Never);
    assert!(
        got < 4 && fallback == 4 - got && (stalls, wakes, reported) == (0, 0, 0),
        "{got} {fallback} {stalls} {wakes} {reported}"
    );
    let ([got, fallback, stalls, wakes], reported) = of(Defrag::Madvise);
    assert!(
        (got, fallback, wakes, reported) == (4, 0, 0, 4) && stalls > 0,
        "{got} {fallback} {stalls} {wakes} {reported}"
    );
    let ([got, fallback, stalls, wakes], reported) = of(Defrag::Defer);
    assert!(
        got < 4 && got + fallback == 4 && stalls == 0 && wakes > 0 && reported == 4,
        "{got} {fallback} {stalls} {wakes}"
    );
}

/// docs/spec/compaction.md#s2-5: memory of the kernel that takes parts of movable page blocks boosts the watermarks; kswapd wakes
/// for that, and kcompactd after it.
#[test]
fn claims_wake_kswapd_and_kcompactd() {
    // A driver takes this number of whole page blocks before.
    let of = |whole: u64| {
        let mut steps = fragmenter(56 * MIB);
        steps.push((Vec::new(), After::Sleep(Duration::from_secs(1))));
        let user = program("user", vec![script(steps)]);
        let driver = vec![
            (Vec::new(), After::Sleep(Duration::from_ms(200))),
            (Vec::new(), take(BlockKind::Movable, 9, BlockEffort::Light, whole, 1)),
            (Vec::new(), take(BlockKind::Unmovable, 0, BlockEffort::Normal, 200, 1)),
            (Vec::new(), After::Sleep(Duration::from_ms(100))),
        ];
        let programs = vec![user, program("driver", vec![script(driver)])];
        let outcome = play(machine(CompactionConfig::default(), "classic"), programs);
        [Counter::PageOutRun, Counter::CompactDaemonWake].map(|counter| count(&outcome, counter))
    };
    let [runs, wakes] = of(1000);
    assert!(runs > 0 && wakes > 0, "{runs} {wakes}");
    assert_eq!(of(0), [0, 0], "whole page blocks are claimed without a boost");
}

/// A budget of nothing does nothing and says so, and so does a proactiveness that never starts.
#[test]
fn daemons_that_can_do_nothing_say_so() {
    use isotherm_core::compaction::{Budget, Design, ExplicitConfig, MergedConfig, Proactiveness};
    let of = |design: &Design| {
        let mut steps = fragmenter(56 * MIB);
        steps.push((Vec::new(), After::Sleep(Duration::from_secs(12))));
        let mut builder = machine(CompactionConfig::default(), "classic");
        builder.compaction("daemon", design, 0).unwrap();
        let outcome = play(builder, vec![program("user", vec![script(steps)])]);
        let daemon = outcome.compaction[0].clone();
        (daemon.pages_moved, daemon.starts, daemon.words.join("; "))
    };
    let explicit = |budget| Design::Explicit(ExplicitConfig { budget, ..ExplicitConfig::default() });
    let (moved, starts, words) = of(&explicit(Budget::default()));
    assert!(moved > 0 && starts > 0 && !words.contains("is 0"), "{words}");
    for (budget, named) in [
        (Budget { pages: Some(0), ..Budget::default() }, "its budget of pages is 0"),
        (Budget { cpu: Some(Duration::ZERO), ..Budget::default() }, "its budget of CPU time is 0"),
        (Budget { wall: Some(Duration::ZERO), ..Budget::default() }, "its budget of time is 0"),
        (Budget { fruitless_pages: Some(0), ..Budget::default() }, "its budget of pages looked at in vain is 0"),
    ] {
        let (moved, _, words) = of(&explicit(budget));
        assert!(moved == 0 && words.contains(named) && words.contains("nothing is done"), "{words}");
    }
    for (proactiveness, expected) in [(0, true), (1, true), (10, true), (11, false)] {
        let proactiveness = Proactiveness::try_from(proactiveness).unwrap();
        let (moved, _, words) = of(&Design::Merged(MergedConfig { proactiveness, ..MergedConfig::default() }));
        assert_eq!(words.contains("never starts it"), expected, "{words}");
        assert!(!expected || moved == 0, "{words}");
    }
}

/// Memory of the kernel is no process's page: it stays where it is, and comes back when it is given back.
#[test]
fn memory_of_the_kernel_is_taken_and_given_back() {
    let kinds = [(BlockKind::Unmovable, 0, 3000), (BlockKind::Reclaimable, 1, 500), (BlockKind::Movable, 9, 2)];
    let mut steps = Vec::new();
    for (kind, order, blocks) in kinds {
        steps.push((Vec::new(), take(kind, order, BlockEffort::Normal, blocks, 1)));
    }
    steps.push((Vec::new(), After::Kernel(KernelCall::Give { tag: 7, count: 3100 })));
    steps.push((Vec::new(), After::Kernel(KernelCall::Give { tag: 8, count: 1 })));
    steps.push((Vec::new(), After::Sleep(Duration::from_ms(10))));
    let mut builder = machine(CompactionConfig::default(), "classic");
    builder.record_series(Duration::from_ms(5));
    let outcome = play(builder, vec![program("kernel", vec![script(steps)])]);
    let blocks = &outcome.programs[0].blocks;
    assert_eq!((blocks.len(), blocks.iter().all(|block| block.got)), (3502, true));
    let free = outcome.series.last().unwrap().free_pages;
    assert_eq!(free, 64 * MIB - 400 * 2 - 2 * 512, "what was not given back stays in use");
    // A block that is too large is an error, not a panic.
    let mut builder = machine(CompactionConfig::default(), "classic");
    let steps = vec![(Vec::new(), take(BlockKind::Unmovable, 11, BlockEffort::Normal, 1, 1))];
    let id = builder.add_program(program("kernel", vec![script(steps)]), CgroupId::ROOT).unwrap();
    builder.start_at(id, Instant::START);
    let error = builder.build().run(Instant::START + Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.to_string(), "`kernel` asks for a block of order 11; allowed: 0 to 10");
}
