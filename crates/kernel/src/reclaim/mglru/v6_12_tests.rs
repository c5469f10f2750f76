//! Differences of Linux 6.12 from 7.2, row by row (docs/spec/mglru.md#s18).

use super::ageing::Effort;
use super::controller::{History, choose_v6_12};
use super::evict::{Queue, Turn};
use super::generations::Entering;
use super::generations::tests::{ANON, FILE, lruvec};
use super::page::ProbeResult;
use super::v6_12::keep_step;
use super::*;
use crate::counters::Counter;
use crate::memory::CachePage;
use crate::reclaim::Scan;
use crate::reclaim::scan_balance::PageType;
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};

const ROOT: LruvecId = LruvecId(0);
const OLD: Baseline = Baseline::V6_12;
const ALL: [Baseline; 2] = [OLD, Baseline::V7_2];

fn bed_of(baseline: Baseline, frames: u64) -> Testbed {
    let config = MglruConfig { baseline: Some(baseline), ..MglruConfig::default() };
    Testbed::new(Box::new(Mglru::with_config(config)), frames, DeviceKind::Nvme, 4096)
}

fn with<T>(bed: &mut Testbed, act: impl FnOnce(&mut Mglru, &mut Memory) -> T) -> T {
    act(bed.policy.as_mglru().expect("generations"), &mut bed.memory)
}

#[test]
fn s18_accesses_are_counted_in_another_order_to_the_same_tiers() {
    let (mut new, mut old) = (PageState::new(PageType::File), PageState::new(PageType::File));
    let counted: Vec<_> = (0..7)
        .map(|_| {
            let row = (OLD.tier(old), OLD.refs(old), old.is_workingset(), OLD.is_lazily_promotable(old));
            assert_eq!(OLD.tier(old), Baseline::V7_2.tier(new));
            (new, old) = (Baseline::V7_2.used_by_descriptor(new), OLD.used_by_descriptor(old));
            row
        })
        .collect();
    assert_eq!(
        counted,
        [
            (0, 0, false, false),
            (0, 0, false, false),
            (1, 1, true, false),
            (2, 2, true, false),
            (2, 3, true, false),
            (3, 4, true, true),
            (3, 4, true, true)
        ]
    );
    // Isolation: all is forgotten of a page that is not referenced, and the mark of others.
    assert_eq!(OLD.isolated(old), old.without_referenced());
    assert_eq!(OLD.isolated(old.without_referenced()), old.cold());
}

#[test]
fn s18_insertion() {
    let (four, three) = (lruvec(7, [4, 4]), lruvec(7, [5, 5]));
    let table = [
        ("in a fault, whatever the type", Entering { active: true, ..FILE }, 7, 7),
        ("fresh anonymous outside of a fault", Entering { fresh_anon: true, ..ANON }, 6, 6),
        ("being written", Entering { being_written: true, ..FILE }, 6, 6),
        ("after write-back", Entering { rotated: true, ..ANON }, 4, 5),
        ("else, referenced or not", Entering { referenced: true, workingset: true, ..FILE }, 5, 5),
        ("else", FILE, 5, 5),
    ];
    for (what, page, of_four, of_three) in table {
        assert_eq!((four.entry_v6_12(page), three.entry_v6_12(page)), (of_four, of_three), "{what}");
    }
    // Trap 3: a page that a fault brings in is among the youngest, where 7.2 has it second youngest.
    for (baseline, list) in [(Baseline::V7_2, 2), (OLD, 3)] {
        let mut bed = bed_of(baseline, 64);
        let space = bed.space(CgroupId::ROOT, 8);
        bed.write(space, 0);
        let frame = bed.frame(space, 0).unwrap();
        with(&mut bed, Mglru::insert_pending);
        assert_eq!(with(&mut bed, |mglru, _| mglru.generations.state(frame).generation()), Some(list));
        bed.check_lists();
    }
}

#[test]
fn s18_promotion_at_the_first_sight() {
    let used = PageState::new(PageType::File).with_generation(1).used_by_descriptor().with_workingset();
    let (after, result) = OLD.seen_by_walk(used);
    assert_eq!((after.refs(), after.is_workingset(), result), (0, false, ProbeResult::Again));
    assert_eq!(OLD.seen_by_walk(PageState::default()).1, ProbeResult::Again);
    assert_eq!(Baseline::V7_2.seen_by_walk(PageState::default()).1, ProbeResult::First);
}

