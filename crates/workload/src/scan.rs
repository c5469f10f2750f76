//! Kind `scan`: sweeps over memory or a file, first page to last, again and again.

use isotherm_units::access::{After, Batch, Program, Run, Stream, StreamError};
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::spaces::{Spaces, check_huge, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{Access, BuildContext, Storage, WorkloadError};

/// Sequential sweeps: the worst case of every policy that trusts recency as soon as the footprint exceeds memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScanSpec {
    /// Bytes swept. Default 1 GiB.
    pub footprint: Bytes,
    /// Distance of two touched bytes; rounded down to pages, at least one. More than a page breaks runs up, which makes
    /// playing some 50 times slower. Default 4 KiB: every page.
    pub stride: Bytes,
    /// How often the whole is swept; a sweep is one operation. Default 1.
    pub repeat: u64,
    /// `read` or `write`. Default `write`.
    pub access: Access,
    /// `anonymous`, `mapped-file` or `file`. Default `anonymous`.
    pub storage: Storage,
    /// Path of the file for file storage. Default: the workload's name with `.data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// CPU time spent on each page touched, up to 4.29 s, in addition to the latency of its memory. Default 100 ns.
    pub compute: Duration,
    /// Whether anonymous memory uses 2 MiB pages. Default no.
    pub huge: bool,
}

impl Default for ScanSpec {
    fn default() -> Self {
        Self {
            footprint: Bytes::from_gib(1),
            stride: Bytes::from_kib(4),
            repeat: 1,
            access: Access::Write,
            storage: Storage::Anonymous,
            file: None,
            compute: Duration::from_ns(100),
            huge: false,
        }
    }
}

impl Kind for ScanSpec {
    const NAME: &'static str = "scan";
    const SUMMARY: &'static str = "sequential sweeps over memory or a file";
    const EXAMPLE: &'static str = "kind = \"scan\"\nfootprint = \"256MiB\"\nrepeat = 4\naccess = \"read\"\n\
                                   storage = \"file\"\ncompute = \"250ns\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let pages = footprint_pages(Self::NAME, "footprint", self.footprint)?;
        check_huge(Self::NAME, self.huge, self.storage)?;
        if self.repeat == 0 {
            return Err(WorkloadError::field(Self::NAME, "repeat", 0, "1 or more"));
        }
        let page_ns = think_ns(Self::NAME, "compute", self.compute)?;
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let start = spaces.map("data", pages, self.storage, self.file.as_deref(), self.huge);
        let stream = Sweep {
            start,
            pages,
            step: self.stride.pages_floor().get().max(1),
            page_ns,
            access: self.access,
            storage: self.storage,
            position: 0,
            sweeps_left: self.repeat,
        };
        Ok(spaces.into_program(vec![Box::new(stream)]))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

/// Longest run: short enough that a machine's events between batches come in time (a tenth of a millisecond or so).
pub(crate) const RUN_PAGES: u64 = 512;
const BATCH_RUNS: usize = 64;

struct Sweep {
    start: u64,
    pages: u64,
    step: u64,
    page_ns: u32,
    access: Access,
    storage: Storage,
    position: u64,
    sweeps_left: u64,
}

impl Stream for Sweep {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        while batch.runs.len() < BATCH_RUNS {
            if self.sweeps_left == 0 {
                return Ok(After::Finish);
            }
            let left = self.pages - self.position;
            let wanted = if self.step == 1 { left.min(run_pages(self.page_ns)) } else { 1 };
            let pages = u32::try_from(wanted).expect("at most RUN_PAGES");
            batch.runs.push(
                run(self.access, self.start + self.position, pages)
                    .through(self.storage.channel())
                    .after_ns(self.page_ns * pages),
            );
            self.position += if self.step == 1 { wanted } else { self.step };
            if self.position >= self.pages {
                self.position = 0;
                self.sweeps_left -= 1;
                batch.operations += 1;
            }
        }
        Ok(After::Continue)
    }
}

/// The longest run whose computing fits a run's think time, at most [`RUN_PAGES`].
pub(crate) fn run_pages(page_ns: u32) -> u64 {
    (u64::from(u32::MAX) / u64::from(page_ns.max(1))).clamp(1, RUN_PAGES)
}

/// A run of `access`.
pub(crate) fn run(access: Access, page: u64, pages: u32) -> Run {
    match access {
        Access::Read => Run::read(page, pages),
        Access::Write => Run::write(page, pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::testing::{drain, drain_spec};
    use isotherm_units::access::Channel;

    #[test]
    fn two_sweeps_of_five_pages() {
        let spec =
            ScanSpec { footprint: Bytes::from_kib(20), repeat: 2, storage: Storage::File, ..ScanSpec::default() };
        let program = spec.build(&BuildContext::new(".").named("w")).unwrap();
        assert_eq!((program.files[0].name.as_str(), program.files[0].pages), ("w.data", 5));
        let start = program.processes[0].layout[0].pages.start;
        let played = drain(program);
        assert_eq!(played.runs, [Run::write(start, 5).after_ns(500).through(Channel::FileDescriptor); 2]);
        assert_eq!(played.operations, 2);
    }

    #[test]
    fn a_stride_skips_pages() {
        let spec = ScanSpec {
            footprint: Bytes::from_kib(20),
            stride: Bytes::from_kib(9),
            access: Access::Read,
            ..ScanSpec::default()
        };
        let runs = drain_spec(&spec.into_spec()).runs;
        let start = runs[0].page();
        let offsets: Vec<(u64, u32, bool)> =
            runs.iter().map(|run| (run.page() - start, run.pages, run.is_write())).collect();
        assert_eq!(offsets, [(0, 1, false), (2, 1, false), (4, 1, false)]);
    }

    #[test]
    fn runs_cover_the_footprint_once_whatever_the_compute_time() {
        for compute in [Duration::ZERO, Duration::from_ms(1), Duration::from_secs(4)] {
            let spec = ScanSpec { footprint: Bytes::from_mib(5), compute, ..ScanSpec::default() };
            let runs = drain_spec(&spec.into_spec()).runs;
            let pages: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
            let think: u64 = runs.iter().map(|run| u64::from(run.think_ns)).sum();
            assert_eq!((pages, think), (1280, 1280 * compute.ns()));
        }
    }

    impl ScanSpec {
        fn into_spec(self) -> crate::WorkloadSpec {
            crate::WorkloadSpec::Scan(self)
        }
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |spec: ScanSpec| spec.build(&BuildContext::new(".")).err().unwrap().to_string();
        let base = ScanSpec::default;
        assert!(message(ScanSpec { footprint: Bytes::ZERO, ..base() }).contains("`footprint` is 0B"));
        assert!(message(ScanSpec { repeat: 0, ..base() }).contains("`repeat` is 0; allowed: 1 or more"));
        assert!(message(ScanSpec { compute: Duration::from_secs(5), ..base() }).contains("`compute` is 5s"));
        assert!(message(ScanSpec { huge: true, storage: Storage::File, ..base() }).contains("drop `huge`"));
    }
}
