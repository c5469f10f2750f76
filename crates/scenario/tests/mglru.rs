//! The Multi-Gen LRU in scenarios: parts left out, files written while it runs, its metrics.

use isotherm_scenario::{RunOptions, Scenario, ScenarioResult, parse, print, run};

fn options() -> RunOptions {
    RunOptions { base_dir: "../..".into(), place: "test".to_owned(), threads: Some(2) }
}

fn play(text: &str) -> Result<ScenarioResult, String> {
    let scenario = parse(text, "test").map_err(|error| error.to_string())?;
    run(&scenario, &options(), &()).map_err(|error| error.to_string())
}

fn system(result: &ScenarioResult, variant: &str, metric: &str) -> f64 {
    result.row("system", variant, metric).unwrap_or_else(|| panic!("no row {variant} {metric}")).mean
}

/// Eight groups of processes on a machine that is too small for them: mapped memory with a hot part, and a file that is read.
fn crowd(rest: &str) -> String {
    let mut text = format!(
        "name = \"crowd\"\npolicy = \"mglru\"\nrun = \"together\"\nuntil = \"20s\"\n\
         machine = {{ cpus = 4, nodes = [{{ memory = \"64MiB\" }}] }}\n{rest}\n"
    );
    for index in 0..8 {
        text.push_str(&format!(
            "[[workloads]]\nname = \"heap{index}\"\n[workloads.load]\nkind = \"hot-cold\"\nfootprint = \"8MiB\"\n\
             hot = \"25%\"\nhot-accesses = \"80%\"\noperations = 40000\n"
        ));
    }
    text.push_str(
        "[[workloads]]\nname = \"store\"\n[workloads.load]\nkind = \"key-value\"\nfootprint = \"24MiB\"\n\
         item-size = \"4KiB\"\nstorage = \"file\"\noperations = 40000\n",
    );
    text
}

/// docs/spec/mglru.md#s16: each part can be left out, and its own counter says that it was.
#[test]
fn every_part_can_be_left_out_and_is_seen_to_be() {
    let parts = ["walks", "upper-bits", "look-around", "bloom-filter", "tiers", "group-order", "backoff"];
    let variants: String = parts
        .iter()
        .map(|part| format!("[[variants]]\nname = \"{part}\"\npatch.machine.mglru.features = {{ {part} = false }}\n"))
        .collect();
    let result = play(&crowd(&format!("[[variants]]\nname = \"all\"\n{variants}"))).unwrap();
    let counters = [
        ("walks", "spaces_walked"),
        ("upper-bits", "tables_tested"),
        ("look-around", "look_around_hits"),
        ("bloom-filter", "bloom_tests"),
    ];
    for (part, metric) in counters {
        assert!(system(&result, "all", metric) > 0.0, "{metric}");
        assert_eq!(system(&result, part, metric), 0.0, "{metric} without {part}");
    }
    // The other parts choose pages and groups, or amounts: leaving them out shows in the evictions.
    for part in ["tiers", "group-order", "backoff"] {
        let scanned = |variant| {
            ["pages_scanned", "major_faults", "pages_reclaimed"].map(|metric| system(&result, variant, metric))
        };
        assert_ne!(scanned("all"), scanned(part), "{part}");
    }
    for metric in ["rmap_walks", "ptes_examined", "ptes_cleared", "ageings", "pages_sorted"] {
        assert!(system(&result, "all", metric) > 0.0, "{metric}");
    }
}

/// Classic has no walks, and pays for each mapping it checks.
#[test]
fn classic_counts_its_reverse_map_walks_and_nothing_else() {
    let result = play(&crowd("").replace("policy = \"mglru\"", "policy = \"classic\"")).unwrap();
    assert!(system(&result, "classic", "rmap_walks") > system(&result, "classic", "pages_reclaimed") / 2.0);
    for metric in ["ptes_examined", "tables_tested", "bloom_tests", "ageings", "look_around_hits"] {
        assert_eq!(system(&result, "classic", metric), 0.0, "{metric}");
    }
}

