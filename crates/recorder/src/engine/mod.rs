//! The engine, which runs a program and reports the pages that it touches: finds, tries and starts our Valgrind tool.
//!
//! It sends its records over a spool (`docs/use/recording.md#protocol`).

mod self_test;
pub use self_test::cache_folder;
mod valgrind;
pub(crate) use valgrind::Valgrind;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use isotherm_units::Duration;

use crate::error::RecordError;
use crate::program;
use crate::record::RecordOptions;
use crate::session::{self, Purpose};

/// Length of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochLength {
    /// Instructions of a thread, if time is computed from them; `None` if it is computed from the engine's prices.
    pub(crate) instructions: Option<u64>,
    /// CPU time of a thread.
    pub(crate) ns: u64,
}

/// The engine of a recording.
pub(crate) struct Found {
    pub(crate) engine: Valgrind,
    /// An earlier finding that it works, which was not checked again.
    assumed: Option<self_test::Finding>,
}

impl Found {
    /// Call when it recorded nothing: the earlier finding is invalid, and the next recording tries the engine first.
    pub(crate) fn recorded_nothing(&self) {
        self.assumed.iter().for_each(self_test::Finding::forget);
    }
}

/// Refuses processors that the engine does not support.
pub(crate) fn check_processor(architecture: &'static str) -> Result<(), RecordError> {
    if architecture == "x86_64" { Ok(()) } else { Err(RecordError::OtherProcessor(architecture)) }
}

/// The engine, if it was found to work earlier, or works now.
pub(crate) fn find() -> Result<Found, RecordError> {
    find_or_say().map_err(|error| match error {
        RecordError::Interrupted => error,
        why => RecordError::NoEngine(Box::new(why)),
    })
}

fn find_or_say() -> Result<Found, RecordError> {
    let engine = Valgrind::locate()?;
    let finding = self_test::Finding::of(&engine);
    if let Some(finding) = finding.as_ref().filter(|finding| finding.holds()) {
        return Ok(Found { engine, assumed: Some(finding.clone()) });
    }
    try_out(&engine)?;
    finding.iter().for_each(self_test::Finding::keep);
    Ok(Found { engine, assumed: None })
}

/// Records a program that does nothing, to see whether the engine works on this host.
///
/// # Errors
/// Why not.
pub fn probe() -> Result<(), RecordError> {
    try_out(&Valgrind::locate()?)
}

/// Records a program that does nothing. The engine can be installed and refuse: a kernel may forbid a call that it needs. Only rows and the
/// program's own exit code show that it works.
fn try_out(engine: &Valgrind) -> Result<(), RecordError> {
    let directory =
        tempfile::tempdir().map_err(|error| RecordError::io("make a directory for temporary files", error))?;
    let command = ["sh", "-c", ":"].map(OsString::from).to_vec();
    let program = program::resolve(&command, Some(OsStr::new("/usr/bin:/bin")))?;
    let options =
        RecordOptions { epoch: Duration::from_ms(10), ..RecordOptions::new(command, directory.path().join("t")) };
    let recording = session::record(&options, &program, None, engine, Purpose::Probe, &mut |_| {})?;
    if recording.rows == 0 || recording.exit_code != 0 {
        let how = format!("exit code {}, {} rows, of a program that does nothing", recording.exit_code, recording.rows);
        return Err(RecordError::NothingRecorded { tool: engine.path().to_owned(), how });
    }
    Ok(())
}

/// A file that is built and installed with isotherm: at `variable`, next to the executable, in `../lib/isotherm`, or in the build
/// directory; `folder` is its folder below these.
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
    // In a build directory tests run from target/PROFILE/deps. The executable's own profile comes first, because both were built
    // together.
    if let Some(target) = directory.ancestors().find(|path| path.file_name() == Some(OsStr::new("target"))) {
        looked_at.push(directory.join("..").join(folder).join(name));
        looked_at.extend(["release", "debug"].map(|profile| target.join(profile).join(folder).join(name)));
    }
    match looked_at.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(missing(looked_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processors_are_told_that_there_is_no_engine() {
        assert!(check_processor("x86_64").is_ok());
        let error = check_processor("aarch64").unwrap_err();
        assert!(error.is_host_cannot(), "it is neither the command nor the program");
        let words = error.to_string();
        assert!(words.contains("on x86-64 alone, and this processor is aarch64: there is no engine for it"), "{words}");
    }
}
