//! The harness, and each target. One program, so that it is linked once.

mod harness;
mod targets;
