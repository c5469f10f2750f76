//! Client of the accessed-bit kernel module (docs/spec/live.md#4-accessed-bit-module): batches requests, continues stopped scans, and
//! reports failures as text.

pub(crate) mod abi;
mod bitmap;

use crate::process::Process;
use crate::{LiveError, Root, sys};
use abi::{Entry, Target, Version};
use isotherm_core::host::{Level, Probe, ProbeResult, Seen};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

pub use bitmap::Bitmap;

/// Path of the module's device, below the root.
const DEVICE: &str = "/dev/isotherm";
/// Feature that is needed if the device is missing.
pub(crate) const NEEDS_MODULE: &str = "the kernel module of isotherm is not loaded: `modprobe isotherm` as root, after `dkms install` where it was never built for this kernel";

/// The open module, checked to have this version.
#[derive(Debug)]
pub struct Module {
    device: File,
    path: PathBuf,
    shifts: Vec<u8>,
}

/// log2 of the bytes of the widest possible entry: with five levels, entries span up to 2^48.
const SHIFT_MAX: u8 = 56;

/// Whether a probe or scan clears bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Bits stay as they are.
    Test,
    /// Set accessed bits are cleared.
    Clear,
    /// Dirty bits of leaves are cleared too, after marking their pages dirty; they then show later writes.
    ClearWritten,
}

/// The entries of one level in a range, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// Entries accessed since their bit was last cleared.
    pub young: Bitmap,
    /// Entries that map something.
    pub present: Bitmap,
    /// Entries mapped by a huge leaf above the level, whose accessed bit counts for all these entries.
    pub huge: Bitmap,
    /// Entries written since the last scan with [`Look::ClearWritten`]; empty for other scans, and above the leaf level.
    pub written: Bitmap,
    /// Number of entries of kinds that are not scanned: device memory, hugetlbfs.
    pub nr_skipped: u64,
}

impl Module {
    /// Opens the device and asks for its version.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] if the module is not loaded, has another version, or the root is a tree of files; [`LiveError::Io`] without
    /// rights.
    pub fn open(root: &Root) -> Result<Self, LiveError> {
        let what = "the accessed-bit module";
        let path = root.path(DEVICE);
        if !path.exists() {
            return Err(LiveError::NotHere { what, needs: NEEDS_MODULE.to_owned() });
        }
        if !root.is_real() {
            let needs = format!("{} is a file of a test; the device is on the real root only", path.display());
            return Err(LiveError::NotHere { what, needs });
        }
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| LiveError::io("open", &path, error))?;
        let version =
            sys::module_version(&device).map_err(|error| LiveError::io("ask the version of", &path, error))?;
        let shifts = checked(&version).map_err(|needs| LiveError::NotHere { what, needs })?;
        Ok(Self { device, path, shifts })
    }

    /// log2 of the bytes that an entry of each level spans, from the leaf up.
    pub fn shifts(&self) -> &[u8] {
        &self.shifts
    }

    /// Probes single entries, in batches. `results` has the length of `probes`. A level that does not exist is answered as unknown.
    ///
    /// # Errors
    /// [`LiveError::Gone`], [`LiveError::Io`].
    ///
    /// # Panics
    /// The two slices differ in length.
    pub fn probe(
        &self,
        process: &Process,
        probes: &[Probe],
        look: Look,
        results: &mut [ProbeResult],
    ) -> Result<(), LiveError> {
        assert_eq!(probes.len(), results.len(), "one answer a probe");
        let target = target_of(process)?;
        let exists = |level: Level| usize::from(level.0) < self.shifts.len();
        for (probes, results) in probes.chunks(abi::BATCH_MAX).zip(results.chunks_mut(abi::BATCH_MAX)) {
            let asked: Vec<usize> = (0..probes.len()).filter(|&index| exists(probes[index].level)).collect();
            let entry = |&index: &usize| entry_of(probes[index]);
            let mut entries: Vec<Entry> = asked.iter().map(entry).collect();
            if !entries.is_empty() {
                self.call(process, || sys::module_probe(&self.device, target, &mut entries, flags(look)))?;
            }
            results.fill(ProbeResult { seen: Seen::Unknown, level: Level::LEAF });
            asked.iter().zip(&entries).for_each(|(&index, entry)| results[index] = answer_of(entry));
        }
        Ok(())
    }

    /// Scans all entries of a level in a range, whose ends are rounded outwards to entries.
    ///
    /// # Errors
    /// [`LiveError::Gone`], [`LiveError::Io`]; [`LiveError::Strange`] if the module makes no progress.
    pub fn scan(
        &self,
        process: &Process,
        range: std::ops::Range<u64>,
        level: Level,
        look: Look,
    ) -> Result<ScanResult, LiveError> {
        let target = target_of(process)?;
        let shift = self.shifts.get(usize::from(level.0)).copied().ok_or_else(|| {
            LiveError::Refused(format!("page tables here have {} levels, and no level {}", self.shifts.len(), level.0))
        })?;
        let plan = ScanPlan::new(range, shift);
        let mut result = ScanResult::sized(plan.nr_entries, look)?;
        let mut scan = abi::Scan {
            target,
            start: plan.start,
            end: plan.end,
            level: u32::from(level.0),
            flags: flags(look),
            ..abi::Scan::default()
        };
        while scan.start < scan.end {
            let done = plan.entries_before(scan.start);
            let word = usize::try_from(done / 64).unwrap_or(usize::MAX);
            let bitmaps = [&mut result.young, &mut result.present, &mut result.huge, &mut result.written]
                .map(|bitmap| bitmap.words_from(word));
            match sys::module_scan(&self.device, &mut scan, shift, bitmaps) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                answer => self.answered(process, answer)?,
            }
            result.nr_skipped += scan.nr_skipped;
            scan.start = plan.resumes_at(scan.start, scan.next).ok_or_else(|| {
                LiveError::strange(
                    &self.path,
                    format!("a scan from {:#x} that goes on at {:#x}", scan.start, scan.next),
                )
            })?;
        }
        Ok(result)
    }

    /// Flushes the TLB entries of a process, so that its next accesses set accessed bits again.
    ///
    /// # Errors
    /// [`LiveError::Gone`], [`LiveError::Io`].
    pub fn flush(&self, process: &Process) -> Result<(), LiveError> {
        let target = target_of(process)?;
        self.call(process, || sys::module_flush(&self.device, target))
    }

    /// Marks the pages at these addresses accessed, in batches. Returns the number of marked pages; pages that are not present are skipped.
    ///
    /// # Errors
    /// [`LiveError::Gone`], [`LiveError::Io`].
    pub fn activate(&self, process: &Process, addresses: &[u64]) -> Result<u64, LiveError> {
        let target = target_of(process)?;
        let mut marked = 0;
        for batch in addresses.chunks(abi::BATCH_MAX) {
            let mut done = 0;
            self.call(process, || sys::module_activate(&self.device, target, batch).map(|count| done = count))?;
            marked += u64::from(done);
        }
        Ok(marked)
    }

    fn call(&self, process: &Process, mut call: impl FnMut() -> io::Result<()>) -> Result<(), LiveError> {
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return self.answered(process, answer),
            }
        }
    }

    fn answered(&self, process: &Process, answer: io::Result<()>) -> Result<(), LiveError> {
        answer.map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => process.gone(),
            _ => LiveError::io("ask", &self.path, error),
        })
    }
}

