//! Replays of earlier questions, kept in files: the second question about a recording plays only replays that the first did not.
//!
//! A file holds the replays of one recording by one build, one a line. It is found by the bytes of the recording, not by its name. It is a
//! cache: a file that cannot be read or written, or has other contents, is ignored.

use super::Question;
use isotherm_scenario::{Scenario, digest_of_file, digest_of_text};
use isotherm_workload::WorkloadSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Folder of the cache, and the build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    pub folder: PathBuf,
    /// Name of this build, part of file names: another build may play otherwise.
    pub build: String,
}

/// Most bytes in the folder; the least recently used files are removed.
const BYTES_MAX: u64 = 256 << 20;
/// Most replays that are lost when a question is interrupted.
const NEW_MAX: usize = 8;

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: serde_json::Value,
}

/// Cached replays of one recording.
#[derive(Debug, Default)]
pub(super) struct ReplayCache {
    /// `None`: nothing is cached.
    file: Option<PathBuf>,
    known: BTreeMap<String, serde_json::Value>,
    new: Mutex<Vec<(String, serde_json::Value)>>,
}

/// Result of a look-up in the cache.
pub(super) enum CacheLookup<T> {
    Known(T),
    Unknown(Place),
}

/// Where a new entry is written; `None`: nowhere.
#[derive(Clone, Debug)]
pub(super) struct Place(Option<String>);

impl ReplayCache {
    /// The cache in a file, which need not exist.
    pub(super) fn in_file(file: PathBuf) -> Self {
        Self { known: read(&file), file: Some(file), new: Mutex::default() }
    }

    /// The cache of a question.
    pub(super) fn of(question: &Question) -> Self {
        let file = question.keep.as_ref().and_then(|keep| {
            let digest = digest_of_file(&question.trace).ok()?;
            Some(keep.folder.join(format!("{digest}-{}.jsonl", keep.build)))
        });
        file.map(Self::in_file).unwrap_or_default()
    }

    /// The cached result for `what` and scenario; else the result of `play`, which is cached.
    pub(super) fn or_play<T: Serialize + DeserializeOwned, E>(
        &self,
        what: &str,
        scenario: &Scenario,
        play: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match self.find(what, scenario) {
            CacheLookup::Known(known) => Ok(known),
            CacheLookup::Unknown(place) => {
                let played = play()?;
                self.keep(place, &played);
                Ok(played)
            }
        }
    }

    /// The cached result for `what` and `scenario`, or the place at which to [keep](Self::keep) it.
    pub(super) fn find<T: DeserializeOwned>(&self, what: &str, scenario: &Scenario) -> CacheLookup<T> {
        if self.file.is_none() {
            return CacheLookup::Unknown(Place(None));
        }
        let key = key_of(what, scenario);
        let known = self.known.get(&key).and_then(|value| T::deserialize(value).ok());
        known.map_or_else(|| CacheLookup::Unknown(Place(Some(key))), CacheLookup::Known)
    }

    pub(super) fn keep<T: Serialize>(&self, place: Place, played: &T) {
        let Place(Some(key)) = place else { return };
        let mut nr_new = 0;
        if let (Ok(value), Ok(mut new)) = (serde_json::to_value(played), self.new.lock()) {
            new.push((key, value));
            nr_new = new.len();
        }
        if nr_new >= NEW_MAX {
            self.save();
        }
    }

    /// Writes the new entries.
    pub(super) fn save(&self) {
        let (Some(file), Ok(mut new)) = (&self.file, self.new.lock()) else { return };
        let mut lines = Vec::new();
        for (key, value) in new.drain(..) {
            if serde_json::to_writer(&mut lines, &Line { key, value }).is_ok() {
                lines.push(b'\n');
            }
        }
        if lines.is_empty() {
            return;
        }
        // An entry that cannot be written is played again.
        let _ = append(file, &lines).and_then(|()| file.parent().map_or(Ok(()), |folder| prune(folder, file)));
    }
}

