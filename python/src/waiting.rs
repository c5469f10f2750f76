//! Long work without the interpreter's lock, which Ctrl-C ends.

use crate::error::Error;
use isotherm_scenario::Progress;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the waiting thread checks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// State shared by the working and the waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    is_stopped: AtomicBool,
    planned: AtomicU64,
    done: AtomicU64,
}

impl Watched {
    /// Both in the units of the work: runs, or parts of them.
    fn done_of_planned(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.planned.load(Ordering::Relaxed))
    }
}

impl Progress for Watched {
    fn planned(&self, work: u64) {
        self.planned.fetch_add(work, Ordering::Relaxed);
    }
    fn done(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// Does `work` on a thread of its own and waits for it without the lock. A signal whose handler raises, as Ctrl-C does, stops the
/// work; so does `progress` when it raises. It is called with the done and the planned work whenever that has changed.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watched) -> T + Send,
) -> PyResult<T> {
    let watched = Watched::default();
    let (tell, mut told) = channel();
    std::thread::scope(|scope| {
        let watched = &watched;
        // The closure and all it holds is dropped before the result is sent: nothing waits for the lock after that.
        scope.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(watched)));
            let _ = tell.send(result);
        });
        let mut reported = (0, 0);
        let mut raised = None;
        let result = loop {
            let (received, back) = py.detach(move || (told.recv_timeout(LOOK_EVERY), told));
            told = back;
            match received {
                Ok(result) => break Some(result),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) if raised.is_some() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let now = watched.done_of_planned();
                    let looked = py.check_signals().and_then(|()| match progress {
                        Some(progress) if now != reported => progress.call1(now).map(drop),
                        _ => Ok(()),
                    });
                    reported = now;
                    if let Err(error) = looked {
                        watched.is_stopped.store(true, Ordering::Relaxed);
                        raised = Some(error);
                    }
                }
            }
        };
        match (raised, result) {
            (Some(raised), _) => Err(raised),
            (None, Some(Ok(result))) => Ok(result),
            (None, Some(Err(_)) | None) => {
                Err(Error::new_err("the engine broke off with a panic; please report it with the scenario or trace"))
            }
        }
    })
}
