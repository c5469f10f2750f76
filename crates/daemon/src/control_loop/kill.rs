//! What the kernel's thrashing prevention would do now: whether `min_ttl_ms` would have a process killed, and which one
//! (docs/spec/mglru.md#s10).

use isotherm_core::generations::min_ttl::{Forecast, GroupFacts, forecast};
use isotherm_core::host::Listing;
use isotherm_core::vocabulary::Swappiness;
use isotherm_units::{Bytes, Duration, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The process that the OOM killer would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    pub process: u32,
    /// Name of its program.
    pub command: String,
    /// `/proc/PID/oom_score`, the highest of all.
    pub score: u64,
    /// Group that is killed with it: `memory.oom.group`.
    pub group: Option<String>,
}

/// Facts from which the effect of `min_ttl_ms` follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillFacts {
    /// Generations of all groups on all nodes.
    pub listings: Vec<Listing>,
    /// Paths of groups that use less than `memory.min` guarantees to them.
    pub below_min: BTreeSet<String>,
    /// `vm.swappiness`; 0 where no swap is free.
    pub swappiness: Swappiness,
    /// `None` if no process may be killed.
    pub victim: Option<Victim>,
    /// `vm.panic_on_oom` is on.
    pub panics: bool,
}

impl KillFacts {
    /// What a time to live would do now, in words.
    pub fn words(&self, min_ttl: Duration) -> String {
        if min_ttl == Duration::ZERO {
            return "min-ttl = 0 is off: it has nothing killed".to_owned();
        }
        let ms = min_ttl.ns() / 1_000_000;
        let worst = self.nodes().into_iter().map(|(node, groups)| (forecast(ms, &groups, self.swappiness), node));
        let Some((forecast, node)) = worst.min_by_key(|(forecast, node)| (forecast.largest_safe_ms, *node)) else {
            return format!("min-ttl = {min_ttl}: no generations can be read, so nothing can be forecast");
        };
        format!("min-ttl = {min_ttl}: {}; {}", self.when(&forecast, node, ms), self.whom())
    }

