//! Virtual memory as the hardware sees it: page-table words with accessed and dirty bits, upper levels, address spaces.

mod entry;
mod levels;
mod space;
#[expect(
    clippy::cast_possible_truncation,
    reason = "hosts are 64-bit; slots and pages within a chunk stay below 2^18, and the hit path takes no checked conversion"
)]
mod table;
mod vma;

pub use entry::Entry;
pub use levels::Level;
pub use space::{AddressSpace, OpenFile, SpaceId};
pub(crate) use table::{Cursor, Pace, Stop};
pub use table::{DensePage, Need, PageTable};
pub use vma::{Vma, VmaList};
