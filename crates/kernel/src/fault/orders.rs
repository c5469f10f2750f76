//! Orders of anonymous folios: what the switches allow, and which places are tried at a fault and at a swap-in
//! (docs/spec/large-folios.md#f5-1, #f5-2 and #f5-5).
//!
//! The order of a whole page table, 2 MiB, is tried before, by a path of its own.

use crate::cgroup::CgroupId;
use crate::memory::KernelRelease;
use crate::mmu::Level;
use crate::readahead::orders::folio_at;
use crate::swap::SlotId;
use isotherm_units::PageRange;

/// The smallest order of a large anonymous folio: 16 KiB.
pub const ORDER_MIN: u32 = 2;
/// The largest: 2 MiB.
pub const ORDER_MAX: u32 = Level::PMD.span_pages().ilog2();
const ORDERS: usize = (ORDER_MAX - ORDER_MIN + 1) as usize;

/// `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Enabled {
    /// In every mapping.
    Always,
    /// In mappings with `MADV_HUGEPAGE`.
    Madvise,
    /// Nowhere.
    Never,
}

/// `/sys/kernel/mm/transparent_hugepage/hugepages-<size>kB/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SizeEnabled {
    /// In every mapping.
    Always,
    /// In mappings with `MADV_HUGEPAGE`.
    Madvise,
    /// As the switch for all sizes says.
    Inherit,
    /// Not at faults.
    Never,
}

