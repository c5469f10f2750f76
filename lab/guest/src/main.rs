//! First process of a guest of the real-kernel rig: sets up the machine, does the job, reports, switches off.
//!
//! It writes reports to the second serial port; its messages on the console (the first) are for people.

#![expect(clippy::print_stderr, reason = "the console is all a guest has")]

mod companion;
mod conductor;
mod damon;
mod device;
mod draws;
mod fragment;
mod kills;
mod knobs;
mod least;
mod live;
mod lru_sort;
mod machine;
mod module_test;
mod observe;
mod player;
mod pressure_loop;
mod prices;
mod programs;
mod restores;
mod series;
mod shared;
mod sys;
mod target;
mod tenants;
mod tiers;
mod tool;

use isotherm_guest::job::{FAILED, JOB_PATH, Job, PASSED, Report, Task};
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

/// Name on the command line of this program, and what runs there with the further arguments.
type NamedTool = (&'static str, fn(&[String]) -> Result<(), String>);
/// Tools of jobs.
const TOOLS: [NamedTool; 3] =
    [(least::NAME, least::run), (pressure_loop::NAME, pressure_loop::run), (tenants::NAME, tenants::run)];

/// Sends reports.
struct Reporter(File);

impl Reporter {
    fn say(&mut self, report: &Report) {
        let line = serde_json::to_string(report).expect("reports are plain data");
        // A failure to write cannot be reported.
        let _ = writeln!(self.0, "{line}").and_then(|()| self.0.flush());
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::process::id() != 1
        && let Some((name, arguments)) = arguments.split_first()
        && let Some((_, run)) = TOOLS.iter().find(|(tool, _)| tool == name)
    {
        let ran = run(arguments).inspect_err(|why| eprintln!("{why}"));
        return if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if std::process::id() != 1 {
        eprintln!("isotherm-guest is the first process of a virtual machine; `isotherm-lab rig` starts it there.");
        return ExitCode::from(2);
    }
    let code = match machine::mount_basics().and_then(|()| machine::open_reports()) {
        Err(message) => {
            eprintln!("isotherm-guest: {message}");
            FAILED
        }
        Ok(reports) => {
            let mut reporter = Reporter(reports);
            match work(&mut reporter) {
                Ok(()) => {
                    reporter.say(&Report::Done);
                    PASSED
                }
                Err(message) => {
                    eprintln!("isotherm-guest: {message}");
                    reporter.say(&Report::Failed { message });
                    FAILED
                }
            }
        }
    };
    machine::switch_off(code)
}

fn work(reporter: &mut Reporter) -> Result<(), String> {
    reporter.say(&machine::booted()?);
    let text = std::fs::read_to_string(JOB_PATH).map_err(|error| format!("{JOB_PATH}: {error}"))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| format!("{JOB_PATH}: {error}"))?;
    machine::load_modules()?;
    machine::write_settings(&job.settings)?;
    if let Some(bytes) = job.zram_bytes {
        machine::swap_on_zram(bytes)?;
    }
    if let Some(device) = &job.files_device {
        machine::mount_files(device)?;
    }
    match &job.task {
        Task::Boot => Ok(()),
        Task::Play(play) => conductor::play(play, reporter),
        Task::Series(series) => series::play(series, reporter),
        Task::Sort(sorts) => sorts.runs.iter().try_for_each(|run| lru_sort::sort(run, reporter)),
        Task::Fragment(fragments) => fragments.runs.iter().try_for_each(|run| fragment::fragment(run, reporter)),
        Task::Tier(tierings) => tierings.runs.iter().try_for_each(|run| tiers::tier(run, reporter)),
        Task::Live(task) => live::live(task, reporter),
        Task::Kill(task) => kills::kill(task, reporter),
        Task::Restore(task) => restores::restore(task, reporter),
        Task::Host(task) => tenants::host(task, reporter),
        Task::Module(test) => module_test::test(test, reporter),
        Task::Price(task) => prices::price(task, reporter),
        Task::Watch(watches) => watches.runs.iter().try_for_each(|run| damon::watch(run, reporter)),
    }
}
