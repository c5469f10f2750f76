//! Actions of schemes on processes, by `process_madvise` (docs/spec/live-linux.md#2-interfaces-that-act).

use super::{LiveHost, LiveTarget, answer, measured, measured_with_workers};
use crate::maps::{Mapping, maps};
use crate::module::NEEDS_MODULE;
use crate::pagemap::{Categories, PageRegion, huge_bytes, is_huge, pagemap, pagemap_scan};
use crate::process::Process;
use crate::sys::{Advice, IOVECS_MAX};
use crate::{LiveError, sys};
use isotherm_core::host::{Action, AddressRange, Applied, Applying, HostError, Order, SchemeCapabilities, TargetId};
use std::io;

/// `lru-deprio` is `MADV_COLD`: pages leave the active list, or their young generation, and their accessed bits are cleared.
const ACTIONS: [(Action, Advice); 5] = [
    (Action::Willneed, Advice::WillNeed),
    (Action::Cold, Advice::Cold),
    (Action::LruDeprio, Advice::Cold),
    (Action::Pageout, Advice::PageOut),
    (Action::Collapse, Advice::Collapse),
];
/// Bytes whose pages are marked accessed at once.
const SORTED_AT_ONCE: u64 = 16 << 20;
/// Number of CAP_SYS_NICE.
const SYS_NICE: u32 = 23;
const PHYSICAL: &str = "this host acts on processes; on physical memory DAMON does, with `engine = \"kernel\"`";
const NEEDS_NICE: &str = "process_madvise on another process needs CAP_SYS_NICE: run as root, or give the service AmbientCapabilities=CAP_SYS_NICE CAP_SYS_PTRACE";
const NEEDS_CALL: &str = "process_madvise needs a real machine with Linux 5.10 or later";
const NO_CALL: &str = "process_madvise lets no process do this to another: `hugepage` and `nohugepage` are done by DAMON with `engine = \"kernel\"`, migration by `[tiering]`";
const NO_FILTERS: &str =
    "process_madvise asks no page filters: remove them, or let DAMON do it with `engine = \"kernel\"`";

impl Applying for LiveHost {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        let Some(LiveTarget::Process(_)) = self.targets.get(&target) else { return SchemeCapabilities::default() };
        let mut actions = vec![Action::Stat];
        if self.may_advise().is_ok() {
            actions.extend(ACTIONS.map(|(action, _)| action));
        }
        if self.module.is_some() {
            actions.push(Action::LruPrio);
        }
        SchemeCapabilities { actions, ..SchemeCapabilities::default() }
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        let process = self.process(target, PHYSICAL)?;
        if !order.filter.is_open() {
            return Err(HostError::NotHere(NO_FILTERS));
        }
        if order.action == Action::Stat {
            return Ok(Applied::default());
        }
        if order.action == Action::LruPrio {
            let (bytes, spent) = measured(|| self.prioritise(process, order.range, order.marks_accessed));
            let bytes = bytes.map_err(|error| answer(target, error))?;
            return Ok(Applied { bytes, spent, ..Applied::default() });
        }
        let Some(&(_, advice)) = ACTIONS.iter().find(|(action, _)| *action == order.action) else {
            return Err(HostError::NotHere(NO_CALL));
        };
        self.may_advise().map_err(HostError::NotHere)?;
        let (bytes, spent) = measured_with_workers(|| self.advise(process, order.range, advice));
        let bytes = bytes.map_err(|error| answer(target, error))?;
        Ok(Applied { bytes, spent, ..Applied::default() })
    }
}

