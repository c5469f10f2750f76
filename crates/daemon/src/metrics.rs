//! The state of the daemon as metrics, in OpenMetrics text (docs/use/operate.md#metrics). One table lists all metrics.
//!
//! Labels are names of sections, groups as the configuration names them, and nodes; never process ids, which would create new series
//! without end.

use crate::control_loop::{NodeFree, SectionStatus, Stalled, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// Ages from which memory counts as warm, and as cold, in seconds.
pub const WARM_SECONDS: u64 = 60;
pub const COLD_SECONDS: u64 = 600;

/// Input of the metrics: the state, and values read in addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Version of the program.
    pub version: String,
    /// Checksum of the configuration.
    pub configuration: u64,
    pub status: Status,
    /// Changes in the journal that are not undone yet; `None` if it cannot be read.
    pub journal_open: Option<u64>,
    pub swap_free_bytes: Option<u64>,
    pub nodes: Vec<NodeFree>,
    pub groups: Vec<Group>,
}

/// A group that a section covers. Values that cannot be read are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub path: String,
    pub memory_bytes: Option<u64>,
    pub swapped_bytes: Option<u64>,
    /// `memory.high`, if there is one.
    pub high_bytes: Option<u64>,
    /// Time in which some task, and all tasks, waited for memory, in microseconds.
    pub stalled_us: Option<(u64, u64)>,
    pub refaulted_bytes: Option<u64>,
    /// Used within a minute, within ten, and not within ten, by generations.
    pub by_temperature: Option<[u64; 3]>,
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// A counter; its name ends in `_total`.
    Counter,
}

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;
type Values = Vec<(Labels, f64)>;

/// A metric.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name as exported, prefix and `_total` included.
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    values: fn(&Snapshot) -> Values,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn one(value: f64) -> Values {
    vec![(Vec::new(), value)]
}

fn some(value: Option<f64>) -> Values {
    value.map_or_else(Vec::new, one)
}

/// Numbers are below 2^53 for centuries of nanoseconds and petabytes.
#[allow(clippy::cast_precision_loss, reason = "OpenMetrics has doubles alone")]
fn real(number: u64) -> f64 {
    number as f64
}

fn seconds(ns: u64) -> f64 {
    real(ns) / 1e9
}

fn of_sections<V: Into<Option<f64>>>(snapshot: &Snapshot, value: impl Fn(&SectionStatus) -> V) -> Values {
    let row = |section: &SectionStatus| Some((vec![("section", section.section.clone())], value(section).into()?));
    snapshot.status.sections.iter().filter_map(row).collect()
}

fn of_groups(snapshot: &Snapshot, value: impl Fn(&Group) -> Option<f64>) -> Values {
    let row = |group: &Group| Some((vec![("target", group.path.clone())], value(group)?));
    snapshot.groups.iter().filter_map(row).collect()
}

fn of_nodes(snapshot: &Snapshot, value: impl Fn(&NodeFree) -> f64) -> Values {
    snapshot.nodes.iter().map(|node| (vec![("node", node.node.to_string())], value(node))).collect()
}

fn stalled(snapshot: &Snapshot) -> Values {
    let rows = |group: &Group| {
        let (some, full) = group.stalled_us?;
        let row = |kind: &str, us: u64| {
            (vec![("target", group.path.clone()), ("kind", kind.to_owned())], seconds(us.saturating_mul(1000)))
        };
        Some([row("some", some), row("full", full)])
    };
    snapshot.groups.iter().filter_map(rows).flatten().collect()
}

fn held_back(snapshot: &Snapshot) -> Values {
    let rows = |stalled: &Stalled| {
        let share = real(stalled.share_ppm) / 1e6;
        let row = |section: &String| (vec![("section", section.clone()), ("target", stalled.target.clone())], share);
        stalled.sections.iter().map(row).collect::<Vec<_>>()
    };
    snapshot.status.stalled.iter().flat_map(rows).collect()
}

fn temperatures(snapshot: &Snapshot) -> Values {
    let rows = |group: &Group| {
        let bytes = group.by_temperature?;
        let row = |(name, bytes): (&str, u64)| {
            (vec![("target", group.path.clone()), ("temperature", name.to_owned())], real(bytes))
        };
        Some(["hot", "warm", "cold"].into_iter().zip(bytes).map(row).collect::<Vec<_>>())
    };
    snapshot.groups.iter().filter_map(rows).flatten().collect()
}

/// States in which a section is acting.
const ACTING: [&str; 2] = ["acting", "compacting"];

