//! `/proc/PID/pagemap`: one entry for each page; and `PAGEMAP_SCAN`: page ranges by category, since Linux 6.7.

use crate::process::Process;
use crate::{LiveError, sys};
use isotherm_core::host::AddressRange;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes of an entry.
const ENTRY: u64 = 8;
/// Entries read at once: 32 KiB.
const ENTRIES_AT_ONCE: u64 = 4096;

/// The kernel's entry for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagemapEntry(u64);

impl PagemapEntry {
    /// Whether the page is in memory, and mapped.
    pub const fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }
    /// Whether the page is in swap, or under migration.
    pub const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }
    /// Whether the page belongs to a file or to shared memory.
    pub const fn is_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }
    /// Written since soft-dirty bits were cleared; always clear on kernels without `MEM_SOFT_DIRTY`.
    pub const fn is_soft_dirty(self) -> bool {
        self.0 >> 55 & 1 == 1
    }
    /// A page in this frame; 0 for none.
    #[cfg(test)]
    pub(crate) const fn of_frame(frame: u64) -> Self {
        Self(if frame == 0 { 0 } else { 1 << 63 | frame })
    }
    /// Number of the page frame; `None` if the page is not present, and without CAP_SYS_ADMIN.
    pub const fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        if self.is_present() && frame != 0 { Some(frame) } else { None }
    }
}

/// Reads the entries of all pages of a range, in the order of addresses. `start` is rounded down to a page, `end` up.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Io`]. Returns fewer entries than pages if the range exceeds the address space.
pub fn pagemap(process: &Process, range: AddressRange) -> Result<Vec<PagemapEntry>, LiveError> {
    let page_bytes = sys::page_bytes();
    let (first, end) = (range.start / page_bytes, range.end.div_ceil(page_bytes));
    let mut entries = Vec::new();
    let mut buffer = Vec::new();
    let mut page = first;
    while page < end {
        let wanted = (end - page).min(ENTRIES_AT_ONCE) * ENTRY;
        buffer.resize(usize::try_from(wanted).expect("32 KiB at most"), 0);
        let read = match process.pagemap().read_at(&mut buffer, page * ENTRY) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                process.check()?;
                return Err(LiveError::io("read", &process.path("pagemap"), error));
            }
            Ok(read) => read,
        };
        let before = entries.len();
        append(&buffer[..read], &mut entries);
        if entries.len() == before {
            break;
        }
        page += (entries.len() - before) as u64;
    }
    process.check()?;
    Ok(entries)
}

/// The frame of the page at an address, by one system call. `None` if no page is there, or the address space has ended (its pagemap is
/// empty).
pub(crate) fn frame_at(process: &Process, address: u64) -> Option<u64> {
    let mut entry = [0; 8];
    let place = (address / sys::page_bytes()).checked_mul(ENTRY)?;
    process.pagemap().read_exact_at(&mut entry, place).ok()?;
    PagemapEntry(u64::from_ne_bytes(entry)).frame()
}

/// Appends whole entries; a partial one at the end is skipped.
fn append(bytes: &[u8], entries: &mut Vec<PagemapEntry>) {
    let (whole, _) = bytes.as_chunks::<8>();
    entries.extend(whole.iter().map(|entry| PagemapEntry(u64::from_ne_bytes(*entry))));
}

/// Categories of `PAGEMAP_SCAN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(pub u64);

impl Categories {
    /// Belongs to a file or to shared memory.
    pub const FILE: Self = Self(1 << 2);
    pub const PRESENT: Self = Self(1 << 3);
    /// The page of zeroes, which all processes share.
    pub const ZERO: Self = Self(1 << 5);
    /// Mapped by a huge leaf.
    pub const HUGE: Self = Self(1 << 6);

    /// Union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether these include all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `struct page_region` of `linux/fs.h`: adjacent pages with the same categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageRegion {
    /// Byte address of the first page.
    pub start: u64,
    /// End of the last page, exclusive.
    pub end: u64,
    categories: u64,
}

