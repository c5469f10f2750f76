//! `isotherm record --cgroup` on real programs inside real kernels: the answer of `isotherm advise` for that trace, versus its answer
//! for an emulator's recording of the same program.

use isotherm_guest::living::LiveProgram;
use isotherm_rig::{Extra, HostProgram};
use isotherm_trace::{EventKind, Fraction, RowBatch, TraceReader, TraceRow, TraceWriter};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app/program";
const TRACE: &str = "/tmp/trace.parquet";
const FOLDER: &str = "/work";
/// Allowed difference of recommended memory, as a share.
pub const TOLERANCE: f64 = 0.05;

/// A command of the host.
#[derive(Clone, Copy, Debug)]
struct Words {
    program: &'static str,
    /// Debian package.
    package: &'static str,
    /// Python modules.
    modules: &'static [&'static str],
    arguments: &'static [&'static str],
}

/// A program with a recording.
#[derive(Clone, Copy, Debug)]
pub struct ProgramCase {
    /// Name in tables, and of the recording.
    pub name: &'static str,
    /// Command as `traces/make` runs it.
    command: Words,
    /// Client of the program, outside its group.
    client: Option<Words>,
    /// Files of `traces/programs` that it uses.
    files: &'static [&'static str],
    /// Epoch, as many instructions long as the epochs of the recording; the guest takes each instruction for a nanosecond.
    epoch: &'static str,
    /// Differences in how it is recorded, for tables; empty with defaults.
    pub variant: &'static str,
    /// Further arguments of the command.
    options: &'static [&'static str],
}

impl ProgramCase {
    /// Label in tables.
    pub fn label(&self) -> String {
        if self.variant.is_empty() { self.name.to_owned() } else { format!("{}, {}", self.name, self.variant) }
    }
}

const SQLITE: ProgramCase = ProgramCase {
    name: "sqlite",
    command: Words {
        program: "sqlite3",
        package: "sqlite3",
        modules: &[],
        arguments: &["orders.db", ".read sqlite.sql"],
    },
    client: None,
    files: &["sqlite.sql"],
    epoch: "38ms",
    variant: "",
    options: &[],
};

/// All cases.
pub const PROGRAMS: &[ProgramCase] = &[
    SQLITE,
    ProgramCase { variant: "no fault-around", options: &["--no-fault-around"], ..SQLITE },
    ProgramCase {
        name: "redis",
        command: Words {
            program: "redis-server",
            package: "redis-server",
            modules: &[],
            arguments: &["--port", "7979", "--save", "", "--appendonly", "no"],
        },
        client: Some(Words {
            program: "/usr/bin/python3",
            package: "python3",
            // Names of hosts, numeric ones too, are encoded by the last.
            modules: &["socket", "time", "encodings.idna"],
            arguments: &["redis-load.py", "7979"],
        }),
        files: &["redis-load.py"],
        epoch: "54ms",
        variant: "",
        options: &[],
    },
    ProgramCase {
        name: "python",
        command: Words {
            program: "/usr/bin/python3",
            package: "python3",
            modules: &["heapq", "json"],
            arguments: &["sessions.py"],
        },
        client: None,
        files: &["sessions.py"],
        epoch: "118ms",
        variant: "",
        options: &[],
    },
];

/// A program with all that it needs in a guest, and its recording.
#[derive(Clone, Debug)]
pub struct ReadyProgram {
    pub case: &'static ProgramCase,
    programs: Vec<LiveProgram>,
    files: Vec<Extra>,
    recorded: Told,
}

/// Contents of a trace, and the answer of `isotherm advise` for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Distinct times of rows, summed over threads.
    pub epochs: u64,
    /// Pages that were used, each of each process once.
    pub pages: u64,
    /// Sum over threads.
    pub cpu_ns: u64,
    pub peak_bytes: u64,
    /// `None`: nothing is recommended.
    pub policy: Option<String>,
    pub memory_bytes: Option<u64>,
}

impl Told {
    /// This one's recommended memory as a multiple of the other's.
    pub fn ratio_to(&self, other: &Self) -> Option<f64> {
        Some(self.memory_bytes? as f64 / other.memory_bytes.filter(|&bytes| bytes > 0)? as f64)
    }
}

/// Result of a program in one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramRun {
    pub program: String,
    /// `uname -r`.
    pub kernel: String,
    /// Epoch as given to the command.
    pub epoch: String,
    /// Advice for the trace as it is.
    pub live: Told,
    /// Advice for the same trace by the recording's clock: the same CPU time, without waiting, as the recording does not count it. The
    /// guest's processor is slower than that of the recording, and the judgement depends on the runtime of the program.
    pub by_recorded_clock: Told,
    /// Advice for the emulator's recording.
    pub recorded: Told,
    /// Ratio of recommended memory to the recording's.
    pub ratio: Option<f64>,
    pub ratio_by_recorded_clock: Option<f64>,
    /// Knobs that the command left changed.
    pub knobs_changed: Vec<String>,
    /// Output of the command.
    pub said: String,
}

