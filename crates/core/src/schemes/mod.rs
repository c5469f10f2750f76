//! Operation schemes: actions on memory of a certain access pattern, with limits of their amount, time and place.
//!
//! A monitor shows its regions to its schemes. Each has a pattern, an action, and things that hold it back: quotas with priorities and
//! goals, watermarks, filters. The reasons that held it back are counted region by region ([`Why`]); [`explain()`] gives them as text.
//!
//! Behaviour follows DAMOS of Linux 7.2; departures are described where they are made. Sections named in comments are sections of the
//! project's specification `docs/spec/schemes.md`. Design and departures in one place: `docs/mechanism/schemes.md`.

mod engine;
mod error;
mod explain;
#[cfg(test)]
pub(crate) mod fake;
mod feedback;
mod filter;
mod goal;
mod outcomes;
mod pass;
mod pattern;
mod places;
mod priority;
mod quota;
mod report;
mod scheme;
#[cfg(test)]
mod tests;
mod walk;
mod watermark;

pub use crate::vocabulary::{
    ACTIONS, Action, ActionEntry, Destination, FILTER_TYPES, FilterEntry, FilterType, Layer, METRICS, Metric,
    MetricEntry, PageFilter, PageFilters, PageTest, Scorer, choose, interleave_index,
};
pub use error::SchemeError;
pub use explain::explain;
pub use feedback::feedback;
pub use filter::{Filter, FilterRange};
pub use goal::{Goal, Tuner};
pub use outcomes::{REASONS, Reason, Tally, Why};
pub use pattern::{AccessPattern, Age, Bounds, Frequency};
pub use places::Place;
pub use quota::{FailCharge, Quotas, Weights};
pub use report::{SchemeReport, Stats, TriedRegion};
pub use scheme::Scheme;
pub use watermark::{WatermarkMetric, Watermarks};

pub(crate) use engine::Engine;
pub(crate) use pass::{Outcome, Pass};
pub(crate) use scheme::admit;
