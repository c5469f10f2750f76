//! Contents of a page-table entry besides its hardware bits.

use crate::memory::FrameId;
use crate::swap::SlotId;

/// The software side of one page-table entry, decoded. Packed into 32 bits in the cold array of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Never touched, or dropped.
    None,
    /// The shared zero page: readable, no memory charged.
    Zero,
    /// A resident page.
    Frame(FrameId),
    /// Swapped out.
    Swap(SlotId),
}

const SWAP_BIT: u32 = 1 << 31;
const ZERO_PAGE: u32 = SWAP_BIT - 1;

impl Entry {
    /// Frames and slots stay below 2^31 - 2 (8 TiB of each).
    #[inline]
    pub(super) fn pack(self) -> u32 {
        debug_assert!(
            !matches!(self, Self::Frame(frame) if frame.index_u32() >= ZERO_PAGE - 1),
            "frames stay below the number of the zero page"
        );
        debug_assert!(
            !matches!(self, Self::Swap(slot) if slot.index_u32() & SWAP_BIT != 0),
            "slots leave the top bit free"
        );
        match self {
            Self::None => 0,
            Self::Zero => ZERO_PAGE,
            Self::Frame(frame) => frame.index_u32() + 1,
            Self::Swap(slot) => slot.index_u32() | SWAP_BIT,
        }
    }

    #[inline]
    pub(crate) fn unpack(packed: u32) -> Self {
        match packed {
            0 => Self::None,
            ZERO_PAGE => Self::Zero,
            _ if packed & SWAP_BIT != 0 => Self::Swap(SlotId::new(packed & !SWAP_BIT)),
            _ => Self::Frame(FrameId::new(packed - 1)),
        }
    }

    /// The slot of a swapped-out page, else the first slot; without a branch.
    #[inline]
    pub(crate) const fn slot_or_first(packed: u32) -> SlotId {
        SlotId::new(if packed & SWAP_BIT == 0 { 0 } else { packed & !SWAP_BIT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_packing() {
        let entries = [
            Entry::None,
            Entry::Zero,
            Entry::Frame(FrameId::new(0)),
            Entry::Frame(FrameId::new(ZERO_PAGE - 2)),
            Entry::Swap(SlotId::new(0)),
            Entry::Swap(SlotId::new(SWAP_BIT - 1)),
        ];
        for entry in entries {
            assert_eq!(Entry::unpack(entry.pack()), entry);
            let slot = if let Entry::Swap(slot) = entry { slot } else { SlotId::new(0) };
            assert_eq!(Entry::slot_or_first(entry.pack()), slot);
        }
    }
}
