//! `isotherm report compare`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Parser;
use isotherm_report::records::{self, At, IDLE_BOUNDS_NS, RecordPair};
use isotherm_report::traces::{self, PICTURE_CELLS};
use isotherm_report::{Chart, Comparison, HeatmapPair, HtmlPage, Picture, PictureSize, Side, TermStyle};
use isotherm_trace::TraceError;
use isotherm_trace::analysis::{self, IdleAt};
use isotherm_units::{Bytes, Duration};

use super::heatmap::matrix_size;
use super::input::{Input, InputArgs, Record};
use super::output::{Drawing, Outcome, PictureArgs, json};
use super::wss::usual_window_ns;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Compare two region records, or two page traces: working set over time and its distribution, memory by idle time.
///
/// Of region records, heatmaps of both stand side by side: the same addresses, the same times, one scale of colours. Records of different
/// targets are compared with a warning; records of physical and of virtual addresses have no heatmaps in common.
///
/// Times count from the beginning of each file. A region record and a page trace cannot be compared: one holds regions, the other pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm report compare before.regions.parquet after.regions.parquet
  isotherm report compare monday.parquet tuesday.parquet --html compare.html")]
pub(super) struct Args {
    /// The first file, for example from before a change.
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The other.
    #[arg(value_name = "B")]
    other: PathBuf,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// A file without further options.
#[derive(Parser)]
struct Whole {
    #[command(flatten)]
    input: InputArgs,
}

/// Moments of a page trace whose mean idle times are compared.
const MOMENTS: u32 = 20;

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let open = |path: &PathBuf| -> Result<Input, CliError> {
        let whole = Whole::try_parse_from([OsStr::new("compare"), OsStr::new("--"), path.as_os_str()]);
        whole.map_err(|error| CliError::usage(error.to_string()))?.input.open(ui)
    };
    let names = [&args.one, &args.other]
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
    let names =
        if names[0] == names[1] { [args.one.display().to_string(), args.other.display().to_string()] } else { names };
    let title = "Comparison".to_owned();
    let mut notes = vec!["times count from the beginning of each file".to_owned()];
    let (mut heatmaps, mut pair) = (None, None);
    let sides = match (open(&args.one)?, open(&args.other)?) {
        (Input::Trace(one), Input::Trace(other)) => {
            if one.meta.page_bytes != other.meta.page_bytes {
                return Err(CliError::usage(format!(
                    "pages of {} and of {} cannot be compared",
                    Bytes::new(one.meta.page_bytes),
                    Bytes::new(other.meta.page_bytes)
                )));
            }
            // Windows that are multiples of both epochs, or the longer window.
            let window_ns = usual_window_ns(one.meta.epoch_ns).max(usual_window_ns(other.meta.epoch_ns));
            notes.push(format!("working sets in windows of {}", Duration::from_ns(window_ns)));
            let mut sides = Vec::new();
            for (mut trace, name) in [(one, &names[0]), (other, &names[1])] {
                let working_set = trace.analyse(ui, 1, |reader| analysis::wss(reader, window_ns))?;
                let moments =
                    trace.analyse(ui, 2, |reader| analysis::idle(reader, IdleAt::Spread(MOMENTS), IDLE_BOUNDS_NS))?;
                let page_bytes = trace.meta.page_bytes;
                let points = working_set.windows.iter();
                sides.push(Side {
                    name: name.clone(),
                    working_set: points
                        .map(|window| (window.start_ns, window.pages.saturating_mul(page_bytes)))
                        .collect(),
                    end_ns: working_set.windows.last().map_or(0, |window| window.start_ns.saturating_add(window_ns)),
                    idle: Some(traces::idle(&moments, page_bytes)),
                });
                notes.extend(traces::caveats(&trace.meta).into_iter().map(|note| format!("{name}: {note}")));
            }
            sides
        }
        (Input::Record(mut one), Input::Record(mut other)) => {
            match both_heatmaps(args, (&mut one, &mut other), ui) {
                Ok(both) => {
                    let stores = [&one.store, &other.store];
                    pair = records::pair_picture(&both, names.clone(), stores);
                    notes.extend(both.notes.iter().cloned());
                    for (name, left_out_ppm) in names.iter().zip(both.left_out_ppm) {
                        notes.extend(records::left_out(left_out_ppm).map(|words| format!("{name}: {words}")));
                    }
                    heatmaps = Some(both);
                }
                // The rest can still be compared.
                Err(error) => notes.push(format!("no heatmaps: {error}")),
            }
            let (mut sides, mut intervals) = (Vec::new(), Vec::new());
            for (mut record, name) in [(one, &names[0]), (other, &names[1])] {
                let working_set = record.analyse(ui, |store, survey| records::wss(store, survey, 1, 0))?;
                // Records of old kernels have no ages; the rest can still be compared.
                let idle = record.analyse(ui, |store, survey| records::idle(store, survey, At::All));
                let idle = idle.map_err(|error| notes.push(format!("{name}: no idle times: {error}"))).ok();
                sides.push(Side {
                    name: name.clone(),
                    working_set: working_set.points.iter().map(|point| (point.start_ns, point.bytes)).collect(),
                    end_ns: working_set.points.last().map_or(0, |point| point.time_ns),
                    idle,
                });
                intervals.push(
                    record
                        .store
                        .meta()
                        .contexts
                        .iter()
                        .map(|context| context.intervals.aggregation_ns)
                        .collect::<Vec<_>>(),
                );
                notes.extend(record.caveats().into_iter().map(|note| format!("{name}: {note}")));
            }
            if intervals.windows(2).any(|pair| pair[0] != pair[1]) {
                notes.push(
                    "the aggregation intervals differ: a longer one finds more memory in use, so that changes may come from it alone"
                        .to_owned(),
                );
            }
            sides
        }
        (Input::Trace(_), Input::Record(_)) | (Input::Record(_), Input::Trace(_)) => {
            return Err(CliError::usage(
                "a page trace and a region record cannot be compared: `isotherm monitor TRACE -o RECORD` makes a record of the trace",
            ));
        }
    };
    let Ok(sides) = <[Side; 2]>::try_from(sides) else { return Err(CliError::failed("there are two files")) };
    let comparison = Comparison { sides, heatmaps };
    let drawing = Drawings { pair, chart: comparison.chart() };
    let tables = comparison.tables();
    let outcome = Outcome {
        title,
        drawing: Some(&drawing),
        csv: &|| tables[0].clone(),
        tables: comparison.tables(),
        json: &|| json(&comparison),
        notes,
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

/// Both records on the same axes: fine for pictures, and as many cells as the user wants for numbers.
fn both_heatmaps(args: &Args, (one, other): (&mut Record, &mut Record), ui: &Ui) -> Result<RecordPair, TraceError> {
    let cells = match args.format.format {
        Format::Table => (PICTURE_CELLS.columns, PICTURE_CELLS.rows),
        Format::Json | Format::Csv => matrix_size(&args.picture),
    };
    let fold_bytes = PICTURE_CELLS.fold_pages * isotherm_units::PAGE_BYTES;
    let spinner = ui.spinner("reading the records");
    let both =
        records::heatmap_pair((&mut one.store, &one.survey), (&mut other.store, &other.survey), cells, fold_bytes);
    spinner.finish_and_clear();
    both
}

/// Heatmaps side by side, where there are any, and working sets below.
struct Drawings {
    pair: Option<HeatmapPair>,
    chart: Chart,
}

impl Drawings {
    /// The part of a picture's height that the heatmaps take: 3 of 5.
    fn heights(size: PictureSize) -> [PictureSize; 2] {
        let upper = size.height * 3 / 5;
        [PictureSize { height: upper, ..size }, PictureSize { height: size.height - upper, ..size }]
    }
}

impl Drawing for Drawings {
    fn usual_size(&self) -> PictureSize {
        let chart = self.chart.usual_size();
        if self.pair.is_some() { PictureSize { height: chart.height * 5 / 2, ..chart } } else { chart }
    }
    fn picture(&self, size: PictureSize) -> Picture {
        let Some(pair) = &self.pair else { return Drawing::picture(&self.chart, size) };
        let [upper, lower] = Self::heights(size);
        pair.picture(upper).above(Drawing::picture(&self.chart, lower), 0.0)
    }
    fn text(&self, style: &TermStyle) -> String {
        let pair = self.pair.as_ref().map(|pair| pair.to_text(style) + "\n");
        pair.unwrap_or_default() + &self.chart.text(style)
    }
    fn put_on(&self, page: &mut HtmlPage, size: PictureSize) {
        let Some(pair) = &self.pair else { return self.chart.put_on(page, size) };
        let [upper, lower] = Self::heights(size);
        page.heatmap_pair(pair, upper);
        self.chart.put_on(page, lower);
    }
}
