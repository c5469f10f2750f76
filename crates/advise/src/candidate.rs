//! The configurations that advice compares. A new policy is tried by being registered; a new combination (a policy with schemes or
//! tools) is one line here, and a function below for a new part.

use super::Question;
use isotherm_core::generations::{ReclaimerConfig, Swappiness};
use isotherm_core::limits::LimitsConfig;
use isotherm_core::presets::{LruSort, Preset, Reclaim};
use isotherm_kernel::reclaim::{POLICIES, PolicyEntry, policy_by_name};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_scenario::monitoring::MonitorSpec;
use isotherm_scenario::single::group_path;
use isotherm_scenario::{GenerationsSpec, Scenario};
use isotherm_units::{Amount, Bytes, Duration, PAGE_BYTES, Ratio};
use std::sync::LazyLock;

/// The recording that the parameters of combinations are fitted to.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// How long the program runs with unlimited memory.
    pub runtime: Duration,
}

/// Adds schemes or tools to a scenario.
type Part = fn(&mut Scenario, &Recording);

/// A configuration to try: a policy, with schemes and tools.
pub struct Candidate {
    /// Name in results, such as `classic + reclaim`.
    pub name: &'static str,
    /// Policy it builds on.
    policy: &'static str,
    /// Schemes and tools that run with the policy.
    parts: &'static [Part],
    is_on_request: bool,
}

/// Combinations: name, policy, schemes and tools.
const COMBINATIONS: &[(&str, &str, &[Part])] = &[
    ("classic + lru_sort", "classic", &[lru_sort]),
    ("classic + reclaim", "classic", &[reclaim]),
    ("mglru + lru_sort", "mglru", &[lru_sort]),
    ("mglru + reclaim", "mglru", &[reclaim]),
    ("mglru + proactive", "mglru", &[proactive]),
];

/// Combinations that are tried only if the question names them: they take replays, and do not suit every program.
const ON_REQUEST: &[(&str, &str, &[Part])] =
    &[("classic + limits", "classic", &[limits]), ("mglru + limits", "mglru", &[limits])];

/// All configurations, in the order of results: each policy by itself, followed by its combinations.
pub static CANDIDATES: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let of = |entry: &'static PolicyEntry| {
        let alone = Candidate { name: entry.name, policy: entry.name, parts: &[], is_on_request: false };
        let of_policy = |table: &'static [(&'static str, &'static str, &'static [Part])], is_on_request| {
            let combinations = table.iter().filter(|(_, policy, _)| *policy == entry.name);
            combinations.map(move |&(name, policy, parts)| Candidate { name, policy, parts, is_on_request })
        };
        std::iter::once(alone).chain(of_policy(COMBINATIONS, false)).chain(of_policy(ON_REQUEST, true))
    };
    POLICIES.iter().flat_map(of).collect()
});

/// The policy that knows the future: none has fewer faults (`docs/mechanism/reclaim.md#baselines`). That bounds no time: faults cost
/// different times, so a policy with more of them can be faster.
pub const FEWEST_FAULTS: &str = "opt";

impl Candidate {
    pub fn runs_on_linux(&self) -> bool {
        policy_by_name(self.policy).is_ok_and(|entry| entry.runs_on_linux)
    }

    /// Whether a recommendation may be for the policy that it builds on.
    pub fn may_be_recommended(&self, question: &Question) -> bool {
        question.policy.is_none_or(|policy| policy == self.policy)
    }

    /// Whether a question asks for this configuration.
    pub fn is_asked_for(&self, question: &Question) -> bool {
        (question.limits || !self.is_on_request) && (question.baselines || self.runs_on_linux())
    }

    /// Number of schemes and tools: 0 for a policy by itself.
    pub fn nr_parts(&self) -> usize {
        self.parts.len()
    }

    /// The plain scenario turned into this configuration.
    pub fn apply(&self, scenario: Scenario, recording: &Recording) -> Scenario {
        let mut scenario = Scenario { policy: self.policy.to_owned(), ..scenario };
        self.parts.iter().for_each(|part| part(&mut scenario, recording));
        scenario
    }
}

/// The kernel's age for cold memory: two minutes.
const AGE_MAX: Duration = Duration::from_secs(120);
/// An aggregation of the presets: less than one cannot be seen.
const AGGREGATION: Duration = Duration::from_ms(100);
/// The kernel's window of quotas.
const WINDOW_MAX: Duration = Duration::from_secs(1);

/// When memory counts as cold: unused for a tenth of the program's life, in whole aggregations, at most the kernel's age. In a recording of
/// seconds no memory is ever unused for the kernel's two minutes.
fn cold_age(recording: &Recording) -> Duration {
    let aggregations = recording.runtime.ns() / 10 / AGGREGATION.ns();
    Duration::from_ns(aggregations.saturating_mul(AGGREGATION.ns())).clamp(AGGREGATION, AGE_MAX)
}

