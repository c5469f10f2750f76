//! A process of a script: does its own operations in its turns.
//!
//! The host keeps the script's pages away from this program's own memory: they begin at [`FIRST_PAGE`] and end below [`END_PAGE`],
//! while the program lies in the first 512 GiB and the kernel's choice for mappings in the last. Other pages are refused.

use isotherm_guest::script::{Action, Advice, CONDUCTOR, Operation, Script};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::machine::GROUP_PATH;
use crate::shared::Control;
use crate::sys::{self, Backing, Forked};

/// First page that a script may use: 512 GiB.
pub(crate) const FIRST_PAGE: u64 = 1 << 27;
/// End of the script's pages: the kernel chooses mappings from the last 512 GiB of user space.
pub(crate) const END_PAGE: u64 = (1 << 35) - (1 << 27);

/// The group's counters.
const STATISTICS_PATH: &str = "/sys/fs/cgroup/play/memory.stat";
/// Least decrease of the kernel's memory before the limit follows.
const LOWERED_BYTES: u64 = 256 << 10;
/// After this number of changes a read adds them up, on one processor: changes are noted in batches of 64, and more than 64 noted changes
/// count.
const FAULTS_TO_BE_READ: u32 = 3 * 64;
/// More than the page tables of a script's process.
const FORK_BYTES: u64 = 8 << 20;

/// Common data of all processes of a replay.
pub(crate) struct Stage<'a> {
    pub(crate) script: &'a Script,
    pub(crate) control: &'static Control,
    /// Descriptors by index of the script's files.
    pub(crate) files: &'a [OwnedFd],
    /// Pages touched, and other operations, between two reads of the group's statistics; the largest number means never.
    pub(crate) read_stat_every: u64,
    /// The limit in bytes, if it is only for pages of the script.
    pub(crate) topped_up: Option<u64>,
}

/// Runs as `process` of the script. Does not return.
pub(crate) fn live(stage: &Stage<'_>, mut process: u16) -> ! {
    let mut statistics = File::open(STATISTICS_PATH).ok();
    let mut buffer = vec![0; 16 * 1024];
    let (mut is_new, mut counted, mut own) = (true, 0u64, 0);
    let mut opened = Opened::new();
    let mut ended = 0;
    loop {
        if !stage.control.wait(process, Duration::from_secs(1)) {
            continue;
        }
        let is_first = std::mem::take(&mut is_new);
        if (is_first || ended != stage.control.nr_ended()) && stage.topped_up.is_some() {
            ended = stage.control.nr_ended();
            refresh_surely(&mut statistics, &mut buffer);
            if is_first {
                own = own_anonymous_bytes();
                stage.control.add_own(own);
            }
            top_up(stage, &buffer);
        }
        let mut at = stage.control.operation();
        while let Some(operation) = stage.script.operations.get(at).filter(|operation| operation.process == process) {
            stage.control.at(at);
            at += 1;
            match operation.action {
                Action::Finish => {
                    // The conductor goes on when the memory is really free; the next process lowers the limit by this one's memory.
                    stage.control.take_own(own);
                    stage.control.pass(CONDUCTOR, at);
                    sys::exit_now(0);
                }
                Action::Start { process: child } => match make_room_and_fork(stage) {
                    Ok(Forked::Parent(pid)) => {
                        match stage.topped_up {
                            Some(_) => refresh_surely(&mut statistics, &mut buffer),
                            None => refresh(&mut statistics, &mut buffer),
                        }
                        top_up(stage, &buffer);
                        stage.control.started(child, pid);
                    }
                    Ok(Forked::Child) => {
                        is_new = true;
                        process = child;
                        opened.clear();
                        break;
                    }
                    Err(error) => give_up(stage, operation, &error.to_string()),
                },
                Action::Touch { page, pages, write } => {
                    // A long touch is split: statistics are read within it.
                    let mut rest = page..page + u64::from(pages);
                    while !rest.is_empty() {
                        let some = (rest.end - rest.start).min((stage.read_stat_every - counted).max(1));
                        sys::touch(rest.start, some, write, at.to_le_bytes()[0]);
                        rest.start += some;
                        counted += some;
                        if counted >= stage.read_stat_every && !rest.is_empty() {
                            counted = 0;
                            refresh(&mut statistics, &mut buffer);
                            top_up(stage, &buffer);
                        }
                    }
                }
                _ => {
                    counted += 1;
                    if let Err(message) = act(stage, &mut opened, operation) {
                        give_up(stage, operation, &message);
                    }
                }
            }
            if counted >= stage.read_stat_every {
                counted = 0;
                refresh(&mut statistics, &mut buffer);
                top_up(stage, &buffer);
            }
        }
        if stage.control.turn() == process && stage.control.operation() <= at {
            let next = stage.script.operations.get(at).map_or(CONDUCTOR, |operation| operation.process);
            if next != process {
                stage.control.pass(next, at);
            }
        }
    }
}

