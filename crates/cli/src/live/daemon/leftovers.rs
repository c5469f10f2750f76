//! Changes that a killed daemon left behind.

use isotherm_daemon::changes::Returned;

use crate::error::CliError;
use crate::live::MachineKnobs;
use crate::ui::Ui;

/// Restores what an earlier daemon left changed. Settings of `isotherm apply` stay.
pub(crate) fn take_back(hands: &mut MachineKnobs, ui: &Ui) -> Result<(), CliError> {
    let returned = hands.restore_where(|open| open.section.contains('.')).map_err(CliError::failed)?;
    for (open, what) in returned {
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
