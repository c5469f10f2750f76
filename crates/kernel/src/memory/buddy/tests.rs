//! Worked examples of docs/spec/compaction.md, and random runs in which all that must hold is checked after every operation.

use super::*;
use crate::memory::Flag;
use proptest::prelude::*;
use std::collections::BTreeMap;

use MigrateType::{Movable, Reclaimable, Unmovable};

struct Rig {
    frames: Frames,
    buddy: Buddy,
}

impl Rig {
    fn new(first: u32, end: u32) -> Self {
        let mut frames = Frames::new(end as usize);
        let buddy = Buddy::new(&mut frames, first, end);
        buddy.check(&frames).expect("a fresh zone");
        Self { frames, buddy }
    }

    fn take(&mut self, order: u32, kind: MigrateType) -> Option<u32> {
        self.take_as(order, kind, Fallback::Any, &mut Search::default())
    }

    fn take_as(&mut self, order: u32, kind: MigrateType, fallback: Fallback, search: &mut Search) -> Option<u32> {
        let taken = self.buddy.allocate(&mut self.frames, order, kind, fallback, search);
        self.buddy.check(&self.frames).expect("after an allocation");
        taken.map(FrameId::index_u32)
    }

    fn free(&mut self, start: u32, order: u32) {
        self.buddy.free(&mut self.frames, FrameId::new(start), order);
        self.buddy.check(&self.frames).expect("after a free");
    }

    fn row(&self) -> Vec<u64> {
        self.buddy.blocks().counts().to_vec()
    }

    /// Free blocks of one type as (start, order), in the order of allocation.
    fn list(&self, order: u32, kind: MigrateType) -> Vec<u32> {
        let blocks = self.buddy.free_blocks(&self.frames);
        blocks.filter(|&(_, o, k)| (o, k) == (order, kind)).map(|(start, ..)| start.index_u32()).collect()
    }

    /// Takes everything, in single movable pages.
    fn fill(&mut self) {
        while self.take(0, Movable).is_some() {}
        assert_eq!(self.buddy.free_pages(), 0);
    }
}

