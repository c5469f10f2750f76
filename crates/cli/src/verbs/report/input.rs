//! Input of `isotherm report`: a page trace or a region record, distinguished by content.

use std::io::Read;
use std::path::{Path, PathBuf};

use isotherm_report::records::{self, Survey};
use isotherm_trace::edit::{Moment, Selection, TracePart};
use isotherm_trace::region::{RegionStore, record_span_ns};
use isotherm_trace::{RowBatch, TraceError, TraceMeta, TraceReader, TraceRows};

use isotherm_terminal::BarProgress;

use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::region_files::IntervalArgs;
use crate::verbs::selection::{PlaceArgs, WindowArgs};

/// The file, and the part of it to show.
#[derive(Debug, clap::Args)]
pub(super) struct InputArgs {
    /// A page trace (see `isotherm record` and `isotherm convert import`) or a region record (`isotherm monitor`, damo, the
    /// kernel's text), also one that is still being written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    places: PlaceArgs,
    #[command(flatten)]
    part: PartArgs,
}

/// The same for views of page traces only.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// A page trace (see `isotherm record` and `isotherm convert import`), also one that is still being written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    places: PlaceArgs,
}

/// Flags for region records.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Region records")]
struct PartArgs {
    /// Targets by number or name [default: all but those of schemes].
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    target: Vec<String>,
    #[command(flatten)]
    intervals: IntervalArgs,
}

impl PartArgs {
    fn given(&self) -> Option<&'static str> {
        let target = (!self.target.is_empty()).then_some("--target");
        target.or_else(|| self.intervals.given())
    }
}

/// A file that was opened.
#[derive(Debug)]
pub(super) enum Input {
    Trace(Box<TraceInput>),
    Record(Box<Record>),
}

/// A page trace, or the requested part of it.
#[derive(Debug)]
pub(super) struct TraceInput {
    part: TracePart,
    pub(super) meta: TraceMeta,
}

impl TraceInput {
    /// Runs `analysis`, which reads all rows `passes` times, and shows its progress.
    pub(super) fn analyse<T>(
        &mut self,
        ui: &Ui,
        passes: u64,
        analysis: impl FnOnce(&mut WatchedRows<'_>) -> isotherm_trace::Result<T>,
    ) -> Result<T, CliError> {
        let bar = BarProgress::of(ui, "reading the trace", passes * self.meta.rows);
        let result = analysis(&mut WatchedRows { part: &mut self.part, bar: &bar });
        bar.finish();
        Ok(result?)
    }
}

/// Rows whose reading moves a progress bar on.
pub(super) struct WatchedRows<'a> {
    part: &'a mut TracePart,
    bar: &'a BarProgress,
}

impl TraceRows for WatchedRows<'_> {
    fn meta(&self) -> &TraceMeta {
        self.part.meta()
    }
    fn path(&self) -> &Path {
        self.part.path()
    }
    fn file_bytes(&self) -> u64 {
        self.part.file_bytes()
    }
    fn file_accesses(&self) -> Option<u64> {
        self.part.file_accesses()
    }
    fn for_each_batch(
        &mut self,
        each: &mut dyn FnMut(&RowBatch) -> isotherm_trace::Result<()>,
    ) -> isotherm_trace::Result<()> {
        self.part.for_each_batch(&mut |batch| {
            each(batch)?;
            self.bar.advance(batch.len() as u64);
            Ok(())
        })
    }
}

/// A region record and the requested part of it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) store: RegionStore,
    pub(super) survey: Survey,
}

impl Record {
    /// Runs `analysis` over it with a spinner.
    pub(super) fn analyse<T>(
        &mut self,
        ui: &Ui,
        analysis: impl FnOnce(&mut RegionStore, &Survey) -> isotherm_trace::Result<T>,
    ) -> Result<T, CliError> {
        let spinner = ui.spinner("reading the record");
        let result = analysis(&mut self.store, &self.survey);
        spinner.finish_and_clear();
        Ok(result?)
    }

    /// Caveats to know before trusting numbers from the record.
    pub(super) fn caveats(&self) -> Vec<String> {
        let mut notes = self.survey.caveats();
        notes.extend(records::caveats(&self.store));
        notes
    }
}

