//! The dataset of a sweep: a folder with one file of Parquet for each run.
//!
//! ```text
//! DATASET/run=0123…ef/result.parquet    figures of a run; failed.parquet if there are none
//! DATASET/_sweep.toml                   space, build and columns
//! DATASET/_costs.jsonl                  what runs took, here: the one file that differs between equal sweeps
//! ```
//!
//! Readers of partitioned datasets take `run` from the names of folders, and skip names that begin with `_` or `.`. A file is
//! put in place whole, so that a sweep can be ended at any time.

use crate::encode::encode;
use crate::{Answer, Plan, SweepError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

const RESULT: &str = "result.parquet";
const FAILED: &str = "failed.parquet";
const ABOUT: &str = "_sweep.toml";
const COSTS: &str = "_costs.jsonl";
const LOCK: &str = "_lock";

/// Contents of `_sweep.toml`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    build: String,
    columns: Vec<String>,
    space: String,
}

/// A dataset that only this process writes to.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    costs: File,
    /// Locked as long as the dataset is open.
    _lock: File,
}

/// Runs of a plan, by their state in the dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Numbers of the runs to play, the dearest first.
    pub runs: Vec<usize>,
    /// Runs with a result.
    pub done: usize,
    /// Runs that failed before and are not played again.
    pub failed: usize,
    /// Runs in the folder that the plan does not have: of an earlier form of the space.
    pub others: usize,
}

#[derive(Serialize)]
struct Cost<'a> {
    run: &'a str,
    seconds: f64,
    predicted: u64,
}

impl Dataset {
    /// Makes the dataset of a plan, or takes it up again.
    ///
    /// # Errors
    /// The folder holds other files, or a dataset of other columns or another build; or another sweep writes to it.
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self, SweepError> {
        let about_path = folder.join(ABOUT);
        let about = About {
            build: plan.build.clone(),
            columns: plan.column_names().map(str::to_owned).collect(),
            space: plan.space.clone(),
        };
        let is_new = match fs::read_to_string(&about_path) {
            Ok(text) => {
                check(&text, &about)
                    .map_err(|reason| SweepError::OtherDataset { folder: folder.to_path_buf(), reason })?;
                false
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(SweepError::io("read", &about_path, error)),
        };
        fs::create_dir_all(folder).map_err(|error| SweepError::io("make the folder", folder, error))?;
        if is_new && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let reason = format!("there are files in it and no {ABOUT}, so it is no dataset of a sweep");
            return Err(SweepError::OtherDataset { folder: folder.to_path_buf(), reason });
        }
        let lock_path = folder.join(LOCK);
        let lock = File::create(&lock_path).map_err(|error| SweepError::io("make", &lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SweepError::Busy { folder: folder.to_path_buf() }),
            Err(TryLockError::Error(error)) => return Err(SweepError::io("lock", &lock_path, error)),
        }
        put(&about_path, toml::to_string(&about).unwrap_or_default().as_bytes())?;
        let costs_path = folder.join(COSTS);
        let costs = File::options().append(true).create(true).open(&costs_path);
        let costs = costs.map_err(|error| SweepError::io("open", &costs_path, error))?;
        Ok(Self { folder: folder.to_path_buf(), costs, _lock: lock })
    }

    /// Runs of a plan that are still to play; with `again` also runs that failed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn missing(&self, plan: &Plan, again: bool) -> Result<Missing, SweepError> {
        let mut there = BTreeSet::new();
        let mut failed = BTreeSet::new();
        let entries = fs::read_dir(&self.folder).map_err(|error| SweepError::io("read", &self.folder, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| SweepError::io("read", &self.folder, error))?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_prefix("run=")) else { continue };
            if entry.path().join(RESULT).is_file() {
                there.insert(id.to_owned());
            } else if entry.path().join(FAILED).is_file() {
                failed.insert(id.to_owned());
            }
        }
        let mut missing = Missing::default();
        for (number, run) in plan.runs.iter().enumerate() {
            if there.remove(&run.id) {
                missing.done += 1;
            } else if failed.remove(&run.id) && !again {
                missing.failed += 1;
            } else {
                missing.runs.push(number);
            }
        }
        missing.others = there.len() + failed.len();
        // A long run that is begun last delays the end of all.
        missing.runs.sort_by_key(|&number| std::cmp::Reverse(plan.runs[number].cost));
        Ok(missing)
    }

    /// Keeps the answer of a run.
    ///
    /// # Errors
    /// The file cannot be written; no part of it is left then.
    pub fn keep(&mut self, plan: &Plan, answer: &Answer) -> Result<(), SweepError> {
        let run = &plan.runs[answer.number];
        let folder = self.folder.join(format!("run={}", run.id));
        fs::create_dir_all(&folder).map_err(|error| SweepError::io("make the folder", &folder, error))?;
        let [result, failed] = [RESULT, FAILED].map(|name| folder.join(name));
        let bytes = encode(run, &plan.columns, &plan.build, answer)
            .map_err(|error| SweepError::io("lay out", &result, std::io::Error::other(error)))?;
        if answer.rows.is_empty() {
            put(&failed, &bytes)?;
        } else {
            put(&result, &bytes)?;
            if let Err(error) = fs::remove_file(&failed)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(SweepError::io("remove", &failed, error));
            }
        }
        let cost = Cost { run: &run.id, seconds: answer.seconds, predicted: run.cost };
        let mut line = serde_json::to_vec(&cost).unwrap_or_default();
        line.push(b'\n');
        self.costs.write_all(&line).map_err(|error| SweepError::io("write", &self.folder.join(COSTS), error))
    }
}

/// Why the dataset cannot be continued by `about`.
fn check(text: &str, about: &About) -> Result<(), String> {
    let there: About = toml::from_str(text).map_err(|error| format!("{ABOUT} cannot be read: {}", error.message()))?;
    if there.build != about.build {
        return Err(format!("its runs are of build {}, this is {}", there.build, about.build));
    }
    if there.columns != about.columns {
        let only = |some: &[String], others: &[String]| {
            let names = some.iter().filter(|name| !others.contains(name)).take(3);
            names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let (lost, new) = (only(&there.columns, &about.columns), only(&about.columns, &there.columns));
        let what = [("without ", lost), ("with ", new)].into_iter().filter(|(_, names)| !names.is_empty());
        let what = what.map(|(word, names)| format!("{word}{names}")).collect::<Vec<_>>().join(" and ");
        return Err(format!("its files have other columns: this sweep is {what}"));
    }
    Ok(())
}

/// Puts a file in place whole.
fn put(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    let unfinished = path.with_file_name(format!(".{name}.unfinished"));
    let written = File::create(&unfinished)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&unfinished); // it may not even be there
        SweepError::io("write", path, error)
    })
}
