//! The matrix of the comparison: workloads × policies × limits × kernels, and the counters.

use std::collections::BTreeMap;
use std::path::Path;

use isotherm_rig::script::{Action, CONDUCTOR, Operation, Script};
use isotherm_rig::script_of;
use isotherm_units::Pages;
use isotherm_units::access::{Backing, Program, Timing};
use isotherm_workload::{BuildContext, WorkloadSpec};
use serde::{Deserialize, Serialize};

use crate::{FidelityError, simulate};

/// Policies that kernels and the simulated machine have alike.
pub const POLICIES: &[&str] = &["classic", "mglru"];
/// Exact LRU over the whole group: a prediction without a model of the kernel.
pub const NAIVE: &str = "lru";
/// Limits in percent of the workload's peak.
pub const LIMITS_PERCENT: &[u32] = &[90, 75, 50];
/// Kernels by their names in the rig, the newest first.
pub const KERNELS: &[&str] = &["7.2", "6.12"];

/// A counter that both worlds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    /// The kernel's name, in `memory.stat` or `/proc/vmstat`, and in the simulated machine.
    pub counter: &'static str,
    /// Whether exact LRU predicts it.
    pub has_naive: bool,
}

/// The compared counters.
pub const METRICS: &[Metric] = &[
    Metric { name: "major_faults", counter: "pgmajfault", has_naive: true },
    Metric { name: "refaults_anon", counter: "workingset_refault_anon", has_naive: true },
    Metric { name: "refaults_file", counter: "workingset_refault_file", has_naive: true },
    Metric { name: "pages_scanned", counter: "pgscan", has_naive: true },
    Metric { name: "pages_stolen", counter: "pgsteal", has_naive: true },
    Metric { name: "pages_swapped_out", counter: "pswpout", has_naive: true },
    Metric { name: "pages_swapped_in", counter: "pswpin", has_naive: true },
    Metric { name: "activations", counter: "pgactivate", has_naive: false },
];

/// The set of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// Rules of the simulated machine may be fitted to it.
    Fitting,
    /// Nothing is fitted to it.
    HeldOut,
}

impl Set {
    /// As printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitting => "fitting",
            Self::HeldOut => "held-out",
        }
    }
}

/// The groups of a workload's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Groups {
    #[default]
    One,
    /// A group for each, below the one with the limit.
    Each,
}

/// A workload as written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: String,
    what: String,
    set: Set,
    /// Only this number of operations of its script is played.
    operations: Option<usize>,
    #[serde(default)]
    groups: Groups,
    /// Programs that run side by side.
    programs: Vec<WorkloadSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkloads {
    workloads: Vec<RawWorkload>,
}

/// All workloads, as written.
#[derive(Debug)]
pub struct Workloads {
    raw: Vec<RawWorkload>,
}

/// A workload ready to be played.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    /// One line.
    pub what: String,
    pub set: Set,
    /// The script that both worlds play.
    pub script: Script,
    /// Group of each process below the group with the limit; empty: all are in the group with the limit.
    pub subgroups: Vec<u16>,
    /// Most pages charged at a time, without a limit, in the simulated machine.
    pub peak: Pages,
    /// Identifies the script.
    pub digest: String,
}

/// The columns of a row that come before the counters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    pub workload: String,
    pub policy: String,
    /// Limit in percent of the peak.
    pub limit_percent: u32,
}

/// A part of the matrix; empty lists mean everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Kernels, by their names in the rig.
    pub kernels: Vec<String>,
    pub workloads: Vec<String>,
    pub policies: Vec<String>,
    /// Limits in percent.
    pub limits: Vec<u32>,
}

fn is_in<T: PartialEq<U>, U>(list: &[T], item: &U) -> bool {
    list.is_empty() || list.iter().any(|listed| listed == item)
}

impl Selection {
    /// Fails if it has an unknown name.
    ///
    /// # Errors
    /// The first such name.
    pub fn check(&self, workloads: &Workloads) -> Result<(), FidelityError> {
        let names: Vec<&str> = workloads.raw.iter().map(|workload| workload.name.as_str()).collect();
        for (what, named, known) in [
            ("kernel of the comparison", &self.kernels, KERNELS),
            ("workload", &self.workloads, names.as_slice()),
            ("policy of the comparison", &self.policies, POLICIES),
        ] {
            if let Some(name) = named.iter().find(|name| !known.contains(&name.as_str())) {
                return Err(FidelityError::Unknown { what, name: name.clone(), known: known.join(", ") });
            }
        }
        let unknown = self.limits.iter().find(|limit| !LIMITS_PERCENT.contains(limit));
        unknown.map_or(Ok(()), |limit| {
            let known: Vec<String> = LIMITS_PERCENT.iter().map(|limit| format!("{limit}")).collect();
            Err(FidelityError::Unknown { what: "limit in percent", name: limit.to_string(), known: known.join(", ") })
        })
    }

