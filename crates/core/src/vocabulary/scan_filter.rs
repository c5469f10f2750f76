//! The test that finds the useful pages of a scan: the scanning host asks it page by page, and it counts its answers.
//!
//! Source: docs/spec/promotion.md#s1-6 and #s2-3.

use super::NodeId;
use isotherm_units::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// Condition under which a page is useful, that is, worth promoting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageRule {
    /// It was accessed since the last scan; or, as the scanner takes the young and the referenced mark of no page away, at some
    /// time before that. A page that was never scanned counts as accessed.
    FirstAccess,
    /// Two scans in a row found its bit set; for the first of them, a page that was never scanned counts as set.
    SecondAccess,
    /// It was accessed in two intervals between scans in a row. Accesses found by its first scan are from before any interval, mostly from
    /// the fill, and count for nothing. The same holds for a page whose young mark reclaim took after it was last found accessed, because
    /// that looks the same.
    #[default]
    TwoIntervals,
}

/// Marks of a folio that outlive a scan. The host keeps them; all are clear on a new folio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMarks {
    /// No access was seen since a scan set this (`PG_idle`).
    pub idle: bool,
    /// A scan cleared an accessed bit (`PG_young`) that reclaim has not seen yet.
    pub young: bool,
    /// Reclaim saw an access (`PG_referenced`), or descriptors made one.
    pub referenced: bool,
}

/// A present page as a scan meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "facts of a folio, each alone")]
pub struct ScannedPage {
    /// Byte address of the page in its space.
    pub address: u64,
    /// Base pages of the entry: 1, or the number in a huge leaf.
    pub pages: u32,
    pub node: NodeId,
    /// The accessed bit of the entry, or the bit of a guest, is set.
    pub accessed: bool,
    /// A file page whose lock cannot be taken: its bit stays.
    pub is_locked: bool,
    /// Unevictable, mapped by several spaces, or on no list.
    pub is_unmovable: bool,
}

impl ScannedPage {
    /// A base page that can be moved.
    pub const fn new(address: u64, node: NodeId, accessed: bool) -> Self {
        Self { address, pages: 1, node, accessed, is_locked: false, is_unmovable: false }
    }
}

/// Treatment of the accessed bit of a page that the host has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    Clear,
    /// The host leaves the bit as it is.
    Keep,
}

/// Whether the scan of a range goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    On,
    /// The scan of the range ends after this page.
    Stop,
}

/// Neighbouring folios of one size that were found useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Byte address of the first folio.
    pub address: u64,
    pub folios: u32,
    /// Base pages of each folio; a power of two.
    pub folio_pages: u32,
}

impl Run {
    /// Byte address just after the last folio.
    pub fn end(&self) -> u64 {
        self.address + u64::from(self.folios) * self.step()
    }

    /// Bytes from one folio to the next.
    pub fn step(&self) -> u64 {
        u64::from(self.folio_pages) * PAGE_BYTES
    }
}

/// Findings about a node's pages, in base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTally {
    pub node: NodeId,
    pub is_top_tier: bool,
    /// Base pages that the scan saw on this node.
    pub scanned: u64,
    /// Pages among them that count as accessed by the page rule.
    pub accessed: u64,
}

/// Decides page by page which pages are useful, and keeps the findings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScanFilter {
    pub(crate) rule: PageRule,
    pub(crate) skips_unmovable: bool,
    pub(crate) stops_at_hole: bool,
    pub(crate) splits_huge: bool,
    pub(crate) nodes: Vec<NodeTally>,
    pub(crate) runs: Vec<Run>,
    /// Pages on slow nodes that are useful by the rule.
    pub(crate) useful: u64,
    /// Pages on slow nodes whose bit was set.
    pub(crate) touched: u64,
    pub(crate) present: u64,
    pub(crate) idle: u64,
    pub(crate) top_tier: u64,
}

impl ScanFilter {
    /// Whether huge leaves are to be split and shown page by page.
    pub fn splits_huge(&self) -> bool {
        self.splits_huge
    }

