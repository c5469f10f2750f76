//! The accesses of a program in order, without a machine: for differential tests, exporters, and for knowing the future.
//!
//! Threads take turns batch by batch: the one whose own clock is least goes next (the lower index among equals). Clocks count computing,
//! sleeping and, for generators, 100 ns a page; there are no faults. The order of one thread is exact; the interleaving of threads is one
//! plausible way among many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use isotherm_units::access::{After, Batch, Channel, Future, Owner, Program, StreamError, ThreadStart};
use isotherm_units::{Instant, PageRange};

use crate::WorkloadError;
use crate::layout::AddressSpace;

/// Cost of a page on the clock of a generator's thread.
const PAGE_NS: u64 = 100;

/// One step of a program.
#[derive(Debug)]
pub enum Step<'a> {
    /// A thread touches pages.
    Accesses {
        /// Index in [`Program::threads`].
        thread: usize,
        /// Index in [`Program::processes`].
        process: usize,
        /// The touched pages.
        batch: &'a Batch,
    },
    /// An event of a thread; comes after its accesses. [`After::Continue`] is left out.
    After {
        /// Index in [`Program::threads`].
        thread: usize,
        /// Index in [`Program::processes`].
        process: usize,
        after: &'a After,
    },
}

/// One page touched by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageUse {
    /// Index in [`Program::threads`].
    pub thread: usize,
    /// Whose page.
    pub owner: Owner,
    /// Number of the page: virtual if the owner is a process, in the file otherwise.
    pub page: u64,
    /// Whether the page is stored to.
    pub is_write: bool,
    /// Channel of the access.
    pub channel: Channel,
}

/// Plays `program` to its end and calls `each` for every step.
///
/// # Errors
/// When a stream or `each` fails.
pub fn for_each_step(
    mut program: Program,
    mut each: impl FnMut(Step<'_>) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let page_ns = program.timing.page_ns(PAGE_NS);
    let with_program =
        program.threads.iter().enumerate().filter(|(_, thread)| thread.start == ThreadStart::WithProgram);
    let mut turns: BinaryHeap<Reverse<(u64, usize)>> = with_program.map(|(index, _)| Reverse((0, index))).collect();
    let mut batch = Batch::default();
    while let Some(Reverse((mut clock, index))) = turns.pop() {
        let thread = &mut program.threads[index];
        let process = thread.process;
        batch.clear();
        let after = thread.stream.next_batch(Instant::from_ns(clock), &mut batch)?;
        for run in &batch.runs {
            clock += u64::from(run.think_ns) + u64::from(run.pages) * page_ns;
        }
        if !batch.runs.is_empty() || batch.operations > 0 {
            each(Step::Accesses { thread: index, process, batch: &batch })?;
        }
        if after != After::Continue {
            each(Step::After { thread: index, process, after: &after })?;
        }
        match after {
            After::Compute(span) | After::Sleep(span) => clock = clock.saturating_add(span.ns()),
            After::Start(other) => turns.push(Reverse((clock, other))),
            After::Continue | After::Change(_) | After::Kernel(_) | After::Finish => {}
        }
        if after != After::Finish {
            turns.push(Reverse((clock, index)));
        }
    }
    Ok(())
}

/// Plays `program` to its end and calls `each` for every page touched.
///
/// # Errors
/// When a stream or `each` fails.
pub fn for_each_use(
    program: Program,
    mut each: impl FnMut(PageUse) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut spaces = Spaces::of(&program);
    for_each_step(program, |step| match step {
        Step::Accesses { thread, process, batch } => {
            let mut outcome = Ok(());
            for &run in &batch.runs {
                spaces.get(process).for_each_owned(run, |owner, page| {
                    if outcome.is_ok() {
                        let (is_write, channel) = (run.is_write(), run.channel());
                        outcome = each(PageUse { thread, owner, page, is_write, channel });
                    }
                });
            }
            outcome
        }
        Step::After { process, after, .. } => {
            spaces.after(process, after);
            Ok(())
        }
    })
}

/// The address spaces of a program while it is played.
pub(crate) struct Spaces {
    /// `None` until the first thread of the process starts.
    spaces: Vec<Option<AddressSpace>>,
    processes: Vec<isotherm_units::access::Process>,
    process_of_thread: Vec<usize>,
}

impl Spaces {
    pub(crate) fn of(program: &Program) -> Self {
        Self {
            spaces: vec![None; program.processes.len()],
            processes: program.processes.clone(),
            process_of_thread: program.threads.iter().map(|thread| thread.process).collect(),
        }
    }
    /// The address space of a process, brought to life if it is not alive.
    pub(crate) fn get(&mut self, process: usize) -> &mut AddressSpace {
        if self.spaces[process].is_none() {
            let Self { spaces, processes, .. } = &*self;
            let spec = &processes[process];
            let parent = spec.forked_from.and_then(|parent| spaces[parent].as_ref());
            let space = parent.map(|parent| parent.fork(process, &spec.layout));
            self.spaces[process] = Some(space.unwrap_or_else(|| AddressSpace::new(process, &spec.layout)));
        }
        self.spaces[process].as_mut().expect("made above")
    }
    /// Applies the changes that a thread of `process` made.
    pub(crate) fn after(&mut self, process: usize, after: &After) {
        match after {
            After::Change(change) => self.get(process).change(*change),
            After::Start(thread) => {
                // A forked process sees its parent's memory as it is now.
                let child = self.process_of_thread[*thread];
                let parent = self.processes[child].forked_from;
                if let Some(parent) = parent {
                    self.get(parent);
                }
                self.get(child);
            }
            After::Continue | After::Compute(_) | After::Sleep(_) | After::Kernel(_) | After::Finish => {}
        }
    }
}

/// Builds the future of the program that `build` makes (the same each time).
pub(crate) fn future_of(
    kind: &'static str,
    build: impl Fn() -> Result<Program, WorkloadError>,
) -> Result<Future, WorkloadError> {
    let mut touched = Touched::default();
    let stream_error = |source| WorkloadError::Stream { kind, source };
    for_each_use(build()?, |used| {
        touched.add(used.owner, used.page);
        Ok(())
    })
    .map_err(stream_error)?;
    let built = Future::build(touched.ranges(), |each| {
        for_each_use(build()?, |used| {
            each(used.owner, used.page);
            Ok(())
        })
        .map_err(stream_error)
    })?;
    built.map_err(|source| WorkloadError::FutureTooLarge { kind, source })
}

/// 64-page blocks.
const BLOCK_SHIFT: u32 = 6;

/// Pages that are touched at all, so that sparse mappings do not cost memory per mapped page.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// One bit per page, by owner and page / 64.
    blocks: BTreeMap<(Owner, u64), u64>,
    last: Option<((Owner, u64), u64)>,
}

