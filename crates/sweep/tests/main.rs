//! Sweeps from space to dataset.

mod sweep;
