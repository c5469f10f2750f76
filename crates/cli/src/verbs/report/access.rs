//! `isotherm report access`.

use isotherm_report::records::{self, At, Moment, SortKey};

use super::at::AtArg;
use super::input::InputArgs;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// List the regions of a snapshot: size, access rate, age, temperature.
///
/// With --at all, snapshots are printed one after the other as they are read; JSON is then one document a line.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: AtArg,
    /// Order of the regions.
    #[arg(long, value_enum, value_name = "KEY", default_value_t)]
    sort: Sort,
    /// Reverse the order.
    #[arg(long)]
    reverse: bool,
    /// Regions of each snapshot at most [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    format: FormatArg,
}

/// `--sort`.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Sort {
    /// Lowest address first.
    #[default]
    Address,
    /// Largest first.
    Size,
    /// Most often accessed first.
    Rate,
    /// Longest unchanged first.
    Age,
    /// Hottest first: percent of checks that found an access plus seconds of age, below zero where none did.
    Temperature,
}

impl From<Sort> for SortKey {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Address => Self::Address,
            Sort::Size => Self::Size,
            Sort::Rate => Self::Rate,
            Sort::Age => Self::Age,
            Sort::Temperature => Self::Temperature,
        }
    }
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let why = "it has accesses, but no regions. For those: isotherm report hot, or isotherm monitor TRACE -o R.parquet";
    let mut record = args.input.open_only_record(why, ui)?;
    let key = SortKey::from(args.sort);
    key.check(&record.store, &record.survey)?;
    let notes = record.caveats();
    let (at, format, limit) = (args.at.at(), args.format.format, args.limit.map_or(usize::MAX, |limit| limit as usize));
    let mut first = true;
    let survey = &record.survey;
    records::moments(&mut record.store, survey, at, |mut moment| {
        key.sort(&mut moment.areas);
        if args.reverse {
            moment.areas.reverse();
        }
        let is_first = std::mem::replace(&mut first, false);
        print(&moment, (at, format, limit), is_first, ui)
    })?;
    if format == Format::Table {
        notes.iter().for_each(|note| ui.say(format_args!("note: {note}")));
    }
    Ok(())
}

fn print(moment: &Moment, (at, format, limit): (At, Format, usize), first: bool, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Table => {
            let table = crate::verbs::render(&records::access_table(moment, limit), format, ui);
            ui.print_styled(&if first { table } else { table.after_line() })
        }
        Format::Csv => {
            let csv = records::access_csv(moment, limit).to_csv();
            let rows = csv.split_once('\n').map_or("", |(_, rows)| rows);
            ui.print_data(if first { &csv } else { rows })
        }
        Format::Json => {
            let mut moment = moment.clone();
            moment.areas.truncate(limit);
            let text =
                if at == At::All { serde_json::to_string(&moment) } else { serde_json::to_string_pretty(&moment) };
            ui.print_data(text.map_err(CliError::failed)? + "\n")
        }
    }
}
