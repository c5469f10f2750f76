//! `isotherm restore`: undoes changes.

use std::path::Path;
use std::process::ExitCode;

use isotherm_daemon::changes::{Open, Restored, Returned, shown};
use isotherm_report::{Cell, Column, Table};
use serde::Serialize;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::{HandsArgs, JOURNAL, Use, hands, watch_journal};
use crate::ui::Ui;

/// Take back every change that isotherm made to this machine and did not take back itself.
///
/// Each change is in a journal before it is made, so this works after a crash, `kill -9` or a power cut. A knob that another program has
/// written since is left alone, and reported. Changes of another boot vanished with it, and are closed, except limits of units of systemd,
/// which outlive it. On a disk that is full, or that can
/// only be read, knobs are put back all the same. Exit code 0: no change of ours is left; 4: a change was left alone, or could not be
/// noted; 1: a change could not be restored, and stays in the journal.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm restore
  sudo isotherm restore --dry-run
  sudo isotherm restore --of-daemon     what `isotherm apply` set stays
  sudo isotherm restore --format json")]
pub(crate) struct Args {
    /// Show what would be restored, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Restore only changes that the daemon made. The unit of systemd calls this when the daemon has ended.
    #[arg(long)]
    of_daemon: bool,
    #[command(flatten)]
    hands: HandsArgs,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct Row {
    path: String,
    section: String,
    /// Before the change, and so after this.
    old: String,
    /// Value that was written.
    new: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl Row {
    fn new(open: Open, returned: Returned, dry_run: bool) -> Self {
        let (result, why) = match returned {
            Returned::Back if dry_run => ("to be put back", None),
            Returned::Back => ("put back", None),
            Returned::WasSo => ("was so already", None),
            Returned::OtherBoot => ("gone with another boot", None),
            Returned::Gone => ("gone with its group or module", None),
            Returned::Foreign(now) => ("left alone", Some(format!("somebody else wrote `{}` since", shown(&now)))),
            Returned::Failed(why) => ("failed", Some(why.to_string())),
        };
        let Open { path, section, old, new, .. } = open;
        let [old, new] = [old, new].map(|value| shown(&value).to_owned());
        Self { path, section, old, new, result, why }
    }
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let root = args.hands.root();
    let journal = args.hands.journal.display();
    let is_asked = |open: &Open| !args.of_daemon || open.is_of_daemon();
    let meant = if args.dry_run { Use::Read } else { Use::Restore };
    let done = |changes| Restored { changes, not_noted: None };
    let (Restored { mut changes, mut not_noted }, nothing) = match hands(&root, &args.hands.journal, meant)? {
        None if args.hands.journal != Path::new(JOURNAL) => {
            return Err(CliError::usage(format!("there is no journal {journal}; the usual one is {JOURNAL}")));
        }
        None => (done(Vec::new()), format!("there is no journal {journal}: isotherm has changed nothing here")),
        Some(mut hands) => {
            let done = if args.dry_run { done(hands.would_restore(is_asked)) } else { hands.restore_where(is_asked) };
            let whose = if args.of_daemon { " of the daemon" } else { "" };
            (done, format!("{journal} has no open change{whose}"))
        }
    };
    // What watched and was killed. What watches now holds its journal.
    if !args.of_daemon {
        match hands(&root, &watch_journal(&root), meant) {
            Ok(Some(mut hands)) if args.dry_run => changes.extend(hands.would_restore(|_| true)),
            Ok(Some(mut hands)) => {
                let restored = hands.restore();
                changes.extend(restored.changes);
                not_noted = not_noted.or(restored.not_noted);
            }
            Ok(None) => {}
            Err(error) => ui.warn(format_args!("changes of what watches are left alone: {error}")),
        }
    }
    let rows: Vec<Row> = changes.into_iter().map(|(open, what)| Row::new(open, what, args.dry_run)).collect();
    match args.format.format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&rows).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))?;
        }
        _ if rows.is_empty() => ui.say(format_args!("nothing to put back: {nothing}")),
        Format::Csv => ui.print_data(table(&rows).to_csv())?,
        Format::Table => ui.print_styled(&super::render(&table(&rows), Format::Table, ui))?,
    }
    let count = |result| rows.iter().filter(|row| row.result == result).count();
    let (failed, alone) = (count("failed"), count("left alone"));
    if failed > 0 {
        let first =
            rows.iter().find_map(|row| row.why.as_deref().filter(|_| row.result == "failed")).unwrap_or_default();
        return Err(CliError::failed(format!(
            "{failed} changes could not be put back and stay in the journal; the first: {first}"
        )));
    }
    if let Some(why) = not_noted {
        return Err(CliError::partial(format!(
            "all is put back, and stays open in the journal, which could not note it: {why}; once it can be written, \
             `isotherm restore` closes what is put back"
        )));
    }
    if alone > 0 {
        return Err(CliError::partial(format!(
            "{alone} {} what somebody else wrote since, and {} left alone",
            if alone == 1 { "knob holds" } else { "knobs hold" },
            if alone == 1 { "was" } else { "were" },
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new("restore", ["knob", "was", "was set to", "now"].map(Column::text).to_vec());
    for row in rows {
        let now = match &row.why {
            Some(why) => format!("{}: {why}", row.result),
            None => row.result.to_owned(),
        };
        table.push([&row.path, &row.old, &row.new, &now].map(|text| Cell::from(text.as_str())).to_vec());
    }
    table
}
