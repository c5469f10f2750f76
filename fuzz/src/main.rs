//! `isotherm-fuzz`: feeds parsers with damaged input; `cargo xtask fuzz` runs it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer's command talks to its user")]

use clap::{Parser, Subcommand};
use isotherm_fuzz::campaign::{Campaign, Extent, scratch_folder};
use isotherm_fuzz::child::{self, INPUT_SECONDS, Order};
use isotherm_fuzz::faults::Replayer;
use isotherm_fuzz::groups;
use isotherm_fuzz::target::{Scratch, Target};
use isotherm_units::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Feeds parsers with damaged input: docs/developing.md#fuzzing.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask fuzz", args_conflicts_with_subcommands = true)]
struct Args {
    /// Targets or groups of targets; all if none is named
    targets: Vec<String>,
    /// Wall time in all, which the targets share evenly
    #[arg(long = "for", value_name = "TIME", default_value = "1min")]
    time: Duration,
    /// Inputs of each target, in place of a time: the same ones whenever the seed is the same
    #[arg(long, value_name = "INPUTS", conflicts_with = "time")]
    count: Option<u64>,
    /// Which inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs one target on the bytes of one file, as often as is needed to see why it fails
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "count", "seed"])]
    input: Option<PathBuf>,
    /// Folder that keeps inputs which show faults
    #[arg(long, value_name = "FOLDER", default_value = "target/fuzz")]
    keep: PathBuf,
    /// CPU time that one input may take
    #[arg(long, value_name = "SECONDS", default_value_t = INPUT_SECONDS)]
    input_seconds: u64,
    /// Lists the targets
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    inner: Option<Inner>,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// The process that a target runs in
    #[command(hide = true)]
    Child {
        target: String,
        #[arg(long)]
        scratch: PathBuf,
        #[arg(long)]
        file: Option<PathBuf>,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value_t = 0)]
        from: u64,
        #[arg(long, default_value_t = 0)]
        until: u64,
        #[arg(long)]
        seconds: Option<f64>,
        #[arg(long)]
        progress: Option<PathBuf>,
        #[arg(long, default_value_t = INPUT_SECONDS)]
        input_seconds: u64,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.inner {
        Some(inner) => run_child(inner),
        None if args.list => {
            list();
            Ok(true)
        }
        None => run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    for (group, targets) in groups::GROUPS {
        println!("{group}");
        for target in *targets {
            println!("  {:24} {}", target.name, target.reaches);
        }
    }
}

fn targets_of(names: &[String]) -> Result<Vec<&'static Target>, String> {
    if names.is_empty() {
        return Ok(groups::targets().collect());
    }
    let mut all = Vec::new();
    for name in names {
        let named = groups::named(name);
        if named.is_empty() {
            return Err(format!("`{name}` is no target and no group of targets; `cargo xtask fuzz --list` shows all"));
        }
        all.extend(named);
    }
    Ok(all)
}

/// Whether there are no faults.
fn run(args: &Args) -> Result<bool, String> {
    let targets = targets_of(&args.targets)?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    if let Some(file) = &args.input {
        let [target] = targets.as_slice() else {
            return Err("--input is for one target: name it before".to_owned());
        };
        return replay(&program, target, file, args.input_seconds);
    }
    let campaign = Campaign { program: &program, seed: args.seed, input_seconds: args.input_seconds, kept: &args.keep };
    let share = args.time.ns() as f64 / 1e9 / targets.len() as f64;
    let extent = args.count.map_or(Extent::Seconds(share), Extent::Inputs);
    let (mut executions, mut faults) = (0, 0);
    for target in targets {
        let outcome = campaign.run(target, extent).map_err(|error| format!("{}: {error}", target.name))?;
        println!("{:24} {:9} inputs, {} faults", target.name, outcome.executions, outcome.faults.len());
        for fault in &outcome.faults {
            println!("  {} (input {} of seed {}, {} bytes left)", fault.kind, fault.n, args.seed, fault.bytes);
            println!("  cargo xtask fuzz {} --input {}", target.name, fault.input.display());
        }
        executions += outcome.executions;
        faults += outcome.faults.len();
    }
    println!("{executions} inputs, {faults} faults");
    Ok(faults == 0)
}

fn replay(program: &Path, target: &'static Target, file: &Path, input_seconds: u64) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let scratch = scratch_folder().map_err(failed)?;
    let replayer = Replayer { program, target: target.name, scratch: scratch.path(), input_seconds };
    let kind = replayer.replay(&std::fs::read(file).map_err(failed)?).map_err(failed)?;
    match &kind {
        Some(kind) => println!("{}: {kind}", target.name),
        None => println!("{}: no fault", target.name),
    }
    Ok(kind.is_none())
}

fn run_child(inner: &Inner) -> Result<bool, String> {
    let Inner::Child { target, scratch, file, seed, from, until, seconds, progress, input_seconds } = inner;
    let target = *groups::named(target).first().ok_or_else(|| format!("`{target}` is no target"))?;
    let scratch = Scratch::new(scratch);
    let done = match (file, progress) {
        (Some(file), _) => child::run_file(target, &scratch, file, *input_seconds),
        (None, Some(progress)) => {
            let (seed, from, until) = (*seed, *from, *until);
            let order = Order { seed, from, until, seconds_max: *seconds, input_seconds: *input_seconds, progress };
            child::run(target, &scratch, &order)
        }
        (None, None) => return Err("a child needs --file or --progress".to_owned()),
    };
    done.map(|()| true).map_err(|error| format!("{}: {error}", target.name))
}
