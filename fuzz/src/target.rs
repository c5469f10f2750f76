//! A fuzz target: a name and a function over bytes.

use std::path::{Path, PathBuf};

/// A parser and all further uses of its result.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name on the command line, and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// The functions it reaches, for the list.
    pub reaches: &'static str,
    /// Words of the format: keys, units, magic numbers.
    pub words: &'static [&'static str],
    /// Runs one input. Both accepting and refusing it are fine: only panics, endless work and unbounded memory are faults.
    pub run: fn(&Scratch, &[u8]),
}

/// A folder of the running target, for parsers that read files. Files from one input are replaced by the next.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// A scratch folder in `folder`, which exists.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes bytes into a file, whose path may have folders, and returns its path.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        let folder = path.parent().expect("it is below the folder");
        std::fs::create_dir_all(folder).expect("the scratch folder can be written");
        std::fs::write(&path, bytes).expect("the scratch folder can be written");
        path
    }
}

/// The input as text, with U+FFFD for bytes that are not UTF-8.
pub fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