macro_rules! metrics {
    ($($name:literal $kind:ident [$($label:literal),*] $help:literal $values:expr;)*) => {
        /// All metrics.
        pub const METRICS: &[Metric] = &[$(
            Metric { name: concat!("isotherm_", $name), kind: Kind::$kind, labels: &[$($label),*], help: $help, values: $values },
        )*];
    };
}

// Name, kind, labels, help, values.
metrics! {
    "build_info" Gauge ["version"] "The program; always 1" |it| vec![(vec![("version", it.version.clone())], 1.0)];
    "configuration_info" Gauge ["checksum"] "The configuration, as it was taken last; always 1"
        |it| vec![(vec![("checksum", format!("{:016x}", it.configuration))], 1.0)];
    "uptime_seconds" Gauge [] "Since the daemon began" |it| one(seconds(it.status.since_start_ns));
    "cpu_seconds_total" Counter [] "CPU time of the daemon" |it| one(seconds(it.status.cpu_ns));
    "resident_bytes" Gauge [] "Resident memory of the daemon" |it| some(it.status.resident_bytes.map(real));
    "turn_longest_seconds" Gauge [] "The longest turn of the loop since it began" |it| one(seconds(it.status.longest_turn_ns));
    "pace_factor" Gauge [] "The largest section_pace_factor"
        |it| one(f64::from(it.status.stretch));
    "paused" Gauge [] "1 while nothing may act: the kill file, an audit that cannot be written, or pressure on all that sections are for"
        |it| one(f64::from(u8::from(it.status.paused.is_some())));
    "journal_open_changes" Gauge [] "Knobs that hold something else than before, and are put back at the end"
        |it| some(it.journal_open.map(real));
    "swap_free_bytes" Gauge [] "Swap that is free" |it| some(it.swap_free_bytes.map(real));
    "section_enabled" Gauge ["section"] "1 if the section may act" |it| of_sections(it, |section| f64::from(u8::from(section.enabled)));
    "section_acting" Gauge ["section"] "1 while nothing keeps it from acting"
        |it| of_sections(it, |section| f64::from(u8::from(section.enabled && ACTING.contains(&section.state.as_str()))));
    "section_pace_factor" Gauge ["section"] "Factor by which its intervals are longer than configured, to stay within max-cpu"
        |it| of_sections(it, |section| f64::from(section.stretch));
    "section_stalled" Gauge ["section", "target"]
        "Share of the time in which all tasks of a group, or of the machine (machine), waited for memory, where that keeps the section off it"
        held_back;
    "section_targets" Gauge ["section"] "Groups, or nodes, that it is for now" |it| of_sections(it, |section| real(section.targets.len() as u64));
    "section_runs_total" Counter ["section"] "Times that it has run" |it| of_sections(it, |section| real(section.runs));
    "section_asked_bytes_total" Counter ["section"] "Memory that it asked something for"
        |it| of_sections(it, |section| real(section.asked_bytes));
    "section_verified_bytes_total" Counter ["section"] "Memory for which that was done, as read back"
        |it| of_sections(it, |section| real(section.verified_bytes));
    "section_refusals_total" Counter ["section"] "Acts that were withheld or failed" |it| of_sections(it, |section| real(section.refused));
    "section_since_acted_seconds" Gauge ["section"] "Since it last did something; left out before it has"
        |it| of_sections(it, |section| section.since_acted_ns.map(seconds));
    "target_memory_bytes" Gauge ["target", "temperature"]
        "Memory by its age, where generations tell: used within 1 min (hot), within 10 min (warm), not within 10 min (cold)" temperatures;
    "target_used_bytes" Gauge ["target"] "memory.current" |it| of_groups(it, |group| group.memory_bytes.map(real));
    "target_swapped_bytes" Gauge ["target"] "memory.swap.current" |it| of_groups(it, |group| group.swapped_bytes.map(real));
    "target_high_bytes" Gauge ["target"] "memory.high, where there is one" |it| of_groups(it, |group| group.high_bytes.map(real));
    "target_stalled_seconds_total" Counter ["target", "kind"] "Time in which some task, or all tasks, waited for memory" stalled;
    "target_refaulted_bytes_total" Counter ["target"] "Memory that was evicted and came back"
        |it| of_groups(it, |group| group.refaulted_bytes.map(real));
    "node_fragmentation_percent" Gauge ["node"] "The kernel's fragmentation score for huge pages" |it| of_nodes(it, |node| f64::from(node.score));
    "node_huge_pages_free" Gauge ["node"] "Huge pages that are free, or are had by splitting larger blocks"
        |it| of_nodes(it, |node| real(node.huge_free));
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let values = (metric.values)(self);
            if values.is_empty() {
                continue;
            }
            // The encoder adds the ending of counters.
            let (name, kind) = match metric.kind {
                Kind::Gauge => (metric.name, MetricType::Gauge),
                Kind::Counter => (metric.name.trim_end_matches("_total"), MetricType::Counter),
            };
            let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
            if let [(labels, value)] = &values[..]
                && labels.is_empty()
            {
                match metric.kind {
                    Kind::Gauge => ConstGauge::new(*value).encode(family)?,
                    Kind::Counter => ConstCounter::new(*value).encode(family)?,
                }
                continue;
            }
            for (labels, value) in values {
                match metric.kind {
                    Kind::Gauge => ConstGauge::new(value).encode(family.encode_family(&labels)?)?,
                    Kind::Counter => ConstCounter::new(value).encode(family.encode_family(&labels)?)?,
                }
            }
        }
        Ok(())
    }
}

