//! Kind `idle`: memory that is filled once and then left alone.

use isotherm_units::access::{After, Batch, Program, Stream, StreamError};
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::scan::{run, run_pages};
use crate::spaces::{Spaces, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{Access, BuildContext, Storage, WorkloadError};

/// Fills its memory, sleeps, ends: the cold neighbour whose pages a policy should take first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct IdleSpec {
    /// Bytes filled at the start; 0 for none. Default 0.
    pub footprint: Bytes,
    /// How long it sleeps afterwards. Default 10 s.
    pub duration: Duration,
    /// CPU time spent on each page filled, up to 4.29 s, in addition to the latency of its memory. Default 100 ns.
    pub compute: Duration,
}

impl Default for IdleSpec {
    fn default() -> Self {
        Self { footprint: Bytes::ZERO, duration: Duration::from_secs(10), compute: Duration::from_ns(100) }
    }
}

impl Kind for IdleSpec {
    const NAME: &'static str = "idle";
    const SUMMARY: &'static str = "memory filled once, then left alone while the program sleeps";
    const EXAMPLE: &'static str = "kind = \"idle\"\nfootprint = \"512MiB\"\nduration = \"1m\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let page_ns = think_ns(Self::NAME, "compute", self.compute)?;
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let (mut start, mut pages) = (0, 0);
        if self.footprint != Bytes::ZERO {
            pages = footprint_pages(Self::NAME, "footprint", self.footprint)?;
            start = spaces.map("data", pages, Storage::Anonymous, None, false);
        }
        let stream = FillAndSleep { next: start, end: start + pages, page_ns, sleep: Some(self.duration) };
        Ok(spaces.into_program(vec![Box::new(stream)]))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

struct FillAndSleep {
    next: u64,
    end: u64,
    page_ns: u32,
    sleep: Option<Duration>,
}

impl Stream for FillAndSleep {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.next == self.end {
            return Ok(self.sleep.take().map_or(After::Finish, After::Sleep));
        }
        while self.next < self.end && batch.runs.len() < 64 {
            let pages = u32::try_from((self.end - self.next).min(run_pages(self.page_ns))).expect("at most 512");
            batch.runs.push(run(Access::Write, self.next, pages).after_ns(self.page_ns * pages));
            self.next += u64::from(pages);
        }
        Ok(After::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    #[test]
    fn it_fills_then_sleeps() {
        let spec = IdleSpec { footprint: Bytes::from_mib(3), ..IdleSpec::default() };
        let played = drain_spec(&WorkloadSpec::Idle(spec));
        assert_eq!(played.runs.iter().map(|run| u64::from(run.pages)).sum::<u64>(), 768);
        assert!(played.runs.iter().all(|run| run.is_write()));
        assert_eq!(played.afters.last(), Some(&After::Finish));
        assert!(played.afters.contains(&After::Sleep(Duration::from_secs(10))));
    }

    #[test]
    fn without_a_footprint_it_only_sleeps() {
        let played = drain_spec(&WorkloadSpec::Idle(IdleSpec::default()));
        assert_eq!((played.runs.len(), played.afters.len()), (0, 2));
    }
}
