//! Requests that wait for the control loop. The loop takes them between two turns, and waits for no one who asked.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isotherm_daemon::control_loop::Line;
use isotherm_linux::Waker;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::super::Told;
use super::{Answer, Ask};

/// Between the socket and the loop.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    waker: Waker,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    status: Vec<Sender<Answer>>,
    reload: Vec<Sender<Answer>>,
    /// Requests of before the configuration was read, whose outcome is that of this reading.
    reloading: Vec<Sender<Answer>>,
    is_closed: bool,
}

impl Desk {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waker, waiting: Arc::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the loop. No answer comes if the daemon ends before.
    pub(super) fn ask(&self, ask: Ask) -> Receiver<Answer> {
        let (sender, receiver) = channel();
        let mut waiting = self.waiting();
        let list = match ask {
            Ask::Status => &mut waiting.status,
            Ask::Reload => &mut waiting.reload,
            Ask::Stop => {
                // It holds from now on, whatever the loop is at.
                self.waker.end();
                let _ = sender.send(Answer::Ending);
                return receiver;
            }
        };
        // Who no longer waits has no place in a list that the loop does not come to.
        list.retain(|sender| !sender.is_closed());
        list.push(sender);
        if waiting.is_closed {
            *waiting = Waiting { is_closed: true, ..Waiting::default() };
        }
        match ask {
            Ask::Status => self.waker.ask(),
            _ => self.waker.reload(),
        }
        receiver
    }

    /// The configuration is about to be read.
    pub(crate) fn reloads(&self) {
        let Waiting { reload, reloading, .. } = &mut *self.waiting();
        reloading.append(reload);
    }

    /// A line of the loop: some are the outcome of a reload.
    pub(crate) fn line(&self, line: &Line, configuration: &Path) {
        let answer = match line {
            Line::Began { .. } => Answer::Taken { configuration: configuration.to_owned() },
            Line::NotReloaded { why } => Answer::NotTaken { why: why.clone() },
            _ => return,
        };
        send(std::mem::take(&mut self.waiting().reloading), &answer);
    }

    /// The current state.
    pub(crate) fn status(&self, told: &Told) {
        let waiting = std::mem::take(&mut self.waiting().status);
        if !waiting.is_empty() {
            send(waiting, &Answer::Status(Box::new(told.clone())));
        }
    }

    /// The loop has ended, and answers no more requests.
    pub(super) fn close(&self) {
        *self.waiting() = Waiting { is_closed: true, ..Waiting::default() };
    }
}

fn send(waiting: Vec<Sender<Answer>>, answer: &Answer) {
    for sender in waiting {
        // Who asked may have gone.
        let _ = sender.send(answer.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_linux::Stopwatch;

    #[test]
    fn a_reload_is_answered_by_a_reading_that_began_after_it() {
        let (_clock, waker) = Stopwatch::start_reloadable().unwrap();
        let desk = Desk::new(waker);
        let file = Path::new("c.toml");
        let refused = Line::NotReloaded { why: "line 1".to_owned() };
        let mut early = desk.ask(Ask::Reload);
        desk.reloads();
        let mut late = desk.ask(Ask::Reload);
        desk.line(&Line::Resumed, file);
        assert!(early.try_recv().is_err());
        desk.line(&refused, file);
        assert!(matches!(early.try_recv(), Ok(Answer::NotTaken { why }) if why == "line 1"));
        assert!(late.try_recv().is_err());
        desk.reloads();
        desk.line(&Line::Began { sections: 1, acting: 0 }, file);
        assert!(matches!(late.try_recv(), Ok(Answer::Taken { configuration }) if configuration == file));
        for _ in 0..1000 {
            drop(desk.ask(Ask::Status));
        }
        assert_eq!(desk.waiting().status.len(), 1, "who has gone is forgotten");
        let mut last = desk.ask(Ask::Status);
        desk.close();
        let after = desk.ask(Ask::Reload).try_recv();
        assert!(last.try_recv().is_err() && after.is_err() && desk.waiting().reload.is_empty());
    }
}
