//! `isotherm report generations`.

use std::path::{Path, PathBuf};

use isotherm_core::generations::EstimatorConfig;
use isotherm_report::{Cell, Chart, Column, Series, Table, Unit};
use isotherm_scenario::monitoring::Replay;
use isotherm_scenario::{GenerationsSpec, RunOptions, Scenario};
use isotherm_sim::machine::{GenerationsOutcome, GenerationsSample};
use isotherm_trace::TraceReader;
use isotherm_units::{Amount, Duration, PAGE_BYTES};
use serde::Serialize;

use super::output::{Outcome, PictureArgs, json};
use super::wss::usual_window_ns;
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;
use crate::verbs::monitor::source::{is_scenario, replay_of};
use crate::verbs::simulate;

/// Show the generations of the Multi-Gen LRU over time, and the working set estimated from them next to the true one.
///
/// A page trace is replayed on a machine of its own under `mglru`, where a daemon makes a generation each interval and reads their sizes,
/// as one does on Linux with `lru_gen`; of a scenario one variant with one workload is played, with the `[[generations]]` that it has. The
/// truth is the pages that were used in the same window, page by page, which cannot be known on a real machine. What can be estimated, and
/// how well: docs/mechanism/mglru.md#generations-in-user-space.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A page trace, a scenario file, or the name of a bundled scenario.
    #[arg(value_name = "TRACE|SCENARIO")]
    source: String,
    /// Page traces: time between two ageings [default: 100ms, rounded up to whole epochs].
    #[arg(long, value_name = "TIME")]
    interval: Option<Duration>,
    /// Page traces: "in use" is memory that was used within this time; one or two intervals are measured exactly [default: one].
    #[arg(long, value_name = "TIME")]
    window: Option<Duration>,
    /// Page traces: memory of the program, as a size or as a share of the memory that it takes without a limit [default: no limit].
    #[arg(long, value_name = "SIZE|SHARE")]
    memory: Option<Amount>,
    /// Scenarios: the variant to play [default: the first].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Scenarios: the workload to play [default: the first].
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm report generations traces/redis.parquet
  isotherm report generations traces/redis.parquet --interval 200ms --window 400ms
  isotherm report generations traces/python.parquet --memory 75% --format csv
  isotherm report generations my-service.toml --variant mglru --html generations.html";

/// Most samples that the table shows.
const SHOWN: usize = 40;

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let replay = if is_scenario(&args.source) { of_scenario(args, ui)? } else { of_trace(args)? };
    let spinner = ui.spinner("simulating");
    let played = replay.play();
    spinner.finish_and_clear();
    let (_, outcome) = played?;
    let tools = outcome.generations;
    if tools.iter().all(|tool| tool.samples.is_empty()) {
        let words: Vec<String> = tools.into_iter().flat_map(|tool| tool.words).collect();
        return Err(CliError::usage(format!("{}: nothing was read. {}", args.source, words.join(" "))));
    }
    let reported = tools.iter().find(|tool| reported(tool).next().is_some());
    let chart = reported.map(|tool| chart(&args.source, tool));
    let mut tables = vec![summary(&tools)];
    tables.extend(tools.iter().map(histogram));
    let document = Document { source: &args.source, variant: replay.variant(), tools: &tools };
    let outcome = Outcome {
        title: "Generations".into(),
        drawing: chart.as_ref().map(|chart| chart as _),
        tables,
        csv: &|| long_table(&tools),
        json: &|| json(&document),
        notes: notes(&tools),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

fn of_trace(args: &Args) -> Result<Replay, CliError> {
    for (given, flag) in [(&args.variant, "--variant"), (&args.workload, "--workload")] {
        if given.is_some() {
            return Err(CliError::usage(format!("{} is no scenario: {flag} is for scenarios", args.source)));
        }
    }
    let path = Path::new(&args.source);
    let epoch_ns = TraceReader::open(path)?.meta().epoch_ns;
    let interval = args.interval.unwrap_or_else(|| Duration::from_ns(usual_window_ns(epoch_ns)));
    if interval.ns() < epoch_ns {
        let epoch = Duration::from_ns(epoch_ns);
        return Err(CliError::usage(format!(
            "--interval is {interval}; allowed: from the trace's epoch of {epoch} on"
        )));
    }
    let config = EstimatorConfig { interval, window: args.window, ..EstimatorConfig::default() };
    config
        .validate()
        .map_err(|error| CliError::usage(format!("--{} is {}; allowed: {}", error.key, error.got, error.allowed)))?;
    let scenario = Scenario {
        policy: "mglru".to_owned(),
        limit: args.memory,
        generations: vec![GenerationsSpec::estimate("estimate", config)],
        ..replay_of(path, 1, false)
    };
    replay(scenario, PathBuf::from("."), args)
}

fn of_scenario(args: &Args, ui: &Ui) -> Result<Replay, CliError> {
    let given = [(args.interval.is_some(), "--interval"), (args.window.is_some(), "--window")];
    let given = given.into_iter().chain([(args.memory.is_some(), "--memory")]).find(|(given, _)| *given);
    if let Some((_, flag)) = given {
        let message = format!("{} is a scenario: it says itself what {flag} is for traces", args.source);
        return Err(CliError::usage(message));
    }
    let (mut scenario, base_dir) = simulate::find(&args.source, ui)?;
    if scenario.generations.is_empty() {
        scenario.generations = vec![GenerationsSpec::estimate("estimate", EstimatorConfig::default())];
    }
    replay(scenario, base_dir, args)
}

fn replay(mut scenario: Scenario, base_dir: PathBuf, args: &Args) -> Result<Replay, CliError> {
    // This metric requests the ground truth.
    scenario.metrics = vec!["working_set_used_bytes".to_owned()];
    let options = RunOptions { base_dir, place: args.source.clone(), threads: None };
    let (variant, workload) = (args.variant.as_deref(), args.workload.as_deref());
    Ok(Replay::of_scenario(&scenario, &options, variant, workload)?)
}

#[derive(Serialize)]
struct Document<'a> {
    source: &'a str,
    variant: &'a str,
    tools: &'a [GenerationsOutcome],
}

