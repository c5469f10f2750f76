//! Finds out what works on this machine by trying it: on our own child process where memory must be touched, and by reading
//! otherwise. A feature that another program uses is not touched; the answer is then that it is in use.
//!
//! A new probe is a function, a line of `PROBES`, and a row of docs/use/watch.md#doctor.

mod acting;
mod child;
mod machine;
mod nodes;
mod numbers;
mod others;
mod swapping;
mod watching;

pub use child::{Child, child_main};

use crate::damon::Undo;
use crate::{LiveError, Root};
use serde::Serialize;

/// How far a feature works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The feature was tried or read, and works.
    Works,
    /// A part of the features works.
    Partly,
    /// Another program uses it.
    Busy,
    /// It is missing, or not allowed.
    Missing,
}

/// Part of the machine that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The kernel, its pages, our rights, other programs.
    Machine,
    /// Ways to see which memory is used.
    Watching,
    /// Ways to change memory or settings. They are not tried on any process.
    Acting,
    /// Numbers about the machine and its groups.
    Numbers,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub part: Part,
    /// Short name, the same on all machines.
    pub name: &'static str,
    pub state: State,
    /// Result as text.
    pub words: String,
    /// A command or setting that would fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    fn new(part: Part, name: &'static str, state: State, words: impl Into<String>) -> Self {
        Self { part, name, state, words: plain(&words.into()), fix: None }
    }

    #[must_use]
    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(plain(&fix.into()));
        self
    }
}

/// Text that is safe to print, however strange or long the file was.
fn plain(words: &str) -> String {
    const SHOWN: usize = 700;
    let shown = words.chars().take(SHOWN).map(|letter| if letter.is_control() { '?' } else { letter });
    let mut plain: String = shown.collect();
    if words.chars().nth(SHOWN).is_some() {
        plain.push('…');
    }
    plain
}

/// Text of an error, next to the name of the check.
fn said(error: &LiveError) -> String {
    match error {
        LiveError::NotHere { needs, .. } => needs.clone(),
        other => other.to_string(),
    }
}

/// The word in brackets of a file of choices.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

/// How to get the rights.
const AS_ROOT: &str = "run it as root: sudo isotherm doctor";

/// Input of probes.
#[derive(Debug)]
pub struct Context<'a> {
    pub root: &'a Root,
    /// Our own process that touches memory on request; `None` below a root of files, and if it could not be started.
    pub child: Option<&'a Child>,
    /// Releases that the simulated machine models, oldest first, such as `6.12`.
    pub models: &'a [&'a str],
    /// Makes the journal that notes the changes of a session.
    pub undo: fn(&Root) -> Result<Box<dyn Undo>, LiveError>,
}

type Probe = fn(&Context<'_>) -> Vec<Finding>;

/// All probes, in display order, each with the name of its findings.
const PROBES: &[(&str, Probe)] = &[
    ("kernel", machine::kernel),
    ("page size", machine::pages),
    ("rights", machine::rights),
    ("others at work", others::others),
    ("DAMON", watching::damon),
    ("accessed-bit module", watching::module),
    ("clear_refs and smaps", watching::clear_refs),
    ("generations", watching::generations),
    ("pagemap", watching::pagemap),
    ("PAGEMAP_SCAN", watching::scan_of_pagemap),
    ("soft-dirty", watching::soft_dirty),
    ("process_madvise", acting::advice),
    ("cgroup v2", acting::groups),
    ("swap", swapping::swap),
    ("zram", swapping::zram),
    ("huge pages", acting::huge_pages),
    ("compaction", acting::compaction),
    ("memory tiers", nodes::tiers),
    ("demotion", nodes::demotion),
    ("NUMA balancing", nodes::balancing),
    ("pressure", numbers::pressure),
    ("pressure of groups", numbers::pressure_of_groups),
    ("zones and free blocks", numbers::zones),
];

/// Names of all probes, in display order. Without our own child process, some have no findings.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROBES.iter().map(|(name, _)| *name)
}

/// Ways to monitor processes, best first; a single working one is enough.
const WATCHERS: &[Probe] = &[watching::damon, watching::module, watching::clear_refs];

/// Tries only the ways to monitor processes, best first.
pub fn watchers(context: &Context<'_>) -> Vec<Finding> {
    WATCHERS.iter().flat_map(|probe| probe(context)).collect()
}

/// Runs all probes.
pub fn examine(context: &Context<'_>) -> Vec<Finding> {
    PROBES.iter().flat_map(|(_, probe)| probe(context)).collect()
}

/// Names of the findings of [`watchers`], in its order.
pub const WATCHES: [&str; 3] = ["DAMON", "accessed-bit module", "clear_refs and smaps"];

