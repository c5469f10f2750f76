//! `cargo xtask test`: everything that a change can break, stage by stage, each with its time; all stages run, and all cases, even
//! after failures. `cargo xtask nightly` runs the same, the cases marked `#[ignore = "nightly: why"]` and those of the lab, then the
//! long runs of [`nightly`].

mod groups;
mod nightly;
mod programs;
mod verdicts;

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::{Findings, check, guest, module, workspace};
use groups::{Errand, Ran};
use programs::{Case, Program};
use verdicts::{End, Verdict};

/// How many of the slowest cases the table at the end has.
const SLOWEST: usize = 20;

/// Extent of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The tests of every change.
    Everyday,
    /// These and the long ones.
    Nightly,
}

/// A stage that has ended.
struct Stage {
    name: &'static str,
    took: Duration,
}

/// State of the run.
struct Suite {
    stages: Vec<Stage>,
    findings: Findings,
}

impl Suite {
    fn stage(&mut self, name: &'static str, work: &mut dyn FnMut() -> Findings) {
        println!("test: {name} …");
        let start = Instant::now();
        let found = work();
        let took = start.elapsed();
        println!("test: {name}: {} ({:.0} s)", if found.is_empty() { "ok" } else { "FAILED" }, took.as_secs_f64());
        // Findings are printed when found, and again at the end.
        found.iter().for_each(|finding| println!("{finding}"));
        self.findings.extend(found);
        self.stages.push(Stage { name, took });
    }
}

/// Runs all stages. `words`: only cases whose `PACKAGE KIND NAME` contains one of them, and no other stage but the build.
pub(crate) fn run(extent: Extent, words: &[String]) -> Findings {
    if words == ["--list"] {
        return list();
    }
    let mut suite = Suite { stages: Vec::new(), findings: Findings::new() };
    let mut ran = Vec::new();
    if words.is_empty() {
        // Packages come from the network and need little of a processor: meanwhile sources are checked and built.
        let mut needs = Command::new("scripts/install-test-needs").current_dir(workspace::root()).spawn();
        check::before_build(&mut |name, work| suite.stage(name, work));
        let built = build(&mut suite, extent);
        suite.stage("test needs", &mut || installed(&mut needs));
        suite.stage("recorder", &mut || script("make", &["--no-print-directory", "recorder"]));
        if extent == Extent::Nightly {
            suite.stage("programs for guests", &mut || guest::run().into_iter().chain(guest::run_static()).collect());
        }
        cases(&mut suite, &built, extent, words, &mut ran);
        suite.stage("examples in documentation", &mut || {
            // With the libraries of that build.
            let mut command = workspace::cargo();
            check::run_cargo(programs::linted(&mut command).args([
                "test",
                "--quiet",
                "--locked",
                "--workspace",
                "--doc",
            ]))
        });
        if extent == Extent::Nightly {
            nightly::STAGES.iter().for_each(|(name, work)| suite.stage(name, &mut || work()));
        }
    } else {
        let built = build(&mut suite, extent);
        cases(&mut suite, &built, extent, words, &mut ran);
    }
    summary(&suite.stages, &ran);
    suite.findings
}

/// All cases by name, those of the night marked, without running any.
fn list() -> Findings {
    let built = match programs::build(true) {
        Ok(built) => built,
        Err(error) => return vec![error],
    };
    for program in &built.programs {
        match program.cases() {
            Ok(cases) => cases.iter().for_each(|case| {
                let mark = if case.is_nightly { " (nightly)" } else { "" };
                println!("{} {} {}{mark}", program.package, program.kind, case.name);
            }),
            Err(error) => return vec![error],
        }
    }
    Findings::new()
}

fn build(suite: &mut Suite, extent: Extent) -> Vec<(Program, Vec<Case>)> {
    let mut built = Vec::new();
    suite.stage("build with lints", &mut || {
        let programs::Built { programs, lints: mut findings } = match programs::build(extent == Extent::Nightly) {
            Ok(built) => built,
            Err(error) => return vec![error],
        };
        for program in programs {
            match program.cases() {
                Ok(cases) => built.push((program, cases)),
                Err(error) => findings.push(error),
            }
        }
        findings
    });
    built
}

fn cases(suite: &mut Suite, built: &[(Program, Vec<Case>)], extent: Extent, words: &[String], ran: &mut Vec<Ran>) {
    let is_wanted = |program: &Program, case: &Case| {
        let name = || format!("{} {} {}", program.package, program.kind, case.name);
        (extent == Extent::Nightly || !case.is_nightly || !words.is_empty())
            && (words.is_empty() || words.iter().any(|word| name().contains(word.as_str())))
    };
    suite.stage("cases", &mut || {
        let groups = groups::groups(built, is_wanted);
        if groups.is_empty() {
            return vec![format!("no case is called `{}`; `cargo xtask test --list` lists them", words.join("` or `"))];
        }
        let found = Mutex::new(Findings::new());
        let errand = |name: &'static str, brings_kernels, work: fn() -> Findings| Errand {
            brings_kernels,
            work: Box::new({
                let found = &found;
                move || {
                    let start = Instant::now();
                    let new = work();
                    let verdict = if new.is_empty() { "ok" } else { "FAILED" };
                    println!("test: {name}: {verdict} ({:.0} s)", start.elapsed().as_secs_f64());
                    found.lock().expect("no errand panics").extend(new);
                }
            }),
        };
        let mut errands = Vec::new();
        if words.is_empty() {
            errands.push(errand("Python package", false, python));
            errands.push(errand("lints of benches and of the lab", false, check::lints_of_unbuilt));
            if extent == Extent::Nightly {
                errands.push(errand("kernels", true, kernels));
            }
        }
        *ran = groups::run(errands, groups, print);
        let found = found.into_inner().expect("no errand panics");
        found.into_iter().chain(ran.iter().filter_map(failures)).collect()
    });
}

