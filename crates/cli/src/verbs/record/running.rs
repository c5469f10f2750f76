//! `isotherm record --pid`: a page trace of running processes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_daemon::WatchOptions;
use isotherm_linux::{Module, Root};
use isotherm_recorder::{AccessedOptions, AccessedRecording, AccessedReport, record_accessed};
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::live::{
    BudgetArgs, JOURNAL, LiveClock, LiveScanner, NoFaultAround, OwnCpu, Target, TargetArgs, fault_around_bytes, to_cli,
};
use crate::ui::Ui;

/// Short against the seconds over which reclaim acts; the bits of a GiB are scanned in some 10 ms.
const DEFAULT_EPOCH: Duration = Duration::from_ms(100);
/// Longer epochs show next to nothing; shorter ones cost more than they can show.
const EPOCHS: (Duration, Duration) = (Duration::from_ms(10), Duration::from_secs(60));

/// For `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Running processes")]
pub(super) struct RunningArgs {
    /// Record a process that runs, with its children, from accessed bits.
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pid: Option<u32>,
    /// Record all processes of a control group (version 2): its path as in /proc/PID/cgroup.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Have the kernel mark only the page that was used at a fault in a file, not up to 16 around it. This applies to the whole machine
    /// during the recording, and is needed for programs that read mapped files at random. The old value is in the journal and is restored.
    #[arg(long)]
    no_fault_around: bool,
    /// The journal of changes, for --no-fault-around.
    #[arg(long, value_name = "FILE", default_value = JOURNAL, requires = "no_fault_around")]
    journal: PathBuf,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
}

impl RunningArgs {
    pub(super) fn is_given(&self) -> bool {
        self.pid.is_some() || self.cgroup.is_some()
    }
}

/// Records until the time is over, Ctrl-C, or the last process has ended.
pub(super) fn run(
    args: &RunningArgs,
    output: &Path,
    epoch: Option<Duration>,
    max_bytes: Option<u64>,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let WatchOptions { length, max_cpu } = args.budget.options()?;
    let epoch = epoch.unwrap_or(DEFAULT_EPOCH);
    if epoch < EPOCHS.0 || epoch > EPOCHS.1 {
        return Err(CliError::usage(format!(
            "--epoch is {epoch}; allowed for running processes: {} to {}",
            EPOCHS.0, EPOCHS.1
        )));
    }
    let root = Root::default();
    let target = TargetArgs { pid: args.pid, cgroup: args.cgroup.clone(), physical: false };
    let Target::Family { family, name, .. } = target.open(&root, &[])? else {
        return Err(CliError::usage("physical memory has no page trace: give --pid or --cgroup"));
    };
    let module = Module::open(&root).map_err(to_cli)?;
    let off = args.no_fault_around.then(|| NoFaultAround::new(&root, &args.journal)).transpose()?;
    let mut eyes = LiveScanner::new(&root, module, family);
    let mut clock = LiveClock::start()?;
    let options = AccessedOptions {
        command: vec![name.clone()],
        output: output.to_owned(),
        epoch,
        length,
        max_cpu,
        max_bytes,
        fault_around_bytes: fault_around_bytes(&root),
        host: isotherm_recorder::describe_host(),
    };
    ui.say(format_args!("recording {name} from accessed bits, a look every {epoch}"));
    let spinner = ui.spinner("recording: rows");
    let recorded = record_accessed(&options, &mut eyes, &mut clock, &mut OwnCpu, &mut |report| match report {
        AccessedReport::Progress { elapsed, processes, used, rows } => {
            let (elapsed, used) = (elapsed.approx(), used.approx());
            spinner.set_message(format!("recording: {elapsed}, {processes} processes, {used} in use, rows:"));
            spinner.set_position(rows);
        }
        AccessedReport::Said(words) => spinner.suspend(|| ui.say(words)),
    });
    spinner.finish_and_clear();
    off.map_or(Ok(()), |off| off.put_back(ui))?;
    let recorded = recorded.map_err(super::to_cli)?;
    summary(&recorded, output).iter().for_each(|line| ui.say(line));
    Ok(ExitCode::SUCCESS)
}

fn summary(recorded: &AccessedRecording, output: &Path) -> [String; 2] {
    let share = u128::from(recorded.spent.ns()) * 10_000 / u128::from(recorded.elapsed.ns().max(1));
    [
        format!(
            "{}: {} rows in {} epochs of {}, {} processes; {} of memory",
            output.display(),
            recorded.rows,
            recorded.epochs,
            recorded.elapsed.approx(),
            recorded.processes,
            Bytes::new(recorded.pages.saturating_mul(isotherm_linux::page_bytes())).approx(),
        ),
        format!(
            "looking took {} of CPU time, {}.{:02} % of a processor; longest epoch {}; ended: {}",
            recorded.spent.approx(),
            share / 100,
            share % 100,
            recorded.longest_epoch.approx(),
            recorded.end
        ),
    ]
}
