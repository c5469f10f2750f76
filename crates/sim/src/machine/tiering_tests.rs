//! Policies over tiers on small machines: which finds the hot pages, what each pays, and that no page is lost on the way.

use super::tests::script;
use super::*;
use crate::tiering::{BalancingConfig, TIERING_POLICIES, TieringSpec, tiering_policy};
use isotherm_core::promotion::PromotionConfig;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_units::access::{After, Batch, Mapping, Process, Run, Stream, StreamError, Thread, ThreadStart, Timing};
use isotherm_units::{Bytes, PageRange};

/// Pages of the program, all of them on the slow node at first.
const PAGES: u64 = 2000;
const PAGE_COUNT: u32 = 2000;
const START: u64 = 70_000;

/// Writes all pages, then reads the first `hot` again and again for the rest of the time.
struct Hot {
    hot: u64,
    until: Instant,
    is_filled: bool,
}

impl Stream for Hot {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if !std::mem::replace(&mut self.is_filled, true) {
            batch.runs.push(Run::write(START, PAGE_COUNT));
            return Ok(After::Continue);
        }
        if now >= self.until {
            return Ok(After::Finish);
        }
        batch.runs.extend((0..self.hot).map(|page| Run::read(START + page, 1).after_ns(5000)));
        batch.operations = 1;
        Ok(After::Continue)
    }
}

fn machine() -> MachineConfig {
    let node = |kind, mib| NodeConfig::of_kind(kind, Bytes::from_mib(mib));
    MachineConfig {
        cpus: 4,
        step: Duration::from_ms(1),
        nodes: vec![node(MemoryKind::Dram, 32), node(MemoryKind::Cxl, 32)],
        ..MachineConfig::default()
    }
}

fn hot_program(threads: usize, hot: u64, seconds: u64) -> Program {
    let until = Instant::START + Duration::from_secs(seconds);
    let thread = |index: usize| Thread {
        process: 0,
        start: ThreadStart::WithProgram,
        stream: Box::new(Hot { hot, until, is_filled: index > 0 }),
    };
    Program {
        name: "hot".to_owned(),
        files: Vec::new(),
        processes: vec![Process {
            name: "hot".to_owned(),
            forked_from: None,
            layout: vec![Mapping::anonymous(PageRange::at(START, PAGES))],
        }],
        threads: (0..threads).map(thread).collect(),
        timing: Timing::Modelled,
        future: None,
    }
}

fn of(policy: &str) -> TieringSpec {
    TieringSpec { policy: policy.to_owned(), ..TieringSpec::default() }
}

/// A machine under the policy that plays these programs, each at its time, from the slow node.
fn built(spec: &TieringSpec, machine: &MachineConfig, programs: Vec<(Program, Duration)>) -> MachineBuilder {
    let machine = tiering_policy(&spec.policy).unwrap().applied_to(machine.clone());
    let mut builder = MachineBuilder::new(&machine, policy_by_name("classic").unwrap().build()).unwrap();
    for (program, at) in programs {
        let id = builder.add_program(program, isotherm_kernel::cgroup::CgroupId::ROOT).unwrap();
        builder.take_memory_of(id, 1).unwrap();
        builder.start_at(id, Instant::START + at);
    }
    builder.tiering(spec, 7).unwrap();
    builder
}

fn play(spec: &TieringSpec, machine: &MachineConfig, programs: Vec<(Program, Duration)>) -> Outcome {
    built(spec, machine, programs).build().run(Instant::START + Duration::from_secs(60)).unwrap()
}

fn alone(policy: &str, seconds: u64) -> (Outcome, TieringOutcome) {
    let outcome = play(&of(policy), &machine(), vec![(hot_program(2, 600, seconds), Duration::ZERO)]);
    let tiering = outcome.tiering.clone().expect("a policy runs");
    (outcome, tiering)
}

#[test]
fn each_policy_promotes_what_is_hot_or_says_that_it_does_not() {
    for policy in TIERING_POLICIES {
        let (outcome, tiering) = alone(policy.name, 6);
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{}", policy.name);
        let (fast, all) = tiering.touches.expect("tiers differ, or a bound says what they are");
        match policy.name {
            "none" => {
                assert_eq!((tiering.promoted_pages, tiering.overhead_ns(), tiering.interrupted_ns), (0, 0, 0));
            }
            "all-fast" => assert_eq!((tiering.promoted_pages, fast), (0, all)),
            "all-slow" => assert_eq!((tiering.promoted_pages, fast), (0, 0)),
            // Nothing is on an active list where nothing is reclaimed.
            "v2" => assert_eq!(tiering.promoted_pages, 0),
            // Regions of a small machine are coarse: what it finds is not checked here.
            "damon-migrate" => assert!(tiering.daemon_scan_ns > 0),
            name => {
                assert!((600..=PAGES).contains(&tiering.promoted_pages), "{name}: {tiering:?}");
                let is_paid_by_threads = tiering.thread_scan_ns + tiering.thread_fault_ns > 0;
                assert_eq!(is_paid_by_threads, name.starts_with("numa"), "{name}");
                assert_eq!(tiering.daemon_scan_ns > 0, !name.starts_with("numa"), "{name}");
                // Each page that moves is flushed, and the other of two threads runs meanwhile.
                let answered = outcome.programs[0].time.interrupted_ns;
                assert!(answered > 0 && tiering.interrupted_ns == answered, "{name}: {tiering:?}");
            }
        }
    }
}

