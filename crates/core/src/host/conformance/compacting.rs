//! The contract of [`Compacting`].

use super::Findings;
use crate::host::{CompactEnd, CompactMode, CompactStep, Compacting, Stop, ZoneState};
use crate::vocabulary::HUGE_ORDER;

/// Plays it through: zones are in order, a mark that is reached moves nothing.
pub fn compacting(host: &mut dyn Compacting) -> Findings {
    let mut findings = Findings::default();
    let mut zones: Vec<ZoneState> = Vec::new();
    if host.zones(&mut zones).is_err() {
        findings.expect(zones.is_empty(), "zones that failed have left something behind");
        return findings;
    }
    findings.expect(zones.windows(2).all(|pair| pair[0].id < pair[1].id), "zones are not in order, or told twice");
    let before = zones.len();
    let again = host.zones(&mut zones);
    findings.expect(again.is_ok() && zones.len() == 2 * before, "zones are not appended");
    zones.truncate(before);
    for zone in &zones {
        let is_less = |part: u64| part <= zone.present;
        findings.expect(is_less(zone.blocks.pages()), "a zone has more free pages than pages");
        findings.expect(
            zone.movable.is_none_or(|movable| movable.pages() <= zone.blocks.pages()),
            "more is free of one type than of all",
        );
        step(host, zone, &mut findings);
    }
    findings
}

/// A step whose mark is reached before it begins.
fn step(host: &mut dyn Compacting, zone: &ZoneState, findings: &mut Findings) {
    let nothing = CompactStep {
        zone: zone.id,
        is_first: true,
        mode: CompactMode::SyncLight,
        stop: Stop::Blocks { order: HUGE_ORDER, count: 0 },
        counts_in_flight: false,
        stops_for_reclaim: false,
        max_scanned: u64::MAX,
        max_moved: u64::MAX,
    };
    let done = host.compact(&nothing);
    findings.expect_offered(host.compaction_granularity().is_some(), "compact", &done);
    let Ok(done) = done else { return };
    let is_over = matches!(done.end, Some(CompactEnd::Reached | CompactEnd::ScannersMet));
    findings.expect(done.pages_moved == 0 && is_over, "compaction goes on although its mark is reached");
}
