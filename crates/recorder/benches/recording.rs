//! Slowdown of a recorded program: a CPU-bound Python program of about 5 s, without and with the recorder.
//!
//! The bar is on CPU time (program, engine and recorder), which other programs disturb least; wall time is shown next to
//! it. Prints one JSON object a line: `name, unit, bar, value, pass`. Bar: DESIGN section 5. Without `--bench` it runs a
//! tiny program and only checks that it works; without the engine it does nothing, and reports that.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's output")]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use isotherm_recorder::{RecordOptions, record};

const PYTHON: &str = "/usr/bin/python3";
const SLOW_DOWN_BAR: f64 = 25.0;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !Path::new(PYTHON).exists() || !build_engine(&root) {
        return eprintln!("skipped: no {PYTHON} or the engine does not build");
    }
    let sessions = if measuring { "1200000" } else { "2000" };
    let program = root.join("traces/programs/sessions.py");
    let folder = tempfile::tempdir().expect("a temporary folder");

    let native = Clock::start();
    let status = Command::new(PYTHON).arg(&program).arg(sessions).stdout(Stdio::null()).status();
    assert!(status.expect("python starts").success());
    let native = native.stop();

    // Its output would mix with ours.
    let line = [OsString::from("/bin/sh"), "-c".into(), "exec \"$0\" \"$@\" > /dev/null".into(), PYTHON.into()];
    let command = line.into_iter().chain([program.into_os_string(), sessions.into()]).collect();
    let options = RecordOptions::new(command, folder.path().join("t.parquet"));
    let recorded = Clock::start();
    match record(&options, &mut |_| {}) {
        Ok(recording) => assert_eq!(recording.exit_code, 0),
        Err(error) if error.is_host_cannot() => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
    let recorded = recorded.stop();

    let bar = measuring.then_some(SLOW_DOWN_BAR);
    report("recording, CPU-bound Python: native", "s of CPU time", None, native.cpu_seconds);
    report("recording, CPU-bound Python: slow-down", "times", bar, recorded.cpu_seconds / native.cpu_seconds.max(0.01));
    let wall = recorded.wall_seconds / native.wall_seconds;
    report("recording, CPU-bound Python: slow-down on the wall", "times", None, wall);
}

fn build_engine(root: &Path) -> bool {
    let made = Command::new("make").args(["--silent", "recorder"]).current_dir(root).status();
    made.is_ok_and(|status| status.success())
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let value = (value * 100.0).round() / 100.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": value, "pass": pass}));
}

/// CPU time of this process and its children, and wall time.
struct Clock {
    cpu_seconds: f64,
    began: Instant,
}

struct Measured {
    cpu_seconds: f64,
    wall_seconds: f64,
}

impl Clock {
    fn start() -> Self {
        Self { cpu_seconds: cpu_seconds(), began: Instant::now() }
    }
    fn stop(self) -> Measured {
        let wall_seconds = self.began.elapsed().as_secs_f64();
        Measured { cpu_seconds: cpu_seconds() - self.cpu_seconds, wall_seconds }
    }
}

/// `utime`, `stime`, `cutime` and `cstime` of proc(5), in hundredths of a second on every Linux.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
