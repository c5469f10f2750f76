//! The knob writer on this machine: a journal in a file, and knobs as files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use isotherm_daemon::changes::{Journal, JournaledKnobs, KnobError, KnobStore, Store, UnitKnob, same_value};
use isotherm_linux::Root;
use isotherm_linux::knobs::selected;

use super::to_cli;
use super::unit_knob::{unit_value, write_unit};
use crate::error::CliError;
use crate::live::private_file;

/// Default path of the journal.
pub(crate) const JOURNAL: &str = "/var/lib/isotherm/journal";

/// The journal's file, locked by one process at a time.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
    path: PathBuf,
    /// It can only be read: its file system is.
    is_fixed: bool,
}

/// How a journal is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Make it if it is not there.
    Write,
    /// Record the restored changes in it. Where its file system can only be read, knobs are still undone.
    Restore,
    Read,
}

impl JournalFile {
    /// Opens it. `None` if there is none.
    fn open(path: &Path, meant: Use) -> Result<Option<Self>, CliError> {
        let makes = meant == Use::Write;
        let failed = |error: io::Error| {
            let what = format!("cannot open the journal {}", path.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    CliError::host_cannot(format!("{what}: {error}; run it as root, or say --journal FILE"))
                }
                _ => CliError::failed(error).while_doing(what),
            }
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if makes && let Some(folder) = folder {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let is_new = !path.try_exists().map_err(failed)?;
        if is_new && !makes {
            return Ok(None);
        }
        let written = || private_file::open(OpenOptions::new().read(true).append(true).create(makes), path);
        let fixed = || private_file::open(OpenOptions::new().read(true), path);
        let (file, is_fixed) = match meant {
            Use::Read => (fixed().map_err(failed)?, true),
            Use::Write => (written().map_err(failed)?, false),
            Use::Restore => match written() {
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => (fixed().map_err(failed)?, true),
                opened => (opened.map_err(failed)?, false),
            },
        };
        // Another one may have rewritten it, and hold the new file.
        if file.try_lock().is_err() || !private_file::is_at(&file, path).map_err(failed)? {
            return Err(CliError::failed(format!(
                "another isotherm is at work: it holds the journal {}; wait until it has ended",
                path.display()
            )));
        }
        // The name of a new file must outlive a power cut too.
        if is_new && let Some(folder) = folder {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(Some(Self { file, path: path.to_owned(), is_fixed }))
    }

    /// Whether the file can be written: the name still leads to this file.
    fn check(&self) -> io::Result<()> {
        if self.is_fixed {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if private_file::is_at(&self.file, &self.path)? {
            return Ok(());
        }
        let (what, who) = (self.path.display(), "somebody removed the journal, and another stands there now");
        Err(io::Error::other(format!("{who}: {what}; `isotherm restore --journal` reads either")))
    }
}

impl Store for JournalFile {
    fn reader(&mut self) -> io::Result<Box<dyn io::Read + '_>> {
        self.file.rewind()?;
        Ok(Box::new(&self.file))
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    /// Made next to it, and moved over it.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.check() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let beside = self.path.with_added_extension("new");
        // What a power cut left of an earlier one.
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let made = private_file::open(OpenOptions::new().read(true).append(true).create_new(true), &beside);
        let moved = made.and_then(|mut file| {
            file.try_lock()?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)?;
            Ok(file)
        });
        self.file = moved.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

/// Knobs below a root: files, and properties of units.
#[derive(Debug)]
pub(crate) struct KnobFiles(pub(crate) Root);

impl KnobStore for KnobFiles {
    fn value(&mut self, path: &str) -> Result<Option<String>, KnobError> {
        if let Some(knob) = UnitKnob::of(path) {
            return unit_value(&self.0, &knob);
        }
        match self.0.read_knob(path) {
            Ok(text) => Ok(Some(selected(&text).to_owned())),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(KnobError::machine(error)),
        }
    }

    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        if let Some(knob) = UnitKnob::of(path) {
            return write_unit(&self.0, &knob, value);
        }
        match self.0.write_knob(path, value) {
            // The new `memory.high` takes effect before the kernel has reclaimed the excess.
            Err(error)
                if error.is_slow() && self.0.read_knob(path).is_ok_and(|now| same_value(selected(&now), value)) =>
            {
                Ok(())
            }
            written => written.map_err(KnobError::machine),
        }
    }

    fn group(&mut self, path: &str) -> Option<u64> {
        let (folder, file) = path.rsplit_once('/')?;
        if path == isotherm_texts::damon::STATE {
            let pid: i64 = self.0.read_knob(format!("{folder}/pid")).ok()?.trim().parse().ok()?;
            return u64::try_from(pid).ok().filter(|&pid| pid > 0);
        }
        // Knobs of groups alone have such names.
        let is_of_group = file.starts_with("memory.");
        let data = is_of_group.then(|| std::fs::metadata(self.0.path(folder)).ok())??;
        Some(data.ino())
    }

    fn is_being_written(&mut self, path: &str) -> bool {
        self.0.is_being_written(path)
    }
}

/// Knob writer for this machine.
pub(crate) type MachineKnobs = JournaledKnobs<JournalFile, KnobFiles>;

/// Knob writer for a machine, with the journal in a file; `None` if there is none.
pub(crate) fn hands(root: &Root, journal: &Path, meant: Use) -> Result<Option<MachineKnobs>, CliError> {
    let boot: String = root.value("/proc/sys/kernel/random/boot_id").map_err(to_cli)?;
    let Some(file) = JournalFile::open(journal, meant)? else { return Ok(None) };
    let named = |error| CliError::failed(error).while_doing(format!("journal {}", journal.display()));
    Ok(Some(JournaledKnobs::new(Journal::read(file).map_err(named)?, KnobFiles(root.clone()), boot)))
}

/// For `#[command(flatten)]`.
#[derive(Debug, clap::Args)]
pub(crate) struct HandsArgs {
    /// The journal of changes.
    #[arg(long, value_name = "FILE", default_value = JOURNAL)]
    pub(crate) journal: PathBuf,
    /// Work on a tree of files in place of this machine.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

impl HandsArgs {
    pub(crate) fn root(&self) -> Root {
        self.root.clone().map_or_else(Root::default, Root::below)
    }
}
