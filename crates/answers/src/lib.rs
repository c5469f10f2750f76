//! Results as tables, and scenarios as they are asked for: used by the command and the Python package. Nothing is printed here.

mod overrides;
pub mod results;

pub use overrides::Asked;
