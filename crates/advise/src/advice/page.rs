//! The advice as an HTML page: curves, table, heatmap.

use std::path::Path;

use crate::{Advice, AdviceRow, CANDIDATES, Candidate, Question};
use isotherm_report::{
    Axis, Callout, Chart, Emphasis, HtmlPage, PictureSize, Reference, Series, SeriesKind, Unit, Verdict,
};
use isotherm_scenario::Scenario;
use isotherm_sim::reclaim::baselines;
use isotherm_units::{Bytes, Duration};

use super::{tables, views, words};

/// The page. At least one answer; the first supplies all facts that do not depend on the release. `file`: the scenario that is written.
pub fn html(answers: &[Advice], question: &Question, file: Option<&Path>) -> isotherm_trace::Result<String> {
    let advice = &answers[0];
    let title = format!("How much memory does {} need?", advice.program);
    let machines: Vec<String> = answers.iter().map(words::machine).collect();
    let lead = format!(
        "A recording replayed on a simulated machine under {} configurations: {}.",
        advice.configurations.len(),
        machines.join("; ")
    );
    let mut page = HtmlPage::new(title, lead);
    let mut facts = vec![
        ("peak memory".to_owned(), Bytes::new(advice.peak_bytes).approx() + &words::beside_the_peak(advice)),
        ("runtime with unlimited memory".to_owned(), Duration::from_ns(advice.unlimited_runtime_ns).approx()),
    ];
    if let Some(best) = &advice.recommendation {
        facts.push(("recommended memory".to_owned(), Bytes::new(best.memory_bytes).approx()));
        facts.push(("saved".to_owned(), Bytes::new(best.gain.saved_bytes).approx()));
        facts.push(("saved on average".to_owned(), Bytes::new(best.gain.mean_saved_bytes.median).approx()));
    }
    let text = [words::firmness(advice), words::gains(advice), words::other_devices(advice)].concat();
    page.verdict(&Verdict { headline: words::verdict(advice), text, facts });
    if answers.len() > 1 {
        page.section("What each release says").table(&tables::releases(answers));
        page.paragraph("The recommendation holds on all of them; what differs between them stands on a page for each.");
        page.pages(&answers.iter().map(release_page).collect::<Vec<_>>());
    }
    for advice in answers {
        on_release(&mut page, advice, answers.len() > 1);
    }
    page.end_page();
    page.section("Huge pages");
    page.paragraph(&words::huge_pages(&advice.huge_pages));
    let huge_pages = tables::huge_pages(&advice.huge_pages);
    if !huge_pages.rows.is_empty() {
        page.table(&huge_pages);
    }
    let latencies = tables::latencies(&advice.huge_pages);
    if !latencies.rows.is_empty() {
        page.paragraph(&words::latencies(&advice.huge_pages));
        page.table(&latencies);
        page.notes("What these latencies assume", &words::latency_assumptions(&advice.huge_pages));
    }
    views::put_on(&mut page, advice, &question.trace)?;
    page.section("Every size");
    page.table(&tables::rows(answers));
    if let Some(config) = &advice.config {
        page.section("The recommended configuration as a scenario");
        let place = file.map_or_else(|| "The file that --config writes".to_owned(), |file| file.display().to_string());
        page.paragraph(&format!(
            "{place} holds it together with the {} worlds that the figures are drawn from: `isotherm simulate` gives them again.",
            config.worlds.len()
        ));
        let alone = Scenario { worlds: Vec::new(), variants: Vec::new(), expectations: Vec::new(), ..config.clone() };
        page.code(&isotherm_scenario::print(&Scenario { against: None, ..alone }));
    }
    page.notes("Configurations with schemes", &words::configurations(advice));
    page.notes("What this does not know", &advice.unknowns);
    page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
    Ok(page.to_html())
}

/// File name and title of a release's page.
fn release_page(advice: &Advice) -> (String, String) {
    (format!("linux-{}", advice.kernel), format!("Linux {}", advice.kernel))
}

