//! The side of the verbs: a request, after a look at who listens.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::super::Running;
use super::{Answer, Ask, Request, path};
use crate::error::CliError;

/// Longest time for an answer: longer than the daemon's own, so that its reason is heard.
const PATIENCE: Duration = Duration::from_secs(8);
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Heard {
    Answer(Answer),
    /// Nothing listens, as with an older daemon or a trial; or too many ask already. Nothing was done.
    NotAsked,
    /// What came of it is not known, and why.
    Unknown(String),
}

/// Asks a daemon.
///
/// # Errors
/// Something else than the daemon listens, the daemon refuses, or its answer cannot be read.
pub(crate) fn ask(folder: &Path, daemon: &Running, ask: Ask) -> Result<Heard, CliError> {
    let path = path(folder);
    let failed = |error: io::Error| CliError::failed(error).while_doing(format!("cannot ask at {}", path.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut stream = match UnixStream::connect(&path).await {
            Ok(stream) => stream,
            Err(error) if is_closed(&error) => return Ok(Heard::NotAsked),
            Err(error) => return Err(failed(error)),
        };
        let peer = stream.peer_cred().map_err(failed)?;
        if peer.pid() != Some(daemon.pid()) || ![0, rustix::process::geteuid().as_raw()].contains(&peer.uid()) {
            return Err(CliError::failed(format!(
                "user {} listens at {} by process {}, which is not the daemon, process {}: nothing was asked; remove the socket",
                peer.uid(),
                path.display(),
                peer.pid().unwrap_or_default(),
                daemon.pid()
            )));
        }
        match timeout(PATIENCE, exchanged(&mut stream, ask)).await.unwrap_or(Err(ErrorKind::TimedOut.into())) {
            Err(error) => Ok(Heard::Unknown(said(&error))),
            Ok(line) => heard(&line).map_err(|error| error.while_doing(format!("cannot ask at {}", path.display()))),
        }
    })
}

/// There is no file, no listener, or the path is too long for a socket; or as many as possible wait to be accepted already.
fn is_closed(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, InvalidInput, NotFound, WouldBlock};
    [NotFound, ConnectionRefused, InvalidInput, WouldBlock].contains(&error.kind())
}

/// Sends a request, and reads the line of its answer.
async fn exchanged(stream: &mut UnixStream, ask: Ask) -> io::Result<Vec<u8>> {
    let mut request = serde_json::to_vec(&Request { ask })?;
    request.push(b'\n');
    stream.write_all(&request).await?;
    let mut line = Vec::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') { Ok(line) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn heard(line: &[u8]) -> Result<Heard, CliError> {
    match serde_json::from_slice(line) {
        Ok(Answer::Unknown { why }) => Ok(Heard::Unknown(why)),
        Ok(Answer::Busy) => Ok(Heard::NotAsked),
        Ok(Answer::Refused { why }) => Err(CliError::host_cannot(format!("the daemon refuses: {why}"))),
        Ok(answer) => Ok(Heard::Answer(answer)),
        Err(error) => Err(CliError::failed(format!(
            "the answer is none that version {} knows: {error}; use the program that the daemon runs",
            env!("CARGO_PKG_VERSION")
        ))),
    }
}

fn said(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut => format!("the daemon did not answer within {} s", PATIENCE.as_secs()),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the daemon hung up without an answer".to_owned()
        }
        _ => error.to_string(),
    }
}
