//! `isotherm report results`: compares two saved results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_answers::results::unit_of;
use isotherm_report::{Align, Cell, Column, Table, Unit};
use isotherm_scenario::{METRICS, Summary, unknown_metric};
use isotherm_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Compare two results of `isotherm simulate --format json`: changes from A to B, with intervals.
///
/// Rows of the same workload, variant and metric are compared. The interval is the interval of a ratio of two independent means, at 95 %.
/// Without --all only rows are shown whose interval leaves out "no difference"; where a side has one run there is no interval, and any
/// difference is shown.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The result that serves as the base.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The other result.
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Show rows without a difference, too.
    #[arg(long)]
    all: bool,
    /// Only these metrics.
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metrics: Vec<String>,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm simulate policies --repeats 5 --format json > before.json
  isotherm simulate policies --repeats 5 --seed 100 --format json > after.json
  isotherm report results before.json after.json
  isotherm report results before.json after.json --metrics runtime_ns,major_faults --all --format csv";

/// Longest result that is read.
const BYTES_MAX: u64 = 256 << 20;

/// The fields of a result that are read.
#[derive(Deserialize)]
struct Saved {
    scenario: String,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    workload: String,
    variant: String,
    kernel: String,
    metric: String,
    n: u64,
    mean: f64,
    stddev: f64,
}

impl Row {
    fn key(&self) -> (&str, &str, &str) {
        (&self.workload, &self.variant, &self.metric)
    }
}

/// A row of both.
#[derive(Debug, PartialEq, Serialize)]
struct Pair {
    workload: String,
    variant: String,
    metric: String,
    kernel_a: String,
    kernel_b: String,
    mean_a: f64,
    mean_b: f64,
    n_a: u64,
    n_b: u64,
    /// B to A; absent where A is 0.
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    differs: bool,
}

