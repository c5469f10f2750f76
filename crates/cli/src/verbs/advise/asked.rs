//! What other verbs ask of `advise`.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;

use isotherm_advise::Question;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_linux::Root;
use isotherm_scenario::Scenario;
use isotherm_units::{Duration, Ratio};

use super::ended::checked;
use super::machine::{self, Machine};
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
    // It runs many times anyway: one more gives the recording the clock of this machine.
    (args.slowdown, args.latency, args.native_first) = (slowdown, latency, true);
    let recorded = {
        let _silence =
            Silence::begin().map_err(|error| CliError::failed(error).while_doing("cannot drop the output"))?;
        recording::make(&args, args.native_first, ui)?
    };
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

/// Drops what programs print that this one starts, and what it prints itself, until it is dropped: results alone go to standard output.
struct Silence(OwnedFd);

impl Silence {
    fn begin() -> std::io::Result<Self> {
        let nothing = File::options().write(true).open("/dev/null")?;
        let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(nothing)?;
        Ok(Self(kept))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // It was open a moment ago, and nothing else is known to do about it.
        let _ = rustix::stdio::dup2_stdout(&self.0);
    }
}
