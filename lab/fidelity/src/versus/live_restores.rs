//! `isotherm restore` inside real kernels, after `isotherm daemon run` was killed and the machine was brought into some state.

use isotherm_guest::job::{Job, Report, Task};
use isotherm_guest::living::LiveWorkload;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::restoring::{RestoreState, Restored, Restores};
use isotherm_rig::{Extra, Extras};
use serde::{Deserialize, Serialize};

use super::live::{Asked, PROGRAM, Product};
use super::{Rig, reports};
use crate::FidelityError;

const CONFIG: &str = "/etc/isotherm.toml";
const ADVICE: &str = "/etc/advice.toml";
/// The usual place.
const JOURNAL: &str = "/var/lib/isotherm/journal";
/// An earlier change that was closed, with a reason of any length between the two.
const HISTORY: [&str; 2] =
    ["{\"kind\":\"journal\",\"version\":2}\n{\"kind\":\"closed\",\"number\":0,\"why\":\"", "\"}\n"];
/// Group of `isotherm apply`; those of the daemon are `web-1` and `web-2`.
const APPLIED: &str = "app.slice/cache";
/// The daemon knows the pressure after a second, and writes its knobs in the turn after that.
const BUSY_MS: (u64, u64) = (1950, 2150);
const LONGEST_MS: u64 = 4000;

/// Writes limits of groups, a switch of kcompactd, parameters of a module of DAMON.
const CONFIGURATION: &str = r#"
[[limits]]
name = "size"
enable = true
target = "/app.slice/web-*"
floor = "1MiB"
interval = "1s"

[[compaction]]
name = "huge"
design = "merged"
proactiveness = 60
enable = true

[[monitors]]
name = "proactive"
enable = true
take-damon-stat = true
preset = { preset = "reclaim", min-age = "30s", wmarks-high = "99%", wmarks-mid = "98%", wmarks-low = "1%" }
"#;

/// Switches the page-replacement policy, and limits a group.
const ADVISED: &str = r#"
name = "cache"
policy = "classic"
limit = "64MiB"

[[workloads]]
name = "cache"
load = { kind = "trace", path = "pages.parquet" }
"#;

/// Restores in one state on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreRun {
    /// `uname -r`.
    pub kernel: String,
    #[serde(flatten)]
    pub restored: Restored,
}

/// In one boot: changes knobs by `isotherm apply` and the daemon, kills it, and restores, `moments` times in each state.
///
/// # Errors
/// The guest does not finish, or a program fails there that must not, with its output.
pub fn restores(
    rig: &Rig<'_>,
    product: Product<'_>,
    states: &[RestoreState],
    moments: u64,
    seed: u64,
) -> Result<Vec<RestoreRun>, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut files = product.files()?;
    for (to, text) in [(CONFIG, CONFIGURATION), (ADVICE, ADVISED)] {
        let from = folder.path().join(to.trim_start_matches("/etc/"));
        std::fs::write(&from, text).map_err(failed)?;
        files.push(Extra { from, to: to.to_owned(), is_program: false });
    }
    let Asked { settings, mut machine, .. } = Asked::alone(&[]);
    machine.time_limit = std::time::Duration::from_secs(4 * 3600);
    let task = Task::Restore(job(states, moments, seed));
    let job = Job { settings, zram_bytes: Some(64 << 20), files_device: None, task };
    let result = rig.run_with(&machine, &job, &Extras { modules: Vec::new(), files })?;
    let restored = reports(&result, states.len(), |report| match report {
        Report::Restored(restored) => Some(restored),
        _ => None,
    })?;
    let run = |restored: &Restored| RestoreRun { kernel: result.kernel.clone(), restored: restored.clone() };
    Ok(restored.into_iter().map(run).collect())
}

fn job(states: &[RestoreState], moments: u64, seed: u64) -> Restores {
    let parts = vec![Part { first: 0, pages: 512, motion: Motion::Every { passes: 1 } }];
    let pattern = Pattern { pages: 4096, parts };
    let workload = |group: &str, high_bytes| LiveWorkload {
        group: group.to_owned(),
        pattern: pattern.clone(),
        pass_us: 50_000,
        high_bytes,
    };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Restores {
        workloads: vec![
            workload("app.slice/web-1", None),
            workload("app.slice/web-2", None),
            workload(APPLIED, None),
            workload("other.slice/db", Some(48 << 20)),
        ],
        program: PROGRAM.to_owned(),
        environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
        before: words(&["apply", ADVICE, "--cgroup", APPLIED, "--switch-policy", "--yes"]),
        killed: words(&["daemon", "run", CONFIG]),
        restore: words(&["restore", "--format", "json"]),
        journal: JOURNAL.to_owned(),
        history: (HISTORY[0].to_owned(), HISTORY[1].to_owned()),
        states: states.to_vec(),
        moments,
        longest_ms: LONGEST_MS,
        busy_ms: BUSY_MS,
        seed,
    }
}
