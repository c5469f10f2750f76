//! damo's configurations of schemes, made by damo itself (3.4, PyPI: `damo args damon`): loaded by a scenario, run in simulation,
//! written back, and read by damo as the original.
//!
//! `damo args damon` asks for root and for nothing of the kernel. Where damo is not installed (`scripts/install-test-needs`), or
//! the test does not run as root, the files that it made (`tests/data/damo`) are used and damo's part is skipped.

#![expect(clippy::print_stderr, reason = "a skipped comparison says so")]

use isotherm_core::schemes::{Action, FilterType, Metric, Reason, Tuner};
use isotherm_scenario::damo::{Exported, context_of, export, monitor_of};
use isotherm_scenario::monitoring::{ExplainedScheme, Replay};
use isotherm_scenario::{RunOptions, ScenarioResult, load, parse, print, run};
use isotherm_trace::region::kdamonds::{print_kdamonds, read_kdamonds, write_kdamonds};
use isotherm_units::{Bytes, Duration};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Configurations by the name of their file, with the flags that damo makes them from. Words are separated by blanks.
const CONFIGURATIONS: [(&str, &str); 5] = [
    (
        "sort",
        "--ops paddr --regions 0-268435456 --nr_schemes 2 \
         --damos_action lru_prio --damos_access_rate 20% max --damos_age 0 max \
         --damos_quotas 10ms 8M 1s 0 1 1 --damos_quota_goal active_mem_bp 60% \
         --damos_action lru_deprio --damos_access_rate 0% 0% --damos_age 500ms max \
         --damos_quotas 10ms 16M 1s 0 0 1 --damos_quota_goal inactive_mem_bp 95% \
         --damos_nr_quota_goals 1 1 --damos_quota_goal_tuner temporal --damos_quota_goal_tuner temporal",
    ),
    (
        "reclaim",
        "--ops paddr --regions 0-268435456 --damos_action pageout --damos_access_rate 0% 0% --damos_age 1s max \
         --damos_quotas 20ms 4M 500ms 0 3 7 --damos_apply_interval 200ms \
         --damos_wmarks free_mem_rate 1s 99% 98% 5% \
         --damos_filter reject addr 0 134217728 --damos_filter allow memcg /store --damos_filter reject none anon",
    ),
    ("stat", "--ops paddr --regions 0-268435456 --monitoring_intervals 10ms 200ms 2s --damos_action stat"),
    (
        "cold",
        "--ops fvaddr --target_pid 1 --damos_action cold --damos_sz_region 4K max --damos_access_rate 0% 5% --damos_age 300ms max",
    ),
    (
        "promote",
        "--ops paddr --regions 0-268435456 --damos_action migrate_hot 1 --damos_access_rate 5% max \
         --damos_quotas 0 200M 1s 0 100 100 --damos_quota_goal node_mem_used_bp 99.7% 0 --damos_filter allow young",
    ),
];

/// 24 MiB, a quarter of it used; 3 s.
const SCENARIO: &str = r#"
name = "acted-on"
until = "3s"
metrics = ["runtime_ns"]
[machine]
nodes = [{ memory = "256MiB" }]
[[workloads]]
name = "store"
[workloads.load]
kind = "hot-cold"
footprint = "24MiB"
hot = "25%"
hot-pieces = 1
hot-accesses = "99%"
accesses-per-second = 200000
duration = "10s"
[[monitors]]
name = "kdamond"
targets = []
damo = "FILE"
"#;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/damo").join(name)
}

fn options(folder: &Path) -> RunOptions {
    RunOptions { base_dir: folder.to_owned(), place: "test".to_owned(), threads: Some(1) }
}

/// The scenario with the monitor that `file` describes.
fn scenario_of(file: &str) -> String {
    // Processes are named by the scenario: the file's `pid` is of another machine.
    let targets = if file.contains("cold") { "targets = [\"store\"]" } else { "" };
    SCENARIO.replace("FILE", file).replace("targets = []", targets)
}

/// The command; `None`, after a message of one line, if it cannot be run.
fn damo() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/test-needs/bin/python");
    let script = python.with_file_name("damo");
    let works = Command::new(&python).arg(&script).args(["args", "damon"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "damo 3.4 is missing (scripts/install-test-needs), or the test does not run as root");
    eprintln!("skipped: damo cannot be run (scripts/install-test-needs, as root); its checked-in files stand in");
    None
}

