//! Layout changes of a process with several threads.
//!
//! Replayed threads do not interleave as the recorded ones did: one may reach rows that lie after a change which another
//! thread, still behind, made. A new mapping is therefore made by whoever needs it first; a mapping is taken away by
//! whoever is last to pass that point; and a thread waits where a place is to be used again while others still need what
//! was there before. The thread furthest behind never waits, so all get on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use isotherm_units::PageRange;
use isotherm_units::access::{LayoutChange, ThreadStart};

use super::script::ThreadOutline;

/// A change of a process's layout, in the order of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedChange {
    pub(super) change: LayoutChange,
    /// Whether pages that were mapped before it are gone after it.
    pub(super) is_destructive: bool,
}

impl PlannedChange {
    fn range(&self) -> PageRange {
        match self.change {
            LayoutChange::Map(mapping) => mapping.pages,
            LayoutChange::Unmap(range) | LayoutChange::Advise(range, _) => range,
        }
    }
}

/// What a thread that wants to go on must do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Make this change, then ask again.
    Apply(LayoutChange),
    /// Wait for other threads, then ask again.
    Wait,
    /// Nothing.
    GoOn,
}

/// Where all threads of a program stand. Shared by its streams.
#[derive(Debug)]
pub(super) struct Timeline {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    processes: Vec<Changes>,
    threads: Vec<Progress>,
}

#[derive(Debug, Default)]
struct Changes {
    planned: Vec<PlannedChange>,
    is_made: Vec<bool>,
    first_open: usize,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    process: usize,
    /// Changes it has passed; `None` while it has not started or after it ended.
    passed: Option<usize>,
}

impl Timeline {
    pub(super) fn new(changes: Vec<Vec<PlannedChange>>, threads: &[ThreadOutline]) -> Self {
        let of_process =
            |planned: Vec<PlannedChange>| Changes { is_made: vec![false; planned.len()], planned, first_open: 0 };
        let of_thread = |thread: &ThreadOutline| Progress {
            process: thread.process,
            passed: (thread.start == ThreadStart::WithProgram).then_some(0),
        };
        let processes = changes.into_iter().map(of_process).collect();
        Self { state: Mutex::new(State { processes, threads: threads.iter().map(of_thread).collect() }) }
    }

    /// A change found while decoding.
    pub(super) fn add(&self, process: usize, change: PlannedChange) {
        let changes = &mut self.lock().processes[process];
        changes.planned.push(change);
        changes.is_made.push(false);
    }

    /// `thread` starts `started`.
    pub(super) fn start(&self, thread: usize, started: usize) {
        let mut state = self.lock();
        let is_same_process = state.threads[thread].process == state.threads[started].process;
        let passed = if is_same_process { state.threads[thread].passed } else { Some(0) };
        state.threads[started].passed = Some(passed.unwrap_or(0));
    }

    /// `thread` touches nothing more that lies before change number `upto`.
    pub(super) fn announce(&self, thread: usize, upto: usize) {
        let passed = &mut self.lock().threads[thread].passed;
        *passed = Some(passed.map_or(upto, |passed| passed.max(upto)));
    }

    /// `thread` wants to go on to what lies after the first `upto` changes.
    pub(super) fn sync(&self, thread: usize, upto: usize) -> Next {
        self.announce(thread, upto);
        let mut state = self.lock();
        let process = state.threads[thread].process;
        state.next(process, upto)
    }

    /// `thread` ends: what it was the last to need can go.
    pub(super) fn finish(&self, thread: usize) -> Next {
        let mut state = self.lock();
        let process = state.threads[thread].process;
        state.threads[thread].passed = None;
        match state.next(process, 0) {
            Next::Wait => Next::GoOn,
            next => next,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self, process: usize, upto: usize) -> Next {
        let alive = self.threads.iter().filter(|thread| thread.process == process).filter_map(|thread| thread.passed);
        let Some(all_passed) = alive.min() else { return Next::GoOn };
        let changes = &mut self.processes[process];
        while changes.is_made.get(changes.first_open) == Some(&true) {
            changes.first_open += 1;
        }
        for index in changes.first_open..changes.planned.len().min(upto.max(all_passed)) {
            if changes.is_made[index] {
                continue;
            }
            let planned = changes.planned[index];
            if index >= all_passed {
                let is_unmap = matches!(planned.change, LayoutChange::Unmap(_));
                if is_unmap {
                    continue;
                }
                let open = changes.planned[..index].iter().zip(&changes.is_made).skip(changes.first_open);
                let mut open = open.filter(|(_, is_made)| !**is_made);
                if planned.is_destructive || open.any(|(other, _)| other.range().overlaps(planned.range())) {
                    return Next::Wait;
                }
            }
            changes.is_made[index] = true;
            return Next::Apply(planned.change);
        }
        Next::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::access::Mapping;

    fn map(start: u64, end: u64, is_destructive: bool) -> PlannedChange {
        PlannedChange { change: LayoutChange::Map(Mapping::anonymous(PageRange::new(start, end))), is_destructive }
    }
    fn unmap(start: u64, end: u64) -> PlannedChange {
        PlannedChange { change: LayoutChange::Unmap(PageRange::new(start, end)), is_destructive: true }
    }
    fn two_threads(changes: &[PlannedChange]) -> Timeline {
        let thread = ThreadOutline { process: 0, start: ThreadStart::WithProgram };
        Timeline::new(vec![changes.to_vec()], &[thread, thread])
    }

    #[test]
    fn whoever_needs_a_mapping_first_makes_it() {
        let changes = [map(0, 4, false), map(4, 8, false)];
        let timeline = two_threads(&changes);
        assert_eq!(timeline.sync(1, 2), Next::Apply(changes[0].change));
        assert_eq!(timeline.sync(1, 2), Next::Apply(changes[1].change));
        assert_eq!(timeline.sync(1, 2), Next::GoOn);
        assert_eq!(timeline.sync(0, 1), Next::GoOn, "thread 0 made it in the recording and finds it made");
    }

    #[test]
    fn the_last_to_pass_takes_a_mapping_away() {
        let changes = [unmap(0, 4)];
        let timeline = two_threads(&changes);
        assert_eq!(timeline.sync(0, 1), Next::GoOn, "thread 1 is still behind");
        assert_eq!(timeline.sync(1, 1), Next::Apply(changes[0].change));
        let timeline = two_threads(&changes);
        assert_eq!(timeline.sync(0, 1), Next::GoOn);
        assert_eq!(timeline.finish(1), Next::Apply(changes[0].change), "ending passes everything");
        assert_eq!(timeline.finish(0), Next::GoOn);
    }

    #[test]
    fn a_place_is_used_again_only_when_all_have_left_it() {
        let changes = [unmap(0, 4), map(2, 6, false), map(3, 5, true)];
        let timeline = two_threads(&changes);
        assert_eq!(timeline.sync(0, 2), Next::Wait);
        assert_eq!(timeline.sync(1, 0), Next::GoOn, "the one behind never waits");
        timeline.announce(1, 1);
        assert_eq!(timeline.sync(0, 2), Next::Apply(changes[0].change));
        assert_eq!(timeline.sync(0, 2), Next::Apply(changes[1].change));
        assert_eq!(timeline.sync(0, 3), Next::Wait, "it replaces what thread 1 may still use");
        assert_eq!(timeline.sync(1, 3), Next::Apply(changes[2].change));
        assert_eq!(timeline.sync(0, 3), Next::GoOn);
    }
}
