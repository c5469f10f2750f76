//! Writes settings that need the daemon as a live configuration for `isotherm daemon run`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use isotherm_core::generations::{ReclaimerConfig, ToolConfig};
use isotherm_core::monitor::MonitorConfig;
use isotherm_core::presets::Preset;
use isotherm_daemon::changes::protected;
use isotherm_daemon::config::{
    BalancingKnobs, CompactionConfig, Config, Engine, GenerationsConfig, LimitsConfig, TargetConfig, TieringConfig,
};
use isotherm_document::{Misfit, parse_as, print_as};
use isotherm_scenario::monitoring::MonitorSpec;
use isotherm_scenario::{GenerationsSpec, Scenario};
use isotherm_units::Duration;
use serde::Serialize;

use crate::error::CliError;
use crate::live::daemon::DIALECT;

/// First line of every file that is written here. A file that begins with it may be replaced.
const HEAD: &str = "# Made by `isotherm apply`";

/// The sections of a live configuration, in the order of the file.
#[derive(Debug, Default, Serialize)]
struct Sections {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<TargetConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    monitors: Vec<Monitors>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    generations: Vec<GenerationsConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitsConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compaction: Vec<CompactionConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tiering: Option<TieringConfig>,
}

/// A `[[monitors]]` table whose preset is written with only the values that differ from the kernel's.
#[derive(Debug, Serialize)]
struct Monitors {
    name: String,
    enable: bool,
    targets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<MonitorConfig>,
}

/// Whether a part of the scenario is a section of a live configuration.
pub(super) fn has_sections(scenario: &Scenario) -> bool {
    !section_names(scenario).is_empty()
}

/// The tables of the scenario that are sections of a live configuration.
pub(super) fn section_names(scenario: &Scenario) -> Vec<&'static str> {
    let tables = [
        ("[[monitors]]", !scenario.monitors.is_empty()),
        ("[[generations]]", !scenario.generations.is_empty()),
        ("[[limits]]", !scenario.limits.is_empty()),
        ("[[compaction]]", !scenario.compaction.is_empty()),
        ("[tiering]", scenario.tiering.is_some()),
    ];
    tables.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// Replaces the ages after which presets and tools treat memory as cold.
pub(super) fn with_age(scenario: &mut Scenario, age: Duration) -> Result<(), CliError> {
    let wrong = |name: &str, error: &dyn std::fmt::Display| CliError::usage(format!("--age {age}: `{name}`: {error}"));
    for spec in &mut scenario.monitors {
        let mut preset = spec.preset().cloned();
        match &mut preset {
            Some(Preset::Reclaim(preset)) => preset.min_age = age,
            Some(Preset::LruSort(preset)) => preset.cold_min_age = age,
            _ => continue,
        }
        let Some(preset) = preset else { continue };
        let name = spec.name.clone();
        let changed = MonitorSpec::of_preset(&name, preset).map_err(|error| wrong(&name, &error))?;
        let MonitorSpec { targets, ranges, .. } = spec.clone();
        *spec = changed;
        (spec.targets, spec.ranges) = (targets, ranges);
    }
    for GenerationsSpec { name, tool } in &mut scenario.generations {
        let ToolConfig::Reclaim(config) = &*tool else { continue };
        let changed = ToolConfig::Reclaim(ReclaimerConfig { threshold: age, interval: None, ..config.clone() });
        changed.validate().map_err(|error| wrong(name, &error))?;
        *tool = changed;
    }
    Ok(())
}

/// Ages of presets and tools that were fitted to a recording: name of the section, key, age.
pub(super) fn ages(scenario: &Scenario) -> Vec<(String, &'static str, Duration)> {
    let monitors = scenario.monitors.iter().filter_map(|spec| match spec.preset()? {
        Preset::Reclaim(preset) => Some((spec.name.clone(), "min-age", preset.min_age)),
        Preset::LruSort(preset) => Some((spec.name.clone(), "cold-min-age", preset.cold_min_age)),
        _ => None,
    });
    let tools = scenario.generations.iter().filter_map(|spec| match &spec.tool {
        ToolConfig::Reclaim(config) => Some((spec.name.clone(), "threshold", config.threshold)),
        ToolConfig::Estimate(_) => None,
    });
    monitors.chain(tools).collect()
}

