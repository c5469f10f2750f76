//! Configurations of tests in the simulated world.

use super::super::*;
use crate::config::{Engine, GenerationsConfig, LimitsConfig, MonitorsConfig, TargetConfig};
use isotherm_core::generations::{ReclaimerConfig, ToolConfig};
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{Preset, Reclaim};
use isotherm_core::schemes::Scheme;
use isotherm_core::vocabulary::Action;
use isotherm_units::Ratio;

/// Names of five letters or more: `/app/web-1` and others, `/system.slice/sshd.service`, but not `/app/db`.
const WEB_AND_SSHD: &str = "/*/?????*";

pub(super) fn section(name: &str, target: &str, enable: bool) -> GenerationsConfig {
    let config = ReclaimerConfig {
        targets: vec![target.to_owned()],
        threshold: Duration::from_secs(20),
        ..ReclaimerConfig::default()
    };
    GenerationsConfig { name: name.to_owned(), enable, min_ttl: None, tool: ToolConfig::Reclaim(config) }
}

/// With DAMON_RECLAIM too.
pub(super) fn with_module(enable: bool, take_damon_stat: bool) -> Config {
    let preset =
        Reclaim { min_age: Duration::from_secs(30), wmarks_high: Ratio::from_percent(99), ..Reclaim::default() };
    let monitor = MonitorsConfig {
        name: "proactive".to_owned(),
        enable,
        targets: Vec::new(),
        preset: Some(Preset::Reclaim(preset)),
        config: None,
        engine: Engine::Auto,
        take_damon_stat,
    };
    let both = Config { monitors: vec![monitor], ..config(enable) };
    both.check().unwrap();
    both
}

/// A configuration with a kdamond that takes cold memory from processes.
pub(super) fn with_kdamond(enable: bool, operations: Operations) -> Config {
    let scheme = Scheme { action: Action::Pageout, ..Scheme::default() };
    let monitor = MonitorsConfig {
        name: "cold".to_owned(),
        enable,
        targets: vec!["web".to_owned()],
        preset: None,
        config: Some(MonitorConfig { operations, schemes: vec![scheme], ..MonitorConfig::default() }),
        engine: Engine::Auto,
        take_damon_stat: true,
    };
    let both = Config { monitors: vec![monitor], ..config(enable) };
    both.check().unwrap();
    both
}

/// A configuration that sizes two groups, each by a section of its own.
pub(super) fn with_two_limits() -> Config {
    let mut config = with_limits(true);
    config.limits.push(LimitsConfig { name: "other".to_owned(), ..config.limits[0].clone() });
    for (section, target) in config.limits.iter_mut().zip(["/app/web-1", "/app/web-2"]) {
        section.limits.target = target.to_owned();
    }
    config.check().unwrap();
    config
}

/// A configuration that sizes groups.
pub(super) fn with_limits(enable: bool) -> Config {
    let limits = isotherm_core::limits::LimitsConfig {
        floor: Bytes::from_mib(1),
        interval: Duration::from_secs(1),
        squeeze: Ratio::from_percent(10),
        relax: Ratio::from_percent(20),
        ..isotherm_core::limits::LimitsConfig::new("web")
    };
    let section = LimitsConfig { name: "size".to_owned(), enable, limits };
    let sizes = Config { limits: vec![section], generations: Vec::new(), ..config(false) };
    sizes.check().unwrap();
    sizes
}

pub(super) fn config(enable: bool) -> Config {
    let mut config = Config {
        targets: vec![TargetConfig::groups("web", WEB_AND_SSHD)],
        generations: vec![section("cold", "web", enable)],
        ..Config::default()
    };
    config.daemon.protect = vec!["/app/web-5".to_owned()];
    config.check().unwrap();
    config
}