/// A program's advice about huge pages in an anonymous mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HugeAdvice {
    /// None.
    #[default]
    Normal,
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`; as good as this: the process switched huge pages off by `prctl`, or the mapping is a temporary stack, or
    /// userfaultfd watches it.
    Never,
}

/// The switches for anonymous folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnonymousSizes {
    /// The switch for all sizes.
    pub enabled: Enabled,
    /// By order, from [`ORDER_MIN`] on.
    sizes: [SizeEnabled; ORDERS],
}

impl AnonymousSizes {
    /// What a kernel has without parameters: 2 MiB as the switch for all sizes says, no other size
    /// (`mm/huge_memory.c: hugepage_init_sysfs`, 6.12 and 7.2).
    pub const fn new(enabled: Enabled) -> Self {
        let mut sizes = [SizeEnabled::Never; ORDERS];
        sizes[ORDERS - 1] = SizeEnabled::Inherit;
        Self { enabled, sizes }
    }

    /// The same with the switch of order `order` ([`ORDER_MIN`] to [`ORDER_MAX`]) set to `to`.
    ///
    /// # Panics
    /// If there is no switch for this order.
    #[must_use]
    pub const fn with(mut self, order: u32, to: SizeEnabled) -> Self {
        assert!(order >= ORDER_MIN && order <= ORDER_MAX, "orders 2 to 9 have a switch");
        self.sizes[(order - ORDER_MIN) as usize] = to;
        self
    }

    /// Whether faults in a mapping with this advice may take folios of order `order`; single pages always
    /// (`include/linux/huge_mm.h: thp_vma_allowable_orders`, 6.12 and 7.2).
    pub fn allows(&self, order: u32, advice: HugeAdvice) -> bool {
        if order == 0 {
            return true;
        }
        let Some(index) = order.checked_sub(ORDER_MIN).filter(|_| order <= ORDER_MAX) else { return false };
        let advised = advice == HugeAdvice::Huge;
        let allowed = match (self.sizes[index as usize], self.enabled) {
            (SizeEnabled::Always, _) | (SizeEnabled::Inherit, Enabled::Always) => true,
            (SizeEnabled::Madvise, _) | (SizeEnabled::Inherit, Enabled::Madvise) => advised,
            (SizeEnabled::Never, _) | (SizeEnabled::Inherit, Enabled::Never) => false,
        };
        allowed && advice != HugeAdvice::Never
    }

    /// The places of allowed folios below 2 MiB around `page` that lie within the mapping `vma`, largest first; the last is the page.
    fn places(self, page: u64, vma: PageRange, advice: HugeAdvice) -> impl Iterator<Item = PageRange> {
        (0..ORDER_MAX)
            .rev()
            .filter(move |&order| self.allows(order, advice))
            .map(move |order| folio_at(page, order))
            .filter(move |place| place.intersection(vma) == *place)
    }
}

/// The places to try in turn, largest first, when `page` of the anonymous mapping `vma` is written and has no entry. Take the first
/// that can be allocated and charged; the last is the page alone. `is_empty`: the entry of a page holds nothing at all, no
/// zero page and no swap slot either.
/// Source: `mm/memory.c: alloc_anon_folio` (6.12 and 7.2). A read maps the zero page instead.
pub fn anonymous(
    page: u64,
    vma: PageRange,
    sizes: AnonymousSizes,
    advice: HugeAdvice,
    is_empty: impl Fn(u64) -> bool,
) -> impl Iterator<Item = PageRange> {
    sizes.places(page, vma, advice).filter(move |place| place.len() == 1 || (place.start..place.end).all(&is_empty))
}

/// A swap entry and what is in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapEntry {
    /// The slot.
    pub slot: SlotId,
    /// The page is in the swap cache.
    pub is_cached: bool,
    /// Only zero bytes: the slot was never written.
    pub is_zero: bool,
    /// The group that the slot is charged to.
    pub cgroup: CgroupId,
}

/// Conditions of the system and of the slot for large folios at a swap-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapInTerms {
    /// The device holds data in memory (`SWP_SYNCHRONOUS_IO`, zram). Others read single pages, with readahead.
    pub is_synchronous: bool,
    /// Zswap was enabled at some time since boot.
    pub had_zswap: bool,
    /// References to the slot of the page.
    pub references: u32,
    /// The release whose rules hold.
    pub release: KernelRelease,
}

impl SwapInTerms {
    /// Whether folios of more than one page can be swapped in at all. Releases before 7.2 need to skip the swap cache for it.
    fn allow_large(&self) -> bool {
        let skips_cache = self.references == 1;
        self.is_synchronous && !self.had_zswap && (skips_cache || self.release == KernelRelease::V7_2)
    }
}

/// The places to try in turn, largest first, when `page` of the anonymous mapping `vma` is to be swapped in; the last is the page
/// alone. `entry`: the swap entry of a page, if it has one.
///
/// The pages of a large folio have slots one after the other, with the same place in the folio as in the run. All have data, or
/// all are zero.
/// Source: `mm/memory.c: alloc_swap_folio` (6.12), `thp_swapin_suitable_orders` and `mm/swap_state.c: __swap_cache_add_check` (7.2).
pub fn swap_in(
    page: u64,
    vma: PageRange,
    sizes: AnonymousSizes,
    advice: HugeAdvice,
    terms: &SwapInTerms,
    entry: impl Fn(u64) -> Option<SwapEntry>,
) -> impl Iterator<Item = PageRange> {
    let allow_large = terms.allow_large();
    sizes.places(page, vma, advice).filter(move |&place| place.len() == 1 || allow_large && is_run(place, &entry))
}

/// Whether the entries of `place` hold an aligned run of slots that can be read as one folio.
fn is_run(place: PageRange, entry: impl Fn(u64) -> Option<SwapEntry>) -> bool {
    let Some(first) = entry(place.start) else { return false };
    let run = u64::from(first.slot.index_u32())..;
    run.start.is_multiple_of(place.len())
        && (place.start..place.end).zip(run).all(|(page, slot)| {
            entry(page).is_some_and(|entry| {
                u64::from(entry.slot.index_u32()) == slot
                    && !entry.is_cached
                    && entry.is_zero == first.is_zero
                    && entry.cgroup == first.cgroup
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Cgroups;

    const VMA: PageRange = PageRange { start: 0x7_f000_0003, end: 0x7_f000_0043 };
    const NONE: AnonymousSizes = AnonymousSizes::new(Enabled::Madvise);
    const OF_64_KIB: AnonymousSizes = NONE.with(4, SizeEnabled::Always);

    fn orders(places: impl Iterator<Item = PageRange>) -> Vec<u32> {
        places.map(|place| place.len().ilog2()).collect()
    }

    #[test]
    fn switches_allow_orders() {
        use HugeAdvice::{Huge, Never, Normal};
        let allowed =
            |sizes: AnonymousSizes, advice| (1..12).filter(|&order| sizes.allows(order, advice)).collect::<Vec<_>>();
        for (enabled, normal, huge) in
            [(Enabled::Always, vec![9], vec![9]), (Enabled::Madvise, vec![], vec![9]), (Enabled::Never, vec![], vec![])]
        {
            let default = AnonymousSizes::new(enabled);
            assert_eq!((allowed(default, Normal), allowed(default, Huge)), (normal, huge));
            let some = default.with(2, SizeEnabled::Always).with(3, SizeEnabled::Madvise).with(9, SizeEnabled::Never);
            assert_eq!((allowed(some, Normal), allowed(some, Huge)), (vec![2], vec![2, 3]));
            assert_eq!(allowed(some, Never), []);
        }
    }

    #[test]
    fn l20_an_anonymous_fault() {
        let first = |address: u64, sizes| anonymous(address >> 12, VMA, sizes, HugeAdvice::Normal, |_| true).next();
        assert_eq!(first(0x7f00_0001_2345, OF_64_KIB), Some(PageRange::at(0x7_f000_0010, 16)));
        assert_eq!(first(0x7f00_0000_8000, OF_64_KIB), Some(PageRange::at(0x7_f000_0008, 1)), "begins outside");
        assert_eq!(first(0x7f00_0004_1000, OF_64_KIB), Some(PageRange::at(0x7_f000_0041, 1)), "ends outside");
        let both = OF_64_KIB.with(3, SizeEnabled::Always);
        assert_eq!(first(0x7f00_0000_8000, both), Some(PageRange::at(0x7_f000_0008, 8)));
    }

    #[test]
    fn l21_a_spoiled_range() {
        let is_empty = |page| page != 0x7_f000_0015;
        let first = |page, sizes| anonymous(page, VMA, sizes, HugeAdvice::Normal, is_empty).next();
        assert_eq!(first(0x7_f000_0012, OF_64_KIB), Some(PageRange::at(0x7_f000_0012, 1)));
        let both = OF_64_KIB.with(2, SizeEnabled::Always);
        assert_eq!(first(0x7_f000_0012, both), Some(PageRange::at(0x7_f000_0010, 4)));
        assert_eq!(first(0x7_f000_0015, both), Some(PageRange::at(0x7_f000_0015, 1)), "replaces the zero page");
    }

    /// The charge itself is the caller's: 64 pages ahead, then the folio alone (docs/spec/large-folios.md#f3-1).
    #[test]
    fn l22_a_charge_near_the_limit() {
        let (limit, used) = (1000, 990);
        let both = OF_64_KIB.with(2, SizeEnabled::Always);
        let mut refused = Vec::new();
        let had = anonymous(0x7_f000_0012, VMA, both, HugeAdvice::Normal, |_| true).find(|place| {
            let charged = [place.len().max(64), place.len()].into_iter().find(|pages| used + pages <= limit);
            if charged.is_none() {
                refused.push(place.len().ilog2());
            }
            charged.is_some()
        });
        assert_eq!((had.map(|place| used + place.len()), refused), (Some(994), vec![4]));
    }

    #[test]
    fn l24_swap_in() {
        let zram = SwapInTerms { is_synchronous: true, had_zswap: false, references: 1, release: KernelRelease::V7_2 };
        let entry = |slot: u64| SwapEntry {
            slot: SlotId::new(u32::try_from(slot).unwrap()),
            is_cached: false,
            is_zero: false,
            cgroup: CgroupId::ROOT,
        };
        let (run, page) = (PageRange::at(0x7_f000_0010, 16), 0x7_f000_0012);
        let in_run = |page| run.contains(page).then(|| entry(2048 + page - run.start));
        let first = |sizes, terms: SwapInTerms, entry: &dyn Fn(u64) -> Option<SwapEntry>| {
            orders(swap_in(page, VMA, sizes, HugeAdvice::Normal, &terms, entry))[0]
        };
        for release in KernelRelease::ALL {
            let zram = SwapInTerms { release, ..zram };
            assert_eq!(first(OF_64_KIB, zram, &in_run), 4);
            assert_eq!(first(NONE, zram, &in_run), 0, "64 KiB set to never meanwhile");
            assert_eq!(first(OF_64_KIB, SwapInTerms { had_zswap: true, ..zram }, &in_run), 0);
            assert_eq!(first(OF_64_KIB, SwapInTerms { is_synchronous: false, ..zram }, &in_run), 0, "a disk");
        }
        let shared = SwapInTerms { references: 2, ..zram };
        assert_eq!(first(OF_64_KIB, shared, &in_run), 4);
        assert_eq!(first(OF_64_KIB, SwapInTerms { release: KernelRelease::V6_12, ..shared }, &in_run), 0);
        // What spoils the run of 16 and leaves one of 4.
        let both = OF_64_KIB.with(2, SizeEnabled::Always);
        let spoiled = |spoil: fn(SwapEntry) -> Option<SwapEntry>| {
            let entries = move |page| if page == 0x7_f000_001a { in_run(page).and_then(spoil) } else { in_run(page) };
            orders(swap_in(page, VMA, both, HugeAdvice::Normal, &zram, entries))
        };
        assert_eq!(spoiled(Some), [4, 2, 0]);
        assert_eq!(spoiled(|_| None), [2, 0]);
        assert_eq!(spoiled(|entry| Some(SwapEntry { is_cached: true, ..entry })), [2, 0]);
        assert_eq!(spoiled(|entry| Some(SwapEntry { is_zero: true, ..entry })), [2, 0]);
        assert_eq!(spoiled(|entry| Some(SwapEntry { slot: SlotId::new(7), ..entry })), [2, 0]);
        let cgroup = Cgroups::new().add(CgroupId::ROOT, "other").expect("has no such group");
        assert_eq!(
            orders(swap_in(page, VMA, both, HugeAdvice::Normal, &zram, |page| {
                in_run(page).map(|entry| if page == 0x7_f000_001a { SwapEntry { cgroup, ..entry } } else { entry })
            })),
            [2, 0]
        );
        // Slots 2049..2064: the place in the run is not that in the folio.
        assert_eq!(first(both, zram, &|page| in_run(page).map(|_| entry(2049 + page - run.start))), 0);
    }
}
