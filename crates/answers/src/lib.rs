//! Results and advice as tables, sentences and pages: used by the command and the Python package. Nothing is printed here.

pub mod advice;
mod overrides;
pub mod results;

pub use overrides::Asked;
