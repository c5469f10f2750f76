//! Time on a live machine, and CPU time of processes.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use isotherm_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::process::Process;
use crate::{LiveError, sys};

/// Time since it was made, and a sleep that signals end. Time stands still while the machine is suspended.
#[derive(Debug)]
pub struct Stopwatch {
    started_ns: u64,
    /// Readable once a signal has come that asks us to end.
    wake: OwnedFd,
    caught: Vec<SigId>,
}

impl Stopwatch {
    /// Starts now, and catches SIGINT, SIGTERM, SIGHUP and SIGQUIT until it is dropped.
    ///
    /// # Errors
    /// When signals cannot be caught: too many open files.
    pub fn start() -> std::io::Result<Self> {
        let (wake, write) = UnixStream::pair()?;
        let mut caught = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            caught.push(signal_hook::low_level::pipe::register(signal, write.try_clone()?)?);
        }
        Ok(Self { started_ns: clock_ns(ClockId::Monotonic), wake: wake.into(), caught })
    }

    /// Since the start.
    pub fn now(&self) -> Instant {
        Instant::from_ns(clock_ns(ClockId::Monotonic).saturating_sub(self.started_ns))
    }

    /// Sleeps until then. `false`: a signal has come that asks us to end, now or before.
    pub fn sleep_until(&self, until: Instant) -> bool {
        loop {
            let left = until.since(self.now()).ns();
            let seconds = i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX);
            let timeout = Timespec { tv_sec: seconds, tv_nsec: i64::try_from(left % 1_000_000_000).unwrap_or(0) };
            let mut descriptors = [PollFd::new(&self.wake, PollFlags::IN)];
            match poll(&mut descriptors, Some(&timeout)) {
                Ok(0) => return true,
                Ok(_) => return false,
                // A signal that only interrupts; one that asks us to end has made the pipe readable.
                Err(_) if self.now() < until => {}
                Err(_) => return true,
            }
        }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        for id in &self.caught {
            signal_hook::low_level::unregister(*id);
        }
    }
}

/// CPU time of all threads of this process, in programs and in the kernel.
pub fn own_cpu_time() -> Duration {
    sys::own_cpu_time()
}

/// CPU time of all threads of a process so far, those that have ended included.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Strange`].
pub fn process_cpu_time(process: &Process) -> Result<Duration, LiveError> {
    sys::cpu_time_of(process.pid()).ok_or_else(|| match process.check() {
        Err(error) => error,
        Ok(()) => LiveError::Gone(format!("process {} has ended", process.pid())),
    })
}

/// Bytes of a base page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_and_a_signal_ends_sleeps() {
        let clock = Stopwatch::start().unwrap();
        assert!(clock.sleep_until(clock.now() + Duration::from_ms(2)));
        assert!(clock.now() >= Instant::from_ns(2_000_000));
        assert!(clock.sleep_until(Instant::START), "what has passed is no sleep");
        let before = own_cpu_time();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(!clock.sleep_until(Instant::from_ns(u64::MAX / 2)));
        assert!(!clock.sleep_until(Instant::START), "it stays so");
        assert!(own_cpu_time() >= before);
    }
}
