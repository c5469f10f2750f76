//! Compaction in real kernels: fragmented memory, left alone with proactive compaction off and on, then asked for huge pages.

use isotherm_core::defrag::text::parse_buddyinfo;
use isotherm_core::defrag::{FreeBlocks, HUGE_ORDER};
use isotherm_guest::fragmenting::{Fragment, Fragmented, Fragments, Holes, Moment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use super::{Range, Rig, Row, Stored, quiet};
use crate::FidelityError;
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Job, Machine, Report, Task};

/// A case: which holes, and how proactive the kernel is.
pub type Case = (Holes, u32);

/// All cases.
pub const CASES: [Case; 4] =
    [(Holes::Contiguous, 0), (Holes::Contiguous, 20), (Holes::Strided, 0), (Holes::Strided, 20)];

/// As long as it takes to look twenty times whether there is something to compact.
const WAIT_MS: u64 = 10_000;
/// Memory of the guest.
const MEMORY_BYTES: u64 = 768 << 20;
/// Left free when the rest is filled: above the watermarks, so that filling it reclaims nothing, and so little that the share of free
/// memory in large blocks stays below what proactive compaction begins at.
const SPARE_BYTES: u64 = 20 << 20;
/// Huge pages asked for, of those that what was freed would make.
const HUGE_PERCENT: u32 = 60;

/// What one boot of one kernel gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealBoot {
    /// Name of the kernel here.
    pub name: String,
    /// `uname -r`.
    pub release: String,
    /// In the order of [`CASES`].
    pub runs: Vec<RealRun>,
}

/// One case in one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealRun {
    /// Which holes.
    pub holes: Holes,
    /// How proactive.
    pub proactiveness: u32,
    /// Sections of 2 MiB that were filled.
    pub sections: u64,
    /// When holes were made.
    pub before: Look,
    /// When the kernel had been left alone.
    pub after: Look,
    /// When huge pages had been asked for.
    pub end: Look,
    /// What `/proc/vmstat` counted while the kernel was left alone; what stayed 0 is left out.
    pub alone: BTreeMap<String, u64>,
    /// The same while huge pages were asked for.
    pub asking: BTreeMap<String, u64>,
    /// Huge pages asked for.
    pub asked: u64,
    /// Least, median, 95th percentile and most of what asking for one took, in the guest's time.
    pub huge_ns: [u64; 4],
}

/// Free memory at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// `/proc/buddyinfo`.
    pub buddyinfo: String,
    /// The kernel's own unusable index of a huge page, per mille, by zone; empty if it has none.
    pub unusable: BTreeMap<String, u32>,
}

impl Look {
    fn of(moment: &Moment) -> Self {
        Self { buddyinfo: moment.buddyinfo.clone(), unusable: unusable_of(&moment.unusable_index) }
    }

    /// The largest zone's free blocks.
    ///
    /// # Errors
    /// The text is damaged.
    pub fn blocks(&self) -> Result<(String, FreeBlocks), FidelityError> {
        let zones = parse_buddyinfo(&self.buddyinfo).map_err(|error| damaged(&error))?;
        let largest = zones.into_iter().max_by_key(|zone| zone.blocks.pages());
        largest.map(|zone| (zone.zone, zone.blocks)).ok_or_else(|| damaged(&"no zones"))
    }
}

fn damaged(reason: &dyn std::fmt::Display) -> FidelityError {
    isotherm_rig::RigError::Damaged { path: "buddyinfo".into(), reason: reason.to_string() }.into()
}

/// `Node 0, zone DMA32 0.000 0.001 …`: the entry of a huge page of each zone, in thousandths.
fn unusable_of(text: &str) -> BTreeMap<String, u32> {
    let zone = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, figures) = words.get(3).zip(words.get(4..))?;
        let figure: f64 = figures.get(HUGE_ORDER as usize)?.parse().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share in thousandths, three digits"
        )]
        let thousandths = (figure * 1000.0).round().clamp(0.0, 1000.0) as u32;
        Some(((*name).to_owned(), thousandths))
    };
    text.lines().filter_map(zone).collect()
}

