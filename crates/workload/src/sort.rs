//! Kind `sort`: external merge sorts of files, as analytics jobs do.

use isotherm_units::access::{After, Batch, Channel, Program, Run, Stream, StreamError};
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::chance::{Random, Rng, below, random};
use crate::hot_cold::check_threads;
use crate::spaces::{Spaces, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

/// Jobs that sort files side by side. Each thread sorts its part of the job's input: it reads as much as its memory holds,
/// sorts that in place, writes it out as a run, and so on; then it merges its runs into the output. Each thread has files of
/// its own, read and written through descriptors; records move in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SortSpec {
    /// Bytes sorted, of all jobs together. Default 256 MiB.
    pub input: Bytes,
    /// Memory of all sort buffers together. Default 64 MiB.
    pub memory: Bytes,
    /// Jobs, each a process. Default 1.
    pub jobs: usize,
    /// Threads of all jobs together, at least one a job, dealt out in turn. Default 4.
    pub threads: usize,
    /// CPU time spent on a page in each pass over it, up to 1 ms, in addition to the latency of its memory; in passes that sort 50 % to 150
    /// % of this time, depending on the data. Default 5 µs.
    pub compute: Duration,
    /// Part of the processor's cache that a thread gets: sorting passes over the buffer until the pieces fit into it. Default 1 MiB.
    pub cache: Bytes,
}

impl Default for SortSpec {
    fn default() -> Self {
        Self {
            input: Bytes::from_mib(256),
            memory: Bytes::from_mib(64),
            jobs: 1,
            threads: 4,
            compute: Duration::from_us(5),
            cache: Bytes::from_mib(1),
        }
    }
}

/// The longest time on a page: a piece of [`PIECE_PAGES`] must fit a run's think time.
const COMPUTE_MAX: Duration = Duration::from_ms(1);

impl Kind for SortSpec {
    const NAME: &'static str = "sort";
    const SUMMARY: &'static str = "external merge sorts of files: buffers in memory, runs and output in the page cache";
    const EXAMPLE: &'static str = "kind = \"sort\"\ninput = \"512MiB\"\nmemory = \"128MiB\"\njobs = 2\nthreads = 8\n\
                                   compute = \"3us\"\ncache = \"1MiB\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        check_threads(kind, self.threads)?;
        if self.jobs == 0 || self.jobs > self.threads {
            return Err(WorkloadError::field(kind, "jobs", self.jobs, format!("1 to the threads, {}", self.threads)));
        }
        let threads = self.threads as u64;
        let shares = |field: &'static str, size: Bytes| {
            let pages = footprint_pages(kind, field, size)?;
            if pages < threads * PIECE_PAGES {
                let least = Bytes::new(threads * PIECE_PAGES * isotherm_units::PAGE_BYTES);
                return Err(WorkloadError::field(
                    kind,
                    field,
                    size,
                    format!("{least} and more, 128KiB for each thread"),
                ));
            }
            Ok(pages / threads)
        };
        let (input, buffer) = (shares("input", self.input)?, shares("memory", self.memory)?);
        let cache = footprint_pages(kind, "cache", self.cache)?;
        if self.compute > COMPUTE_MAX {
            return Err(WorkloadError::field(kind, "compute", self.compute, "0 to 1ms"));
        }
        let page_ns = think_ns(kind, "compute", self.compute)?;
        // A job's process has a buffer for each of its threads.
        let per_job = self.threads.div_ceil(self.jobs) as u64;
        let mut spaces = Spaces::new(context.name_or(kind));
        let buffers = spaces.map("buffers", buffer * per_job, Storage::Anonymous, None, false);
        let streams = (0..self.threads).map(|nth| -> Box<dyn Stream> {
            let mut file = |what| spaces.map(&format!("{what}.{nth}"), input, Storage::File, None, false);
            Box::new(Sort {
                input: file("input"),
                runs: file("runs"),
                output: file("output"),
                buffer_start: buffers + buffer * (nth / self.jobs) as u64,
                input_pages: input,
                buffer_pages: buffer.min(input),
                passes: passes(buffer.min(input), cache),
                page_ns,
                random: random(context.seed, nth),
                stage: Stage::Fill,
                sorted: 0,
                position: 0,
                pass: 0,
                merge: Vec::new(),
            })
        });
        let streams = streams.collect();
        Ok(spaces.into_processes(self.jobs, streams))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

/// How often sorting goes over a buffer: halving it until a piece fits into the cache, and once in the cache.
fn passes(buffer: u64, cache: u64) -> u32 {
    let mut pieces = 1;
    let mut passes = 1;
    while buffer > cache * pieces {
        pieces *= 2;
        passes += 1;
    }
    passes
}

