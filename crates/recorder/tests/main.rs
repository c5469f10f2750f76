//! Recordings under the engine. A single program, so that it is linked once.

mod bad_input;
mod common;
mod record;