fn print(ran: &Ran) {
    let failed = ran.said.verdicts.iter().filter(|verdict| verdict.end == End::Failed).count();
    let word = if ran.broken.is_none() && failed == 0 { "ok" } else { "FAILED" };
    println!("test: {}: {word} ({} cases, {:.1} s)", ran.name, ran.said.verdicts.len(), ran.took.as_secs_f64());
}

/// Failures of a group: one finding, with the output of the cases that failed.
fn failures(ran: &Ran) -> Option<String> {
    let failed = ran.said.verdicts.iter().filter(|verdict| verdict.end == End::Failed);
    let names: Vec<String> = failed.map(|verdict| format!("{}: {} failed", ran.name, verdict.name)).collect();
    if names.is_empty() && ran.broken.is_none() {
        return None;
    }
    // Output of cases that passed comes first, and is of no use here.
    let rest = &ran.said.rest;
    let from = rest.iter().position(|line| line == "failures:").unwrap_or(rest.len());
    let broken = ran.broken.iter().map(|why| format!("{}: {why}", ran.name));
    Some(rest[from..].iter().cloned().chain(broken).chain(names).collect::<Vec<_>>().join("\n"))
}

/// Times by stage, the slowest cases, what was skipped and why, and the counts on the last line, which tools parse.
fn summary(stages: &[Stage], ran: &[Ran]) {
    println!("\nminutes  stage");
    stages.iter().for_each(|stage| println!("{:>7.1}  {}", stage.took.as_secs_f64() / 60.0, stage.name));
    let all: Duration = stages.iter().map(|stage| stage.took).sum();
    println!("{:>7.1}  together", all.as_secs_f64() / 60.0);
    let mut slowest: Vec<(&Ran, &Verdict)> =
        ran.iter().flat_map(|ran| ran.said.verdicts.iter().map(move |verdict| (ran, verdict))).collect();
    slowest.sort_by_key(|(_, verdict)| std::cmp::Reverse(verdict.took));
    println!("\nseconds  the {SLOWEST} slowest cases (each on one of the processors)");
    for (ran, verdict) in slowest.iter().take(SLOWEST) {
        println!("{:>7.1}  {}: {}", verdict.took.as_secs_f64(), ran.name, verdict.name);
    }
    let skipped: Vec<&str> = ran
        .iter()
        .flat_map(|ran| ran.said.rest.iter().filter(|line| line.contains("skipped: ")))
        .map(|line| line.trim())
        .collect();
    if !skipped.is_empty() {
        println!("\ncases  skipped, and why");
        for why in BTreeSet::from_iter(&skipped) {
            println!("{:>5}  {why}", skipped.iter().filter(|line| *line == why).count());
        }
    }
    let count = |end: End| slowest.iter().filter(|(_, verdict)| verdict.end == end).count();
    let broken = ran.iter().filter(|ran| ran.broken.is_some()).count();
    println!("\n{} passed, {} failed, {} skipped", count(End::Passed), count(End::Failed) + broken, skipped.len());
}

fn installed(needs: &mut std::io::Result<Child>) -> Findings {
    match needs.as_mut().map(Child::wait) {
        Ok(Ok(status)) if status.success() => Findings::new(),
        Ok(_) => vec!["`scripts/install-test-needs` failed; see above".to_owned()],
        Err(error) => vec![format!("cannot run scripts/install-test-needs: {error}")],
    }
}

fn python() -> Findings {
    script("scripts/python", &["test"])
}

/// Kernels that the rig boots, and the accessed-bit module for each. If one is not available, a line says so; its cases are skipped,
/// or fail with `ISOTHERM_REQUIRE_ALL=1`.
fn kernels() -> Findings {
    let lab = workspace::target().join("debug/isotherm-lab");
    for kernel in module::USUAL {
        let status = Command::new(&lab).args(["rig", "ready", kernel]).status();
        if !status.is_ok_and(|status| status.success()) {
            println!("test: Linux {kernel} cannot be had");
            continue;
        }
        let found = module::run(&[kernel.to_owned()]);
        found.iter().for_each(|why| println!("no module for Linux {kernel}: {why}"));
    }
    Findings::new()
}

fn script(program: &str, arguments: &[&str]) -> Findings {
    let line = format!("{program} {}", arguments.join(" "));
    match Command::new(program).args(arguments).current_dir(workspace::root()).status() {
        Ok(status) if status.success() => Findings::new(),
        Ok(_) => vec![format!("`{line}` failed; see above")],
        Err(error) => vec![format!("cannot run `{line}`: {error}")],
    }
}
