//! What `isotherm advise` states about a program, and whether a busy machine changes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use isotherm_terminal::{CliError, Ui};
use isotherm_trace::{Event, EventKind, TraceReader};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::programs::{Program, Workshop};

/// Recordings of each program in each state of the machine.
const RECORDINGS: usize = 5;
/// Processes that compute next to a recording.
const BUSY_LOOPS: usize = 6;
/// A question to this build about this machine.
const HERE: [&str; 2] = ["--here", "--anyway"];

/// An answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Stated {
    /// `None`: the answer is to leave the program as it is.
    pub(super) memory_bytes: Option<u64>,
    pub(super) peak_bytes: u64,
    /// The recording's duration in virtual time, and the work in it.
    pub(super) duration_ns: u64,
    pub(super) work_ns: u64,
    /// Upper end of the slow-down, in millionths: 1 050 000 is 5 % slower.
    pub(super) slower_at_most_ppm: u64,
    /// What memory adds to 99 of 100 bursts at most.
    pub(super) stall_p99_ns: u64,
    /// Files that the program maps.
    #[serde(skip)]
    pub(super) files: BTreeSet<PathBuf>,
}

/// Recommendations for one program, from recordings on a quiet and on a busy machine.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) program: &'static str,
    pub(super) alone: Vec<Stated>,
    pub(super) busy: Vec<Stated>,
}

/// Records a program and asks this build about this machine.
pub(super) fn of(program: &Program, command: &[String], workshop: &Workshop) -> Result<Stated, CliError> {
    ask(&isotherm()?, &HERE, program, command, workshop)
}

/// The same question to another build of isotherm, as a caller without flags asks it.
pub(super) fn before(
    isotherm: &Path,
    program: &Program,
    command: &[String],
    workshop: &Workshop,
) -> Result<Stated, CliError> {
    ask(isotherm, &[], program, command, workshop)
}

fn ask(
    isotherm: &Path,
    flags: &[&str],
    program: &Program,
    command: &[String],
    workshop: &Workshop,
) -> Result<Stated, CliError> {
    let trace = workshop.file(&format!("{}.parquet", program.name));
    record(isotherm, program, command, &trace)?;
    answer(isotherm, flags, program, &trace)
}

pub(super) fn record(isotherm: &Path, program: &Program, command: &[String], trace: &Path) -> Result<(), CliError> {
    let _ = std::fs::remove_file(trace);
    let mut record = Command::new(isotherm);
    record.args(["--quiet", "record", "--native-first", "-o"]).arg(trace).arg("--").args(command);
    output(record.stdout(Stdio::null()), program.name).map(drop)
}

fn answer(isotherm: &Path, flags: &[&str], program: &Program, trace: &Path) -> Result<Stated, CliError> {
    let mut advise = Command::new(isotherm);
    advise.args(["--quiet", "advise"]).arg(trace).args(flags).args(["--no-cache", "--format", "json"]);
    let text = output(&mut advise, program.name)?;
    let answer: Value = serde_json::from_slice(&text).map_err(CliError::failed)?;
    Ok(Stated { files: files(trace)?, ..stated(&answer) })
}

/// The files that a recorded program maps.
pub(super) fn files(trace: &Path) -> Result<BTreeSet<PathBuf>, CliError> {
    let reader = TraceReader::open(trace).map_err(CliError::failed)?;
    let of = |event: &Event| match &event.kind {
        EventKind::Map(map) => map.file.as_ref().map(PathBuf::from).filter(|path| path.is_file()),
        _ => None,
    };
    Ok(reader.meta().events.iter().filter_map(of).collect())
}

fn stated(answer: &Value) -> Stated {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let best = &answer["recommendation"];
    let is_row = |row: &&Value| row["candidate"] == best["candidate"] && row["memory_bytes"] == best["memory_bytes"];
    let row = answer["rows"].as_array().and_then(|rows| rows.iter().find(is_row)).unwrap_or(&Value::Null);
    Stated {
        memory_bytes: best["memory_bytes"].as_u64(),
        peak_bytes: number(&answer["peak_bytes"]),
        duration_ns: number(&answer["unlimited_runtime_ns"]),
        work_ns: number(&answer["unlimited_work_ns"]),
        slower_at_most_ppm: number(&best["runtime_ratio_ppm"]["high"]),
        stall_p99_ns: number(&row["stalls"]["p99_ns"]),
        files: BTreeSet::new(),
    }
}

/// Each program, recorded several times on the machine as it is and as often next to busy loops.
pub(super) fn alone_and_busy(
    programs: &[&'static Program],
    workshop: &Workshop,
    ui: &Ui,
) -> Result<Vec<Compared>, CliError> {
    let mut rows = Vec::new();
    for program in programs {
        match workshop.command(program) {
            Err(missing) => ui.say(format_args!("{} is skipped: {missing}", program.name)),
            Ok(command) => {
                ui.say(format_args!("{}: recording", program.name));
                let isotherm = isotherm()?;
                let recorded = |state: &str| {
                    let trace = |nr| workshop.file(&format!("{}-{state}-{nr}.parquet", program.name));
                    let record = |trace: PathBuf| record(&isotherm, program, &command, &trace).map(|()| trace);
                    (0..RECORDINGS).map(|nr| record(trace(nr))).collect::<Result<Vec<_>, _>>()
                };
                let alone = recorded("alone")?;
                let loops = BusyLoops::start()?;
                let busy = recorded("busy")?;
                drop(loops); // an answer is the same on a busy machine, and takes longer there
                ui.say(format_args!("{}: asking", program.name));
                let ask = |traces: Vec<PathBuf>| {
                    traces.iter().map(|trace| answer(&isotherm, &HERE, program, trace)).collect::<Result<Vec<_>, _>>()
                };
                let (alone, busy) = (ask(alone)?, ask(busy)?);
                rows.push(Compared { program: program.name, alone, busy });
            }
        }
    }
    Ok(rows)
}

/// Processes that compute until this is dropped.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start() -> Result<Self, CliError> {
        let mut loops = Self(Vec::new());
        for _ in 0..BUSY_LOOPS {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().map_err(CliError::failed)?;
            loops.0.push(child);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The command next to this one.
pub(super) fn isotherm() -> Result<PathBuf, CliError> {
    let this = std::env::current_exe().map_err(CliError::failed)?;
    let path = this.parent().unwrap_or(Path::new("/")).join("isotherm");
    if path.exists() {
        return Ok(path);
    }
    Err(CliError::host_cannot(format!("{} is missing; `make build` makes it", path.display())))
}

pub(super) fn output(command: &mut Command, name: &str) -> Result<Vec<u8>, CliError> {
    let output = command.stderr(Stdio::piped()).output().map_err(CliError::failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(CliError::failed(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stall_is_that_of_the_recommended_row() {
        let answer = serde_json::json!({
            "peak_bytes": 9, "unlimited_runtime_ns": 100, "unlimited_work_ns": 7,
            "recommendation": {"candidate": "classic", "memory_bytes": 5, "runtime_ratio_ppm": {"high": 1_010_000}},
            "rows": [
                {"candidate": "mglru", "memory_bytes": 5, "stalls": {"p99_ns": 1}},
                {"candidate": "classic", "memory_bytes": 5, "stalls": {"p99_ns": 2}},
            ],
        });
        let stated = stated(&answer);
        assert_eq!((stated.memory_bytes, stated.stall_p99_ns, stated.slower_at_most_ppm), (Some(5), 2, 1_010_000));
        assert_eq!(super::stated(&serde_json::json!({"recommendation": null})).memory_bytes, None);
    }
}
