//! Makes runs from a space.

use crate::SweepError;
use crate::cost;
use crate::encode::{ColumnKind, Columns};
use crate::job::Job;
use crate::points::{Point, points};
use crate::space::Space;
use isotherm_document::{DocumentError, print_as};
use isotherm_scenario::{Digests, METRICS, Scenario, ScenarioError, identity, print, set_key};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Inputs of a plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Folder of the space: where its patterns start.
    pub folder: PathBuf,
    /// Folder at which relative paths of the scenario start.
    pub base_dir: PathBuf,
    /// Most runs of the plan.
    pub runs_max: u64,
    /// Name of the build: another build may play differently.
    pub build: String,
}

/// One run: a point with a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Identity, 32 hexadecimal digits: a hash of scenario, recordings, metrics and build.
    pub id: String,
    pub seed: u64,
    /// The values that the space gives keys.
    pub point: BTreeMap<String, Value>,
    /// The scenario, as text. If the point makes no valid scenario, the text that could not be read.
    pub scenario: String,
    /// Predicted cost, in touches of pages.
    pub cost: u64,
}

/// All runs of a space, each once.
#[derive(Clone, Debug)]
pub struct Plan {
    pub runs: Vec<Run>,
    pub(crate) columns: Columns,
    pub(crate) space: String,
    pub(crate) build: String,
    base_dir: PathBuf,
}

impl Plan {
    /// Lists the runs of `space` around `scenario`.
    ///
    /// # Errors
    /// A key that no scenario has, a pattern that no file fits, more runs than allowed, or a recording that cannot be read. A point with an
    /// invalid value is not an error here: its run will fail.
    pub fn new(space: &Space, scenario: &Scenario, options: &PlanOptions) -> Result<Self, SweepError> {
        let points = points(space, &options.folder, options.runs_max)?;
        let base = base(space, scenario)?;
        let files: BTreeSet<&str> =
            space.axes.iter().filter(|axis| axis.files.is_some()).map(|axis| axis.key.as_str()).collect();
        let folder = absolute(&options.folder)?;
        let place = |key: &str, value: &Value| match value {
            Value::String(name) if files.contains(key) => Value::from(folder.join(name).display().to_string()),
            other => other.clone(),
        };
        check_keys(&base, &points, &place)?;
        let asked = if space.metrics.is_empty() { &scenario.metrics } else { &space.metrics };
        let columns = columns(asked, &points);
        let (mut digests, mut costs) = (Digests::default(), cost::Costs::default());
        let (mut runs, mut known) = (Vec::new(), BTreeSet::new());
        for point in points {
            for seed in (0..u64::from(space.repeats)).map(|repeat| space.seed.wrapping_add(repeat)) {
                let document = at_point(&base, &point, seed, &place);
                let shown: BTreeMap<String, Value> = point.iter().cloned().collect();
                let (text, parsed) = match document {
                    Ok(document) => {
                        let text = print_as(&document).unwrap_or_default();
                        let parsed = isotherm_scenario::parse(&text, "run").ok();
                        (text, parsed)
                    }
                    Err(why) => (why, None),
                };
                let played = parsed.as_ref().map(|scenario| identity(scenario, &options.base_dir, &mut digests));
                let played = match played {
                    Some(Ok(played)) => played,
                    // A missing recording is found before anything is played.
                    Some(Err(error @ ScenarioError::Io { .. })) => return Err(error.into()),
                    Some(Err(_)) | None => text.clone(),
                };
                let id = id(&played, &shown, &options.build);
                if !known.insert(id.clone()) {
                    continue;
                }
                let cost = parsed.map_or(1, |scenario| costs.of(&scenario, &options.base_dir));
                runs.push(Run { id, seed, point: shown, scenario: text, cost });
            }
        }
        let base_dir = absolute(&options.base_dir)?;
        Ok(Self { runs, columns, space: space.to_toml(), build: options.build.clone(), base_dir })
    }

    /// The job of a run.
    pub fn job(&self, number: usize) -> Job {
        Job { number, scenario: self.runs[number].scenario.clone(), folder: self.base_dir.clone() }
    }

