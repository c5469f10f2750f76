//! The advice as an HTML page: curves, table, heatmap.

use isotherm_report::{Axis, Callout, Chart, Emphasis, HtmlPage, PictureSize, Reference, Series, Unit, Verdict};
use isotherm_scenario::advise::{Advice, AdviceRow, CANDIDATES, Candidate, Question, REPEATS};
use isotherm_units::{Bytes, Duration};

use super::{tables, words};
use crate::error::CliError;

/// The page.
pub(super) fn html(advice: &Advice, question: &Question) -> Result<String, CliError> {
    let title = format!("How much memory does {} need?", advice.program);
    let lead = format!(
        "A recording replayed on a simulated machine under {} set-ups, {REPEATS} times each at every size, swap on {}.",
        CANDIDATES.len(),
        words::swap_name(advice.swap)
    );
    let mut page = HtmlPage::new(title, lead);
    let mut facts = vec![
        ("peak memory".to_owned(), Bytes::new(advice.peak_bytes).approx()),
        ("runtime with unlimited memory".to_owned(), Duration::from_ns(advice.unlimited_runtime_ns).approx()),
    ];
    if let Some(best) = &advice.recommendation {
        facts.push(("recommended memory".to_owned(), Bytes::new(best.memory_bytes).approx()));
        facts.push(("saved".to_owned(), Bytes::new(best.gain.saved_bytes).approx()));
        facts.push(("saved on average".to_owned(), Bytes::new(best.gain.mean_saved_bytes).approx()));
    }
    page.verdict(&Verdict { headline: words::verdict(advice), text: words::gains(advice), facts });
    page.section("Side by side");
    page.paragraph(
        "All set-ups at one size: slower than with unlimited memory, with a 95 % interval over limits up to 1 % beside it; \
         memory charge, mean over time; and the smallest size from which on each is fast enough.",
    );
    page.table(&tables::side_by_side(advice));
    let schemes = tables::schemes(advice);
    if !schemes.rows.is_empty() {
        page.table(&schemes);
    }
    if !advice.notes.is_empty() {
        page.notes("To note", &words::notes(advice));
    }
    let size = PictureSize { width: 960, height: 420 };
    page.section("Runtime by memory size");
    page.paragraph(
        "How much longer the program runs than with unlimited memory. `opt` (Belady's MIN) knows the future and is the \
         floor of any policy; it cannot be built. `lru`, `fifo` and `clock` are yardsticks.",
    );
    page.chart(&runtime_chart(advice), size);
    page.section("Major faults by memory size");
    page.chart(&fault_chart(advice), size);
    page.section("Memory held, by memory size");
    page.paragraph("The charge of the program, mean over time: what lies below the limit is free for others.");
    page.chart(&charge_chart(advice), size);
    page.section("Huge pages");
    page.paragraph(&words::huge_pages(advice));
    let huge_pages = tables::huge_pages(advice);
    if !huge_pages.rows.is_empty() {
        page.table(&huge_pages);
    }
    let latencies = tables::latencies(advice);
    if !latencies.rows.is_empty() {
        page.paragraph(&words::latencies(advice));
        page.table(&latencies);
        page.notes("What these latencies assume", &words::latency_assumptions(advice));
    }
    page.section("Every size");
    page.table(&tables::rows(advice));
    let heatmap = crate::verbs::report::trace_heatmap(&question.trace)?;
    page.section("Memory over time");
    page.paragraph("Which pages the program touched, and when. Unmapped address space is folded away.");
    page.heatmap(&heatmap, PictureSize { width: 960, height: 640 });
    if let Some(config) = &advice.config {
        page.section("The recommended set-up as a scenario");
        page.code(&isotherm_scenario::print(config));
    }
    page.notes("Set-ups with schemes", &words::set_ups(advice));
    page.notes("With the kernel's own parameters", &words::kernel_defaults(advice));
    page.notes("What this does not know", &advice.unknowns);
    page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
    Ok(page.to_html())
}

/// A curve of each set-up, with its interval where `y` gives one.
fn curves(advice: &Advice, y: impl Fn(&AdviceRow) -> Option<[f64; 3]>) -> Vec<Series> {
    let curve = |candidate: &Candidate| {
        let rows = advice.rows.iter().filter(|row| row.candidate == candidate.name);
        let values = rows.filter_map(|row| Some((row.memory_bytes as f64, y(row)?)));
        let (points, band) = values.map(|(x, [low, mean, high])| ((x, mean), (low, high))).unzip();
        let emphasis = match (candidate.runs_on_linux(), candidate.nr_parts()) {
            (false, _) => Emphasis::Muted,
            (true, 0) => Emphasis::Strong,
            (true, _) => Emphasis::Normal,
        };
        let series = Series::line(candidate.name, points).emphasis(emphasis);
        // Bands of many curves hide each other.
        if emphasis == Emphasis::Strong { series.band(band) } else { series }
    };
    CANDIDATES.iter().map(curve).collect()
}

fn runtime_chart(advice: &Advice) -> Chart {
    let over = |ratio: u64| ratio.saturating_sub(1_000_000) as f64;
    let ratio = |row: &AdviceRow| {
        let mean = row.runtime_ratio_ppm?;
        let (low, high) = (row.runtime_ratio_ci95_low_ppm, row.runtime_ratio_ci95_high_ppm);
        Some([over(low.unwrap_or(mean)), over(mean), over(high.unwrap_or(mean))])
    };
    let mut chart = Chart {
        title: "Slower than with unlimited memory".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("slower by", Unit::Ppm),
        series: curves(advice, ratio),
        references: vec![Reference::AtY { value: advice.slowdown_allowed_ppm as f64, label: "allowed".to_owned() }],
        ..Chart::default()
    };
    if let Some(best) = &advice.recommendation {
        let (x, y) = (best.memory_bytes as f64, over(best.runtime_ratio_ppm));
        chart.callouts.push(Callout { x, y, label: "recommended".to_owned() });
    }
    chart
}

fn fault_chart(advice: &Advice) -> Chart {
    let faults = |row: &AdviceRow| {
        let mean = row.major_faults;
        let (low, high) = (row.major_faults_ci95_low, row.major_faults_ci95_high);
        Some([low.unwrap_or(mean) as f64, mean as f64, high.unwrap_or(mean) as f64])
    };
    Chart {
        title: "Major faults".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("major faults", Unit::Count),
        series: curves(advice, faults),
        ..Chart::default()
    }
}

fn charge_chart(advice: &Advice) -> Chart {
    let charge = |row: &AdviceRow| {
        let mean = row.mean_bytes;
        let (low, high) = (row.mean_ci95_low_bytes, row.mean_ci95_high_bytes);
        Some([low.unwrap_or(mean) as f64, mean as f64, high.unwrap_or(mean) as f64])
    };
    Chart {
        title: "Mean memory charge".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("mean charge", Unit::Bytes),
        series: curves(advice, charge),
        ..Chart::default()
    }
}
