//! Tiering: areas, scans of accessed pages by the module, nodes of pages and moves by `move_pages`.

use super::marks::Marks;
use super::nodes::{node_memory, nodes};
use super::{LiveHost, LiveTarget, answer, measured, measured_with_workers};
use crate::module::{Look, Module, NEEDS_MODULE, ScanResult};
use crate::pagemap::{huge_bytes, is_huge, pagemap};
use crate::process::{Life, Process};
use crate::smaps::{SmapsArea, smaps};
use crate::{LiveError, Root, sys};
use isotherm_core::host::{
    AddressRange, Area, AreaKind, Flow, HostError, Level, MoveOrder, NodeId, NodeMemory, PageMarks, PageMove,
    ScanFilter, Scanned, ScannedPage, TargetId, Tiering, TieringCapabilities,
};
use isotherm_units::{Duration, PAGE_BYTES};
use std::collections::BTreeMap;
use std::io;

const PHYSICAL: &str = "this is asked of processes: physical memory has no areas, and its pages are moved by DAMON";
const REAL_ROOT: &str = "nodes of pages are told by a system call, which needs a real machine and not a tree of files";
/// Pages of one `move_pages`, and entries scanned at once.
const BATCH: usize = 4096;
/// Pages under one table of the leaf level.
const TABLE_PAGES: u64 = 512;

impl Tiering for LiveHost {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        let is_real = self.root.is_real();
        let has_calls = is_real && sys::query_nodes(std::process::id(), &[]).is_ok();
        TieringCapabilities {
            nodes: nodes(&self.root),
            spaces: true,
            scan_accessed: self.module.is_some(),
            page_nodes: has_calls,
            node_memory: self.root.has("/proc/zoneinfo"),
            migrate: has_calls,
            knows_active: false,
        }
    }

    fn spaces(&mut self, out: &mut Vec<TargetId>) -> Result<(), HostError> {
        let lives =
            |target: &LiveTarget| matches!(target, LiveTarget::Process(process) if process.life() == Life::Same);
        out.extend(self.targets.iter().filter(|(_, target)| lives(target)).map(|(&number, _)| number));
        Ok(())
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        // Areas are needed only for scans, and `smaps` walks the page tables.
        let (process, _) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
        let areas = smaps(process).map_err(|error| answer(target, error))?;
        let is_numa = nodes(&self.root).iter().filter(|node| node.has_memory).count() > 1;
        let bound = if is_numa { process.read("numa_maps").unwrap_or_default() } else { String::new() };
        let bound = bound_starts(&bound);
        let area = |area: &SmapsArea| Area { range: area.mapping.range, kind: kind_of(area, &bound) };
        let ranges: Vec<AddressRange> = areas.iter().map(|area| area.mapping.range).collect();
        out.extend(areas.iter().map(area));
        if let Some(marks) = self.marks.get_mut(&target) {
            marks.keep_only(&ranges, sys::page_bytes());
        }
        Ok(())
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        let mut marks = self.marks.remove(&target).unwrap_or_default();
        let (scanned, spent) = measured(|| {
            let (process, module) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
            let nodes: Vec<NodeId> =
                nodes(&self.root).iter().filter(|node| node.has_memory).map(|node| node.node).collect();
            let mut scan = Scan { process, module, nodes, marks: &mut marks, filter };
            scan.run(range).map_err(|error| answer(target, error))
        });
        if !matches!(scanned, Err(HostError::Gone(_))) {
            self.marks.insert(target, marks);
        }
        scanned.map(|next| Scanned { next, spent })
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        let process = self.process(target, PHYSICAL)?;
        if !self.root.is_real() {
            return Err(HostError::NotHere(REAL_ROOT));
        }
        let nodes = nodes_of(process, addresses).map_err(|error| answer(target, error))?;
        out.copy_from_slice(&nodes);
        Ok(())
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        let process = self.process(target, PHYSICAL)?;
        if !self.root.is_real() {
            return Err(HostError::NotHere(REAL_ROOT));
        }
        if order.only_active {
            return Err(HostError::NotHere("which pages stand among the active ones is not known here"));
        }
        assert_eq!(order.pages.len(), results.len(), "one result a page");
        let all = nodes(&self.root);
        let is_top = |node: NodeId| all.iter().any(|other| other.node == node && other.is_top_tier);
        let room = if order.keeps_high_watermark {
            let memory = node_memory(&self.root, order.to).map_err(|error| answer(target, error))?;
            memory.map_or(0, |memory| memory.free.saturating_sub(memory.high))
        } else {
            u64::MAX
        };
        let (moved, spent) = measured_with_workers(|| -> Result<(), LiveError> {
            let before = nodes_of(process, order.pages)?;
            let judge = |at: Option<NodeId>| match at {
                None => Some(PageMove::NotPresent),
                Some(at) if at == order.to => Some(PageMove::SameNode),
                Some(at) if order.only_promotes && is_top(at) => Some(PageMove::TopTier),
                Some(_) => None,
            };
            let (mut left, mut taken) = (Vec::new(), 0);
            for (index, (&at, result)) in before.iter().zip(results.iter_mut()).enumerate() {
                if let Some(judged) = judge(at) {
                    *result = judged;
                    continue;
                }
                // The size of a page matters only if room is limited.
                let pages = if order.keeps_high_watermark { folio_pages(process, order.pages[index])? } else { 1 };
                if taken + u64::from(pages) <= room {
                    taken += u64::from(pages);
                    left.push(index);
                } else {
                    *result = PageMove::BelowWatermark;
                }
            }
            move_some(&self.root, process, order, &left, results)
        });
        moved.map_err(|error| answer(target, error))?;
        Ok(spent)
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        if !self.root.has("/proc/zoneinfo") {
            return Err(HostError::NotHere("/proc/zoneinfo is missing: is /proc mounted?"));
        }
        node_memory(&self.root, node).map_err(|error| HostError::Failed(error.to_string()))
    }
}

