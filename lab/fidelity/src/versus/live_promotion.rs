//! `isotherm daemon run` inside real kernels with a fast and a slow node: hot memory that begins on the slow one, and its promotion.

use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::tiering::{Tiered, Tiering, Tierings};
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Extra, Extras, Job, Machine, Report, Task};
use isotherm_sim::tiering::{BalancingConfig, TieringSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::live::{PROGRAM, Product};
use super::promotion::{LOOK_EVERY, MEMORY_BYTES, PAGES, PASS, PASSES, RATE_MBPS};
use super::promotion_simulated::played;
use super::{Rig, quiet, reports};
use crate::FidelityError;

const CONFIG: &str = "/etc/isotherm.toml";
/// Half of the arena is used in each pass.
const HOT: (u32, u32) = (PAGES / 4, PAGES / 2);
/// Percent of [`HOT`] that should be on the fast node.
pub const WANTED_PERCENT: u64 = 95;

/// A way to promote.
#[derive(Clone, Copy, Debug)]
pub struct PromoteWay {
    /// Name in tables.
    pub name: &'static str,
    /// Configuration of `isotherm daemon run`; empty: no daemon.
    configuration: &'static str,
    /// The kernel's NUMA balancing mode at the beginning.
    balancing: u32,
    /// Runs with only CAP_SYS_ADMIN, CAP_SYS_NICE and CAP_SYS_PTRACE, as in contrib/systemd.
    has_least: bool,
}

macro_rules! promoting {
    ($sections:literal) => {
        concat!("[daemon]\nmax-cpu = \"20%\"\n[guard]\npressure-full = \"100%\"\n", $sections)
    };
}

/// All ways.
pub const PROMOTE_WAYS: &[PromoteWay] = &[
    PromoteWay { name: "nobody", configuration: "", balancing: 0, has_least: false },
    PromoteWay {
        name: "rch",
        configuration: promoting!("[tiering]\nenable = true\npolicy = \"rch\"\ntargets = [\"/tier\"]\n"),
        balancing: 0,
        has_least: false,
    },
    PromoteWay {
        name: "rch, least capabilities",
        configuration: promoting!("[tiering]\nenable = true\npolicy = \"rch\"\ntargets = [\"/tier\"]\n"),
        balancing: 0,
        has_least: true,
    },
    PromoteWay {
        name: "v0",
        configuration: promoting!("[tiering]\nenable = true\npolicy = \"v0\"\ntargets = [\"/tier\"]\n"),
        balancing: 0,
        has_least: false,
    },
    PromoteWay {
        name: "v3",
        configuration: promoting!("[tiering]\nenable = true\npolicy = \"v3\"\ntargets = [\"/tier\"]\n"),
        balancing: 0,
        has_least: false,
    },
    PromoteWay {
        name: "NUMA balancing, mode 2",
        configuration: promoting!(
            "[tiering]\nenable = true\npolicy = \"numa-mode-2\"\nbalancing = { promote-rate-limit-mbps = 65536 }\n"
        ),
        balancing: 0,
        has_least: false,
    },
    PromoteWay {
        name: "DAMON migrate-hot",
        configuration: promoting!(
            "[[monitors]]\nname = \"promote\"\nenable = true\ntake-damon-stat = true\ntargets = [\"/tier\"]\n\
             [[monitors.config.schemes]]\naction = \"migrate-hot\"\ntarget-nid = 0\naccess-pattern = { nr-accesses = { min = 1 } }\n"
        ),
        balancing: 0,
        has_least: false,
    },
];

/// Result of one way in one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PromoteRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    /// Share of the pages in use that were on the fast node after 30 s and at the end, in percent.
    pub hot_after_30s_percent: f64,
    pub hot_at_end_percent: f64,
    /// Time at which [`WANTED_PERCENT`] of the pages were there first, in seconds.
    pub reached_after_s: Option<f64>,
    /// Pages that came to the fast node and are not in use, as a share of all that came, in percent.
    pub in_vain_percent: f64,
    pub promoted_pages: u64,
    /// Increases of counters in `/proc/vmstat`.
    pub vmstat: BTreeMap<String, i64>,
    /// Exit and output of the daemon.
    pub said: String,
}

