//! Fragmenting memory, and asking for huge pages.

use isotherm_guest::fragmenting::{Fragment, Fragmented, Holes, Moment};
use isotherm_guest::job::Report;
use isotherm_guest::monitoring::ARENA_PAGE;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine::write;
use crate::sys::{self, Backing, Forked, PAGE};
use crate::{Reporter, observe};

/// Pages of a section, and of a huge page.
const SECTION: u64 = 512;
/// Where huge pages are asked for: another 512 GiB on.
const HUGE_PAGE: u64 = ARENA_PAGE * 2;
/// Most huge pages of one run.
const HUGE_MAX: usize = 4096;
const KEPT: [&str; 5] = ["compact_", "thp_fault_", "pgmigrate_", "allocstall", "kcompactd"];

/// Messages from the two processes of a run to the first one.
pub(crate) struct Board {
    /// Steps done; the other side waits for a change.
    step: AtomicU32,
    /// Huge pages asked for.
    asked: AtomicU64,
    took_ns: [AtomicU64; HUGE_MAX],
}

pub(crate) fn fragment(fragment: &Fragment, reporter: &mut Reporter) -> Result<(), String> {
    let board: &'static Board = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    write("/proc/sys/vm/compaction_proactiveness", "0")?;
    write("/proc/sys/vm/drop_caches", "3")?;
    // Clean slate: compact what earlier runs left scattered.
    write("/proc/sys/vm/compact_memory", "1")?;
    // Free memory of the lowest zone is reserved from programs.
    let free_bytes = (memory_kib("MemFree:")? * 1024).saturating_sub(low_bytes());
    let sections = free_bytes.saturating_sub(fragment.spare_bytes) / (SECTION * PAGE);
    if sections == 0 {
        return Err(format!("{free_bytes} bytes are free, of which {} are to be left", fragment.spare_bytes));
    }
    let filler = fork(|| fill(sections, fragment.holes, board))?;
    await_step(board, 1, filler)?;
    let before = moment();
    write("/proc/sys/vm/compaction_proactiveness", &fragment.proactiveness.to_string())?;
    let said = alone(fragment)?;
    write("/proc/sys/vm/compaction_proactiveness", "0")?;
    let after = moment();
    let huge = usize::try_from(sections * 3 / 4 * u64::from(fragment.huge_percent) / 100).unwrap_or(HUGE_MAX);
    let huge = huge.min(HUGE_MAX);
    let asker = fork(|| ask(huge, board))?;
    await_step(board, 2, asker)?;
    let end = moment();
    for pid in [filler, asker] {
        sys::kill(pid).map_err(|error| format!("kill: {error}"))?;
        while !sys::has_ended(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let asked = usize::try_from(board.asked.load(Ordering::Acquire)).unwrap_or(HUGE_MAX).min(HUGE_MAX);
    let huge_ns = board.took_ns[..asked].iter().map(|took| took.load(Ordering::Relaxed)).collect();
    reporter.say(&Report::Fragmented(Fragmented { sections, before, after, end, huge_ns, said }));
    Ok(())
}

/// Leaves the kernel alone, or runs the given program: its exit and output.
fn alone(fragment: &Fragment) -> Result<String, String> {
    let Some((program, arguments)) = fragment.program.split_first() else {
        std::thread::sleep(Duration::from_millis(fragment.wait_ms));
        return Ok(String::new());
    };
    std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).env_clear().env("HOME", "/tmp").output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    Ok(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn fork(child: impl FnOnce() -> std::io::Result<()>) -> Result<i32, String> {
    match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Parent(pid) => Ok(pid),
        Forked::Child => {
            if child().is_err() {
                sys::exit_now(1);
            }
            // Its memory stays until it is killed.
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
    }
}

fn await_step(board: &Board, wanted: u32, pid: i32) -> Result<(), String> {
    loop {
        let step = board.step.load(Ordering::Acquire);
        if step >= wanted {
            return Ok(());
        }
        sys::wait_while(&board.step, step, Duration::from_millis(100));
        if sys::has_ended(pid) {
            return Err("a process was killed: memory is too small for what is to be filled".to_owned());
        }
    }
}

fn next_step(board: &Board) {
    board.step.fetch_add(1, Ordering::AcqRel);
    sys::wake_all(&board.step);
}

/// Fills sections with single pages, then frees three quarters of each.
fn fill(sections: u64, holes: Holes, board: &Board) -> std::io::Result<()> {
    sys::map(ARENA_PAGE, sections * SECTION, Backing::Anonymous)?;
    sys::advise(ARENA_PAGE, sections * SECTION, libc::MADV_NOHUGEPAGE)?;
    sys::touch(ARENA_PAGE, sections * SECTION, true, 1);
    for section in 0..sections {
        let first = ARENA_PAGE + section * SECTION;
        match holes {
            Holes::Contiguous => sys::advise(first, SECTION / 4 * 3, libc::MADV_DONTNEED)?,
            Holes::Strided => {
                for group in (0..SECTION).step_by(4) {
                    sys::advise(first + group, 3, libc::MADV_DONTNEED)?;
                }
            }
        }
    }
    next_step(board);
    Ok(())
}

/// Asks for huge pages, one after the other.
fn ask(huge: usize, board: &Board) -> std::io::Result<()> {
    let pages = huge as u64 * SECTION;
    sys::map(HUGE_PAGE, pages, Backing::Anonymous)?;
    sys::advise(HUGE_PAGE, pages, libc::MADV_HUGEPAGE)?;
    for (number, took) in (0..).zip(&board.took_ns[..huge]) {
        let begin = Instant::now();
        sys::touch(HUGE_PAGE + number * SECTION, 1, true, 1);
        took.store(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        board.asked.store(number + 1, Ordering::Release);
    }
    next_step(board);
    Ok(())
}

fn memory_kib(line: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|error| format!("/proc/meminfo: {error}"))?;
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().strip_suffix(" kB")?.parse().ok());
    found.ok_or_else(|| format!("/proc/meminfo has no line `{line}`"))
}

/// Free memory of the zone `DMA`.
fn low_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let counts = text.lines().find_map(|line| line.split_once(" DMA ")).map(|(_, counts)| counts.split_whitespace());
    let counts = counts.into_iter().flatten().filter_map(|count| count.parse::<u64>().ok());
    counts.enumerate().map(|(order, count)| (count << order) * PAGE).sum()
}

fn moment() -> Moment {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut vmstat = observe::numbers("/proc/vmstat");
    vmstat.retain(|name, _| KEPT.iter().any(|kept| name.starts_with(kept)));
    Moment {
        buddyinfo: text("/proc/buddyinfo"),
        unusable_index: text("/sys/kernel/debug/extfrag/unusable_index"),
        vmstat,
    }
}
