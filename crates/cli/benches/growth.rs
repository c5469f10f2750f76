//! Growth of the cost of advice: synthetic recordings of one, two, four and eight times the length, and of one to eight times the
//! footprint.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Figures are CPU time of all threads of `isotherm advise`, so that other
//! work on the machine matters less. The bar is linear growth: eight times the size in at most ten times the time. `BENCH_GROWTH_SVG` names
//! a file for a chart of both lines. Without `--bench` it makes small recordings and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::path::Path;
use std::process::Command;

use isotherm_report::{Axis, Chart, Emphasis, PictureSize, Series, Unit};

const ISOTHERM: &str = env!("CARGO_BIN_EXE_isotherm");
const FACTORS: [u32; 4] = [1, 2, 4, 8];
/// Largest ratio of times for eight times the size.
const TIMES_MAX: f64 = 10.0;

/// The smallest recording: footprint in MiB, touches, length in seconds.
struct Base {
    mib: u32,
    touches: u32,
    seconds: u32,
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    // Large enough that the search replays a sample, as for all long recordings.
    let base = match measuring {
        true => Base { mib: 1024, touches: 5_000_000, seconds: 75 },
        false => Base { mib: 4, touches: 10_000, seconds: 1 },
    };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut lines = Vec::new();
    for what in ["length", "footprint"] {
        let costs = FACTORS.map(|factor| {
            let of = |is_it: bool| if is_it { factor } else { 1 };
            let (footprint, length) = (of(what == "footprint"), of(what == "length"));
            let made = folder.path().join("made.parquet");
            make(
                &made,
                &Base { mib: base.mib * footprint, touches: base.touches * length, seconds: base.seconds * length },
            );
            let seconds = advise(&made, if measuring { "normal" } else { "quick" });
            told(&format!("advise, {factor} times the {what}"), "CPU s", None, seconds);
            seconds
        });
        let grown = costs[FACTORS.len() - 1] / costs[0];
        told(&format!("advise, cost of 8 times the {what}"), "times", measuring.then_some(TIMES_MAX), grown);
        lines.push((what, costs));
    }
    if let Some(path) = std::env::var_os("BENCH_GROWTH_SVG") {
        let svg = chart(&base, &lines).picture(PictureSize::default()).to_svg();
        std::fs::write(path, svg).expect("the chart can be written");
    }
}

fn chart(base: &Base, lines: &[(&str, [f64; 4])]) -> Chart {
    let points = |costs: &[f64; 4]| {
        FACTORS.into_iter().zip(costs).map(|(factor, seconds)| (f64::from(factor), seconds * 1e9)).collect::<Vec<_>>()
    };
    let mut series: Vec<Series> = lines
        .iter()
        .map(|(what, costs)| Series::line(format!("{what} grows"), points(costs)).emphasis(Emphasis::Strong))
        .collect();
    // Starts at the larger of the two costs: below that line growth is slower than linear.
    let first = lines.iter().map(|(_, costs)| costs[0]).fold(0.0, f64::max) * 1e9;
    let linear = FACTORS.map(|factor| (f64::from(factor), first * f64::from(factor)));
    series.push(Series::line("linear", linear.to_vec()).emphasis(Emphasis::Muted));
    Chart {
        title: "Cost of advice by length and by footprint".into(),
        subtitle: format!(
            "CPU time of isotherm advise on made recordings; once = {} MiB, {} M touches, {} s",
            base.mib,
            base.touches / 1_000_000,
            base.seconds
        ),
        x: Axis::new("times as much", Unit::Factor).log(),
        y: Axis::new("CPU time", Unit::Ns).log(),
        series,
        ..Chart::default()
    }
}

fn make(path: &Path, Base { mib, touches, seconds }: &Base) {
    let mut command = Command::new(ISOTHERM);
    command.args(["--quiet", "trace", "make", "-o"]).arg(path);
    command.args(["--footprint", &format!("{mib}MiB"), "--touches", &touches.to_string()]);
    command.args(["--length", &format!("{seconds}s")]);
    assert!(command.status().expect("isotherm runs").success());
}

/// CPU time in seconds.
fn advise(trace: &Path, effort: &str) -> f64 {
    let before = cpu_seconds_of_children();
    let mut command = Command::new(ISOTHERM);
    command.args(["--quiet", "advise"]).arg(trace).args(["--kernel", "7.2", "--format", "json", "--no-cache"]);
    let output = command.args(["--effort", effort]).output().expect("isotherm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cpu_seconds_of_children() - before
}

/// CPU time of all children that have ended. The kernel counts it in hundredths of a second.
fn cpu_seconds_of_children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // After the name in parentheses: the state is field 3, user and system time of children are fields 16 and 17.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u32>().ok());
    f64::from(ticks.sum::<u32>()) / 100.0
}

fn told(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let value = (value * 100.0).round() / 100.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": value, "pass": pass}));
}
