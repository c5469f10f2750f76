//! HeatCompact against a host of single pages: the guarantees of docs/spec/compaction.md#s8-3.

use super::fake::{BLOCK, Machine, Page};
use super::*;
use crate::compaction::{BudgetLimit, Decision, ZoneReport};
use proptest::prelude::*;

fn at_ms(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// Blocks of `movable` pages at their beginnings, which are used at these periods (0: never), and `fixed` ones behind.
fn machine(blocks: &[(u32, u64, u32)]) -> Machine {
    let mut name = 0;
    let mut named = || {
        name += 1;
        name
    };
    let block = |&(movable, period_ns, fixed): &(u32, u64, u32)| {
        let mut pages: Vec<Page> =
            (0..movable).map(|_| Page::Movable { name: named(), period_ns, cleared_at: 0 }).collect();
        pages.extend((0..fixed).map(|_| Page::Fixed(named())));
        pages.resize(BLOCK, Page::Free);
        pages
    };
    Machine { blocks: blocks.iter().map(block).collect(), ..Machine::default() }
}

fn keeping(keep: u64) -> HeatConfig {
    HeatConfig { keep, ..HeatConfig::default() }
}

fn play(config: &HeatConfig, machine: &mut Machine, until: Instant) -> (Vec<Decision>, Vec<ZoneReport>) {
    let mut heat = Heat::new(config.clone(), NodeId(0), Instant::START).expect("settings that make sense");
    let (mut decisions, mut reports) = (Vec::new(), Vec::new());
    let mut now = Instant::START;
    while let Some(due) = heat.poll_timeout().filter(|&due| due.max(now) < until) {
        now = now.max(due);
        machine.now_ns = now.ns();
        let activity = heat.handle_timeout(now, machine).expect("a host that answers");
        now = after(now, activity.spent);
        decisions.extend(activity.decision);
        reports.extend(activity.report);
    }
    (decisions, reports)
}

/// One attempt; what came of it.
fn once(config: &HeatConfig, machine: &mut Machine) -> ZoneReport {
    let (_, reports) = play(config, machine, at_ms(900));
    *reports.first().unwrap_or_else(|| panic!("it did not end in time: {:?}", machine.batches.len()))
}

#[test]
fn it_frees_what_is_wanted_from_the_emptiest_blocks() {
    let mut machine = machine(&[(128, 0, 0), (40, 0, 0), (200, 0, 0), (64, 0, 0), (10, 0, 100)]);
    let report = once(&keeping(1), &mut machine);
    // One and a quarter to spare: two blocks.
    assert_eq!((report.why, report.work.blocks_freed, report.work.pages_moved), (Why::ReachedLow, 2, 104));
    assert_eq!((report.extfrag_before, machine.free_blocks()), (100, 2));
    assert_eq!(report.work.pages_in_vain, 0);
    let sources: Vec<u32> = machine.batches.iter().map(|batch| batch.0).collect();
    assert_eq!(sources, [1, 1, 3, 3], "in batches of 32");
    let filled = machine.blocks[4].iter().filter(|page| matches!(page, Page::Movable { .. })).count();
    assert_eq!(filled, 114, "what can never be free is filled first");
    assert_eq!(report.work.blocks_spoiled_unmovable, 1);
}

/// Section 8.3, step 2: the more a block is used, the smaller its batches; step 6: pages in use alone, at the end.
#[test]
fn pages_in_use_go_last_and_alone() {
    let mut machine = machine(&[(128, 0, 0), (128, 0, 0), (300, 0, 0), (300, 0, 0)]);
    for (name, (block, at)) in (9000..).zip([(0, 3), (0, 77), (1, 3), (1, 77)]) {
        machine.blocks[block][at] = Page::Movable { name, period_ns: 100_000, cleared_at: 0 };
    }
    let report = once(&keeping(1), &mut machine);
    assert_eq!((report.why, report.work.blocks_freed), (Why::ReachedLow, 2), "{:?}", machine.batches);
    let hot: Vec<&(u32, u32, u64)> = machine.batches.iter().filter(|batch| batch.2 > 0).collect();
    assert_eq!(hot.iter().map(|batch| batch.1).collect::<Vec<_>>(), [1, 1, 1, 1], "{:?}", machine.batches);
}

#[test]
fn hot_blocks_stay() {
    // Two blocks in use throughout have fewer pages, and are left where they are.
    let hot = (64, 100_000, 0);
    let blocks = [hot, hot, (128, 0, 0), (128, 0, 0), (128, 0, 0), (128, 0, 0)];
    let mut machine = machine(&blocks);
    let report = once(&keeping(1), &mut machine);
    assert_eq!((report.why, report.work.pages_moved), (Why::ReachedLow, 256));
    assert!(machine.batches.iter().all(|batch| batch.0 >= 2), "{:?}", machine.batches);
    // More than the cold ones are predicted to give: they are emptied into those in use, which stay.
    let mut machine = self::machine(&blocks);
    let report = once(&keeping(5), &mut machine);
    assert_eq!((report.why, report.work.blocks_freed), (Why::ReachedLow, 4));
    assert!(machine.batches.iter().all(|batch| batch.0 >= 2), "{:?}", machine.batches);
    let mut all_hot = self::machine(&[hot; 6]);
    let report = once(&keeping(1), &mut all_hot);
    assert_eq!((report.why, report.work.pages_moved), (Why::HeatBlocked, 0));
}

/// Step 8.
#[test]
fn waits_are_limited_in_each_span() {
    // Pages used once in 100 ms: seen in every epoch, rarely while a block is watched.
    let mut machine = machine(&[(128, 100_000_000, 0); 40]);
    let mut config = HeatConfig { span_stall: Duration::from_us(1), ..keeping(8) };
    config.prices.stall_weight = 0;
    let (_, reports) = play(&config, &mut machine, at_ms(20_000));
    let fast = HeatConfig { span_stall: Duration::from_secs(1), ..config };
    let mut same = self::machine(&[(128, 100_000_000, 0); 40]);
    let (_, fast_reports) = play(&fast, &mut same, at_ms(20_000));
    assert!(fast_reports[0].work.blocks_freed > 0);
    assert!(reports.is_empty() || reports[0].work.blocks_freed < fast_reports[0].work.blocks_freed);
}

#[test]
fn budgets_end_it_and_of_zero_do_nothing() {
    for (budget, why) in [
        (Budget { pages: Some(0), ..Budget::default() }, Why::Budget(BudgetLimit::Pages)),
        (Budget { cpu: Some(Duration::ZERO), ..Budget::default() }, Why::Budget(BudgetLimit::Cpu)),
        (Budget { wall: Some(Duration::ZERO), ..Budget::default() }, Why::Budget(BudgetLimit::Wall)),
        (Budget { fruitless_pages: Some(0), ..Budget::default() }, Why::NoProgress),
    ] {
        let mut machine = machine(&[(128, 0, 0); 8]);
        let report = once(&HeatConfig { budget, ..keeping(2) }, &mut machine);
        assert_eq!((report.why, report.work.pages_moved), (why, 0));
    }
    let mut machine = machine(&[(128, 0, 0); 100]);
    let budget = Budget { pages: Some(500), ..Budget::default() };
    let report = once(&HeatConfig { budget, ..keeping(50) }, &mut machine);
    assert_eq!(report.why, Why::Budget(BudgetLimit::Pages));
    assert!((500..532).contains(&report.work.pages_moved), "one batch over at most: {}", report.work.pages_moved);
}

#[test]
fn kswapd_and_missing_room_end_it() {
    let mut busy = machine(&[(128, 0, 0); 8]);
    let mut heat = Heat::new(keeping(2), NodeId(0), Instant::START).unwrap();
    heat.handle_timeout(Instant::START, &mut busy).unwrap();
    busy.signals.is_reclaiming = true;
    let mut now = Instant::START;
    let report = loop {
        now = heat.poll_timeout().unwrap().max(now);
        if let Some(report) = heat.handle_timeout(now, &mut busy).unwrap().report {
            break report;
        }
    };
    assert_eq!((report.why, report.work.pages_moved), (Why::ReclaimRunning, 0));
    let mut full = machine(&[(512, 0, 0), (511, 0, 0)]);
    let (decisions, reports) = play(&keeping(1), &mut full, at_ms(3000));
    assert!(reports.is_empty() && decisions.iter().all(|check| check.verdict == Verdict::Hold(Hold::NoYield)));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let said = |config: HeatConfig| Heat::new(config, NodeId(0), Instant::START).unwrap_err().to_string();
    let base = HeatConfig::default;
    assert_eq!(said(HeatConfig { epoch: Duration::ZERO, ..base() }), "`epoch` is 0ns; allowed: 1ms to 1m");
    assert_eq!(said(HeatConfig { settle: Duration::ZERO, ..base() }), "`settle` is 0ns; allowed: 10us to 1m");
    assert_eq!(said(HeatConfig { samples: 0, ..base() }), "`samples` is 0; allowed: 1 to 512");
    assert_eq!(said(HeatConfig { warm_up: 0, ..base() }), "`warm-up` is 0; allowed: 1 to 1000 epochs");
    assert_eq!(said(HeatConfig { interval: Duration::ZERO, ..base() }), "`interval` is 0ns; allowed: 1ms and more");
}

prop_compose! {
    fn some_machine()(
        blocks in prop::collection::vec(
            prop::collection::vec(prop_oneof![
                6 => Just((1u32, 0u64)),
                1 => (Just(1u32), prop_oneof![Just(300_000u64), Just(5_000_000), Just(80_000_000)]),
                20 => Just((0u32, 0u64)),
                1 => Just((2u32, 0u64)),
            ], 0..512),
            2..14,
        ),
        without_fixed in prop::collection::vec(any::<bool>(), 14),
        closed in prop::collection::vec(0u32..14, 0..3),
    ) -> Machine {
        let mut name = 0;
        let blocks = blocks.iter().zip(&without_fixed).map(|(pages, is_clean)| {
            let mut pages: Vec<Page> = pages.iter().map(|&(kind, period_ns)| {
                name += 1;
                match kind {
                    1 => Page::Movable { name, period_ns, cleared_at: 0 },
                    2 if !is_clean => Page::Fixed(name),
                    _ => Page::Free,
                }
            }).collect();
            pages.resize(BLOCK, Page::Free);
            pages
        }).collect();
        Machine { blocks, closed, ..Machine::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Section 8.3: no unmovable page moves, none is lost, free blocks are never fewer, and what was moved lay in blocks that
    /// were to be emptied.
    #[test]
    fn what_it_guarantees(mut machine in some_machine(), keep in 1u64..12, min_mark in 0u64..300) {
        machine.min_mark = min_mark;
        let (fixed, free) = (machine.names(true), machine.free_blocks());
        let names = |machine: &Machine| machine.names(false).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let movable = names(&machine);
        let mut before = machine.free_blocks();
        let config = keeping(keep);
        let mut heat = Heat::new(config, NodeId(0), Instant::START).unwrap();
        let mut now = Instant::START;
        while let Some(due) = heat.poll_timeout().filter(|&due| due.max(now) < at_ms(5000)) {
            now = now.max(due);
            machine.now_ns = now.ns();
            let activity = heat.handle_timeout(now, &mut machine).unwrap();
            now = after(now, activity.spent);
            prop_assert!(machine.free_blocks() >= before, "a free block was broken");
            before = machine.free_blocks();
        }
        prop_assert_eq!(machine.names(true), fixed);
        prop_assert_eq!(names(&machine), movable);
        prop_assert!(machine.free_blocks() >= free);
        let moved: u64 = machine.batches.iter().map(|batch| u64::from(batch.1)).sum();
        prop_assert!(moved <= machine.watched, "{moved} of {}", machine.watched);
    }

    /// Section 8.3: with a stall budget of nothing only pages move that nobody uses.
    #[test]
    fn without_a_budget_for_waits_nothing_in_use_moves(mut machine in some_machine(), keep in 1u64..12) {
        let mut config = keeping(keep);
        config.budget.stall = Some(Duration::ZERO);
        // Looked at all of them, and long enough for the rarest use.
        config.samples = 512;
        config.settle = Duration::from_ms(90);
        play(&config, &mut machine, at_ms(5000));
        prop_assert!(machine.batches.iter().all(|&(_, _, rate)| rate == 0), "{:?}", machine.batches);
    }
}
