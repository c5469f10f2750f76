//! Large folios: the same scripts in kernels whose pages form folios of several pages, next to the simulated machine.
//!
//! What kernels do: `docs/spec/large-folios.md`. Results: `docs/evidence/folios.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isotherm_kernel::memory::{FileSystem as SimulatedFileSystem, KernelRelease};
use isotherm_rig::job::Setting;
use isotherm_rig::script::Script;
use isotherm_rig::{FILE_SYSTEMS, FileSystem};
use isotherm_sim::machine::MachineConfig;
use isotherm_units::{Bytes, Pages};
use rayon::prelude::*;
use serde::Serialize;

use crate::FidelityError;
use crate::compare::{COUNT_MIN, error};
use crate::matrix::{METRICS, Selection, Workload, Workloads};
use crate::rank::nearest;
use crate::simulate::{self, MEMORY, Simulated, machine_of_release, release_of};
use crate::stored::KernelData;

/// The compared counters, by their names in [`METRICS`].
pub const COUNTERS: &[&str] = &["major_faults", "refaults_anon", "refaults_file", "pages_scanned", "pages_stolen"];

/// How the pages of a guest may form folios. Everything else is as in the other comparison.
#[derive(Clone, Copy, Debug)]
pub struct Folios {
    pub name: &'static str,
    /// The file system of the script's files.
    pub file_system: &'static FileSystem,
    /// The same in the simulated machine; `None`: it has no such folios, or needs none.
    pub simulated: Option<SimulatedFileSystem>,
    /// Size of anonymous folios that faults may make besides single pages; `None`: none.
    pub mthp: Option<Bytes>,
}

/// All of them, single pages first. To add a file system or a size: a line here, a `--refresh`, and its data in `BUNDLED` below.
pub const FOLIOS: &[Folios] = &[
    Folios { name: "single", file_system: &FILE_SYSTEMS[0], simulated: None, mthp: None },
    Folios { name: "ext4", file_system: &FILE_SYSTEMS[1], simulated: Some(SimulatedFileSystem::Ext4), mthp: None },
    Folios { name: "xfs", file_system: &FILE_SYSTEMS[2], simulated: Some(SimulatedFileSystem::Xfs), mthp: None },
    Folios { name: "64KiB", file_system: &FILE_SYSTEMS[0], simulated: None, mthp: Some(Bytes::from_kib(64)) },
];

/// The data that come with isotherm: kind of folios, file, text.
const BUNDLED: &[(&str, &str, &str)] = &[
    ("single", "7.2.json", include_str!("../../../scenarios/folios/single/7.2.json")),
    ("single", "6.12.json", include_str!("../../../scenarios/folios/single/6.12.json")),
    ("ext4", "7.2.json", include_str!("../../../scenarios/folios/ext4/7.2.json")),
    ("xfs", "7.2.json", include_str!("../../../scenarios/folios/xfs/7.2.json")),
    ("xfs", "6.12.json", include_str!("../../../scenarios/folios/xfs/6.12.json")),
    ("64KiB", "7.2.json", include_str!("../../../scenarios/folios/64KiB/7.2.json")),
    ("64KiB", "6.12.json", include_str!("../../../scenarios/folios/64KiB/6.12.json")),
];

impl Folios {
    /// Single pages, as in the other comparisons.
    pub const SINGLE: &Self = &FOLIOS[0];

    /// Those called `names`, all for none.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn named(names: &[String]) -> Result<Vec<&'static Self>, FidelityError> {
        if names.is_empty() {
            return Ok(FOLIOS.iter().collect());
        }
        let find = |name: &String| {
            FOLIOS.iter().find(|of| of.name == name).ok_or_else(|| FidelityError::Unknown {
                what: "kind of folios",
                name: name.clone(),
                known: FOLIOS.iter().map(|of| of.name).collect::<Vec<_>>().join(", "),
            })
        };
        names.iter().map(find).collect()
    }

    /// The simulated form of a guest with these folios; `None`: the simulated machine has none of them.
    pub fn simulated(&self, kernel: KernelRelease) -> Option<MachineConfig> {
        let file_system = self.simulated?;
        Some(MachineConfig { file_system: Some(file_system), ..machine_of_release(kernel, MEMORY) })
    }

    /// Whether a workload can show a difference: file systems matter to those with files, sizes of anonymous folios are played without.
    pub fn suits(&self, script: &Script) -> bool {
        let has_files = script.files.iter().any(|file| !file.shared_memory);
        self.name == Self::SINGLE.name || has_files == self.mthp.is_none()
    }

    /// The workloads among `all` that it suits.
    pub fn of(&self, all: &[Workload]) -> Vec<Workload> {
        all.iter().filter(|workload| self.suits(&workload.script)).cloned().collect()
    }

    /// Folder of its stored runs in the folder of all.
    pub fn folder(&self, all: &Path) -> PathBuf {
        all.join(self.name)
    }

    /// The stored runs that come with isotherm.
    ///
    /// # Errors
    /// Damaged data; a test excludes this.
    pub fn bundled(&self) -> Result<Vec<KernelData>, FidelityError> {
        let own = BUNDLED.iter().filter(|(folios, ..)| *folios == self.name);
        own.map(|(folios, file, text)| KernelData::parse(text, &format!("{folios}/{file}"))).collect()
    }

    /// Settings of its guests in addition to those of all guests. Larger sizes stay as a kernel has them by default.
    pub(crate) fn settings(&self) -> Option<Setting> {
        self.mthp.map(|size| Setting {
            path: format!("/sys/kernel/mm/transparent_hugepage/hugepages-{}kB/enabled", size.get() / 1024),
            value: "always".to_owned(),
            optional: false,
        })
    }
}

