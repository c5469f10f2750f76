//! The daemon's state of one space.

use super::feedback::Feedback;
use super::heat::HeatMap;
use super::mode::Limits;
use super::throttle::{Stretch, Throttle};
use crate::host::{NodeId, TargetId};
use isotherm_units::{Bytes, Duration, Instant};

/// A space in the scan list.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) target: TargetId,
    pub(super) throttle: Throttle,
    /// Where the series' scan goes on: the end of the last area that was passed, 0 after a whole pass.
    pub(super) address: u64,
    /// `None`: at once, as it was never scanned.
    pub(super) next_scan: Option<Instant>,
    /// Useful pages found by all scans of the space together.
    pub(super) useful: u64,
    /// Scans in a row that found no useful pages, but touched ones that could become useful.
    pub(super) promising: u32,
    /// Chosen by the last scan; `None` if it found no pages of the top tier.
    pub(super) node: Option<NodeId>,
    /// Scale of the process: 0 is not scanned, 1 to 10.
    pub(super) scale: u32,
    pub(super) feedback: Feedback,
    pub(super) map: HeatMap,
}

/// The state of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceReport {
    /// Time from the end of a scan to the next.
    pub scan_period: Duration,
    /// Bytes of address space that one scan covers.
    pub scan_size: Bytes,
    /// Time of the next scan; `None`: at the next round.
    pub next_scan: Option<Instant>,
    /// Useful pages of the last scan, 0 where they were too few.
    pub last_useful: u64,
    /// Useful pages found by all scans of the space together.
    pub useful: u64,
    /// Where the next scan goes on: a byte address.
    pub address: u64,
    /// The node chosen by the last scan; `None`: the node of the knob `target_node`.
    pub target_node: Option<NodeId>,
    /// The space's scale, 1 to 10; 0: it is not scanned.
    pub scale: u32,
    /// Share of the recent moves that failed, in percent.
    pub failed_percent: u64,
    /// Number of the space's folios that wait to be moved.
    pub queued: u64,
    /// Number of regions with a heat above 0; only in mode `rch`.
    pub hot_regions: u64,
}

impl Slot {
    pub(super) fn new(target: TargetId, limits: &Limits, period_ms: u64, scale: u32, now: Instant) -> Self {
        let delay = Duration::from_ms(limits.scan_delay_ms);
        Self {
            target,
            throttle: Throttle::new(limits, period_ms),
            address: 0,
            next_scan: (delay > Duration::ZERO).then(|| now + delay),
            useful: 0,
            promising: 0,
            node: None,
            scale,
            feedback: Feedback::default(),
            map: HeatMap::default(),
        }
    }

    /// Time from which it wants to be scanned; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.scale > 0).then(|| self.next_scan.unwrap_or(Instant::START))
    }

    /// The factors of its period.
    pub(super) fn stretch(&self, limits: &Limits) -> Stretch {
        Stretch {
            scale: if limits.scale_stretches { self.scale } else { 1 },
            failed_percent: if limits.feedback { self.feedback.failed_percent() } else { 0 },
        }
    }

    pub(super) fn report(&self, queued: u64) -> SpaceReport {
        let hot_regions = self.map.regions().iter().filter(|region| region.heat > 0).count();
        SpaceReport {
            scan_period: Duration::from_ms(self.throttle.period_ms),
            scan_size: Bytes::new(self.throttle.size),
            next_scan: self.next_scan,
            last_useful: self.throttle.useful,
            useful: self.useful,
            address: if self.map.size() > 0 { self.map.cursor } else { self.address },
            target_node: self.node,
            scale: self.scale,
            failed_percent: self.feedback.failed_percent(),
            queued,
            hot_regions: u64::try_from(hot_regions).expect("fits"),
        }
    }
}
