//! The daemon over a page-exact host: the worked examples of scans, the time it takes to find pages, and things that it must never do.

mod conservation;
mod exits;
mod finds;
mod knobs;
mod migration;
mod scans;

use super::fake::{World, drive};
use super::{Mode, Promotion, PromotionConfig, ScanReport};
use crate::host::TargetId;
use isotherm_units::{Duration, Instant};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SPACE: TargetId = TargetId(0);

fn ms(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// A daemon with all spaces of the world.
fn daemon(config: PromotionConfig, world: &mut World) -> Promotion {
    let mut promotion = Promotion::new(config, 7, world).expect("a configuration that is allowed");
    promotion.find_spaces(Instant::START, world).expect("the world lists its spaces");
    promotion
}

fn of_mode(mode: Mode, world: &mut World) -> Promotion {
    daemon(PromotionConfig::of_mode(mode), world)
}

/// The next `nr` scans of any space, with the time of each.
fn scans(promotion: &mut Promotion, world: &mut World, from: Instant, nr: usize) -> Vec<(Instant, ScanReport)> {
    let mut reports = Vec::new();
    drive(promotion, world, from, from + Duration::from_secs(1_000_000), |_, _, now, step| {
        reports.extend(step.scan.map(|scan| (now, scan)));
        reports.len() < nr
    });
    assert_eq!(reports.len(), nr, "scans go on for ever");
    reports
}

/// Period in ms and size in MiB after a scan.
fn pace(scan: &ScanReport) -> (u64, u64) {
    (scan.scan_period.ns() / 1_000_000, scan.scan_size.get() / MIB)
}
