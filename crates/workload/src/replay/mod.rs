//! Kind `trace`: plays a page trace.
//!
//! Each recorded thread becomes a stream; layout changes, thread starts, forks and idle times come back at their places.
//! CPU time is spread over the rows of an epoch, so that a thread computes exactly as long as it was recorded to.

mod decode;
mod epoch_order;
mod held;
mod script;
mod store;
mod stream;
mod timeline;

use std::path::PathBuf;
use std::sync::Arc;

use isotherm_trace::TraceReader;
use isotherm_units::access::{FileKind, Program, Stream, Thread, Timing};
use isotherm_units::{PAGE_BYTES, Ratio};
use serde::{Deserialize, Serialize};

pub use epoch_order::EpochOrder;
use script::Outline;
pub use store::TraceStore;
use stream::{Part, Replay, Rounds, Transform};

use crate::phases::one_after_the_other;
use crate::spec::Kind;
use crate::{BuildContext, WorkloadError, order};

/// Plays a page trace that was recorded or imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TraceSpec {
    /// The trace; relative to the scenario's folder. Up to 128 M rows it is held in memory and shared by all variants (16 bytes a row, 8
    /// from 16 M rows on), beyond that it is decoded while it is played.
    pub path: PathBuf,
    /// How often it is played, one time after the other. A single thread without layout changes (an imported request trace) keeps its
    /// memory between rounds; any other program begins again. Default 1.
    #[serde(default = "default_repeat")]
    pub repeat: u64,
    /// Recorded CPU and idle times are multiplied by this, above 0 to 10000 %: `50%` plays on a machine twice as fast.
    /// Default 100 %.
    #[serde(default = "default_time_scale")]
    pub time_scale: Ratio,
    /// Number of times that each epoch is played before the next: the program works that many times as long on the same memory, as fast as
    /// before. Where mappings change or the thread sleeps within an epoch, the parts between are repeated; idle times become as many times
    /// as long. Not for traces without epochs. Default 1.
    #[serde(default = "default_epoch_repeat")]
    pub epoch_repeat: u32,
    /// Kind of access as which rows are played. Default `recorded`.
    #[serde(default, rename = "as")]
    pub play_as: PlayAs,
    /// The order of pages within an epoch. Default `recorded`: the rows as they stand.
    #[serde(default, rename = "epoch-order")]
    pub order: EpochOrder,
}

/// Kind of access as which the rows of a trace are played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayAs {
    /// As they were.
    #[default]
    Recorded,
    /// All accesses are loads.
    Read,
    /// All accesses are stores, so that the first touch of a page allocates it: for request traces of caches.
    Write,
}

fn default_repeat() -> u64 {
    1
}
fn default_epoch_repeat() -> u32 {
    1
}
fn default_time_scale() -> Ratio {
    Ratio::ONE
}

impl TraceSpec {
    /// The trace at `path`, all else by default.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            repeat: default_repeat(),
            time_scale: default_time_scale(),
            epoch_repeat: default_epoch_repeat(),
            play_as: PlayAs::default(),
            order: EpochOrder::default(),
        }
    }
}

