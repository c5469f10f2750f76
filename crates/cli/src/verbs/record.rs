//! `isotherm record`: run a program and write down which pages it touches.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_recorder::{RecordError, RecordOptions, Recording, Report};
use isotherm_trace::{ClockKind, Fraction, NativeRun};
use isotherm_units::{Bytes, Duration, PAGE_BYTES};

use crate::error::CliError;
use crate::ui::Ui;

mod running;

/// Run a program, or attach to a running one, and record which pages it touches.
///
/// Exact and without root, for x86-64 programs with their threads and children, at about a tenth of their speed: the program
/// runs under an engine that sees each access. It has this terminal, its exit code is passed on, and Ctrl-C is its own: the
/// trace is finished when it has ended.
///
/// With --pid or --cgroup, processes that run already are recorded from their accessed bits, in epochs of 100 ms, at hardly any cost.
/// That needs root and the kernel module (module/README.md).
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace to write (Parquet; an Arrow IPC stream while the program runs).
    #[arg(long, short, value_name = "TRACE", required_unless_present = "native_only")]
    output: Option<PathBuf>,
    /// Time in which a page of a thread is written down once. Longer makes smaller files and hides shorter reuse [default: 1ms; of running
    /// processes 100ms].
    #[arg(long, value_name = "TIME")]
    epoch: Option<Duration>,
    /// Run the program twice: first unchanged, for its CPU time and memory. The trace's clock follows that CPU time, and the trace holds
    /// the figures. This is only useful for programs that do the same again.
    #[arg(long)]
    native_first: bool,
    /// Run the program once unchanged, and print its CPU time and memory; record nothing.
    #[arg(long, conflicts_with_all = ["output", "native_first", "pid", "cgroup"])]
    native_only: bool,
    /// CPU time of 1000 instructions, where no native run sets the clock. Without it each kind of work is counted at its own price.
    #[arg(long, value_name = "TIME")]
    time_per_kinstructions: Option<Duration>,
    /// Stop recording at this file size; the program runs on.
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    #[command(flatten)]
    running: running::RunningArgs,
    /// The program and its arguments.
    #[arg(value_name = "CMD", required_unless_present_any = ["pid", "cgroup"], conflicts_with_all = ["pid", "cgroup"],
          trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  isotherm record -o job.parquet -- python3 job.py
  isotherm record -o exact.parquet --native-first -- python3 job.py
  isotherm record -o server.parquet --epoch 10ms -- redis-server --port 7000
  isotherm record -o service.parquet --pid 1234 --for 5m

Then: isotherm advise job.parquet, isotherm report heatmap job.parquet

The engine is a Valgrind tool that comes with isotherm. It sees what the kernel touches for the program, and
runs threads one at a time. It is made for x86-64 alone.

The exit code is the program's (128 + n after signal n); 3 without a program run: this host lacks something.";

/// Records, and reports the result.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let Some(output) = args.output else {
        let native = isotherm_recorder::run_native(&args.command).map_err(to_cli)?;
        native_words(&native).iter().for_each(|line| ui.say(line));
        return Ok(code(native.exit_code));
    };
    if args.running.is_given() {
        let max_bytes = args.max_size.map(Bytes::get);
        return running::run(&args.running, &output, args.epoch, max_bytes, ui);
    }
    args.running.budget.refuse_length()?;
    let options = RecordOptions {
        native_first: args.native_first,
        epoch: args.epoch.unwrap_or(isotherm_recorder::DEFAULT_EPOCH),
        ns_per_instruction: args
            .time_per_kinstructions
            .map(|time| Fraction { numerator: time.ns(), denominator: 1000 }),
        max_bytes: args.max_size.map(Bytes::get),
        ..RecordOptions::new(args.command, output)
    };
    let recording = record(&options, ui)?;
    summary(&recording).iter().for_each(|line| ui.say(line));
    Ok(code(recording.exit_code))
}

/// Codes are 0 to 255 by construction: an exit status, or 128 + a signal below 128.
fn code(exit_code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(exit_code).unwrap_or(1))
}

