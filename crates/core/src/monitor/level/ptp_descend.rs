//! `ptp-descend`: like `ptp-aligned`, but also scans the tables below and next to an accessed entry, to cut regions at the exact
//! edges of used memory.
//!
//! A table's 512 words lie side by side: reading all costs less than two random probes. A scan clears the words, waits a few
//! ticks, and reads them. It runs between CHECK and PREPARE of a tick, so it never takes a bit from a sample under way.
//! Words read and cleared are bounded for each tick. Source: docs/spec/page-table-profiling.md#s7-1 and #s7-2 ("with evidence").
//!
//! Kept from section 7.1: tables as frontier, the two-step scan, children before parents, runs with gaps of up to two, back-off
//! where another scan found nothing new. Not kept: density below the smallest region (one touched page in every 2 MiB appears as
//! all of it), and serving by expected gain (candidates are served in turn).

use super::{LEVELS_MAX, Levels, StrategyEntry, pick, ptp_aligned};
use crate::host::{AddressRange, HostError, Level, MonitorHost, Probe, Seen, TargetId};
use crate::monitor::region::Region;
use crate::monitor::snapshot::Activity;
use serde::{Deserialize, Serialize};

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "ptp-descend",
    summary: "like ptp-aligned, and walks down from accessed entries to cut at the edges of what is used",
    probes_upper: true,
    walks_down: true,
    smallest: Level(1),
    pick: pick::bounded,
    place: ptp_aligned::nearest_border,
};

/// Clear entries of up to this many do not end a run of set ones.
const GAP_MAX: u64 = 2;
/// A table with at least this share of set entries, in percent, is used evenly.
const EVEN_PERCENT: u64 = 90;
/// Runs of one table whose ends are scanned more finely.
const RUNS_REFINED: usize = 8;

/// Limits of the walk down from upper levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DescendConfig {
    /// Most words of tables scanned in a tick, at least 2. Reading one table costs a few microseconds.
    pub words_per_tick: u32,
    /// Ticks from clearing a table to reading it, at least 1. Longer finds rarely used entries.
    pub ticks: u32,
}

impl Default for DescendConfig {
    /// 16 tables of 512 words; three ticks: an entry that is set in 86 of 100 ticks is then missed once in 350 times.
    fn default() -> Self {
        Self { words_per_tick: 8192, ticks: 3 }
    }
}

/// A table: its place, as the level of the entry that points to it and the first address below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    level: Level,
    start: u64,
}

/// The bits of a table: one per entry.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    start: u64,
    nr_entries: u64,
    /// Where its words begin in [`Descent::bits`].
    bits_at: usize,
}

/// How a region should be cut, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing was scanned in the region.
    Unknown,
    /// It is used evenly: any cut would only be merged again.
    Even,
    /// The used part, with at least one edge inside the region.
    Around(AddressRange),
}

/// The walk down of one target: lives for one aggregation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descent {
    /// Tables that were cleared, and at which tick.
    armed: Vec<(Table, u64)>,
    /// Tables to scan when the budget allows.
    waiting: Vec<Table>,
    /// All tables taken up in this aggregation, sorted.
    taken: Vec<Table>,
    /// Bits that were read, by level of the scanned entries, sorted by address.
    evidence: [Vec<Evidence>; LEVELS_MAX],
    bits: Vec<u64>,
    /// Region to begin with next time, so that all get their turn.
    turn: usize,
    scratch: Vec<u64>,
}