impl PageRegion {
    /// Categories of its pages, among the requested ones.
    pub const fn categories(&self) -> Categories {
        Categories(self.categories)
    }
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PmScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    pub(crate) regions: u64,
    pub(crate) nr_regions: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Page ranges in all `wanted` categories; each reports its categories, as far as the last argument asks for them. `None` if this kernel
/// lacks the scan (before 6.7). A range that exceeds the address space gives no page ranges.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Io`].
pub fn pagemap_scan(
    process: &Process,
    range: AddressRange,
    wanted: Categories,
    told: Categories,
) -> Result<Option<Vec<PageRegion>>, LiveError> {
    if process.pidfd().is_none() {
        return Ok(None);
    }
    let mask = sys::page_bytes() - 1;
    let mut found = Vec::new();
    let mut buffer = vec![PageRegion::default(); 1024];
    let mut scan = PmScan {
        size: std::mem::size_of::<PmScan>() as u64,
        start: range.start & !mask,
        end: range.end.saturating_add(mask) & !mask,
        category_mask: wanted.0,
        return_mask: wanted.0 | told.0,
        ..PmScan::default()
    };
    while scan.start < scan.end {
        let filled = match sys::pagemap_scan(process.pagemap(), &mut scan, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => return Ok(None),
            // The range exceeds the address space.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => break,
            Err(error) => {
                process.check()?;
                return Err(LiveError::io("scan", &process.path("pagemap"), error));
            }
            Ok(filled) => filled,
        };
        found.extend_from_slice(buffer.get(..filled).unwrap_or(&buffer));
        if scan.walk_end <= scan.start {
            break;
        }
        scan.start = scan.walk_end;
    }
    process.check()?;
    Ok(Some(found))
}

/// Bytes under a huge leaf of the lowest level: one table of 8-byte entries, a page each.
pub(crate) fn huge_bytes() -> u64 {
    sys::page_bytes() * (sys::page_bytes() / ENTRY)
}

/// Whether a huge leaf maps the page at an address; unknown before Linux 6.7, where the answer is no.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Io`].
pub(crate) fn is_huge(process: &Process, address: u64) -> Result<bool, LiveError> {
    let start = address & !(sys::page_bytes() - 1);
    let page = AddressRange::new(start, start.saturating_add(1));
    let wanted = Categories::PRESENT.and(Categories::HUGE);
    Ok(pagemap_scan(process, page, wanted, Categories::default())?.is_some_and(|found| !found.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::mem::{offset_of, size_of};

    /// Bits as in docs/spec/live-linux.md#1-interfaces-that-show-accesses-or-page-state.
    #[test]
    fn bits_of_entries() {
        let entry = PagemapEntry(1 << 63 | 1 << 61 | 1 << 55 | 0x1234);
        assert!(entry.is_present() && entry.is_file() && entry.is_soft_dirty() && !entry.is_swapped());
        assert_eq!(entry.frame(), Some(0x1234));
        assert!(PagemapEntry(1 << 62).is_swapped());
        assert_eq!(PagemapEntry(1 << 62 | 7).frame(), None, "of a swapped page the bits are its place in swap");
        assert_eq!(PagemapEntry(1 << 63).frame(), None, "without the right to know frames");
    }

    /// Sizes: twelve fields of 8 bytes, and three.
    #[test]
    fn structures_of_the_scan_are_those_of_the_kernel() {
        assert_eq!((size_of::<PmScan>(), size_of::<PageRegion>()), (96, 24));
        let offsets = [offset_of!(PmScan, walk_end), offset_of!(PmScan, regions), offset_of!(PmScan, category_mask)];
        assert_eq!(offsets, [32, 40, 72]);
        assert_eq!((offset_of!(PmScan, max_pages), offset_of!(PmScan, return_mask)), (56, 88));
    }

    #[test]
    fn one_page_is_told_as_many_are() {
        let process = Process::open(&crate::Root::default(), std::process::id()).unwrap();
        let memory = vec![1u8; 3 << 20];
        for offset in [0, 1 << 20, 2 << 20] {
            let address = std::hint::black_box(&memory)[offset..].as_ptr() as u64;
            let entries = pagemap(&process, AddressRange::new(address, address + 1)).unwrap();
            assert_eq!(frame_at(&process, address), entries[0].frame());
        }
        assert_eq!((frame_at(&process, 0), frame_at(&process, u64::MAX)), (None, None));
    }

    proptest! {
        #[test]
        fn bytes_give_whole_entries(bytes: Vec<u8>) {
            let mut entries = Vec::new();
            append(&bytes, &mut entries);
            prop_assert_eq!(entries.len(), bytes.len() / 8);
            prop_assert!(entries.iter().all(|entry| entry.frame().is_none_or(|frame| frame < 1 << 55)));
        }
    }
}