/// Resources that a native run used.
fn native_words(native: &NativeRun) -> Vec<String> {
    let size = |bytes| Bytes::new(bytes).approx();
    let time = |ns| Duration::from_ns(ns).approx();
    let mut lines = vec![format!(
        "without recording: {} of CPU time in {}; at most {} resident, {} of page tables, {} in swap (samples every {})",
        time(native.cpu_ns),
        time(native.wall_ns),
        size(native.peak_rss_bytes),
        size(native.peak_page_table_bytes),
        size(native.peak_swap_bytes),
        time(native.sample_ns),
    )];
    if let Some(ns) = native.system_stall_ns.filter(|&ns| ns > 0) {
        lines.push(format!("some task of this machine waited for memory for {} of that time", time(ns)));
    }
    lines
}

/// Records a program into `output`, for a verb that works on the trace.
pub(crate) fn record_for_advice(
    command: &[String],
    output: &Path,
    native_first: bool,
    ui: &Ui,
) -> Result<(), CliError> {
    let options = RecordOptions::new(command.iter().map(OsString::from).collect(), output);
    let recording = record(&RecordOptions { native_first, ..options }, ui)?;
    summary(&recording).iter().skip(1).for_each(|line| ui.say(line));
    if recording.exit_code != 0 {
        ui.warn(format_args!("the program ended with exit code {}", recording.exit_code));
    }
    Ok(())
}

/// A recording that is removed when it is not needed any more.
#[derive(Debug)]
pub(crate) struct TemporaryTrace {
    directory: PathBuf,
    file: PathBuf,
}

impl TemporaryTrace {
    pub(crate) fn create() -> Result<Self, CliError> {
        Self::in_a_new_folder()
            .map_err(|error| CliError::failed(error).while_doing("cannot make a directory for the recording"))
    }

