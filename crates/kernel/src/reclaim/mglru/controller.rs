//! Type to evict, and tiers to spare: refault ratios compared by a proportional-integral controller (docs/spec/mglru.md#s7). Plain numbers
//! in, plain numbers out.

use super::page::{MIN_LRU_BATCH, NR_TIERS};
use crate::reclaim::scan_balance::{PageType, SWAPPINESS_ANON_ONLY};

/// Evictions and refaults of one type, by tier: since the oldest generation last moved on, and the mean before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) avg_refaulted: [u64; NR_TIERS],
    pub(crate) avg_total: [u64; NR_TIERS],
    pub(crate) refaulted: [u64; NR_TIERS],
    pub(crate) evicted: [u64; NR_TIERS],
    pub(crate) protected: [u64; NR_TIERS],
}

impl History {
    /// The oldest generation moved on: half of the old value, half of the new.
    pub(crate) fn carry_over(&mut self) {
        for tier in 0..NR_TIERS {
            self.avg_refaulted[tier] = u64::midpoint(self.avg_refaulted[tier], self.refaulted[tier]);
            let total = self.evicted[tier] + self.protected[tier];
            self.avg_total[tier] = u64::midpoint(self.avg_total[tier], total);
        }
        self.refaulted = [0; NR_TIERS];
        self.evicted = [0; NR_TIERS];
        self.protected = [0; NR_TIERS];
    }

    pub(super) fn reading(&self, tiers: std::ops::Range<usize>, gain: u64) -> Reading {
        let mut reading = Reading { refaulted: 0, total: 0, gain };
        for tier in tiers {
            reading.refaulted += self.avg_refaulted[tier] + self.refaulted[tier];
            reading.total += self.avg_total[tier] + self.evicted[tier] + self.protected[tier];
        }
        reading
    }
}

/// Refaults among the pages that were evicted or spared, and how much they weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) refaulted: u64,
    pub(super) total: u64,
    pub(super) gain: u64,
}

/// Whether the process variable is no worse than the set point, whose ratio is read with some benefit of the doubt.
pub(super) fn is_no_worse(set_point: Reading, process: Reading) -> bool {
    let product = |a: u64, b: u64, gain: u64| u128::from(a) * u128::from(b) * u128::from(gain);
    process.refaulted < MIN_LRU_BATCH
        || product(process.refaulted, set_point.total + MIN_LRU_BATCH, set_point.gain)
            <= product(set_point.refaulted + 1, process.total, process.gain)
}

/// Gains of tier 0 and of the tier compared with it.
pub(crate) const TIER_GAINS: (u64, u64) = (2, 3);
/// The same gains in 6.12, except for one case.
pub(super) const TIER_GAINS_V6_12: (u64, u64) = (1, 2);

/// The highest tier that is not spared. Tiers above refault half as often again as tier 0 with the [gains](TIER_GAINS) of 7.2.
pub(crate) fn tier_limit(history: &History, (of_lowest, of_tier): (u64, u64)) -> usize {
    tier_limit_against(history.reading(0..1, of_lowest), history, of_tier)
}

fn tier_limit_against(set_point: Reading, history: &History, gain: u64) -> usize {
    let is_spared = |&tier: &usize| !is_no_worse(set_point, history.reading(tier..tier + 1, gain));
    (1..NR_TIERS).find(is_spared).unwrap_or(NR_TIERS) - 1
}

/// The type that 6.12 evicts, and the highest tier that it does not spare. Where neither swappiness nor the oldest generations
/// decide, the lowest tiers of both types are compared, and then the tiers of one type with the lowest tier of the other.
pub(super) fn choose_v6_12(history: &[History; 2], min_seq: [u64; 2], swappiness: u32) -> (PageType, usize) {
    debug_assert!(swappiness <= SWAPPINESS_ANON_ONLY, "swappiness is 0 to 200, or 201 for anonymous pages only");
    let own_limit = |page_type: PageType| (page_type, tier_limit(&history[page_type as usize], TIER_GAINS_V6_12));
    match swappiness {
        0 => own_limit(PageType::File),
        _ if min_seq[PageType::Anon as usize] < min_seq[PageType::File as usize] => own_limit(PageType::Anon),
        1 => own_limit(PageType::File),
        200..=SWAPPINESS_ANON_ONLY => own_limit(PageType::Anon),
        _ => {
            let gains = [u64::from(swappiness), 200u64.saturating_sub(u64::from(swappiness))];
            let lowest = |at: usize| history[at].reading(0..1, gains[at]);
            let (anon, file) = (PageType::Anon as usize, PageType::File as usize);
            let chosen = if is_no_worse(lowest(anon), lowest(file)) { PageType::File } else { PageType::Anon };
            let other = 1 - chosen as usize;
            (chosen, tier_limit_against(lowest(other), &history[chosen as usize], gains[chosen as usize]))
        }
    }
}

