//! Serves one text by HTTP on this machine: one request a connection, each in a thread of its own. A reader that sends nothing has its
//! place for half a second, so a few hundred of them delay the others by seconds.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use isotherm_daemon::config::Listen;

use crate::error::CliError;

/// Longest time of a whole request, and of a whole answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time in which a request has to begin.
const SILENCE: Duration = Duration::from_millis(500);
/// Most connections that are answered at a time; the system keeps further ones waiting.
const CONNECTIONS_MAX: usize = 64;
/// Stack of a thread that answers, in bytes.
const STACK: usize = 128 << 10;
/// Longest request in bytes.
const REQUEST_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text that is served.
pub(super) type Text = Arc<Mutex<Arc<str>>>;

/// A listening socket, until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    socket: Option<PathBuf>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            // The next daemon replaces a remaining socket.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Server {
    /// Starts to listen.
    pub(super) fn start(listen: &Listen, text: Text) -> Result<Self, CliError> {
        let failed = |place: &dyn std::fmt::Display, error: io::Error| {
            let what = format!("cannot serve metrics at {place}");
            match error.kind() {
                io::ErrorKind::AddrInUse => CliError::failed(format!(
                    "{what}: somebody else listens there; name another place by [metrics] listen"
                )),
                io::ErrorKind::PermissionDenied => CliError::host_cannot(format!("{what}: {error}; run it as root")),
                _ => CliError::failed(error).while_doing(what),
            }
        };
        match listen {
            Listen::Loopback(address) => {
                let listener = TcpListener::bind(address).map_err(|error| failed(address, error))?;
                serve(move || listener.accept().map(|(stream, _)| stream), text)
                    .map_err(|error| failed(address, error))?;
                Ok(Self { socket: None })
            }
            Listen::Unix(path) => {
                let path = Path::new(path);
                let listener = bound(path).map_err(|error| failed(&path.display(), error))?;
                let server = Self { socket: Some(path.to_owned()) };
                serve(move || listener.accept().map(|(stream, _)| stream), text)
                    .map_err(|error| failed(&path.display(), error))?;
                Ok(server)
            }
        }
    }
}