/// Moves these pages of an order, reads their nodes afterwards, and retries busy ones once.
fn move_some(
    root: &Root,
    process: &Process,
    order: &MoveOrder<'_>,
    left: &[usize],
    results: &mut [PageMove],
) -> Result<(), LiveError> {
    let to = i32::try_from(order.to.0).unwrap_or(-1);
    let mut left = left.to_vec();
    for _ in 0..2 {
        for batch in left.chunks(BATCH) {
            let pages: Vec<u64> = batch.iter().map(|&index| order.pages[index]).collect();
            let (pid, moved) = (process.pid(), pages.clone());
            let status = root
                .blocking("move pages of", &format!("process {pid}"), move || sys::move_to_node(pid, &moved, to))?
                .map_err(|error| call_failed(process, "move pages of", error))?;
            // The kernel gives up at a page that it cannot move, and reports nothing for later pages, so their nodes decide.
            let after = nodes_of(process, &pages)?;
            for ((&index, status), at) in batch.iter().zip(status).zip(after) {
                results[index] = if at == Some(order.to) {
                    PageMove::Moved(folio_pages(process, order.pages[index])?)
                } else {
                    verdict(status, at)
                };
            }
        }
        left.retain(|&index| results[index] == PageMove::Busy);
    }
    Ok(())
}

/// Result for a page that is not on the target node, by its status of `move_pages`.
fn verdict(status: i32, at: Option<NodeId>) -> PageMove {
    match -i64::from(status) {
        _ if at.is_none() => PageMove::NotPresent,
        errno if errno == i64::from(libc::EACCES) => PageMove::Shared,
        errno if errno == i64::from(libc::EIO) => PageMove::Dirty,
        errno if errno == i64::from(libc::ENOMEM) => PageMove::Full,
        _ => PageMove::Busy,
    }
}

/// The node of each page; `None` for a page that is not present.
fn nodes_of(process: &Process, addresses: &[u64]) -> Result<Vec<Option<NodeId>>, LiveError> {
    let mut nodes = Vec::with_capacity(addresses.len());
    for batch in addresses.chunks(BATCH) {
        let status = sys::query_nodes(process.pid(), batch)
            .map_err(|error| call_failed(process, "ask the nodes of pages of", error))?;
        nodes.extend(status.into_iter().map(|node| u32::try_from(node).ok().map(NodeId)));
    }
    process.check()?;
    Ok(nodes)
}

fn call_failed(process: &Process, what: &'static str, error: io::Error) -> LiveError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => process.gone(),
        _ => LiveError::io(what, &process.path(""), error),
    }
}

/// Pages of 4 KiB in a page of this kernel.
fn base_pages() -> u32 {
    u32::try_from(sys::page_bytes() / PAGE_BYTES).map_or(1, |pages| pages.max(1))
}

