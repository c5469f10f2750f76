//! Recording under Valgrind's lackey: each reference of the program as text through a pipe, read by the trace crate's
//! importer. For hosts without a usable QEMU.

use std::io::{PipeReader, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration as WallDuration, Instant as WallInstant};

use isotherm_trace::import::{ImportOptions, Input, lackey};
use isotherm_trace::{ProcessMeta, RowBatch, ThreadMeta, TraceMeta, TraceReader, TraceWriter};
use isotherm_units::Duration;

use crate::emulator::{find_tool, meta, wall_since};
use crate::error::RecordError;
use crate::host;
use crate::program::Program;
use crate::record::{RecordOptions, Recording, Report, exit_of};
use crate::signals::Signals;

const VALGRIND: &str = "valgrind";
const LOOK_EVERY: WallDuration = WallDuration::from_millis(100);

pub(crate) fn record(
    options: &RecordOptions,
    program: &Program,
    report: &mut dyn FnMut(Report),
) -> Result<Recording, RecordError> {
    options.epoch_instructions()?; // the bounds are the same
    let valgrind =
        find_tool(VALGRIND).ok_or(RecordError::ToolMissing { tool: VALGRIND, package: "valgrind", other: "qemu" })?;
    let (pipe, log) = std::io::pipe().map_err(|error| RecordError::io("make a pipe", error))?;
    let signals = Signals::catch().map_err(|error| RecordError::io("catch signals", error))?;
    let began = WallInstant::now();
    // Valgrind opens the pipe by its name among our descriptors: the program's own streams stay free of the log.
    let log_path = format!("--log-file=/proc/{}/fd/{}", std::process::id(), log.as_raw_fd());
    let mut command = Command::new(&valgrind);
    command.args(["--tool=lackey", "--trace-mem=yes", "--child-silent-after-fork=yes"]).arg(log_path);
    command.arg(&program.path).args(program.arguments.iter().skip(1));
    let name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let writer = TraceWriter::create(&options.output, lackey_meta(options, name))?;
    let mut child = command.spawn().map_err(|error| RecordError::io(format!("start {}", valgrind.display()), error))?;

    let stop = Arc::new(AtomicBool::new(false));
    let reader = read_in_background(pipe, options, writer, Arc::clone(&stop));
    let tool_cpu = wait(&mut child, options, &signals, &stop, report);
    let status = child.wait().map_err(|error| RecordError::io("wait for the program", error))?;
    drop(log); // the end of the pipe
    let (mut writer, read) = reader.join().map_err(|_| RecordError::Stream {
        path: options.output.clone(),
        why: "the reader of Valgrind's log broke down".into(),
    })?;
    read?;

    let cut = stop.load(Ordering::Relaxed);
    let (exit_code, signal) = exit_of(status);
    if cut {
        writer.note(format!("cut at --max-size {} bytes", options.max_bytes.unwrap_or(0)))?;
    }
    let complete = !cut && signal.is_none_or(|signal| ![1, 2, 3, 9, 15].contains(&signal));
    writer.set_outcome(Some(exit_code), complete)?;
    let meta = writer.finish()?;
    if meta.rows == 0 {
        let _ = std::fs::remove_file(&options.output);
        return Err(RecordError::NothingRecorded { tool: valgrind, how: status.to_string() });
    }
    let (cpu, pages) = time_and_pages(&options.output, options)?;
    Ok(Recording {
        path: options.output.clone(),
        exit_code,
        signal,
        complete,
        rows: meta.rows,
        accesses: meta.accesses,
        pages,
        processes: 1,
        threads: 1,
        instructions: 0,
        cpu,
        wall: wall_since(began),
        tool_cpu,
        bytes: std::fs::metadata(&options.output).map_or(0, |status| status.len()),
    })
}

fn lackey_meta(options: &RecordOptions, name: String) -> TraceMeta {
    TraceMeta {
        recorder: "valgrind lackey".to_owned(),
        processes: vec![ProcessMeta { name: name.clone(), ..ProcessMeta::default() }],
        threads: vec![ThreadMeta { name, ..ThreadMeta::default() }],
        ..meta(options)
    }
}

/// Lets the importer read the pipe until its end, whatever happens: a log that nobody reads would stop the program.
fn read_in_background(
    mut pipe: PipeReader,
    options: &RecordOptions,
    mut writer: TraceWriter,
    stop: Arc<AtomicBool>,
) -> JoinHandle<(TraceWriter, isotherm_trace::Result<()>)> {
    let import = ImportOptions {
        epoch_ns: options.epoch.ns(),
        ns_per_instruction: options.ns_per_instruction,
        ..ImportOptions::default()
    };
    std::thread::spawn(move || {
        let read = pipe
            .try_clone()
            .map_err(isotherm_trace_io)
            .and_then(|pipe| Input::from_reader(Path::new("Valgrind's log"), Tap { pipe, stop }))
            .and_then(|mut input| lackey::convert(&mut input, &import, &mut writer));
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        (writer, read)
    })
}

fn isotherm_trace_io(source: std::io::Error) -> isotherm_trace::TraceError {
    isotherm_trace::TraceError::Io { action: "read", path: "Valgrind's log".into(), source }
}

/// A pipe that can be told to seem at its end.
struct Tap {
    pipe: PipeReader,
    stop: Arc<AtomicBool>,
}

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) { Ok(0) } else { self.pipe.read(buffer) }
    }
}

/// Waits for the program's end; its CPU time under Valgrind.
fn wait(
    child: &mut Child,
    options: &RecordOptions,
    signals: &Signals,
    stop: &AtomicBool,
    report: &mut dyn FnMut(Report),
) -> Option<Duration> {
    let process = crate::sys::open_process(child.id())?;
    loop {
        signals.pass_on(Some(child.id()));
        let milliseconds = u32::try_from(LOOK_EVERY.as_millis()).unwrap_or(100);
        if crate::sys::wait_readable(&process, milliseconds).unwrap_or(true) {
            return host::cpu_time(child.id());
        }
        let bytes = std::fs::metadata(&options.output).map_or(0, |status| status.len());
        if options.max_bytes.is_some_and(|max_bytes| bytes >= max_bytes) {
            stop.store(true, Ordering::Relaxed);
        }
        report(Report::Progress { rows: 0, bytes, cpu: Duration::ZERO });
    }
}

/// CPU time that the rows stand for, and how many different pages they touch.
fn time_and_pages(path: &Path, options: &RecordOptions) -> Result<(Duration, u64), RecordError> {
    let mut reader = TraceReader::open(path)?;
    let (mut batch, mut latest_ns) = (RowBatch::new(), 0);
    let mut pages = std::collections::HashSet::new();
    while reader.next_batch(&mut batch)? {
        for row in batch.rows() {
            latest_ns = latest_ns.max(row.time_ns);
            pages.extend(row.page..row.page + u64::from(row.pages));
        }
    }
    Ok((Duration::from_ns(latest_ns) + options.epoch, pages.len() as u64))
}
