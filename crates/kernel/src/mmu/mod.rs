//! Virtual memory as the hardware sees it: page-table words with accessed and dirty bits, upper levels, address spaces.

mod config;
mod entry;
mod levels;
mod premapped;
mod space;
#[expect(
    clippy::cast_possible_truncation,
    reason = "hosts are 64-bit; slots and pages within a chunk stay below 2^18, and the hit path takes no checked conversion"
)]
mod table;
pub mod translation;
mod vma;

pub use config::MmuConfig;
pub use entry::Entry;
pub use levels::Level;
pub use space::{AddressSpace, OpenFile, PremappedFrames, SpaceId};
pub use table::{Cursor, DensePage, Found, Hits, MigrationEntries, Need, Pace, PageTable, Stop};
pub(crate) use table::{Entries, Stale, Taken, YoungEntries};
pub use translation::TranslationConfig;
pub use vma::{Vma, VmaList};
