//! The lab's command, from outside. One program, so that it is linked once.

mod fidelity;
mod verify;
