//! Wrong scenario files, and the line and column that the message names; one spelling of keys, and one note on the other.

use isotherm_scenario::{BUNDLED, load_with_note, parse, print};

/// Ten files that are wrong in one place each, with that place counted by hand, and part of the message. Most have the words
/// somewhere before it, too: in a comment, a string or another section.
const WRONG: [(&str, &str, &str); 10] = [
    (
        r#"name = "comment"
# swappiness is 500 on purpose
[[workloads]]
name = "w"
load = { kind = "idle" }
[machine]
swappiness = 500
"#,
        "7:1",
        "[machine] `swappiness` is 500; allowed: 0 to 200",
    ),
    (
        r#"name = "section"
title = "how many copies = 0 are"
[[workloads]]
name = "first"
copies = 2
load = { kind = "idle" }
[[workloads]]
name = "second"
copies = 0
load = { kind = "idle" }
"#,
        "9:1",
        "workload `second`: `copies` is 0; allowed: 1 to 1024",
    ),
    (
        r#"name = "string"
title = "100% of \"10%\""
cgroups = [{ path = "/a", max = "10%" }, { path = "/b",
  max = "0%" }]
[[workloads]]
name = "w"
load = { kind = "idle" }
"#,
        "4:3",
        "`max` of cgroup `/b` is 0%; allowed: more than 0%",
    ),
    (
        r#"name = "key"
# swapines
[machine]
swapines = 3
"#,
        "4:1",
        "unknown field `swapines`, expected one of `kernel`, `lazy-statistics`",
    ),
    (
        r#"name = "tagged"
[[workloads]]
name = "hot-acesses"
[workloads.load]
kind = "hot-cold"
footprint = "4MiB"
hot-acesses = "50%"
"#,
        "7:1",
        "unknown field `hot-acesses`",
    ),
    (
        r#"name = "value in a tagged table"
[[workloads]]
name = "4 parsecs"
load = { kind = "scan", footprint = "4MiB" }
[[workloads]]
name = "w"
load = { kind = "scan", footprint = "4 parsecs" }
"#,
        "7:37",
        "parsecs",
    ),
    (
        r#"name = "flattened"
# threshold
[[workloads]]
name = "w"
load = { kind = "idle" }
[[generations]]
name = "threshold"
mode = "reclaim"
targets = ["/w"]
interval = "1s"
threshold = "1m"
"#,
        "11:1",
        "generations `threshold`: `threshold` is 1m; allowed: from the interval of 1s",
    ),
    (
        r#"name = "patch"
[machine]
swappiness = 100
[[workloads]]
name = "w"
load = { kind = "idle" }
[[variants]]
name = "fine"
patch = { machine = { swappiness = 0 } }
[[variants]]
name = "wrong"
patch.repeats = 2
patch.machine = { cpus = 1, swappiness = 300 }
"#,
        "13:29",
        "variant `wrong`: [machine] `swappiness` is 300; allowed: 0 to 200",
    ),
    (
        r#"name = "patch of a list"
[[workloads]]
name = "w"
[workloads.load]
kind = "hot-cold"
footprint = "4MiB"
hot = "50%"
[[variants]]
name = "hot"
[variants.patch.workloads."*".load]
hot-accesses = "60%"
hot = true
"#,
        "12:1",
        "variant `hot`: invalid type: boolean `true`",
    ),
    (
        r#"name = "scheme"
# action = "cold"
[[workloads]]
name = "action"
load = { kind = "idle" }
[[monitors]]
name = "one"
config = { operations = "paddr", schemes = [{ action = "pageout" }] }
[[monitors]]
name = "two"
[monitors.config]
ops = "paddr"
[[monitors.config.schemes]]
action = "stat"
[[monitors.config.schemes]]
access-pattern = { age = { min = "1s" } }
action = "cold"
"#,
        "17:1",
        "monitor `two`: schemes[1]: `action` is cold; allowed: stat, pageout",
    ),
];

#[test]
fn ten_wrong_files_are_refused_at_the_right_place() {
    for (text, place, words) in WRONG {
        let error = parse(text, "s.toml").expect_err(text).to_string();
        assert!(error.starts_with(&format!("s.toml:{place}: ")) && error.contains(words), "{place}\n{error}\n{text}");
    }
}