impl Descent {
    /// Reads the tables that were cleared long enough ago. Call between CHECK and PREPARE.
    ///
    /// The first failure is reported; a table that cannot be read is given up.
    pub(crate) fn read_due(
        &mut self,
        (id, levels, size_min): (TargetId, &Levels, u64),
        (tick, config): (u64, DescendConfig),
        host: &mut dyn MonitorHost,
        activity: &mut Activity,
    ) -> Result<(), HostError> {
        debug_assert!(config.ticks > 0, "a table read in the tick that cleared it says nothing");
        let mut kept = 0;
        let mut failure = Ok(());
        for index in 0..self.armed.len() {
            let (table, since) = self.armed[index];
            debug_assert!(since <= tick, "a table is cleared before it is read");
            if tick < since + u64::from(config.ticks) {
                self.armed[kept] = (table, since);
                kept += 1;
                continue;
            }
            let bits_at = self.bits.len();
            let (entries, nr_entries) = children(levels, table.level);
            let scanned = host.scan_children(id, Probe { address: table.start, level: table.level }, &mut self.bits);
            activity.count_scan(self.bits.len() - bits_at, nr_entries);
            let is_whole = self.bits.len() - bits_at == words(nr_entries);
            if scanned.is_err() || !is_whole {
                // No table there (any more): a huge page, or nothing mapped.
                self.bits.truncate(bits_at);
                failure = failure.and(scanned);
                continue;
            }
            let evidence = Evidence { start: table.start, nr_entries, bits_at };
            let seen = &mut self.evidence[usize::from(entries.0)];
            let place = seen.partition_point(|other| other.start < evidence.start);
            debug_assert!(
                seen.get(place).is_none_or(|other| other.start != evidence.start),
                "a table is read once in an aggregation"
            );
            seen.insert(place, evidence);
            if children_matter(levels, entries, size_min) {
                self.look_closer(levels, entries, evidence);
            }
        }
        self.armed.truncate(kept);
        failure
    }

    /// Queues the tables below the ends of the runs of `evidence`, to find their edges exactly.
    fn look_closer(&mut self, levels: &Levels, entries: Level, evidence: Evidence) {
        let bits = &self.bits[evidence.bits_at..];
        debug_assert!(bits.len() >= words(evidence.nr_entries), "all words of the table were read");
        let span = u64::try_from(levels.span(entries)).expect("a child spans less than its parent");
        let mut from = 0;
        for _ in 0..RUNS_REFINED {
            let Some((first, end)) = next_run(bits, from, evidence.nr_entries) else { return };
            for child in [first, end - 1] {
                let table = Table { level: entries, start: evidence.start + child * span };
                if let Err(place) = self.taken.binary_search(&table) {
                    self.taken.insert(place, table);
                    self.waiting.push(table);
                }
            }
            from = end;
        }
    }

    /// Chooses tables to scan from the results of this tick's probes, and clears them within the budget: a table below an accessed entry
    /// first, then the table of the entry itself. Call after [`read_due`](Self::read_due), before PREPARE.
    pub(crate) fn clear_next(
        &mut self,
        (id, levels, size_min): (TargetId, &Levels, u64),
        (tick, config): (u64, DescendConfig),
        (regions, probes, results): (&[Region], &[Probe], &[crate::host::ProbeResult]),
        host: &mut dyn MonitorHost,
        activity: &mut Activity,
    ) -> Result<(), HostError> {
        debug_assert_eq!(
            (probes.len(), results.len()),
            (regions.len(), regions.len()),
            "one probe a region, without companions"
        );
        // Half of the budget, because reading what is cleared now costs as much in a later tick.
        let budget = usize::try_from(config.words_per_tick / 2).unwrap_or(usize::MAX);
        let mut queued: usize = self.waiting.iter().map(|table| cost(levels, table.level)).sum();
        for step in 0..regions.len() {
            if queued >= budget {
                break;
            }
            let index = (self.turn + step) % regions.len();
            let (region, probe, result) = (&regions[index], &probes[index], &results[index]);
            let is_entry = result.seen == Seen::Accessed && result.level == probe.level && probe.level > Level::LEAF;
            if !is_entry || !is_due(region.age) {
                continue;
            }
            self.turn = index + 1;
            let above = Level(probe.level.0 + 1);
            let outgrows = u128::from(region.len()) > levels.span(probe.level);
            let wanted = [
                children_matter(levels, probe.level, size_min).then_some(probe.level),
                (outgrows && levels.has(above)).then_some(above),
            ];
            for level in wanted.into_iter().flatten() {
                let (start, _) = levels.entry(level, probe.address);
                let table = Table { level, start: u64::try_from(start).expect("below an address") };
                if let Err(place) = self.taken.binary_search(&table) {
                    self.taken.insert(place, table);
                    self.waiting.push(table);
                    queued += cost(levels, level);
                }
            }
        }
        let (mut spent, mut nr_cleared) = (0, 0);
        let mut failure = Ok(());
        for &table in &self.waiting {
            // One table at least, however small the budget: else a table larger than it would wait for ever.
            if nr_cleared > 0 && spent + cost(levels, table.level) > budget {
                break;
            }
            self.scratch.clear();
            nr_cleared += 1;
            spent += cost(levels, table.level);
            failure = host.scan_children(id, Probe { address: table.start, level: table.level }, &mut self.scratch);
            if failure.is_err() {
                break;
            }
            activity.count_scan(self.scratch.len(), children(levels, table.level).1);
            self.armed.push((table, tick));
        }
        self.waiting.drain(..nr_cleared);
        failure
    }

