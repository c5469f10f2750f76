//! What runs a program and says which pages it touches: one table of engines. A new one is a file here and a line in [`ENGINES`].
//!
//! All engines send the same records over the same spool (`docs/recording.md#protocol`).

mod found;
pub use found::cache_folder;
mod qemu;
mod valgrind;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm_units::Duration;

use crate::error::{EngineFailure, RecordError};
use crate::program::{self, Program};
use crate::record::{RecordOptions, Report};
use crate::session::{self, Purpose};
use crate::sys;

/// How long an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochLength {
    /// Instructions of a thread, if they are what time is made from.
    pub(crate) instructions: u64,
    /// CPU time of a thread.
    pub(crate) ns: u64,
    /// Whether time is made from the engine's own prices instead.
    pub(crate) by_prices: bool,
}

/// An engine that is installed here.
pub(crate) trait Launch {
    /// The program that is started, for messages.
    fn path(&self) -> &Path;
    /// All files that it is made of, as far as isotherm knows.
    fn parts(&self) -> Vec<PathBuf>;
    /// What a trace says made it.
    fn recorder(&self) -> &'static str;
    /// Whether it records the memory that the kernel touches for the program, in all system calls that it knows.
    fn sees_the_kernel(&self) -> bool;
    /// Whether it can count a thread's time by prices of kinds of work, rather than by instructions of one length.
    fn has_prices(&self) -> bool;
    /// The command that runs `program` and sends its records to the spool in the folder `spool`.
    fn command(&self, spool: &Path, epoch: EpochLength, program: &Program) -> Command;
}

/// One line of [`ENGINES`].
#[derive(Debug)]
pub struct EngineEntry {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Finds its parts.
    locate: fn() -> Result<Box<dyn Launch>, RecordError>,
}

impl EngineEntry {
    /// Records a program that does nothing, to see whether the engine works on this host.
    ///
    /// # Errors
    /// Why not.
    pub fn probe(&self) -> Result<(), RecordError> {
        probe(self).map(drop)
    }
}

/// All engines, the best first.
pub const ENGINES: &[EngineEntry] = &[
    EngineEntry { name: "valgrind", summary: "a Valgrind tool; comes with isotherm", locate: valgrind::locate },
    EngineEntry {
        name: "qemu",
        summary: "QEMU's user-mode emulation with plugins, 4.2 or later",
        locate: qemu::locate,
    },
];

/// The engine called `name`.
pub fn engine_named(name: &str) -> Option<&'static EngineEntry> {
    ENGINES.iter().find(|entry| entry.name == name)
}

/// The engine of a recording.
pub(crate) struct Chosen {
    pub(crate) engine: Box<dyn Launch>,
    /// That it works was found earlier, and not tried again.
    assumed: Option<found::Finding>,
}

impl Chosen {
    /// To be called when it recorded nothing: what was found earlier does not hold, and the next recording tries the engine first.
    pub(crate) fn recorded_nothing(&self) {
        self.assumed.iter().for_each(found::Finding::forget);
    }
}

/// The engine that was asked for, or the first that really records a program here. Tells which one was taken, and why not
/// those before it.
pub(crate) fn choose(
    wanted: Option<&'static EngineEntry>,
    report: &mut dyn FnMut(Report),
) -> Result<Chosen, RecordError> {
    if let Some(entry) = wanted {
        return Ok(Chosen { engine: (entry.locate)()?, assumed: None });
    }
    let mut failures = Vec::new();
    for entry in ENGINES {
        match find(entry) {
            Ok(chosen) => {
                report(Report::Engine { name: entry.name, passed_over: failures });
                return Ok(chosen);
            }
            Err(error @ RecordError::Interrupted) => return Err(error),
            Err(error) => failures.push(EngineFailure { name: entry.name, why: error.to_string() }),
        }
    }
    Err(RecordError::NoEngine(failures))
}

/// The engine, if it was found to work before or is found to work now.
fn find(entry: &EngineEntry) -> Result<Chosen, RecordError> {
    let engine = (entry.locate)()?;
    let finding = found::Finding::of(entry.name, engine.as_ref());
    if let Some(finding) = finding.as_ref().filter(|finding| finding.holds()) {
        return Ok(Chosen { engine, assumed: Some(finding.clone()) });
    }
    let engine = probe(entry)?;
    finding.iter().for_each(found::Finding::keep);
    Ok(Chosen { engine, assumed: None })
}

/// Records a program that does nothing. An engine can be installed and refuse: a build without plugins, a kernel that
/// forbids what it needs. Only rows and the program's own exit code tell that it works.
fn probe(entry: &EngineEntry) -> Result<Box<dyn Launch>, RecordError> {
    let engine = (entry.locate)()?;
    let directory =
        tempfile::tempdir().map_err(|error| RecordError::io("make a directory for temporary files", error))?;
    let command = ["sh", "-c", ":"].map(OsString::from).to_vec();
    let program = program::resolve(&command, Some(OsStr::new("/usr/bin:/bin")))?;
    let options =
        RecordOptions { epoch: Duration::from_ms(10), ..RecordOptions::new(command, directory.path().join("t")) };
    let recording = session::record(&options, &program, None, engine.as_ref(), Purpose::Probe, &mut |_| {})?;
    if recording.rows == 0 || recording.exit_code != 0 {
        let how = format!("exit code {}, {} rows, of a program that does nothing", recording.exit_code, recording.rows);
        return Err(RecordError::NothingRecorded { tool: engine.path().to_owned(), how });
    }
    Ok(engine)
}

/// An executable of `$PATH`.
fn find_tool(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&directories).map(|directory| directory.join(name));
    paths.find(|path| path.is_file() && sys::may_execute(path))
}

/// A file that is built and installed with isotherm: where `variable` says, beside the executable, in `../lib/isotherm`, or
/// in the build directory; `folder` is where it lies below these.
fn find_part(name: &'static str, variable: &'static str, folder: &str) -> Result<PathBuf, RecordError> {
    let missing = |looked_at| RecordError::PartMissing { part: name, variable, looked_at };
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_file() { Ok(path) } else { Err(missing(vec![path])) };
    }
    let executable = std::env::current_exe().map_err(|error| RecordError::io("find this executable", error))?;
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let mut looked_at =
        vec![directory.join(folder).join(name), directory.join("../lib/isotherm").join(folder).join(name)];
    // In a build directory tests run from target/PROFILE/deps. The own profile goes first: it was built together.
    if let Some(target) = directory.ancestors().find(|path| path.file_name() == Some(OsStr::new("target"))) {
        looked_at.push(directory.join("..").join(folder).join(name));
        looked_at.extend(["release", "debug"].map(|profile| target.join(profile).join(folder).join(name)));
    }
    match looked_at.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(missing(looked_at)),
    }
}