/// Pages of 4 KiB that move with the page at an address: 1, or the pages of a huge leaf.
fn folio_pages(process: &Process, address: u64) -> Result<u32, LiveError> {
    Ok(if is_huge(process, address)? {
        u32::try_from(huge_bytes() / PAGE_BYTES).unwrap_or(u32::MAX)
    } else {
        base_pages()
    })
}

/// A scan of one range.
struct Scan<'a> {
    process: &'a Process,
    module: &'a Module,
    nodes: Vec<NodeId>,
    marks: &'a mut Marks,
    filter: &'a mut ScanFilter,
}

impl Scan<'_> {
    /// Scans in batches. Returns the address of the first byte not scanned.
    fn run(&mut self, range: AddressRange) -> Result<u64, LiveError> {
        let page_bytes = sys::page_bytes();
        let step = BATCH as u64 * page_bytes;
        let mut start = range.start / page_bytes * page_bytes;
        while start < range.end {
            // Batches end where tables do, so that a huge leaf is never cut.
            let end = range.end.min((start / step + 1).saturating_mul(step));
            let stop = self.first_hole(start..end)?;
            let shown = start..stop.unwrap_or(end);
            if !shown.is_empty() {
                let found = self.module.scan(self.process, shown.clone(), Level::LEAF, Look::Clear)?;
                self.show(&shown, &found)?;
            }
            if let Some(stop) = stop {
                return Ok(stop);
            }
            start = end;
        }
        Ok(range.end)
    }

    /// The first page in an existing table that is neither present nor swapped, if the filter stops at such pages. Tables without any
    /// page count as missing.
    fn first_hole(&self, range: std::ops::Range<u64>) -> Result<Option<u64>, LiveError> {
        if self.filter.hole() == Flow::On {
            return Ok(None);
        }
        let entries = pagemap(self.process, AddressRange::new(range.start, range.end))?;
        let page_bytes = sys::page_bytes();
        let first = range.start / page_bytes;
        let is_held: Vec<bool> = entries.iter().map(|entry| entry.is_present() || entry.is_swapped()).collect();
        Ok(hole_in_table(first, &is_held).map(|page| page * page_bytes))
    }

    fn show(&mut self, range: &std::ops::Range<u64>, found: &ScanResult) -> Result<(), LiveError> {
        let page_bytes = sys::page_bytes();
        let present: Vec<u64> = found.present.ones().collect();
        let address = |index: u64| range.start + index * page_bytes;
        let nodes = match self.nodes[..] {
            [only] => vec![Some(only); present.len()],
            _ => nodes_of(self.process, &present.iter().map(|&index| address(index)).collect::<Vec<_>>())?,
        };
        let mut page = range.start / page_bytes;
        let mut huge_until = 0;
        for (&index, node) in present.iter().zip(nodes) {
            let at = address(index) / page_bytes;
            (page..at).for_each(|page| self.marks.set(page, PageMarks::default()));
            page = at + 1;
            let Some(node) = node else { continue };
            let is_huge = found.huge.has(index) && !self.filter.splits_huge();
            if is_huge && at < huge_until {
                continue;
            }
            let (first, pages) = if is_huge {
                let span = self.huge_pages();
                huge_until = (at / span + 1) * span;
                (at / span * span, span)
            } else {
                (at, 1)
            };
            let pages = u32::try_from(pages).unwrap_or(1).saturating_mul(base_pages());
            let accessed = found.young.has(index);
            let shown = ScannedPage { pages, ..ScannedPage::new(first * page_bytes, node, accessed) };
            let mut marks = self.marks.of(first);
            // The bit is cleared already: it is unknown here whether a page is locked or shared, so the filter never keeps one.
            self.filter.see(&shown, &mut marks);
            self.marks.set(first, marks);
        }
        (page..range.end.div_ceil(page_bytes)).for_each(|page| self.marks.set(page, PageMarks::default()));
        Ok(())
    }

    /// Pages under a huge leaf of the lowest kind.
    fn huge_pages(&self) -> u64 {
        match self.module.shifts() {
            [leaf, above, ..] => 1 << (above - leaf),
            _ => TABLE_PAGES,
        }
    }
}

/// The first page that is not held, in a block of [`TABLE_PAGES`] with some held ones; `first` is the number of the first page.
fn hole_in_table(first: u64, is_held: &[bool]) -> Option<u64> {
    let mut start = 0;
    while start < is_held.len() {
        let table_end = (first + start as u64) / TABLE_PAGES * TABLE_PAGES + TABLE_PAGES;
        let end = is_held.len().min(usize::try_from(table_end - first).unwrap_or(usize::MAX));
        let table = &is_held[start..end];
        if table.contains(&true)
            && let Some(hole) = table.iter().position(|&held| !held)
        {
            return Some(first + (start + hole) as u64);
        }
        start = end;
    }
    None
}

