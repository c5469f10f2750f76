//! Mode 2: a page is hot if it faults soon after it was made inaccessible; this threshold adapts to the rate limit.
//!
//! Source: docs/spec/promotion.md#s4-4 and #s4-5, Linux 7.2 `kernel/sched/fair.c`, `should_numa_migrate_memory` and what it calls.

use crate::host::NodeMemory;
use isotherm_units::{Duration, Instant};

/// Pages of a megabyte, which here is 2^20 bytes.
const PAGES_PER_MB: u64 = 256;
/// Steps of the threshold from nothing to twice the knob.
const THRESHOLD_STEPS: u64 = 16;
/// The window of the rate limit.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Pages of the headroom that lets everything through, at least: 1 GiB.
const HEADROOM_PAGES: u64 = 262_144;

/// Knobs of promotion by hint faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotControls {
    /// `numa_balancing_promote_rate_limit_MBps`. 0: pages pass only through free memory.
    pub rate_limit_mbps: u64,
    /// `hot_threshold_ms`: the threshold that adaptation starts from, and half of the most.
    pub hot_threshold_ms: u64,
    /// `scan_period_max_ms`: time from one adaptation of the threshold to the next.
    pub adapt_every_ms: u64,
}

impl Default for HotControls {
    /// The kernel's.
    fn default() -> Self {
        Self { rate_limit_mbps: 65_536, hot_threshold_ms: 1000, adapt_every_ms: 60_000 }
    }
}

/// Whether a node has enough free memory that hot and cold need not be distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    Ample,
    /// It has not; hot and cold pages have to be distinguished.
    Scarce,
}

impl Headroom {
    /// Free memory exceeds the promotion watermark by more than 1 GiB and a sixteenth of the node. This holds for a node of one zone
    /// without a reserve; with several zones it is enough that one zone has the room.
    pub fn of(node: NodeMemory) -> Self {
        let wanted = node.promo.saturating_add(HEADROOM_PAGES.max(node.present / 16));
        if node.free > wanted { Self::Ample } else { Self::Scarce }
    }
}

/// The decision about a page of a slow node that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotDecision {
    /// Promoted as there is room for all (`pgpromote_candidate_nrl`).
    Ample,
    /// Promoted, because it is hot.
    Hot,
    /// Hot, but too many others were in this second.
    RateLimited,
    /// The page is not hot; it does not count as a candidate.
    Cold,
}

impl HotDecision {
    /// Whether the page is to be promoted.
    pub fn promotes(self) -> bool {
        matches!(self, Self::Ample | Self::Hot)
    }
}

/// The state of a node of the top tier about candidates for promotion. All counts are of base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotFilter {
    /// The threshold in force; `None`: the knob's.
    threshold_ms: Option<u64>,
    adapted_at: Instant,
    candidates_at_adaption: u64,
    window_start: Instant,
    candidates_at_window: u64,
    /// `pgpromote_candidate`: base pages that were hot, counted before the rate limit.
    pub candidates: u64,
    /// `pgpromote_candidate_nrl`: base pages promoted because there was room for all.
    pub candidates_ample: u64,
}

impl HotFilter {
    /// Decides about a folio of `pages` base pages that faulted `latency_ms` after it was made inaccessible.
    pub fn decide(
        &mut self,
        pages: u64,
        latency_ms: u64,
        headroom: Headroom,
        controls: &HotControls,
        now: Instant,
    ) -> HotDecision {
        if headroom == Headroom::Ample {
            self.threshold_ms = None;
            self.candidates_ample += pages;
            return HotDecision::Ample;
        }
        let rate = controls.rate_limit_mbps.saturating_mul(PAGES_PER_MB);
        self.adapt(rate, controls, now);
        if latency_ms >= self.threshold_ms(controls) {
            return HotDecision::Cold;
        }
        self.candidates += pages;
        if now.since(self.window_start) > RATE_WINDOW {
            self.window_start = now;
            // With the page that opens the window: it does not count in it.
            self.candidates_at_window = self.candidates;
        }
        if self.candidates - self.candidates_at_window < rate { HotDecision::Hot } else { HotDecision::RateLimited }
    }

    /// The threshold in force, in milliseconds.
    pub fn threshold_ms(&self, controls: &HotControls) -> u64 {
        self.threshold_ms.unwrap_or(controls.hot_threshold_ms)
    }

    /// Tiering was switched on: counting and adapting begin again, from the knob's threshold.
    pub fn reset(&mut self, now: Instant) {
        self.threshold_ms = None;
        (self.adapted_at, self.candidates_at_adaption) = (now, self.candidates);
    }

    /// Fewer candidates than the rate limit lets through make the threshold rise, more make it fall: by an eighth of the knob, between an
    /// eighth and twice of it. The least threshold is one step, which with a knob below 8 ms is 0 and stays there.
    fn adapt(&mut self, rate: u64, controls: &HotControls, now: Instant) {
        if now.since(self.adapted_at) <= Duration::from_ms(controls.adapt_every_ms) {
            return;
        }
        self.adapted_at = now;
        let wanted = rate.saturating_mul(controls.adapt_every_ms) / 1000;
        let came = self.candidates - self.candidates_at_adaption;
        let most = controls.hot_threshold_ms.saturating_mul(2);
        let step = most / THRESHOLD_STEPS;
        let threshold = self.threshold_ms(controls);
        let threshold = if came > tenths(wanted, 11) {
            threshold.saturating_sub(step).max(step)
        } else if came < tenths(wanted, 9) {
            (threshold + step).min(most)
        } else {
            threshold
        };
        self.candidates_at_adaption = self.candidates;
        // In the kernel, too, a threshold of 0 reads as none.
        self.threshold_ms = (threshold > 0).then_some(threshold);
    }
}