/// docs/spec/compaction.md#s11, E16.
#[test]
fn e16_split_and_merge() {
    let mut rig = Rig::new(0, 1024);
    assert_eq!(rig.row(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(rig.take(0, Movable), Some(0), "the lowest addresses are kept");
    for order in 0..10 {
        assert_eq!(rig.list(order, Movable), [1 << order], "order {order}");
    }
    rig.free(0, 0);
    assert_eq!(rig.row(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!((rig.buddy.effort().splits, rig.buddy.effort().merges), (10, 10));
}

#[test]
fn e17_a_block_that_will_merge_soon_goes_to_the_tail() {
    for (second_pair_is_free, expected) in [(true, [40, 0]), (false, [0, 40])] {
        let mut rig = Rig::new(0, 1024);
        rig.fill();
        rig.free(40, 0);
        if second_pair_is_free {
            rig.free(2, 1);
        }
        rig.free(0, 0);
        assert_eq!(rig.list(0, Movable), expected, "pages 2 and 3 free: {second_pair_is_free}");
    }
}

/// Section 2.2: an order-10 block is fed in as two page blocks, each with its own type.
/// Joined, they have the type of the half that came last.
#[test]
fn the_largest_blocks_are_freed_by_halves() {
    let mut rig = Rig::new(0, 2048);
    assert_eq!(rig.take(10, Movable), Some(0));
    assert_eq!(rig.take(9, Unmovable), Some(1024), "claimed, with the rest of its block of order 10");
    assert_eq!(rig.take(9, Unmovable), Some(1536));
    rig.free(0, 10);
    assert_eq!((rig.row()[10], rig.buddy.page_blocks(Movable)), (1, 2));
    rig.free(1024, 9);
    rig.free(1536, 9);
    assert_eq!(rig.row(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!((rig.buddy.page_blocks(Unmovable), rig.buddy.nr_fixed), (2, 0));
}

#[test]
fn page_blocks_of_two_types_merge_into_one_type() {
    let mut rig = Rig::new(0, 1024);
    assert_eq!(rig.take(9, Movable), Some(0));
    // The other half is claimed whole.
    assert_eq!(rig.take(0, Reclaimable), Some(512));
    assert_eq!((rig.buddy.page_blocks(Movable), rig.buddy.page_blocks(Reclaimable)), (1, 1));
    rig.free(512, 0);
    assert_eq!(rig.list(9, Reclaimable), [512]);
    rig.free(0, 9);
    assert_eq!((rig.list(10, Movable), rig.buddy.page_blocks(Movable)), (vec![0], 2), "the type of what came last");
}

/// Two page blocks, both in use by single movable pages; the first is given the type and contents asked for.
fn block_of(kind: MigrateType, free: u32, fixed: u32, blocks: u32) -> Rig {
    let mut rig = Rig::new(0, 512 * blocks);
    rig.fill();
    if kind != Movable {
        (0..512).for_each(|frame| rig.buddy.free(&mut rig.frames, FrameId::new(frame), 0));
        let start = rig.buddy.allocate(&mut rig.frames, 9, kind, Fallback::Any, &mut Search::default());
        assert_eq!((start, rig.buddy.page_blocks(kind)), (Some(FrameId::new(0)), 1));
        rig.buddy.forget_fixed(0, 9);
    }
    (0..fixed).for_each(|frame| rig.buddy.remember_fixed(511 - frame, 0));
    (0..512 - fixed).for_each(|frame| rig.frames.set(FrameId::new(frame), Flag::OnList));
    // Every other page, so that nothing merges, then from the start what is still to be freed.
    let (odd, even) = ((0..256).map(|pair| 2 * pair + 1), (0..256).map(|pair| 2 * pair));
    let frames = odd.chain(even).filter(|&frame| frame < 512 - fixed).take(free as usize);
    frames.for_each(|frame| rig.buddy.free(&mut rig.frames, FrameId::new(frame), 0));
    rig.buddy.check(&rig.frames).expect("as it was made");
    assert_eq!(rig.buddy.free_pages(), u64::from(free));
    rig.buddy.effort = Effort::default();
    rig
}

/// E18, first case: 100 free and 200 movable pages of a Movable block leave 212 that are alike.
#[test]
fn e18_a_block_that_is_half_alike_is_claimed() {
    let mut rig = block_of(Movable, 100, 212, 2);
    assert!(rig.take(0, Unmovable).is_some());
    assert_eq!((rig.buddy.page_blocks(Unmovable), rig.buddy.effort().claims), (1, 1));
    assert_eq!((rig.buddy.blocks_of(Unmovable).pages(), rig.buddy.blocks_of(Movable).pages()), (99, 0));
}

/// E18, second case: 350 movable pages leave 62 alike, 162 in all.
#[test]
fn e18_a_block_that_is_not_is_stolen_from() {
    let mut rig = block_of(Movable, 100, 62, 2);
    assert!(rig.take(0, Unmovable).is_some());
    assert_eq!((rig.buddy.page_blocks(Unmovable), rig.buddy.effort().steals), (0, 1));
    assert_eq!(rig.buddy.blocks_of(Movable).pages(), 99, "the page block stays Movable");
    assert!(rig.buddy.effort().boosts > 0, "each try raises the watermarks");
}

/// E18, third case: movable memory does not claim for blocks below order 4.
#[test]
fn e18_small_pieces_are_not_claimed_for_movable_pages() {
    let mut rig = block_of(Reclaimable, 250, 0, 2);
    assert!(rig.take(0, Movable).is_some());
    let effort = *rig.buddy.effort();
    assert_eq!((effort.steals, effort.boosts, rig.buddy.page_blocks(Reclaimable)), (1, 0, 1));
}

/// E18, fourth case: an order-5 block in an Unmovable page block with 200 free and 60 movable pages. Pages on no list of
/// reclaim count for nothing.
#[test]
fn e18_movable_pages_claim_from_order_4_up() {
    for (movable, of_a_driver, claims) in [(60, 0, 1), (55, 0, 0), (60, 5, 0)] {
        let mut rig = block_of(Unmovable, 0, 512 - 200 - movable, 2);
        // 32 pages at 0, the others apart.
        (0..32).for_each(|frame| rig.buddy.free(&mut rig.frames, FrameId::new(frame), 0));
        (0..112).for_each(|pair| {
            if rig.buddy.free_pages() < 200 && 33 + 2 * pair < 200 + movable {
                rig.buddy.free(&mut rig.frames, FrameId::new(33 + 2 * pair), 0);
            }
        });
        (0..200 + movable).for_each(|frame| {
            if rig.buddy.free_pages() < 200 && frame >= 32 && frame % 2 == 0 {
                rig.buddy.free(&mut rig.frames, FrameId::new(frame), 0);
            }
        });
        assert_eq!(rig.buddy.free_pages(), 200);
        let in_use = |&frame: &u32| frame < 200 + movable && !rig.buddy.is_free(FrameId::new(frame));
        let drivers: Vec<u32> = (0..512).filter(in_use).take(of_a_driver).collect();
        drivers.iter().for_each(|&frame| rig.frames.clear(FrameId::new(frame), Flag::OnList));
        assert!(rig.buddy.blocks_of(Unmovable).suitable(4) > 0);
        assert!(rig.take(0, Movable).is_some());
        assert_eq!(rig.buddy.effort().claims, claims, "{movable} movable pages, {of_a_driver} of a driver");
        assert_eq!(rig.buddy.page_blocks(Unmovable), 1 - claims);
    }
}

/// E18, last case: between kernel types nothing is alike.
#[test]
fn e18_reclaimable_blocks_need_256_free_pages() {
    for (free, claims) in [(255, 0), (256, 1)] {
        let mut rig = block_of(Reclaimable, free, 0, 2);
        assert!(rig.take(0, Unmovable).is_some());
        assert_eq!(rig.buddy.effort().claims, claims, "{free} free pages");
    }
}

/// Section 2.4: the asymmetry is deliberate.
#[test]
fn claiming_takes_the_largest_and_stealing_the_smallest() {
    let mut rig = Rig::new(0, 4096);
    assert_eq!(rig.take(0, Movable), Some(0));
    // Movable lists hold one block of each order 0 to 9 and three of order 10: the largest is claimed.
    assert_eq!(rig.take(0, Unmovable), Some(1024));
    assert_eq!(rig.buddy.page_blocks(Unmovable), 2);
    let mut search = Search::Steal;
    assert_eq!(rig.take_as(0, Reclaimable, Fallback::Any, &mut search), Some(1025), "the smallest of Unmovable first");
    assert_eq!((rig.buddy.effort().claims, rig.buddy.effort().steals, search), (1, 1, Search::Steal));
}

#[test]
fn fallbacks_have_an_order() {
    for (wanted, first) in [(Unmovable, Reclaimable), (Movable, Reclaimable), (Reclaimable, Unmovable)] {
        assert_eq!(wanted.fallbacks()[0], first);
        assert!(!wanted.fallbacks().contains(&wanted));
    }
    // Unmovable memory prefers a Reclaimable block to a Movable one of the same order.
    let mut rig = Rig::new(0, 2048);
    let reclaimable = rig.take(10, Reclaimable).unwrap();
    rig.free(reclaimable, 10);
    assert_eq!(rig.take(0, Unmovable), Some(reclaimable));
}

#[test]
fn within_a_bulk_a_claim_starts_anew_and_a_theft_goes_on() {
    let mut rig = Rig::new(0, 1024);
    let mut search = Search::default();
    rig.take_as(0, Unmovable, Fallback::Any, &mut search);
    assert_eq!(search, Search::Own, "the claim filled its own lists");
    let mut rig = block_of(Movable, 100, 0, 2);
    let mut search = Search::default();
    rig.take_as(0, Unmovable, Fallback::Any, &mut search);
    assert_eq!(search, Search::Steal);
    let tries = rig.buddy.effort().boosts;
    rig.take_as(0, Unmovable, Fallback::Any, &mut search);
    assert_eq!(rig.buddy.effort().boosts, tries, "what failed is not tried again");
}

#[test]
fn without_fragmentation_only_whole_page_blocks_change_hands() {
    let mut rig = Rig::new(0, 1024);
    assert_eq!(rig.take(0, Movable), Some(0));
    let mut search = Search::default();
    assert_eq!(rig.take_as(0, Unmovable, Fallback::WholeBlocks, &mut search), Some(512));
    let mut rig = Rig::new(0, 1024);
    assert_eq!((rig.take(0, Movable), rig.take(9, Movable)), (Some(0), Some(512)));
    assert_eq!(rig.take_as(0, Unmovable, Fallback::WholeBlocks, &mut search), None, "511 pages, but in pieces");
    assert_eq!(rig.buddy.effort().boosts, 0);
    assert!(rig.take(0, Unmovable).is_some(), "the flag dropped");
}

#[test]
fn blocks_cut_by_a_zones_ends_are_never_claimed() {
    // 700 pages from 300: the page blocks at both ends lie in it in part.
    let mut rig = Rig::new(300, 1000);
    assert_eq!(rig.row(), [0, 0, 1, 1, 1, 1, 2, 2, 1, 0, 0], "4 + 16 + 64 + 128 up to 512; 256 + 128 + 64 + 32 + 8");
    assert_eq!(rig.take(0, Unmovable).map(|frame| rig.buddy.type_of(FrameId::new(frame))), Some(Movable));
    assert_eq!((rig.buddy.effort().claims, rig.buddy.effort().steals), (0, 1));
}

#[test]
fn fresh_memory_is_used_in_the_order_of_addresses() {
    let mut rig = Rig::new(0, 4096);
    let taken: Vec<u32> = (0..2500).map_while(|_| rig.take(0, Movable)).collect();
    assert_eq!(taken, (0..2500).collect::<Vec<_>>());
    assert_eq!(rig.buddy.used_before(&rig.frames).count(), 3 * 1024 - 2500);
    // The block freed last is taken first; merged blocks go before unused memory.
    (0..1024).for_each(|frame| rig.free(frame, 0));
    assert_eq!(rig.list(10, Movable), [0, 3072]);
}

#[test]
fn zones_of_any_size_and_place() {
    for (first, end) in [(0, 0), (0, 1), (7, 8), (5, 1029), (1023, 1025), (1, 5000), (1024, 2047), (512, 1536)] {
        let mut rig = Rig::new(first, end);
        assert_eq!(rig.buddy.free_pages(), u64::from(end - first), "{first}..{end}");
        let mut taken: Vec<u32> = std::iter::from_fn(|| {
            rig.buddy.allocate(&mut rig.frames, 0, Movable, Fallback::Any, &mut Search::default())
        })
        .map(FrameId::index_u32)
        .collect();
        taken.sort_unstable();
        assert_eq!(taken, (first..end).collect::<Vec<_>>());
        let before = Rig::new(first, end).row();
        taken.iter().for_each(|&frame| rig.buddy.free(&mut rig.frames, FrameId::new(frame), 0));
        rig.buddy.check(&rig.frames).unwrap();
        assert_eq!(rig.row(), before, "{first}..{end}: all merged again");
    }
}

proptest! {
    /// Taking a run of pages gives the same pages as taking them one by one, and leaves the same lists.
    #[test]
    fn many_pages_at_once_are_the_same_as_one_by_one(
        first in 0u32..1500,
        len in 1u32..6000,
        rounds in prop::collection::vec((0u32..200, prop::collection::vec(any::<prop::sample::Index>(), 0..60)), 1..20),
    ) {
        let mut rigs = [Rig::new(first, first + len), Rig::new(first, first + len)];
        let mut used: Vec<u32> = Vec::new();
        for (count, freed) in rounds {
            let mut at_once = Vec::new();
            let Rig { frames, buddy } = &mut rigs[0];
            let taken = buddy.take_pages(frames, count, |run| at_once.extend(run));
            prop_assert_eq!(taken as usize, at_once.len());
            let one_by_one: Vec<u32> = (0..count).map_while(|_| rigs[1].take(0, Movable)).collect();
            prop_assert_eq!(&at_once, &one_by_one);
            used.extend(at_once);
            for index in freed {
                if !used.is_empty() {
                    let page = used.swap_remove(index.index(used.len()));
                    rigs.iter_mut().for_each(|rig| rig.free(page, 0));
                }
            }
            let lists = rigs.each_ref().map(|rig| rig.buddy.free_blocks(&rig.frames).collect::<Vec<_>>());
            prop_assert_eq!(&lists[0], &lists[1]);
        }
    }

    /// Conservation, alignment, no two free buddies apart: after every operation of random runs, in zones of any place, with
    /// blocks of all orders and types. And no page is handed out twice.
    #[test]
    fn random_runs_keep_the_invariants(
        first in 0u32..1500,
        len in 1u32..6000,
        operations in prop::collection::vec((0u32..=10, 0usize..6, any::<bool>(), any::<prop::sample::Index>()), 1..150),
    ) {
        let mut rig = Rig::new(first, first + len);
        let mut used: BTreeMap<u32, u32> = BTreeMap::new();
        for (order, choice, whole, index) in operations {
            if choice < 4 {
                let kind = MigrateType::ALL[choice % 3];
                let fallback = if whole { Fallback::WholeBlocks } else { Fallback::Any };
                let had = rig.buddy.has_block(order);
                let taken = rig.take_as(order, kind, fallback, &mut Search::default());
                prop_assert!(taken.is_none() || had);
                prop_assert!(taken.is_some() || !had || whole, "there was one");
                if let Some(start) = taken {
                    let before = used.range(..start + (1 << order)).next_back();
                    prop_assert!(before.is_none_or(|(&other, &o)| other + (1 << o) <= start), "handed out twice");
                    used.insert(start, order);
                }
            } else if !used.is_empty() {
                let (&start, &order) = used.iter().nth(index.index(used.len())).unwrap();
                used.remove(&start);
                rig.free(start, order);
            }
            let in_use: u64 = used.values().map(|&order| 1_u64 << order).sum();
            prop_assert_eq!(rig.buddy.free_pages() + in_use, u64::from(len), "conservation");
        }
        for (start, order) in used {
            rig.free(start, order);
        }
        prop_assert_eq!(rig.row(), Rig::new(first, first + len).row(), "all freed, all merged");
    }
}
