//! The daemon's side of the control socket.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::super::served::Served;
use super::super::socket::{SocketFile, bound};
use super::{Answer, Ask, Desk, REQUEST_MAX, Request, path};
use crate::error::CliError;

/// Longest time of a request, and of the write of an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest time in which the loop comes to a request: a turn is a second, and calls that block are waited for.
const TURNS: Duration = Duration::from_secs(5);
/// Longest time in which answers are written at the end of the daemon.
const LAST: Duration = Duration::from_millis(500);
/// Most connections without a whole request, and most requests without an answer.
const CONNECTIONS_MAX: usize = 64;

/// The listening socket, until this is dropped, while the lock is still held.
#[derive(Debug)]
pub(crate) struct Control {
    /// Is dropped after the desk is closed, and writes the last answers.
    served: Option<Served>,
    file: Option<SocketFile>,
    desk: Desk,
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.file.take());
        self.desk.close();
        drop(self.served.take());
    }
}

impl Control {
    /// Listens in the folder of a lock that is held.
    pub(crate) fn start(folder: &Path, desk: &Desk) -> Result<Self, CliError> {
        let path = path(folder);
        let failed = |error| failed(&path, error);
        let (listener, file) = bound(&path, 0o600).map_err(failed)?;
        let answering = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let begin = || Ok(accepted(UnixListener::from_std(listener)?, desk.clone(), answering.clone()));
        let served = Served::start("control", begin, all_answered(answering.clone())).map_err(failed)?;
        Ok(Self { served: Some(served), file: Some(file), desk: desk.clone() })
    }
}

/// Waits for answers that are being written.
async fn all_answered(answering: Arc<Semaphore>) {
    let all = u32::try_from(CONNECTIONS_MAX).expect("few");
    let _ = timeout(LAST, answering.acquire_many(all)).await;
}

fn failed(path: &Path, error: io::Error) -> CliError {
    let what = format!("cannot listen at {}", path.display());
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            CliError::failed(format!("{what}: something else is there: remove it, or say --run-dir DIR"))
        }
        io::ErrorKind::InvalidInput => CliError::usage(format!("{what}: {error}: --run-dir DIR")),
        io::ErrorKind::PermissionDenied => CliError::host_cannot(format!("{what}: {error}; run it as root")),
        _ => CliError::failed(error).while_doing(what),
    }
}

/// Of connections that have not sent a request, the oldest one goes when there is a new one too many: who asks at once never waits for
/// who is silent.
async fn accepted(listener: UnixListener, desk: Desk, answering: Arc<Semaphore>) {
    let mut silent: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors; some may be free later.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        silent.retain(|one| !one.is_finished());
        if silent.len() >= CONNECTIONS_MAX
            && let Some(oldest) = silent.pop_front()
        {
            oldest.abort();
        }
        silent.push_back(tokio::spawn(heard(stream, desk.clone(), answering.clone())).abort_handle());
    }
}

/// Reads a request. The answer to one that is allowed is left to a task that newer connections do not end.
async fn heard(mut stream: UnixStream, desk: Desk, answering: Arc<Semaphore>) {
    let Ok(Ok(line)) = timeout(PATIENCE, line(&mut stream)).await else { return };
    let asked = stream.peer_cred().map_err(|error| error.to_string()).and_then(|peer| asked(&line, peer));
    match (asked, answering.try_acquire_owned()) {
        (Err(why), _) => written(&mut stream, &Answer::Refused { why }).await,
        (Ok(_), Err(_)) => written(&mut stream, &Answer::Busy).await,
        (Ok(ask), Ok(place)) => {
            tokio::spawn(async move {
                written(&mut stream, &answered(&desk, ask).await).await;
                drop(place);
            });
        }
    }
}

/// The first line; what there is without an end of line, or of one that is too long.
async fn line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::with_capacity(REQUEST_MAX, stream.take(REQUEST_MAX as u64)).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// A request that is allowed; or why not. The state is for those who could read its file, which has mode 0600.
fn asked(line: &[u8], peer: UCred) -> Result<Ask, String> {
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&peer.uid()) {
        let whose = if own == 0 { "root alone".to_owned() } else { format!("root and user {own}") };
        return Err(format!("user {} may not ask: {whose} may", peer.uid()));
    }
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err(format!(
            "no end of line within {REQUEST_MAX} bytes; allowed: one line of JSON, such as {{\"ask\":\"status\"}}"
        ));
    };
    serde_json::from_slice(line).map(|Request { ask }| ask).map_err(|error| {
        format!("it is no request: {error}; allowed: one line of JSON, {{\"ask\":\"status\"}}, or `reload` or `stop` in its place")
    })
}

async fn answered(desk: &Desk, ask: Ask) -> Answer {
    let unknown = |why: String| Answer::Unknown { why };
    match timeout(TURNS, desk.ask(ask)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => unknown("the daemon ends".to_owned()),
        Err(_) => unknown(format!("the daemon's loop has not come to it within {} s", TURNS.as_secs())),
    }
}

/// Who goes, or does not read, is let go.
async fn written(stream: &mut UnixStream, answer: &Answer) {
    let Ok(mut line) = serde_json::to_vec(answer) else { return };
    line.push(b'\n');
    let _ = timeout(PATIENCE, stream.write_all(&line)).await;
}