/// Plays the pattern in one way in one boot.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn promote(rig: &Rig<'_>, product: Product<'_>, way: &PromoteWay) -> Result<PromoteRun, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, way.configuration).map_err(failed)?;
    let program: Vec<String> = match way.configuration {
        "" => Vec::new(),
        _ if way.has_least => {
            ["/init", "least-capabilities", PROGRAM, "daemon", "run", CONFIG].map(str::to_owned).to_vec()
        }
        _ => [PROGRAM, "daemon", "run", CONFIG].map(str::to_owned).to_vec(),
    };
    let run = Tiering {
        pattern: pattern(),
        pass_us: PASS.ns() / 1000,
        passes: PASSES,
        numa_balancing: way.balancing,
        promote_rate_mbps: RATE_MBPS,
        slow_node: 1,
        look_every: LOOK_EVERY,
        hot: Some(HOT),
        program,
    };
    let task = Task::Tier(Tierings { runs: vec![run] });
    let mut settings = quiet();
    settings.push(Setting {
        path: "/sys/kernel/mm/numa/demotion_enabled".to_owned(),
        value: "0".to_owned(),
        optional: true,
    });
    let job = Job { settings, zram_bytes: None, files_device: None, task };
    let machine = Machine {
        memory_bytes: MEMORY_BYTES.0,
        slow_bytes: Some(MEMORY_BYTES.1),
        clock: Clock::Instructions,
        time_limit: std::time::Duration::from_secs(1800),
        ..Machine::default()
    };
    let mut files = product.files()?;
    files.push(Extra { from: configuration, to: CONFIG.to_owned(), is_program: false });
    let result = rig.run_with(&machine, &job, &Extras { modules: vec![product.module.to_owned()], files })?;
    let told = reports(&result, 1, |report| match report {
        Report::Tiered(tiered) => Some(tiered),
        _ => None,
    })?;
    let tiered = told[0];
    if !tiered.said.is_empty() && !tiered.said.starts_with("exit status: 0") {
        return Err(FidelityError::Live(tiered.said.clone()));
    }
    Ok(judged(way, result.kernel.clone(), tiered))
}

/// The same section in the simulated machine; `None`: it is not a `[tiering]` section.
///
/// # Errors
/// The machine refuses the run.
pub fn simulated(way: &PromoteWay) -> Result<Option<PromoteRun>, FidelityError> {
    let failed = |error: toml::de::Error| FidelityError::Live(format!("{}: {error}", way.name));
    let configuration: toml::Table = toml::from_str(way.configuration).map_err(failed)?;
    let Some(toml::Value::Table(section)) = configuration.get("tiering") else { return Ok(None) };
    // Keys that only a live machine has.
    let section: toml::Table = section
        .clone()
        .into_iter()
        .filter(|(key, _)| !["enable", "targets", "balancing"].contains(&key.as_str()))
        .collect();
    let mut spec: TieringSpec = section.try_into().map_err(failed)?;
    if spec.policy.starts_with("numa") {
        let rate = u64::from(RATE_MBPS);
        spec.balancing = Some(BalancingConfig { promote_rate_limit_mbps: rate, ..BalancingConfig::default() });
    }
    let (vmstat, looks) = played(way.name, &spec, pattern(), Some(HOT), PASSES)?;
    let tiered = Tiered { vmstat, nodes: looks.nodes, hot_nodes: looks.hot_nodes, ..Tiered::default() };
    Ok(Some(judged(way, "simulated".to_owned(), &tiered)))
}

fn pattern() -> Pattern {
    let part = Part { first: HOT.0, pages: HOT.1, motion: Motion::Every { passes: 1 } };
    Pattern { pages: PAGES, parts: vec![part] }
}

fn judged(way: &PromoteWay, kernel: String, tiered: &Tiered) -> PromoteRun {
    let fast = |row: Option<&(u64, Vec<u64>)>| row.and_then(|(_, nodes)| nodes.first()).copied().unwrap_or(0);
    let percent = |part: u64, of: u64| part as f64 * 100.0 / of.max(1) as f64;
    let hot_pages = u64::from(HOT.1);
    let seconds = |passes: u64| (PASS.ns() as f64 / 1e9) * passes as f64;
    let at_30 = tiered.hot_nodes.iter().find(|(passes, _)| seconds(*passes) >= 30.0);
    let reached = tiered.hot_nodes.iter().find(|row| fast(Some(row)) * 100 >= hot_pages * WANTED_PERCENT);
    let (all, hot) = (fast(tiered.nodes.last()), fast(tiered.hot_nodes.last()));
    PromoteRun {
        way: way.name.to_owned(),
        kernel,
        hot_after_30s_percent: percent(fast(at_30), hot_pages),
        hot_at_end_percent: percent(hot, hot_pages),
        reached_after_s: reached.map(|(passes, _)| seconds(*passes)),
        in_vain_percent: percent(all.saturating_sub(hot), all),
        promoted_pages: all,
        vmstat: tiered
            .vmstat
            .iter()
            .filter(|(_, value)| **value != 0)
            .map(|(name, value)| (name.clone(), *value))
            .collect(),
        said: tiered.said.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sections that are played in real kernels, in the simulated machine.
    #[test]
    fn simulated_scan_daemons_bring_over_what_is_used() {
        for way in PROMOTE_WAYS.iter().filter(|way| ["rch", "v0"].contains(&way.name)) {
            let run = simulated(way).unwrap().expect("it is of [tiering]");
            assert!(run.hot_after_30s_percent >= 95.0, "{run:?}");
            assert_eq!(run.in_vain_percent <= 5.0, way.name == "rch", "at first sight all is hot for v0: {run:?}");
        }
        assert!(simulated(&PROMOTE_WAYS[0]).unwrap().is_none(), "nobody has no section");
    }
}