/// Samples with an estimate: estimate and truth in bytes. The first sample is left out: the program has hardly begun.
fn reported(tool: &GenerationsOutcome) -> impl Iterator<Item = (&GenerationsSample, u64, u64)> {
    tool.samples.iter().skip(1).filter_map(|sample| {
        let used = sample.used.filter(|_| sample.estimate.reported_window_ms.is_some())?;
        Some((sample, sample.estimate.pages * PAGE_BYTES, used.present_pages * PAGE_BYTES))
    })
}

fn chart(source: &str, tool: &GenerationsOutcome) -> Chart {
    let points = |pick: fn((&GenerationsSample, u64, u64)) -> u64| {
        reported(tool).map(|sample| (sample.0.reading.at_ns as f64, pick(sample) as f64)).collect::<Vec<_>>()
    };
    Chart {
        title: format!("Working set by generations: {}", tool.name),
        subtitle: source.to_owned(),
        x: isotherm_report::Axis::new("time", Unit::Ns),
        y: isotherm_report::Axis::new("memory in use", Unit::Bytes),
        series: vec![
            Series::line("estimated", points(|(_, estimated, _)| estimated)),
            Series::line("really used", points(|(_, _, used)| used)),
        ],
        references: Vec::new(),
        callouts: Vec::new(),
    }
}

/// A line for each tool.
fn summary(tools: &[GenerationsOutcome]) -> Table {
    let columns = vec![
        Column::text("tool"),
        Column::number("samples", Unit::Count),
        Column::number("estimated, mean", Unit::Bytes),
        Column::number("used, mean", Unit::Bytes),
        Column::text("error of the mean"),
        Column::text("median error"),
        Column::text("largest error"),
        Column::number("evicted", Unit::Bytes),
        Column::number("CPU time", Unit::Ns),
    ];
    let mut table = Table::new("tools over generations", columns);
    for tool in tools {
        let samples: Vec<(u64, u64)> = reported(tool).map(|(_, estimated, used)| (estimated, used)).collect();
        let mean = |pick: fn(&(u64, u64)) -> u64| {
            let sum: u64 = samples.iter().map(pick).sum();
            sum.checked_div(samples.len() as u64)
        };
        let mut errors: Vec<f64> = samples.iter().filter_map(|&(estimated, used)| error(estimated, used)).collect();
        errors.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
        let (estimated, used) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let of_mean = estimated.zip(used).and_then(|(estimated, used)| error(estimated, used));
        table.push(vec![
            tool.name.as_str().into(),
            Cell::Int(tool.samples.len() as u64),
            estimated.map_or("-".into(), Cell::Int),
            used.map_or("-".into(), Cell::Int),
            percent(of_mean).into(),
            size_percent(median(&errors)).into(),
            percent(errors.last().copied()).into(),
            Cell::Int(tool.evicted_bytes),
            Cell::Int(tool.cpu_ns),
        ]);
    }
    table
}

