//! A whole sweep: planned, played by processes, interrupted and taken up again.
//!
//! Runs are played by the example `serve`, which cargo builds with the tests.

use isotherm_scenario::{Progress, Scenario};
use isotherm_sweep::local::{Server, Swept, sweep};
use isotherm_sweep::{Answer, Dataset, Ending, Missing, Plan, PlanOptions, Space, SweepError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const SCENARIO: &str = "name = 'x'\nmetrics = ['runtime_ns', 'major_faults']\nlimit = '50 %'\n\
    [[workloads]]\nname = 'w'\nload = { kind = 'scan', footprint = '4MiB', repeat = 3 }";
const SPACE: &str = "scenario = 'x'\nrepeats = 2\nmetrics = ['runtime_ns', 'major_faults']\n\
    [[axes]]\nkey = 'policy'\nvalues = ['lru', 'mglru', 'no such policy']\n\
    [[axes]]\nkey = 'limit'\nvalues = ['50 %', '75 %']\n";

fn options(folder: &Path) -> PlanOptions {
    let folder = folder.to_path_buf();
    PlanOptions { base_dir: folder.clone(), folder, runs_max: 1000, build: "test".into() }
}

fn plan_of(space: &str) -> Result<Plan, SweepError> {
    let scenario: Scenario = isotherm_scenario::parse(SCENARIO, "x").unwrap();
    Plan::new(&Space::parse(space, "space").unwrap(), &scenario, &options(Path::new(".")))
}

fn server(arguments: &[&str]) -> Server {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let own = std::env::current_exe().unwrap();
    let program = own.parent().and_then(Path::parent).map(|profile| profile.join("examples/serve"));
    Server { program: program.unwrap(), arguments }
}

fn play(plan: &Plan, folder: &Path, server: &Server, progress: &dyn Progress) -> Result<Swept, SweepError> {
    let mut dataset = Dataset::open(folder, plan)?;
    let missing = dataset.missing(plan, false)?;
    sweep(plan, &mut dataset, &missing.runs, (server, 2), progress)
}

/// All files that equal sweeps have alike, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
            let name = format!("{}/{}", entry.file_name().display(), file.file_name().display());
            found.insert(name, std::fs::read(file.path()).unwrap());
        }
    }
    found.insert("about".into(), std::fs::read(folder.join("_sweep.toml")).unwrap());
    found
}

/// Stops after the given number of runs.
struct StopAfter(usize, AtomicUsize);

impl Progress for StopAfter {
    fn planned(&self, _work: u64) {}
    fn done(&self, _work: u64) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
    fn is_stopped(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= self.0
    }
}

#[test]
fn an_interrupted_sweep_goes_on_to_the_same_bytes() {
    let plan = plan_of(SPACE).unwrap();
    assert_eq!(plan.runs.len(), 12);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let whole = play(&plan, folders[0].path(), &server(&[]), &()).unwrap();
    assert_eq!((whole.played, whole.failed, whole.lost), (12, 4, 0));

    let begun = play(&plan, folders[1].path(), &server(&[]), &StopAfter(3, AtomicUsize::new(0))).unwrap();
    assert!((3..12).contains(&begun.played), "{begun:?}");
    let rest = play(&plan, folders[1].path(), &server(&[]), &()).unwrap();
    assert_eq!(begun.played + rest.played, 12);
    assert_eq!(files(folders[1].path()), files(folders[0].path()));

    // Each process dies over its second run: the run is played again elsewhere.
    let dying = play(&plan, folders[2].path(), &server(&["die-at-second"]), &()).unwrap();
    assert!(dying.played == 12 && dying.lost > 0, "{dying:?}");
    assert_eq!(files(folders[2].path()), files(folders[0].path()));

    let again = play(&plan, folders[0].path(), &server(&[]), &()).unwrap();
    assert_eq!(again, Swept::default(), "nothing is left to do");
    let dataset = Dataset::open(folders[0].path(), &plan).unwrap();
    assert_eq!(dataset.missing(&plan, false).unwrap(), Missing { runs: Vec::new(), done: 8, failed: 4, others: 0 });
    assert_eq!(dataset.missing(&plan, true).unwrap().runs.len(), 4, "failed runs, if they are wanted again");
}