/// A mapped page in use with one mapping is kept, a page marked referenced is activated, an unused page is evicted.
#[test]
fn s18_reference_check_is_that_of_the_two_lists() {
    use super::look_around::Verdict;
    let mut bed = bed_of(OLD, 256);
    let space = bed.space(CgroupId::ROOT, 1);
    bed.write(space, 0);
    let frame = bed.frame(space, 0).unwrap();
    let check =
        |bed: &mut Testbed| with(bed, |mglru, memory| mglru.check_references_v6_12(memory, frame, CgroupId::ROOT));
    assert_eq!(check(&mut bed), Verdict::Keep, "young from its fault, not referenced");
    assert_eq!(check(&mut bed), Verdict::Reclaim, "the entry was cleared, and the mark goes");
    bed.write(space, 0);
    assert_eq!(check(&mut bed), Verdict::Keep);
    bed.write(space, 0);
    assert_eq!(check(&mut bed), Verdict::Activate, "referenced and used");
}

/// Candidates are activated one by one, which counts, however many they are.
#[test]
fn s18_look_around_activates_one_by_one() {
    for young in [10, 40] {
        let mut bed = bed_of(OLD, 512);
        let space = bed.space(CgroupId::ROOT, 64);
        (0..64).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        with(&mut bed, Mglru::insert_pending);
        (0..3).for_each(|_| with(&mut bed, |mglru, memory| mglru.age(memory, ROOT, 60, Effort::Forced)));
        let frames: Vec<FrameId> = (0..young).map(|page| bed.frame(space, page).unwrap()).collect();
        with(&mut bed, |mglru, memory| mglru.found_used_v6_12(memory, ROOT, &frames));
        assert_eq!(bed.count(Counter::PgActivate), young);
        let youngest = with(&mut bed, |mglru, _| generations::list_of(mglru.generations.get(ROOT).max_seq));
        for frame in frames {
            assert_eq!(with(&mut bed, |mglru, _| mglru.generations.state(frame).generation()), Some(youngest));
        }
        bed.check_lists();
    }
}

/// A page that is being written keeps its place; any other that was rejected becomes young and forgets its uses.
#[test]
fn s18_rejected_after_reclaim() {
    for (is_written, list) in [(true, 2), (false, 3)] {
        let mut bed = bed_of(OLD, 64);
        let file = bed.file("data", 8);
        let frame = bed.cached(CgroupId::ROOT, file, 0);
        with(&mut bed, Mglru::insert_pending);
        with(&mut bed, |mglru, memory| {
            mglru.generations.take_off(memory, frame);
            memory.frames.set(frame, Flag::Isolated);
            if is_written {
                memory.frames.set(frame, Flag::Dirty);
                memory.frames.set(frame, Flag::Reclaim);
            }
            mglru.put_back_v6_12(memory, frame);
            assert_eq!(mglru.generations.state(frame).generation(), Some(list), "{is_written}");
        });
    }
}

/// Pages of a spared tier go to the old end of the next generation; dirty ones move on, marked.
#[test]
fn s18_sort() {
    let mut bed = bed_of(OLD, 64);
    let file = bed.file("data", 8);
    let frames: Vec<FrameId> = (0..4).map(|page| bed.cached(CgroupId::ROOT, file, page)).collect();
    with(&mut bed, Mglru::insert_pending);
    with(&mut bed, |mglru, memory| {
        let own = mglru.generations.get_mut(ROOT);
        own.min_seq = [1, 1]; // where the pages are
        (0..2).for_each(|_| mglru.mark_accessed(memory, frames[0]));
        (0..5).for_each(|_| mglru.mark_accessed(memory, frames[1]));
        memory.dirty_file_page(frames[2]);
        let sorted: Vec<bool> = frames.iter().map(|&frame| mglru.sort_v6_12(memory, ROOT, frame, 1, 0)).collect();
        assert_eq!(sorted, [true, true, true, false]);
        let history = mglru.generations.get(ROOT).history[1];
        assert_eq!(history.protected, [0, 1, 0, 1], "tier 1, and what is promoted for its many uses");
        let state = mglru.generations.state(frames[0]);
        assert_eq!((state.generation(), OLD.refs(state)), (Some(2), 0));
        assert!(memory.frames.has(frames[2], Flag::Reclaim));
        let next: Vec<FrameId> = mglru.generations.get(ROOT).lists[2][1].from_tail(&memory.frames).collect();
        assert_eq!(next, [frames[1], frames[0], frames[2]], "spared ones at the old end, the dirty one at the young");
    });
    assert_eq!(bed.count(Counter::WorkingsetActivateFile), 0);
    bed.check_lists();
}