/// Runs `cases` in a real kernel, in one boot.
///
/// # Errors
/// The guest does not come to its end.
pub fn real(rig: &Rig<'_>, cases: &[Case], wait_ms: u64) -> Result<RealBoot, FidelityError> {
    let runs = cases.iter().map(|&(holes, proactiveness)| Fragment {
        holes,
        proactiveness,
        wait_ms,
        spare_bytes: SPARE_BYTES,
        huge_percent: HUGE_PERCENT,
    });
    let task = Task::Fragment(Fragments { runs: runs.collect() });
    let mut settings = quiet();
    let knob = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned(), optional: false };
    // Huge pages where they are asked for, at once and with compaction; none made behind the experiment's back.
    settings.extend([
        knob("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        knob("/sys/kernel/mm/transparent_hugepage/defrag", "always"),
        knob("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "1"),
        knob("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "1000000000"),
        knob("/proc/sys/vm/compaction_proactiveness", "0"),
        // Huge pages raise it to a twentieth of memory.
        knob("/proc/sys/vm/min_free_kbytes", "8192"),
    ]);
    let job = Job { settings, zram_bytes: None, files_device: None, task };
    let time_limit = std::time::Duration::from_secs(900);
    let machine = Machine { memory_bytes: MEMORY_BYTES, clock: Clock::Instructions, time_limit, ..Machine::default() };
    let result = rig.run(&machine, &job)?;
    let fragmented = result.reports.iter().filter_map(|report| match report {
        Report::Fragmented(fragmented) => Some(fragmented),
        _ => None,
    });
    let runs = cases.iter().zip(fragmented).map(|(&(holes, proactiveness), fragmented)| RealRun {
        holes,
        proactiveness,
        sections: fragmented.sections,
        before: Look::of(&fragmented.before),
        after: Look::of(&fragmented.after),
        end: Look::of(&fragmented.end),
        alone: change(&fragmented.before, &fragmented.after),
        asking: change(&fragmented.after, &fragmented.end),
        asked: fragmented.huge_ns.len() as u64,
        huge_ns: percentiles(fragmented),
    });
    let runs = runs.collect();
    Ok(RealBoot { name: rig.kernel.0.to_owned(), release: result.kernel, runs })
}

/// [`real`] as its data were made.
///
/// # Errors
/// As [`real`].
pub fn real_all(rig: &Rig<'_>) -> Result<RealBoot, FidelityError> {
    real(rig, &CASES, WAIT_MS)
}

fn change(before: &Moment, after: &Moment) -> BTreeMap<String, u64> {
    let grown = after
        .vmstat
        .iter()
        .map(|(name, &value)| (name.clone(), value.saturating_sub(before.vmstat.get(name).copied().unwrap_or(0))));
    grown.filter(|(_, grown)| *grown > 0).collect()
}

fn percentiles(fragmented: &Fragmented) -> [u64; 4] {
    let mut sorted = fragmented.huge_ns.clone();
    sorted.sort_unstable();
    // Nearest rank.
    let at = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0)
    };
    [at(0), at(50), at(95), at(100)]
}

/// The data that come with this program.
///
/// # Errors
/// Never, as a test sees.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/compaction.json"), Path::new("compaction.json"))
}

