//! Counts of real kernels for whole recordings, by program, policy and limit: a JSON file for each kernel.
//!
//! A file is a header and a line for each play. Plays are only ever added, a batch at a time, so that an interrupted run loses only
//! the batch under way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::matrix::METRICS;
use crate::{FidelityError, write_whole};

/// Key of a play.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of the program.
    pub program: String,
    /// Digest of its script: a changed recording has another.
    pub digest: String,
    /// `classic` or `mglru`.
    pub policy: String,
    /// Limit in pages of the script.
    pub limit_pages: u64,
}

/// Result of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Boot {
    /// The counters, in the order of [`METRICS`].
    Counted(Vec<u64>),
    /// The program did not finish, and why: it was killed, or it took too long.
    Failed(String),
}

impl Boot {
    /// Whether the kernel killed the program for lack of memory.
    pub fn is_killed(&self) -> bool {
        matches!(self, Self::Failed(message) if message.contains("was killed"))
    }
}

/// A play and the results of its boots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlay {
    #[serde(flatten)]
    pub key: Key,
    /// Counts by boot; never empty.
    pub boots: Vec<Boot>,
}

impl StoredPlay {
    /// Count of a metric in each boot; `None`: a boot did not finish, or there is no such metric.
    pub fn counter(&self, metric: &str) -> Option<Vec<u64>> {
        let at = METRICS.iter().position(|known| known.name == metric)?;
        let of = |boot: &Boot| match boot {
            Boot::Counted(counters) => counters.get(at).copied(),
            Boot::Failed(_) => None,
        };
        self.boots.iter().map(of).collect()
    }
}

/// Format of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kernel: String,
    release: String,
    memory_bytes: u64,
    counters: Vec<String>,
    plays: Vec<StoredPlay>,
}

/// The plays of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Release of the kernel in two numbers, as `--kernel` takes it.
    pub kernel: String,
    /// `uname -r` of the guest.
    pub release: String,
    /// Memory of the guest, and size of its zram.
    pub memory_bytes: u64,
    plays: BTreeMap<Key, Vec<Boot>>,
}

fn names() -> Vec<String> {
    METRICS.iter().map(|metric| metric.name.to_owned()).collect()
}

impl Store {
    /// A store without plays.
    pub fn new(kernel: &str, release: &str, memory_bytes: u64) -> Self {
        Self { kernel: kernel.to_owned(), release: release.to_owned(), memory_bytes, plays: BTreeMap::new() }
    }

    /// The file of a kernel in `folder`.
    pub fn path(folder: &Path, kernel: &str) -> PathBuf {
        folder.join(format!("{kernel}.json"))
    }