/// Mappings whose policy does not let pages migrate on hint faults, by their starts: `55d0c0000000 bind:0 anon=3 …`.
fn bound_starts(numa_maps: &str) -> BTreeMap<u64, ()> {
    let bound = |line: &str| {
        let (start, rest) = line.split_once(' ')?;
        let policy = rest.split(' ').next()?;
        let is_bound = policy != "default" && !policy.contains("balancing");
        is_bound.then(|| u64::from_str_radix(start, 16).ok()).flatten().map(|start| (start, ()))
    };
    numa_maps.lines().filter_map(bound).collect()
}

fn kind_of(area: &SmapsArea, bound: &BTreeMap<u64, ()>) -> AreaKind {
    let SmapsArea { mapping, flags, .. } = area;
    AreaKind {
        is_io: flags.has("io") || flags.has("pf"),
        // DAX of file systems does not show in /proc.
        is_dax: mapping.name.starts_with("/dev/dax"),
        is_hugetlb: flags.has("ht"),
        is_mixed: flags.has("mm"),
        is_bound: bound.contains_key(&mapping.range.start),
        is_read_only_file: mapping.is_file() && mapping.is_readable && !mapping.is_writable,
        is_inaccessible: !mapping.is_readable && !mapping.is_writable && !mapping.is_executable,
        is_low_zone_file: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_counts_only_beside_pages() {
        let held = |pages: &[(usize, usize)]| {
            let mut held = vec![false; 1536];
            pages.iter().for_each(|&(start, end)| held[start..end].fill(true));
            held
        };
        assert_eq!(hole_in_table(0, &held(&[])), None, "no table at all");
        assert_eq!(hole_in_table(0, &held(&[(0, 512), (1024, 1536)])), None, "the table between is missing");
        assert_eq!(hole_in_table(0, &held(&[(0, 512), (1024, 1500)])), Some(1500));
        assert_eq!(hole_in_table(1024, &held(&[(700, 701)])), Some(1024 + 512));
        assert_eq!(hole_in_table(100, &held(&[(412, 1436)])), None, "tables begin at multiples of 512 pages");
        assert_eq!(hole_in_table(7, &[]), None);
    }

    #[test]
    fn kinds_of_areas_come_from_flags_and_letters() {
        let text = "\
1000-2000 r--p 0 0:0 5 /lib\nVmFlags: rd mr\n2000-3000 ---p 0 0:0 0\nVmFlags: mr\n3000-4000 rw-s 0 0:0 9 /dev/dax0.0\nVmFlags: rd wr mm
4000-5000 r--p 0 0:0 0 [vvar]\nVmFlags: pf io\n5000-6000 rw-p 0 0:0 7 /anon_hugepage\nVmFlags: ht\n6000-7000 rw-p 0 0:0 0\nVmFlags: rd wr\n";
        let bound = bound_starts("6000 bind:0 anon=1\n1000 default\n2000 interleave=balancing:0-1\nzz bind:0\n\nx\n");
        let kinds: Vec<AreaKind> =
            isotherm_texts::smaps::parse(text).unwrap().iter().map(|area| kind_of(area, &bound)).collect();
        let none = AreaKind::default();
        let expected = [
            AreaKind { is_read_only_file: true, ..none },
            AreaKind { is_inaccessible: true, ..none },
            AreaKind { is_dax: true, is_mixed: true, ..none },
            AreaKind { is_io: true, ..none },
            AreaKind { is_hugetlb: true, ..none },
            AreaKind { is_bound: true, ..none },
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_kept_a_page_from_moving_is_told() {
        let slow = Some(NodeId(1));
        let errors = [
            (libc::EACCES, PageMove::Shared),
            (libc::EIO, PageMove::Dirty),
            (libc::ENOMEM, PageMove::Full),
            (libc::EBUSY, PageMove::Busy),
        ];
        for (errno, expected) in errors {
            assert_eq!(verdict(-errno, slow), expected);
        }
        assert_eq!(verdict(sys::NOT_REACHED, slow), PageMove::Busy);
        assert_eq!(verdict(-libc::EFAULT, None), PageMove::NotPresent);
    }
}
