//! Numbers that a tool reads of the machine's generations, and the effects of its commands: the answers of docs/spec/mglru.md#s14-2.

use super::stage::Stage;
use isotherm_core::generations::Swappiness;
use isotherm_core::host::{Ageing, Answer, Eviction, Gauge, Generational, HostError, Listing, Lruvec, NodeId};
use isotherm_kernel::costs::Costs;
use isotherm_kernel::reclaim::POLICIES;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_texts::lru_gen;
use isotherm_units::{Duration, PAGE_BYTES, PageRange};

/// The group `/app` of the stage on its only node.
const APP: Lruvec = Lruvec { memcg: 1, node: NodeId(0) };

fn read(stage: &mut Stage) -> Vec<Listing> {
    let mut listings = Vec::new();
    stage.host().read_generations(&mut listings).expect("generations are there");
    listings
}

fn ageing(max_gen_nr: u64) -> Ageing {
    Ageing { lruvec: APP, max_gen_nr, swappiness: Swappiness::Of(1), force_scan: true }
}

fn eviction(min_gen_nr: u64) -> Eviction {
    Eviction { lruvec: APP, min_gen_nr, swappiness: Swappiness::Of(200), limit_pages: None }
}

fn age(stage: &mut Stage, order: Ageing) -> Answer {
    let mut answers = Vec::new();
    stage.host().age_generations(&[order], &mut answers);
    stage.check();
    answers.pop().expect("an answer an order")
}

fn evict(stage: &mut Stage, order: Eviction) -> Answer {
    let mut answers = Vec::new();
    stage.host().evict_generations(&[order], &mut answers);
    stage.check();
    answers.pop().expect("an answer an order")
}

fn bytes(pages: u64) -> u64 {
    pages * PAGE_BYTES
}

fn pass_second(stage: &mut Stage) {
    let later = stage.memory.now + Duration::from_secs(1);
    stage.pass_time(later);
}

/// Numbers that a tool reads are the numbers of the kernel's text, and the core reads and writes that text byte for byte.
#[test]
fn what_is_read_is_the_text_of_lru_gen() {
    let mut stage = Stage::new("mglru", DeviceKind::Zram);
    let (space, _) = stage.process(300);
    stage.write_all(space, PageRange::new(0, 100));
    age(&mut stage, ageing(3));
    pass_second(&mut stage);
    let text = {
        let memory = &stage.bed.memory;
        stage.bed.policy.as_mglru().expect("it is").lru_gen(memory)
    };
    let listings = read(&mut stage);
    assert_eq!(lru_gen::parse(&text).expect("the kernel's"), listings);
    assert_eq!(lru_gen::write(&listings), text);
    assert_eq!((listings[1].path.as_str(), listings[1].lruvec), ("/app", APP));
}

/// The thread that asks pays: for the system call, for each group that is printed, for each command, and for the walk.
#[test]
fn reads_and_commands_are_paid_for() {
    let mut stage = Stage::new("mglru", DeviceKind::Zram);
    let (space, _) = stage.process(300);
    stage.write_all(space, PageRange::new(0, 100));
    let costs = Costs::default();
    let spent = |stage: &mut Stage, act: &mut dyn FnMut(&mut Stage)| {
        stage.memory.ledger.take();
        act(stage);
        stage.memory.ledger.take()
    };
    let reading = spent(&mut stage, &mut |stage| drop(read(stage)));
    assert_eq!(reading, costs.syscall_ns() + 2 * costs.lru_gen_read_ns(), "two groups on one node");
    let command = costs.syscall_ns() + costs.lru_gen_write_ns();
    let walk = spent(&mut stage, &mut |stage| drop(age(stage, ageing(3))));
    assert!(walk > command + 100, "{walk}: a walk over 100 pages comes on top");
    assert_eq!(spent(&mut stage, &mut |stage| drop(age(stage, ageing(99)))), command, "refused");
}

