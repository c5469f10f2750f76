//! Counts of real kernels as data: a JSON file for each kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::FidelityError;
use crate::matrix::Cell;

/// Runs in one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelData {
    /// Name of the kernel in the rig.
    pub kernel: String,
    /// `uname -r` of the guest.
    pub release: String,
    /// Command of the last run that changed the file.
    pub command: String,
    /// Memory of the guest.
    pub memory_bytes: u64,
    /// Runs, ascending by cell.
    pub runs: Vec<StoredRun>,
}

/// One cell of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRun {
    #[serde(flatten)]
    pub cell: Cell,
    /// Digest of the script.
    pub digest: String,
    /// `memory.max` in pages.
    pub limit_pages: u64,
    /// Counts of each boot by name of the metric.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// Resident pages at the mark of the first boot: lengths of alternating runs, absent first. Empty where only counters are kept.
    pub residency: Vec<u64>,
    /// Jaccard index of each other boot's resident pages and those of the first boot, in 1/10 000.
    pub overlap_of_boots: Vec<u32>,
}

/// The data that come with isotherm.
const BUNDLED: &[(&str, &str)] = &[
    ("7.2.json", include_str!("../../../scenarios/fidelity/7.2.json")),
    ("6.12.json", include_str!("../../../scenarios/fidelity/6.12.json")),
];

impl KernelData {
    /// The data that come with isotherm.
    ///
    /// # Errors
    /// Damaged data; a test excludes this.
    pub fn bundled() -> Result<Vec<Self>, FidelityError> {
        BUNDLED.iter().map(|(name, text)| Self::parse(text, name)).collect()
    }

    /// All data in `folder`, in the order of [`crate::KERNELS`]. Kernels without a file are left out.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, FidelityError> {
        let loaded = crate::KERNELS.iter().map(|kernel| Self::load(folder, kernel));
        Ok(loaded.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The data of one kernel in `folder`; `None` without a file.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged.
    pub fn load(folder: &Path, kernel: &str) -> Result<Option<Self>, FidelityError> {
        let path = file_of(folder, kernel);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FidelityError::io(path)(error)),
        }
    }

    pub(crate) fn parse(text: &str, place: &str) -> Result<Self, FidelityError> {
        serde_json::from_str(text).map_err(|source| FidelityError::Stored { place: place.to_owned(), source })
    }

    /// Takes the runs of `newer`, and keeps its own runs that `newer` lacks, unless they are of another release of the kernel
    /// or of a guest of another size: one file has one kernel.
    pub fn take(&mut self, newer: Self) {
        if (&self.release, self.memory_bytes) != (&newer.release, newer.memory_bytes) {
            *self = newer;
            return;
        }
        self.runs.retain(|run| newer.runs.iter().all(|taken| taken.cell != run.cell));
        self.runs.extend(newer.runs);
        self.runs.sort_by(|one, other| one.cell.cmp(&other.cell));
        self.command = newer.command;
    }

    /// Without resident pages: for comparisons of counters alone.
    pub fn without_residency(mut self) -> Self {
        for run in &mut self.runs {
            run.residency.clear();
            run.overlap_of_boots.clear();
        }
        self
    }

    /// Writes it into `folder`, whole or not at all.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn store(&self, folder: &Path) -> Result<PathBuf, FidelityError> {
        fs::create_dir_all(folder).map_err(FidelityError::io(folder))?;
        let path = file_of(folder, &self.kernel);
        write_whole(&path, &self.to_text())?;
        Ok(path)
    }

    /// A line for each run.
    fn to_text(&self) -> String {
        let head = Self { runs: Vec::new(), ..self.clone() };
        let plain = |what: serde_json::Result<String>| what.expect("plain data");
        let head = plain(serde_json::to_string(&head));
        let runs: Vec<String> = self.runs.iter().map(|run| plain(serde_json::to_string(run))).collect();
        format!("{}\n{}\n]}}\n", head.trim_end_matches("]}"), runs.join(",\n"))
    }

    pub fn run(&self, cell: &Cell) -> Option<&StoredRun> {
        self.runs.iter().find(|run| run.cell == *cell)
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// It cannot be written; the old file is unchanged.
pub fn write_whole(path: &Path, text: &str) -> Result<(), FidelityError> {
    // Under another name first: an existing file is always whole.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        FidelityError::io(path)(error)
    })
}

fn file_of(folder: &Path, kernel: &str) -> PathBuf {
    folder.join(format!("{kernel}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workload: &str, faults: u64) -> StoredRun {
        StoredRun {
            cell: Cell { workload: workload.to_owned(), policy: "classic".to_owned(), limit_percent: 75 },
            digest: "0".to_owned(),
            limit_pages: 10,
            counters: BTreeMap::from([("major_faults".to_owned(), vec![faults])]),
            residency: vec![1, 2],
            overlap_of_boots: Vec::new(),
        }
    }

    fn data(runs: Vec<StoredRun>) -> KernelData {
        let text = |text: &str| text.to_owned();
        KernelData { kernel: text("6.12"), release: text("6.12.1"), command: text("c"), memory_bytes: 1, runs }
    }

    #[test]
    fn what_is_stored_is_read_again_and_newer_runs_replace_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(KernelData::load(folder.path(), "6.12").unwrap(), None);
        let mut first = data(vec![run("a", 1), run("c", 2)]);
        first.store(folder.path()).unwrap();
        assert_eq!(KernelData::load_all(folder.path()).unwrap(), [first.clone()]);
        first.take(data(vec![run("b", 3), run("a", 4)]));
        assert_eq!(first.runs, [run("a", 4), run("b", 3), run("c", 2)]);
        first.store(folder.path()).unwrap();
        assert_eq!(KernelData::load(folder.path(), "6.12").unwrap(), Some(first));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken.json");
        fs::create_dir(&taken).unwrap();
        let error = write_whole(&taken, "text").unwrap_err().to_string();
        assert!(error.contains("taken.json: "), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
        let path = folder.path().join("new.json");
        write_whole(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "text");
    }

    #[test]
    fn runs_of_two_releases_are_never_mixed() {
        let mut stored = data(vec![run("a", 1), run("c", 2)]);
        let newer = KernelData { release: "6.12.2".to_owned(), ..data(vec![run("a", 4)]) };
        stored.take(newer.clone());
        assert_eq!(stored, newer);
    }

    #[test]
    fn a_torn_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = data(vec![run("a", 1)]).to_text();
        fs::write(folder.path().join("6.12.json"), &text[..text.len() / 2]).unwrap();
        let error = KernelData::load_all(folder.path()).unwrap_err().to_string();
        assert!(error.contains("6.12.json: EOF"), "{error}");
    }

    #[test]
    fn the_bundled_data_can_be_read() {
        assert_eq!(KernelData::bundled().unwrap().len(), crate::KERNELS.len());
    }
}
