//! The advice as an HTML page: curves, table, heatmap.

use isotherm_report::{Axis, Callout, Chart, Emphasis, HtmlPage, PictureSize, Reference, Series, Unit, Verdict};
use isotherm_scenario::advise::{Advice, AdviceRow, CANDIDATES, Question};
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;

/// The page.
pub(super) fn html(advice: &Advice, question: &Question) -> Result<String, CliError> {
    let title = format!("How much memory does {} need?", advice.program);
    let lead = format!(
        "A recording replayed on a simulated machine under {} page-replacement policies, swap on {}.",
        CANDIDATES.len(),
        super::swap_name(advice.swap)
    );
    let mut page = HtmlPage::new(title, lead);
    let mut facts = vec![
        ("peak memory".to_owned(), Bytes::new(advice.peak_bytes).approx()),
        ("runtime with unlimited memory".to_owned(), Duration::from_ns(advice.unlimited_runtime_ns).approx()),
    ];
    if let Some(best) = &advice.recommendation {
        facts.push(("recommended memory".to_owned(), Bytes::new(best.memory_bytes).approx()));
        facts.push(("saved".to_owned(), Bytes::new(best.saved_bytes).approx()));
    }
    page.verdict(&Verdict { headline: super::verdict(advice), text: Vec::new(), facts });
    let size = PictureSize { width: 960, height: 420 };
    page.section("Runtime by memory size");
    page.paragraph(
        "How much longer the program runs than with unlimited memory. `opt` (Belady's MIN) knows the future and is the \
         floor of any policy; it cannot be built. `lru`, `fifo` and `clock` are yardsticks.",
    );
    page.chart(&runtime_chart(advice), size);
    page.section("Major faults by memory size");
    page.chart(&fault_chart(advice), size);
    page.section("Every replay");
    page.table(&super::table(advice));
    let heatmap = crate::verbs::report::trace_heatmap(&question.trace)?;
    page.section("Memory over time");
    page.paragraph("Which pages the program touched, and when. Unmapped address space is folded away.");
    page.heatmap(&heatmap, PictureSize { width: 960, height: 640 });
    if let Some(config) = &advice.config {
        page.section("The recommended set-up as a scenario");
        page.code(&isotherm_scenario::print(config));
    }
    page.notes("What this does not know", &advice.unknowns);
    page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
    Ok(page.to_html())
}

fn curves(advice: &Advice, y: impl Fn(&AdviceRow) -> Option<f64>) -> Vec<Series> {
    let curve = |name: &str, linux: bool| {
        let points = advice
            .rows
            .iter()
            .filter(|row| row.candidate == name)
            .filter_map(|row| Some((row.memory_bytes as f64, y(row)?)));
        let emphasis = if linux { Emphasis::Strong } else { Emphasis::Muted };
        Series::line(name, points.collect()).emphasis(emphasis)
    };
    CANDIDATES.iter().map(|candidate| curve(candidate.name, candidate.runs_on_linux())).collect()
}

fn runtime_chart(advice: &Advice) -> Chart {
    let mut chart = Chart {
        title: "Slower than with unlimited memory".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("slower by", Unit::Ppm),
        series: curves(advice, |row| row.runtime_ratio_ppm.map(|ratio| ratio.saturating_sub(1_000_000) as f64)),
        references: vec![Reference::AtY { value: advice.slowdown_allowed_ppm as f64, label: "allowed".to_owned() }],
        ..Chart::default()
    };
    if let Some(best) = &advice.recommendation {
        chart.callouts.push(Callout {
            x: best.memory_bytes as f64,
            y: best.runtime_ratio_ppm.saturating_sub(1_000_000) as f64,
            label: "recommended".to_owned(),
        });
    }
    chart
}

fn fault_chart(advice: &Advice) -> Chart {
    Chart {
        title: "Major faults".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("major faults", Unit::Count),
        series: curves(advice, |row| Some(row.major_faults as f64)),
        ..Chart::default()
    }
}
