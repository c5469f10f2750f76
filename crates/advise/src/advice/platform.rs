//! The lines that an operator pastes, by the platform that keeps the program: each has words of its own for a limit, and some have none
//! for `memory.high`.

use std::fmt;
use std::str::FromStr;

/// A line to paste, and what it does.
pub type Line = (String, &'static str);

/// What keeps the program: a kind of the table, and the name that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    kind: &'static Kind,
    name: Option<String>,
}

struct Kind {
    name: &'static str,
    /// What stands for a name that is not known.
    placeholder: &'static str,
    /// For a name, a limit in bytes, and whether there is swap.
    lines: fn(&str, u64, bool) -> Vec<Line>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

/// One line makes a new platform known to the flag, its help and its errors.
const KINDS: &[Kind] = &[
    Kind { name: "cgroup", placeholder: "GROUP", lines: cgroup },
    Kind { name: "systemd", placeholder: "UNIT.service", lines: systemd },
    Kind { name: "docker", placeholder: "CONTAINER", lines: docker },
    Kind { name: "podman", placeholder: "CONTAINER", lines: podman },
    Kind { name: "compose", placeholder: "SERVICE", lines: compose },
    Kind { name: "kubernetes", placeholder: "DEPLOYMENT", lines: kubernetes },
    Kind { name: "nomad", placeholder: "TASK", lines: nomad },
];

impl Platform {
    /// A group of the kernel, by hand.
    pub const CGROUP: Self = Self { kind: &KINDS[0], name: None };
    /// A unit of systemd.
    pub const SYSTEMD: Self = Self { kind: &KINDS[1], name: None };

    /// What keeps the group of a path below `/sys/fs/cgroup`.
    pub fn of_group(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let named = |kind: &str, name: Option<&str>| Self {
            kind: KINDS.iter().find(|known| known.name == kind).unwrap_or(&KINDS[0]),
            name: name.map(str::to_owned),
        };
        let last = parts.last().copied().unwrap_or_default();
        let container = |prefix: &str| last.strip_prefix(prefix).map(|rest| rest.trim_end_matches(".scope"));
        if parts.iter().any(|part| part.starts_with("kubepods")) {
            named("kubernetes", None)
        } else if let Some(id) = container("docker-") {
            named("docker", Some(id.get(..12).unwrap_or(id)))
        } else if let [.., "docker", id] = parts[..] {
            named("docker", Some(id.get(..12).unwrap_or(id)))
        } else if let Some(id) = container("libpod-") {
            named("podman", Some(id.get(..12).unwrap_or(id)))
        } else if [".service", ".scope", ".slice"].iter().any(|kind| last.ends_with(kind)) {
            named("systemd", Some(last))
        } else {
            named("cgroup", Some(path.trim_matches('/')).filter(|path| !path.is_empty()))
        }
    }

    /// The lines for a limit of `bytes`.
    pub fn lines(&self, bytes: u64, has_swap: bool) -> Vec<Line> {
        (self.kind.lines)(self.name.as_deref().unwrap_or(self.kind.placeholder), bytes, has_swap)
    }

    /// Whether groups are written by hand here, as `isotherm apply` does it.
    pub fn is_plain(&self) -> bool {
        *self.kind == KINDS[0]
    }
}

impl FromStr for Platform {
    type Err = String;

    /// `systemd`, or with a name `systemd:nginx.service`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let kind = KINDS.iter().find(|known| known.name == kind);
        let kind =
            kind.ok_or_else(|| format!("allowed: {}; or one with a name, as in systemd:nginx.service", known()))?;
        // It is put into a line for a shell.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-@".contains(c);
        match name {
            Some(name) if name.is_empty() || name.starts_with('-') || !name.chars().all(is_plain) => {
                Err("a name has letters, digits and / . _ - @ alone".to_owned())
            }
            _ => Ok(Self { kind, name: name.map(str::to_owned) }),
        }
    }
}

/// Whole MiB, never less than the size.
fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// The effect of `memory.high`.
fn of_high(has_swap: bool) -> &'static str {
    if has_swap {
        "above it the kernel reclaims; memory.max would kill"
    } else {
        "without swap only files go: anonymous memory above it stalls for good; memory.max kills"
    }
}

/// The effect of a hard limit.
fn of_max(has_swap: bool) -> &'static str {
    if has_swap {
        "this is memory.max, there is no word for memory.high: what swap cannot take is killed"
    } else {
        "this is memory.max, there is no word for memory.high: without swap more anonymous memory is killed"
    }
}

fn cgroup(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    vec![(format!("echo {}K > /sys/fs/cgroup/{name}/memory.high", bytes / 1024), of_high(has_swap))]
}