    pub fn kernels(&self) -> impl Iterator<Item = &'static str> + '_ {
        KERNELS.iter().copied().filter(|kernel| is_in(&self.kernels, &(*kernel).to_owned()))
    }

    pub fn has_workload(&self, name: &str) -> bool {
        is_in(&self.workloads, &name.to_owned())
    }

    /// Cells of one workload, in order.
    pub fn cells_of<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = Cell> + 'a {
        let policies = POLICIES.iter().filter(|policy| is_in(&self.policies, &(**policy).to_owned()));
        policies.flat_map(move |policy| {
            let limits = LIMITS_PERCENT.iter().filter(|limit| is_in(&self.limits, *limit));
            limits.map(move |&limit_percent| Cell {
                workload: workload.to_owned(),
                policy: (*policy).to_owned(),
                limit_percent,
            })
        })
    }
}

impl Workloads {
    /// Reads the list.
    ///
    /// # Errors
    /// It is no such list; `place` is its path for the message.
    pub fn parse(text: &str, place: &str) -> Result<Self, FidelityError> {
        let raw: RawWorkloads =
            toml::from_str(text).map_err(|source| FidelityError::Workloads { place: place.to_owned(), source })?;
        Ok(Self { raw: raw.workloads })
    }

    /// The workloads that come with isotherm.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn bundled() -> Self {
        let text = include_str!("../../../scenarios/fidelity/workloads.toml");
        Self::parse(text, "scenarios/fidelity/workloads.toml").expect("a test reads it")
    }

    /// Names, sets and lines of all.
    pub fn list(&self) -> impl Iterator<Item = (&str, Set, &str)> {
        self.raw.iter().map(|raw| (raw.name.as_str(), raw.set, raw.what.as_str()))
    }

    /// Makes the scripts of the selected workloads and plays each without a limit, which gives the base of limits. Paths of recordings are
    /// relative to `folder`.
    ///
    /// # Errors
    /// A workload that cannot be built or played.
    pub fn build(&self, selection: &Selection, folder: &Path) -> Result<Vec<Workload>, FidelityError> {
        use rayon::prelude::*;
        selection.check(self)?;
        let chosen: Vec<&RawWorkload> = self.raw.iter().filter(|raw| selection.has_workload(&raw.name)).collect();
        let built: Vec<Result<Workload, FidelityError>> = chosen.par_iter().map(|raw| raw.build(folder)).collect();
        built.into_iter().collect()
    }
}

impl RawWorkload {
    fn build(&self, folder: &Path) -> Result<Workload, FidelityError> {
        let context = BuildContext::new(folder);
        let mut programs = Vec::new();
        for (index, spec) in self.programs.iter().enumerate() {
            let context = context.clone().named(format!("{}/{index}", self.name)).with_seed(index as u64);
            let program = spec.build(&context);
            let fail = |source| FidelityError::Workload { workload: self.name.clone(), source };
            programs.push(program.map_err(fail)?);
        }
        let subgroups = match self.groups {
            Groups::One => Vec::new(),
            Groups::Each => (0u16..)
                .zip(&programs)
                .flat_map(|(group, program)| std::iter::repeat_n(group, program.processes.len()))
                .collect(),
        };
        let script = cut(script_of(side_by_side(programs))?, self.operations.unwrap_or(usize::MAX));
        let digest = digest(&script.encode());
        let mut workload = Workload {
            name: self.name.clone(),
            what: self.what.clone(),
            set: self.set,
            script,
            subgroups,
            peak: Pages::new(0),
            digest,
        };
        workload.peak = simulate::peak(&workload)?;
        Ok(workload)
    }
}

impl Workload {
    /// `memory.max` of a cell.
    pub fn limit(&self, percent: u32) -> Pages {
        Pages::new(self.peak.get() * u64::from(percent) / 100)
    }
}