    /// Groups of each node.
    fn nodes(&self) -> BTreeMap<u32, Vec<GroupFacts<'_>>> {
        let mut nodes: BTreeMap<u32, Vec<GroupFacts<'_>>> = BTreeMap::new();
        for listing in &self.listings {
            let facts = GroupFacts { listing, is_below_min: self.below_min.contains(&listing.path) };
            nodes.entry(listing.lruvec.node.0).or_default().push(facts);
        }
        nodes
    }

    fn when(&self, forecast: &Forecast, node: u32, ms: u64) -> String {
        let age = |ms| Duration::from_ms(ms).approx();
        match (forecast.kills, forecast.oldest_ms) {
            (true, None) => format!(
                "the kernel would kill as soon as memory of node {node} is short, and with every value but 0: no group has enough there \
                 that may be evicted"
            ),
            (true, Some(oldest)) => format!(
                "the kernel would kill as soon as memory of node {node} is short: the oldest that may be evicted there is only {} old; the \
                 largest value that kills nothing now is {}",
                age(oldest),
                Duration::from_ms(forecast.largest_safe_ms)
            ),
            (false, oldest) => format!(
                "nothing would be killed now: {} of node {node} that may be evicted is older, up to {}; the kernel would kill once that is \
                 gone, and what is left was in use within this time",
                self.older_than(ms, node).approx(),
                age(oldest.unwrap_or(0))
            ),
        }
    }

    /// Memory of a node that may be evicted and is older than this.
    fn older_than(&self, ms: u64, node: u32) -> Bytes {
        let of_node = self.listings.iter().filter(|listing| listing.lruvec.node.0 == node);
        let groups = of_node.filter(|listing| !self.below_min.contains(&listing.path));
        let rows = groups.flat_map(|listing| &listing.rows).filter(|row| row.age_ms > ms);
        let pages = rows.fold(0_u64, |sum, row| {
            let anon = if self.swappiness.takes_anon() { row.anon_pages } else { 0 };
            let file = if self.swappiness.takes_file() { row.file_pages } else { 0 };
            sum.saturating_add(anon).saturating_add(file)
        });
        Bytes::new(pages.saturating_mul(PAGE_BYTES))
    }

    fn whom(&self) -> String {
        match &self.victim {
            _ if self.panics => "vm.panic_on_oom is on: the machine would panic in place of a kill".to_owned(),
            None => "no process may be killed now: the machine would panic".to_owned(),
            Some(Victim { process, command, score, group }) => {
                let with = group.as_ref().map_or_else(String::new, |group| format!(", and all of {group} with it"));
                format!("it would take {command} (PID {process}, oom_score {score}){with}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::host::{Lruvec, NodeId};
    use isotherm_core::vocabulary::GenerationRow;

    fn listing(path: &str, node: u32, rows: &[(u64, u64, u64)]) -> Listing {
        let row = |(seq, &(age_ms, anon_pages, file_pages)): (u64, &(u64, u64, u64))| GenerationRow {
            seq,
            age_ms,
            anon_pages,
            file_pages,
        };
        let lruvec = Lruvec { memcg: 1, node: NodeId(node) };
        Listing { path: path.to_owned(), lruvec, rows: (0..).zip(rows).map(row).collect() }
    }

    fn facts() -> KillFacts {
        KillFacts {
            listings: vec![
                listing("/a", 0, &[(60_000, 262_144, 0), (500, 9000, 262_144)]),
                listing("/b", 1, &[(2_000, 0, 8192), (100, 0, 8192)]),
                listing("/c", 1, &[(90_000, 0, 8192)]),
            ],
            below_min: ["/c".to_owned()].into(),
            swappiness: Swappiness::Of(60),
            victim: Some(Victim { process: 700, command: "redis".to_owned(), score: 812, group: None }),
            panics: false,
        }
    }

    #[test]
    fn the_node_that_kills_first_is_told_with_when_and_whom() {
        let facts = facts();
        let words = facts.words(Duration::from_secs(1));
        assert!(words.starts_with("min-ttl = 1s: nothing would be killed now: 32.0 MiB of node 1 "), "{words}");
        assert!(
            words.contains("up to 2.00 s") && words.ends_with("would take redis (PID 700, oom_score 812)"),
            "{words}"
        );
        let words = facts.words(Duration::from_secs(2));
        assert!(words.contains("would kill as soon as memory of node 1 is short"), "{words}");
        assert!(words.contains("only 2.00 s old") && words.contains("kills nothing now is 1.999s"), "{words}");
        assert_eq!(facts.words(Duration::ZERO), "min-ttl = 0 is off: it has nothing killed");
    }

    #[test]
    fn swap_guarantees_and_switches_count() {
        let mut facts = facts();
        // Without swap only files may be evicted: of node 0 the young generation.
        facts.swappiness = Swappiness::Of(0);
        let words = facts.words(Duration::from_secs(1));
        assert!(words.contains("memory of node 0 is short") && words.contains("kills nothing now is 499ms"), "{words}");
        facts.below_min = ["/a", "/b", "/c"].map(str::to_owned).into();
        assert!(
            facts.words(Duration::from_ms(1)).contains("with every value but 0"),
            "{}",
            facts.words(Duration::from_ms(1))
        );
        facts.victim = facts.victim.map(|victim| Victim { group: Some("/a".to_owned()), ..victim });
        assert!(facts.words(Duration::from_ms(1)).ends_with("and all of /a with it"));
        facts.victim = None;
        assert!(facts.words(Duration::from_ms(1)).contains("no process may be killed"));
        facts.panics = true;
        assert!(facts.words(Duration::from_ms(1)).contains("vm.panic_on_oom is on"));
        facts.listings.clear();
        assert!(facts.words(Duration::from_ms(1)).contains("no generations can be read"));
    }
}
