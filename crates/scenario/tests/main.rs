//! Scenarios from file to result. One program, so that it is linked once.

mod bad_input;
mod damo;
mod digests;
mod documented;
mod generations;
mod limits;
mod mglru;
mod mglru_evaluation;
mod monitoring;
mod places;
mod plrus;
mod scenarios;
