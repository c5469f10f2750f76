//! Measures the cost of scans, probes and flushes of the accessed-bit module, and of similar files of the kernel.

use isotherm_guest::job::Report;
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::pricing::{Act, Price, Priced, PricedMemory, Pricing};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::Reporter;
use crate::device::{CLEAR, Device, Process, Scan};
use crate::sys::{self, PAGE, PAGE_LEN};
use crate::target::{Area, Target};

/// Entries of one call of probes: `ISOTHERM_BATCH_MAX` of module/isotherm.h.
const BATCH: u64 = 4096;
/// Calls that are timed together if one is too short.
const CALLS: u64 = 1000;
/// Pages that an entry of level 2 and one of level 3 span.
const GIB_PAGES: u64 = 1 << 18;
const TOP_PAGES: u64 = 1 << 27;
/// Entries of a table.
const TABLE: u64 = 512;
const TOP_ENTRIES: u64 = 64;

/// `PAGEMAP_SCAN`, and the category of pages that are present (include/uapi/linux/fs.h, Linux 6.7).
const PAGEMAP_SCAN: u32 = 0xc060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;

/// Does the job.
pub(crate) fn price(task: &Pricing, reporter: &mut Reporter) -> Result<(), String> {
    if task.repeats == 0 || task.pages == 0 || !task.pages.is_multiple_of(BATCH) {
        return Err(format!("prices need a repeat and a multiple of {BATCH} pages: {task:?}"));
    }
    let device = Device::open()?;
    let mut priced = Priced::default();
    let area = |first, pages, stride, advice| Area { first: ARENA_PAGE + first, pages, stride, advice };
    let of = |memory| match memory {
        PricedMemory::Small => vec![area(0, task.pages, 1, libc::MADV_NOHUGEPAGE)],
        PricedMemory::Huge => vec![area(0, task.pages, 1, libc::MADV_HUGEPAGE)],
        PricedMemory::Sparse => vec![
            area(0, TOP_PAGES, GIB_PAGES, libc::MADV_NOHUGEPAGE),
            area(TOP_PAGES, (TOP_ENTRIES - 1) * TOP_PAGES, TOP_PAGES, libc::MADV_NOHUGEPAGE),
        ],
    };
    for memory in [PricedMemory::Small, PricedMemory::Huge, PricedMemory::Sparse] {
        let areas = of(memory);
        let target = Target::start(&areas)?;
        let process = device.process(target.pid)?;
        let mut stall =
            Stall { memory, repeats: task.repeats, device: &device, process, target: &target, areas, out: &mut priced };
        match memory {
            PricedMemory::Small => stall.small(task.pages)?,
            PricedMemory::Huge => stall.huge(task.pages)?,
            PricedMemory::Sparse => stall.sparse()?,
        }
        target.end()?;
    }
    reporter.say(&Report::Priced(priced));
    Ok(())
}

/// A process, and the measurements on it.
struct Stall<'a> {
    memory: PricedMemory,
    repeats: u32,
    device: &'a Device,
    process: Process<'a>,
    target: &'a Target,
    areas: Vec<Area>,
    out: &'a mut Priced,
}

/// Result of one measured act.
struct Done {
    nr_entries: u64,
    nr_young: u64,
    nr_calls: u64,
}

