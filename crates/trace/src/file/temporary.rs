//! Unfinished files: next to their target, renamed into place when done, removed if dropped before or if the process is stopped.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Result, TraceError};

/// All unfinished files.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every unfinished file, for a process that a signal is about to end. No further one can be created.
pub fn remove_unfinished_files() {
    let unfinished = unfinished();
    unfinished.iter().for_each(|path| drop(std::fs::remove_file(path)));
    // A thread that creates another one blocks until the end.
    std::mem::forget(unfinished);
}

/// Creates the file of a recording. Only its owner may read data on running programs (mode 0600). Replaces existing
/// contents.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    refuse_link_of_another(path)?;
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    // It may have existed, readable for all users.
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// In a folder that others can write, a link may lead to a file of ours.
fn refuse_link_of_another(path: &Path) -> std::io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(path) {
        Ok(data) if data.is_symlink() && ![0, own].contains(&data.uid()) => Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            "a link of another user stands there; name another file, or one that it leads to",
        )),
        _ => Ok(()),
    }
}

/// Writes a file atomically: readers see the whole old or new contents.
///
/// # Errors
/// The file cannot be written; old contents are then untouched. A file that is not regular is written directly.
pub fn write_in_one_step(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    refuse_link_of_another(path)?;
    // A link stays a link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let replaced = std::fs::metadata(&target).ok();
    if replaced.as_ref().is_some_and(|replaced| !replaced.is_file()) {
        return std::fs::write(path, bytes);
    }
    let temporary = Temporary::beside(&target, "part");
    // It may show what a recording says, which is its owner's alone.
    let mut file = temporary.create()?;
    if let Some(replaced) = replaced {
        file.set_permissions(replaced.permissions())?;
    }
    file.write_all(bytes)?;
    std::fs::rename(temporary.path(), &target)
}

/// The name of an unfinished file.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// A name next to `target` that no concurrent writer uses.
    pub(crate) fn beside(target: &Path, suffix: &str) -> Self {
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.{suffix}", std::process::id()));
        let path = target.with_file_name(name);
        unfinished().insert(path.clone());
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the file, readable and writable only for its owner. A file that an earlier program left is replaced.
    pub(crate) fn create(&self) -> std::io::Result<File> {
        let _ = std::fs::remove_file(&self.0);
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&self.0)
    }

    /// The file is finished, and replaces `target`.
    pub(crate) fn put_in_place(self, target: &Path) -> Result<()> {
        std::fs::rename(&self.0, target).map_err(|error| TraceError::io("replace", target, error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Once it is in place, there is nothing to remove.
        let _ = std::fs::remove_file(&self.0);
        unfinished().remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("ours"), folder.path().join("link"));
        std::fs::write(&file, "kept").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        create_private(&link).unwrap();
        std::fs::write(&file, "kept").unwrap();
        // Only root can give a link away.
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_ok() {
            assert!(create_private(&link).is_err() && write_in_one_step(&link, b"new").is_err());
            assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        }
    }

    #[test]
    fn a_new_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        write_in_one_step(&file, b"addresses").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "old and longer").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_in_one_step(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        write_in_one_step(Path::new("/dev/null"), b"gone").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing beside them is left");
        assert!(write_in_one_step(&folder.path().join("no/such"), b"").is_err());
    }

    #[test]
    fn what_is_dropped_unfinished_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("t");
        let dropped = Temporary::beside(&target, "one");
        std::fs::write(dropped.path(), "half").unwrap();
        assert!(unfinished().contains(dropped.path()));
        let path = dropped.path().to_owned();
        drop(dropped);
        assert!(!path.exists() && !unfinished().contains(&path) && !target.exists());
    }
}