    /// An entry without a page, in a table that is there.
    pub fn hole(&self) -> Flow {
        if self.stops_at_hole { Flow::Stop } else { Flow::On }
    }

    /// A page, and the marks of its folio.
    pub fn see(&mut self, page: &ScannedPage, marks: &mut PageMarks) -> Bit {
        if self.skips_unmovable && page.is_unmovable {
            return Bit::Keep;
        }
        let accessed = self.judge(page, marks);
        let pages = u64::from(page.pages);
        self.present += pages;
        if !page.accessed {
            self.idle += pages;
        }
        let is_top_tier = self.count(page, accessed);
        if is_top_tier {
            self.top_tier += pages;
        } else {
            self.touched += if page.accessed { pages } else { 0 };
            if accessed {
                self.useful += pages;
                self.found(page);
            }
        }
        if page.is_locked { Bit::Keep } else { Bit::Clear }
    }

    /// A number of base pages of a node whose bits are clear and whose only mark is idle: counted in one go, as
    /// [`see`](Self::see) would change none of them.
    pub fn see_idle(&mut self, node: NodeId, pages: u64) {
        self.present += pages;
        self.idle += pages;
        if let Some(tally) = self.nodes.iter_mut().find(|tally| tally.node == node) {
            tally.scanned += pages;
            self.top_tier += if tally.is_top_tier { pages } else { 0 };
        }
    }

    fn judge(&self, page: &ScannedPage, marks: &mut PageMarks) -> bool {
        let was_idle = marks.idle;
        let is_first_sight = !marks.idle && !marks.young;
        let is_taken = page.accessed && !page.is_locked;
        marks.young |= is_taken;
        match self.rule {
            PageRule::FirstAccess => {
                marks.idle = true;
                !was_idle || page.accessed || marks.young || marks.referenced
            }
            PageRule::SecondAccess => {
                marks.idle = !is_taken;
                !was_idle && !marks.idle && (marks.young || marks.referenced)
            }
            PageRule::TwoIntervals => {
                marks.idle = !is_taken || is_first_sight;
                !was_idle && !marks.idle
            }
        }
    }

    /// Whether the node is of the top tier; a node that was never named counts as one.
    fn count(&mut self, page: &ScannedPage, accessed: bool) -> bool {
        let Some(tally) = self.nodes.iter_mut().find(|tally| tally.node == page.node) else { return true };
        tally.scanned += u64::from(page.pages);
        tally.accessed += if accessed { u64::from(page.pages) } else { 0 };
        tally.is_top_tier
    }

    fn found(&mut self, page: &ScannedPage) {
        match self.runs.last_mut() {
            Some(run) if run.end() == page.address && run.folio_pages == page.pages && run.folios < u32::MAX => {
                run.folios += 1;
            }
            _ => self.runs.push(Run { address: page.address, folios: 1, folio_pages: page.pages }),
        }
    }