/// Pages read, written or gone over together: 128 KiB, the buffer of a reader.
const PIECE_PAGES: u64 = 32;
const BATCH_PIECES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Reading a part of the input into the buffer.
    Fill,
    /// Going over the buffer.
    Order,
    /// Writing it out as a run.
    Spill,
    /// Taking pieces of runs in the order of their records.
    Merge,
    Done,
}

/// One thread's sort.
struct Sort {
    input: u64,
    runs: u64,
    output: u64,
    buffer_start: u64,
    /// Pages to sort in all.
    input_pages: u64,
    buffer_pages: u64,
    passes: u32,
    page_ns: u32,
    random: Random,
    stage: Stage,
    /// Pages of input in runs already.
    sorted: u64,
    /// Pages of the stage that are done.
    position: u64,
    pass: u32,
    /// The rest of each run, as offsets.
    merge: Vec<std::ops::Range<u64>>,
}

impl Sort {
    /// Pages of the run that is being made.
    fn run_pages(&self) -> u64 {
        self.buffer_pages.min(self.input_pages - self.sorted)
    }

    /// Appends one piece of work, or moves on to the next stage. Returns pages of input read.
    fn piece(&mut self, runs: &mut Vec<Run>) -> u64 {
        let in_file = |page: u64, pages: u32| Run::read(page, pages).through(Channel::FileDescriptor);
        let to_file = |page: u64, pages: u32| Run::write(page, pages).through(Channel::FileDescriptor);
        let pages = PIECE_PAGES.min(self.run_pages().saturating_sub(self.position));
        let short = u32::try_from(pages).expect("a piece");
        let (buffer, offset) = (self.buffer_start + self.position, self.sorted + self.position);
        match self.stage {
            Stage::Fill | Stage::Order | Stage::Spill if pages == 0 => self.next_stage(),
            Stage::Fill => {
                runs.push(in_file(self.input + offset, short));
                runs.push(Run::write(buffer, short).after_ns(self.page_ns * short));
                self.position += pages;
                return pages;
            }
            Stage::Order => {
                // Half to one and a half: where a pivot falls, and how often a branch is mispredicted, is up to the data.
                let mean = u64::from(self.page_ns * short);
                let vary = below(self.random.next_u64(), mean + 1).0;
                let think = u32::try_from(mean / 2 + vary).expect("32 ms and a half more");
                runs.push(Run::write(buffer, short).after_ns(think));
            }
            Stage::Spill => {
                runs.push(Run::read(buffer, short).after_ns(self.page_ns * short));
                runs.push(to_file(self.runs + offset, short));
            }
            Stage::Merge => self.merge_piece(runs),
            Stage::Done => {}
        }
        self.position += pages;
        0
    }

    fn next_stage(&mut self) {
        self.position = 0;
        self.stage = match self.stage {
            Stage::Fill => {
                self.pass = 0;
                Stage::Order
            }
            Stage::Order => {
                self.pass += 1;
                if self.pass < self.passes { Stage::Order } else { Stage::Spill }
            }
            _ => {
                self.merge.push(self.sorted..self.sorted + self.run_pages());
                self.sorted += self.run_pages();
                if self.sorted < self.input_pages { Stage::Fill } else { Stage::Merge }
            }
        };
    }

    /// Random keys: whose piece is empty first is any run that has some left. The buffer holds one piece of each run.
    fn merge_piece(&mut self, runs: &mut Vec<Run>) {
        let Some(last) = self.merge.len().checked_sub(1) else {
            self.stage = Stage::Done;
            return;
        };
        let nth = usize::try_from(below(self.random.next_u64(), last as u64 + 1).0).expect("an index");
        let rest = &mut self.merge[nth];
        let pages = PIECE_PAGES.min(rest.end - rest.start);
        let short = u32::try_from(pages).expect("a piece");
        runs.push(Run::read(self.runs + rest.start, short).through(Channel::FileDescriptor));
        let slot = (rest.start / self.buffer_pages * PIECE_PAGES) % self.buffer_pages;
        let at = slot.min(self.buffer_pages - pages);
        runs.push(Run::write(self.buffer_start + at, short).after_ns(self.page_ns * short));
        runs.push(Run::write(self.output + self.position, short).through(Channel::FileDescriptor));
        self.position += pages;
        rest.start += pages;
        if rest.start == rest.end {
            self.merge.swap_remove(nth);
        }
    }
}

