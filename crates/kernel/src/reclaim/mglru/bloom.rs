//! Bloom filters of page tables that were worth a walk (docs/spec/mglru.md#s9-1).

use crate::mmu::SpaceId;

const BITS: usize = 1 << SHIFT;
const SHIFT: u32 = 15;

/// 32 768 bits, two of them for each table.
#[derive(Clone, Debug)]
pub(crate) struct BloomFilter(Box<[u64; BITS / 64]>);

impl BloomFilter {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; BITS / 64]))
    }
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
    pub(crate) fn add(&mut self, id: u64) {
        for bit in bits(id) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }
    pub(crate) fn may_hold(&self, id: u64) -> bool {
        bits(id).into_iter().all(|bit| self.0[bit / 64] >> (bit % 64) & 1 != 0)
    }
}

/// The two bits of an entry at address `id`: a multiplicative hash of 30 bits, cut in halves.
fn bits(id: u64) -> [usize; 2] {
    let hash = id.wrapping_mul(0x61C8_8646_80B5_83EB) >> (64 - 2 * SHIFT);
    [hash & (BITS as u64 - 1), hash >> SHIFT].map(|bit| usize::try_from(bit).expect("15 bits"))
}

/// A stable substitute for the address of the entry that points to the table of 2 MiB block `block`: entries lie 8 bytes
/// apart.
pub(crate) fn table_id(space: SpaceId, block: u64) -> u64 {
    0xffff_8880_0000_0000 ^ ((space.index() as u64 + 1) << 40) ^ (block << 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E13: bits of the filter.
    #[test]
    fn e13_bloom() {
        let table = [
            (0x1000, [6658, 17458]),
            (0x2000, [13317, 2148]),
            (0xffff_8880_0000_1000, [3426, 26280]),
            (0xffff_8880_0000_1008, [6639, 28106]),
        ];
        for (id, expected) in table {
            assert_eq!(bits(id), expected, "{id:#x}");
        }
    }

    #[test]
    fn what_was_added_is_held_until_cleared() {
        let mut filter = BloomFilter::new();
        let id = table_id(SpaceId(3), 77);
        assert!(!filter.may_hold(id));
        filter.add(id);
        assert!(filter.may_hold(id) && !filter.may_hold(table_id(SpaceId(4), 77)));
        filter.clear();
        assert!(!filter.may_hold(id));
    }
}