/// How far the usual verbs can work: they need a way to monitor processes, and pressure. Features that only some machines have (swap,
/// a second node, the module in addition to DAMON) are reported, but do not count here.
pub fn verdict(findings: &[Finding]) -> State {
    let watching = findings.iter().filter(|finding| WATCHES.contains(&finding.name)).map(|finding| finding.state).min();
    let has_pressure = findings.iter().any(|finding| finding.name == "pressure" && finding.state == State::Works);
    match watching {
        Some(State::Works) if has_pressure => State::Works,
        Some(State::Works | State::Partly | State::Busy) => State::Partly,
        Some(State::Missing) | None => State::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, root)
    }

    fn findings(root: &Root) -> Vec<Finding> {
        examine(&Context {
            root,
            child: None,
            models: &["6.12", "7.2"],
            undo: |_| Err(LiveError::Refused("nothing is changed here".to_owned())),
        })
    }

    fn of<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
        findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no finding `{name}`"))
    }

    /// The files of a usual machine with 7.2 that probes read.
    const USUAL: &[(&str, &str)] = &[
        ("/proc/sys/kernel/osrelease", "7.2.13+deb14-amd64\n"),
        ("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
        ("/proc/1/comm", "systemd\n"),
        ("/proc/700/comm", "systemd-oomd\n"),
        ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n"),
        ("/sys/module/damon_stat/parameters/enabled", "Y\n"),
        ("/sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
        ("/sys/kernel/mm/lru_gen/min_ttl_ms", "0\n"),
        ("/sys/kernel/debug/lru_gen", "memcg 1 /\n node 0\n 0 1000 5 6\n 1 900 7 8\n"),
        ("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
        ("/sys/fs/cgroup/app/memory.reclaim", ""),
        ("/proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1048572 0 100\n"),
        (
            "/proc/pressure/memory",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
        ),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/proc/sys/vm/compaction_proactiveness", "20\n"),
    ];

    #[test]
    fn a_usual_machine_is_understood() {
        let (_folder, root) = tree(USUAL);
        let findings = findings(&root);
        let kernel = of(&findings, "kernel");
        assert_eq!((kernel.state, kernel.words.contains("7.2.13")), (State::Works, true), "{kernel:?}");
        assert!(kernel.words.contains("rules of 7.2"), "{kernel:?}");
        let damon = of(&findings, "DAMON");
        assert_eq!(damon.state, State::Busy, "{damon:?}");
        assert!(
            damon.words.contains("DAMON_STAT")
                && damon.fix.as_deref().is_some_and(|fix| fix.contains("--take-damon-stat"))
        );
        assert_eq!(of(&findings, "accessed-bit module").state, State::Missing);
        assert_eq!(of(&findings, "generations").state, State::Works);
        assert_eq!(of(&findings, "swap").state, State::Works);
        let others: Vec<&Finding> = findings.iter().filter(|finding| finding.name == "others at work").collect();
        let [stat, oomd] = others.as_slice() else { panic!("{others:?}") };
        assert!(stat.words.starts_with("DAMON_STAT (/sys/module/damon_stat/parameters/enabled):"), "{stat:?}");
        assert!(oomd.words.starts_with("systemd-oomd (PID 700): kills groups"), "{oomd:?}");
        assert_eq!(verdict(&findings), State::Partly);
    }

    #[test]
    fn older_kernels_come_nearest_to_the_oldest_model() {
        for (release, model) in [
            ("6.1.0-53-amd64", "6.12"),
            ("6.12.107+deb13-amd64", "6.12"),
            ("6.18.1", "6.12"),
            ("7.0.3", "7.2"),
            ("7.9", "7.2"),
        ] {
            let (_folder, root) = tree(&[("/proc/sys/kernel/osrelease", release)]);
            let findings = findings(&root);
            let kernel = of(&findings, "kernel");
            assert!(kernel.words.contains(&format!("rules of {model}")), "{release}: {kernel:?}");
        }
    }

    #[test]
    fn the_verdict_is_about_watching_and_pressure() {
        let judged = |watch: State, pressure: State| {
            verdict(&[
                Finding::new(Part::Watching, "clear_refs and smaps", watch, ""),
                Finding::new(Part::Watching, "DAMON", State::Missing, ""),
                Finding::new(Part::Acting, "memory tiers", State::Missing, "one node"),
                Finding::new(Part::Numbers, "pressure", pressure, ""),
            ])
        };
        assert_eq!(judged(State::Works, State::Works), State::Works, "one node and no module are no fault");
        assert_eq!(judged(State::Works, State::Missing), State::Partly);
        assert_eq!(judged(State::Partly, State::Works), State::Partly);
        assert_eq!(judged(State::Busy, State::Works), State::Partly);
        assert_eq!(judged(State::Missing, State::Works), State::Missing);
    }

    #[test]
    fn nothing_at_all_is_an_answer_too() {
        let (_folder, root) = tree(&[]);
        let findings = findings(&root);
        assert!(
            findings.iter().all(|finding| finding.state != State::Works || finding.part == Part::Machine),
            "{findings:#?}"
        );
        assert_eq!(verdict(&findings), State::Missing);
        let missing =
            findings.iter().filter(|finding| finding.state == State::Missing && finding.part == Part::Watching);
        assert!(missing.clone().count() >= 4 && missing.clone().any(|finding| finding.fix.is_some()), "{findings:#?}");
    }

    #[test]
    fn garbage_is_no_panic() {
        for text in ["", "\0\u{1}garbage", "-5 -5", "max", "99999999999999999999999999", "a b c d\n\n\n"] {
            let files: Vec<(&str, &str)> = USUAL.iter().map(|(path, _)| (*path, text)).collect();
            let (_folder, root) = tree(&files);
            assert!(findings(&root).len() >= PROBES.len() - 4, "{text}");
        }
    }
}
