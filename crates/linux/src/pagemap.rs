//! `/proc/PID/pagemap`: an entry a page; and `PAGEMAP_SCAN`, ranges of pages of some kind, from Linux 6.7 on.

use crate::process::Process;
use crate::{LiveError, sys};
use isotherm_core::host::AddressRange;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Bytes of an entry.
const ENTRY: u64 = 8;
/// Entries that are read in one go: 32 KiB.
const ENTRIES_AT_ONCE: u64 = 4096;

/// What the kernel says of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagemapEntry(u64);

impl PagemapEntry {
    /// It is in memory, and mapped.
    pub const fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }
    /// It is in swap, or on its way between nodes.
    pub const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }
    /// It belongs to a file or to shared memory.
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
/// [`LiveError::Gone`], [`LiveError::Io`]. Fewer entries than pages come where the range reaches behind the address space.
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

/// The frame of the page at an address; `None` if no page is there, or the address space was given up, whose pagemap is empty. One call.
pub(crate) fn frame_at(process: &Process, address: u64) -> Option<u64> {
    let mut entry = [0; 8];
    let place = (address / sys::page_bytes()).checked_mul(ENTRY)?;
    process.pagemap().read_exact_at(&mut entry, place).ok()?;
    PagemapEntry(u64::from_ne_bytes(entry)).frame()
}

/// Whole entries; what is left of one at the end is passed over.
fn append(bytes: &[u8], entries: &mut Vec<PagemapEntry>) {
    let (whole, _) = bytes.as_chunks::<8>();
    entries.extend(whole.iter().map(|entry| PagemapEntry(u64::from_ne_bytes(*entry))));
}

/// Categories of `PAGEMAP_SCAN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(pub u64);

impl Categories {
    /// Of a file or of shared memory.
    pub const FILE: Self = Self(1 << 2);
    pub const PRESENT: Self = Self(1 << 3);
    /// The page of zeroes, which all processes share.
    pub const ZERO: Self = Self(1 << 5);
    /// Mapped by a huge leaf.
    pub const HUGE: Self = Self(1 << 6);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the other are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `struct page_region` of `linux/fs.h`: neighbouring pages of the same categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageRegion {
    /// Byte address of the first page.
    pub start: u64,
    /// Byte address behind the last page.
    pub end: u64,
    categories: u64,
}

impl PageRegion {
    /// What all of its pages are, of the categories that were asked for.
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

/// Ranges of pages that are of all of `wanted`, with what of `told` each is; `None` if this kernel has no such scan (before 6.7). A range
/// that reaches behind the address space has none.
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
            // The range reaches behind the address space.
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

/// Bytes under a huge leaf of the lowest kind: one table of 8-byte entries of pages.
pub(crate) fn huge_bytes() -> u64 {
    sys::page_bytes() * (sys::page_bytes() / ENTRY)
}

/// Whether a huge leaf maps the page at an address; not known before Linux 6.7, and then taken for no.
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

    /// Twelve fields of 8 bytes each, and three.
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
