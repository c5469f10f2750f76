//! The recording of a program that is started for a question: kept, so that other questions about it take seconds.

use super::{Args, program_name};
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::record::{TemporaryTrace, record_for_advice};
use isotherm_recorder::cache_folder;
use rustix::fs::FileType;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A recording, and how long it stays.
#[derive(Debug)]
pub(super) enum Recording {
    Kept(PathBuf),
    /// Until the question is answered.
    Temporary(TemporaryTrace),
}

impl Recording {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(trace) => trace.path(),
        }
    }
}

/// Where the program prints while it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// To standard output, as without the recorder.
    Shown,
    /// Nowhere, so that results alone go to standard output.
    Dropped,
}

/// Records the program that the flags name and says where the recording is. Before that it runs unchanged, if it `runs_again` anyway or may
/// run twice.
pub(super) fn make(args: &Args, runs_again: bool, output: Output, ui: &Ui) -> Result<Recording, CliError> {
    let native_first = runs_again || args.native_first || !args.once && may_run_twice(ui);
    if native_first {
        ui.say("running it once unchanged, for an exact clock (--once leaves that out), then recorded");
    }
    let recording = match place(args) {
        Some(path) => Recording::Kept(path),
        None => Recording::Temporary(TemporaryTrace::create()?),
    };
    let silence = (output == Output::Dropped).then(Silence::begin).transpose();
    let silence = silence.map_err(|error| CliError::failed(error).while_doing("cannot drop the output"))?;
    record_for_advice(&args.command, recording.path(), native_first, ui)?;
    drop(silence);
    match &recording {
        Recording::Kept(path) => {
            ui.say(format_args!("recording: {0} (isotherm advise {0} asks again)", path.display()))
        }
        Recording::Temporary(_) => ui.say("the recording is not kept; --keep FILE keeps it"),
    }
    Ok(recording)
}

/// Whether a second run finds the input that the first one had.
fn may_run_twice(ui: &Ui) -> bool {
    let mode = rustix::fs::fstat(rustix::stdio::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    // A terminal, /dev/null, or nothing at all.
    let is_used_up = mode.is_ok_and(|kind| matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket));
    if is_used_up {
        ui.say("its input can be read only once: it runs once, recorded, and the clock is estimated (--native-first runs it twice)");
    }
    !is_used_up
}

/// Where the recording stays; `None`: nowhere. A configuration names its recording, so it stays next to that.
fn place(args: &Args) -> Option<PathBuf> {
    if let Some(path) =
        args.keep.clone().or_else(|| args.config.as_ref().map(|config| config.with_extension("parquet")))
    {
        return Some(path);
    }
    let is_off = args.no_cache || std::env::var_os("ISOTHERM_NO_CACHE").is_some_and(|value| !value.is_empty());
    let folder = cache_folder().filter(|_| !is_off)?.join("recordings");
    // Without the folder the question is answered all the same.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join(format!("{}.parquet", program_name(&args.command[0]))))
}

/// Drops what programs print that this one starts, and what it prints itself, until it is dropped: results alone go to standard output.
struct Silence(OwnedFd);

impl Silence {
    fn begin() -> std::io::Result<Self> {
        let nothing = File::options().write(true).open("/dev/null")?;
        let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(nothing)?;
        Ok(Self(kept))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // It was open a moment ago, and nothing else is known to do about it.
        let _ = rustix::stdio::dup2_stdout(&self.0);
    }
}