/// docs/spec/promotion.md#s1-6: in the first scan all pages are hot.
#[test]
fn the_seed_moves_all_at_first_sight() {
    let tiering = alone("v0", 5).1;
    assert_eq!(tiering.promoted_pages, PAGES);
    assert!(tiering.daemon.contains(&("nr_kmmscand_migrated", PAGES)), "{:?}", tiering.daemon);
}

#[test]
fn hint_faults_are_paid_by_the_program() {
    let (outcome, tiering) = alone("numa-mode-2", 5);
    let paid = tiering.thread_scan_ns + tiering.thread_fault_ns;
    assert!(paid > 0 && outcome.programs[0].time.fault_cpu_ns > paid, "{tiering:?}");
    assert!(tiering.candidates.0 + tiering.candidates.1 >= tiering.promoted_pages, "{:?}", tiering.candidates);
}

/// docs/spec/promotion.md#s4-1 and #s4-5: with a rate of zero pages pass only through free memory; here there is too little of it.
#[test]
fn a_rate_of_zero_promotes_nothing() {
    let balancing = Some(BalancingConfig { promote_rate_limit_mbps: 0, ..BalancingConfig::default() });
    let spec = TieringSpec { balancing, ..of("numa-mode-2") };
    let outcome = play(&spec, &machine(), vec![(hot_program(2, 600, 4), Duration::ZERO)]);
    let tiering = outcome.tiering.unwrap();
    assert_eq!(tiering.promoted_pages, 0);
    assert!(
        tiering.candidates.0 > 0 && tiering.candidates.1 == 0,
        "hot, and not let through: {:?}",
        tiering.candidates
    );
}

/// docs/spec/promotion.md#s1-2: a new space is scanned when it is due, also while the daemon sleeps until another one is.
#[test]
fn a_new_program_is_scanned_when_it_is_due() {
    let all = vec![Run::write(START, PAGE_COUNT)];
    let sleeper = |until| Program {
        threads: vec![Thread {
            process: 0,
            start: ThreadStart::WithProgram,
            stream: script(vec![(all.clone(), After::Sleep(Duration::from_secs(until)))]),
        }],
        ..hot_program(0, 0, 0)
    };
    // In `v1` a space is first scanned after a second; the old one by then each few seconds.
    let begin = Duration::from_ms(10_050);
    let builder = built(&of("v1"), &machine(), vec![(sleeper(60), Duration::ZERO), (sleeper(30), begin)]);
    let outcome = builder.build().run(Instant::START + begin + Duration::from_ms(1300)).unwrap();
    assert_eq!(outcome.tiering.map(|tiering| tiering.promoted_pages), Some(2 * PAGES));
}

/// docs/spec/promotion.md#s6-1: the original distinguishes scans from moves, though one thread makes both.
#[test]
fn moves_are_told_from_scans_whoever_makes_them() {
    for (policy, together) in [("v0", 1), ("rch", 512)] {
        let tiering = alone(policy, 5).1;
        let flushes = tiering.promoted_pages.div_ceil(together) * 1000;
        let least = tiering.promoted_pages * (1500 + 512) + flushes;
        assert!((least..2 * least).contains(&tiering.daemon_move_ns), "{policy}: {tiering:?} against {least} ns");
        assert!(tiering.daemon_scan_ns > 0 && tiering.daemon_scan_ns < least, "{policy}: {tiering:?}");
    }
}

/// Spaces end in the middle of scans and with pages queued; their pages do not come back, and others are served.
#[test]
fn programs_that_end_are_forgotten_wherever_the_daemon_is() {
    for policy in ["v0", "v1", "rch", "numa-mode-2"] {
        let short = |hot, ms: u64| {
            let stop = hot_program(1, hot, 60);
            (stop, Duration::from_ms(ms))
        };
        let programs = (0..6).map(|nth| short(200 + 100 * nth, 300 * nth)).collect();
        let mut builder = built(&of(policy), &machine(), programs);
        for nth in 0..5usize {
            let at = Instant::START + Duration::from_ms(4003 + 411 * nth as u64);
            builder.plan(Plan { at, every: None, action: Action::Stop(nth) });
        }
        let outcome = builder.build().run(Instant::START + Duration::from_secs(9)).unwrap();
        assert!(outcome.programs.iter().all(|program| program.ending == Ending::Stopped), "{policy}");
        let tiering = outcome.tiering.unwrap();
        assert!(tiering.promoted_pages > 0, "{policy}: {tiering:?}");
    }
}

