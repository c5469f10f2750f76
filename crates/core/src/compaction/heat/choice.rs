//! Which blocks to empty, and which to fill (docs/spec/compaction.md#s8-3, steps 1 to 5).

use super::price::Prices;
use crate::compaction::BlockUse;

/// A page block that may be emptied or filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) number: u32,
    pub(super) usage: BlockUse,
    /// Uses of its pages, thousandths a second.
    pub(super) rate: u64,
    pub(super) is_hot: bool,
    /// It was given up not long ago.
    pub(super) is_barred: bool,
}

/// How far a choice may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Blocks wanted.
    pub(super) count: u64,
    /// Waits that they may cost together, ns; `None`: no matter.
    pub(super) stall_ns: Option<u64>,
    /// Largest key.
    pub(super) key: u64,
    pub(super) takes_hot: bool,
    /// Free pages that must stay.
    pub(super) margin: u64,
}

/// What was chosen, in the order in which to empty it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) sources: Vec<u32>,
    /// Why there are no more than these.
    pub(super) passed_over: PassedOver,
}

/// Blocks that could be emptied and were not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassedOver {
    /// In use too much.
    pub(super) hot: u64,
    /// No room to move their pages into.
    pub(super) no_room: u64,
}

/// The cheapest blocks first, as long as their pages fit into what stays.
pub(super) fn choose(candidates: &[Candidate], prices: &Prices, bounds: &Bounds) -> Choice {
    let mut clean: Vec<(u64, &Candidate)> = candidates
        .iter()
        .filter(|block| block.usage.is_clean())
        .map(|block| (prices.key(block.usage.movable, block.rate), block))
        .collect();
    clean.sort_unstable_by_key(|&(key, block)| (key, block.number));
    let mut room: u64 = candidates.iter().filter(|block| is_target(block)).map(|block| block.usage.free()).sum();
    let (mut moved, mut stall) = (bounds.margin, 0u64);
    let mut choice = Choice::default();
    for (key, block) in clean {
        if choice.sources.len() as u64 >= bounds.count {
            break;
        }
        let BlockUse { movable, .. } = block.usage;
        let expected = stall.saturating_add(prices.stall(block.rate, prices.batch_of(movable, block.rate)));
        let is_quiet = block.rate == 0;
        let is_over = bounds.stall_ns.is_some_and(|most| expected > most || most == 0 && !is_quiet);
        if block.is_barred || key > bounds.key || block.is_hot && !bounds.takes_hot || is_over {
            choice.passed_over.hot += 1;
            continue;
        }
        // What becomes a source is no target any more.
        let left = room - if is_target(block) { block.usage.free() } else { 0 };
        if moved + u64::from(movable) > left {
            choice.passed_over.no_room += 1;
            continue;
        }
        (moved, room, stall) = (moved + u64::from(movable), left, expected);
        choice.sources.push(block.number);
    }
    choice
}

/// Blocks to fill, the first in front: those that can never be freed, then the fullest, at equal ones the coldest; never one
/// that is wholly free. `is_source` names those that are to be emptied.
pub(super) fn targets(candidates: &[Candidate], is_source: impl Fn(u32) -> bool) -> Vec<u32> {
    let with_room = |block: &&Candidate| is_target(block) && block.usage.free() > 0 && !is_source(block.number);
    let mut fill: Vec<&Candidate> = candidates.iter().filter(with_room).collect();
    fill.sort_unstable_by_key(|block| {
        let used = std::cmp::Reverse(block.usage.movable);
        (block.usage.fixed == 0, used, block.is_hot, block.rate, block.number)
    });
    fill.into_iter().map(|block| block.number).collect()
}

