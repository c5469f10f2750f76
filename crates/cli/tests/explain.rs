//! `isotherm report explain`: it names the true cause, as text and in counts.

use std::path::Path;
use std::process::{Command, Output};

fn isotherm(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(args).env_remove("COLUMNS").env("ISOTHERM_DATA", root).output().expect("it starts")
}

fn said(args: &[&str]) -> String {
    let output = isotherm(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A program with 6.4 of 64 MiB in use; schemes that only count, each stopped by a different cause.
const STOPPED: &str = r#"
name = "stopped"
until = "3s"
[machine]
nodes = [{ memory = "256MiB" }]
[[workloads]]
name = "store"
premapped = true
[workloads.load]
kind = "hot-cold"
footprint = "64MiB"
hot = "10%"
hot-pieces = 1
hot-accesses = "100%"
accesses-per-second = 100000
duration = "10s"
[[monitors]]
name = "watcher"
[[monitors]]
name = "kdamond"
[monitors.config]
operations = "fvaddr"
[[monitors.config.schemes]]
access-pattern = { nr-accesses = { max = 0 } }
[[monitors.config.schemes]]
access-pattern = { age = { min = "1m" } }
[[monitors.config.schemes]]
quotas = { size = "64KiB", reset-interval = "1s" }
[[monitors.config.schemes]]
watermarks = { metric = "free-mem-rate", interval = "1s", high = "20%", mid = "15%", low = "5%" }
[[monitors.config.schemes]]
quotas = { size = "1KiB", reset-interval = "1s" }
[[monitors.config.schemes]]
[[monitors.config.schemes.core-filters]]
filter-type = "addr"
address-range = { start = 0, end = 0x7fffffffffff }
matching = true
allow = false
[[variants]]
name = "stopped"
[[variants]]
name = "plain"
patch = { monitors = [{ name = "k" }] }
[[variants]]
name = "unwatched"
patch = { monitors = [] }
"#;

/// Text about each scheme after its first sentence, and the counted reason with the most bytes.
const CAUSES: [(&str, &str); 6] = [
    ("used more often than its pattern allows (0 samples)", "counted"),
    ("behaviour changed more recently than its pattern asks for (1m)", "too_young"),
    ("the quota was used up: 64.0 KiB a window of 1s now, from size 64KiB", "quota_full"),
    ("Its watermarks had it switched off for", "inactive_passes"),
    ("its quota was below the smallest region (4KiB), so that nothing could be done", "quota_too_small_passes"),
    ("qualified, but filtered out by core-filters[0] (addr)", "core_filter"),
];

#[test]
fn the_cause_is_named_for_each_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stopped.toml");
    std::fs::write(&file, STOPPED).unwrap();
    let file = file.to_str().unwrap();
    let document: serde_json::Value = serde_json::from_str(&said(&["explain", file, "--format", "json"])).unwrap();
    assert_eq!((&document["variant"], &document["workload"]), (&"stopped".into(), &"store".into()));
    let monitors = document["monitors"].as_array().unwrap();
    assert_eq!(monitors.len(), 1, "only those with schemes: {document}");
    let schemes = monitors[0]["schemes"].as_array().unwrap();
    assert_eq!(schemes.len(), CAUSES.len());
    for (index, (scheme, (words, reason))) in schemes.iter().zip(CAUSES).enumerate() {
        let heard: Vec<&str> = scheme["words"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
        assert!(heard[0].starts_with(&format!("Scheme {index} (stat)")), "{heard:?}");
        assert!(heard[1..].iter().any(|sentence| sentence.contains(words)), "{heard:?} lacks {words:?}");
        let why = &scheme["all_passes"];
        assert!(why["passes"].as_u64().unwrap() > 10, "{why}");
        let count = why[reason]["bytes"].as_u64().or(why[reason].as_u64()).unwrap_or_else(|| panic!("{reason}: {why}"));
        assert!(count > 0, "{reason}: {why}");
    }

    // The same as text and as a table.
    let text = said(&["explain", file]);
    assert!(text.starts_with("kdamond: watched ") && text.contains(" of stopped, store, "), "{text}");
    CAUSES.iter().for_each(|(words, _)| assert!(text.contains(words), "{words:?} in {text}"));
    let csv = said(&["explain", file, "--scheme", "1", "--monitor", "kdamond", "--format", "csv"]);
    assert!(csv.starts_with("monitor,scheme,action,reason,regions,bytes\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 22, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.starts_with("kdamond,1,stat,")), "{csv}");
}

/// A program with 24 MiB, a quarter of it in use, and one broken scheme on physical memory.
fn broken(scheme: &str) -> String {
    format!(
        r#"
name = "broken"
until = "3s"
[machine]
nodes = [{{ memory = "128MiB" }}]
[[workloads]]
name = "store"
[workloads.load]
kind = "hot-cold"
footprint = "24MiB"
hot = "25%"
hot-pieces = 1
hot-accesses = "99%"
accesses-per-second = 100000
duration = "10s"
[[monitors]]
name = "kdamond"
[monitors.config]
operations = "paddr"
[[monitors.config.schemes]]
{scheme}
"#
    )
}

/// The five ways in which a configuration does nothing: the true cause is reported first, and no other one with it.
#[test]
fn broken_set_ups_are_told_by_their_true_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = path("broken.toml");
    // (the fault, the scheme, the first sentence about it, part of the next; `None`: checked at the end)
    let table: [(&str, &str, &str, Option<&str>); 5] = [
        (
            "the pattern never matches",
            "action = \"lru-prio\"\naccess-pattern = { nr-accesses = { min = \"100%\" } }",
            "Scheme 0 (lru-prio) was tried on nothing.",
            Some("100% of what it was shown: used less often than its pattern asks for (100%)."),
        ),
        (
            "the watermarks have it switched off",
            "action = \"pageout\"\n\
             watermarks = { metric = \"free-mem-rate\", interval = \"1s\", high = \"20%\", mid = \"15%\", low = \"5%\" }",
            "Scheme 0 (pageout) was tried on nothing.",
            Some("It never had a turn. Its watermarks"),
        ),
        (
            "the quota rounds to nothing",
            "action = \"pageout\"\nquotas = { size = \"1KiB\", reset-interval = \"1s\" }",
            "Scheme 0 (pageout) was tried on nothing.",
            Some(
                "its quota was below the smallest region (4KiB), so that nothing could be done: 1.00 KiB a window of 1s now",
            ),
        ),
        (
            "a filter rejects everything",
            "action = \"pageout\"\naccess-pattern = { nr-accesses = { max = 0 } }\n\
             ops-filters = [{ filter-type = \"anon\", matching = true, allow = false }]",
            "and changed nothing.",
            None,
        ),
        (
            "a filter of addresses rejects everything",
            "action = \"pageout\"\n[[monitors.config.schemes.core-filters]]\nfilter-type = \"addr\"\nmatching = true\n\
             allow = false\naddress-range = { start = 0, end = 0x7fffffffffff }",
            "Scheme 0 (pageout) was tried on nothing.",
            Some("100% of what it was shown: qualified, but filtered out by core-filters[0] (addr)."),
        ),
    ];
    for (cause, scheme, summary, first) in table {
        std::fs::write(&file, broken(scheme)).unwrap();
        let document: serde_json::Value = serde_json::from_str(&said(&["explain", &file, "--format", "json"])).unwrap();
        let reported = &document["monitors"][0]["schemes"][0];
        let words: Vec<&str> = reported["words"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
        assert!(words[0].contains(summary), "{cause}: {words:#?}");
        match first {
            Some(first) => assert!(words[1].contains(first), "{cause}: {words:#?}"),
            // Pages are counted in addition to regions, and all regions were tried.
            None => assert!(
                words.iter().any(|word| word.contains("was left alone by ops-filters[0] (anon).")),
                "{cause}: {words:#?}"
            ),
        }
        assert_eq!(reported["stats"]["sz_applied"], 0, "{cause}");
        // The same from a saved result.
        let result = path("result.json");
        std::fs::write(&result, said(&["simulate", &file, "--format", "json"])).unwrap();
        let text = said(&["explain", &result, "--scheme", "0"]);
        words.iter().for_each(|word| assert!(text.contains(word), "{cause}: {text}"));
    }

    // Actions that the machine lacks are reported before the run, by every verb that would run it.
    std::fs::write(&file, broken("action = \"migrate-hot\"\ntarget-nid = 1")).unwrap();
    for verb in ["explain", "simulate"] {
        let run = isotherm(&[verb, &file]);
        let message = String::from_utf8_lossy(&run.stderr);
        let words = "schemes[0]: `action` is migrate-hot, which is not available here; available: stat, pageout, lru-prio, lru-deprio";
        assert!(!run.status.success() && message.contains(words) && message.contains("`kdamond`"), "{verb}: {message}");
    }
}

/// Schemes are exported to damo's configuration and imported again; their effects stay the same.
#[test]
fn schemes_are_exported_for_damo_and_taken_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let own = broken(
        "action = \"pageout\"\naccess-pattern = { nr-accesses = { max = 0 }, age = { min = \"500ms\" } }\n\
         quotas = { time = \"10ms\", size = \"4MiB\", reset-interval = \"1s\", weights = { age = 1 } }",
    );
    std::fs::write(path("own.toml"), &own).unwrap();
    let config = own.find("[monitors.config]").unwrap();
    let run = isotherm(&["export", &path("own.toml"), "-o", &path("kdamonds.json")]);
    let talk = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && talk.contains("`regions` are all memory of the simulated machine"), "{talk}");
    let theirs = format!("{}damo = \"kdamonds.json\"\n", &own[..config]);
    std::fs::write(path("theirs.toml"), theirs).unwrap();
    let (own, theirs) = (said(&["explain", &path("own.toml")]), said(&["explain", &path("theirs.toml")]));
    assert_eq!(own, theirs);
    assert!(own.contains("Scheme 0 (pageout) was tried"), "{own}");
    let own = path("own.toml");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    let trace = trace.to_str().unwrap();
    let table: [(&[&str], i32, &str); 7] = [
        (&[&own, "-o", "x.yaml"], 2, "x.yaml must end in .json"),
        (&[&own, "-o", "x.json", "--to", "csv"], 2, "--to csv is for page traces and region records"),
        (
            &[&own, "-o", "x.json", "--monitor", "nobody"],
            2,
            "there is no monitor `nobody` in variant `classic`; monitors: kdamond",
        ),
        (&[&own, "-o", "x.json", "--variant", "nobody"], 2, "there is no variant `nobody`; variants: classic"),
        (&[&own, "-o", "x.json", "--sample", "5ms"], 2, "--sample is for page traces and region records"),
        (&[trace, "-o", "x.json", "--to", "kdamonds"], 2, "--to kdamonds is for scenarios with monitors"),
        (&[trace, "-o", "x.json", "--monitor", "k"], 2, "--monitor is for scenarios"),
    ];
    for (flags, code, words) in table {
        let run = isotherm(&[&["export"], flags].concat());
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{flags:?}: {message}");
        assert!(message.contains(words), "{flags:?}: {message}");
    }
    let ptp = broken("").replace("operations = \"paddr\"\n[[monitors.config.schemes]]", "strategy = \"ptp\"");
    std::fs::write(&own, ptp).unwrap();
    let run = isotherm(&["export", &own, "-o", &path("x.json")]);
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("as damo's: `strategy` is set to what damo has no word for; allowed: leaf"), "{message}");
    assert!(run.status.code() == Some(2) && !Path::new(&path("x.json")).exists());
}

/// A saved result gives the same explanation as the run, without another run.
#[test]
fn results_are_explained_as_their_runs_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (scenario, result) = (path("stopped.toml"), path("result.json"));
    std::fs::write(&scenario, STOPPED).unwrap();
    std::fs::write(&result, said(&["simulate", &scenario, "--repeats", "2", "--format", "json"])).unwrap();
    for flags in [&[][..], &["--scheme", "3"], &["--monitor", "kdamond", "--format", "csv"], &["--variant", "stopped"]]
    {
        let (run, saved) = (["explain", &scenario], ["explain", &result]);
        assert_eq!(said(&[&saved, flags].concat()), said(&[&run, flags].concat()), "{flags:?}");
    }
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_str(&said(&["explain", file, "--format", "json"])).unwrap()
    };
    let (mut run, mut saved) = (json(&scenario), json(&result));
    (run["source"], saved["source"]) = (0.into(), 0.into());
    assert_eq!(saved, run);

    let text = std::fs::read_to_string(&result).unwrap();
    let files = [
        ("cut.json", &text[..text.len() / 2], 1, "it is cut off"),
        ("empty.json", "", 1, "it is cut off"),
        (
            "other.json",
            r#"{"kdamonds": []}"#,
            1,
            "it is no result of `isotherm simulate --format json`: missing field `scenario`",
        ),
        ("list.json", "[1]", 1, "it is no result"),
        ("odd.json", &text.replacen("too_young", "too_bored", 1), 1, "`too_bored` is no reason"),
        (
            "plain.json",
            r#"{"scenario": "x", "rows": [], "ratios": []}"#,
            2,
            "its scenario `x` has no monitor with schemes",
        ),
    ];
    for (name, text, code, words) in files {
        std::fs::write(path(name), text).unwrap();
        refused(&[&path(name)], code, words);
    }
    let flags: [(&[&str], &str); 5] = [
        (&["--variant", "plain"], "no such run with schemes is in it; variant and workload: stopped, store"),
        (&["--monitor", "watcher"], "there is no monitor `watcher` in this run; monitors: kdamond"),
        (&["--scheme", "6"], "--scheme is 6; allowed: 0 to 5, the schemes of `kdamond`"),
        (&["--seed", "2"], "is a result, which was played before: leave --seed out"),
        (&["--preset", "reclaim"], "leave --preset out"),
    ];
    for (flags, words) in flags {
        refused(&[&[result.as_str()], flags].concat(), 2, words);
    }
}

