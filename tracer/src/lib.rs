// SPDX-License-Identifier: GPL-2.0-or-later

//! Records which pages a program touches, as a plugin of QEMU's user-mode emulation.
//!
//! QEMU calls for every block of instructions, load and store; a filter per thread lets the first touch of a page in each
//! epoch through; records go to the recorder (`isotherm record`) in chunks. How it works, what it costs and what it does
//! not see: `docs/recording.md`.

#![cfg_attr(test, expect(dead_code, reason = "without the emulator nobody calls most of it"))]

mod exec;
mod files;
mod filter;
mod layout;
mod options;
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
mod record;
mod spool;
mod sys;
mod syscall;
mod thread;

/// Says something on the standard error stream: a plugin has no other way when it cannot record at all.
#[expect(clippy::print_stderr, reason = "the emulator shows nothing else of a plugin that fails")]
pub(crate) fn warn(message: &str) {
    eprintln!("isotherm tracer: {message}");
}

/// Stands in for the emulator where there is none.
#[cfg(test)]
mod plugin {
    use std::ffi::CString;
    use std::path::PathBuf;

    use crate::spool::Spool;
    use crate::thread::Thread;

    #[expect(dead_code, reason = "nobody begins threads here")]
    pub(crate) struct Announced {
        pub(crate) uid: u32,
        pub(crate) parent: u32,
        pub(crate) start_ns: u64,
    }

    pub(crate) fn expect_thread(_thread: Announced) {}

    pub(crate) fn expect_no_more(_uid: u32) {}

    pub(crate) fn forget_other_threads(_own: &Thread) {}

    pub(crate) fn argument_for_exec(_spool: &Spool, _uid: u32, _started_by: u32, _start_ns: u64) -> CString {
        CString::default()
    }

    pub(crate) fn program_path() -> Option<PathBuf> {
        None
    }
}
