//! The contract of [`Probing`].

use super::{Findings, Fixture};
use crate::host::{Level, Probe, ProbeResult, Probing, Seen};

/// Exercises it: bits that no access sets stay clear, tests change nothing, and unmapped addresses are reported as
/// such.
pub fn probing(host: &mut dyn Probing, fixture: &Fixture) -> Findings {
    let mut findings = Findings::default();
    let Fixture { process, mapped, hole, gone } = *fixture;
    let can = host.capabilities(process);
    findings.expect(can.shifts.windows(2).all(|pair| pair[0] < pair[1]), "shifts of levels do not ascend");
    let highest = usize::from(can.highest_level.0);
    findings.expect(highest < can.shifts.len(), "the highest level that is probed does not exist");
    let Some(&page_shift) = can.shifts.first() else {
        findings.expect(false, "there is no level at all");
        return findings;
    };
    let leaf = |address| Probe { address, level: Level::LEAF };
    let pages: Vec<Probe> = (mapped.start..mapped.end).step_by(1 << page_shift).map(leaf).collect();
    let mut results = vec![ProbeResult::default(); pages.len()];
    let cleared = host.clear(process, &pages, &mut results);
    if cleared.is_err() {
        let tested = host.test(process, &pages, &mut results);
        findings.expect(tested.is_err(), "it tests bits, and cannot clear them");
        return findings;
    }
    let mut accessed = Vec::new();
    let known = host.test_known(process, &pages, &mut accessed);
    findings.expect(known.is_ok() && accessed.is_empty(), "a bit that was cleared is known to be set again");
    for result in &results {
        findings.expect(result.seen != Seen::NotMapped, "a present page is told not to be mapped");
        findings.expect(
            can.shifts.get(usize::from(result.level.0)).is_some(),
            "an answer is of a level that does not exist",
        );
    }
    for what in ["a bit that was cleared and not set since is not idle", "a test has changed what it looked at"] {
        let tested = host.test(process, &pages, &mut results);
        let idle = results.iter().all(|result| matches!(result.seen, Seen::Idle | Seen::Unknown));
        findings.expect(tested.is_ok() && idle, what);
    }
    let mut nothing = [ProbeResult { seen: Seen::Accessed, level: Level::LEAF }];
    let answer = host.test(process, &[leaf(hole)], &mut nothing);
    findings
        .expect(answer.is_err() || nothing[0].seen == Seen::NotMapped, "what is not mapped is told as something else");
    let mut bits = vec![7];
    let parent = Probe { address: mapped.start, level: Level(1) };
    let scanned = host.scan_children(process, parent, &mut bits);
    findings.expect_offered(can.scan_children, "scan_children", &scanned);
    findings.expect(bits.first() == Some(&7), "a scan of children does not append");
    if scanned.is_ok() {
        let children = 1usize << (can.shifts[1] - page_shift);
        findings.expect(bits.len() == 1 + children.div_ceil(64), "a scan of children has not one bit a child");
        findings.expect(bits.iter().skip(1).all(|&word| word == 0), "a scan of children sees bits that were cleared");
    }
    let flushed = host.flush(process);
    findings.expect_offered(can.flush, "flush", &flushed);
    if let Some(gone) = gone {
        let (mut results, mut bits) = ([ProbeResult::default()], Vec::new());
        findings.expect_gone("clear", gone, &host.clear(gone, &[leaf(mapped.start)], &mut results));
        findings.expect_gone("test", gone, &host.test(gone, &[leaf(mapped.start)], &mut results));
        findings.expect_gone("scan_children", gone, &host.scan_children(gone, parent, &mut bits));
        findings.expect(bits.is_empty(), "a scan that failed has left something behind");
    }
    findings
}
