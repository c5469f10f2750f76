//! `isotherm daemon run` inside real kernels: patterns under sudden pressure, with lists as they are, sorted by the kernel, and sorted by
//! us.

use isotherm_core::presets::Preset;
use isotherm_guest::sorting::{Sort, Sorts};
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Extra, Extras, Job, Machine, Report, Task};
use serde::{Deserialize, Serialize};

use super::live::{PROGRAM, Product};
use super::sorting::{Counts, MEMORY, PASS, PASSES, PRESSURE, SORT_WORKLOADS, SortWorkload, counts_of, simulated_with};
use super::{Rig, quiet, reports};
use crate::FidelityError;

const CONFIG: &str = "/etc/isotherm.toml";
/// Time between the start of the daemon and the first pass: the first second of passes has pressure.
const SETTLE_MS: u64 = 3000;

/// A way to sort.
#[derive(Clone, Copy, Debug)]
pub struct SortWay {
    /// Name in tables.
    pub name: &'static str,
    /// Configuration of `isotherm daemon run`; empty: no daemon.
    configuration: &'static str,
}

/// The only program of the machine stalls on its own: the guard would take the tested pressure for that of the machine.
macro_rules! unguarded {
    ($sections:literal) => {
        concat!("[daemon]\nmax-cpu = \"20%\"\n[guard]\npressure-full = \"100%\"\n", $sections)
    };
}

/// All ways. Thresholds, quotas and intervals are those of the series, as in `isotherm-lab fidelity sorting`.
pub const SORT_WAYS: &[SortWay] = &[
    SortWay { name: "nobody", configuration: "" },
    SortWay {
        name: "kernel's LRU_SORT",
        configuration: unguarded!(
            "[[monitors]]\nname = \"sort\"\nenable = true\ntake-damon-stat = true\n\
             preset = { preset = \"lru-sort\", hot-thres-access-freq = \"20%\", cold-min-age = \"5s\", quota-time = \"40ms\", \
             wmarks-high = \"100%\", wmarks-mid = \"100%\", wmarks-low = \"0%\" }\n"
        ),
    },
    SortWay {
        name: "ours, module",
        configuration: unguarded!(
            "[[monitors]]\nname = \"sort\"\nenable = true\nengine = \"isotherm\"\ntargets = [\"/sort\"]\n\
             [[monitors.config.schemes]]\naction = \"lru-prio\"\naccess-pattern = { nr-accesses = { min = \"20%\" } }\n\
             quotas = { time = \"20ms\", reset-interval = \"1s\", weights = { sz = 0, nr-accesses = 1, age = 1 } }\n\
             [[monitors.config.schemes]]\naction = \"lru-deprio\"\naccess-pattern = { nr-accesses = { max = 0 }, age = { min = \"5s\" } }\n\
             quotas = { time = \"20ms\", reset-interval = \"1s\", weights = { sz = 0, nr-accesses = 1, age = 1 } }\n"
        ),
    },
];

/// Result of one workload in one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SortRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    pub workload: String,
    pub counts: Counts,
    /// Exit and output of the daemon.
    pub said: String,
}

/// The same sections in the simulated machine, all workloads with one seed.
///
/// # Errors
/// The machine refuses the run.
pub fn simulated(way: &SortWay, workloads: &[&str], seed: u64) -> Result<Vec<SortRun>, FidelityError> {
    let failed = |error: &dyn std::fmt::Display| FidelityError::Live(format!("{}: {error}", way.name));
    let configuration: toml::Table = toml::from_str(way.configuration).map_err(|error| failed(&error))?;
    let section = configuration.get("monitors").and_then(|monitors| monitors.get(0));
    let config = match section.map(|section| (section.get("preset"), section.get("config"))) {
        Some((Some(preset), _)) => {
            let preset: Preset = preset.clone().try_into().map_err(|error| failed(&error))?;
            Some(preset.setup().map_err(|error| failed(&error))?.config)
        }
        Some((None, Some(config))) => Some(config.clone().try_into().map_err(|error| failed(&error))?),
        _ => None,
    };
    let run = |workload: &SortWorkload| {
        Ok(SortRun {
            way: way.name.to_owned(),
            kernel: "simulated".to_owned(),
            workload: workload.name.to_owned(),
            counts: simulated_with(workload, config.clone(), PASSES, seed)?,
            said: String::new(),
        })
    };
    wanted(workloads).into_iter().map(run).collect()
}

fn wanted(names: &[&str]) -> Vec<&'static SortWorkload> {
    SORT_WORKLOADS.iter().filter(|workload| names.is_empty() || names.contains(&workload.name)).collect()
}

/// Plays all workloads in one way in one boot.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn sort(
    rig: &Rig<'_>,
    product: Product<'_>,
    way: &SortWay,
    workloads: &[&str],
) -> Result<Vec<SortRun>, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, way.configuration).map_err(failed)?;
    let program: Vec<String> = match way.configuration {
        "" => Vec::new(),
        _ => [PROGRAM, "daemon", "run", CONFIG].map(str::to_owned).to_vec(),
    };
    let wanted = wanted(workloads);
    let runs = wanted.iter().map(|workload| Sort {
        pattern: workload.pattern(),
        pass_us: PASS.ns() / 1000,
        passes: PASSES,
        pressure: PRESSURE,
        lru_sort: Vec::new(),
        program: program.clone(),
        settle_ms: SETTLE_MS,
    });
    let task = Task::Sort(Sorts { runs: runs.collect() });
    let mut settings = quiet();
    let knob = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned(), optional: false };
    settings.extend([knob("/sys/kernel/mm/lru_gen/enabled", "n"), knob("/proc/sys/vm/swappiness", "60")]);
    let job = Job { settings, zram_bytes: Some(MEMORY.get()), files_device: None, task };
    let time_limit = std::time::Duration::from_secs(1800);
    let machine = Machine { memory_bytes: MEMORY.get(), clock: Clock::Instructions, time_limit, ..Machine::default() };
    let mut files = product.files()?;
    files.push(Extra { from: configuration, to: CONFIG.to_owned(), is_program: false });
    let result = rig.run_with(&machine, &job, &Extras { modules: vec![product.module.to_owned()], files })?;
    let told = reports(&result, wanted.len(), |report| match report {
        Report::Sorted(sorted) => Some(sorted),
        _ => None,
    })?;
    let judged = wanted.iter().zip(told).map(|(workload, sorted)| {
        if !sorted.said.is_empty() && !sorted.said.starts_with("exit status: 0") {
            return Err(FidelityError::Live(sorted.said.clone()));
        }
        Ok(SortRun {
            way: way.name.to_owned(),
            kernel: result.kernel.clone(),
            workload: workload.name.to_owned(),
            counts: counts_of(sorted),
            said: sorted.said.clone(),
        })
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sections that are played in real kernels, in the simulated machine. It shows nearly no effect of sorting by us, while real
    /// kernels have up to a fifth fewer faults (docs/evidence/plrus.md).
    #[test]
    fn simulated_sorting_by_addresses_acts_and_does_no_harm() {
        let counts = |name: &str| {
            let way = SORT_WAYS.iter().find(|way| way.name == name).unwrap();
            simulated(way, &[], 1).unwrap()
        };
        for (nobody, ours) in counts("nobody").iter().zip(counts("ours, module")) {
            let (plain, sorted) = (nobody.counts, ours.counts);
            assert!(sorted.hot_bytes > 0 && sorted.cold_bytes > 0, "{ours:?}");
            assert!(sorted.major_faults * 100 <= plain.major_faults * 102, "{}: {plain:?} {sorted:?}", ours.workload);
        }
    }
}
