//! Groups that are never acted on, because a machine cannot be reached or logged into without them.

/// Parts of a path of a control group.
const PROTECTED: &[(&str, &str)] = &[
    ("init.scope", "the first process of the machine is in it"),
    ("systemd-journald.service", "it keeps the machine's log"),
    ("systemd-udevd.service", "it brings up devices"),
    ("systemd-logind.service", "it lets people in"),
    ("dbus.service", "services talk through it"),
    ("dbus-broker.service", "services talk through it"),
    ("ssh.service", "people come in through it"),
    ("sshd.service", "people come in through it"),
    ("containerd.service", "it runs the containers"),
    ("docker.service", "it runs the containers"),
    ("crio.service", "it runs the containers"),
    ("kubelet.service", "it runs the node"),
];

/// Groups at the top of the tree in which services of the machine run. Only root makes groups there.
const SLICES: [&str; 3] = ["system.slice", "runtime.slice", "podruntime.slice"];

/// Why a group must not be touched; `None` if it may be. `path` as in `/proc/PID/cgroup`. Acting on a parent group acts on its children, so
/// the usual parents of protected groups are refused too. A name counts at the top of the tree: further down, the owner of a delegated
/// group chooses names freely.
pub fn protected(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let name = match parts.as_slice() {
        [] => return Some("it is the whole machine"),
        [slice] if SLICES.contains(slice) => return Some("services of the machine are in it; name one of them"),
        [slice, name, ..] if SLICES.contains(slice) => name,
        [name, ..] => name,
    };
    PROTECTED.iter().find(|(protected, _)| protected == name).map(|(_, why)| *why)
}

/// Whether a group is left alone by such a name, where it counts.
pub fn is_protected_name(part: &str) -> bool {
    SLICES.contains(&part) || PROTECTED.iter().any(|(name, _)| *name == part)
}

/// Names of programs that are never acted on, in any group.
const PROTECTED_COMMANDS: &[(&str, &str)] = &[
    ("systemd", "it starts and ends the services of the machine"),
    ("init", "it starts and ends the services of the machine"),
    ("systemd-journald", "it keeps the machine's log"),
    ("systemd-journal", "it keeps the machine's log"),
    ("systemd-udevd", "it brings up devices"),
    ("systemd-logind", "it lets people in"),
    ("dbus-daemon", "services talk through it"),
    ("dbus-broker", "services talk through it"),
    ("sshd", "people come in through it"),
    ("sshd-session", "people come in through it"),
    ("containerd", "it runs the containers"),
    ("dockerd", "it runs the containers"),
    ("crio", "it runs the containers"),
    ("kubelet", "it runs the node"),
    ("isotherm", "it is isotherm itself"),
];

/// Why processes of a program must not be touched; `None` if they may be. `command` is the name of its file, or its own name
/// for itself.
pub fn protected_command(command: &str) -> Option<&'static str> {
    PROTECTED_COMMANDS.iter().find(|(name, _)| *name == command).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_needs_is_left_alone() {
        for path in
            ["/", "", "/init.scope", "/system.slice", "/system.slice/ssh.service", "/system.slice/sshd.service/x"]
        {
            assert!(protected(path).is_some(), "{path}");
        }
        for path in [
            "/app.slice/web.service",
            "/system.slice/nginx.service",
            "/user.slice",
            "/system.slice/my-ssh.service",
            // Names that a user gave in a tree of their own.
            "/user.slice/u1/ssh.service",
            "/system.slice/web.service/ssh.service",
        ] {
            assert_eq!(protected(path), None, "{path}");
        }
        assert!(protected_command("sshd").is_some());
        assert_eq!((protected_command("redis-server"), protected_command("")), (None, None));
    }
}
