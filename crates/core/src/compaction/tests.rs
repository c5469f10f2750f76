//! Designs against a host of page blocks.

use super::fake::{Machine, Zone};
use super::*;
use crate::OutOfRange;
use crate::host::{CompactMode, Compacted, HostError, NodeId};
use isotherm_units::{Duration, Instant};
use proptest::prelude::*;

fn at_ms(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// The original state: three quarters of each block free.
fn fragmented(sections: usize) -> Machine {
    Machine { zones: vec![Zone::of(sections, 128, 0)], ..Machine::default() }
}

fn extfrag(machine: &Machine, zone: usize) -> u32 {
    machine.zones[zone].free_blocks().extfrag(9)
}

fn finish(request: Request, machine: &mut Machine) -> Vec<ZoneReport> {
    let mut work = CompactExtfrag::new(request, Instant::START, machine).expect("a request that makes sense");
    let mut now = Instant::START;
    while let Some(due) = work.poll_timeout() {
        now = now.max(due);
        let spent = work.handle_timeout(now, machine).expect("a host that answers");
        now = Instant::from_ns(now.ns() + spent.ns());
    }
    work.reports().to_vec()
}

/// Plays a design for this time; all decisions and reports.
fn play(design: &mut dyn Compactor, machine: &mut Machine, until: Instant) -> (Vec<Decision>, Vec<ZoneReport>) {
    let (mut decisions, mut reports) = (Vec::new(), Vec::new());
    let mut now = Instant::START;
    while let Some(due) = design.poll_timeout().filter(|&due| due.max(now) < until) {
        now = now.max(due);
        let activity = design.handle_timeout(now, machine).expect("a host that answers");
        now = Instant::from_ns(now.ns() + activity.spent.ns());
        decisions.extend(activity.decision);
        reports.extend(activity.report);
    }
    (decisions, reports)
}

fn starts(decisions: &[Decision]) -> Vec<u64> {
    let started = decisions.iter().filter(|decision| matches!(decision.verdict, Verdict::Start(_)));
    started.map(|decision| decision.at.ns() / 1_000_000).collect()
}

mod explicit {
    use super::*;

    /// The original test: `{low, high}` of 25 and 30 at order 9.
    #[test]
    fn it_goes_from_above_high_to_low() {
        let mut machine = fragmented(400);
        let [report] = finish(Request::new(0, None, 9, 30, 25), &mut machine)[..] else { panic!("one zone") };
        assert_eq!((report.why, report.extfrag_before, report.extfrag_after), (Why::ReachedLow, 100, 25));
        assert_eq!(extfrag(&machine, 0), 25);
        assert_eq!(report.work.pages_moved, report.work.blocks_freed * 128);
        assert!(report.work.cpu > Duration::ZERO && report.work.stalls.count > 0);
        let again = finish(Request::new(0, None, 9, 30, 25), &mut machine);
        assert_eq!((again[0].why, again[0].work), (Why::AlreadyBelowHigh, Compacted::default()), "between the marks");
    }

    #[test]
    fn the_marks_are_strict_above_high_and_inclusive_at_low() {
        let mut machine = fragmented(400);
        finish(Request::new(0, None, 9, 99, 60), &mut machine);
        assert_eq!(extfrag(&machine, 0), 60);
        let at_high = finish(Request::new(0, None, 9, 60, 60), &mut machine);
        assert_eq!(at_high[0].why, Why::AlreadyBelowHigh);
        let above = finish(Request::new(0, None, 9, 59, 59), &mut machine);
        assert_eq!((above[0].why, above[0].extfrag_after), (Why::ReachedLow, 59));
    }

    #[test]
    fn a_budget_of_zero_does_nothing_and_says_so() {
        let zero = Some(Duration::ZERO);
        for (budget, why) in [
            (Budget { pages: Some(0), ..Budget::default() }, Why::Budget(BudgetLimit::Pages)),
            (Budget { cpu: zero, ..Budget::default() }, Why::Budget(BudgetLimit::Cpu)),
            (Budget { stall: zero, ..Budget::default() }, Why::Budget(BudgetLimit::Stall)),
            (Budget { wall: zero, ..Budget::default() }, Why::Budget(BudgetLimit::Wall)),
            (Budget { fruitless_pages: Some(0), ..Budget::default() }, Why::NoProgress),
        ] {
            let mut machine = fragmented(100);
            let reports = finish(Request { budget, ..Request::new(0, None, 9, 30, 25) }, &mut machine);
            assert_eq!((reports[0].why, reports[0].work), (why, Compacted::default()));
            assert!(machine.steps.is_empty(), "{why:?}");
        }
    }

    #[test]
    fn budgets_end_it() {
        let mut machine = fragmented(1000);
        let pages = Budget { pages: Some(1000), ..Budget::default() };
        let reports = finish(Request { budget: pages, ..Request::new(0, None, 9, 30, 25) }, &mut machine);
        assert_eq!(reports[0].why, Why::Budget(BudgetLimit::Pages));
        assert!((1000..1128).contains(&reports[0].work.pages_moved), "one batch over at most: {:?}", reports[0]);
        let mut machine = fragmented(1000);
        let wall = Budget { wall: Some(Duration::from_ms(10)), ..Budget::default() };
        let reports = finish(Request { budget: wall, ..Request::new(0, None, 9, 30, 25) }, &mut machine);
        // 8 blocks a step, 128 pages of 4.5 µs a block: 4.6 ms a step.
        assert_eq!((reports[0].why, machine.steps.len()), (Why::Budget(BudgetLimit::Wall), 3));
    }

    #[test]
    fn a_budget_is_for_all_zones_together() {
        let mut machine = Machine { zones: vec![Zone::of(100, 128, 0); 2], ..Machine::default() };
        let budget = Budget { pages: Some(4000), ..Budget::default() };
        let reports = finish(Request { budget, ..Request::new(0, None, 9, 30, 25) }, &mut machine);
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[1].why, Why::Budget(BudgetLimit::Pages));
        assert!(reports.iter().map(|report| report.work.pages_moved).sum::<u64>() < 4128);
    }

    #[test]
    fn one_zone_or_all_that_are_above() {
        let zones = vec![Zone::of(50, 0, 0), Zone::of(100, 128, 0), Zone::of(200, 128, 0)];
        let machine = Machine { zones, ..Machine::default() };
        let whys = |zone| {
            let reports = finish(Request::new(0, zone, 9, 30, 25), &mut machine.clone());
            reports.iter().map(|report| (report.zone.zone, report.why)).collect::<Vec<_>>()
        };
        assert_eq!(whys(Some(1)), [(1, Why::ReachedLow)]);
        assert_eq!(whys(None), [(0, Why::AlreadyBelowHigh), (1, Why::ReachedLow), (2, Why::ReachedLow)]);
    }

    /// Section 9.3, situation 7: too little is free.
    #[test]
    fn nearly_full_memory_is_left_alone_unless_quirks_are_asked_for() {
        let mut machine = Machine { zones: vec![Zone::of(100, 511, 0)], ..Machine::default() };
        machine.zones[0].marks = Marks { min: 60, low: 75, high: 90 };
        // 100 pages are free; 60 + 15 + 32 and one more are needed.
        let request = Request::new(0, None, 9, 30, 25);
        assert_eq!(finish(request.clone(), &mut machine)[0].why, Why::NoTargets);
        assert!(machine.steps.is_empty());
        let quirks = Request { kernel_quirks: true, ..request };
        assert_eq!(finish(quirks, &mut machine)[0].why, Why::ScannersMet);
        assert!(machine.steps.iter().all(|step| !step.counts_in_flight) && !machine.steps.is_empty());
        let mut full = Machine { zones: vec![Zone::of(100, 512, 0)], ..Machine::default() };
        assert_eq!(finish(Request::new(0, None, 9, 0, 0), &mut full)[0].why, Why::AlreadyBelowHigh, "nothing is free");
    }

    #[test]
    fn a_goal_that_cannot_be_met_ends_where_the_scanners_meet() {
        let mut machine = Machine { zones: vec![Zone::of(100, 0, 128)], ..Machine::default() };
        let report = finish(Request::new(0, None, 9, 30, 25), &mut machine)[0];
        assert_eq!((report.why, report.extfrag_after, report.work.blocks_freed), (Why::ScannersMet, 100, 0));
        assert_eq!(report.work.blocks_spoiled_unmovable, 99);
        let budget = Budget { fruitless_pages: Some(8192), ..Budget::default() };
        let report = finish(Request { budget, ..Request::new(0, None, 9, 30, 25) }, &mut machine)[0];
        assert_eq!((report.why, report.work.scanned_migrate), (Why::NoProgress, 8192));
    }

    #[test]
    fn kswapd_and_the_caller_end_it() {
        let mut machine = fragmented(100);
        machine.signals.is_reclaiming = true;
        assert_eq!(finish(Request::new(0, None, 9, 30, 25), &mut machine)[0].why, Why::ReclaimRunning);
        let mut machine = fragmented(100);
        let mut work = CompactExtfrag::new(Request::new(0, None, 9, 30, 25), at_ms(5), &mut machine).unwrap();
        assert_eq!(work.handle_timeout(at_ms(4), &mut machine), Ok(Duration::ZERO));
        assert!(machine.steps.is_empty(), "too early");
        work.handle_timeout(at_ms(5), &mut machine).unwrap();
        work.cancel();
        work.handle_timeout(at_ms(6), &mut machine).unwrap();
        assert_eq!((work.reports()[0].why, work.poll_timeout()), (Why::Cancelled, None));
        assert!(work.reports()[0].work.pages_moved > 0);
        assert_eq!(work.handle_timeout(at_ms(7), &mut machine), Ok(Duration::ZERO), "it is done");
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let mut machine = fragmented(10);
        let mut said =
            |request: Request| CompactExtfrag::new(request, Instant::START, &mut machine).unwrap_err().to_string();
        for (request, expected) in [
            (Request::new(0, None, 0, 30, 25), "`order` is 0; allowed: 1 to the largest of the zone, mostly 10"),
            (Request::new(0, None, 11, 30, 25), "`order` is 11; allowed: 1 to 10, the largest here"),
            (Request::new(0, None, 99, 30, 25), "`order` is 99; allowed: 1 to the largest of the zone, mostly 10"),
            (Request::new(0, None, 9, 101, 25), "`high` is 101; allowed: 0 to 100 percent"),
            (Request::new(0, None, 9, 25, 30), "`low` is 30; allowed: 0 to `high` (25)"),
            (Request::new(3, None, 9, 30, 25), "`node` is 3; allowed: 0"),
            (Request::new(0, Some(2), 9, 30, 25), "`zone` is 2; allowed: 0"),
        ] {
            assert_eq!(said(request), expected);
        }
        let written = "node = 0\norder = 9\nhigh = 30\nlow = 25\n[budget]\npages = 1000\nstall = \"5ms\"\n";
        let request: Request = toml::from_str(written).unwrap();
        assert_eq!(request.budget.stall, Some(Duration::from_ms(5)));
        assert_eq!(toml::from_str::<Request>(&toml::to_string(&request).unwrap()).unwrap(), request);
        assert!(toml::from_str::<Request>(&format!("{written}steps = 1")).is_err());
    }

    #[test]
    fn a_host_that_fails_ends_it() {
        let mut machine = fragmented(100);
        let mut work = CompactExtfrag::new(Request::new(0, None, 9, 30, 25), Instant::START, &mut machine).unwrap();
        machine.refusal = Some(HostError::Failed("EIO".to_owned()));
        assert!(work.handle_timeout(Instant::START, &mut machine).is_err());
        assert_eq!(work.poll_timeout(), None);
    }
}

