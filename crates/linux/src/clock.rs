//! Time on a live machine, and CPU time of processes.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

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
    /// Where SIGHUP means to read the configuration again.
    requests: Option<Requests>,
    caught: Vec<SigId>,
}

/// Requests that do not end the sleeper; each descriptor is readable once it was asked for.
#[derive(Debug)]
struct Requests {
    reload: UnixStream,
    state: UnixStream,
    /// A pipe without another writing end is readable for ever, and no sleep would last.
    _writing: Waker,
}

/// Ends the sleeps of a stopwatch, from any thread. It never waits.
#[derive(Clone, Debug)]
pub struct Waker {
    end: Arc<UnixStream>,
    reload: Arc<UnixStream>,
    state: Arc<UnixStream>,
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has come.
    Due,
    /// A signal asks us to end, now or earlier.
    End,
    /// SIGHUP or [`Waker::reload`] asks us to read the configuration again. Reported once.
    Reload,
    /// [`Waker::ask`] asks for the current state. Reported once.
    Asked,
}

impl Waker {
    /// As SIGTERM: asks to end.
    pub fn end(&self) {
        Self::write(&self.end);
    }

    /// As SIGHUP: asks to read the configuration again.
    pub fn reload(&self) {
        Self::write(&self.reload);
    }

    /// Asks for the current state.
    pub fn ask(&self) {
        Self::write(&self.state);
    }

    /// A full pipe is readable already. Without its other end there is no sleep to interrupt.
    fn write(mut pipe: &UnixStream) {
        let _ = pipe.write(&[0]);
    }
}

impl Stopwatch {
    /// Starts now, and catches SIGINT, SIGTERM, SIGHUP and SIGQUIT until it is dropped.
    ///
    /// # Errors
    /// When signals cannot be caught: too many open files.
    pub fn start() -> std::io::Result<Self> {
        let (wake, end) = pipe()?;
        let caught = caught(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT], &end)?;
        Ok(Self { started_ns: clock_ns(ClockId::Monotonic), wake: wake.into(), requests: None, caught })
    }

    /// As [`start`](Self::start), but SIGHUP is [`Wake::Reload`], and a waker does what signals do.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_reloadable() -> std::io::Result<(Self, Waker)> {
        let ((wake, end), (reload, reload_end), (state, state_end)) = (pipe()?, pipe()?, pipe()?);
        let mut caught = caught(&[SIGINT, SIGTERM, SIGQUIT], &end)?;
        caught.extend(self::caught(&[SIGHUP], &reload_end)?);
        let waker = Waker { end: Arc::new(end), reload: Arc::new(reload_end), state: Arc::new(state_end) };
        let requests = Some(Requests { reload, state, _writing: waker.clone() });
        Ok((Self { started_ns: clock_ns(ClockId::Monotonic), wake: wake.into(), requests, caught }, waker))
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
            let pipes = self.requests.iter().flat_map(|requests| [&requests.reload, &requests.state]);
            descriptors.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            let woken = poll(&mut descriptors, Some(&timeout));
            let is_readable = |index: usize| descriptors.get(index).is_some_and(|it| !it.revents().is_empty());
            match (woken, &self.requests) {
                (Ok(0), _) => return Wake::Due,
                (Ok(_), Some(requests)) if !is_readable(0) => {
                    let (pipe, wake) = match is_readable(1) {
                        true => (&requests.reload, Wake::Reload),
                        false => (&requests.state, Wake::Asked),
                    };
                    drain(pipe);
                    return wake;
                }
                (Ok(_), _) => return Wake::End,
                // A signal that only interrupts. One that asks us to end makes the pipe readable.
                (Err(_), _) if self.now() < until => {}
                (Err(_), _) => return Wake::Due,
            }
        }
    }
}

/// Both ends do not block: the reading one first.
fn pipe() -> std::io::Result<(UnixStream, UnixStream)> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    write.set_nonblocking(true)?;
    Ok((read, write))
}

/// Signals write to a pipe from now on.
fn caught(signals: &[i32], pipe: &UnixStream) -> std::io::Result<Vec<SigId>> {
    signals.iter().map(|&signal| signal_hook::low_level::pipe::register(signal, pipe.try_clone()?)).collect()
}

/// Two requests before the first is read count as one.
fn drain(mut pipe: &UnixStream) {
    let mut bytes = [0; 64];
    while pipe.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
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

/// CPU time of the calling thread, in user space and in the kernel.
pub fn thread_cpu_time() -> Duration {
    sys::thread_cpu_time()
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

        let (clock, waker) = Stopwatch::start_reloadable().unwrap();
        for _ in 0..3 {
            signal_hook::low_level::raise(SIGHUP).unwrap();
        }
        let far = Instant::from_ns(u64::MAX / 2);
        assert_eq!(clock.wait_until(far), Wake::Reload);
        assert_eq!(clock.wait_until(Instant::START), Wake::Due, "told once");
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(clock.wait_until(far), Wake::End, "the end comes first");

        drop((clock, waker));
        let (clock, waker) = Stopwatch::start_reloadable().unwrap();
        (0..100_000).for_each(|_| waker.ask());
        assert_eq!(clock.wait_until(far), Wake::Asked);
        while clock.wait_until(Instant::START) == Wake::Asked {}
        std::thread::scope(|scope| {
            scope.spawn(|| waker.reload());
            assert_eq!(clock.wait_until(far), Wake::Reload);
        });
        assert_eq!(clock.wait_until(Instant::START), Wake::Due);
        waker.ask();
        waker.reload();
        waker.clone().end();
        assert!(clock.is_ending());
        assert_eq!(clock.wait_until(far), Wake::End);
        drop(clock);
        waker.end();

        // It sleeps although its waker is gone.
        let (clock, waker) = Stopwatch::start_reloadable().unwrap();
        drop(waker);
        let until = clock.now() + Duration::from_ms(2);
        assert_eq!(clock.wait_until(until), Wake::Due);
        assert!(clock.now() >= until);
    }
}
