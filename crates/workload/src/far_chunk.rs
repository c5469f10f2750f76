//! Kind `far-chunk`: a space of many mappings, hardly used, whose last one becomes hot.

use isotherm_units::access::{After, Batch, Program, Run, Stream, StreamError};
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::scan::RUN_PAGES;
use crate::spaces::{Spaces, check_huge, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

const BATCH_RUNS: usize = 64;
/// Most mappings: page tables hold as many pieces of 1 GiB.
const AREAS_MAX: u64 = 16_384;

/// The memory that scanners of address spaces find last: far from their present position, in a process that did nothing for a while. A heap
/// with reserved arenas has the same layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct FarChunkSpec {
    /// Bytes mapped in all. Default 1 TiB.
    pub space: Bytes,
    /// Bytes of each mapping. Default 512 MiB.
    pub area: Bytes,
    /// Bytes at the beginning of each mapping that are written once at the start. Default 256 KiB.
    pub populated: Bytes,
    /// Bytes at the end of the last mapping that become hot, and are not touched before. Default 256 MiB.
    pub hot: Bytes,
    /// How long the process sleeps before that. Default 60 s.
    pub hot_after: Duration,
    /// Time from the start of one sweep over the hot bytes to the start of the next; a sweep is an operation. Default 500 ms.
    pub every: Duration,
    /// CPU time spent on each page of a sweep, up to 4.29 s, in addition to the latency of its memory. Default 0.
    pub compute: Duration,
    /// Sweeps in all. Default 400.
    pub operations: u64,
    /// Whether memory uses 2 MiB pages. Default no.
    pub huge: bool,
}

impl Default for FarChunkSpec {
    fn default() -> Self {
        Self {
            space: Bytes::from_gib(1024),
            area: Bytes::from_mib(512),
            populated: Bytes::from_kib(256),
            hot: Bytes::from_mib(256),
            hot_after: Duration::from_secs(60),
            every: Duration::from_ms(500),
            compute: Duration::ZERO,
            operations: 400,
            huge: false,
        }
    }
}

