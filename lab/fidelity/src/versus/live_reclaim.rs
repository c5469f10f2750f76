//! `isotherm daemon run` inside real kernels: a service with three fifths of memory that is never used again, and the memory that remains.

use isotherm_guest::living::{LiveWorkload, Lived};
use isotherm_guest::monitoring::PASSES_MAX;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_rig::Extra;
use serde::{Deserialize, Serialize};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app.slice/service";
const FOLDER: &str = "/sys/fs/cgroup/app.slice/service";
const CONFIG: &str = "/etc/isotherm.toml";
const AUDIT: &str = "/tmp/actions.jsonl";
const TAPE: &str = "/tmp/isotherm.tape";
const PASS_US: u64 = 50_000;
const ZRAM: u64 = 512 << 20;
/// 256 MiB.
const PAGES: u32 = 1 << 16;
/// Used in each pass.
const HOT_PAGES: u32 = PAGES / 5;
/// Used each ten seconds.
const WARM_PAGES: u32 = PAGES / 5;
const COLD_BYTES: u64 = ((PAGES - HOT_PAGES - WARM_PAGES) as u64) << 12;

/// A way to take the cold memory of the service.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimWay {
    /// Name in tables.
    pub name: &'static str,
    configuration: &'static str,
    /// Instead of isotherm: the pressure loop of other tools, and the share of memory that it reclaims each 6 s without pressure, in
    /// millionths.
    pressure_loop: Option<u32>,
}

impl ReclaimWay {
    const fn of(name: &'static str, configuration: &'static str) -> Self {
        Self { name, configuration, pressure_loop: None }
    }
}

/// First process of the guest, which also contains that loop.
const GUEST: &str = "/init";
/// Pressure at which that loop stops, in millionths: the goal of `[[limits]]`.
const LOOP_PRESSURE_PPM: u32 = 1000;
const LOOP_INTERVAL_MS: u32 = 6000;

/// All ways; the first one does nothing.
pub const WAYS: &[ReclaimWay] = &[
    ReclaimWay::of(
        "observe",
        "[[generations]]\nname = \"cold\"\nmode = \"reclaim\"\ntargets = [\"/app.slice/service\"]\nthreshold = \"30s\"\n",
    ),
    ReclaimWay::of(
        "generations",
        "[[generations]]\nname = \"cold\"\nenable = true\nmode = \"reclaim\"\ntargets = [\"/app.slice/service\"]\n\
                        threshold = \"30s\"\n",
    ),
    ReclaimWay::of(
        "limits",
        "[[limits]]\nname = \"size\"\nenable = true\ntarget = \"/app.slice/service\"\nfloor = \"32MiB\"\nsqueeze = \"4%\"\n",
    ),
    ReclaimWay::of("limits, defaults", "[[limits]]\nname = \"size\"\nenable = true\ntarget = \"/app.slice/service\"\n"),
    // By the kernel's module with its own defaults except for the watermarks, which let it work on a machine with free memory, and the age,
    // which is that of the others.
    ReclaimWay::of(
        "damon-reclaim",
        "[daemon]\nmax-cpu = \"20%\"\n[[monitors]]\nname = \"proactive\"\nenable = true\ntake-damon-stat = true\n\
                        preset = { preset = \"reclaim\", min-age = \"30s\", wmarks-high = \"99%\", wmarks-mid = \"98%\", wmarks-low = \"1%\" }\n",
    ),
    // Schemes of our own wording, by the kernel's DAMON: over the processes of the group, and over physical memory with a filter.
    ReclaimWay::of(
        "damon, vaddr",
        "[daemon]\nmax-cpu = \"20%\"\n[[monitors]]\nname = \"cold\"\nenable = true\ntake-damon-stat = true\ntargets = [\"/app.slice/service\"]\n\
                        config = { schemes = [{ action = \"pageout\", access-pattern = { nr-accesses = { max = 0 }, age = { min = \"30s\" } } }] }\n",
    ),
    ReclaimWay::of(
        "damon, paddr",
        "[daemon]\nmax-cpu = \"20%\"\n[[monitors]]\nname = \"cold\"\nenable = true\ntake-damon-stat = true\ntargets = [\"/app.slice/service\"]\n\
                        config = { operations = \"paddr\", schemes = [{ action = \"pageout\", access-pattern = { nr-accesses = { max = 0 }, age = { min = \"30s\" } } }] }\n",
    ),
    // With all its defaults.
    // As published: 0.05 % of memory each 6 s, and a hundred times as much.
    ReclaimWay { name: "senpai-like, as published", configuration: "", pressure_loop: Some(500) },
    ReclaimWay { name: "senpai-like, 5 %", configuration: "", pressure_loop: Some(50_000) },
    ReclaimWay::of(
        "damon-reclaim, defaults",
        "[daemon]\nmax-cpu = \"20%\"\n[[monitors]]\nname = \"proactive\"\nenable = true\ntake-damon-stat = true\npreset = \"reclaim\"\n",
    ),
];