impl Stream for Sort {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        for _ in 0..BATCH_PIECES {
            batch.operations += self.piece(batch.runs.own());
        }
        Ok(if self.stage == Stage::Done { After::Finish } else { After::Continue })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::{Played, drain_spec};

    fn play(spec: SortSpec) -> Played {
        drain_spec(&WorkloadSpec::Sort(spec))
    }

    /// Pages read and stored of buffers, inputs, runs and outputs.
    fn touched(spec: &SortSpec) -> [(u64, u64); 4] {
        let program = WorkloadSpec::Sort(spec.clone()).build(&BuildContext::new(".")).unwrap();
        let areas: Vec<_> = program.processes[0].layout.iter().map(|mapping| mapping.pages).collect();
        let played = play(spec.clone());
        let mut sums = [(0, 0); 4];
        for run in &played.runs {
            let area = match areas.iter().position(|area| area.contains(run.page())).unwrap() {
                0 => 0,
                file => 1 + (file - 1) % 3,
            };
            let sum = if run.is_write() { &mut sums[area].1 } else { &mut sums[area].0 };
            *sum += u64::from(run.pages);
        }
        sums
    }

    #[test]
    fn every_page_is_read_sorted_spilled_merged_and_written_once() {
        // 2048 pages by two threads, 1024 each, with 256 pages of buffer each: four runs each. The cache holds 64 pages:
        // 256 -> 128 -> 64, so three passes.
        let spec = SortSpec {
            input: Bytes::from_mib(8),
            memory: Bytes::from_mib(2),
            threads: 2,
            cache: Bytes::from_kib(256),
            ..SortSpec::default()
        };
        assert_eq!(passes(256, 64), 3);
        let [buffers, input, runs, output] = touched(&spec);
        assert_eq!(input, (2048, 0));
        assert_eq!(runs, (2048, 2048));
        assert_eq!(output, (0, 2048));
        assert_eq!(buffers, (2048, 2048 * (1 + 3 + 1)), "filled, three passes, spilled, merged through");
        assert_eq!(play(spec).operations, 2048);
    }

    #[test]
    fn what_fits_is_one_run_and_threads_have_files_of_their_own() {
        let spec = SortSpec {
            input: Bytes::from_mib(4),
            memory: Bytes::from_mib(64),
            jobs: 2,
            threads: 4,
            ..SortSpec::default()
        };
        let [_, input, runs, _] = touched(&spec);
        assert_eq!((input.0, runs), (1024, (1024, 1024)));
        let played = play(spec);
        let written = played.runs.iter().filter(|run| run.is_write() && run.channel() == Channel::FileDescriptor);
        let mut pages: Vec<u64> = written.flat_map(|run| run.page()..run.range().end).collect();
        let all = pages.len();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!((pages.len(), all), (2048, 2048), "no page of a file is written twice, by whichever job");
        assert!(played.processes.contains(&1));
    }

    #[test]
    fn a_merge_takes_each_run_in_order() {
        let spec =
            SortSpec { input: Bytes::from_mib(4), memory: Bytes::from_mib(1), threads: 1, ..SortSpec::default() };
        let program = WorkloadSpec::Sort(spec.clone()).build(&BuildContext::new(".")).unwrap();
        let runs_area = program.processes[0].layout[2].pages;
        let reads: Vec<u64> = play(spec)
            .runs
            .iter()
            .filter(|run| !run.is_write() && runs_area.contains(run.page()))
            .map(|run| run.page() - runs_area.start)
            .collect();
        for run in 0..4 {
            let own: Vec<u64> = reads.iter().copied().filter(|page| page / 256 == run).collect();
            assert!(own.is_sorted() && own.len() == 8, "{own:?}");
        }
        assert!(!reads.is_sorted(), "runs alternate");
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |spec: SortSpec| spec.build(&BuildContext::new(".")).err().unwrap().to_string();
        let base = SortSpec::default;
        let table = [
            (SortSpec { jobs: 5, ..base() }, "`jobs` is 5; allowed: 1 to the threads, 4"),
            (SortSpec { threads: 0, ..base() }, "`threads` is 0; allowed: 1 to 4096"),
            (SortSpec { memory: Bytes::from_kib(64), ..base() }, "`memory` is 64KiB; allowed: 512KiB and more"),
            (SortSpec { input: Bytes::ZERO, ..base() }, "`input` is 0B"),
            (SortSpec { compute: Duration::from_ms(2), ..base() }, "`compute` is 2ms; allowed: 0 to 1ms"),
        ];
        for (spec, expected) in table {
            assert!(message(spec.clone()).contains(expected), "{}", message(spec));
        }
    }
}