    /// Names of the columns of the dataset, in order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.columns.names()
    }
}

/// Wherever the working folder is later. An empty path is the working folder.
fn absolute(folder: &Path) -> Result<PathBuf, SweepError> {
    let named = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(named).map_err(|source| SweepError::io("find", folder, source))
}

/// The scenario as a document, with the settings that the space has for all runs.
fn base(space: &Space, scenario: &Scenario) -> Result<Table, SweepError> {
    let mut scenario = scenario.clone();
    scenario.repeats = 1;
    // Judging a run is left to readers of the dataset.
    (scenario.against, scenario.references, scenario.expectations) = (None, Vec::new(), Vec::new());
    if !space.metrics.is_empty() {
        scenario.metrics.clone_from(&space.metrics);
    }
    let text = print(&scenario);
    let table = text.parse::<Table>();
    table.map_err(|error| SweepError::Wire(format!("the scenario does not read as it was written: {error}")))
}

/// Every key must have an effect in the scenario by itself, or together with the other keys of some point.
fn check_keys(base: &Table, points: &[Point], place: &impl Fn(&str, &Value) -> Value) -> Result<(), SweepError> {
    let read = |point: &[(String, Value)]| {
        let text = at_point(base, point, 1, place).and_then(|document| print_as(&document))?;
        match isotherm_scenario::parse(&text, "") {
            // A key that is known but refused makes a run that fails.
            Ok(_) | Err(ScenarioError::Meaning { .. }) => Ok(()),
            Err(ScenarioError::Document(DocumentError::Syntax { message, .. })) => Err(message),
            Err(other) => Err(other.to_string()),
        }
    };
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut unknown: BTreeMap<&str, SweepError> = BTreeMap::new();
    for entry in points.iter().flatten() {
        let (key, value) = entry;
        if known.contains(key.as_str()) || unknown.contains_key(key.as_str()) {
            continue;
        }
        match read(std::slice::from_ref(entry)) {
            Ok(()) => {
                known.insert(key);
            }
            Err(message) => {
                let (key, value) = (key.clone(), value.to_string());
                unknown.insert(&entry.0, SweepError::Key { key, value, message });
            }
        }
    }
    for point in points {
        if point.iter().any(|(key, _)| unknown.contains_key(key.as_str())) && read(point).is_ok() {
            point.iter().for_each(|(key, _)| drop(unknown.remove(key.as_str())));
        }
    }
    unknown.into_values().next().map_or(Ok(()), Err)
}

fn at_point(
    base: &Table,
    point: &[(String, Value)],
    seed: u64,
    place: &impl Fn(&str, &Value) -> Value,
) -> Result<Table, String> {
    let mut document = base.clone();
    let seed = i64::try_from(seed).map_err(|_| format!("seed {seed}: TOML holds numbers below 2^63"))?;
    document.insert("seed".to_owned(), Value::from(seed));
    for (key, value) in point {
        set_key(&mut document, key, place(key, value))?;
    }
    Ok(document)
}

fn id(played: &str, shown: &BTreeMap<String, Value>, build: &str) -> String {
    let shown: Vec<String> = shown.iter().map(|(key, value)| format!("{key}={value}")).collect();
    isotherm_scenario::digest_of_text(&[played, &shown.join("\n"), build])
}

/// Columns: keys of the space by name, then the requested metrics in their usual order; if none was requested, all metrics.
fn columns(asked: &[String], points: &[Point]) -> Columns {
    let mut keys: BTreeMap<String, ColumnKind> = BTreeMap::new();
    for (key, value) in points.iter().flatten() {
        let kind = ColumnKind::of(value);
        keys.entry(key.clone()).and_modify(|known| *known = known.joined(kind)).or_insert(kind);
    }
    let metrics = METRICS.iter().map(|metric| metric.name);
    let metrics = metrics.filter(|name| asked.is_empty() || asked.iter().any(|asked| asked == name));
    Columns { keys: keys.into_iter().collect(), metrics: metrics.map(str::to_owned).collect() }
}