/// More places, in short: the text after `name = "x"` and a workload `w` in lines 1 to 4.
#[test]
fn each_section_names_its_own_keys() {
    let table = [
        ("metrics = [\"runtime_ns\",\n \"runtime\"]", "6:2", "unknown metric `runtime`"),
        ("against = \"w\"", "5:1", "`against` names `w`, which is no variant"),
        ("policy = \"w\"", "5:1", "`w`"),
        ("repeats = 0", "5:1", "`repeats` is 0"),
        ("repeats = \"w\"", "5:11", "invalid type: string \"w\""),
        ("limit = \"1B\"", "5:1", "`limit` is 1B; allowed: 128KiB to"),
        ("matrix = { policies = [\"classic\", \"w\"], limits = [\"50%\"] }", "5:35", "`w`"),
        ("matrix = { policies = [\"classic\"], limits = [\"50%\", \"0%\"] }", "5:53", "`limit` is 0%"),
        ("[machine]\nnodes = [{}, { memory = \"1B\" }]", "6:16", "`nodes[1].memory` is 1B"),
        ("[machine.swap]\ncompression-ratio = \"50%\"", "6:1", "`swap.compression-ratio` is 50%"),
        ("[tiering]\npolicy = \"w\"", "6:1", "[tiering] `policy` is w"),
        ("[[cgroups]]\npath = \"w\"", "6:1", "cgroup path `w` must be absolute"),
        ("[[workloads]]\nname = \"w\"\nload = { kind = \"idle\" }", "6:1", "two workloads are called `w`"),
        ("[[workloads]]\nname = \"v\"\nload = { kind = \"w\" }", "7:17", "unknown variant `w`"),
        ("[[workloads]]\nname = \"v\"\n[workloads.load]\nfootprint = \"1MiB\"", "7:1", "missing field `kind`"),
        ("[[workloads]]\nload = { kind = \"idle\" }", "5:1", "missing field `name`"),
        ("[[events]]\nat = \"1s\"\nstart = \"w\"", "7:1", "`w` starts by itself"),
        ("[[events]]\nat = \"1s\"\nset = { cgroup = \"/v\", max = \"max\" }", "7:9", "unknown cgroup `/v`"),
        ("[[events]]\nat = \"1s\"", "6:1", "exactly one of"),
        ("[[averages]]\nname = \"v\"\nworkloads = [\"w\", \"v\"]", "7:19", "`v`, which is no workload"),
        (
            "[[references]]\nworkload = \"w\"\nvariant = \"w\"\nmetric = \"runtime_ns\"\nsource = \"w\"",
            "7:1",
            "`w` is no variant",
        ),
        (
            "[[expectations]]\nworkload = \"w\"\nvariant = \"classic\"\nmetric = \"w\"\nsource = \"w\"",
            "8:1",
            "`w` is no metric",
        ),
        (
            "[[expectations]]\nworkload = \"w\"\nvariant = \"classic\"\nmetric = \"runtime_ns\"\nsource = \"w\"",
            "5:1",
            "give `at-least`, `at-most` or both",
        ),
        ("[[monitors]]\nname = \"k\"\ntargets = [\"w\", \"v\"]", "7:17", "`v`, which is no workload"),
        ("[[monitors]]\nname = \"k\"\nconfig = { attrs = { minr = 1 } }", "7:22", "`min-nr-regions` is 1"),
        ("[[monitors]]\nname = \"k\"\npreset = \"stat\"\nconfig = {}", "7:10", "leave one of them out"),
        ("[[monitors]]\nname = \"k\"\npreset = { preset = \"reclaim\", min-ag = \"1s\" }", "7:32", "`min-ag`"),
        ("[[variants]]\nname = \"v\"\npatch.title = \"w\"", "7:7", "a patch cannot change `title`"),
        ("[[variants]]\nname = \"v\"\npatch.workloads.v.copies = 2", "7:17", "unknown entry `v` of `workloads`"),
        ("[[variants]]\nname = \"v\"\npatch.workloads.w.copies = 0", "7:19", "`copies` is 0"),
        ("[[variants]]\nname = \"v\"\nonly = [\"w\", \"v\"]", "7:14", "`only` names `v`, which is no workload"),
        ("[[variants]]\nname = \"v\"\n[[variants]]\nname = \"v\"", "8:1", "two variants are called `v`"),
        ("[[variants]]\nname = \"v\"\npatch.machine.swapines = 1", "7:15", "did you mean `swappiness`?"),
    ];
    for (end, place, words) in table {
        // Keys of the scenario itself come before its tables, in place of an empty line.
        let is_key = !end.starts_with('[');
        let workload = "[[workloads]]\nname = \"w\"\nload = { kind = \"idle\" }\n";
        let text = if is_key {
            format!("name = \"x\"\n\n\n\n{end}\n{workload}")
        } else {
            format!("name = \"x\"\n{workload}{end}\n")
        };
        let error = parse(&text, "s.toml").expect_err(end).to_string();
        assert!(error.starts_with(&format!("s.toml:{place}: ")) && error.contains(words), "{place}\n{error}\n{end}");
    }
}

