//! Kind `thpscale`: mmtests' program of that name: punches a hole into every 2 MiB of its memory, lets a file fill them, and
//! faults in new memory by huge pages (docs/spec/compaction.md#s9-3).

use isotherm_units::access::{After, Batch, LayoutChange, Program, Stream, StreamError, Thread, ThreadStart};
use isotherm_units::{Bytes, Duration, Instant, PageRange};
use serde::{Deserialize, Serialize};

use crate::hot_cold::check_threads;
use crate::scan::{run, run_pages};
use crate::spaces::{Spaces, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{Access, BuildContext, Storage, WorkloadError};

/// Pages of 2 MiB, and of the hole in it.
const SECTION_PAGES: u64 = 512;
const HOLE_PAGES: u64 = 256;

/// Each thread: memory is written, the first MiB of every 2 MiB given back, a file of half that size read through a mapping,
/// and then half as much memory as at first written that may be huge: an operation for each 2 MiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ThpscaleSpec {
    /// Bytes that all threads fill at first. Default 1 GiB.
    pub footprint: Bytes,
    /// Threads, each with its share. Default 1.
    pub threads: usize,
    /// CPU time spent on each page, up to 4.29 s, in addition to the latency of its memory. Default 100 ns.
    pub compute: Duration,
}

impl Default for ThpscaleSpec {
    fn default() -> Self {
        Self { footprint: Bytes::from_gib(1), threads: 1, compute: Duration::from_ns(100) }
    }
}

impl Kind for ThpscaleSpec {
    const NAME: &'static str = "thpscale";
    const SUMMARY: &'static str =
        "mmtests' thpscale: memory full of holes, a file in them, then huge pages are faulted in";
    const EXAMPLE: &'static str = "kind = \"thpscale\"\nfootprint = \"2GiB\"\nthreads = 4\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        check_threads(kind, self.threads)?;
        let page_ns = think_ns(kind, "compute", self.compute)?;
        let share = footprint_pages(kind, "footprint", self.footprint)? / self.threads as u64 / SECTION_PAGES;
        if share < 2 {
            let least = Bytes::from_mib(4 * self.threads as u64);
            return Err(WorkloadError::field(kind, "footprint", self.footprint, format!("4MiB a thread: {least}")));
        }
        let mut spaces = Spaces::new(context.name_or(kind));
        let mut threads = Vec::new();
        for index in 0..self.threads {
            let pages = share * SECTION_PAGES;
            let first = spaces.map(&format!("first-{index}"), pages, Storage::Anonymous, None, false);
            let file = spaces.map(&format!("file-{index}"), pages / 4, Storage::MappedFile, None, false);
            let second = spaces.map(&format!("second-{index}"), pages / 2, Storage::Anonymous, None, true);
            let steps = [
                Operation::Touch(PageRange::at(first, pages), Access::Write, false),
                Operation::Holes(PageRange::at(first, pages)),
                Operation::Touch(PageRange::at(file, pages / 4), Access::Read, false),
                Operation::Touch(PageRange::at(second, pages / 2), Access::Write, true),
            ];
            threads.push(Work { steps: steps.to_vec(), at: 0, page_ns });
        }
        let mut program = spaces.into_program(Vec::new());
        program.threads = threads
            .into_iter()
            .map(|work| Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(work) })
            .collect();
        Ok(program)
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// A touch of a range, with operations of 2 MiB or without.
    Touch(PageRange, Access, bool),
    Holes(PageRange),
}

struct Work {
    /// Remaining operations; the present one is the first.
    steps: Vec<Operation>,
    /// Number of its pages that are done.
    at: u64,
    page_ns: u32,
}

impl Stream for Work {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        loop {
            let Some(&step) = self.steps.first() else { return Ok(After::Finish) };
            let (Operation::Touch(pages, ..) | Operation::Holes(pages)) = step;
            if self.at >= pages.len() {
                self.steps.remove(0);
                self.at = 0;
                continue;
            }
            let next = pages.start + self.at;
            match step {
                Operation::Holes(_) => {
                    self.at += SECTION_PAGES;
                    return Ok(After::Change(LayoutChange::Unmap(PageRange::at(next, HOLE_PAGES))));
                }
                Operation::Touch(_, access, counts) => {
                    // The first touch of each 2 MiB, and then its other pages.
                    let end = (self.at + SECTION_PAGES).min(pages.len());
                    while self.at < end {
                        let some = u32::try_from((end - self.at).min(run_pages(self.page_ns))).expect("at most 512");
                        batch.runs.push(run(access, pages.start + self.at, some).after_ns(self.page_ns * some));
                        self.at += u64::from(some);
                    }
                    batch.operations = u64::from(counts);
                    return Ok(After::Continue);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    #[test]
    fn holes_then_a_file_then_huge_memory() {
        let spec = ThpscaleSpec { footprint: Bytes::from_mib(16), threads: 2, ..ThpscaleSpec::default() };
        let program = WorkloadSpec::Thpscale(spec.clone()).build(&BuildContext::new(".")).unwrap();
        let huge: Vec<u64> =
            program.processes[0].layout.iter().filter(|map| map.huge).map(|map| map.pages.len()).collect();
        assert_eq!((huge, program.threads.len()), (vec![1024, 1024], 2));
        let played = drain_spec(&WorkloadSpec::Thpscale(spec));
        let holes: Vec<u64> = played
            .afters
            .iter()
            .filter_map(|after| match after {
                After::Change(LayoutChange::Unmap(range)) => Some(range.len()),
                _ => None,
            })
            .collect();
        assert_eq!(holes, [256; 8], "one in each 2 MiB");
        let written: u64 = played.runs.iter().filter(|run| run.is_write()).map(|run| u64::from(run.pages)).sum();
        let read: u64 = played.runs.iter().filter(|run| !run.is_write()).map(|run| u64::from(run.pages)).sum();
        assert_eq!((written, read), (4096 + 2048, 1024));
    }

    #[test]
    fn too_little_for_its_threads_is_refused() {
        let spec = ThpscaleSpec { footprint: Bytes::from_mib(8), threads: 4, ..ThpscaleSpec::default() };
        let said = WorkloadSpec::Thpscale(spec).build(&BuildContext::new(".")).map(|_| ()).unwrap_err().to_string();
        assert_eq!(said, "thpscale: `footprint` is 8MiB; allowed: 4MiB a thread: 16MiB");
    }
}
