//! One root below which everything is read and written: `/`, or a test folder with the same layout.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::{LiveError, Workers};
use isotherm_texts::shortened;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Most bytes that are read of one file: far more than kernels write, and far less than would exhaust
/// memory.
const READ_MAX: u64 = 64 << 20;

/// Folder that holds `proc`, `sys` and `dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
    workers: Option<Workers>,
}

impl Default for Root {
    fn default() -> Self {
        Self::below("/")
    }
}

impl Root {
    /// A tree of files that represents a machine.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), workers: None }
    }

    /// The same, but workers make the calls that can block, and callers wait for them up to a deadline.
    #[must_use]
    pub fn with_workers(mut self, workers: Workers) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Runs work that can block in the kernel, by a worker if there is one. `what` names the operation,
    /// `on` its object.
    pub(crate) fn blocking<T: Send + 'static>(
        &self,
        what: &'static str,
        on: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, LiveError> {
        match &self.workers {
            None => Ok(work()),
            Some(workers) => workers.run(on, work).map_err(|not| LiveError::not_back(what, on, not)),
        }
    }

    /// Whether an earlier write of a knob has not returned.
    pub fn is_being_written(&self, from_root: impl AsRef<Path>) -> bool {
        self.workers.as_ref().is_some_and(|workers| workers.is_away(&self.path(from_root).to_string_lossy()))
    }

    /// Whether this is the real machine, where system calls work that a tree of files cannot answer.
    pub fn is_real(&self) -> bool {
        self.folder == Path::new("/")
    }

    /// Absolute path of a file that is given relative to the root, with or without a leading slash.
    pub fn path(&self, from_root: impl AsRef<Path>) -> PathBuf {
        let from_root = from_root.as_ref();
        self.folder.join(from_root.strip_prefix("/").unwrap_or(from_root))
    }

    /// Whether a file or folder exists.
    pub fn has(&self, from_root: impl AsRef<Path>) -> bool {
        self.path(from_root).exists()
    }

    /// The text of a file. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// [`LiveError::Io`] with the path; a file of more than 64 MiB is an error too.
    pub fn read(&self, from_root: impl AsRef<Path>) -> Result<String, LiveError> {
        let path = self.path(from_root);
        read_opened(&path, fs::File::open(&path))
    }

    /// The text of a knob that a journal names: no link leads to it.
    ///
    /// # Errors
    /// Errors of [`read`](Self::read), and a link.
    pub fn read_knob(&self, from_root: impl AsRef<Path>) -> Result<String, LiveError> {
        let path = self.path(from_root);
        read_opened(&path, open_beneath(&self.folder, &path, OFlags::RDONLY))
    }

    /// The single value of a file, without surrounding white space.
    ///
    /// # Errors
    /// [`LiveError::Io`], or [`LiveError::Strange`] if it does not parse.
    pub fn value<T: std::str::FromStr>(&self, from_root: impl AsRef<Path>) -> Result<T, LiveError> {
        let text = self.read(&from_root)?;
        let text = text.trim();
        text.parse().map_err(|_| LiveError::strange(self.path(from_root), format!("`{}`", shortened(text))))
    }

    /// Writes to a knob: one `write` of the whole text, as the kernel requires. Only a file of the kernel is written, for any origin of the
    /// path and any links on it.
    ///
    /// # Errors
    /// [`LiveError::Io`] with the path and the kernel's error; [`LiveError::NotBack`].
    pub fn write(&self, from_root: impl AsRef<Path>, text: &str) -> Result<(), LiveError> {
        let path = self.path(&from_root);
        self.write_on(&path.to_string_lossy(), from_root, text)
    }

    /// The same, for a knob that a journal names: no link leads to it.
    ///
    /// # Errors
    /// Errors of [`write`](Self::write), and a link.
    pub fn write_knob(&self, from_root: impl AsRef<Path>, text: &str) -> Result<(), LiveError> {
        let (path, folder) = (self.path(&from_root), self.folder.clone());
        let on = path.to_string_lossy().into_owned();
        self.write_opened(&on, from_root, text, move |path| open_beneath(&folder, path, OFlags::WRONLY))
    }

    /// [`write`](Self::write), for a file that takes commands for several objects; `on` names the object.
    pub(crate) fn write_on(&self, on: &str, from_root: impl AsRef<Path>, text: &str) -> Result<(), LiveError> {
        self.write_opened(on, from_root, text, |path| fs::OpenOptions::new().write(true).open(path))
    }

    fn write_opened(
        &self,
        on: &str,
        from_root: impl AsRef<Path>,
        text: &str,
        open: impl FnOnce(&Path) -> io::Result<fs::File> + Send + 'static,
    ) -> Result<(), LiveError> {
        let (path, text, is_real) = (self.path(from_root), text.to_owned(), self.is_real());
        let place = path.clone();
        let write = move || {
            let mut file = open(&path)?;
            if !is_real {
                // A knob never holds part of a value, even if we are killed.
                let beside = path.with_added_extension("new");
                fs::write(&beside, &text)?;
                return fs::rename(&beside, &path);
            }
            refuse_plain(&file)?;
            match file.write(text.as_bytes())? {
                written if written == text.len() => Ok(()),
                written => {
                    Err(io::Error::new(io::ErrorKind::WriteZero, format!("took {written} of {} bytes", text.len())))
                }
            }
        };
        self.blocking("write", on, write)?.map_err(|error| LiveError::io("write", &place, error))
    }
}

