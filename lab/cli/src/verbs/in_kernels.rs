//! Cases of the command itself inside real kernels: where they run, and what all of their tables have in common.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::versus::Rig;
use isotherm_fidelity::versus::live::Product;
use isotherm_report::Table;
use isotherm_terminal::{CliError, Format, Ui, render};
use serde::Serialize;

use super::rig;

/// For `#[command(flatten)]`.
#[derive(clap::Args)]
pub(super) struct InKernels {
    /// Only these kernels [default: 6.12 and 7.2].
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<String>,
    /// The command [default: target/static/isotherm].
    #[arg(long, value_name = "FILE", default_value = "target/static/isotherm")]
    pub(super) isotherm: PathBuf,
}

impl InKernels {
    /// Refuses a command that is not there.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let path = self.isotherm.display();
        let missing = || CliError::host_cannot(format!("{path} is not there: `cargo xtask static` builds it"));
        self.isotherm.is_file().then_some(()).ok_or_else(missing)
    }

    /// Runs `run` for each case on each kernel. A case that fails in the guest is reported, and the next one is run.
    pub(super) fn each<C, R>(
        &self,
        what: &str,
        cases: &[C],
        name: impl Fn(&C) -> String,
        run: impl Fn(&Rig<'_>, Product<'_>, &C) -> Result<Option<R>, FidelityError>,
        ui: &Ui,
    ) -> Result<Runs<R>, CliError> {
        let kernels =
            if self.kernel.is_empty() { vec!["6.12".to_owned(), "7.2".to_owned()] } else { self.kernel.clone() };
        let guest = rig::guest()?;
        let bar = ui.progress(what, (kernels.len() * cases.len()) as u64);
        let mut runs = Runs { done: Vec::new(), failed: 0 };
        for kernel_name in rig::kernel_names(&kernels) {
            let entry =
                isotherm_rig::KernelEntry::named(&kernel_name).map_err(|error| CliError::usage(error.to_string()))?;
            let kernel = rig::kernel(entry.name, ui)?;
            let module = rig::module(&kernel)?;
            let rig = Rig { kernel: (entry.name, &kernel), guest: &guest };
            for case in cases {
                let ran = run(&rig, Product { isotherm: &self.isotherm, module: &module }, case);
                bar.inc(1);
                match ran {
                    Ok(ran) => runs.done.extend(ran),
                    Err(FidelityError::Live(words)) => {
                        runs.failed += 1;
                        bar.suspend(|| ui.warn(format_args!("{}, {}: {words}", entry.name, name(case))));
                    }
                    Err(error) => return Err(super::fidelity::error(error)),
                }
            }
        }
        bar.finish_and_clear();
        Ok(runs)
    }
}

/// Knobs that a run left changed on its machine, a line each.
pub(super) trait Tidy {
    fn knobs_changed(&self) -> &[String];
}

/// Implements [`Tidy`] for runs with such a field, or with one of a part.
macro_rules! tidy {
    ($run:ty $(, $part:ident)?) => {
        impl $crate::verbs::in_kernels::Tidy for $run {
            fn knobs_changed(&self) -> &[String] {
                &self$(.$part)?.knobs_changed
            }
        }
    };
}

/// Results of all cases.
pub(super) struct Runs<R> {
    pub(super) done: Vec<R>,
    failed: usize,
}

impl<R: Serialize + Tidy> Runs<R> {
    /// Prints them. A knob that was left changed is a failure, and a case that failed makes the answer a partial one.
    pub(super) fn put_out(&self, table: &Table, format: Format, ui: &Ui) -> Result<ExitCode, CliError> {
        match format {
            Format::Json => {
                let text = serde_json::to_string_pretty(&self.done).map_err(CliError::failed)?;
                ui.print_data(format_args!("{text}\n"))?;
            }
            Format::Csv => ui.print_data(table.to_csv())?,
            Format::Table => ui.print_styled(&render(table, format, ui))?,
        }
        let changed: Vec<&String> = self.done.iter().flat_map(Tidy::knobs_changed).collect();
        if let Some(first) = changed.first() {
            return Err(CliError::failed(format!("{} knobs were left changed; the first: {first}", changed.len())));
        }
        if self.failed > 0 {
            let all = self.failed + self.done.len();
            return Err(CliError::partial(format!("{} of {all} runs failed", self.failed)));
        }
        Ok(ExitCode::SUCCESS)
    }
}
