//! Changes that a killed daemon left behind.

use isotherm_daemon::changes::{Open, Restored, Returned};

use crate::error::CliError;
use crate::live::MachineKnobs;
use crate::ui::Ui;

/// Restores the changes that an earlier daemon left behind. Settings of `isotherm apply` stay.
pub(crate) fn take_back(hands: &mut MachineKnobs, ui: &Ui) -> Result<(), CliError> {
    let Restored { changes, not_noted } = hands.restore_where(Open::is_of_daemon);
    if let Some(why) = not_noted {
        ui.warn(format_args!("what an earlier daemon left is put back, and stays open in the journal: {why}"));
    }
    for (open, what) in changes {
        match what {
            Returned::Failed(why) => {
                return Err(CliError::failed(format!(
                    "an earlier daemon left {} changed, and it cannot be put back: {why}",
                    open.path
                )));
            }
            Returned::Back => {
                ui.say(format_args!("{} holds {} again: an earlier daemon left it changed", open.path, open.old))
            }
            Returned::Foreign(now) => {
                ui.warn(format_args!("{} holds {now}, which is somebody else's: left alone", open.path));
            }
            _ => {}
        }
    }
    Ok(())
}