/// Spec 14.2, all that is refused, as text; nothing changes.
#[test]
fn errors_of_commands() {
    let mut stage = Stage::new("mglru", DeviceKind::Zram);
    let (space, _) = stage.process(300);
    stage.write_all(space, PageRange::new(0, 100));
    for seq in 3..7 {
        age(&mut stage, ageing(seq));
    }
    let before = read(&mut stage);
    assert_eq!(before[1].rows.last().map(|row| row.seq), Some(7));
    let elsewhere = |memcg, node| Lruvec { memcg, node: NodeId(node) };
    let failed = |answer: Answer| match answer {
        Answer::Failed(cause) => cause,
        other => panic!("{other:?}"),
    };
    // E21: with max_seq 7, `- 1 0 6` and `+ 1 0 8` are EINVAL.
    let table = [
        (failed(age(&mut stage, ageing(8))), "EINVAL: the youngest generation is older than that"),
        (failed(evict(&mut stage, eviction(6))), "EINVAL: the two youngest generations cannot be evicted"),
        (failed(evict(&mut stage, eviction(7))), "EINVAL: the two youngest generations cannot be evicted"),
        (
            failed(age(&mut stage, Ageing { lruvec: elsewhere(9, 0), ..ageing(7) })),
            "EINVAL: there is no group of this number",
        ),
        (
            failed(evict(&mut stage, Eviction { lruvec: elsewhere(u64::MAX, 0), ..eviction(5) })),
            "EINVAL: there is no group of this number",
        ),
        (
            failed(age(&mut stage, Ageing { lruvec: elsewhere(1, 1), ..ageing(7) })),
            "EINVAL: there is no memory node of this number",
        ),
        (
            failed(evict(&mut stage, Eviction { lruvec: elsewhere(1, u32::MAX), ..eviction(5) })),
            "EINVAL: there is no memory node of this number",
        ),
        (
            failed(evict(&mut stage, Eviction { swappiness: Swappiness::Of(202), ..eviction(5) })),
            "EINVAL: swappiness is 0 to 200, or `max` for anonymous pages only",
        ),
    ];
    for (got, expected) in table {
        assert_eq!(got, expected);
    }
    assert_eq!(read(&mut stage), before, "state unchanged");
    // A generation that is older than all there is: nothing is done, and that is no error.
    assert_eq!(evict(&mut stage, eviction(0)), Answer::Done { bytes: 0 });
    // An ageing from a generation that is not the youngest any more ages from the youngest.
    assert_eq!(age(&mut stage, ageing(3)), Answer::Done { bytes: 0 });
    assert_eq!(read(&mut stage)[1].rows.last().map(|row| row.seq), Some(8));
    // Switched off at run time.
    let mglru = stage.bed.policy.as_mglru().expect("it is");
    mglru.write_enabled(&mut stage.bed.memory, "n").expect("a word of the switch");
    let cause = failed(age(&mut stage, ageing(3)));
    assert_eq!(cause, "EINVAL: the Multi-Gen LRU is switched off");
}

/// E21: `- 1 0 5` is allowed with max_seq 7; `max` with a limit takes anonymous pages only, up to the limit and a batch.
#[test]
fn e21_evictions() {
    let mut stage = Stage::new("mglru", DeviceKind::Zram);
    let (space, _) = stage.process(600);
    // New pages wait in batches of 31.
    stage.write_all(space, PageRange::new(0, 496));
    // The first walk finds the bits of the faults themselves; three more and the pages count as long unused.
    for seq in 3..7 {
        age(&mut stage, ageing(seq));
    }
    let limited =
        evict(&mut stage, Eviction { swappiness: Swappiness::AnonOnly, limit_pages: Some(100), ..eviction(5) });
    let Answer::Done { bytes: freed } = limited else { panic!("{limited:?}") };
    assert!((bytes(100)..=bytes(164)).contains(&freed), "{freed}");
    let rest = evict(&mut stage, eviction(5));
    assert_eq!(rest, Answer::Done { bytes: bytes(496) - freed });
    assert_eq!(read(&mut stage)[1].rows.iter().map(|row| row.anon_pages).sum::<u64>(), 0);
    let refaulted = |stage: &mut Stage| stage.gauge(Gauge::RefaultBytes { memcg: 1 });
    assert_eq!(refaulted(&mut stage), Ok(Some(0)));
    stage.read(space, 3);
    assert!(refaulted(&mut stage).is_ok_and(|bytes| bytes >= Some(PAGE_BYTES)));
    assert_eq!(stage.gauge(Gauge::RefaultBytes { memcg: 77 }), Ok(None));
}

/// Pages that are in use after all, and pages without a place in swap, stay: that is reported, with how much went.
#[test]
fn what_stays_is_told() {
    let mut stage = Stage::new("mglru", DeviceKind::None);
    let (space, _) = stage.process(300);
    stage.write_all(space, PageRange::new(0, 217));
    for seq in 3..7 {
        age(&mut stage, ageing(seq));
    }
    assert_eq!(evict(&mut stage, eviction(5)), Answer::Partly { bytes: 0 }, "no swap");

    let mut stage = Stage::new("mglru", DeviceKind::Zram);
    let (space, _) = stage.process(300);
    stage.write_all(space, PageRange::new(0, 217));
    for seq in 3..7 {
        age(&mut stage, ageing(seq));
    }
    stage.write_all(space, PageRange::new(0, 50));
    let (Answer::Partly { bytes: freed } | Answer::Done { bytes: freed }) = evict(&mut stage, eviction(5)) else {
        panic!("carried out")
    };
    assert_eq!(freed, bytes(167), "those used since the walk are seen and kept");
}

#[test]
fn other_policies_say_what_is_missing() {
    for policy in POLICIES.iter().map(|entry| entry.name).filter(|&name| name != "mglru") {
        let mut stage = Stage::new(policy, DeviceKind::Zram);
        let mut host = stage.host();
        let can = host.generation_capabilities();
        assert_eq!((can.read, can.age, can.evict), (false, false, false), "{policy}");
        assert!(can.missing.is_some_and(|missing| missing.starts_with("needs mglru")));
        let Err(HostError::NotHere(missing)) = host.read_generations(&mut Vec::new()) else { panic!("{policy}") };
        assert!(missing.starts_with("needs mglru"));
        assert_eq!(age(&mut stage, ageing(3)), Answer::NotHere(missing));
        assert_eq!(evict(&mut stage, eviction(3)), Answer::NotHere(missing));
    }
    let can = Stage::new("mglru", DeviceKind::Zram).host().generation_capabilities();
    assert!(can.read && can.age && can.evict && can.missing.is_none());
}
