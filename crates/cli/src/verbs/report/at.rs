//! `--at`: selects a moment of a region record; `report idle` also takes it for page traces.

use isotherm_report::records::At;
use isotherm_units::Duration;

use super::input::InputArgs;
use crate::error::CliError;

/// Flattened into the arguments of views of one moment.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Region records")]
pub(super) struct AtArg {
    /// The snapshot to show: the last, the one that was current at a time after the record's first moment, or all of them [default: last].
    #[arg(long, value_name = "TIME|last|all", value_parser = parse)]
    at: Option<At>,
}

impl AtArg {
    /// The requested moment.
    pub(super) fn at(&self) -> At {
        self.at.unwrap_or_default()
    }

    pub(super) fn refuse_for_trace(&self, input: &InputArgs) -> Result<(), CliError> {
        match self.at {
            Some(_) => Err(input.refuse("a page trace", "--at is for region records")),
            None => Ok(()),
        }
    }
}

fn parse(text: &str) -> Result<At, String> {
    match text {
        "last" => Ok(At::Last),
        "all" => Ok(At::All),
        time => match time.parse::<Duration>() {
            Ok(time) => Ok(At::Time(time.ns())),
            Err(error) => Err(format!("{error}; allowed: a time such as 1.5s, `last`, `all`")),
        },
    }
}
