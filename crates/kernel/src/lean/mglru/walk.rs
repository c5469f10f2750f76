//! Ageing's walk over the page table of the process (docs/spec/mglru.md#s4-3, #s4-4). See `crate::reclaim::mglru::walk`.

use super::{MADE, Mglru, YOUNG};
use crate::lean::account::Account;
use crate::lean::layout::BLOCK_PAGES;
use crate::reclaim::Work;
use crate::reclaim::mglru::rules::{Accessed, Baseline, BloomFilter, is_worthwhile, list_of, table_id};
use isotherm_units::PageRange;

/// A table that the walk has entered.
#[derive(Clone, Copy)]
struct Table {
    block: u64,
    total: u64,
    young: u64,
    is_scanned: bool,
}

impl Mglru {
    /// Walks the page table, unless the process has not run since the last walk.
    pub(super) fn walk(&mut self, account: &mut Account) {
        let is_forced = !std::mem::replace(&mut self.is_known, true);
        if !is_forced && !account.has_run {
            return;
        }
        account.has_run = false;
        let seq = self.lruvec.max_seq;
        let mut accessed = Accessed::of(seq, Baseline::V7_2);
        let mut work = Work { spaces_walked: 1, ..Work::default() };
        let mut filters = std::mem::take(&mut self.lruvec.walk.filters);
        filters[list_of(seq + 1) % 2].get_or_insert_with(BloomFilter::new).clear();
        let mut entered: Option<Table> = None;
        for at in 0..self.layout.mappings.len() {
            let pages = self.layout.mappings[at];
            for block in pages.start / BLOCK_PAGES..pages.end.div_ceil(BLOCK_PAGES) {
                if self.tables[block as usize] & MADE == 0 {
                    continue;
                }
                // A table may hold the ends of several mappings.
                let mut table = match entered.filter(|table| table.block == block) {
                    Some(table) => table,
                    None => {
                        self.leave(&mut filters, entered);
                        let is_scanned = is_forced || self.enters(&filters, block, &mut work);
                        Table { block, total: 0, young: 0, is_scanned }
                    }
                };
                if table.is_scanned {
                    let part = pages.intersection(PageRange::at(block * BLOCK_PAGES, BLOCK_PAGES));
                    let young = self.scan(&mut accessed, part);
                    table = Table { total: table.total + part.len(), young: table.young + young, ..table };
                    work.entries_examined += part.len();
                    work.entries_cleared += young;
                }
                entered = Some(table);
            }
        }
        self.leave(&mut filters, entered);
        self.lruvec.walk.filters = filters;
        let moved = accessed.settle(&mut self.lruvec);
        let costs = &account.costs;
        let ns = work.tables_tested * costs.pte_scan_ns
            + moved * costs.lru_move_ns
            + work.entries_examined * costs.scan_table_ns / 512
            + work.entries_cleared * costs.scan_table_clear_ns / 512;
        account.spend(ns);
        account.work.add(&work);
    }

    fn table_id(&self, block: u64) -> u64 {
        table_id(self.layout.space, self.layout.origin / BLOCK_PAGES + block)
    }

    /// Whether a table is scanned. The accessed bit of its entry is cleared even if the filter then returns no.
    fn enters(&mut self, filters: &[Option<BloomFilter>; 2], block: u64, work: &mut Work) -> bool {
        work.tables_tested += 1;
        let table = &mut self.tables[block as usize];
        if *table & YOUNG == 0 {
            return false;
        }
        *table &= !YOUNG;
        work.filter_tests += 1;
        let filter = filters[list_of(self.lruvec.max_seq) % 2].as_ref();
        let may_hold = filter.is_none_or(|filter| filter.may_hold(self.table_id(block)));
        work.filter_misses += u64::from(!may_hold);
        may_hold
    }

    fn leave(&self, filters: &mut [Option<BloomFilter>; 2], table: Option<Table>) {
        let Some(table) = table.filter(|table| table.is_scanned) else { return };
        if is_worthwhile(table.total, table.young)
            && let Some(next) = &mut filters[list_of(self.lruvec.max_seq + 1) % 2]
        {
            next.add(self.table_id(table.block));
        }
    }

    /// Scans entries of one table. Returns how many were young.
    fn scan(&mut self, accessed: &mut Accessed, part: PageRange) -> u64 {
        let mut nr_met = 0;
        for word in part.start / 64..part.end.div_ceil(64) {
            let mut young = self.young_in(word, part);
            let mut met = 0;
            while young != 0 {
                let index = young.trailing_zeros();
                young &= young - 1;
                let page = word as u32 * 64 + index;
                let mut state = self.state_of(page);
                if accessed.meet(&mut state) {
                    self.set_state(page, state);
                    met |= 1 << index;
                }
            }
            self.bits.clear_young(word, met);
            nr_met += u64::from(met.count_ones());
        }
        nr_met
    }
}
