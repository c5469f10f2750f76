//! Worlds: parameters besides the seed that differ between repeats of a scenario, because the real world does not fix them.

use crate::Scenario;
use crate::validate::{Checked, Refused};
use isotherm_document::KeyPath;
use isotherm_units::{Amount, Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Conditions of one repeat: a `[[worlds]]` table. Keys that are left out take the scenario's values. Variants change the scenario as it is
/// under these conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WorldSpec {
    /// Seed of this repeat. Default: the scenario's, plus the place of the world in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Replaces the scenario's `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
    /// Replaces the `start` of every workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Duration>,
    /// Replaces the machine's `cpus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Replaces the machine's `device-latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_latency: Option<Ratio>,
    /// Replaces the machine's `lazy-statistics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lazy_statistics: Option<bool>,
    /// Replaces the machine's `warm-files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_files: Option<bool>,
    /// Replaces the scenario's `other-tasks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_tasks: Option<Duration>,
}

impl WorldSpec {
    /// `scenario` in this world, which is number `nth`: one run, without worlds.
    pub fn of(&self, scenario: &Scenario, nth: usize) -> Scenario {
        let mut scenario = Scenario { worlds: Vec::new(), repeats: 1, ..scenario.clone() };
        scenario.seed = self.seed.unwrap_or_else(|| scenario.seed.wrapping_add(nth as u64));
        scenario.limit = self.limit.or(scenario.limit);
        scenario.other_tasks = self.other_tasks.unwrap_or(scenario.other_tasks);
        let machine = &mut scenario.machine;
        machine.cpus = self.cpus.unwrap_or(machine.cpus);
        machine.device_latency = self.device_latency.unwrap_or(machine.device_latency);
        machine.lazy_statistics = self.lazy_statistics.unwrap_or(machine.lazy_statistics);
        machine.warm_files = self.warm_files.unwrap_or(machine.warm_files);
        for workload in &mut scenario.workloads {
            workload.start = self.start.unwrap_or(workload.start);
        }
        scenario
    }
}

/// The scenario in each of its worlds; the scenario itself without any.
pub(crate) fn worlds_of(scenario: &Scenario) -> Vec<Scenario> {
    if scenario.worlds.is_empty() {
        return vec![scenario.clone()];
    }
    scenario.worlds.iter().enumerate().map(|(nth, world)| world.of(scenario, nth)).collect()
}

/// If there are worlds, each is a repeat, so a number of repeats has no meaning.
pub(crate) fn check_repeats(scenario: &Scenario) -> Checked {
    if scenario.repeats != 1 {
        let message = format!("`repeats` is {}, but each of the `worlds` is a repeat: leave it out", scenario.repeats);
        return Err(Refused::new(KeyPath::from("repeats"), message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "name = \"two\"\nlimit = \"8MiB\"\nseed = 7\n\
        [[worlds]]\nlimit = \"6MiB\"\ncpus = 1\nlazy-statistics = true\nwarm-files = true\n\
        [[worlds]]\nseed = 3\nstart = \"5ms\"\ndevice-latency = \"80%\"\nother-tasks = \"1s\"\n\
        [[workloads]]\nname = \"load\"\nload = { kind = \"scan\", footprint = \"16MiB\", repeat = 2 }\n";

    #[test]
    fn a_world_changes_what_it_names() {
        let scenario = crate::parse(TWO, "two").unwrap_or_else(|error| panic!("{error}"));
        let worlds = worlds_of(&scenario);
        let [first, second] = worlds.as_slice() else { panic!("{} worlds", worlds.len()) };
        assert_eq!((first.seed, first.limit.map(|limit| limit.to_string())), (7, Some("6MiB".to_owned())));
        assert_eq!((first.machine.warm_files, second.machine.warm_files), (true, false));
        assert_eq!((first.machine.cpus, first.machine.lazy_statistics, first.other_tasks), (1, true, Duration::ZERO));
        assert_eq!((second.seed, second.limit.map(|limit| limit.to_string())), (3, Some("8MiB".to_owned())));
        assert_eq!((second.machine.cpus, second.machine.device_latency), (2, Ratio::from_percent(80)));
        assert_eq!((second.workloads[0].start, second.other_tasks), (Duration::from_ms(5), Duration::from_secs(1)));
        assert_eq!(crate::parse(&crate::print(&scenario), "again").expect("it is as it was"), scenario);
    }

    /// The second world begins five seconds later, and its means do not know of it.
    #[test]
    fn means_leave_out_the_time_before_a_program_starts() {
        let text = "name = \"late\"\nmetrics = [\"mean_bytes\"]\n[[worlds]]\n[[worlds]]\nstart = \"5s\"\n\
            [[workloads]]\nname = \"load\"\n\
            load = { kind = \"scan\", footprint = \"16MiB\", repeat = 200, access = \"write\" }\n";
        let scenario = crate::parse(text, "late").unwrap_or_else(|error| panic!("{error}"));
        let options = crate::RunOptions { base_dir: ".".into(), place: "late".to_owned(), threads: Some(1) };
        let result = crate::run(&scenario, &options, &()).unwrap_or_else(|error| panic!("{error}"));
        let row = result.row("load", "classic", "mean_bytes").expect("asked for");
        let spread = row.spread.expect("there are worlds");
        assert_eq!((row.n, spread.median), (2, spread.least.midpoint(spread.most)));
        assert!(spread.least > 8e6 && spread.most < spread.least * 1.1, "{spread:?}");
    }

    #[test]
    fn worlds_are_the_repeats() {
        let error = crate::parse(&format!("repeats = 3\n{TWO}"), "two").expect_err("it has both");
        assert!(error.to_string().contains("`repeats` is 3, but each of the `worlds` is a repeat"), "{error}");
        let patched = format!("{TWO}[[variants]]\nname = \"v\"\npatch.repeats = 4\n");
        let error = crate::parse(&patched, "two").expect_err("a variant has both");
        assert!(error.to_string().contains("`repeats` is 4, but each of the `worlds`"), "{error}");
        let wrong = TWO.replace("cpus = 1", "cpus = 0");
        let error = crate::parse(&wrong, "two").expect_err("no machine has none");
        assert!(error.to_string().contains("world 1") && error.to_string().contains("cpus"), "{error}");
    }
}
