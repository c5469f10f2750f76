//! `isotherm convert scrub`: a copy of a recording without the names of the machine.

mod lines;
mod names;
mod records;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_daemon::tape::{Played, Tape};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_trace::TraceReader;
use isotherm_trace::group::is_group_record;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;
use lines::Lines;
use names::Names;

/// Make a copy of a recording with pseudonyms in place of names, to hand it to others.
///
/// Takes page traces, region records, group records, tapes of `isotherm daemon run --tape` and its audit. Names of control groups (part by
/// part), processes, threads, commands, mapped files, paths, targets and sections each get one pseudonym for the whole file:
/// /group-1/group-2, process-1, mapping-3. Numbers of processes are replaced by others. A recording's description of its host, and remarks,
/// are replaced whole.
///
/// Addresses, sizes, times and dates, counts, releases of kernels and knobs of the kernel stay. So do names of groups that every machine
/// has, by which isotherm leaves groups alone: system.slice, ssh.service and others. A tape is played before and after: it is written only
/// if the decisions are the same.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm convert scrub redis.parquet -o for-others.parquet
  isotherm convert scrub regions.parquet -o for-others.parquet
  isotherm convert scrub isotherm.tape -o for-others.tape
  isotherm convert scrub /var/log/isotherm/actions.jsonl -o for-others.jsonl --format json")]
pub(crate) struct Args {
    /// A page trace, a region record, a group record, a tape or an audit.
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// The file to write, with mode 0600. A file that is there is replaced.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    format: FormatArg,
}

/// A larger file of lines does not fit into memory.
const BYTES_MAX: u64 = 4 << 30;

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut head = Vec::new();
    let read = File::open(&args.input).and_then(|file| file.take(1 << 20).read_to_end(&mut head));
    read.map_err(|error| CliError::failed(error).while_doing(format!("cannot read {}", args.input.display())))?;
    if head.is_empty() {
        return Err(CliError::usage(format!("{} is empty: there is nothing to scrub", args.input.display())));
    }
    let part = part_beside(&args.output);
    let mut names = Names::default();
    let done = scrub(&args.input, &part, &String::from_utf8_lossy(&head), &mut names, ui).and_then(|()| {
        let placed = std::fs::set_permissions(&part, Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&part, &args.output));
        placed.map_err(|error| CliError::failed(error).while_doing(format!("cannot write {}", args.output.display())))
    });
    if done.is_err() {
        // An unfinished file is useless.
        let _ = std::fs::remove_file(&part);
    }
    done?;
    tell(&names, args.format.format, ui)?;
    ui.say(format_args!(
        "{}: addresses, times, sizes and counts are as they were; look at it before you hand it on",
        args.output.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn scrub(input: &Path, part: &Path, head: &str, names: &mut Names, ui: &Ui) -> Result<(), CliError> {
    if let Some(kind) = lines::sniff(head) {
        return scrub_lines(input, part, kind, names, ui);
    }
    if is_group_record(input) {
        return records::group(input, part, names);
    }
    if super::region_files::is_record(input) {
        records::record(input, part, names)?.iter().for_each(|warning| ui.warn(warning));
        return Ok(());
    }
    let reader = TraceReader::open(input).map_err(|error| {
        CliError::usage(format!(
            "{error}; scrub takes page traces, region records, group records, tapes and audits of isotherm"
        ))
    })?;
    records::trace(reader, part, names)
}

fn scrub_lines(input: &Path, part: &Path, kind: Lines, names: &mut Names, ui: &Ui) -> Result<(), CliError> {
    let failed = |error| CliError::failed(error).while_doing(format!("cannot read {}", input.display()));
    let bytes = std::fs::metadata(input).map_err(failed)?.len();
    if bytes > BYTES_MAX {
        return Err(CliError::usage(format!("{} has {bytes} bytes; allowed: up to 4 GiB", input.display())));
    }
    let text = std::fs::read_to_string(input).map_err(failed)?;
    let place = input.display().to_string();
    let (scrubbed, is_torn) = lines::scrub(&text, kind, &place, names)?;
    if kind == Lines::Tape {
        same_decisions(&text, &scrubbed, &place)?;
    }
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    let written = written.and_then(|mut file| file.write_all(scrubbed.as_bytes()));
    written.map_err(|error| CliError::failed(error).while_doing(format!("cannot write {}", part.display())))?;
    if is_torn {
        ui.warn(format_args!("{place}: its last line is torn, and is left out"));
    }
    Ok(())
}

/// Refuses a tape whose replay would differ from that of the original.
fn same_decisions(before: &str, after: &str, place: &str) -> Result<(), CliError> {
    let play = |text: &str| -> Result<Played, CliError> {
        let (header, tape) = Tape::read(text).map_err(|error| CliError::failed(format!("{place}: {error}")))?;
        lines::is_fine(&header.config).map_err(|why| refused(place, &format!("its configuration: {why}")))?;
        super::replay::play(&header.config, header.length, &tape)
            .map_err(|why| CliError::failed(format!("{place}: {why}")))
    };
    let (one, other) = (play(before)?, play(after)?);
    let at = |played: &Played| played.difference.as_ref().map(|difference| difference.line);
    if (one.calls, one.lines, one.left, at(&one)) == (other.calls, other.lines, other.left, at(&other)) {
        return Ok(());
    }
    let why = match &other.difference {
        Some(difference) => format!(
            "line {} would be `{}`, and the loop does `{}`",
            difference.line, difference.tape, difference.replay
        ),
        None => "it ends elsewhere".to_owned(),
    };
    Err(refused(place, &why))
}

fn refused(place: &str, why: &str) -> CliError {
    CliError::failed(format!(
        "{place}: with pseudonyms the tape does not come to the same decisions, because names order them: {why}; nothing was \
         written. The audit can be scrubbed: isotherm convert scrub actions.jsonl"
    ))
}

fn part_beside(output: &Path) -> PathBuf {
    let mut part = output.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    PathBuf::from(part)
}

fn tell(names: &Names, format: Format, ui: &Ui) -> Result<(), CliError> {
    let columns = vec![
        Column::text("names of"),
        Column::number("different", Unit::Count),
        Column::number("replaced", Unit::Count),
    ];
    let mut table = Table::new("scrubbed", columns);
    for (kind, different, times) in names.counts() {
        table.push(vec![Cell::from(kind.word()), Cell::Int(different as u64), Cell::Int(times)]);
    }
    match format {
        Format::Json => {
            let rows = names.counts().into_iter().map(|(kind, different, times)| {
                serde_json::json!({ "kind": kind.word(), "different": different, "replaced": times })
            });
            let text = serde_json::to_string_pretty(&rows.collect::<Vec<_>>()).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(table.to_csv()),
        Format::Table => ui.print_styled(&super::render(&table, Format::Table, ui)),
    }
}
