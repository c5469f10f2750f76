//! Compaction in real kernels: fragmented memory, left alone with proactive compaction off and on, then asked for huge pages.

use isotherm_core::compaction::{FreeBlocks, HUGE_ORDER};
use isotherm_guest::fragmenting::{Fragment, Fragmented, Fragments, Holes, Moment};
use isotherm_texts::buddyinfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use super::compaction_simulated::{Simulation, simulated};
use super::{Boot, FigureRow, Range, Rig, Stored, by_release, quiet, reports};
use crate::FidelityError;
use crate::rank::nearest;
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Job, Machine, Report, Task};
use isotherm_units::{Duration, PAGE_SHIFT};

/// A case: which holes, and how proactive the kernel is.
pub type Case = (Holes, u32);

pub const CASES: [Case; 4] =
    [(Holes::Contiguous, 0), (Holes::Contiguous, 20), (Holes::Strided, 0), (Holes::Strided, 20)];

/// Time for twenty checks of the proactive compaction.
const WAIT_MS: u64 = 10_000;
/// Memory of the guest.
const MEMORY_BYTES: u64 = 768 << 20;
/// `vm.min_free_kbytes`, which huge pages would raise to a twentieth of memory.
pub(super) const MIN_FREE_KIB: u64 = 8192;
/// By kernel: pages that the guest's page allocator manages in the zone DMA32, which is `MemTotal` of a guest of this size, less the 3840
/// pages of the zone DMA.
const MANAGED_PAGES: [(&str, u64); 2] = [("7.2", 182_071 - 3840), ("6.12", 183_133 - 3840)];
const SECTION_PAGES: u64 = 512;
/// Memory left free when the rest is filled: above the watermarks, so that filling it reclaims nothing, and small enough that the
/// share of free memory in large blocks stays below the threshold of proactive compaction.
pub(super) const SPARE_BYTES: u64 = 20 << 20;
/// Huge pages asked for, as a share of the huge pages that the freed memory would make.
pub(super) const HUGE_PERCENT: u32 = 60;

/// Result of one boot of one kernel, in the order of [`CASES`].
pub type RealBoot = Boot<RealRun>;

/// One case in one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealRun {
    pub holes: Holes,
    /// Proactiveness of the kernel.
    pub proactiveness: u32,
    /// Sections of 2 MiB that were filled.
    pub sections: u64,
    /// When holes were made.
    pub before: Sample,
    /// When the kernel had been left alone.
    pub after: Sample,
    /// When huge pages had been asked for.
    pub end: Sample,
    /// Counts of `/proc/vmstat` while the kernel was left alone; counters that stayed 0 are left out.
    pub alone: BTreeMap<String, u64>,
    /// The counters while huge pages were asked for.
    pub asking: BTreeMap<String, u64>,
    /// Huge pages asked for.
    pub asked: u64,
    /// Least, median, 95th percentile and most of the time for one huge page, in the guest's time.
    pub huge_ns: [u64; 4],
}

/// Free memory at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// `/proc/buddyinfo`.
    pub buddyinfo: String,
    /// The kernel's own unusable index of a huge page, per mille, by zone; empty if it has none.
    pub unusable: BTreeMap<String, u32>,
}

impl Sample {
    pub(super) fn of(moment: &Moment) -> Self {
        Self { buddyinfo: moment.buddyinfo.clone(), unusable: unusable_of(&moment.unusable_index) }
    }

    /// The largest zone's free blocks.
    ///
    /// # Errors
    /// The text is damaged.
    pub fn blocks(&self) -> Result<(String, FreeBlocks), FidelityError> {
        let zones = buddyinfo::parse(&self.buddyinfo).map_err(|error| damaged(&error))?;
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

/// Settings of the guest: huge pages where they are asked for, and no proactive compaction to begin with.
pub(super) fn settings() -> Vec<Setting> {
    let mut settings = quiet();
    let knob = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned(), optional: false };
    // Huge pages where they are asked for, at once and with compaction; none made in the background.
    settings.extend([
        knob("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        knob("/sys/kernel/mm/transparent_hugepage/defrag", "always"),
        knob("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", "1"),
        knob("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "1000000000"),
        knob("/proc/sys/vm/compaction_proactiveness", "0"),
        knob("/proc/sys/vm/min_free_kbytes", &MIN_FREE_KIB.to_string()),
    ]);
    settings
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
        program: Vec::new(),
        spare_bytes: SPARE_BYTES,
        huge_percent: HUGE_PERCENT,
    });
    let task = Task::Fragment(Fragments { runs: runs.collect() });
    let job = Job { settings: settings(), zram_bytes: None, files_device: None, task };
    let time_limit = std::time::Duration::from_secs(900);
    let machine = Machine { memory_bytes: MEMORY_BYTES, clock: Clock::Instructions, time_limit, ..Machine::default() };
    let result = rig.run(&machine, &job)?;
    let fragmented = reports(&result, cases.len(), |report| match report {
        Report::Fragmented(fragmented) => Some(fragmented),
        _ => None,
    })?;
    let runs = cases.iter().zip(fragmented).map(|(&(holes, proactiveness), fragmented)| RealRun {
        holes,
        proactiveness,
        sections: fragmented.sections,
        before: Sample::of(&fragmented.before),
        after: Sample::of(&fragmented.after),
        end: Sample::of(&fragmented.end),
        alone: change(&fragmented.before, &fragmented.after),
        asking: change(&fragmented.after, &fragmented.end),
        asked: fragmented.huge_ns.len() as u64,
        huge_ns: percentiles(fragmented),
    });
    let runs = runs.collect();
    Ok(Boot { name: rig.kernel.0.to_owned(), release: result.kernel.clone(), runs })
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
    [0, 500, 950, 1000].map(|permille| nearest(&sorted, permille).unwrap_or(0))
}

/// The data that come with this program.
///
/// # Errors
/// Never: a test reads them.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/compaction.json"), Path::new("compaction.json"))
}

