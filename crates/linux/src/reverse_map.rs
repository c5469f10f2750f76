//! Processes that map each page frame, from `/proc/PID/pagemap`: the kernel's reverse map is not exported.

use crate::maps::maps;
use crate::pagemap::{Categories, PagemapEntry, pagemap, pagemap_scan};
use crate::process::Process;
use crate::{LiveError, Root, sys};
use isotherm_core::host::AddressRange;

/// Most runs of a map: 24 MiB.
const RUNS_MAX: usize = 1 << 20;
/// Most pages of a run, so the search for a frame only goes back over a few.
const RUN_PAGES: u64 = 512;

/// Pages with consecutive addresses in consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    frame: u64,
    page: u64,
    pages: u32,
    process: u32,
}

/// Mappings of all processes at the time of reading. Mappings change, so callers must check each answer.
#[derive(Debug, Default)]
pub(crate) struct ReverseMap {
    processes: Vec<Process>,
    /// Sorted by frame.
    runs: Vec<Run>,
}

impl ReverseMap {
    /// Reads the mappings of all processes. Kernel threads, and processes that end during the read, are skipped.
    ///
    /// # Errors
    /// [`LiveError::NotHere`] where the kernel shows no frame numbers, which it does with CAP_SYS_ADMIN; [`LiveError::Refused`] if
    /// memory has more runs than a map holds; [`LiveError::Io`] if `/proc` cannot be listed.
    pub(crate) fn read(root: &Root) -> Result<Self, LiveError> {
        // Each process keeps two files open: its handle and its pagemap.
        sys::allow_many_files();
        let folder = root.path("/proc");
        let entries = std::fs::read_dir(&folder).map_err(|error| LiveError::io("list", &folder, error))?;
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        let mut map = Self::default();
        let mut hidden = 0u64;
        for pid in pids {
            let Ok(process) = Process::open(root, pid) else { continue };
            let before = map.runs.len();
            // A process that ended while it was read maps nothing.
            let Ok(seen) = map.add_pages_of(&process) else {
                map.runs.truncate(before);
                continue;
            };
            hidden += seen;
            if map.runs.len() > RUNS_MAX {
                return Err(LiveError::Refused(format!(
                    "memory of this machine lies in more than {RUNS_MAX} pieces, too many to follow page frames through \
                     their mappings: --source damon watches physical memory by the kernel's own reverse map"
                )));
            }
            if map.runs.len() > before {
                map.processes.push(process);
            }
        }
        if map.runs.is_empty() {
            let what = "frame numbers of pages";
            let needs = if hidden > 0 {
                "CAP_SYS_ADMIN: `/proc/PID/pagemap` shows zeroes without it".to_owned()
            } else {
                "a process with pages in memory".to_owned()
            };
            return Err(LiveError::NotHere { what, needs });
        }
        map.runs.sort_unstable();
        Ok(map)
    }

    /// Adds the resident pages of a process. Returns the number of pages without a frame number.
    fn add_pages_of(&mut self, process: &Process) -> Result<u64, LiveError> {
        let page_bytes = sys::page_bytes();
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let mut hidden = 0;
        for mapping in maps(process)? {
            // Before Linux 6.7 all entries of a mapping are read, including those of pages that were never used.
            let scanned = pagemap_scan(process, mapping.range, Categories::PRESENT, Categories::default())?;
            let pieces: Vec<AddressRange> = match scanned {
                Some(regions) => regions.iter().map(|region| AddressRange::new(region.start, region.end)).collect(),
                None => vec![mapping.range],
            };
            for piece in pieces {
                let entries = pagemap(process, piece)?;
                hidden += entries.iter().filter(|entry| entry.is_present() && entry.frame().is_none()).count() as u64;
                append_runs(&entries, piece.start / page_bytes, number, &mut self.runs);
            }
        }
        Ok(hidden)
    }

    /// The process of this number.
    pub(crate) fn process(&self, number: u32) -> Option<&Process> {
        self.processes.get(usize::try_from(number).ok()?)
    }

    /// Mappings of a frame: the index of the process, and the page number in it.
    pub(crate) fn mappers(&self, frame: u64) -> impl Iterator<Item = (u32, u64)> + '_ {
        let behind = self.runs.partition_point(|run| run.frame <= frame);
        let near = self.runs[..behind].iter().rev().take_while(move |run| run.frame + RUN_PAGES > frame);
        near.filter(move |run| frame < run.frame + u64::from(run.pages))
            .map(move |run| (run.process, run.page + (frame - run.frame)))
    }
}

/// Appends the present pages of `entries`, which start at page number `first`.
fn append_runs(entries: &[PagemapEntry], first: u64, process: u32, runs: &mut Vec<Run>) {
    let start = runs.len();
    for (page, entry) in (first..).zip(entries) {
        let Some(frame) = entry.frame() else { continue };
        let follows = |run: &&mut Run| {
            let pages = u64::from(run.pages);
            pages < RUN_PAGES && run.frame + pages == frame && run.page + pages == page
        };
        match runs[start..].last_mut().filter(follows) {
            Some(run) => run.pages += 1,
            None => runs.push(Run { frame, page, pages: 1, process }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// All mappings of all frames are found, and nothing else.
        #[test]
        fn frames_are_found_through_all_their_mappings(
            tables in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, 1u64..2000), 0..1500), 1..4),
            runs_of_frames in any::<bool>(),
        ) {
            let mut map = ReverseMap::default();
            let mut expected: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
            for (process, table) in (0u32..).zip(&tables) {
                let frame_of = |(page, drawn): (u64, &Option<u64>)| {
                    drawn.map(|drawn| if runs_of_frames { page + 7 } else { drawn })
                };
                let frames: Vec<Option<u64>> = (0u64..).zip(table).map(frame_of).collect();
                let entries: Vec<PagemapEntry> =
                    frames.iter().map(|frame| PagemapEntry::of_frame(frame.unwrap_or(0))).collect();
                append_runs(&entries, 100, process, &mut map.runs);
                for (page, frame) in (100u64..).zip(frames) {
                    frame.into_iter().for_each(|frame| expected.entry(frame).or_default().push((process, page)));
                }
            }
            map.runs.sort_unstable();
            if runs_of_frames {
                let nr_mappings: usize = expected.values().map(Vec::len).sum();
                let are_short = map.runs.iter().all(|run| u64::from(run.pages) <= RUN_PAGES);
                prop_assert!(map.runs.len() <= nr_mappings && are_short);
            }
            for frame in 0..2010 {
                let mut found: Vec<_> = map.mappers(frame).collect();
                found.sort_unstable();
                let mut wanted = expected.remove(&frame).unwrap_or_default();
                wanted.sort_unstable();
                prop_assert_eq!(found, wanted, "frame {}", frame);
            }
        }
    }

    /// On this machine, without any rights: at least our own process is seen, with or without frame numbers.
    #[test]
    fn a_real_machine_is_read_or_refused_in_words() {
        match ReverseMap::read(&Root::default()) {
            Ok(map) => assert!(!map.runs.is_empty() && !map.processes.is_empty()),
            Err(error) => assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}"),
        }
    }
}
