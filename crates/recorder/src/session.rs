//! A recording under the engine: starts it, receives its records over the spool, tracks the processes, writes the trace.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration as WallDuration, Instant as WallInstant};

use isotherm_trace::{Clock, ClockKind, Fraction, NativeRun, PageCacheRange, TraceMeta, TraceWriter};
use isotherm_units::Duration;

use crate::assemble::{AssembleError, Assembler};
use crate::engine::{EpochLength, Valgrind};
use crate::error::RecordError;
use crate::program::Program;
use crate::protocol::ProtocolError;
use crate::record::{PRICES_ERROR_PERCENT, RecordOptions, Recording, Report, exit_of};
use crate::signals::Signals;
use crate::spool::{Spool, chunks};
use crate::{host, sys};

/// Longest wait for records, in milliseconds; then the program and its children are checked.
const WAIT_MS: u32 = 20;
const PROGRESS_EVERY: WallDuration = WallDuration::from_millis(200);
const FLUSH_EVERY: WallDuration = WallDuration::from_secs(1);
/// Time after the end of all other processes. An announced process that sends nothing within this time was killed before it could.
const SILENCE: WallDuration = WallDuration::from_secs(2);

/// Longest time of the engine for a program that does nothing; it takes half a second on a quiet machine.
const PROBE_LIMIT: WallDuration = WallDuration::from_secs(10);

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A run for the user: with the caller's standard streams and signals, without a time limit.
    Run,
    /// A check that the engine works: without streams, ended after [`PROBE_LIMIT`], or by any signal.
    Probe,
}

pub(crate) fn record(
    options: &RecordOptions,
    program: &Program,
    native: Option<NativeRun>,
    engine: &Valgrind,
    purpose: Purpose,
    report: &mut dyn FnMut(Report),
) -> Result<Recording, RecordError> {
    let epoch = options.epoch_length()?;
    let signals = Signals::catch().map_err(|error| RecordError::io("catch signals", error))?;
    let spool = Spool::create().map_err(|error| RecordError::io("make a directory for temporary files", error))?;
    let writer = TraceWriter::create(&options.output, meta(options)).map_err(RecordError::NotBegun)?;

    let began = WallInstant::now();
    let mut command = engine.command(spool.path(), epoch, program);
    if purpose == Purpose::Probe {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A separate process group, so that all of it can be killed.
        command.process_group(0);
    }
    let child = command.spawn();
    let child = child.map_err(|error| RecordError::io(format!("start {}", engine.path().display()), error))?;
    let assembler = Assembler::new(writer, options.epoch.ns());
    let session = Session {
        options,
        purpose,
        epoch,
        native,
        spool,
        signals,
        child,
        assembler,
        processes: BTreeMap::new(),
        stopped: None,
        reported_stop: false,
    };
    session.run(engine.path(), began, report)
}

/// Metadata of a recording before it starts.
fn meta(options: &RecordOptions) -> TraceMeta {
    let clock = match options.ns_per_instruction {
        Some(_) => Clock { kind: ClockKind::Instructions, error_percent: None },
        None => Clock { kind: ClockKind::InstructionMix, error_percent: Some(PRICES_ERROR_PERCENT) },
    };
    TraceMeta {
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        recorder: Valgrind::RECORDER.to_owned(),
        kernel_accesses: true,
        page_cache: Some(PageCacheRange::RECORDED),
        host: host::describe(),
        epoch_ns: options.epoch.ns(),
        ns_per_instruction: options.ns_per_instruction,
        clock,
        ..TraceMeta::default()
    }
}

/// A program being recorded.
struct Session<'a> {
    options: &'a RecordOptions,
    purpose: Purpose,
    epoch: EpochLength,
    native: Option<NativeRun>,
    spool: Spool,
    signals: Signals,
    child: Child,
    assembler: Assembler,
    /// Handles of the processes that have sent records; `None`: the process ended before it could be opened.
    processes: BTreeMap<u32, Option<OwnedFd>>,
    /// Why recording stopped although the program runs on.
    stopped: Option<Stop>,
    /// Whether that was reported to the user.
    reported_stop: bool,
}

enum Stop {
    Failed(RecordError),
    MaxSize,
}

impl From<ProtocolError> for Stop {
    fn from(error: ProtocolError) -> Self {
        // The path is filled in when the error is returned.
        Self::Failed(RecordError::Stream { path: PathBuf::new(), why: error.to_string() })
    }
}