    /// How `region` should be cut, by all that was read in this aggregation. The cut is the longest run of used entries at the
    /// highest level that shows an edge, with its ends refined by the entries read below them.
    pub(crate) fn cut(&self, levels: &Levels, region: AddressRange, size_min: u64) -> Cut {
        debug_assert!(!region.is_empty() && size_min > 0, "only what holds something is cut");
        let mut is_known = false;
        for entries in (0..LEVELS_MAX).rev() {
            let Some((run, nr_set, nr_all)) = self.longest_run(levels, entries, region) else { continue };
            let run =
                AddressRange::new(self.refined_start(levels, entries, run), self.refined_end(levels, entries, run));
            let run = AddressRange::new(run.start.max(region.start), run.end.min(region.end));
            let snap = |edge: u64, end: u64| edge.abs_diff(end) < size_min;
            let start = if snap(run.start, region.start) { region.start } else { run.start };
            let end = if snap(run.end, region.end) { region.end } else { run.end };
            // A finer scan of a part of a region that is used all over must not cut at the borders of the part.
            let is_edge = !is_known || nr_set * 100 < nr_all * EVEN_PERCENT;
            if end.saturating_sub(start) >= size_min && (start, end) != (region.start, region.end) && is_edge {
                return Cut::Around(AddressRange::new(start, end));
            }
            is_known = true;
        }
        if is_known { Cut::Even } else { Cut::Unknown }
    }

    /// The longest run of set entries of one level in `region`, with the number of set entries and of all entries read; `None`
    /// where none is set.
    fn longest_run(&self, levels: &Levels, entries: usize, region: AddressRange) -> Option<(AddressRange, u64, u64)> {
        debug_assert!(!region.is_empty(), "a run lies in a region");
        let seen = &self.evidence[entries];
        let level = Level(u8::try_from(entries).expect("few levels"));
        let span = if seen.is_empty() { return None } else { u64::try_from(levels.span(level)).ok()? };
        let first = seen.partition_point(|table| table.start.saturating_add(table.nr_entries * span) <= region.start);
        let (mut longest, mut current) = (AddressRange::default(), AddressRange::default());
        let (mut nr_set, mut nr_all) = (0, 0);
        for table in seen[first..].iter().take_while(|table| table.start < region.end) {
            let low = region.start.saturating_sub(table.start) / span;
            debug_assert!(low < table.nr_entries, "tables that end before the region are skipped");
            let high = (region.end - table.start).div_ceil(span).min(table.nr_entries);
            let bits = &self.bits[table.bits_at..];
            let mut from = low;
            nr_all += high.saturating_sub(low);
            while let Some((start, end)) = next_run(bits, from, high) {
                nr_set += (start..end).filter(|entry| is_set(bits, *entry)).count() as u64;
                let run = AddressRange::new(table.start + start * span, table.start.saturating_add(end * span));
                let goes_on = !current.is_empty() && run.start.saturating_sub(current.end) <= GAP_MAX * span;
                current = if goes_on { AddressRange::new(current.start, run.end) } else { run };
                if current.len() > longest.len() {
                    longest = current;
                }
                from = end;
            }
        }
        debug_assert!(nr_set <= nr_all, "a set entry was looked at");
        (!longest.is_empty()).then_some((longest, nr_set, nr_all))
    }