impl Kind for FarChunkSpec {
    const NAME: &'static str = "far-chunk";
    const SUMMARY: &'static str = "a huge space, hardly used, whose far end becomes hot";
    const EXAMPLE: &'static str = "kind = \"far-chunk\"\nspace = \"64GiB\"\narea = \"512MiB\"\npopulated = \"256KiB\"\n\
                                   hot = \"64MiB\"\nhot-after = \"60s\"\nevery = \"500ms\"\noperations = 200\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let space = footprint_pages(Self::NAME, "space", self.space)?;
        let area = footprint_pages(Self::NAME, "area", self.area)?;
        let hot = footprint_pages(Self::NAME, "hot", self.hot)?;
        let populated = self.populated.pages_ceil().get();
        check_huge(Self::NAME, self.huge, Storage::Anonymous)?;
        if area > space || space.div_ceil(area) > AREAS_MAX {
            let allowed = format!("up to the space of {}, which has at most {AREAS_MAX} of them", self.space);
            return Err(WorkloadError::field(Self::NAME, "area", self.area, allowed));
        }
        if populated + hot > area {
            let allowed = format!("with `populated` at most the area of {}", self.area);
            return Err(WorkloadError::field(Self::NAME, "hot", self.hot, allowed));
        }
        if self.operations == 0 {
            return Err(WorkloadError::field(Self::NAME, "operations", 0, "1 or more"));
        }
        let page_ns = think_ns(Self::NAME, "compute", self.compute)?;
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let areas = space / area;
        let starts: Vec<u64> =
            (0..areas).map(|_| spaces.map("area", area, Storage::Anonymous, None, self.huge)).collect();
        let last = starts.last().copied().expect("at least one area");
        let stream = FarChunk {
            to_fill: starts.into_iter().rev().map(|start| (start, populated)).collect(),
            hot: (last + area - hot, hot),
            page_ns,
            sleep: Some(self.hot_after),
            every: self.every,
            position: 0,
            began: None,
            sweeps_left: self.operations,
        };
        Ok(spaces.into_program(vec![Box::new(stream)]))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

struct FarChunk {
    /// First page and pages, the next one last.
    to_fill: Vec<(u64, u64)>,
    hot: (u64, u64),
    page_ns: u32,
    /// Still to be slept before the chunk is hot.
    sleep: Option<Duration>,
    every: Duration,
    /// Position of the sweep under way.
    position: u64,
    /// When it began.
    began: Option<Instant>,
    sweeps_left: u64,
}

impl Stream for FarChunk {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        while let Some((start, pages)) = self.to_fill.pop_if(|_| batch.runs.len() < BATCH_RUNS) {
            let taken = pages.min(RUN_PAGES);
            if taken > 0 {
                batch.runs.push(Run::write(start, u32::try_from(taken).expect("at most RUN_PAGES")));
            }
            if pages > taken {
                self.to_fill.push((start + taken, pages - taken));
            }
        }
        if !batch.runs.is_empty() {
            return Ok(After::Continue);
        }
        if let Some(sleep) = self.sleep.take() {
            return Ok(After::Sleep(sleep));
        }
        if self.sweeps_left == 0 {
            return Ok(After::Finish);
        }
        let began = *self.began.get_or_insert(now);
        let (start, pages) = self.hot;
        while batch.runs.len() < BATCH_RUNS && self.position < pages {
            let taken = RUN_PAGES.min(pages - self.position);
            let count = u32::try_from(taken).expect("at most RUN_PAGES");
            batch.runs.push(Run::write(start + self.position, count).after_ns(self.page_ns.saturating_mul(count)));
            self.position += taken;
        }
        if self.position < pages {
            return Ok(After::Continue);
        }
        if !batch.runs.is_empty() {
            batch.operations = 1;
            self.sweeps_left -= 1;
            return Ok(After::Continue);
        }
        (self.position, self.began) = (0, None);
        let left_ns = self.every.ns().saturating_sub(now.since(began).ns());
        Ok(if left_ns > 0 { After::Sleep(Duration::from_ns(left_ns)) } else { After::Continue })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    fn small() -> FarChunkSpec {
        FarChunkSpec {
            space: Bytes::from_mib(16),
            area: Bytes::from_mib(4),
            populated: Bytes::from_kib(8),
            hot: Bytes::from_mib(3),
            operations: 2,
            ..FarChunkSpec::default()
        }
    }

    #[test]
    fn each_area_is_populated_then_the_last_is_swept() {
        let played = drain_spec(&WorkloadSpec::FarChunk(small()));
        assert_eq!(played.operations, 2);
        let (filled, swept) = played.runs.split_at(4);
        assert!(filled.iter().all(|run| run.pages == 2 && run.is_write()), "{filled:?}");
        assert!(filled.is_sorted_by_key(|run| run.page()));
        let hot = filled[3].page() + 1024 - 768;
        let sweep = [Run::write(hot, 512), Run::write(hot + 512, 256)];
        assert_eq!(swept, [sweep, sweep].concat(), "the end of the last area, and none of it before");
        let sleeps = played.afters.iter().filter(|after| matches!(after, After::Sleep(_))).count();
        assert_eq!(sleeps, 2, "before it is hot, and between sweeps");
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |spec: FarChunkSpec| spec.build(&BuildContext::new(".")).err().unwrap().to_string();
        let table = [
            (FarChunkSpec { area: Bytes::from_gib(1), ..small() }, "`area` is 1GiB; allowed: up to the space of 16MiB"),
            (FarChunkSpec { area: Bytes::from_kib(4), space: Bytes::from_gib(1), ..small() }, "at most 16384 of them"),
            (FarChunkSpec { hot: Bytes::from_mib(4), ..small() }, "`hot` is 4MiB; allowed: with `populated` at most"),
            (FarChunkSpec { hot: Bytes::ZERO, ..small() }, "`hot` is 0B"),
            (FarChunkSpec { operations: 0, ..small() }, "`operations` is 0; allowed: 1 or more"),
        ];
        for (spec, expected) in table {
            let message = message(spec);
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }
}
