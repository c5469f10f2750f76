//! The texts of `lru_gen` and `lru_gen_full`: the kernel's text, byte for byte (docs/spec/mglru.md#s14-1).

use super::Mglru;
use super::baseline::Baseline;
use super::generations::{Lruvec, TYPES, list_of};
use super::page::{MAX_NR_GENS, NR_TIERS};
use crate::memory::Memory;
use crate::reclaim::LruvecId;
use isotherm_units::Instant;
use std::fmt::Write;

/// One generation of a group on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ReadoutRow {
    pub seq: u64,
    /// How long ago it was made.
    pub age_ms: u64,
    /// Anonymous pages.
    pub anon_pages: u64,
    pub file_pages: u64,
}

/// Pages of generations that are at least `threshold_ms` old, and pages of the others: cold memory, and the working set.
pub fn cold_and_working_set(rows: &[ReadoutRow], threshold_ms: u64) -> (u64, u64) {
    let pages = |row: &ReadoutRow| row.anon_pages + row.file_pages;
    let (cold, warm): (Vec<&ReadoutRow>, Vec<&ReadoutRow>) = rows.iter().partition(|row| row.age_ms >= threshold_ms);
    (cold.into_iter().map(pages).sum(), warm.into_iter().map(pages).sum())
}

/// How much is reported of an lruvec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// A row for each generation.
    Sizes,
    /// Rows of the averages and counters of each tier, too.
    Full,
}

impl Mglru {
    /// The text of `lru_gen`: for each group and node a row for each generation, oldest first: number, age in ms, anonymous
    /// and file pages.
    pub fn lru_gen(&self, memory: &Memory) -> String {
        self.text(memory, Detail::Sizes)
    }

    /// The text of `lru_gen_full`: also averages and counters by tier, and counts of walks.
    pub fn lru_gen_full(&self, memory: &Memory) -> String {
        self.text(memory, Detail::Full)
    }

    /// The generations of a group on a node, oldest first, as `lru_gen` shows them.
    pub fn rows(&self, memory: &Memory, lruvec: LruvecId) -> Vec<ReadoutRow> {
        let own = self.generations.get(lruvec);
        (own.min_seq[0].min(own.min_seq[1])..=own.max_seq).map(|seq| row_of(own, seq, memory.now)).collect()
    }

    fn text(&self, memory: &Memory, detail: Detail) -> String {
        let mut out = String::new();
        for group in memory.cgroups.subtree(crate::cgroup::CgroupId::ROOT) {
            let (id, path) = (group.index(), &memory.cgroups.get(group).path);
            match self.baseline {
                Baseline::V7_2 => line(&mut out, format_args!("memcg {id} {path}")),
                Baseline::V6_12 => line(&mut out, format_args!("memcg {id:5} {path}")),
            }
            for node in memory.nodes.ids() {
                line(&mut out, format_args!(" node {:5}", node.index()));
                self.lruvec_text(&mut out, memory, memory.lruvec(group, node), detail);
            }
        }
        out
    }

    fn lruvec_text(&self, out: &mut String, memory: &Memory, lruvec: LruvecId, detail: Detail) {
        let own = self.generations.get(lruvec);
        let first = match detail {
            Detail::Sizes => own.min_seq[0].min(own.min_seq[1]),
            Detail::Full => (own.max_seq + 1).saturating_sub(MAX_NR_GENS),
        };
        for seq in first..=own.max_seq {
            out.push_str(&row(own, seq, memory.now, detail));
            if detail == Detail::Full {
                tiers(out, own, seq);
                walks(out, own, seq);
            }
        }
    }
}

fn row_of(own: &Lruvec, seq: u64, now: Instant) -> ReadoutRow {
    let [anon_pages, file_pages] = own.nr[list_of(seq)];
    ReadoutRow { seq, age_ms: now.since(own.birth[list_of(seq)]).ns() / 1_000_000, anon_pages, file_pages }
}

/// The text of one generation.
fn row(own: &Lruvec, seq: u64, now: Instant, detail: Detail) -> String {
    let ReadoutRow { seq, age_ms, anon_pages, file_pages } = row_of(own, seq, now);
    let mut out = format!(" {seq:10} {age_ms:10}");
    for (page_type, pages) in TYPES.into_iter().zip([anon_pages, file_pages]) {
        let is_past = seq < own.min_seq[page_type as usize];
        put(&mut out, pages, if detail == Detail::Full && is_past { 'x' } else { ' ' });
    }
    out.push('\n');
    out
}

fn tiers(out: &mut String, own: &Lruvec, seq: u64) {
    for tier in 0..NR_TIERS {
        out.push_str(&format!("            {tier:10}"));
        for page_type in TYPES {
            let history = &own.history[page_type as usize];
            let fields = if seq == own.max_seq {
                [(history.avg_refaulted[tier], 'R'), (history.avg_total[tier], 'T'), (0, 'x')]
            } else if seq == own.min_seq[page_type as usize] {
                [(history.refaulted[tier], 'r'), (history.evicted[tier], 'e'), (history.protected[tier], 'p')]
            } else {
                [(0, 'x'); 3]
            };
            fields.into_iter().for_each(|(value, mark)| put(out, value, mark));
        }
        out.push('\n');
    }
}

fn walks(out: &mut String, own: &Lruvec, seq: u64) {
    out.push_str("                      ");
    let stats = own.walk.stats;
    let fields = if seq == own.max_seq {
        [(stats.leaf_total, 'T'), (stats.leaf_young, 'Y'), (stats.nonleaf_found, 'F'), (stats.nonleaf_added, 'A')]
    } else {
        [(0, 'x'); 4]
    };
    fields.into_iter().for_each(|(value, mark)| put(out, value, mark));
    out.push('\n');
}

fn put(out: &mut String, value: u64, mark: char) {
    write!(out, " {value:10}{mark}").expect("strings take all");
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("strings take all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::Duration;

    /// E22: working set and cold pages.
    #[test]
    fn e22_working_set_sizes() {
        let row = |age_ms, anon_pages, file_pages| ReadoutRow { seq: 0, age_ms, anon_pages, file_pages };
        let rows = [row(12_031, 1024, 9), row(8020, 800, 12), row(3011, 16_000, 96), row(1002, 53_000, 0)];
        assert_eq!(cold_and_working_set(&rows, 8000), (1845, 69_096));
    }

    #[test]
    fn e21_row() {
        let mut own = Lruvec::new(Instant::START);
        own.max_seq = 7;
        own.min_seq = [4, 4];
        own.birth[0] = Instant::START + Duration::from_ms(969);
        own.nr[0] = [1024, 9];
        let now = Instant::START + Duration::from_ms(13_000);
        assert_eq!(row(&own, 4, now, Detail::Sizes), "          4      12031       1024           9 \n");
        own.min_seq = [5, 4];
        assert_eq!(row(&own, 4, now, Detail::Full), "          4      12031       1024x          9 \n");
    }
}
