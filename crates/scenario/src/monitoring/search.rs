//! The cheapest setting that is good enough.

use super::score::Detection;
use super::watch::{Watch, Watched, accuracy};
use super::{HotDefinition, MonitorReport};
use crate::ScenarioError;
use crate::run::Progress;
use isotherm_core::monitor::{Attributes, MonitorConfig, Strategy};
use isotherm_units::Duration;
use rayon::prelude::*;
use serde::Serialize;

/// A way to monitor, to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name for people, for example `ptp, 5ms/100ms, 1000 regions`.
    pub name: String,
    pub config: MonitorConfig,
}

/// The settings that a search tries by default: strategies × intervals (20 samples each) × most regions, all else as in `base`.
pub fn settings(base: &MonitorConfig) -> Vec<Setting> {
    const STRATEGIES: [&str; 4] = ["leaf", "ptp", "ptp-aligned", "ptp-descend"];
    const SAMPLE_MS: [u64; 3] = [1, 5, 20];
    const REGIONS_MAX: [u32; 3] = [100, 1000, 5000];
    let mut all = Vec::new();
    for strategy in STRATEGIES {
        let strategy: Strategy = strategy.parse().expect("from the table of strategies");
        for sample_ms in SAMPLE_MS {
            for max_nr_regions in REGIONS_MAX {
                let attributes = Attributes {
                    sample_interval: Duration::from_ms(sample_ms),
                    aggr_interval: Duration::from_ms(sample_ms * 20),
                    max_nr_regions,
                    ..base.attributes.clone()
                };
                let name = format!("{strategy}, {sample_ms}ms/{}ms, {max_nr_regions} regions", sample_ms * 20);
                all.push(Setting { name, config: MonitorConfig { strategy, attributes, ..base.clone() } });
            }
        }
    }
    all
}

/// The result of one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// Name of the setting.
    pub name: String,
    pub config: MonitorConfig,
    /// Detection by the definition asked for.
    pub detection: Detection,
    /// Report of the monitor, with all scores.
    pub monitor: MonitorReport,
}

/// The result of a search for the cheapest setting.
#[derive(Clone, Debug, Serialize)]
pub struct Search {
    /// All settings, in the order in which they were given.
    pub tried: Vec<Tried>,
    /// Index of the good setting that takes least CPU time; `None` if no setting is good.
    pub cheapest: Option<usize>,
}

/// Tries all `settings` on the replay of `watch`, on `threads` threads (`None`: one per processor), and selects the cheapest with
/// precision and recall of 0.9 and more by `definition`. Results do not depend on the number of threads; of equal cost the first
/// wins.
///
/// # Errors
/// The first error in the order of settings.
pub fn cheapest(
    watch: &Watch,
    settings: &[Setting],
    definition: HotDefinition,
    threads: Option<usize>,
    progress: &dyn Progress,
) -> Result<Search, ScenarioError> {
    let watches: Vec<Watch> =
        settings.iter().map(|setting| watch.with_config(setting.config.clone())).collect::<Result<_, _>>()?;
    progress.planned(watches.len() as u64);
    let try_all = || -> Vec<Result<Watched, ScenarioError>> {
        let one = |watch: &Watch| {
            let watched = accuracy(watch);
            progress.done(1);
            watched
        };
        watches.par_iter().map(one).collect()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    let watched = match pool {
        Ok(pool) => pool.install(try_all),
        Err(_) => try_all(), // no thread can be started: the caller's own does it
    };
    let mut tried = Vec::new();
    for (setting, watched) in settings.iter().zip(watched) {
        let monitor = watched?.monitor;
        let scores = monitor.scores.as_ref().ok_or_else(|| {
            let message = "physical memory cannot be judged: its uses are not noted; watch a process".to_owned();
            ScenarioError::Monitor { monitor: monitor.name.clone(), message }
        })?;
        let detection = scores.of(definition).main();
        tried.push(Tried { name: setting.name.clone(), config: setting.config.clone(), detection, monitor });
    }
    let good = tried.iter().enumerate().filter(|(_, one)| one.detection.is_good());
    let cheapest = good.min_by_key(|(_, one)| one.monitor.cpu_ns).map(|(index, _)| index);
    Ok(Search { tried, cheapest })
}