impl Stall<'_> {
    fn small(&mut self, pages: u64) -> Result<(), String> {
        self.timed(Act::Call, 0, &|_| Ok(()), &mut |stall| {
            (0..CALLS).try_for_each(|_| stall.device.version().map(drop))?;
            Ok(Done { nr_entries: CALLS, nr_young: 0, nr_calls: CALLS })
        })?;
        self.scans(0, pages, pages)?;
        self.scan(Act::ClearWritten, 0, pages, pages)?;
        self.scans(1, pages, pages / TABLE)?;
        self.probes(0, pages / BATCH, BATCH)?;
        self.probe(Act::TestClearAlone, 0, pages / BATCH, BATCH)?;
        self.probes(1, TABLE, (pages / TABLE).min(BATCH))?;
        self.timed(Act::Flush, 0, &Self::touch, &mut |stall| {
            (0..CALLS).try_for_each(|_| stall.process.flush())?;
            Ok(Done { nr_entries: CALLS, nr_young: 0, nr_calls: CALLS })
        })?;
        self.pagemap(pages)?;
        self.pagemap_scan(pages)?;
        self.files(pages, pages)
    }

    fn huge(&mut self, pages: u64) -> Result<(), String> {
        self.scans(0, pages, pages / TABLE)?;
        self.scan(Act::ClearWritten, 0, pages, pages / TABLE)?;
        self.scans(1, pages, pages / TABLE)?;
        self.probes(1, TABLE, (pages / TABLE).min(BATCH))?;
        self.files(pages, pages / TABLE)
    }

    fn sparse(&mut self) -> Result<(), String> {
        self.scans(2, TOP_PAGES, TABLE)?;
        self.probes(2, GIB_PAGES, TABLE)?;
        self.scans(3, TOP_ENTRIES * TOP_PAGES, TOP_ENTRIES)?;
        self.probes(3, TOP_PAGES, TOP_ENTRIES)
    }

    /// Prepares, acts and measures the time of the act, `repeats` times.
    fn timed(
        &mut self,
        act: Act,
        level: u8,
        ready: &dyn Fn(&Self) -> Result<(), String>,
        go: &mut dyn FnMut(&Self) -> Result<Done, String>,
    ) -> Result<(), String> {
        let fail = |why| format!("{}, {}, level {level}: {why}", self.memory.name(), act.name());
        let mut took_ns = Vec::new();
        let mut last = None;
        for repeat in 0..=self.repeats {
            ready(self).map_err(fail)?;
            let begin = Instant::now();
            let done = go(self).map_err(fail)?;
            let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if repeat > 0 {
                took_ns.push(took);
            }
            last = Some(done);
        }
        let Some(Done { nr_entries, nr_young, nr_calls }) = last else { return Ok(()) };
        self.out.prices.push(Price { memory: self.memory, act, level, nr_entries, nr_young, nr_calls, took_ns });
        Ok(())
    }

    /// Every entry accessed and written: cached translations are dropped first, so that the processor walks and sets bits.
    fn touch(&self) -> Result<(), String> {
        self.process.flush()?;
        self.areas.iter().try_for_each(|area| self.target.touch_area(area, true))
    }

    fn scans(&mut self, level: u8, pages: u64, entries: u64) -> Result<(), String> {
        self.scan(Act::Read, level, pages, entries)?;
        self.scan(Act::Clear, level, pages, entries)
    }

    /// Scans `pages` of the arena, in which `entries` entries answer.
    fn scan(&mut self, act: Act, level: u8, pages: u64, entries: u64) -> Result<(), String> {
        let scan = Scan {
            start: ARENA_PAGE * PAGE,
            end: (ARENA_PAGE + pages) * PAGE,
            level: level.into(),
            written: act == Act::ClearWritten,
            flags: if act == Act::Read { 0 } else { CLEAR },
        };
        let mut bitmaps = scan.bitmaps();
        let mut rest = scan.bitmaps();
        let clearing = Scan { flags: CLEAR, written: false, ..scan };
        // A huge page answers for each entry that it covers.
        let bits = scan.entries();
        let ready = |stall: &Self, rest: &mut [Vec<u64>; 4]| {
            if act != Act::Read {
                return stall.touch();
            }
            stall.process.scan_into(&clearing, rest)?;
            stall.process.flush()
        };
        let rest = std::cell::RefCell::new(&mut rest);
        self.timed(act, level, &|stall| ready(stall, &mut rest.borrow_mut()), &mut |stall| {
            let scanned = stall.process.scan_into(&scan, &mut bitmaps)?;
            let young = if act == Act::Read { 0 } else { bits };
            if (scanned.nr_present, scanned.nr_young) != (bits, young) {
                return Err(format!("{bits} entries, {young} of them accessed, were scanned as {scanned:?}"));
            }
            Ok(Done { nr_entries: entries, nr_young: young.min(entries), nr_calls: scanned.nr_calls })
        })?;
        let written: u64 = bitmaps[3].iter().map(|word| u64::from(word.count_ones())).sum();
        if act == Act::ClearWritten && written != bits {
            return Err(format!("{written} of {bits} entries were found written"));
        }
        Ok(())
    }

    fn probes(&mut self, level: u8, stride: u64, count: u64) -> Result<(), String> {
        self.probe(Act::Test, level, stride, count)?;
        self.probe(Act::TestClear, level, stride, count)
    }

    /// Probes `count` entries of the arena that are `stride` pages apart.
    fn probe(&mut self, act: Act, level: u8, stride: u64, count: u64) -> Result<(), String> {
        let entry = |index: u64| [(ARENA_PAGE + index * stride) * PAGE, u64::from(level)];
        let (flags, expected) = if act == Act::Test { (0, 0) } else { (CLEAR, 1) };
        let answers = |entries: &[[u64; 2]]| entries.iter().all(|entry| entry[1] >> 8 & 0xff == expected);
        let fresh = || (0..count).map(entry).collect::<Vec<_>>();
        let ready = |stall: &Self| {
            if act != Act::Test {
                return stall.touch();
            }
            stall.process.probe_all(&mut fresh(), CLEAR)?;
            stall.process.flush()
        };
        let size =
            if act == Act::TestClearAlone { 1 } else { usize::try_from(BATCH).map_err(|error| error.to_string())? };
        let mut entries = fresh();
        self.timed(act, level, &ready, &mut |stall| {
            // Answers are in bytes that must be zero in a request.
            entries.iter_mut().for_each(|entry| entry[1] = u64::from(level));
            let mut nr_calls = 0;
            for batch in entries.chunks_mut(size) {
                stall.process.probe_all(batch, flags)?;
                nr_calls += 1;
            }
            if !answers(&entries) {
                return Err(format!("not all of {count} probes answered {expected}"));
            }
            Ok(Done { nr_entries: count, nr_young: count * expected, nr_calls })
        })
    }

    fn pagemap(&mut self, pages: u64) -> Result<(), String> {
        let path = format!("/proc/{}/pagemap", self.target.pid);
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut words = vec![0u8; usize::try_from(pages * 8).map_err(|error| error.to_string())?];
        self.timed(Act::Pagemap, 0, &|_| Ok(()), &mut |_| {
            let mut nr_calls = 0;
            let mut at = ARENA_PAGE * 8;
            for part in words.chunks_mut(16 * PAGE_LEN) {
                file.read_exact_at(part, at).map_err(|error| format!("{path}: {error}"))?;
                at += part.len() as u64;
                nr_calls += 1;
            }
            Ok(Done { nr_entries: pages, nr_young: 0, nr_calls })
        })?;
        // Bit 63: present.
        let present = words.chunks(8).filter(|word| word[7] & 0x80 != 0).count() as u64;
        if present == pages { Ok(()) } else { Err(format!("{path}: {present} of {pages} pages are present")) }
    }

    fn pagemap_scan(&mut self, pages: u64) -> Result<(), String> {
        let path = format!("/proc/{}/pagemap", self.target.pid);
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        let (start, end) = (ARENA_PAGE * PAGE, (ARENA_PAGE + pages) * PAGE);
        // Start, end and categories of the ranges found.
        let mut found = [[0u64; 3]; 16];
        let mut ask = || {
            let vec = found.as_mut_ptr() as u64;
            let mut words = [96, 0, start, end, 0, vec, found.len() as u64, 0, 0, PAGE_IS_PRESENT, 0, PAGE_IS_PRESENT];
            sys::ioctl(&file, PAGEMAP_SCAN, words.as_mut_ptr() as u64).map(|()| words[4])
        };
        // Linux before 6.7 has none.
        if ask() == Err(libc::ENOTTY) {
            return Ok(());
        }
        self.timed(Act::PagemapScan, 0, &|_| Ok(()), &mut |_| match ask() {
            Ok(walked) if walked == end => Ok(Done { nr_entries: pages, nr_young: 0, nr_calls: 1 }),
            Ok(walked) => Err(format!("it ended at {walked:#x}")),
            Err(errno) => Err(format!("errno {errno}")),
        })?;
        if found[0][..2] == [start, end] { Ok(()) } else { Err(format!("{path}: the first range is {:x?}", found[0])) }
    }

    /// The two files of every kernel.
    fn files(&mut self, pages: u64, entries: u64) -> Result<(), String> {
        let folder = format!("/proc/{}", self.target.pid);
        let (clear, smaps) = (format!("{folder}/clear_refs"), format!("{folder}/smaps"));
        let done = Done { nr_entries: entries, nr_young: entries, nr_calls: 1 };
        let again = || Done { ..done };
        let mut text = String::new();
        self.timed(Act::Smaps, 0, &Self::touch, &mut |_| {
            text = std::fs::read_to_string(&smaps).map_err(|error| format!("{smaps}: {error}"))?;
            Ok(again())
        })?;
        let kib = |text: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("Referenced:")?.trim().strip_suffix(" kB"));
            lines.filter_map(|kib| kib.parse::<u64>().ok()).sum::<u64>()
        };
        if kib(&text) < pages * 4 {
            return Err(format!("{smaps}: {} KiB of {} are referenced", kib(&text), pages * 4));
        }
        self.timed(Act::ClearRefs, 0, &Self::touch, &mut |_| {
            std::fs::write(&clear, "1").map_err(|error| format!("{clear}: {error}"))?;
            Ok(again())
        })?;
        let left = kib(&std::fs::read_to_string(&smaps).map_err(|error| format!("{smaps}: {error}"))?);
        if left < pages * 4 / 2 { Ok(()) } else { Err(format!("{clear}: {left} KiB are referenced after it")) }
    }
}
