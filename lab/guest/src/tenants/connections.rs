//! Connections that ask for nothing.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time between two rounds over all connections.
const ROUND: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections opened in all, and those open now.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) opened: AtomicU64,
    pub(super) open: AtomicU64,
}

impl Connections {
    /// Holds this number of them for good: one that was closed is opened again.
    pub(super) fn hold(&self, address: SocketAddr, wanted: usize) -> ! {
        let mut streams: Vec<TcpStream> = Vec::new();
        loop {
            streams.retain_mut(is_open);
            while streams.len() < wanted {
                let Ok(stream) = TcpStream::connect_timeout(&address, PATIENCE) else { break };
                if stream.set_nonblocking(true).is_err() {
                    break;
                }
                streams.push(stream);
                self.opened.fetch_add(1, Ordering::Relaxed);
            }
            self.open.store(streams.len() as u64, Ordering::Relaxed);
            std::thread::sleep(ROUND);
        }
    }
}

/// Whether the other side has not closed it. What it says is dropped.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 256];
    match stream.read(&mut bytes) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
