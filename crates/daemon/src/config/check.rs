//! Checks of a configuration. Where two tables disagree, the error gives both places.

use super::group_path;
use super::{Config, LimitsConfig};
use crate::changes::protected;
use isotherm_texts::min_ttl::MinTtl;
use isotherm_units::wildcard::{may_meet, reaches_below};
use isotherm_units::{Bytes, Ratio};

/// A contradiction or an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key, from the root of the file on: `generations[1].targets[0]`.
    pub key: String,
    /// The place of the other side, if two tables disagree.
    pub other: Option<String>,
    /// The fault, the allowed values, the remedy.
    pub message: String,
}

/// The least resident memory that the program itself needs.
const MEMORY_MIN: Bytes = Bytes::from_mib(16);
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

impl Config {
    /// Whether some section may act.
    pub fn is_acting(&self) -> bool {
        self.nr_acting() > 0
    }

    /// Number of sections.
    pub fn nr_sections(&self) -> usize {
        self.sections().len()
    }

    /// Number of sections that may act.
    pub fn nr_acting(&self) -> usize {
        self.sections().iter().filter(|(_, acts)| *acts).count()
    }

    /// Checks every value by itself and tables against each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Contradiction> {
        self.check_daemon()?;
        self.check_targets()?;
        self.check_metrics()?;
        self.check_sections()
    }

    pub(super) fn check_generations(&self) -> Result<(), Contradiction> {
        for (nth, section) in self.generations.iter().enumerate() {
            let key = |key: &str| format!("generations[{nth}].{key}");
            let twin = self.generations[..nth].iter().position(|other| other.name == section.name);
            named(&key("name"), &section.name, twin.map(|other| format!("generations[{other}].name")))?;
            // Here targets are names and patterns, which only this file resolves.
            if section.tool.targets().is_empty() {
                return Err(wrong(&key("targets"), "it is empty; name a group".to_owned()));
            }
            self.check_min_ttl(nth)?;
            let tool = section.tool.clone().with_targets(vec!["/".to_owned()]);
            tool.validate().map_err(|error| wrong(&key(error.key), error.to_string()))?;
            for (at, target) in section.tool.targets().iter().enumerate() {
                let place = key(&format!("targets[{at}]"));
                let cgroup = self.cgroup_of(target, &place)?;
                let is_shared = |other: &str| self.cgroup_of(other, "").is_ok_and(|other| may_meet(&other, &cgroup));
                let other = self.generations[..nth].iter().enumerate().find_map(|(other, earlier)| {
                    let at = earlier.tool.targets().iter().position(|target| is_shared(target))?;
                    Some((format!("generations[{other}].targets[{at}]"), earlier))
                });
                if let Some((other, earlier)) = other {
                    return Err(Contradiction {
                        key: place,
                        other: Some(other),
                        message: format!(
                            "`{target}` is a target of `{}` too: two tools on one group age it twice, and neither sees its ages; \
                             give each its own groups",
                            earlier.name
                        ),
                    });
                }
                let why = protected(&cgroup).filter(|_| section.enable && section.acts());
                if let Some(why) = why {
                    return Err(wrong(&place, format!("`{target}` is left alone: {why}; name other groups")));
                }
            }
        }
        Ok(())
    }

    /// The kernel has one value for the machine.
    fn check_min_ttl(&self, nth: usize) -> Result<(), Contradiction> {
        let Some(min_ttl) = self.generations[nth].min_ttl else { return Ok(()) };
        let key = |nth: usize| format!("generations[{nth}].min-ttl");
        if min_ttl.ns() % MS != 0 || MinTtl::from_ms(min_ttl.ns() / MS).is_err() {
            return Err(wrong(
                &key(nth),
                format!("it is {min_ttl}; allowed: 0 (off) to {} whole milliseconds", u32::MAX),
            ));
        }
        let other =
            self.generations[..nth].iter().position(|other| other.min_ttl.is_some_and(|other| other != min_ttl));
        let Some(other) = other else { return Ok(()) };
        let message = format!(
            "it is {min_ttl}, and the kernel has one value for the whole machine; say the same in both, or once"
        );
        Err(Contradiction { key: key(nth), other: Some(key(other)), message })
    }

    fn check_daemon(&self) -> Result<(), Contradiction> {
        let (max_cpu, max_memory) = (self.daemon.max_cpu, self.daemon.max_memory);
        if max_cpu == Ratio::from_ppm(0) || max_cpu > Ratio::ONE {
            return Err(wrong("daemon.max-cpu", format!("it is {max_cpu}; allowed: above 0% up to 100%")));
        }
        if max_memory < MEMORY_MIN {
            return Err(wrong("daemon.max-memory", format!("it is {max_memory}; allowed: {MEMORY_MIN} and more")));
        }
        for (at, path) in self.daemon.protect.iter().enumerate() {
            absolute(&format!("daemon.protect[{at}]"), path)?;
        }
        let share = self.guard.pressure_full;
        if share == Ratio::from_ppm(0) || share > Ratio::ONE {
            return Err(wrong(
                "guard.pressure-full",
                format!("it is {share}; allowed: above 0% up to 100%, which is off"),
            ));
        }
        absolute("guard.file", &self.guard.file)
    }

    pub(super) fn check_limits(&self) -> Result<(), Contradiction> {
        for (nth, section) in self.limits.iter().enumerate() {
            let key = |key: &str| format!("limits[{nth}].{key}");
            let twin = self.limits[..nth].iter().position(|other| other.name == section.name);
            named(&key("name"), &section.name, twin.map(|other| format!("limits[{other}].name")))?;
            section.of("/any").validate().map_err(|error| wrong(&key(error.key), error.to_string()))?;
            let (target, place) = (&section.limits.target, key("target"));
            let cgroup = self.cgroup_of(target, &place)?;
            absolute(&place, &cgroup)?;
            if let Some(why) = protected(&cgroup).filter(|_| section.enable) {
                return Err(wrong(&place, format!("`{target}` is left alone: {why}; name other groups")));
            }
            let is_one = !cgroup.contains(['*', '?']);
            let below = self.daemon.protect.iter().position(|pattern| reaches_below(&group_path(pattern), &cgroup));
            if let Some(at) = below.filter(|_| section.enable && is_one) {
                return Err(Contradiction {
                    key: place,
                    other: Some(format!("daemon.protect[{at}]")),
                    message: format!(
                        "a limit on `{target}` takes memory from all below it, and `{}` is protected; name the groups beside that one",
                        self.daemon.protect[at]
                    ),
                });
            }
            let is_shared = |other: &LimitsConfig| {
                self.cgroup_of(&other.limits.target, "").is_ok_and(|other| may_meet(&other, &cgroup))
            };
            if let Some(other) = self.limits[..nth].iter().position(is_shared) {
                return Err(Contradiction {
                    key: place,
                    other: Some(format!("limits[{other}].target")),
                    message: format!(
                        "`{target}` is sized by `{}` too: two would write one memory.high; give each its own groups",
                        self.limits[other].name
                    ),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn wrong(key: &str, message: String) -> Contradiction {
    Contradiction { key: key.to_owned(), other: None, message }
}

pub(super) fn named(key: &str, name: &str, twin: Option<String>) -> Result<(), Contradiction> {
    if name.is_empty() || name.contains(['/', '\n']) {
        return Err(wrong(key, format!("`{name}` is no name; allowed: one or more characters without `/`")));
    }
    match twin {
        None => Ok(()),
        other => {
            Err(Contradiction { key: key.to_owned(), other, message: format!("`{name}` is there twice; rename one") })
        }
    }
}

pub(super) fn absolute(key: &str, path: &str) -> Result<(), Contradiction> {
    if path.split('/').any(|part| part == "**") {
        let words = "in `{path}` `**` would stand for one name, as `*` does; write one `*` for each level: `/*/*/x`";
        return Err(wrong(key, words.replace("{path}", path)));
    }
    if path.starts_with('/') && !path.split('/').any(|part| part == "..") {
        return Ok(());
    }
    Err(wrong(key, format!("`{path}` is no full path; allowed: one that begins with `/`, without `..`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{GenerationsConfig, TargetConfig, TimeToLive};
    use isotherm_core::generations::{EstimatorConfig, ReclaimerConfig, ToolConfig};
    use isotherm_units::Duration;

    fn reclaim(name: &str, target: &str) -> GenerationsConfig {
        let config = ReclaimerConfig { targets: vec![target.to_owned()], ..ReclaimerConfig::default() };
        GenerationsConfig { name: name.to_owned(), enable: true, min_ttl: None, tool: ToolConfig::Reclaim(config) }
    }

    fn config(sections: Vec<GenerationsConfig>) -> Config {
        let web = TargetConfig::groups("web", "/app.slice/web-*.service");
        Config { targets: vec![web], generations: sections, ..Config::default() }
    }

    #[test]
    fn what_makes_sense_is_fine() {
        assert_eq!(Config::default().check(), Ok(()));
        assert_eq!(config(vec![reclaim("a", "web"), reclaim("b", "/app.slice/db.service")]).check(), Ok(()));
        let watches =
            ToolConfig::Estimate(EstimatorConfig { targets: vec!["/".to_owned()], ..EstimatorConfig::default() });
        let all = GenerationsConfig { name: "all".to_owned(), enable: true, min_ttl: None, tool: watches };
        assert_eq!(config(vec![all]).check(), Ok(()), "who only watches may watch all");
    }

    #[test]
    fn the_machine_has_one_time_to_live() {
        let with = |times: [Option<Duration>; 3]| {
            let sections = times.iter().zip(["a", "b", "c"]).map(|(min_ttl, name)| GenerationsConfig {
                min_ttl: *min_ttl,
                enable: name == "b",
                ..reclaim(name, &format!("/{name}"))
            });
            config(sections.collect())
        };
        let of = |ms| Some(Duration::from_ms(ms));
        let same = with([of(1000), of(1000), None]);
        assert_eq!(same.check(), Ok(()));
        let one = TimeToLive { section: "b".to_owned(), enable: true, min_ttl: Duration::from_secs(1) };
        assert_eq!(TimeToLive::of(&same.generations), Some(one), "one that may act goes first");
        assert_eq!(TimeToLive::of(&with([None; 3]).generations), None);
        let watches = TimeToLive::of(&with([of(5), None, of(5)]).generations).unwrap();
        assert_eq!((watches.section.as_str(), watches.enable), ("a", false));
        let refused = with([of(1000), None, of(2000)]).check().unwrap_err();
        assert_eq!(
            (refused.key.as_str(), refused.other.as_deref()),
            ("generations[2].min-ttl", Some("generations[0].min-ttl"))
        );
        for time in [Duration::from_us(1500), Duration::from_ms(1 << 32)] {
            let refused = with([Some(time), None, None]).check().unwrap_err();
            assert!(refused.message.contains("allowed: 0 (off) to 4294967295 whole milliseconds"), "{refused:?}");
        }
        assert_eq!(with([of(0), None, of(0)]).check(), Ok(()));
    }

    #[test]
    fn each_contradiction_names_its_key_and_the_other_side() {
        let refused = |config: Config| config.check().unwrap_err();
        let twice = refused(config(vec![reclaim("a", "web"), reclaim("b", "/app.slice/web-1.service/x")]));
        assert_eq!(
            (twice.key.as_str(), twice.other.as_deref()),
            ("generations[1].targets[0]", Some("generations[0].targets[0]"))
        );
        let same = refused(config(vec![reclaim("a", "web"), reclaim("a", "/x")]));
        assert_eq!((same.key.as_str(), same.other.as_deref()), ("generations[1].name", Some("generations[0].name")));
        let unknown = refused(config(vec![reclaim("a", "wbe")]));
        assert!(unknown.message.contains("names: web"), "{unknown:?}");
        for target in ["/", "/system.slice/sshd.service"] {
            let refused = refused(config(vec![reclaim("a", target)]));
            assert!(refused.message.contains("left alone"), "{refused:?}");
        }
        let mut small = Config::default();
        small.daemon.max_memory = Bytes::from_mib(1);
        assert_eq!(refused(small).key, "daemon.max-memory");
        let mut relative = Config::default();
        relative.daemon.protect = vec!["a".to_owned()];
        let mut deep = Config::default();
        deep.daemon.protect = vec!["/kubepods.slice/**/x".to_owned()];
        assert!(refused(deep).message.contains("one `*` for each level"));
        assert_eq!(refused(relative).key, "daemon.protect[0]");
        let mut free = Config::default();
        free.guard.pressure_full = Ratio::from_ppm(0);
        assert_eq!(refused(free).key, "guard.pressure-full");
        let mut up = Config::default();
        up.guard.file = "/run/../etc/passwd".to_owned();
        assert_eq!(refused(up).key, "guard.file");
    }
}