impl ProgramCase {
    /// Gathers its files from this machine, and has its recording in `traces` judged by the command `isotherm`.
    ///
    /// # Errors
    /// A program is not installed ([`RigError::is_lack`](isotherm_rig::RigError::is_lack)); there is no recording.
    pub fn ready(&'static self, traces: &Path, isotherm: &Path) -> Result<ReadyProgram, FidelityError> {
        let (mut programs, mut files) = (Vec::new(), Vec::new());
        for (words, group) in [(Some(self.command), Some(GROUP)), (self.client, None)] {
            let Some(words) = words else { continue };
            let mut found = HostProgram::find(words.program, words.package)?;
            if !words.modules.is_empty() {
                found = found.with_modules(words.modules)?;
            }
            programs.push(LiveProgram {
                group: group.map(str::to_owned),
                program: found.path,
                arguments: words.arguments.iter().map(|&word| word.to_owned()).collect(),
                folder: FOLDER.to_owned(),
            });
            files.extend(found.files);
        }
        files.extend(self.files.iter().map(|name| Extra {
            from: traces.join("programs").join(name),
            to: format!("{FOLDER}/{name}"),
            is_program: false,
        }));
        // Two programs may share libraries.
        files.sort_by(|one, other| one.to.cmp(&other.to));
        files.dedup();
        let recorded = told(&traces.join(format!("{}.parquet", self.name)), isotherm)?;
        Ok(ReadyProgram { case: self, programs, files, recorded })
    }
}

/// Records a program from its start to its end in a guest. `keep`: a folder for the traces.
///
/// # Errors
/// The guest does not finish, or a command fails, with its output.
pub fn record_program(
    rig: &Rig<'_>,
    product: Product<'_>,
    ready: &ReadyProgram,
    keep: Option<&Path>,
) -> Result<ProgramRun, FidelityError> {
    let name = ready.case.label();
    let mut words = vec!["record", "--cgroup", GROUP, "--epoch", ready.case.epoch, "--max-cpu", "100%", "-o", TRACE];
    words.extend(ready.case.options);
    let mut asked = Asked {
        programs: ready.programs.clone(),
        files: ready.files.clone(),
        outputs: vec![TRACE.to_owned()],
        ..Asked::alone(&words)
    };
    asked.machine.memory_bytes = 2 << 30;
    let (kernel, lived) = beside(rig, product, asked)?;
    // A server that its client leaves running is killed: both are reported.
    let ends = ready.programs.iter().zip(&lived.programs).filter(|(_, ended)| ended.exit_code != Some(0));
    let failures: Vec<String> = ends
        .map(|(program, ended)| format!("{} ended with {:?}: {}", program.program, ended.exit_code, ended.said.trim()))
        .collect();
    if !failures.is_empty() {
        return Err(FidelityError::Live(failures.join("; ")));
    }
    let (Some(0), Some(bytes)) = (lived.exit_code, lived.output(TRACE)) else {
        let (code, said) = (lived.exit_code, lived.stderr.trim());
        return Err(FidelityError::Live(format!("`isotherm record` ended with {code:?}: {said}")));
    };
    let temporary = tempfile::tempdir().map_err(failed)?;
    let folder = keep.unwrap_or(temporary.path());
    let file = format!("{}-{}", name.replace(", ", "-").replace(' ', "-"), rig.kernel.0);
    let own = folder.join(format!("{file}.parquet"));
    std::fs::write(&own, bytes).map_err(failed)?;
    let live = told(&own, product.isotherm)?;
    let scaled = folder.join(format!("{file}-scaled.parquet"));
    scale(&own, &scaled, Fraction { numerator: ready.recorded.cpu_ns, denominator: live.cpu_ns.max(1) })?;
    let by_recorded_clock = told(&scaled, product.isotherm)?;
    Ok(ProgramRun {
        program: name,
        kernel,
        epoch: ready.case.epoch.to_owned(),
        ratio: live.ratio_to(&ready.recorded),
        ratio_by_recorded_clock: by_recorded_clock.ratio_to(&ready.recorded),
        live,
        by_recorded_clock,
        recorded: ready.recorded.clone(),
        knobs_changed: lived.knobs_changed,
        said: lived.stderr.trim().to_owned(),
    })
}

fn failed(error: impl std::fmt::Display) -> FidelityError {
    FidelityError::Live(error.to_string())
}

