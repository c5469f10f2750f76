//! Programs at many sizes: what `isotherm advise` says about each, with the prices of the table and with those of this machine, next to
//! runs at each.

mod judged;
mod native_error;
mod said;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use isotherm_terminal::{CliError, Ui};
use isotherm_verify::Start;
use serde::{Deserialize, Serialize};

use super::group::{Groups, RUN_AT_MOST};
use super::programs::{Program, Timed, Workshop};
use super::runs::Run;
use super::{advice, write_json};
use said::{Answer, Said};

/// A limited run is ended after this multiple of the time without a limit,
const TOO_LONG: u32 = 12;
/// but not before this.
const TOO_LONG_AT_LEAST: Duration = Duration::from_secs(10);

/// How often a program runs at each size.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    pub(super) all: u32,
    /// Of these, the last ones start warm.
    pub(super) warm: u32,
    /// Cold ones after these, without a limit and where the size is said to be enough: what is allowed is a few percent, and so is noise.
    pub(super) more: u32,
}

impl Turns {
    fn start_of(self, turn: u32) -> Start {
        if (self.all - self.warm..self.all).contains(&turn) { Start::Warm } else { Start::Cold }
    }
}

/// What to measure, and what there is already.
pub(super) struct Asked {
    /// Sizes, as shares of the recording's peak.
    pub(super) percents: Vec<u64>,
    pub(super) turns: Turns,
    /// Where recordings and the calibration are, and stay.
    pub(super) keep: Option<PathBuf>,
    /// Runs that need not be made again.
    pub(super) earlier: Option<Results>,
    pub(super) json: Option<PathBuf>,
}

/// All programs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    programs: Vec<Measured>,
}

/// One program.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    program: String,
    /// It waits most of the time: what counts is the worse of its work and its longest bursts.
    #[serde(default)]
    waits: bool,
    /// Of the simulated program without a limit; sizes are shares of it.
    peak_bytes: u64,
    /// Runs without a limit.
    free: Vec<Brief>,
    /// Sorted by size.
    sizes: Vec<AtSize>,
}

/// One size.
#[derive(Debug, Serialize, Deserialize)]
struct AtSize {
    memory_bytes: u64,
    /// With the prices of the table; `None` where this answer has no such row.
    table: Option<Said>,
    /// With the prices of this machine.
    calibrated: Option<Said>,
    runs: Vec<Brief>,
}

impl AtSize {
    fn is_said_to_be_enough(&self) -> bool {
        self.table.iter().chain(&self.calibrated).any(|said| said.is_enough)
    }
}

/// A run without its single bursts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Brief {
    is_warm: bool,
    is_complete: bool,
    kills: u64,
    major_faults: u64,
    /// The time of all bursts, else that of the run.
    work_ns: u64,
    p99_ns: u64,
    cpu_ns: u64,
    /// What a limit can add to: time in the kernel and waits, less what threads compute at the same time. With bursts time in the kernel alone.
    kernel_ns: i64,
    peak_bytes: u64,
    #[serde(default)]
    wall_ns: u64,
}

impl Brief {
    fn new(run: &Run, (timed, start): (Timed, Start)) -> Self {
        let Run { is_complete, major_faults, peak_bytes, kills, cpu_ns, system_ns, wall_ns, .. } = *run;
        let (work_ns, p99_ns) = (run.work_ns(), run.p99_ns());
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let kernel_ns = match timed {
            Timed::Whole => signed(wall_ns) - signed(cpu_ns.saturating_sub(system_ns)),
            Timed::Bursts => signed(system_ns),
        };
        let is_warm = start == Start::Warm;
        Self { is_warm, is_complete, kills, major_faults, work_ns, p99_ns, cpu_ns, kernel_ns, peak_bytes, wall_ns }
    }
}

/// What [`measure`] wrote.
pub(super) fn read(file: &Path) -> Result<Results, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::failed(format!("{}: {error}", file.display()));
    let text = std::fs::read(file).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

/// The tables of such a file. `fit`: where to write how far native runs are from what was said, for `isotherm advise`.
pub(super) fn tables(file: &Path, fit: Option<&Path>) -> Result<String, CliError> {
    let results = read(file)?;
    write_json(fit, &native_error::fit(&results))?;
    Ok(tables::all(&results))
}

