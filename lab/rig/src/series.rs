//! Many replays in one boot.
//!
//! Files are on a RAM disk, which is synchronous: a read completes when it is submitted, so that nothing depends on the speed of an
//! emulated disk. The file system is a choice of the series.

use isotherm_guest::script::ScriptFile;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::file_system::{BLOCK, FileSystem};
use crate::initramfs::Initramfs;
use crate::job::{
    DISK_MODULE_PATH, DISK_PATH, Disk, JOB_PATH, Job, MODULES_PATH, Observation, Report, SCRIPT_PATH, Series,
    SeriesRun, Setting, Task,
};
use crate::modules::Modules;
use crate::run::{MODULES, RunResult, inside, reports_of};
use crate::script::Script;
use crate::vm::{self, Machine};
use crate::{Kernel, RigError};

#[derive(Clone, Copy, Debug)]
pub struct SeriesPlay<'a> {
    pub kernel: &'a Kernel,
    /// The machine; its time limit is for the whole series.
    pub machine: &'a Machine,
    /// The guest's program, statically linked.
    pub guest: &'a Path,
    /// The file system of the scripts' files.
    pub file_system: &'a FileSystem,
    /// Files to write once, before the first replay.
    pub settings: &'a [Setting],
    /// Scripts that runs name by index.
    pub scripts: &'a [&'a Script],
    /// The replays, in order.
    pub runs: &'a [SeriesRun],
}

/// Result of a series.
#[derive(Clone, Debug)]
pub struct SeriesOutcome {
    /// `uname -r` of the guest.
    pub kernel: String,
    /// State at the mark of each run, or why there is none.
    pub runs: Vec<Result<Observation, String>>,
    /// Wall-clock time from start to exit.
    pub took: Duration,
}

/// Result of a series that did not finish.
#[derive(Debug)]
pub struct CutSeries {
    /// Why the series did not finish.
    pub error: RigError,
    /// `uname -r` of the guest; `None` if it did not reach user space.
    pub kernel: Option<String>,
    /// Result of each run; `None`: not reported.
    pub runs: Vec<Option<Result<Observation, String>>>,
}

impl SeriesPlay<'_> {
    /// Boots, waits, reads. `progress` is called from time to time with the number of finished runs.
    ///
    /// # Errors
    /// Errors of a single run, and scripts that the guest has no room for. A run that fails is no error of the series.
    pub fn go(&self, progress: &dyn Fn(u64)) -> Result<SeriesOutcome, RigError> {
        self.go_as_far(progress).map_err(|cut| cut.error)
    }

    /// As [`go`](Self::go). If a series does not finish, its finished runs are returned.
    ///
    /// # Errors
    /// As [`go`](Self::go).
    pub fn go_as_far(&self, progress: &dyn Fn(u64)) -> Result<SeriesOutcome, Box<CutSeries>> {
        let mut reports = String::new();
        self.boot(progress, &mut reports).map_err(|error| {
            let reports = reports_of(&reports);
            let kernel = reports.iter().find_map(|report| match report {
                Report::Booted { kernel, .. } => Some(kernel.clone()),
                _ => None,
            });
            Box::new(CutSeries { error, kernel, runs: runs_of(reports, self.runs.len()) })
        })
    }

    /// `reported` gets the guest's output so far, regardless of the result.
    fn boot(&self, progress: &dyn Fn(u64), reported: &mut String) -> Result<SeriesOutcome, RigError> {
        vm::check()?;
        let folder = tempfile::tempdir().map_err(RigError::io(std::env::temp_dir()))?;
        let initramfs = folder.path().join("initramfs");
        fs::write(&initramfs, self.initramfs(folder.path())?).map_err(RigError::io(&initramfs))?;
        let mut sample = |reports: &Path| {
            *reported = fs::read_to_string(reports).unwrap_or_default();
            let is_over =
                |line: &&str| line.starts_with("{\"event\":\"ran") || line.starts_with("{\"event\":\"run-failed");
            progress(reported.lines().filter(is_over).count() as u64);
        };
        let ended = vm::boot(self.machine, self.kernel, &initramfs, &[], folder.path(), &mut sample)?;
        let result = RunResult::of(ended)?;
        let silent = || Err("the guest said nothing of it".to_owned());
        let runs = runs_of(result.reports, self.runs.len());
        let runs = runs.into_iter().map(|run| run.unwrap_or_else(silent)).collect();
        Ok(SeriesOutcome { kernel: result.kernel, runs, took: result.took })
    }

    fn initramfs(&self, folder: &Path) -> Result<Vec<u8>, RigError> {
        let guest = fs::read(self.guest).map_err(RigError::io(self.guest))?;
        let mut files = Initramfs::new(&guest);
        files.folder(inside(MODULES_PATH));
        let modules: Vec<&str> = MODULES.iter().copied().chain([self.file_system.kind]).collect();
        for (index, (name, bytes)) in Modules::of(&self.kernel.modules, &modules)?.loaded.iter().enumerate() {
            files.file(&format!("{}/{index:02}-{name}.ko", inside(MODULES_PATH)), bytes);
        }
        let disk_bytes = disk_bytes(self.scripts.iter().map(|script| script.files.as_slice()));
        let disk_bytes = disk_bytes.map(|bytes| bytes.max(self.file_system.bytes_min));
        if let Some(bytes) = disk_bytes {
            if let Some((_, module)) = Modules::of(&self.kernel.modules, &["brd"])?.loaded.last() {
                files.file(inside(DISK_MODULE_PATH), module);
            }
            files.file(inside(DISK_PATH), &self.file_system.empty(&folder.join("disk"), bytes, inodes(self.scripts))?);
        }
        let mut script_bytes = 0;
        for (index, script) in self.scripts.iter().enumerate() {
            let bytes = script.encode();
            script_bytes += bytes.len() as u64;
            files.file(&format!("{}-{index}", inside(SCRIPT_PATH)), &bytes);
        }
        // The archive is unpacked into the guest's memory, next to itself, and one script at a time is then read.
        let room = self.machine.memory_bytes / 8;
        if script_bytes > room {
            let reason = format!("the scripts have {script_bytes} bytes; a guest of this size has room for {room}");
            return Err(RigError::Unplayable { reason });
        }
        let FileSystem { kind, options, .. } = *self.file_system;
        let disk = disk_bytes.map(|bytes| Disk { bytes, kind: kind.to_owned(), options: options.to_owned() });
        let series = Series { disk, runs: self.runs.to_vec() };
        let job =
            Job { settings: self.settings.to_vec(), zram_bytes: None, files_device: None, task: Task::Series(series) };
        files.file(inside(JOB_PATH), &serde_json::to_vec(&job).expect("a job is plain data"));
        files.finish().map_err(RigError::io("initramfs"))
    }
}

