//! Knobs of the kernel that monitoring changes, and restores at its end. [`Knobs`] keeps old values only in memory: a change that must
//! outlive its program goes through the journal of `isotherm-daemon`.

use crate::{LiveError, Root};
use std::path::{Path, PathBuf};

/// A change of a knob, with its value before the first write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path below the root.
    pub path: PathBuf,
    /// Value as read, without surrounding white space; for a choice (`always [madvise] never`), the selected word.
    pub old: String,
    /// Value written.
    pub new: String,
}

/// Outcome for a knob in a restore.
#[derive(Debug)]
pub enum Restored {
    /// It has its old value again.
    Back(Change),
    /// Another program wrote it meanwhile, so it was left alone. `now` is its value.
    Foreign { change: Change, now: String },
    /// It is gone, or cannot be read or written.
    Failed { change: Change, error: LiveError },
}

/// The knobs that were written, in this order. They are restored on [`restore`](Self::restore) or on drop.
pub struct Knobs {
    root: Root,
    /// One entry for each knob: its oldest value, the last one written, and the value read back.
    changes: Vec<Written>,
}

struct Written {
    change: Change,
    /// Value read after the last write: the kernel may round or format it differently.
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

    /// Writes a knob, reads it back, and returns its value.
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
        // If it cannot be read back, it is assumed to hold the written value.
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

    /// Restores all knobs, the last one first. A knob that another program wrote meanwhile keeps its value.
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

/// Value of a knob, without surrounding white space; for a choice, the selected word.
///
/// # Errors
/// [`LiveError::Io`].
pub fn value_of(root: &Root, path: impl AsRef<Path>) -> Result<String, LiveError> {
    root.read(path).map(|text| selected(&text).to_owned())
}

/// The value in the text of a knob.
pub fn selected(text: &str) -> &str {
    let text = text.trim();
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.unwrap_or(text)
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
