//! Tables that lay what real kernels did beside the simulated machine: their options, and where their data come from.

use std::path::PathBuf;

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::beside::{REAL_KERNELS, Rig, Stored};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;
use crate::verbs::rig;

/// Tells what real kernels did, beside the simulated machine where that is told.
///
/// Real runs are stored; --refresh makes them anew, which needs what `isotherm rig` needs.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Run the real kernels anew instead of taking stored data.
    #[arg(long)]
    refresh: bool,
    /// A file of real data to compare with; with --refresh, where new data are written.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// With --refresh, boots of each kernel.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    boots: u32,
    #[command(flatten)]
    pub(super) format: FormatArg,
}

/// Names and titles, for lists.
pub(super) const TABLES: &[(&str, &str)] =
    &[("fidelity-monitor", "The monitor beside DAMON in real kernels, over access patterns")];

/// The data a table compares with: stored ones, those of a file, or new ones.
pub(super) fn with_data<B: Serialize + DeserializeOwned>(
    args: &Args,
    stored: fn() -> Result<Stored<B>, FidelityError>,
    real: &dyn Fn(&Rig<'_>) -> Result<B, FidelityError>,
    table: &str,
    ui: &Ui,
) -> Result<Stored<B>, CliError> {
    if !args.refresh {
        let Some(path) = &args.data else { return stored().map_err(CliError::failed) };
        let text =
            std::fs::read_to_string(path).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
        return Stored::parse(&text, path).map_err(CliError::usage);
    }
    let boots = args.boots;
    let guest = rig::guest()?;
    let kernels = REAL_KERNELS.map(|name| rig::kernel(name, ui).map(|kernel| (name, kernel)));
    let bar = ui.progress("booting", u64::from(boots) * REAL_KERNELS.len() as u64);
    let mut data =
        Stored { command: format!("isotherm simulate {table} --refresh --boots {boots}"), boots: Vec::new() };
    for kernel in kernels {
        let (name, kernel) = kernel?;
        for _ in 0..boots {
            data.boots.push(real(&Rig { kernel: (name, &kernel), guest: &guest }).map_err(super::fidelity::error)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if let Some(path) = &args.data {
        let mut text = serde_json::to_string(&data).map_err(CliError::failed)?;
        // A line a boot, so that changes can be read.
        text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        std::fs::write(path, text).map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    }
    Ok(data)
}
