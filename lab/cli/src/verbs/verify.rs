//! `isotherm-lab verify`: a recording in real kernels under given limits. `isotherm advise --verify` asks for this.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use isotherm_fidelity::advice::play::BATCH_DEFAULT;
use isotherm_fidelity::advice::{Boot, Jobs, Key, Listed, Program, Wanted, play_wanted};
use isotherm_fidelity::{POLICIES, Set};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, FormatArg, Ui, render};
use isotherm_units::{Bytes, PAGE_BYTES};

use super::fidelity::error;
use super::rig;

/// Seconds that a play may take, on average over the plays of a boot.
const SECONDS_A_PLAY: u64 = 900;

/// Play a recording in real kernels under memory limits, and report the major faults that they count.
///
/// Plays of one kernel share a boot. A program that is killed has no count, and a warning gives the reason. `isotherm advise --verify` runs
/// this.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The page trace.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// A kernel (`isotherm-lab rig kernels`), a policy (classic, mglru) and memory.max of the recorded pages; may be repeated.
    #[arg(long, value_name = "KERNEL/POLICY/SIZE", required = true)]
    play: Vec<Play>,
    /// Name of the program in messages [default: the name of the file].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab verify traces/sqlite.parquet --play 6.12/classic/67MiB
  isotherm-lab verify traces/sqlite.parquet --play 7.2/classic/105MiB --play 7.2/classic/102MiB --format json

Needs what `isotherm-lab rig` needs.";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Play {
    kernel: String,
    policy: String,
    memory: Bytes,
}

impl FromStr for Play {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let &[kernel, policy, memory] = &parts[..] else {
            return Err("expected a kernel, a policy and a size, as in 7.2/classic/105MiB".to_owned());
        };
        if !POLICIES.contains(&policy) {
            return Err(format!("no policy of kernels is called `{policy}`; there are {}", POLICIES.join(", ")));
        }
        let memory = memory.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { kernel: kernel.to_owned(), policy: policy.to_owned(), memory })
    }
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    // Missing needs are reported before anything is played.
    let guest = rig::guest()?;
    let kernels = rig::kernels_named(args.play.iter().map(|play| play.kernel.as_str()), ui)?;
    let program = program(&args, ui)?;
    let folder = tempfile::tempdir().map_err(CliError::failed)?;
    let mut counts: Vec<Option<u64>> = vec![None; args.play.len()];
    for (name, kernel) in &kernels {
        let own: Vec<usize> = (0..args.play.len()).filter(|&index| args.play[index].kernel == *name).collect();
        let wanted: Vec<Wanted> = own.iter().map(|&index| wanted(&program, &args.play[index])).collect();
        let jobs = Jobs {
            kernel: (name, kernel),
            guest: &guest,
            folder: folder.path(),
            jobs: 1,
            batch: usize::from(BATCH_DEFAULT),
            seconds_a_play: SECONDS_A_PLAY,
        };
        let bar = ui.spinner(&format!("playing it in Linux {}", kernel.release));
        let played = play_wanted(&jobs, std::slice::from_ref(&program), &wanted, 1, &|_| ());
        bar.finish_and_clear();
        let store = played.map_err(error)?.store;
        for (index, wanted) in own.into_iter().zip(wanted) {
            let (digest, limit_pages) = (program.digest().to_owned(), wanted.limit_pages);
            let play = store.play(&Key { program: wanted.program, digest, policy: wanted.policy, limit_pages });
            if let Some(Boot::Failed(why)) = play.as_ref().and_then(|play| play.boots.first()) {
                ui.warn(format_args!("Linux {name} with {limit_pages} pages: {why}"));
            }
            counts[index] =
                play.and_then(|play| play.counter("major_faults")).and_then(|boots| boots.into_iter().max());
        }
    }
    ui.print_styled(&render(&table(&args.play, &counts), args.format.format, ui))?;
    Ok(ExitCode::SUCCESS)
}

fn program(args: &Args, ui: &Ui) -> Result<Program, CliError> {
    let of_file = || args.trace.file_stem().map_or_else(|| "program".to_owned(), |stem| stem.display().to_string());
    let name = args.name.clone().unwrap_or_else(of_file);
    let bar = ui.spinner("making the script");
    let program = Listed { name, path: args.trace.clone(), set: Set::HeldOut }.build(Path::new("."));
    bar.finish_and_clear();
    let missing = || CliError::failed(format!("{}: there is no such recording", args.trace.display()));
    program.map_err(error)?.ok_or_else(missing)
}

fn wanted(program: &Program, play: &Play) -> Wanted {
    let limit_pages = play.memory.get() / PAGE_BYTES;
    Wanted { program: program.name().to_owned(), policy: play.policy.clone(), limit_pages }
}

fn table(plays: &[Play], counts: &[Option<u64>]) -> Table {
    let numbers = [Column::number("memory", Unit::Bytes), Column::number("major faults", Unit::Count)];
    let columns = ["kernel", "policy"].map(Column::text).into_iter().chain(numbers);
    let mut table = Table::new("", columns.collect());
    for (play, &count) in plays.iter().zip(counts) {
        table.push(vec![
            Cell::from(play.kernel.as_str()),
            Cell::from(play.policy.as_str()),
            play.memory.get().into(),
            count.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_is_a_kernel_a_policy_and_a_size() {
        let play = Play { kernel: "7.2".to_owned(), policy: "mglru".to_owned(), memory: Bytes::new(105 << 20) };
        assert_eq!("7.2/mglru/105MiB".parse(), Ok(play.clone()));
        assert_eq!("7.2/mglru/110100480".parse(), Ok(play.clone()));
        for (text, says) in [
            ("7.2/mglru", "as in 7.2/classic/105MiB"),
            ("7.2/opt/1MiB", "no policy of kernels is called `opt`; there are classic, mglru"),
            ("7.2/classic/lots", "expected a number"),
        ] {
            let error = text.parse::<Play>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn rows_are_in_the_order_of_plays() {
        let plays: Vec<Play> = ["7.2/classic/1MiB", "6.12/mglru/8KiB"].map(|text| text.parse().unwrap()).to_vec();
        let json = table(&plays, &[Some(7), None]).to_json();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = serde_json::json!([
            { "kernel": "7.2", "policy": "classic", "memory_bytes": 1 << 20, "major_faults": 7 },
            { "kernel": "6.12", "policy": "mglru", "memory_bytes": 8192, "major_faults": null },
        ]);
        assert_eq!(json["rows"], rows);
    }
}
