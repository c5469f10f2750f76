//! How many blocks a compaction could free, before it starts (docs/spec/compaction.md#s8-4): none means that it would only burn
//! time.

use super::HUGE_ORDER;
use crate::vocabulary::BlockUse;

/// Pages of a page block.
const BLOCK_PAGES: u64 = 1 << HUGE_ORDER;

/// How many blocks can be freed by moving their pages into others, the emptiest first. The pages to move must fit into the free
/// pages of target blocks that stay, less `margin` pages that must stay free.
pub fn predicted_yield(blocks: &[BlockUse], margin: u64) -> u64 {
    let mut sources: Vec<BlockUse> = blocks.iter().copied().filter(|block| block.is_clean()).collect();
    sources.sort_by_key(|block| block.movable);
    let targets = blocks.iter().filter(|block| block.is_target && !block.is_free());
    let mut room: u64 = targets.map(|block| block.free()).sum();
    let mut moved = 0;
    let mut best = 0;
    for (count, block) in (1..).zip(&sources) {
        moved += u64::from(block.movable);
        // A block that becomes a source is no target any more.
        room -= if block.is_target { block.free() } else { 0 };
        if moved + margin <= room {
            best = count;
        }
    }
    best
}

/// The estimate without knowledge of single blocks: free Movable pages in smaller pieces, in whole blocks, less the share that turned out
/// spoilt of late, in millionths.
pub fn estimated_yield(movable: &super::FreeBlocks, spoilt_ppm: u64) -> u64 {
    let scattered = movable.pages() - (movable.suitable(HUGE_ORDER) << HUGE_ORDER);
    let share = u128::from(scattered) * u128::from(1_000_000 - spoilt_ppm.min(1_000_000));
    u64::try_from(share / (u128::from(BLOCK_PAGES) * 1_000_000)).unwrap_or(u64::MAX)
}

/// The share of blocks that were tried and not freed, as a moving average. Millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoilRate(u64);

/// The assumption before the first attempt: one block in ten.
const START_PPM: u64 = 100_000;
/// A block changes the average by one part in eight.
const WEIGHT: u64 = 8;
/// More blocks of one attempt add no information.
const MAX_BLOCKS: u64 = 256;

impl Default for SpoilRate {
    fn default() -> Self {
        Self(START_PPM)
    }
}

impl SpoilRate {
    /// The rate in millionths, 0 to 1,000,000.
    pub const fn ppm(self) -> u64 {
        self.0
    }

    /// Takes in a result: of `tried` blocks, `freed` became wholly free.
    pub fn learn(&mut self, tried: u64, freed: u64) {
        if tried == 0 {
            return;
        }
        let spoilt = tried.saturating_sub(freed);
        let value = u64::try_from(u128::from(spoilt) * 1_000_000 / u128::from(tried)).unwrap_or(1_000_000);
        for _ in 0..tried.min(MAX_BLOCKS) {
            // Rounded towards the value, so that it is reached.
            self.0 = if value > self.0 {
                self.0 + (value - self.0).div_ceil(WEIGHT)
            } else {
                self.0 - (self.0 - value).div_ceil(WEIGHT)
            };
        }
    }

    /// Time has passed: earlier observations count less.
    pub fn relax(&mut self) {
        if self.0 > START_PPM {
            self.0 -= (self.0 - START_PPM).div_ceil(WEIGHT);
        } else {
            self.0 += (START_PPM - self.0).div_ceil(WEIGHT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::blocks_tests::{blocks, contig};
    use proptest::prelude::*;

    const fn clean(movable: u32) -> BlockUse {
        BlockUse { movable, fixed: 0, is_target: true }
    }

    /// docs/spec/compaction.md#s11, E30.
    #[test]
    fn e30_what_has_to_move_must_fit() {
        let four = [clean(40), clean(64), clean(128), clean(200)];
        assert_eq!(predicted_yield(&four, 0), 3, "232 pages into the 312 of the last");
        let spoilt = |free: u32| BlockUse { movable: 0, fixed: 512 - free, is_target: true };
        let with = |free| predicted_yield(&[&four[..], &[spoilt(free)]].concat(), 0);
        assert_eq!((with(100), with(450)), (3, 4), "432 pages into 100, or 450");
        assert_eq!(predicted_yield(&[&four[..], &[spoilt(450)]].concat(), 19), 3, "a margin that does not fit");
        let closed = BlockUse { is_target: false, ..spoilt(450) };
        assert_eq!(predicted_yield(&[&four[..], &[closed]].concat(), 0), 3, "not of type Movable");
    }

    /// Section 9.3, situation 4: the last quarter of each block cannot be moved.
    #[test]
    fn a_pinned_quarter_yields_nothing() {
        let pinned = BlockUse { movable: 0, fixed: 128, is_target: true };
        assert_eq!(predicted_yield(&[pinned; 100], 0), 0);
        assert_eq!(predicted_yield(&[], 0), 0);
        assert_eq!(predicted_yield(&[clean(1)], 0), 0, "nowhere to move it");
        assert_eq!(predicted_yield(&[clean(512), clean(512)], 0), 0, "full");
    }

    /// Section 9.2: the fragmenter's ideal is three blocks in four.
    #[test]
    fn the_fragmenters_blocks_yield_three_in_four() {
        for sections in [4_usize, 8, 10, 101] {
            assert_eq!(predicted_yield(&vec![clean(128); sections], 0), 3 * sections as u64 / 4);
        }
    }

    #[test]
    fn an_estimate_without_blocks() {
        // 384 scattered pages a section: three quarters of a block each, a tenth of it spoilt.
        assert_eq!(estimated_yield(&contig(1000), 0), 750);
        assert_eq!(estimated_yield(&contig(1000), START_PPM), 675);
        assert_eq!(estimated_yield(&contig(1000), 1_000_000), 0);
        assert_eq!(estimated_yield(&contig(1000), u64::MAX), 0);
        assert_eq!(estimated_yield(&blocks(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5]), 0), 0, "whole blocks already");
    }

    #[test]
    fn failures_make_the_estimate_nothing_and_time_brings_it_back() {
        let mut rate = SpoilRate::default();
        rate.learn(0, 0);
        assert_eq!(rate.ppm(), 100_000, "nothing was tried");
        rate.learn(8, 4);
        assert!((350_000..500_000).contains(&rate.ppm()), "{rate:?}");
        rate.learn(200, 0);
        assert_eq!((rate.ppm(), estimated_yield(&contig(1000), rate.ppm())), (1_000_000, 0));
        rate.relax();
        assert_eq!(rate.ppm(), 887_500);
        rate.learn(u64::MAX, u64::MAX);
        assert_eq!(rate.ppm(), 0);
        (0..200).for_each(|_| rate.relax());
        assert_eq!(rate.ppm(), 100_000);
    }

    proptest! {
        /// Never more than there are blocks to free, and never less with more room.
        #[test]
        fn it_is_what_fits(
            uses in prop::collection::vec((0u32..=512, 0u32..=512, any::<bool>()), 0..30),
            margin in 0u64..2000,
        ) {
            let blocks: Vec<BlockUse> = uses.iter()
                .map(|&(movable, fixed, is_target)| BlockUse { movable, fixed: fixed.min(512 - movable), is_target })
                .collect();
            let found = predicted_yield(&blocks, margin);
            prop_assert!(found <= blocks.iter().filter(|block| block.is_clean()).count() as u64);
            prop_assert!(found <= predicted_yield(&blocks, 0));
        }
    }
}
