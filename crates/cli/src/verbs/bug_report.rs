//! `isotherm bug-report`: collects data that helps to find an error in one folder, which the user reads before sending it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::error::CliError;
use crate::live::daemon::AUDIT;
use crate::ui::Ui;

/// Gather the facts that help to find an error: versions, the features that work here, the daemon's configuration and its actions.
///
/// Writes a folder of text files; nothing is sent. Names of control groups, processes and files are replaced in the audit and in tapes, as
/// `isotherm convert scrub` does, and nothing holds addresses or command lines. The configuration is left out unless --with-names is given:
/// it names groups. Read the files before you hand them on.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to make; an existing one is refused.
    #[arg(short, long, value_name = "FOLDER", default_value = "isotherm-bug-report")]
    output: PathBuf,
    /// The daemon's configuration.
    #[arg(long, value_name = "FILE", default_value = "/etc/isotherm/isotherm.toml")]
    config: PathBuf,
    /// The daemon's audit.
    #[arg(long, value_name = "FILE", default_value = AUDIT)]
    audit: PathBuf,
    /// A tape (`isotherm daemon run --tape`) or a recording that shows the error.
    #[arg(long, value_name = "FILE")]
    tape: Option<PathBuf>,
    /// Keep names: of groups, processes and files, and the configuration.
    #[arg(long)]
    with_names: bool,
}

const EXAMPLES: &str = "\
Examples:
  isotherm bug-report
  sudo isotherm bug-report -o /tmp/report --tape isotherm.tape
  isotherm bug-report --with-names --config isotherm.toml";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let folder = &args.output;
    let failed =
        |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot write {}", folder.display()));
    if folder.exists() {
        return Err(CliError::usage(format!("{} is there already: name another folder with -o", folder.display())));
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let mut left_out = Vec::new();
    let mut write = |name: &str, text: Result<String, String>| match text {
        Ok(text) => fs::write(folder.join(name), text).map_err(failed),
        Err(why) => {
            left_out.push(format!("{name}: left out: {why}"));
            Ok(())
        }
    };
    write("version.txt", said_by_us(&["--version"]))?;
    write("machine.txt", Ok(machine()))?;
    write("doctor.json", said_by_us(&["doctor", "--format", "json"]))?;
    let named = || fs::read_to_string(&args.config).map_err(|error| error.to_string());
    let config = if args.with_names { named() } else { Err("it names groups; --with-names puts it in".to_owned()) };
    write("isotherm.toml", config)?;
    let mut files = vec![("audit.jsonl", args.audit.as_path())];
    files.extend(args.tape.as_deref().map(|tape| ("tape", tape)));
    for (name, from) in files {
        if let Err(why) = copied(from, &folder.join(name), args.with_names) {
            left_out.push(format!("{name}: left out: {why}"));
        }
    }
    if !left_out.is_empty() {
        fs::write(folder.join("left-out.txt"), left_out.join("\n") + "\n").map_err(failed)?;
        left_out.iter().for_each(|line| ui.say(line));
    }
    ui.print(format_args!("{}: read it, then attach it to your report\n", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Output of this program for other arguments, for any exit code.
fn said_by_us(arguments: &[&str]) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own).args(arguments).args(["--color", "never", "-q"]).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() { Err(String::from_utf8_lossy(&output.stderr).into_owned()) } else { Ok(text) }
}

/// The machine without its name: kernel, distribution, processors, memory, nodes, pressure.
fn machine() -> String {
    let mut out = String::new();
    for path in [
        "/proc/sys/kernel/osrelease",
        "/etc/os-release",
        "/proc/pressure/memory",
        "/sys/kernel/mm/lru_gen/enabled",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/node/online",
        "/sys/devices/system/cpu/online",
    ] {
        let text = fs::read_to_string(path).unwrap_or_else(|error| format!("({error})\n"));
        out += &format!("== {path}\n{text}");
    }
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let is_told = |line: &&str| ["Mem", "Swap", "HugePages_Total"].iter().any(|begin| line.starts_with(begin));
    let lines: Vec<&str> = memory.lines().filter(is_told).collect();
    out + "== /proc/meminfo, in part\n" + &lines.join("\n") + "\n"
}

/// Copies a file, with pseudonyms unless names are kept.
fn copied(from: &Path, to: &Path, with_names: bool) -> Result<(), String> {
    if with_names {
        return fs::copy(from, to).map(|_| ()).map_err(|error| format!("{}: {error}", from.display()));
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let scrubbed = Command::new(own).args(["scrub", "-q", "--color", "never"]).arg(from).arg("-o").arg(to).output();
    let output = scrubbed.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
