//! Reads the kernel's counters from its files.

use isotherm_guest::job::{CachedFile, Observation, ResidentProcess};
use isotherm_guest::script::Script;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::machine::GROUP_PATH;
use crate::shared::Control;
use crate::sys;

/// Lines of `name number`.
pub(crate) fn numbers(path: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pair = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn group_text(file: &str) -> String {
    std::fs::read_to_string(format!("{GROUP_PATH}/{file}")).unwrap_or_default()
}

/// All counters at this moment.
pub(crate) fn observe(
    number: u32,
    script: &Script,
    control: &Control,
    files: &[OwnedFd],
    vmstat_before: &BTreeMap<String, u64>,
) -> Result<Observation, String> {
    let now = numbers("/proc/vmstat");
    let change = |(name, after): (&String, &u64)| {
        let before = vmstat_before.get(name).copied().unwrap_or(0);
        (name.clone(), i64::try_from(i128::from(*after) - i128::from(before)).unwrap_or(0))
    };
    let (resident, anonymous) = resident(script, control)?;
    Ok(Observation {
        nr_in_large_folios: nr_in_large_folios(&resident, control),
        mark: number,
        operation: control.operation() as u64,
        memory_stat: numbers(&format!("{GROUP_PATH}/memory.stat")),
        memory_events: numbers(&format!("{GROUP_PATH}/memory.events")),
        memory_pressure: group_text("memory.pressure"),
        memory_current_bytes: group_text("memory.current").trim().parse().unwrap_or(0),
        memory_peak_bytes: group_text("memory.peak").trim().parse().unwrap_or(0),
        vmstat: now.iter().map(change).collect(),
        lru_gen: generations(),
        resident,
        anonymous,
        cached: cached(script, files)?,
    })
}

/// The group's block of `lru_gen`: from the line that names it up to the next group.
fn generations() -> String {
    let text = std::fs::read_to_string("/sys/kernel/debug/lru_gen").unwrap_or_default();
    let mut own = String::new();
    let mut is_own = false;
    for line in text.lines() {
        if line.starts_with("memcg") {
            is_own = line.trim_end().ends_with("/play");
        }
        if is_own {
            own.push_str(line);
            own.push('\n');
        }
    }
    own
}

const PRESENT: u64 = 1 << 63;
/// Page of a file or of shared memory.
const OF_FILE: u64 = 1 << 61;

/// Pages of processes that are mapped to memory, among the pages that the script watches: all such pages, and the anonymous ones.
fn resident(script: &Script, control: &Control) -> Result<(Vec<ResidentProcess>, Vec<ResidentProcess>), String> {
    type Found = BTreeMap<u16, Vec<(u64, u64)>>;
    let (mut found, mut anonymous) = (Found::new(), Found::new());
    let mut words = vec![0u8; 8 * 4096];
    for &(process, first, pages) in &script.watched {
        let Some(pid) = control.pid(process) else { continue };
        // A process that has ended has no pages.
        let Ok(map) = File::open(format!("/proc/{pid}/pagemap")) else { continue };
        let (ranges, anonymous) = (found.entry(process).or_default(), anonymous.entry(process).or_default());
        let mut page = first;
        while page < first + pages {
            let want = usize::try_from((first + pages - page).min(4096)).unwrap_or(4096);
            let read =
                map.read_at(&mut words[..want * 8], page * 8).map_err(|error| format!("pagemap of {pid}: {error}"))?;
            if read < 8 {
                break;
            }
            for word in words[..read].chunks_exact(8) {
                let entry = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                if entry & PRESENT != 0 {
                    push(ranges, page);
                    if entry & OF_FILE == 0 {
                        push(anonymous, page);
                    }
                }
                page += 1;
            }
        }
    }
    let listed =
        |found: Found| found.into_iter().map(|(process, ranges)| ResidentProcess { process, ranges }).collect();
    Ok((listed(found), listed(anonymous)))
}

/// Among each eighth resident page, the number that belong to a folio of several pages. Large folios span neighbours: this finds
/// all of eight pages and more, and some smaller ones.
fn nr_in_large_folios(resident: &[ResidentProcess], control: &Control) -> u64 {
    const FRAME: u64 = (1 << 55) - 1;
    /// `COMPOUND_HEAD` and `COMPOUND_TAIL` of `/proc/kpageflags`.
    const COMPOUND: u64 = 1 << 15 | 1 << 16;
    let Ok(flags) = File::open("/proc/kpageflags") else { return 0 };
    let word = |file: &File, index: u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, index * 8).map_or(0, |()| u64::from_le_bytes(word))
    };
    let mut found = 0;
    for process in resident {
        let Some(pid) = control.pid(process.process) else { continue };
        let Ok(map) = File::open(format!("/proc/{pid}/pagemap")) else { continue };
        let pages = process.ranges.iter().flat_map(|&(first, pages)| first..first + pages);
        let sampled = pages.step_by(8).map(|page| word(&map, page));
        found += sampled.filter(|entry| word(&flags, entry & FRAME) & COMPOUND != 0).count() as u64;
    }
    found
}

fn cached(script: &Script, files: &[OwnedFd]) -> Result<Vec<CachedFile>, String> {
    let mut found = Vec::new();
    for (index, (spec, file)) in script.files.iter().zip(files).enumerate() {
        let states = sys::cached_pages(file, spec.pages).map_err(|error| format!("file {index}: {error}"))?;
        let mut ranges = Vec::new();
        let present = (0u64..).zip(states).filter(|(_, is_cached)| *is_cached);
        present.for_each(|(page, _)| push(&mut ranges, page));
        found.push(CachedFile { file: u32::try_from(index).unwrap_or(u32::MAX), ranges });
    }
    Ok(found)
}

/// Adds the next page to ranges that ascend.
fn push(ranges: &mut Vec<(u64, u64)>, page: u64) {
    match ranges.last_mut() {
        Some((first, pages)) if *first + *pages == page => *pages += 1,
        _ => ranges.push((page, 1)),
    }
}