fn give_up(stage: &Stage<'_>, operation: &Operation, message: &str) -> ! {
    eprintln!("isotherm-guest: process {} cannot do {:?}: {message}", operation.process, operation.action);
    stage.control.fail();
    sys::exit_now(1)
}

/// Anonymous memory of this process that is the player's own: below and above the pages of scripts. Pages that it shares with the process
/// it was copied from are charged to that process.
fn own_anonymous_bytes() -> u64 {
    let Ok(file) = File::open("/proc/self/smaps") else { return 0 };
    // Line by line: the text of a process with many mappings is memory of the player too.
    let mut file = BufReader::with_capacity(sys::PAGE_LEN, file);
    let (mut line, mut is_own, mut bytes) = (String::new(), false, 0);
    while file.read_line(&mut line).is_ok_and(|read| read > 0) {
        let start = line.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
        if let Some(start) = start {
            is_own = !(FIRST_PAGE..END_PAGE).contains(&(start / sys::PAGE));
        } else if is_own && let Some(kib) = line.strip_prefix("Private_Dirty:") {
            let kib = kib.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            bytes += kib * 1024;
        }
        line.clear();
    }
    bytes
}

/// Reading the statistics makes the kernel add up its per-CPU counts.
fn refresh(statistics: &mut Option<File>, buffer: &mut [u8]) {
    if let Some(file) = statistics {
        let _ = file.read_at(buffer, 0);
    } else if let Ok(mut file) = File::open("/proc/self/stat") {
        let _ = file.read(buffer);
    }
}

/// A page of the program itself that is never written: its page tables exist, and it maps to the zero page.
#[repr(align(4096))]
struct SparePage([AtomicU8; sys::PAGE_LEN]);
static SPARE_PAGE: SparePage = SparePage([const { AtomicU8::new(0) }; sys::PAGE_LEN]);

/// A read adds nothing up while there are few changes. Faults are changes; those on a page that is only read take no memory.
fn refresh_surely(statistics: &mut Option<File>, buffer: &mut [u8]) {
    let page = SPARE_PAGE.0.as_ptr() as u64 / sys::PAGE;
    for _ in 0..FAULTS_TO_BE_READ {
        let _ = sys::advise(page, 1, libc::MADV_DONTNEED);
        std::hint::black_box(SPARE_PAGE.0[0].load(Ordering::Relaxed));
    }
    refresh(statistics, buffer);
}

/// Raises the limit by the kernel's memory for the group (page tables, stacks, its own objects), from its statistics in `buffer`, and
/// by the players' own memory; lowers it when that was freed.
fn top_up(stage: &Stage<'_>, buffer: &[u8]) {
    let Some(limit) = stage.topped_up else { return };
    let text = String::from_utf8_lossy(buffer);
    let Some(kernel) = number_of_line(&text, "kernel") else { return };
    let extra = (kernel + stage.control.own_bytes()).next_multiple_of(sys::PAGE);
    let before = stage.control.extra_bytes();
    if extra > before || extra < before && is_worth_lowering(before - extra, limit + extra) {
        stage.control.set_extra(extra);
        // If it is refused the limit stays unchanged.
        let _ = std::fs::write(format!("{GROUP_PATH}/memory.max"), (limit + extra).to_string());
    }
}