/// The limit over time, with a reason for each decision.
#[test]
fn decisions_of_right_sizing_are_shown() {
    let text = said(&["explain", "right-sizing", "--variant", "mglru"]);
    for words in [
        "The limit of /web was lowered ",
        "harm was above the goal not long before",
        "decisions on memory.high",
        "squeeze",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let csv = said(&["explain", "right-sizing", "--variant", "classic", "--format", "csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() > 200 && lines[1].starts_with("/web,0,hold,first look,"), "{:?}", &lines[..2]);
    let json = said(&["explain", "right-sizing", "--variant", "classic", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let steps = document["limits"][0]["steps"].as_array().unwrap();
    assert_eq!((steps.len(), steps[0]["reason"].as_str()), (lines.len() - 1, Some("first_look")));
    refused(&["right-sizing", "--variant", "unlimited"], 2, "no monitor watches this run");
    refused(&["right-sizing", "--variant", "mglru", "--scheme", "0"], 2, "no monitor watches this run");
}

fn refused(flags: &[&str], code: i32, words: &str) {
    let run = isotherm(&[&["explain"], flags].concat());
    let message = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(code), "{flags:?}: {message}");
    assert!(message.contains(words) && run.stdout.is_empty(), "{flags:?}: {message}");
}

#[test]
fn places_add_up_to_what_is_told_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stopped.toml");
    std::fs::write(&file, STOPPED).unwrap();
    let file = file.to_str().unwrap();
    let document: serde_json::Value =
        serde_json::from_str(&said(&["explain", file, "--places", "--format", "json"])).unwrap();
    let places = document["places"].as_array().unwrap();
    let monitor = document["monitors"].as_array().unwrap().iter().find(|one| one["name"] == "kdamond").unwrap();
    let mut compared = 0;
    for scheme in monitor["schemes"].as_array().unwrap() {
        let here = places.iter().filter(|place| place["monitor"] == "kdamond" && place["scheme"] == scheme["index"]);
        let mut sums = std::collections::BTreeMap::<&str, (u64, u64)>::new();
        for place in here {
            assert_eq!(
                (place["target"].as_str(), place["cgroup"].as_str()),
                (Some("store"), Some("/store")),
                "{place}"
            );
            let sum = sums.entry(place["reason"].as_str().unwrap()).or_default();
            *sum = (sum.0 + place["regions"].as_u64().unwrap(), sum.1 + place["bytes"].as_u64().unwrap());
        }
        for (reason, (regions, bytes)) in sums {
            let whole = &scheme["all_passes"][reason];
            assert_eq!((whole["regions"].as_u64(), whole["bytes"].as_u64()), (Some(regions), Some(bytes)), "{reason}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared}");
    let text = said(&["explain", file, "--places", "--monitor", "kdamond", "--scheme", "0"]);
    assert!(text.contains("most of it") && text.contains("/store"), "{text}");
    let csv = said(&["explain", file, "--places", "--format", "csv"]);
    assert!(csv.starts_with("monitor,scheme,target,group,start,end,reason,regions,bytes\n"), "{csv}");
}

#[test]
fn presets_act_on_replays_of_traces() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    let text = said(&["explain", trace.to_str().unwrap(), "--preset", "lru-sort"]);
    assert!(text.contains("Scheme 0 (lru-prio) was tried on nothing."), "{text}");
    assert!(text.contains("Its watermarks have it switched off"), "{text}");
}

#[test]
fn questions_without_an_answer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stopped.toml");
    std::fs::write(&file, STOPPED).unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    let (file, trace) = (file.to_str().unwrap(), trace.to_str().unwrap());
    let table: [(&[&str], i32, &str); 16] = [
        (&[file, "--scheme", "6"], 2, "--scheme is 6; allowed: 0 to 5, the schemes of `watcher`, `kdamond`"),
        (&[file, "--monitor", "nobody"], 2, "there is no monitor `nobody` in this run; monitors: watcher, kdamond"),
        (&[file, "--monitor", "watcher"], 2, "no schemes in `watcher`"),
        (&[file, "--variant", "plain"], 2, "no schemes in `k`, which only monitors"),
        (&[file, "--variant", "unwatched"], 2, "add a `[[monitors]]` table"),
        (&[file, "--variant", "nobody"], 2, "there is no variant `nobody`"),
        (&[file, "--workload", "nobody"], 2, "there is no workload `nobody`"),
        (&[file, "--preset", "reclaim"], 2, "is a scenario"),
        (&[file, "--memory", "1GiB"], 2, "the memory of its `[machine]`"),
        (&[trace, "--preset", "reclaim", "--memory", "1KiB"], 2, "--memory: `nodes"),
        (&[file, "--scheme", "first"], 2, "--scheme"),
        (&[trace], 2, "--preset: lru-sort, reclaim, stat, plrus-radical"),
        (&[trace, "--preset", "stat"], 2, "no schemes"),
        (&[trace, "--preset", "lru"], 2, "lru-sort"),
        (&[trace, "--variant", "v", "--preset", "reclaim"], 2, "--variant is for scenarios"),
        (&["no-such-file.toml"], 1, "no-such-file.toml"),
    ];
    for (flags, code, words) in table {
        refused(flags, code, words);
    }
}
