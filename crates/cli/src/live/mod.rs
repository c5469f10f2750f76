//! Shared by the live verbs: targets, time and budget, ways of monitoring.

mod clear_refs;
pub(crate) mod daemon;
mod damon;
mod fault_around;
mod following;
mod group;
mod knobs;
mod policy;
pub(crate) mod private_file;
mod probed;
mod scanner;
mod target;
mod time;
mod undo;
mod unit_knob;

pub(crate) use clear_refs::{COUNTS, Sweeping};
pub(crate) use damon::{DamonSource, system_ram};
pub(crate) use fault_around::{NoFaultAround, fault_around_bytes};
pub(crate) use following::Following;
pub(crate) use group::GroupWatch;
pub(crate) use knobs::{HandsArgs, JOURNAL, MachineKnobs, Use, hands};
pub(crate) use policy::{policy_of, running_policy};
pub(crate) use probed::{child, probed};
pub(crate) use scanner::LiveScanner;
pub(crate) use target::{Target, TargetArgs};
pub(crate) use time::{BudgetArgs, LiveClock, LoopCpu, OwnCpu};
pub(crate) use undo::{undo, watch_journal};
pub(crate) use unit_knob::{refuse_unit, unit_value};

use isotherm_linux::LiveError;

use crate::error::CliError;

/// Converts a live error; a feature that this host lacks is exit code 3.
pub(crate) fn to_cli(error: LiveError) -> CliError {
    match error {
        LiveError::NotHere { .. } | LiveError::Busy { .. } => CliError::host_cannot(error),
        LiveError::Refused(_) => CliError::usage(error),
        LiveError::Io { .. } if error.is_denied() => CliError::host_cannot(format!("{error}; run it as root")),
        _ => CliError::failed(error),
    }
}
