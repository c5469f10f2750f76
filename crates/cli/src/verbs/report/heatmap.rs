//! `isotherm report heatmap`.

use std::path::{Path, PathBuf};

use isotherm_report::records::{self, Grid, Shown, ShownBand, Survey};
use isotherm_report::traces::{self, PICTURE_CELLS};
use isotherm_trace::TraceReader;
use isotherm_trace::analysis::{self, HeatmapOptions};
use isotherm_trace::region::RegionStore;

use super::input::{Input, InputArgs, Record, TraceInput};
use super::output::{Outcome, PictureArgs, json, json_in_pages};
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Draw which memory was in use when: time to the right, addresses upwards, colour for how hot.
///
/// For a page trace, colour is touches per page and second; for a region record, the share of checks that found an access. Address space
/// without accesses is folded away. With --format json or csv, --width and --height are the columns and rows of the matrix [default: 120
/// and 60].
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Region records: show all that was monitored, not only the busy part.
    #[arg(long, conflicts_with = "bands_of")]
    all: bool,
    /// Region records: show the ranges that the heatmap of this page trace shows, under their names, to compare the two.
    #[arg(long, value_name = "TRACE")]
    bands_of: Option<PathBuf>,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    match args.input.open(ui)? {
        Input::Trace(mut trace) => of_trace(args, &mut trace, ui),
        Input::Record(mut record) => of_record(args, &mut record, ui),
    }
}

fn of_trace(args: &Args, trace: &mut TraceInput, ui: &Ui) -> Result<(), CliError> {
    if args.all || args.bands_of.is_some() {
        let flag = if args.all { "--all" } else { "--bands-of" };
        return Err(args.input.refuse("a page trace", &format!("{flag} is for region records")));
    }
    let format = args.format.format;
    let matrix = trace.analyse(ui, 2, |reader| match format {
        Format::Table => analysis::heatmap(reader, &PICTURE_CELLS),
        Format::Json | Format::Csv => {
            let (columns, rows) = matrix_size(&args.picture);
            analysis::heatmap(reader, &HeatmapOptions { columns, rows, ..HeatmapOptions::default() })
        }
    })?;
    let meta = &trace.meta;
    let drawing = traces::heatmap(&matrix, meta);
    let mut notes = traces::heatmap_caveats(&matrix);
    notes.extend(traces::caveats(meta));
    let outcome = Outcome {
        title: "Memory over time".into(),
        drawing: Some(&drawing),
        tables: Vec::new(),
        csv: &|| traces::heatmap_csv(&matrix, meta),
        json: &|| json_in_pages(&matrix, meta),
        notes,
    };
    outcome.put_out(&args.picture, format, ui)
}

fn of_record(args: &Args, record: &mut Record, ui: &Ui) -> Result<(), CliError> {
    let format = args.format.format;
    let (columns, rows) = match format {
        Format::Table => (PICTURE_CELLS.columns, PICTURE_CELLS.rows),
        Format::Json | Format::Csv => matrix_size(&args.picture),
    };
    let shown = match &args.bands_of {
        Some(trace) => Shown::Bands(bands_of(trace, rows, &record.store, &record.survey, ui)?),
        None if args.all => Shown::All,
        None => Shown::Busy,
    };
    let fold_bytes = PICTURE_CELLS.fold_pages * isotherm_units::PAGE_BYTES;
    let grid = Grid { columns, rows, fold_bytes, shown };
    let map = record.analyse(ui, |store, survey| records::heatmap(store, survey, &grid))?;
    let drawing = records::heatmap_picture(&map, &record.store);
    let mut notes = records::heatmap_caveats(&map);
    notes.extend(record.caveats());
    let outcome = Outcome {
        title: "Memory over time".into(),
        drawing: Some(&drawing),
        tables: Vec::new(),
        csv: &|| records::heatmap_csv(&map, &record.store),
        json: &|| json(&map),
        notes,
    };
    outcome.put_out(&args.picture, format, ui)
}

/// Columns and rows of a matrix that is printed as numbers.
pub(super) fn matrix_size(picture: &PictureArgs) -> (u32, u32) {
    (picture.width().unwrap_or(120), picture.height().unwrap_or(60))
}

/// The bands of a trace's heatmap. Its processes are the record's targets: matched by PID, or by order for targets without a PID.
fn bands_of(
    trace: &Path,
    rows: u32,
    store: &RegionStore,
    survey: &Survey,
    ui: &Ui,
) -> Result<Vec<ShownBand>, CliError> {
    let mut reader = TraceReader::open(trace)?;
    let spinner = ui.spinner("reading the trace");
    let matrix = analysis::heatmap(&mut reader, &HeatmapOptions { rows, ..PICTURE_CELLS });
    spinner.finish_and_clear();
    let meta = reader.meta();
    let targets = &store.meta().targets;
    let target_of = |process: usize| {
        let pid = meta.processes.get(process).map(|process| process.pid).filter(|&pid| pid != 0);
        let by_pid = survey.targets.iter().find(|&&target| pid.is_some() && targets[target as usize].pid == pid);
        by_pid.or_else(|| survey.targets.get(process)).copied()
    };
    let drawn = traces::heatmap(&matrix?, meta);
    let mut bands: Vec<ShownBand> = (drawn.bands.into_iter())
        .filter_map(|band| {
            let rows = u32::try_from(band.rows).unwrap_or(u32::MAX);
            Some(ShownBand {
                target: target_of(band.space)?,
                label: band.label,
                start: band.start,
                end: band.end,
                rows,
            })
        })
        .collect();
    bands.sort_by_key(|band| (band.target, band.start));
    if bands.is_empty() {
        return Err(CliError::usage(format!("{} has no memory that the record has, too", trace.display())));
    }
    Ok(bands)
}
