//! `isotherm daemon run` inside real kernels, killed at random moments: the state after `isotherm restore`.

use isotherm_guest::job::{Job, Report, Task};
use isotherm_guest::killing::{Killed, Kills};
use isotherm_guest::living::LiveWorkload;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_rig::{Extra, Extras};
use serde::{Deserialize, Serialize};

use super::live::{Asked, PROGRAM, Product};
use super::{Rig, reports};
use crate::FidelityError;

const GROUP: &str = "app.slice/service";
const CONFIG: &str = "/etc/isotherm.toml";
/// The daemon knows the pressure after a second, and writes its knobs in the turn after that.
const BUSY_MS: (u64, u64) = (1950, 2150);
const LONGEST_MS: u64 = 4000;

/// A configuration of the daemon.
#[derive(Clone, Copy, Debug)]
pub struct KillWay {
    /// Name in tables.
    pub name: &'static str,
    configuration: &'static str,
}

/// All configurations.
pub const KILL_WAYS: &[KillWay] = &[
    KillWay {
        name: "damon",
        configuration: "[[monitors]]\nname = \"cold\"\nenable = true\ntake-damon-stat = true\ntargets = [\"/app.slice/service\"]\n\
                        config = { schemes = [{ action = \"pageout\", access-pattern = { nr-accesses = { max = 0 }, age = { min = \"30s\" } } }] }\n",
    },
    KillWay {
        name: "limits",
        configuration: "[[limits]]\nname = \"size\"\nenable = true\ntarget = \"/app.slice/service\"\nfloor = \"1MiB\"\ninterval = \"1s\"\n",
    },
    KillWay {
        name: "kcompactd",
        configuration: "[[compaction]]\nname = \"huge\"\ndesign = \"merged\"\nproactiveness = 60\nenable = true\n",
    },
    KillWay {
        name: "damon-reclaim",
        configuration: "[[monitors]]\nname = \"proactive\"\nenable = true\ntake-damon-stat = true\n\
                        preset = { preset = \"reclaim\", min-age = \"30s\", wmarks-high = \"99%\", wmarks-mid = \"98%\", wmarks-low = \"1%\" }\n",
    },
];

/// Result of one configuration on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KillRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    #[serde(flatten)]
    pub killed: Killed,
    /// Knobs that differ from before, a line each.
    pub knobs_changed: Vec<String>,
}

/// Starts the daemon several times in one boot, and ends it each time.
///
/// # Errors
/// The guest does not finish, or a restore fails there, with its output.
pub fn kills(
    rig: &Rig<'_>,
    product: Product<'_>,
    way: &KillWay,
    rounds: u64,
    seed: u64,
) -> Result<KillRun, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, way.configuration).map_err(failed)?;
    let parts = vec![Part { first: 0, pages: 512, motion: Motion::Every { passes: 1 } }];
    let pattern = Pattern { pages: 4096, parts };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let kills = Kills {
        workload: LiveWorkload { group: GROUP.to_owned(), pattern, pass_us: 50_000, high_bytes: None },
        program: PROGRAM.to_owned(),
        arguments: words(&["daemon", "run", CONFIG]),
        restore: words(&["restore"]),
        environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
        rounds,
        longest_ms: LONGEST_MS,
        busy_ms: BUSY_MS,
        seed,
    };
    let Asked { settings, mut machine, .. } = Asked::alone(&[]);
    machine.time_limit = std::time::Duration::from_secs(4 * 3600);
    let job = Job { settings, zram_bytes: Some(64 << 20), files_device: None, task: Task::Kill(kills) };
    let mut files = product.files()?;
    files.push(Extra { from: configuration, to: CONFIG.to_owned(), is_program: false });
    let result = rig.run_with(&machine, &job, &Extras { modules: Vec::new(), files })?;
    let killed = reports(&result, 1, |report| match report {
        Report::KillsDone(killed) => Some(killed),
        _ => None,
    })?[0]
        .clone();
    let knobs_changed = killed.left.clone();
    Ok(KillRun { way: way.name.to_owned(), kernel: result.kernel.clone(), killed, knobs_changed })
}