mod caller {
    use super::*;

    #[test]
    fn it_asks_again_and_again() {
        let mut machine = Machine { zones: vec![Zone::of(40, 0, 0), Zone::of(400, 128, 0)], ..Machine::default() };
        let mut caller = Explicit::new(ExplicitConfig::default(), NodeId(0), Instant::START).unwrap();
        let (decisions, reports) = play(&mut caller, &mut machine, at_ms(12_000));
        assert_eq!((starts(&decisions), decisions.len()), (vec![0], 3), "every 5 s, and once above the mark");
        let whys: Vec<(u8, Why)> = reports.iter().map(|report| (report.zone.zone, report.why)).collect();
        assert_eq!(whys, [(0, Why::AlreadyBelowHigh), (1, Why::ReachedLow)]);
        assert_eq!(extfrag(&machine, 1), 25);
        let mut of_none =
            Explicit::new(ExplicitConfig { zone: Some(7), ..ExplicitConfig::default() }, NodeId(0), Instant::START)
                .unwrap();
        let (decisions, _) = play(&mut of_none, &mut machine, at_ms(100));
        assert_eq!((decisions.len(), starts(&decisions)), (1, vec![]));
        let wrong = ExplicitConfig { low: 40, ..ExplicitConfig::default() };
        let said = Explicit::new(wrong, NodeId(0), Instant::START).unwrap_err().to_string();
        assert_eq!(said, "`low` is 40; allowed: 0 to `high` (30)");
    }
}