/// Result of one way in one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReclaimRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    pub seconds: u64,
    /// At the end, of the group: memory, and its part in swap.
    pub memory_bytes: u64,
    pub swapped_bytes: u64,
    /// Share of the cold bytes that is gone, in percent: memory left above the memory in use counts as cold.
    pub cold_gone_percent: f64,
    /// When nine tenths of the evicted memory was gone, in seconds from the start of the command.
    pub gone_after_s: Option<f64>,
    /// Bytes asked for and evicted, as reported by the command.
    pub asked_bytes: u64,
    pub verified_bytes: u64,
    pub refaults: u64,
    /// Refaults as a share of the pages that are in use, in percent.
    pub refaulted_percent: f64,
    /// Share of the time in which some task waited for memory, in percent.
    pub pressure_some_percent: f64,
    /// CPU time of the command, in percent of an emulated processor.
    pub cpu_percent: f64,
    pub resident_bytes: u64,
    pub longest_turn_ms: f64,
    /// Lines of the audit by event.
    pub lines: std::collections::BTreeMap<String, u64>,
    pub tape_bytes: u64,
    pub replay: Replay,
    /// Knobs that the command left changed.
    pub knobs_changed: Vec<String>,
    /// Output of the command.
    pub said: String,
}

/// Result of `isotherm daemon replay` on the tape.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Replay {
    /// Whether all decisions were the same.
    pub is_same: bool,
    pub calls: u64,
    pub lines: u64,
    /// Calls of the tape that were not played.
    pub left: u64,
}

/// Runs one way in one boot.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn reclaim(
    rig: &Rig<'_>,
    product: Product<'_>,
    way: &ReclaimWay,
    seconds: u64,
) -> Result<ReclaimRun, FidelityError> {
    let failed = |error: &dyn std::fmt::Display| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, way.configuration).map_err(|error| failed(&error))?;
    let part = |first, pages, passes| Part { first, pages, motion: Motion::Every { passes } };
    let parts = vec![part(0, HOT_PAGES, 1), part(HOT_PAGES, WARM_PAGES, 200)];
    let pattern = Pattern { pages: PAGES, parts };
    // A player keeps the times of at most this number of passes.
    let pass_us = PASS_US.max(seconds * 1_000_000 / (PASSES_MAX as u64 - 5000));
    let workload = LiveWorkload { group: GROUP.to_owned(), pattern, pass_us, high_bytes: None };
    let length = format!("{seconds}s");
    let mut asked =
        Asked::new(&["daemon", "run", CONFIG, "--for", &length, "--audit", AUDIT, "--tape", TAPE], workload);
    if let Some(ratio) = way.pressure_loop {
        let numbers = [ratio, LOOP_PRESSURE_PPM, LOOP_INTERVAL_MS].map(|number| number.to_string());
        let [ratio, pressure, interval] = numbers;
        asked.program = GUEST.to_owned();
        let words = ["pressure-loop", FOLDER, &ratio, &pressure, &interval, &seconds.to_string(), AUDIT];
        asked.arguments = words.map(str::to_owned).to_vec();
    }
    asked.outputs = vec![AUDIT.to_owned(), TAPE.to_owned()];
    asked.outputs.extend(["stat", "current", "swap.current", "pressure"].map(|name| format!("{FOLDER}/memory.{name}")));
    asked.files = vec![Extra { from: configuration, to: CONFIG.to_owned(), is_program: false }];
    asked.zram_bytes = Some(ZRAM);
    asked.machine.memory_bytes = 2 << 30;
    asked.seconds_max = seconds + 300;
    asked.machine.time_limit = std::time::Duration::from_secs(1800 + 3 * seconds);
    let (kernel, lived) = beside(rig, product, asked)?;
    if lived.exit_code != Some(0) {
        return Err(FidelityError::Live(format!(
            "`isotherm daemon run` ended with {:?}: {}",
            lived.exit_code,
            lived.stderr.trim()
        )));
    }
    let mut run = judged(way, kernel, seconds, &lived)?;
    if way.pressure_loop.is_some() {
        return Ok(run);
    }
    let tape = lived.output(TAPE).ok_or_else(|| FidelityError::Live("the guest told no tape".to_owned()))?;
    run.tape_bytes = tape.len() as u64;
    run.replay = replayed(product, &folder.path().join("isotherm.tape"), &tape).map_err(|error| failed(&error))?;
    Ok(run)
}

