//! Replays that differ only in the limit, played as branches of one: they are the same until the smallest limit is first met.

use isotherm_scenario::ScenarioError;
use isotherm_scenario::single::{Limits, Peaks, Variant, group_path};
use isotherm_sim::machine::{Outcome, Running};
use isotherm_units::{Amount, Instant};
use isotherm_workload::BuildContext;
use rayon::prelude::*;

/// Replays to be played: one scenario with ascending limits.
pub(super) struct Branches<'a> {
    pub(super) variants: Vec<Variant>,
    pub(super) context: &'a BuildContext,
    pub(super) peaks: &'a Peaks,
    /// Whether to begin no further replay.
    pub(super) is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Called with each outcome and the index of its replay.
    pub(super) done: &'a (dyn Fn(usize, Outcome) + Sync),
}

/// Where a replay begins.
enum Start {
    Branch(Box<Running>),
    /// The replay starts by itself: the trunk has grown beyond its limit, from one event to the next.
    Alone,
    /// All replays start by themselves: none branches off this trunk.
    AllAlone,
}

impl Branches<'_> {
    pub(super) fn play(&self) -> Result<(), ScenarioError> {
        let Some(largest) = self.variants.last().filter(|_| !(self.is_stopped)()) else { return Ok(()) };
        self.grow(self.begin(largest)?, 0)
    }

    /// Plays the replays from `at` on. `trunk` is the last of these replays, and so far identical to the others.
    fn grow(&self, mut trunk: Running, at: usize) -> Result<(), ScenarioError> {
        let last = self.variants.len() - 1;
        if at == last {
            return self.finish(trunk, last);
        }
        let (own, others) = match self.start(&mut trunk, &self.variants[at])? {
            Start::Branch(branch) => {
                let play = || if (self.is_stopped)() { Ok(()) } else { self.finish(*branch, at) };
                rayon::join(play, || self.grow(trunk, at + 1))
            }
            Start::Alone => rayon::join(|| self.play_alone(at), || self.grow(trunk, at + 1)),
            Start::AllAlone => rayon::join(
                || self.finish(trunk, last),
                || (at..last).into_par_iter().try_for_each(|at| self.play_alone(at)),
            ),
        };
        own.and(others)
    }

    /// Plays the trunk up to where the limit of `variant` begins to matter.
    fn start(&self, trunk: &mut Running, variant: &Variant) -> Result<Start, ScenarioError> {
        let group = trunk.group(&group_path(&variant.scenario, 0));
        let (Some(group), Some(Amount::Absolute(limit))) = (group, variant.scenario.limit) else {
            return Ok(Start::AllAlone);
        };
        let limit = limit.pages_floor();
        if !trunk.play_below(group, limit).map_err(|source| variant.failed(source))? {
            return Ok(Start::Alone);
        }
        let Some(mut branch) = trunk.fork() else { return Ok(Start::AllAlone) };
        branch.limit(group, limit);
        Ok(Start::Branch(Box::new(branch)))
    }

    fn play_alone(&self, at: usize) -> Result<(), ScenarioError> {
        if (self.is_stopped)() {
            return Ok(());
        }
        self.finish(self.begin(&self.variants[at])?, at)
    }

    fn begin(&self, variant: &Variant) -> Result<Running, ScenarioError> {
        let builder = variant.builder(self.context, Limits::Of(self.peaks))?;
        Ok(builder.build().begin(Instant::START + variant.scenario.until))
    }

    fn finish(&self, running: Running, at: usize) -> Result<(), ScenarioError> {
        let outcome = running.finish().map_err(|source| self.variants[at].failed(source))?;
        (self.done)(at, outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_kernel::counters::Counter;
    use isotherm_kernel::reclaim::POLICIES;
    use isotherm_scenario::{Scenario, WorkloadEntry};
    use isotherm_trace::{EventKind, MapKind, MapRange, TraceMeta, TraceRow, TraceWriter};
    use isotherm_units::{Bytes, Duration};
    use isotherm_workload::replay::TraceStore;
    use isotherm_workload::{TraceSpec, WorkloadSpec};
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    const MS: u64 = 1_000_000;
    const START: u64 = 1 << 20;
    /// New pages in each millisecond.
    const PAGES: u32 = 8;
    const GROWS_MS: u64 = 375;

    /// A program that grows to 3000 pages, drops the last of them and continues with the first ones.
    fn record(path: &Path) {
        let mut writer = TraceWriter::create(path, TraceMeta { epoch_ns: MS, ..TraceMeta::single("grower") }).unwrap();
        let map = MapRange { start: START, end: START + 3000, what: MapKind::Anonymous, ..MapRange::default() };
        writer.event(0, 0, EventKind::Map(map)).unwrap();
        for ms in 0..GROWS_MS + 200 {
            if ms == GROWS_MS + 100 {
                let dropped = EventKind::Unmap { start: START + 2500, end: START + 3000 };
                writer.event(0, ms * MS, dropped).unwrap();
            }
            let page = START + ms * u64::from(PAGES) % if ms < GROWS_MS { 3000 } else { 700 };
            let row = TraceRow { time_ns: ms * MS, thread: 0, page, pages: PAGES, write: true, kernel: false };
            writer.push(row).unwrap();
        }
        writer.set_outcome(Some(0), true).unwrap();
        writer.finish().unwrap();
    }

    fn variants(trace: &Path, policy: &str) -> Vec<Variant> {
        let load = WorkloadSpec::Trace(TraceSpec::new(trace));
        let plain = Scenario {
            policy: policy.to_owned(),
            workloads: vec![WorkloadEntry::new("grower", load)],
            other_tasks: Duration::from_secs(1),
            until: Duration::from_secs(60),
            ..Scenario::named("grower")
        };
        let variant = |pages: u64| {
            let limit = Some(Amount::Absolute(Bytes::new(pages * 4096)));
            Variant { name: format!("{pages}"), scenario: Scenario { limit, ..plain.clone() }, only: Vec::new() }
        };
        [600, 1600, 2200, 2900, 5000].map(variant).into()
    }

    /// Outcomes in the order of the limits, and where each but the last sets out.
    fn played(trace: &Path, policy: &str, context: &BuildContext) -> (Vec<Option<Outcome>>, Vec<&'static str>) {
        let (peaks, outcomes) = (Peaks::new(), Mutex::new(vec![None; 5]));
        let branches = Branches {
            variants: variants(trace, policy),
            context,
            peaks: &peaks,
            is_stopped: &|| false,
            done: &|at, outcome| outcomes.lock().unwrap()[at] = Some(outcome),
        };
        branches.play().unwrap();
        let mut trunk = branches.begin(&branches.variants[4]).unwrap();
        let starts = branches.variants[..4].iter().map(|variant| match branches.start(&mut trunk, variant).unwrap() {
            Start::Branch(_) => "branch",
            Start::Alone => "alone",
            Start::AllAlone => "all alone",
        });
        let starts = starts.collect();
        (outcomes.into_inner().unwrap(), starts)
    }

    fn expected(trace: &Path, policy: &str, context: &BuildContext) -> Vec<Option<Outcome>> {
        let of = |variant: &Variant| Some(variant.play(context, Limits::Of(&Peaks::new()), None).unwrap());
        variants(trace, policy).iter().map(of).collect()
    }

    #[test]
    fn branches_end_as_replays_from_the_beginning_do_under_every_policy() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("grower.parquet");
        record(&trace);
        let context = BuildContext::new("").with_seed(7);
        for policy in POLICIES.iter().map(|entry| entry.name) {
            let (outcomes, starts) = played(&trace, policy, &context);
            assert_eq!(starts, ["alone", "branch", "branch", "branch"], "{policy}: 600 pages are met at once");
            assert_eq!(outcomes, expected(&trace, policy, &context), "{policy}");
            let swapped = |at: usize| outcomes[at].as_ref().unwrap().system().counters.get(Counter::PswpOut);
            assert!(swapped(0) > swapped(2) && swapped(2) > 0 && swapped(4) == 0, "{policy}");
        }
    }

    #[test]
    fn recordings_that_are_decoded_while_they_are_played_have_no_branches() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("grower.parquet");
        record(&trace);
        let traces = Arc::new(TraceStore::holding(0, 0));
        let context = BuildContext { traces, ..BuildContext::new("") };
        let (outcomes, starts) = played(&trace, "classic", &context);
        assert_eq!(starts, ["alone", "all alone", "all alone", "all alone"]);
        assert_eq!(outcomes, expected(&trace, "classic", &context));
    }

    #[test]
    fn nothing_is_begun_when_it_was_stopped() {
        let branches = Branches {
            variants: variants(Path::new("not there.parquet"), "classic"),
            context: &BuildContext::new(""),
            peaks: &Peaks::new(),
            is_stopped: &|| true,
            done: &|_, _| panic!("nothing was played"),
        };
        branches.play().unwrap();
    }
}