/// Records, asks and runs all programs; writes what there is after each.
pub(super) fn measure(
    programs: &[&'static Program],
    workshop: &Workshop,
    groups: &Groups,
    asked: &Asked,
    ui: &Ui,
) -> Result<String, CliError> {
    let kept = |name: &str| asked.keep.as_ref().map_or_else(|| workshop.file(name), |folder| folder.join(name));
    let prices = kept("host.toml");
    if !prices.exists() {
        said::calibrate(workshop, &prices)?;
    }
    let mut results = Results::default();
    for program in programs {
        match workshop.command(program) {
            Err(missing) => ui.say(format_args!("{} is skipped: {missing}", program.name)),
            Ok(command) => {
                let trace = kept(&format!("{}.parquet", program.name));
                if !trace.exists() {
                    ui.say(format_args!("{}: recording", program.name));
                    advice::record(&advice::isotherm()?, program, &command, &trace)?;
                }
                ui.say(format_args!("{}: asking", program.name));
                let ask = |prices| said::ask(program, workshop, &trace, &asked.percents, prices);
                let answers = [ask(None)?, ask(Some(prices.as_path()))?];
                let files = files_of(&trace, &command)?;
                let earlier = asked.earlier.as_ref();
                let earlier = earlier.and_then(|results| results.programs.iter().find(|of| of.program == program.name));
                let runs = |start, limit, at_most| {
                    let run = groups.run(&command, program.timed, &files, start, (limit, at_most))?;
                    Ok(Brief::new(&run, (program.timed, start)))
                };
                let mut measured = Measured::new(program, answers, earlier);
                measured.run(asked.turns, &runs, &|turn| {
                    ui.say(format_args!("{}: runs {turn} of {}", program.name, asked.turns.all + asked.turns.more));
                })?;
                results.programs.push(measured);
                write_json(asked.json.as_deref(), &results)?;
            }
        }
    }
    Ok(tables::all(&results))
}

/// The files that the program maps, and those that its command names.
fn files_of(trace: &Path, command: &[String]) -> Result<BTreeSet<PathBuf>, CliError> {
    let mut files = advice::files(trace)?;
    let named = command.iter().flat_map(|word| word.split(' ')).map(PathBuf::from);
    files.extend(named.filter(|path| path.is_absolute() && path.is_file()));
    // A page that was written and is not on the disk yet does not leave the page cache.
    for path in &files {
        let _ = std::fs::File::open(path).and_then(|file| file.sync_all());
    }
    Ok(files)
}

impl Measured {
    /// What is said, with the runs that there are.
    fn new(program: &Program, [table, calibrated]: [Answer; 2], earlier: Option<&Self>) -> Self {
        let runs_at = |bytes| {
            let sizes = earlier.map_or(&[][..], |earlier| &earlier.sizes);
            sizes.iter().find(|size| size.memory_bytes == bytes).map_or_else(Vec::new, |size| size.runs.clone())
        };
        let bytes: BTreeSet<u64> = table.sizes().chain(calibrated.sizes()).collect();
        let at = |memory_bytes| AtSize {
            memory_bytes,
            table: table.said(memory_bytes),
            calibrated: calibrated.said(memory_bytes),
            runs: runs_at(memory_bytes),
        };
        Self {
            program: program.name.to_owned(),
            waits: program.timed == Timed::Bursts,
            peak_bytes: table.peak_bytes,
            free: earlier.map_or_else(Vec::new, |earlier| earlier.free.clone()),
            sizes: bytes.into_iter().map(at).collect(),
        }
    }

    /// When runs are ended.
    fn run_at_most(&self) -> Duration {
        self.free.iter().map(at_most_after).max().unwrap_or(RUN_AT_MOST)
    }

    /// Makes the runs that are missing, in turns, each from no limit to the smallest one.
    fn run(
        &mut self,
        turns: Turns,
        run: &dyn Fn(Start, Option<u64>, Duration) -> Result<Brief, CliError>,
        say: &dyn Fn(u32),
    ) -> Result<(), CliError> {
        for turn in 0..turns.all + turns.more {
            let start = turns.start_of(turn);
            let mut at_most = self.run_at_most();
            let free = std::iter::once((None, &mut self.free));
            let wanted = self.sizes.iter_mut().rev().filter(|size| turn < turns.all || size.is_said_to_be_enough());
            let sizes = wanted.map(|size| (Some(size.memory_bytes), &mut size.runs));
            let missing: Vec<_> = free.chain(sizes).filter(|(_, runs)| runs.len() <= turn as usize).collect();
            if !missing.is_empty() {
                say(turn + 1);
            }
            for (limit, runs) in missing {
                let made = run(start, limit, at_most)?;
                if limit.is_none() {
                    at_most = at_most_after(&made);
                }
                runs.push(made);
            }
        }
        Ok(())
    }
}

/// A limited run that takes longer is ended: under a limit that is far too small a program may never end.
fn at_most_after(free: &Brief) -> Duration {
    RUN_AT_MOST.min(TOO_LONG_AT_LEAST.max(Duration::from_nanos(free.wall_ns) * TOO_LONG))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs at sizes that were run before are not made again. Further ones are cold, and made where the size is said to be enough.
    #[test]
    fn only_missing_runs_are_made() {
        let run = Brief { work_ns: 1, ..Brief::default() };
        let size = |memory_bytes, is_enough, runs| {
            let table = Some(Said { is_enough, ..Said::default() });
            AtSize { memory_bytes, table, calibrated: None, runs }
        };
        let mut measured = Measured {
            program: "p".to_owned(),
            waits: false,
            peak_bytes: 9,
            free: vec![run.clone(), run.clone()],
            sizes: vec![size(5, false, vec![run; 2]), size(7, true, Vec::new())],
        };
        let made = std::cell::RefCell::new(Vec::new());
        let make = |start, limit, _| {
            made.borrow_mut().push((start, limit));
            Ok(Brief::default())
        };
        measured.run(Turns { all: 2, warm: 1, more: 1 }, &make, &|_| {}).unwrap();
        let wanted = [(Start::Cold, Some(7)), (Start::Warm, Some(7)), (Start::Cold, None), (Start::Cold, Some(7))];
        assert_eq!(made.into_inner(), wanted);
        assert_eq!(measured.sizes[1].runs.len(), 3);
    }
}