    /// Moves the start of `run`, whose first entry is one of `entries`, to the first set entry below it, level by level.
    fn refined_start(&self, levels: &Levels, entries: usize, run: AddressRange) -> u64 {
        let mut start = run.start;
        for below in (0..entries).rev() {
            let seen = &self.evidence[below];
            let Ok(found) = seen.binary_search_by_key(&start, |table| table.start) else { break };
            let table = seen[found];
            let Some((first, _)) = next_run(&self.bits[table.bits_at..], 0, table.nr_entries) else { break };
            start += first * span_of(levels, below);
        }
        debug_assert!(run.start <= start && start < run.end, "the first set entry lies in the run");
        start
    }

    fn refined_end(&self, levels: &Levels, entries: usize, run: AddressRange) -> u64 {
        let mut end = run.end;
        for below in (0..entries).rev() {
            let seen = &self.evidence[below];
            let span = span_of(levels, below);
            let found = seen.binary_search_by_key(&end, |table| table.start.saturating_add(table.nr_entries * span));
            let Ok(found) = found else { break };
            let table = seen[found];
            let bits = &self.bits[table.bits_at..];
            let Some(last) = (0..table.nr_entries).rev().find(|entry| is_set(bits, *entry)) else { break };
            end = table.start.saturating_add((last + 1) * span);
        }
        debug_assert!(run.start < end && end <= run.end, "the last set entry lies in the run");
        end
    }

    /// Forgets all, at the end of an aggregation. Tables cleared but not yet read are read in the next.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
        self.taken.clear();
        self.taken.extend(self.armed.iter().map(|(table, _)| *table));
        self.taken.sort_unstable();
        self.evidence.iter_mut().for_each(Vec::clear);
        self.bits.clear();
    }
}

/// Whether a region of this age is due for another scan. An unchanged region is scanned ever more rarely: at ages that are
/// powers of two, and each 64 aggregations.
fn is_due(age: u32) -> bool {
    age == 0 || age.is_power_of_two() || age.is_multiple_of(64)
}

/// Whether entries below those of `level` are no smaller than the smallest region.
fn children_matter(levels: &Levels, level: Level, size_min: u64) -> bool {
    level > Level::LEAF && levels.span(Level(level.0 - 1)) >= u128::from(size_min)
}

/// Level and number of the entries in the table below an entry of `level`.
fn children(levels: &Levels, level: Level) -> (Level, u64) {
    debug_assert!(level > Level::LEAF, "no table hangs below a page");
    let below = Level(level.0 - 1);
    (below, u64::try_from(levels.span(level) / levels.span(below)).expect("a table fits memory"))
}

fn span_of(levels: &Levels, level: usize) -> u64 {
    let level = Level(u8::try_from(level).expect("few levels"));
    u64::try_from(levels.span(level)).expect("below 2^64")
}

/// Words of page table read by a scan below an entry of `level`.
fn cost(levels: &Levels, level: Level) -> usize {
    usize::try_from(children(levels, level).1).unwrap_or(usize::MAX)
}

/// Words of bits, 64 entries each.
fn words(nr_entries: u64) -> usize {
    usize::try_from(nr_entries.div_ceil(64)).expect("a table fits memory")
}

fn is_set(bits: &[u64], entry: u64) -> bool {
    bits[usize::try_from(entry / 64).expect("a table fits memory")] >> (entry % 64) & 1 == 1
}

/// The next run of set entries in `[from, end)`, gaps of up to [`GAP_MAX`] included.
fn next_run(bits: &[u64], from: u64, end: u64) -> Option<(u64, u64)> {
    debug_assert!(end <= bits.len() as u64 * 64, "each entry has its bit");
    let first = (from..end).find(|entry| is_set(bits, *entry))?;
    let mut last = first;
    for entry in first + 1..end {
        if is_set(bits, entry) {
            last = entry;
        } else if entry - last > GAP_MAX {
            break;
        }
    }
    Some((first, last + 1))
}

