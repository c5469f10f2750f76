//! Turns a program with threads and clocks into one list of operations.

use isotherm_guest::script::{Action, Advice, CONDUCTOR, Operation, PROCESSES_MAX, Script, ScriptFile};
use isotherm_units::access::{self, After, Backing, Channel, FileKind, LayoutChange, Mapping, Program, Run, Sharing};
use isotherm_workload::layout::Layout;
use isotherm_workload::order::{Step, for_each_step};
use std::collections::{BTreeMap, BTreeSet};

use crate::RigError;

/// log2 of the pages that an entry of the topmost of four page-table levels spans: 512 GiB. Pages that share an entry stay together, so
/// that the page tables of the guest have the shape of the program's.
const SLOT_SHIFT: u32 = 27;
/// Slots that a script may use: not the first, which has the guest's program, and not the last, which the kernel chooses from.
const SLOTS: std::ops::Range<u64> = 1..255;
/// Least gap between watched ranges: closer ones are joined.
const WATCH_GAP: u64 = 16;
/// Most operations of a script.
const OPERATIONS_MAX: usize = 8 << 20;

/// The script of a program: its threads take turns as in [`for_each_step`], its computing and sleeping are left out, its address spaces are
/// moved to where the guest has room. Before the last process of the program ends there is a mark with number 1.
///
/// # Errors
/// More processes, operations, files' pages or address space than a guest can have, or a stream that fails.
pub fn script_of(program: Program) -> Result<Script, RigError> {
    let unplayable = |reason: String| RigError::Unplayable { reason };
    if program.processes.len() > PROCESSES_MAX {
        let reason = format!("it has {} processes; allowed: up to {PROCESSES_MAX}", program.processes.len());
        return Err(unplayable(reason));
    }
    let files = program.files.iter();
    let files = files.map(|f| ScriptFile { pages: f.pages, shared_memory: f.kind == FileKind::SharedMemory });
    let mut flat = Flattening {
        script: Script { files: files.collect(), ..Script::default() },
        processes: program.processes.clone(),
        process_of: program.threads.iter().map(|thread| thread.process).collect(),
        spaces: vec![None; program.processes.len()],
        threads_left: vec![0; program.processes.len()],
        touched: BTreeMap::new(),
    };
    for thread in program.threads.iter().filter(|thread| thread.start == access::ThreadStart::WithProgram) {
        flat.start_thread(thread.process);
    }
    for_each_step(program, |step| {
        match step {
            Step::Accesses { process, batch, .. } => batch.runs.iter().try_for_each(|run| flat.touch(process, *run)),
            Step::After { process, after, .. } => flat.after(process, after),
        }
        .map_err(Into::into)
    })
    .map_err(|error| unplayable(error.to_string()))?;
    flat.finish().map_err(unplayable)
}

struct Flattening {
    script: Script,
    processes: Vec<access::Process>,
    process_of: Vec<usize>,
    /// Spaces of live processes.
    spaces: Vec<Option<Layout>>,
    threads_left: Vec<usize>,
    /// Touched pages by process: first page to end, disjoint.
    touched: BTreeMap<u16, BTreeMap<u64, u64>>,
}

fn number(process: usize) -> u16 {
    u16::try_from(process).expect("checked against the most there may be")
}

impl Flattening {
    fn push(&mut self, process: u16, action: Action) {
        self.script.operations.push(Operation { process, action });
    }

    fn start_thread(&mut self, process: usize) {
        self.threads_left[process] += 1;
        if self.spaces[process].is_some() {
            return;
        }
        let spec = &self.processes[process];
        let parent = spec.forked_from.filter(|&parent| self.spaces[parent].is_some());
        let mappings = spec.layout.clone();
        let inherited = parent.and_then(|parent| self.spaces[parent].clone()).unwrap_or_default();
        self.spaces[process] = Some(inherited);
        self.push(parent.map_or(CONDUCTOR, number), Action::Start { process: number(process) });
        for mapping in mappings {
            self.map(process, mapping);
        }
    }

    fn map(&mut self, process: usize, mapping: Mapping) {
        self.spaces[process].get_or_insert_default().map(mapping);
        let mut at = mapping.pages.start;
        // A range of more than 16 TiB takes several operations.
        while at < mapping.pages.end {
            let pages = u32::try_from(mapping.pages.end - at).unwrap_or(u32::MAX);
            let action = match mapping.backing {
                Backing::Anonymous => Action::MapAnonymous { page: at, pages },
                Backing::File { file, first_page, sharing } => Action::MapFile {
                    page: at,
                    pages,
                    file: u32::try_from(file).unwrap_or(u32::MAX),
                    file_page: first_page + (at - mapping.pages.start),
                    shared: sharing == Sharing::Shared,
                    executable: mapping.executable,
                },
            };
            self.push(number(process), action);
            at += u64::from(pages);
        }
    }

    fn touch(&mut self, process: usize, run: Run) -> Result<(), String> {
        if self.script.operations.len() >= OPERATIONS_MAX {
            return Err(format!("it takes more than {OPERATIONS_MAX} operations; play a shorter part of it"));
        }
        let (page, pages, write) = (run.page(), run.pages, run.is_write());
        if run.channel() == Channel::FileDescriptor {
            return self.transfer(process, run);
        }
        let touched = self.touched.entry(number(process)).or_default();
        remember(touched, page, page + u64::from(pages));
        if let Some(Operation { process: last, action: Action::Touch { page: first, pages: so_far, write: wrote } }) =
            self.script.operations.last_mut()
            && (*last, *wrote) == (number(process), write)
            && *first + u64::from(*so_far) == page
            && let Some(sum) = so_far.checked_add(pages)
        {
            *so_far = sum;
            return Ok(());
        }
        self.push(number(process), Action::Touch { page, pages, write });
        Ok(())
    }