#[derive(Serialize)]
struct Document {
    a: String,
    b: String,
    pairs: Vec<Pair>,
    /// Rows of only one side.
    only_a: usize,
    only_b: usize,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let known = |name: &&String| !METRICS.iter().any(|metric| metric.name == name.as_str());
    if let Some(unknown) = args.metrics.iter().find(known) {
        return Err(CliError::usage(format!("--metrics: {}", unknown_metric(unknown))));
    }
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    if a.scenario != b.scenario {
        ui.warn(format_args!(
            "results of two scenarios, `{}` and `{}`: rows are matched by name",
            a.scenario, b.scenario
        ));
    }
    let is_wanted = |row: &Row| args.metrics.is_empty() || args.metrics.contains(&row.metric);
    let (nr_a, nr_b) =
        (a.rows.iter().filter(|row| is_wanted(row)).count(), b.rows.iter().filter(|row| is_wanted(row)).count());
    let others: BTreeMap<_, &Row> = b.rows.iter().map(|row| (row.key(), row)).collect();
    let both = a.rows.iter().filter(|row| is_wanted(row)).filter_map(|row| Some((row, *others.get(&row.key())?)));
    let mut pairs: Vec<Pair> = both.map(|(row, other)| Pair::of(row, other)).collect();
    if pairs.is_empty() {
        return Err(CliError::usage(format!(
            "{} and {} have no row of the same workload, variant and metric",
            args.a.display(),
            args.b.display()
        )));
    }
    let (only_a, only_b, nr_both) = (nr_a - pairs.len(), nr_b - pairs.len(), pairs.len());
    pairs.retain(|pair| args.all || pair.differs);
    let named = |path: &Path| path.display().to_string();
    let document = Document { a: named(&args.a), b: named(&args.b), pairs, only_a, only_b };
    match args.format.format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&document).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))?;
        }
        Format::Csv => ui.print_data(for_programs(&document.pairs).to_csv())?,
        Format::Table => {
            if document.pairs.is_empty() {
                ui.print(format_args!("no difference in {nr_both} rows; --all shows them\n"))?;
            } else {
                ui.print_styled(&super::render(&for_people(&document.pairs), Format::Table, ui))?;
                let same = nr_both - document.pairs.len();
                if same > 0 {
                    ui.say(format_args!("{same} more rows without a difference: --all"));
                }
            }
        }
    }
    if only_a + only_b > 0 {
        ui.say(format_args!("{only_a} rows are in A alone, {only_b} in B alone"));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Saved, CliError> {
    let failed = |what: String| CliError::failed(format!("{}: {what}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(format!("cannot read it: {error}")))?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| failed(format!("cannot read it: {error}")))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(failed(format!("it is longer than a result can be ({})", Bytes::new(BYTES_MAX))));
    }
    serde_json::from_str(&text).map_err(|error| {
        let what = if error.is_eof() { "it is cut off".to_owned() } else { error.to_string() };
        failed(format!("it is no result of `isotherm simulate --format json`: {what}"))
    })
}

impl Pair {
    fn of(a: &Row, b: &Row) -> Self {
        let ratio = (a.mean != 0.0).then(|| b.mean / a.mean);
        let interval = Summary::ratio_interval((a.n, a.mean, a.stddev), (b.n, b.mean, b.stddev));
        let differs = match interval {
            Some((low, high)) => low > 1.0 || high < 1.0,
            None => a.mean != b.mean,
        };
        Self {
            workload: a.workload.clone(),
            variant: a.variant.clone(),
            metric: a.metric.clone(),
            kernel_a: a.kernel.clone(),
            kernel_b: b.kernel.clone(),
            mean_a: a.mean,
            mean_b: b.mean,
            n_a: a.n,
            n_b: b.n,
            ratio,
            ratio_low: interval.map(|(low, _)| low),
            ratio_high: interval.map(|(_, high)| high),
            differs,
        }
    }
}

fn for_people(pairs: &[Pair]) -> Table {
    let mut columns = ["workload", "variant", "metric"].map(Column::text).to_vec();
    let right = |name: &str| Column { name: name.to_owned(), unit: None, align: Align::Right };
    columns.extend(["A", "B", "B to A (95 %)"].map(right));
    let mut kernels: Vec<&str> =
        pairs.iter().flat_map(|pair| [pair.kernel_a.as_str(), pair.kernel_b.as_str()]).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let mut table = Table::new(format!("what differs (rules of Linux {})", kernels.join(" and ")), columns);
    for pair in pairs {
        let unit =
            METRICS.iter().find(|known| known.name == pair.metric).map_or(Unit::Count, |known| unit_of(known.unit));
        let ratio = match (pair.ratio, pair.ratio_low, pair.ratio_high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.3} ({low:.3}–{high:.3})"),
            (Some(ratio), ..) => format!("{ratio:.3}"),
            _ => "–".to_owned(),
        };
        table.push(vec![
            Cell::from(pair.workload.as_str()),
            Cell::from(pair.variant.as_str()),
            Cell::from(pair.metric.as_str()),
            Cell::from(unit.approx(pair.mean_a)),
            Cell::from(unit.approx(pair.mean_b)),
            Cell::from(ratio),
        ]);
    }
    table
}

fn for_programs(pairs: &[Pair]) -> Table {
    let mut columns = ["workload", "variant", "metric", "kernel_a", "kernel_b"].map(Column::text).to_vec();
    let numbers = ["n_a", "n_b", "mean_a", "mean_b", "ratio", "ratio_low", "ratio_high"];
    columns.extend(numbers.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("", columns);
    for pair in pairs {
        let mut cells: Vec<Cell> = [&pair.workload, &pair.variant, &pair.metric, &pair.kernel_a, &pair.kernel_b]
            .map(|text| Cell::from(text.as_str()))
            .to_vec();
        cells.extend([Cell::from(pair.n_a), pair.n_b.into(), pair.mean_a.into(), pair.mean_b.into()]);
        cells.extend([pair.ratio, pair.ratio_low, pair.ratio_high].map(Cell::from));
        table.push(cells);
    }
    table
}