/// The type to evict: refault ratios are kept at `200 - swappiness` for file pages to `swappiness` for anonymous ones.
pub(crate) fn type_to_evict(history: &[History; 2], swappiness: u32) -> PageType {
    debug_assert!(swappiness <= SWAPPINESS_ANON_ONLY, "swappiness is 0 to 200, or 201 for anonymous pages only");
    match swappiness {
        0 | 1 => PageType::File,
        200..=SWAPPINESS_ANON_ONLY => PageType::Anon,
        _ => {
            let gain = u64::from(swappiness);
            let anon = history[PageType::Anon as usize].reading(0..NR_TIERS, gain);
            let file = history[PageType::File as usize].reading(0..NR_TIERS, 200u64.saturating_sub(gain));
            if is_no_worse(anon, file) { PageType::File } else { PageType::Anon }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(refaulted: [u64; 4], total: [u64; 4]) -> History {
        History { refaulted, evicted: total, ..History::default() }
    }

    /// E7: which tiers are spared.
    #[test]
    fn e7_choose_tier() {
        let table = [
            ([100, 200, 0, 0], [1000, 1000, 0, 0], 0),
            ([100, 142, 300, 10], [1000; 4], 1),
            ([100, 143, 300, 10], [1000; 4], 0),
            ([0, 63, 64, 500], [5000, 100, 100, 600], 1),
            ([0; 4], [0; 4], 3),
        ];
        for (refaulted, total, limit) in table {
            assert_eq!(tier_limit(&history(refaulted, total), TIER_GAINS), limit, "{refaulted:?} of {total:?}");
        }
    }

    /// E8: which type is evicted.
    #[test]
    fn e8_choose_type() {
        let all = |r, n| history([r, 0, 0, 0], [n, 0, 0, 0]);
        let table = [
            (60, (100, 1000), (200, 1000), PageType::File),
            (60, (100, 1000), (221, 1000), PageType::File),
            (60, (100, 1000), (222, 1000), PageType::Anon),
            (60, (0, 0), (63, 100), PageType::File),
            (60, (0, 0), (64, 100), PageType::Anon),
            (100, (100, 1000), (100, 1000), PageType::Anon),
            (1, (100, 1000), (999, 1000), PageType::File),
            (200, (100, 1000), (0, 1000), PageType::Anon),
            (201, (100, 1000), (0, 1000), PageType::Anon),
            (0, (0, 0), (999, 1000), PageType::File),
        ];
        for (swappiness, anon, file, chosen) in table {
            let history = [all(anon.0, anon.1), all(file.0, file.1)];
            assert_eq!(type_to_evict(&history, swappiness), chosen, "{swappiness} {anon:?} {file:?}");
        }
    }

    /// E9: the moving average halves and truncates.
    #[test]
    fn e9_moving_average() {
        let mut history = History::default();
        let averages = [100, 100, 0, 0, 7].map(|sample| {
            history.refaulted[2] = sample;
            history.evicted[1] = sample;
            history.carry_over();
            assert_eq!(history.avg_total[1], history.avg_refaulted[2]);
            history.avg_refaulted[2]
        });
        assert_eq!(averages, [50, 75, 37, 18, 12]);
        assert_eq!((history.refaulted, history.evicted), ([0; 4], [0; 4]));
    }

    /// Trap 8: pages that were spared count in the denominator.
    #[test]
    fn spared_pages_lower_the_ratio() {
        let mut history = history([100, 143, 0, 0], [1000, 1000, 0, 0]);
        assert_eq!(tier_limit(&history, TIER_GAINS), 0);
        history.protected[1] = 100;
        assert_eq!(tier_limit(&history, TIER_GAINS), 3);
    }
}
