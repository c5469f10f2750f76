//! Pressure of the machine, without that of groups that are at a limit of their own.
//!
//! `/proc/pressure/memory` has the time in which all tasks of the machine waited, and cannot be divided among groups. A group that is at its
//! own `memory.high` or `memory.max` waits because of that limit, whatever the daemon does: on an idle machine all of the total may be its.
//! So the total counts only as far as another group waits as well. Two things keep that from hiding harm: a limit that the daemon wrote
//! explains nothing, and no limit explains anything while tasks reclaim for the machine itself (`allocstall_*` of `/proc/vmstat`, which leaves
//! out reclaim for a group's limit: mm/vmscan.c, do_try_to_free_pages, Linux 6.12).

use super::meter::{Meter, is_below_half, share};
use super::reach::above;
use crate::control_loop::{GroupStall, System};
use isotherm_units::{Duration, Instant, Ratio};
use std::collections::{BTreeMap, BTreeSet};

/// Counters of direct reclaim for the machine.
const SHORTAGES: [&str; 4] = ["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"];

/// Pressure of the machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) meter: Meter,
    /// The last reading of the groups, while pressure is high enough to matter.
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    at: Instant,
    groups: BTreeMap<String, GroupStall>,
    shortages: u64,
}

impl Machine {
    /// Takes the share of the time in which all tasks of the machine waited. `limited`: groups with a limit of ours.
    ///
    /// Groups are read only if the share alone may matter, and judged from the second reading on.
    pub(super) fn look(
        &mut self,
        limit: Ratio,
        share: Ratio,
        now: Instant,
        world: &mut dyn System,
        limited: impl Fn() -> BTreeSet<String>,
    ) {
        if is_below_half(share, limit) {
            self.parts = None;
            return self.meter.judge(limit, share, now);
        }
        let parts = Parts::read(now, world);
        if parts.groups.is_empty() {
            self.parts = None;
            return self.meter.judge(limit, share, now);
        }
        if let Some(before) = &self.parts {
            let least = Ratio::from_ppm(limit.ppm() / 2);
            self.meter.judge(limit, parts.not_explained(before, share, least, &limited()), now);
        }
        self.parts = Some(parts);
    }
}

impl Parts {
    fn read(at: Instant, world: &mut dyn System) -> Self {
        let groups = world.group_stalls().into_iter().map(|group| (group.path.clone(), group)).collect();
        let shortages = world.counters(&SHORTAGES).unwrap_or_default();
        Self { at, groups, shortages: shortages.into_iter().flatten().fold(0, u64::saturating_add) }
    }

    /// The part of the machine's share that no limit explains. It explains something only if its group waited for `least` or more.
    fn not_explained(&self, before: &Self, machine: Ratio, least: Ratio, limited: &BTreeSet<String>) -> Ratio {
        if self.shortages > before.shortages {
            return machine;
        }
        let elapsed = self.at.since(before.at);
        let mut is_explained = false;
        // Of the groups directly below a group; those below come first.
        let mut most_below: BTreeMap<&str, Ratio> = BTreeMap::new();
        let mut most = Ratio::ZERO;
        for (path, group) in self.groups.iter().rev() {
            let earlier = before.groups.get(path);
            let below = most_below.remove(path.as_str());
            let own = match (group.full_ns, earlier) {
                // The kernel does not measure it.
                (None, _) => machine,
                // It is new, and known from the next reading on.
                (_, None) => Ratio::ZERO,
                (Some(total), Some(earlier)) => {
                    let before = earlier.full_ns.unwrap_or(total);
                    share(Duration::from_ns(before), Duration::from_ns(total), elapsed)
                }
            };
            let hits = earlier.map_or(0, |earlier| group.limit_hits.saturating_sub(earlier.limit_hits));
            let is_at_limit = hits > 0 && !is_ours(path, limited);
            is_explained |= is_at_limit && own >= least;
            let share = match below {
                _ if is_at_limit => Ratio::ZERO,
                Some(below) if group.is_whole => below,
                _ => own,
            };
            let most = above(path).next().map_or(&mut most, |above| most_below.entry(above).or_insert(Ratio::ZERO));
            *most = (*most).max(share);
        }
        if is_explained { machine.min(most) } else { machine }
    }
}