    /// Restarts for a new range: counts to zero, except the tallies of nodes, which last as long as the scan.
    pub(crate) fn restart(&mut self) {
        self.runs.clear();
        (self.useful, self.touched) = (0, 0);
        (self.present, self.idle, self.top_tier) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: NodeId = NodeId(1);

    fn filter(rule: PageRule) -> ScanFilter {
        let tally = |node, is_top_tier| NodeTally { node: NodeId(node), is_top_tier, scanned: 0, accessed: 0 };
        ScanFilter { rule, nodes: vec![tally(0, true), tally(1, false)], ..ScanFilter::default() }
    }

    /// Which of these scans of one page find it useful.
    fn looks(rule: PageRule, accessed: &[bool], change: fn(usize, &mut PageMarks)) -> Vec<bool> {
        let (mut filter, mut marks) = (filter(rule), PageMarks::default());
        let look = |(index, &accessed): (usize, &bool)| {
            change(index, &mut marks);
            let before = filter.useful;
            assert_eq!(filter.see(&ScannedPage::new(0x1000, SLOW, accessed), &mut marks), Bit::Clear);
            filter.useful > before
        };
        accessed.iter().enumerate().map(look).collect()
    }

    /// docs/spec/promotion.md#s1-6: the first scan counts, and young stays until reclaim takes it.
    #[test]
    fn first_access_finds_a_page_at_first_sight_and_while_it_is_young() {
        let first = PageRule::FirstAccess;
        assert_eq!(looks(first, &[false, false, true, false, false], |_, _| {}), [true, false, true, true, true]);
        let taken = looks(first, &[true, false, false], |at, marks| marks.young &= at < 2);
        assert_eq!(taken, [true, true, false], "reclaim asked before the third look");
        let referenced = looks(first, &[false, false], |at, marks| marks.referenced = at == 1);
        assert_eq!(referenced, [true, true]);
    }

    /// docs/spec/promotion.md#s2-3.
    #[test]
    fn second_access_wants_two_looks_in_a_row() {
        let second = PageRule::SecondAccess;
        let found = looks(second, &[false, true, true, true, false, true, true], |_, _| {});
        assert_eq!(found, [false, false, true, true, false, false, true]);
        assert_eq!(looks(second, &[true], |_, _| {}), [true], "a page that was never scanned is not idle");
    }

    #[test]
    fn a_locked_page_keeps_its_bit_and_an_unmovable_one_is_not_looked_at() {
        let mut filter = filter(PageRule::FirstAccess);
        let mut marks = PageMarks { idle: true, ..PageMarks::default() };
        let locked = ScannedPage { is_locked: true, ..ScannedPage::new(0, SLOW, true) };
        assert_eq!((filter.see(&locked, &mut marks), filter.useful), (Bit::Keep, 1), "accessed, and not taken");
        assert!(!marks.young && marks.idle);
        filter.skips_unmovable = true;
        let unmovable = ScannedPage { is_unmovable: true, ..ScannedPage::new(0, SLOW, true) };
        let before = marks;
        assert_eq!((filter.see(&unmovable, &mut marks), filter.present, marks), (Bit::Keep, 1, before));
    }

    #[test]
    fn only_slow_nodes_have_useful_pages_and_neighbours_join() {
        let mut filter = filter(PageRule::FirstAccess);
        for (page, node) in [(1, 1), (2, 1), (3, 0), (4, 1), (5, 7)] {
            filter.see(&ScannedPage::new(page << 12, NodeId(node), true), &mut PageMarks::default());
        }
        let huge = ScannedPage { pages: 512, ..ScannedPage::new(0x20_0000, SLOW, true) };
        filter.see(&huge, &mut PageMarks::default());
        let runs: Vec<(u64, u32, u32)> =
            filter.runs.iter().map(|run| (run.address, run.folios, run.folio_pages)).collect();
        assert_eq!(runs, [(0x1000, 2, 1), (0x4000, 1, 1), (0x20_0000, 1, 512)]);
        assert_eq!(
            (filter.useful, filter.top_tier, filter.present),
            (515, 2, 517),
            "nodes without a tier are top tier"
        );
        filter.see_idle(SLOW, 10);
        assert_eq!((filter.nodes[1].scanned, filter.nodes[1].accessed, filter.idle), (525, 515, 10));
    }

    /// An access found by the first scan proves nothing, whenever the page was faulted in.
    #[test]
    fn two_intervals_begin_after_the_first_look() {
        let two = PageRule::TwoIntervals;
        let found = looks(two, &[true, true, true, true, false, true, true], |_, _| {});
        assert_eq!(found, [false, false, true, true, false, false, true], "filled before the first look");
        let found = looks(two, &[false, true, true], |_, _| {});
        assert_eq!(found, [false, false, true]);
        let taken = looks(two, &[true, true, true, true, true], |at, marks| marks.young &= at != 2);
        assert_eq!(taken, [false, false, false, false, true], "reclaim asked before the third look");
        let mut filter = filter(two);
        for (page, accessed) in [(1, true), (2, false)] {
            filter.see(&ScannedPage::new(page << 12, SLOW, accessed), &mut PageMarks::default());
        }
        assert_eq!((filter.touched, filter.useful, filter.runs.len()), (1, 0, 0), "but it sees what was used");
    }
}
