//! Only for the fuzzing harness: the kernel's texts that a run without an engine reads.

use crate::native::{memory_in, stall_in};

/// Parses the text as each format, and as the text of two processes together.
pub fn read_texts(text: &str) {
    let mut memory = memory_in(text);
    memory.add(&memory_in(text));
    stall_in(text);
}
