//! Files that people write: scenarios, live configurations, workloads; and the journal, which no one should edit.

use crate::target::{Scratch, Target, text};
use isotherm_core::monitor::OTHER_NAMES;
use isotherm_daemon::changes::Journal;
use isotherm_daemon::config::Config;
use isotherm_daemon::control_loop::{Environment, steer};
use isotherm_daemon::tape::{NoHost, Tape, Taped};
use isotherm_document::{Dialect, DocumentError, Misfit, parse_as};
use isotherm_scenario::damo::monitor_of;
use isotherm_scenario::{parse, print};
use isotherm_trace::region::kdamonds::parse_kdamonds;
use isotherm_workload::{BuildContext, WorkloadSpec};
use serde::Deserialize;
use std::path::Path;

const TOML: &[&str] = &[
    "[[",
    "]]",
    "[",
    "]",
    " = ",
    "{ ",
    " }",
    "\"\"\"",
    "'''",
    "#",
    "\\u0000",
    "\\U0010FFFF",
    "1979-05-27",
    "a.b.c",
    "nan",
];
const SCENARIO: &[&str] = &[
    "name",
    "[machine]",
    "cpus",
    "memory",
    "nodes",
    "swap",
    "[[workloads]]",
    "load",
    "kind",
    "footprint",
    "copies",
    "start",
    "[[variants]]",
    "patch",
    "limit",
    "75%",
    "[[monitors]]",
    "[[monitors.config.schemes]]",
    "[[compaction]]",
    "design",
    "node",
    "[[generations]]",
    "[tiering]",
    "[matrix]",
    "repeats",
    "expect",
    "events",
    "1EiB",
    "16TiB",
    "\"1h\"",
    "premapped",
    "policy",
];
const LIVE: &[&str] = &[
    "[daemon]",
    "max-cpu",
    "max-memory",
    "protect",
    "[[targets]]",
    "cgroup",
    "[[generations]]",
    "mode",
    "reclaim",
    "estimate",
    "threshold",
    "[[monitors]]",
    "preset",
    "[guard]",
    "pressure-full",
    "enable = true",
    "/",
    "/*",
    "/a/../b",
    "é*",
];
const LINES: &[&str] = &[
    "{\"kind\":\"set\",\"number\":",
    "\"holds\"",
    "\"closed\"",
    "\"journal\"",
    "\"version\":1",
    "\"boot\":\"\"",
    "18446744073709551615}\n",
];

const TAPE: &[&str] = &[
    "{\"isotherm-tape\":1,\"build\":\"\",\"config\":{},\"length\":null}\n",
    "[\"now\",null,0]\n",
    "[\"sleep\",1000000000,\"due\"]\n",
    "\"stopped\"",
    "[\"groups\",\"/a\",{\"Ok\":[\"/a\"]}]\n",
    "{\"Err\":\"\"}",
    "[\"full-stall\",null,null]\n",
    "18446744073709551615",
];

const DIALECT: Dialect = Dialect { other_names: OTHER_NAMES, patches: None };

pub(super) const TARGETS: &[Target] = &[
    Target { name: "scenario", reaches: "isotherm_scenario::{parse, print}", words: SCENARIO, run: scenario },
    Target {
        name: "toml",
        reaches: "places of keys in errors (isotherm_document::parse_as)",
        words: TOML,
        run: |_, input| {
            let text = text(input);
            // The first line is a key that an error is about, the rest the document.
            let (key, document) = text.split_once('\n').unwrap_or((&text, ""));
            let misfit = || Misfit { key: key.to_owned(), other: Some(key.to_owned()), message: "no".to_owned() };
            let refused: Result<toml::Table, DocumentError> = parse_as(document, "fuzz", DIALECT, |_| Err(misfit()));
            assert!(!refused.expect_err("it is refused in any case").to_string().is_empty());
        },
    },
    Target {
        name: "workload",
        reaches: "isotherm_workload::WorkloadSpec (read and built)",
        words: SCENARIO,
        run: workload,
    },
    Target {
        name: "live-config",
        reaches: "isotherm_daemon::config::Config",
        words: LIVE,
        run: |_, input| {
            let check = |config: &Config| {
                config.check().map_err(|wrong| Misfit { key: wrong.key, other: wrong.other, message: wrong.message })
            };
            if let Ok(config) = parse_as(&text(input), "fuzz", DIALECT, check) {
                let printed = toml::to_string(&config).expect("a configuration is TOML");
                assert_eq!(parse_as(&printed, "fuzz", DIALECT, check).ok(), Some(config), "printed as\n{printed}");
            }
        },
    },
    Target {
        name: "damo-monitor",
        reaches: "isotherm_scenario::damo::monitor_of",
        words: &["kdamonds", "contexts", "ops", "schemes", "max", "vaddr", "paddr", "%", "ms"],
        run: |_, input| {
            let Ok((kdamonds, _)) = parse_kdamonds(Path::new("fuzz"), &text(input)) else { return };
            for context in kdamonds.kdamonds.iter().flat_map(|kdamond| &kdamond.contexts) {
                let _ = monitor_of(context, "contexts[0]");
            }
        },
    },
    Target { name: "journal", reaches: "isotherm_daemon::changes::Journal", words: LINES, run: journal },
    Target { name: "tape", reaches: "isotherm_daemon::tape::Tape (read, played)", words: TAPE, run: tape },
];

/// Files that a scenario names are relative to an empty folder.
fn scenario(scratch: &Scratch, input: &[u8]) {
    let _ = std::env::set_current_dir(scratch.folder());
    let Ok(scenario) = parse(&text(input), "fuzz") else { return };
    let printed = print(&scenario);
    match parse(&printed, "printed") {
        Ok(again) => assert_eq!(print(&again), printed, "another scenario is read from what was printed"),
        Err(error) => panic!("{error}; printed as\n{printed}"),
    }
}

fn workload(scratch: &Scratch, input: &[u8]) {
    #[derive(Deserialize)]
    struct File {
        load: WorkloadSpec,
    }
    if let Ok(File { load }) = toml::from_str(&text(input)) {
        let _ = load.build(&BuildContext::new(scratch.folder()));
    }
}

fn journal(_: &Scratch, input: &[u8]) {
    if let Ok(journal) = Journal::read(input.to_vec()) {
        for open in journal.open() {
            for value in [&*open.old, &*open.new, "", "0x7", "18446744073709551615"] {
                open.wrote(value);
            }
        }
    }
}

fn tape(_: &Scratch, input: &[u8]) {
    let Ok((header, tape)) = Tape::read(&text(input)) else { return };
    if header.config.check().is_err() {
        return;
    }
    let [mut world, mut knobs, mut clock, mut meter, mut log, mut host] = [NoHost; 6];
    let outside = Environment {
        world: &mut Taped::new(&mut world, &tape),
        knobs: &mut Taped::new(&mut knobs, &tape),
        clock: &mut Taped::new(&mut clock, &tape),
        meter: &mut Taped::new(&mut meter, &tape),
        log: &mut Taped::new(&mut log, &tape),
    };
    let _ = steer(&header.config, header.length, &mut Taped::new(&mut host, &tape), outside);
}