impl Workloads {
    /// The workloads of this comparison that come with isotherm.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn bundled_of_folios() -> Self {
        let text = include_str!("../../../scenarios/folios/workloads.toml");
        Self::parse(text, "scenarios/folios/workloads.toml").expect("a test reads it")
    }
}

/// One counter of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoliosRow {
    pub workload: String,
    pub kernel: String,
    pub policy: String,
    pub folios: &'static str,
    /// Limit in percent of the peak.
    pub limit_percent: u32,
    pub metric: &'static str,
    /// Least that a boot counted.
    pub real_low: u64,
    pub real_high: u64,
    pub boots: usize,
    /// Count of the simulated machine with single pages.
    pub single: u64,
    /// Distance from the nearer end over that end; `None` where that end is zero and the simulated count is not.
    pub single_error: Option<f64>,
    /// Count of the simulated machine with these folios; `None` where it has none.
    pub simulated: Option<u64>,
    pub error: Option<f64>,
    /// Whether the row counts: a boot or the simulated machine counted [`COUNT_MIN`] or more.
    pub is_judged: bool,
}

impl FoliosRow {
    /// Middle of the boots' counts.
    pub fn real(&self) -> f64 {
        (self.real_low + self.real_high) as f64 / 2.0
    }
}

/// Median and 90th percentile of errors, as shares of one; infinite where the kernel counted nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    pub median: f64,
    pub p90: f64,
}

/// Errors of the judged rows among `rows`, with single pages and with folios; `None` without such rows. First their number.
pub fn errors<'a>(rows: impl Iterator<Item = &'a FoliosRow>) -> (usize, Option<Errors>, Option<Errors>) {
    let judged: Vec<&FoliosRow> = rows.filter(|row| row.is_judged).collect();
    let of = |mut errors: Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        Some(Errors { median: nearest(&errors, 500)?, p90: nearest(&errors, 900)? })
    };
    let infinite = |error: Option<f64>| error.unwrap_or(f64::INFINITY);
    let single = judged.iter().map(|row| infinite(row.single_error)).collect();
    let with = judged.iter().filter(|row| row.simulated.is_some()).map(|row| infinite(row.error)).collect();
    (judged.len(), of(single), of(with))
}

/// Release of each kernel that is compared, and the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoliosComparison {
    /// Version by kernel.
    pub kernels: BTreeMap<String, String>,
    pub rows: Vec<FoliosRow>,
}