/// Result of each of `len` runs from the reports.
fn runs_of(reports: Vec<Report>, len: usize) -> Vec<Option<Result<Observation, String>>> {
    let mut runs = vec![None; len];
    for report in reports {
        let (run, outcome) = match report {
            Report::Ran { run, observation } => (run, Ok(observation)),
            Report::RunFailed { run, message } => (run, Err(message)),
            _ => continue,
        };
        if let Some(place) = runs.get_mut(run as usize) {
            *place = Some(outcome);
        }
    }
    runs
}

/// Inodes for the files of the script with most files, and for those reserved by the file system (11 in ext4), with some to spare.
fn inodes(scripts: &[&Script]) -> usize {
    scripts.iter().map(|script| script.files.len()).max().unwrap_or(0).saturating_add(32).next_multiple_of(256)
}

/// Room for the files of the largest script, all written into holes, and for tables. `None` if there are no files.
fn disk_bytes<'a>(scripts: impl Iterator<Item = &'a [ScriptFile]>) -> Option<u64> {
    let on_disk = |files: &[ScriptFile]| -> u64 {
        let pages = files.iter().filter(|file| !file.shared_memory).map(|file| file.pages);
        pages.fold(0, u64::saturating_add).saturating_mul(BLOCK as u64)
    };
    let most = scripts.map(on_disk).max().filter(|&bytes| bytes > 0)?;
    Some(((most / 4).saturating_mul(5).saturating_add(16 << 20)).next_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_by_their_number() {
        let observation = Observation { operation: 7, ..Observation::default() };
        let failed = |run| Report::RunFailed { run, message: "m".to_owned() };
        let reports =
            vec![failed(2), Report::Ran { run: 0, observation: observation.clone() }, failed(9), Report::Done];
        assert_eq!(runs_of(reports, 3), [Some(Ok(observation)), None, Some(Err("m".to_owned()))]);
    }

    #[test]
    fn the_file_system_has_an_inode_for_each_file() {
        let script =
            |files| Script { files: vec![ScriptFile { pages: 1, shared_memory: false }; files], ..Script::default() };
        let (few, many) = (script(3), script(246));
        assert_eq!((inodes(&[]), inodes(&[&few]), inodes(&[&few, &many])), (256, 256, 512), "ext4 keeps 11 of 256");
    }

    #[test]
    fn the_disk_has_room_for_the_largest_script() {
        let file = |pages, shared_memory| ScriptFile { pages, shared_memory };
        assert_eq!(disk_bytes([].into_iter()), None);
        assert_eq!(disk_bytes([[file(9, true)].as_slice()].into_iter()), None);
        let scripts = [vec![file(1024, false), file(1024, false)], vec![file(512, false)]];
        // 8 MiB of files, a quarter more, 16 MiB.
        assert_eq!(disk_bytes(scripts.iter().map(Vec::as_slice)), Some(26 << 20));
    }
}