/// Plays the guest's tape here, without the guest.
fn replayed(product: Product<'_>, path: &std::path::Path, tape: &[u8]) -> std::io::Result<Replay> {
    std::fs::write(path, tape)?;
    let mut command = std::process::Command::new(product.isotherm);
    let output = command.args(["daemon", "replay"]).arg(path).args(["--format", "json"]).output()?;
    let played: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let number = |key: &str| played[key].as_u64().unwrap_or(0);
    Ok(Replay {
        is_same: output.status.success(),
        calls: number("calls"),
        lines: number("lines"),
        left: number("left"),
    })
}

fn judged(way: &ReclaimWay, kernel: String, seconds: u64, lived: &Lived) -> Result<ReclaimRun, FidelityError> {
    let lacks = |what: &str| FidelityError::Live(format!("the guest told no {what}; it said: {}", lived.stderr.trim()));
    let text = |path: &str| {
        let bytes = lived.output(path).ok_or_else(|| lacks(path))?;
        Ok::<_, FidelityError>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let number = |name: &str| {
        let text = text(&format!("{FOLDER}/memory.{name}"))?;
        text.trim().parse::<u64>().map_err(|_| lacks(name))
    };
    let stat = text(&format!("{FOLDER}/memory.stat"))?;
    let count = |name: &str| {
        let found = stat.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name);
        found.and_then(|(_, value)| value.trim().parse::<u64>().ok()).ok_or_else(|| lacks(name))
    };
    let pressure = text(&format!("{FOLDER}/memory.pressure"))?;
    let some = pressure.lines().find(|line| line.starts_with("some")).and_then(|line| line.rsplit_once("total="));
    let stalled_us: f64 = some.and_then(|(_, total)| total.trim().parse().ok()).ok_or_else(|| lacks("pressure"))?;
    let lines: Vec<serde_json::Value> =
        text(AUDIT)?.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|_| lacks("audit"))?;
    let acts: Vec<&serde_json::Value> = lines.iter().filter(|line| line["event"] == "acted").collect();
    let sum = |key: &str| acts.iter().filter_map(|line| line["act"][key].as_u64()).sum::<u64>();
    // The kernel's own work, by its counters.
    let counted = |key: &str| {
        let lines = lines.iter().filter(|line| line["event"] == "counted");
        lines.filter_map(|line| line[key].as_u64()).sum::<u64>()
    };
    let of = |key: &str| sum(key) + counted(key);
    let (asked_bytes, verified_bytes) = (of("asked_bytes"), of("verified_bytes"));
    let mut gone = 0;
    let gone_after_s = acts.iter().find_map(|line| {
        gone += line["act"]["verified_bytes"].as_u64()?;
        (gone > 0 && gone * 10 >= verified_bytes * 9).then(|| line["at_ns"].as_u64().unwrap_or(0) as f64 / 1e9)
    });
    let ended = lines.iter().find(|line| line["event"] == "ended").ok_or_else(|| lacks("end"))?;
    let anon = count("anon")?;
    let used = u64::from(HOT_PAGES + WARM_PAGES) << 12;
    let left = anon.saturating_sub(used).min(COLD_BYTES);
    let refaults = count("workingset_refault_anon")?;
    let mut by_event = std::collections::BTreeMap::new();
    for line in &lines {
        *by_event.entry(line["event"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    let elapsed_ns = ended["since_start_ns"].as_u64().unwrap_or(0).max(1) as f64;
    Ok(ReclaimRun {
        way: way.name.to_owned(),
        kernel,
        seconds,
        memory_bytes: number("current")?,
        swapped_bytes: number("swap.current")?,
        cold_gone_percent: 100.0 * (COLD_BYTES - left) as f64 / COLD_BYTES as f64,
        gone_after_s,
        asked_bytes,
        verified_bytes,
        refaults,
        refaulted_percent: 100.0 * refaults as f64 / f64::from(HOT_PAGES + WARM_PAGES),
        pressure_some_percent: stalled_us / 1e4 / seconds as f64,
        cpu_percent: 100.0 * ended["cpu_ns"].as_u64().unwrap_or(0) as f64 / elapsed_ns,
        resident_bytes: ended["resident_bytes"].as_u64().unwrap_or(0),
        longest_turn_ms: ended["longest_turn_ns"].as_u64().unwrap_or(0) as f64 / 1e6,
        lines: by_event,
        tape_bytes: 0,
        replay: Replay::default(),
        knobs_changed: lived.knobs_changed.clone(),
        said: lived.stderr.trim().to_owned(),
    })
}