impl LiveHost {
    /// Whether `process_madvise` may be called on other processes, or the feature that is needed for it.
    fn may_advise(&self) -> Result<(), &'static str> {
        if !self.root.is_real() {
            return Err(NEEDS_CALL);
        }
        let status = self.root.read("/proc/self/status").unwrap_or_default();
        if has_capability(&status, SYS_NICE) { Ok(()) } else { Err(NEEDS_NICE) }
    }

    /// Advises the mapped parts of a range. Returns the bytes if the whole range is mapped and was advised, else 0, as the kernel's own
    /// monitor counts. `cold` and `pageout` would split a huge page that is partly in the range, so such parts at its ends are left out.
    fn advise(&self, process: &Process, range: AddressRange, advice: Advice) -> Result<u64, LiveError> {
        let Some(pidfd) = process.pidfd() else { return Ok(0) };
        let mut range = inward(range, sys::page_bytes());
        if matches!(advice, Advice::Cold | Advice::PageOut) && !range.is_empty() {
            let (start_is_huge, end_is_huge) = (is_huge(process, range.start)?, is_huge(process, range.end - 1)?);
            range = without_parts(range, huge_bytes(), start_is_huge, end_is_huge);
        }
        let mappings = maps(process)?;
        let parts = parts(range, &mappings);
        if advice == Advice::PageOut {
            self.refuse_without_swap(swap_needed(process, &parts)?)?;
        }
        let ranges: Vec<(u64, u64)> = parts.iter().map(|(part, _)| (part.start, part.len())).collect();
        process.check()?;
        let pidfd = pidfd.try_clone().map_err(|error| LiveError::io("advise", &process.path(""), error))?;
        let advise = move || advise_all(&ranges, |ranges| sys::process_madvise(&pidfd, ranges, advice));
        let advised = self.root.blocking("advise", &format!("process {}", process.pid()), advise)?;
        match advised {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(process.gone()),
            Err(error) => Err(LiveError::io("advise", &process.path(""), error)),
            Ok(advised) => {
                process.check()?;
                Ok(if advised == range.len() { advised } else { 0 })
            }
        }
    }

    /// Marks the pages of a range as accessed, twice unless `once`: once makes a page of the inactive list referenced, and twice active
    /// (`folio_mark_accessed`, mm/swap.c). Generations count two references, and keep it where it is. Returns the bytes that were
    /// present.
    fn prioritise(&self, process: &Process, range: AddressRange, once: bool) -> Result<u64, LiveError> {
        let module = self.module.as_ref().ok_or_else(|| LiveError::Refused(NEEDS_MODULE.to_owned()))?;
        let page_bytes = sys::page_bytes();
        let mut bytes = 0;
        let mut start = inward(range, page_bytes).start;
        let end = inward(range, page_bytes).end;
        while start < end {
            let part = AddressRange::new(start, end.min(start.saturating_add(SORTED_AT_ONCE)));
            let entries = pagemap(process, part)?;
            let is_there = entries.iter().map(|entry| entry.is_present());
            let pages: Vec<u64> =
                (0..).zip(is_there).filter(|(_, is)| *is).map(|(nth, _): (u64, _)| start + nth * page_bytes).collect();
            if !pages.is_empty() {
                if !once {
                    module.activate(process, &pages)?;
                }
                bytes += module.activate(process, &pages)?.saturating_mul(page_bytes);
            }
            start = part.end;
        }
        Ok(bytes)
    }

    /// Without free swap `MADV_PAGEOUT` returns success, leaves the pages in memory, and activates all of them.
    fn refuse_without_swap(&self, needed: u64) -> Result<(), LiveError> {
        let free = swap_free_bytes(&self.root.read("/proc/meminfo")?).unwrap_or(0);
        if needed > free {
            return Err(LiveError::Refused(format!(
                "pageout of {needed} bytes of anonymous memory with {free} bytes of free swap would only make its pages active: add swap, or limit the scheme to file mappings"
            )));
        }
        Ok(())
    }
}

