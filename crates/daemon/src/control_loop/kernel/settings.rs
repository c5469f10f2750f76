//! Engines of the kernel that consist of settings only, which are written, checked, and restored.

use super::{EngineError, Standing, System, SystemError, Write};
use crate::changes::same_value;

/// A setting and its wanted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) path: &'static str,
    pub(super) value: String,
    /// Feature that a kernel without it lacks.
    pub(super) needs: &'static str,
}

/// Writes for the settings that do not hold their value yet.
///
/// # Errors
/// A setting that the kernel lacks.
pub(super) fn writes(settings: &[Setting], world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
    let mut writes = Vec::new();
    for Setting { path, value, needs } in settings {
        match world.value(path)? {
            None => return Err(EngineError::NoSetting { path, needs }),
            Some(now) if same_value(&now, value) => {}
            Some(_) => writes.push(Write::knob(*path, value.clone())),
        }
    }
    Ok(writes)
}

/// Whether all settings hold the written value.
///
/// # Errors
/// A setting cannot be read.
pub(super) fn standing(settings: &[Setting], world: &mut dyn System) -> Result<Standing, SystemError> {
    for Setting { path, value, .. } in settings {
        if !world.value(path)?.is_some_and(|now| same_value(&now, value)) {
            return Ok(Standing::SwitchedOff);
        }
    }
    Ok(Standing::Runs)
}

/// Counters of `/proc/vmstat`, and their values when the engine was switched on.
#[derive(Debug)]
pub(super) struct Tallied {
    names: &'static [&'static str],
    before: Option<Vec<Option<u64>>>,
}

impl Tallied {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self { names, before: None }
    }

    /// Counts from now on.
    pub(super) fn begin(&mut self, world: &mut dyn System) {
        self.before = world.counters(self.names).ok();
    }

    /// Increase of each counter, in the order of the names; counters that the kernel lacks are left out.
    pub(super) fn grown(&self, world: &mut dyn System) -> Vec<(&'static str, u64)> {
        let (Some(before), Ok(now)) = (&self.before, world.counters(self.names)) else { return Vec::new() };
        let grown = |((&name, before), now): ((&&'static str, &Option<u64>), &Option<u64>)| {
            Some((name, (*now)?.saturating_sub((*before)?)))
        };
        self.names.iter().zip(before).zip(&now).filter_map(grown).collect()
    }
}
