//! A memory cgroup for each run, of version 1 or 2.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isotherm_terminal::CliError;

use super::programs::Timed;
use super::runs::{self, Run};

/// A run that takes longer is ended: under a limit that is far too small a program may never end.
const RUN_AT_MOST: Duration = Duration::from_secs(600);
/// How often it is asked whether a run has ended: this is added to the time of a program that is timed as a whole.
const LOOK_EACH: Duration = Duration::from_millis(2);
/// How often a group is asked to go that its last process has just left.
const REMOVALS: u32 = 1000;

/// Where groups are made, and what their files are called.
pub(super) struct Groups {
    parent: PathBuf,
    files: &'static Files,
}

struct Files {
    limit: &'static str,
    peak: &'static str,
    /// A file with a line `oom_kill N`.
    kills: &'static str,
    /// Gives the group's page cache back; the next run starts like this one.
    empty: Option<&'static str>,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    kills: "memory.oom_control",
    empty: Some("memory.force_empty"),
};
const VERSION_2: Files = Files { limit: "memory.high", peak: "memory.peak", kills: "memory.events", empty: None };

impl Groups {
    /// The memory hierarchy of this machine.
    pub(super) fn find() -> Result<Self, CliError> {
        let places = [("/sys/fs/cgroup/memory", &VERSION_1), ("/sys/fs/cgroup", &VERSION_2)];
        let has_memory = |parent: &Path, files: &Files| {
            let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
            parent.join(files.limit).exists() || controllers.split_whitespace().any(|name| name == "memory")
        };
        let found = places.iter().find(|(parent, files)| has_memory(Path::new(parent), files));
        let (parent, files) =
            found.ok_or_else(|| CliError::host_cannot("no memory cgroup hierarchy below /sys/fs/cgroup"))?;
        Ok(Self { parent: PathBuf::from(parent), files })
    }

    /// Runs a program in a new group, under a limit if there is one. The files that it maps leave the page cache first, as far as no other
    /// program has them mapped: otherwise they are charged to whoever read them before.
    pub(super) fn run(
        &self,
        command: &[String],
        timed: Timed,
        files: &BTreeSet<PathBuf>,
        limit_bytes: Option<u64>,
    ) -> Result<Run, CliError> {
        files.iter().try_for_each(|file| forget(file))?;
        let group = Group { path: self.parent.join(format!("isotherm-lab-{}", std::process::id())), files: self.files };
        fs::create_dir(&group.path)
            .map_err(|error| CliError::host_cannot(format!("{}: {error}", group.path.display())))?;
        if let Some(bytes) = limit_bytes {
            group.write(self.files.limit, &bytes.to_string())?;
        }
        let began = Instant::now();
        let (is_complete, printed) = finish(group.start(command)?, began)?;
        let wall_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let bursts_ns = match (is_complete, timed) {
            (true, Timed::Bursts) => {
                runs::bursts(&printed).map_err(|what| CliError::failed(format!("{}: {what}", command.join(" "))))?
            }
            (true, Timed::Whole) => vec![wall_ns],
            (false, _) => Vec::new(),
        };
        Ok(Run {
            is_complete,
            wall_ns,
            major_faults: group.number("memory.stat", "pgmajfault"),
            peak_bytes: group.read(self.files.peak).trim().parse().unwrap_or(0),
            kills: group.number(self.files.kills, "oom_kill"),
            bursts_ns,
        })
    }
}

/// A group that goes when this is dropped.
struct Group {
    path: PathBuf,
    files: &'static Files,
}

impl Group {
    /// A shell joins the group and becomes the program, so that all of the program's memory is the group's.
    fn start(&self, command: &[String]) -> Result<Child, CliError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.path.join("cgroup.procs")).args(command);
        shell.stdout(Stdio::piped()).stdin(Stdio::null());
        shell.spawn().map_err(|error| CliError::failed(format!("{}: {error}", command.join(" "))))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), CliError> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| CliError::host_cannot(format!("{}: {error}", path.display())))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap_or_default()
    }

    /// The number after `name` in a file of such lines; 0 if the kernel does not count it.
    fn number(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let line = text.lines().filter_map(|line| line.split_once(' ')).find(|(first, _)| *first == name);
        line.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(file) = self.files.empty {
            let _ = self.write(file, "0");
        }
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(LOOK_EACH);
        }
    }
}

/// Has a file leave the page cache (dd(1), `nocache`).
fn forget(file: &Path) -> Result<(), CliError> {
    let dd = Command::new("dd")
        .arg(format!("if={}", file.display()))
        .args(["iflag=nocache", "count=0", "status=none"])
        .status();
    dd.map(drop).map_err(|error| CliError::host_cannot(format!("dd: {error}")))
}

/// Waits for a program. Returns whether it ended well, and what it printed.
fn finish(mut child: Child, began: Instant) -> Result<(bool, String), CliError> {
    let mut pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.as_mut().map(|pipe| pipe.read_to_string(&mut text)).transpose().map(|_| text)
    });
    let status = loop {
        match child.try_wait().map_err(CliError::failed)? {
            Some(status) => break status,
            None if began.elapsed() > RUN_AT_MOST => {
                child.kill().map_err(CliError::failed)?;
                break child.wait().map_err(CliError::failed)?;
            }
            None => std::thread::sleep(LOOK_EACH),
        }
    };
    let text = reader.join().map_err(|_| CliError::failed("the reader of the output ended early"))?;
    Ok((status.success(), text.map_err(CliError::failed)?))
}