/// Whether the group, or one in it, has a limit of ours.
fn is_ours(path: &str, limited: &BTreeSet<String>) -> bool {
    limited.iter().any(|limited| limited == path || above(limited).any(|above| above == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups after a second: path, share of the second in percent, how often at a limit, whether all below it are listed.
    type Row = (&'static str, u64, u64, bool);

    fn not_explained(rows: &[Row], limited: &str, shortages: u64) -> u64 {
        let parts = |at: u64, share: u64| Parts {
            at: Instant::START + Duration::from_secs(at),
            shortages: shortages * at,
            groups: rows
                .iter()
                .map(|&(path, percent, hits, is_whole)| {
                    let full_ns = Some(percent * share * 10_000_000);
                    (path.to_owned(), GroupStall { path: path.to_owned(), full_ns, limit_hits: hits * at, is_whole })
                })
                .collect(),
        };
        let limited = BTreeSet::from([limited.to_owned()]);
        let [machine, least] = [40, 1].map(Ratio::from_percent);
        parts(1, 1).not_explained(&parts(0, 0), machine, least, &limited).ppm() / 10_000
    }

    #[test]
    fn the_total_counts_as_far_as_a_group_that_is_at_no_limit_waits() {
        const TENANT: Row = ("/user.slice/u1", 48, 90, true);
        const USERS: Row = ("/user.slice", 45, 0, true);
        for (case, rows, limited, shortages, percent) in [
            ("a tenant alone", vec![USERS, TENANT, ("/app", 0, 0, true)], "", 0, 0),
            ("another group waits less", vec![USERS, TENANT, ("/app", 7, 0, true)], "", 0, 7),
            ("another group waits more", vec![USERS, TENANT, ("/app", 90, 0, true)], "", 0, 40),
            ("a neighbour in its slice", vec![USERS, TENANT, ("/user.slice/u2", 9, 0, true)], "", 0, 9),
            ("no one is at a limit", vec![USERS, ("/user.slice/u1", 48, 0, true)], "", 0, 40),
            ("the limit is ours", vec![USERS, TENANT], "/user.slice/u1", 0, 40),
            ("a limit of ours in it", vec![USERS, TENANT], "/user.slice/u1/x", 0, 40),
            ("a limit of ours elsewhere", vec![USERS, TENANT], "/user.slice/u2", 0, 0),
            ("the machine is short", vec![USERS, TENANT], "", 1, 40),
            ("too many groups to list", vec![("/user.slice", 45, 0, false), TENANT], "", 0, 40),
            (
                "the limit is that of the slice",
                vec![("/user.slice", 45, 3, true), ("/user.slice/u1", 48, 0, true)],
                "",
                0,
                0,
            ),
            ("at a limit, and does not wait", vec![("/a", 0, 50, true), ("/b", 3, 0, true)], "", 0, 40),
            (
                "names that begin alike",
                vec![("/a", 48, 90, true), ("/a-b", 5, 0, true), ("/a-b/c", 6, 0, true)],
                "",
                0,
                6,
            ),
        ] {
            assert_eq!(not_explained(&rows, limited, shortages), percent, "{case}");
        }
    }

    #[test]
    fn pressure_that_the_kernel_does_not_measure_counts() {
        let group = |path: &str, full_ns| GroupStall { path: path.to_owned(), full_ns, limit_hits: 0, is_whole: true };
        let parts = |at: u64| Parts {
            at: Instant::START + Duration::from_secs(at),
            shortages: 0,
            groups: [
                ("/a".to_owned(), GroupStall { limit_hits: at, ..group("/a", Some(at * 900_000_000)) }),
                ("/b".to_owned(), group("/b", None)),
            ]
            .into(),
        };
        let machine = Ratio::from_percent(40);
        assert_eq!(parts(1).not_explained(&parts(0), machine, Ratio::ZERO, &BTreeSet::new()), machine);
    }
}
