//! `isotherm completion`: completion scripts for shells.

use std::process::ExitCode;

use clap_complete::{Shell, generate};

use crate::error::CliError;
use crate::ui::Ui;

/// Print a script with which a shell completes verbs, flags and values.
///
/// `make install` puts the scripts of bash, zsh and fish where these shells look for them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  isotherm completion bash > /etc/bash_completion.d/isotherm
  isotherm completion zsh > \"${fpath[1]}/_isotherm\"
  isotherm completion fish > ~/.config/fish/completions/isotherm.fish";

#[expect(clippy::needless_pass_by_value, reason = "as all verbs")]
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut crate::command_line(), "isotherm", &mut script);
    ui.print_data(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
