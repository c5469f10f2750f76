//! The advice on two tiers of memory: tables, words, page.

use isotherm_advise::{TierAdvice, TierQuestion, TierRatio, TierRow, percent};
use isotherm_report::{
    Align, Axis, Cell, Chart, Column, Emphasis, HtmlPage, PictureSize, Series, Table, Unit, Verdict,
};
use isotherm_sim::machine::MemoryKind;
use isotherm_trace::TraceReader;
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;

pub(super) fn kind_of(name: &str) -> Result<MemoryKind, String> {
    let unknown = || {
        let names: Vec<&str> = MemoryKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("unknown kind of memory `{name}`; allowed: {}", names.join(", "))
    };
    MemoryKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
}

/// The question that was asked, in one line.
pub(super) fn heading(advice: &TierAdvice) -> String {
    format!(
        "{}: peak memory {}, of which {} ({}) fit on the fast tier, the rest on {}; {} with all memory fast",
        advice.program,
        Bytes::new(advice.peak_bytes).approx(),
        Bytes::new(advice.fast_bytes).approx(),
        percent(advice.fast_share_ppm),
        advice.slow.name(),
        Duration::from_ns(advice.all_fast_runtime_ns).approx(),
    )
}

/// Every policy, for people.
pub(super) fn table(advice: &TierAdvice) -> Table {
    let columns = vec![
        Column::text("policy"),
        Column { align: Align::Right, ..Column::text("slower by [%]") },
        Column::number("on fast", Unit::Ppm),
        Column::number("settled", Unit::Ns),
        Column::number("promoted", Unit::Bytes),
        Column::number("in vain", Unit::Bytes),
        Column::number("demoted", Unit::Bytes),
        Column::number("daemon cpu", Unit::Ns),
        Column::number("own cpu", Unit::Ns),
        Column::text("note"),
    ];
    let mut table = Table::new("", columns);
    for row in &advice.rows {
        if is_recommended(advice, row) {
            table.highlight = Some(table.rows.len());
        }
        let slower = row.runtime_ratio_ppm.map(|ratio| {
            let over = ratio as f64 / 1e4 - 100.0;
            let width = row.runtime_ratio_ci95_high_ppm.zip(row.runtime_ratio_ci95_low_ppm);
            let half = width.map(|(high, low)| high.saturating_sub(low) as f64 / 2e4);
            half.map_or_else(|| format!("{over:.2}"), |half| format!("{over:.2} ± {half:.2}"))
        });
        table.push(vec![
            Cell::from(row.policy),
            slower.into(),
            row.fast_hit_ppm.into(),
            row.fast_settled_ns.into(),
            row.promoted_bytes.into(),
            row.promoted_in_vain_bytes.into(),
            row.demoted_bytes.into(),
            row.daemon_cpu_ns.into(),
            (row.thread_cpu_ns + row.interrupted_ns).into(),
            Cell::from(note(advice, row)),
        ]);
    }
    table
}

/// Every policy with all figures, for programs.
pub(super) fn all_columns(advice: &TierAdvice) -> Table {
    let columns = vec![
        Column::text("policy"),
        Column::number("n", Unit::Count),
        Column::number("runtime", Unit::Ns),
        Column::number("runtime ratio", Unit::Ppm),
        Column::number("ci95 low", Unit::Ppm),
        Column::number("ci95 high", Unit::Ppm),
        Column::number("on fast", Unit::Ppm),
        Column::number("settled", Unit::Ns),
        Column::number("promoted", Unit::Bytes),
        Column::number("in vain", Unit::Bytes),
        Column::number("demoted", Unit::Bytes),
        Column::number("daemon cpu", Unit::Ns),
        Column::number("thread cpu", Unit::Ns),
        Column::number("interrupted", Unit::Ns),
        Column::number("unfinished", Unit::Count),
        Column::text("note"),
    ];
    let mut table = Table::new("", columns);
    for row in &advice.rows {
        table.push(vec![
            Cell::from(row.policy),
            row.n.into(),
            row.runtime_ns.into(),
            row.runtime_ratio_ppm.into(),
            row.runtime_ratio_ci95_low_ppm.into(),
            row.runtime_ratio_ci95_high_ppm.into(),
            row.fast_hit_ppm.into(),
            row.fast_settled_ns.into(),
            row.promoted_bytes.into(),
            row.promoted_in_vain_bytes.into(),
            row.demoted_bytes.into(),
            row.daemon_cpu_ns.into(),
            row.thread_cpu_ns.into(),
            row.interrupted_ns.into(),
            row.unfinished.into(),
            Cell::from(note(advice, row)),
        ]);
    }
    table
}

fn is_recommended(advice: &TierAdvice, row: &TierRow) -> bool {
    advice.recommendation.as_ref().is_some_and(|best| best.policy == row.policy)
}

/// A word or two on why a row is special.
fn note(advice: &TierAdvice, row: &TierRow) -> &'static str {
    match row {
        row if row.unfinished > 0 => "did not finish",
        row if is_recommended(advice, row) => "recommended",
        row if row.is_bound => "bound",
        row if !row.runs_on_linux => "not in Linux",
        _ => "",
    }
}

