//! Two-phase sampling: all addresses of an aggregation cleared at its beginning and tested at its end
//! (docs/spec/page-table-profiling.md#s7-4).

use super::region::HIT_BP;
use super::target::Target;
use crate::host::{Level, Probe, Seen};

/// Orders the probes of each region (every region has the same number), and drops each probe whose entry another probe reads: that entry is
/// tested once and counted once. A region of few entries therefore counts to fewer than the samples of an aggregation.
pub(crate) fn drop_twins(target: &mut Target) {
    let Target { regions, probes, levels, batch_ends, .. } = target;
    debug_assert!(batch_ends.is_empty(), "the sample before was dropped whole");
    let samples = probes.len() / regions.len().max(1);
    debug_assert_eq!(regions.len() * samples, probes.len(), "each region has as many probes as each other");
    let entry = |probe: &Probe| {
        let level = levels.answers(*probe);
        (level, levels.entry(level, probe.address).0)
    };
    let mut kept = 0;
    for region in 0..regions.len() {
        let drawn = region * samples..(region + 1) * samples;
        probes[drawn.clone()].sort_unstable_by_key(entry);
        let first = kept;
        for index in drawn {
            let probe = probes[index];
            if kept == first || entry(&probes[kept - 1]) != entry(&probe) {
                probes[kept] = probe;
                kept += 1;
            }
        }
        debug_assert!(kept > first || samples == 0, "the first of some twins stays");
        batch_ends.push(kept);
    }
    probes.truncate(kept);
}

/// Counts the results; returns the number of unknown ones.
pub(crate) fn count(target: &mut Target) -> u64 {
    debug_assert_eq!(target.batch_ends.len(), target.regions.len(), "each region knows where its probes end");
    debug_assert_eq!(
        target.batch_ends.last().copied().unwrap_or(0),
        target.results.len(),
        "each result belongs to a region"
    );
    let (mut first, mut dropped) = (0, 0);
    for (region, end) in target.regions.iter_mut().zip(&target.batch_ends) {
        let results = &target.results[first..*end];
        let of = |seen| results.iter().filter(|result| result.seen == seen).count();
        region.nr_accesses = u32::try_from(of(Seen::Accessed)).expect("as many as samples at most");
        region.nr_accesses_bp = region.nr_accesses.wrapping_mul(HIT_BP);
        region.level = results.iter().map(|result| result.level).max().unwrap_or(Level::LEAF);
        dropped += of(Seen::Unknown) as u64;
        first = *end;
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;
    use crate::host::ProbeResult;

    #[test]
    fn twins_are_tested_once_and_counted_once() {
        let mut target = Target::for_test(vec![region(0, 3 << 21, 0, 0), region(3 << 21, 4 << 21, 0, 0)]);
        let probe = |address, level| Probe { address, level: Level(level) };
        let far = 3 << 21;
        target.probes = vec![
            probe((2 << 21) + 7, 1),
            probe(5, 1),
            probe(9000, 1),
            probe(far, 1),
            probe(far + 4095, 1),
            probe(far + 4096, 1),
        ];
        drop_twins(&mut target);
        assert_eq!(target.batch_ends, [2, 3]);
        let entries: Vec<u64> = target.probes.iter().map(|probe| probe.address >> 21).collect();
        assert_eq!(entries, [0, 2, 3]);
        target.results =
            [Seen::Accessed, Seen::Unknown, Seen::Accessed].map(|seen| ProbeResult { seen, level: Level(1) }).to_vec();
        assert_eq!(count(&mut target), 1);
        let counts: Vec<u32> = target.regions.iter().map(|region| region.nr_accesses).collect();
        assert_eq!(counts, [1, 1]);
    }
}