/// Lowering the limit of a full group reclaims at least 32 pages, which a few pages less are not worth. With room in the group, as
/// after the end of a process, nothing is reclaimed.
fn is_worth_lowering(bytes: u64, limit: u64) -> bool {
    let has_room = || {
        let current = std::fs::read_to_string(format!("{GROUP_PATH}/memory.current")).ok();
        current.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|current| current <= limit)
    };
    bytes >= LOWERED_BYTES || has_room()
}

/// A fork allocates page tables for all memory at once, which must not reclaim pages of the script. The limit is corrected at the next
/// read of the statistics.
fn make_room_and_fork(stage: &Stage<'_>) -> std::io::Result<Forked> {
    if let Some(limit) = stage.topped_up {
        let extra = stage.control.extra_bytes() + FORK_BYTES;
        stage.control.set_extra(extra);
        let _ = std::fs::write(format!("{GROUP_PATH}/memory.max"), (limit + extra).to_string());
    }
    sys::fork()
}

/// The number after `name` in lines of `name number`.
fn number_of_line(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Files of the script as this process has them open. A program opens its files itself, and readahead state belongs to the open file:
/// with the conductor's descriptors all processes would share it.
type Opened = BTreeMap<u32, File>;

fn open<'a>(stage: &Stage<'_>, opened: &'a mut Opened, file: u32) -> std::io::Result<&'a File> {
    Ok(match opened.entry(file) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => {
            let path = format!("/proc/self/fd/{}", stage.files[file as usize].as_raw_fd());
            entry.insert(File::options().read(true).write(true).open(path)?)
        }
    })
}

fn act(stage: &Stage<'_>, opened: &mut Opened, operation: &Operation) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    match operation.action {
        Action::Transfer { file, page, pages, write } => {
            transfer(open(stage, opened, file).map_err(words)?, page, pages, write)
        }
        Action::MapAnonymous { page, pages } => {
            inside(page, pages)?;
            sys::map(page, u64::from(pages), Backing::Anonymous).map_err(words)
        }
        Action::MapFile { page, pages, file, file_page, shared, executable } => {
            inside(page, pages)?;
            let (file, offset) = (open(stage, opened, file).map_err(words)?, file_page.saturating_mul(sys::PAGE));
            sys::map(page, u64::from(pages), Backing::File { file, offset, shared, executable }).map_err(words)
        }
        Action::Unmap { page, pages } => {
            inside(page, pages)?;
            sys::unmap(page, u64::from(pages)).map_err(words)
        }
        Action::Advise { page, pages, advice } => {
            inside(page, pages)?;
            // Advice may be refused, for holes above all; a program would go on.
            let _ = sys::advise(page, u64::from(pages), number_of(advice));
            Ok(())
        }
        Action::Touch { .. } | Action::Start { .. } | Action::Finish | Action::Limit { .. } | Action::Mark { .. } => {
            Err("only the conductor does that".to_owned())
        }
    }
}

fn inside(page: u64, pages: u32) -> Result<(), String> {
    if page >= FIRST_PAGE && page + u64::from(pages) <= END_PAGE {
        return Ok(());
    }
    Err(format!("pages {page:#x}+{pages:#x} are not between {FIRST_PAGE:#x} and {END_PAGE:#x}"))
}

/// One call, as in the program: readahead depends on the size of the request.
fn transfer(file: &File, page: u64, pages: u32, write: bool) -> Result<(), String> {
    let (mut page, mut left) = (page, pages as usize);
    while left > 0 {
        let some = left.min(sys::TRANSFER_PAGES_MAX);
        let done = sys::transfer(file, page, some, write).map_err(|error| error.to_string())?;
        if write && done < some * sys::PAGE_LEN {
            return Err(format!("{done} bytes of {some} pages were written: the file system is full"));
        }
        left -= some;
        page += some as u64;
    }
    Ok(())
}

fn number_of(advice: Advice) -> libc::c_int {
    match advice {
        Advice::Normal => libc::MADV_NORMAL,
        Advice::Random => libc::MADV_RANDOM,
        Advice::Sequential => libc::MADV_SEQUENTIAL,
        Advice::DontNeed => libc::MADV_DONTNEED,
        Advice::Free => libc::MADV_FREE,
        Advice::WillNeed => libc::MADV_WILLNEED,
        Advice::Cold => libc::MADV_COLD,
        Advice::PageOut => libc::MADV_PAGEOUT,
    }
}