/// Forced increments count nothing in 6.12, and tier 0 in 7.2 (trap 8).
#[test]
fn s18_forced_increments_count_nothing() {
    for (baseline, protected) in [(Baseline::V7_2, 4), (OLD, 0)] {
        let mut bed = bed_of(baseline, 64);
        let file = bed.file("data", 8);
        (0..4).for_each(|page| _ = bed.cached(CgroupId::ROOT, file, page));
        with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            let own = mglru.generations.get_mut(ROOT);
            (own.min_seq, own.max_seq) = if baseline == OLD { ([1, 1], 4) } else { ([0, 0], 3) };
            mglru.generations.force_min_seq(memory, ROOT, PageType::File, 60);
            assert_eq!(mglru.generations.get(ROOT).history[1].avg_total[0] * 2, protected, "{baseline:?}");
        });
        bed.check_lists();
    }
}

/// A shadow is of use only while its generation would be the oldest; a refault in a fault, or of a page used often, is restored.
#[test]
fn s18_shadow() {
    for (uses, min_seq_later, activated, restored) in [(0, 4, 1, 0), (0, 5, 0, 0), (4, 4, 1, 1), (4, 5, 0, 0)] {
        let mut bed = bed_of(OLD, 256);
        let file = bed.file("data", 200);
        let set = |bed: &mut Testbed, max_seq, min_seq| {
            with(bed, |mglru, _| {
                let own = mglru.generations.get_mut(ROOT);
                (own.max_seq, own.min_seq) = (max_seq, min_seq);
            });
        };
        set(&mut bed, 7, [4, 4]);
        let frame = bed.cached(CgroupId::ROOT, file, 0);
        let shadow = with(&mut bed, |mglru, memory| {
            (0..uses).for_each(|_| mglru.mark_accessed(memory, frame));
            mglru.shadow_of(memory, frame, CgroupId::ROOT).expect("always one")
        });
        set(&mut bed, 7, [min_seq_later, min_seq_later]);
        with(&mut bed, |mglru, memory| {
            let state = mglru.refaulted_v6_12(memory, frame, shadow, PageState::new(PageType::File));
            let expected = if restored == 1 { 4 } else { 0 };
            assert_eq!((OLD.refs(state), state.is_workingset()), (expected, restored == 1));
        });
        let counted = [Counter::WorkingsetRefaultFile, Counter::WorkingsetRestoreFile, Counter::WorkingsetActivateFile];
        assert_eq!(counted.map(|counter| bed.count(counter)), [1, restored, activated], "{uses} {min_seq_later}");
    }
}

#[test]
fn s18_type_and_tier() {
    let history = |refaulted: [u64; 4], total: [u64; 4]| History { refaulted, evicted: total, ..History::default() };
    let plain = history([0; 4], [100; 4]);
    let even = [plain, plain];
    // Swappiness 0, then the older oldest generation, then 1 and 200.
    assert_eq!(choose_v6_12(&even, [3, 5], 0).0, PageType::File);
    assert_eq!(choose_v6_12(&even, [3, 5], 60).0, PageType::Anon, "its oldest generation is older");
    assert_eq!(choose_v6_12(&even, [3, 5], 1).0, PageType::Anon);
    assert_eq!(choose_v6_12(&even, [5, 5], 1).0, PageType::File);
    assert_eq!(choose_v6_12(&even, [5, 5], 200).0, PageType::Anon);
    // Tier 0 against tier 0: refaults of higher tiers of files do not count.
    let busy = history([0, 900, 0, 0], [1000; 4]);
    assert_eq!(choose_v6_12(&[plain, busy], [5, 5], 60).0, PageType::File);
    // Tiers of the chosen type against tier 0 of the other, with gains 140 : 60. 900 * (100 + 64) * 60 > 1 * 1000 * 140.
    assert_eq!(choose_v6_12(&[plain, busy], [5, 5], 60).1, 0);
    // By itself with gains 1 : 2: 143 * 1064 > 101 * 1000 * 2 is false, 190 is the last that passes: 189 * 1064 < 202000.
    let by_itself = |r1| choose_v6_12(&[plain, history([100, r1, 0, 0], [1000; 4])], [5, 5], 1);
    assert_eq!([by_itself(189).1, by_itself(190).1], [3, 0]);
}

