//! `isotherm monitor` inside real kernels, versus page-exact ground truth of the programs that it watches.

use isotherm_guest::living::{Live, LiveProgram, LiveWorkload, Lived};
use isotherm_guest::monitoring::{Region, Snapshot};
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Extra, Extras, HostProgram, Job, Machine, Report, Task};
use isotherm_trace::region::RegionStore;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use super::judge::Scores;
use super::judge::{Intervals, judge};
use super::{Rig, quiet, reports};
use crate::FidelityError;

pub(super) const PROGRAM: &str = "/bin/isotherm";
const RECORD: &str = "/tmp/record.json";
const GROUP: &str = "app/watched";
const PASS_US: u64 = 10_000;
const SAMPLES: u32 = 20;

/// A way of watching.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Name in tables.
    pub name: &'static str,
    /// Arguments of `isotherm monitor` besides target and duration.
    arguments: &'static [&'static str],
    /// Interval between two samples.
    sample_ms: u64,
    /// Value of `--max-cpu`.
    max_cpu: &'static str,
}

/// All ways. Intervals are ten times the usual ones, because an emulated kernel is slow.
pub const WAYS: &[Way] = &[
    Way {
        name: "damon",
        arguments: &["--source", "damon", "--sample", "50ms", "--aggr", "1s"],
        sample_ms: 50,
        max_cpu: "100%",
    },
    Way {
        name: "module, leaf",
        arguments: &["--source", "module", "--sample", "50ms", "--aggr", "1s"],
        sample_ms: 50,
        max_cpu: "100%",
    },
    Way {
        name: "module, ptp",
        arguments: &[
            "--source",
            "module",
            "--strategy",
            "ptp",
            "--flush",
            "batched",
            "--sample",
            "50ms",
            "--aggr",
            "1s",
        ],
        sample_ms: 50,
        max_cpu: "100%",
    },
    Way {
        name: "module, ptp-aligned",
        arguments: &[
            "--source",
            "module",
            "--strategy",
            "ptp-aligned",
            "--flush",
            "batched",
            "--sample",
            "50ms",
            "--aggr",
            "1s",
        ],
        sample_ms: 50,
        max_cpu: "100%",
    },
    Way {
        name: "module, ptp-descend",
        arguments: &[
            "--source",
            "module",
            "--strategy",
            "ptp-descend",
            "--flush",
            "batched",
            "--sample",
            "50ms",
            "--aggr",
            "1s",
        ],
        sample_ms: 50,
        max_cpu: "100%",
    },
    Way { name: "clear-refs", arguments: &["--source", "clear-refs", "--aggr", "1s"], sample_ms: 50, max_cpu: "100%" },
    // With defaults: its cost, and how far it slows down.
    Way { name: "damon, defaults", arguments: &["--source", "damon"], sample_ms: 5, max_cpu: "1%" },
    Way { name: "module, defaults", arguments: &["--source", "module"], sample_ms: 5, max_cpu: "1%" },
];

/// A few hot pieces of 2 to 32 MiB, scattered over 64 GiB.
pub fn sparse_64g() -> Pattern {
    let each = Motion::Every { passes: 1 };
    let piece = |gib: u32, mib: u32| Part { first: gib << 18, pages: mib << 8, motion: each };
    Pattern { pages: 64 << 18, parts: vec![piece(3, 2), piece(21, 8), piece(40, 32), piece(57, 4)] }
}

/// All of the 1 GiB is used once a second, and an eighth of it each 10 ms.
pub fn hot_set_1g() -> Pattern {
    let each = Motion::Every { passes: 1 };
    let rest = Motion::Sweep { per_pass: 2294 };
    Pattern {
        pages: 1 << 18,
        parts: vec![
            Part { first: 0, pages: 1 << 15, motion: each },
            Part { first: 1 << 15, pages: 7 << 15, motion: rest },
        ],
    }
}

/// Result of a way in one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveRun {
    /// Name of the pattern.
    pub pattern: String,
    /// Name of the way.
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    /// Seed of our own monitor; DAMON uses the kernel's random numbers.
    pub seed: u64,
    /// Accuracy of the monitor.
    pub scores: Scores,
    /// CPU time of command and kernel threads as a share of an emulated processor, in millionths.
    pub cpu_share_ppm: u64,
    /// Factor by which intervals were stretched.
    pub stretched: u64,
    /// Knobs that the command left changed on the machine; should be empty.
    pub knobs_changed: Vec<String>,
    /// Number of knobs compared for that.
    pub knobs_read: u64,
}

/// Files that are put into the guest.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The command, usually linked statically (`cargo xtask static`).
    pub isotherm: &'a Path,
    /// The module for this kernel (`cargo xtask module`).
    pub module: &'a Path,
}

impl Product<'_> {
    /// The command, with the libraries of one that is not linked statically.
    ///
    /// # Errors
    /// They cannot be found.
    pub(super) fn files(&self) -> Result<Vec<Extra>, FidelityError> {
        let mut files = HostProgram::libraries(self.isotherm)?;
        files.push(Extra { from: self.isotherm.to_owned(), to: PROGRAM.to_owned(), is_program: true });
        Ok(files)
    }
}

/// A command in a guest, and the programs next to it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Absolute path of the program to run: isotherm by default.
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) workloads: Vec<LiveWorkload>,
    /// Workloads. They begin when the first of `outputs` exists.
    pub(super) programs: Vec<LiveProgram>,
    /// Files that they need.
    pub(super) files: Vec<Extra>,
    /// Files to bring back.
    pub(super) outputs: Vec<String>,
    pub(super) settings: Vec<Setting>,
    pub(super) machine: Machine,
    pub(super) zram_bytes: Option<u64>,
    /// Seconds of the guest after which the command is killed.
    pub(super) seconds_max: u64,
}