fn tenths(value: u64, tenths: u64) -> u64 {
    value.saturating_mul(tenths) / 10
}

/// Milliseconds from `marked` to `faulted` as the kernel gets them from the few bits that a page has for the time.
pub fn latency_ms(marked: Instant, faulted: Instant, bits: u32) -> u64 {
    let mask = 1u64.checked_shl(bits).map_or(u64::MAX, |size| size - 1);
    let ms = |at: Instant| at.ns() / 1_000_000;
    (ms(faulted) & mask).wrapping_sub(ms(marked) & mask) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_100_MB: HotControls =
        HotControls { rate_limit_mbps: 100, hot_threshold_ms: 1000, adapt_every_ms: 60_000 };

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// The threshold after each window of a minute with this number of candidates.
    fn thresholds(came: &[u64]) -> Vec<u64> {
        let mut filter = HotFilter::default();
        let mut now = 0;
        let window = |&came: &u64| {
            filter.candidates += came;
            now += 60_001;
            filter.decide(1, u64::MAX, Headroom::Scarce, &LIMIT_100_MB, at(now));
            filter.threshold_ms(&LIMIT_100_MB)
        };
        came.iter().map(window).collect()
    }

    /// docs/spec/promotion.md#s7, example 17.
    #[test]
    fn the_threshold_follows_the_rate_limit() {
        let came = [2_000_000, 2_000_000, 1_600_000, 1_689_600, 1_689_601, 1_000_000, 1_382_400, 1_382_399];
        assert_eq!(thresholds(&came), [875, 750, 750, 750, 625, 750, 750, 875], "example 17");
    }

    /// docs/spec/promotion.md#s7, example 18.
    #[test]
    fn the_threshold_stays_between_an_eighth_and_twice_the_knob() {
        assert_eq!(thresholds(&[9_000_000; 8]), [875, 750, 625, 500, 375, 250, 125, 125], "example 18: too many");
        let rising = thresholds(&[0; 10]);
        assert_eq!((rising[0], &rising[6..]), (1125, &[1875, 2000, 2000, 2000][..]), "example 18: too few");
    }

    fn passes(filter: &mut HotFilter, pages: u64, now: Instant) -> bool {
        filter.decide(pages, 0, Headroom::Scarce, &LIMIT_100_MB, now).promotes()
    }

    /// docs/spec/promotion.md#s7, example 19.
    #[test]
    fn a_second_lets_as_many_pages_through_as_the_rate() {
        let mut filter = HotFilter::default();
        let passed = (0..30_000).filter(|_| passes(&mut filter, 1, at(1001))).count();
        assert_eq!((passed, filter.candidates), (25_600, 30_000), "example 19");
        for (before, passing, after) in [(25_000, true, 25_512), (25_100, false, 25_612)] {
            let mut filter = HotFilter { window_start: at(1000), candidates: before, ..HotFilter::default() };
            assert_eq!(passes(&mut filter, 512, at(2000)), passing, "example 19: {before} and a huge page");
            assert_eq!(filter.candidates - filter.candidates_at_window, after, "example 19: {before}");
        }
        let mut filter = HotFilter::default();
        let none = HotControls { rate_limit_mbps: 0, ..LIMIT_100_MB };
        assert_eq!(filter.decide(1, 0, Headroom::Scarce, &none, at(1001)), HotDecision::RateLimited, "a rate of 0");
        assert_eq!(filter.decide(1, 0, Headroom::Ample, &none, at(1001)), HotDecision::Ample);
    }

    /// docs/spec/promotion.md#s7, example 20.
    #[test]
    fn hot_is_below_the_threshold() {
        let mut filter = HotFilter::default();
        for (latency, decision, candidates) in [(999, HotDecision::Hot, 1), (1000, HotDecision::Cold, 1)] {
            let got = filter.decide(1, latency, Headroom::Scarce, &LIMIT_100_MB, at(5));
            assert_eq!((got, filter.candidates), (decision, candidates), "example 20: {latency} ms");
        }
    }

    /// docs/spec/promotion.md#s7, example 21: a zone of 64 GiB.
    #[test]
    fn ample_is_a_sixteenth_above_the_promotion_mark() {
        for (free, headroom) in [(1_115_803, Headroom::Scarce), (1_115_804, Headroom::Ample)] {
            let node = NodeMemory { present: 16_777_216, free, high: 50_450, promo: 67_227 };
            assert_eq!(Headroom::of(node), headroom, "example 21: {free}");
        }
        let small = NodeMemory { present: 524_288, free: 262_145, high: 0, promo: 0 };
        assert_eq!(Headroom::of(small), Headroom::Ample, "1 GiB at least");
    }

    #[test]
    fn room_for_all_takes_the_threshold_back() {
        let mut filter = HotFilter { threshold_ms: Some(125), ..HotFilter::default() };
        filter.decide(512, 5000, Headroom::Ample, &LIMIT_100_MB, at(5));
        assert_eq!((filter.threshold_ms(&LIMIT_100_MB), filter.candidates, filter.candidates_ample), (1000, 0, 512));
    }

    /// docs/spec/promotion.md#s4-2: 21 bits wrap after 2,097,152 ms.
    #[test]
    fn latencies_wrap() {
        let table = [(1000, 1999, 999), (2_097_000, 2_097_200, 200), (0, 2_097_152, 0), (5, 2_097_152, 2_097_147)];
        for (marked, faulted, latency) in table {
            assert_eq!(latency_ms(at(marked), at(faulted), 21), latency, "{marked} to {faulted}");
        }
        assert_eq!(latency_ms(at(3), at(9), 64), 6);
    }
}
