//! `isotherm-lab rig`: real kernels in virtual machines, for comparison with the simulated one.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_report::{Cell, Column, Table};
use isotherm_rig::{Extras, Job, KERNELS, Kernel, KernelEntry, Machine, RigError, Run, Task, guest_program};
use isotherm_terminal::{CliError, FormatArg, Ui, render};

mod play;

/// Run real kernels in virtual machines: results of Linux itself, next to those of the simulated machine.
///
/// Kernels are packages of the system's package manager, unpacked into a cache folder; nothing is installed. The virtual machine
/// is software emulation: it needs no privileges and no particular processor, and its times mean nothing.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab rig kernels
  isotherm-lab rig boot 6.12
  isotherm-lab rig ready 6.12 7.2
  isotherm-lab rig play traces/sqlite.parquet --kernel 6.12 --policy classic --limit 75%
  isotherm-lab rig play traces/redis.parquet --policy mglru --limit 64MiB --boots 3 --format json

Needs: apt, dpkg and tar for kernels; qemu-system-x86_64; mke2fs for programs with files.
Environment: ISOTHERM_CACHE is the folder for kernels (else $XDG_CACHE_HOME/isotherm or ~/.cache/isotherm); ISOTHERM_GUEST
names the guest's program where it is not installed beside isotherm-lab.";

#[derive(clap::Subcommand)]
enum What {
    /// List the kernels, and whether each is at hand.
    Kernels(KernelsArgs),
    /// Fetch a kernel if need be, boot it, and report how long that took.
    Boot(BootArgs),
    /// Fetch kernels if need be, and find the guest's program, both of which plays need.
    Ready(ReadyArgs),
    /// Play a page trace in a kernel and in the simulated machine, and lay the counters side by side.
    Play(play::Args),
}

#[derive(clap::Args)]
struct KernelsArgs {
    #[command(flatten)]
    format: FormatArg,
}

#[derive(clap::Args)]
struct ReadyArgs {
    /// The kernels (`isotherm-lab rig kernels`).
    #[arg(value_name = "KERNEL", required = true)]
    kernels: Vec<String>,
}

#[derive(clap::Args)]
struct BootArgs {
    /// The kernel (`isotherm-lab rig kernels`).
    #[arg(value_name = "KERNEL", default_value = "7.2")]
    kernel: String,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    match args.what {
        What::Kernels(args) => kernels(&args, ui),
        What::Boot(args) => boot(&args, ui),
        What::Ready(args) => {
            // The guest first, as that is found quickly.
            guest()?;
            kernels_named(args.kernels.iter().map(String::as_str), ui).map(|_| ())
        }
        What::Play(args) => play::run(&args, ui),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// A lack of the machine is not a failure of ours; an unknown kernel is a usage error.
pub(super) fn error(error: RigError) -> CliError {
    match error {
        RigError::Missing { .. } => CliError::host_cannot(error),
        RigError::NoKernel { .. } | RigError::Unplayable { .. } => CliError::usage(error),
        _ => CliError::failed(error),
    }
}

/// Where kernels, modules and roots are kept.
fn cache() -> Result<PathBuf, CliError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("ISOTHERM_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("isotherm")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/isotherm")));
    folder.ok_or_else(|| CliError::host_cannot("no folder for kernels: set ISOTHERM_CACHE to one"))
}

/// The accessed-bit module for a kernel.
pub(super) fn module(kernel: &Kernel) -> Result<PathBuf, CliError> {
    let module = cache()?.join("modules").join(&kernel.release).join("isotherm.ko");
    let missing =
        || CliError::host_cannot(format!("no module for Linux {}: `cargo xtask module` builds it", kernel.release));
    if module.is_file() { Ok(module) } else { Err(missing()) }
}

pub(super) fn kernel(name: &str, ui: &Ui) -> Result<Kernel, CliError> {
    let entry = KernelEntry::named(name).map_err(error)?;
    let kernel = entry.get(&cache()?.join("kernels"), &|what| ui.say(what)).map_err(error)?;
    if !entry.is_of_its_release(&kernel) {
        let (name, release) = (entry.name, &kernel.release);
        ui.warn(format_args!("the suite {} has moved on: what is called {name} here is Linux {release}", entry.suite));
    }
    Ok(kernel)
}

/// Kernels by these names, each once, in their order.
pub(super) fn kernels_named<'a>(
    names: impl Iterator<Item = &'a str>,
    ui: &Ui,
) -> Result<Vec<(&'a str, Kernel)>, CliError> {
    let mut kernels: Vec<(&str, Kernel)> = Vec::new();
    for name in names {
        if !kernels.iter().any(|(known, _)| *known == name) {
            kernels.push((name, kernel(name, ui)?));
        }
    }
    Ok(kernels)
}

/// Names of kernels, for names and aliases. An unknown name is left for the caller to report.
pub(super) fn kernel_names(given: &[String]) -> Vec<String> {
    let name = |given: &String| KernelEntry::named(given).map_or_else(|_| given.clone(), |entry| entry.name.to_owned());
    given.iter().map(name).collect()
}

pub(super) fn guest() -> Result<PathBuf, CliError> {
    let configured = std::env::var_os("ISOTHERM_GUEST").map(PathBuf::from);
    let executable = std::env::current_exe().ok();
    guest_program(configured.as_deref(), executable.as_deref()).map_err(error)
}

fn kernels(args: &KernelsArgs, ui: &Ui) -> Result<(), CliError> {
    let columns = ["name", "suite", "what", "at hand"].map(Column::text).to_vec();
    let mut table = Table::new("", columns);
    let cache = cache()?.join("kernels");
    for entry in KERNELS {
        let release = entry.cached(&cache).map(|kernel| kernel.release);
        table.push(vec![
            Cell::from(entry.name),
            Cell::from(entry.suite),
            Cell::from(entry.summary),
            Cell::from(release),
        ]);
    }
    ui.print_styled(&render(&table, args.format.format, ui))
}

fn boot(args: &BootArgs, ui: &Ui) -> Result<(), CliError> {
    let (guest, kernel) = (guest()?, kernel(&args.kernel, ui)?);
    let job = Job { settings: Vec::new(), zram_bytes: None, files_device: None, task: Task::Boot };
    let machine = Machine::default();
    let run =
        Run { kernel: &kernel, machine: &machine, guest: &guest, job: &job, script: None, extras: &Extras::default() };
    let result = run.go().map_err(error)?;
    ui.print(format_args!("Linux {} booted and ended in {:.1} s.\n", result.kernel, result.took.as_secs_f64()))
}