#[cfg(test)]
mod tests {
    use super::super::tests::four;
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn bits_of(set: &[std::ops::Range<u64>]) -> Vec<u64> {
        let mut bits = vec![0; 8];
        for entry in set.iter().cloned().flatten() {
            bits[usize::try_from(entry / 64).unwrap()] |= 1 << (entry % 64);
        }
        bits
    }

    /// A descent that has read these tables: (level of their entries, first address, set entries).
    fn after_reading(tables: &[(usize, u64, std::ops::Range<u64>)]) -> Descent {
        let mut descent = Descent::default();
        for (entries, start, set) in tables {
            let bits_at = descent.bits.len();
            descent.bits.extend(bits_of(std::slice::from_ref(set)));
            descent.evidence[*entries].push(Evidence { start: *start, nr_entries: 512, bits_at });
        }
        descent
    }

    #[test]
    fn runs_take_small_gaps() {
        let bits = bits_of(&[3..5, 7..9, 12..13, 511..512]);
        assert_eq!(next_run(&bits, 0, 512), Some((3, 9)), "a gap of two goes on");
        assert_eq!(next_run(&bits, 9, 512), Some((12, 13)), "a gap of three does not");
        assert_eq!(next_run(&bits, 13, 512), Some((511, 512)));
        assert_eq!(next_run(&bits, 13, 511), None);
    }

    #[test]
    fn regions_are_cut_around_what_is_used() {
        let levels = four(3);
        let size_min = 2 * MIB;
        let cut = |descent: &Descent, start, end| descent.cut(&levels, AddressRange::new(start, end), size_min);
        let around = |start, end| Cut::Around(AddressRange::new(start, end));

        // Ten of 512 entries of 1 GiB, the first used from its middle on, the last up to a quarter.
        let descent = after_reading(&[(2, 0, 20..30), (1, 20 * GIB, 256..512), (1, 29 * GIB, 0..128)]);
        let (start, end) = (20 * GIB + 512 * MIB, 29 * GIB + 256 * MIB);
        assert_eq!(cut(&descent, 0, 512 * GIB), around(start, end), "both edges, refined");
        assert_eq!(cut(&descent, 25 * GIB, 512 * GIB), around(25 * GIB, end), "one edge inside");
        assert_eq!(cut(&descent, 22 * GIB, 25 * GIB), Cut::Even, "used all over");
        assert_eq!(cut(&descent, start, end), Cut::Even, "found already");
        assert_eq!(cut(&descent, 600 * GIB, 700 * GIB), Cut::Unknown, "not looked at");
        assert_eq!(cut(&descent, 100 * GIB, 200 * GIB), Cut::Unknown, "looked at, but nothing is used");

        // Two tables side by side: the run goes through the border.
        let descent = after_reading(&[(2, 0, 500..512), (2, 512 * GIB, 0..8)]);
        assert_eq!(cut(&descent, 0, 1024 * GIB), around(500 * GIB, 520 * GIB));

        // All entries of 1 GiB are used, but one is seen to be used in its first half only.
        let descent = after_reading(&[(2, 0, 0..512), (1, 7 * GIB, 0..256)]);
        assert_eq!(cut(&descent, 5 * GIB, 10 * GIB), around(7 * GIB, 7 * GIB + 512 * MIB));
        let descent = after_reading(&[(2, 0, 0..512), (1, 7 * GIB, 0..512)]);
        assert_eq!(cut(&descent, 5 * GIB, 10 * GIB), Cut::Even, "the border of a look is no edge");
    }

    #[test]
    fn stable_regions_are_looked_at_ever_more_rarely() {
        let due: Vec<u32> = (0..130).filter(|age| is_due(*age)).collect();
        assert_eq!(due, [0, 1, 2, 4, 8, 16, 32, 64, 128]);
    }
}
