//! Tests of the documentation on workloads. One program, so that it is linked once.

mod documentation;
mod sampled_curve;
