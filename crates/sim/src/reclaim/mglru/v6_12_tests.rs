//! What Linux 6.12 does otherwise than 7.2, and where it is no longer like 6.1.

use super::ageing::Effort;
use super::evict::Turn;
use super::page::Sight;
use super::*;
use crate::counters::Counter;
use crate::reclaim::Scan;
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::testbed::{Testbed, Touch};
use crate::swap::device::DeviceKind;

const ROOT: LruvecId = LruvecId(0);
const ALL: [Baseline; 3] = [Baseline::V6_1, Baseline::V6_12, Baseline::V7_2];

fn bed_of(baseline: Baseline, frames: u64) -> Testbed {
    let config = MglruConfig { baseline: Some(baseline), ..MglruConfig::default() };
    let mut bed = Testbed::new(Box::new(Mglru::with_config(config)), frames, DeviceKind::Nvme, 4096);
    bed.memory.cgroups.charge_batch = 1;
    bed
}

fn with<T>(bed: &mut Testbed, act: impl FnOnce(&mut Mglru, &mut Memory) -> T) -> T {
    act(bed.policy.as_mglru().expect("generations"), &mut bed.memory)
}

/// `lru_gen_add_folio`, `folio_update_gen`, `get_next_mm`: as in 6.1, but that small processes are walked too.
#[test]
fn promotion_at_the_first_sight_in_small_processes_too() {
    assert_eq!(Baseline::V6_12.seen_by_walk(PageState::default()).1, Sight::Again);
    let walked = ALL.map(|baseline| {
        let mut bed = bed_of(baseline, 256);
        let space = bed.space(CgroupId::ROOT, 512);
        (0..63).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        with(&mut bed, |mglru, memory| mglru.age(memory, ROOT, 60, Effort::Forced));
        bed.check();
        bed.memory.reclaim.work.entries_examined
    });
    assert_eq!(walked, [0, 512, 512]);
}

/// `lru_gen_look_around`: twenty pages beside one in use are activated one by one; 6.1 rewrites so many at once.
#[test]
fn look_around_activates_one_by_one() {
    let activated = [Baseline::V6_1, Baseline::V6_12].map(|baseline| {
        let mut bed = bed_of(baseline, 256);
        let file = bed.file("data", 20);
        let frames: Vec<FrameId> = (0..20).map(|page| bed.cached(CgroupId::ROOT, file, page)).collect();
        with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            mglru.found_used_v6_1(memory, ROOT, &frames);
            let youngest = mglru.generations.get(ROOT).max_seq;
            assert_eq!(mglru.generations.get(ROOT).nr[super::generations::list_of(youngest)][1], 20);
        });
        bed.check();
        bed.count(Counter::PgActivate)
    });
    assert_eq!(activated, [0, 20]);
}

/// `sort_folio`: what is promoted for its many uses counts as spared, and activations are counted when pages are back.
#[test]
fn sorting_counts_all_that_is_spared() {
    let counted = [Baseline::V6_1, Baseline::V6_12].map(|baseline| {
        let mut bed = bed_of(baseline, 64);
        let file = bed.file("data", 8);
        let frames: Vec<FrameId> = (0..3).map(|page| bed.cached(CgroupId::ROOT, file, page)).collect();
        let protected = with(&mut bed, |mglru, memory| {
            mglru.insert_pending(memory);
            mglru.generations.get_mut(ROOT).min_seq = [1, 1]; // where the pages are
            (0..2).for_each(|_| mglru.mark_accessed(memory, frames[0]));
            (0..5).for_each(|_| mglru.mark_accessed(memory, frames[1]));
            let sorted: Vec<bool> = frames.iter().map(|&frame| mglru.sort_v6_1(memory, ROOT, frame, 1, 0)).collect();
            assert_eq!(sorted, [true, true, false]);
            mglru.generations.get(ROOT).history[1].protected
        });
        bed.check();
        (protected, bed.count(Counter::WorkingsetActivateFile))
    });
    assert_eq!(counted, [([0, 1, 0, 0], 1), ([0, 1, 0, 1], 0)]);
}

/// `lru_gen_refault`: each refault of the own group counts; an activation where the shadow is of use.
#[test]
fn refaults_count_before_it_is_asked_whether_they_are_recent() {
    for (uses, min_seq_later, counted) in [(0, 4, [1, 0, 1]), (0, 5, [1, 0, 0]), (4, 4, [1, 1, 1]), (4, 5, [1, 0, 0])] {
        let mut bed = bed_of(Baseline::V6_12, 256);
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
            mglru.generations.set_state(&memory.frames, frame, PageState::new(PageType::File));
            mglru.refaulted_v6_1(memory, frame, shadow);
        });
        let counters =
            [Counter::WorkingsetRefaultFile, Counter::WorkingsetRestoreFile, Counter::WorkingsetActivateFile];
        assert_eq!(counters.map(|counter| bed.count(counter)), counted, "{uses} {min_seq_later}");
    }
}

/// `get_nr_to_scan`: below the first priority an lruvec that has to age does so in place of being reclaimed from; at the first one
/// that has two generations only is left alone.
#[test]
fn ageing_takes_the_place_of_eviction() {
    for (priority, turn, ageings) in [(12, Turn::Stay, 0), (11, Turn::Rotate, 1)] {
        let mut bed = bed_of(Baseline::V6_12, 1024);
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
        bed.check();
    }
}

/// `should_abort_scan`: of 2000 pages an eighth is wanted at priority 3. Reclaim for a limit does not stop at its target of 32, that
/// of the machine does after a batch; so do both in 7.2.
#[test]
fn reclaim_for_a_limit_goes_on_beyond_its_target() {
    for (baseline, below_limit, freed) in [
        (Baseline::V6_12, true, 256),
        (Baseline::V6_12, false, 64),
        (Baseline::V7_2, true, 64),
        (Baseline::V7_2, false, 64),
    ] {
        let mut bed = bed_of(baseline, 4096);
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
        bed.check();
    }
}

/// `shrink_many`, `lru_gen_age_node`: groups take turns as in 7.2.
#[test]
fn groups_take_turns() {
    let in_turn = ALL.map(|baseline| {
        let mut bed = bed_of(baseline, 64);
        let mut scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, 32, 60);
        with(&mut bed, |mglru, memory| mglru.shrink_node(memory, NodeId::default(), &mut scan))
    });
    assert_eq!(in_turn, [false, true, true]);
}

/// `count_shadow_nodes`: 7.2 sees no page of generations, and keeps hardly any node of shadows; the others keep one for eight pages.
#[test]
fn shadows_of_generations_are_pruned_in_7_2() {
    let pruned = ALL.map(|baseline| {
        let mut bed = bed_of(baseline, 4096);
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
        bed.check();
        gone
    });
    // 200 nodes are 28 pages, which keep three: 98 of 197 are due, less than a batch of 128. Put off twice, half of it with what is due
    // is one.
    assert_eq!(pruned, [[0, 0, 0], [0, 0, 0], [0, 0, 128]]);
}
