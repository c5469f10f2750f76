//! Kind `phases`: workloads one after the other.

use std::sync::{Arc, Mutex, PoisonError};

use isotherm_units::Instant;
use isotherm_units::access::{
    After, Backing, Batch, LayoutChange, Mapping, Program, Stream, StreamError, ThreadStart, Timing,
};
use serde::{Deserialize, Serialize};

use crate::spec::Kind;
use crate::{BuildContext, WorkloadError, WorkloadSpec};

/// Programs that run one after the other: each begins when all threads of the one before have ended and its memory is
/// freed. Files of equal names stay in the page cache from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PhasesSpec {
    /// The workloads in order, each a table as at the top level. Phases, at least one; no default.
    pub phases: Vec<WorkloadSpec>,
}

impl Kind for PhasesSpec {
    const NAME: &'static str = "phases";
    const SUMMARY: &'static str = "several workloads one after the other";
    const EXAMPLE: &'static str = "kind = \"phases\"\n\n[[phases]]\nkind = \"scan\"\nfootprint = \"256MiB\"\n\n\
                                   [[phases]]\nkind = \"idle\"\nduration = \"5s\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        if self.phases.is_empty() {
            return Err(WorkloadError::field(Self::NAME, "phases", "empty", "one workload or more"));
        }
        let programs = self.phases.iter().enumerate().map(|(index, phase)| {
            // The future of the whole is built from the whole.
            let context = context.clone().with_future(false).with_seed(context.seed.wrapping_add(index as u64));
            phase.build(&context)
        });
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        if programs.windows(2).any(|pair| pair[0].timing != pair[1].timing) {
            return Err(WorkloadError::contradiction(
                Self::NAME,
                "recordings and generators are mixed, whose time is known in different ways",
                "make them workloads of their own in the scenario, with events that start them",
            ));
        }
        Ok(one_after_the_other(context.name_or(Self::NAME), programs))
    }

    fn depends_on_time(&self) -> Option<String> {
        self.phases.iter().find_map(WorkloadSpec::depends_on_time)
    }
}

/// Joins `programs` into one that plays them in order. The futures of the programs are dropped.
pub(crate) fn one_after_the_other(name: String, programs: Vec<Program>) -> Program {
    let mut joined = Program {
        name,
        files: Vec::new(),
        processes: Vec::new(),
        threads: Vec::new(),
        timing: programs.first().map_or(Timing::Modelled, |program| program.timing),
        future: None,
    };
    // Threads that each phase starts, as indices in the whole.
    let mut first_threads: Vec<Vec<usize>> = vec![Vec::new(); programs.len() + 1];
    let mut thread_base = 0;
    for (phase, program) in programs.iter().enumerate() {
        let with_program = program.threads.iter().enumerate().filter(|(_, t)| t.start == ThreadStart::WithProgram);
        first_threads[phase] = with_program.map(|(index, _)| thread_base + index).collect();
        thread_base += program.threads.len();
    }
    for (phase, mut program) in programs.into_iter().enumerate() {
        let alive = Arc::new(Mutex::new(first_threads[phase].len()));
        let base = Base { file: joined.files.len(), process: joined.processes.len(), thread: joined.threads.len() };
        joined.files.append(&mut program.files);
        for mut process in program.processes {
            process.forked_from = process.forked_from.map(|parent| parent + base.process);
            process.layout.iter_mut().for_each(|mapping| *mapping = base.mapping(*mapping));
            joined.processes.push(process);
        }
        for mut thread in program.threads {
            thread.process += base.process;
            if phase > 0 {
                thread.start = ThreadStart::ByThread;
            }
            thread.stream = Box::new(PhaseStream {
                inner: thread.stream,
                base,
                alive: Arc::clone(&alive),
                next_phase: first_threads[phase + 1].clone(),
                is_done: false,
            });
            joined.threads.push(thread);
        }
    }
    joined
}

/// Where a phase's indices begin in the whole.
#[derive(Clone, Copy, Debug)]
struct Base {
    file: usize,
    process: usize,
    thread: usize,
}

impl Base {
    fn mapping(self, mut mapping: Mapping) -> Mapping {
        if let Backing::File { file, .. } = &mut mapping.backing {
            *file += self.file;
        }
        mapping
    }
}

struct PhaseStream {
    inner: Box<dyn Stream>,
    base: Base,
    /// Threads of this phase that have started and not ended.
    alive: Arc<Mutex<usize>>,
    /// Threads to start by the thread that ends last.
    next_phase: Vec<usize>,
    is_done: bool,
}

impl Stream for PhaseStream {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.is_done {
            return Ok(self.next_phase.pop().map_or(After::Finish, After::Start));
        }
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match self.inner.next_batch(now, batch)? {
            After::Start(thread) => {
                *alive += 1;
                After::Start(thread + self.base.thread)
            }
            After::Change(LayoutChange::Map(mapping)) => After::Change(LayoutChange::Map(self.base.mapping(mapping))),
            After::Finish => {
                *alive -= 1;
                self.is_done = true;
                if *alive > 0 {
                    self.next_phase.clear();
                }
                self.next_phase.reverse();
                After::Continue
            }
            after => after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::testing::drain_spec;
    use crate::{HotColdSpec, IdleSpec, ScanSpec};
    use isotherm_units::Bytes;

    fn scan(pages: u64) -> WorkloadSpec {
        WorkloadSpec::Scan(ScanSpec { footprint: Bytes::new(pages * 4096), ..ScanSpec::default() })
    }

    #[test]
    fn phases_follow_each_other_in_processes_of_their_own() {
        let threads =
            HotColdSpec { threads: 3, operations: Some(5000), footprint: Bytes::from_mib(1), ..HotColdSpec::default() };
        let phases = vec![scan(3), WorkloadSpec::HotCold(threads), WorkloadSpec::Idle(IdleSpec::default()), scan(7)];
        let played = drain_spec(&WorkloadSpec::Phases(PhasesSpec { phases }));
        let mut order = played.processes.clone();
        order.dedup();
        assert_eq!(order, [0, 1, 3], "the idle phase touches nothing");
        assert_eq!(played.operations, 1 + 5000 + 1);
        assert_eq!(played.runs.last().unwrap().pages, 7);
        let starts = played.afters.iter().filter(|after| matches!(after, After::Start(_))).count();
        assert_eq!(starts, 3 + 1 + 1);
    }

    #[test]
    fn files_keep_their_indices() {
        let file = ScanSpec { footprint: Bytes::new(4096), storage: crate::Storage::File, ..ScanSpec::default() };
        let named = |name: &str| WorkloadSpec::Scan(ScanSpec { file: Some(name.into()), ..file.clone() });
        let spec = WorkloadSpec::Phases(PhasesSpec { phases: vec![named("a"), named("b")] });
        let program = spec.build(&BuildContext::new(".")).unwrap();
        let backing = |process: usize| program.processes[process].layout[0].backing;
        assert!(matches!(backing(1), Backing::File { file: 1, .. }) && program.files[1].name == "b");
    }

    #[test]
    fn no_phases_is_an_error() {
        let error = WorkloadSpec::Phases(PhasesSpec::default()).build(&BuildContext::new(".")).err().unwrap();
        assert_eq!(error.to_string(), "phases: `phases` is empty; allowed: one workload or more");
    }
}
