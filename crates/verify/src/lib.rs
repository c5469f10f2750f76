//! Runs of a command on this machine, alone and under memory limits, and what they say about a recommendation. Each run has a control
//! group of its own. Nothing else of the machine is changed.

mod design;
mod error;
mod files;
mod judge;
mod machine;
mod run;
mod stated;
mod tables;

pub use design::{Design, Size, Starts, Turn, usual_pairs};
pub use error::VerifyError;
pub use files::Files;
pub use judge::{Asked, Basis, Judged, Verdict, judge};
pub use machine::{Refusal, disturbs};
pub use run::{End, Order, Run, Start, run};
pub use stated::{Stated, stated};
pub use tables::{sentence, table};