/// Bytes of these parts that are present and go to swap on reclaim. Before Linux 6.7 all bytes that may go to swap count.
fn swap_needed(process: &Process, parts: &[(AddressRange, &Mapping)]) -> Result<u64, LiveError> {
    let mut needed = 0;
    for (part, mapping) in parts.iter().filter(|(_, mapping)| mapping.may_need_swap()) {
        needed += match pagemap_scan(process, *part, Categories::PRESENT, Categories::FILE)? {
            None => part.len(),
            Some(regions) => {
                // Pages of shared memory count as file pages; in a private mapping, file pages are those not written.
                let goes = |region: &&PageRegion| mapping.is_shared || !region.categories().has(Categories::FILE);
                regions.iter().filter(goes).map(|region| region.end - region.start).sum()
            }
        };
    }
    Ok(needed)
}

/// The whole pages inside a range.
fn inward(range: AddressRange, page_bytes: u64) -> AddressRange {
    let start = range.start.div_ceil(page_bytes).saturating_mul(page_bytes);
    AddressRange::new(start, (range.end / page_bytes * page_bytes).max(start))
}

/// A range without partial huge pages at its start and end.
fn without_parts(range: AddressRange, huge_bytes: u64, start_is_huge: bool, end_is_huge: bool) -> AddressRange {
    let start = if start_is_huge { range.start.next_multiple_of(huge_bytes) } else { range.start };
    let end = if end_is_huge { range.end / huge_bytes * huge_bytes } else { range.end };
    AddressRange::new(start, end.max(start))
}

/// The mapped parts of a range, each within one mapping.
fn parts(range: AddressRange, mappings: &[Mapping]) -> Vec<(AddressRange, &Mapping)> {
    let within = mappings.iter().filter(|mapping| mapping.range.overlaps(range));
    let part =
        |mapping: &Mapping| AddressRange::new(mapping.range.start.max(range.start), mapping.range.end.min(range.end));
    within.map(|mapping| (part(mapping), mapping)).collect()
}

/// Advises ranges `(start, bytes)` in batches: continues after the advised bytes, and skips a refused range. Returns the bytes advised.
///
/// # Errors
/// The process has ended, or may not be advised at all.
fn advise_all(ranges: &[(u64, u64)], mut advise: impl FnMut(&[(u64, u64)]) -> io::Result<u64>) -> io::Result<u64> {
    let mut left = ranges.to_vec();
    let (mut first, mut total) = (0, 0);
    while first < left.len() {
        let batch = &left[first..left.len().min(first + IOVECS_MAX)];
        match advise(batch) {
            Ok(0) => first += 1,
            Ok(mut advised) => {
                total += advised;
                while let Some((start, bytes)) = left.get_mut(first).filter(|_| advised > 0) {
                    let part = advised.min(*bytes);
                    (*start, *bytes, advised) = (*start + part, *bytes - part, advised - part);
                    first += usize::from(*bytes == 0);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ESRCH | libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EBADF)
                ) =>
            {
                return Err(error);
            }
            // A new hole, locked memory, device memory or contention: skip this range.
            Err(_) => first += 1,
        }
    }
    Ok(total)
}

/// Whether `CapEff` of `/proc/PID/status` has a capability.
fn has_capability(status: &str, number: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    set.is_some_and(|set| set >> number & 1 == 1)
}

