//! Advice from question to answer. One program, so that it is linked once.

mod advise;
mod cold_memory;
mod conditions;
mod kills;
mod page;
mod sampling;