/// Reads a trace, and has it judged.
fn told(trace: &Path, isotherm: &Path) -> Result<Told, FidelityError> {
    let wrong = |error: &dyn std::fmt::Display| FidelityError::Live(format!("{}: {error}", trace.display()));
    let mut told = held(trace).map_err(|error| wrong(&error))?;
    let done = Command::new(isotherm)
        .args(["advise", "--quiet", "--format", "json"])
        .arg(trace)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| wrong(&error))?;
    let answer: serde_json::Value = serde_json::from_slice(&done.stdout).map_err(|_| {
        wrong(&format!(
            "`isotherm advise` ended with {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        ))
    })?;
    let found = &answer["recommendation"];
    told.peak_bytes = answer["peak_bytes"].as_u64().unwrap_or_default();
    told.policy = found["candidate"].as_str().map(str::to_owned);
    told.memory_bytes = found["memory_bytes"].as_u64();
    Ok(told)
}

/// Contents of a trace.
fn held(trace: &Path) -> isotherm_trace::Result<Told> {
    let mut reader = TraceReader::open(trace)?;
    let (mut moments, mut pages) = (HashSet::new(), HashSet::new());
    let mut ends = vec![0u64; reader.meta().threads.len()];
    let mut reach = |thread: u32, time_ns: u64| {
        if let Some(end) = ends.get_mut(thread as usize) {
            *end = (*end).max(time_ns);
        }
    };
    reader.meta().events.iter().for_each(|event| reach(event.thread, event.time_ns));
    let mut batch = RowBatch::new();
    while reader.next_batch(&mut batch)? {
        for row in batch.rows() {
            reach(row.thread, row.time_ns);
            moments.insert((row.thread, row.time_ns));
            let process = reader.meta().process_of(row.thread);
            pages.extend((row.page..row.page + u64::from(row.pages)).map(|page| (process, page)));
        }
    }
    let (epochs, pages) = (moments.len() as u64, pages.len() as u64);
    Ok(Told { epochs, pages, cpu_ns: ends.iter().sum(), ..Told::default() })
}

/// Writes `from` with all its times multiplied, and without sleeps.
fn scale(from: &Path, to: &Path, by: Fraction) -> Result<(), FidelityError> {
    let done = || -> isotherm_trace::Result<()> {
        let mut reader = TraceReader::open(from)?;
        let mut meta = reader.meta().clone();
        meta.epoch_ns = by.times(meta.epoch_ns);
        for event in &mut meta.events {
            event.time_ns = by.times(event.time_ns);
        }
        meta.events.retain(|event| !matches!(event.kind, EventKind::Idle { .. }));
        meta.notes
            .push(format!("sleeps are left out; times are {} of what they were in {}", by.numerator, by.denominator));
        let mut writer = TraceWriter::create_finished(to, meta)?;
        let mut batch = RowBatch::new();
        while reader.next_batch(&mut batch)? {
            batch.rows().try_for_each(|row| writer.push(TraceRow { time_ns: by.times(row.time_ns), ..row }))?;
        }
        writer.finish()?;
        Ok(())
    };
    done().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::TraceMeta;

    #[test]
    fn a_scaled_trace_holds_the_same_pages_in_other_times() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a.parquet"), folder.path().join("b.parquet"));
        let meta = TraceMeta { epoch_ns: 100, ..TraceMeta::single("a") };
        let mut writer = TraceWriter::create(&from, meta).unwrap();
        for (time_ns, page, pages) in [(0, 5, 2), (100, 6, 2), (400, 5, 1)] {
            writer.push(TraceRow { time_ns, thread: 0, page, pages, write: false, kernel: false }).unwrap();
        }
        writer.event(0, 500, EventKind::Idle { ns: 50 }).unwrap();
        writer.event(0, 500, EventKind::EndThread).unwrap();
        writer.finish().unwrap();
        let own = held(&from).unwrap();
        assert_eq!((own.epochs, own.pages, own.cpu_ns), (3, 3, 500));
        scale(&from, &to, Fraction { numerator: 1, denominator: 5 }).unwrap();
        let scaled = held(&to).unwrap();
        assert_eq!((scaled.epochs, scaled.pages, scaled.cpu_ns), (3, 3, 100));
        let reader = TraceReader::open(&to).unwrap();
        assert_eq!(reader.meta().epoch_ns, 20);
        assert!(reader.meta().events.iter().all(|event| event.kind == EventKind::EndThread));
    }

    #[test]
    fn recommended_memory_is_compared_where_both_have_it() {
        let told = |memory_bytes| Told { memory_bytes, ..Told::default() };
        assert_eq!(told(Some(30)).ratio_to(&told(Some(20))), Some(1.5));
        assert_eq!(told(None).ratio_to(&told(Some(20))), None);
        assert_eq!(told(Some(30)).ratio_to(&told(None)), None);
    }
}
