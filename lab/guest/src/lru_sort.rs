//! Playing a pattern under a limit that drops and rises.

use isotherm_guest::job::Report;
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::sorting::{Sort, Sorted};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::companion::Beside;
use crate::machine::{write, write_settings};
use crate::sys::{self, Backing, Forked};
use crate::{Reporter, observe};

const GROUP: &str = "/sys/fs/cgroup/sort";
const PARAMETERS: &str = "/sys/module/damon_lru_sort/parameters";
/// Interval of reads of the group's statistics, which update the counters with which the kernel balances its lists.
const LOOK: Duration = Duration::from_millis(20);
/// See `damon.rs`.
const FLUSH_PAGES: u64 = 64;

/// Step of the player: these, one after the other.
pub(crate) struct FilterBy {
    step: AtomicU32,
}

/// It is not in the group yet.
const NEW: u32 = 0;
/// It is, and touches all of its memory.
const LOADING: u32 = 1;
const LOADED: u32 = 2;
/// It makes its passes.
const WORKING: u32 = 3;
/// It has made them.
const DONE: u32 = 4;
/// It may end.
const LEAVING: u32 = 5;

pub(crate) fn sort(sort: &Sort, reporter: &mut Reporter) -> Result<(), String> {
    if let Some(flaw) = sort.pattern.flaw() {
        return Err(format!("the pattern cannot be played: {flaw}"));
    }
    if !sort.lru_sort.is_empty() && !Path::new(PARAMETERS).exists() {
        return Err("this kernel has no LRU_SORT (CONFIG_DAMON_LRU_SORT)".to_owned());
    }
    let filter: &'static FilterBy = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    filter.step.store(NEW, Ordering::Release);
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
    std::fs::create_dir_all(GROUP).map_err(|error| format!("{GROUP}: {error}"))?;
    let pid = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Child => play(sort, filter),
        Forked::Parent(pid) => pid,
    };
    write(&format!("{GROUP}/cgroup.procs"), &pid.to_string())?;
    step(filter, NEW, LOADING);
    await_step(filter, LOADED, pid)?;
    let before = statistics();
    // The module continues its counts from before it was switched off.
    let sorted_before = counters();
    write_settings(&sort.lru_sort)?;
    let beside = Beside::start(&sort.program, Duration::from_millis(sort.settle_ms))?;
    step(filter, LOADED, WORKING);
    let begin = Instant::now();
    let pressure = sort.pressure;
    let mut limit = 0;
    while filter.step.load(Ordering::Acquire) == WORKING && !sys::has_ended(pid) {
        let now_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let is_low = now_us % pressure.period_us < pressure.low_us;
        let wanted = if is_low { pressure.low_bytes } else { pressure.high_bytes };
        if limit != wanted {
            write(&format!("{GROUP}/memory.max"), &wanted.to_string())?;
            limit = wanted;
        }
        let _ = statistics();
        std::thread::sleep(LOOK);
    }
    let took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let done = filter.step.load(Ordering::Acquire) == DONE;
    let now = statistics();
    let change = |(name, after): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), i64::try_from(i128::from(*after) - i128::from(before)).unwrap_or(0))
    };
    let memory_stat = now.iter().map(change).collect();
    let grown = |(name, after): (String, u64)| {
        let before = sorted_before.get(&name).copied().unwrap_or(0);
        (name, after.saturating_sub(before))
    };
    let lru_sort = if sort.lru_sort.is_empty() { BTreeMap::new() } else { counters().into_iter().map(grown).collect() };
    if !sort.lru_sort.is_empty() {
        write(&format!("{PARAMETERS}/enabled"), "N")?;
    }
    let said = beside.end()?;
    if !done {
        return Err("the player was killed; the group's limit may be too low for it".to_owned());
    }
    step(filter, DONE, LEAVING);
    while !sys::has_ended(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    reporter.say(&Report::Sorted(Sorted { took_us, memory_stat, lru_sort, said }));
    std::fs::remove_dir(GROUP).map_err(|error| format!("{GROUP}: {error}"))
}

/// Goes from one step to the next, if `from` is the current one, and wakes waiting processes.
fn step(filter: &FilterBy, from: u32, to: u32) {
    let _ = filter.step.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    sys::wake_all(&filter.step);
}

fn await_step(filter: &FilterBy, wanted: u32, pid: i32) -> Result<(), String> {
    loop {
        let now = filter.step.load(Ordering::Acquire);
        if now == wanted {
            return Ok(());
        }
        sys::wait_while(&filter.step, now, Duration::from_millis(100));
        if pid != 0 && sys::has_ended(pid) {
            return Err("the player ended before its first pass".to_owned());
        }
    }
}

fn statistics() -> BTreeMap<String, u64> {
    observe::numbers(&format!("{GROUP}/memory.stat"))
}

/// All files of LRU_SORT that hold a number.
fn counters() -> BTreeMap<String, u64> {
    let Ok(entries) = std::fs::read_dir(PARAMETERS) else { return BTreeMap::new() };
    let number = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, text.trim().parse().ok()?))
    };
    entries.flatten().filter_map(number).collect()
}

/// Lives as the player. Does not return.
fn play(sort: &Sort, filter: &FilterBy) -> ! {
    // In the group before the first touch.
    if await_step(filter, LOADING, 0).is_err() {
        sys::exit_now(1);
    }
    let pages = u64::from(sort.pattern.pages);
    let work = || -> std::io::Result<()> {
        sys::map(ARENA_PAGE, pages, Backing::Anonymous)?;
        sys::touch(ARENA_PAGE, pages, true, 1);
        step(filter, LOADING, LOADED);
        if await_step(filter, WORKING, 0).is_err() {
            sys::exit_now(1);
        }
        let begin = Instant::now();
        for pass in 0..sort.passes {
            let at = begin + Duration::from_micros(sort.pass_us * pass);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            sort.pattern.pass(pass, |first, pages| {
                sys::touch(ARENA_PAGE + u64::from(first), u64::from(pages), true, 2);
            });
            sys::forget_translations(FLUSH_PAGES)?;
        }
        Ok(())
    };
    if work().is_err() {
        sys::exit_now(1);
    }
    step(filter, WORKING, DONE);
    // Its memory stays until the counters were read.
    let _ = await_step(filter, LEAVING, 0);
    sys::exit_now(0)
}
