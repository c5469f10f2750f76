//! Playing a pattern while the kernel's DAMON watches.

use isotherm_guest::job::Report;
use isotherm_guest::monitoring::{ARENA_PAGE, Addresses, PASSES_MAX, Region, Snapshot, Watch, Watched};
use isotherm_guest::patterns::Pattern;
use isotherm_texts::damon::{
    ADMIN, AddressRange, Attributes, CONTEXT, Context, NR_KDAMONDS, Operations, STATE, Scheme, Setting, Target,
};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Reporter;
use crate::machine::write;
use crate::sys::{self, Backing, Forked, PAGE};

/// Pages mapped and unmapped after each pass: more than the kernel drops one by one, so that it drops all translations.
const FLUSH_PAGES: u64 = 64;

/// Shared by player and watcher.
pub(crate) struct PassLog {
    /// 1 when all of the arena was touched.
    pub(crate) ready: AtomicU32,
    /// 1 when the player is to end.
    stop: AtomicU32,
    /// Passes begun.
    passes: AtomicU64,
    starts_ns: [AtomicU64; PASSES_MAX],
}

impl PassLog {
    /// When each pass began.
    pub(crate) fn starts(&self) -> Vec<u64> {
        let passes = usize::try_from(self.passes.load(Ordering::Acquire)).unwrap_or(PASSES_MAX).min(PASSES_MAX);
        self.starts_ns[..passes].iter().map(|start| start.load(Ordering::Relaxed)).collect()
    }
}

/// Does the job.
pub(crate) fn watch(watch: &Watch, reporter: &mut Reporter) -> Result<(), String> {
    if let Some(flaw) = watch.pattern.flaw() {
        return Err(format!("the pattern cannot be played: {flaw}"));
    }
    let log: &'static PassLog = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    let base = Instant::now();
    let pid = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Child => play(&watch.pattern, Duration::from_micros(watch.pass_us), base, log),
        Forked::Parent(pid) => pid,
    };
    let is_ready = || log.ready.load(Ordering::Acquire) == 1;
    while !is_ready() {
        sys::wait_while(&log.ready, 0, Duration::from_millis(100));
        if sys::has_ended(pid) {
            return Err("the player ended before its first pass".to_owned());
        }
    }
    let mappings = mappings_of(pid)?;
    let damon = Damon::on(watch, pid)?;
    let end = Duration::from_secs(watch.seconds);
    let begin = Instant::now();
    let mut snapshots = Vec::new();
    while begin.elapsed() < end {
        damon.state("update_schemes_tried_regions")?;
        snapshots.push(Snapshot { at_ns: since(base), regions: damon.regions()? });
        damon.state("clear_schemes_tried_regions")?;
    }
    damon.state("off")?;
    if sys::has_ended(pid) {
        return Err("the player ended while it was watched".to_owned());
    }
    log.stop.store(1, Ordering::Release);
    while !sys::has_ended(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let passes_ns = log.starts();
    reporter.say(&Report::Watched(Watched { mappings, passes_ns, snapshots }));
    Ok(())
}

/// Nanoseconds since then.
pub(crate) fn since(base: Instant) -> u64 {
    u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Pages of the largest arena that is touched wholly before the first pass: 1 GiB.
const TOUCHED_MAX: u32 = 1 << 18;

/// Lives as the player. Does not return.
pub(crate) fn play(pattern: &Pattern, every: Duration, base: Instant, log: &PassLog) -> ! {
    let done = || -> std::io::Result<()> {
        sys::map(ARENA_PAGE, u64::from(pattern.pages), Backing::Anonymous)?;
        // Of a larger arena only pages that the pattern touches are ever present.
        if pattern.pages <= TOUCHED_MAX {
            sys::touch(ARENA_PAGE, u64::from(pattern.pages), true, 1);
        }
        log.ready.store(1, Ordering::Release);
        sys::wake_all(&log.ready);
        let begin = Instant::now();
        for (pass, start) in (0u64..).zip(&log.starts_ns) {
            let at = begin + every * u32::try_from(pass).unwrap_or(u32::MAX);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if log.stop.load(Ordering::Acquire) == 1 {
                break;
            }
            start.store(since(base), Ordering::Relaxed);
            log.passes.store(pass + 1, Ordering::Release);
            pattern.pass(pass, |first, pages| {
                sys::touch(ARENA_PAGE + u64::from(first), u64::from(pages), true, 2);
            });
            sys::forget_translations(FLUSH_PAGES)?;
        }
        Ok(())
    };
    sys::exit_now(i32::from(done().is_err()))
}

/// `(first page, pages)` of each line of `/proc/PID/maps`.
fn mappings_of(pid: i32) -> Result<Vec<(u64, u64)>, String> {
    let path = format!("/proc/{pid}/maps");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let page = |text| Some(u64::from_str_radix(text, 16).ok()? / PAGE);
        let (start, end) = (page(start)?, page(end)?);
        // The kernel's vsyscall page is above all that a process can map.
        (end <= 1 << 35).then_some((start, end - start))
    };
    Ok(text.lines().filter_map(range).collect())
}

/// DAMON's files, for one context with one scheme that changes nothing.
struct Damon;

impl Damon {
    /// Begins to watch.
    fn on(watch: &Watch, pid: i32) -> Result<Self, String> {
        if !Path::new(ADMIN).exists() {
            return Err("this kernel has no DAMON with files in sysfs (CONFIG_DAMON_SYSFS)".to_owned());
        }
        let regions = (watch.addresses == Addresses::Fvaddr).then(|| {
            let end = ARENA_PAGE + u64::from(watch.pattern.pages);
            vec![AddressRange::new(ARENA_PAGE * PAGE, end * PAGE)]
        });
        let context = Context {
            operations: match watch.addresses {
                Addresses::Vaddr => Operations::Vaddr,
                Addresses::Fvaddr => Operations::Fvaddr,
            },
            addr_unit: 1,
            attributes: Attributes {
                sample_us: watch.sample_us,
                aggr_us: watch.aggr_us,
                update_us: 1_000_000,
                min_nr_regions: watch.min_regions.into(),
                max_nr_regions: watch.max_regions.into(),
                intervals_goal: None,
            },
            targets: vec![Target { pid: Some(pid.unsigned_abs()), regions }],
            // All regions.
            schemes: vec![Scheme { action: "stat".to_owned(), ..Scheme::default() }],
        };
        write(NR_KDAMONDS, "1")?;
        for Setting { path, value } in context.settings() {
            write(&path, &value)?;
        }
        let damon = Self;
        damon.state("on")?;
        Ok(damon)
    }

    fn state(&self, word: &str) -> Result<(), String> {
        write(STATE, word)
    }

    /// The regions that the scheme saw last.
    fn regions(&self) -> Result<Vec<Region>, String> {
        let folder = Path::new(CONTEXT).join("schemes/0/tried_regions");
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut regions = Vec::new();
        for entry in entries.flatten() {
            let place = entry.path();
            // The folder of regions also has a file with their sum.
            if !place.is_dir() {
                continue;
            }
            let number = |name: &str| -> Result<u64, String> {
                let path = place.join(name);
                let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                text.trim().parse().map_err(|_| format!("{}: `{}` is no number", path.display(), text.trim()))
            };
            let small = |name: &str| Ok::<_, String>(u32::try_from(number(name)?).unwrap_or(u32::MAX));
            regions.push(Region {
                start: number("start")?,
                end: number("end")?,
                nr_accesses: small("nr_accesses")?,
                age: small("age")?,
            });
        }
        regions.sort_unstable_by_key(|region| region.start);
        Ok(regions)
    }
}
