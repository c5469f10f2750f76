//! The contract of [`Compacting`].

use super::Findings;
use crate::host::{
    BlocksScan, CompactEnd, CompactMode, CompactStep, Compacting, HostError, PageContent, Stop, ZoneState,
};
use crate::vocabulary::HUGE_ORDER;

/// Plays it through: zones are in order, a mark that is reached moves nothing, blocks and their pages agree.
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
        blocks(host, zone, &mut findings);
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

/// What blocks hold, against their pages.
fn blocks(host: &mut dyn Compacting, zone: &ZoneState, findings: &mut Findings) {
    let mut reported = Vec::new();
    let check = BlocksScan { zone: zone.id, samples: 0, turn: 0 };
    if host.page_blocks(&check, &mut reported).is_err() {
        findings.expect(reported.is_empty(), "page blocks that failed have left something behind");
        return;
    }
    findings.expect(reported.windows(2).all(|pair| pair[0].number < pair[1].number), "page blocks do not ascend");
    findings.expect(
        reported.iter().all(|block| block.sampled == 0 && block.accessed == 0),
        "bits are read that were not asked for",
    );
    for block in reported.iter().take(4) {
        let mut pages = Vec::new();
        if host.block_pages(zone.id, block.number, false, &mut pages).is_err() {
            findings.expect(false, "the pages of a block that was told are not");
            continue;
        }
        let count = |is: fn(&PageContent) -> bool| pages.iter().filter(|page| is(page)).count() as u64;
        let movable = count(|page| matches!(page, PageContent::Movable { .. }));
        let fixed = count(|page| matches!(page, PageContent::Fixed));
        let agrees = movable == u64::from(block.usage.movable) && fixed == u64::from(block.usage.fixed);
        findings.expect(agrees, "a block does not hold what its pages say");
    }
    let none = host.block_pages(zone.id, u32::MAX, false, &mut Vec::new());
    findings.expect(
        matches!(none, Err(HostError::Failed(_) | HostError::NotHere(_))),
        "a block that is not there has pages",
    );
}
