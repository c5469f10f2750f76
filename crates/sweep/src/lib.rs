//! Many runs: a scenario, a space of keys to vary in it, and a dataset that holds one file of Parquet for each run.
//!
//! A [`Space`] lists the keys to vary. A [`Plan`] is the list of its runs, each with an identity of its content. [`play`]
//! plays one, anywhere; a [`Dataset`] keeps the answers, in files that depend on nothing but space, build and recordings; and
//! [`local`] has processes of this machine play runs that the dataset lacks. A cluster does the same with [`Job`]s and
//! [`Answer`]s, which are text.
//!
//! Usage: `docs/use/tune.md#sweeps`.

mod axis;
mod cost;
mod dataset;
mod encode;
mod error;
mod job;
pub mod local;
mod plan;
mod points;
mod space;
mod wire;

pub use dataset::{Dataset, Missing};
pub use error::{RUNS_MAX, SweepError};
pub use job::{Answer, Ending, Job, JobRow, play};
pub use plan::{Plan, PlanOptions, Run};
pub use points::nr_runs;
pub use space::{Axis, Draws, Method, Scale, Space};
pub use wire::serve;
