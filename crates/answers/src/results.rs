//! The tables of a result: one for people, cut to the width of a screen, and one for programs.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_kernel::memory::KernelRelease;
use isotherm_report::{Align, Cell, Column, Table, Unit};
use isotherm_scenario::{METRICS, MetricUnit, RatioRow, ResultRow, ScenarioResult, Spread};

/// Columns of a table for people.
const WIDTH: usize = 100;
/// Metrics that are shown first of a scenario that names none.
const USUAL: [&str; 7] =
    ["runtime_ns", "major_faults", "mean_bytes", "peak_bytes", "psi_some_ns", "refaults_anon", "operations_per_second"];

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The tables of all workloads for people, and the number of metrics that do not fit. `asked`: these metrics, regardless of the
/// width.
pub fn of_workloads(result: &ScenarioResult, asked: Option<&[String]>) -> (Vec<Table>, usize) {
    let names = result.rows.iter().map(|row| row.workload.as_str());
    let (mut tables, mut most_left) = (Vec::new(), 0);
    for workload in unique(names.chain(result.ratios.iter().map(|row| row.workload.as_str()))) {
        let (of_workload, left) = of_people(result, workload, asked);
        most_left = most_left.max(left);
        tables.extend(of_workload);
    }
    (tables, most_left)
}

/// Published and expected values next to the results; empty where a scenario has neither.
pub fn versus_expected(result: &ScenarioResult) -> impl Iterator<Item = Table> {
    [values_versus_references(result), versus_references(result), expectations(result)].into_iter().flatten()
}

/// The tables of a workload for people: means, and ratios to another variant. A line per variant, a column per metric. `asked`: these
/// metrics, regardless of the width; else as many as fit. Also returns the number of metrics left out.
fn of_people(result: &ScenarioResult, workload: &str, asked: Option<&[String]>) -> (Vec<Table>, usize) {
    let rows: Vec<&ResultRow> = result.rows.iter().filter(|row| row.workload == workload).collect();
    let ratios: Vec<&RatioRow> = result.ratios.iter().filter(|row| row.workload == workload).collect();
    let known = unique(rows.iter().map(|row| row.metric.as_str()).chain(ratios.iter().map(|row| row.metric.as_str())));
    let metrics: Vec<&str> = match asked {
        Some(asked) => known.iter().copied().filter(|name| asked.iter().any(|asked| asked == name)).collect(),
        None => in_order(&known, &rows),
    };
    let width = if asked.is_some() { usize::MAX } else { WIDTH };
    let repeats = rows.iter().map(|row| row.n).max().unwrap_or(0);
    let has_worlds = rows.iter().any(|row| row.spread.is_some());
    let of_runs = match repeats {
        0 | 1 => "one run".to_owned(),
        runs if has_worlds => format!("median, least and most of {runs} worlds"),
        runs => format!("mean of {runs} runs ± half of the 95 % interval"),
    };
    let title = format!("{workload} ({of_runs}, rules of Linux {})", releases(&rows));
    let variants = unique(rows.iter().map(|row| row.variant.as_str()));
    let mean = |variant: &str, metric: &str| {
        rows.iter().find(|row| row.variant == variant && row.metric == metric).map(|row| shown(row))
    };
    let (means, nr_shown) = cut(title, &variants, &metrics, width, &mean);
    let against = unique(ratios.iter().map(|row| row.against.as_str())).join(", ");
    let compared: Vec<&str> =
        unique(ratios.iter().filter(|row| row.variant != row.against).map(|row| row.variant.as_str()));
    let interval = match repeats {
        0 | 1 => "",
        _ if has_worlds => ", median, least and most",
        _ => " with 95 % interval, pairs of equal seed",
    };
    let title = format!("{workload}: ratio to {against}{interval}");
    let ratio = |variant: &str, metric: &str| {
        ratios.iter().find(|row| row.variant == variant && row.metric == metric).map(|row| ratio_shown(row))
    };
    let (ratios, nr_ratios) = cut(title, &compared, &metrics, width, &ratio);
    let has_means = !rows.is_empty();
    let left = metrics.len().saturating_sub(if has_means { nr_shown } else { nr_ratios });
    let mut tables = Vec::new();
    tables.extend(has_means.then_some(means));
    tables.extend((!compared.is_empty()).then_some(ratios));
    (tables, left)
}

