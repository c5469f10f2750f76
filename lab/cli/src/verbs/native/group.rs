//! Runs in memory cgroups of their own.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use isotherm_linux::Root;
use isotherm_linux::cgroup::{Ceiling, OwnGroups};
use isotherm_terminal::CliError;
use isotherm_units::Bytes;
use isotherm_verify::{End, Files, Order, Size, Start};

use super::programs::Timed;
use super::runs::Run;

/// A run without a limit that takes longer is ended.
pub(super) const RUN_AT_MOST: Duration = Duration::from_secs(300);

/// Where groups are made.
pub(super) struct Groups(OwnGroups);

impl Groups {
    /// The memory hierarchy of this machine.
    pub(super) fn find() -> Result<Self, CliError> {
        OwnGroups::find(&Root::default()).map(Self).map_err(|error| CliError::host_cannot(error.to_string()))
    }

    /// Runs a program in a new group, under a limit if there is one: `memory.high` in version 2, as `isotherm apply` sets it. Before a
    /// cold start its files leave the page cache, as far as no other program has them mapped: otherwise they are charged to whoever
    /// read them before. Before a warm one they are read, by this process.
    pub(super) fn run(
        &self,
        command: &[String],
        timed: Timed,
        files: &BTreeSet<PathBuf>,
        start: Start,
        (limit_bytes, at_most): (Option<u64>, Duration),
    ) -> Result<Run, CliError> {
        match start {
            Start::Cold => files.iter().cloned().collect::<Files>().forget(),
            Start::Warm => files.iter().for_each(read),
        }
        let ceiling = if self.0.version() == 1 { Ceiling::Max } else { Ceiling::High };
        let words: Vec<_> = command.iter().map(Into::into).collect();
        let order = Order {
            command: &words,
            limit: limit_bytes.map(|bytes| (ceiling, Size { bytes: Bytes::new(bytes), is_asked: true })),
            start,
            has_bursts: timed == Timed::Bursts,
            at_most,
        };
        let run = isotherm_verify::run(&self.0, &order, &|| true, None)
            .map_err(|error| CliError::failed(format!("{}: {error}", command.join(" "))))?;
        let is_complete = run.end == End::Exit(0);
        Ok(Run {
            is_complete,
            wall_ns: run.wall_ns,
            cpu_ns: run.cpu_ns,
            system_ns: run.system_ns,
            major_faults: run.major_faults,
            peak_bytes: run.peak_bytes.unwrap_or(0),
            kills: run.kills,
            bursts_ns: match timed {
                Timed::Whole if is_complete => vec![run.wall_ns],
                _ => run.bursts_ns,
            },
        })
    }
}

/// Brings a file into the page cache. One that cannot be read is not there when the program starts either.
fn read(path: &PathBuf) {
    let _ = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
}