    /// The store of a kernel in `folder`; `None` without a file.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is of another kernel.
    pub fn load(folder: &Path, kernel: &str) -> Result<Option<Self>, FidelityError> {
        let path = Self::path(folder, kernel);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FidelityError::io(path)(error)),
        };
        let store = Self::parse(&text, &path.display().to_string())?;
        if store.kernel == kernel {
            return Ok(Some(store));
        }
        let reason = format!("it holds plays of kernel {}, not of {kernel}", store.kernel);
        Err(FidelityError::Store { place: path.display().to_string(), reason })
    }

    /// Reads a store; `place` is its path for messages.
    ///
    /// # Errors
    /// Damaged text, or counters that differ from [`METRICS`].
    pub fn parse(text: &str, place: &str) -> Result<Self, FidelityError> {
        let damaged = |reason: String| FidelityError::Store { place: place.to_owned(), reason };
        if text.trim().is_empty() {
            return Err(damaged("the file is empty; restore it, or remove it to begin a new one".to_owned()));
        }
        let Written { kernel, release, memory_bytes, counters, plays } =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        if counters != names() {
            let reason = format!("its counters are {}; expected: {}", counters.join(", "), names().join(", "));
            return Err(damaged(reason));
        }
        let mut store = Self { kernel, release, memory_bytes, plays: BTreeMap::new() };
        for StoredPlay { key, boots } in plays {
            let of = format!("{} {} at {} pages", key.program, key.policy, key.limit_pages);
            let is_short = |boot: &Boot| matches!(boot, Boot::Counted(row) if row.len() != METRICS.len());
            if boots.is_empty() || boots.iter().any(is_short) {
                return Err(damaged(format!("{of}: expected boots of {} counters each", METRICS.len())));
            }
            if store.plays.insert(key, boots).is_some() {
                return Err(damaged(format!("{of} is there twice")));
            }
        }
        Ok(store)
    }

    /// A play; `None` if it was never made.
    pub fn play(&self, key: &Key) -> Option<StoredPlay> {
        self.plays.get(key).map(|boots| StoredPlay { key: key.clone(), boots: boots.clone() })
    }

    /// How many boots a play has.
    pub fn nr_boots(&self, key: &Key) -> usize {
        self.plays.get(key).map_or(0, Vec::len)
    }

    /// All plays, ascending by key.
    pub fn plays(&self) -> impl Iterator<Item = StoredPlay> + '_ {
        self.plays.iter().map(|(key, boots)| StoredPlay { key: key.clone(), boots: boots.clone() })
    }

    /// How many plays there are, boots of the same play counted once.
    pub fn len(&self) -> usize {
        self.plays.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plays.is_empty()
    }

    /// Adds a boot of a play.
    pub fn add(&mut self, key: Key, boot: Boot) {
        self.plays.entry(key).or_default().push(boot);
    }

    /// Drops the plays of a program with another script than the present one, and returns their number.
    pub fn drop_older(&mut self, program: &str, digest: &str) -> usize {
        let before = self.plays.len();
        self.plays.retain(|key, _| key.program != program || key.digest == digest);
        before - self.plays.len()
    }

    /// Adds the boots of `newer`.
    ///
    /// # Errors
    /// They are of another kernel or of a guest of another size: plays in one file must be comparable.
    pub fn take(&mut self, newer: Self, place: &str) -> Result<(), FidelityError> {
        if (&self.release, self.memory_bytes) != (&newer.release, newer.memory_bytes) {
            let of = |store: &Self| format!("Linux {} with {} MiB", store.release, store.memory_bytes >> 20);
            let reason = format!(
                "it holds plays of {}, not of {}; they are not mixed: remove the file to begin a new one",
                of(self),
                of(&newer)
            );
            return Err(FidelityError::Store { place: place.to_owned(), reason });
        }
        for (key, boots) in newer.plays {
            self.plays.entry(key).or_default().extend(boots);
        }
        Ok(())
    }

    /// Adds the boots of `newer` to its file in `folder`, and returns its new contents. Processes that do this at the same time
    /// wait for each other.
    ///
    /// # Errors
    /// Errors of [`load`](Self::load) and [`take`](Self::take), or the file cannot be written; then it stays unchanged.
    pub fn append(folder: &Path, newer: Self) -> Result<Self, FidelityError> {
        Self::change(folder, newer, |_| ())
    }

    /// [`append`](Self::append), after a change of the existing contents.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn change(folder: &Path, newer: Self, change: impl FnOnce(&mut Self)) -> Result<Self, FidelityError> {
        fs::create_dir_all(folder).map_err(FidelityError::io(folder))?;
        let lock = File::open(folder).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(FidelityError::io(folder))?;
        let path = Self::path(folder, &newer.kernel);
        let empty = || Self { plays: BTreeMap::new(), ..newer.clone() };
        let mut store = Self::load(folder, &newer.kernel)?.unwrap_or_else(empty);
        change(&mut store);
        store.take(newer, &path.display().to_string())?;
        write_whole(&path, &store.to_text())?;
        Ok(store)
    }

    /// A line for each play.
    fn to_text(&self) -> String {
        let plain = |what: serde_json::Result<String>| what.expect("plain data");
        let head = Written {
            kernel: self.kernel.clone(),
            release: self.release.clone(),
            memory_bytes: self.memory_bytes,
            counters: names(),
            plays: Vec::new(),
        };
        let head = plain(serde_json::to_string(&head));
        let plays: Vec<String> = self.plays().map(|play| plain(serde_json::to_string(&play))).collect();
        format!("{}\n{}\n]}}\n", head.trim_end_matches("]}"), plays.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(program: &str, limit_pages: u64) -> Key {
        Key { program: program.to_owned(), digest: "d".to_owned(), policy: "mglru".to_owned(), limit_pages }
    }

    fn counted(faults: u64) -> Boot {
        Boot::Counted(vec![faults, 1, 2, 3, 4, 5, 6, 7])
    }

    fn store(plays: Vec<(Key, Boot)>) -> Store {
        let mut store = Store::new("6.12", "6.12.1", 1 << 30);
        plays.into_iter().for_each(|(key, boot)| store.add(key, boot));
        store
    }

    #[test]
    fn what_is_appended_is_read_again_boots_of_one_play_together() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Store::load(folder.path(), "6.12").unwrap(), None);
        Store::append(folder.path(), store(vec![(key("a", 10), counted(7))])).unwrap();
        let killed = Boot::Failed("process 0 was killed at operation 5".to_owned());
        Store::append(folder.path(), store(vec![(key("a", 10), counted(9)), (key("b", 2), killed.clone())])).unwrap();
        let read = Store::load(folder.path(), "6.12").unwrap().unwrap();
        assert_eq!((read.len(), read.nr_boots(&key("a", 10)), read.nr_boots(&key("a", 11))), (2, 2, 0));
        let play = read.play(&key("a", 10)).unwrap();
        assert_eq!((play.counter("major_faults"), play.counter("activations")), (Some(vec![7, 9]), Some(vec![7, 7])));
        assert_eq!(play.counter("none such"), None);
        let play = read.play(&key("b", 2)).unwrap();
        assert_eq!((play.counter("major_faults"), play.boots[0].is_killed()), (None, true));
        let text = fs::read_to_string(Store::path(folder.path(), "6.12")).unwrap();
        assert_eq!(text.lines().count(), 4, "header, a line for each play, end:\n{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file and no lock is left");
    }

    #[test]
    fn a_store_without_plays_is_read_again() {
        let empty = store(Vec::new());
        assert_eq!(Store::parse(&empty.to_text(), "x").unwrap(), empty);
    }

    #[test]
    fn plays_of_two_releases_or_guests_are_not_mixed() {
        let folder = tempfile::tempdir().unwrap();
        Store::append(folder.path(), store(vec![(key("a", 10), counted(7))])).unwrap();
        let before = fs::read_to_string(Store::path(folder.path(), "6.12")).unwrap();
        let mut newer = store(vec![(key("a", 11), counted(7))]);
        newer.release = "6.12.2".to_owned();
        let error = Store::append(folder.path(), newer.clone()).unwrap_err().to_string();
        assert!(error.contains("Linux 6.12.1 with 1024 MiB, not of Linux 6.12.2 with 1024 MiB"), "{error}");
        (newer.release, newer.memory_bytes) = ("6.12.1".to_owned(), 1);
        assert!(Store::append(folder.path(), newer).is_err());
        assert_eq!(fs::read_to_string(Store::path(folder.path(), "6.12")).unwrap(), before);
    }

    #[test]
    fn plays_of_an_older_recording_are_dropped_and_no_others() {
        let mut all = store(vec![(key("a", 10), counted(7)), (key("b", 10), counted(7))]);
        all.add(Key { digest: "e".to_owned(), ..key("a", 10) }, counted(8));
        assert_eq!(all.drop_older("a", "e"), 1);
        assert_eq!(all.plays().map(|play| play.key.program + &play.key.digest).collect::<Vec<_>>(), ["ae", "bd"]);
    }

    #[test]
    fn damaged_files_are_named_with_what_is_wrong() {
        let text = store(vec![(key("a", 10), counted(7)), (key("b", 10), counted(7))]).to_text();
        let error = |text: &str| Store::parse(text, "6.12.json").unwrap_err().to_string();
        assert!(error("").starts_with("6.12.json: the file is empty"), "{}", error(""));
        assert!(error("\n").starts_with("6.12.json: the file is empty"));
        assert!(error("garbage").starts_with("6.12.json: expected value at line 1"));
        let twice = text.replace("\"b\"", "\"a\"");
        assert_eq!(error(&twice), "6.12.json: a mglru at 10 pages is there twice");
        let short = text.replacen("[7,1,", "[1,", 1);
        assert_eq!(error(&short), "6.12.json: a mglru at 10 pages: expected boots of 8 counters each");
        let other = text.replacen("major_faults", "faults", 1);
        assert!(error(&other).contains("its counters are faults, refaults_anon"));
        for end in 0..text.trim_end().len() {
            assert!(Store::parse(&text[..end], "x").is_err(), "torn at {end}");
        }
    }

    #[test]
    fn a_file_of_another_kernel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(Store::path(folder.path(), "7.2"), store(Vec::new()).to_text()).unwrap();
        let error = Store::load(folder.path(), "7.2").unwrap_err().to_string();
        assert!(error.ends_with("it holds plays of kernel 6.12, not of 7.2"), "{error}");
    }
}
