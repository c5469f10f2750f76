//! `isotherm advise` and `isotherm simulate` as a user runs them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn isotherm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(arguments).output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A trace of 40 sweeps over 600 pages, half of them used twice as often.
fn trace(folder: &Path) -> PathBuf {
    let mut requests = String::new();
    for sweep in 0..40u32 {
        for page in 0..600u32 {
            if page < 300 || sweep % 2 == 0 {
                writeln!(requests, "{page}").unwrap();
            }
        }
    }
    let (source, trace) = (folder.join("pages.txt"), folder.join("pages.parquet"));
    std::fs::write(&source, requests).unwrap();
    let output = isotherm(&["import", source.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--from", "text"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    trace
}

#[test]
fn advice_names_a_size_and_writes_a_report_and_a_scenario_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (report, config) = (folder.path().join("r.html"), folder.path().join("c.toml"));
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    let output = isotherm(&[
        "advise",
        recording,
        "--memory",
        "60%,100%",
        "--kernel",
        "7.2",
        "--report",
        report.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "--details",
    ]);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let now = format!("isotherm apply {} --cgroup /GROUP", config.display());
    assert!(stdout.contains("/sys/fs/cgroup/GROUP/memory.high") && stdout.contains(&now), "{stdout}");
    // Wherever its lines end.
    let sentence = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(sentence.contains("Recommendation: ") && sentence.contains("It holds as memory.max = "), "{stdout}");
    assert!(stdout.contains("Predicted gain in memory: "), "{stdout}");
    assert!(sentence.contains(" on Linux 7.2."), "{stdout}");
    assert!(sentence.contains("Price of safety: ") && sentence.contains("with 3 % less memory"), "{stdout}");
    assert!(stdout.contains("files on another device") && stdout.contains("swap on another device"), "{stdout}");
    assert!(stdout.contains("What schemes did there"), "{stdout}");
    assert!(stdout.contains("With the kernel's own parameters:"), "{stdout}");
    assert!(stdout.contains("What this does not know"), "{stdout}");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("<svg") && html.contains("Memory over time"), "curves and a heatmap");
    assert!(html.contains("Side by side") && html.contains("classic + reclaim"), "combinations too");
    assert!(!html.contains("http://") || html.contains("http://www.w3.org"), "nothing comes from the network");
    let output = isotherm(&["simulate", config.to_str().unwrap(), "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runtime = result["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "runtime_ns").unwrap();
    assert!(runtime["mean"].as_f64().unwrap() > 1e9);
}

/// The scenario that advice writes replays the runs behind its figures, next to the program without limits.
#[test]
fn the_written_scenario_gives_the_figures_of_the_advice_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    let config = config.to_str().unwrap();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/table.parquet");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = isotherm(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let sizes = ["--memory", "60%,100%"];
    let advice =
        json(&[&["advise", recording, "--anyway", "--format", "json", "--config", config], &sizes[..]].concat());
    let best = &advice["recommendation"];
    let row = advice["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["candidate"] == best["candidate"] && row["memory_bytes"] == best["memory_bytes"]);
    let row = row.expect("what is recommended was played");
    let result = json(&["simulate", config, "--format", "json"]);
    let found = |list: &str, metric: &str| {
        let rows = result[list].as_array().unwrap().iter();
        rows.clone().find(|row| row["metric"] == metric && row["variant"] != "without limits").unwrap().clone()
    };
    for (given, again, unit) in [
        (&best["runtime_ratio_ppm"], found("ratios", "runtime_ns"), 1e6),
        (&best["major_faults"], found("rows", "major_faults"), 1.0),
        (&row["mean_bytes"], found("rows", "mean_bytes"), 1.0),
    ] {
        assert_eq!(again["n"], best["n"]);
        // Figures of the advice are rounded down.
        let is_same = |ours: &str, theirs: &str| {
            (again[ours].as_f64().unwrap() * unit - given[theirs].as_f64().unwrap()).abs() < 1.5
        };
        assert!(is_same("least", "chance_low"), "{given} {again}");
        // The median of the advice is that of first starts; in some worlds the program starts again.
        let median = again["median"].as_f64().unwrap() * unit;
        let ends = ["chance_low", "chance_high"].map(|end| given[end].as_f64().unwrap());
        assert!((ends[0] - 1.5..ends[1] + 1.5).contains(&median), "{given} {again}");
        // With at least 20 runtimes, and 40 counts, the upper end in the advice excludes some.
        assert!(
            again["most"].as_f64().unwrap() * unit + 1.5 > given["chance_high"].as_f64().unwrap(),
            "{given} {again}"
        );
    }
    assert!(result["expectations"][0]["met"] == true, "{}", result["expectations"]);
    let output = isotherm(&["simulate", config, "--repeats", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("worlds, each with a seed of its own"), "{}", text(&output.stderr));
}

/// A recording with too little work to judge gets a sentence in place of a page.
#[test]
fn a_short_recording_gets_no_recommendation() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/table.parquet");
    let ask = |more: &[&str]| {
        let usual = ["advise", recording, "--kernel", "7.2", "--effort", "quick", "--memory", "60%,100%"];
        let output = isotherm(&[&usual[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let short = ask(&[]);
    assert!(short.contains("No recommendation: table works for ") && !short.contains("What to do now"), "{short}");
    let json: serde_json::Value = serde_json::from_str(&ask(&["--format", "json"])).unwrap();
    assert!(json["recommendation"].is_null(), "{json}");
    assert!(json["withheld"].as_str().unwrap().contains("record it for longer"), "{}", json["withheld"]);
    let anyway = ask(&["--anyway"]);
    assert!(anyway.contains("Recommendation: "), "{anyway}");
}

/// Of several recordings of a program the one that needs most memory decides.
#[test]
fn of_several_recordings_the_largest_need_decides() {
    let folder = tempfile::tempdir().unwrap();
    let whole = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/table.parquet");
    let begin = folder.path().join("begin.parquet");
    let begin = begin.to_str().unwrap();
    let cut = isotherm(&["convert", "cut", whole, "--to", "10%", "-o", begin]);
    assert!(cut.status.success(), "{}", text(&cut.stderr));
    let ask = |more: &[&str]| {
        let usual = ["advise", begin, whole, "--kernel", "7.2", "--effort", "quick", "--memory", "60%,100%"];
        let output = isotherm(&[&usual[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let json: serde_json::Value = serde_json::from_str(&ask(&["--anyway", "--format", "json"])).unwrap();
    let needs = |index: usize| json["recordings"][index]["recommendation"]["memory_bytes"].as_u64();
    assert!(needs(1) > needs(0) && needs(0).is_some(), "{:?} {:?}", needs(0), needs(1));
    assert_eq!(json["decides"], 1);
    let people = ask(&["--anyway"]);
    let row = people.lines().find(|line| line.contains("decides")).unwrap_or_else(|| panic!("{people}"));
    assert!(row.starts_with("table ") && people.contains("Recommendation: "), "{people}");
    // Without one that can be judged nothing decides.
    assert!(ask(&[]).contains("No recommendation for all of them"), "{people}");
}

/// Replays are cached: the second answer equals the first, even if the cache folder holds garbage.
#[test]
fn a_second_question_plays_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let cache = folder.path().join("cache");
    let ask = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command
            .args(["advise", trace.to_str().unwrap(), "--memory", "50%,80%", "--effort", "quick", "--format", "json"])
            .args(more);
        let output = command.env("XDG_CACHE_HOME", &cache).env_remove("ISOTHERM_NO_CACHE").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let plain = ask(&["--no-cache"]);
    assert!(!cache.exists(), "nothing is kept");
    assert_eq!(ask(&[]), plain);
    let files = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(cache.join("isotherm/replays")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    let kept = std::fs::read_to_string(file).unwrap();
    assert_eq!(ask(&[]), plain);
    assert_eq!(std::fs::read_to_string(file).unwrap(), kept, "nothing was played");
    ask(&["--slowdown", "20%"]);
    assert!(std::fs::read_to_string(file).unwrap().starts_with(&kept), "what was played is added");
    std::fs::write(file, &kept[..kept.len() / 3]).unwrap();
    assert_eq!(ask(&[]), plain, "a torn file");
    std::fs::write(file, "no replay\n{}\n").unwrap();
    assert_eq!(ask(&[]), plain, "garbage");
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, "no folder").unwrap();
    assert_eq!(ask(&[]), plain, "no folder can be made");
}

/// A window is replayed as `isotherm convert cut` would write it.
#[test]
fn a_window_of_a_recording_is_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/table.parquet");
    let (cut, record) = (folder.path().join("table.parquet"), folder.path().join("r.parquet"));
    let (cut, record) = (cut.to_str().unwrap(), record.to_str().unwrap());
    let window = ["--from", "25%", "--to", "75%"];
    let said = |arguments: &[&[&str]]| {
        let output = isotherm(&arguments.concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    said(&[&["trace", "cut", recording, "-o", cut], &window]);
    let asked = ["--memory", "100%", "--effort", "quick", "--format", "json"];
    let of_window = said(&[&["advise", recording], &window, &asked]);
    assert_eq!(of_window, said(&[&["advise", cut], &asked]));
    assert_ne!(of_window, said(&[&["advise", recording], &asked]));
    said(&[&["monitor", concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/redis.parquet"), "-o", record]]);
    for flags in
        [&["--from", "25%"][..], &["--to", "75%"], &["--effort", "quick"], &["--sample", "1/16"], &["--no-cache"]]
    {
        let output = isotherm(&[&["advise", record], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(text(&output.stderr).contains("is for page traces"), "{}", text(&output.stderr));
    }
}

/// The answer, the next step and the evidence come first, in reading order, on one screen.
#[test]
fn advice_fits_a_screen() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    let output = isotherm(&["advise", recording, "--memory", "60%,100%", "--kernel", "7.2"]);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let places = [
        "Recommendation: ",
        "Predicted gain in memory",
        "Of 100 runs 95",
        "with 3 % less memory",
        "What to do now",
        "At memory.max",
        "--details plays and shows",
    ];
    let found: Vec<usize> =
        places.iter().map(|words| stdout.find(words).unwrap_or_else(|| panic!("{words}: {stdout}"))).collect();
    assert!(found.is_sorted(), "{found:?} {stdout}");
    assert!(stdout.lines().count() <= 40 && stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
    assert!(stdout.contains("echo ") && stdout.contains("/memory.high"), "{stdout}");
    assert!(!stdout.contains("\nopt "), "baselines are played where they are asked for: {stdout}");
}

#[test]
fn json_rows_carry_integers_and_opt_is_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let ask = |threads| {
        // With less effort, baselines have no rows below a size that is too slow for them.
        let all = ["--baselines", "--effort", "thorough", "--format", "json", "--threads", threads];
        isotherm(&[&["advise", trace.to_str().unwrap(), "--memory", "50%,80%"], &all[..]].concat())
    };
    let output = ask("1");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(output.stdout, ask("2").stdout, "the answer does not depend on threads");
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = advice["rows"].as_array().unwrap();
    let faults = |candidate: &str, share: u64| {
        let found = rows.iter().find(|row| {
            row["candidate"] == candidate && row["memory_share_ppm"].as_u64().unwrap().abs_diff(share) < 5_000
        });
        found.unwrap_or_else(|| panic!("no row {candidate} {share}"))["major_faults"]["median"].as_u64().unwrap()
    };
    for share in [500_000, 800_000] {
        for candidate in std::iter::once("classic").chain(isotherm_kernel::reclaim::baselines().map(|entry| entry.name))
        {
            assert!(faults("opt", share) <= faults(candidate, share), "{candidate} {share}");
        }
    }
    assert!(faults("lru", 500_000) > 0);
}

#[test]
fn bad_questions_are_refused_with_what_where_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let good = trace(folder.path());
    let good = good.to_str().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = std::fs::read(good).unwrap();
    let (empty, garbage, torn) =
        (file("empty", b""), file("garbage", b"not a trace"), file("torn", &whole[..whole.len() / 2]));
    let sqlite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    let typo = file("typo.toml", b"name = \"x\"\npolicies = 1\n");
    let table: &[(&[&str], i32, &str)] = &[
        (&["advise", "/nonexistent/x.parquet"], 1, "/nonexistent/x.parquet"),
        (&["advise", &empty], 1, "empty"),
        (&["advise", &garbage], 1, "garbage"),
        (&["advise", good, "--effort", "some"], 2, "allowed: quick, normal, thorough"),
        (&["advise", good, "--sample", "1/1"], 2, "allowed: 1/2 to 1/1024, scout:1/N, auto, off"),
        (&["advise", good, "--sample", "scout:16"], 2, "allowed: 1/2 to 1/1024, scout:1/N, auto, off"),
        (&["advise", sqlite, "--sample", "1/16"], 2, "fewer than 60MiB say too little; take 1/2 or a larger part"),
        (&["advise", good, "--from", "1ms", "--verify"], 2, "isotherm convert cut"),
        (&["trace", "make", "-o", "x.parquet", "--theta", "3"], 2, "allowed: 0 to 1.99"),
        (&["trace", "make", "-o", "x.parquet", "--touches", "7"], 2, "fewer than the 2097152 pages"),
        (&["trace", "make", "-o", "x.parquet", "--length", "1ms"], 2, "allowed: 20ms to 30 days"),
        (&["trace", "make", "-o", "x.parquet", "--footprint", "1PiB"], 2, "allowed: 4KiB to 4TiB"),
        (&["advise", &torn], 1, "torn"),
        (&["advise", good, "--memory", "0"], 2, "allowed"),
        (&["advise", good, "--memory", "4KiB"], 2, "allowed: 128KiB to"),
        (&["advise", good, "--memory", "900TiB"], 2, "allowed"),
        (&["advise", good, "--memory", "lots"], 2, "expected a number with a unit"),
        (&["advise", good, "--swap", "tape"], 2, "allowed: none, ram, zram, nvme, ssd, disk"),
        (&["advise", good, "--storage", "latency=4ms,bandwith=1MiB/s"], 2, "did you mean `bandwidth`?"),
        (&["advise", good, "--storage", "none"], 2, "files cannot lie on `none`"),
        (&["advise", good, "--kernel", "6.17"], 2, "allowed: 6.12, 6.18, 7.2, host, all"),
        (&["advise", good, "--fast", "50%", "--slow", "cxl", "--kernel", "all"], 2, "one release of the kernel"),
        (&["advise", good, "--slowdown", "-3%"], 2, "unexpected argument"),
        (&["advise", good, "--report", "/nonexistent/r.html", "--memory", "80%"], 1, "/nonexistent/r.html"),
        (&["advise"], 2, "required"),
        (&["simulate", "polices"], 2, ", policies, "),
        (&["simulate", "/nonexistent/s.toml"], 1, "/nonexistent/s.toml"),
        (&["simulate", &typo], 2, "typo.toml:2:1: unknown field `policies`"),
    ];
    for (arguments, code, expected) in table {
        let output = isotherm(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr:?} lacks {expected:?}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// 20 sweeps over 3000 pages: the last 500 are used each time, the others every second time.
fn trace_of_12_mib(folder: &Path) -> PathBuf {
    let mut requests = String::new();
    for sweep in 0..20u32 {
        for page in 0..3000u32 {
            if page >= 2500 || sweep % 2 == 0 {
                writeln!(requests, "{page}").unwrap();
            }
        }
    }
    let (source, trace) = (folder.join("sweeps.txt"), folder.join("sweeps.parquet"));
    std::fs::write(&source, requests).unwrap();
    let output = isotherm(&["import", source.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--from", "text"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    trace
}

#[test]
fn advice_on_two_tiers_compares_all_policies_and_writes_what_it_recommends() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace_of_12_mib(folder.path());
    let (report, config) = (folder.path().join("r.html"), folder.path().join("c.toml"));
    let ask = |format: &str, threads: &str| {
        let tiers = ["advise", trace.to_str().unwrap(), "--fast", "50%", "--slow", "cxl", "--threads", threads];
        let files = ["--report", report.to_str().unwrap(), "--config", config.to_str().unwrap(), "--format", format];
        let output = isotherm(&[&tiers[..], &files[..]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    let json = ask("json", "1");
    assert_eq!(json, ask("json", "2"), "the answer does not depend on threads");
    let advice: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let row = |policy: &str| {
        let rows = advice["rows"].as_array().unwrap();
        rows.iter().find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("no {policy}")).clone()
    };
    assert_eq!(advice["rows"].as_array().unwrap().len(), 11);
    let ratio = |policy: &str| row(policy)["runtime_ratio_ppm"].as_u64().unwrap();
    assert_eq!((ratio("all-fast"), row("all-fast")["fast_hit_ppm"].as_u64()), (1_000_000, Some(1_000_000)));
    assert!(ratio("all-slow") > ratio("none") && ratio("none") > 1_000_000, "half of it is slow");
    let linux: Vec<&str> = ["none", "numa-mode-1", "numa-mode-2", "damon-migrate"].to_vec();
    let best = advice["recommendation"]["policy"].as_str().unwrap();
    assert!(linux.contains(&best) && row(best)["runs_on_linux"] == true, "{best}");
    assert_eq!(row("rch")["runs_on_linux"], false);
    let table = text(&ask("table", "2"));
    assert!(table.contains("Recommendation: ") && table.contains("What this does not know:"), "{table}");
    assert!(text(&ask("csv", "2")).starts_with("policy,n,"));
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("<svg") && html.contains("On the fast tier, over time") && html.contains("damon-migrate"));
    let output = isotherm(&["simulate", config.to_str().unwrap(), "--format", "json", "--repeats", "1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_two_tiers_cannot_be_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (trace(folder.path()), trace_of_12_mib(folder.path()));
    let table: [(&Path, &[&str], &str); 8] = [
        (&large, &["--fast", "0%", "--slow", "cxl"], "a fast tier of 0% is 0B here; allowed: 4MiB to "),
        (&large, &["--fast", "101%", "--slow", "cxl"], "a fast tier of 101% is "),
        (&small, &["--fast", "50%", "--slow", "cxl"], "a node holds 4MiB at least, which would be all of it"),
        (&large, &["--fast", "50%", "--slow", "dram"], "no slower than the fast tier, which is dram with 100ns"),
        (&large, &["--fast", "50%", "--slow", "optane"], "unknown kind of memory `optane`; allowed: dram, cxl-near"),
        (&large, &["--fast", "50%"], "--slow <KIND>"),
        (&large, &["--slow", "cxl"], "--fast <SIZE>"),
        (&large, &["--fast", "50%", "--slow", "cxl", "--memory", "50%"], "cannot be used with"),
    ];
    for (trace, arguments, words) in table {
        let output = isotherm(&[&["advise", trace.to_str().unwrap()], arguments].concat());
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn huge_pages_are_a_question_of_their_own() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/redis.parquet");
    let trace = trace.to_str().unwrap();
    let output = isotherm(&["advise", trace, "--huge-pages", "--kernel", "7.2"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in
        ["peak memory", "aligned ranges of 2 MiB", "Memory that could be huge pages", "To do now:", "hugetlb=1"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("memory.max"), "no search for sizes: {said}");
    let output = isotherm(&["advise", trace, "--huge-pages", "--kernel", "7.2", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert!(document["peak_bytes"].as_u64() > Some(1 << 20) && document["huge_pages"]["ranges"].is_object());
    let refused = isotherm(&["advise", trace, "--huge-pages", "--memory", "50%"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

/// docs/use/advise.md: Ctrl-C prints the results so far, with exit code 4.
#[test]
fn interrupted_advice_says_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(["advise", recording, "--kernel", "7.2", "--format", "json"]);
    command.env("XDG_CACHE_HOME", &cache).env_remove("ISOTHERM_NO_CACHE").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Each replay is cached when it ends, so advice can be interrupted after the first one.
    while !cache.join("isotherm/replays").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it kept anything");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted: this is what was known by then"), "{}", text(&output.stderr));
    let known: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(known["is_partial"], true);
    assert!(known["peak_bytes"].as_u64() > Some(100 << 20) && known["replays"].as_u64() > Some(0), "{known}");
}