#[test]
fn a_run_that_ends_every_process_has_failed_and_the_others_have_not() {
    let plan = plan_of(SPACE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let swept = play(&plan, folder.path(), &server(&["die-at-mglru"]), &()).unwrap();
    assert_eq!((swept.played, swept.failed), (12, 8), "4 cannot be read, 4 are those of mglru");
    let error = play(&plan, folder.path(), &Server { program: "/no/such".into(), arguments: vec![] }, &());
    assert!(error.is_ok(), "nothing is left, nothing is started");
    let other = tempfile::tempdir().unwrap();
    let error = play(&plan, other.path(), &Server { program: "/no/such".into(), arguments: vec![] }, &()).unwrap_err();
    assert!(error.to_string().contains("cannot start a process that plays runs (/no/such)"), "{error}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let plan = plan_of(SPACE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let held = Dataset::open(folder.path(), &plan).unwrap();
    let error = Dataset::open(folder.path(), &plan).unwrap_err().to_string();
    assert!(error.contains("another sweep is writing to it"), "{error}");
    drop(held);
    let more = plan_of(&format!("{SPACE}[[axes]]\nkey = 'machine.cpus'\nvalues = [1]")).unwrap();
    let error = Dataset::open(folder.path(), &more).unwrap_err().to_string();
    assert!(error.contains("other columns: this sweep is with `machine.cpus`; take another folder"), "{error}");
    let scenario: Scenario = isotherm_scenario::parse(SCENARIO, "x").unwrap();
    let other = PlanOptions { build: "other".into(), ..options(Path::new(".")) };
    let other = Plan::new(&Space::parse(SPACE, "space").unwrap(), &scenario, &other).unwrap();
    let error = Dataset::open(folder.path(), &other).unwrap_err().to_string();
    assert!(error.contains("its runs are of build test, this is other; take another folder"), "{error}");
    let fewer = plan_of(&SPACE.replace("'lru', ", "")).unwrap();
    assert_eq!(Dataset::open(folder.path(), &fewer).unwrap().missing(&fewer, false).unwrap().runs.len(), 8);
    let strange = tempfile::tempdir().unwrap();
    std::fs::write(strange.path().join("mine"), "").unwrap();
    let error = Dataset::open(strange.path(), &plan).unwrap_err().to_string();
    assert!(error.contains("no dataset of a sweep"), "{error}");
    assert_eq!(std::fs::read_dir(strange.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn keys_that_mean_nothing_are_told_before_anything_is_played() {
    for (axis, message) in [
        ("key = 'machin.cpus'\nvalues = [1]", "key `machin.cpus` = 1: unknown field `machin`"),
        ("key = 'workloads[3].name'\nvalues = ['a']", "`workloads[3]` is not there"),
        ("key = 'machine.cpus'\nvalues = ['many']", "key `machine.cpus` = \"many\": invalid type"),
        ("key = 'workloads[0].load.path'\nfiles = 'none/*'", "files = \"none/*\": no file"),
    ] {
        let error = plan_of(&format!("{SPACE}[[axes]]\n{axis}")).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // A key that means something only together with another of its point.
    let size = "\"workloads[0].load.item-size\" = '4KiB'";
    let load = "\"workloads[0].load\" = { kind = 'key-value', footprint = '8MiB', operations = 1000 }";
    let alone = plan_of(&format!("scenario = 'x'\npoints = [{{ {size} }}]")).unwrap_err().to_string();
    assert!(alone.contains("key `workloads[0].load.item-size`"), "{alone}");
    let together = plan_of(&format!("scenario = 'x'\npoints = [{{ {load}, {size} }}]")).unwrap();
    assert_eq!(together.runs.len(), 1);
}

#[test]
fn equal_points_are_one_run_and_seeds_are_paired() {
    let columns = plan_of("scenario = 'x'").unwrap();
    let metrics: Vec<&str> = columns.column_names().skip(7).collect();
    assert_eq!(
        metrics,
        ["runtime_ns", "major_faults", "error"],
        "the scenario's metrics, where the space asks for none"
    );
    let plan = plan_of("scenario = 'x'\nrepeats = 3\npoints = [{ policy = 'lru' }, { policy = 'lru' }]").unwrap();
    assert_eq!(plan.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2, 3]);
    let answer = Answer::failed(0, 0.0, "x".into());
    assert_eq!((answer.rows.len(), Ending::Failed.name()), (0, "failed"));
}
