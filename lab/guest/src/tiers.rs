//! Playing a pattern in memory that begins on a slow node.

use isotherm_guest::job::Report;
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::tiering::{Tiered, Tiering};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::companion::Beside;
use crate::live::make_group;
use crate::machine::write;
use crate::sys::{self, Backing, Forked};
use crate::{Reporter, observe};

/// See `damon.rs`.
const FLUSH_PAGES: u64 = 64;
const NODES: u32 = 2;
const LOOKS_MAX: usize = 512;
const KEPT: [&str; 4] = ["pgpromote_", "pgdemote_", "numa_", "pgmigrate_"];

type Row = [AtomicU64; 1 + 2 * NODES as usize];

/// Samples of the player.
pub(crate) struct Ledger {
    /// 0 not begun, 1 everything touched, 2 released, 3 done.
    step: AtomicU32,
    samples: AtomicU64,
    /// Passes done, then pages on each node, then pages of the used part.
    rows: [Row; LOOKS_MAX],
}

const LOADED: u32 = 1;
const WORKING: u32 = 2;
const DONE: u32 = 3;

pub(crate) fn tier(tiering: &Tiering, reporter: &mut Reporter) -> Result<(), String> {
    if let Some(flaw) = tiering.pattern.flaw() {
        return Err(format!("the pattern cannot be played: {flaw}"));
    }
    if tiering.slow_node >= NODES || !Path::new(&format!("/sys/devices/system/node/node{}", tiering.slow_node)).exists()
    {
        return Err(format!("there is no node {}", tiering.slow_node));
    }
    let ledger: &'static Ledger = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    write("/proc/sys/kernel/numa_balancing", "0")?;
    let group = if tiering.program.is_empty() { None } else { Some(make_group("tier")?) };
    let pid = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Child => {
            if group.is_some_and(|group| write(&format!("{group}/cgroup.procs"), "0").is_err()) {
                sys::exit_now(1);
            }
            play(tiering, ledger)
        }
        Forked::Parent(pid) => pid,
    };
    await_step(ledger, LOADED, pid)?;
    let rate = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
    if Path::new(rate).exists() {
        write(rate, &tiering.promote_rate_mbps.to_string())?;
    }
    write("/proc/sys/kernel/numa_balancing", &tiering.numa_balancing.to_string())?;
    let before = observe::numbers("/proc/vmstat");
    let beside = Beside::start(&tiering.program, Duration::ZERO)?;
    set_step(ledger, WORKING);
    await_step(ledger, DONE, pid)?;
    let now = observe::numbers("/proc/vmstat");
    let said = beside.end()?;
    write("/proc/sys/kernel/numa_balancing", "0")?;
    while !sys::has_ended(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let change = |(name, after): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), i64::try_from(i128::from(*after) - i128::from(before)).unwrap_or(0))
    };
    let mut vmstat: BTreeMap<String, i64> = now.iter().map(change).collect();
    vmstat.retain(|name, _| KEPT.iter().any(|kept| name.starts_with(kept)));
    let samples = usize::try_from(ledger.samples.load(Ordering::Acquire)).unwrap_or(LOOKS_MAX).min(LOOKS_MAX);
    let row = |row: &Row, first: usize| {
        let numbers = row[first..first + NODES as usize].iter().map(|number| number.load(Ordering::Relaxed));
        (row[0].load(Ordering::Relaxed), numbers.collect())
    };
    let rows = &ledger.rows[..samples];
    let nodes = rows.iter().map(|one| row(one, 1)).collect();
    let hot_nodes =
        if tiering.hot.is_some() { rows.iter().map(|one| row(one, 1 + NODES as usize)).collect() } else { Vec::new() };
    reporter.say(&Report::Tiered(Tiered { tiers: tiers(), vmstat, nodes, hot_nodes, said }));
    Ok(())
}

fn set_step(ledger: &Ledger, step: u32) {
    ledger.step.store(step, Ordering::Release);
    sys::wake_all(&ledger.step);
}

fn await_step(ledger: &Ledger, wanted: u32, pid: i32) -> Result<(), String> {
    loop {
        let step = ledger.step.load(Ordering::Acquire);
        if step >= wanted {
            return Ok(());
        }
        sys::wait_while(&ledger.step, step, Duration::from_millis(100));
        if pid != 0 && sys::has_ended(pid) && ledger.step.load(Ordering::Acquire) < wanted {
            return Err("the player ended before its time".to_owned());
        }
    }
}

/// `NAME: nodes` of each tier.
fn tiers() -> Vec<String> {
    let folder = "/sys/devices/virtual/memory_tiering";
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let line = |entry: std::fs::DirEntry| {
        let nodes = std::fs::read_to_string(entry.path().join("nodelist")).ok()?;
        Some(format!("{}: {}", entry.file_name().to_str()?, nodes.trim()))
    };
    let mut lines: Vec<String> = entries.flatten().filter_map(line).collect();
    lines.sort();
    lines
}

/// Runs as the player. Does not return.
fn play(tiering: &Tiering, ledger: &Ledger) -> ! {
    let pages = u64::from(tiering.pattern.pages);
    let work = || -> Result<(), Box<dyn std::error::Error>> {
        sys::map(ARENA_PAGE, pages, Backing::Anonymous)?;
        sys::bind_memory(Some(tiering.slow_node))?;
        sys::touch(ARENA_PAGE, pages, true, 1);
        sys::bind_memory(None)?;
        sample(0, pages, tiering.hot, ledger)?;
        set_step(ledger, LOADED);
        await_step(ledger, WORKING, 0)?;
        let begin = Instant::now();
        for pass in 0..tiering.passes {
            let at = begin + Duration::from_micros(tiering.pass_us * pass);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            tiering.pattern.pass(pass, |first, pages| {
                sys::touch(ARENA_PAGE + u64::from(first), u64::from(pages), true, 2);
            });
            sys::forget_translations(FLUSH_PAGES)?;
            if (pass + 1).is_multiple_of(tiering.look_every.max(1)) {
                sample(pass + 1, pages, tiering.hot, ledger)?;
            }
        }
        Ok(())
    };
    let code = i32::from(work().is_err());
    if code == 0 {
        set_step(ledger, DONE);
    }
    sys::exit_now(code)
}

/// Samples the pages of the arena on each node.
fn sample(passes: u64, pages: u64, hot: Option<(u32, u32)>, ledger: &Ledger) -> std::io::Result<()> {
    let number = usize::try_from(ledger.samples.load(Ordering::Acquire)).unwrap_or(LOOKS_MAX);
    let Some(row) = ledger.rows.get(number) else { return Ok(()) };
    row[0].store(passes, Ordering::Relaxed);
    let is_hot = |page: u64| {
        hot.is_some_and(|(first, pages)| (u64::from(first)..u64::from(first) + u64::from(pages)).contains(&page))
    };
    for (page, node) in (0..).zip(sys::nodes_of(ARENA_PAGE, pages)?) {
        let Some(node) = usize::try_from(node).ok().filter(|node| *node < NODES as usize) else { continue };
        row[1 + node].fetch_add(1, Ordering::Relaxed);
        if is_hot(page) {
            row[1 + NODES as usize + node].fetch_add(1, Ordering::Relaxed);
        }
    }
    ledger.samples.fetch_add(1, Ordering::Release);
    Ok(())
}
