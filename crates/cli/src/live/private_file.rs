//! Files of the daemon's own: state that root reads back and acts on, so no other user may have made, linked or opened it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a regular file, with mode 0600 if it is new.
///
/// # Errors
/// A link or anything else than a regular file; a file of another user than root and this one, or that others can write; those of `open`.
pub(crate) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    // A FIFO in its place would be waited for.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.clone().mode(0o600).custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
        if is_link {
            io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link, which is not followed")
        } else {
            error
        }
    })?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    if is_shared(&data) {
        let why = "it belongs to another user, or can be written by others: `chown`, `chmod go-w` it, or name another";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(file)
}

/// Whether another user than root and this one owns a file or folder, or others can write it.
pub(crate) fn is_shared(data: &Metadata) -> bool {
    let own = rustix::process::geteuid().as_raw();
    (data.uid() != 0 && data.uid() != own) || data.mode() & 0o022 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    #[test]
    fn only_a_regular_file_of_ours_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let refused = |name: &str| open(&options, &place(name)).unwrap_err().to_string();

        let file = open(&options, &place("new")).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        symlink(place("new"), place("link")).unwrap();
        assert!(refused("link").contains("symbolic link"));
        symlink(place("nowhere"), place("dangling")).unwrap();
        assert!(refused("dangling").contains("symbolic link") && !place("nowhere").exists());
        rustix::fs::mkfifoat(rustix::fs::CWD, place("fifo"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        // Without a reader the open itself is refused; with one, the file is.
        assert!(open(&options, &place("fifo")).is_err());
        let _reader = OpenOptions::new().read(true).custom_flags(0o4000).open(place("fifo")).unwrap();
        assert!(refused("fifo").contains("no regular file"));
        std::fs::set_permissions(place("new"), Permissions::from_mode(0o666)).unwrap();
        assert!(refused("new").contains("can be written by others"));
        std::fs::set_permissions(place("new"), Permissions::from_mode(0o600)).unwrap();
        assert!(open(&options, &place("new")).is_ok());
        // Only root can give a file away.
        if chown(place("new"), Some(65_534), None).is_ok() {
            assert!(refused("new").contains("belongs to another user"));
        }
    }
}
