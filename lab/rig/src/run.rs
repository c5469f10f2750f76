//! One run: a kernel, a machine and a job; returns the guest's reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::initramfs::Initramfs;
use crate::job::{JOB_PATH, Job, MODULES_PATH, Observation, PASSED, Report, SCRIPT_PATH};
use crate::modules::Modules;
use crate::packages::need;
use crate::script::Script;
use crate::vm::{self, Ended, Machine};
use crate::{Kernel, RigError};

/// Modules that jobs may need; a kernel may have one built in.
pub(crate) const MODULES: &[&str] = &["zram", "virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// Block device of the file system with the script's files.
const FILES_DEVICE: &str = "/dev/vda";

#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub kernel: &'a Kernel,
    pub machine: &'a Machine,
    /// The guest's program, statically linked.
    pub guest: &'a Path,
    /// The guest's job; `files_device` is filled in.
    pub job: &'a Job,
    /// The script, if it plays one.
    pub script: Option<&'a Script>,
    /// Further files for the guest.
    pub extras: &'a Extras,
}

/// Files for a guest in addition to its own program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Kernel modules, not packed, loaded in this order after the rig's own.
    pub modules: Vec<PathBuf>,
    /// Programs and files.
    pub files: Vec<Extra>,
}

/// A file for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Path on the host.
    pub from: PathBuf,
    /// Path in the guest, absolute.
    pub to: String,
    /// Whether the file can be run.
    pub is_program: bool,
}

impl Extras {
    fn add_to(&self, files: &mut Initramfs) -> Result<(), RigError> {
        for (index, path) in self.modules.iter().enumerate() {
            let bytes = fs::read(path).map_err(RigError::io(path))?;
            // After those of the rig, which begin with two digits.
            files.file(&format!("{}/x{index:02}.ko", inside(MODULES_PATH)), &bytes);
        }
        for Extra { from, to, is_program } in &self.files {
            let bytes = fs::read(from).map_err(RigError::io(from))?;
            let to = inside(to);
            // An existing folder stays unchanged.
            to.match_indices('/').for_each(|(end, _)| files.folder(&to[..end]));
            let changed = fs::metadata(from).and_then(|file| file.modified()).map_err(RigError::io(from))?;
            let changed_s = changed.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_secs());
            files.as_on_host(to, *is_program, u32::try_from(changed_s).unwrap_or(u32::MAX), &bytes);
        }
        Ok(())
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// `uname -r` of the guest.
    pub kernel: String,
    /// The guest's reports, in order.
    pub reports: Vec<Report>,
    pub console: String,
    /// Wall-clock time from start to exit.
    pub took: Duration,
}

impl RunResult {
    /// The state at the marks, in order.
    pub fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.reports.iter().filter_map(|report| match report {
            Report::Observed(observation) => Some(observation),
            _ => None,
        })
    }

    /// The result of an emulator, if the guest finished.
    pub(crate) fn of(ended: Ended) -> Result<Self, RigError> {
        let reports = reports_of(&ended.reports);
        let failed = |what: String| Err(RigError::Guest { what, tail: vm::tail(&ended.console) });
        let ended_with = format!("(the emulator ended with {})", code_text(ended.code));
        // The text after a panic on the console can be longer than the tail.
        let panic = ended.console.lines().find_map(|line| line.split_once("Kernel panic - not syncing: "));
        let kernel = reports.iter().find_map(|report| match report {
            Report::Booted { kernel, .. } => Some(kernel.clone()),
            _ => None,
        });
        let Some(kernel) = kernel else {
            return failed(match panic {
                Some((_, why)) => format!("panicked before user space: {why} {ended_with}"),
                None => format!("did not reach user space {ended_with}"),
            });
        };
        match reports.last() {
            Some(Report::Failed { message }) => failed(format!("failed: {message}")),
            // Both must agree: a panic ends the emulator with 0, which no guest can.
            Some(Report::Done) if ended.code == Some(i32::from(PASSED) << 1 | 1) => {
                Ok(Self { kernel, reports, console: ended.console, took: ended.took })
            }
            _ => failed(match panic {
                Some((_, why)) => format!("panicked: {why} {ended_with}"),
                None => format!("ended without a word {ended_with}"),
            }),
        }
    }
}