/// systemd.resource-control(5): a drop-in that stays; what is written into the files of a unit by hand is lost at its next start.
fn systemd(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    vec![
        (format!("systemctl set-property {name} MemoryHigh={}M", mib(bytes)), of_high(has_swap)),
        (format!("systemctl set-property {name} MemoryHigh="), "takes it back"),
    ]
}

fn docker(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    container("docker", name, bytes, has_swap)
}

fn podman(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    container("podman", name, bytes, has_swap)
}

/// Without its own word for swap, a container may swap as much as its limit.
fn container(program: &str, name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    vec![(format!("{program} update --memory {}m --memory-swap -1 {name}", mib(bytes)), of_max(has_swap))]
}

fn compose(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    let limit = mib(bytes);
    vec![(format!("services: {{ {name}: {{ mem_limit: {limit}m, memswap_limit: -1 }} }}"), of_max(has_swap))]
}

fn kubernetes(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    let limit = mib(bytes);
    let what = if has_swap {
        "memory.max; most nodes have no swap: ask with --swap none, or the figures do not hold there"
    } else {
        of_max(has_swap)
    };
    vec![(
        format!("kubectl set resources deployment/{name} --requests=memory={limit}Mi --limits=memory={limit}Mi"),
        what,
    )]
}

fn nomad(name: &str, bytes: u64, has_swap: bool) -> Vec<Line> {
    vec![(format!("task \"{name}\" {{ resources {{ memory = {} }} }}", mib(bytes)), of_max(has_swap))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(&'static str, Option<String>)> {
        text.parse::<Platform>().ok().map(|platform| (platform.kind.name, platform.name))
    }

    #[test]
    fn a_flag_names_a_platform_and_what_it_is_called_there() {
        assert_eq!(read("docker"), Some(("docker", None)));
        assert_eq!(read("systemd:app@1.service"), Some(("systemd", Some("app@1.service".to_owned()))));
        for refused in ["", "lxc", "docker:", "docker:a b", "docker:$(id)", "docker:-x", "cgroup:a;b"] {
            assert_eq!(read(refused), None, "{refused}");
        }
        assert!(
            "lxc"
                .parse::<Platform>()
                .unwrap_err()
                .contains("cgroup, systemd, docker, podman, compose, kubernetes, nomad")
        );
    }

    #[test]
    fn a_group_says_what_keeps_it() {
        let id = "0123456789abcdef0123";
        for (path, kind, name) in [
            ("/system.slice/nginx.service", "systemd", Some("nginx.service")),
            ("/user.slice/user-1000.slice", "systemd", Some("user-1000.slice")),
            (&format!("/system.slice/docker-{id}.scope"), "docker", Some("0123456789ab")),
            (&format!("/docker/{id}"), "docker", Some("0123456789ab")),
            (&format!("/machine.slice/libpod-{id}.scope"), "podman", Some("0123456789ab")),
            ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope", "kubernetes", None),
            ("/mine/db", "cgroup", Some("mine/db")),
            ("/", "cgroup", None),
        ] {
            let found = Platform::of_group(path);
            assert_eq!((found.kind.name, found.name.as_deref()), (kind, name), "{path}");
        }
    }

    /// 105 MiB and a page: never less than that, in the words of each platform, which says what a hard limit does.
    #[test]
    fn each_platform_has_lines_of_its_own() {
        let bytes = (105 << 20) + 4096;
        for (kind, line) in [
            ("cgroup", "echo 107524K > /sys/fs/cgroup/x/memory.high"),
            ("systemd", "systemctl set-property x MemoryHigh=106M"),
            ("docker", "docker update --memory 106m --memory-swap -1 x"),
            ("podman", "podman update --memory 106m --memory-swap -1 x"),
            ("compose", "services: { x: { mem_limit: 106m, memswap_limit: -1 } }"),
            ("kubernetes", "kubectl set resources deployment/x --requests=memory=106Mi --limits=memory=106Mi"),
            ("nomad", "task \"x\" { resources { memory = 106 } }"),
        ] {
            let platform: Platform = format!("{kind}:x").parse().unwrap();
            for has_swap in [true, false] {
                let (first, effect) = platform.lines(bytes, has_swap).swap_remove(0);
                assert_eq!(first, line);
                assert_eq!(effect.contains("without swap"), !has_swap, "{kind}: {effect}");
            }
        }
    }

    #[test]
    fn limits_are_rounded_up_to_whole_mebibytes() {
        assert_eq!([mib(1), mib(1 << 20), mib((1 << 20) + 1)], [1, 1, 2]);
    }
}
