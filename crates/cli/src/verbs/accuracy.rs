//! `isotherm report accuracy`: accuracy of a monitor, its cost, and the cheapest setting.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use isotherm_core::monitor::{Attributes, MonitorConfig};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::ScenarioError;
use isotherm_scenario::monitoring::{
    Detection, HOT_DEFINITIONS, HotDefinition, MonitorReport, Scores, Search, Setting, accuracy, cheapest, settings,
};
use isotherm_terminal::BarProgress;
use isotherm_units::Duration;

use super::monitor::settings::SettingArgs;
use super::monitor::source::{Source, SourceArgs};
use super::monitor::{cost_table, cpu_share_ppm, nothing_monitored};
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Judge a monitor against the pages that were really used.
///
/// Shows precision and recall for several definitions of "hot", the error of nr_accesses, the time to convergence, and the cost. With
/// --advise, a table of settings is tried and the cheapest that reaches 90 % precision and 90 % recall is named. Definitions and
/// comparisons: docs/mechanism/monitoring.md#accuracy.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Find the cheapest setting that is good enough.
    #[arg(long)]
    advise: bool,
    /// The definition of "hot" that advice goes by.
    #[arg(long, value_name = "NAME", default_value = HotDefinition::Author.name(),
          value_parser = PossibleValuesParser::new(HOT_DEFINITIONS.map(HotDefinition::name)))]
    hot: String,
    /// Length of the periods that are judged [default: 500ms for traces, 1s for scenarios].
    #[arg(long, value_name = "TIME")]
    period: Option<Duration>,
    /// Threads to try settings with [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm report accuracy traces/sqlite.parquet
  isotherm report accuracy traces/redis.parquet --strategy ptp --sample 1ms --aggr 20ms
  isotherm report accuracy traces/redis.parquet --advise
  isotherm report accuracy ptp --workload 10GiB --format json";

fn definition(name: &str) -> Result<HotDefinition, CliError> {
    let found = HOT_DEFINITIONS.into_iter().find(|definition| definition.name() == name);
    found.ok_or_else(|| CliError::usage(format!("there is no definition `{name}` of hot memory")))
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.period == Some(Duration::ZERO) {
        return Err(CliError::usage("--period is 0; allowed: above 0"));
    }
    let mut source = args.source.open(&args.settings, ui)?;
    source.watch.period = args.period.unwrap_or(source.watch.period);
    let format = args.format.format;
    if args.advise {
        advise(&args, &source, ui)?;
    } else {
        let spinner = ui.spinner("monitoring");
        let watched = accuracy(&source.watch);
        spinner.finish_and_clear();
        let report = watched?.monitor;
        let scores = scores_of(&report)?;
        print(&source, &report, scores, format, ui)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Scores, or why there are none.
fn scores_of(report: &MonitorReport) -> Result<&Scores, CliError> {
    let scores = report.scores.as_ref().ok_or_else(|| {
        CliError::usage("physical memory cannot be judged: its uses are not noted page by page; take --ops vaddr")
    })?;
    if report.regions_mean == 0.0 {
        return Err(nothing_monitored(report));
    }
    if scores.periods == 0 {
        let (watched, period) = (Unit::Ns.approx(report.watched_ns as f64), Unit::Ns.approx(scores.period_ns as f64));
        return Err(CliError::failed(format!(
            "nothing to judge by: in {watched} no whole period of {period} was watched in the second half of the run with \
             memory in use; take a shorter --period"
        )));
    }
    Ok(scores)
}

fn print(source: &Source, report: &MonitorReport, scores: &Scores, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(report).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(definitions(source, scores).to_csv()),
        Format::Table => {
            ui.print_styled(&super::render(&definitions(source, scores), format, ui))?;
            ui.print_styled(&super::render(&quality(scores), format, ui).after_line())?;
            ui.print_styled(&super::render(&cost_table(report), format, ui).after_line())
        }
    }
}

/// A row for each definition of "hot".
fn definitions(source: &Source, scores: &Scores) -> Table {
    let is_stated = scores.definitions.iter().any(|score| score.stated.is_some());
    let mut columns = vec![Column::text("hot if")];
    let truths: &[&str] = if is_stated { &["", " of stated"] } else { &[""] };
    for truth in truths {
        columns.extend(["precision", "recall", "F1"].map(|name| Column::number(format!("{name}{truth}"), Unit::Ppm)));
    }
    let period = Unit::Ns.approx(scores.period_ns as f64);
    let title = format!("{}: detection, mean of {} periods of {period}", source.name, scores.periods);
    let mut table = Table::new(title, columns);
    for definition in HOT_DEFINITIONS {
        let score = scores.of(definition);
        let mut row = vec![Cell::from(definition.name())];
        row.extend(cells(score.accessed));
        if let Some(stated) = score.stated {
            row.extend(cells(stated));
        }
        table.push(row);
    }
    table
}

fn cells(detection: Detection) -> [Cell; 3] {
    [detection.precision, detection.recall, detection.f1].map(ppm)
}

fn ppm(share: f64) -> Cell {
    Cell::Float((share * 1e6).round())
}

fn quality(scores: &Scores) -> Table {
    let columns = vec![Column::number("error of nr_accesses", Unit::Ppm), Column::number("90/90 after", Unit::Ns)];
    let mut table = Table::new("how right", columns);
    table.push(vec![scores.nr_accesses_error.map_or(Cell::Missing, ppm), scores.converge_ns.into()]);
    table
}

fn advise(args: &Args, source: &Source, ui: &Ui) -> Result<(), CliError> {
    let hot = definition(&args.hot)?;
    let tried = all_settings(source);
    let bar = BarProgress::new(ui, "trying settings");
    let search = cheapest(&source.watch, &tried, hot, args.threads.map(usize::from), &bar);
    bar.finish();
    let search: Search = search.map_err(|error| match error {
        error @ ScenarioError::Monitor { .. } => CliError::usage(error),
        error => error.into(),
    })?;
    for one in &search.tried {
        scores_of(&one.monitor)?;
    }
    match args.format.format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&search).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(search_table(source, &search, hot).to_csv()),
        Format::Table => {
            let mut table = search_table(source, &search, hot);
            let shown: Vec<usize> = (0..search.tried.len())
                .filter(|&index| search.cheapest == Some(index) || is_worth_it(&search, index))
                .collect();
            table.title = format!(
                "{} ({} of {}: no other is both cheaper and better; all with --format csv)",
                table.title,
                shown.len(),
                search.tried.len()
            );
            table.highlight = shown.iter().position(|&index| search.cheapest == Some(index));
            table.rows = shown.into_iter().map(|index| table.rows[index].clone()).collect();
            ui.print_styled(&super::render(&table, Format::Table, ui))?;
            ui.print(format_args!("\n{}\n", verdict(&search, hot)))
        }
    }
}