/// Adds the answer of one release, on a page of its own if there are several. Every heading then names the release.
fn on_release(page: &mut HtmlPage, advice: &Advice, is_one_of_several: bool) {
    if is_one_of_several {
        let (id, name) = release_page(advice);
        page.page(&id, &format!("By the rules of {name}"));
    }
    let heading = |text: &str| match is_one_of_several {
        true => format!("{text}: Linux {}", advice.kernel),
        false => text.to_owned(),
    };
    page.section(&heading("Side by side"));
    page.paragraph(
        "All configurations at one size: how much slower than with unlimited memory, in the middle and at most; major faults likewise; memory \
         charge, mean over time; and the smallest size from which on each is safe. Upper ends hold chance, and for configurations that were \
         compared with real kernels also what the model is off.",
    );
    page.table(&tables::side_by_side(advice));
    let schemes = tables::schemes(advice);
    if !schemes.rows.is_empty() {
        page.table(&schemes);
    }
    if is_one_of_several {
        page.notes("How firmly it stands here", &words::firmness(advice));
    }
    if !advice.notes.is_empty() {
        page.notes("To note", &words::notes(advice));
    }
    let size = PictureSize { width: 960, height: 420 };
    page.section(&heading("Runtime by memory size"));
    page.paragraph(&format!(
        "How much longer the program runs than with unlimited memory. `opt` (Belady's MIN) knows the future and is the \
         floor of any policy; it cannot be built. {} are baselines. Where outcomes fall into two groups, both are points.",
        other_baselines()
    ));
    page.chart(&runtime_chart(advice), size);
    page.section(&heading("Major faults by memory size"));
    page.chart(&fault_chart(advice), size);
    page.section(&heading("Memory held, by memory size"));
    page.paragraph("The charge of the program, mean over time: what lies below the limit is free for others.");
    page.chart(&charge_chart(advice), size);
    page.notes("With the kernel's own parameters", &words::kernel_defaults(advice));
}

/// The baselines except `opt`, as `a`, `b` and `c`.
fn other_baselines() -> String {
    let names: Vec<_> =
        baselines().filter(|entry| entry.name != "opt").map(|entry| format!("`{}`", entry.name)).collect();
    let (last, others) = names.split_last().expect("several baselines");
    format!("{} and {last}", others.join(", "))
}

/// A curve of each configuration, with its interval where `y` gives one.
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
    let was_tried =
        |candidate: &&Candidate| advice.configurations.iter().any(|tried| tried.candidate == candidate.name);
    CANDIDATES.iter().filter(was_tried).map(curve).collect()
}

/// Where outcomes fall into two groups: both as points, which `y` gives.
fn gambles(advice: &Advice, y: impl Fn(&AdviceRow) -> Option<[f64; 2]>) -> Vec<Series> {
    let points = |candidate: &Candidate| {
        let rows = advice.rows.iter().filter(|row| row.candidate == candidate.name && row.gamble.is_some());
        let both = |row: &AdviceRow| y(row).map(|ends| ends.map(|end| (row.memory_bytes as f64, end)));
        let points: Vec<(f64, f64)> = rows.filter_map(both).flatten().collect();
        let name = format!("{}: a gamble", candidate.name);
        (!points.is_empty()).then(|| Series { kind: SeriesKind::Points, ..Series::line(name, points) })
    };
    CANDIDATES.iter().filter_map(points).collect()
}

fn runtime_chart(advice: &Advice) -> Chart {
    let over = |ratio: u64| ratio.saturating_sub(1_000_000) as f64;
    let ratio = |row: &AdviceRow| {
        let ratio = row.runtime_ratio_ppm.filter(|_| row.gamble.is_none())?;
        Some([over(ratio.low), over(ratio.median), over(ratio.high)])
    };
    let ends = |row: &AdviceRow| row.runtime_ratio_ppm.map(|ratio| [over(ratio.chance_low), over(ratio.chance_high)]);
    let mut chart = Chart {
        title: "Slower than with unlimited memory".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("slower by", Unit::Ppm),
        series: [curves(advice, ratio), gambles(advice, ends)].concat(),
        references: vec![Reference::AtY { value: advice.slowdown_allowed_ppm as f64, label: "allowed".to_owned() }],
        ..Chart::default()
    };
    if let Some(best) = &advice.recommendation {
        let (x, y) = (best.memory_bytes as f64, over(best.runtime_ratio_ppm.median));
        chart.callouts.push(Callout { x, y, label: "recommended".to_owned() });
    }
    chart
}

fn fault_chart(advice: &Advice) -> Chart {
    let faults = |row: &AdviceRow| {
        let faults = row.major_faults;
        row.gamble.is_none().then_some([faults.low as f64, faults.median as f64, faults.high as f64])
    };
    let groups = |row: &AdviceRow| row.gamble.map(|gamble| [gamble.good_faults as f64, gamble.bad_faults as f64]);
    Chart {
        title: "Major faults".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("major faults", Unit::Count),
        series: [curves(advice, faults), gambles(advice, groups)].concat(),
        ..Chart::default()
    }
}

fn charge_chart(advice: &Advice) -> Chart {
    let charge = |row: &AdviceRow| {
        let mean = row.mean_bytes;
        Some([mean.low as f64, mean.median as f64, mean.high as f64])
    };
    Chart {
        title: "Mean memory charge".to_owned(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("mean charge", Unit::Bytes),
        series: curves(advice, charge),
        ..Chart::default()
    }
}
