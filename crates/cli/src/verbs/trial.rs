//! `isotherm daemon trial`: tests whether one configuration is better than another on this machine.

mod metrics;
mod outcome;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_daemon::config::{Config, GuardConfig};
use isotherm_daemon::control_loop::System as _;
use isotherm_daemon::trial::{
    Arm, Block, BlockSide, Design, Extent, Field, Measured, Metric, Progress, TrialEnd, run_block, trial,
};
use isotherm_linux::{LiveHost, Root, Stopwatch, Workers};
use isotherm_units::{Duration, Ratio};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::{
    AUDIT, Audit, DaemonClock, InForce, Lock, Machine, Manager, RUN, StatusFile, configuration_alone, take_back,
};
use crate::live::{HandsArgs, MachineKnobs, OwnCpu, Use, hands, private_file};
use crate::ui::{ColourChoice, Ui};
use crate::verbs::compact::COMPACTOR;
use metrics::{Metrics, UserMetric};
use outcome::{Outcome, ending, predicted, prediction, sentence, table};

/// The longest trial, unless --for or --pairs is given.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Find out which of two configurations is better on this machine, under its own load.
///
/// Runs A and B in turn, in pairs of blocks whose order is random, and compares counters of groups and numbers in files that you write. One
/// metric decides: the first --metric, or `memory`. Six pairs show the noise; then it reports how long the trial takes at most. It ends
/// before when it is decided, or when the guard trips. After each block all knobs hold their old values again. NONE in place of a file:
/// nothing is configured. Exit code 4: it was stopped, or it hurt.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon trial none new.toml --cgroup /app.slice/web.service --dry-run
  sudo isotherm daemon trial none new.toml --metric latency=/run/web/p99:lower --yes
  sudo isotherm daemon trial old.toml new.toml --metric done=/run/web/requests:higher:rate --for 4h --format json -o trial.json --yes")]
