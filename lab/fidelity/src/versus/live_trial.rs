//! `isotherm daemon trial` inside real kernels: configurations that act, on a service whose memory is used in part often and in part each
//! ten seconds.

use isotherm_guest::living::LiveWorkload;
use isotherm_guest::monitoring::PASSES_MAX;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_rig::Extra;
use serde::{Deserialize, Serialize};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app.slice/service";
const A: &str = "/etc/a.toml";
const B: &str = "/etc/b.toml";
const RESULT: &str = "/tmp/trial.json";
const PASS_US: u64 = 50_000;
/// 64 MiB.
const PAGES: u32 = 1 << 14;
const BLOCK: &str = "16s";
const WARM_UP: &str = "4s";
const PAIRS: u32 = 12;
/// Both blocks of all pairs, and the time before and after them.
const SECONDS: u64 = 2 * 16 * PAIRS as u64 + 60;

/// Two configurations.
#[derive(Clone, Copy, Debug)]
pub struct TrialWay {
    /// Name in tables.
    pub name: &'static str,
    a: &'static str,
    b: &'static str,
    /// The metric that decides.
    decides: &'static str,
}

/// Memory used in the last ten seconds stays.
const CAREFUL: &str = "[guard]\npressure-full = \"20%\"\n[[generations]]\nname = \"cold\"\nenable = true\nmode = \"reclaim\"\n\
                       targets = [\"/app.slice/service\"]\nthreshold = \"30s\"\n";
/// Memory used each ten seconds is evicted, and comes back.
const EAGER: &str = "[guard]\npressure-full = \"20%\"\n[[generations]]\nname = \"cold\"\nenable = true\nmode = \"reclaim\"\n\
                     targets = [\"/app.slice/service\"]\nthreshold = \"2s\"\n";

/// All trials: two in which one configuration is worse by far, and one of equals.
pub const TRIAL_WAYS: &[TrialWay] = &[
    TrialWay { name: "careful or eager, refaults", a: CAREFUL, b: EAGER, decides: "refaults" },
    TrialWay { name: "eager or careful, memory", a: EAGER, b: CAREFUL, decides: "memory" },
    TrialWay { name: "equals, refaults", a: EAGER, b: EAGER, decides: "refaults" },
];

/// Result of one trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    /// `better`, `alike`, `undecided`, `hurt`.
    pub verdict: String,
    /// The better configuration, or the one that hurt.
    pub arm: Option<String>,
    pub end: String,
    /// Whole pairs of blocks.
    pub pairs: u64,
    /// For the metric that decides: mean under A, and the difference with its interval.
    pub mean_a: Option<f64>,
    pub difference: Option<[f64; 3]>,
    pub knobs_changed: Vec<String>,
    /// Output of the command.
    pub said: String,
}

/// Runs one trial in one boot.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn trial(rig: &Rig<'_>, product: Product<'_>, way: &TrialWay) -> Result<TrialRun, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map_err(failed).map(|()| path)
    };
    let files = [(written("a.toml", way.a)?, A), (written("b.toml", way.b)?, B)];
    let part = |first, pages, passes| Part { first, pages, motion: Motion::Every { passes } };
    let pattern = Pattern { pages: PAGES, parts: vec![part(0, PAGES / 4, 1), part(PAGES / 4, PAGES / 4, 200)] };
    let pass_us = PASS_US.max(SECONDS * 1_000_000 / (PASSES_MAX as u64 - 5000));
    let workload = LiveWorkload { group: GROUP.to_owned(), pattern, pass_us, high_bytes: None };
    let pairs = PAIRS.to_string();
    let words = [
        "daemon",
        "trial",
        A,
        B,
        "--cgroup",
        "/app.slice/service",
        "--block",
        BLOCK,
        "--warm-up",
        WARM_UP,
        "--pairs",
        &pairs,
    ];
    let more = ["--decide", way.decides, "--yes", "-o", RESULT];
    let mut asked = Asked::new(&[&words[..], &more[..]].concat(), workload);
    asked.outputs = vec![RESULT.to_owned()];
    asked.files = files.map(|(from, to)| Extra { from, to: to.to_owned(), is_program: false }).to_vec();
    asked.zram_bytes = Some(128 << 20);
    asked.seconds_max = SECONDS + 300;
    asked.machine.time_limit = std::time::Duration::from_secs(1800 + 3 * SECONDS);
    let (kernel, lived) = beside(rig, product, asked)?;
    let ended = || format!("`isotherm daemon trial` ended with {:?}: {}", lived.exit_code, lived.stderr.trim());
    let text = lived.output(RESULT).ok_or_else(|| FidelityError::Live(ended()))?;
    let result: serde_json::Value = serde_json::from_slice(&text).map_err(|_| FidelityError::Live(ended()))?;
    let trial = &result["trial"];
    let word = |key: &str| trial[key].as_str().map(str::to_owned);
    let deciding = usize::try_from(trial["deciding"].as_u64().unwrap_or(0)).unwrap_or(0);
    let comparison = &trial["metrics"][deciding]["comparison"];
    let number = |key: &str| comparison[key].as_f64();
    let difference =
        number("difference").zip(number("low")).zip(number("high")).map(|((it, low), high)| [it, low, high]);
    Ok(TrialRun {
        way: way.name.to_owned(),
        kernel,
        verdict: word("verdict").unwrap_or_else(|| "?".to_owned()),
        arm: word("arm"),
        end: word("end").unwrap_or_else(|| "?".to_owned()),
        pairs: trial["pairs"].as_u64().unwrap_or(0),
        mean_a: number("mean_a"),
        difference,
        knobs_changed: lived.knobs_changed.clone(),
        said: lived.stderr.trim().to_owned(),
    })
}
