//! `isotherm daemon run`: the daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_daemon::changes::Refusal;
use isotherm_daemon::config::TABLES;
use isotherm_daemon::control_loop::{Ended, Environment, Knobs, steer};
use isotherm_daemon::tape::Taped;
use isotherm_linux::{LiveHost, Stopwatch, Workers};
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::live::daemon::{
    AUDIT, Audit, Configuration, Control, DaemonClock, Desk, Exporter, InForce, Lock, Machine, Manager, RUN,
    StatusFile, checksum, configuration, take_back, tape,
};
use crate::live::{HandsArgs, LoopCpu, Use, hands};
use crate::ui::Ui;
use crate::verbs::compact::COMPACTOR;

/// Watch and steer this machine by a live configuration, until it is stopped.
///
/// Sections observe unless they say enable = true: they tell what they would do, and change nothing but what watching itself needs. With
/// --dry-run none acts whatever the file says. What acts is written down before it is done, is read back after it, and pauses while memory is
/// short or the file /run/isotherm/stop is there. SIGTERM and Ctrl-C end it between two pieces of work, SIGHUP has it read its configuration
/// again. `isotherm daemon status`, `reload` and `stop` ask it at the socket `control` in --run-dir, which is for root and the daemon's user.
/// One daemon runs on a machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm daemon run --dry-run isotherm.toml
  sudo isotherm daemon run
  sudo isotherm daemon run --for 1h isotherm.toml
  sudo isotherm daemon run --for 10m --tape isotherm.tape isotherm.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    configuration: Configuration,
    /// Decide and report, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// End after this time [default: when it is stopped].
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// Folder of the lock, the control socket and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
    /// A line of JSON for each thing that it did.
    #[arg(long, value_name = "FILE", default_value = AUDIT)]
    audit: PathBuf,
    /// Record all that the machine answers, for `isotherm daemon replay`: a bug report.
    #[arg(long, value_name = "FILE")]
    tape: Option<PathBuf>,
    /// The tape ends at this size; the daemon goes on.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "tape")]
    tape_max: Bytes,
    #[command(flatten)]
    hands: HandsArgs,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let file = args.configuration.file;
    let mut config = configuration(&file)?;
    if args.dry_run {
        config = config.observing();
    }
    if config.nr_sections() == 0 {
        let tables: Vec<String> = TABLES.iter().map(ToString::to_string).collect();
        let (file, tables) = (file.display(), tables.join(", "));
        return Err(CliError::usage(format!("{file} has no section: there is nothing to do; add one of {tables}")));
    }
    let root = args.hands.root().with_workers(Workers::default());
    let (clock, waker) =
        Stopwatch::start_reloadable().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let _lock = Lock::take(&args.run_dir)?;
    let desk = Desk::new(waker);
    let _control = Control::start(&args.run_dir, &desk)?;
    let status = StatusFile { folder: args.run_dir, configuration: file.clone(), dry_run: args.dry_run };
    let mut hands = if args.dry_run { None } else { hands(&root, &args.hands.journal, Use::Write)? };
    if let Some(hands) = &mut hands {
        take_back(hands, ui)?;
    }
    let mut audit = Audit::open(&args.audit, status.clone(), ui)?;
    let in_force = InForce::new(checksum(&config).into());
    let exporter = config
        .metrics
        .as_ref()
        .map(|it| Exporter::start(it, &root, &args.hands.journal, in_force.clone(), config.daemon.max_cpu))
        .transpose()?;
    let mut meter = LoopCpu(exporter.as_ref().map(Exporter::served));
    audit.export(exporter);
    audit.answer(desk.clone());
    let mut world =
        Machine { root: root.clone(), clock: &clock, file, dry_run: args.dry_run, in_force, families: BTreeMap::new() };
    let mut host = LiveHost::new(root);
    let program =
        std::env::current_exe().map_err(|error| CliError::failed(error).while_doing("cannot find this program"))?;
    host.use_compactor(program, COMPACTOR);
    let mut clock = DaemonClock { clock: &clock, manager: Manager::find(), is_reloading: false, desk: Some(desk) };
    clock.manager.ready();
    let mut none = NoKnobs;
    let knobs: &mut dyn Knobs = hands.as_mut().map_or(&mut none, |hands| hands);
    let steered = match &args.tape {
        None => {
            let outside =
                Environment { world: &mut world, knobs, clock: &mut clock, meter: &mut meter, log: &mut audit };
            steer(&config, args.length, &mut host, outside)
        }
        Some(path) => {
            let tape = tape(path, args.tape_max, &config, args.length)?;
            let outside = Environment {
                world: &mut Taped::new(&mut world, &tape),
                knobs: &mut Taped::new(knobs, &tape),
                clock: &mut Taped::new(&mut clock, &tape),
                meter: &mut Taped::new(&mut meter, &tape),
                log: &mut Taped::new(&mut audit, &tape),
            };
            let steered = steer(&config, args.length, &mut Taped::new(&mut host, &tape), outside);
            if let Some(why) = tape.lost() {
                ui.warn(format_args!("the tape {} is not whole: {why}", path.display()));
            }
            steered
        }
    };
    clock.manager.stopping();
    status.remove();
    let steered = steered.map_err(CliError::usage)?;
    if !steered.left.is_empty() {
        return Err(CliError::partial(format!(
            "{}; it stays in the journal: `isotherm restore` tries once more",
            steered.left.join("; ")
        )));
    }
    match steered.end {
        Ended::Stopped | Ended::TimeOver => Ok(ExitCode::SUCCESS),
        Ended::TooLarge(why) => Err(CliError::failed(why)),
    }
}

/// A dry run has no journal, and writes nothing.
struct NoKnobs;

impl Knobs for NoKnobs {
    fn set(&mut self, _: &str, path: &str, _: &str) -> Result<(), Refusal> {
        Err(Refusal::DryRun(path.to_owned()))
    }

    fn set_within(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal> {
        self.set(section, path, value)
    }

    fn set_often(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        self.set(section, path, &value.to_string())
    }

    fn forget(&mut self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn put_back(&mut self, _: &[String]) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}