impl Touched {
    #[inline]
    pub(crate) fn add(&mut self, owner: Owner, page: u64) {
        let key = (owner, page >> BLOCK_SHIFT);
        let bit = 1 << (page & ((1 << BLOCK_SHIFT) - 1));
        match &mut self.last {
            Some((last, bits)) if *last == key => *bits |= bit,
            _ => {
                self.flush();
                self.last = Some((key, bit));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((key, bits)) = self.last.take() {
            *self.blocks.entry(key).or_default() |= bits;
        }
    }

    /// Ranges that hold all touched pages. A block with an eighth or more touched is taken whole.
    pub(crate) fn ranges(mut self) -> Vec<(Owner, PageRange)> {
        self.flush();
        let mut ranges: Vec<(Owner, PageRange)> = Vec::new();
        let mut add = |owner, pages: PageRange| match ranges.last_mut() {
            Some((last_owner, last)) if *last_owner == owner && last.end == pages.start => last.end = pages.end,
            _ => ranges.push((owner, pages)),
        };
        for ((owner, block), bits) in self.blocks {
            let start = block << BLOCK_SHIFT;
            if bits.count_ones() >= 8 {
                add(owner, PageRange::at(start, 1 << BLOCK_SHIFT));
                continue;
            }
            let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
            set.for_each(|bit| add(owner, PageRange::at(start + bit, 1)));
        }
        ranges
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Plays programs for the tests of this crate.

    use super::*;
    use crate::{BuildContext, WorkloadSpec};
    use isotherm_units::access::{LayoutChange, Run};

    /// All actions of a program.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(crate) struct Played {
        pub(crate) runs: Vec<Run>,
        /// Process of each run.
        pub(crate) processes: Vec<usize>,
        /// Thread of each run.
        pub(crate) threads: Vec<usize>,
        pub(crate) operations: u64,
        /// Everything but `Continue`.
        pub(crate) afters: Vec<After>,
        /// Think time and `Compute` of each thread.
        pub(crate) compute_ns: BTreeMap<usize, u64>,
    }

    impl Played {
        /// The touches of one thread.
        pub(crate) fn of_thread(&self, thread: usize) -> Vec<Run> {
            let runs = self.runs.iter().zip(&self.threads).filter(|(_, of)| **of == thread);
            runs.map(|(run, _)| *run).collect()
        }
    }

    /// Plays `program` and checks that all touched pages are mapped and, in processes of one thread, no run leaves its
    /// mapping.
    pub(crate) fn drain(program: Program) -> Played {
        let mut played = Played::default();
        let mut layouts: Vec<Option<crate::layout::Layout>> = vec![None; program.processes.len()];
        let processes = program.processes.clone();
        let thread_processes: Vec<usize> = program.threads.iter().map(|thread| thread.process).collect();
        let begin = |layouts: &mut Vec<Option<crate::layout::Layout>>, process: usize| {
            if layouts[process].is_none() {
                let mut layout = processes[process].forked_from.and_then(|p| layouts[p].clone()).unwrap_or_default();
                processes[process].layout.iter().for_each(|&mapping| layout.map(mapping));
                layouts[process] = Some(layout);
            }
        };
        for_each_step(program, |step| {
            match step {
                Step::Accesses { thread, process, batch } => {
                    begin(&mut layouts, process);
                    let is_alone = thread_processes.iter().filter(|of| **of == process).count() == 1;
                    for run in &batch.runs {
                        let mut at = run.page();
                        while at < run.range().end {
                            let mapping = layouts[process].as_ref().unwrap().find(at);
                            let mapping = mapping.unwrap_or_else(|| panic!("{run:?} of {process}: {at} is not mapped"));
                            at = mapping.pages.end;
                            // Another thread may have mapped something over a part of it meanwhile.
                            assert!(!is_alone || run.range().end <= at, "{run:?} crosses the border of {mapping:?}");
                        }
                        assert!(run.pages > 0);
                        *played.compute_ns.entry(thread).or_default() += u64::from(run.think_ns);
                    }
                    played.runs.extend(&batch.runs);
                    played.processes.resize(played.runs.len(), process);
                    played.threads.resize(played.runs.len(), thread);
                    played.operations += batch.operations;
                }
                Step::After { thread, process, after } => {
                    match after {
                        After::Change(change) => {
                            begin(&mut layouts, process);
                            let layout = layouts[process].as_mut().unwrap();
                            match change {
                                LayoutChange::Map(mapping) => layout.map(*mapping),
                                LayoutChange::Unmap(range) => layout.unmap(*range),
                                LayoutChange::Advise(..) | LayoutChange::Pin(_) => {}
                            }
                        }
                        After::Start(other) => begin(&mut layouts, thread_processes[*other]),
                        After::Compute(span) => *played.compute_ns.entry(thread).or_default() += span.ns(),
                        _ => {}
                    }
                    played.afters.push(after.clone());
                }
            }
            Ok(())
        })
        .unwrap();
        played
    }

    /// Builds with seed 1 and plays.
    pub(crate) fn drain_spec(spec: &WorkloadSpec) -> Played {
        drain(spec.build(&BuildContext::new(".").with_seed(1)).unwrap())
    }

    /// FNV-1a over all runs: a golden value of a stream.
    pub(crate) fn hash(runs: &[Run]) -> u64 {
        let words = runs
            .iter()
            .flat_map(|run| [run.page(), u64::from(run.pages), u64::from(run.think_ns), u64::from(run.is_write())]);
        isotherm_units::hash::fnv1a_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildContext, HotColdSpec, WorkloadSpec};
    use isotherm_units::Bytes;
    use proptest::prelude::*;

    #[test]
    fn touched_ranges() {
        let mut touched = Touched::default();
        let owner = Owner::Process(0);
        [5, 6, 200, 6].iter().for_each(|&page| touched.add(owner, page));
        (640..648).for_each(|page| touched.add(owner, page));
        touched.add(Owner::File(0), 6);
        let ranges = [(owner, 5, 7), (owner, 200, 201), (owner, 640, 704), (Owner::File(0), 6, 7)];
        assert_eq!(touched.ranges(), ranges.map(|(owner, start, end)| (owner, PageRange::new(start, end))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_generators_future_lists_the_positions_of_every_page(
            kib in 4u64..300, operations in 1u64..4000, threads in 1usize..4, seed: u64, in_file: bool,
        ) {
            let storage = if in_file { crate::Storage::File } else { crate::Storage::Anonymous };
            let spec = WorkloadSpec::HotCold(HotColdSpec {
                footprint: Bytes::from_kib(kib), operations: Some(operations), threads, storage, ..HotColdSpec::default()
            });
            let context = BuildContext::new(".").with_seed(seed).with_future(true);
            let program = spec.build(&context).unwrap();
            let future = program.future.clone().unwrap();
            let mut naive: BTreeMap<(Owner, u64), Vec<u32>> = BTreeMap::new();
            let mut position = 0;
            for_each_use(program, |used| {
                naive.entry((used.owner, used.page)).or_default().push(position);
                position += 1;
                Ok(())
            }).unwrap();
            prop_assert_eq!(u64::from(position), operations);
            for ((owner, page), positions) in naive {
                let dense = future.dense(owner, page).unwrap();
                prop_assert_eq!(future.uses_of(dense).collect::<Vec<_>>(), positions);
            }
        }
    }
}