fn read_opened(path: &Path, opened: io::Result<fs::File>) -> Result<String, LiveError> {
    use io::Read as _;
    let read = || {
        let mut bytes = Vec::new();
        opened?.take(READ_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > READ_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "more than 64 MiB"));
        }
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    };
    read().map_err(|error| LiveError::io("read", path, error))
}

/// Opens a file below a folder, to which no link leads.
pub(crate) fn open_beneath(folder: &Path, path: &Path, access: OFlags) -> io::Result<fs::File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = openat2(fs::File::open(folder)?, inside, flags, Mode::empty(), resolve);
    match opened {
        Err(Errno::LOOP | Errno::XDEV) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "a link leads to it, and it leads elsewhere"))
        }
        opened => Ok(opened?.into()),
    }
}

/// Magic numbers of the file systems that hold knobs (linux/magic.h): proc, sysfs, both versions of cgroup, debugfs.
const OF_THE_KERNEL: [i128; 5] = [0x9fa0, 0x6265_6572, 0x6367_7270, 0x0027_e0eb, 0x6462_6720];

fn refuse_plain(file: &fs::File) -> io::Result<()> {
    if OF_THE_KERNEL.contains(&i128::from(rustix::fs::fstatfs(file)?.f_type)) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no knob: no file of proc, sysfs, cgroup or debugfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_of_the_machine_is_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "kept").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = Root::default().write(path, "other").unwrap_err().to_string();
            assert!(error.contains("no knob"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        // One of our own: what a process is killed for first, as it is.
        let own = "/proc/self/oom_score_adj";
        let now = Root::default().read(own).unwrap();
        Root::default().write(own, now.trim()).unwrap();
    }

    #[test]
    fn no_link_leads_to_a_knob_that_a_journal_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/knob"), "1").unwrap();
        fs::write(folder.path().join("secret"), "kept").unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a/link")).unwrap();
        std::os::unix::fs::symlink("../../secret", folder.path().join("a/b/file")).unwrap();
        root.write_knob("/a/b/knob", "2").unwrap();
        assert_eq!(root.read_knob("/a/b/knob").unwrap(), "2");
        for path in ["/a/link/knob", "/a/b/file", "/a/../../a/b/knob"] {
            assert!(root.read_knob(path).is_err() && root.write_knob(path, "3").is_err(), "{path}");
        }
        assert!(root.read_knob("/a/gone").unwrap_err().is_missing());
        assert_eq!((root.read("/secret").unwrap().as_str(), root.read("/a/b/knob").unwrap().as_str()), ("kept", "2"));
        // The machine itself.
        let boot = Root::default().read_knob("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(!boot.is_empty());
    }

    #[test]
    fn a_tree_stands_for_a_machine() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        fs::create_dir_all(root.path("/proc")).unwrap();
        fs::write(root.path("proc/value"), " 12\n").unwrap();
        assert!(root.has("/proc/value") && !root.is_real() && Root::default().is_real());
        assert_eq!(root.value::<u64>("/proc/value").unwrap(), 12);
        root.write("/proc/value", "7").unwrap();
        assert_eq!(root.read("/proc/value").unwrap(), "7");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let missing = root.read("/proc/vmstat").unwrap_err().to_string();
        assert!(missing.contains("proc/vmstat") && missing.contains("read"), "{missing}");
        fs::write(root.path("garbage"), [0xff, 0xfe, b'x']).unwrap();
        let strange = root.value::<u64>("/garbage").unwrap_err().to_string();
        assert!(strange.contains("garbage"), "{strange}");
        assert!(root.write("/absent/knob", "1").is_err());
    }
}