/// Output of `damo args damon`.
fn made_by_damo(python: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(python);
    command.arg(python.with_file_name("damo")).args(["args", "damon"]).args(arguments);
    let output = command.output().expect("it ran before");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("damo prints UTF-8")
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn exported(folder: &Path, file: &str) -> Exported {
    let scenario = parse_in(folder, file);
    export(&scenario, &options(folder), None, None).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn parse_in(folder: &Path, file: &str) -> isotherm_scenario::Scenario {
    let path = folder.join(format!("{file}.toml"));
    std::fs::write(&path, scenario_of(file)).expect("a temporary folder");
    load(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A folder with a copy of each checked-in file.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, _) in CONFIGURATIONS {
        let name = format!("{name}.json");
        std::fs::copy(data(&name), folder.path().join(&name)).expect("a checked-in file");
    }
    folder
}

#[test]
fn checked_in_files_are_what_damo_makes() {
    let Some(python) = damo() else { return };
    for (name, flags) in CONFIGURATIONS {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let made = made_by_damo(&python, &flags);
        if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
            std::fs::write(data(&format!("{name}.json")), &made).expect("the folder is there");
        }
        let kept = std::fs::read_to_string(data(&format!("{name}.json"))).expect("a checked-in file");
        assert_eq!(value(&kept), value(&made), "{name}: `cargo xtask bless damo` makes the checked-in files again");
    }
}

/// Each key of a configuration is taken over.
#[test]
fn schemes_of_damo_become_ours() {
    let of = |name: &str| {
        let (kdamonds, warnings) = read_kdamonds(data(&format!("{name}.json"))).expect("damo made it");
        assert_eq!(warnings, []);
        monitor_of(&kdamonds.kdamonds[0].contexts[0], "contexts[0]")
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .config
    };
    let sort = of("sort").schemes;
    assert_eq!([sort[0].action, sort[1].action], [Action::LruPrio, Action::LruDeprio]);
    assert_eq!(sort[0].access_pattern.nr_accesses.min.to_string(), "20%");
    assert_eq!((sort[0].access_pattern.nr_accesses.max, sort[0].access_pattern.age.max), (None, None));
    assert_eq!(sort[1].access_pattern.nr_accesses.max.map(|most| most.to_string()), Some("0 samples".to_owned()));
    let quotas = &sort[0].quotas;
    assert_eq!((quotas.time, quotas.size), (Some(Duration::from_ms(10)), Some(Bytes::from_mib(8))));
    assert_eq!((quotas.reset_interval, quotas.goal_tuner), (Duration::from_secs(1), Tuner::Temporal));
    assert_eq!((quotas.weights.sz, quotas.weights.nr_accesses, quotas.weights.age), (0, 1, 1));
    assert_eq!((quotas.goals[0].metric, quotas.goals[0].target_value), (Metric::ActiveMemBp, 6000));

    let reclaim = &of("reclaim").schemes[0];
    let types = |filters: &[isotherm_core::schemes::Filter]| -> Vec<(FilterType, bool, bool)> {
        filters.iter().map(|filter| (filter.filter_type, filter.matching, filter.allow)).collect()
    };
    assert_eq!(types(&reclaim.core_filters), [(FilterType::Addr, true, false)]);
    assert_eq!(types(&reclaim.ops_filters), [(FilterType::Memcg, true, true), (FilterType::Anon, false, false)]);
    assert_eq!(reclaim.ops_filters[0].memcg_path.as_deref(), Some("/store"));
    assert_eq!(reclaim.apply_interval, Duration::from_ms(200));
    assert_eq!(reclaim.watermarks.mid.to_string(), "98%");

    let promote = &of("promote").schemes[0];
    assert_eq!((promote.action, promote.target_nid), (Action::MigrateHot, Some(1)));
    assert_eq!(promote.quotas.goals[0].nid, Some(0));
    assert_eq!(of("stat").attributes.ops_update_interval, Duration::from_secs(2));
}

/// Loaded, run, and with the effects that they ask for.
#[test]
fn schemes_of_damo_run() {
    let folder = folder();
    let play = |name: &str| -> Vec<ExplainedScheme> {
        let scenario = parse_in(folder.path(), &format!("{name}.json"));
        let mut result: ScenarioResult =
            run(&scenario, &options(folder.path()), &()).unwrap_or_else(|error| panic!("{name}: {error}"));
        result.schemes.remove(0).monitors.remove(0).schemes
    };
    let sort = play("sort");
    for scheme in &sort {
        assert!(scheme.report.stats.nr_tried > 0, "{:?}", scheme.words);
        let limit = [8u64 << 20, 16 << 20][scheme.report.index];
        assert!(scheme.report.charged_bytes <= limit, "{:?}", scheme.report);
    }
    assert!(sort[0].report.stats.sz_applied > 0, "{:?}", sort[0].words);
    let reclaim = &play("reclaim")[0];
    assert!(reclaim.report.stats.nr_tried > 0, "{:?}", reclaim.words);
    assert!(reclaim.report.all_passes.of(Reason::CoreFilter).bytes > 0, "{:?}", reclaim.words);
    let stat = &play("stat")[0];
    assert!(stat.report.all_passes.of(Reason::Counted).bytes >= 256 << 20, "{:?}", stat.words);
    let cold = &play("cold")[0];
    assert!(cold.report.stats.sz_applied > 0, "{:?}", cold.words);
}

/// A machine with one node cannot migrate memory: reported before the run, with the existing nodes.
#[test]
fn what_the_machine_lacks_is_said() {
    let folder = folder();
    let scenario = parse_in(folder.path(), "promote.json");
    let options = options(folder.path());
    let error = run(&scenario, &options, &()).unwrap_err().to_string();
    assert!(
        error.contains("monitor `kdamond`")
            && error
                .contains("schemes[0]: `action` is migrate-hot, which is not available here; available: stat, pageout"),
        "{error}"
    );
    let replay = Replay::of_scenario(&scenario, &options, None, None).expect("the file itself is right");
    assert!(replay.play().is_err());
}

/// Files written back are read by damo as the originals; with the command itself.
#[test]
fn what_damo_made_is_written_back() {
    let python = damo();
    let folder = folder();
    for (name, _) in CONFIGURATIONS {
        let theirs = folder.path().join(format!("{name}.json"));
        let written = exported(folder.path(), &format!("{name}.json"));
        let (original, _) = read_kdamonds(&theirs).expect("damo made it");
        let is_of_process = name == "cold";
        let mut expected = original;
        if is_of_process {
            expected.kdamonds[0].contexts[0].targets[0].pid = None;
            assert_eq!(written.notes, ["monitor `kdamond`: fill in `pid` of its targets, which are store"]);
        } else {
            assert_eq!(written.notes, Vec::<String>::new());
        }
        assert_eq!(written.kdamonds, expected, "{name}");
        let ours = folder.path().join(format!("ours-{name}.json"));
        let mut filled = written.kdamonds;
        if is_of_process {
            filled.kdamonds[0].contexts[0].targets[0].pid = Some(1);
        }
        write_kdamonds(&ours, &filled).expect("a temporary folder");
        if let Some(python) = &python {
            // damo's "no limit" goes through a float.
            let raw = |path: &Path| {
                let text = made_by_damo(python, &[path.to_str().expect("UTF-8"), "--raw"]);
                value(&text.replace("18446744073709551616 %", "18446744073709551615 %"))
            };
            assert_eq!(raw(&ours), raw(&theirs), "{name}");
        }
        // And in a scenario again, where it is the same monitor.
        let again = exported(folder.path(), &format!("ours-{name}.json"));
        assert_eq!(again.kdamonds.kdamonds[0].contexts[0].schemes, expected.kdamonds[0].contexts[0].schemes, "{name}");
    }
}

/// The scenario's reference to the file is kept, printed and patched like everything else.
#[test]
fn a_scenario_names_its_file() {
    let folder = folder();
    let text = scenario_of("stat.json")
        + "[[variants]]\nname = \"sort\"\npatch.monitors.kdamond.damo = { file = \"sort.json\", kdamond = 0 }\n\
           [[variants]]\nname = \"stat\"\n";
    let path = folder.path().join("s.toml");
    std::fs::write(&path, text).expect("a temporary folder");
    let scenario = load(&path).unwrap_or_else(|error| panic!("{error}"));
    let printed = print(&scenario);
    assert!(printed.contains("damo = \"stat.json\"") && !printed.contains("config"), "{printed}");
    for (variant, schemes) in [("sort", 2), ("stat", 1)] {
        let replay = Replay::of_scenario(&scenario, &options(folder.path()), Some(variant), None).expect("a variant");
        assert_eq!(replay.monitors()[0].config.schemes.len(), schemes, "{variant}");
        let exported =
            export(&scenario, &options(folder.path()), Some(variant), Some("kdamond")).expect("as it was read");
        assert_eq!(exported.kdamonds.kdamonds[0].contexts[0].schemes.len(), schemes);
    }
    let both = scenario_of("stat.json") + "preset = \"reclaim\"\n";
    let error = parse(&both, "t").unwrap_err().to_string();
    assert!(error.contains("`preset` and `damo` both say how it watches"), "{error}");
}

/// Every preset can be written, and is read back as the original.
#[test]
fn presets_are_written_and_read() {
    for entry in isotherm_core::presets::PRESETS {
        let preset: isotherm_core::presets::Preset = entry.name.parse().expect("a name of the table");
        let config = preset.setup().expect("its defaults make sense").config;
        let context = context_of(&config, &[]).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let back = monitor_of(&context, "contexts[0]").unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let again = context_of(&back.config, &[]).expect("as before");
        assert_eq!(again, context, "{}", entry.name);
        let text = print_kdamonds(&isotherm_trace::region::kdamonds::Kdamonds {
            kdamonds: vec![isotherm_trace::region::kdamonds::Kdamond { refresh_ns: 0, contexts: vec![context] }],
        });
        assert!(text.contains("\"ops\": \"paddr\""), "{text}");
    }
}
