//! Units of systemd: what `systemctl` says about them, and what it sets.

mod drop_in;
mod program;

pub use drop_in::{drop_in, put_drop_in};

use crate::{LiveError, Root};
use program::systemctl;
use std::collections::BTreeMap;

/// Whether systemd manages this machine (sd_booted(3)).
pub fn runs(root: &Root) -> bool {
    root.has("/run/systemd/system")
}

/// A unit, and one property of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its own name, not an alias.
    pub name: String,
    /// `loaded`, `not-found`, `masked`, `error`, `bad-setting`.
    pub load: String,
    /// Made at run time, without a file of its own: it goes when it ends.
    pub is_transient: bool,
    /// Path of its group in the hierarchy, with a leading slash; `None` while it does not run.
    pub group: Option<String>,
    /// Paths of its drop-ins, in the order in which they are read.
    pub drop_ins: Vec<String>,
    /// Value of the property: bytes, or `infinity`. `None` if this systemd has no such property.
    pub value: Option<String>,
}

impl Unit {
    /// Whether systemd has read its files, so that properties can be set.
    pub fn is_loaded(&self) -> bool {
        self.load == "loaded"
    }
}

/// What systemd knows of a unit.
///
/// # Errors
/// [`LiveError::NotHere`] without systemd or `systemctl`; [`LiveError::Io`] with the words of `systemctl`.
pub fn show(root: &Root, unit: &str, property: &str) -> Result<Unit, LiveError> {
    let asked = format!("--property=Id,LoadState,Transient,ControlGroup,DropInPaths,{property}");
    let text = systemctl(root, &["show", &asked, unit])?;
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().filter(|text| !text.is_empty()).map(str::to_owned);
    let (Some(name), Some(load)) = (field("Id"), field("LoadState")) else {
        return Err(LiveError::Refused(format!("systemctl says nothing about the unit {unit}")));
    };
    Ok(Unit {
        name,
        load,
        is_transient: field("Transient").as_deref() == Some("yes"),
        group: field("ControlGroup"),
        // In lists, `systemctl` may print a backslash of a name as `\x5c`.
        drop_ins: field("DropInPaths")
            .unwrap_or_default()
            .split_whitespace()
            .map(|path| path.replace("\\x5c", "\\"))
            .collect(),
        value: field(property),
    })
}

/// Sets a property, and makes the drop-in that keeps it: until the next reboot if `is_runtime`, else for good. The value is in force in the
/// unit's group soon after.
///
/// # Errors
/// As of [`show`].
pub fn set_property(root: &Root, unit: &str, property: &str, value: &str, is_runtime: bool) -> Result<(), LiveError> {
    let assignment = format!("{property}={value}");
    let set = ["set-property", unit, &assignment];
    let arguments = [if is_runtime { &["--runtime"][..] } else { &[] }, &set].concat();
    systemctl(root, &arguments).map(drop)
}

/// Makes systemd read all files of units again. Changed properties come into force in the groups of units that run
/// (`src/core/unit-serialize.c: unit_deserialize_state`).
///
/// # Errors
/// As of [`show`].
pub fn reload(root: &Root) -> Result<(), LiveError> {
    systemctl(root, &["daemon-reload"]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn machine(script: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        for path in ["/run/systemd/system", "/usr/bin"] {
            std::fs::create_dir_all(root.path(path)).unwrap();
        }
        let program = root.path("/usr/bin/systemctl");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, root)
    }

    #[test]
    fn a_unit_is_read_by_field() {
        let (_folder, root) = machine(
            "echo Id=web.service; echo LoadState=loaded; echo Transient=no; echo ControlGroup=/system.slice/web.service; \
             echo 'DropInPaths=/etc/a\\x5cx2d.conf /run/b.conf'; echo MemoryHigh=4096",
        );
        let unit = show(&root, "web", "MemoryHigh").unwrap();
        assert!(unit.is_loaded() && !unit.is_transient);
        assert_eq!((unit.name.as_str(), unit.value.as_deref()), ("web.service", Some("4096")));
        assert_eq!(unit.group.as_deref(), Some("/system.slice/web.service"));
        assert_eq!(unit.drop_ins, ["/etc/a\\x2d.conf", "/run/b.conf"]);
        assert_eq!(show(&root, "web", "MemoryZSwapMax").unwrap().value, None, "an older systemd");
        let (_folder, root) = machine("echo Id=x.service; echo LoadState=not-found; echo ControlGroup=");
        let unit = show(&root, "x.service", "MemoryHigh").unwrap();
        assert!(!unit.is_loaded() && unit.group.is_none() && unit.drop_ins.is_empty());
        let (_folder, root) = machine("true");
        assert!(show(&root, "x.service", "MemoryHigh").unwrap_err().to_string().contains("says nothing"));
    }

    #[test]
    fn what_is_set_is_one_argument_each() {
        let (_folder, root) = machine("echo \"$*|$#\" >> \"$(dirname \"$0\")/called\"");
        set_property(&root, "web.service", "MemoryHigh", "4096", false).unwrap();
        set_property(&root, "web.service", "MemoryHigh", "infinity", true).unwrap();
        reload(&root).unwrap();
        let called = root.read("/usr/bin/called").unwrap();
        let usual = "--system --no-pager --no-ask-password";
        assert_eq!(
            called.lines().collect::<Vec<_>>(),
            [
                format!("{usual} set-property web.service MemoryHigh=4096|6"),
                format!("{usual} --runtime set-property web.service MemoryHigh=infinity|7"),
                format!("{usual} daemon-reload|4"),
            ]
        );
    }

    #[test]
    fn what_is_missing_or_refused_is_said() {
        let words = |root: &Root| reload(root).unwrap_err().to_string();
        let (_folder, root) = machine("echo 'Failed to reload: Access denied' >&2; exit 1");
        assert!(words(&root).contains("systemctl: daemon-reload: Failed to reload: Access denied"), "{}", words(&root));
        assert!(reload(&root).unwrap_err().is_denied());
        let (_folder, root) = machine("exit 3");
        assert!(words(&root).contains("exit status: 3") && !reload(&root).unwrap_err().is_denied(), "{}", words(&root));
        std::fs::remove_file(root.path("/usr/bin/systemctl")).unwrap();
        assert!(words(&root).contains("there is no program systemctl"), "{}", words(&root));
        std::fs::remove_dir_all(root.path("/run/systemd")).unwrap();
        assert!(words(&root).contains("systemd does not run here"), "{}", words(&root));
    }
}