#[test]
fn s18_min_seq_coupling() {
    assert_eq!(keep_step([7, 5], [4, 4], 60), [5, 5], "the slower one decides");
    assert_eq!(keep_step([4, 9], [4, 8], 60), [4, 8], "and file never goes back");
    assert_eq!(keep_step([4, 9], [4, 8], 0), [4, 9], "without swap file goes alone");
}

#[test]
fn s18_when_to_age() {
    let due = |min_seq, nr: [u64; 4], swappiness| {
        let mut own = lruvec(7, min_seq); // generations 4, 5, 6, 7 lie on lists 0, 1, 2, 3
        (0..4).for_each(|at| own.nr[at] = [0, nr[at]]);
        own.is_due_v6_12(swappiness)
    };
    assert!(due([6, 6], [0, 0, 0, 1], 60), "two generations");
    assert!(!due([4, 4], [0, 0, 0, 100], 60), "four");
    assert!(due([5, 5], [0, 30, 10, 60], 60), "three, and the youngest holds more than half");
    assert!(due([5, 5], [0, 24, 30, 46], 60), "three, and the third youngest less than a quarter");
    assert!(!due([5, 5], [0, 25, 25, 50], 60));
    assert!(
        !due([4, 5], [0, 24, 30, 46], 60) && due([4, 5], [0, 24, 30, 46], 0),
        "anonymous pages decide if they may go"
    );
}

/// Spec 14.2: a `+` for an older generation does nothing, a `+` that may skip areas is refused if there are four.
#[test]
fn s18_commands() {
    let mut bed = bed_of(OLD, 64);
    let write = |bed: &mut Testbed, text: &str| with(bed, |mglru, memory| mglru.write_lru_gen(memory, text));
    let table = [
        ("+ 0 0 2", Ok(())),
        ("+ 0 0 3 60 0", Err(Refusal::Range)),
        ("+ 0 0 4", Err(Refusal::Future)),
        ("- 0 0 1 max", Err(Refusal::SwappinessV6_12)),
        ("- 0 0 1 201", Err(Refusal::SwappinessV6_12)),
    ];
    for (text, expected) in table {
        assert_eq!(write(&mut bed, text), expected, "{text}");
        assert_eq!(with(&mut bed, |mglru, _| mglru.generations.get(ROOT).max_seq), 3, "{text}");
    }
    assert_eq!(write(&mut bed, "+ 0 0 3"), Ok(()));
    assert_eq!(with(&mut bed, |mglru, _| mglru.generations.get(ROOT).max_seq), 4);
    assert!(with(&mut bed, |mglru, memory| mglru.lru_gen(memory)).starts_with("memcg     0 /\n node     0\n"));
}

/// A batch scans up to 4096 pages to take 64 (trap 5), where 7.2 scans no more than it was asked for.
#[test]
fn s18_a_batch_looks_further() {
    for (baseline, scanned, freed) in [(Baseline::V7_2, 64, 0), (OLD, 364, 64)] {
        let mut bed = bed_of(baseline, 1024);
        let file = bed.file("data", 500);
        let frames: Vec<FrameId> = (0..500).map(|page| bed.cached(CgroupId::ROOT, file, page)).collect();
        let result = with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            let oldest = mglru.generations.state(frames[0]).generation().expect("on a list") as u64;
            mglru.generations.get_mut(ROOT).min_seq = [oldest; 2];
            // The first 300 are spared: they were used as often as can be counted.
            frames[..300].iter().for_each(|&frame| (0..6).for_each(|_| mglru.mark_accessed(memory, frame)));
            let mut scan = Scan::new(Reclaimer::Proactive, CgroupId::ROOT, 64, 0);
            scan.priority = 0;
            let batch = mglru.evict_batch(memory, ROOT, 64, 0, Queue::Ignored, &mut scan);
            (batch.scanned, scan.nr_reclaimed)
        });
        assert_eq!(result, (scanned, freed), "{baseline:?}");
        assert!(matches!(bed.memory.files.get(file).page(0), CachePage::Frame(_)));
        bed.check_lists();
    }
}

/// As [`bed_of`], with charges page by page.
fn exact_bed_of(baseline: Baseline, frames: u64) -> Testbed {
    let mut bed = bed_of(baseline, frames);
    bed.memory.cgroups.charge_batch = 1;
    bed
}

