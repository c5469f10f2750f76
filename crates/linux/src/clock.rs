//! Time on a live machine, and CPU time of processes.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use isotherm_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::process::Process;
use crate::{LiveError, sys};

/// Time since its start, and a sleep that ends on signals. Time stops while the machine is suspended.
#[derive(Debug)]
pub struct Stopwatch {
    started_ns: u64,
    /// Readable once a signal asks us to end.
    wake: OwnedFd,
    /// Readable once SIGHUP has come, where that means to read the configuration again.
    reload: Option<UnixStream>,
    caught: Vec<SigId>,
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has come.
    Due,
    /// A signal asks us to end, now or earlier.
    End,
    /// SIGHUP asks us to read the configuration again. Reported once.
    Reload,
}

impl Stopwatch {
    /// Starts now, and catches SIGINT, SIGTERM, SIGHUP and SIGQUIT until it is dropped.
    ///
    /// # Errors
    /// When signals cannot be caught: too many open files.
    pub fn start() -> std::io::Result<Self> {
        Self::catching(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT], &[])
    }

    /// As [`start`](Self::start), but SIGHUP is [`Wake::Reload`].
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_reloadable() -> std::io::Result<Self> {
        Self::catching(&[SIGINT, SIGTERM, SIGQUIT], &[SIGHUP])
    }

    fn catching(ends: &[i32], reloads: &[i32]) -> std::io::Result<Self> {
        let mut caught = Vec::new();
        let (wake, write) = UnixStream::pair()?;
        for &signal in ends {
            caught.push(signal_hook::low_level::pipe::register(signal, write.try_clone()?)?);
        }
        let mut reload = None;
        for &signal in reloads {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            caught.push(signal_hook::low_level::pipe::register(signal, write)?);
            reload = Some(read);
        }
        Ok(Self { started_ns: clock_ns(ClockId::Monotonic), wake: wake.into(), reload, caught })
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        Instant::from_ns(clock_ns(ClockId::Monotonic).saturating_sub(self.started_ns))
    }

    /// Sleeps until then. `false` if a signal asks us to end, now or earlier.
    pub fn sleep_until(&self, until: Instant) -> bool {
        self.wait_until(until) != Wake::End
    }

    /// Whether a signal asks us to end.
    pub fn is_ending(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.wake, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut descriptors, Some(&at_once)), Ok(1..))
    }

    /// Sleeps until `until`, or until a signal comes.
    pub fn wait_until(&self, until: Instant) -> Wake {
        loop {
            let left = until.since(self.now()).ns();
            let seconds = i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX);
            let timeout = Timespec { tv_sec: seconds, tv_nsec: i64::try_from(left % 1_000_000_000).unwrap_or(0) };
            let mut descriptors = vec![PollFd::new(&self.wake, PollFlags::IN)];
            descriptors.extend(self.reload.as_ref().map(|reload| PollFd::new(reload, PollFlags::IN)));
            match poll(&mut descriptors, Some(&timeout)) {
                Ok(0) => return Wake::Due,
                Ok(_) if !descriptors[0].revents().is_empty() => return Wake::End,
                Ok(_) => {
                    // Two signals before the first is read count as one request.
                    let mut signals = [0; 64];
                    let mut reload = self.reload.as_ref().expect("the other descriptor");
                    while reload.read(&mut signals).is_ok_and(|bytes| bytes == signals.len()) {}
                    return Wake::Reload;
                }
                // A signal that only interrupts. One that asks us to end makes the pipe readable.
                Err(_) if self.now() < until => {}
                Err(_) => return Wake::Due,
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

/// CPU time of all threads of this process, in user space and in the kernel.
pub fn own_cpu_time() -> Duration {
    sys::own_cpu_time()
}

/// CPU time of all threads of a process so far, including ended ones.
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

        let clock = Stopwatch::start_reloadable().unwrap();
        for _ in 0..3 {
            signal_hook::low_level::raise(SIGHUP).unwrap();
        }
        let far = Instant::from_ns(u64::MAX / 2);
        assert_eq!(clock.wait_until(far), Wake::Reload);
        assert_eq!(clock.wait_until(Instant::START), Wake::Due, "told once");
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(clock.wait_until(far), Wake::End, "the end comes first");
    }
}