    fn transfer(&mut self, process: usize, run: Run) -> Result<(), String> {
        let mapping = self.spaces[process].as_ref().and_then(|space| space.find(run.page()));
        let Some(Mapping { pages: place, backing: Backing::File { file, first_page, .. }, .. }) = mapping else {
            return Err(format!("a descriptor's page {:#x} lies in no mapping of a file", run.page()));
        };
        let file = u32::try_from(file).unwrap_or(u32::MAX);
        let page = first_page + (run.page() - place.start);
        self.push(number(process), Action::Transfer { file, page, pages: run.pages, write: run.is_write() });
        Ok(())
    }

    fn after(&mut self, process: usize, after: &After) -> Result<(), String> {
        match after {
            After::Continue | After::Compute(_) | After::Sleep(_) => {}
            After::Change(LayoutChange::Map(mapping)) => self.map(process, *mapping),
            After::Change(LayoutChange::Unmap(range)) => {
                self.spaces[process].get_or_insert_default().unmap(*range);
                self.in_parts(process, range.start, range.end, |page, pages| Action::Unmap { page, pages });
            }
            After::Change(LayoutChange::Advise(range, advice)) => {
                let advice = advice_of(*advice);
                self.in_parts(process, range.start, range.end, |page, pages| Action::Advise { page, pages, advice });
            }
            After::Change(LayoutChange::Pin(_)) | After::Kernel(_) => {
                return Err(
                    "it holds pages or takes memory of the kernel, which a program on a real one cannot".to_owned()
                );
            }
            After::Start(thread) => self.start_thread(self.process_of[*thread]),
            After::Finish => {
                self.threads_left[process] -= 1;
                if self.threads_left[process] == 0 {
                    if self.threads_left.iter().all(|&left| left == 0) {
                        self.push(CONDUCTOR, Action::Mark { number: 1 });
                    }
                    self.spaces[process] = None;
                    self.push(number(process), Action::Finish);
                }
            }
        }
        Ok(())
    }

    fn in_parts(&mut self, process: usize, mut at: u64, end: u64, action: impl Fn(u64, u32) -> Action) {
        while at < end {
            let pages = u32::try_from(end - at).unwrap_or(u32::MAX);
            self.push(number(process), action(at, pages));
            at += u64::from(pages);
        }
    }

    /// Moves the pages to free places of the guest.
    fn finish(mut self) -> Result<Script, String> {
        for (process, touched) in &self.touched {
            for (&start, &end) in touched {
                match self.script.watched.last_mut() {
                    Some((last, first, pages)) if last == process && start <= *first + *pages + WATCH_GAP => {
                        *pages = end - *first;
                    }
                    _ => self.script.watched.push((*process, start, end - start)),
                }
            }
        }
        let mut used = BTreeSet::new();
        for operation in &self.script.operations {
            if let Some((page, pages)) = range_of(&operation.action) {
                used.extend(page >> SLOT_SHIFT..=(page + pages - 1) >> SLOT_SHIFT);
            }
        }
        if used.len() as u64 > SLOTS.end - SLOTS.start {
            return Err(format!(
                "its mappings lie in {} areas of 512 GiB; allowed: {}",
                used.len(),
                SLOTS.end - SLOTS.start
            ));
        }
        let slots: BTreeMap<u64, u64> = used.into_iter().zip(SLOTS).collect();
        // Slots keep their order and neighbours stay adjacent, so that ranges over several stay in one piece.
        let moved = |page: u64| slots[&(page >> SLOT_SHIFT)] << SLOT_SHIFT | page & ((1 << SLOT_SHIFT) - 1);
        for operation in &mut self.script.operations {
            match &mut operation.action {
                Action::Touch { page, .. }
                | Action::MapAnonymous { page, .. }
                | Action::MapFile { page, .. }
                | Action::Unmap { page, .. }
                | Action::Advise { page, .. } => *page = moved(*page),
                _ => {}
            }
        }
        for (_, page, _) in &mut self.script.watched {
            *page = moved(*page);
        }
        Ok(self.script)
    }
}

fn range_of(action: &Action) -> Option<(u64, u64)> {
    match *action {
        Action::Touch { page, pages, .. }
        | Action::MapAnonymous { page, pages }
        | Action::MapFile { page, pages, .. }
        | Action::Unmap { page, pages }
        | Action::Advise { page, pages, .. } => Some((page, u64::from(pages))),
        _ => None,
    }
}

fn advice_of(advice: access::Advice) -> Advice {
    match advice {
        access::Advice::Normal => Advice::Normal,
        access::Advice::Random => Advice::Random,
        access::Advice::Sequential => Advice::Sequential,
        access::Advice::DontNeed => Advice::DontNeed,
        access::Advice::Free => Advice::Free,
        access::Advice::WillNeed => Advice::WillNeed,
        access::Advice::Cold => Advice::Cold,
        access::Advice::PageOut => Advice::PageOut,
    }
}

/// Adds `[start, end)` to disjoint ranges.
fn remember(ranges: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    if let Some((&first, &last)) = ranges.range(..=start).next_back()
        && last >= start
    {
        if last >= end {
            return;
        }
        start = first;
    }
    while let Some((&first, &last)) = ranges.range(start..=end).next() {
        ranges.remove(&first);
        end = end.max(last);
    }
    ranges.insert(start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join() {
        let mut ranges = BTreeMap::new();
        for (start, end) in [(10, 12), (20, 25), (12, 13), (11, 12), (13, 20), (30, 31)] {
            remember(&mut ranges, start, end);
        }
        assert_eq!(ranges, BTreeMap::from([(10, 25), (30, 31)]));
    }
}
