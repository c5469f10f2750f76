//! Threads with an event loop of their own, which serve sockets: nothing in them makes the control loop wait.

use std::io;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A thread that serves, until this is dropped.
#[derive(Debug)]
pub(super) struct Served {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed.
            let _ = thread.join();
        }
    }
}

impl Served {
    /// Starts what `begin` makes within the event loop. At the end that is dropped, and then `last` is waited for.
    ///
    /// # Errors
    /// Those of `begin`; no thread or descriptor is left.
    pub(super) fn start<W, L>(name: &str, begin: impl FnOnce() -> io::Result<W>, last: L) -> io::Result<Self>
    where
        W: Future<Output = ()> + Send + 'static,
        L: Future + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let work = begin()?;
        drop(inside);
        let (end, ended) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async {
                let work = tokio::spawn(work);
                let _ = ended.await;
                work.abort();
                last.await;
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}
