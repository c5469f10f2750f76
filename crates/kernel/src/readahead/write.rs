//! Orders of the folios that `write()` makes (docs/spec/large-folios.md#f2-8).

use super::orders::{FolioBounds, folio_at};
use isotherm_units::{PAGE_BYTES, PageRange};

/// The folios to try in turn, largest first, for the bytes from byte `position` of the file on. Take the first that can be
/// allocated, charged and inserted, then go on at its end. If the page of `position` is cached already, its folio is used instead.
///
/// `hint`: bytes left to write, within one extent of the file; `None` for file systems that do not tell: the smallest order. A
/// folio may reach beyond the end of the file.
/// Source: `mm/filemap.c: __filemap_get_folio` (6.12; 7.2: `__filemap_get_folio_mpol`), `generic_perform_write`, and
/// `include/linux/pagemap.h: fgf_set_order`.
pub fn tries(position: u64, hint: Option<u64>, folios: FolioBounds) -> impl Iterator<Item = PageRange> {
    let page = position / PAGE_BYTES;
    // What the largest folio around the position leaves room for.
    let room = folio_at(page, folios.max()).end * PAGE_BYTES - position;
    let nr_pages = hint.map_or(0, |left| left.min(room) / PAGE_BYTES);
    let wanted = nr_pages.checked_ilog2().unwrap_or(0).clamp(folios.min(), folios.max());
    let first = folio_at(page, folios.min()).start;
    (folios.min()..=wanted.min(first.trailing_zeros())).rev().map(move |order| PageRange::at(first, 1 << order))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const XFS: FolioBounds = FolioBounds::new(0, 9);
    const MIB: u64 = 1 << 20;

    /// `first:order` of each folio of a write of `bytes` at `position` into an empty file; `is_had`: whether the order can be had.
    fn write(
        position: u64,
        bytes: u64,
        folios: FolioBounds,
        hints: bool,
        is_had: impl Fn(u32) -> bool,
    ) -> Vec<PageRange> {
        let (mut next, end) = (position, position + bytes);
        let mut made = Vec::new();
        while next < end {
            let hint = hints.then_some(end - next);
            let folio =
                tries(next, hint, folios).find(|folio| is_had(folio.len().ilog2())).expect("the smallest is had");
            next = folio.end * PAGE_BYTES;
            made.push(folio);
        }
        made
    }

    fn text(folios: &[PageRange]) -> String {
        folios.iter().map(|folio| format!("{}:{}", folio.start, folio.len().ilog2())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn l11_a_write_of_200_kib_at_4_kib() {
        let (position, bytes) = (4 << 10, 200 << 10);
        let made = write(position, bytes, XFS, true, |_| true);
        assert_eq!(text(&made), "1:0 2:1 4:2 8:3 16:4 32:4 48:1 50:0");
        let ext4_6_12 = write(position, bytes, FolioBounds::SINGLE, false, |_| true);
        assert_eq!(ext4_6_12, (1..51).map(|page| PageRange::at(page, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn l12_writes_of_2_mib() {
        assert_eq!(text(&write(0, 2 * MIB, XFS, true, |_| true)), "0:9");
        assert_eq!(text(&write(2 * MIB - 4096, 8192, XFS, true, |_| true)), "511:0 512:0");
        let btrfs = write(0, 2 * MIB, FolioBounds::new(0, 6), true, |_| true);
        assert_eq!(text(&btrfs), "0:6 64:6 128:6 192:6 256:6 320:6 384:6 448:6");
        let short = write(0, MIB, XFS, true, |order| order < 8);
        assert_eq!(text(&short), "0:7 128:7", "orders 9 and 8 fail");
        // After the first folio they succeed again.
        let orders =
            |position: u64, left| tries(position, Some(left), XFS).map(|folio| folio.len().ilog2()).collect::<Vec<_>>();
        assert_eq!(orders(0, 2 * MIB), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(orders(MIB / 2, 3 * MIB / 2)[0], 7);
        assert_eq!(orders(MIB, MIB)[0], 8);
    }

    #[test]
    fn the_hint_decides_from_8_kib_on() {
        let first = |position, hint, folios| tries(position, hint, folios).next();
        assert_eq!(first(2 * 4096, Some(8191), XFS), Some(PageRange::at(2, 1)));
        assert_eq!(first(2 * 4096, Some(8192), XFS), Some(PageRange::at(2, 2)), "also past the end of the file");
        assert_eq!(first(0, None, XFS), Some(PageRange::at(0, 1)), "no hint");
        assert_eq!(first(7 * 4096, Some(1), FolioBounds::new(2, 4)), Some(PageRange::at(4, 4)), "the smallest order");
    }

    proptest! {
        #[test]
        fn writes_are_covered_by_folios(
            position in 0u64..4 * MIB, bytes in 1u64..4 * MIB, min in 0u32..4, max in 0u32..10, hints: bool, had in 0u32..10,
        ) {
            let folios = FolioBounds::new(min, max);
            let made = write(position, bytes, folios, hints, |order| order <= had.max(folios.min()));
            prop_assert!(made[0].contains(position / PAGE_BYTES));
            prop_assert!(made.windows(2).all(|pair| pair[0].end == pair[1].start));
            let end = (position + bytes).div_ceil(PAGE_BYTES);
            prop_assert_eq!(made.last().unwrap().end.min(end), end);
            for folio in made {
                prop_assert_eq!(folio, folio_at(folio.start, folio.len().ilog2()));
                prop_assert!((folios.min()..=folios.max()).contains(&folio.len().ilog2()));
                prop_assert!(folio.len().ilog2() == folios.min() || folio.end <= end);
            }
        }
    }
}
