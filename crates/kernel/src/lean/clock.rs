//! `clock` (`docs/mechanism/reclaim.md#baselines`): [`Clock`](crate::reclaim::Clock) in one ring.

use super::account::{Account, Batch};
use super::attempt::Scan;
use super::bits::{Bits, State};
use super::layout::Layout;
use super::play::{Arrival, Policy};
use super::ring::Ring;
use crate::reclaim::ListSizes;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    bits: Bits,
    ring: Ring,
    /// Pages at the old end whose bits were read ahead.
    warm: usize,
}

/// Pages whose bits are read ahead together: the misses of the host's caches overlap.
const TOGETHER: usize = 64;

impl Clock {
    #[inline]
    fn pop(&mut self) -> u32 {
        if self.warm == 0 {
            self.warm = TOGETHER.min(self.ring.len() as usize);
            std::hint::black_box(
                (0..self.warm).fold(0, |sum, younger| sum ^ self.bits.warm(self.ring.oldest(younger))),
            );
        }
        self.warm -= 1;
        let page = self.ring.oldest(0);
        self.ring.pop(1);
        page
    }
}

impl Policy for Clock {
    const IS_EXACT: bool = true;

    fn new(layout: &Layout, _account: &Account) -> Self {
        Self { bits: Bits::new(layout.span as usize), ring: Ring::new(), warm: 0 }
    }

    #[inline(always)]
    fn touch(&mut self, page: u32, write: bool) -> bool {
        self.bits.touch(page, write)
    }

    #[inline]
    fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32 {
        self.bits.touch_row(page, most, write)
    }

    #[inline]
    fn state(&self, page: u32) -> State {
        self.bits.state(page)
    }

    fn map_zero(&mut self, page: u32) {
        self.bits.map_zero(page);
    }

    /// The access that brings a page in does not count.
    #[inline]
    fn added(&mut self, _account: &mut Account, page: u32, _arrival: Arrival) {
        self.bits.map(page, false);
        self.ring.push(page);
    }

    #[inline]
    fn shrink(&mut self, account: &mut Account, scan: &mut Scan) {
        // Every page once to lose its second chance, once more to go.
        for _ in 0..2 * self.ring.len() {
            let page = self.pop();
            if self.bits.take_young(page) {
                self.ring.push(page);
                continue;
            }
            self.bits.swap_out(page);
            scan.nr_reclaimed += 1;
            account.book(Batch { scanned: 1, swapped_out: 1, ..Batch::default() });
            return;
        }
    }

    fn sizes(&self) -> ListSizes {
        ListSizes { inactive_anon: self.ring.len(), ..ListSizes::default() }
    }

    fn exit(&mut self) {
        self.ring.clear();
        self.warm = 0;
    }

    #[inline]
    fn warm(&self, page: u32) -> u64 {
        self.bits.warm(page)
    }
}
