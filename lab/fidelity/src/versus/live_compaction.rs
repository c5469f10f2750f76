//! `isotherm daemon run` and `isotherm compact` inside real kernels: fragmented memory, driven to a level.

use isotherm_guest::fragmenting::{Fragment, Fragments, Holes, Moment};
use isotherm_guest::job::{Job, Report, Task};
use isotherm_rig::{Clock, Extra, Extras, Machine};
use serde::{Deserialize, Serialize};

use super::compaction::{HUGE_PERCENT, SPARE_BYTES, Sample, settings};
use super::live::{PROGRAM, Product};
use super::{Rig, reports};
use crate::FidelityError;

const CONFIG: &str = "/etc/isotherm.toml";
/// Memory of the guest.
const MEMORY_BYTES: u64 = 4 << 30;

/// A way to compact.
#[derive(Clone, Copy, Debug)]
pub struct CompactWay {
    /// Name in tables.
    pub name: &'static str,
    /// Arguments of the command; empty: no compaction.
    arguments: &'static [&'static str],
    configuration: &'static str,
}

const DAEMON: &[&str] = &["daemon", "run", "--for", "20s", CONFIG];

/// All ways. Marks are those of the original test, 25 and 30 percent.
pub const COMPACT_WAYS: &[CompactWay] = &[
    CompactWay { name: "nobody", arguments: &[], configuration: "" },
    CompactWay { name: "isotherm compact", arguments: &["compact", "--yes"], configuration: "" },
    CompactWay {
        name: "run, explicit",
        arguments: DAEMON,
        configuration: "[[compaction]]\nname = \"huge\"\ndesign = \"explicit\"\nevery = \"5s\"\nenable = true\n",
    },
    CompactWay {
        name: "run, merged",
        arguments: DAEMON,
        configuration: "[[compaction]]\nname = \"huge\"\ndesign = \"merged\"\nproactiveness = 75\nenable = true\n",
    },
];

/// Free memory of the guest's largest zone at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Free {
    /// In blocks smaller than a huge page, percent.
    pub extfrag: u32,
    /// Huge pages.
    pub huge: u64,
}

/// Result of one way on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactRun {
    pub way: String,
    /// `uname -r`.
    pub kernel: String,
    /// `contiguous` or `strided`.
    pub holes: String,
    /// When holes were made.
    pub before: Free,
    /// State at the end.
    pub after: Free,
    /// Pages that moved in between, moved by the kernel or the daemon.
    pub moved: u64,
    /// Huge pages asked for afterwards, and obtained without falling back.
    pub asked: u64,
    pub obtained: u64,
    /// Exit and output of the command.
    pub said: String,
}

/// Fragments memory in each way, has it compacted, and asks for huge pages.
///
/// # Errors
/// The guest does not finish, or the command fails there, with its output.
pub fn compact(rig: &Rig<'_>, product: Product<'_>, way: &CompactWay) -> Result<Vec<CompactRun>, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, way.configuration).map_err(failed)?;
    let program: Vec<String> = match way.arguments {
        [] => Vec::new(),
        words => [PROGRAM].iter().chain(words).map(|&word| word.to_owned()).collect(),
    };
    let cases = [Holes::Contiguous, Holes::Strided];
    let run = |holes| Fragment {
        holes,
        proactiveness: 0,
        wait_ms: 20_000,
        program: program.clone(),
        spare_bytes: SPARE_BYTES,
        huge_percent: HUGE_PERCENT,
    };
    let task = Task::Fragment(Fragments { runs: cases.map(run).to_vec() });
    let job = Job { settings: settings(), zram_bytes: None, files_device: None, task };
    let time_limit = std::time::Duration::from_secs(1800);
    let machine = Machine { memory_bytes: MEMORY_BYTES, clock: Clock::Instructions, time_limit, ..Machine::default() };
    let mut files = product.files()?;
    files.push(Extra { from: configuration, to: CONFIG.to_owned(), is_program: false });
    let result = rig.run_with(&machine, &job, &Extras { modules: Vec::new(), files })?;
    let told = reports(&result, cases.len(), |report| match report {
        Report::Fragmented(fragmented) => Some(fragmented),
        _ => None,
    })?;
    let judged = cases.iter().zip(told).map(|(holes, told)| {
        if !told.said.is_empty() && !told.said.starts_with("exit status: 0") && !told.said.starts_with("exit status: 4")
        {
            return Err(FidelityError::Live(told.said.clone()));
        }
        let grown = |name: &str, from: &Moment, to: &Moment| {
            let count = |moment: &Moment| moment.vmstat.get(name).copied().unwrap_or(0);
            count(to).saturating_sub(count(from))
        };
        Ok(CompactRun {
            way: way.name.to_owned(),
            kernel: result.kernel.clone(),
            holes: holes.name().to_owned(),
            before: free(&told.before)?,
            after: free(&told.after)?,
            moved: grown("pgmigrate_success", &told.before, &told.after),
            asked: told.huge_ns.len() as u64,
            obtained: grown("thp_fault_alloc", &told.after, &told.end),
            said: told.said.clone(),
        })
    });
    judged.collect()
}

fn free(moment: &Moment) -> Result<Free, FidelityError> {
    let (_, blocks) = Sample::of(moment).blocks()?;
    let order = isotherm_core::compaction::HUGE_ORDER;
    Ok(Free { extfrag: blocks.extfrag(order), huge: blocks.suitable(order) })
}
