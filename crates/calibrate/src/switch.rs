//! Switching a processor from one process to another: two processes on one processor wake each other through pipes in turns.

use crate::pin::Pinned;
use crate::probes::{Quietest, Series, each, samples};
use isotherm_linux::{Process, Root, process_cpu_time};
use rustix::io::{read, write};
use rustix::pipe::pipe;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

/// Turns of one sample.
const TURNS: u32 = 2000;
/// Samples of the system calls alone.
const CALLS: u32 = 4 * TURNS;

/// What the other process does: gives back each byte that it is given, until there are no more.
///
/// # Errors
/// As of read(2) and write(2).
pub fn echo() -> std::io::Result<()> {
    let mut byte = [0; 1];
    let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    while read(stdin, &mut byte)? > 0 {
        write(stdout, &byte)?;
    }
    Ok(())
}

/// Measures with `command`, which calls [`echo`].
///
/// # Errors
/// The processes cannot be made, or cannot be kept on one processor.
pub(crate) fn measure(command: &[OsString], quietest: &mut Quietest) -> std::io::Result<()> {
    let nothing = || std::io::Error::other("there is no command that answers");
    let (program, arguments) = command.split_first().ok_or_else(nothing)?;
    // The other process starts on the processor of its parent, and stays there.
    let _pinned = Pinned::to(rustix::thread::sched_getcpu())?;
    quietest.add(Series::PipeCalls, samples(|| calls().ok()));
    let mut other = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (Some(mut to), Some(mut from)) = (other.stdin.take(), other.stdout.take()) else { return Err(nothing()) };
    let mut turns = || -> std::io::Result<()> {
        let mut byte = [1];
        (0..TURNS).try_for_each(|_| to.write_all(&byte).and_then(|()| from.read_exact(&mut byte)))
    };
    // The first turn waits for the program to start.
    let has_answered = turns();
    let mut is_answered = true;
    let switches = has_answered.and_then(|()| {
        let process = Process::open(&Root::default(), other.id()).map_err(std::io::Error::other)?;
        Ok(samples(|| {
            // Both processes' time: one of them has the processor, or another program, whose time is not counted.
            let before = process_cpu_time(&process).ok()?;
            let own = each(1, || is_answered &= turns().is_ok());
            let spent = own + process_cpu_time(&process).ok()?.saturating_sub(before).ns() as f64;
            is_answered.then_some(spent / f64::from(2 * TURNS))
        }))
    });
    drop((to, from));
    other.wait()?;
    quietest.add(Series::PipeSwitch, switches?);
    Ok(())
}

/// One write to a pipe and one read of it, without a switch, in ns.
fn calls() -> std::io::Result<f64> {
    let (from, to) = pipe()?;
    let mut byte = [1];
    let mut done = Ok(());
    let ns = each(CALLS as usize, || {
        done = (0..CALLS).try_for_each(|_| write(&to, &byte).and_then(|_| read(&from, &mut byte)).map(drop));
    });
    done?;
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_do_not_answer_are_errors_and_the_thread_is_free_again() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let mut quietest = Quietest::default();
        for command in [&["cat".into()] as &[OsString], &["/no/such/program".into()], &["true".into()], &[]] {
            assert_eq!(measure(command, &mut quietest).is_ok(), command == ["cat"], "{command:?}");
        }
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
    }
}
