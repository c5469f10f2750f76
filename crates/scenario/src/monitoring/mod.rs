//! Monitors on simulated machines: findings, cost, accuracy.
//!
//! For front ends. A [`Watch`] is a replay with a monitor: [`Watch::trace`] of a page trace, [`Watch::scenario`] of a run of a
//! scenario. [`watch()`] plays it and hands every snapshot, as a record holds it, to a callback; [`Watch::record_meta`] is the
//! metadata for the record's writer. [`accuracy()`] plays it and judges the monitor against ground truth, page by page;
//! [`cheapest()`] does so for a table of [`settings()`] in parallel and selects one.
//!
//! A [`Replay`] is a run of a scenario with all its monitors: their reports have the results of schemes
//! ([`MonitorReport::schemes`]), an [`ExplainedRun`] also as text.
//!
//! ```no_run
//! use isotherm_core::monitor::MonitorConfig;
//! use isotherm_scenario::monitoring::{Watch, accuracy, watch};
//! use isotherm_trace::region::RegionWriter;
//! use std::ops::ControlFlow;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let replay = Watch::trace("traces/sqlite.parquet", 0, MonitorConfig::default())?;
//! let mut writer = RegionWriter::create("sqlite.regions.parquet", replay.record_meta())?;
//! let mut failed = None;
//! let watched = watch(&replay, &mut |snapshot| match writer.push(snapshot) {
//!     Ok(()) => ControlFlow::Continue(()),
//!     Err(error) => {
//!         failed = Some(error);
//!         ControlFlow::Break(())
//!     }
//! })?;
//! failed.map_or(Ok(()), Err)?;
//! writer.set_outcome(true)?;
//! writer.finish()?;
//! println!("{:.0} checks/s", watched.monitor.checks_per_second());
//!
//! let scores = accuracy(&replay)?.monitor.scores.expect("a process can be judged");
//! println!("{:?}", scores.definitions[0].main());
//! # Ok(())
//! # }
//! ```
//!
//! Definitions of "hot", the comparisons, and the time to converge: `docs/evidence/ptp.md`.

mod attach;
mod carried;
mod check;
mod explained;
mod hot;
mod record;
mod replay;
mod report;
mod score;
mod search;
mod spans;
mod spec;
mod touched;
mod watch;

pub use explained::{ExplainedMonitor, ExplainedRun, ExplainedScheme};
pub use hot::{HOT_DEFINITIONS, HotDefinition};
pub use record::{record_region, record_snapshots};
pub use replay::Replay;
pub use report::{CYCLES_PER_NS, MonitorReport};
pub use score::{DefinitionScore, Detection, GOOD, Scores};
pub use search::{Search, Setting, Tried, cheapest, settings};
pub use spec::{MonitorSpec, RangeSpec};
pub use watch::{Watch, Watched, accuracy, watch};

pub(crate) use attach::{Observer, WatchPlan, Watching};
pub(crate) use check::files;

use isotherm_core::monitor::Operations;

/// The name of an address space, as DAMON calls it.
fn operations_name(operations: Operations) -> &'static str {
    match operations {
        Operations::Vaddr => "vaddr",
        Operations::Fvaddr => "fvaddr",
        Operations::Paddr => "paddr",
    }
}