/// As OpenMetrics text.
pub fn rendered(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // Writing into memory does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn section(name: &str, state: &str) -> SectionStatus {
        SectionStatus {
            section: name.to_owned(),
            engine: "kernel: lru_gen".into(),
            enabled: true,
            state: state.to_owned(),
            targets: vec!["/app".to_owned()],
            runs: 3,
            asked_bytes: 4096,
            verified_bytes: 2048,
            refused: 1,
            stretch: 2,
            since_acted_ns: (state == "acting").then_some(1_500_000_000),
            words: Vec::new(),
        }
    }

    fn snapshot() -> Snapshot {
        let group = Group {
            path: "/app \"x\"\\\n".to_owned(),
            memory_bytes: Some(1 << 40),
            swapped_bytes: Some(0),
            high_bytes: Some(1 << 41),
            stalled_us: Some((1_500_000, 250_000)),
            refaulted_bytes: Some(8192),
            by_temperature: Some([1, 2, 3]),
        };
        Snapshot {
            version: "0.1.0".to_owned(),
            configuration: 0xab,
            status: Status {
                since_start_ns: 2_500_000_000,
                paused: Some("pressure".to_owned()),
                stalled: vec![Stalled {
                    target: "/app".to_owned(),
                    sections: vec!["limits.size".to_owned()],
                    share_ppm: 30_000,
                }],
                stretch: 2,
                cpu_ns: 1_000_000,
                resident_bytes: Some(1 << 20),
                longest_turn_ns: 5_000_000,
                sections: vec![section("generations.cold", "acting"), section("limits.size", "no swap is free")],
            },
            journal_open: Some(2),
            swap_free_bytes: Some(0),
            nodes: vec![NodeFree { node: 0, score: 17, huge_free: 9 }],
            groups: vec![group, Group { path: "/bare".to_owned(), ..Group::default() }],
        }
    }

    #[test]
    fn the_text_is_that_of_openmetrics() {
        let text = rendered(snapshot());
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in [
            "isotherm_build_info{version=\"0.1.0\"} 1.0",
            "isotherm_uptime_seconds 2.5",
            "isotherm_cpu_seconds_total 0.001",
            "isotherm_paused 1.0",
            "isotherm_section_stalled{section=\"limits.size\",target=\"/app\"} 0.03",
            "isotherm_section_acting{section=\"generations.cold\"} 1.0",
            "isotherm_section_acting{section=\"limits.size\"} 0.0",
            "isotherm_section_verified_bytes_total{section=\"generations.cold\"} 2048.0",
            "isotherm_section_since_acted_seconds{section=\"generations.cold\"} 1.5",
            "isotherm_target_stalled_seconds_total{target=\"/app \\\"x\\\"\\\\\\n\",kind=\"some\"} 1.5",
            "isotherm_target_memory_bytes{target=\"/app \\\"x\\\"\\\\\\n\",temperature=\"cold\"} 3.0",
            "isotherm_node_fragmentation_percent{node=\"0\"} 17.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("/bare"), "what is not known is left out");
        assert!(!text.contains("since_acted_seconds{section=\"limits.size\"}"), "it has not acted");
    }

    #[test]
    fn each_metric_is_told_with_its_labels_and_has_a_name_of_its_own() {
        let (whole, text) = (snapshot(), rendered(snapshot()));
        let mut names = BTreeSet::new();
        for metric in METRICS {
            assert!(names.insert(metric.name), "{metric:?} twice");
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{metric:?}");
            let values = (metric.values)(&whole);
            assert!(!values.is_empty(), "{metric:?} has no value here");
            for (labels, _) in values {
                assert_eq!(labels.iter().map(|(name, _)| *name).collect::<Vec<_>>(), metric.labels, "{metric:?}");
            }
            assert!(text.lines().any(|line| line.starts_with(metric.name)), "{metric:?}");
            assert!(text.contains(metric.help), "{metric:?}");
        }
    }
}
