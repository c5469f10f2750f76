//! The recording, and one replay of the recommended configuration, over time and over memory: pictures of the page.

use std::path::Path;

use crate::Advice;
use isotherm_report::records::IDLE_BOUNDS_NS;
use isotherm_report::{Axis, Chart, HtmlPage, PictureSize, Reference, Series, Unit, traces};
use isotherm_trace::TraceReader;
use isotherm_trace::analysis::{self, IdleAt, Sampling};
use isotherm_units::PAGE_BYTES;

const SIZE: PictureSize = PictureSize { width: 960, height: 360 };
/// Moments and windows of a curve over time.
const MOMENTS: u32 = 200;

/// Which memory was used when. The result is the end of the recording, in nanoseconds.
pub(super) fn heatmap(page: &mut HtmlPage, trace: &Path) -> isotherm_trace::Result<u64> {
    page.fold("Memory over time", "a heatmap of which memory was used when");
    page.paragraph("Which pages the program touched, and when. Unmapped address space is folded away.");
    let heatmap = traces::heatmap_of_file(trace)?;
    page.heatmap(&heatmap, PictureSize { width: 960, height: 640 });
    Ok(heatmap.end_ns)
}

/// Curves that few readers need, folded. The recording ends at `end_ns`.
pub(super) fn folded(page: &mut HtmlPage, advice: &Advice, trace: &Path, end_ns: u64) -> isotherm_trace::Result<()> {
    used_and_idle(page, trace, end_ns)?;
    if !advice.course.is_empty() {
        let inside = "charts of its memory charge and major faults in one replay";
        page.fold("The recommended configuration over time", inside);
        page.paragraph(
            "One replay at the recommended size. Times are the simulated clock's, which goes on while the program waits for memory: they \
             lie a little behind those of the recording.",
        );
        page.chart(&charge_chart(advice), SIZE).chart(&fault_chart(advice), SIZE);
    }
    misses(page, advice, trace)
}

/// How much memory is in use, and how much lies idle, over the time of the recording.
fn used_and_idle(page: &mut HtmlPage, trace: &Path, end_ns: u64) -> isotherm_trace::Result<()> {
    let mut reader = TraceReader::open(trace)?;
    let meta = reader.meta().clone();
    let epoch_ns = meta.epoch_ns.max(1);
    let window_ns = (end_ns / u64::from(MOMENTS)).max(1).checked_next_multiple_of(epoch_ns).unwrap_or(epoch_ns);
    let wss = analysis::wss(&mut reader, window_ns)?;
    let moments = analysis::idle(&mut TraceReader::open(trace)?, IdleAt::Spread(MOMENTS), IDLE_BOUNDS_NS)?;
    page.fold(
        "Working set and idle memory",
        "charts of what was used in each moment, and for how long the rest was not",
    );
    page.chart(&traces::wss_chart(&wss, &meta), SIZE).chart(&traces::idle_course_chart(&moments, &meta), SIZE);
    Ok(())
}

/// The miss-ratio curve.
fn misses(page: &mut HtmlPage, advice: &Advice, trace: &Path) -> isotherm_trace::Result<()> {
    let mut reader = TraceReader::open(trace)?;
    let meta = reader.meta().clone();
    let mut misses = traces::mrc_chart(&analysis::mrc_sampled(&mut reader, Sampling::Auto)?, &meta);
    if let Some(best) = &advice.recommendation {
        misses.references.push(Reference::AtX { value: best.memory_bytes as f64, label: "recommended".to_owned() });
    }
    page.fold("Misses at every size", "the miss-ratio curve of an exact LRU memory");
    page.paragraph(
        "The share of touches that an exact LRU memory of each size would miss. Linux does not do exact LRU; where this curve is steep, a \
         little memory decides much.",
    );
    page.chart(&misses, SIZE);
    Ok(())
}

fn charge_chart(advice: &Advice) -> Chart {
    let points = advice.course.iter().map(|row| (row.at_ns as f64, (row.usage_pages * PAGE_BYTES) as f64)).collect();
    let limit = advice.recommendation.as_ref().map(|best| best.memory_bytes as f64);
    let references = limit.map(|value| Reference::AtY { value, label: "limit".to_owned() });
    Chart {
        title: "Memory charge".to_owned(),
        x: Axis::new("simulated time", Unit::Ns),
        y: Axis::new("charge", Unit::Bytes),
        series: vec![Series::line("charge", points)],
        references: references.into_iter().collect(),
        ..Chart::default()
    }
}

/// Faults and waiting between one moment and the next, as rates.
fn fault_chart(advice: &Advice) -> Chart {
    let rates = advice.course.windows(2).map(|pair| {
        let [from, to] = pair else { return (0.0, 0.0) };
        let seconds = to.at_ns.saturating_sub(from.at_ns) as f64 / 1e9;
        (from.at_ns as f64, to.major_faults.saturating_sub(from.major_faults) as f64 / seconds.max(1e-9))
    });
    Chart {
        title: "Major faults".to_owned(),
        x: Axis::new("simulated time", Unit::Ns),
        y: Axis::new("major faults", Unit::PerSecond),
        series: vec![Series::step("major faults", rates.collect())],
        ..Chart::default()
    }
}
