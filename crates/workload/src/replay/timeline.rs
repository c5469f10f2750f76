//! Layout changes of a process with several threads.
//!
//! Replayed threads do not interleave as the recorded ones did: one may reach rows that lie after a change which another thread, still
//! behind, made. So a new mapping is made by the first thread that needs it, and a mapping is taken away when the last thread has passed
//! that point, except where something else has been mapped meanwhile. So all memory is mapped when a thread touches it, and no thread ever
//! waits for another.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use isotherm_units::PageRange;
use isotherm_units::access::{LayoutChange, ThreadStart};

use super::script::ThreadOutline;

/// Positions of all threads of a program. Shared by its streams.
#[derive(Debug)]
pub(super) struct Timeline {
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    processes: Vec<Changes>,
    threads: Vec<Progress>,
}

#[derive(Clone, Debug, Default)]
struct Changes {
    /// Changes in the order of the file.
    planned: Vec<LayoutChange>,
    /// Number of changes that are begun: mappings made, unmappings made or `leaving`.
    nr_begun: usize,
    /// Ranges that are unmapped once all threads have passed that change, by its number.
    leaving: VecDeque<(usize, PageRange)>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    process: usize,
    /// It touches nothing more that lies before this change; `None` while it has not started or after it ended.
    passed: Option<usize>,
}

impl Clone for Timeline {
    fn clone(&self) -> Self {
        Self { state: Mutex::new(self.lock().clone()) }
    }
}

impl Timeline {
    pub(super) fn new(changes: Vec<Vec<LayoutChange>>, threads: &[ThreadOutline]) -> Self {
        let of_process = |planned| Changes { planned, ..Changes::default() };
        let of_thread = |thread: &ThreadOutline| Progress {
            process: thread.process,
            passed: (thread.start == ThreadStart::WithProgram).then_some(0),
        };
        let processes = changes.into_iter().map(of_process).collect();
        Self { state: Mutex::new(State { processes, threads: threads.iter().map(of_thread).collect() }) }
    }

    /// A change found while decoding.
    pub(super) fn add(&self, process: usize, change: LayoutChange) {
        self.lock().processes[process].planned.push(change);
    }

    /// `thread` starts `started`.
    pub(super) fn start(&self, thread: usize, started: usize) {
        let mut state = self.lock();
        let is_same_process = state.threads[thread].process == state.threads[started].process;
        let passed = state.threads[thread].passed.filter(|_| is_same_process);
        state.threads[started].passed = Some(passed.unwrap_or(0));
    }

    /// `thread` needs the mappings made by the first `upto` changes: the next one to make before it can go on.
    pub(super) fn need(&self, thread: usize, upto: usize) -> Option<LayoutChange> {
        let mut state = self.lock();
        let process = state.threads[thread].process;
        state.processes[process].begin(upto).or_else(|| state.take_away(process))
    }

    /// `thread` touches nothing more that lies before the first `upto` changes. Returns an unmapping that waited for it
    /// last.
    pub(super) fn pass(&self, thread: usize, upto: usize) -> Option<LayoutChange> {
        let mut state = self.lock();
        let progress = &mut state.threads[thread];
        progress.passed = Some(progress.passed.map_or(upto, |passed| passed.max(upto)));
        let process = progress.process;
        state.take_away(process)
    }

    /// `thread` ends. Returns an unmapping that waited for it last.
    pub(super) fn finish(&self, thread: usize) -> Option<LayoutChange> {
        let mut state = self.lock();
        state.threads[thread].passed = None;
        let process = state.threads[thread].process;
        state.take_away(process)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next unmapping that all threads of `process` have passed.
    fn take_away(&mut self, process: usize) -> Option<LayoutChange> {
        let changes = &mut self.processes[process];
        let &(first, range) = changes.leaving.front()?;
        let alive = self.threads.iter().filter(|thread| thread.process == process).filter_map(|thread| thread.passed);
        if alive.min()? <= first {
            return None;
        }
        changes.leaving.pop_front();
        Some(LayoutChange::Unmap(range))
    }
}

impl Changes {
    /// The next mapping among the first `upto` changes that is not made yet.
    fn begin(&mut self, upto: usize) -> Option<LayoutChange> {
        while self.nr_begun < upto.min(self.planned.len()) {
            let index = self.nr_begun;
            self.nr_begun += 1;
            match self.planned[index] {
                LayoutChange::Unmap(range) => self.leaving.push_back((index, range)),
                change @ LayoutChange::Map(mapping) => {
                    self.keep(mapping.pages);
                    return Some(change);
                }
                change @ (LayoutChange::Advise(..) | LayoutChange::Pin(_)) => return Some(change),
            }
        }
        None
    }

