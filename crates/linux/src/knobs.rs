//! Knobs of the kernel that watching needs otherwise and puts back when it ends. [`Knobs`] remembers what was there in memory alone: a
//! change that must outlive its program goes through the journal of `isotherm-daemon`.

use crate::{LiveError, Root};
use std::path::{Path, PathBuf};

/// A knob before it is written for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// From the root on.
    pub path: PathBuf,
    /// As read, without white space around it; of a file of choices (`always [madvise] never`) the word that was selected.
    pub old: String,
    /// What is written.
    pub new: String,
}

/// What became of a knob in a restore.
#[derive(Debug)]
pub enum Restored {
    /// It has its old value again.
    Back(Change),
    /// Somebody else wrote it meanwhile; it was left alone. `now` is what stands there.
    Foreign { change: Change, now: String },
    /// It is gone, or cannot be read or written.
    Failed { change: Change, error: LiveError },
}

/// The knobs that were written, in this order. They are put back on [`restore`](Self::restore) or when it is dropped.
pub struct Knobs {
    root: Root,
    /// One entry a knob: the oldest value and the last one written, with what the kernel made of it.
    changes: Vec<Written>,
}

struct Written {
    change: Change,
    /// What was read after the last write: the kernel may round or spell it another way.
    read_back: String,
}

impl std::fmt::Debug for Knobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knobs").field("root", &self.root).field("open", &self.open().collect::<Vec<_>>()).finish()
    }
}

impl Knobs {
    /// Nothing is written yet.
    pub fn new(root: Root) -> Self {
        Self { root, changes: Vec::new() }
    }

    /// Writes a knob and reads it back. What it holds then is returned.
    ///
    /// # Errors
    /// [`LiveError::Io`]: then nothing was written.
    pub fn set(&mut self, path: impl AsRef<Path>, value: &str) -> Result<String, LiveError> {
        let path = path.as_ref();
        let at = self.changes.iter().position(|written| written.change.path == path);
        let old = match at {
            Some(at) => self.changes[at].change.old.clone(),
            None => value_of(&self.root, path)?,
        };
        let change = Change { path: path.to_owned(), old, new: value.to_owned() };
        self.root.write(path, value)?;
        // Without a read-back what was written is taken for what stands there.
        let read_back = value_of(&self.root, path).unwrap_or_else(|_| value.to_owned());
        let written = Written { change, read_back: read_back.clone() };
        match at {
            Some(at) => self.changes[at] = written,
            None => self.changes.push(written),
        }
        Ok(read_back)
    }

    /// The knobs that are not restored yet, in the order in which they were written first.
    pub fn open(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().map(|written| &written.change)
    }

    /// Puts back all knobs, the last one first. One that somebody else wrote meanwhile stays as it is.
    pub fn restore(&mut self) -> Vec<Restored> {
        let changes = std::mem::take(&mut self.changes);
        changes.into_iter().rev().map(|written| self.restored(written)).collect()
    }

    fn restored(&self, Written { change, read_back }: Written) -> Restored {
        let back = || {
            let now = value_of(&self.root, &change.path)?;
            if now == change.old {
                return Ok(None);
            }
            if now != read_back {
                return Ok(Some(now));
            }
            self.root.write(&change.path, &change.old).map(|()| None)
        };
        match back() {
            Ok(None) => Restored::Back(change),
            Ok(Some(now)) => Restored::Foreign { change, now },
            Err(error) => Restored::Failed { change, error },
        }
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        self.restore();
    }
}

/// What a knob holds, without white space around it; of a file of choices, the selected word.
///
/// # Errors
/// [`LiveError::Io`].
pub fn value_of(root: &Root, path: impl AsRef<Path>) -> Result<String, LiveError> {
    let text = root.read(path)?;
    let text = text.trim();
    let selected = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(selected.unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let root = Root::below(folder.path());
        (folder, root)
    }

    #[test]
    fn the_oldest_value_comes_back_when_it_is_dropped() {
        let (_folder, root) = tree(&[("thp", "always [madvise] never\n"), ("n", "12\n")]);
        let mut knobs = Knobs::new(root.clone());
        assert_eq!(knobs.set("/thp", "always").unwrap(), "always");
        knobs.set("/n", "13").unwrap();
        knobs.set("/n", "14").unwrap();
        assert_eq!(knobs.open().map(|change| change.old.as_str()).collect::<Vec<_>>(), ["madvise", "12"]);
        drop(knobs);
        assert_eq!((root.read("thp").unwrap(), root.read("n").unwrap()), ("madvise".to_owned(), "12".to_owned()));
    }

    #[test]
    fn what_others_wrote_stays_and_what_is_gone_is_told() {
        let (_folder, root) = tree(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let mut knobs = Knobs::new(root.clone());
        for name in ["a", "b", "c"] {
            knobs.set(name, "2").unwrap();
        }
        root.write("b", "7").unwrap();
        fs::remove_file(root.path("a")).unwrap();
        let restored = knobs.restore();
        let [Restored::Back(_), Restored::Foreign { now, .. }, Restored::Failed { .. }] = restored.as_slice() else {
            panic!("the last one first: {restored:?}")
        };
        assert_eq!((now.as_str(), root.read("c").unwrap().as_str()), ("7", "1"));
        assert!(knobs.restore().is_empty(), "once is enough");
    }
}
