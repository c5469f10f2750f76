//! A module of the kernel (DAMON_RECLAIM, DAMON_LRU_SORT) as settings that outlive the command.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_daemon::control_loop::{EngineError, ModuleOnce};
use isotherm_linux::{Root, Stopwatch};
use isotherm_scenario::Scenario;
use isotherm_scenario::monitoring::MonitorSpec;
use isotherm_units::Duration;

use super::{Args, Write, daemon_config};
use crate::error::CliError;
use crate::live::daemon::{InForce, Machine};

/// A module treats memory of the whole machine. Ages below this were fitted to a short recording and would evict memory that is in use.
const AGE_MIN: Duration = Duration::from_secs(10);

/// The module that does all the work of the scenario's monitors, if there is one.
pub(super) fn of(scenario: &Scenario, args: &Args) -> Option<ModuleOnce> {
    let [spec]: &[MonitorSpec] = scenario.monitors.as_slice() else { return None };
    let preset = spec.preset()?;
    let of_preset = preset.setup().ok()?.range.into_iter().count();
    // Ranges of a simulated machine are meaningless on a live one.
    if spec.ranges.len() > of_preset {
        return None;
    }
    ModuleOnce::new(preset, args.take_damon_stat)
}

/// The list of writes.
pub(super) fn plan(
    scenario: &Scenario,
    module: &mut ModuleOnce,
    args: &Args,
    root: &Root,
) -> Result<Vec<Write>, CliError> {
    for (name, key, age) in daemon_config::ages(scenario) {
        if age < AGE_MIN {
            return Err(CliError::usage(format!(
                "{}: `{name}`: `{key}` is {age}, fitted to a short recording, and {} treats memory of the whole machine; allowed: \
                 {AGE_MIN} and more, as with --age 2m",
                args.advice.display(),
                module.name()
            )));
        }
    }
    let refused = |why: EngineError| {
        let hint = if why == EngineError::StatHasDamon { " (here: --take-damon-stat)" } else { "" };
        CliError::host_cannot(format!("{why}{hint}"))
    };
    let writes = look(root, |machine| module.writes(machine))?.map_err(refused)?;
    let mut rows = Vec::new();
    for (path, new) in writes {
        let now = isotherm_linux::knobs::value_of(root, &path).map_err(crate::live::to_cli)?;
        rows.push(Write { path, now, new, scope: "the whole machine".to_owned(), result: "to be written" });
    }
    if rows.is_empty() {
        let path = format!("/sys/module/{}/parameters/enabled", module.name());
        let on = "Y".to_owned();
        rows.push(Write {
            path,
            now: on.clone(),
            new: on,
            scope: "the whole machine".to_owned(),
            result: "to be written",
        });
    }
    Ok(rows)
}

/// Whether the kernel has really begun.
pub(super) fn begins(module: &mut ModuleOnce, root: &Root) -> Result<(), CliError> {
    look(root, |machine| module.begins(machine))?
        .map_err(|why| CliError::host_cannot(format!("{why}; `isotherm restore` takes back what was written")))
}

/// Asks this machine in the same way as the daemon.
fn look<T>(root: &Root, ask: impl FnOnce(&mut Machine<'_>) -> T) -> Result<T, CliError> {
    let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let mut machine = Machine {
        root: root.clone(),
        clock: &clock,
        file: PathBuf::new(),
        dry_run: true,
        in_force: InForce::default(),
        families: BTreeMap::new(),
    };
    Ok(ask(&mut machine))
}
