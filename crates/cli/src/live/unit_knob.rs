//! Properties of systemd's units as knobs of this machine.

use isotherm_daemon::changes::{DropIns, KnobError, UnitKnob, parts, same_value};
use isotherm_linux::cgroup::{Group, Hierarchy, Limit};
use isotherm_linux::systemd::{self, Unit};
use isotherm_linux::{LiveError, Root};
use std::thread::sleep;
use std::time::Duration;

/// Checks of the group's file after a change, 2 s and more: systemd carries a change out after it has answered.
const CHECKS: u32 = 100;
const STEP: Duration = Duration::from_millis(20);

/// The value of a knob: the property as systemd has it now, with the drop-in. Of a unit that systemd does not have, what is left of it: the
/// drop-in alone.
pub(crate) fn unit_value(root: &Root, knob: &UnitKnob) -> Result<Option<String>, KnobError> {
    let unit = systemd::show(root, &knob.unit, knob.property).map_err(KnobError::machine)?;
    let drop_in = systemd::drop_in(root, &knob.path()).map_err(KnobError::machine)?;
    let of_drop_in = || drop_in.as_deref().and_then(|text| knob.set_by(text)).map(str::to_owned);
    let property = if unit.is_loaded() { unit.value } else { of_drop_in() };
    Ok(property.map(|property| UnitKnob::value(&property, drop_in.as_deref())))
}

/// Sets a property through systemd, and checks that it is in force in the unit's group. A value from the journal has the drop-in of
/// before, or none, and so takes ours away.
pub(super) fn write_unit(root: &Root, knob: &UnitKnob, value: &str) -> Result<(), KnobError> {
    let (property, drop_in) = parts(value);
    put(root, knob, property, drop_in).map_err(KnobError::machine)
}

fn put(root: &Root, knob: &UnitKnob, property: &str, drop_in: Option<&str>) -> Result<(), LiveError> {
    let unit = systemd::show(root, &knob.unit, knob.property)?;
    let group = unit.group.as_deref().and_then(|path| Hierarchy::unified(root).ok()?.group(path).ok());
    if unit.is_loaded() {
        if let Some(group) = &group {
            lower_first(root, group, knob, property)?;
        }
        let is_runtime = knob.place == DropIns::Runtime;
        systemd::set_property(root, &knob.unit, knob.property, property, is_runtime)?;
    }
    // What systemd has made stays where a property is asked for.
    if drop_in != Some("") && systemd::drop_in(root, &knob.path())?.as_deref() != drop_in {
        systemd::put_drop_in(root, &knob.path(), drop_in)?;
        systemd::reload(root)?;
    }
    match group {
        Some(group) if unit.is_loaded() => in_force(&group, knob, property),
        _ => Ok(()),
    }
}

/// Writes a lower value into the group's file first: to write it, memory is reclaimed, and systemd itself would do nothing else meanwhile.
fn lower_first(root: &Root, group: &Group, knob: &UnitKnob, property: &str) -> Result<(), LiveError> {
    let is_limit = ["memory.high", "memory.max"].contains(&knob.file());
    let (Ok(bytes), true) = (property.parse::<u64>(), is_limit) else { return Ok(()) };
    match group.limit(knob.file())? {
        Limit::At(now) if now.get() <= bytes => Ok(()),
        _ => root.write_knob(group.folder().join(knob.file()), property),
    }
}

/// Waits until the group's file holds the value.
fn in_force(group: &Group, knob: &UnitKnob, property: &str) -> Result<(), LiveError> {
    let mut held = String::new();
    for _ in 0..CHECKS {
        held = match group.limit(knob.file()) {
            Ok(Limit::At(bytes)) => bytes.get().to_string(),
            Ok(Limit::Unlimited) => "infinity".to_owned(),
            // The unit ended, or the kernel has no such file.
            Err(error) if error.is_missing() || !group.is_there() => return Ok(()),
            Err(LiveError::NotHere { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if same_value(&held, property) {
            return Ok(());
        }
        sleep(STEP);
    }
    Err(LiveError::Refused(format!(
        "systemd has {}={property} for {}, and {} of its group holds {held}",
        knob.property,
        knob.unit,
        knob.file()
    )))
}

/// Refuses a unit whose property cannot be set so that it stays.
pub(crate) fn refuse_unit(root: &Root, unit: &Unit, knob: &UnitKnob) -> Result<(), LiveError> {
    let (name, property) = (&unit.name, knob.property);
    if unit.value.is_none() {
        let needs = format!("this systemd has no property {property}");
        return Err(LiveError::NotHere { what: "a unit of systemd", needs });
    }
    let path = knob.path();
    match unit.drop_ins.iter().find(|other| **other != path && wins(root, other, &path, knob)) {
        Some(other) => Err(LiveError::Refused(format!(
            "{other} sets {property} of {name}, and is read after {path}, or in its place: a value that is set now would be gone with the \
             next `systemctl daemon-reload`; change it there, or take the line out"
        ))),
        None => Ok(()),
    }
}

/// Whether another drop-in has the last word: one of the same name in a folder that comes first, or one that is read later
/// (systemd.unit(5): by name, whatever the folder).
fn wins(root: &Root, other: &str, path: &str, knob: &UnitKnob) -> bool {
    let own = knob.name();
    let name = other.rsplit('/').next().unwrap_or_default();
    let is_in_place = name == own && UnitKnob::of(other).is_some_and(|it| it.place < knob.place);
    let sets = || systemd::drop_in(root, other).is_ok_and(|text| text.is_some_and(|text| knob.set_by(&text).is_some()));
    other != path && (is_in_place || (name > own.as_str() && sets()))
}