fn is_target(block: &Candidate) -> bool {
    block.usage.is_target && !block.usage.is_free()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(number: u32, movable: u32, rate: u64) -> Candidate {
        let usage = BlockUse { movable, fixed: 0, is_target: true };
        Candidate { number, usage, rate, is_hot: false, is_barred: false }
    }

    fn bounds(count: u64) -> Bounds {
        Bounds { count, stall_ns: None, key: u64::MAX, takes_hot: true, margin: 0 }
    }

    /// docs/spec/compaction.md#s11, E28, with room elsewhere for all that moves. A to D are numbered 0 to 3.
    #[test]
    fn e28_cold_blocks_first_and_blind_to_heat_the_hot_one() {
        let hot = |per_page: u64, pages: u32| per_page * u64::from(pages);
        let four =
            [block(0, 128, 0), block(1, 64, hot(1_000_000, 64)), block(2, 200, 0), block(3, 40, hot(10_000, 40))];
        let room = Candidate { usage: BlockUse { movable: 0, fixed: 12, is_target: true }, ..block(9, 0, 0) };
        let blocks = [&four[..], &[room]].concat();
        let prices = Prices::default();
        assert_eq!(choose(&blocks, &prices, &bounds(4)).sources, [3, 0, 1, 2], "D A B C");
        assert_eq!(choose(&blocks, &prices, &bounds(2)).sources, [3, 0], "D, A");
        let blind = Prices { stall_weight: 0, ..prices };
        assert_eq!(choose(&blocks, &blind, &bounds(2)).sources, [3, 1], "D, B");
        // B would cost 19.928 µs of waits and D 1.109.
        let little = Bounds { stall_ns: Some(10_000), ..bounds(4) };
        let choice = choose(&blocks, &prices, &little);
        assert_eq!((choice.sources, choice.passed_over.hot), (vec![3, 0, 2], 1));
        let none = Bounds { stall_ns: Some(0), ..bounds(4) };
        assert_eq!(choose(&blocks, &prices, &none).sources, [0, 2], "with no waits at all, what nobody uses");
    }

    #[test]
    fn what_is_hot_barred_or_dear_waits() {
        let mut blocks = vec![block(0, 100, 0), block(1, 110, 0), block(2, 120, 0), block(3, 400, 0)];
        blocks[0].is_hot = true;
        blocks[1].is_barred = true;
        let prices = Prices::default();
        let cold = Bounds { takes_hot: false, key: prices.key(120, 0), ..bounds(4) };
        let choice = choose(&blocks, &prices, &cold);
        assert_eq!((choice.sources, choice.passed_over), (vec![2], PassedOver { hot: 3, no_room: 0 }));
        assert_eq!(choose(&blocks, &prices, &Bounds { takes_hot: true, ..cold }).sources, [0, 2]);
    }

    #[test]
    fn what_can_never_be_free_is_filled_first_and_free_blocks_never() {
        let with = |number, movable, fixed, is_target| {
            let usage = BlockUse { movable, fixed, is_target };
            Candidate { usage, ..block(number, 0, 0) }
        };
        let mut blocks = vec![
            with(0, 0, 0, true),
            with(1, 100, 0, true),
            with(2, 300, 0, true),
            with(3, 10, 50, true),
            with(4, 10, 50, false),
            with(5, 512, 0, true),
            with(6, 300, 0, true),
            with(7, 20, 1, true),
        ];
        blocks[2].rate = 5;
        assert_eq!(targets(&blocks, |_| false), [7, 3, 6, 2, 1]);
        assert_eq!(targets(&blocks, |number| number == 7 || number == 1), [3, 6, 2]);
    }

    prop_compose! {
        fn some_blocks()(
            uses in prop::collection::vec(
                (0u32..=512, prop_oneof![3 => Just(0u32), 1 => 0u32..=512], any::<bool>(), 0u64..5_000_000),
                0..9,
            ),
        ) -> Vec<Candidate> {
            (0..).zip(uses).map(|(number, (movable, fixed, is_target, rate))| {
                let usage = BlockUse { movable, fixed: fixed.min(512 - movable), is_target };
                Candidate { usage, ..block(number, 0, rate) }
            }).collect()
        }
    }

    proptest! {
        /// Section 8.3: without heat the sources are the set of their number with the fewest pages to copy.
        #[test]
        fn without_heat_the_fewest_pages_are_copied(mut blocks in some_blocks(), count in 0u64..9) {
            // Pages may be moved into all of them: then what fits depends on how many are emptied, and not on which.
            blocks.iter_mut().for_each(|block| (block.rate, block.usage.is_target) = (0, true));
            let chosen = choose(&blocks, &Prices::default(), &bounds(count)).sources;
            let pages = |numbers: &[u32]| numbers.iter().map(|&n| blocks[n as usize].usage.movable).sum::<u32>();
            let clean: Vec<u32> = blocks.iter().filter(|block| block.usage.is_clean()).map(|block| block.number).collect();
            for set in 0u32..1 << clean.len() {
                let members: Vec<u32> =
                    clean.iter().enumerate().filter(|&(at, _)| set >> at & 1 == 1).map(|(_, &number)| number).collect();
                if members.len() == chosen.len() {
                    prop_assert!(pages(&chosen) <= pages(&members), "{chosen:?} against {members:?}");
                }
            }
        }

        /// Section 8.3: with a weight of 0 the order is that of copies alone; what is chosen fits; it never exceeds bounds.
        #[test]
        fn what_is_chosen_fits(blocks in some_blocks(), count in 0u64..9, stall in 0u64..100_000, margin in 0u64..500) {
            let limits = Bounds { stall_ns: Some(stall), margin, ..bounds(count) };
            let prices = Prices::default();
            let choice = choose(&blocks, &prices, &limits);
            prop_assert!(choice.sources.len() as u64 <= count);
            let is_source = |number: u32| choice.sources.contains(&number);
            let of = |number: &u32| &blocks[*number as usize];
            let moved: u64 = choice.sources.iter().map(|number| u64::from(of(number).usage.movable)).sum();
            let room: u64 = targets(&blocks, is_source).iter().map(|number| of(number).usage.free()).sum();
            prop_assert!(choice.sources.is_empty() || moved + margin <= room);
            prop_assert!(choice.sources.iter().all(|number| of(number).usage.is_clean()));
            let waits: u64 = choice.sources.iter().map(of)
                .map(|block| prices.stall(block.rate, prices.batch_of(block.usage.movable, block.rate))).sum();
            prop_assert!(waits <= stall);
            let blind = Prices { stall_weight: 0, ..prices };
            let cold: Vec<Candidate> = blocks.iter().map(|block| Candidate { rate: 0, ..*block }).collect();
            prop_assert_eq!(
                choose(&blocks, &blind, &bounds(count)).sources,
                choose(&cold, &blind, &bounds(count)).sources
            );
        }
    }
}