/// The answer in a sentence or two.
pub(super) fn verdict(advice: &TierAdvice) -> String {
    let Some(best) = &advice.recommendation else {
        return "No recommendation: under no policy that Linux has the program came to its end.".to_owned();
    };
    let slower = signed(best.runtime_ratio_ppm);
    match &best.against_none {
        Some(ratio) => format!(
            "Recommendation: {}, with demotion: {slower} against all memory fast, and {} against no policy; {} of what the slow \
             tier costs is won back.",
            best.policy,
            with_interval(ratio),
            percent(best.won_back_ppm),
        ),
        None => format!(
            "Recommendation: none. No policy that Linux has is surely faster than leaving pages where they first came to be: {slower} \
             against all memory fast."
        ),
    }
}

/// Further facts that the figures show.
pub(super) fn further(advice: &TierAdvice) -> Vec<String> {
    let other = advice.recommendation.as_ref().and_then(|best| best.not_in_linux.as_ref());
    let say = |ratio: &TierRatio| {
        let (policy, against) = (ratio.policy, ratio.against);
        format!("{policy}, which no released Linux has, would be faster: {} against {against}.", with_interval(ratio))
    };
    other.map(say).into_iter().collect()
}

/// `-4.1 % (95 % interval: -5.0 % to -3.2 %)`.
fn with_interval(ratio: &TierRatio) -> String {
    let interval = match (ratio.ci95_low_ppm, ratio.ci95_high_ppm) {
        (Some(low), Some(high)) => format!(" (95 % interval: {} to {})", signed(low), signed(high)),
        _ => String::new(),
    };
    format!("{}{interval}", signed(ratio.ratio_ppm))
}

/// How far a ratio in millionths is from one: `+0.50 %`.
fn signed(ratio_ppm: u64) -> String {
    format!("{:+.2} %", ratio_ppm as f64 / 1e4 - 100.0)
}

/// The advice as an HTML page: verdict, table, shares over time, heatmap, scenario.
pub(super) fn html(advice: &TierAdvice, question: &TierQuestion) -> Result<String, CliError> {
    let title = format!("Which pages of {} belong on fast memory?", advice.program);
    let lead = format!(
        "A recording replayed on a simulated machine with {} of fast memory and {} behind it, under {} policies, {} times each.",
        Bytes::new(advice.fast_bytes).approx(),
        advice.slow.name(),
        advice.rows.len(),
        advice.rows.first().map_or(0, |row| row.n),
    );
    let mut page = HtmlPage::new(title, lead);
    let mut facts = vec![
        ("peak memory".to_owned(), Bytes::new(advice.peak_bytes).approx()),
        ("fast tier".to_owned(), Bytes::new(advice.fast_bytes).approx()),
        ("runtime with all memory fast".to_owned(), Duration::from_ns(advice.all_fast_runtime_ns).approx()),
    ];
    if let Some(best) = &advice.recommendation {
        facts.push(("recommended policy".to_owned(), best.policy.to_owned()));
    }
    let origin = isotherm_report::traces::origin(TraceReader::open(&question.trace)?.meta());
    let answer = Verdict { headline: verdict(advice), text: further(advice), facts, origin, ..Verdict::default() };
    page.verdict(&answer).contents();
    page.section("Side by side");
    page.paragraph(
        "Slower than with all memory fast, with a 95 % interval; share of touched pages that were on the fast tier, and when it was \
         reached to nine tenths; what was moved; CPU time of daemons, and what finding and moving pages took of the program's own.",
    );
    page.table(&table(advice));
    page.section("On the fast tier, over time");
    page.paragraph(
        "Share of touched pages that were on the fast tier, over a second each, in the first replay of each policy.",
    );
    page.chart(&hits_chart(advice), PictureSize { width: 960, height: 420 });
    let heatmap = isotherm_report::traces::heatmap_of_file(&question.trace)?;
    page.section("Memory over time");
    page.paragraph("Which pages the program touched, and when. Unmapped address space is folded away.");
    page.heatmap(&heatmap, PictureSize { width: 960, height: 640 });
    if let Some(config) = &advice.config {
        page.fold("The recommended policy as a scenario", "the file that `isotherm simulate` plays again");
        page.code(&isotherm_scenario::print(config));
    }
    page.notes("What this does not know", &advice.unknowns);
    page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
    Ok(page.to_html())
}

fn hits_chart(advice: &TierAdvice) -> Chart {
    let curve = |row: &TierRow| {
        let points = row.fast_hits.iter().map(|&(at, share)| (at as f64, share as f64)).collect();
        let emphasis = match (row.runs_on_linux, is_recommended(advice, row)) {
            (_, true) => Emphasis::Strong,
            (true, _) => Emphasis::Normal,
            (false, _) => Emphasis::Muted,
        };
        Series::line(row.policy, points).emphasis(emphasis)
    };
    Chart {
        title: "Touches on the fast tier".to_owned(),
        x: Axis::new("time", Unit::Ns),
        y: Axis::new("on the fast tier", Unit::Ppm),
        series: advice.rows.iter().filter(|row| !row.is_bound).map(curve).collect(),
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_their_names() {
        assert_eq!(kind_of("cxl-near"), Ok(MemoryKind::CxlNear));
        let message = kind_of("optane").unwrap_err();
        assert_eq!(message, "unknown kind of memory `optane`; allowed: dram, cxl-near, cxl, cxl-far");
    }

    #[test]
    fn ratios_are_told_with_sign_and_interval() {
        let ratio = TierRatio {
            policy: "rch",
            against: "none",
            ratio_ppm: 959_000,
            ci95_low_ppm: Some(950_000),
            ci95_high_ppm: Some(1_000_500),
        };
        assert_eq!(with_interval(&ratio), "-4.10 % (95 % interval: -5.00 % to +0.05 %)");
    }
}