/// `SwapFree` of `/proc/meminfo`.
fn swap_free_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SwapFree:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn errno(number: i32) -> io::Result<u64> {
        Err(io::Error::from_raw_os_error(number))
    }

    /// A kernel that advises up to the first bad range, as observed in docs/spec/live-linux.md#2-interfaces-that-act.
    fn kernel(bad: u64, most: u64) -> impl FnMut(&[(u64, u64)]) -> io::Result<u64> {
        move |ranges| {
            if ranges.len() > 1024 {
                return errno(libc::EINVAL);
            }
            let good: u64 = ranges.iter().take_while(|(start, _)| *start != bad).map(|(_, bytes)| bytes).sum();
            if good == 0 { errno(libc::ENOMEM) } else { Ok(good.min(most)) }
        }
    }

    #[test]
    fn short_answers_are_resumed_and_bad_ranges_passed_over() {
        let ranges = [(0, 10), (100, 20), (200, 30)];
        let all = |bad, most| advise_all(&ranges, kernel(bad, most)).unwrap();
        assert_eq!((all(9999, u64::MAX), all(9999, 7)), (60, 60));
        assert_eq!((all(0, u64::MAX), all(100, u64::MAX), all(200, 8)), (50, 40, 30));
        let many: Vec<(u64, u64)> = (0..3000).map(|start| (start * 10, 4)).collect();
        assert_eq!(advise_all(&many, kernel(20_480, u64::MAX)).unwrap(), 2999 * 4);
        for fatal in [libc::ESRCH, libc::EPERM] {
            assert_eq!(advise_all(&ranges, |_| errno(fatal)).unwrap_err().raw_os_error(), Some(fatal));
        }
        assert_eq!(advise_all(&ranges, |_| errno(libc::EINVAL)).unwrap(), 0);
        assert_eq!(advise_all(&ranges, |_| Ok(0)).unwrap(), 0, "it ends even so");
    }

    #[test]
    fn a_range_is_cut_into_whole_pages_of_mappings() {
        assert_eq!(inward(AddressRange::new(1, 8193), 4096), AddressRange::new(4096, 8192));
        assert_eq!(inward(AddressRange::new(4097, 8191), 4096).len(), 0);
        assert_eq!(inward(AddressRange::new(1, 70_000), 65_536).len(), 0, "pages may be large");
        let mappings = isotherm_texts::maps::parse("1000-3000 rw-p 0 0:0 0\n5000-9000 r--p 0 0:0 3 /f\n").unwrap();
        let cut = |start, end| {
            parts(AddressRange::new(start, end), &mappings)
                .iter()
                .map(|(part, _)| (part.start, part.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(0x2000, 0x6000), [(0x2000, 0x3000), (0x5000, 0x6000)]);
        assert_eq!(cut(0x3000, 0x5000), []);
    }

    #[test]
    fn huge_pages_are_treated_whole_or_not_at_all() {
        const HUGE: u64 = 2 << 20;
        let cut = |start, end, first, last| {
            let range = without_parts(AddressRange::new(start, end), HUGE, first, last);
            (range.start, range.end)
        };
        assert_eq!(cut(HUGE, 3 * HUGE, true, true), (HUGE, 3 * HUGE), "whole ones stay");
        assert_eq!(cut(4096, 3 * HUGE - 4096, true, true), (HUGE, 2 * HUGE));
        assert_eq!(cut(4096, 3 * HUGE - 4096, true, false), (HUGE, 3 * HUGE - 4096));
        assert_eq!(cut(4096, 3 * HUGE - 4096, false, true), (4096, 2 * HUGE));
        assert_eq!(cut(4096, 8192, true, true), (HUGE, HUGE), "nothing is left of one page in a huge one");
    }

    #[test]
    fn pageout_of_anonymous_memory_wants_free_swap() {
        let folder = tempfile::tempdir().unwrap();
        let host = LiveHost::new(crate::Root::below(folder.path()));
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        for (free, is_refused) in [("0 kB", true), ("4 kB", true), ("8 kB", false), ("", true)] {
            std::fs::write(folder.path().join("proc/meminfo"), format!("SwapTotal: 9 kB\nSwapFree:  {free}\n"))
                .unwrap();
            assert_eq!(host.refuse_without_swap(8192).is_err(), is_refused, "{free}");
            assert!(host.refuse_without_swap(0).is_ok(), "files need no swap");
        }
    }

    #[test]
    fn capabilities_and_swap_are_read() {
        let status = "Name:\tx\nCapEff:\t0000000000800000\n";
        assert!(has_capability(status, 23) && !has_capability(status, 22));
        assert!(!has_capability("CapEff:\tzz\n", 23) && !has_capability("", 23));
        assert_eq!(swap_free_bytes("SwapFree:       18446744073709551615 kB\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            has_capability(&format!("CapEff:{text}"), 23);
            swap_free_bytes(&format!("SwapFree:{text}"));
        }
    }
}