/// Joins programs into one that runs them at the same time.
fn side_by_side(programs: Vec<Program>) -> Program {
    let mut joined = Program {
        name: String::new(),
        files: Vec::new(),
        processes: Vec::new(),
        threads: Vec::new(),
        timing: programs.first().map_or(Timing::Recorded, |program| program.timing),
        future: None,
    };
    let is_alone = programs.len() == 1;
    for program in programs {
        let (files, processes) = (joined.files.len(), joined.processes.len());
        // Streams start threads by number: several programs at once may only have the threads they begin with.
        debug_assert!(
            is_alone
                || program
                    .threads
                    .iter()
                    .all(|thread| { thread.start == isotherm_units::access::ThreadStart::WithProgram })
        );
        joined.files.extend(program.files);
        for mut process in program.processes {
            process.forked_from = process.forked_from.map(|parent| parent + processes);
            for mapping in &mut process.layout {
                if let Backing::File { file, .. } = &mut mapping.backing {
                    *file += files;
                }
            }
            joined.processes.push(process);
        }
        for mut thread in program.threads {
            thread.process += processes;
            joined.threads.push(thread);
        }
    }
    joined
}

/// The first `operations` of a script; then the mark and the ends of the live processes.
fn cut(mut script: Script, operations: usize) -> Script {
    if script.operations.len() <= operations {
        return script;
    }
    script.operations.truncate(operations);
    script.operations.retain(|operation| !matches!(operation.action, Action::Mark { .. }));
    let mut alive = BTreeMap::new();
    for operation in &script.operations {
        match operation.action {
            Action::Start { process } => _ = alive.insert(process, ()),
            Action::Finish => _ = alive.remove(&operation.process),
            _ => {}
        }
    }
    script.operations.push(Operation { process: CONDUCTOR, action: Action::Mark { number: 1 } });
    // Later processes first: parents outlive their children.
    let ends = alive.into_keys().rev().map(|process| Operation { process, action: Action::Finish });
    script.operations.extend(ends);
    script
}

/// FNV-1a, 64 bits: detects changed scripts, no more.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", isotherm_units::hash::fnv1a(bytes.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_list_has_both_sets_and_the_workloads_asked_for() {
        let workloads = Workloads::bundled();
        let of = |set| workloads.list().filter(|&(_, of, _)| of == set).map(|(name, ..)| name).collect::<Vec<_>>();
        assert_eq!(of(Set::Fitting), ["sqlite", "redis", "gcc", "zipf", "scan"]);
        assert_eq!(of(Set::HeldOut), ["python", "node", "table", "uniform", "mix", "groups"]);
    }

    #[test]
    fn a_selection_names_what_there_is() {
        let workloads = Workloads::bundled();
        let error = |selection: Selection| selection.check(&workloads).unwrap_err().to_string();
        let named = |name: &str| vec![name.to_owned()];
        assert!(
            error(Selection { workloads: named("oracle"), ..Selection::default() })
                .starts_with("no workload is called")
        );
        assert_eq!(
            error(Selection { limits: vec![80], ..Selection::default() }),
            "no limit in percent is called `80`; there are 90, 75, 50"
        );
        let selection = Selection { policies: named("mglru"), limits: vec![50, 90], ..Selection::default() };
        assert_eq!(selection.check(&workloads).ok(), Some(()));
        assert_eq!(selection.cells_of("zipf").map(|cell| cell.limit_percent).collect::<Vec<_>>(), [90, 50]);
        assert_eq!(selection.kernels().collect::<Vec<_>>(), ["7.2", "6.12"]);
    }

    /// Process 1 is started by process 0 and is alive at the cut; process 2 has ended.
    #[test]
    fn a_cut_script_ends_those_who_live_children_first() {
        let of = |process, action| Operation { process, action };
        let touch = |process| of(process, Action::Touch { page: 1, pages: 1, write: true });
        let operations = vec![
            of(CONDUCTOR, Action::Start { process: 0 }),
            of(0, Action::Start { process: 1 }),
            of(0, Action::Start { process: 2 }),
            of(2, Action::Finish),
            touch(1),
            touch(0),
            of(CONDUCTOR, Action::Mark { number: 1 }),
            of(1, Action::Finish),
            of(0, Action::Finish),
        ];
        let script = Script { operations: operations.clone(), ..Script::default() };
        assert_eq!(cut(script.clone(), 100), script);
        let cut = cut(script, 5);
        assert_eq!(cut.operations[..5], operations[..5]);
        assert_eq!(cut.operations[5..], operations[6..]);
    }

    #[test]
    fn digests_are_those_of_the_published_table() {
        // The offset basis, and "foobar" of the authors' test suite.
        assert_eq!((digest(b""), digest(b"foobar")), ("cbf29ce484222325".to_owned(), "85944171f73967e8".to_owned()));
    }
}