impl From<AssembleError> for Stop {
    fn from(error: AssembleError) -> Self {
        match error {
            AssembleError::Protocol(error) => error.into(),
            AssembleError::Trace(error) => Self::Failed(error.into()),
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(RecordError::io("read what the engine sends", error))
    }
}

impl Session<'_> {
    fn run(
        mut self,
        engine: &Path,
        began: WallInstant,
        report: &mut dyn FnMut(Report),
    ) -> Result<Recording, RecordError> {
        let mut exit: Option<(ExitStatus, Option<Duration>)> = None;
        let mut signalled = false;
        let (mut progress_due, mut flush_due) = (began + PROGRESS_EVERY, began + FLUSH_EVERY);
        let mut quiet_since = None;
        let (status, tool_cpu, interrupted) = loop {
            let busy = self.receive(WAIT_MS);
            let now = WallInstant::now();
            let pid = exit.is_none().then_some(self.child.id());
            // While the program lives, signals are for it; afterwards they are for us.
            let any = self.signals.pass_on(pid);
            signalled |= any && pid.is_none();
            if self.purpose == Purpose::Probe && (any || now >= began + PROBE_LIMIT) {
                return Err(self.give_up(engine, any));
            }
            if exit.is_none() {
                exit = self.wait_child()?;
            }
            if now >= flush_due {
                flush_due = now + FLUSH_EVERY;
                self.tick();
            }
            if now >= progress_due {
                progress_due = now + PROGRESS_EVERY;
                self.watch_size();
                self.tell(report);
            }
            if busy {
                continue;
            }
            self.look_after_processes();
            if let Some((status, tool_cpu)) = exit {
                let finished = self.assembler.living().is_empty();
                if !finished {
                    quiet_since = None;
                }
                let silent_since = *quiet_since.get_or_insert(now);
                let waits = self.assembler.expects_more() && now < silent_since + SILENCE;
                if (finished && !waits) || signalled || self.stopped.is_some() {
                    break (status, tool_cpu, !finished);
                }
            }
        };
        let _ = self.spool.stop();
        self.tell(report);
        self.conclude(status, tool_cpu, interrupted, engine, began)
    }