/// A socket at a path. A socket without a listener is replaced; a socket that answers, or any other file, is left alone.
fn bound(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::FileTypeExt as _;
    if let Ok(data) = std::fs::symlink_metadata(path) {
        let is_left = data.file_type().is_socket()
            && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if !is_left {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// A connection with timeouts.
trait Stream: Read + Write {
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
}

macro_rules! stream {
    ($kind:ty) => {
        impl Stream for $kind {
            fn set_patience(&self, patience: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(patience))?;
                self.set_write_timeout(Some(patience))
            }
        }
    };
}

stream!(std::net::TcpStream);
stream!(UnixStream);

/// Connections that are being answered, and the condition that is signalled when one of them ends.
#[derive(Debug, Default)]
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A place for a connection, until it is dropped.
struct Place(Arc<Places>);

impl Places {
    /// Waits for a place.
    fn take(self: &Arc<Self>) -> Place {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken >= CONNECTIONS_MAX;
        let mut taken = self.freed.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Place(Arc::clone(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

fn serve<S: Stream + Send + 'static>(
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
    text: Text,
) -> io::Result<()> {
    let places = Arc::new(Places::default());
    let work = move || {
        loop {
            let place = places.take();
            let begun = accept().and_then(|stream| {
                let text = Arc::clone(&text);
                let work = move || {
                    // A reader that disconnects, or is too slow, is ignored.
                    let _ = answer(stream, &text);
                    drop(place);
                };
                std::thread::Builder::new().name("metrics reader".to_owned()).stack_size(STACK).spawn(work)
            });
            if begun.is_err() {
                // Usually out of file descriptors or threads; some may be free later.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(work).map(|_| ())
}

fn answer(mut stream: impl Stream, text: &Text) -> io::Result<()> {
    stream.set_patience(PATIENCE)?;
    let (status, kind, body) = match request(&mut stream)? {
        Asked::Metrics => {
            let text = text.lock().map_or_else(|poisoned| poisoned.into_inner().clone(), |text| text.clone());
            ("200 OK", CONTENT_TYPE, text)
        }
        Asked::Other => ("404 Not Found", "text/plain", "it is at /metrics\n".into()),
        Asked::Otherwise => ("405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", "GET or HEAD\n".into()),
        Asked::Head => ("200 OK", CONTENT_TYPE, "".into()),
        Asked::Strange => ("400 Bad Request", "text/plain", "this is no request of HTTP/1.1\n".into()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let (begin, mut left) = (Instant::now(), answer.as_bytes());
    while !left.is_empty() {
        let patience = PATIENCE.saturating_sub(begin.elapsed());
        if patience.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_patience(patience)?;
        match stream.write(left)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => left = &left[written..],
        }
    }
    stream.flush()
}

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics,
    Head,
    Other,
    Otherwise,
    Strange,
}

fn request(stream: &mut impl Stream) -> io::Result<Asked> {
    let (begin, mut bytes, mut buffer) = (Instant::now(), Vec::new(), [0; 1024]);
    loop {
        if let Some(asked) = parsed(&bytes) {
            return Ok(asked);
        }
        let patience = if bytes.is_empty() { SILENCE } else { PATIENCE };
        let left = patience.saturating_sub(begin.elapsed());
        if bytes.len() > REQUEST_MAX || left.is_zero() {
            return Ok(Asked::Strange);
        }
        stream.set_patience(left)?;
        match stream.read(&mut buffer)? {
            0 => return Ok(Asked::Strange),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Parses a request; `None` if it is incomplete.
fn parsed(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Err(_) => Some(Asked::Strange),
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or("").split('?').next().unwrap_or("");
            Some(match (request.method, path) {
                (Some("GET"), "/metrics") => Asked::Metrics,
                (Some("HEAD"), "/metrics") => Asked::Head,
                (Some("GET" | "HEAD"), _) => Asked::Other,
                _ => Asked::Otherwise,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_text_is_served_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/metrics.sock");
        let listen = Listen::Unix(path.display().to_string());
        let text: Text = Arc::new(Mutex::new("a 1\n# EOF\n".into()));
        let server = Server::start(&listen, text.clone()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let get = |what: &str| ask(&path, format!("GET {what} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let whole = get("/metrics");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.contains(CONTENT_TYPE), "{whole}");
        assert!(whole.ends_with("\r\n\r\na 1\n# EOF\n"), "{whole}");
        *text.lock().unwrap() = "a 2\n# EOF\n".into();
        assert!(get("/metrics?x=1").ends_with("a 2\n# EOF\n"));
        assert!(get("/").starts_with("HTTP/1.1 404"));
        assert!(ask(&path, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(&path, b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        let huge = format!("GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
        for strange in ["", "\0", "GET", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/9.9\r\n\r\n"] {
            assert!(ask(&path, strange.as_bytes()).starts_with("HTTP/1.1 400"), "{strange:?}");
        }
        // A request may be refused before all of it is sent.
        let mut stream = UnixStream::connect(&path).unwrap();
        let _ = stream.write_all(huge.as_bytes());
        drop(stream);
        assert!(get("/metrics").ends_with("a 2\n# EOF\n"), "it goes on");

        assert!(Server::start(&listen, text.clone()).is_err(), "it is in use");
        drop(server);
        assert!(!path.exists());
        // A dead daemon does not answer, so its socket is replaced.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && Server::start(&listen, text.clone()).is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        assert!(Server::start(&Listen::Unix(file.display().to_string()), text).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }

    /// More readers that say nothing than there are places: who asks behind them is answered all the same.
    #[test]
    fn silent_readers_give_their_places_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let text: Text = Arc::new(Mutex::new("a 1\n# EOF\n".into()));
        let _server = Server::start(&Listen::Unix(path.display().to_string()), text).unwrap();
        let silent: Vec<UnixStream> = (0..CONNECTIONS_MAX + 20).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert!(ask(&path, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n# EOF\n"));
        drop(silent);
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parsed(&bytes);
        }
    }
}
