//! Schemes that make no sense, or that the machine cannot carry out: refused with the field's place and the allowed values,
//! in scenarios and in files of damo's, when they are read or before the run. Nothing is accepted and ignored.

use isotherm_scenario::damo::DamoSource;
use isotherm_scenario::{RunOptions, load, parse, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A scenario whose one scheme is `SCHEME`, under line 13.
const SCENARIO: &str = r#"name = "bad"
until = "1s"
policy = "POLICY"
[machine]
nodes = [{ memory = "64MiB" }]
[[workloads]]
name = "store"
load = { kind = "scan", footprint = "1MiB" }
[[monitors]]
name = "kdamond"
[monitors.config]
operations = "OPS"
[[monitors.config.schemes]]
SCHEME
"#;

fn scenario(policy: &str, operations: &str, scheme: &str) -> String {
    SCENARIO.replace("POLICY", policy).replace("OPS", operations).replace("SCHEME", scheme)
}

fn options() -> RunOptions {
    RunOptions { base_dir: ".".into(), place: "t".to_owned(), threads: Some(1) }
}

#[test]
fn scenarios_are_refused_when_they_are_read() {
    // (operations, scheme, message)
    let table = [
        (
            "paddr",
            "access-pattern = { age = { min = '5s', max = '1s' } }",
            "schemes[0]: `access-pattern.age.max` is 1s; allowed: age.min (5s) and more",
        ),
        (
            "paddr",
            "access-pattern = { size = { min = '8KiB', max = '4KiB' } }",
            "`access-pattern.size.max` is 4KiB; allowed: size.min (8KiB) and more",
        ),
        (
            "paddr",
            "access-pattern = { nr-accesses = { min = '50%', max = 3 } }",
            "`access-pattern.nr-accesses.max` is 3 samples; allowed: nr-accesses.min (50%)",
        ),
        (
            "paddr",
            "quotas = { size = '0B', reset-interval = '1s' }",
            "`quotas.size` is 0B; allowed: a page and more; leave it out for no limit",
        ),
        (
            "paddr",
            "quotas = { time = '0s', reset-interval = '1s' }",
            "`quotas.time` is 0ns; allowed: whole milliseconds, 1ms and more",
        ),
        (
            "paddr",
            "quotas = { size = '1MiB' }",
            "`quotas.reset-interval` is 0ns; allowed: 1ms and more, where there is a limit or a goal",
        ),
        (
            "paddr",
            "quotas = { goals = [{ metric = 'some-mem-psi-us', target-value = 10 }] }",
            "`quotas.reset-interval` is 0ns; allowed: 1ms and more, where there is a limit or a goal",
        ),
        (
            "paddr",
            "quotas = { reset-interval = '1s', goals = [{ metric = 'node-mem-used-bp', target-value = 10 }] }",
            "`quotas.goals[0].nid` is not given; allowed: one, for `node-mem-used-bp`",
        ),
        (
            "paddr",
            "quotas = { reset-interval = '1s', goals = [{ target-value = 0 }] }",
            "`quotas.goals[0].target-value` is 0; allowed: 1 and more",
        ),
        (
            "paddr",
            "watermarks = { metric = 'free-mem-rate', interval = '5s', high = '40%', mid = '50%', low = '20%' }",
            "`watermarks.mid` is 50%; allowed: up to watermarks.high (40%)",
        ),
        (
            "paddr",
            "watermarks = { metric = 'free-mem-rate', interval = '5s', high = '60%', mid = '50%', low = '55%' }",
            "`watermarks.low` is 55%; allowed: up to watermarks.mid (50%)",
        ),
        (
            "paddr",
            "watermarks = { high = '60%' }",
            "`watermarks.metric` is none, with marks; allowed: free-mem-rate, or no marks",
        ),
        ("paddr", "action = 'cold'", "`action` is cold; allowed: stat, pageout, lru-prio"),
        ("paddr", "action = 'migrate-hot'", "`target-nid` is not given; allowed: a node, for `migrate-hot`"),
        ("paddr", "target-nid = 1", "`target-nid` is given; allowed: none with `stat`"),
        (
            "paddr",
            "core-filters = [{ filter-type = 'anon', matching = true, allow = true }]",
            "`core-filters[0].filter-type` is anon; allowed: addr, target",
        ),
        (
            "paddr",
            "ops-filters = [{ filter-type = 'memcg', matching = true, allow = true }]",
            "`ops-filters[0].memcg-path` is not given; allowed: one, for `memcg`",
        ),
        (
            "paddr",
            "quotas = { reset-interval = '1s', goals = [{ metric = 'user-input', target-value = 10 }] }",
            "nobody tells this goal of `user-input` its value; give it `current-value`, or an event",
        ),
        ("paddr", "action = 'pagout'", "unknown variant `pagout`, expected one of `stat`"),
        ("paddr", "watermark = {}", "unknown field `watermark`"),
    ];
    for (operations, scheme, words) in table {
        let error = parse(&scenario("classic", operations, scheme), "t").expect_err(scheme).to_string();
        assert!(error.contains(words), "{scheme}\n{error}");
        // The place in the file: the key's, or that of the table where there is none.
        let line: usize = error.strip_prefix("t:").and_then(|rest| rest.split(':').next()?.parse().ok()).unwrap_or(0);
        assert!((9..=14).contains(&line), "{scheme}\n{error}");
    }
}

/// Errors that depend on the machine are reported before the run begins, with the existing values.
#[test]
fn what_the_machine_cannot_do_is_said_before_the_run() {
    let table = [
        (
            "classic",
            "paddr",
            "action = 'migrate-cold'\ntarget-nid = 1",
            "`action` is migrate-cold, which is not available here; available: stat, pageout, lru-prio, lru-deprio",
        ),
        (
            "fifo",
            "paddr",
            "action = 'lru-prio'",
            "`action` is lru-prio, which is not available here; available: stat, pageout",
        ),
        (
            "fifo",
            "paddr",
            "ops-filters = [{ filter-type = 'active', matching = true, allow = true }]",
            "`ops-filters[0].filter-type` is active, which is not available here; available: anon, memcg, young, hugepage-size, unmapped",
        ),
        (
            "classic",
            "vaddr",
            "action = 'cold'\nops-filters = [{ filter-type = 'anon', matching = true, allow = true }]",
            "`ops-filters[0].filter-type` is anon with `cold`, which is not available here; available: page filters with stat",
        ),
        (
            "classic",
            "paddr",
            "ops-filters = [{ filter-type = 'memcg', memcg-path = '/nobody', matching = true, allow = true }]",
            "`ops-filters[0].memcg-path` is \"/nobody\"; there is no memory cgroup of that path here",
        ),
        (
            "classic",
            "paddr",
            "quotas = { reset-interval = '1s', goals = [{ metric = 'node-memcg-used-bp', nid = 0, memcg-path = '/gone', target-value = 10 }] }",
            "`quotas.goals[0].memcg-path` is \"/gone\"; there is no memory cgroup of that path here",
        ),
        (
            "fifo",
            "paddr",
            "quotas = { reset-interval = '1s', goals = [{ metric = 'active-mem-bp', target-value = 10 }] }",
            "`quotas.goals[0].metric` is active-mem-bp, which is not available here; available: user-input, some-mem-psi-us",
        ),
    ];
    for (policy, operations, scheme, words) in table {
        let scenario =
            parse(&scenario(policy, operations, scheme), "t").unwrap_or_else(|error| panic!("{scheme}: {error}"));
        let error = run(&scenario, &options(), &()).expect_err(scheme).to_string();
        assert!(
            error.contains("`kdamond`") && error.contains("schemes[0]: ") && error.contains(words),
            "{scheme}\n{error}"
        );
    }
}

fn kept(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/damo").join(name);
    std::fs::read_to_string(path).expect("a checked-in file")
}

/// The error for a file of damo's that a monitor names.
fn refusal(folder: &Path, text: &str) -> String {
    std::fs::write(folder.join("k.json"), text).expect("a temporary folder");
    let scenario = scenario("classic", "OPS", "")
        .replace("[monitors.config]\noperations = \"OPS\"\n[[monitors.config.schemes]]", "damo = \"k.json\"");
    let file = folder.join("s.toml");
    std::fs::write(&file, scenario).expect("a temporary folder");
    load(&file).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}

#[test]
fn files_of_damo_are_refused_when_they_are_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let context = "/kdamonds/0/contexts/0";
    let scheme = "/kdamonds/0/contexts/0/schemes/0";
    // (file, place, value, parts of the message: the place, and the allowed values)
    let table: [(&str, String, Value, [&str; 2]); 27] = [
        (
            "reclaim",
            format!("{scheme}/access_pattern/age"),
            json!({"min": "5 s", "max": "1 s"}),
            ["schemes[0].access_pattern.age", "min is above max"],
        ),
        (
            "reclaim",
            format!("{scheme}/access_pattern/nr_accesses"),
            json!({"min": "4 samples", "max": "5 %"}),
            ["access_pattern.nr_accesses", "both in samples or both in percent"],
        ),
        (
            "reclaim",
            format!("{scheme}/quotas/time_ms"),
            json!("500 us"),
            ["schemes[0].quotas.time_ms` is 500us", "whole milliseconds, 1ms and more"],
        ),
        (
            "reclaim",
            format!("{scheme}/quotas/reset_interval_ms"),
            json!("0 ns"),
            ["schemes[0].quotas.reset_interval_ms` is 0ns", "1ms and more"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/reset_interval_ms"),
            Value::Null,
            ["schemes[0].quotas", "needs `reset_interval_ms`"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/goals/0/target_value"),
            json!("0"),
            ["quotas.goals[0].target_value` is 0", "1 and more"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/goals/0/metric"),
            json!("node_mem_used_bp"),
            ["quotas.goals[0].nid` is not given", "one, for `node-mem-used-bp`"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/goals/0/metric"),
            json!("happiness"),
            ["quotas.goals[0].metric` is `happiness`", "user_input, some_mem_psi_us"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/goals/0/current_value"),
            json!("7"),
            ["quotas.goals[0].current_value` is 7", "0 but with `user_input`"],
        ),
        (
            "sort",
            format!("{scheme}/quotas/goal_tuner"),
            json!("guess"),
            ["quotas.goal_tuner` is `guess`", "consist, temporal"],
        ),
        (
            "reclaim",
            format!("{scheme}/quotas/goal_tuner"),
            json!("temporal"),
            ["quotas.goal_tuner` is temporal", "consist, where there are no goals"],
        ),
        (
            "reclaim",
            format!("{scheme}/quotas/weights/age_permil"),
            json!("0.05 %"),
            ["quotas.weights.age_permil` is 500ppm", "whole per mille"],
        ),
        (
            "reclaim",
            format!("{scheme}/quotas/fail_charge_num"),
            json!("3"),
            ["quotas.fail_charge_denom` is 0 below 3", "1 and more"],
        ),
        (
            "reclaim",
            format!("{scheme}/watermarks/mid_permil"),
            json!("100 %"),
            ["schemes[0].watermarks.mid_permil` is 100%", "up to watermarks.high (99%)"],
        ),
        (
            "reclaim",
            format!("{scheme}/watermarks/metric"),
            json!("moon"),
            ["watermarks.metric` is `moon`", "none, free_mem_rate"],
        ),
        (
            "reclaim",
            format!("{scheme}/filters/1/memcg_path"),
            Value::Null,
            ["schemes[0].filters[1].memcg_path` is not given", "one, for `memcg`"],
        ),
        (
            "reclaim",
            format!("{scheme}/filters/2/filter_type"),
            json!("probe_hits_wsum"),
            ["filters[2].filter_type` is `probe_hits_wsum`", "addr, target, anon"],
        ),
        (
            "reclaim",
            format!("{scheme}/filters/0/filter_type"),
            json!("target"),
            ["filters[0].address_range` is given", "none with `target`"],
        ),
        (
            "reclaim",
            format!("{scheme}/action"),
            json!("pagout"),
            ["schemes[0].action` is `pagout`", "stat, willneed, cold, pageout"],
        ),
        ("reclaim", format!("{scheme}/action"), json!("cold"), ["schemes[0].action` is cold", "for physical memory"]),
        (
            "reclaim",
            format!("{scheme}/action"),
            json!("migrate_hot"),
            ["schemes[0].target_nid` is not given", "a node, for `migrate-hot`"],
        ),
        (
            "reclaim",
            format!("{scheme}/dests"),
            json!([{"id": 1, "weight": 1}]),
            ["schemes[0].dests` is 1 of them", "none with `pageout`"],
        ),
        ("reclaim", format!("{context}/ops"), json!("maddr"), ["contexts[0].ops` is `maddr`", "vaddr, fvaddr, paddr"]),
        (
            "reclaim",
            format!("{context}/addr_unit"),
            json!("4 KiB"),
            ["contexts[0].addr_unit` is 4096 B", "1 B beside schemes"],
        ),
        (
            "reclaim",
            format!("{context}/nr_regions/min"),
            json!("1"),
            ["contexts[0].nr_regions.min` is 1", "3 and more"],
        ),
        ("reclaim", format!("{context}/targets/0/obsolete"), json!(true), ["targets[0].obsolete` is true", "false"]),
        (
            "cold",
            format!("{context}/targets/0/pid"),
            json!(7),
            ["it watches 1 processes by their `pid`", "name as many workloads in `targets`"],
        ),
    ];
    for (name, pointer, value, words) in table {
        let mut document: Value = serde_json::from_str(&kept(&format!("{name}.json"))).expect("damo made it");
        *document.pointer_mut(&pointer).unwrap_or_else(|| panic!("{name} has no {pointer}")) = value;
        let error = refusal(folder.path(), &document.to_string());
        assert!(error.contains("s.toml:11:1: monitor `kdamond`: "), "{pointer}\n{error}");
        assert!(words.iter().all(|words| error.contains(words)), "{pointer}\n{error}");
    }
    let mut document: Value = serde_json::from_str(&kept("stat.json")).expect("damo made it");
    document["kdamonds"][0]["contexts"][0]["watermark"] = json!({});
    let error = refusal(folder.path(), &document.to_string());
    assert!(error.contains("`kdamonds[0].contexts[0].watermark` is a key that damo 3.4 does not have"), "{error}");
    let mut twice: Value = serde_json::from_str(&kept("stat.json")).expect("damo made it");
    twice["kdamonds"] = json!([twice["kdamonds"][0], twice["kdamonds"][0]]);
    let error = refusal(folder.path(), &twice.to_string());
    assert!(error.contains("several contexts of it would be meant; it has: { kdamond = 0, context = 0 }"), "{error}");
    // damo's way to say "no limit" is no quota of zero.
    assert_eq!(refusal(folder.path(), &kept("stat.json")), "accepted");
}

#[test]
fn damaged_files_are_errors_not_panics() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = |name: &str| DamoSource { file: name.to_owned(), kdamond: None, context: None };
    let read = |bytes: &[u8]| {
        std::fs::write(folder.path().join("k"), bytes).expect("a temporary folder");
        source("k").read(folder.path())
    };
    let text = kept("reclaim.json");
    assert!(read(text.as_bytes()).is_ok());
    let whole = text.trim_end().len();
    for cut in 0..whole {
        assert!(read(&text.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
    for at in (0..whole).step_by(11) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 0x15;
        let _ = read(&bytes);
    }
    assert!(read(b"\0\xff\x01garbage").is_err());
    assert!(read(&vec![b' '; (16 << 20) + 1]).unwrap_err().contains("more than 16 MiB"));
    assert!(read(b"").unwrap_err().contains("it is empty"));
    let gone: PathBuf = folder.path().join("gone");
    assert!(!gone.exists() && source("gone").read(folder.path()).unwrap_err().contains("gone"));

    let text = scenario(
        "classic",
        "paddr",
        "action = 'pageout'\naccess-pattern = { age = { min = '5s' } }\nquotas = { time = '10ms', reset-interval = '1s' }\n\
         watermarks = { metric = 'free-mem-rate', interval = '5s', high = '60%', mid = '50%', low = '5%' }\n\
         ops-filters = [{ filter-type = 'anon', matching = true, allow = false }]",
    );
    assert!(parse(&text, "t").is_ok());
    for cut in 0..text.len() {
        let _ = parse(&text[..cut], "t");
    }
    for at in (0..text.len()).step_by(11) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 0x15;
        let _ = String::from_utf8(bytes).map(|text| parse(&text, "t"));
    }
}

#[test]
fn controls_of_promotion_are_refused_where_there_is_none_to_take_them() {
    let scenario = |policy: &str, event: &str| {
        format!(
            "name = 't'\n[[machine.nodes]]\nmemory = '64MiB'\n[[machine.nodes]]\nmemory = '64MiB'\nkind = 'cxl'\n[tiering]\npolicy = '{policy}'\n\
             [[workloads]]\nname = 'web'\nload = {{ kind = 'scan', footprint = '1MiB' }}\n[[events]]\nat = '1s'\npromotion = {event}\n"
        )
    };
    for event in ["{ scan-enabled = false }", "{ scan-sleep-ms = 5 }", "{ scale = { workload = 'web', scale = 3 } }"] {
        let read = parse(&scenario("v1", event), "t");
        assert!(read.is_ok(), "{event}: {:?}", read.err());
    }
    for (policy, event, words) in [
        ("numa-mode-2", "{ scan-enabled = false }", "allowed: with a scan daemon"),
        ("v0", "{ scale = { workload = 'web', scale = 3 } }", "knows no scales"),
        ("v1", "{ scale = { workload = 'wbe', scale = 3 } }", "which is no workload"),
        ("v1", "{ scale = { workload = 'web', scale = 11 } }", "allowed: 0 to 10"),
        ("v1", "{ scan-enabld = false }", "unknown variant"),
        ("v1", "{ scan-sleep-ms = -1 }", "t:"),
    ] {
        let refused = parse(&scenario(policy, event), "t").expect_err(event).to_string();
        assert!(refused.contains(words), "{event}: {refused}");
    }
}

/// A goal of `user-input` moves the quota when an event reports its value.
#[test]
fn a_goal_of_user_input_is_fed_by_events() {
    let goals =
        "quotas = { size = '1MiB', reset-interval = '10ms', goals = [{ metric = 'user-input', target-value = 100 }] }";
    let fed = |value: &str| {
        let long = "{ kind = 'scan', footprint = '16MiB', repeat = 3000 }";
        let text = scenario("classic", "paddr", goals).replace("{ kind = \"scan\", footprint = \"1MiB\" }", long);
        format!("{text}[[events]]\nat = '100ms'\ngoal-value = {{ monitor = 'kdamond', value = {value} }}\n")
    };
    let quota = |value: &str| {
        let result = run(&parse(&fed(value), "t").unwrap(), &options(), &()).unwrap();
        let report = &result.schemes[0].monitors[0].schemes[0].report;
        assert_eq!(report.goal_values, [value.parse::<u64>().unwrap()]);
        report.effective_quota_bytes.unwrap()
    };
    assert!(quota("10000") < quota("1"), "who has more than enough is given less");
    for (what, words) in [
        ("monitor = 'kdamon'", "did you mean `kdamond`?"),
        ("monitor = 'kdamond', scheme = 1", "scheme 1 of `kdamond` has no goal 0"),
        ("monitor = 'kdamond', goal = 2", "has no goal 2 of `user-input`"),
    ] {
        let event = format!("[[events]]\nat = '1ms'\ngoal-value = {{ {what}, value = 1 }}\n");
        let error = parse(&(fed("1") + &event), "t").expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_limit_of_fifty_times_the_peak_is_a_slip() {
    let text =
        scenario("classic", "paddr", "action = 'stat'").replace("until = \"1s\"", "until = \"1s\"\nlimit = \"5000%\"");
    let error = parse(&text, "t").expect_err("too much").to_string();
    assert!(error.starts_with("t:3:") && error.contains("allowed: up to 1000%"), "{error}");
}
