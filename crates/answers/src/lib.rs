//! Results and advice as tables, sentences and pages: what the command and the Python package both show. Nothing is computed here
//! that is not shown, and nothing is printed.

pub mod advice;
mod asked;
pub mod results;

pub use asked::Asked;