    /// Ends an engine that was only tried, with all that it started.
    fn give_up(mut self, engine: &Path, interrupted: bool) -> RecordError {
        let _ = self.spool.stop();
        sys::kill_group(self.child.id());
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.options.output);
        if interrupted {
            return RecordError::Interrupted;
        }
        RecordError::EngineHangs { tool: engine.to_owned(), seconds: PROBE_LIMIT.as_secs() }
    }

    /// Takes the chunks that have arrived. Returns whether there were any.
    fn receive(&mut self, milliseconds: u32) -> bool {
        let (assembler, stopped) = (&mut self.assembler, self.stopped.is_some());
        let received = self.spool.receive::<Stop>(milliseconds, |header, payload| {
            if stopped { Ok(()) } else { assembler.chunk(header, payload).map_err(Stop::from) }
        });
        received.unwrap_or_else(|stop| {
            self.stop(stop);
            true
        })
    }

    /// Stops taking records; the first reason is kept.
    fn stop(&mut self, stop: Stop) {
        let _ = self.spool.stop();
        self.stopped.get_or_insert(stop);
    }

    fn tick(&mut self) {
        if self.stopped.is_none()
            && let Err(error) = self.assembler.tick()
        {
            self.stop(Stop::Failed(error.into()));
        }
    }

    fn watch_size(&mut self) {
        let Some(max_bytes) = self.options.max_bytes else { return };
        if self.stopped.is_none() && self.file_bytes() >= max_bytes {
            self.stop(Stop::MaxSize);
        }
    }

    fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.options.output).map_or(0, |status| status.len())
    }

    fn tell(&mut self, report: &mut dyn FnMut(Report)) {
        self.assembler.take_warnings().into_iter().for_each(|warning| report(Report::Warning(warning)));
        if let Some(stop) = self.stopped.as_ref().filter(|_| !self.reported_stop) {
            self.reported_stop = true;
            let why = match stop {
                Stop::Failed(error) => error.to_string(),
                Stop::MaxSize => "the file has reached --max-size".to_owned(),
            };
            report(Report::Warning(format!("nothing more is recorded, the program runs on: {why}")));
        }
        let totals = self.assembler.totals();
        let cpu = Duration::from_ns(totals.cpu_ns);
        report(Report::Progress { rows: totals.rows, bytes: self.file_bytes(), cpu });
    }

    /// Whether the program has ended: its status, and the CPU time that it and its children took under the engine.
    fn wait_child(&mut self) -> Result<Option<(ExitStatus, Option<Duration>)>, RecordError> {
        if !sys::child_has_ended(self.child.id()).map_err(|error| RecordError::io("wait for the program", error))? {
            return Ok(None);
        }
        let cpu = host::cpu_time(self.child.id()); // before it is reaped
        let status = self.child.wait().map_err(|error| RecordError::io("wait for the program", error))?;
        Ok(Some((status, cpu)))
    }

    /// Opens handles of new processes, and takes the records that ended ones left.
    fn look_after_processes(&mut self) {
        let living = self.assembler.living();
        // Most processes report their end. Their handles are no longer needed, and their number is limited.
        self.processes.retain(|pid, _| living.contains(pid));
        for pid in living {
            let process = match self.processes.entry(pid) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match sys::open_process(pid) {
                    Ok(process) => unknown.insert(process),
                    Err(_) => continue, // it is alive, and is tried again when others have ended
                },
            };
            if !process.as_ref().is_none_or(sys::has_ended) {
                continue;
            }
            // Its last records may still be in the FIFO.
            while self.receive(0) {}
            for uid in self.assembler.unfinished(pid) {
                let Some(left) = self.spool.left_by(uid) else { continue };
                if self.stopped.is_some() {
                    break;
                }
                let assembler = &mut self.assembler;
                let taken = chunks::<Stop>(&left, |header, payload| {
                    // The file has room for one chunk; zeroes follow a short one.
                    if payload.is_empty() { Ok(()) } else { assembler.chunk(header, payload).map_err(Stop::from) }
                });
                // The record being written when the process was killed may be incomplete: no reason to stop.
                if let Err(stop @ Stop::Failed(RecordError::Trace(_))) = taken {
                    self.stop(stop);
                }
            }
            self.assembler.gone(pid);
            self.processes.remove(&pid);
        }
    }

    fn conclude(
        self,
        status: ExitStatus,
        tool_cpu: Option<Duration>,
        interrupted: bool,
        engine: &Path,
        began: WallInstant,
    ) -> Result<Recording, RecordError> {
        let Self { options, epoch, native, assembler, stopped, .. } = self;
        if !assembler.has_begun() && stopped.is_none() {
            let _ = std::fs::remove_file(&options.output);
            return Err(RecordError::NothingRecorded { tool: engine.to_owned(), how: status.to_string() });
        }
        let (exit_code, signal) = exit_of(status);
        // A signal that users or systems send to end a program; other signals come from the program itself.
        let cut_off = signal.is_some_and(|signal| [1, 2, 3, 9, 15].contains(&signal));
        let complete = !cut_off && !interrupted && stopped.is_none();
        let instructions = assembler.instructions(epoch.instructions);
        let (mut writer, totals, written) = assembler.finish();
        let failed = match stopped {
            Some(Stop::Failed(error)) => Some(error),
            Some(Stop::MaxSize) => {
                writer.note(format!("cut at --max-size {} bytes", options.max_bytes.unwrap_or(0)))?;
                None
            }
            None => None,
        };
        if let Some(error @ RecordError::Trace(_)) = failed {
            return Err(error); // the file cannot be written, so it is left as it is
        }
        written?;
        writer.set_outcome(Some(exit_code), complete)?;
        // A part of a run only has a part of its time.
        let ratio = native.filter(|_| complete).and_then(|native| ratio_of(&native, totals.cpu_ns));
        let clock = writer.finish_with(native, ratio)?.clock;
        if let Some(error) = failed {
            return Err(match error {
                RecordError::Stream { why, .. } => RecordError::Stream { path: options.output.clone(), why },
                error => error,
            });
        }
        Ok(Recording {
            path: options.output.clone(),
            exit_code,
            signal,
            complete,
            rows: totals.rows,
            accesses: totals.accesses,
            pages: totals.pages,
            processes: totals.processes,
            threads: totals.threads,
            instructions,
            cpu: Duration::from_ns(ratio.map_or(totals.cpu_ns, |ratio| ratio.times(totals.cpu_ns))),
            native,
            clock,
            wall: wall_since(began),
            tool_cpu,
            bytes: std::fs::metadata(&options.output).map_or(0, |status| status.len()),
        })
    }
}

/// Least CPU time to calibrate a clock by: the kernel counts hundredths of a second.
const CLOCK_MIN_NS: u64 = 100_000_000;
/// Largest ratio between native and recorded time. Above this factor, the native run must have done other work.
const CLOCK_MAX: u64 = 32;

/// Factor for times that gives the recording the CPU time of the native run.
fn ratio_of(native: &NativeRun, recorded_ns: u64) -> Option<Fraction> {
    let ratio = Fraction { numerator: native.cpu_ns, denominator: recorded_ns };
    let is_likely = ratio.times(CLOCK_MAX) >= 1 && recorded_ns >= native.cpu_ns / CLOCK_MAX;
    (native.cpu_ns >= CLOCK_MIN_NS && recorded_ns > 0 && is_likely).then_some(ratio)
}

pub(crate) fn wall_since(began: WallInstant) -> Duration {
    Duration::from_ns(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_that_of_the_native_run_if_it_can_be() {
        let ratio = |cpu_ms: u64, recorded_ms: u64| {
            let native = NativeRun { cpu_ns: cpu_ms * 1_000_000, ..NativeRun::default() };
            ratio_of(&native, recorded_ms * 1_000_000)
        };
        assert_eq!(ratio(1500, 1000).map(|ratio| ratio.times(1000)), Some(1500));
        assert_eq!(ratio(90, 1000), None, "too short to be measured");
        assert_eq!(ratio(1500, 0), None);
        assert_eq!(ratio(40_000, 1000), None, "another run altogether");
        assert_eq!(ratio(100, 10_000), None, "another run altogether");
    }
}
