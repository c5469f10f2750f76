//! A page script as a program of the simulated machine: the same operations in the same order.
//!
//! Each process is a thread. The script has the order of turns, so that no clock decides. A waiting thread checks again after
//! [`PATIENCE`]. The turn is passed on when all operations of the turn are done, faults and reclaim included.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isotherm_rig::script::{Action, Advice, CONDUCTOR, Script};
use isotherm_units::access::{
    self, After, Backing, Batch, Channel, FileKind, FileSpec, KernelCall, LayoutChange, Mapping, Process, Program, Run,
    Sharing, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Duration, Instant, PageRange};

/// Time after which a waiting thread checks the turn again.
const PATIENCE: Duration = Duration::from_us(20);
/// Idle time after the script's mark: the run is ended before.
pub(crate) const REST: Duration = Duration::from_secs(100_000);
/// Touched pages and other operations of a process after which the guest's statistics are read.
pub(crate) const READ_STATISTICS_EVERY: u32 = 256;
/// Operations of a batch: turns are checked at least this often.
const BATCH: usize = 4096;

/// The script's programs: one for each group, with its number. All must be started at once on one machine.
/// `at` is the index of the next operation, from 0.
pub(crate) fn programs_of(script: &Arc<Script>, at: &Arc<AtomicUsize>, subgroups: &[u16]) -> Vec<(u16, Program)> {
    let processes = processes_of(script);
    let group_of = |process: u16| subgroups.get(usize::from(root_of(process, &processes))).copied().unwrap_or(0);
    let mut members: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for &process in processes.keys() {
        members.entry(group_of(process)).or_default().push(process);
    }
    members.into_iter().map(|(group, members)| (group, program_of(script, at, &members, &processes))).collect()
}

/// Whether a script has reached its first mark, or its end if it has none; otherwise the position reached, and the mark's position.
pub(crate) fn at_mark(script: &Script, at: &AtomicUsize) -> Result<(), (usize, usize)> {
    let mut operations = script.operations.iter();
    let mark = operations.position(|operation| matches!(operation.action, Action::Mark { .. }));
    let (at, mark) = (at.load(Ordering::Relaxed), mark.unwrap_or(script.operations.len()));
    if at >= mark { Ok(()) } else { Err((at, mark)) }
}

/// Processes, each with the one that started it.
fn processes_of(script: &Script) -> BTreeMap<u16, Option<u16>> {
    let starts = script.operations.iter().filter_map(|operation| match operation.action {
        Action::Start { process } => Some((process, (operation.process != CONDUCTOR).then_some(operation.process))),
        _ => None,
    });
    starts.collect()
}

fn root_of(process: u16, processes: &BTreeMap<u16, Option<u16>>) -> u16 {
    std::iter::successors(Some(process), |process| processes.get(process).copied().flatten()).last().unwrap_or(process)
}

fn program_of(
    script: &Arc<Script>,
    at: &Arc<AtomicUsize>,
    members: &[u16],
    processes: &BTreeMap<u16, Option<u16>>,
) -> Program {
    let index_of = |process: u16| members.binary_search(&process).ok();
    let files = script.files.iter().enumerate().map(|(index, file)| FileSpec {
        name: index.to_string(),
        pages: file.pages,
        kind: if file.shared_memory { FileKind::SharedMemory } else { FileKind::Regular },
    });
    let threads = members.iter().enumerate().map(|(index, &process)| Thread {
        process: index,
        start: if processes[&process].is_some() { ThreadStart::ByThread } else { ThreadStart::WithProgram },
        stream: Box::new(Turns {
            script: Arc::clone(script),
            at: Arc::clone(at),
            process,
            members: members.to_vec(),
            next: None,
            touched: 0,
            counted: 0,
            reads_statistics: true,
            mapped: Vec::new(),
        }),
    });
    let processes = members.iter().map(|process| Process {
        name: process.to_string(),
        forked_from: processes[process].and_then(index_of),
        layout: Vec::new(),
    });
    Program {
        name: "script".to_owned(),
        files: files.collect(),
        processes: processes.collect(),
        threads: threads.collect(),
        timing: Timing::Modelled,
        future: None,
    }
}