/// The window of quotas: the kernel's, but no longer than the cold age. A quota in time learns the speed of its scheme from window to
/// window, which takes several windows.
fn window(recording: &Recording) -> Duration {
    cold_age(recording).min(WINDOW_MAX)
}

/// The kernel's share of a processor: a hundredth, in whole milliseconds, so that each of `schemes` has one.
fn quota_time(recording: &Recording, schemes: u64) -> Duration {
    Duration::from_ms((window(recording).ns() / 100 / 1_000_000).max(schemes))
}

/// Free memory below which a scheme works: any. The kernel's marks are marks of the whole machine, which do not apply to a limit of a group
/// on a machine with free memory.
const MARK: Ratio = Ratio::from_percent(100);

/// Proactive sorting of LRU lists: two schemes, each with half the quota.
fn lru_sort(scenario: &mut Scenario, recording: &Recording) {
    let preset = LruSort {
        cold_min_age: cold_age(recording),
        quota_time: quota_time(recording, 2),
        quota_reset_interval: window(recording),
        wmarks_interval: AGGREGATION,
        wmarks_high: MARK,
        wmarks_mid: MARK,
        ..LruSort::default()
    };
    scenario.monitors.push(monitor("lru_sort", Preset::LruSort(preset)));
}

/// Proactive reclaim by age. The quota in bytes is off: free memory is charged as well, and on a machine with room to spare the kernel's
/// 128 MiB a second would be gone before the program's memory had its turn. The quota in time holds.
fn reclaim(scenario: &mut Scenario, recording: &Recording) {
    let preset = Reclaim {
        min_age: cold_age(recording),
        quota_time: quota_time(recording, 1),
        quota_size: Bytes::ZERO,
        quota_reset_interval: window(recording),
        wmarks_interval: AGGREGATION,
        wmarks_high: MARK,
        wmarks_mid: MARK,
        ..Reclaim::default()
    };
    scenario.monitors.push(monitor("reclaim", Preset::Reclaim(preset)));
}

/// Proactive reclaim by generations: evicts generations as old as the age for cold memory; without swap, only file pages.
fn proactive(scenario: &mut Scenario, recording: &Recording) {
    let mut config = ReclaimerConfig { threshold: cold_age(recording), ..ReclaimerConfig::default() };
    if scenario.machine.swap.device == DeviceKind::None {
        config.swappiness = Swappiness::Of(0);
    }
    scenario.generations.push(GenerationsSpec::reclaim("proactive", config));
}

/// Right-sizing of the program's group, which has the limit of the candidate above it. A recording of seconds has no time for steps of
/// five seconds: a hundred steps are taken in its life, within the daemon's shortest and longest interval.
fn limits(scenario: &mut Scenario, recording: &Recording) {
    let usual = LimitsConfig::new(group_path(scenario, 0));
    let step = recording.runtime.ns() / 100 / STEP.ns();
    let interval = Duration::from_ns(step.saturating_mul(STEP.ns())).clamp(STEP, usual.interval);
    // As many intervals as by default.
    let of_default = |time: Duration| interval.saturating_mul(time.ns() / usual.interval.ns().max(1));
    let (backoff, backoff_max) = (of_default(usual.backoff), of_default(usual.backoff_max));
    let allowed = match scenario.limit {
        Some(Amount::Absolute(bytes)) => bytes.get() / FLOOR_OF_LIMIT,
        _ => usual.floor.get(),
    };
    // A sample has fewer pages and less memory.
    let floor_max = (usual.floor.get() / u64::from(scenario.machine.sample.max(1))).max(PAGE_BYTES);
    let floor = Bytes::new(allowed.clamp(PAGE_BYTES, floor_max)).pages_floor().bytes();
    scenario.limits.push(LimitsConfig { interval, backoff, backoff_max, floor, ..usual });
}

/// The least interval of right-sizing.
const STEP: Duration = Duration::from_ms(100);
/// Right-sizing stops at this part of the limit: its own least limit is more than many recorded programs need.
const FLOOR_OF_LIMIT: u64 = 10;

