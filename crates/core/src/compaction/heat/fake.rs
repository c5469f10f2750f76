//! A host whose pages are used at rates of their own: for tests. Moves what it is told to, and refuses what must not be done.

use super::super::keep::PAGES_PER_BLOCK;
use crate::compaction::{BlockUse, FreeBlocks, HUGE_ORDER, Marks, predicted_yield};
use crate::host::{
    BlocksScan, CompactEnd, CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, MoveBatch,
    NodeId, PageBlock, PageContent, ZoneId, ZoneState,
};
use isotherm_units::Duration;

pub(crate) const BLOCK: usize = 1 << HUGE_ORDER;

/// A page of the fake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Free,
    /// Never to be moved: its name stays where it is.
    Fixed(u32),
    /// Named, used once in each so many ns; 0: never.
    Movable {
        name: u32,
        period_ns: u64,
        cleared_at: u64,
    },
}

/// One zone of one node. The test sets `now_ns` before each call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) blocks: Vec<Vec<Page>>,
    /// Blocks that are not targets.
    pub(crate) closed: Vec<u32>,
    pub(crate) now_ns: u64,
    pub(crate) signals: CompactionSignals,
    /// Each batch: its block, how many pages were moved, and how often they are used together, thousandths a second.
    pub(crate) batches: Vec<(u32, u32, u64)>,
    pub(crate) min_mark: u64,
    /// Pages of blocks that were to be emptied, as they were watched.
    pub(crate) watched: u64,
}

fn small(count: usize) -> u32 {
    u32::try_from(count).expect("a test's machine is small")
}

impl Machine {
    fn usage(&self, number: usize) -> BlockUse {
        let count = |is: fn(&Page) -> bool| small(self.blocks[number].iter().filter(|page| is(page)).count());
        BlockUse {
            movable: count(|page| matches!(page, Page::Movable { .. })),
            fixed: count(|page| matches!(page, Page::Fixed(_))),
            is_target: !self.closed.contains(&small(number)),
        }
    }

    pub(crate) fn free_blocks(&self) -> u64 {
        (0..self.blocks.len()).filter(|&number| self.usage(number).is_free()).count() as u64
    }