/// docs/spec/promotion.md#s1-8: in `v0` only lack of memory stops a move; later modes keep the high watermark.
#[test]
fn a_fast_node_that_is_full_stays_alive() {
    let mut machine = machine();
    machine.nodes[0].memory = Bytes::from_mib(4);
    for policy in ["v0", "rch", "numa-mode-2"] {
        let outcome = play(&of(policy), &machine, vec![(hot_program(2, 1500, 5), Duration::ZERO)]);
        assert_eq!(outcome.programs[0].ending, Ending::Finished, "{policy}");
        assert!(outcome.tiering.is_some_and(|tiering| tiering.promoted_pages > 0), "{policy}");
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    for policy in ["rch", "numa-mode-2"] {
        assert_eq!(alone(policy, 4).0, alone(policy, 4).0, "{policy}");
    }
}

#[test]
fn promotions_in_vain_are_counted_with_a_witness() {
    let spec = TieringSpec { promotion: Some(PromotionConfig::default()), ..of("v0") };
    let quiet = script(vec![
        (vec![Run::write(START, PAGE_COUNT)], After::Sleep(Duration::from_secs(5))),
        (vec![Run::read(START, 500)], After::Sleep(Duration::from_ms(100))),
    ]);
    let mut program = hot_program(0, 0, 0);
    program.threads.push(Thread { process: 0, start: ThreadStart::WithProgram, stream: quiet });
    let mut builder = built(&spec, &machine(), vec![(program, Duration::ZERO)]);
    builder.ground_truth();
    let tiering = builder.build().run(Instant::START + Duration::from_secs(60)).unwrap().tiering.unwrap();
    assert_eq!((tiering.promoted_pages, tiering.promoted_in_vain_pages), (PAGES, Some(PAGES - 500)));
}

#[test]
fn what_a_machine_cannot_do_is_refused_in_words() {
    let mut builder = MachineBuilder::new(&machine(), policy_by_name("classic").unwrap().build()).unwrap();
    let id = builder.add_program(hot_program(1, 1, 1), isotherm_kernel::cgroup::CgroupId::ROOT).unwrap();
    let message = builder.take_memory_of(id, 2).unwrap_err().to_string();
    assert_eq!(message, "node 2 is not on this machine; allowed: 0 to 1");
    let promotion = Some(PromotionConfig { target_node: 1, ..PromotionConfig::default() });
    let message = builder.tiering(&TieringSpec { promotion, ..of("rch") }, 1).unwrap_err().to_string();
    assert_eq!(message, "[tiering] `promotion.target-node` is 1; allowed: a node of the top tier with memory: 0");
    let mut exact = MachineBuilder::new(&machine(), policy_by_name("lru").unwrap().build()).unwrap();
    let message = exact.tiering(&of("rch"), 1).unwrap_err().to_string();
    assert!(message.contains("mode `rch` is not available here: moves of pages between nodes"), "{message}");
}

/// docs/spec/promotion.md#s1-3: controls work while it runs.
#[test]
fn controls_are_changed_while_it_runs() {
    let scans = |policy: &str, actions: Vec<(u64, Action)>| {
        let program = hot_program(2, 600, 20);
        let mut builder = built(&of(policy), &machine(), vec![(program, Duration::ZERO)]);
        for (ms, action) in actions {
            builder.plan(Plan { at: Instant::START + Duration::from_ms(ms), every: None, action });
        }
        let outcome = builder.build().run(Instant::START + Duration::from_secs(60))?;
        Ok::<_, SimError>(outcome.tiering.expect("a policy runs").daemon_scan_ns)
    };
    let knob = |name, text: &str| Action::WritePromotion(name, text.to_owned());
    for policy in ["v0", "v1", "rch"] {
        let usual = scans(policy, Vec::new()).unwrap();
        let off = scans(policy, vec![(1, knob("scan_enabled", "0"))]).unwrap();
        assert!(usual > 0 && off * 2 < usual, "{policy}: {off} of {usual}");
        let on_again =
            scans(policy, vec![(1, knob("scan_enabled", "0")), (10_000, knob("scan_enabled", "1"))]).unwrap();
        assert!(off < on_again && on_again <= usual, "{policy}: {on_again} of {usual}");
        let refused = scans(policy, vec![(5, knob("target_node", "1"))]).unwrap_err().to_string();
        assert!(refused.contains("target_node") && refused.contains("top tier"), "{refused}");
    }
    for policy in ["v1", "rch"] {
        let usual = scans(policy, Vec::new()).unwrap();
        let spared = scans(policy, vec![(1, Action::Scale { program: 0, scale: 0 })]).unwrap();
        assert!(spared * 2 < usual, "{policy}: {spared} of {usual}");
    }
    let refused = scans("v0", vec![(5, Action::Scale { program: 0, scale: 2 })]).unwrap_err().to_string();
    assert!(refused.contains("scales"), "{refused}");
}