fn monitor(name: &str, preset: Preset) -> MonitorSpec {
    MonitorSpec::of_preset(name, preset).expect("fitted values are allowed: tested")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A recording that is played.
    fn played() -> Scenario {
        let load = isotherm_workload::WorkloadSpec::Trace(isotherm_workload::TraceSpec::new("x.parquet"));
        Scenario { workloads: vec![isotherm_scenario::WorkloadEntry::new("x", load)], ..Scenario::named("x") }
    }

    #[test]
    fn steps_of_right_sizing_are_a_hundredth_of_the_recording() {
        for (runtime, interval_ms) in [(0, 100), (2_840, 100), (60_000, 600), (200_000, 2_000), (9_000_000, 5_000)] {
            let mut scenario = played();
            limits(&mut scenario, &Recording { runtime: Duration::from_ms(runtime) });
            let times = |config: &LimitsConfig| (config.interval, config.backoff, config.backoff_max);
            let expected = [1, 6, 120].map(|times| Duration::from_ms(interval_ms).saturating_mul(times));
            assert_eq!(times(&scenario.limits[0]), expected.into(), "{runtime} ms");
        }
    }

    const LENGTHS: [Duration; 4] =
        [Duration::ZERO, Duration::from_ms(2840), Duration::from_secs(3600), Duration::from_secs(u64::MAX >> 30)];

    #[test]
    fn every_combination_is_of_a_policy() {
        assert_eq!(CANDIDATES.len(), POLICIES.len() + COMBINATIONS.len() + ON_REQUEST.len());
        let on_request = CANDIDATES.iter().filter(|candidate| candidate.is_on_request);
        assert!(on_request.map(|candidate| candidate.name).eq(["classic + limits", "mglru + limits"]));
    }

    #[test]
    fn names_are_unique_and_say_what_is_in_them() {
        let names: BTreeSet<&str> = CANDIDATES.iter().map(|candidate| candidate.name).collect();
        assert_eq!(names.len(), CANDIDATES.len());
        for candidate in CANDIDATES.iter() {
            let mut words = candidate.name.split(" + ");
            assert_eq!(words.next(), Some(candidate.policy));
            assert_eq!(words.count(), candidate.parts.len(), "{}", candidate.name);
        }
    }

    #[test]
    fn every_part_is_there_fitted_to_recordings_of_any_length() {
        for runtime in LENGTHS {
            for candidate in CANDIDATES.iter() {
                let limit = Some(Amount::Absolute(Bytes::from_mib(8)));
                let scenario = candidate.apply(Scenario { limit, ..played() }, &Recording { runtime });
                assert_eq!(!scenario.limits.is_empty(), candidate.name.contains("limits"), "{}", candidate.name);
                for config in &scenario.limits {
                    config.validate().expect("fitted values are allowed");
                    assert_eq!((config.target.as_str(), config.floor.get()), ("/x", (8 << 20) / 10 / 4096 * 4096));
                }
                assert_eq!(
                    !scenario.generations.is_empty(),
                    candidate.name.contains("proactive"),
                    "{}",
                    candidate.name
                );
                for tool in &scenario.generations {
                    tool.tool.validate().expect("fitted values are allowed");
                }
                for preset in ["lru_sort", "reclaim"] {
                    let monitor = scenario.monitors.iter().find(|monitor| monitor.name == preset);
                    assert_eq!(monitor.is_some(), candidate.name.contains(preset), "{}", candidate.name);
                    let Some(monitor) = monitor else { continue };
                    assert_eq!(monitor.preset().map(Preset::name), Some(preset.replace('_', "-").as_str()));
                    monitor.config.validate().expect("fitted values are allowed");
                    assert!(!monitor.config.schemes.is_empty());
                }
            }
        }
    }

    /// The configuration that `--config` writes is the combination's.
    #[test]
    fn every_set_up_is_written_and_read_back() {
        for candidate in CANDIDATES.iter() {
            let mut scenario = played();
            scenario.machine.swap.device = DeviceKind::None.into();
            let scenario = candidate.apply(scenario, &Recording { runtime: LENGTHS[1] });
            let text = isotherm_scenario::print(&scenario);
            let read =
                isotherm_scenario::parse(&text, candidate.name).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(read, scenario, "{}", candidate.name);
            assert_eq!(text.contains("swappiness = 0"), candidate.name.contains("proactive"), "{text}");
        }
    }

    #[test]
    fn cold_is_what_is_unused_for_a_tenth_of_the_recording() {
        let table = [(0, 100), (2_840, 200), (3_000, 300), (60_000, 6_000), (1_200_000, 120_000), (9_000_000, 120_000)];
        for (runtime_ms, age_ms) in table {
            let recording = Recording { runtime: Duration::from_ms(runtime_ms) };
            assert_eq!(cold_age(&recording), Duration::from_ms(age_ms), "{runtime_ms} ms");
        }
    }

    #[test]
    fn quotas_are_a_hundredth_of_a_processor_as_far_as_milliseconds_go() {
        // Runtime, window, quota of one scheme, of two.
        let table = [(500, 100, 1, 2), (2_840, 200, 2, 2), (5_000, 500, 5, 5), (60_000, 1_000, 10, 10)];
        for (runtime_ms, window_ms, one_ms, two_ms) in table {
            let recording = Recording { runtime: Duration::from_ms(runtime_ms) };
            let fitted = (window(&recording), quota_time(&recording, 1), quota_time(&recording, 2));
            let [window, one, two] = [window_ms, one_ms, two_ms].map(Duration::from_ms);
            assert_eq!(fitted, (window, one, two), "{runtime_ms} ms");
        }
    }
}