/// A run of the simulated machine: release, workload, policy, limit, and the folios if they are simulated.
type Job = (KernelRelease, usize, String, u64, Option<&'static str>);

/// Plays the selection in the simulated machine, for each kernel by its own rules, and compares with the data of each kind of folios.
/// `progress` is called after each simulated run.
///
/// # Errors
/// Stored runs of other scripts, none at all, or a run that fails.
pub fn compare(
    workloads: &[Workload],
    selection: &Selection,
    data: &[(&'static Folios, Vec<KernelData>)],
    progress: &(dyn Fn() + Sync),
) -> Result<FoliosComparison, FidelityError> {
    let mut found = Vec::new();
    for (folios, data) in data {
        for data in data.iter().filter(|data| selection.kernels().any(|kernel| kernel == data.kernel)) {
            for (index, workload) in workloads.iter().enumerate() {
                for cell in selection.cells_of(&workload.name) {
                    let Some(run) = data.run(&cell) else { continue };
                    let limit = workload.limit(cell.limit_percent).get();
                    if (&run.digest, run.limit_pages) != (&workload.digest, limit) {
                        let (workload, kernel) = (workload.name.clone(), data.kernel.clone());
                        return Err(FidelityError::Stale { verb: "fidelity-folios", workload, kernel });
                    }
                    let job: Job = (release_of(&data.kernel), index, cell.policy.clone(), limit, None);
                    found.push((*folios, data, cell, run, job));
                }
            }
        }
    }
    if found.is_empty() {
        return Err(FidelityError::Nothing { verb: "fidelity-folios", place: "the data".to_owned() });
    }
    let with = |folios: &'static Folios, job: &Job| -> Option<Job> {
        folios.simulated(job.0).map(|_| (job.0, job.1, job.2.clone(), job.3, Some(folios.name)))
    };
    let mut jobs: Vec<Job> = found.iter().map(|(.., job)| job.clone()).collect();
    jobs.extend(found.iter().filter_map(|(folios, .., job)| with(folios, job)));
    jobs.sort_unstable();
    jobs.dedup();
    let played = jobs.into_par_iter().map(|job| {
        let folios = FOLIOS.iter().find(|folios| Some(folios.name) == job.4);
        let machine = folios.and_then(|folios| folios.simulated(job.0));
        let machine = machine.unwrap_or_else(|| machine_of_release(job.0, MEMORY));
        let simulated = simulate::run(&machine, &workloads[job.1], &job.2, Pages::new(job.3))?;
        progress();
        Ok((job, simulated))
    });
    let played: Vec<Result<_, FidelityError>> = played.collect();
    let played: BTreeMap<Job, Simulated> = played.into_iter().collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    let mut kernels = BTreeMap::new();
    for (folios, data, cell, run, job) in found {
        kernels.insert(data.kernel.clone(), data.release.clone());
        let with = with(folios, &job).map(|job| &played[&job]);
        for metric in METRICS.iter().map(|metric| metric.name).filter(|name| COUNTERS.contains(name)) {
            let counted = run.counters.get(metric).map_or(&[][..], Vec::as_slice);
            let (Some(&low), Some(&high)) = (counted.iter().min(), counted.iter().max()) else { continue };
            let (single, simulated) = (played[&job].counters[metric], with.map(|with| with.counters[metric]));
            rows.push(FoliosRow {
                workload: cell.workload.clone(),
                kernel: data.kernel.clone(),
                policy: cell.policy.clone(),
                folios: folios.name,
                limit_percent: cell.limit_percent,
                metric,
                real_low: low,
                real_high: high,
                boots: counted.len(),
                single,
                single_error: error(single, low, high),
                simulated,
                error: simulated.and_then(|simulated| error(simulated, low, high)),
                is_judged: high.max(single).max(simulated.unwrap_or(0)) >= COUNT_MIN,
            });
        }
    }
    Ok(FoliosComparison { kernels, rows })
}

/// Most runs that [`compare`] plays.
pub fn nr_simulated(workloads: &[Workload], selection: &Selection, folios: &[&'static Folios]) -> u64 {
    let cells: usize = workloads.iter().map(|workload| selection.cells_of(&workload.name).count()).sum();
    let of = |kernel: &str| 1 + folios.iter().filter(|folios| folios.simulated(release_of(kernel)).is_some()).count();
    (cells * selection.kernels().map(of).sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_rig::script::ScriptFile;

    #[test]
    fn files_are_played_on_file_systems_and_memory_with_sizes() {
        let of = |files: &[bool]| {
            let files = files.iter().map(|&shared_memory| ScriptFile { pages: 1, shared_memory }).collect();
            let script = Script { files, ..Script::default() };
            FOLIOS.iter().filter(|folios| folios.suits(&script)).map(|folios| folios.name).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), ["single", "64KiB"]);
        assert_eq!(of(&[true]), ["single", "64KiB"], "shared memory lies on no disk");
        assert_eq!(of(&[true, false]), ["single", "ext4", "xfs"]);
    }

    #[test]
    fn names_are_unique_and_unknown_ones_are_refused() {
        let mut names: Vec<&str> = FOLIOS.iter().map(|folios| folios.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FOLIOS.len());
        let error = Folios::named(&["btrfs".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "no kind of folios is called `btrfs`; there are single, ext4, xfs, 64KiB");
    }

    #[test]
    fn a_size_is_a_setting() {
        let paths: Vec<String> = FOLIOS.iter().filter_map(Folios::settings).map(|setting| setting.path).collect();
        assert_eq!(paths, ["/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"]);
    }

    /// Errors 0, 0.1 and infinite; the row that is not judged does not count.
    #[test]
    fn errors_by_hand() {
        let row = |single: u64, real: u64, simulated: Option<u64>| FoliosRow {
            workload: "w".to_owned(),
            kernel: "k".to_owned(),
            policy: "classic".to_owned(),
            folios: "xfs",
            limit_percent: 75,
            metric: "major_faults",
            real_low: real,
            real_high: real,
            boots: 1,
            single,
            single_error: error(single, real, real),
            simulated,
            error: simulated.and_then(|simulated| error(simulated, real, real)),
            is_judged: real.max(single) >= COUNT_MIN,
        };
        let rows = [row(1000, 1000, Some(1500)), row(1100, 1000, None), row(500, 0, None), row(5, 1, Some(9))];
        let (nr, single, with) = errors(rows.iter());
        assert_eq!((nr, single), (3, Some(Errors { median: 0.1, p90: f64::INFINITY })));
        assert_eq!(with, Some(Errors { median: 0.5, p90: 0.5 }));
        assert_eq!(errors([].iter()), (0, None, None));
    }
}
