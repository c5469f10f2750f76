//! Pages for objects with a size.

use std::collections::HashMap;

use crate::PAGE_LIMIT;

/// Gives each object as many consecutive pages as its size needs, one object after the other in order of appearance, from page 0 on: no two
/// objects share a page. An object that grows moves to new pages at the end, because its contents are replaced; an object that shrinks uses
/// the first of its pages. Memory: some 40 bytes an object.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// First page and number of pages.
    places: HashMap<u64, (u64, u32)>,
    next: u64,
    moved: u64,
}

impl Extents {
    /// First page and number of pages of object `id` with size `size_bytes`; an error if there is no space.
    pub(crate) fn place(&mut self, id: u64, size_bytes: u64) -> Result<(u64, u32), String> {
        let pages = pages_of(size_bytes)?;
        let next = self.next;
        let known = self.places.get_mut(&id);
        if let Some((first, held)) = known.as_deref()
            && *held >= pages
        {
            return Ok((*first, pages));
        }
        let end = next.checked_add(u64::from(pages)).filter(|&end| end <= PAGE_LIMIT);
        self.next = end.ok_or("all objects together have more than 2^52 pages; leave out --split-objects")?;
        match known {
            Some(place) => {
                *place = (next, pages);
                self.moved += 1;
            }
            None => drop(self.places.insert(id, (next, pages))),
        }
        Ok((next, pages))
    }

    /// Summary for the trace's notes.
    pub(crate) fn remark(&self) -> String {
        let moved = match self.moved {
            0 => String::new(),
            moved => format!("; {moved} times an object had grown and moved to new pages"),
        };
        format!(
            "{} objects lie one after the other on as many pages as they need, {} in all{moved}",
            self.places.len(),
            self.next
        )
    }
}

/// Pages of 4 KiB that an object of a size needs, at least one.
pub(crate) fn pages_of(size_bytes: u64) -> Result<u32, String> {
    let pages = size_bytes.div_ceil(isotherm_units::PAGE_BYTES).max(1);
    u32::try_from(pages).map_err(|_| format!("an object of {size_bytes} bytes; below 16 TiB are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn objects_by_hand() {
        let mut extents = Extents::default();
        // (object, bytes) → pages: 9000 bytes are 3 pages; 0 bytes one; the first one grows to 4 and then shrinks to 1.
        let table = [
            ((7, 9000), (0, 3)),
            ((8, 0), (3, 1)),
            ((9, 4096), (4, 1)),
            ((7, 12_289), (5, 4)),
            ((7, 1), (5, 1)),
            ((7, 12_289), (5, 4)),
            ((8, 4096), (3, 1)),
        ];
        for ((id, bytes), place) in table {
            assert_eq!(extents.place(id, bytes).unwrap(), place, "{id} {bytes}");
        }
        assert!(extents.remark().starts_with("3 objects") && extents.remark().contains("9 in all; 1 times"));
        assert!(extents.place(1, u64::MAX).unwrap_err().contains("16 TiB"));
        extents.next = PAGE_LIMIT - 1;
        assert!(extents.place(2, 4097).unwrap_err().contains("2^52"));
        assert_eq!(extents.place(2, 4096).unwrap(), (PAGE_LIMIT - 1, 1), "the last page");
    }

    proptest! {
        #[test]
        fn no_two_objects_share_a_page(requests in proptest::collection::vec((0u64..20, 0u64..60_000), 1..200)) {
            let mut extents = Extents::default();
            let mut owner = BTreeMap::new();
            for (id, bytes) in requests {
                let (first, pages) = extents.place(id, bytes).unwrap();
                prop_assert!(u64::from(pages) * 4096 >= bytes);
                for page in first..first + u64::from(pages) {
                    prop_assert_eq!(*owner.entry(page).or_insert(id), id);
                }
            }
        }
    }
}