    /// `range` is mapped again and does not leave.
    fn keep(&mut self, range: PageRange) {
        if self.leaving.iter().all(|(_, leaving)| !leaving.overlaps(range)) {
            return;
        }
        let parts = |(index, leaving): (usize, PageRange)| {
            let below = PageRange::new(leaving.start, leaving.end.min(range.start));
            let above = PageRange::new(leaving.start.max(range.end), leaving.end);
            [(index, below), (index, above)]
        };
        self.leaving = self.leaving.drain(..).flat_map(parts).filter(|(_, part)| !part.is_empty()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::access::Mapping;

    fn map(start: u64, end: u64) -> LayoutChange {
        LayoutChange::Map(Mapping::anonymous(PageRange::new(start, end)))
    }
    fn unmap(start: u64, end: u64) -> LayoutChange {
        LayoutChange::Unmap(PageRange::new(start, end))
    }
    fn two_threads(changes: &[LayoutChange]) -> Timeline {
        let thread = ThreadOutline { process: 0, start: ThreadStart::WithProgram };
        Timeline::new(vec![changes.to_vec()], &[thread, thread])
    }

    #[test]
    fn whoever_needs_a_mapping_first_makes_it() {
        let timeline = two_threads(&[map(0, 4), map(4, 8)]);
        assert_eq!(timeline.need(1, 2), Some(map(0, 4)));
        assert_eq!(timeline.need(1, 2), Some(map(4, 8)));
        assert_eq!(timeline.need(1, 2), None);
        assert_eq!(timeline.need(0, 1), None, "thread 0 made it in the recording and finds it made");
    }

    #[test]
    fn the_last_to_pass_takes_a_mapping_away() {
        let timeline = two_threads(&[unmap(0, 4)]);
        assert_eq!((timeline.need(0, 1), timeline.pass(0, 1)), (None, None), "thread 1 is still behind");
        assert_eq!((timeline.need(1, 1), timeline.pass(1, 1)), (None, Some(unmap(0, 4))));
        assert_eq!(timeline.pass(1, 1), None, "once");
        let timeline = two_threads(&[unmap(0, 4)]);
        assert_eq!((timeline.need(0, 1), timeline.pass(0, 1)), (None, None));
        assert_eq!(timeline.finish(1), Some(unmap(0, 4)), "ending passes everything");
        assert_eq!(timeline.finish(0), None);
    }

    #[test]
    fn what_is_mapped_anew_does_not_leave() {
        let timeline = two_threads(&[unmap(0, 10), map(2, 4), unmap(3, 4), map(9, 20)]);
        assert_eq!(timeline.need(0, 4), Some(map(2, 4)));
        assert_eq!(timeline.need(0, 4), Some(map(9, 20)));
        assert_eq!((timeline.need(0, 4), timeline.pass(0, 4)), (None, None));
        assert_eq!(timeline.pass(1, 1), Some(unmap(0, 2)));
        assert_eq!(timeline.pass(1, 1), Some(unmap(4, 9)));
        assert_eq!(timeline.pass(1, 1), None);
        assert_eq!(timeline.pass(1, 4), Some(unmap(3, 4)));
    }

    #[test]
    fn a_started_thread_stands_where_its_starter_stands() {
        let outlines =
            [ThreadStart::WithProgram, ThreadStart::ByThread].map(|start| ThreadOutline { process: 0, start });
        let timeline = Timeline::new(vec![vec![unmap(0, 4), unmap(4, 8)]], &outlines);
        assert_eq!((timeline.need(0, 1), timeline.pass(0, 1)), (None, Some(unmap(0, 4))));
        timeline.start(0, 1);
        assert_eq!((timeline.need(0, 2), timeline.pass(0, 2)), (None, None));
        assert_eq!(timeline.pass(1, 2), Some(unmap(4, 8)));
    }
}
