//! What other verbs ask of `advise`.

use std::ffi::OsString;

use isotherm_advise::Question;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_linux::Root;
use isotherm_scenario::Scenario;
use isotherm_units::{Duration, Ratio};

use super::ended::checked;
use super::machine::{self, Machine};
use super::recording::Output;
use super::{Args, answers_to, json, program_name, question_of, recording};
use crate::error::CliError;
use crate::kernel;
use crate::ui::Ui;

/// An answer about a command on this machine, for runs that verify it.
pub(in crate::verbs) struct Advised {
    /// What `--format json` prints.
    pub(in crate::verbs) json: String,
    /// The recommended configuration.
    pub(in crate::verbs) scenario: Option<Scenario>,
}

/// Records a command and asks about it on this machine, as `isotherm advise -- COMMAND` does.
pub(in crate::verbs) fn advised(
    command: &[OsString],
    slowdown: Option<Ratio>,
    latency: Option<Duration>,
    ui: &Ui,
) -> Result<Advised, CliError> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let line: [OsString; 3] = ["advise", "--", "true"].map(Into::into);
    let Line { mut args } = clap::Parser::try_parse_from(line).map_err(CliError::usage)?;
    args.command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    (args.slowdown, args.latency) = (slowdown, latency);
    // It runs many times anyway: one more gives the recording the clock of this machine.
    let recorded = recording::make(&args, true, Output::Dropped, ui)?;
    let trace = checked(recorded.path(), &args, ui)?;
    let machine = Machine::of(&args).calibrated(&args, ui)?;
    let kernels = kernel::asked_or_host(None)?;
    let question =
        question_of(Question::usual(program_name(&args.command[0]), trace, kernels.releases), &args, &machine);
    let mut answers = answers_to(&question, &args, ui)?;
    machine.found.iter().for_each(|found| ui.say(found));
    let json = json(&answers, None)?;
    Ok(Advised { json, scenario: answers.drain(..).next().and_then(|advice| advice.config) })
}

/// The simulated swap that stands for that of this machine.
pub(in crate::verbs) fn swap_device(root: &Root) -> DeviceConfig {
    machine::swap_of(root).0.into()
}