/// One process of the script.
struct Turns {
    script: Arc<Script>,
    /// Next operation, of any process.
    at: Arc<AtomicUsize>,
    process: u16,
    /// Processes of this program by index of their threads.
    members: Vec<u16>,
    /// Position in the script after the current batch.
    next: Option<usize>,
    /// Pages of that operation that are touched already.
    touched: u32,
    /// Pages touched, and other operations, since the statistics were last read: as the guest's player counts them.
    counted: u32,
    /// Whether to read statistics first: a process begins with that, and continues with it after starting another.
    reads_statistics: bool,
    /// Mapped files: virtual pages, file, page of the file at the first.
    mapped: Vec<(PageRange, u32, u64)>,
}

impl Stream for Turns {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if let Some(next) = self.next.take() {
            self.at.store(next, Ordering::Relaxed);
        }
        let mut at = self.at.load(Ordering::Relaxed);
        let script = Arc::clone(&self.script);
        loop {
            let Some(operation) = script.operations.get(at) else { return Ok(After::Sleep(REST)) };
            if operation.process == CONDUCTOR && batch.runs.is_empty() {
                match operation.action {
                    // All processes that no process starts exist from the beginning, and wait.
                    Action::Start { .. } => {
                        at += 1;
                        self.at.store(at, Ordering::Relaxed);
                        continue;
                    }
                    Action::Mark { .. } => return Ok(After::Sleep(REST)),
                    _ => return Err("the script has an operation that the simulated machine cannot do".into()),
                }
            }
            let is_due = self.counted >= READ_STATISTICS_EVERY;
            if (is_due || self.reads_statistics) && (operation.process == self.process || !batch.runs.is_empty()) {
                self.reads_statistics = false;
                self.counted = if is_due { 0 } else { self.counted };
                self.next = Some(at);
                return Ok(After::Kernel(KernelCall::ReadStatistics));
            }
            if operation.process != self.process {
                if batch.runs.is_empty() {
                    return Ok(After::Sleep(PATIENCE));
                }
                self.next = Some(at);
                return Ok(After::Continue);
            }
            let run = match operation.action {
                Action::Touch { page, pages, write } => {
                    // A long touch is split: statistics are read within it.
                    let some = (pages - self.touched).min(READ_STATISTICS_EVERY - self.counted);
                    let first = page + u64::from(self.touched);
                    self.counted += some;
                    self.touched = if self.touched + some == pages { 0 } else { self.touched + some };
                    Some(if write { Run::write(first, some) } else { Run::read(first, some) })
                }
                Action::Transfer { file, page, pages, write } => {
                    self.counted += 1;
                    Some(self.transfer(file, page, pages, write)?)
                }
                _ => None,
            };
            if let Some(run) = run {
                batch.runs.push(run);
                at += usize::from(self.touched == 0);
                if batch.runs.len() == BATCH {
                    self.next = Some(at);
                    return Ok(After::Continue);
                }
                continue;
            }
            if operation.action == Action::Finish {
                if !batch.runs.is_empty() {
                    self.next = Some(at);
                    return Ok(After::Continue);
                }
                // The process does not ask again: its memory is freed before any other runs.
                self.at.store(at + 1, Ordering::Relaxed);
                return Ok(After::Finish);
            }
            self.next = Some(at + 1);
            match operation.action {
                Action::Start { .. } => self.reads_statistics = true,
                _ => self.counted += 1,
            }
            return self.change(operation.action);
        }
    }
}

impl Turns {
    fn change(&mut self, action: Action) -> Result<After, StreamError> {
        let range = |page, pages: u32| PageRange::at(page, u64::from(pages));
        let change = match action {
            Action::MapAnonymous { page, pages } => LayoutChange::Map(Mapping::anonymous(range(page, pages))),
            Action::MapFile { page, pages, file, file_page, shared, executable } => {
                self.mapped.push((range(page, pages), file, file_page));
                let sharing = if shared { Sharing::Shared } else { Sharing::Private };
                let backing = Backing::File { file: file as usize, first_page: file_page, sharing };
                LayoutChange::Map(Mapping { pages: range(page, pages), backing, executable, huge: false })
            }
            Action::Unmap { page, pages } => {
                let gone = range(page, pages);
                self.mapped.retain(|(pages, ..)| pages.intersection(gone).is_empty());
                LayoutChange::Unmap(gone)
            }
            Action::Advise { page, pages, advice } => LayoutChange::Advise(range(page, pages), advice_of(advice)),
            Action::Start { process } => {
                let thread =
                    self.members.binary_search(&process).map_err(|_| "a process is started from another group")?;
                return Ok(After::Start(thread));
            }
            _ => return Err("the script has an operation that the simulated machine cannot do".into()),
        };
        Ok(After::Change(change))
    }