const OLD: &str = r#"name = "old_names"
# some_comment
[machine]
page_cluster = 0
[[workloads]]
name = "a_b"
load = { kind = "hot-cold", footprint = "4MiB", hot_accesses = "90%" }
[[monitors]]
name = "k_d"
preset = { preset = "reclaim", min_age = "1s", quota_ms = "10ms" }
[[variants]]
name = "v_w"
patch.machine.page_cluster = 1
patch.workloads = { a_b = { load = { hot_accesses = "80%" } }, "*" = { load.hot_pieces = 2 } }
patch.monitors.k_d.preset.min_age = "2s"
"#;

#[test]
fn both_spellings_are_read_and_names_are_left_alone() {
    let new = OLD
        .replace("page_cluster", "page-cluster")
        .replace("hot_accesses", "hot-accesses")
        .replace("hot_pieces", "hot-pieces")
        .replace("min_age", "min-age")
        .replace("quota_ms", "quota-ms");
    let (old, new) = (parse(OLD, "old").expect("as before"), parse(&new, "new").expect("as documented"));
    assert_eq!(old, new);
    assert_eq!((old.workloads[0].name.as_str(), old.monitors[0].name.as_str()), ("a_b", "k_d"));
}

#[test]
fn the_old_spelling_is_told_once_for_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("s.toml");
    let note = |text: &str| {
        std::fs::write(&file, text).expect("a temporary folder");
        load_with_note(&file).expect("fine").1
    };
    let place = format!("{}:4:1: ", file.display());
    let said = note(OLD).expect("it has old keys");
    assert_eq!(
        said,
        format!(
            "{place}`page_cluster` is spelt `page-cluster`, and 7 more keys likewise; keys are written with `-`, those with \
             `_` are still read"
        )
    );
    for bundled in BUNDLED.iter().filter(|bundled| !bundled.text.contains("damo = ")) {
        assert_eq!(note(bundled.text), None, "{}", bundled.name);
    }
}

#[test]
fn a_key_in_both_spellings_is_refused_with_both_lines() {
    let text = "name = \"x\"\n[machine]\npage-cluster = 1\ncpus = 1\npage_cluster = 1\n";
    let error = parse(text, "s.toml").expect_err(text).to_string();
    let words = "`page-cluster` and `page_cluster` are one key, which line 3 gives already (line 5 again); keep one";
    assert!(error.starts_with("s.toml:5:1: ") && error.contains(words), "{error}");
}

#[test]
fn scenarios_are_printed_with_keys_as_documented() {
    for bundled in BUNDLED {
        let scenario = parse(bundled.text, bundled.name).expect(bundled.name);
        let printed = print(&scenario);
        assert_eq!(parse(&printed, "printed").expect(bundled.name), scenario);
        let is_old = |line: &&str| line.split('=').next().is_some_and(|key| !key.contains('"') && key.contains('_'));
        assert_eq!(printed.lines().find(is_old), None, "{}", bundled.name);
    }
}

#[test]
fn deep_huge_and_odd_input_is_refused_and_never_panics() {
    let deep = |open: &str, close: &str| format!("name = \"x\"\na = {}1{}", open.repeat(5_000), close.repeat(5_000));
    let dotted = format!("name = \"x\"\n{}a = 1", "a.".repeat(5_000));
    let wide: String = (0..20_000).map(|nr| format!("key_{nr} = {nr}\n")).collect();
    let huge_list = format!("name = \"x\"\nmetrics = [{}]", "\"m\", ".repeat(50_000));
    let odd = [
        deep("{ a = ", " }"),
        deep("[", "]"),
        dotted,
        wide,
        huge_list,
        "\"\" = 1".to_owned(),
        "_ = 1\n- = 2".to_owned(),
        "name = 1\r\n\u{feff}".to_owned(),
        "variants = 1".to_owned(),
        "variants = [1, [], {}, { patch = 1 }]\nname = \"x\"".to_owned(),
        "name = \"ä\"\n[machine]\nä_ö = 1".to_owned(),
    ];
    for text in &odd {
        assert!(parse(text, "t").is_err(), "{}", &text[..text.len().min(40)]);
    }
    for (text, _, _) in WRONG {
        for (end, _) in text.char_indices() {
            let _ = parse(&text[..end], "t");
        }
    }
}
