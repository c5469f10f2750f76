//! Resident pages at the end of a run: the basis for comparing two runs.

use super::Machine;
use isotherm_kernel::memory::{CachePage, PageOwner};
use isotherm_kernel::mmu::Entry;
use isotherm_units::PageRange;
use serde::Serialize;

/// Resident pages at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// Anonymous pages of processes that are alive, by program and process.
    pub processes: Vec<ResidentProcess>,
    /// Pages of files in the page cache, in the order in which the files were opened.
    pub files: Vec<ResidentFile>,
}

/// Anonymous pages of one process, the zero page included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidentProcess {
    /// Index of the program on the machine.
    pub program: usize,
    /// Index of the process in it.
    pub process: usize,
    /// Name of the process.
    pub name: String,
    /// Virtual pages, ascending.
    pub pages: Vec<PageRange>,
}

/// Cached pages of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidentFile {
    pub name: String,
    /// Pages of the file, ascending.
    pub pages: Vec<PageRange>,
}

impl Machine {
    /// Pages that are resident now.
    pub(super) fn residency(&self) -> Residency {
        let mut residency = Residency::default();
        for (program, state) in self.programs.iter().enumerate() {
            for (process, space) in state.spaces.iter().enumerate() {
                let Some(space) = *space else { continue };
                let table = &self.memory.space(space).table;
                let is_anonymous = |entry: Entry| match entry {
                    Entry::Frame(frame) => matches!(self.memory.frames.owner(frame), PageOwner::Anonymous { .. }),
                    Entry::Zero => true,
                    Entry::None | Entry::Swap(_) => false,
                };
                let present = table.present_in(PageRange::new(0, u64::MAX));
                let anonymous = present.filter(|&page| is_anonymous(table.entry(page))).map(|page| table.page_of(page));
                let name = state.program.processes[process].name.clone();
                residency.processes.push(ResidentProcess { program, process, name, pages: ranges(anonymous) });
            }
        }
        for (_, file) in self.memory.files.iter() {
            let cached = file.known_pages().filter(|(_, page)| matches!(page, CachePage::Frame(_)));
            let pages = ranges(cached.map(|(page, _)| page));
            residency.files.push(ResidentFile { name: file.name.clone(), pages });
        }
        residency
    }
}

/// Runs of ascending pages.
fn ranges(pages: impl Iterator<Item = u64>) -> Vec<PageRange> {
    let mut ranges: Vec<PageRange> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => ranges.push(PageRange::at(page, 1)),
        }
    }
    ranges
}
