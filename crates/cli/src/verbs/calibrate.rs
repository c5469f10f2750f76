//! `isotherm calibrate`: measures prices of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use isotherm_calibrate::{
    Calibration, CalibrationError, Host, PROBE_PAGES, SWAPPED_PAGE, Simulated, Unprivileged, VERSION, has_room,
    simulated, storage, swapping, unprivileged,
};
use isotherm_kernel::costs::Costs;
use isotherm_linux::cgroup::OwnGroups;
use isotherm_linux::found::{self, SwapFound};
use isotherm_linux::{Root, Stopwatch};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_units::Bytes;
use isotherm_verify::{VerifyError, disturbs};

use super::advise::swap_device;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::kernel;
use crate::live::{running_policy, to_cli};
use crate::ui::Ui;

/// Where root's calibration is, for all users.
const FOR_ALL: &str = "/etc/isotherm/host.toml";

/// Measure what faults, swapping, system calls and the disk under files cost on this machine.
///
/// `isotherm advise` takes these figures for questions about this machine, in place of those of a server on bare metal: a virtual machine
/// pays more. It takes less than a minute, and up to 192 MiB of memory. It writes 64 MiB to a file without a name in the present folder, or
/// in that of --folder, and reads at most 400 MiB of it. As root it takes 64 MiB of swap too, in a memory cgroup of its own. Nothing else
/// is changed, and nothing is left but the file with the figures. What cannot be measured stays as without a calibration, and it says why.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm calibrate
  isotherm calibrate -o host.toml --folder /srv/data
  isotherm advise traces/redis.parquet --host host.toml")]
