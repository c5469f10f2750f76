//! Drop-ins of units: read, put back byte for byte, and removed.

use crate::root::open_beneath;
use crate::{LiveError, Root};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Suffix of a file that is not complete: systemd reads `.conf` alone.
const INCOMPLETE: &str = ".isotherm";

/// The bytes of a drop-in, to which no link leads; `None` if there is none.
///
/// # Errors
/// [`LiveError::Io`].
pub fn drop_in(root: &Root, path: &str) -> Result<Option<String>, LiveError> {
    match root.read_knob(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes these its bytes, or removes it, with its folder if that is empty then. systemd has to read its files again.
///
/// # Errors
/// [`LiveError::Io`]: its old bytes stand.
pub fn put_drop_in(root: &Root, path: &str, bytes: Option<&str>) -> Result<(), LiveError> {
    let (what, full) = (if bytes.is_some() { "write" } else { "remove" }, root.path(path));
    let put = || match (full.parent(), full.file_name().and_then(|name| name.to_str())) {
        (Some(folder), Some(name)) => match bytes {
            Some(bytes) => replace(&folder_at(root, folder)?, name, bytes),
            None => remove(root, folder, name),
        },
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    put().map_err(|error| LiveError::io(what, &full, error))
}

fn folder_at(root: &Root, folder: &Path) -> io::Result<File> {
    open_beneath(&root.path("/"), folder, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Made next to it, and moved over it.
fn replace(folder: &File, name: &str, bytes: &str) -> io::Result<()> {
    let incomplete = format!("{name}{INCOMPLETE}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, incomplete.as_str(), flags, Mode::from_raw_mode(0o644))?);
    file.write_all(bytes.as_bytes())?;
    file.sync_all()?;
    renameat(folder, incomplete.as_str(), folder, name)?;
    Ok(fsync(folder)?)
}

fn remove(root: &Root, folder: &Path, name: &str) -> io::Result<()> {
    let opened = match folder_at(root, folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    match unlinkat(&opened, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => fsync(&opened)?,
        Err(error) => return Err(error.into()),
    }
    // It stays if it holds other files.
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/etc/systemd/system.control/web.service.d/50-MemoryHigh.conf";

    #[test]
    fn a_drop_in_is_replaced_and_goes_with_its_empty_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        assert_eq!(drop_in(&root, PATH).unwrap(), None);
        put_drop_in(&root, PATH, None).unwrap();
        assert!(put_drop_in(&root, PATH, Some("x")).unwrap_err().is_missing(), "systemd makes the folder");
        let of_unit = root.path(PATH).parent().unwrap().to_owned();
        std::fs::create_dir_all(&of_unit).unwrap();
        put_drop_in(&root, PATH, Some("[Service]\n")).unwrap();
        put_drop_in(&root, PATH, Some("[Service]\nMemoryHigh=1\n")).unwrap();
        assert_eq!(drop_in(&root, PATH).unwrap().as_deref(), Some("[Service]\nMemoryHigh=1\n"));
        assert_eq!(std::fs::read_dir(&of_unit).unwrap().count(), 1, "nothing incomplete is left");
        std::fs::write(of_unit.join("other.conf"), "").unwrap();
        put_drop_in(&root, PATH, None).unwrap();
        assert!(of_unit.join("other.conf").exists() && !root.path(PATH).exists());
        std::fs::remove_file(of_unit.join("other.conf")).unwrap();
        put_drop_in(&root, PATH, Some("x")).unwrap();
        put_drop_in(&root, PATH, None).unwrap();
        assert!(!of_unit.exists());
    }

    #[test]
    fn no_link_leads_to_a_drop_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let secret = folder.path().join("secret");
        std::fs::create_dir_all(&secret).unwrap();
        std::fs::write(secret.join("50-MemoryHigh.conf"), "kept").unwrap();
        let of_unit = root.path(PATH).parent().unwrap().to_owned();
        std::fs::create_dir_all(of_unit.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&secret, &of_unit).unwrap();
        for bytes in [None, Some("x")] {
            assert!(put_drop_in(&root, PATH, bytes).unwrap_err().to_string().contains("a link leads to it"));
        }
        assert!(drop_in(&root, PATH).is_err());
        assert_eq!(std::fs::read_to_string(secret.join("50-MemoryHigh.conf")).unwrap(), "kept");
    }
}
