//! System calls that can block for long (reclaim, page migration, settings that wait for a kernel thread), on threads of their own. A
//! caller waits up to a deadline, and no other call is made on the same object until the first has returned
//! (docs/spec/live.md#7-loop).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a call. A piece of 16 MiB takes some milliseconds, and up to a second with a slow disk.
const DEADLINE: Duration = Duration::from_millis(800);
/// The deadline while another call has not returned, so that many slow calls do not add up to a long wait.
const HURRY: Duration = Duration::from_millis(50);
/// Most calls under way that missed their deadline: each holds a thread.
const MOST: usize = 16;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBack {
    /// The call was made, and has not returned within the deadline.
    Slow,
    /// The call was not made: an earlier one on the same object has been under way for this time.
    Earlier(Duration),
    /// The call was not made: too many others have not returned.
    TooMany,
    /// The call was not made, or ended without an answer, because there is no thread for it.
    NoThread,
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads for calls that can block. Clones share the threads.
#[derive(Clone, Default)]
pub struct Workers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    idle: Vec<Sender<Job>>,
    away: BTreeMap<String, Away>,
}

/// A call that missed its deadline.
struct Away {
    jobs: Sender<Job>,
    since: Instant,
    is_back: Arc<AtomicBool>,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("away", &self.state().away.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl PartialEq for Workers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Workers {}

impl Workers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work on a worker thread, and waits for it. `on` names its object.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        on: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotBack> {
        self.run_within(on, DEADLINE, work)
    }

    /// Whether a call on this object has not returned.
    pub fn is_away(&self, on: &str) -> bool {
        let mut state = self.state();
        state.gather();
        state.away.contains_key(on)
    }

    fn run_within<T: Send + 'static>(
        &self,
        on: &str,
        deadline: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotBack> {
        let mut state = self.state();
        state.gather();
        if let Some(away) = state.away.get(on) {
            return Err(NotBack::Earlier(away.since.elapsed()));
        }
        if state.away.len() >= MOST {
            return Err(NotBack::TooMany);
        }
        let deadline = if state.away.is_empty() { deadline } else { deadline.min(HURRY) };
        let jobs = match state.idle.pop() {
            Some(jobs) => jobs,
            None => started().ok_or(NotBack::NoThread)?,
        };
        let is_back = Arc::new(AtomicBool::new(false));
        let (answer, answered) = channel();
        let back = Arc::clone(&is_back);
        let job: Job = Box::new(move || {
            // The caller no longer listens if the call was too slow.
            let _ = answer.send(work());
            back.store(true, Ordering::Release);
        });
        let since = Instant::now();
        jobs.send(job).map_err(|_| NotBack::NoThread)?;
        match answered.recv_timeout(deadline) {
            Ok(answer) => {
                state.idle.push(jobs);
                Ok(answer)
            }
            Err(RecvTimeoutError::Timeout) => {
                state.away.insert(on.to_owned(), Away { jobs, since, is_back });
                Err(NotBack::Slow)
            }
            Err(RecvTimeoutError::Disconnected) => Err(NotBack::NoThread),
        }
    }
}

impl State {
    /// Collects calls that have returned.
    fn gather(&mut self) {
        let (back, away) = std::mem::take(&mut self.away)
            .into_iter()
            .partition(|(_, away): &(String, Away)| away.is_back.load(Ordering::Acquire));
        let back: BTreeMap<String, Away> = back;
        self.away = away;
        self.idle.extend(back.into_values().map(|away| away.jobs));
    }
}

/// Starts a thread that runs jobs until its sender is dropped.
fn started() -> Option<Sender<Job>> {
    let (jobs, taken) = channel::<Job>();
    let work = move || taken.into_iter().for_each(|job| job());
    thread::Builder::new().name("worker".to_owned()).stack_size(128 << 10).spawn(work).ok().map(|_| jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits without a deadline for a condition that must come true.
    fn until(mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            thread::yield_now();
        }
    }

    #[test]
    fn who_is_slow_is_left_behind_and_taken_in_again() {
        let workers = Workers::default();
        assert_eq!(workers.run_within("a", Duration::MAX, || 7), Ok(7));
        let (release, released) = channel::<()>();
        let stuck = workers.run_within("a", Duration::ZERO, move || released.recv().is_ok());
        assert_eq!(stuck, Err(NotBack::Slow));
        assert!(matches!(workers.run("a", || 7), Err(NotBack::Earlier(_))), "never two on one thing");
        assert!(workers.is_away("a") && !workers.is_away("b"));
        assert_eq!(format!("{workers:?}"), "Workers { away: [\"a\"], .. }");
        until(|| workers.run("b", || 8) == Ok(8));
        release.send(()).unwrap();
        until(|| workers.run("a", || 9) == Ok(9));
        assert!(workers.state().idle.len() >= 2, "threads are used again");
    }

    #[test]
    fn many_that_do_not_come_back_are_a_refusal() {
        let workers = Workers::default();
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for nth in 0..MOST {
            let released = Arc::clone(&released);
            let stuck = workers.run_within(&nth.to_string(), Duration::ZERO, move || {
                let _ = released.lock().map(|released| released.recv());
            });
            assert_eq!(stuck, Err(NotBack::Slow), "{nth}");
        }
        assert_eq!(workers.run("other", || 1), Err(NotBack::TooMany));
        drop(release);
        until(|| workers.run("other", || 1) == Ok(1));
    }

    #[test]
    fn a_call_that_panics_is_no_answer() {
        let workers = Workers::default();
        let answer = workers.run_within("a", Duration::MAX, || -> u8 { panic!("as it must") });
        assert_eq!(answer, Err(NotBack::NoThread));
        assert_eq!(workers.run_within("a", Duration::MAX, || 1), Ok(1));
    }
}