/// Metrics that people read first, then the others; metrics that are 0 everywhere come last.
fn in_order<'a>(known: &[&'a str], rows: &[&ResultRow]) -> Vec<&'a str> {
    let is_chosen = known.len() < METRICS.len() / 2;
    let rank = |name: &&str| {
        let is_zero = rows.iter().filter(|row| row.metric == **name).all(|row| row.mean == 0.0);
        let usual = USUAL.iter().position(|usual| usual == name).unwrap_or(USUAL.len());
        // A scenario that names its metrics has them in its own order.
        (!is_chosen && is_zero, if is_chosen { 0 } else { usual })
    };
    let mut metrics = known.to_vec();
    metrics.sort_by_key(rank);
    metrics
}

/// As many metrics as fit, and their number.
fn cut(
    title: String,
    variants: &[&str],
    metrics: &[&str],
    width: usize,
    cell: &dyn Fn(&str, &str) -> Option<String>,
) -> (Table, usize) {
    let mut left = width.saturating_sub(variants.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(7));
    let mut table = Table::new(title, vec![Column::text("variant")]);
    let mut columns: Vec<Vec<Option<String>>> = Vec::new();
    for metric in metrics {
        let name = metric.trim_end_matches("_ns").trim_end_matches("_bytes").replace('_', " ");
        let cells: Vec<Option<String>> = variants.iter().map(|variant| cell(variant, metric)).collect();
        let longest = cells.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let wide = longest.max(name.chars().count()) + 2;
        if wide > left && !columns.is_empty() {
            break;
        }
        left = left.saturating_sub(wide);
        table.columns.push(Column { name, unit: None, align: Align::Right });
        columns.push(cells);
    }
    for (index, variant) in variants.iter().enumerate() {
        let cells = columns.iter().map(|column| Cell::from(column[index].clone().unwrap_or_else(|| "–".to_owned())));
        table.push(std::iter::once(Cell::from(*variant)).chain(cells).collect());
    }
    (table, columns.len())
}

/// `666 ms ±1.2 %`.
fn shown(row: &ResultRow) -> String {
    let unit = METRICS.iter().find(|known| known.name == row.metric).map_or(Unit::Count, |known| unit_of(known.unit));
    if let Some(Spread { median, least, most }) = row.spread {
        let middle = unit.approx(median);
        return if least < most {
            format!("{middle} ({}–{})", unit.approx(least), unit.approx(most))
        } else {
            middle
        };
    }
    let mean = unit.approx(row.mean);
    match row.ci95_high {
        Some(high) if row.mean != 0.0 => {
            let half = (high - row.mean) / row.mean.abs() * 100.0;
            let digits = usize::from(half < 10.0);
            format!("{mean} ±{half:.digits$} %")
        }
        _ => mean,
    }
}

/// `0.93 (0.91–0.95)`.
fn ratio_shown(row: &RatioRow) -> String {
    if let Some(Spread { median, least, most }) = row.spread {
        return format!("{median:.3} ({least:.3}–{most:.3})");
    }
    match (row.ci95_low, row.ci95_high) {
        (Some(low), Some(high)) => format!("{:.2} ({low:.2}–{high:.2})", row.mean),
        _ => format!("{:.2}", row.mean),
    }
}

/// The releases that rows were played by, the oldest first: `6.12 and 7.2`.
fn releases(rows: &[&ResultRow]) -> String {
    let releases: BTreeSet<KernelRelease> = rows.iter().map(|row| row.kernel).collect();
    releases.into_iter().map(KernelRelease::name).collect::<Vec<_>>().join(" and ")
}

