//! The real runs: all cells of the matrix in one boot, and several boots.

use std::path::Path;
use std::time::Duration;

use isotherm_rig::job::{Play, SeriesRun, Setting};
use isotherm_rig::{Clock, Kernel, Machine, Observation, Script, SeriesPlay};
use isotherm_units::{Bytes, PageRange, Pages};

use crate::FidelityError;
use crate::folios::Folios;
use crate::matrix::{Cell, METRICS, Selection, Workload};
use crate::replay::READ_STATISTICS_EVERY;
use crate::simulate::{MEMORY, Place, Resident, machine, overlap, runs_of, universe};
use crate::stored::{KernelData, StoredRun};

/// A single replay is given up after this many seconds of the guest's time.
const SECONDS_A_RUN: u64 = 300;

/// How to make the real runs of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct Refresh<'a> {
    /// The kernel, and its name in the rig.
    pub kernel: (&'a str, &'a Kernel),
    /// The guest's program.
    pub guest: &'a Path,
    /// How pages of the guest may form folios.
    pub folios: &'a Folios,
    /// Cells to run.
    pub selection: &'a Selection,
    pub workloads: &'a [Workload],
    /// How often the kernel is booted.
    pub boots: u32,
    /// A boot is given up after this time.
    pub time_limit: Duration,
    /// The command, recorded in the data.
    pub command: &'a str,
}

impl Refresh<'_> {
    /// Runs in one boot.
    pub fn nr_runs(&self) -> usize {
        self.workloads.iter().map(|workload| self.selection.cells_of(&workload.name).count()).sum()
    }

    fn cells(&self) -> Vec<(u32, &Workload, Cell)> {
        let mut cells = Vec::new();
        for (index, workload) in (0u32..).zip(self.workloads) {
            cells.extend(self.selection.cells_of(&workload.name).map(|cell| (index, workload, cell)));
        }
        cells
    }

    /// Boots and plays. `progress` is called with the number of finished runs, of all boots. Returns for each boot the kernel's
    /// version and the observation of each cell, in order.
    ///
    /// # Errors
    /// The rig fails, or any run does: incomplete data are not stored.
    pub fn observe(&self, progress: &dyn Fn(u64)) -> Result<Vec<(String, Vec<Observation>)>, FidelityError> {
        let scripts: Vec<&Script> = self.workloads.iter().map(|workload| &workload.script).collect();
        let cells = self.cells();
        let runs: Vec<SeriesRun> =
            cells.iter().map(|(index, workload, cell)| run_of_cell(*index, workload, cell)).collect();
        let (name, kernel) = self.kernel;
        let machine = Machine {
            memory_bytes: MEMORY.get(),
            time_limit: self.time_limit,
            clock: Clock::Instructions,
            isolated_tables: true,
            ..Machine::default()
        };
        let mut settings = settings();
        settings.extend(self.folios.settings());
        let series = SeriesPlay {
            kernel,
            machine: &machine,
            guest: self.guest,
            file_system: self.folios.file_system,
            settings: &settings,
            scripts: &scripts,
            runs: &runs,
        };
        let mut boots = Vec::new();
        let mut failures = Vec::new();
        for boot in 0..self.boots {
            let before = u64::from(boot) * runs.len() as u64;
            let outcome = series.go(&|done| progress(before + done))?;
            progress(before + runs.len() as u64);
            let mut seen = Vec::new();
            for (observed, (_, _, cell)) in outcome.runs.into_iter().zip(&cells) {
                match observed {
                    Ok(observation) => seen.push(observation),
                    Err(message) => failures.push(format!(
                        "boot {}, {} {} {} %: {message}",
                        boot + 1,
                        cell.workload,
                        cell.policy,
                        cell.limit_percent
                    )),
                }
            }
            boots.push((outcome.kernel, seen));
        }
        if !failures.is_empty() {
            let of = runs.len() * self.boots as usize;
            return Err(FidelityError::Runs { kernel: name.to_owned(), of, failures });
        }
        Ok(boots)
    }

    /// Boots, plays, and returns the data to store.
    ///
    /// # Errors
    /// As [`observe`](Self::observe).
    pub fn go(&self, progress: &dyn Fn(u64)) -> Result<KernelData, FidelityError> {
        let (cells, boots) = (self.cells(), self.observe(progress)?);
        let release = boots.first().map(|(release, _)| release.clone()).unwrap_or_default();
        let stored = cells.iter().enumerate().map(|(index, (_, workload, cell))| {
            let seen: Vec<&Observation> = boots.iter().map(|(_, seen)| &seen[index]).collect();
            stored_run(self.kernel.0, workload, cell, &seen)
        });
        let runs = stored.collect::<Result<Vec<_>, _>>()?;
        let mut data = KernelData {
            kernel: self.kernel.0.to_owned(),
            release,
            command: self.command.to_owned(),
            memory_bytes: MEMORY.get(),
            runs,
        };
        data.runs.sort_by(|one, other| one.cell.cmp(&other.cell));
        Ok(data)
    }
}

