//! The knob writer on this machine: a journal in a file, and knobs as files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use isotherm_daemon::changes::{Journal, JournaledKnobs, KnobError, KnobStore, Store, same_value};
use isotherm_linux::Root;
use isotherm_linux::knobs::value_of;

use super::to_cli;
use crate::error::CliError;
use crate::live::private_file;

/// Default path of the journal.
pub(crate) const JOURNAL: &str = "/var/lib/isotherm/journal";

/// The journal's file, locked by one process at a time.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
}

impl JournalFile {
    /// Opens it; creates it and its folder if `makes` is set. `None` if there is none.
    fn open(path: &Path, makes: bool) -> Result<Option<Self>, CliError> {
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
        let file =
            private_file::open(OpenOptions::new().read(true).append(true).create(makes), path).map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(CliError::failed(format!(
                "another isotherm is at work: it holds the journal {}; wait until it has ended",
                path.display()
            )));
        }
        // The name of a new file must outlive a power cut too.
        if is_new && let Some(folder) = folder {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(Some(Self { file }))
    }
}

impl Store for JournalFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Reads one byte more than the largest journal, which is then refused.
        (&self.file).take((64 << 20) + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }
}

/// Knobs below a root.
#[derive(Debug)]
pub(crate) struct KnobFiles(pub(crate) Root);

impl KnobStore for KnobFiles {
    fn value(&mut self, path: &str) -> Result<Option<String>, KnobError> {
        match value_of(&self.0, path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(KnobError::machine(error)),
        }
    }

    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        match self.0.write(path, value) {
            // The new `memory.high` takes effect before the kernel has reclaimed the excess.
            Err(error) if error.is_slow() && value_of(&self.0, path).is_ok_and(|now| same_value(&now, value)) => Ok(()),
            written => written.map_err(KnobError::machine),
        }
    }

    fn is_being_written(&mut self, path: &str) -> bool {
        self.0.is_being_written(path)
    }
}

/// Knob writer for this machine.
pub(crate) type MachineKnobs = JournaledKnobs<JournalFile, KnobFiles>;

/// Knob writer for a machine, with the journal in a file; `None` if there is none and `makes` is
/// not set.
pub(crate) fn hands(root: &Root, journal: &Path, makes: bool) -> Result<Option<MachineKnobs>, CliError> {
    let boot: String = root.value("/proc/sys/kernel/random/boot_id").map_err(to_cli)?;
    let Some(file) = JournalFile::open(journal, makes)? else { return Ok(None) };
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