impl TraceArgs {
    /// Opens the trace; for a region record the error gives `why`.
    pub(super) fn open(&self, why: &str, ui: &Ui) -> Result<TraceInput, CliError> {
        let Self { file, window, places } = self;
        let input =
            InputArgs { file: file.clone(), window: *window, places: places.clone(), part: PartArgs::default() };
        match input.open(ui)? {
            Input::Trace(trace) => Ok(*trace),
            Input::Record(_) => Err(input.refuse("a region record", why)),
        }
    }
}

impl InputArgs {
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Opens the file as the kind that its content shows.
    pub(super) fn open(&self, ui: &Ui) -> Result<Input, CliError> {
        match self.open_trace(ui) {
            Ok(trace) => Ok(Input::Trace(Box::new(trace?))),
            Err(not_a_trace) => Ok(Input::Record(Box::new(self.open_record(not_a_trace, ui)?))),
        }
    }

    /// The file as a region record, for views that page traces have not got.
    pub(super) fn open_only_record(&self, why: &str, ui: &Ui) -> Result<Record, CliError> {
        match self.open(ui)? {
            Input::Record(record) => Ok(*record),
            Input::Trace(_) => Err(self.refuse("a page trace", why)),
        }
    }

    /// Error: the file is `what`, from which the view cannot be made.
    pub(super) fn refuse(&self, what: &str, why: &str) -> CliError {
        CliError::usage(format!("{} is {what}: {why}", self.file.display()))
    }

    /// `Err`: it is not a page trace, and the reason.
    fn open_trace(&self, ui: &Ui) -> Result<Result<TraceInput, CliError>, TraceError> {
        let reader = match TraceReader::open(&self.file) {
            Ok(reader) => reader,
            Err(error @ TraceError::WrongFormat { .. }) => return Err(error),
            Err(error) => return Ok(Err(error.into())),
        };
        if let Some(flag) = self.part.given() {
            return Ok(Err(self.refuse("a page trace", &format!("{flag} is for region records"))));
        }
        let selection = Selection { from: self.window.from, to: self.window.to, ..self.places.selection() };
        let spinner = ui.spinner("finding the part");
        let part = TracePart::new(reader, &selection);
        spinner.finish_and_clear();
        Ok(part.map_err(CliError::from).map(|part| TraceInput { meta: part.meta().clone(), part }))
    }

    fn open_record(&self, not_a_trace: TraceError, ui: &Ui) -> Result<Record, CliError> {
        let options = self.part.intervals.options()?;
        let spinner = ui.spinner("reading the record");
        let opened = RegionStore::open_with(&self.file, options);
        let mut store = match opened {
            Ok(store) => store,
            // Our own containers differ in their columns, so the error as a trace is the more useful one.
            Err(TraceError::WrongFormat { .. }) if is_container(&self.file) => return Err(not_a_trace.into()),
            Err(error) => return Err(error.into()),
        };
        if let Some(flag) = self.places.given() {
            return Err(self.refuse(
                "a region record",
                &format!("{flag} is for page traces. For records: isotherm convert filter"),
            ));
        }
        let selection = self.selection(&mut store)?;
        let survey = Survey::of(&mut store, &selection);
        spinner.finish_and_clear();
        Ok(Record { survey: survey?, store })
    }

    fn selection(&self, store: &mut RegionStore) -> Result<records::Selection, CliError> {
        let WindowArgs { from, to } = self.window;
        let in_shares = [from, to].into_iter().flatten().any(|moment| matches!(moment, Moment::Share(_)));
        let (start_ns, end_ns) = if in_shares { record_span_ns(store)? } else { (0, 0) };
        let ns = |moment: Option<Moment>| moment.map(|moment| moment.ns_of(end_ns - start_ns));
        Ok(records::Selection { from_ns: ns(from), to_ns: ns(to), targets: self.part.target.clone() })
    }
}

/// Whether the file begins as Parquet or as an Arrow IPC stream.
fn is_container(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && (head == *b"PAR1" || head == [0xff; 4])
}
