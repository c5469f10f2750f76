//! Serves one text by HTTP on this machine: one request a connection. A reader that sends nothing has its place for half a second, so a few
//! hundred of them delay the others by seconds.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use isotherm_daemon::config::Listen;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::super::served::Served;
use super::super::socket::{SocketFile, bound};
use super::allowance::Allowance;
use crate::error::CliError;

/// Longest time of a whole request, and of a whole answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time in which a request has to begin.
const SILENCE: Duration = Duration::from_millis(500);
/// Most connections that are answered at a time; the system keeps further ones waiting.
const CONNECTIONS_MAX: usize = 64;
/// Longest request in bytes.
const REQUEST_MAX: usize = 8 << 10;
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text that is served.
pub(super) type Text = Arc<Mutex<Arc<str>>>;

/// A listening socket, until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    _served: Served,
    _file: Option<SocketFile>,
}

impl Server {
    /// Starts to listen.
    pub(super) fn start(listen: &Listen, text: Text, allowance: Allowance) -> Result<Self, CliError> {
        let started = match listen {
            Listen::Loopback(address) => std::net::TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((
                    Served::start(
                        "metrics",
                        || Ok(served(TcpListener::from_std(listener)?, text, allowance)),
                        async {},
                    )?,
                    None,
                ))
            }),
            Listen::Unix(path) => bound(Path::new(path), 0o660).and_then(|(listener, file)| {
                let begin = || Ok(served(UnixListener::from_std(listener)?, text, allowance));
                Ok((Served::start("metrics", begin, async {})?, Some(file)))
            }),
        };
        let (served, file) = started.map_err(|error| failed(listen, error))?;
        Ok(Self { _served: served, _file: file })
    }
}

fn failed(listen: &Listen, error: io::Error) -> CliError {
    let what = match listen {
        Listen::Loopback(address) => format!("cannot serve metrics at {address}"),
        Listen::Unix(path) => format!("cannot serve metrics at {path}"),
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            CliError::failed(format!("{what}: somebody else listens there; name another place by [metrics] listen"))
        }
        io::ErrorKind::PermissionDenied => CliError::host_cannot(format!("{what}: {error}; run it as root")),
        _ => CliError::failed(error).while_doing(what),
    }
}

/// A listener of either kind.
trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

impl Listener for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

async fn served(listener: impl Listener, text: Text, mut allowance: Allowance) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok(stream) = listener.next().await else {
            // Usually out of file descriptors; some may be free later.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let text = text.clone();
        tokio::spawn(async move {
            answered(stream, text).await;
            drop(place);
        });
        if let Some(pause) = allowance.pause() {
            sleep(pause).await;
        }
    }
}

/// A reader that disconnects, or is too slow, is ignored.
async fn answered(stream: impl AsyncRead + AsyncWrite + Unpin, text: Text) {
    let mut stream = BufReader::new(stream);
    if timeout(SILENCE, stream.fill_buf()).await.is_err() {
        return;
    }
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &text))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(REQUEST_MAX)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(2 * PATIENCE, connection).await;
}

fn answer(request: &Request<Incoming>, text: &Text) -> Response<String> {
    let of = |status, kind: &'static str, body: &str| {
        let mut response = Response::new(body.to_owned());
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            of(StatusCode::OK, OPENMETRICS, &text.lock().unwrap_or_else(PoisonError::into_inner))
        }
        (&Method::GET | &Method::HEAD, _) => of(StatusCode::NOT_FOUND, "text/plain", "it is at /metrics\n"),
        _ => {
            let mut refused = of(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET or HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // A request may be refused before all of it is sent.
        let _ = stream.write_all(request).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn get(path: &Path, what: &str) -> String {
        ask(path, format!("GET {what} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
    }

    fn text(text: &str) -> Text {
        Arc::new(Mutex::new(text.into()))
    }

    fn started(path: &Path, text: &Text) -> Result<Server, CliError> {
        let allowance = Allowance::new(isotherm_units::Ratio::ONE, Arc::default());
        Server::start(&Listen::Unix(path.display().to_string()), text.clone(), allowance)
    }

    #[test]
    fn a_text_is_served_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/metrics.sock");
        let text = text("a 1\n# EOF\n");
        let server = started(&path, &text).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let whole = get(&path, "/metrics");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n") && whole.contains(OPENMETRICS), "{whole}");
        assert!(whole.ends_with("\r\n\r\na 1\n# EOF\n"), "{whole}");
        *text.lock().unwrap() = "a 2\n# EOF\n".into();
        assert!(get(&path, "/metrics?x=1").ends_with("a 2\n# EOF\n"));
        assert!(get(&path, "/").starts_with("HTTP/1.1 404"));
        let refused = ask(&path, b"POST /metrics HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("GET, HEAD"), "{refused}");
        let head = ask(&path, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        for strange in ["\0", "a request\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n"] {
            assert!(ask(&path, strange.as_bytes()).starts_with("HTTP/1.1 400"), "{strange:?}");
        }
        for cut_short in ["", "GET", "GET /metrics HTTP/1.1\r\n"] {
            assert_eq!(ask(&path, cut_short.as_bytes()), "", "{cut_short:?}");
        }
        let huge = format!("GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
        assert!(ask(&path, huge.as_bytes()).starts_with("HTTP/1.1 431"));
        assert!(get(&path, "/metrics").ends_with("a 2\n# EOF\n"), "it goes on");

        assert!(started(&path, &text).is_err(), "it is in use");
        drop(server);
        assert!(!path.exists());
        // A dead daemon does not answer, so its socket is replaced.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && started(&path, &text).is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        assert!(started(&file, &text).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }

    /// More readers that say nothing than there are places: who asks behind them is answered all the same.
    #[test]
    fn silent_readers_give_their_places_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let _server = started(&path, &text("a 1\n# EOF\n")).unwrap();
        let silent: Vec<UnixStream> = (0..CONNECTIONS_MAX + 20).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert!(get(&path, "/metrics").ends_with("a 1\n# EOF\n"));
        drop(silent);
    }

    /// Readers that take nothing of an answer, and those in the middle of a request, go after some seconds.
    #[test]
    fn slow_readers_give_their_places_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let _server = started(&path, &text(&"x".repeat(16 << 20))).unwrap();
        let slow = |index: usize| {
            let mut stream = UnixStream::connect(&path).unwrap();
            let request = ["GET /metrics HTTP/1.1\r\n\r\n", "GET /metrics HT"][index % 2];
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        let slow: Vec<UnixStream> = (0..CONNECTIONS_MAX).map(slow).collect();
        assert!(get(&path, "/").starts_with("HTTP/1.1 404"));
        drop(slow);
    }

    proptest! {
        #[test]
        fn no_request_ends_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("metrics.sock");
            let _server = started(&path, &text("a 1\n# EOF\n")).unwrap();
            ask(&path, &bytes);
            prop_assert!(get(&path, "/metrics").ends_with("a 1\n# EOF\n"));
        }
    }
}
