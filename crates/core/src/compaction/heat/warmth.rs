//! How much a page block is used, as a moving average over epochs (docs/spec/compaction.md#s8-2).

use isotherm_units::Duration;

/// Distinct pages used in an epoch, times 256; an epoch weighs a quarter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Warmth {
    heat: u32,
    is_hot: bool,
}

impl Warmth {
    /// An epoch is over in which `accessed` of `sampled` pages were used; of a block with `movable` pages.
    pub(super) fn learn(&mut self, sampled: u32, accessed: u32, movable: u32) {
        let pages = u64::from(accessed) * u64::from(movable) / u64::from(sampled.max(1));
        let pages = u32::try_from(pages).unwrap_or(movable).min(movable);
        self.heat = self.heat - (self.heat >> 2) + ((pages << 8) >> 2);
        // Hot where four pages, or one in eight, are used in each epoch; not any more at half of that.
        let on = 256 * (movable / 8).max(4);
        self.is_hot = if self.is_hot { self.heat >= on / 2 } else { self.heat >= on };
    }

    /// Whether many of its pages are used.
    pub(super) const fn is_hot(self) -> bool {
        self.is_hot
    }

    /// Uses of pages of the block, thousandths a second. A page that is used in every epoch counts once in each, so that this is
    /// the least they can be.
    pub(super) fn rate(self, epoch: Duration) -> u64 {
        let milli = u128::from(self.heat) * 1_000_000_000_000 / (256 * u128::from(epoch.ns().max(1)));
        u64::try_from(milli).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/compaction.md#s11, E29.
    #[test]
    fn e29_heat_rises_and_falls() {
        let mut warmth = Warmth::default();
        let mut of = |pages: u32, epochs: usize| -> Vec<(u32, bool)> {
            (0..epochs)
                .map(|_| {
                    warmth.learn(128, pages, 128);
                    (warmth.heat, warmth.is_hot)
                })
                .collect()
        };
        let heats = |list: &[(u32, bool)]| list.iter().map(|&(heat, _)| heat).collect::<Vec<_>>();
        let rising = of(100, 6);
        assert_eq!(heats(&rising), [6400, 11_200, 14_800, 17_500, 19_525, 21_044]);
        assert!(rising[0].1, "4096 and more is hot with 128 pages");
        assert_eq!(of(100, 60).last().map(|last| last.0), Some(25_600));
        let falling = of(0, 9);
        assert_eq!(heats(&falling), [19_200, 14_400, 10_800, 8100, 6075, 4557, 3418, 2564, 1923]);
        assert!(falling[7].1 && !falling[8].1, "cold below 2048");
    }

    #[test]
    fn samples_stand_for_all() {
        let mut warmth = Warmth::default();
        warmth.learn(16, 4, 128);
        assert_eq!(warmth.heat, 32 * 256 / 4);
        // 8 of 32 pages settled into the average, in epochs of 100 ms: 80 uses a second.
        assert_eq!(warmth.rate(Duration::from_ms(100)), 80_000);
        warmth.learn(0, 0, 0);
        warmth.learn(0, 7, 100);
        assert!(warmth.heat < u32::MAX / 2, "odd answers of a host do no harm");
        assert_eq!(Warmth::default().rate(Duration::ZERO), 0);
    }
}