fn knob(path: &str, value: impl Into<String>, optional: bool) -> Setting {
    Setting { path: path.to_owned(), value: value.into(), optional }
}

/// Settings made once.
pub(crate) fn settings() -> Vec<Setting> {
    vec![
        knob("/sys/kernel/mm/transparent_hugepage/enabled", "never", false),
        knob("/proc/sys/vm/swappiness", machine(MEMORY).swappiness.to_string(), false),
        // Both act on their own.
        knob("/sys/module/damon_stat/parameters/enabled", "N", true),
        knob("/proc/sys/kernel/numa_balancing", "0", true),
    ]
}

fn run_of_cell(script: u32, workload: &Workload, cell: &Cell) -> SeriesRun {
    series_run(script, &cell.policy, workload.limit(cell.limit_percent), MEMORY, &workload.subgroups)
}

/// One replay under a policy and a limit for pages of the script, with zram of a size.
pub(crate) fn series_run(script: u32, policy: &str, limit: Pages, zram: Bytes, subgroups: &[u16]) -> SeriesRun {
    let readahead = machine(MEMORY).readahead.get() / 1024;
    let is_mglru = policy == "mglru";
    SeriesRun {
        script,
        settings: vec![
            knob("/sys/kernel/mm/lru_gen/enabled", if is_mglru { "y" } else { "n" }, !is_mglru),
            knob("/sys/block/ram0/queue/read_ahead_kb", readahead.to_string(), true),
        ],
        zram_bytes: Some(zram.get()),
        play: Play {
            limit_bytes: Some(limit.bytes().get()),
            read_stat_every: u64::from(READ_STATISTICS_EVERY),
            seconds_max: SECONDS_A_RUN,
        },
        subgroups: subgroups.to_vec(),
    }
}

fn stored_run(
    kernel: &str,
    workload: &Workload,
    cell: &Cell,
    boots: &[&Observation],
) -> Result<StoredRun, FidelityError> {
    let counters = METRICS.iter().map(|metric| {
        let missing = || FidelityError::NoCounter { kernel: kernel.to_owned(), counter: metric.counter };
        let of = |seen: &&Observation| counted(seen, metric.counter).ok_or_else(missing);
        Ok((metric.name.to_owned(), boots.iter().map(of).collect::<Result<Vec<_>, _>>()?))
    });
    let universe = universe(&workload.script);
    let mut residencies = boots.iter().map(|seen| runs_of(&resident(seen), &universe));
    let residency = residencies.next().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10 000")]
    let overlap_of_boots = residencies.map(|other| (overlap(&residency, &other) * 10_000.0).round() as u32).collect();
    Ok(StoredRun {
        cell: cell.clone(),
        digest: workload.digest.clone(),
        limit_pages: workload.limit(cell.limit_percent).get(),
        counters: counters.collect::<Result<_, FidelityError>>()?,
        residency,
        overlap_of_boots,
    })
}

/// Counter of the group, or of the machine if the group has no such counter. `None` if neither has it.
pub(crate) fn counted(seen: &Observation, counter: &str) -> Option<u64> {
    let own = seen.memory_stat.get(counter).copied();
    own.or_else(|| seen.vmstat.get(counter).and_then(|&value| u64::try_from(value).ok()))
}

fn resident(seen: &Observation) -> Resident {
    let ranges = |pages: &[(u64, u64)]| pages.iter().map(|&(first, pages)| PageRange::at(first, pages)).collect();
    let files = seen.cached.iter().map(|file| (Place::File(file.file), ranges(&file.ranges)));
    let processes = seen.anonymous.iter().map(|process| (Place::Process(process.process), ranges(&process.ranges)));
    files.chain(processes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_nowhere_is_not_zero() {
        let mut seen = Observation::default();
        assert_eq!(counted(&seen, "pgscan"), None);
        seen.vmstat.insert("pgscan".to_owned(), 7);
        assert_eq!(counted(&seen, "pgscan"), Some(7));
        seen.memory_stat.insert("pgscan".to_owned(), 0);
        assert_eq!(counted(&seen, "pgscan"), Some(0));
    }
}
