//! Targets of sections: control groups, processes, or physical memory, under a name.

use super::check::{absolute, named, wrong};
use super::{Config, Contradiction, group_path};
use crate::changes::{protected, protected_command};
use isotherm_units::wildcard::may_meet;
use serde::{Deserialize, Serialize};

/// A `[[targets]]` table: a name, and one of the other keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TargetConfig {
    /// Name in `targets` of sections, and in reports. Has no `/`.
    pub name: String,
    /// Path of a control group of version 2, as in `/proc/PID/cgroup`; `*` and `?` stand for parts of a name. The pattern includes all
    /// groups below as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// All processes that run a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessConfig>,
    /// One process with all that it starts; a number of 2 or more. When it has ended, the target means no process, even if a new one gets
    /// its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Memory of the machine, of any owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub physical: bool,
}

/// Which processes are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProcessConfig {
    /// Name of the program's file, without `/`. Where the file cannot be read: what it calls itself (`comm`, of which the kernel keeps 15
    /// bytes).
    pub command: String,
    /// Whose processes: name of a user in `/etc/passwd`, or a number as text. Left out: anyone's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// ResolvedTarget an entry of `targets` means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Groups of this path or pattern, with those below.
    Groups(String),
    /// Processes that run this program.
    Command(ProcessConfig),
    /// A process with those that it starts.
    Process(u32),
    /// Memory of the machine.
    Physical,
}

impl TargetConfig {
    /// Control groups under a name.
    pub fn groups(name: impl Into<String>, cgroup: impl Into<String>) -> Self {
        Self { name: name.into(), cgroup: Some(cgroup.into()), ..Self::default() }
    }

    /// `None` if it names no target, or several.
    fn target(&self) -> Option<Target> {
        match (&self.cgroup, &self.process, self.pid, self.physical) {
            (Some(cgroup), None, None, false) => Some(Target::Groups(group_path(cgroup))),
            (None, Some(process), None, false) => Some(Target::Command(process.clone())),
            (None, None, Some(pid), false) => Some(Target::Process(pid)),
            (None, None, None, true) => Some(Target::Physical),
            _ => None,
        }
    }
}

impl Target {
    /// Why the target's processes are left alone, if that is known beforehand.
    pub(super) fn protected(&self) -> Option<&'static str> {
        match self {
            Self::Groups(pattern) => protected(pattern),
            Self::Command(process) => protected_command(&process.command),
            Self::Process(_) | Self::Physical => None,
        }
    }

    /// Whether both may mean one process, as far as that is known beforehand.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Groups(one), Self::Groups(other)) => may_meet(one, other),
            _ => self == other,
        }
    }
}

