//! Recordings under the engine. One program, so that it is linked once.

mod bad_input;
mod common;
mod record;
