//! Files of the daemon's own: state that root reads back and acts on, so no other user may have made, linked or opened it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a regular file, with mode 0600 if it is new.
///
/// # Errors
/// The path is a link or not a regular file; the file belongs to a user other than root and this one, or others can write it; the errors of
/// `open`.
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

/// A file that root acts on, and whether other users can change its contents. The text belongs to the checked file, even if its name leads
/// elsewhere afterwards.
///
/// # Errors
/// Not a regular file, or larger than `bytes_max`; the errors of `open` and `read`.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<(String, bool)> {
    let flags = rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let data = file.metadata()?;
    let refuse = || {
        let allowed = format!("allowed: a file of up to {}", isotherm_units::Bytes::new(bytes_max));
        io::Error::new(ErrorKind::InvalidInput, allowed)
    };
    if !data.is_file() {
        return Err(refuse());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(isotherm_trace::no_text(&bytes).unwrap_or_else(refuse));
    }
    let text = isotherm_trace::text_of(bytes)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = std::fs::metadata(folder)?;
    // In a sticky folder only its owner can put another file in its place.
    let is_sticky = folder.mode() & 0o1000 != 0;
    Ok((text, is_shared(&data) || (is_shared(&folder) && !is_sticky)))
}

/// Whether a path leads to an open file. An error of kind `NotFound`: it leads to none.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
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
        std::fs::write(place("text"), "a = 1").unwrap();
        assert_eq!(read(&place("text"), 5).unwrap(), ("a = 1".to_owned(), false));
        assert!(read(&place("text"), 4).unwrap_err().to_string().contains("of up to 4B"));
        assert!(read(&place("fifo"), 4).is_err() && read(folder.path(), 4).is_err());
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(read(&place("text"), 5).unwrap().1, "another file can be put in its place");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(!read(&place("text"), 5).unwrap().1, "only ours can be replaced, and by us");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        // Only root can give a file away.
        if chown(place("new"), Some(65_534), None).is_ok() {
            assert!(refused("new").contains("belongs to another user"));
        }
    }
}