/// The table of settings, once with the fewest regions of the base, once with more: of a short run not many are split.
fn all_settings(source: &Source) -> Vec<Setting> {
    const MORE: u32 = 100;
    let base = source.watch.config();
    let mut tried = settings(base);
    if base.attributes.min_nr_regions < MORE {
        let attributes = Attributes { min_nr_regions: MORE, ..base.attributes.clone() };
        let more = settings(&MonitorConfig { attributes, ..base.clone() });
        let more = more.into_iter().filter(|setting| setting.config.attributes.max_nr_regions > MORE);
        tried.extend(more.map(|setting| Setting { name: format!("{}, from {MORE} on", setting.name), ..setting }));
    }
    tried
}

/// Settings that no other setting beats in both cost and F1: the candidates for a choice.
fn is_worth_it(search: &Search, index: usize) -> bool {
    let one = &search.tried[index];
    let beats = |other: usize| {
        let that = &search.tried[other];
        let (cheaper, better) = (that.monitor.cpu_ns <= one.monitor.cpu_ns, that.detection.f1 >= one.detection.f1);
        let equal = that.monitor.cpu_ns == one.monitor.cpu_ns && that.detection.f1 == one.detection.f1;
        cheaper && better && (!equal || other < index)
    };
    !(0..search.tried.len()).any(|other| other != index && beats(other))
}

fn search_table(source: &Source, search: &Search, hot: HotDefinition) -> Table {
    let columns = vec![
        Column::text("setting"),
        Column::number("precision", Unit::Ppm),
        Column::number("recall", Unit::Ppm),
        Column::number("CPU share", Unit::Ppm),
        Column::number("checks a second", Unit::PerSecond),
        Column::number("regions mean", Unit::Count),
        Column::number("90/90 after", Unit::Ns),
        Column::text("note"),
    ];
    let mut table = Table::new(format!("{}: settings by `{}`", source.name, hot.name()), columns);
    for (index, one) in search.tried.iter().enumerate() {
        let note = if search.cheapest == Some(index) {
            "cheapest"
        } else if one.detection.is_good() {
            "good"
        } else {
            ""
        };
        table.push(vec![
            one.name.clone().into(),
            ppm(one.detection.precision),
            ppm(one.detection.recall),
            Cell::Int(cpu_share_ppm(&one.monitor)),
            Cell::Float(one.monitor.checks_per_second().round()),
            Cell::Float((one.monitor.regions_mean * 10.0).round() / 10.0),
            one.monitor.scores.as_ref().and_then(|scores| scores.converge_ns).into(),
            note.into(),
        ]);
    }
    table.highlight = search.cheapest;
    table
}

fn verdict(search: &Search, hot: HotDefinition) -> String {
    let figures = |index: usize| {
        let one = &search.tried[index];
        let percent = |share: f64| Unit::Ppm.approx(share * 1e6);
        format!(
            "{} ({} precision, {} recall, {} of a CPU)",
            one.name,
            percent(one.detection.precision),
            percent(one.detection.recall),
            Unit::Ppm.approx(cpu_share_ppm(&one.monitor) as f64)
        )
    };
    if let Some(index) = search.cheapest {
        return format!("Cheapest with 90 % precision and 90 % recall: {}", figures(index));
    }
    let best = (0..search.tried.len())
        .max_by(|&a, &b| search.tried[a].detection.f1.total_cmp(&search.tried[b].detection.f1).then(b.cmp(&a)));
    match best {
        Some(best) => {
            format!("No setting reaches 90 % precision and 90 % recall by `{}`; best: {}", hot.name(), figures(best))
        }
        None => "No setting was tried".to_owned(),
    }
}