pub(crate) struct Args {
    /// Live configuration A, the base of the comparison; `none`: nothing is configured.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Live configuration B.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Length of a block, the warm-up included.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    block: Duration,
    /// Samples in this time at the start of a block do not count.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    warm_up: Duration,
    /// End after this number of pairs of blocks.
    #[arg(long, value_name = "N", conflicts_with = "length")]
    pairs: Option<u32>,
    /// Last no longer than this [default: 24h].
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// A file that holds a number: its mean is compared, or how fast it grows with :rate. Lower is better, unless it says :higher.
    #[arg(long = "metric", value_name = "NAME=FILE[:higher|lower][:rate]")]
    metrics: Vec<UserMetric>,
    /// The metric that decides, by name [default: the first --metric, or memory].
    #[arg(long, value_name = "NAME")]
    decide: Option<String>,
    /// Group whose counters are compared [default: those of the `targets` tables].
    #[arg(long = "cgroup", value_name = "PATH")]
    groups: Vec<String>,
    /// The difference that matters, as a share of the mean under A.
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    difference: Ratio,
    /// Standard deviation of the differences of pairs, as a share, if it is known: no pilot is needed.
    #[arg(long, value_name = "SHARE")]
    expect_noise: Option<Ratio>,
    /// Decides the order within pairs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output of `isotherm advise --format json`: shown next to the result.
    #[arg(long, value_name = "FILE")]
    advice: Option<PathBuf>,
    /// Write the result to this file, as JSON.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run it. Without it, the plan is shown and nothing is done.
    #[arg(long)]
    yes: bool,
    /// Show the plan and do nothing, also with --yes.
    #[arg(long)]
    dry_run: bool,
    /// Folder of the lock and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
    /// A line of JSON for each thing that was done.
    #[arg(long, value_name = "FILE", default_value = AUDIT)]
    audit: PathBuf,
    #[command(flatten)]
    hands: HandsArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let configs = [configured(&args.a)?, configured(&args.b)?];
    let design = designed(&args)?;
    let prediction = args.advice.as_deref().map(prediction).transpose()?;
    let root = args.hands.root().with_workers(Workers::default());
    let metrics = Metrics::open(&root, args.metrics.clone(), &patterns(&args.groups, &configs))?;
    let all = metrics.all();
    let deciding = deciding(args.decide.as_deref(), &all)?;
    let limits = limits(&configs);
    plan(&args, &configs, &design, &metrics, &all[deciding], ui);
    if args.dry_run || !args.yes {
        if !args.dry_run {
            ui.say(format_args!("nothing was done; --yes runs it"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (clock, _) =
        Stopwatch::start_reloadable().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let _lock = Lock::take(&args.run_dir)?;
    let machine = || Machine {
        root: root.clone(),
        clock: &clock,
        file: args.b.clone(),
        dry_run: false,
        in_force: InForce::default(),
        families: BTreeMap::new(),
    };
    if limits.pressure_full < Ratio::ONE && machine().full_stall().is_none() {
        return Err(CliError::host_cannot(
            "this kernel does not tell memory pressure (PSI), so that nobody would see harm: boot with psi=1, or switch the guard off by \
             [guard] pressure-full = \"100%\" in both configurations",
        ));
    }
    let output = args.output.as_deref().map(|path| open(path).map(|file| (path, file))).transpose()?;
    let status = StatusFile { folder: args.run_dir.clone(), configuration: args.b.clone(), dry_run: false };
    let mut hands =
        hands(&root, &args.hands.journal, Use::Write)?.ok_or_else(|| CliError::failed("there is no journal"))?;
    take_back(&mut hands, ui)?;
    let quiet = Ui::new(true, ColourChoice::Never);
    let audit = Audit::open(&args.audit, status.clone(), &quiet)?;
    let mut field = Live {
        configs: &configs,
        limits: &limits,
        names: &all,
        deciding: &all[deciding],
        design: &design,
        root: root.clone(),
        program: std::env::current_exe().ok(),
        worlds: [machine(), machine()],
        hands,
        clock: DaemonClock { clock: &clock, manager: Manager::default(), is_reloading: false, desk: None },
        audit,
        metrics,
        announced: None,
        ui,
    };
    let trialled = trial(&design, &all, deciding, &mut field);
    status.remove();
    let trialled = trialled.map_err(CliError::usage)?;
    let document = Outcome {
        a: args.a.display().to_string(),
        b: args.b.display().to_string(),
        design,
        trial: &trialled,
        prediction: prediction.as_ref(),
    };
    let json = serde_json::to_string_pretty(&document).map_err(CliError::failed)?;
    if let Some((path, mut file)) = output {
        let written = std::io::Write::write_all(&mut file, format!("{json}\n").as_bytes());
        written.map_err(|error| CliError::failed(error).while_doing(format!("cannot write {}", path.display())))?;
    }
    match args.format.format {
        Format::Json => ui.print_data(format_args!("{json}\n"))?,
        Format::Csv => ui.print_data(table(&trialled, prediction.as_ref()).to_csv())?,
        Format::Table => {
            ui.print(format_args!("{}; {}\n", sentence(&design, &trialled), ending(&trialled)))?;
            let rows = super::render(&table(&trialled, prediction.as_ref()), Format::Table, ui);
            ui.print_styled(&rows.after_line())?;
            if let Some(prediction) = &prediction {
                ui.print(format_args!("\n{}\n", predicted(prediction)))?;
            }
        }
    }
    match &trialled.end {
        TrialEnd::Decided | TrialEnd::AllPairs => Ok(ExitCode::SUCCESS),
        TrialEnd::Stopped | TrialEnd::Hurt => Ok(ExitCode::from(4)),
        TrialEnd::Failed { why } => Err(CliError::failed(why.clone())),
    }
}

fn configured(path: &Path) -> Result<Config, CliError> {
    if path == Path::new("none") { Ok(Config::default()) } else { configuration_alone(path) }
}

fn designed(args: &Args) -> Result<Design, CliError> {
    let share = |ratio: Ratio| ratio.ppm() as f64 / 1e6;
    let in_time = |length: Duration| u32::try_from(length.ns() / (2 * args.block.ns()).max(1)).unwrap_or(u32::MAX);
    let extent = match (args.pairs, args.length) {
        (Some(pairs), _) => Extent::Pairs(pairs),
        (None, length) => Extent::ByNoise(in_time(length.unwrap_or(LONGEST))),
    };
    let design = Design {
        seed: args.seed,
        block: args.block,
        warm_up: args.warm_up,
        extent,
        difference: share(args.difference),
        expected_noise: args.expect_noise.map(share),
    };
    design.check().map_err(CliError::usage)?;
    // Sampled each second; a rate needs two samples.
    let left = args.block.saturating_sub(args.warm_up);
    if left < Duration::from_secs(3) {
        return Err(CliError::usage(format!(
            "--block {} leaves {left} after a warm-up of {}; allowed: 3s and more, as each second is sampled",
            args.block, args.warm_up
        )));
    }
    Ok(design)
}

/// Groups whose counters are compared.
fn patterns(groups: &[String], configs: &[Config; 2]) -> Vec<String> {
    if !groups.is_empty() {
        return groups.to_vec();
    }
    let mut patterns: Vec<String> =
        configs.iter().flat_map(|config| &config.targets).filter_map(|target| target.cgroup.clone()).collect();
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

fn deciding(name: Option<&str>, metrics: &[Metric]) -> Result<usize, CliError> {
    let Some(name) = name else { return Ok(0) };
    metrics.iter().position(|metric| metric.name == name).ok_or_else(|| {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        CliError::usage(format!("--decide {name}: there is no such metric; allowed: {}", names.join(", ")))
    })
}

/// The guard of a trial is the stricter of both.
fn limits(configs: &[Config; 2]) -> GuardConfig {
    let [a, b] = configs;
    if a.guard.pressure_full < b.guard.pressure_full { a.guard.clone() } else { b.guard.clone() }
}

fn plan(args: &Args, configs: &[Config; 2], design: &Design, metrics: &Metrics, deciding: &Metric, ui: &Ui) {
    for (arm, (path, config)) in [Arm::A, Arm::B].iter().zip([&args.a, &args.b].into_iter().zip(configs)) {
        let sections = (config.nr_sections(), config.nr_acting());
        ui.say(format_args!("{arm}: {}: {} sections, {} of which may act", path.display(), sections.0, sections.1));
        for (name, is_acting) in config.sections() {
            ui.say(format_args!("   {name}: {}", if is_acting { "acts" } else { "observes" }));
        }
    }
    if configs[0] == configs[1] {
        ui.warn(format_args!(
            "A and B are the same: this trial shows the noise, and finds no difference in 19 of 20 cases"
        ));
    } else if !configs.iter().any(Config::is_acting) {
        ui.warn(format_args!(
            "no section of A or B has enable = true: both only observe, and no difference is to be expected"
        ));
    }
    if args.metrics.is_empty() {
        ui.warn(format_args!(
            "there is no --metric: {} decides, which does not tell how the program fares",
            deciding.name
        ));
    }
    let groups: Vec<&str> = metrics.groups().collect();
    if !groups.is_empty() {
        ui.say(format_args!("counters of: {}", groups.join(", ")));
    }
    let (Extent::Pairs(pairs) | Extent::ByNoise(pairs)) = design.extent;
    ui.say(format_args!(
        "pairs of blocks of {}, the first {} of each left out; at most {pairs} pairs, {}; {} decides",
        design.block,
        design.warm_up,
        design.length(pairs).approx(),
        deciding.name
    ));
}

fn open(path: &Path) -> Result<std::fs::File, CliError> {
    // It names groups and their activity, so only the owner may read it.
    let mut options = std::fs::OpenOptions::new();
    let opened = private_file::open(options.write(true).create(true).truncate(false), path);
    let emptied = opened.and_then(|file| file.set_len(0).map(|()| file));
    emptied.map_err(|error| CliError::failed(error).while_doing(format!("cannot write {}", path.display())))
}

/// This machine.
struct Live<'a> {
    configs: &'a [Config; 2],
    limits: &'a GuardConfig,
    names: &'a [Metric],
    deciding: &'a Metric,
    design: &'a Design,
    root: Root,
    /// This program, which compacts as a process of its own.
    program: Option<PathBuf>,
    worlds: [Machine<'a>; 2],
    hands: MachineKnobs,
    clock: DaemonClock<'a>,
    audit: Audit<'a>,
    metrics: Metrics,
    announced: Option<u32>,
    ui: &'a Ui,
}

impl Field for Live<'_> {
    fn block(&mut self, block: Block) -> Measured {
        let config = &self.configs[usize::from(block.arm == Arm::B)];
        let [world, guard_world] = &mut self.worlds;
        let side = BlockSide {
            world,
            guard_world,
            knobs: &mut self.hands,
            clock: &mut self.clock,
            meter: &mut OwnCpu,
            log: &mut self.audit,
            sampler: &mut self.metrics,
        };
        // The state of a host belongs to one configuration.
        let mut host = LiveHost::new(self.root.clone());
        if let Some(program) = &self.program {
            host.use_compactor(program, COMPACTOR);
        }
        run_block(block, config, self.limits, self.names, &mut host, side)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let pairs = progress.pairs;
        if let Some(share) = progress.difference {
            let name = &self.deciding.name;
            self.ui.say(format_args!("pair {pairs}: {name} under B is {:+.1} % so far", share * 100.0));
        } else {
            self.ui.say(format_args!("pair {pairs}"));
        }
        if let Some(forecast) = progress.forecast
            && self.announced.replace(forecast.pairs) != Some(forecast.pairs)
        {
            self.ui.say(format_args!(
                "a difference of {:.1} % needs {} pairs to be found in four trials of five; this one ends after {} at the latest, {} in \
                 all, which shows {:.1} %",
                self.design.difference * 100.0,
                forecast.pairs_needed,
                forecast.pairs,
                self.design.length(forecast.pairs).approx(),
                forecast.visible * 100.0
            ));
        }
    }
}