impl Run<'_> {
    /// Boots, waits, reads.
    ///
    /// # Errors
    /// A program is missing, a file cannot be written, or the guest panics, hangs, is out of memory, or reports a failure.
    pub fn go(&self) -> Result<RunResult, RigError> {
        vm::check()?;
        let folder = tempfile::tempdir().map_err(RigError::io(std::env::temp_dir()))?;
        let (job, drives) = self.with_files(folder.path())?;
        let initramfs = folder.path().join("initramfs");
        fs::write(&initramfs, self.initramfs(&job)?).map_err(RigError::io(&initramfs))?;
        let ended = vm::boot(self.machine, self.kernel, &initramfs, &drives, folder.path(), &mut |_| {})?;
        RunResult::of(ended)
    }

    fn initramfs(&self, job: &Job) -> Result<Vec<u8>, RigError> {
        let guest = fs::read(self.guest).map_err(RigError::io(self.guest))?;
        let mut files = Initramfs::new(&guest);
        files.folder(inside(MODULES_PATH));
        for (index, (name, bytes)) in Modules::of(&self.kernel.modules, MODULES)?.loaded.iter().enumerate() {
            files.file(&format!("{}/{index:02}-{name}.ko", inside(MODULES_PATH)), bytes);
        }
        self.extras.add_to(&mut files)?;
        files.file(inside(JOB_PATH), &serde_json::to_vec(job).expect("a job is plain data"));
        if let Some(script) = self.script {
            let bytes = script.encode();
            // The archive is unpacked into the guest's memory, next to itself, and the script is then read.
            let room = self.machine.memory_bytes / 8;
            if bytes.len() as u64 > room {
                let reason = format!("the script has {} bytes; a guest of this size has room for {room}", bytes.len());
                return Err(RigError::Unplayable { reason });
            }
            files.file(inside(SCRIPT_PATH), &bytes);
        }
        files.finish().map_err(RigError::io("initramfs"))
    }

    /// Makes a file system with the script's files, if it has any on a disk.
    fn with_files(&self, folder: &Path) -> Result<(Job, Vec<PathBuf>), RigError> {
        let mut job = self.job.clone();
        let files = self.script.map_or(&[][..], |script| &script.files);
        if files.iter().all(|file| file.shared_memory) {
            return Ok((job, Vec::new()));
        }
        need("mke2fs", "e2fsprogs")?;
        let content = folder.join("files");
        fs::create_dir(&content).map_err(RigError::io(&content))?;
        let mut bytes = 0u64;
        for (index, file) in files.iter().enumerate().filter(|(_, file)| !file.shared_memory) {
            let path = content.join(index.to_string());
            let made = fs::File::create(&path).and_then(|made| made.set_len(file.pages * 4096));
            made.map_err(RigError::io(&path))?;
            bytes = bytes.saturating_add(file.pages.saturating_mul(4096));
        }
        let image = folder.join("files.ext4");
        // Room for writes into holes, for the journal and for the tables.
        let kib = (bytes / 1024).saturating_mul(5) / 4 + 64 * 1024;
        let made = Command::new("mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-d"])
            .args([&content, &image])
            .arg(format!("{kib}k"))
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .map_err(RigError::io("mke2fs"))?;
        if !made.status.success() {
            let reason = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(RigError::Damaged { path: image, reason });
        }
        job.files_device = Some(FILES_DEVICE.to_owned());
        Ok((job, vec![image]))
    }
}

pub(crate) fn inside(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn code_text(code: Option<i32>) -> String {
    code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"))
}

/// Whole lines that are reports; a torn last line is dropped.
pub(crate) fn reports_of(text: &str) -> Vec<Report> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The guest's program: at `configured`, in `../guest` next to a built `executable`, or in `../lib/isotherm` next to an installed one.
///
/// # Errors
/// It is not found.
pub fn guest_program(configured: Option<&Path>, executable: Option<&Path>) -> Result<PathBuf, RigError> {
    const NAME: &str = "isotherm-guest";
    let versus = executable.and_then(Path::parent);
    let places = [
        configured.map(Path::to_owned),
        versus.map(|folder| folder.join("../guest").join(NAME)),
        versus.map(|folder| folder.join("../lib/isotherm").join(NAME)),
    ];
    places.into_iter().flatten().find(|place| place.is_file()).ok_or_else(|| RigError::Missing {
        program: NAME,
        fix: "it is built by `make lab`; ISOTHERM_GUEST may name it".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_reports_are_none() {
        let text = "{\"event\":\"done\"}\n{\"event\":\"killed\",\"process\":1,\"oper";
        assert_eq!(reports_of(text), [Report::Done]);
        assert_eq!(reports_of(""), []);
        assert_eq!(reports_of("[    0.1] noise\n"), []);
    }

    #[test]
    fn a_guest_program_that_is_nowhere_is_a_lack() {
        let error = guest_program(None, Some(Path::new("/nowhere/isotherm"))).unwrap_err();
        assert!(error.is_lack() && error.to_string().contains("make lab"), "{error}");
    }
}
