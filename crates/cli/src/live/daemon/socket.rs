//! Unix sockets in the file system: ours are made, those of dead daemons replaced, and a listener is never waited for.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// Connections that wait to be accepted; the system refuses further ones.
const WAITING_MAX: i32 = 256;

/// A socket's file, which is removed when this is dropped. One that cannot be is replaced by the next daemon.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens at a path, whose folder is made. The listener does not block. A socket without a listener is replaced.
///
/// # Errors
/// `AddrInUse`: a socket with a listener, or any other file, which is left alone; `InvalidInput`: the path is too long for a socket.
pub(super) fn bound(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(data) = std::fs::symlink_metadata(path) {
        let is_left = data.file_type().is_socket()
            && connected(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if !is_left {
            return Err(ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let (socket, address) = (socket()?, address(path)?);
    bind(&socket, &address)?;
    let file = SocketFile { path: path.to_owned() };
    // Before it listens, connections are refused: none is made while the mode is another.
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, WAITING_MAX)?;
    Ok((socket.into(), file))
}

/// Connects without waiting.
///
/// # Errors
/// `WouldBlock`: as many connections as possible wait already; `ConnectionRefused`: there is no listener; those of connect(2).
fn connected(path: &Path) -> io::Result<UnixStream> {
    let socket = socket()?;
    connect(&socket, &address(path)?)?;
    Ok(socket.into())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let too_long = |_| {
        let why = "the path of a socket has at most 107 bytes: name a shorter one";
        io::Error::new(ErrorKind::InvalidInput, why)
    };
    SocketAddrUnix::new(path).map_err(too_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let refused = |path: &Path| bound(path, 0o600).unwrap_err().kind();
        let first = bound(&path, 0o640).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(refused(&path), ErrorKind::AddrInUse);
        // A listener that accepts nothing.
        let streams: Vec<io::Result<UnixStream>> =
            std::iter::repeat_with(|| connected(&path)).take_while(io::Result::is_ok).collect();
        assert!(streams.len() > 100);
        assert_eq!(connected(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(refused(&path), ErrorKind::AddrInUse);
        // What a killed daemon leaves.
        let (listener, file) = first;
        std::mem::forget(file);
        drop((listener, streams));
        assert!(path.exists());
        drop(bound(&path, 0o600).unwrap());
        assert!(!path.exists());

        let file = folder.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for path in [&file, &link, &folder.path().to_owned()] {
            assert_eq!(refused(path), ErrorKind::AddrInUse, "{}", path.display());
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(refused(&folder.path().join("x".repeat(200))), ErrorKind::InvalidInput);
    }
}