    /// A run through the descriptor, named by a mapping of the file.
    fn transfer(&self, file: u32, page: u64, pages: u32, write: bool) -> Result<Run, StreamError> {
        let last = page + u64::from(pages);
        let holds = |(range, mapped, first): &&(PageRange, u32, u64)| {
            *mapped == file && *first <= page && last <= first + range.len()
        };
        let Some((range, _, first)) = self.mapped.iter().rev().find(holds) else {
            return Err(format!("pages of file {file} are read or written that are not mapped").into());
        };
        let page = range.start + (page - first);
        let run = if write { Run::write(page, pages) } else { Run::read(page, pages) };
        Ok(run.through(Channel::FileDescriptor))
    }
}

fn advice_of(advice: Advice) -> access::Advice {
    match advice {
        Advice::Normal => access::Advice::Normal,
        Advice::Random => access::Advice::Random,
        Advice::Sequential => access::Advice::Sequential,
        Advice::DontNeed => access::Advice::DontNeed,
        Advice::Free => access::Advice::Free,
        Advice::WillNeed => access::Advice::WillNeed,
        Advice::Cold => access::Advice::Cold,
        Advice::PageOut => access::Advice::PageOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_rig::script::Operation;

    /// Operations of the only process: pages of each batch, and the action after it.
    fn played(operations: Vec<Action>) -> Vec<(Vec<(u64, u32)>, After)> {
        let start = Operation { process: CONDUCTOR, action: Action::Start { process: 0 } };
        let own = operations.into_iter().map(|action| Operation { process: 0, action });
        let mark = Operation { process: CONDUCTOR, action: Action::Mark { number: 1 } };
        let operations = std::iter::once(start).chain(own).chain([mark]).collect();
        let script = Arc::new(Script { operations, ..Script::default() });
        let at = Arc::new(AtomicUsize::new(0));
        let mut programs = programs_of(&script, &at, &[]);
        let stream = &mut programs[0].1.threads[0].stream;
        let mut played = Vec::new();
        loop {
            let mut batch = Batch::default();
            let after = stream.next_batch(Instant::START, &mut batch).unwrap();
            let is_over = after == After::Sleep(REST);
            assert_eq!(at_mark(&script, &at).is_ok(), is_over, "the last word is said at the mark");
            played.push((batch.runs.iter().map(|run| (run.page(), run.pages)).collect(), after));
            if is_over {
                return played;
            }
        }
    }

    /// As the guest does: before the first touch, then after each 256 touched pages and other operations.
    #[test]
    fn statistics_are_read_where_the_guest_reads_them() {
        let read = || After::Kernel(KernelCall::ReadStatistics);
        let touch = |page, pages| Action::Touch { page, pages, write: true };
        let map = Action::MapAnonymous { page: 0, pages: 1000 };
        let played = played(vec![map, touch(0, 100), touch(100, 500), touch(7, 1)]);
        assert!(matches!(played[1], (ref runs, After::Change(_)) if runs.is_empty()));
        assert_eq!((&played[0], played.len()), (&(vec![], read()), 6));
        assert_eq!(played[2], (vec![(0, 100), (100, 155)], read()), "with the mapping 256");
        assert_eq!(played[3], (vec![(255, 256)], read()));
        assert_eq!(played[4].0, [(511, 89), (7, 1)]);
    }

    #[test]
    fn a_script_that_stands_still_is_not_at_its_mark() {
        let of = |action| Operation { process: 0, action };
        let touch = of(Action::Touch { page: 1, pages: 1, write: true });
        let mut script = Script { operations: vec![touch, touch], ..Script::default() };
        assert_eq!(at_mark(&script, &AtomicUsize::new(1)), Err((1, 2)), "without a mark the end counts");
        script.operations.insert(1, of(Action::Mark { number: 1 }));
        assert_eq!(at_mark(&script, &AtomicUsize::new(1)), Ok(()));
        assert_eq!(at_mark(&script, &AtomicUsize::new(0)), Err((0, 1)));
    }
}
