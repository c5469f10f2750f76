//! Time of advice: on bundled recordings, again with cached replays, and on a synthetic recording of ten minutes and 8 GiB.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Without `--bench` it uses a small synthetic recording and only checks
//! that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ISOTHERM: &str = env!("CARGO_BIN_EXE_isotherm");

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    if !measuring {
        let made = make(folder.path(), &["--footprint", "16MiB", "--touches", "20000", "--length", "2s"]);
        let (seconds, answer) = advise(&made, folder.path(), &["--effort", "quick", "--no-cache"]);
        assert!(seconds > 0.0 && answer["recommendation"].is_object(), "{answer}");
        return;
    }
    for (name, bar_s) in [("sqlite", 1.0), ("redis", 4.0)] {
        let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.parquet"));
        let (first, answer) = advise(&trace, folder.path(), &[]);
        told(&format!("advise, {name}"), "s", Some(bar_s), first);
        report(&format!("advise, {name}"), &answer);
        let (again, _) = advise(&trace, folder.path(), &[]);
        told(&format!("advise, {name}: again, of the first"), "%", Some(10.0), again * 100.0 / first);
    }
    let made = make(folder.path(), &[]);
    let (seconds, answer) = advise(&made, folder.path(), &["--no-cache"]);
    told("advise, made, 40 M touches, 8 GiB, 10 min", "s", Some(30.0), seconds);
    report("advise, made", &answer);
}

/// A synthetic recording; by default 8 GiB, 40 M touches, ten minutes.
fn make(folder: &Path, options: &[&str]) -> PathBuf {
    let path = folder.join("made.parquet");
    let status = Command::new(ISOTHERM).args(["--quiet", "trace", "make", "-o"]).arg(&path).args(options).status();
    assert!(status.expect("isotherm runs").success());
    path
}

/// Wall time in seconds, and the answer.
fn advise(trace: &Path, cache: &Path, options: &[&str]) -> (f64, serde_json::Value) {
    let mut command = Command::new(ISOTHERM);
    command.args(["--quiet", "advise"]).arg(trace).args(["--kernel", "7.2", "--format", "json"]).args(options);
    command.env("XDG_CACHE_HOME", cache).env_remove("ISOTHERM_NO_CACHE");
    let start = Instant::now();
    let output = command.output().expect("isotherm runs");
    let seconds = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (seconds, serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn report(what: &str, answer: &serde_json::Value) {
    let value = |name: &str| answer[name].as_f64().unwrap_or(0.0);
    told(&format!("{what}: replays of the whole"), "replays", None, value("replays"));
    told(&format!("{what}: replays of a sample"), "replays", None, value("sampled_replays"));
    let memory = answer["recommendation"]["memory_bytes"].as_f64().unwrap_or(0.0);
    told(&format!("{what}: recommended"), "MiB", None, memory / f64::from(1 << 20));
}

fn told(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let value = (value * 100.0).round() / 100.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": value, "pass": pass}));
}