/// Cache key of a scenario's content, independent of the recording's name.
fn key_of(what: &str, scenario: &Scenario) -> String {
    let mut scenario = scenario.clone();
    (scenario.name, scenario.title) = ("kept".to_owned(), String::new());
    for workload in &mut scenario.workloads {
        workload.name = "kept".to_owned();
        if let WorkloadSpec::Trace(trace) = &mut workload.load {
            trace.path = PathBuf::from("kept");
        }
    }
    digest_of_text(&[what, &isotherm_scenario::print(&scenario)])
}

/// Whole lines of a file; of a torn file, the lines before the torn one.
fn read(path: &Path) -> BTreeMap<String, serde_json::Value> {
    let Ok(file) = File::open(path) else { return BTreeMap::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok()).map(|line| (line.key, line.value)).collect()
}

fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(lines)
}

/// Removes the oldest files of a folder until it is small enough, but never `own`.
fn prune(folder: &Path, own: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
        let meta = entry?;
        if path.extension().is_some_and(|end| end == "jsonl") {
            files.push((meta.modified()?, meta.len(), path));
        }
    }
    files.sort();
    let mut all: u64 = files.iter().map(|(_, len, _)| len).sum();
    for (_, len, path) in files {
        if all <= BYTES_MAX {
            break;
        }
        if path != own {
            std::fs::remove_file(&path)?;
            all -= len;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(file: &Path) -> ReplayCache {
        ReplayCache::in_file(file.to_owned())
    }

    fn ask(cache: &ReplayCache, what: &str, scenario: &Scenario, answer: u64) -> u64 {
        cache.or_play(what, scenario, || Ok::<u64, ()>(answer)).unwrap()
    }

    #[test]
    fn what_was_played_is_known_the_next_time_and_a_torn_file_loses_its_end_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/a.jsonl");
        let (one, other) = (Scenario::named("one"), Scenario { policy: "mglru".to_owned(), ..Scenario::named("one") });
        let first = cache(&file);
        assert_eq!(
            (ask(&first, "run", &one, 1), ask(&first, "run", &other, 2), ask(&first, "peak", &one, 3)),
            (1, 2, 3)
        );
        first.save();
        let second = cache(&file);
        let renamed = Scenario::named("another name");
        let answers = (ask(&second, "run", &renamed, 9), ask(&second, "run", &other, 9), ask(&second, "peak", &one, 9));
        assert_eq!(answers, (1, 2, 3), "nothing is played, whatever it is called");
        let whole = std::fs::read(&file).unwrap();
        for len in 0..whole.len() {
            std::fs::write(&file, &whole[..len]).unwrap();
            let torn = cache(&file);
            let answer = ask(&torn, "peak", &one, 9);
            assert!(answer == 9 || answer == 3 && len + 1 >= whole.len(), "{len}");
        }
        std::fs::write(&file, [b'{', 0xff, b'\n']).unwrap();
        assert_eq!(ask(&cache(&file), "run", &one, 9), 9, "garbage is as good as nothing");
        let wrong = whole.iter().map(|&byte| if byte == b'1' { b'"' } else { byte }).collect::<Vec<_>>();
        std::fs::write(&file, wrong).unwrap();
        let _ = ask(&cache(&file), "run", &one, 9);
    }

    #[test]
    fn an_interrupted_question_loses_few_replays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        let first = cache(&file);
        for number in 0..20 {
            ask(&first, &number.to_string(), &Scenario::named("one"), number);
        }
        drop(first);
        assert_eq!(read(&file).len(), 16, "nobody saved");
    }

    #[test]
    fn the_folder_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, len: u64, age: u64| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_len(len).unwrap();
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(then).unwrap();
            path
        };
        let (own, old) = (file("own.jsonl", 200 << 20, 30), file("old.jsonl", 50 << 20, 20));
        let (new, other) = (file("new.jsonl", 40 << 20, 10), file("other", 300 << 20, 40));
        prune(folder.path(), &own).unwrap();
        assert!(own.exists() && !old.exists() && new.exists() && other.exists());
    }
}
