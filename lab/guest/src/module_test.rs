//! Tests of the accessed-bit module, made by one process on another that follows its orders.

use isotherm_guest::job::Report;
use isotherm_guest::living::{ModuleTest, ModuleTested};
use isotherm_guest::monitoring::ARENA_PAGE;
use std::fs::File;

use crate::Reporter;
use crate::device::{CLEAR, Device, Scan};
use crate::sys::{self, PAGE};
use crate::target::{Area, Target};

mod memory;
mod refusals;
mod storm;

/// Small pages of the arena; the memory of two huge pages follows.
const PAGES: u64 = 16384;
const HUGE_PAGE: u64 = ARENA_PAGE + (1 << 18);
const HUGE_PAGES: u64 = 1024;
const START: u64 = ARENA_PAGE * PAGE;
const BYTES: u64 = PAGES * PAGE;

/// Does the job.
pub(crate) fn test(test: &ModuleTest, reporter: &mut Reporter) -> Result<(), String> {
    let warnings = warnings()?;
    let device = Device::open()?;
    let mut tested = ModuleTested::default();
    let small = Area { first: ARENA_PAGE, pages: PAGES, stride: 1, advice: libc::MADV_NOHUGEPAGE };
    let huge = Area { first: HUGE_PAGE, pages: HUGE_PAGES, stride: 1, advice: libc::MADV_HUGEPAGE };
    let target = Target::start(&[small, huge])?;
    let process = device.process(target.pid)?;
    let mut run = |name: &str, check: &mut dyn FnMut() -> Result<(), String>| {
        check().map_err(|why| format!("{name}: {why}"))?;
        tested.checks.push(name.to_owned());
        Ok::<_, String>(())
    };
    let scan =
        |level, written, flags| process.scan(&Scan { start: START, end: span_end(level), level, written, flags });
    run("version", &mut || same("levels and shifts", &device.version()?, &(1, 4, 0x271e_150c)))?;
    run("leaves", &mut || {
        scan(0, false, CLEAR)?;
        process.flush()?;
        same("young at rest", &scan(0, false, 0)?.nr_young, &0)?;
        for writes in [false, true] {
            target.touch(ARENA_PAGE + 100, 256, writes)?;
            let found = scan(0, false, CLEAR)?;
            same("present", &found.nr_present, &PAGES)?;
            same("young", &found.young(), &(100..356).collect::<Vec<u64>>())?;
            process.flush()?;
            same("young after it", &scan(0, false, 0)?.nr_young, &0)?;
        }
        Ok(())
    })?;
    run("upper levels", &mut || {
        for level in 1..4 {
            scan(level, false, CLEAR)?;
            process.flush()?;
            same(&format!("level {level} at rest"), &scan(level, false, 0)?.nr_young, &0)?;
            target.touch(ARENA_PAGE + 600, 1, false)?;
            let expected = if level == 1 { vec![1] } else { vec![0] };
            same(&format!("level {level}"), &scan(level, false, 0)?.young(), &expected)?;
        }
        Ok(())
    })?;
    run("written", &mut || {
        scan(0, true, CLEAR)?;
        same("written at rest", &scan(0, true, 0)?.written(), &Vec::new())?;
        target.touch(ARENA_PAGE + 1000, 64, true)?;
        target.touch(ARENA_PAGE + 2000, 64, false)?;
        same("written", &scan(0, true, CLEAR)?.written(), &(1000..1064).collect::<Vec<u64>>())?;
        same("written after it", &scan(0, true, 0)?.written(), &Vec::new())?;
        // Without a flush of ours: the scan itself makes processors drop their cached accessed bit.
        target.touch(ARENA_PAGE + 1000, 64, true)?;
        same("written again", &scan(0, true, 0)?.written(), &(1000..1064).collect::<Vec<u64>>())
    })?;
    run("a huge page is one", &mut || {
        let (start, end) = (HUGE_PAGE * PAGE, (HUGE_PAGE + HUGE_PAGES) * PAGE);
        let scan = |flags| process.scan(&Scan { start, end, level: 0, written: true, flags });
        same("huge", &scan(CLEAR)?.huge().len(), &1024)?;
        process.flush()?;
        target.touch(HUGE_PAGE + 700, 1, true)?;
        let found = scan(CLEAR)?;
        same("young", &found.young(), &(512..1024).collect::<Vec<u64>>())?;
        same("written", &found.written(), &(512..1024).collect::<Vec<u64>>())?;
        same("probe", &process.probe(HUGE_PAGE * PAGE, 0, 0)?, &(1, 0))
    })?;
    run("probe", &mut || {
        same("unmapped", &process.probe(START - PAGE, 0, 0)?.1, &2)?;
        process.probe(START, 0, CLEAR)?;
        process.flush()?;
        same("idle", &process.probe(START, 0, 0)?, &(0, 0))?;
        target.touch(ARENA_PAGE, 1, false)?;
        same("accessed", &process.probe(START, 0, 0)?, &(0, 1))
    })?;
    run("activate", &mut || {
        let addresses: Vec<u64> = (0..512).map(|page| START + page * PAGE).collect();
        same("active before", &active(target.pid, 512)?, &0)?;
        for _ in 0..2 {
            same("marked", &process.activate(&addresses)?, &512)?;
        }
        // The last pages wait in per-CPU lists of at most 31 pages.
        let active = active(target.pid, 512)?;
        if active >= 512 - 64 { Ok(()) } else { Err(format!("{active} of 512 pages are active")) }
    })?;
    run("refusals", &mut || refusals::refused(&device, &process, START))?;
    // Memory that a first storm allocates and keeps, such as caches of page tables, is allocated before the measured one.
    storm::blow(&device, &ModuleTest { storm_calls: test.storm_calls.min(300), storm_seconds: 0, ..test.clone() })?;
    let before = memory::Memory::read()?;
    storm::blow(&device, test)?;
    tested.checks.push("storm".to_owned());
    tested.memory = memory::settled(&before)?;
    tested.checks.push("memory as before".to_owned());
    target.end()?;
    drop(device);
    sys::unload_module("isotherm").map_err(|error| format!("the module does not unload: {error}"))?;
    tested.checks.push("unloaded".to_owned());
    let after = self::warnings()?;
    if after.len() > warnings.len() {
        return Err(format!("the kernel's log: {}", after[warnings.len()..].join("\n")));
    }
    tested.checks.push("nothing in the log".to_owned());
    reporter.say(&Report::ModuleTested(tested));
    Ok(())
}