/// Ratios next to published ones; `None` without any.
fn versus_references(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["ratio", "from", "to", "published", "from ", "to "].map(|name| Column::number(name, Unit::Factor));
    let columns = columns.chain(numbers).chain(["same sign", "overlap"].map(Column::text));
    let mut table = Table::new("ratios beside published ones (95 % intervals)", columns.collect());
    for row in result.ratios.iter().filter(|row| row.reference.is_some()) {
        let word = |said: Option<bool>| Cell::from(said.map_or("-", |yes| if yes { "yes" } else { "no" }));
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(format!("{} : {}", row.variant, row.against)),
            Cell::from(row.metric.as_str()),
            row.mean.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
            row.reference_low.into(),
            row.reference_high.into(),
            word(row.sign_agrees),
            word(row.overlaps),
        ]);
    }
    result.ratios.iter().any(|row| row.reference.is_some()).then_some(table)
}

/// Values next to published ones; `None` without any.
fn values_versus_references(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["ours", "from", "to", "published"].map(|name| Column::number(name, Unit::Count));
    let mut table = Table::new("beside published values (95 % intervals)", columns.chain(numbers).collect());
    for row in result.rows.iter().filter(|row| row.reference.is_some()) {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.variant.as_str()),
            Cell::from(row.metric.as_str()),
            row.mean.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
        ]);
    }
    result.rows.iter().any(|row| row.reference.is_some()).then_some(table)
}

/// Expectations, and whether they are met; `None` without any.
fn expectations(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["measured", "at least", "at most"].map(|name| Column::number(name, Unit::Count));
    let columns = columns.chain(numbers).chain(["", "expected by"].map(Column::text));
    let mut table = Table::new("expectations", columns.collect());
    for row in &result.expectations {
        let expected = &row.expected;
        let against = expected.against.as_ref().map(|against| format!(" : {against}")).unwrap_or_default();
        table.push(vec![
            Cell::from(expected.workload.as_str()),
            Cell::from(format!("{}{against}", expected.variant)),
            Cell::from(expected.metric.as_str()),
            row.measured.into(),
            expected.at_least.into(),
            expected.at_most.into(),
            Cell::from(match (row.met, row.of_nothing) {
                (true, true) => "met, 0 on both sides",
                (true, false) => "met",
                (false, _) => "missed",
            }),
            Cell::from(expected.source.as_str()),
        ]);
    }
    (!result.expectations.is_empty()).then_some(table)
}

pub fn unit_of(unit: MetricUnit) -> Unit {
    match unit {
        MetricUnit::Nanoseconds => Unit::Ns,
        MetricUnit::Bytes => Unit::Bytes,
        MetricUnit::Pages => Unit::Pages,
        MetricUnit::Count => Unit::Count,
    }
}

/// A table for programs: a line per row of the result, with its ratio, if there is one.
pub fn of_programs(result: &ScenarioResult) -> Table {
    let columns = ["workload", "variant", "kernel", "metric"].map(Column::text).into_iter();
    let numbers = ["n", "mean", "stddev", "ci95_low", "ci95_high", "reference", "reference_low", "reference_high"];
    let columns = columns.chain(numbers.map(|name| Column::number(name, Unit::Count)));
    let columns = columns.chain([Column::text("against")]);
    let columns = columns.chain(["ratio", "ratio_low", "ratio_high"].map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("", columns.collect());
    let ratios: BTreeMap<_, &RatioRow> = result
        .ratios
        .iter()
        .map(|ratio| ((ratio.workload.as_str(), ratio.variant.as_str(), ratio.metric.as_str()), ratio))
        .collect();
    for row in &result.rows {
        let ratio = ratios.get(&(row.workload.as_str(), row.variant.as_str(), row.metric.as_str()));
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.variant.as_str()),
            Cell::from(row.kernel.name()),
            Cell::from(row.metric.as_str()),
            row.n.into(),
            row.mean.into(),
            row.stddev.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
            row.reference_low.into(),
            row.reference_high.into(),
            ratio.map(|ratio| ratio.against.clone()).into(),
            ratio.map(|ratio| ratio.mean).into(),
            ratio.and_then(|ratio| ratio.ci95_low).into(),
            ratio.and_then(|ratio| ratio.ci95_high).into(),
        ]);
    }
    table
}