mod merged {
    use super::*;

    fn merged(proactiveness: u32) -> Merged {
        let proactiveness = Proactiveness::try_from(proactiveness).unwrap();
        Merged::new(MergedConfig { proactiveness, ..MergedConfig::default() }, NodeId(0), Instant::START).unwrap()
    }

    #[test]
    fn it_starts_above_high_and_stops_at_low() {
        let mut machine = fragmented(1000);
        let (decisions, reports) = play(&mut merged(20), &mut machine, at_ms(3000));
        assert_eq!(starts(&decisions), [500]);
        assert_eq!((reports[0].why, reports[0].extfrag_after), (Why::ReachedLow, 80));
        assert_eq!(decisions[0].score, 99, "the node's score is weighted with one page too many");
        assert!(machine.steps.iter().all(|step| !step.counts_in_flight && step.mode == CompactMode::SyncLight));
    }

    /// Section 10: up to 10 it never starts.
    #[test]
    fn small_values_never_start_and_0_is_off() {
        for proactiveness in [1, 5, 10] {
            let (decisions, _) = play(&mut merged(proactiveness), &mut fragmented(100), at_ms(60_000));
            assert!(starts(&decisions).is_empty() && decisions.len() > 100, "p={proactiveness}");
        }
        assert_eq!(merged(0).poll_timeout(), None);
    }