    fn in_a_new_folder() -> std::io::Result<Self> {
        let base = std::env::temp_dir();
        let mut number = std::process::id();
        loop {
            let directory = base.join(format!("isotherm-{number}"));
            // A new private directory, so that no other user can place a link at the path of the trace.
            match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Ok(Self { file: directory.join("recording.parquet"), directory }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for TemporaryTrace {
    fn drop(&mut self) {
        // Files that cannot be removed are left to the cleanup of temporary files.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Records with progress and warnings on standard error.
pub(crate) fn record(options: &RecordOptions, ui: &Ui) -> Result<Recording, CliError> {
    // A program that owns the terminal must not get our line on it.
    let spinner = (!ui.is_terminal()).then(|| ui.spinner("recording"));
    let recording = isotherm_recorder::record(options, &mut |report| match report {
        Report::Progress { rows, bytes, cpu } => {
            if let Some(spinner) = &spinner {
                let (bytes, cpu) = (Bytes::new(bytes).approx(), cpu.approx());
                spinner.set_message(format!("recording: {cpu} of CPU time, {bytes}, rows:"));
                spinner.set_position(rows);
            }
        }
        Report::Warning(warning) => ui.warn(warning),
        _ => {}
    });
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    recording.map_err(to_cli)
}

fn to_cli(error: RecordError) -> CliError {
    match &error {
        error_kind if error_kind.is_usage() => CliError::usage(error),
        error_kind if error_kind.is_host_cannot() => CliError::host_cannot(error),
        error_kind if error_kind.is_partial() => CliError::partial(error),
        _ => CliError::failed(error),
    }
}

/// Facts about a recording that the user wants to know, line by line.
fn summary(recording: &Recording) -> Vec<String> {
    let plural = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let touched = Bytes::new(recording.pages.saturating_mul(PAGE_BYTES)).approx();
    let mut lines = vec![format!(
        "{}: {} rows, {} page accesses; {touched} touched by {}, {}; {} on disk",
        recording.path.display(),
        recording.rows,
        recording.accesses,
        plural(recording.processes, "process", "processes"),
        plural(recording.threads, "thread", "threads"),
        Bytes::new(recording.bytes).approx(),
    )];
    let instructions = match recording.instructions {
        0 => String::new(), // the tool does not count them
        count => format!(" ({count} instructions)"),
    };
    let (cpu, wall) = (recording.cpu.approx(), recording.wall.approx());
    // Starting the tool takes longer than a tiny program itself; a ratio would be meaningless.
    let slower = if recording.cpu >= Duration::from_ms(100) {
        format!(", about {} times slower than without", recording.wall.ns() / recording.cpu.ns())
    } else {
        String::new()
    };
    lines.push(format!("{cpu} of CPU time{instructions}, recorded in {wall}{slower}"));
    if let Some(native) = &recording.native {
        lines.extend(native_words(native));
    }
    lines.push(clock_words(recording));
    if let Some(signal) = recording.signal {
        lines.push(format!("the program died by signal {signal}{}", why_died(signal)));
    } else if let signal @ 1..=64 = recording.exit_code - 128 {
        // As shells and `env` say it.
        let (code, why) = (recording.exit_code, why_died(signal));
        lines.push(format!(
            "the program ended with exit code {code}: one of its processes died by signal {signal}{why}"
        ));
    }
    if !recording.complete {
        lines.push("the recording does not reach the program's end; what is there is right".to_owned());
    }
    lines
}

/// Why a signal may have ended a program under the engine, to be said after its number; empty where nothing is known.
pub(crate) fn why_died(signal: i32) -> &'static str {
    if signal == rustix::process::Signal::ILL.as_raw() {
        ", an illegal instruction: if it runs without the recorder, it was built for instructions that the engine does not have, such as \
         AVX-512 (-march=native, -march=x86-64-v4); build it without them, or record it while it runs, with --pid"
    } else {
        ""
    }
}

/// The clock of the trace, and how far it may be off.
fn clock_words(recording: &Recording) -> String {
    let kind = match recording.clock.kind {
        ClockKind::Native => "follows that CPU time",
        ClockKind::InstructionMix => "counts instructions, far memory accesses and system calls by kind",
        _ => "counts instructions of one length",
    };
    let unset = match recording.native {
        Some(_) if recording.clock.kind != ClockKind::Native => "; the native run differs too much, or is too short",
        _ => "",
    };
    let error = recording.clock.error_percent;
    let error = error.map_or(String::new(), |percent| format!("; up to {percent} % off"));
    format!("the trace's clock {kind}{unset}{error}")
}

#[cfg(test)]
mod tests {
    use isotherm_trace::Clock;

    use super::*;

    fn recording() -> Recording {
        Recording {
            path: "t.parquet".into(),
            exit_code: 139,
            signal: Some(11),
            complete: false,
            rows: 10,
            accesses: 20,
            pages: 256,
            processes: 1,
            threads: 2,
            instructions: 4_000_000,
            cpu: Duration::from_ms(100),
            native: None,
            clock: Clock { kind: ClockKind::InstructionMix, error_percent: Some(40) },
            wall: Duration::from_ms(1500),
            tool_cpu: None,
            bytes: 2048,
        }
    }

    #[test]
    fn the_summary_says_what_was_seen_and_what_not() {
        let lines = summary(&recording());
        assert_eq!(
            lines[0],
            "t.parquet: 10 rows, 20 page accesses; 1.00 MiB touched by 1 process, 2 threads; 2.00 KiB on disk"
        );
        assert!(lines[1].ends_with("about 15 times slower than without"), "{}", lines[1]);
        assert!(lines[2].contains("memory accesses and system calls by kind; up to 40 % off"), "{}", lines[2]);
        assert!(lines[3].contains("signal 11") && lines[4].contains("does not reach"));
    }

    #[test]
    fn an_illegal_instruction_is_explained_also_behind_a_shell() {
        let ended = |exit_code, signal| summary(&Recording { exit_code, signal, ..recording() })[3].clone();
        assert!(ended(132, Some(4)).starts_with("the program died by signal 4, an illegal instruction"));
        let behind_a_shell = ended(132, None);
        assert!(
            behind_a_shell.contains("exit code 132: one of its processes died by signal 4, an illegal instruction")
        );
        assert!(behind_a_shell.contains("AVX-512"), "{behind_a_shell}");
        assert!(ended(3, None).contains("does not reach"), "a failure of its own is no signal");
    }

    #[test]
    fn a_temporary_trace_is_gone_after_use() {
        let (first, second) = (TemporaryTrace::create().unwrap(), TemporaryTrace::create().unwrap());
        assert_ne!(first.path(), second.path());
        let directory = first.directory.clone();
        assert!(directory.is_dir());
        drop(first);
        assert!(!directory.exists() && second.directory.exists());
    }

    #[test]
    fn errors_have_their_exit_codes() {
        assert!(matches!(to_cli(RecordError::NoCommand), CliError::Usage(_)));
        assert!(matches!(to_cli(RecordError::OtherProcessor("aarch64")), CliError::HostCannot(_)));
    }
}