/// Files are written while the machine runs, and take effect from then on.
#[test]
fn events_write_the_files_of_the_policy() {
    let ageings = |events: &str| system(&play(&crowd(&format!("events = [{events}]"))).unwrap(), "mglru", "ageings");
    let as_booted = ageings("");
    let with_commands = ageings(r#"{ at = "100us", every = "1ms", mglru = { lru-gen = "+ 0 0 0\n+ 1 0 0" } }"#);
    assert!(with_commands > as_booted + 20.0, "{with_commands} {as_booted}");
    assert_eq!(ageings(r#"{ at = "0ns", mglru = { enabled = "n" } }"#), 0.0, "switched off before anything ran");
    let toggled = ageings(
        r#"{ at = "0ns", every = "7ms", mglru = { enabled = "n" } }, { at = "3ms", every = "7ms", mglru = { enabled = "y" } }"#,
    );
    assert!(toggled > 0.0);
    let kills = |events: &str| system(&play(&crowd(&format!("events = [{events}]"))).unwrap(), "mglru", "oom_kills");
    assert_eq!(kills(""), 0.0);
    assert!(kills(r#"{ at = "0ns", mglru = { min-ttl-ms = 100000 } }"#) > 0.0, "all is too young to be evicted");
}

/// The settings in the docs are a scenario once there is a workload.
#[test]
fn the_settings_in_the_docs_run() {
    let docs = include_str!("../../../docs/mechanism/mglru.md");
    let text = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("one example");
    let load = "[[workloads]]\nname = \"w\"\n[workloads.load]\nkind = \"hot-cold\"\nfootprint = \"4MiB\"\noperations = 20000\n";
    let result = play(&format!("name = \"docs\"\n{text}{load}")).unwrap();
    assert_eq!(result.row("w", "mglru", "oom_kills").unwrap().mean, 0.0);
}

/// The older release ages otherwise.
#[test]
fn the_older_release_is_a_switch() {
    let result = play(&crowd(
        "[[variants]]\nname = \"v7_2\"\n[[variants]]\nname = \"v6_12\"\npatch.machine.mglru = { baseline = \"v6_12\" }",
    ))
    .unwrap();
    for variant in ["v7_2", "v6_12"] {
        assert!(system(&result, variant, "ageings") > 0.0, "{variant}");
    }
    let both = |metric| ["v7_2", "v6_12"].map(|variant| system(&result, variant, metric));
    assert_ne!(both("ageings")[0], both("ageings")[1]);
}

#[test]
fn what_the_policy_is_set_to_survives_printing() {
    let text = crowd(
        "events = [{ at = \"1s\", mglru = { enabled = \"0x0005\" } }, { at = \"2s\", mglru = { min-ttl-ms = 5 } }]\n\
         [machine.mglru]\nmin-ttl = \"1s\"\n[machine.mglru.features]\nwalks = false\nbackoff = false",
    )
    .replace("machine = {", "machine2 = {");
    let text = text.replace("machine2 = { cpus = 4, nodes = [{ memory = \"64MiB\" }] }\n", "");
    let scenario: Scenario = parse(&text, "t").unwrap_or_else(|error| panic!("{error}"));
    let features = scenario.machine.mglru.features;
    assert!(!features.walks && !features.backoff && features.look_around);
    assert_eq!(parse(&print(&scenario), "printed").unwrap(), scenario);
}

#[test]
fn bad_settings_say_what_where_and_what_is_allowed() {
    let with = |rest: &str| crowd(rest).replace("machine = { cpus = 4, nodes = [{ memory = \"64MiB\" }] }\n", "");
    let table = [
        ("[machine.mglru]\nmin-til = \"1s\"", "unknown field `min-til`"),
        ("[machine.mglru]\nbaseline = \"6.1\"", "unknown variant `6.1`"),
        ("[machine.mglru]\nbaseline = \"v6_6\"", "expected one of `7.2`, `v7_2`, `6.12`"),
        ("[machine]\nkernel = \"5.4\"", "there are no rules of Linux `5.4`; allowed: 6.12, 6.18, 7.2"),
        ("[machine]\nstorage = \"latency=4ms\"", "`bandwidth` is missing; give it, as in `latency=4ms,bandwidth="),
        ("[machine.mglru.features]\nwalk = false", "did you mean `walks`?"),
        ("[machine.mglru.features]\nwalks = 0", "expected a boolean"),
        (
            "[machine.mglru]\nmin-ttl = \"1500us\"",
            "`mglru.min-ttl` is 1.5ms; allowed: 0 to 4294967295 whole milliseconds",
        ),
        ("[machine.mglru]\nmin-ttl = \"60d\"", "`mglru.min-ttl`"),
        (
            "events = [{ at = \"1s\", mglru = { enabled = \"perhaps\" } }]",
            "`enabled` refuses `perhaps`: EINVAL: allowed are y, n and an unsigned number",
        ),
        (
            "events = [{ at = \"1s\", mglru = { min-ttl-ms = 4294967296 } }]",
            "`min_ttl_ms` refuses `4294967296`: EINVAL: allowed are unsigned numbers up to 4294967295",
        ),
        ("events = [{ at = \"1s\", mglru = { lru-gen = \"- 1 0\" } }]", "`lru_gen` refuses `- 1 0`: EINVAL"),
        ("events = [{ at = \"1s\", mglru = { enable = \"y\" } }]", "did you mean `enabled`?"),
        ("events = [{ at = \"1s\", mglru = { enabled = \"y\", min_ttl_ms = 1 } }]", "s.toml"),
        (
            "events = [{ at = \"1s\", mglru = { enabled = \"y\" } }]\n[[variants]]\nname = \"v\"\npatch.policy = \"classic\"",
            "`mglru` is written where the policy is `classic`",
        ),
    ];
    for (rest, expected) in table {
        let message = parse(&with(rest), "s.toml").expect_err(rest).to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        assert!(message.starts_with("s.toml"), "{message:?} says no place");
    }
}

/// The object of a command is known only when it runs: then the run ends with the kernel's error.
#[test]
fn a_command_that_is_refused_ends_the_run() {
    let event = |text: &str| crowd(&format!("events = [{{ at = \"5ms\", mglru = {{ lru-gen = \"{text}\" }} }}]"));
    let table = [
        ("+ 0 0 9999", "EINVAL: the youngest generation is older than that"),
        ("- 0 0 9999", "EINVAL: the two youngest generations cannot be evicted"),
        ("+ 77 0 1", "EINVAL: there is no group of this number"),
        ("+ 0 3 1", "EINVAL: there is no memory node of this number"),
    ];
    for (command, why) in table {
        let message = play(&event(command)).unwrap_err();
        assert!(message.contains("us: `lru_gen` refuses") && message.ends_with(why), "{message}");
    }
}