/// Sizes by age, a line for each sample: generations counted from the youngest, all groups together.
fn histogram(tool: &GenerationsOutcome) -> Table {
    let mut columns = vec![Column::number("time", Unit::Ns)];
    for age in AGES {
        columns.push(Column::number(format!("{age}: anon"), Unit::Bytes));
        columns.push(Column::number(format!("{age}: file"), Unit::Bytes));
    }
    columns.extend([Column::number("estimated", Unit::Bytes), Column::number("used", Unit::Bytes)]);
    columns.push(Column::text("error"));
    let skipped = tool.samples.len().saturating_sub(SHOWN);
    let title = match skipped {
        0 => format!("{}: memory by generation, youngest first", tool.name),
        _ => format!(
            "{}: memory by generation, youngest first; the last {SHOWN} of {} samples",
            tool.name,
            tool.samples.len()
        ),
    };
    let mut table = Table::new(title, columns);
    for sample in &tool.samples[skipped..] {
        let mut row = vec![Cell::Int(sample.reading.at_ns)];
        for (anon, file) in by_age(sample) {
            row.extend([Cell::Int(anon), Cell::Int(file)]);
        }
        let estimated = sample.estimate.reported_window_ms.map(|_| sample.estimate.pages * PAGE_BYTES);
        let used = sample.used.map(|used| used.present_pages * PAGE_BYTES);
        row.extend([estimated.map_or("-".into(), Cell::Int), used.map_or("-".into(), Cell::Int)]);
        row.push(percent(estimated.zip(used).and_then(|(estimated, used)| error(estimated, used))).into());
        table.push(row);
    }
    table
}

/// Generations by place, as a reader right after an ageing finds them.
const AGES: [&str; 4] = ["new", "last interval", "the one before", "older"];

fn by_age(sample: &GenerationsSample) -> [(u64, u64); AGES.len()] {
    let mut sums = [(0, 0); AGES.len()];
    for group in &sample.reading.groups {
        for (place, row) in group.listing.rows.iter().rev().enumerate() {
            let (anon, file) = &mut sums[place.min(AGES.len() - 1)];
            *anon += row.anon_pages * PAGE_BYTES;
            *file += row.file_pages * PAGE_BYTES;
        }
    }
    sums
}

/// A line for each sample, group and generation, for programs.
fn long_table(tools: &[GenerationsOutcome]) -> Table {
    let columns = vec![
        Column::text("tool"),
        Column::number("time", Unit::Ns),
        Column::text("cgroup"),
        Column::number("node", Unit::Count),
        Column::number("generation", Unit::Count),
        Column::number("age", Unit::Ns),
        Column::number("anon", Unit::Bytes),
        Column::number("file", Unit::Bytes),
        Column::number("all groups: estimated", Unit::Bytes),
        Column::number("at least", Unit::Bytes),
        Column::number("at most", Unit::Bytes),
        Column::number("used", Unit::Bytes),
        Column::number("touched", Unit::Bytes),
    ];
    let mut table = Table::new("generations", columns);
    for tool in tools {
        for sample in &tool.samples {
            let estimate = sample.estimate;
            let pages = |pages: Option<u64>| pages.map_or("".into(), |pages| Cell::Int(pages * PAGE_BYTES));
            for group in &sample.reading.groups {
                for row in &group.listing.rows {
                    table.push(vec![
                        tool.name.as_str().into(),
                        Cell::Int(sample.reading.at_ns),
                        group.listing.path.as_str().into(),
                        Cell::Int(u64::from(group.listing.lruvec.node.0)),
                        Cell::Int(row.seq),
                        Cell::Int(row.age_ms * 1_000_000),
                        Cell::Int(row.anon_pages * PAGE_BYTES),
                        Cell::Int(row.file_pages * PAGE_BYTES),
                        pages(estimate.reported_window_ms.map(|_| estimate.pages)),
                        pages(Some(estimate.low_pages)),
                        pages(Some(estimate.high_pages)),
                        pages(sample.used.map(|used| used.present_pages)),
                        pages(sample.used.map(|used| used.touched_pages)),
                    ]);
                }
            }
        }
    }
    table
}

fn notes(tools: &[GenerationsOutcome]) -> Vec<String> {
    let mut notes: Vec<String> = tools.iter().flat_map(|tool| tool.words.clone()).collect();
    notes.push(
        "`used` are pages that are still there; what was freed within the window is in no generation any more (`touched` in csv \
         and json counts it, too)."
            .to_owned(),
    );
    notes
}

fn error(estimated: u64, used: u64) -> Option<f64> {
    (used > 0).then(|| estimated as f64 / used as f64 - 1.0)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:+.1}%", share * 100.0))
}

/// The share has no sign, because errors of both directions have none in common.
fn size_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

/// The middle of the sizes of `errors`, which are sorted by size; of two middle ones their mean.
fn median(errors: &[f64]) -> Option<f64> {
    let upper = errors.get(errors.len() / 2)?.abs();
    let lower = errors[(errors.len() - 1) / 2].abs();
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_middle_ones() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[-0.25]), Some(0.25));
        assert_eq!(median(&[0.125, -0.25, 0.5]), Some(0.25));
        assert_eq!(median(&[0.0, 0.125, -0.25, 4.0]), Some(0.1875));
        assert_eq!(size_percent(median(&[0.125, -0.25])), "18.8%");
        assert_eq!(size_percent(None), "-");
    }

    #[test]
    fn errors_have_a_sign_and_need_a_truth() {
        assert_eq!(percent(error(110, 100)), "+10.0%");
        assert_eq!(percent(error(95, 100)), "-5.0%");
        assert_eq!(percent(error(5, 0)), "-");
    }
}
