//! What our programs send each other: the recorder's stream, the guest's script, job and reports, stored runs of the lab.

use crate::target::{Target, text};
use isotherm_fidelity::advice::Store;
use isotherm_fidelity::versus::{self, Stored};
use isotherm_guest::job::{Job, Report, Task};
use isotherm_guest::script::Script;
use isotherm_recorder::trace_from_stream;
use isotherm_units::Duration;
use std::path::Path;

const JOB: &[&str] = &[
    "settings",
    "task",
    "kind",
    "play",
    "watch",
    "pages",
    "parts",
    "first",
    "motion",
    "seconds_max",
    "live",
    "workloads",
];
const REPORT: &[&str] = &["event", "booted", "observed", "ran", "failed", "kernel", "memory_bytes", "cpus", "counters"];
const STORED: &[&str] = &["command", "boots", "runs", "name", "release", "program", "digest", "limit_pages"];

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "recorder-stream",
        reaches: "isotherm_recorder::trace_from_stream (chunks, records)",
        words: &["iTR1", "\u{1}\u{1}", "\u{3}", "\u{4}", "\u{e}\u{4}"],
        run: |scratch, input| {
            let trace = scratch.folder().join("trace");
            let _ = trace_from_stream(&mut &*input, &trace, Duration::from_ms(1));
        },
    },
    Target {
        name: "recorder-texts",
        reaches: "isotherm_recorder: proc status, pressure",
        words: &["VmRSS:", "VmPTE:", "VmSwap:", " kB", "some ", "total="],
        run: |_, input| isotherm_recorder::fuzzing::read_texts(&text(input)),
    },
    Target {
        name: "guest-script",
        reaches: "isotherm_guest::script::Script",
        words: &[],
        run: |_, input| {
            if let Ok(script) = Script::decode(input) {
                assert_eq!(Script::decode(&script.encode()), Ok(script), "it is encoded as another");
            }
        },
    },
    Target {
        name: "guest-job",
        reaches: "isotherm_guest::job::Job",
        words: JOB,
        run: |_, input| {
            if let Ok(Job { task: Task::Live(live), .. }) = serde_json::from_slice(input) {
                live.workloads.iter().filter_map(|workload| workload.pattern.flaw()).count();
            }
        },
    },
    Target {
        name: "guest-report",
        reaches: "isotherm_guest::job::Report (lines of the serial port)",
        words: REPORT,
        run: |_, input| {
            for report in text(input).lines().filter_map(|line| serde_json::from_str::<Report>(line).ok()) {
                if let Report::Lived(lived) = report {
                    lived.outputs.keys().filter_map(|path| lived.output(path)).count();
                }
            }
        },
    },
    Target {
        name: "lab-stored",
        reaches: "isotherm_fidelity::{advice::Store, versus::Stored}",
        words: STORED,
        run: |_, input| {
            let text = text(input);
            if let Ok(store) = Store::parse(&text, "fuzz") {
                store.plays().count();
            }
            let place = Path::new("fuzz");
            let _ = Stored::<versus::monitor::RealBoot>::parse(&text, place);
        },
    },
];
