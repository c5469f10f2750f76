//! `isotherm simulate fidelity-advice`: whether what `isotherm advise` recommends holds in real kernels.

use std::path::{Path, PathBuf};

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::advice::play::BATCH_DEFAULT;
use isotherm_fidelity::advice::{Jobs, KERNELS, Program, Programs, Wanted, play_wanted, wanted};

use super::data_folder;
use super::fidelity::error;
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;
use crate::verbs::rig;

/// Judge `isotherm advise` by real kernels: whether what it recommends holds there, and what safety costs.
///
/// Whole recordings are played in real kernels at many sizes, and what these counted is stored. A recording that is not there is
/// skipped.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(in crate::verbs) struct Args {
    /// Only these programs.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// Only these kernels.
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Play what the stores lack of these in real kernels first.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    refresh: Vec<Kind>,
    /// Boots of each play [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), requires = "refresh")]
    boots: Option<u32>,
    /// Virtual machines at the same time [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), requires = "refresh")]
    jobs: Option<u16>,
    /// Plays in one boot, at most. An interruption loses what is being played, no more.
    #[arg(long, value_name = "N", default_value_t = BATCH_DEFAULT as u16, value_parser = clap::value_parser!(u16).range(1..=1000), requires = "refresh")]
    batch: u16,
    /// A boot is given up when it takes longer, in seconds for each of its plays (and five minutes).
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400), requires = "refresh")]
    seconds: u64,
    /// Folder of the stores [default: scenarios/fidelity/advice beside the recordings].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm simulate fidelity-advice
  isotherm simulate fidelity-advice --refresh grid --program sqlite --kernel 6.12

--refresh needs what `isotherm rig` needs. Only what the stores lack is played; they are written after each boot.";

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Both policies at 45, 55, 65, 75, 85 and 95 % of the peak.
    Grid,
}

impl Kind {
    const fn boots(self) -> u32 {
        match self {
            Self::Grid => 1,
        }
    }
}

/// Runs the verb.
pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let root = data_folder()?;
    let folder = args.data.clone().unwrap_or_else(|| root.join("scenarios/fidelity/advice"));
    let kernels = kernels(&args.kernel).map_err(error)?;
    if !args.refresh.is_empty() {
        refresh(args, &kernels, &root, &folder, ui)?;
    }
    Ok(())
}

/// Kernels by their names in the rig, each with its release; either may be named.
fn kernels(named: &[String]) -> Result<Vec<(&'static str, &'static str)>, FidelityError> {
    let is = |name: &String, &(rig, release): &(&str, &str)| name == rig || name == release;
    if let Some(name) = named.iter().find(|name| !KERNELS.iter().any(|kernel| is(name, kernel))) {
        let known: Vec<&str> = KERNELS.iter().map(|(_, release)| *release).collect();
        return Err(FidelityError::Unknown {
            what: "kernel of the comparison",
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let chosen = KERNELS.iter().filter(|kernel| named.is_empty() || named.iter().any(|name| is(name, kernel)));
    Ok(chosen.copied().collect())
}

/// The programs whose recordings are there.
fn programs(args: &Args, root: &Path, ui: &Ui) -> Result<Vec<Program>, CliError> {
    let bundled = Programs::bundled();
    let mut programs = Vec::new();
    for listed in bundled.named(&args.program).map_err(error)? {
        let bar = ui.spinner(&format!("making the script of {}", listed.name));
        let program = listed.build(root);
        bar.finish_and_clear();
        let Some(program) = program.map_err(error)? else {
            ui.say(format_args!("{} is skipped: its recording {} is not there", listed.name, listed.path.display()));
            continue;
        };
        let operations = program.workload.script.operations.len();
        ui.say(format_args!(
            "{} ({}): {operations} operations, peak {} pages",
            listed.name,
            listed.set.name(),
            program.peak().get()
        ));
        programs.push(program);
    }
    Ok(programs)
}

fn refresh(
    args: &Args,
    kernels: &[(&'static str, &'static str)],
    root: &Path,
    folder: &Path,
    ui: &Ui,
) -> Result<(), CliError> {
    let guest = rig::guest()?;
    let programs = programs(args, root, ui)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for &(name, release) in kernels {
        let kernel = rig::kernel(name, ui)?;
        let jobs = Jobs {
            kernel: (release, &kernel),
            guest: &guest,
            folder,
            jobs: args.jobs.map_or(processors, usize::from),
            batch: usize::from(args.batch),
            seconds_a_play: args.seconds,
        };
        for kind in &args.refresh {
            let wanted = wanted_of(*kind, &programs);
            let boots = args.boots.unwrap_or(kind.boots());
            let played = play_wanted(&jobs, &programs, &wanted, boots, &|line| ui.say(line)).map_err(error)?;
            if played.plays > 0 {
                let each = played.took.as_secs_f64() / played.plays as f64;
                ui.say(format_args!(
                    "{release}: {} plays, {each:.1} s each, {} stored",
                    played.plays,
                    played.store.len()
                ));
            }
        }
    }
    Ok(())
}

fn wanted_of(kind: Kind, programs: &[Program]) -> Vec<Wanted> {
    match kind {
        Kind::Grid => programs.iter().flat_map(wanted::grid).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_its_release_or_as_in_the_rig() {
        let names = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            kernels(&named).map(|kernels| kernels.iter().map(|(_, release)| *release).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["7.2", "6.12"]);
        assert_eq!(names(&["7.2"]).unwrap(), names(&[KERNELS[0].0]).unwrap());
        let error = names(&["2.6"]).unwrap_err().to_string();
        assert_eq!(error, "no kernel of the comparison is called `2.6`; there are 7.2, 6.12");
    }
}