impl Kind for TraceSpec {
    const NAME: &'static str = "trace";
    const SUMMARY: &'static str = "a page trace, recorded by `isotherm record` or imported";
    const EXAMPLE: &'static str = "kind = \"trace\"\npath = \"sqlite.parquet\"\nrepeat = 2\ntime-scale = \"50%\"\n\
                                   epoch-repeat = 20\nas = \"recorded\"\nepoch-order = \"recorded\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        if self.repeat == 0 {
            return Err(WorkloadError::field(Self::NAME, "repeat", 0, "1 or more"));
        }
        if self.time_scale == Ratio::ZERO || self.time_scale > Ratio::from_percent(10_000) {
            return Err(WorkloadError::field(Self::NAME, "time-scale", self.time_scale, "more than 0%, up to 10000%"));
        }
        if self.epoch_repeat == 0 {
            return Err(WorkloadError::field(Self::NAME, "epoch-repeat", 0, "1 or more"));
        }
        let path = context.resolve(&self.path);
        let error = |source| WorkloadError::Trace { path: path.clone(), source };
        let reader = TraceReader::open(&path).map_err(error)?;
        let outline = self.outline(reader, context)?;
        if self.epoch_repeat > 1 && outline.epoch_ns == 0 {
            let problem = format!("`epoch-repeat` is {}, but {} has no epochs", self.epoch_repeat, path.display());
            return Err(WorkloadError::contradiction(Self::NAME, problem, "use `repeat`"));
        }
        if self.order != EpochOrder::default() && outline.epoch_ns == 0 {
            let problem = format!("`epoch-order` is `scattered`, but {} has no epochs", path.display());
            return Err(WorkloadError::contradiction(Self::NAME, problem, "leave it out: its rows have an order"));
        }
        let in_place = outline.keeps_memory_between_rounds();
        if self.repeat > 1 && !in_place {
            let rounds = (0..self.repeat).map(|_| self.program(&outline, 1, context)).collect::<Result<Vec<_>, _>>()?;
            return Ok(one_after_the_other(context.name_or(Self::NAME), rounds));
        }
        let mut program = self.program(&outline, self.repeat, context)?;
        if context.want_future {
            let build = || self.program(&outline, self.repeat, context);
            let key = (self.play_as, self.time_scale, self.epoch_repeat, self.repeat);
            program.future = Some(outline.future(key, || order::future_of(Self::NAME, build))?);
        }
        Ok(program)
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

impl TraceSpec {
    /// The description of the trace, with its rows if they are few.
    fn outline(&self, mut reader: TraceReader, context: &BuildContext) -> Result<Arc<Outline>, WorkloadError> {
        let path = reader.path().to_owned();
        context.traces.outline(&path, self.order, || {
            let page_bytes = reader.meta().page_bytes;
            if page_bytes < PAGE_BYTES || !page_bytes.is_power_of_two() {
                return Err(WorkloadError::contradiction(
                    Self::NAME,
                    format!("{} counts in pages of {page_bytes} bytes", path.display()),
                    "record or import it with pages of 4096 bytes or a power of two above",
                ));
            }
            if reader.meta().rows == 0 {
                return Err(WorkloadError::contradiction(
                    Self::NAME,
                    format!("{} holds no accesses", path.display()),
                    "record a program that runs longer than an epoch, or import another file",
                ));
            }
            Outline::read(&mut reader, self.order, &context.traces)
        })
    }

    fn program(&self, outline: &Arc<Outline>, rounds: u64, context: &BuildContext) -> Result<Program, WorkloadError> {
        let name = context.name_or(Self::NAME);
        let transform =
            Transform { play_as: self.play_as, time_scale: self.time_scale, epoch_repeat: self.epoch_repeat };
        let timeline = Arc::new(outline.timeline());
        let parts: Vec<Part> = match &outline.script {
            Some(script) => (0..outline.threads.len()).map(|thread| Part::whole(Arc::clone(script), thread)).collect(),
            None => Part::live(outline, &timeline, &context.traces)?,
        };
        let threads = outline.threads.iter().zip(parts).enumerate().map(|(index, (thread, part))| {
            let rounds = Rounds { left: rounds - 1, count_operations: outline.epoch_ns == 0 };
            let stream: Box<dyn Stream> =
                Box::new(Replay::new(index, part, Arc::clone(&timeline), transform, rounds, outline.epoch_ns));
            Thread { process: thread.process, start: thread.start, stream }
        });
        let threads = threads.collect();
        let mut files = outline.files.clone();
        // Shared memory belongs to this program alone, unlike files, whose paths are names for all.
        for file in files.iter_mut().filter(|file| file.kind == FileKind::SharedMemory) {
            file.name = format!("{name}.{}", file.name);
        }
        let timing = if outline.epoch_ns == 0 { Timing::Modelled } else { Timing::Recorded };
        Ok(Program { name, files, processes: outline.processes.clone(), threads, timing, future: None })
    }
}

#[cfg(test)]
mod tests;
