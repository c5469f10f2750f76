//! Whether a target's cached translations are dropped, and how hidden accesses are noticed.
//!
//! A CPU that holds upper entries in its caches does not read them on a walk, and so does not set their bits again once we have cleared
//! them. Without flushes upper levels seem colder than they are. The error grows with the level and with the locality of accesses
//! (docs/spec/page-table-profiling.md#s3-2).

use super::snapshot::Activity;
use super::target::Target;
use crate::host::{Level, Probe, Seen};
use serde::{Deserialize, Serialize};

/// When cached translations are flushed after accessed bits were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushPolicy {
    /// Never, as the page-table-profiling patches and the kernel's own ageing do. Costs nothing, errs towards cold.
    #[default]
    None,
    /// Once a tick and target, after all bits are cleared. An interrupt of every CPU that runs the target, each tick.
    Batched,
    /// As `batched`, but only from the time at which an upper entry was seen clear while an entry below it was set, to the end of the next
    /// aggregation. To find such cases, some regions are probed at two levels.
    Adaptive,
}

/// One region in this number is probed at two levels in a tick, in turn.
const COMPANION_EVERY: u64 = 16;

/// Adds companions in front of the probes of `target`: for some regions an entry below the probed one, on the way to the same address, at
/// each lower level in turn. They stand in front, because children are to be cleared before their parents.
pub(crate) fn add_companions(target: &mut Target, tick: u64) {
    debug_assert!(target.doubted.is_empty(), "a sample gets its companions once");
    debug_assert_eq!(
        target.probes.len(),
        target.regions.len(),
        "one probe stands for each region until companions come"
    );
    let nr_regions = target.probes.len();
    let first = usize::try_from(tick % COMPANION_EVERY).expect("below 16");
    let step = usize::try_from(COMPANION_EVERY).expect("16");
    let turn = u8::try_from(tick / COMPANION_EVERY % 256).expect("below 256");
    for index in (first..nr_regions).step_by(step) {
        let Probe { address, level } = target.probes[index];
        if level > Level::LEAF {
            target.doubted.push(index);
            target.probes.push(Probe { address, level: Level(level.0 - 1 - turn % level.0) });
        }
    }
    target.probes.rotate_right(target.doubted.len());
}

/// Compares pairs of probes of one tick, one below the entry of the other, and returns whether any pair contradicts.
pub(crate) fn find_contradictions(target: &Target, activity: &mut Activity) -> bool {
    debug_assert_eq!(
        target.probes.len(),
        target.doubted.len() + target.regions.len(),
        "companions come first, then one probe a region"
    );
    debug_assert_eq!(target.results.len(), target.probes.len(), "each probe saw something");
    let nr_companions = target.doubted.len();
    let mut found = false;
    let mut compare = |upper: usize, lower: usize| {
        let (above, below) = (target.results[upper], target.results[lower]);
        debug_assert!(
            target.probes[lower].level < target.probes[upper].level,
            "only an entry further up covers the other"
        );
        let comparable = |seen| matches!(seen, Seen::Accessed | Seen::Idle);
        let is_entry = above.level == target.probes[upper].level && below.level < above.level;
        if comparable(above.seen) && comparable(below.seen) && is_entry {
            activity.consistency_tests += 1;
            if (above.seen, below.seen) == (Seen::Idle, Seen::Accessed) {
                activity.upper_clear_but_leaf_set += 1;
                found = true;
            }
        }
    };
    for (companion, doubted) in target.doubted.iter().enumerate() {
        compare(nr_companions + doubted, companion);
    }
    // Entries may reach out of their regions (`flex`), over the address that is the sample of a neighbour.
    for (index, region) in target.regions.iter().enumerate() {
        let here = nr_companions + index;
        let Probe { address, level } = target.probes[here];
        if level == Level::LEAF {
            continue;
        }
        let (start, end) = target.levels.entry(level, address);
        if end > u128::from(region.range.end) {
            let next = target.probes.get(here + 1);
            if next.is_some_and(|next| next.level < level && u128::from(next.address) < end) {
                compare(here, here + 1);
            }
        }
        if start < u128::from(region.range.start) && index > 0 {
            let before = target.probes[here - 1];
            if before.level < level && u128::from(before.address) >= start {
                compare(here, here - 1);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;
    use crate::host::ProbeResult;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_clear_entry_above_a_set_one_is_noticed() {
        let mut target = Target::for_test(vec![region(0, GIB, 0, 0), region(GIB, GIB + 4096, 0, 0)]);
        target.probes = vec![Probe { address: 5, level: Level(2) }, Probe { address: GIB, level: Level(0) }];
        add_companions(&mut target, 0);
        let levels: Vec<u8> = target.probes.iter().map(|probe| probe.level.0).collect();
        assert_eq!(levels, [1, 2, 0], "the companion is cleared before its parent");
        assert_eq!(target.doubted, [0]);
        // (seen above, seen below, contradiction, tests)
        let table = [
            (Seen::Idle, Seen::Accessed, true, 1),
            (Seen::Accessed, Seen::Accessed, false, 1),
            (Seen::Idle, Seen::Idle, false, 1),
            (Seen::Idle, Seen::Unknown, false, 0),
            (Seen::NotMapped, Seen::Accessed, false, 0),
        ];
        for (above, below, expected, tests) in table {
            let result = |seen, level| ProbeResult { seen, level: Level(level) };
            target.results = vec![result(below, 1), result(above, 2), result(Seen::Idle, 0)];
            let mut activity = Activity::default();
            assert_eq!(find_contradictions(&target, &mut activity), expected, "{above:?} over {below:?}");
            assert_eq!((activity.consistency_tests, activity.upper_clear_but_leaf_set), (tests, u64::from(expected)));
        }
    }

    #[test]
    fn an_entry_that_reaches_over_a_neighbour_is_compared_with_it() {
        let mut target = Target::for_test(vec![region(0, GIB - 4096, 0, 0), region(GIB - 4096, GIB, 0, 0)]);
        target.probes = vec![Probe { address: 5, level: Level(2) }, Probe { address: GIB - 4096, level: Level(0) }];
        target.results = vec![
            ProbeResult { seen: Seen::Idle, level: Level(2) },
            ProbeResult { seen: Seen::Accessed, level: Level(0) },
        ];
        assert!(find_contradictions(&target, &mut Activity::default()));
    }
}
