//! Shadows and refault distance: was an evicted page needed again soon (docs/spec/classic-lru.md#s5)?
//!
//! When a page is evicted, a [`Shadow`] stays in its place: the lruvec that evicted it and that lruvec's age. The age grows with each
//! eviction and activation, so the difference at the page's return is the number of pages of room it lacked.

use super::scan_balance::PageType;
use crate::counters::Counter;

/// Counters of refaults of a type: all, activated, and of pages of the working set.
#[inline]
pub(super) const fn refault_counters(page_type: PageType) -> [Counter; 3] {
    match page_type {
        PageType::Anon => {
            [Counter::WorkingsetRefaultAnon, Counter::WorkingsetActivateAnon, Counter::WorkingsetRestoreAnon]
        }
        PageType::File => {
            [Counter::WorkingsetRefaultFile, Counter::WorkingsetActivateFile, Counter::WorkingsetRestoreFile]
        }
    }
}

/// Bits of a group number in a shadow.
const CGROUP_BITS: u32 = 16;
/// Slots of a page-cache node; nodes of shadows alone are pruned.
pub const SHADOWS_PER_NODE: u64 = 64;

/// Nodes that hold nothing but shadows, beyond which they are pruned: one for every eight pages of memory.
pub const fn shadow_nodes_max(pages: u64) -> u64 {
    pages >> 3
}

/// The record that an eviction leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Number of the group whose reclaim evicted the page: the group at its limit, the root for global reclaim.
    pub cgroup: u16,
    /// Node of the page.
    pub node: u8,
    /// The page belonged to the working set: it had been active.
    pub workingset: bool,
    /// Age of that group's lruvec, shortened by [`ShadowLayout::token`].
    pub token: u64,
}

/// How shadows are packed: how many bits are left for the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowLayout {
    node_bits: u32,
    token_bits: u32,
    bucket_order: u32,
}

impl ShadowLayout {
    /// The layout on a machine of `total_pages` with `2^node_bits` nodes at most (0..=8); `reserved_bits` are taken by other
    /// data in the same word (counts of swap users: anonymous pages only; at most 16).
    ///
    /// # Panics
    /// If a bit count is out of range.
    pub fn new(total_pages: u64, node_bits: u32, reserved_bits: u32) -> Self {
        assert!(node_bits <= 8 && reserved_bits <= 16, "the token keeps at least 22 bits");
        let token_bits = 64 - (1 + 1 + node_bits + CGROUP_BITS) - reserved_bits;
        let age_bits = u64::BITS - total_pages.saturating_sub(1).leading_zeros();
        Self { node_bits, token_bits, bucket_order: age_bits.saturating_sub(token_bits) }
    }

    pub const fn token_bits(self) -> u32 {
        self.token_bits
    }
    /// Ages that share a token, as a power of two: 0 unless memory is huge.
    pub const fn bucket_order(self) -> u32 {
        self.bucket_order
    }
    const fn mask(self) -> u64 {
        (1 << self.token_bits) - 1
    }

    pub const fn token(self, age: u64) -> u64 {
        (age >> self.bucket_order) & self.mask()
    }

    /// Packs a shadow into the low 63 bits.
    pub fn pack(self, shadow: Shadow) -> u64 {
        debug_assert!(u64::from(shadow.node) >> self.node_bits == 0, "node {} does not fit", shadow.node);
        let mut word = shadow.token & self.mask();
        word = word << CGROUP_BITS | u64::from(shadow.cgroup);
        word = word << self.node_bits | u64::from(shadow.node);
        word << 1 | u64::from(shadow.workingset)
    }

    /// The shadow in a packed word.
    pub fn unpack(self, word: u64) -> Shadow {
        debug_assert!(word >> 63 == 0, "shadows leave the top bit free");
        let workingset = word & 1 == 1;
        let word = word >> 1;
        let node = u8::try_from(word & ((1 << self.node_bits) - 1)).expect("at most 8 bits");
        let word = word >> self.node_bits;
        let cgroup = u16::try_from(word & 0xffff).expect("16 bits");
        Shadow { cgroup, node, workingset, token: word >> CGROUP_BITS & self.mask() }
    }

    /// Pages evicted and activated in the shadow's lruvec since, modulo 2^token bits. `age_now`: of that lruvec.
    pub const fn distance(self, token: u64, age_now: u64) -> u64 {
        age_now.wrapping_sub(token << self.bucket_order) & self.mask()
    }
}

