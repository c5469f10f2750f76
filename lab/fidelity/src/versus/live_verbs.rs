//! Each live verb once inside a real kernel: its exit, and whether it leaves knobs changed.

use isotherm_guest::living::LiveWorkload;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use serde::{Deserialize, Serialize};

use super::Rig;
use super::live::{Asked, Product, beside};
use crate::FidelityError;

const GROUP: &str = "app/any";
/// The release that has DAMON_STAT on at boot.
const HAS_DAMON_STAT: &str = "7.2";

/// A command, and its expected exit.
#[derive(Clone, Copy, Debug)]
pub struct VerbCase {
    /// Name in tables.
    pub name: &'static str,
    arguments: &'static [&'static str],
    /// Exit code.
    expected: i32,
    /// Text that must be in its output, on either stream.
    says: &'static str,
    /// With DAMON_STAT on, as a kernel that has it boots; on such kernels only.
    with_damon_stat: bool,
}

const fn case(name: &'static str, arguments: &'static [&'static str], says: &'static str) -> VerbCase {
    VerbCase { name, arguments, expected: 0, says, with_damon_stat: false }
}

const MONITOR_DAMON: [&str; 9] =
    ["monitor", "--cgroup", GROUP, "--for", "6s", "-o", "/tmp/r.parquet", "--source", "damon"];

/// All cases.
pub const CASES: &[VerbCase] = &[
    case("doctor", &["doctor"], "isotherm monitor takes --source damon"),
    case("monitor, auto", &["monitor", "--cgroup", GROUP, "--for", "6s", "-o", "/tmp/r.parquet"], "by DAMON"),
    case(
        "monitor, module",
        &["monitor", "--cgroup", GROUP, "--source", "module", "--for", "6s", "-o", "/tmp/r.parquet"],
        "accessed bits",
    ),
    case(
        "monitor, clear-refs",
        &["monitor", "--cgroup", GROUP, "--source", "clear-refs", "--for", "6s", "-o", "/tmp/r.parquet"],
        "clear_refs",
    ),
    case(
        "monitor, generations",
        &["monitor", "--cgroup", GROUP, "--source", "generations", "--for", "12s", "-o", "/tmp/r.parquet"],
        "looks in",
    ),
    case(
        "monitor, physical",
        &["monitor", "--physical", "--for", "6s", "-o", "/tmp/r.parquet"],
        "physical memory by DAMON",
    ),
    case(
        "monitor, physical, module",
        &["monitor", "--physical", "--source", "module", "--for", "12s", "-o", "/tmp/r.parquet"],
        "physical memory by accessed bits",
    ),
    case(
        "monitor, physical, ptp",
        &["monitor", "--physical", "--strategy", "ptp", "--for", "12s", "-o", "/tmp/r.parquet"],
        "physical memory by accessed bits",
    ),
    case("record", &["record", "--cgroup", GROUP, "--for", "6s", "-o", "/tmp/t.parquet"], "the time is over"),
    case("advise", &["advise", "--cgroup", GROUP, "--for", "20s"], "looks at generations"),
    case("top", &["top", "--capture", "80x24"], "this machine"),
    VerbCase { expected: 3, with_damon_stat: true, ..case("monitor, DAMON busy", &MONITOR_DAMON, "DAMON_STAT") },
    VerbCase {
        with_damon_stat: true,
        ..case(
            "monitor, taking DAMON_STAT",
            &[
                "monitor",
                "--cgroup",
                GROUP,
                "--for",
                "6s",
                "-o",
                "/tmp/r.parquet",
                "--source",
                "damon",
                "--take-damon-stat",
            ],
            "by DAMON",
        )
    },
];

/// Result of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbRun {
    pub case: String,
    /// `uname -r`.
    pub kernel: String,
    pub exit_code: Option<i32>,
    /// Whether exit code and output are as expected.
    pub is_right: bool,
    /// Files that can be set and were read before and after.
    pub knobs_read: u64,
    /// Knobs among these that it left changed.
    pub knobs_changed: Vec<String>,
    /// The whole output.
    pub said: String,
}

/// Runs one; `None` if the kernel lacks the feature.
///
/// # Errors
/// The guest does not finish.
pub fn run_verb(rig: &Rig<'_>, product: Product<'_>, case: &VerbCase) -> Result<Option<VerbRun>, FidelityError> {
    if case.with_damon_stat && rig.kernel.0 != HAS_DAMON_STAT {
        return Ok(None);
    }
    let part = Part { first: 0, pages: 4096, motion: Motion::Every { passes: 1 } };
    let pattern = Pattern { pages: 1 << 14, parts: vec![part] };
    let workload = LiveWorkload { group: GROUP.to_owned(), pattern, pass_us: 20_000, high_bytes: None };
    let mut asked = Asked::new(case.arguments, workload);
    if case.with_damon_stat {
        asked.settings.retain(|setting| !setting.path.contains("damon_stat"));
    }
    let (kernel, lived) = beside(rig, product, asked)?;
    let said = format!("{}{}", lived.stdout, lived.stderr);
    Ok(Some(VerbRun {
        case: case.name.to_owned(),
        kernel,
        exit_code: lived.exit_code,
        is_right: lived.exit_code == Some(case.expected) && said.contains(case.says),
        knobs_read: lived.knobs_read,
        knobs_changed: lived.knobs_changed,
        said,
    }))
}