/// A scan of whole entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScanPlan {
    start: u64,
    end: u64,
    shift: u8,
    nr_entries: u64,
}

impl ScanPlan {
    fn new(range: std::ops::Range<u64>, shift: u8) -> Self {
        let mask = (1_u64 << shift) - 1;
        let start = range.start & !mask;
        // The end of the last entry of the address space does not fit in 64 bits, so that entry is left out.
        let end = range.end.max(range.start).checked_add(mask).map_or(!mask, |end| end & !mask);
        Self { start, end, shift, nr_entries: (end - start) >> shift }
    }

    fn entries_before(&self, address: u64) -> u64 {
        (address - self.start) >> self.shift
    }

    /// Start of the next call; `None` if the module made no progress, or stopped where no call can continue.
    fn resumes_at(&self, from: u64, next: u64) -> Option<u64> {
        let advances = next > from && next <= self.end;
        let fits = next == self.end || next.wrapping_sub(self.start).is_multiple_of(64 << self.shift);
        (advances && fits).then_some(next)
    }
}

impl ScanResult {
    fn sized(nr_entries: u64, look: Look) -> Result<Self, LiveError> {
        let bitmap = Bitmap::sized(nr_entries).ok_or_else(|| {
            LiveError::Refused(format!(
                "a scan of {nr_entries} entries at once: ask for smaller ranges, or a higher level"
            ))
        })?;
        Ok(Self {
            young: bitmap.clone(),
            present: bitmap.clone(),
            huge: bitmap.clone(),
            // The module does not fill an empty bitmap.
            written: if look == Look::ClearWritten { bitmap } else { Bitmap::default() },
            nr_skipped: 0,
        })
    }
}

