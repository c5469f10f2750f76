//! Kind `huge-pages`: a driver that takes huge pages, one after the other, until there are no more: the original series of
//! proactive compaction measures latencies this way.

use isotherm_units::access::{
    After, Batch, BlockEffort, BlockKind, BlockRequest, KernelCall, Program, Stream, StreamError,
};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::chance::{Rng, below, random};
use crate::spaces::Spaces;
use crate::spec::Kind;
use crate::{BuildContext, WorkloadError};

/// How hard the driver tries for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Takes free huge pages only.
    Light,
    /// Takes free huge pages, and if there are none tries again with reclaim and compaction.
    #[default]
    Fallback,
}

/// Takes huge pages and keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct HugePagesSpec {
    /// log2 of the pages of each, 1 to 10. Default 9: 2 MiB.
    pub order: u32,
    /// How hard it tries. Default `fallback`.
    pub effort: Effort,
    /// It begins after a time drawn at random up to this, so that it meets daemons at any point of their round. Default 0.
    pub delay: Duration,
    /// How many it takes; without a number as many as there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// It stops when this number of huge pages could not be allocated, each after the effort of `effort`. Default 1.
    pub failures: u64,
    /// This number is taken at once, then it pauses; without a number there is no pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Pause between bursts. Default 100 ms.
    pub pause: Duration,
    /// How long it keeps them after the last. Default 0.
    pub keep: Duration,
    /// Whether it gives the pages back then. Default no.
    pub gives_back: bool,
}

impl Default for HugePagesSpec {
    fn default() -> Self {
        Self {
            order: 9,
            effort: Effort::Fallback,
            delay: Duration::ZERO,
            count: None,
            failures: 1,
            burst: None,
            pause: Duration::from_ms(100),
            keep: Duration::ZERO,
            gives_back: false,
        }
    }
}

impl Kind for HugePagesSpec {
    const NAME: &'static str = "huge-pages";
    const SUMMARY: &'static str = "a driver that takes huge pages until there are no more, each timed";
    const EXAMPLE: &'static str = "kind = \"huge-pages\"\norder = 9\neffort = \"fallback\"\ndelay = \"5s\"\n\
                                   failures = 100\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        if !(1..=10).contains(&self.order) {
            return Err(WorkloadError::field(kind, "order", self.order, "1 to 10"));
        }
        for (field, value) in [("count", self.count), ("failures", Some(self.failures)), ("burst", self.burst)] {
            if value == Some(0) {
                return Err(WorkloadError::field(kind, field, 0, "1 or more"));
            }
        }
        if self.burst.is_some() && self.count.is_none() {
            let problem = "it takes bursts without end: a burst that fails does not end it";
            return Err(WorkloadError::contradiction(kind, problem, "set `count`"));
        }
        let request = BlockRequest {
            tag: 0,
            order: self.order,
            kind: BlockKind::Movable,
            effort: match self.effort {
                Effort::Light => BlockEffort::Light,
                Effort::Fallback => BlockEffort::LightThenFallback,
            },
            count: self.count.unwrap_or(u64::MAX),
            failures: self.failures,
        };
        let spaces = Spaces::new(context.name_or(kind));
        let delay = Duration::from_ns(below(random(context.seed, 0).next_u64(), self.delay.ns()).0);
        let stream = Driver { spec: self.clone(), request, left: request.count, delay, pauses: false, is_kept: false };
        Ok(spaces.into_program(vec![Box::new(stream)]))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

struct Driver {
    spec: HugePagesSpec,
    request: BlockRequest,
    left: u64,
    /// Before the first.
    delay: Duration,
    /// A burst is over.
    pauses: bool,
    is_kept: bool,
}

impl Stream for Driver {
    fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
        let delay = std::mem::take(&mut self.delay);
        if delay > Duration::ZERO {
            return Ok(After::Sleep(delay));
        }
        if std::mem::take(&mut self.pauses) && self.left > 0 {
            return Ok(After::Sleep(self.spec.pause));
        }
        if self.left > 0 {
            let count = self.spec.burst.unwrap_or(u64::MAX).min(self.left);
            self.left -= count;
            self.pauses = true;
            return Ok(After::Kernel(KernelCall::Take(BlockRequest { count, ..self.request })));
        }
        if !std::mem::replace(&mut self.is_kept, true) && self.spec.keep > Duration::ZERO {
            return Ok(After::Sleep(self.spec.keep));
        }
        if std::mem::take(&mut self.spec.gives_back) {
            return Ok(After::Kernel(KernelCall::Give { tag: 0, count: u64::MAX }));
        }
        Ok(After::Finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    fn afters(spec: HugePagesSpec) -> Vec<After> {
        drain_spec(&WorkloadSpec::HugePages(spec)).afters
    }

    #[test]
    fn all_there_are_or_in_bursts() {
        let all = afters(HugePagesSpec::default());
        let [After::Kernel(KernelCall::Take(request)), After::Finish] = all[..] else { panic!("{all:?}") };
        assert_eq!((request.order, request.count, request.failures), (9, u64::MAX, 1));
        assert_eq!(request.effort, BlockEffort::LightThenFallback);
        let spec = HugePagesSpec {
            count: Some(25),
            burst: Some(10),
            keep: Duration::from_secs(1),
            gives_back: true,
            effort: Effort::Light,
            ..HugePagesSpec::default()
        };
        let counts: Vec<u64> = afters(spec.clone())
            .iter()
            .filter_map(|after| match after {
                After::Kernel(KernelCall::Take(request)) => Some(request.count),
                _ => None,
            })
            .collect();
        assert_eq!(counts, [10, 10, 5]);
        let sleeps = afters(spec.clone()).iter().filter(|after| matches!(after, After::Sleep(_))).count();
        assert_eq!(sleeps, 3, "two pauses, and the time it keeps them");
        assert!(afters(spec).contains(&After::Kernel(KernelCall::Give { tag: 0, count: u64::MAX })));
    }

    #[test]
    fn it_begins_at_a_time_that_the_seed_draws() {
        let spec = HugePagesSpec { delay: Duration::from_secs(5), ..HugePagesSpec::default() };
        let delay = |seed| {
            let context = BuildContext::new(".").with_seed(seed);
            let mut program = WorkloadSpec::HugePages(spec.clone()).build(&context).unwrap();
            match program.threads[0].stream.next_batch(Instant::START, &mut Batch::default()).unwrap() {
                After::Sleep(delay) => delay,
                other => panic!("{other:?}"),
            }
        };
        let delays: Vec<Duration> = (0..8).map(delay).collect();
        assert!(delays.iter().all(|&delay| delay < spec.delay) && delays[0] != delays[1]);
        assert_eq!(delay(3), delays[3], "the same seed, the same time");
        assert!(matches!(afters(spec)[..], [After::Sleep(_), After::Kernel(_), After::Finish]), "once");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |spec: HugePagesSpec| {
            WorkloadSpec::HugePages(spec).build(&BuildContext::new(".")).map(|_| ()).unwrap_err().to_string()
        };
        let base = HugePagesSpec::default;
        assert_eq!(said(HugePagesSpec { order: 11, ..base() }), "huge-pages: `order` is 11; allowed: 1 to 10");
        assert_eq!(said(HugePagesSpec { order: 0, ..base() }), "huge-pages: `order` is 0; allowed: 1 to 10");
        assert_eq!(said(HugePagesSpec { failures: 0, ..base() }), "huge-pages: `failures` is 0; allowed: 1 or more");
        assert!(said(HugePagesSpec { burst: Some(4), ..base() }).contains("set `count`"));
    }
}
