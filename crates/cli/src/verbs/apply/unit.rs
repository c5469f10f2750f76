//! Limits of units of systemd.

use isotherm_daemon::changes::{DropIns, UnitKnob, is_unit};
use isotherm_linux::systemd::{self, Unit};
use isotherm_linux::{LiveError, Root};

use crate::error::CliError;
use crate::live::{refuse_unit, to_cli};

/// A property that says which units there are, with or without a limit.
const ANY: &str = "MemoryHigh";

/// The group of a unit that is named.
pub(super) fn group_of(root: &Root, name: &str) -> Result<String, CliError> {
    let full = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    if !is_unit(&full) {
        return Err(CliError::usage(format!(
            "`{}` is no name of a unit; allowed: web, web.service, web@1.service, app.slice and other units with a group, no template",
            name.escape_debug()
        )));
    }
    let unit = systemd::show(root, &full, ANY).map_err(to_cli)?;
    match (unit.load.as_str(), unit.group) {
        ("loaded", Some(group)) => Ok(group),
        ("loaded", None) => Err(CliError::failed(format!("{full} does not run: systemctl start {full}"))),
        ("masked", _) => Err(CliError::failed(format!("{full} is masked: systemctl unmask {full}"))),
        ("not-found", _) => Err(CliError::failed(format!(
            "systemd has no unit {full}; `systemctl list-units` lists those that there are, and units of a user are set by that user: \
             systemctl --user set-property"
        ))),
        (load, _) => Err(CliError::failed(format!("systemd could not load {full} ({load}): systemctl status {full}"))),
    }
}

/// The knob that sets a file of a group, if the group is that of a unit; `None` if it is not, or without systemd.
pub(super) fn knob_of(root: &Root, path: &str, file: &str, is_runtime: bool) -> Result<Option<UnitKnob>, CliError> {
    let Some(name) = unit_at(path).filter(|_| systemd::runs(root)) else {
        return match user_at(path).filter(|_| systemd::runs(root)) {
            Some(user) => Err(CliError::usage(format!(
                "the group {path} belongs to the systemd of a user ({user}), which undoes what others write; as that user: \
                 systemctl --user set-property UNIT MemoryHigh=SIZE"
            ))),
            None if is_runtime => {
                Err(CliError::usage(format!("the group {path} is of no unit of systemd: leave --runtime out")))
            }
            None => Ok(None),
        };
    };
    let Some(knob) = UnitKnob::new(name, file, DropIns::Persistent) else { return Ok(None) };
    let unit = systemd::show(root, name, knob.property).map_err(to_cli)?;
    if unit.group.as_deref() != Some(path) {
        return Ok(None);
    }
    let knob = UnitKnob { place: place_of(&unit, is_runtime), unit: unit.name.clone(), ..knob };
    if !unit.is_loaded() {
        let why = LiveError::Refused(format!("{name} is {}: systemd sets no property of it", unit.load));
        return Err(to_cli(why));
    }
    refuse_unit(root, &unit, &knob).map_err(to_cli)?;
    Ok(Some(knob))
}

fn place_of(unit: &Unit, is_runtime: bool) -> DropIns {
    match (unit.is_transient, is_runtime) {
        (true, _) => DropIns::Transient,
        (false, true) => DropIns::Runtime,
        (false, false) => DropIns::Persistent,
    }
}

/// The name of the unit whose group this would be: below slices alone. systemd puts an underscore before names that are names of files of a
/// group too (`src/basic/cgroup-util.c: cg_escape`).
fn unit_at(path: &str) -> Option<&str> {
    let (above, leaf) = path.rsplit_once('/')?;
    let is_below_slices = above.split('/').filter(|part| !part.is_empty()).all(|part| part.ends_with(".slice"));
    let name = leaf.strip_prefix('_').unwrap_or(leaf);
    (is_below_slices && is_unit(name)).then_some(name)
}

/// The service that is the systemd of a user, if the group is below it.
fn user_at(path: &str) -> Option<&str> {
    let is_manager = |part: &&str| part.starts_with("user@") && part.ends_with(".service");
    let mut parts = path.split('/');
    parts.by_ref().find(is_manager).filter(|_| parts.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_by_the_path_of_their_group() {
        for (path, unit, user) in [
            ("/system.slice/web.service", Some("web.service"), None),
            ("/system.slice/system-a.slice/a@1.service", Some("a@1.service"), None),
            ("/app.slice", Some("app.slice"), None),
            ("/system.slice/_memory.service", Some("memory.service"), None),
            ("/user.slice/user-1000.slice/user@1000.service", Some("user@1000.service"), None),
            ("/user.slice/user-1000.slice/session-1.scope", Some("session-1.scope"), None),
            // What a service makes below itself.
            ("/system.slice/web.service/x.service", None, None),
            ("/docker/0123", None, None),
            ("/build", None, None),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/a.service", None, Some("user@1000.service")),
        ] {
            assert_eq!((unit_at(path), user_at(path)), (unit, user), "{path}");
        }
    }
}