    /// Names of pages with their places.
    pub(crate) fn names(&self, fixed: bool) -> Vec<(u32, usize)> {
        let pages = self.blocks.iter().flatten().enumerate();
        let mut names: Vec<(u32, usize)> = pages
            .filter_map(|(place, page)| match *page {
                Page::Fixed(name) if fixed => Some((name, place)),
                Page::Movable { name, .. } if !fixed => Some((name, place)),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        names
    }

    fn accessed(&self, page: Page) -> bool {
        match page {
            Page::Movable { period_ns, cleared_at, .. } if period_ns > 0 => {
                // Uses fall on multiples of the period.
                self.now_ns / period_ns > cleared_at / period_ns
            }
            _ => false,
        }
    }

    fn wipe(&mut self, number: usize, at: usize) {
        let now_ns = self.now_ns;
        if let Page::Movable { cleared_at, .. } = &mut self.blocks[number][at] {
            *cleared_at = now_ns;
        }
    }

    fn room(&self, targets: &[u32], source: u32) -> Option<(usize, usize)> {
        targets.iter().map(|&number| number as usize).find_map(|number| {
            assert_ne!(number, source as usize, "the source is no target");
            let usage = self.usage(number);
            assert!(usage.is_target, "pages may not be moved into {number}");
            let place = self.blocks[number].iter().position(|&page| page == Page::Free);
            place.filter(|_| !usage.is_free()).map(|place| (number, place))
        })
    }
}

impl Compacting for Machine {
    fn compaction_granularity(&self) -> Option<Granularity> {
        Some(Granularity::Zone)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        let pages = self.blocks.iter().flatten().filter(|&&page| page == Page::Free).count() as u64;
        let mut counts = [0; 11];
        counts[0] = pages - self.free_blocks() * BLOCK as u64;
        counts[HUGE_ORDER as usize] = self.free_blocks();
        let usages: Vec<BlockUse> = (0..self.blocks.len()).map(|number| self.usage(number)).collect();
        out.push(ZoneState {
            id: ZoneId::default(),
            blocks: FreeBlocks::new(&counts).expect("small"),
            present: (self.blocks.len() * BLOCK) as u64,
            marks: Marks { min: self.min_mark, ..Marks::default() },
            movable: None,
            exact_yield: Some(predicted_yield(&usages, self.min_mark)),
        });
        Ok(())
    }

    /// There is nothing to do: pages move by [`Compacting::move_pages`] alone here.
    fn compact(&mut self, _: &CompactStep) -> Result<Compacted, HostError> {
        Ok(Compacted { end: Some(CompactEnd::ScannersMet), ..Compacted::default() })
    }

    fn compaction_signals(&mut self, _: NodeId) -> Result<CompactionSignals, HostError> {
        Ok(self.signals)
    }

    fn page_blocks(&mut self, check: &BlocksScan, out: &mut Vec<PageBlock>) -> Result<(), HostError> {
        for number in 0..self.blocks.len() {
            let movable: Vec<usize> =
                (0..BLOCK).filter(|&at| matches!(self.blocks[number][at], Page::Movable { .. })).collect();
            let sampled = (check.samples as usize).min(movable.len());
            let mut accessed = 0;
            for nth in 0..sampled {
                let at = movable[(check.turn as usize + nth * movable.len() / sampled) % movable.len()];
                accessed += u32::from(self.accessed(self.blocks[number][at]));
                self.wipe(number, at);
            }
            let usage = self.usage(number);
            out.push(PageBlock { number: small(number), usage, sampled: small(sampled), accessed });
        }
        Ok(())
    }

    fn block_pages(
        &mut self,
        _: ZoneId,
        block: u32,
        clears: bool,
        out: &mut Vec<PageContent>,
    ) -> Result<(), HostError> {
        if block as usize >= self.blocks.len() {
            return Err(HostError::Failed(format!("there is no block {block}, but {} of them", self.blocks.len())));
        }
        self.watched += if clears { u64::from(self.usage(block as usize).movable) } else { 0 };
        for at in 0..BLOCK {
            let page = self.blocks[block as usize][at];
            out.push(match page {
                Page::Free => PageContent::Free,
                Page::Fixed(_) => PageContent::Fixed,
                Page::Movable { .. } => PageContent::Movable { accessed: self.accessed(page) },
            });
            if clears {
                self.wipe(block as usize, at);
            }
        }
        Ok(())
    }

    fn move_pages(&mut self, batch: &MoveBatch<'_>) -> Result<Compacted, HostError> {
        let mut done = Compacted::default();
        let (mut moved, mut rate) = (0, 0);
        for &at in batch.pages {
            let page = self.blocks[batch.block as usize][at as usize];
            let Page::Movable { period_ns, .. } = page else {
                panic!("page {at} of block {} is {page:?}: nobody may ask to move it", batch.block)
            };
            if batch.spares_accessed && self.accessed(page) {
                continue;
            }
            let Some((number, place)) = self.room(batch.targets, batch.block) else {
                done.end = Some(CompactEnd::NoTargets);
                break;
            };
            self.blocks[number][place] =
                std::mem::replace(&mut self.blocks[batch.block as usize][at as usize], Page::Free);
            moved += 1;
            rate += 1_000_000_000_000_u64.checked_div(period_ns).unwrap_or(0);
        }
        done.pages_moved = u64::from(moved);
        done.blocks_freed = u64::from(moved > 0 && self.usage(batch.block as usize).is_free());
        done.cpu = Duration::from_ns(10_000 + 4500 * u64::from(moved));
        self.batches.push((batch.block, moved, rate));
        assert!(self.batches.len() as u64 <= PAGES_PER_BLOCK * 64, "it does not end");
        Ok(done)
    }
}
