//! Experiments as data: machine × workloads × policy, variants × repeats, statistics, references.
//!
//! A scenario is a TOML file ([`Scenario`]); [`run()`] plays it in parallel with results that do not depend on the number of threads;
//! [`monitoring`] watches one; [`single`] makes one machine of it, for callers that judge outcomes themselves; [`damo`] reads and writes
//! monitors and schemes in the format of DAMON's user-space tool.

mod assemble;
mod averages;
mod bundled;
mod compaction;
mod config;
mod daemons;
pub mod damo;
mod error;
mod event;
mod expectations;
mod extensions;
mod generations;
mod identity;
mod keys;
mod limits;
mod metrics;
pub mod monitoring;
mod parse;
mod releases;
mod result;
mod rows;
mod run;
mod scope;
mod share;
pub mod single;
mod stats;
mod tiering;
mod validate;
pub use validate::unknown_metric;
mod variant;
mod world;

pub use averages::{AverageOf, AverageSpec};
pub use bundled::{BUNDLED, Bundled, data_file};
pub use compaction::CompactionSpec;
pub use config::{CgroupSpec, Matrix, Reference, RunMode, Scenario, VariantSpec, WorkloadEntry};
pub use error::ScenarioError;
pub use event::{EventSpec, LimitValue, MglruSpec, PromotionWrite, ReclaimSpec, ScaleSpec, SetSpec};
pub use expectations::{ExpectationRow, ExpectationSpec};
pub use extensions::Extensions;
pub use generations::GenerationsSpec;
pub use identity::{Digests, digest_of_file, digest_of_text, identity};
pub use keys::set_key;
pub use metrics::{METRICS, Metric, MetricUnit, Sample};
pub use parse::{load, load_extended, load_with_note, parse, parse_extended, print};
pub use releases::side_by_side;
pub use result::{KilledRow, RatioRow, ResultRow, ScenarioResult, Spread};
pub use run::{Progress, RunOptions, run, run_extended};
pub use share::Share;
pub use stats::Summary;
pub use world::WorldSpec;