/// The levels of a module with this version, or its fault and the remedy.
fn checked(version: &Version) -> Result<Vec<u8>, String> {
    if version.abi != abi::ABI {
        return Err(format!(
            "the loaded module is of another version: it speaks interface {}, this isotherm speaks {}; rebuild it with `dkms install --force isotherm/{}`, then `rmmod isotherm && modprobe isotherm`",
            version.abi,
            abi::ABI,
            env!("CARGO_PKG_VERSION"),
        ));
    }
    let nr_levels = usize::try_from(version.nr_levels).unwrap_or(usize::MAX);
    let shifts = version.shifts.get(..nr_levels).unwrap_or_default();
    let is_table = !shifts.is_empty()
        && shifts.windows(2).all(|pair| pair[0] < pair[1])
        && shifts.iter().all(|&shift| shift <= SHIFT_MAX);
    if !is_table {
        return Err(format!(
            "the loaded module tells of {nr_levels} levels of page tables with the shifts {:?}, which no machine has",
            version.shifts
        ));
    }
    Ok(shifts.to_vec())
}

fn target_of(process: &Process) -> Result<Target, LiveError> {
    process.check()?;
    let pid = i32::try_from(process.pid()).map_err(|_| process.gone())?;
    Ok(Target { pid, padding: 0, start_time: process.start_time() })
}

fn flags(look: Look) -> u32 {
    match look {
        Look::Test => 0,
        Look::Clear | Look::ClearWritten => abi::CLEAR,
    }
}

fn entry_of(probe: Probe) -> Entry {
    Entry { address: probe.address, level: probe.level.0, seen: 0, padding: [0; 6] }
}

fn answer_of(entry: &Entry) -> ProbeResult {
    let seen = match entry.seen {
        0 => Seen::Idle,
        1 => Seen::Accessed,
        2 => Seen::NotMapped,
        _ => Seen::Unknown,
    };
    ProbeResult { seen, level: Level(entry.level) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_another_version_is_refused_with_both_numbers() {
        let version = Version { abi: 7, nr_levels: 4, shifts: [12, 21, 30, 39, 0, 0, 0, 0] };
        let words = checked(&version).unwrap_err();
        assert!(words.contains("interface 7") && words.contains("speaks 1") && words.contains("dkms"), "{words}");
        assert_eq!(checked(&Version { abi: 1, ..version }), Ok(vec![12, 21, 30, 39]));
        for nr_levels in [0, 5, 9, u32::MAX] {
            assert!(checked(&Version { abi: 1, nr_levels, ..version }).is_err(), "{nr_levels} levels");
        }
    }

    #[test]
    fn answers_of_entries_are_those_of_the_header() {
        let seen = |seen| answer_of(&Entry { seen, level: 1, ..Entry::default() });
        let kinds = [Seen::Idle, Seen::Accessed, Seen::NotMapped, Seen::Unknown, Seen::Unknown];
        for (number, kind) in (0..).zip(kinds) {
            assert_eq!(seen(number), ProbeResult { seen: kind, level: Level(1) });
        }
        let probe = Probe { address: 0x7000, level: Level(2) };
        assert_eq!(entry_of(probe), Entry { address: 0x7000, level: 2, ..Entry::default() });
    }

    #[test]
    fn a_scan_covers_whole_entries_and_goes_on_at_words() {
        let plan = ScanPlan::new(0x1234..0x5001, 12);
        assert_eq!((plan.start, plan.end, plan.nr_entries), (0x1000, 0x6000, 5));
        assert_eq!(plan.resumes_at(0x1000, 0x6000), Some(0x6000), "the end need not be at a word");
        let plan = ScanPlan::new(0..1 << 30, 12);
        assert_eq!(plan.resumes_at(0, 64 << 12), Some(64 << 12));
        assert_eq!(plan.entries_before(64 << 12), 64);
        for (from, next) in [(0, 0), (64 << 12, 64 << 12), (0, 63 << 12), (0, 2 << 30), (128 << 12, 64 << 12)] {
            assert_eq!(plan.resumes_at(from, next), None, "{from:#x} to {next:#x}");
        }
        let top = ScanPlan::new(u64::MAX - 1..u64::MAX, 12);
        assert_eq!(top.nr_entries, 0);
        let (start, end) = (0x9000, 0x1000);
        assert_eq!(ScanPlan::new(start..end, 12).nr_entries, 0, "a range that is upside down is empty");
    }

    #[test]
    fn without_a_device_it_says_what_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let words = Module::open(&root).unwrap_err().to_string();
        assert!(words.contains("modprobe isotherm"), "{words}");
        std::fs::create_dir(root.path("/dev")).unwrap();
        std::fs::write(root.path(DEVICE), "").unwrap();
        let words = Module::open(&root).unwrap_err().to_string();
        assert!(words.contains("real root"), "a file is no device: {words}");
    }
}