impl Config {
    pub(super) fn check_targets(&self) -> Result<(), Contradiction> {
        for (nth, config) in self.targets.iter().enumerate() {
            let key = |key: &str| format!("targets[{nth}].{key}");
            let twin = self.targets[..nth].iter().position(|other| other.name == config.name);
            named(&key("name"), &config.name, twin.map(|other| format!("targets[{other}].name")))?;
            match config.target() {
                None => {
                    let message = format!(
                        "`{}` does not say who is meant, or says it twice; give it one of: cgroup = \"/app.slice/web.service\", \
                         process = {{ command = \"redis-server\" }}, pid = 1234, physical = true",
                        config.name
                    );
                    return Err(wrong(&key("name"), message));
                }
                Some(Target::Groups(cgroup)) => {
                    absolute(&key("cgroup"), config.cgroup.as_deref().unwrap_or(&cgroup))?;
                }
                Some(Target::Command(ProcessConfig { command, .. }))
                    if command.is_empty() || command.contains(['/', '\n']) =>
                {
                    let message = format!(
                        "`{command}` is no name of a program; allowed: the file's name without its folder, as in \"redis-server\""
                    );
                    return Err(wrong(&key("process.command"), message));
                }
                Some(Target::Command(ProcessConfig { user: Some(user), .. }))
                    if user.is_empty() || user.contains([':', '\n']) =>
                {
                    let message =
                        format!("`{user}` is no user; allowed: a name, as in \"redis\", or a number, as in \"999\"");
                    return Err(wrong(&key("process.user"), message));
                }
                Some(Target::Process(pid @ (0 | 1))) => {
                    let message =
                        format!("it is {pid}; allowed: 2 and more, as the machine cannot do without process 1");
                    return Err(wrong(&key("pid"), message));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// ResolvedTarget an entry of `targets` means: a path means groups, another text is the name of a `[[targets]]` table.
    pub(crate) fn target_of(&self, entry: &str, place: &str) -> Result<Target, Contradiction> {
        if entry.starts_with('/') {
            return Ok(Target::Groups(group_path(entry)));
        }
        let found = self.targets.iter().find(|known| known.name == entry);
        found.and_then(TargetConfig::target).ok_or_else(|| {
            let known: Vec<&str> = self.targets.iter().map(|known| known.name.as_str()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let hint = hint_for_unit(entry);
            wrong(
                place,
                format!(
                    "`{entry}` is neither a path, which begins with `/`, nor a name of [[targets]]; names: {known}{hint}"
                ),
            )
        })
    }

    /// The path, or pattern of paths, of an entry that must mean control groups.
    pub(crate) fn cgroup_of(&self, entry: &str, place: &str) -> Result<String, Contradiction> {
        match self.target_of(entry, place)? {
            Target::Groups(pattern) => Ok(pattern),
            Target::Command(_) | Target::Process(_) => Err(wrong(
                place,
                format!(
                    "`{entry}` means processes, and the kernel has generations and limits of control groups alone; name the group that \
                     they run in: `cgroup` in place of `process` or `pid`"
                ),
            )),
            Target::Physical => {
                Err(wrong(place, format!("`{entry}` means physical memory; allowed: control groups, `cgroup`")))
            }
        }
    }

    /// ResolvedTarget an entry means, where that must be control groups or processes.
    pub(super) fn processes_of(&self, entry: &str, place: &str) -> Result<Target, Contradiction> {
        match self.target_of(entry, place)? {
            Target::Physical => Err(wrong(
                place,
                format!("`{entry}` means physical memory, which no scan of processes sees; name groups or processes"),
            )),
            target => Ok(target),
        }
    }
}

/// How the path of a unit is found, for an entry that is the name of one.
fn hint_for_unit(entry: &str) -> String {
    let is_unit = [".service", ".scope", ".slice"].iter().any(|end| entry.ends_with(end))
        && !entry.contains(['*', '?', '\'', ' ']);
    match is_unit {
        true => format!("; the path of a unit is what `systemctl show --property=ControlGroup --value {entry}` prints"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(targets: serde_json::Value) -> Config {
        Config { targets: serde_json::from_value(targets).unwrap(), ..Config::default() }
    }

    #[test]
    fn a_target_says_one_thing() {
        let all = config(json!([
            { "name": "a", "cgroup": "/app" },
            { "name": "b", "process": { "command": "redis-server", "user": "redis" } },
            { "name": "c", "pid": 12 },
            { "name": "d", "physical": true },
        ]));
        assert_eq!(all.check_targets(), Ok(()));
        let meant = ["a", "b", "c", "d", "/x"].map(|entry| all.target_of(entry, "").unwrap());
        let expected = [
            Target::Groups("/app".to_owned()),
            Target::Command(ProcessConfig { command: "redis-server".to_owned(), user: Some("redis".to_owned()) }),
            Target::Process(12),
            Target::Physical,
            Target::Groups("/x".to_owned()),
        ];
        assert_eq!(meant, expected);
        assert!(all.target_of("e", "").unwrap_err().message.contains("names: a, b, c, d"));
        for (entry, word) in [("b", "control groups alone"), ("c", "control groups alone"), ("d", "physical memory")] {
            assert!(all.cgroup_of(entry, "").unwrap_err().message.contains(word), "{entry}");
        }
        assert!(all.processes_of("d", "").is_err() && all.processes_of("c", "").is_ok());
    }

    #[test]
    fn what_nobody_can_be_is_refused_with_its_key() {
        for (said, key) in [
            (json!({ "name": "a" }), "targets[0].name"),
            (json!({ "name": "a", "cgroup": "/a", "pid": 2 }), "targets[0].name"),
            (json!({ "name": "a", "cgroup": "a" }), "targets[0].cgroup"),
            (json!({ "name": "a", "pid": 1 }), "targets[0].pid"),
            (json!({ "name": "a", "process": { "command": "/bin/x" } }), "targets[0].process.command"),
            (json!({ "name": "a", "process": { "command": "" } }), "targets[0].process.command"),
            (json!({ "name": "a", "process": { "command": "x", "user": "" } }), "targets[0].process.user"),
            (json!({ "name": "a", "process": { "command": "x", "user": "a:b" } }), "targets[0].process.user"),
        ] {
            let refused = config(json!([said])).check().unwrap_err();
            assert_eq!(refused.key, key, "{said}");
        }
    }

    #[test]
    fn limits_are_of_groups() {
        let mut config = config(json!([{ "name": "a", "pid": 12 }]));
        config.limits = serde_json::from_value(json!([{ "name": "x", "target": "a" }])).unwrap();
        let refused = config.check().unwrap_err();
        assert_eq!(refused.key, "limits[0].target");
        assert!(refused.message.contains("`cgroup` in place"), "{refused:?}");
        for (target, has_hint) in [("nginx.service", true), ("app*.service", false), ("nginx", false)] {
            config.limits = serde_json::from_value(json!([{ "name": "x", "target": target }])).unwrap();
            let refused = config.check().unwrap_err();
            assert_eq!(refused.message.contains("systemctl show"), has_hint, "{refused:?}");
        }
    }

    #[test]
    fn targets_that_mean_one_process_are_known_to() {
        let groups = |path: &str| Target::Groups(path.to_owned());
        assert!(groups("/a").may_meet(&groups("/a/b")) && Target::Process(5).may_meet(&Target::Process(5)));
        let command = |name: &str| Target::Command(ProcessConfig { command: name.to_owned(), user: None });
        assert!(!Target::Process(5).may_meet(&command("x")));
        assert!(command("sshd").protected().is_some() && groups("/x").protected().is_none());
    }
}