/// `get_next_mm`: processes of less than 64 pages are walked like others.
#[test]
fn small_processes_are_walked() {
    let walked = ALL.map(|baseline| {
        let mut bed = exact_bed_of(baseline, 256);
        let space = bed.space(CgroupId::ROOT, 512);
        (0..63).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        with(&mut bed, |mglru, memory| mglru.age(memory, ROOT, 60, Effort::Forced));
        bed.check_lists();
        bed.memory.reclaim.work.entries_examined
    });
    assert_eq!(walked, [512, 512]);
}

/// `get_nr_to_scan`: below the first priority an lruvec that has to age does so in place of being reclaimed from; at the first priority an
/// lruvec with only two generations is left alone.
#[test]
fn ageing_takes_the_place_of_eviction() {
    for (priority, turn, ageings) in [(12, Turn::Stay, 0), (11, Turn::Rotate, 1)] {
        let mut bed = exact_bed_of(OLD, 1024);
        let space = bed.space(CgroupId::ROOT, 512);
        (0..500).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        scan.priority = priority;
        with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            let own = mglru.generations.get_mut(ROOT);
            own.min_seq = [own.max_seq - 1; 2]; // all pages are among the youngest
            let before = own.max_seq;
            assert_eq!(mglru.shrink_v6_12(memory, ROOT, &mut scan), turn, "{priority}");
            assert_eq!(mglru.generations.get(ROOT).max_seq - before, ageings);
        });
        assert_eq!(scan.nr_scanned, 0);
        bed.check_lists();
    }
}

/// `should_abort_scan`: of 2000 pages an eighth is wanted at priority 3. Reclaim for a limit does not stop at its target of 32, that
/// of the machine does after a batch; so do both in 7.2.
#[test]
fn reclaim_for_a_limit_goes_on_beyond_its_target() {
    for (baseline, below_limit, freed) in
        [(OLD, true, 256), (OLD, false, 64), (Baseline::V7_2, true, 64), (Baseline::V7_2, false, 64)]
    {
        let mut bed = exact_bed_of(baseline, 4096);
        let group = if below_limit { bed.group(CgroupId::ROOT, "a") } else { CgroupId::ROOT };
        let file = bed.file("data", 2000);
        (0..2000).for_each(|page| _ = bed.cached(group, file, page));
        let lruvec = bed.memory.lruvec(group, NodeId::default());
        let mut scan = Scan::new(Reclaimer::Direct, group, 32, 0);
        scan.priority = 3;
        with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            mglru.shrink_lruvec(memory, lruvec, &mut scan);
        });
        assert_eq!(scan.nr_reclaimed, freed, "{baseline:?} {below_limit}");
        bed.check_lists();
    }
}

/// `shrink_many`, `lru_gen_age_node`: groups take turns as in 7.2.
#[test]
fn groups_take_turns() {
    let in_turn = ALL.map(|baseline| {
        let mut bed = exact_bed_of(baseline, 64);
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        with(&mut bed, |mglru, memory| mglru.shrink_node(memory, NodeId::default(), &mut scan))
    });
    assert_eq!(in_turn, [true, true]);
}

/// `count_shadow_nodes`: 7.2 sees no page of generations, and keeps hardly any node of shadows; 6.12 keeps one for eight pages.
#[test]
fn shadows_of_generations_are_pruned_in_7_2() {
    let pruned = ALL.map(|baseline| {
        let mut bed = exact_bed_of(baseline, 4096);
        let file = bed.file("data", 64 * 200);
        let space = bed.space(CgroupId::ROOT, 2000);
        (0..2000).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        // 200 nodes, each with one page, which is evicted.
        for node in 0..200 {
            let frame = bed.cached(CgroupId::ROOT, file, node * 64);
            with(&mut bed, |mglru, memory| {
                mglru.insert_pending(memory);
                let shadow = mglru.shadow_of(memory, frame, CgroupId::ROOT);
                mglru.removed(memory, frame);
                memory.frames.clear(frame, Flag::Isolated);
                memory.free_page(frame, shadow);
            });
        }
        let sees = with(&mut bed, |mglru, _| mglru.pages_for_shrinkers(ROOT));
        let gone = [12, 12, 1].map(|priority| bed.memory.files.prune_shadows(ROOT, sees, priority));
        assert_eq!(
            bed.memory.files.get(crate::memory::FileId::from_index(0)).nr_shadows,
            200 - gone.iter().sum::<u64>()
        );
        bed.check_lists();
        gone
    });
    // 200 nodes are 28 pages, which keep three: 98 of 197 are due, less than a batch of 128. Put off twice, half of it with what is due
    // is one.
    assert_eq!(pruned, [[0, 0, 0], [0, 0, 128]]);
}