/// Compared data of either world.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) sections: u64,
    /// Free blocks of the largest zone when holes were made, when it had been left alone, and when huge pages had been asked for.
    pub(super) samples: [FreeBlocks; 3],
    /// Counts while memory was left alone; a missing one is 0.
    pub(super) alone: BTreeMap<String, u64>,
    /// The counters while huge pages were asked for.
    pub(super) asking: BTreeMap<String, u64>,
    pub(super) asked: u64,
    /// Median and 95th percentile of the time for one huge page; only the guest's own clock gives it.
    pub(super) huge_ns: Option<[u64; 2]>,
}

impl RealRun {
    fn measured(&self) -> Result<Measured, FidelityError> {
        let blocks = |sample: &Sample| Ok::<_, FidelityError>(sample.blocks()?.1);
        Ok(Measured {
            sections: self.sections,
            samples: [blocks(&self.before)?, blocks(&self.after)?, blocks(&self.end)?],
            alone: self.alone.clone(),
            asking: self.asking.clone(),
            asked: self.asked,
            huge_ns: Some([self.huge_ns[1], self.huge_ns[2]]),
        })
    }

    /// Pages of the largest zone that are in use before anything is filled: the number of sections leaves the spare memory.
    fn kernel_pages(&self, managed_pages: u64) -> u64 {
        managed_pages.saturating_sub(self.sections * SECTION_PAGES + (SPARE_BYTES >> PAGE_SHIFT))
    }
}

type Figure = (&'static str, fn(&Measured) -> Option<f64>);

fn counted(counts: &BTreeMap<String, u64>, name: &str) -> Option<f64> {
    Some(counts.get(name).copied().unwrap_or(0) as f64)
}

fn extfrag(sample: &FreeBlocks) -> Option<f64> {
    Some(f64::from(sample.extfrag(HUGE_ORDER)))
}

fn free_blocks(sample: &FreeBlocks) -> Option<f64> {
    Some(sample.suitable(HUGE_ORDER) as f64)
}

/// Compared figures. Percentages, counts of pages, of blocks of 2 MiB, and the guest's own nanoseconds.
const FIGURES: [Figure; 20] = [
    ("sections", |run| Some(run.sections as f64)),
    ("extfrag_before", |run| extfrag(&run.samples[0])),
    ("extfrag_after", |run| extfrag(&run.samples[1])),
    ("extfrag_end", |run| extfrag(&run.samples[2])),
    ("free_blocks_before", |run| free_blocks(&run.samples[0])),
    ("free_blocks_after", |run| free_blocks(&run.samples[1])),
    ("blocks_freed", |run| {
        Some(run.samples[1].suitable(HUGE_ORDER) as f64 - run.samples[0].suitable(HUGE_ORDER) as f64)
    }),
    ("alone_migrate_scanned", |run| counted(&run.alone, "compact_migrate_scanned")),
    ("alone_free_scanned", |run| counted(&run.alone, "compact_free_scanned")),
    ("alone_pages_moved", |run| counted(&run.alone, "pgmigrate_success")),
    ("huge_asked", |run| Some(run.asked as f64)),
    ("huge_got", |run| counted(&run.asking, "thp_fault_alloc")),
    ("asking_stalls", |run| counted(&run.asking, "compact_stall")),
    ("asking_success", |run| counted(&run.asking, "compact_success")),
    ("asking_fail", |run| counted(&run.asking, "compact_fail")),
    ("asking_migrate_scanned", |run| counted(&run.asking, "compact_migrate_scanned")),
    ("asking_free_scanned", |run| counted(&run.asking, "compact_free_scanned")),
    ("asking_pages_moved", |run| counted(&run.asking, "pgmigrate_success")),
    ("huge_p50_ns", |run| Some(run.huge_ns?[0] as f64)),
    ("huge_p95_ns", |run| Some(run.huge_ns?[1] as f64)),
];

/// Simulates each real run of `cases`, with as many sections and as much memory of the kernel, and compares the two. `done` is called
/// after each simulated run.
///
/// # Errors
/// The data contain a damaged text; the simulated machine refuses a run.
pub fn compare(
    stored: &Stored<RealBoot>,
    cases: &[Case],
    done: &mut dyn FnMut(),
) -> Result<Vec<FigureRow>, FidelityError> {
    let mut rows = Vec::new();
    for &(holes, proactiveness) in cases {
        for (kernel, boots) in by_release(&stored.boots) {
            let (mut real, mut ours) = (Vec::new(), Vec::new());
            let is_it = |(name, _): &&(&str, u64)| boots.iter().any(|boot| boot.name == *name);
            let (_, managed_pages) = *MANAGED_PAGES.iter().find(is_it).unwrap_or(&MANAGED_PAGES[0]);
            let runs = boots.iter().flat_map(|boot| &boot.runs);
            for run in runs.filter(|run| run.holes == holes && run.proactiveness == proactiveness) {
                real.push(run.measured()?);
                ours.push(simulated(&Simulation {
                    holes,
                    proactiveness,
                    sections: run.sections,
                    managed_pages,
                    kernel_pages: run.kernel_pages(managed_pages),
                    wait: Duration::from_ms(WAIT_MS),
                })?);
                done();
            }
            for (metric, figure) in FIGURES {
                let of = |runs: &[Measured]| Range::of_some(&runs.iter().filter_map(figure).collect::<Vec<_>>());
                let Some(real) = of(&real) else { continue };
                let case = format!("{} {proactiveness}", holes.name());
                rows.push(FigureRow { case, kernel: kernel.to_owned(), metric, simulated: of(&ours), real });
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