/// Sizes of the lists that a returning page competes with: lists of the shadow's lruvec, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingsetSizes {
    /// Active file pages.
    pub active_file: u64,
    /// Inactive file pages.
    pub inactive_file: u64,
    /// Active anonymous pages.
    pub active_anon: u64,
    /// Inactive anonymous pages.
    pub inactive_anon: u64,
    /// The group has free swap: anonymous pages could make room.
    pub swap_available: bool,
}

impl WorkingsetSizes {
    /// Pages that could have been evicted in place of a page of this type: all but its own inactive list.
    pub const fn room(&self, page_type: PageType) -> u64 {
        let (file, anon) = match page_type {
            PageType::File => (self.active_file, self.active_anon + self.inactive_anon),
            PageType::Anon => (self.active_file + self.inactive_file, self.active_anon),
        };
        if self.swap_available { file + anon } else { file }
    }

    /// Whether a page that is refaulted after `distance` would have stayed if the other lists had given room.
    pub const fn is_recent(&self, page_type: PageType, distance: u64) -> bool {
        distance <= self.room(page_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn c6_refault() {
        let layout = ShadowLayout::new(1 << 20, 0, 0);
        assert_eq!((layout.token_bits(), layout.bucket_order()), (46, 0));
        let distance = layout.distance(layout.token(1000), 1500);
        assert_eq!(distance, 500);
        // (active file, swap available) -> recent; anon is 100 active + 50 inactive.
        let table = [
            (300, true, false), // 450
            (400, true, true),  // 550
            (400, false, false),
            (350, true, true), // the boundary, 500
        ];
        for (active_file, swap_available, recent) in table {
            let sizes = WorkingsetSizes {
                active_file,
                inactive_file: 10_000,
                active_anon: 100,
                inactive_anon: 50,
                swap_available,
            };
            assert_eq!(sizes.is_recent(PageType::File, distance), recent, "{active_file} {swap_available}");
        }
    }

    #[test]
    fn anonymous_pages_compete_with_all_file_pages() {
        let mut sizes = WorkingsetSizes {
            active_file: 1,
            inactive_file: 20,
            active_anon: 300,
            inactive_anon: 4000,
            swap_available: true,
        };
        assert_eq!((sizes.room(PageType::Anon), sizes.room(PageType::File)), (321, 4301));
        sizes.swap_available = false;
        assert_eq!((sizes.room(PageType::Anon), sizes.room(PageType::File)), (21, 1));
    }

    #[test]
    fn huge_machines_count_in_buckets() {
        // 64 - 2 - 8 - 16 - 16 = 22 bits; 2^25 pages need 25: buckets of 8.
        let layout = ShadowLayout::new(1 << 25, 8, 16);
        assert_eq!((layout.token_bits(), layout.bucket_order()), (22, 3));
        assert_eq!(layout.token(8 * 77 + 5), 77);
        assert_eq!(layout.distance(77, 8 * 77 + 5), 5, "the remainder is lost at eviction");
        assert_eq!(ShadowLayout::new((1 << 22) + 1, 8, 16).bucket_order(), 1);
        assert_eq!(ShadowLayout::new(1 << 22, 8, 16).bucket_order(), 0);
    }

    #[test]
    fn the_age_may_wrap() {
        let layout = ShadowLayout::new(1 << 20, 8, 16); // 22 bits
        let near_end = (1 << 22) - 10;
        assert_eq!(layout.distance(layout.token(near_end), near_end + 25), 25);
        assert_eq!(layout.distance(layout.token(u64::MAX), 4), 5);
    }

    #[test]
    fn shadows_are_pruned_beyond_an_eighth() {
        assert_eq!(shadow_nodes_max(1_000_007), 125_000);
    }

    proptest! {
        #[test]
        fn shadows_survive_packing(
            cgroup: u16, node: u8, workingset: bool, age: u64, node_bits in 0u32..=8, reserved in 0u32..=16,
        ) {
            let layout = ShadowLayout::new(1 << 30, node_bits, reserved);
            let node = u8::try_from(u64::from(node) & ((1 << node_bits) - 1)).unwrap();
            let shadow = Shadow { cgroup, node, workingset, token: layout.token(age) };
            let word = layout.pack(shadow);
            prop_assert!(word >> (63 - reserved) == 0);
            prop_assert_eq!(layout.unpack(word), shadow);
        }
    }
}
