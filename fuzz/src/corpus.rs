//! Valid inputs that mutation starts from, and inputs that once were faults: `fuzz/corpus/TARGET/`.

use std::io;
use std::path::{Path, PathBuf};

/// The folder of all corpora.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The entries of a target in the order of their names.
///
/// # Errors
/// When there is no folder of that name, or it cannot be read or has no file.
pub fn load(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = folder().join(target);
    let mut paths = std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    if paths.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} has no file", folder.display())));
    }
    paths.iter().map(std::fs::read).collect()
}
