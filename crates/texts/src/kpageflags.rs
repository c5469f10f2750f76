//! `/proc/kpageflags`: the flags of page frames, a word of the machine for each.

/// The flags of one page frame, by the kernel's stable bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFlags(pub u64);

impl PageFlags {
    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
    /// Accessed since reclaim last saw it.
    pub const fn is_referenced(self) -> bool {
        self.has(2)
    }
    pub const fn is_dirty(self) -> bool {
        self.has(4)
    }
    /// On an LRU list.
    pub const fn is_on_lru(self) -> bool {
        self.has(5)
    }
    /// On an active list; with generations, in one of the two youngest.
    pub const fn is_active(self) -> bool {
        self.has(6)
    }
    /// Free, as the head of a block in the buddy allocator.
    pub const fn is_buddy(self) -> bool {
        self.has(10)
    }
    pub const fn is_anon(self) -> bool {
        self.has(12)
    }
    pub const fn is_hugetlb(self) -> bool {
        self.has(17)
    }
    pub const fn is_unevictable(self) -> bool {
        self.has(18)
    }
    /// No memory behind this number.
    pub const fn is_no_page(self) -> bool {
        self.has(20)
    }
    /// Part of a transparent huge page.
    pub const fn is_thp(self) -> bool {
        self.has(22)
    }
}

/// Frames in bytes of the file; a torn one at the end is left out.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = PageFlags> {
    bytes.as_chunks::<8>().0.iter().map(|word| PageFlags(u64::from_ne_bytes(*word)))
}
