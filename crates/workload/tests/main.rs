//! What pages of the documentation say of workloads. One program, so that it is linked once.

mod documentation;
mod sampled_curve;