impl Asked {
    /// These arguments next to one workload, on a machine whose clock counts instructions.
    pub(super) fn new(arguments: &[&str], workload: LiveWorkload) -> Self {
        Self { workloads: vec![workload], ..Self::alone(arguments) }
    }

    /// These arguments without a workload.
    pub(super) fn alone(arguments: &[&str]) -> Self {
        Self {
            program: PROGRAM.to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            workloads: Vec::new(),
            programs: Vec::new(),
            files: Vec::new(),
            outputs: Vec::new(),
            settings: quiet(),
            machine: Machine {
                clock: Clock::Instructions,
                time_limit: std::time::Duration::from_secs(1800),
                ..Machine::default()
            },
            zram_bytes: None,
            seconds_max: 900,
        }
    }
}

/// Runs the command in a guest. Returns the kernel's release, and the result.
///
/// # Errors
/// The guest does not finish.
pub(super) fn beside(rig: &Rig<'_>, product: Product<'_>, asked: Asked) -> Result<(String, Lived), FidelityError> {
    let live = Live {
        workloads: asked.workloads,
        programs: asked.programs,
        programs_begin_with: asked.outputs.first().cloned().unwrap_or_default(),
        program: asked.program,
        arguments: asked.arguments,
        environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
        seconds_max: asked.seconds_max,
        outputs: asked.outputs,
    };
    let job =
        Job { settings: asked.settings, zram_bytes: asked.zram_bytes, files_device: None, task: Task::Live(live) };
    let mut files = asked.files;
    files.extend(product.files()?);
    let extras = Extras { modules: vec![product.module.to_owned()], files };
    let result = rig.run_with(&asked.machine, &job, &extras)?;
    let lived = reports(&result, 1, |report| match report {
        Report::Lived(lived) => Some(lived),
        _ => None,
    })?;
    Ok((result.kernel.clone(), lived[0].clone()))
}

/// Watches a pattern one way in one boot of a kernel. `seed` is for our own monitor.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn watch(
    rig: &Rig<'_>,
    product: Product<'_>,
    name: &str,
    pattern: &Pattern,
    way: &Way,
    seed: u64,
    seconds: u64,
) -> Result<LiveRun, FidelityError> {
    let workload =
        LiveWorkload { group: GROUP.to_owned(), pattern: pattern.clone(), pass_us: PASS_US, high_bytes: None };
    let length = format!("{seconds}s");
    let mut words = vec!["monitor", "--cgroup", GROUP, "-o", RECORD, "--max-cpu", way.max_cpu, "--format", "json"];
    words.extend(["--for", &length, "--update", "1s"]);
    words.extend(way.arguments);
    let number = seed.to_string();
    if way.arguments.contains(&"module") {
        words.extend(["--seed", &number]);
    }
    let mut asked = Asked { outputs: vec![RECORD.to_owned()], ..Asked::new(&words, workload) };
    asked.machine.memory_bytes = 2 << 30;
    let (kernel, lived) = beside(rig, product, asked)?;
    let said =
        || format!("`isotherm monitor` by {} ended with {:?}: {}", way.name, lived.exit_code, lived.stderr.trim());
    let (Some(0), Some(record)) = (lived.exit_code, lived.output(RECORD)) else {
        return Err(FidelityError::Live(said()));
    };
    let snapshots =
        snapshots(&record, lived.ran_ns.0).map_err(|error| FidelityError::Live(format!("{}; {error}", said())))?;
    let summary: serde_json::Value = serde_json::from_str(&lived.stdout).unwrap_or_default();
    let figure = |name: &str| summary.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
    let passes = lived.players.first().map(|player| player.passes_ns.clone()).unwrap_or_default();
    let intervals = Intervals { sample_ns: way.sample_ms * 1_000_000, samples: SAMPLES };
    Ok(LiveRun {
        pattern: name.to_owned(),
        way: way.name.to_owned(),
        kernel,
        seed,
        scores: judge(pattern, &passes, &snapshots, intervals),
        cpu_share_ppm: figure("cpu_share_ppm"),
        stretched: figure("stretched"),
        knobs_changed: lived.knobs_changed,
        knobs_read: lived.knobs_read,
    })
}

/// The snapshots of a record in damo's JSON, whose clock began at `start_ns`. Counts are scaled to [`SAMPLES`].
fn snapshots(record: &[u8], start_ns: u64) -> Result<Vec<Snapshot>, String> {
    let file = tempfile::Builder::new().suffix(".json").tempfile().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), record).map_err(|error| error.to_string())?;
    let mut store = RegionStore::open(file.path()).map_err(|error| error.to_string())?;
    let mut snapshots = Vec::new();
    store
        .for_each(|snapshot| {
            let most = snapshot.intervals.max_nr_accesses().unwrap_or(u64::from(SAMPLES)).max(1);
            let region = |region: &isotherm_trace::region::Region| Region {
                start: region.start,
                end: region.end,
                nr_accesses: u32::try_from((u64::from(region.nr_accesses) * u64::from(SAMPLES)).div_ceil(most))
                    .unwrap_or(SAMPLES),
                age: region.age.unwrap_or(0),
            };
            snapshots.push(Snapshot {
                at_ns: start_ns + snapshot.time_ns,
                regions: snapshot.regions.iter().map(region).collect(),
            });
            Ok::<_, isotherm_trace::TraceError>(())
        })
        .map_err(|error| error.to_string())?;
    Ok(snapshots)
}
