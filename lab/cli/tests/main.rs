//! Tests of the lab's command. One program, so that it is linked once.

mod fidelity;
mod verify;
