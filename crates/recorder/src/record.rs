//! Recording a program: options and result.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;

use isotherm_trace::{Clock, Fraction, NativeRun};
use isotherm_units::Duration;

use crate::engine::{self, EpochLength};
use crate::error::RecordError;
use crate::session::{self, Purpose};
use crate::{native, program};

/// Default of `--epoch`: short compared with the seconds over which reclaim acts, and long enough that most repeated accesses of a page
/// fall into one epoch.
pub const DEFAULT_EPOCH: Duration = Duration::from_ms(1);

/// Assumed CPU time of an instruction for checking the length of an epoch, if none is given: native CPU time divided by instructions was
/// 0.13 to 0.55 ns for the programs recorded in `traces/` (`traces/README.md`), with the median here.
const USUAL_NS_PER_INSTRUCTION: Fraction = Fraction { numerator: 1, denominator: 5 };

/// Largest error of a clock by prices (`recorder/valgrind/src/prices.c`), percent of native CPU time, over all whole programs that were
/// measured: those judged in `docs/use/recording.md#time`, and those fitted in `recorder/valgrind/prices/README.md` (there Python with
/// floating point).
pub(crate) const PRICES_ERROR_PERCENT: u32 = 162;

/// A recording to be made.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Path of the trace.
    pub output: PathBuf,
    /// Run the program once without the engine first, to measure its time and memory use.
    pub native_first: bool,
    /// Length of an epoch, in CPU time of a thread.
    pub epoch: Duration,
    /// CPU time of one instruction; `None`: prices by kind of work.
    pub ns_per_instruction: Option<Fraction>,
    /// Stop recording when the file reaches this size in bytes; the program runs on.
    pub max_bytes: Option<u64>,
}

impl RecordOptions {
    /// A recording of `command` into `output` with the defaults.
    pub fn new(command: Vec<OsString>, output: impl Into<PathBuf>) -> Self {
        Self {
            command,
            output: output.into(),
            native_first: false,
            epoch: DEFAULT_EPOCH,
            ns_per_instruction: None,
            max_bytes: None,
        }
    }

    /// Length of an epoch under the engine.
    pub(crate) fn epoch_length(&self) -> Result<EpochLength, RecordError> {
        let instructions = self.epoch_instructions()?;
        Ok(EpochLength { instructions: self.ns_per_instruction.map(|_| instructions), ns: self.epoch.ns() })
    }

    fn epoch_instructions(&self) -> Result<u64, RecordError> {
        let Fraction { numerator, denominator } = self.ns_per_instruction.unwrap_or(USUAL_NS_PER_INSTRUCTION);
        let epoch_ns = self.epoch.ns();
        let instructions = u128::from(epoch_ns) * u128::from(denominator) / u128::from(numerator.max(1));
        let instructions = u64::try_from(instructions).unwrap_or(u64::MAX);
        let allowed = numerator > 0 && denominator > 0 && (1000..=1 << 40).contains(&instructions);
        if allowed { Ok(instructions) } else { Err(RecordError::Epoch { epoch_ns, instructions }) }
    }
}

/// Progress that the caller may show while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// Progress, about five times a second.
    Progress {
        /// Rows written.
        rows: u64,
        /// Bytes of the file.
        bytes: u64,
        /// CPU time of the program, all threads.
        cpu: Duration,
    },
    /// A message that the user should see at once.
    Warning(String),
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recording {
    pub path: PathBuf,
    /// Exit code of the program, or 128 + n after signal n.
    pub exit_code: i32,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Whether the recording saw the whole run.
    pub complete: bool,
    /// Rows of the trace.
    pub rows: u64,
    /// Pages touched by all rows.
    pub accesses: u64,
    /// Different pages touched, per process; pages of files read and written by descriptor count once for all processes.
    pub pages: u64,
    /// Address spaces seen.
    pub processes: usize,
    /// Threads seen.
    pub threads: usize,
    /// Instructions of all threads that ended normally. Killed threads count whole epochs, or none if `clock` is not the instruction count.
    pub instructions: u64,
    /// CPU time that the recording covers, all threads.
    pub cpu: Duration,
    /// Resource use of the program in a separate native run before.
    pub native: Option<NativeRun>,
    /// Source of `cpu` and of all times in the trace.
    pub clock: Clock,
    /// Wall time of the recording.
    pub wall: Duration,
    /// CPU time of the recorded processes under the tool, as far as known.
    pub tool_cpu: Option<Duration>,
    /// Size of the file.
    pub bytes: u64,
}

/// Records a program. `report` is called about five times a second.
///
/// The program has the caller's standard streams and environment. SIGINT and SIGQUIT of the terminal are left to it; other signals are
/// forwarded to it. Threads and children are recorded too; the recording ends when all have ended.
///
/// # Errors
/// When the command or the engine is missing, or the trace cannot be written; [`RecordError::is_partial`] says whether the file holds a
/// part.
pub fn record(options: &RecordOptions, report: &mut dyn FnMut(Report)) -> Result<Recording, RecordError> {
    engine::check_processor(std::env::consts::ARCH)?;
    // A wrong epoch is refused before anything runs.
    options.epoch_length()?;
    let search = std::env::var_os("PATH");
    let program = program::resolve(&options.command, search.as_deref())?;
    let found = engine::find()?;
    let native = if options.native_first { Some(native::run(&program)?) } else { None };
    let recorded = session::record(options, &program, native, &found.engine, Purpose::Run, report);
    if let Err(RecordError::NothingRecorded { .. } | RecordError::Io { .. }) = recorded {
        // Not tried again now: the program may have run.
        found.recorded_nothing();
    }
    recorded
}

/// Runs a program without the engine, to measure its time and memory use. It has the caller's standard streams.
///
/// # Errors
/// When the command cannot be started.
pub fn run_native(command: &[OsString]) -> Result<NativeRun, RecordError> {
    let search = std::env::var_os("PATH");
    native::run(&program::resolve(command, search.as_deref())?)
}

/// Exit code and signal of a program, with the code as in a shell.
pub(crate) fn exit_of(status: ExitStatus) -> (i32, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => (code, None),
        (None, Some(signal)) => (128 + signal, Some(signal)),
        (None, None) => (1, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_in_instructions() {
        let options = |epoch: &str, numerator, denominator| RecordOptions {
            epoch: epoch.parse().unwrap(),
            ns_per_instruction: Some(Fraction { numerator, denominator }),
            ..RecordOptions::new(vec![], "x")
        };
        // 1 ms at 0.25 ns an instruction = 4 000 000.
        assert_eq!(options("1ms", 1, 4).epoch_instructions().unwrap(), 4_000_000);
        assert_eq!(options("10us", 1, 1).epoch_instructions().unwrap(), 10_000);
        for bad in [options("0", 1, 4), options("1ns", 1, 4), options("1ms", 0, 1), options("100h", 1, 1000)] {
            let message = bad.epoch_instructions().unwrap_err().to_string();
            assert!(message.contains("allowed: 1000 to 2^40"), "{message}");
        }
    }

    #[test]
    fn exits_are_those_of_a_shell() {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(exit_of(ExitStatus::from_raw(3 << 8)), (3, None));
        assert_eq!(exit_of(ExitStatus::from_raw(11)), (139, Some(11)));
    }
}