type Figure = (&'static str, fn(&RealRun) -> Result<f64, FidelityError>);

/// A counter of either time; none is 0.
fn counted(counts: &BTreeMap<String, u64>, name: &str) -> f64 {
    counts.get(name).copied().unwrap_or(0) as f64
}

fn extfrag(look: &Look) -> Result<f64, FidelityError> {
    Ok(f64::from(look.blocks()?.1.extfrag(HUGE_ORDER)))
}

fn free_blocks(look: &Look) -> Result<f64, FidelityError> {
    Ok(look.blocks()?.1.suitable(HUGE_ORDER) as f64)
}

/// What is compared. Percentages, counts of pages, of blocks of 2 MiB, and the guest's own nanoseconds.
const FIGURES: [Figure; 19] = [
    ("sections", |run| Ok(run.sections as f64)),
    ("extfrag_before", |run| extfrag(&run.before)),
    ("extfrag_after", |run| extfrag(&run.after)),
    ("extfrag_end", |run| extfrag(&run.end)),
    ("free_blocks_before", |run| free_blocks(&run.before)),
    ("free_blocks_after", |run| free_blocks(&run.after)),
    ("alone_migrate_scanned", |run| Ok(counted(&run.alone, "compact_migrate_scanned"))),
    ("alone_free_scanned", |run| Ok(counted(&run.alone, "compact_free_scanned"))),
    ("alone_pages_moved", |run| Ok(counted(&run.alone, "pgmigrate_success"))),
    ("huge_asked", |run| Ok(run.asked as f64)),
    ("huge_got", |run| Ok(counted(&run.asking, "thp_fault_alloc"))),
    ("asking_stalls", |run| Ok(counted(&run.asking, "compact_stall"))),
    ("asking_success", |run| Ok(counted(&run.asking, "compact_success"))),
    ("asking_fail", |run| Ok(counted(&run.asking, "compact_fail"))),
    ("asking_migrate_scanned", |run| Ok(counted(&run.asking, "compact_migrate_scanned"))),
    ("asking_free_scanned", |run| Ok(counted(&run.asking, "compact_free_scanned"))),
    ("asking_pages_moved", |run| Ok(counted(&run.asking, "pgmigrate_success"))),
    ("huge_p50_ns", |run| Ok(run.huge_ns[1] as f64)),
    ("huge_p95_ns", |run| Ok(run.huge_ns[2] as f64)),
];

/// What real kernels did, case by case.
///
/// # Errors
/// Data with a damaged text in it.
pub fn rows(stored: &Stored<RealBoot>) -> Result<Vec<Row>, FidelityError> {
    let mut kernels: BTreeMap<&str, Vec<&RealBoot>> = BTreeMap::new();
    for boot in &stored.boots {
        kernels.entry(&boot.release).or_default().push(boot);
    }
    let mut rows = Vec::new();
    for (holes, proactiveness) in CASES {
        for (&kernel, boots) in kernels.iter().rev() {
            let runs = boots.iter().flat_map(|boot| &boot.runs);
            let runs: Vec<_> = runs.filter(|run| run.holes == holes && run.proactiveness == proactiveness).collect();
            if runs.is_empty() {
                continue;
            }
            for (metric, figure) in FIGURES {
                let figures = runs.iter().map(|run| figure(run)).collect::<Result<Vec<_>, _>>()?;
                rows.push(Row {
                    case: format!("{} {proactiveness}", holes.name()),
                    kernel: kernel.to_owned(),
                    metric,
                    real: Range::of(&figures),
                });
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_index_is_read() {
        let text = "Node 0, zone      DMA 0.000 0.000 0.000 0.001 0.003 0.003 0.003 0.003 0.006 0.006 0.010 \nNode 0, zone    DMA32 0.000 \
                    0.001 0.002 0.003 0.004 0.005 0.006 0.007 0.008 0.617 0.999 \n";
        assert_eq!(unusable_of(text), BTreeMap::from([("DMA".to_owned(), 6), ("DMA32".to_owned(), 617)]));
        assert_eq!(unusable_of(""), BTreeMap::new());
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let fragmented = Fragmented { huge_ns: (1..=20).rev().collect(), ..Fragmented::default() };
        assert_eq!(percentiles(&fragmented), [1, 10, 19, 20]);
        assert_eq!(percentiles(&Fragmented::default()), [0; 4]);
    }
}