/// The arena's end, as far as entries of the level go.
fn span_end(level: u32) -> u64 {
    (START + BYTES).next_multiple_of(1 << (12 + 9 * level))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, expected: &T) -> Result<(), String> {
    let text = |value: &T| format!("{value:?}").chars().take(200).collect::<String>();
    if seen == expected { Ok(()) } else { Err(format!("{what}: {} instead of {}", text(seen), text(expected))) }
}

/// Number of the arena's first pages on the kernel's active lists.
fn active(pid: i32, pages: u64) -> Result<usize, String> {
    use std::os::unix::fs::FileExt;
    let word = |path: &str, file: &File, index: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, index * 8).map_err(|error| format!("{path}: {error}"))?;
        Ok::<_, String>(u64::from_le_bytes(bytes))
    };
    let open = |path: &str| File::open(path).map_err(|error| format!("{path}: {error}"));
    let path = format!("/proc/{pid}/pagemap");
    let (frames, flags) = (open(&path)?, open("/proc/kpageflags")?);
    let mut active = 0;
    for page in ARENA_PAGE..ARENA_PAGE + pages {
        let frame = word(&path, &frames, page)? & ((1 << 55) - 1);
        active += usize::from(word("/proc/kpageflags", &flags, frame)? & (1 << 6) != 0);
    }
    Ok(active)
}

/// Lines of the kernel's log at warning level and above. Prefixes of lines about the clocks of an emulated machine whose processors have to
/// wait for the host's processors.
const ABOUT_CLOCKS: [&str; 3] = ["clocksource: ", "hrtimer: interrupt took ", "TSC found unstable after boot"];

fn warnings() -> Result<Vec<String>, String> {
    let lines = sys::kernel_log().map_err(|error| format!("/dev/kmsg: {error}"))?;
    let is_warning = |line: &String| {
        let priority: Option<u32> = line.split(',').next().and_then(|number| number.parse().ok());
        let is_of_clocks =
            ABOUT_CLOCKS.iter().any(|start| line.split_once(';').is_some_and(|(_, text)| text.starts_with(start)));
        priority.is_some_and(|priority| priority % 8 <= 4) && !is_of_clocks
    };
    Ok(lines.into_iter().filter(is_warning).collect())
}