/// The text of the file, and how many sections it has. It is read back and checked as `isotherm daemon check` does.
///
/// # Errors
/// Settings that no live machine has, by key.
pub(super) fn text(
    scenario: &Scenario,
    place: &str,
    cgroup: Option<&str>,
    enable: bool,
) -> Result<(String, usize), CliError> {
    let policy = scenario.tiering.as_ref().map(|tiering| tiering.policy.clone());
    let is_scanned = TieringConfig { policy, ..TieringConfig::default() }.is_own();
    let over_groups =
        is_scanned || !(scenario.monitors.is_empty() && scenario.generations.is_empty() && scenario.limits.is_empty());
    let mut sections = Sections::default();
    let name = scenario.name.replace(['/', '\n'], "-");
    if over_groups {
        let Some(cgroup) = cgroup else {
            return Err(CliError::usage(format!(
                "{place} has {}: say which control group they are for, --cgroup PATH",
                section_names(scenario).join(", ")
            )));
        };
        if let Some(why) = protected(cgroup) {
            return Err(CliError::usage(format!("the group {cgroup} is left alone: {why}")));
        }
        sections.targets.push(TargetConfig::groups(name.clone(), cgroup));
    }
    for spec in &scenario.monitors {
        sections.monitors.push(monitors(spec, place, &name, enable)?);
    }
    for GenerationsSpec { name: tool_name, tool } in &scenario.generations {
        let tool = tool.clone().with_targets(vec![name.clone()]);
        sections.generations.push(GenerationsConfig { name: tool_name.clone(), enable, min_ttl: None, tool });
    }
    for limits in &scenario.limits {
        let limits = isotherm_core::limits::LimitsConfig { target: name.clone(), ..limits.clone() };
        let nth = sections.limits.len() + 1;
        let name = if nth == 1 { "size".to_owned() } else { format!("size-{nth}") };
        sections.limits.push(LimitsConfig { name, enable, limits });
    }
    sections.compaction.extend(scenario.compaction.iter().map(|spec| CompactionConfig {
        name: spec.name.clone(),
        enable,
        engine: Engine::Auto,
        node: spec.node,
        design: spec.design.clone(),
    }));
    if let Some(tiering) = &scenario.tiering {
        let mut balancing = BalancingKnobs::default();
        if let Some(given) = &tiering.balancing {
            balancing.scan_delay = Some(given.scan_delay);
            balancing.hot_threshold = Some(given.hot_threshold);
            balancing.promote_rate_limit_mbps = Some(given.promote_rate_limit_mbps);
        }
        let policy = Some(tiering.policy.clone());
        let given = TieringConfig { enable, policy, balancing, ..TieringConfig::default() };
        sections.tiering = Some(if given.is_own() {
            TieringConfig { targets: vec![name.clone()], promotion: tiering.promotion.clone(), ..given }
        } else {
            given
        });
    }
    let body = print_as(&sections).map_err(CliError::failed)?;
    let check = |config: &Config| {
        config.check().map_err(|wrong| Misfit { key: wrong.key, other: wrong.other, message: wrong.message })
    };
    let config =
        parse_as(&body, &format!("{place}, as a live configuration"), DIALECT, check).map_err(CliError::host_cannot)?;
    let held = if enable {
        ""
    } else {
        "# enable = false: sections decide and tell, and change nothing. Set it to true to let them act.\n"
    };
    Ok((format!("{HEAD} from the advice on {}.\n{held}\n{body}", name.escape_default()), config.nr_sections()))
}

fn monitors(spec: &MonitorSpec, place: &str, target: &str, enable: bool) -> Result<Monitors, CliError> {
    let refuse =
        |key: &str, why: &str| Err(CliError::host_cannot(format!("{place}: monitor `{}`: `{key}`: {why}", spec.name)));
    let written = serde_json::to_value(spec).map_err(CliError::failed)?;
    let preset = written.get("preset").filter(|preset| !preset.is_null()).cloned();
    if written.get("damo").is_some_and(|damo| !damo.is_null()) {
        return refuse("damo", "a live configuration reads no other file: write its settings as `config`");
    }
    if written.get("ranges").and_then(|ranges| ranges.as_array()).is_some_and(|ranges| !ranges.is_empty()) {
        return refuse("ranges", "addresses of a simulated machine mean nothing on a live one: leave them out");
    }
    let config = preset.is_none().then(|| spec.config.clone());
    Ok(Monitors { name: spec.name.clone(), enable, targets: vec![target.to_owned()], preset, config })
}

/// Writes the file whole or not at all. A file that was not made by this verb is not replaced.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot write {}", path.display()));
    match std::fs::read(path) {
        Ok(bytes) if bytes.starts_with(HEAD.as_bytes()) => {}
        Ok(_) => {
            return Err(CliError::usage(format!(
                "{} is there already, and `isotherm apply` did not make it: name another file, or remove it",
                path.display()
            )));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&part))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_advise::{CANDIDATES, Recording};
    use isotherm_scenario::WorkloadEntry;

    fn scenario() -> Scenario {
        let load = isotherm_workload::WorkloadSpec::Trace(isotherm_workload::TraceSpec::new("x.parquet"));
        Scenario { workloads: vec![WorkloadEntry::new("web", load)], ..Scenario::named("web") }
    }

    /// Whatever advice recommends, the daemon takes.
    #[test]
    fn every_candidate_of_advice_is_a_live_configuration() {
        let recording = Recording { runtime: Duration::from_ms(2840) };
        for candidate in CANDIDATES.iter() {
            let mut advice = candidate.apply(scenario(), &recording);
            assert_eq!(has_sections(&advice), candidate.nr_parts() > 0, "{}", candidate.name);
            for age in [None, Some(Duration::from_secs(300))] {
                if let Some(age) = age {
                    with_age(&mut advice, age).unwrap();
                    assert!(ages(&advice).iter().all(|(.., now)| *now == age), "{}", candidate.name);
                }
                for enable in [false, true] {
                    let (text, nr) = text(&advice, "advice.toml", Some("/app.slice/web.service"), enable).unwrap();
                    assert_eq!(nr, candidate.nr_parts(), "{}: {text}", candidate.name);
                    assert_eq!(text.contains("enable = true\n"), enable && nr > 0, "{}: {text}", candidate.name);
                }
            }
        }
    }

    #[test]
    fn only_its_own_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("isotherm.toml");
        write(&path, &format!("{HEAD} one\n")).unwrap();
        write(&path, &format!("{HEAD} two\n")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{HEAD} two\n"));
        std::fs::write(&path, "").unwrap();
        assert!(write(&path, HEAD).unwrap_err().to_string().contains("is there already"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
    }
}
