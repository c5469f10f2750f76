//! Address spaces of generated workloads: where their data lies.

use isotherm_units::access::{
    Backing, FileKind, FileSpec, Mapping, Process, Program, Sharing, Stream, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, PageRange};

use crate::{Storage, WorkloadError};

/// First page of the first mapping: aligned to 2 MiB so that huge pages fit, but not to 1 GiB, as real heaps are not.
const FIRST_PAGE: u64 = 0x1_1a3c_1200;
/// 2 MiB in pages.
const BLOCK_PAGES: u64 = 512;
/// The largest footprint: with [`FIRST_PAGE`] it ends below the 128 TiB of a user address space.
const FOOTPRINT_MAX: Bytes = Bytes::from_gib(64 << 10);

/// `size` in pages, checked.
pub(crate) fn footprint_pages(kind: &'static str, field: &'static str, size: Bytes) -> Result<u64, WorkloadError> {
    if size == Bytes::ZERO || size > FOOTPRINT_MAX {
        return Err(WorkloadError::field(kind, field, size, format!("more than 0, up to {FOOTPRINT_MAX}")));
    }
    Ok(size.pages_ceil().get())
}

/// Lays out the mappings of one process.
pub(crate) struct Spaces {
    name: String,
    next_page: u64,
    files: Vec<FileSpec>,
    layout: Vec<Mapping>,
}

impl Spaces {
    /// An empty address space of the program `name`.
    pub(crate) fn new(name: String) -> Self {
        Self { name, next_page: FIRST_PAGE, files: Vec::new(), layout: Vec::new() }
    }

    /// Maps `pages` new pages and returns the first. `what` names them; `file` is the path for file storage, by default
    /// made of the program's name and `what`.
    pub(crate) fn map(&mut self, what: &str, pages: u64, storage: Storage, file: Option<&str>, huge: bool) -> u64 {
        let start = self.next_page;
        let backing = match storage {
            Storage::Anonymous => Backing::Anonymous,
            Storage::MappedFile | Storage::File | Storage::SharedMemory => {
                let name = file.map_or_else(|| format!("{}.{what}", self.name), str::to_owned);
                let is_shared = storage == Storage::SharedMemory;
                let kind = if is_shared { FileKind::SharedMemory } else { FileKind::Regular };
                self.files.push(FileSpec { name, pages, kind });
                Backing::File { file: self.files.len() - 1, first_page: 0, sharing: Sharing::Shared }
            }
        };
        self.layout.push(Mapping { pages: PageRange::at(start, pages), backing, executable: false, huge });
        self.next_page = (start + pages).next_multiple_of(BLOCK_PAGES) + BLOCK_PAGES;
        start
    }

    /// The program of one process whose threads all begin with it.
    pub(crate) fn into_program(self, streams: Vec<Box<dyn Stream>>) -> Program {
        self.into_processes(1, streams)
    }

    /// The program of `nr_processes` with this layout each, whose threads all begin with it: stream `i` runs in process
    /// `i % nr_processes`. Files and shared memory are the same in all, anonymous memory is each one's own.
    pub(crate) fn into_processes(self, nr_processes: usize, streams: Vec<Box<dyn Stream>>) -> Program {
        let name = |nth: usize| if nth == 0 { self.name.clone() } else { format!("{}/{nth}", self.name) };
        let process = |nth| Process { name: name(nth), forked_from: None, layout: self.layout.clone() };
        let thread = |(nth, stream)| Thread { process: nth % nr_processes, start: ThreadStart::WithProgram, stream };
        Program {
            processes: (0..nr_processes).map(process).collect(),
            threads: streams.into_iter().enumerate().map(thread).collect(),
            name: self.name,
            files: self.files,
            timing: Timing::Modelled,
            future: None,
        }
    }
}

/// Refuses huge pages where there are none.
pub(crate) fn check_huge(kind: &'static str, huge: bool, storage: Storage) -> Result<(), WorkloadError> {
    if huge && storage != Storage::Anonymous {
        let problem = "`huge` is set, but only anonymous memory has huge pages";
        return Err(WorkloadError::contradiction(kind, problem, "drop `huge` or set `storage = \"anonymous\"`"));
    }
    Ok(())
}

/// `compute` as the think time of a run.
pub(crate) fn think_ns(
    kind: &'static str,
    field: &'static str,
    compute: isotherm_units::Duration,
) -> Result<u32, WorkloadError> {
    u32::try_from(compute.ns()).map_err(|_| WorkloadError::field(kind, field, compute, "0 to 4.29s"))
}

/// A share of at most one.
pub(crate) fn check_share(
    kind: &'static str,
    field: &'static str,
    share: isotherm_units::Ratio,
) -> Result<(), WorkloadError> {
    if share > isotherm_units::Ratio::ONE {
        return Err(WorkloadError::field(kind, field, share, "0% to 100%"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_apart_and_aligned_for_huge_pages_only() {
        let mut spaces = Spaces::new("w".into());
        let first = spaces.map("data", 1000, Storage::Anonymous, None, true);
        let second = spaces.map("index", 1, Storage::File, None, false);
        assert!(first.is_multiple_of(BLOCK_PAGES) && !first.is_multiple_of(1 << 18));
        assert!(second >= first + 1000 + BLOCK_PAGES && second.is_multiple_of(BLOCK_PAGES));
        let program = spaces.into_program(Vec::new());
        assert_eq!(program.files[0].name, "w.index");
        assert_eq!(program.processes[0].layout.len(), 2);
    }

    #[test]
    fn footprints_are_checked() {
        assert_eq!(footprint_pages("scan", "footprint", Bytes::new(4097)).unwrap(), 2);
        let message = |size| footprint_pages("scan", "footprint", size).unwrap_err().to_string();
        assert_eq!(message(Bytes::ZERO), "scan: `footprint` is 0B; allowed: more than 0, up to 64TiB");
        assert!(message(Bytes::from_gib(1 << 20)).contains("1PiB"));
        let highest = FIRST_PAGE + FOOTPRINT_MAX.pages_ceil().get();
        assert!(highest < 1 << 35, "below 128 TiB");
    }
}