pub(crate) struct Args {
    /// Write the prices to this file [default: /etc/isotherm/host.toml for root, else ~/.config/isotherm/host.toml].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where the files are whose disk is measured: 64 MiB are written to it, and at most 400 MiB read.
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Measure although this machine has too little room or rest.
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    format: FormatArg,
    /// The process whose pages are swapped.
    #[arg(long, hide = true)]
    probe: bool,
    /// The process that gives back what it is given, for switches between processes.
    #[arg(long, hide = true)]
    echo: bool,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.probe {
        ui.print_data(isotherm_calibrate::probe())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.echo {
        isotherm_calibrate::echo().map_err(CliError::failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(bytes) = found::other_page_bytes() {
        return Err(CliError::host_cannot(format!(
            "pages of this machine are of {}, and simulated ones of 4 KiB: their prices cannot be compared",
            Bytes::new(bytes).approx()
        )));
    }
    let path =
        args.output.clone().or_else(usual_place).ok_or_else(|| CliError::usage("there is no HOME: say -o FILE"))?;
    let root = Root::default();
    // The probe's pages, twice: reclaim takes some ahead.
    let peak = Bytes::new(3 * PROBE_PAGES * 4096);
    for refusal in disturbs(&root, peak, peak).map_err(to_cli)? {
        if !args.anyway {
            return Err(CliError::host_cannot(format!("{refusal}; --anyway measures all the same")));
        }
        ui.warn(refusal);
    }
    ui.say("measuring system calls and faults, then the disk, then swap: less than a minute");
    let policy = running_policy(&root);
    let Unprivileged { measured, without } = unprivileged(&this_program("--echo")?);
    without.iter().for_each(|why| ui.warn(format_args!("{why}; their prices stay those of the table")));
    let folder = std::path::absolute(&args.folder).map_err(CliError::failed)?;
    let storage = storage(&folder, found::under(&root, &folder).as_ref())
        .map_err(|why| ui.warn(format_args!("the disk under files is not measured, and stays as it is found: {why}")));
    let mut calibration = Calibration {
        version: VERSION,
        made_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        simulated_swapped_page_ns: None,
        host: Host::here(&root, policy),
        storage: storage.ok(),
        measured,
    };
    match swap(&root, policy)? {
        Ok((measured, simulated_ns)) => {
            calibration.measured.push(measured);
            calibration.simulated_swapped_page_ns = Some(simulated_ns);
        }
        Err(why) => ui.warn(format_args!("swapping is not measured, and keeps the prices of the table: {why}")),
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(&path, &error))?;
    }
    isotherm_trace::write_in_one_step(&path, calibration.to_text().as_bytes())
        .map_err(|error| cannot_write(&path, &error))?;
    let table = table(&calibration);
    match args.format.format {
        Format::Json => {
            ui.print_data(format_args!("{}\n", serde_json::to_string_pretty(&calibration).map_err(CliError::failed)?))?
        }
        Format::Csv => ui.print_data(table.to_csv())?,
        Format::Table => ui.print_styled(&super::render(&table, Format::Table, ui))?,
    }
    let taken = if args.output.is_some() {
        format!("isotherm advise --host {}", path.display())
    } else {
        "isotherm advise".to_owned()
    };
    if let Some(storage) = &calibration.storage {
        ui.say(format_args!("the disk under {}: --storage {}", storage.folder, storage.device));
    }
    ui.say(format_args!("written to {}; `{taken}` takes these figures", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// What a page costs that is swapped out and in again, here and simulated; or why that is not measured.
fn swap(root: &Root, policy: &'static str) -> Result<Result<(isotherm_calibrate::Measured, u64), String>, CliError> {
    if found::swap(root).map_err(to_cli)? == SwapFound::None {
        return Ok(Err("this machine has no swap".to_owned()));
    }
    if !has_room(root).map_err(to_failed)? {
        return Ok(Err("its swap is nearly full".to_owned()));
    }
    let groups = match OwnGroups::find(root) {
        Ok(groups) => groups,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let measured = match swapping(&groups, &this_program("--probe")?, &|| !clock.is_ending()) {
        Err(CalibrationError::Verify(VerifyError::Stopped)) => {
            return Err(CliError::partial("stopped; nothing is written"));
        }
        Err(error @ (CalibrationError::Probe(_) | CalibrationError::NoFaults)) => return Ok(Err(error.to_string())),
        measured => measured.map_err(to_failed)?,
    };
    let release = kernel::asked_or_host(None)?.releases[0];
    let simulated = simulated(Simulated { kernel: release, policy, swap: swap_device(root) }).map_err(to_failed)?;
    Ok(Ok((measured, simulated)))
}

/// The command of a process that this one measures with.
fn this_program(flag: &str) -> Result<[OsString; 3], CliError> {
    let program = std::env::current_exe().map_err(CliError::failed)?;
    Ok([program.into_os_string(), "calibrate".into(), flag.into()])
}

/// Measured next to the prices of the table.
fn table(calibration: &Calibration) -> Table {
    let columns = vec![
        Column::text("price"),
        Column::number("here", Unit::Ns),
        Column::number("lower quarter", Unit::Ns),
        Column::number("upper quarter", Unit::Ns),
        Column::number("table", Unit::Ns),
        Column::number("samples", Unit::Count),
        Column::text("measured by"),
    ];
    let mut table = Table::new("Prices of this machine", columns);
    let costs = Costs::default();
    let of_storage = calibration.storage.iter().flat_map(|storage| &storage.measured);
    for one in calibration.measured.iter().chain(of_storage) {
        let of_table = costs.entry(&one.name).map(|entry| entry.value);
        let of_table = of_table.or(calibration.simulated_swapped_page_ns.filter(|_| one.name == SWAPPED_PAGE));
        let [low, high] = one.quarter_ns;
        table.push(vec![
            Cell::from(one.name.as_str()),
            one.ns.into(),
            low.into(),
            high.into(),
            of_table.into(),
            one.samples.into(),
            Cell::from(one.how.as_str()),
        ]);
    }
    table
}

/// Where a calibration goes that names no file.
fn usual_place() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() { Some(FOR_ALL.into()) } else { own_place() }
}

fn own_place() -> Option<PathBuf> {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(config.join("isotherm/host.toml"))
}

/// The calibration of this machine: of this user, else of all. A file that cannot be read is reported, and is none.
pub(super) fn of_this_machine(ui: &Ui) -> Option<Calibration> {
    let places = own_place().into_iter().chain([PathBuf::from(FOR_ALL)]);
    let path = places.into_iter().find(|path| path.is_file())?;
    read(&path)
        .map_err(|error| ui.warn(format_args!("{}: {error}; the prices of the table are taken", path.display())))
        .ok()
}

/// A calibration of any machine.
pub(super) fn read(path: &Path) -> Result<Calibration, CalibrationError> {
    let text = std::fs::read_to_string(path).map_err(|error| CalibrationError::File(error.to_string()))?;
    Calibration::parse(&text)
}

/// When it was made, as part of a sentence.
pub(super) fn age(calibration: &Calibration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match now.saturating_sub(calibration.made_at) / 86_400 {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

fn to_failed(error: CalibrationError) -> CliError {
    match error {
        CalibrationError::Live(error) | CalibrationError::Verify(VerifyError::Live(error)) => to_cli(error),
        error => CliError::failed(error.to_string()),
    }
}
