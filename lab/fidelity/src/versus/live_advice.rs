//! `isotherm advise --cgroup` inside real kernels: the refaults that it predicts at the `memory.high` that it recommends, versus those
//! counted with that limit.

use isotherm_guest::living::{LiveWorkload, Lived};
use isotherm_guest::patterns::{Motion, Part, Pattern};
use serde::{Deserialize, Serialize};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app/advised";
const PASS_US: u64 = 50_000;
const ZRAM: u64 = 512 << 20;
const STAT: &str = "/sys/fs/cgroup/app/advised/memory.stat";
const PRESSURE: &str = "/sys/fs/cgroup/app/advised/memory.pressure";

/// A program with memory of several temperatures.
#[derive(Clone, Copy, Debug)]
pub struct AdvisedWorkload {
    /// Name in tables.
    pub name: &'static str,
    parts: &'static [(u32, u32, Motion)],
}

const fn every(passes: u32) -> Motion {
    Motion::Every { passes }
}

/// 128 MiB each, a pass every 50 ms.
pub const WORKLOADS: &[AdvisedWorkload] = &[
    // A quarter always, a quarter every 10 s, the rest never.
    AdvisedWorkload { name: "half-cold", parts: &[(0, 8192, every(1)), (8192, 8192, every(200))] },
    // A quarter always, a half in turn within 51 s.
    AdvisedWorkload {
        name: "slow-ring",
        parts: &[(0, 8192, every(1)), (8192, 16_384, Motion::Sweep { per_pass: 16 })],
    },
    // An eighth always, an eighth every 5 s, a quarter every 20 s.
    AdvisedWorkload { name: "tail", parts: &[(0, 4096, every(1)), (4096, 4096, every(100)), (8192, 8192, every(400))] },
    // An eighth always, the rest never.
    AdvisedWorkload { name: "mostly-cold", parts: &[(0, 4096, every(1))] },
    // Popularity falls as one over the rank, over half of it.
    AdvisedWorkload { name: "zipf", parts: &[(0, 16_384, Motion::Draws { draws: 128, scattered: true })] },
    // An eighth that moves on every 20 s.
    AdvisedWorkload { name: "moving", parts: &[(0, 32_768, Motion::Hop { window: 4096, passes: 400, step: 4096 })] },
];

impl AdvisedWorkload {
    fn played(&self, high_bytes: Option<u64>) -> LiveWorkload {
        let parts = self.parts.iter().map(|&(first, pages, motion)| Part { first, pages, motion });
        let pattern = Pattern { pages: 1 << 15, parts: parts.collect() };
        LiveWorkload { group: GROUP.to_owned(), pattern, pass_us: PASS_US, high_bytes }
    }
}

/// Result of one workload in two boots: one boot that is watched, and one with the limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdvisedRun {
    pub workload: String,
    /// `uname -r`.
    pub kernel: String,
    /// Most memory that was seen.
    pub peak_bytes: u64,
    /// The limit that was recommended; `None`: the evidence supports none.
    pub high_bytes: Option<u64>,
    /// Refaults a second that were predicted at it: at least, probably, at most.
    pub predicted_per_s: Option<(f64, f64, f64)>,
    /// Refaults a second with the limit set.
    pub measured_per_s: Option<f64>,
    /// Share of time in which some task waited for memory, in percent, and the goal.
    pub pressure_some_percent: Option<f64>,
    pub pressure_goal_percent: f64,
    /// Knobs that the command left changed.
    pub knobs_changed: Vec<String>,
    /// The whole answer of the command.
    pub answer: serde_json::Value,
}

/// Goal of the advice, refaults a second.
pub const GOAL_PER_S: u32 = 300;
/// Goal of the advice, percent of time.
pub const PRESSURE_GOAL_PERCENT: f64 = 5.0;

/// Watches a workload in one boot, and sets the recommended limit in another.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn advise(
    rig: &Rig<'_>,
    product: Product<'_>,
    workload: &AdvisedWorkload,
    seconds: u64,
) -> Result<AdvisedRun, FidelityError> {
    let length = format!("{seconds}s");
    let run = |interval: &str, high| {
        let goal = format!("{GOAL_PER_S}/s");
        let pressure = format!("{PRESSURE_GOAL_PERCENT}%");
        let mut words = vec!["advise", "--cgroup", GROUP, "--for", &length, "--interval", interval];
        words.extend([
            "--goal",
            &goal,
            "--pressure",
            &pressure,
            "--max-cpu",
            "100%",
            "--swap",
            "zram",
            "--format",
            "json",
        ]);
        let asked = Asked::new(&words, workload.played(high));
        let outputs = vec![STAT.to_owned(), PRESSURE.to_owned()];
        beside(rig, product, Asked { outputs, zram_bytes: Some(ZRAM), ..asked })
    };
    let (kernel, lived) = run("2s", None)?;
    let advice: serde_json::Value = serde_json::from_str(&lived.stdout).map_err(|_| {
        FidelityError::Live(format!(
            "`isotherm advise --cgroup` ended with {:?}: {}",
            lived.exit_code,
            lived.stderr.trim()
        ))
    })?;
    let found = &advice["recommendation"];
    let mut advised = AdvisedRun {
        workload: workload.name.to_owned(),
        kernel,
        peak_bytes: advice["memory_peak_bytes"].as_u64().unwrap_or_default(),
        high_bytes: found["high_bytes"].as_u64(),
        predicted_per_s: None,
        measured_per_s: None,
        pressure_some_percent: None,
        pressure_goal_percent: PRESSURE_GOAL_PERCENT,
        knobs_changed: lived.knobs_changed,
        answer: advice.clone(),
    };
    let Some(high) = advised.high_bytes else { return Ok(advised) };
    let rate = |name: &str| found["refaults_per_s"][name].as_f64().unwrap_or_default();
    advised.predicted_per_s = Some((rate("low"), rate("middle"), rate("high")));
    // Only two samples, at the beginning and at the end: too few for advice, and the generations are left alone in between.
    let (_, limited) = run(&length, Some(high))?;
    let counted = counted(&limited);
    advised.measured_per_s = counted.map(|(per_s, _)| per_s);
    advised.pressure_some_percent = counted.map(|(_, percent)| percent);
    Ok(advised)
}

/// Refaults a second and the share of stalled time, over the run of the program.
fn counted(lived: &Lived) -> Option<(f64, f64)> {
    let seconds = lived.ran_ns.1.saturating_sub(lived.ran_ns.0) as f64 / 1e9;
    let text = |path: &str| lived.output(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let stat = text(STAT)?;
    let count = |name: &str| {
        stat.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name)?.1.trim().parse::<f64>().ok()
    };
    let refaults = count("workingset_refault_anon")? + count("workingset_refault_file")?;
    let pressure = text(PRESSURE)?;
    let total_us: f64 =
        pressure.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some((refaults / seconds, total_us / 1e4 / seconds))
}
