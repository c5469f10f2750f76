//! Checks of `[[monitors]]`.

use super::check::{Contradiction, absolute, named, wrong};
use super::{Config, MonitorsConfig, Target};
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::schemes::Goal;
use isotherm_core::vocabulary::Action;

impl Config {
    pub(super) fn check_monitors(&self) -> Result<(), Contradiction> {
        for (nth, section) in self.monitors.iter().enumerate() {
            let key = |key: &str| format!("monitors[{nth}].{key}");
            let twin = self.monitors[..nth].iter().position(|other| other.name == section.name);
            named(&key("name"), &section.name, twin.map(|other| format!("monitors[{other}].name")))?;
            self.check_monitor(section, key)?;
            let is_kernels = |other: &&MonitorsConfig| !other.is_own();
            let other = self.monitors[..nth].iter().position(|other| is_kernels(&other));
            if let Some(other) = other.filter(|_| !section.is_own()) {
                return Err(Contradiction {
                    key: key("name"),
                    other: Some(format!("monitors[{other}].name")),
                    message: "DAMON has one user at a time; leave one of them, or say engine = \"isotherm\" in one"
                        .to_owned(),
                });
            }
        }
        self.check_own_targets()
    }

    /// Two that clear accessed bits of one process take each other's away.
    fn check_own_targets(&self) -> Result<(), Contradiction> {
        let monitors = self.monitors.iter().enumerate().filter(|(_, section)| section.is_own());
        let of = |list: &[String], key: &dyn Fn(usize) -> String| -> Vec<(String, String)> {
            list.iter().enumerate().map(|(at, target)| (key(at), target.clone())).collect()
        };
        let mut all: Vec<Vec<(String, String)>> = monitors
            .map(|(nth, section)| of(&section.targets, &|at| format!("monitors[{nth}].targets[{at}]")))
            .collect();
        let tiering = self.tiering.iter().filter(|section| section.is_own());
        all.extend(tiering.map(|section| of(&section.targets, &|at| format!("tiering.targets[{at}]"))));
        for (nth, section) in all.iter().enumerate() {
            for (key, target) in section {
                let meant = self.processes_of(target, key)?;
                let is_shared =
                    |other: &&(String, String)| self.target_of(&other.1, "").is_ok_and(|other| other.may_meet(&meant));
                if let Some((other, _)) = all[..nth].iter().flatten().find(is_shared) {
                    return Err(Contradiction {
                        key: key.clone(),
                        other: Some(other.clone()),
                        message: format!(
                            "`{target}` is looked at by both: each would clear accessed bits that the other has not seen; give each \
                             its own groups"
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    /// Features that our own engine has.
    fn check_own_monitor(
        section: &MonitorsConfig,
        config: &MonitorConfig,
        key: &dyn Fn(&str) -> String,
        in_how: &dyn Fn(&str) -> String,
    ) -> Result<(), Contradiction> {
        if section.targets.is_empty() {
            let message = "isotherm looks at processes; name groups, or leave physical memory to the kernel";
            return Err(wrong(&key("targets"), message.to_owned()));
        }
        if section.config.is_some() && config.operations != Operations::Vaddr {
            let message = "isotherm looks at processes by the accessed-bit module; ranges and physical memory are for the kernel's \
                           DAMON; allowed: vaddr";
            return Err(wrong(&in_how("operations"), message.to_owned()));
        }
        for (at, scheme) in config.schemes.iter().enumerate() {
            if !scheme.ops_filters.is_empty() {
                let message = "process_madvise asks no page filters; leave them out, or leave it to the kernel's DAMON";
                return Err(wrong(&in_how(&format!("schemes[{at}]")), message.to_owned()));
            }
            let has = [Action::Stat, Action::Willneed, Action::Cold, Action::Pageout, Action::Collapse];
            let sorts = [Action::LruPrio, Action::LruDeprio];
            if !has.contains(&scheme.action) && !sorts.contains(&scheme.action) {
                let message = format!(
                    "no call lets one process do `{}` to another; allowed: stat, willneed, cold, pageout, collapse, lru-prio, lru-deprio; \
                     the kernel's DAMON has the others, and [tiering] moves pages between nodes",
                    scheme.action
                );
                return Err(wrong(&in_how(&format!("schemes[{at}]")), message));
            }
        }
        Ok(())
    }

    fn check_monitor(&self, section: &MonitorsConfig, key: impl Fn(&str) -> String) -> Result<(), Contradiction> {
        match (&section.preset, &section.config) {
            (Some(_), Some(_)) => {
                return Err(Contradiction {
                    key: key("preset"),
                    other: Some(key("config")),
                    message: "both say how it watches; leave one of them out".to_owned(),
                });
            }
            (None, None) => {
                return Err(wrong(
                    &key("name"),
                    "it does not say how it watches; give it a `preset` or a `config`".to_owned(),
                ));
            }
            _ => {}
        }
        let setup = section.setup().map_err(|error| wrong(&key("preset"), error.to_string()))?;
        let acts = setup.config.schemes.iter().any(|scheme| scheme.action != Action::Stat);
        for (at, target) in section.targets.iter().enumerate() {
            let place = key(&format!("targets[{at}]"));
            let meant = self.target_of(target, &place)?;
            if let Target::Groups(path) = &meant {
                absolute(&place, path)?;
            }
            let is_virtual = section.is_own() || setup.config.operations != Operations::Paddr;
            if meant == Target::Physical && is_virtual {
                let message = format!("`{target}` means physical memory; it needs operations = \"paddr\"");
                return Err(wrong(&place, message));
            }
            if meant == Target::Physical && section.targets.len() > 1 {
                let message = format!("`{target}` means all of memory, that of the others too; leave it or them out");
                return Err(wrong(&place, message));
            }
            if matches!(meant, Target::Command(_) | Target::Process(_)) && !is_virtual {
                let message = format!(
                    "`{target}` means processes, and filters on physical memory know control groups alone; say operations = \"vaddr\", \
                     or name the group"
                );
                return Err(wrong(&place, message));
            }
            if let Some(why) = meant.protected().filter(|_| section.enable && acts) {
                return Err(wrong(&place, format!("`{target}` is left alone: {why}; name others")));
            }
        }
        if section.kernel_module().is_some() && !section.is_own() {
            return Ok(());
        }
        let how = if section.config.is_some() { "config" } else { "preset" };
        let in_how = |inner: &str| if section.config.is_some() { key(&format!("config.{inner}")) } else { key(how) };
        let config = &setup.config;
        config.validate().map_err(|error| wrong(&key(how), error.to_string()))?;
        for (nth, scheme) in config.schemes.iter().enumerate() {
            if let Some(at) = scheme.quotas.goals.iter().position(Goal::needs_feeding) {
                let message = "nobody tells this goal of `user-input` its value here; give it `current-value`, or take another metric";
                return Err(wrong(&in_how(&format!("schemes[{nth}].quotas.goals[{at}]")), message.to_owned()));
            }
        }
        let is_physical = config.operations == Operations::Paddr;
        for (at, scheme) in config.schemes.iter().enumerate() {
            let checked = scheme.validate(&config.attributes, is_physical);
            checked.map_err(|error| wrong(&in_how(&format!("schemes[{at}]")), error.to_string()))?;
        }
        if section.is_own() {
            return Self::check_own_monitor(section, config, &key, &in_how);
        }
        if let Some((name, allowed)) = section.beyond_kernel() {
            let message = format!(
                "the kernel's DAMON has no such thing; leave out engine = \"kernel\", or say what it has: {allowed}"
            );
            return Err(wrong(&in_how(&name), message));
        }
        match config.operations {
            Operations::Fvaddr => Err(wrong(
                &in_how("operations"),
                "`fvaddr` needs ranges, which differ from process to process; allowed: vaddr, paddr".to_owned(),
            )),
            Operations::Vaddr if section.targets.is_empty() => Err(wrong(
                &key("targets"),
                "`vaddr` watches processes; name groups, or say operations = \"paddr\" for all of memory".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(target: &str, config: serde_json::Value) -> Result<(), Contradiction> {
        let monitor = json!({ "name": "m", "enable": true, "targets": [target], "config": config });
        let targets = json!([
            { "name": "db", "process": { "command": "redis-server" } },
            { "name": "all", "physical": true },
            { "name": "in", "process": { "command": "sshd" } },
        ]);
        let monitors = serde_json::from_value(json!([monitor])).unwrap();
        Config { monitors, targets: serde_json::from_value(targets).unwrap(), ..Config::default() }.check()
    }

    #[test]
    fn targets_fit_what_is_watched() {
        let schemes = json!([{ "action": "pageout" }]);
        let of = |operations: &str| json!({ "operations": operations, "schemes": schemes });
        for (target, operations, words) in [
            ("db", "vaddr", None),
            ("all", "paddr", None),
            ("db", "paddr", Some("filters on physical memory know control groups alone")),
            ("all", "vaddr", Some("it needs operations = \"paddr\"")),
            ("in", "vaddr", Some("people come in through it")),
        ] {
            let message = checked(target, of(operations)).err().map(|refused| refused.message);
            let is_so = words.map_or(message.is_none(), |words| message.as_ref().is_some_and(|it| it.contains(words)));
            assert!(is_so, "{target} {operations}: {message:?}");
        }
    }

    #[test]
    fn a_goal_that_nobody_feeds_is_refused() {
        let with = |current: u64| {
            let goals = json!([{ "metric": "user-input", "target-value": 100, "current-value": current }]);
            let quotas = json!({ "size": "1MiB", "reset-interval": "1s", "goals": goals });
            json!({ "schemes": [{ "action": "pageout", "quotas": quotas }] })
        };
        assert_eq!(checked("db", with(50)), Ok(()));
        let refused = checked("db", with(0)).unwrap_err();
        assert_eq!(refused.key, "monitors[0].config.schemes[0].quotas.goals[0]");
        assert!(refused.message.contains("nobody tells this goal"), "{refused:?}");
    }
}