    /// Section 9.3, situation 4, and the author's own test: one attempt each 32 s, each a scan of the whole zone.
    #[test]
    fn a_pinned_quarter_costs_a_scan_each_32_seconds() {
        let mut machine = Machine { zones: vec![Zone::of(100, 0, 128)], ..Machine::default() };
        let (decisions, reports) = play(&mut merged(40), &mut machine, at_ms(100_000));
        assert_eq!(starts(&decisions), [500, 32_500, 64_500, 96_500]);
        assert!(reports.iter().all(|report| report.work.scanned_migrate == 99 * 512));
    }

    /// Section 10: the start is weighted by node, the stop is not. Small zones without a problem are compacted, and a large unfragmented
    /// zone hides a small fragmented one.
    #[test]
    fn zones_are_weighted_to_start_but_not_to_stop() {
        let zones = vec![Zone::of(100, 128, 0), Zone::of(1000, 0, 0)];
        let mut hidden = Machine { zones, ..Machine::default() };
        let (decisions, _) = play(&mut merged(80), &mut hidden, at_ms(5000));
        assert!(starts(&decisions).is_empty());
        assert_eq!(decisions[0].score, 9, "100 · 51200 / 563201");
        let zones = vec![Zone::of(20, 128, 0), Zone::of(1000, 128, 0)];
        let mut both = Machine { zones, ..Machine::default() };
        let (_, reports) = play(&mut merged(20), &mut both, at_ms(5000));
        assert_eq!(reports.iter().map(|report| report.zone.zone).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn kswapd_holds_it_back_and_stops_it() {
        let mut machine = fragmented(1000);
        machine.signals.is_reclaiming = true;
        let (decisions, _) = play(&mut merged(20), &mut machine, at_ms(3000));
        assert!(decisions.iter().all(|decision| decision.verdict == Verdict::Hold(Hold::Reclaiming)));
        let mut design = merged(20);
        machine.signals.is_reclaiming = false;
        // Section 4.9: it asks whether kswapd is at work, not whether it was a moment ago.
        machine.signals.has_reclaimed = true;
        design.handle_timeout(at_ms(500), &mut machine).unwrap();
        machine.signals.is_reclaiming = true;
        let report = design.handle_timeout(at_ms(500), &mut machine).unwrap().report.unwrap();
        assert_eq!((report.why, report.work.pages_moved), (Why::ReclaimRunning, 0));
    }

    /// Section 10: writing 0 aborts a run; any other value causes a check at once.
    #[test]
    fn writing_the_value_triggers_or_aborts() {
        let mut machine = fragmented(1000);
        let mut design = merged(20);
        design.set_proactiveness(Proactiveness::try_from(60).unwrap(), at_ms(100));
        assert_eq!(design.poll_timeout(), Some(at_ms(100)));
        design.handle_timeout(at_ms(100), &mut machine).unwrap();
        design.handle_timeout(at_ms(100), &mut machine).unwrap();
        let moved = machine.zones[0].free_blocks().suitable(9);
        assert!(moved > 0, "it runs");
        design.set_proactiveness(Proactiveness::try_from(0).unwrap(), at_ms(101));
        let report = design.handle_timeout(at_ms(101), &mut machine).unwrap().report.unwrap();
        assert_eq!((report.why, design.poll_timeout()), (Why::ReachedLow, None));
        assert_eq!(machine.zones[0].free_blocks().suitable(9), moved, "within one batch");
        design.set_proactiveness(Proactiveness::try_from(20).unwrap(), at_ms(200));
        assert_eq!(design.poll_timeout(), Some(at_ms(200)));
    }
}

mod rfc {
    use super::*;
    use std::collections::BTreeMap;

    fn config(orders: &[(&str, u32, u32)]) -> RfcConfig {
        let orders = orders.iter().map(|&(order, low, high)| (order.to_owned(), OrderMarks { low, high }));
        RfcConfig { orders: BTreeMap::from_iter(orders), ..RfcConfig::default() }
    }

    fn rfc(config: RfcConfig) -> Result<Rfc, OutOfRange> {
        Rfc::new(config, NodeId(0), Instant::START)
    }

    #[test]
    fn it_goes_from_above_high_to_low_for_every_order() {
        let mut machine = fragmented(1000);
        let (decisions, reports) = play(&mut rfc(RfcConfig::default()).unwrap(), &mut machine, at_ms(12_000));
        assert_eq!(starts(&decisions), [0]);
        assert_eq!((reports[0].why, reports[0].extfrag_after), (Why::ReachedLow, 25));
        assert!(machine.steps.iter().all(|step| step.mode == CompactMode::Sync));
        // Two orders: it goes on until both are down, and all free pages of this host are single or of order 9.
        let mut machine = fragmented(1000);
        let two = config(&[("4", 60, 70), ("9", 80, 90)]);
        let (_, reports) = play(&mut rfc(two).unwrap(), &mut machine, at_ms(3000));
        assert_eq!(reports[0].extfrag_after, 60);
    }

    #[test]
    fn by_default_orders_are_off() {
        let (decisions, _) = play(&mut rfc(config(&[])).unwrap(), &mut fragmented(100), at_ms(20_000));
        assert!(starts(&decisions).is_empty());
        let at_100 = config(&[("9", 100, 100)]);
        assert!(starts(&play(&mut rfc(at_100).unwrap(), &mut fragmented(100), at_ms(20_000)).0).is_empty());
    }

    /// Section 6.1: deferral still applies.
    #[test]
    fn unmovable_pages_defer_it() {
        let mut machine = Machine { zones: vec![Zone::of(100, 0, 128)], ..Machine::default() };
        let (decisions, _) = play(&mut rfc(RfcConfig::default()).unwrap(), &mut machine, at_ms(5000 * 31));
        // Calls 1, 3, 7, 15, 31 of E15, five seconds apart.
        assert_eq!(starts(&decisions), [0, 10_000, 30_000, 70_000, 150_000]);
        assert!(decisions.iter().any(|decision| decision.verdict == Verdict::Hold(Hold::Deferred)));
    }

    #[test]
    fn without_room_it_does_not_start() {
        let mut machine = Machine { zones: vec![Zone::of(100, 511, 0)], ..Machine::default() };
        let (decisions, _) = play(&mut rfc(RfcConfig::default()).unwrap(), &mut machine, at_ms(20_000));
        assert!(starts(&decisions).is_empty(), "100 pages are free, 5.3 wants 1024");
    }

    /// Section 6.1: extfrag does not fall with the order.
    #[test]
    fn marks_that_can_never_decide_are_found() {
        assert_eq!(RfcConfig::default().idle_orders(), []);
        assert_eq!(config(&[("3", 20, 30), ("5", 20, 30), ("9", 35, 40)]).idle_orders(), [(3, 5)]);
        assert_eq!(config(&[("3", 40, 50), ("9", 25, 30)]).idle_orders(), [(3, 9)]);
        assert_eq!(config(&[("3", 10, 20), ("9", 25, 30)]).idle_orders(), []);
    }

    #[test]
    fn marks_that_make_no_sense_are_refused() {
        let said = |orders: &[(&str, u32, u32)]| rfc(config(orders)).unwrap_err().to_string();
        assert_eq!(said(&[("9", 31, 30)]), "`orders.9.low` is 31; allowed: 0 to orders.9.high (30)");
        assert_eq!(said(&[("9", 0, 101)]), "`orders.9.high` is 101; allowed: 0 to 100 percent (off)");
        for order in ["0", "20", "nine", "-1", ""] {
            assert_eq!(
                said(&[(order, 25, 30)]),
                format!("`orders` is {order:?}; allowed: orders 1 to the largest, mostly 10")
            );
        }
    }
}

mod controller {
    use super::*;

    fn controller(keep: u64) -> Controller {
        Controller::new(ControllerConfig { keep, ..ControllerConfig::default() }, NodeId(0), Instant::START).unwrap()
    }

    #[test]
    fn it_frees_what_is_asked_for_and_a_quarter_more() {
        let mut machine = fragmented(1000);
        let (decisions, reports) = play(&mut controller(100), &mut machine, at_ms(10_000));
        assert_eq!((starts(&decisions), reports.len()), (vec![0], 1));
        assert_eq!(machine.zones[0].free_blocks().suitable(9), 125);
        assert_eq!(
            (reports[0].why, reports[0].work.pages_moved),
            (Why::ReachedLow, 125 * 128),
            "and not one page more"
        );
        let last = decisions.last().unwrap();
        assert_eq!((&last.verdict, last.demand, last.free_blocks), (&Verdict::Hold(Hold::Enough), 100, 125));
    }

    #[test]
    fn without_demand_it_does_nothing() {
        let mut machine = fragmented(1000);
        machine.signals.huge_wanted = 5000;
        let (decisions, _) = play(&mut controller(0), &mut machine, at_ms(10_000));
        assert!(starts(&decisions).is_empty() && machine.steps.is_empty());
        let mut design = controller(0);
        play(&mut design, &mut machine, at_ms(2500));
        machine.signals.huge_wanted += 40;
        let decision = design.handle_timeout(at_ms(3000), &mut machine).unwrap().decision.unwrap();
        assert_eq!(decision.demand, 100, "40 a second weigh a quarter, for ten seconds");
        assert!(matches!(decision.verdict, Verdict::Start(_)));
    }

    /// Where the kernel's design wastes a scan each 32 s, this one does not start; or, where it cannot know, learns it.
    #[test]
    fn a_pinned_quarter_is_left_alone() {
        let pinned = Machine { zones: vec![Zone::of(1000, 0, 128)], ..Machine::default() };
        let mut known = Machine { tells_blocks: true, ..pinned.clone() };
        let (decisions, _) = play(&mut controller(100), &mut known, at_ms(600_000));
        assert!(known.steps.is_empty());
        assert!(decisions.iter().all(|decision| decision.verdict == Verdict::Hold(Hold::NoYield)));
        let mut guessed = pinned;
        let (decisions, reports) = play(&mut controller(100), &mut guessed, at_ms(3_600_000));
        let scanned: u64 = reports.iter().map(|report| report.work.scanned_migrate).sum();
        assert!(starts(&decisions).len() <= 14, "{:?}", starts(&decisions));
        // At 20 ns a page scanned: far below a hundredth of an hour's CPU time.
        assert!(scanned * 20 < 3_600_000_000_000 / 10_000, "{scanned} pages");
    }

    #[test]
    fn fruitless_attempts_are_repeated_ever_more_rarely() {
        // Yield is promised, but each attempt fails.
        let mut machine = Machine { tells_blocks: true, ..fragmented(100) };
        let mut design = controller(10);
        let mut tried = Vec::new();
        let mut now = Instant::START;
        while now < at_ms(120_000) {
            machine.refusal = None;
            let decision = design.handle_timeout(now, &mut machine).unwrap().decision.unwrap();
            if matches!(decision.verdict, Verdict::Start(_)) {
                tried.push(now.ns() / 1_000_000_000);
                machine.refusal = Some(HostError::Failed("EIO".to_owned()));
                design.handle_timeout(now, &mut machine).unwrap_err();
            }
            now = design.poll_timeout().unwrap();
        }
        // Pauses of 0.5, 1, 2, 4, 8, 16, 32, 32 s, checked once a second.
        assert_eq!(tried, [0, 1, 2, 4, 8, 16, 32, 64, 96]);
    }

    /// kswapd between is no failure of ours, and a goal that others reached first is none at all.
    #[test]
    fn runs_that_kswapd_ends_or_others_make_needless_are_no_failures() {
        let mut machine = Machine { tells_blocks: true, ..fragmented(100) };
        let mut design = controller(10);
        for second in 0..20 {
            machine.signals.is_reclaiming = false;
            let decision = design.handle_timeout(at_ms(second * 1000), &mut machine).unwrap().decision.unwrap();
            assert!(matches!(decision.verdict, Verdict::Start(_)), "{decision:?}");
            machine.signals.is_reclaiming = true;
            let activity = design.handle_timeout(at_ms(second * 1000), &mut machine).unwrap();
            assert_eq!(activity.report.unwrap().why, Why::ReclaimRunning);
        }
        machine.signals.is_reclaiming = false;
        design.handle_timeout(at_ms(20_000), &mut machine).unwrap();
        // Others free what was wanted; later they take it again.
        let before = machine.zones[0].clone();
        machine.zones[0] = Zone::of(100, 0, 0);
        let activity = design.handle_timeout(at_ms(20_000), &mut machine).unwrap();
        assert_eq!(activity.report.unwrap().why, Why::ReachedLow);
        machine.zones[0] = before;
        let decision = design.handle_timeout(at_ms(21_000), &mut machine).unwrap().decision.unwrap();
        assert!(matches!(decision.verdict, Verdict::Start(_)), "{decision:?}");
    }

    #[test]
    fn busy_machines_and_unknown_yields_hold_it_back() {
        let verdict = |machine: &Machine| {
            let decision = controller(10).handle_timeout(Instant::START, &mut machine.clone()).unwrap().decision;
            decision.unwrap().verdict
        };
        let mut machine = fragmented(100);
        machine.signals.cpu_pressure_bp = 1999;
        assert!(matches!(verdict(&machine), Verdict::Start(_)));
        machine.signals.cpu_pressure_bp = 2000;
        assert_eq!(verdict(&machine), Verdict::Hold(Hold::Busy), "20 percent");
        machine.signals.cpu_pressure_bp = 0;
        machine.signals.has_reclaimed = true;
        assert_eq!(verdict(&machine), Verdict::Hold(Hold::Reclaiming), "ours gives it time");
        machine.signals.is_reclaiming = true;
        assert_eq!(verdict(&machine), Verdict::Hold(Hold::Reclaiming));
        machine.hides_types = true;
        assert_eq!(verdict(&machine), Verdict::Hold(Hold::YieldUnknown));
        let full = Machine { zones: vec![Zone::of(10, 512, 0)], ..Machine::default() };
        assert_eq!(verdict(&full), Verdict::Hold(Hold::NoYield));
    }

    #[test]
    fn zones_that_yield_most_come_first_and_only_as_far_as_needed() {
        let zones = vec![Zone::of(40, 128, 0), Zone::of(400, 128, 0), Zone::of(400, 128, 0)];
        let mut machine = Machine { zones, tells_blocks: true, ..Machine::default() };
        let (decisions, _) = play(&mut controller(300), &mut machine, at_ms(900));
        // 375 blocks: 300 from the highest zone, the rest from the next.
        let order: Vec<u8> = match &decisions[0].verdict {
            Verdict::Start(zones) => zones.iter().map(|zone| zone.zone).collect(),
            Verdict::Hold(hold) => panic!("{hold:?}"),
        };
        assert_eq!((order, decisions[0].predicted_yield), (vec![2, 1], 630));
        let freed: Vec<u64> = machine.zones.iter().map(|zone| zone.free_blocks().suitable(9)).collect();
        assert_eq!(freed, [0, 75, 300]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let said = |config| Controller::new(config, NodeId(0), Instant::START).unwrap_err().to_string();
        let base = ControllerConfig::default;
        let never = ControllerConfig { interval: Duration::ZERO, ..base() };
        assert_eq!(said(never), "`interval` is 0ns; allowed: 1ms and more");
        let over = ControllerConfig { max_cpu_pressure: isotherm_units::Ratio::from_percent(101), ..base() };
        assert_eq!(said(over), "`max-cpu-pressure` is 101%; allowed: up to 100%");
    }
}

#[test]
fn every_design_is_written_read_and_started() {
    for entry in DESIGNS {
        let design = (entry.make)();
        assert_eq!(design.name(), entry.name);
        let text = toml::to_string(&design).expect("plain");
        assert_eq!(toml::from_str::<Design>(&text).expect("as written"), design);
        let bare = format!("design = \"{}\"", entry.name);
        assert_eq!(toml::from_str::<Design>(&bare).expect("a name of the table"), design);
        assert!(toml::from_str::<Design>(&format!("{bare}\nno-such-key = 1")).is_err(), "{}", entry.name);
        let mut machine = fragmented(100);
        let mut at_work = design.start(NodeId(0), Instant::START).expect("defaults make sense");
        let due = at_work.poll_timeout().expect("on by default");
        assert!(at_work.handle_timeout(due, &mut machine).unwrap().decision.is_some(), "{}", entry.name);
        machine.refusal = Some(HostError::NotHere("nothing"));
        let mut now = due;
        for _ in 0..5 {
            now = now.max(at_work.poll_timeout().expect("it goes on"));
            let _ = at_work.handle_timeout(now, &mut machine);
        }
        assert!(now > due, "{}: a host that fails is not asked again and again at one moment", entry.name);
    }
}

proptest! {
    /// For any blocks, no design loses free blocks, and every run ends.
    #[test]
    fn designs_never_lose_free_blocks(
        uses in prop::collection::vec((0u32..=512, 0u32..64, any::<bool>()), 1..60),
        which in 0usize..DESIGNS.len(),
        keep in 0u64..60,
    ) {
        let blocks: Vec<BlockUse> = uses.iter()
            .map(|&(movable, fixed, is_target)| BlockUse { movable, fixed: fixed.min(512 - movable), is_target })
            .collect();
        let mut machine = Machine { zones: vec![Zone::of(0, 0, 0)], ..Machine::default() };
        machine.zones[0].blocks = blocks;
        let before = machine.zones[0].free_blocks();
        let design = match (DESIGNS[which].make)() {
            Design::Controller(config) => Design::Controller(ControllerConfig { keep, ..config }),
            other => other,
        };
        let mut at_work = design.start(NodeId(0), Instant::START).unwrap();
        play(&mut *at_work, &mut machine, at_ms(20_000));
        let after = machine.zones[0].free_blocks();
        prop_assert_eq!(before.pages(), after.pages());
        prop_assert!(after.suitable(9) >= before.suitable(9));
        prop_assert!(machine.steps.len() < 1000);
    }
}
