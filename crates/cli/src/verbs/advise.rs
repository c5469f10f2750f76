//! `isotherm advise`: how much memory a program needs, and under which configuration.

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use isotherm_advise::advice::platform::{Line, Platform};
use isotherm_advise::advice::{bursts, document, page, tables, words};
use isotherm_advise::{
    Advice, Effort, Keep, Question, Sampling, TierAdvice, TierQuestion, advise, advise_on_tiers, storage_named,
};
use isotherm_kernel::reclaim::POLICIES;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_linux::Root;
use isotherm_recorder::cache_folder;
use isotherm_report::Table;
use isotherm_scenario::{Scenario, digest_of_file};
use isotherm_sim::machine::MemoryKind;
use isotherm_terminal::BarProgress;
use isotherm_trace::TraceReader;
use isotherm_trace::edit::Selection;
use isotherm_units::{Amount, Bytes, Duration, Ratio};
use isotherm_workload::WorkloadSpec;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::kernel::{self, KernelArg, Kernels};
use crate::live::running_policy;
use crate::ui::Ui;
use crate::verbs::selection::WindowArgs;
use ended::checked;
use machine::Machine;
use purpose::Purpose;
use recording::Output;

mod asked;
mod cold;
mod ended;
mod huge;
mod machine;
mod purpose;
mod recording;
mod several;
mod tiers;
mod verify;

pub(super) use asked::{Advised, advised, swap_device};

/// Find out how much memory a program needs, and under which configuration, with evidence.
///
/// Replays a recording under every page-replacement policy, alone and together with proactive sorting or reclaim, at many memory sizes on a
/// simulated machine. Replays differ in the values that chance decides: limit, timing, processors, devices. Recommends the smallest memory
/// from which on the program surely stays within `--slowdown` of its speed with unlimited memory. With `-- COMMAND` the program is recorded
/// first.
///
/// A record of regions (`isotherm monitor`) or generations cannot be replayed. From such a file come how much memory was cold, how often
/// it was used again, and the least `memory.high` that this supports: docs/use/advise.md#records-of-a-running-program.
///
/// With `--fast` and `--slow` it answers another question: on a machine whose fast memory holds only a part of the program's peak, which
/// policy keeps the right pages there? Every policy over tiers is played, and compared with all memory fast.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A recording (see `isotherm record` and `isotherm convert import`), or a record of regions or generations of a running program.
    #[arg(value_name = "TRACE", required_unless_present_any = ["command", "cgroup"], conflicts_with_all = ["command", "cgroup"])]
    trace: Option<PathBuf>,
    /// More recordings of the same program: that which needs most memory decides.
    #[arg(value_name = "TRACE", requires = "trace", conflicts_with_all = ["fast", "verify", "huge_pages", "config", "report", "rows", "details", "keep", "from", "to"])]
    more: Vec<PathBuf>,
    /// Memory sizes to try: shares of peak memory, or sizes [default: 40%,50%,60%,70%,80%,90%,100%].
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    memory: Option<Vec<Amount>>,
    /// Release whose rules the simulated kernel follows: 6.12, 6.18, 7.2, host or all [default: host]. `host` is the release that
    /// runs here, or else the nearest before it that has rules, or the oldest. With `all` a configuration is recommended only if it holds
    /// under the rules of 6.12 and of 7.2.
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<KernelArg>,
    /// The disk under files.
    /// nvme, ssd, disk, ram, or numbers as in latency=4ms,bandwidth=30MiB/s,queue=1 [default: as `isotherm calibrate` measured it, else as
    /// found for COMMAND and with --here, else nvme].
    #[arg(long, help_heading = MACHINE, value_name = "DEVICE", value_parser = storage_named)]
    storage: Option<DeviceConfig>,
    /// Where anonymous pages go when memory is short.
    /// ram, zram, nvme, ssd, disk, none, or numbers as in latency=4ms,bandwidth=30MiB/s,queue=1 [default: as found for COMMAND and with
    /// --here, else zram].
    #[arg(long, help_heading = MACHINE, value_name = "DEVICE")]
    swap: Option<DeviceConfig>,
    /// Largest readahead of files, 0 to 16MiB [default: as found for COMMAND and with --here, else 128KiB].
    #[arg(long, help_heading = MACHINE, value_name = "SIZE")]
    readahead: Option<Bytes>,
    /// How much slower than with unlimited memory is still fine [default: 5%].
    #[arg(long, value_name = "RATIO")]
    slowdown: Option<Ratio>,
    /// Stall that memory may add to 99 of 100 bursts, the work of a thread from one wait to the next: 2ms [default: the slow-down of
    /// their length]. What one request of a service may take longer.
    #[arg(long, value_name = "TIME", value_parser = latency_named, conflicts_with_all = ["fast", "cgroup"])]
    latency: Option<Duration>,
    /// Records: refaults a second that are still fine [default: 50/s].
    #[arg(long, help_heading = RUNNING, value_name = "RATE")]
    goal: Option<cold::RefaultGoal>,
    /// Records: share of time in which some task may wait for memory [default: 0.1%].
    #[arg(long, help_heading = RUNNING, value_name = "SHARE")]
    pressure: Option<Ratio>,
    /// Size of the fast tier, on a machine with two: a share of peak memory, or a size.
    #[arg(long, help_heading = TIERS, value_name = "SIZE", requires = "slow", conflicts_with_all = ["memory", "slowdown", "rows"])]
    fast: Option<Amount>,
    /// Kind of memory of the slow tier. cxl-near, cxl or cxl-far.
    #[arg(long, help_heading = TIERS, value_name = "KIND", requires = "fast", value_parser = tiers::kind_of)]
    slow: Option<MemoryKind>,
    /// Page-replacement policy that the recommendation is for, classic or mglru [default: of this machine for COMMAND and with --here, else
    /// whichever takes the least memory].
    #[arg(long, help_heading = MACHINE, value_name = "POLICY", value_parser = policy_named)]
    policy: Option<&'static str>,
    /// The recording is of this machine: its policy, swap, disk and processors are taken as they are found, as for COMMAND.
    #[arg(long, help_heading = MACHINE, conflicts_with = "cgroup")]
    here: bool,
    /// Prices and disk of a host, which `isotherm calibrate -o FILE` wrote [default: the calibration of this machine for COMMAND and with --here, else
    /// the table of costs].
    #[arg(long, help_heading = MACHINE, value_name = "FILE", conflicts_with_all = ["fast", "cgroup"])]
    host: Option<PathBuf>,
    /// Processors of the simulated machine [default: as found for COMMAND and with --here, else 4].
    #[arg(long, help_heading = MACHINE, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,
    /// Try right-sizing of the program's group (`[[limits]]` of scenarios and of `isotherm daemon run`) with the policies too.
    #[arg(long, help_heading = QUESTIONS, conflicts_with = "fast")]
    limits: bool,
    /// Play the baselines too, for comparison: `opt`, which knows the future and has the fewest faults that any policy could have, `lru`,
    /// `fifo` and `clock`. No kernel has them.
    #[arg(long, help_heading = QUESTIONS, conflicts_with_all = ["fast", "huge_pages"])]
    baselines: bool,
    /// How many replays the answer is worth: quick, normal or thorough.
    /// quick: the interval of the recommendation is the range of 5 replays. normal: of 10 and more, spent where they decide. thorough:
    /// two replays of everything at every size too.
    #[arg(long, help_heading = RARE, value_name = "EFFORT", default_value = "normal", conflicts_with = "fast")]
    effort: Effort,
    /// Part of the recording that is played: auto, off, scout:1/N, or 1/N. 1/N plays a sample of its memory in place of the whole. auto:
    /// the whole recording; if it is long and has much memory, a sample first finds out which sizes are worth playing. off: only the whole
    /// recording. scout:1/16: the whole, after this sample.
    #[arg(long, help_heading = RARE, value_name = "SAMPLE", default_value = "auto", conflicts_with = "fast")]
    sample: Sampling,
    /// Neither use nor keep replays of earlier questions (`~/.cache/isotherm/replays`, at most 256 MiB; ISOTHERM_NO_CACHE=1 too).
    #[arg(long, help_heading = RARE)]
    no_cache: bool,
    /// Check the recommendation. COMMAND runs on this machine, alone and under the recommended limit, as `isotherm verify` does. Of TRACE
    /// the recommendation, 3 % less and 3 % more memory are played on a real kernel (needs `isotherm-lab`, and what that needs).
    #[arg(long, help_heading = QUESTIONS, conflicts_with = "fast")]
    verify: bool,
    /// Only this question: what of its memory could be huge pages, what that holds beside, and how long the program would wait for
    /// them on fragmented memory.
    #[arg(long, help_heading = QUESTIONS, conflicts_with_all = ["fast", "verify", "limits", "memory", "slowdown", "latency", "details", "rows", "report", "config", "cgroup"])]
    huge_pages: bool,
    /// Play and print more than the answer with its evidence: the smallest sizes of combinations, other devices, huge pages, assumptions.
    /// `--rows` and `--report` play the same.
    #[arg(long)]
    details: bool,
    /// Print every configuration at every size played too, with all details.
    #[arg(long, help_heading = RARE)]
    rows: bool,
    /// Write a report as one HTML file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the recommended configuration as a scenario file that `isotherm simulate` takes.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Threads to simulate with [default: one per processor].
    #[arg(long, help_heading = RARE, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Answer for a recording whose program failed or was ended, or that is too short, too.
    #[arg(long, help_heading = RARE)]
    anyway: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Run COMMAND once unchanged before it is recorded, for its CPU time and memory (see `isotherm record --help`). Default, unless its
    /// input is a file or a pipe, which can be read only once.
    #[arg(long, help_heading = RARE, requires = "command")]
    native_first: bool,
    /// Run COMMAND once only, recorded: for one that must not run twice. How long it takes by itself is estimated then.
    #[arg(long, requires = "command", conflicts_with_all = ["native_first", "verify"])]
    once: bool,
    /// Watch this control group (version 2) first, by the generations of the Multi-Gen LRU and its counters, and advise a memory.high: its
    /// path, or the name of a unit of systemd, or the number of a container.
    #[arg(long, visible_aliases = ["unit", "container"], help_heading = RUNNING, value_name = "GROUP", conflicts_with = "command")]
    cgroup: Option<String>,
    /// With --cgroup: time between two samples [default: a sixtieth of --for, 2s to 60s].
    #[arg(long, help_heading = RUNNING, value_name = "TIME", requires = "cgroup")]
    interval: Option<Duration>,
    /// Keep the recording of COMMAND, or the record of --cgroup, in this file [default: a recording stays in
    /// `~/.cache/isotherm/recordings` until the next one of its name].
    #[arg(long, help_heading = RUNNING, value_name = "FILE", conflicts_with = "trace")]
    keep: Option<PathBuf>,
    /// Record this program first.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    purpose: Purpose,
    #[command(flatten, next_help_heading = RARE)]
    window: WindowArgs,
}

// Headings of the help. What most questions need comes first, without one.
const MACHINE: &str = "The simulated machine";
const QUESTIONS: &str = "Other questions";
const TIERS: &str = "Fast and slow memory";
const RUNNING: &str = "A program that runs, and records of one";
const RARE: &str = "Rarely needed";

const AFTER_HELP: &str = "\
Examples:
  isotherm advise traces/sqlite.parquet
  isotherm advise traces/sqlite.parquet --swap nvme --slowdown 10% --report sqlite.html
  isotherm advise traces/sqlite.parquet --kernel all --verify
  isotherm advise traces/redis.parquet --latency 2ms
  isotherm advise monday.parquet tuesday.parquet
  isotherm advise traces/sqlite.parquet --storage latency=4ms,bandwidth=30MiB/s,queue=1
  isotherm advise traces/sqlite.parquet --memory 50%,75%,200MiB --format json
  isotherm advise traces/sqlite.parquet --details
  isotherm advise traces/redis.parquet --for docker:cache
  isotherm advise traces/redis.parquet --limits
  isotherm advise traces/redis.parquet --huge-pages
  isotherm advise traces/sqlite.parquet --fast 50% --slow cxl
  isotherm advise regions.parquet --goal 50/s --swap zram
  isotherm advise --cgroup /system.slice/nginx.service --for 10m
  isotherm advise --unit nginx --for 10m
  isotherm advise -- python3 -c \"print(sum(range(10**7)))\"";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if let Some(path) = args.cgroup.clone() {
        return cold::run_live(&path, &args, ui);
    }
    args.purpose.budget().refuse_length()?;
    if let Some(record) = args.trace.as_deref().map(cold::find).transpose()?.flatten() {
        return cold::run(record, &args, ui);
    }
    if args.goal.is_some() || args.pressure.is_some() {
        return Err(CliError::usage("--goal and --pressure are for records; with page traces say --slowdown"));
    }
    if let Some(first) = args.trace.iter().next().filter(|_| !args.more.is_empty()) {
        let paths: Vec<PathBuf> = std::iter::once(first).chain(&args.more).cloned().collect();
        return several::run(&paths, &args, ui);
    }
    let natively = args.verify && !args.command.is_empty();
    let groups = natively.then(super::verify::ready).transpose()?;
    let recorded = match &args.trace {
        Some(_) => None,
        // What is to run here many times may run once more, for the clock of this machine.
        None => {
            let output = if args.format.format == Format::Table { Output::Shown } else { Output::Dropped };
            Some(recording::make(&args, natively, output, ui)?)
        }
    };
    let trace = args.trace.clone().or_else(|| recorded.as_ref().map(|recorded| recorded.path().to_path_buf()));
    let trace = trace.expect("clap asks for a trace or a command");
    let name = match &args.trace {
        Some(path) => name_of(path),
        None => program_name(&args.command[0]),
    };
    let trace = checked(&trace, &args, ui)?;
    // Must live until the replay ends.
    let cut = window_of(&trace, &args, ui)?;
    let trace = cut.as_ref().map_or(trace, |cut| cut.path().to_path_buf());
    let machine = Machine::of(&args);
    let kernels = kernel::asked_or_host(args.kernel)?;
    if let (Some(fast), Some(slow)) = (args.fast, args.slow) {
        let &[kernel] = &kernels.releases[..] else {
            return Err(CliError::usage(
                "--fast and --slow ask of one release of the kernel: give --kernel 6.12 or 7.2",
            ));
        };
        let (Machine { storage, swap, readahead, cpus, .. }, threads) = (machine, args.threads.map(usize::from));
        let question = TierQuestion { name, trace, fast, slow, kernel, storage, swap, readahead, cpus, threads };
        return on_tiers(&question, &args, &kernels, ui);
    }
    let machine = machine.calibrated(&args, ui)?;
    // Missing requirements are reported before any replay.
    let in_kernels = args.verify && args.command.is_empty();
    let lab = in_kernels.then(|| verify::ready(&kernels.releases, ui)).transpose()?;
    let usual = Question::usual(name, trace, kernels.releases.clone());
    let question = question_of(usual, &args, &machine);
    if args.huge_pages {
        huge::run(&question, args.format.format, ui)?;
        return Ok(ExitCode::SUCCESS);
    }
    let answers = answers_to(&question, &args, ui)?;
    let Some(first) = answers.first() else { return Err(CliError::failed("no release of the kernel was asked for")) };
    let platform = platform_of(&args);
    let verified = lab.map(|lab| verify::verify(&lab, &answers, &question.trace, ui)).transpose()?;
    let measured = match groups.filter(|_| first.recommendation.is_some()) {
        Some(groups) => Some(super::verify::of_advice(&groups, &args.command, &json(&answers, None)?, ui)?),
        None => None,
    };
    match args.format.format {
        Format::Table => {
            ui.say(format_args!("{}", kernels.why));
            if let Some(policy) = question.policy {
                let whose = if args.policy.is_some() { "as asked for" } else { "which this machine runs" };
                ui.say(format_args!("recommends for the policy {policy}, {whose}"));
            }
            machine.found.iter().for_each(|found| ui.say(found));
            machine.unlike.iter().for_each(|unlike| ui.warn(unlike));
            for (index, advice) in answers.iter().enumerate() {
                let with = With {
                    details: args.details || args.rows,
                    rows: args.rows,
                    config: args.config.as_deref(),
                    platform: &platform,
                };
                print_for_people(advice, with, index + 1 == answers.len(), ui)?;
            }
            if let Some(verified) = &verified {
                ui.print_styled(
                    &super::render(&verify::table(verified), Format::Table, ui).after_line().before_line(),
                )?;
            }
            if let Some(measured) = &measured {
                ui.print("\n")?;
                super::verify::print_for_people(&first.program, measured, ui)?;
            }
        }
        Format::Json => {
            ui.print(format_args!("{}\n", json(&answers, to_json(verified.as_ref(), measured.as_ref())?)?))?
        }
        Format::Csv => ui.print_data(tables::rows(&answers).to_csv())?,
    }
    if let Some(path) = &args.report {
        let (config, date) = (args.config.as_deref(), today());
        let occasion = page::Occasion { config, platform: &platform, date: &date };
        let page = page::html(&answers, &question, occasion)?;
        write(path, &page)?;
        ui.say(format_args!("report: {}", path.display()));
    }
    if let Some(path) = &args.config {
        match &first.config {
            Some(scenario) => {
                write(path, &isotherm_scenario::print(&beside(scenario, path)))?;
                ui.say(format_args!("config: {0} (try: isotherm simulate {0})", path.display()));
            }
            None if first.recommendation.is_some() => {
                ui.warn(
                    "no configuration is written, because this file is a sample: ask about the whole with --sample",
                );
            }
            None if first.withheld.is_some() => {
                ui.warn("no configuration is written, because the recording says too little")
            }
            None => ui.warn("no configuration is written, because no configuration that was tried is safe"),
        }
    }
    if answers.iter().any(|advice| advice.is_partial) {
        let way_out = if question.keep.is_some() { "; ask again to go on, as replays are kept" } else { "" };
        return Err(CliError::partial(format!("interrupted: this is what was known by then{way_out}")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays, with progress.
fn answers_to(question: &Question, args: &Args, ui: &Ui) -> Result<Vec<Advice>, CliError> {
    let bar = BarProgress::interruptible(ui, "replaying");
    let answers = advise(question, &bar);
    bar.finish();
    let mut answers = answers?;
    if !args.anyway {
        answers.iter_mut().for_each(|advice| advice.withhold_if_unknowable(question));
    }
    Ok(answers)
}

/// Whether the question is about this machine.
fn is_here(args: &Args) -> bool {
    !args.command.is_empty() || args.here
}

/// What keeps the program.
fn platform_of(args: &Args) -> Platform {
    let is_systemd = is_here(args) && Path::new("/run/systemd/system").exists();
    let usual = if is_systemd { Platform::SYSTEMD } else { Platform::CGROUP };
    args.purpose.platform().cloned().unwrap_or(usual)
}

/// A recording as it is called in answers.
fn name_of(trace: &Path) -> String {
    trace.file_stem().map_or_else(|| "program".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The question that the flags ask.
fn question_of(usual: Question, args: &Args, machine: &Machine) -> Question {
    Question {
        memory: args.memory.clone().unwrap_or_else(|| usual.memory.clone()),
        every_size: args.memory.is_some(),
        storage: machine.storage,
        swap: machine.swap,
        readahead: machine.readahead,
        prices: machine.prices.clone(),
        slowdown: args.slowdown.unwrap_or(usual.slowdown),
        latency: args.latency,
        policy: args.policy.or_else(|| is_here(args).then(|| running_policy(&Root::default()))),
        cpus: machine.cpus,
        limits: args.limits,
        baselines: args.baselines,
        details: args.details || args.rows || args.report.is_some(),
        effort: args.effort,
        sampling: args.sample,
        keep: if args.no_cache { None } else { keep() },
        threads: args.threads.map(usize::from),
        ..usual
    }
}

/// The day, in UTC: of SOURCE_DATE_EPOCH (seconds), which makes pages of the same inputs equal, else of the clock.
fn today() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let fixed = fixed.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
    fixed.unwrap_or_else(chrono::Utc::now).format("%Y-%m-%d").to_string()
}

fn latency_named(text: &str) -> Result<Duration, String> {
    let latency = text.parse::<Duration>().map_err(|refused| refused.to_string())?;
    if latency == Duration::ZERO { Err("allowed: more than 0s, such as 2ms".to_owned()) } else { Ok(latency) }
}

fn policy_named(name: &str) -> Result<&'static str, String> {
    let known = POLICIES.iter().filter(|entry| entry.runs_on_linux).map(|entry| entry.name);
    known
        .clone()
        .find(|known| *known == name)
        .ok_or_else(|| format!("allowed: {}", known.collect::<Vec<_>>().join(", ")))
}

/// The window of a recording that was asked for, as a file of its own; `None` for the whole.
fn window_of(trace: &Path, args: &Args, ui: &Ui) -> Result<Option<tempfile::NamedTempFile>, CliError> {
    let WindowArgs { from, to } = args.window;
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    if args.config.is_some() || args.verify {
        return Err(CliError::usage(
            "--from and --to play a window that is not kept, and --config and --verify need its file: write it with \
             `isotherm convert cut`, and ask about that",
        ));
    }
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().map_err(CliError::failed)?;
    let selection = Selection { from, to, ..Selection::default() };
    super::convert::write_trace(TraceReader::open(trace)?, &selection, file.path(), ui)?;
    Ok(Some(file))
}

/// Where replays are kept for the next question, if there is such a place: by the bytes of this program, as another build may play
/// otherwise.
fn keep() -> Option<Keep> {
    if std::env::var_os("ISOTHERM_NO_CACHE").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let build = digest_of_file(&std::env::current_exe().ok()?).ok()?;
    Some(Keep { folder: cache_folder()?.join("replays"), build })
}

/// What `--verify` found out, in real kernels or on this machine.
fn to_json(
    verified: Option<&Vec<verify::Verified>>,
    measured: Option<&super::verify::Verified>,
) -> Result<Option<serde_json::Value>, CliError> {
    let verified = verified.map(serde_json::to_value).or(measured.map(serde_json::to_value));
    verified.transpose().map_err(CliError::failed)
}

/// The answers as JSON, with what `--verify` found out.
fn json(answers: &[Advice], verified: Option<serde_json::Value>) -> Result<String, CliError> {
    let mut value = document(answers).map_err(CliError::failed)?;
    if let (Some(verified), Some(object)) = (verified, value.as_object_mut()) {
        object.insert("verified".to_owned(), verified);
    }
    serde_json::to_string_pretty(&value).map_err(CliError::failed)
}

/// Answers the question about two tiers.
fn on_tiers(question: &TierQuestion, args: &Args, kernels: &Kernels, ui: &Ui) -> Result<ExitCode, CliError> {
    let bar = BarProgress::new(ui, "replaying");
    let advice = advise_on_tiers(question, &bar);
    bar.finish();
    let advice = advice?;
    match args.format.format {
        Format::Table => {
            ui.say(format_args!("{}", kernels.why));
            print_tiers(&advice, ui)?;
        }
        Format::Json => {
            let json = serde_json::to_string_pretty(&advice).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))?;
        }
        Format::Csv => ui.print_data(tiers::all_columns(&advice).to_csv())?,
    }
    if let Some(path) = &args.report {
        write(path, &tiers::html(&advice, question)?)?;
        ui.say(format_args!("report: {}", path.display()));
    }
    if let Some(path) = &args.config {
        match &advice.config {
            Some(scenario) => {
                write(path, &isotherm_scenario::print(&beside(scenario, path)))?;
                ui.say(format_args!("config: {0} (try: isotherm simulate {0})", path.display()));
            }
            None => ui.warn("no configuration is written, because the program finished under no policy that Linux has"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_tiers(advice: &TierAdvice, ui: &Ui) -> Result<(), CliError> {
    let paragraph = |text: &str| ui.print(format_args!("{}\n", words::folded(text, "", ui.columns())));
    paragraph(&tiers::heading(advice))?;
    ui.print_styled(&super::render(&tiers::table(advice), Format::Table, ui).after_line().before_line())?;
    paragraph(&tiers::verdict(advice))?;
    for sentence in tiers::further(advice) {
        paragraph(&sentence)?;
    }
    ui.print(format_args!("\nWhat this does not know:\n"))?;
    for line in &advice.unknowns {
        ui.print(format_args!("{}\n", words::folded(line, "  - ", ui.columns())))?;
    }
    Ok(())
}

/// A scenario for a file: traces of its workloads by paths from the file's folder, so that both can be moved together.
fn beside(scenario: &Scenario, file: &Path) -> Scenario {
    let mut scenario = scenario.clone();
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    for workload in &mut scenario.workloads {
        if let (WorkloadSpec::Trace(trace), Some(folder)) = (&mut workload.load, file.parent()) {
            trace.path = from(folder, &trace.path);
        }
    }
    scenario
}

/// The path of a file from a folder on, both full paths; unchanged if they have only the root in common.
fn from(folder: &Path, file: &Path) -> PathBuf {
    let shared = folder.components().zip(file.components()).take_while(|(one, other)| one == other).count();
    if shared < 2 {
        return file.to_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

fn program_name(command: &str) -> String {
    let name = Path::new(command).file_name();
    name.map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    isotherm_trace::write_in_one_step(path, text.as_bytes())
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

/// How much is printed for people, and where the configuration is written.
#[derive(Clone, Copy)]
struct With<'a> {
    details: bool,
    rows: bool,
    config: Option<&'a Path>,
    platform: &'a Platform,
}

/// Lines to type, each with its effect behind it or above it.
fn print_lines(lines: &[Line], ui: &Ui) -> Result<(), CliError> {
    if lines.is_empty() {
        return Ok(());
    }
    ui.print("\nWhat to do now, as root:\n")?;
    let widest = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    let next_to = |line: &str, what: &str| format!("  {line:widest$}  # {what}");
    let is_wide = lines.iter().any(|(line, what)| next_to(line, what).chars().count() > ui.columns());
    for (line, what) in lines {
        let both = if is_wide { format!("  # {what}\n  {line}") } else { next_to(line, what) };
        ui.print(format_args!("{both}\n"))?;
    }
    Ok(())
}

/// One release's answer. Facts that do not depend on the release are printed with the `last` answer.
fn print_for_people(advice: &Advice, with: With<'_>, last: bool, ui: &Ui) -> Result<(), CliError> {
    let runtime = isotherm_units::Duration::from_ns(advice.unlimited_runtime_ns).approx();
    ui.print(format_args!(
        "{}: peak memory {}{}, mean {}, {} with unlimited memory\n{}\n\n",
        advice.program,
        Bytes::new(advice.peak_bytes).approx(),
        words::beside_the_peak(advice),
        Bytes::new(advice.unlimited_mean_bytes).approx(),
        runtime,
        words::machine(advice),
    ))?;
    let print = |table: &Table| ui.print_styled(&super::render(table, Format::Table, ui).before_line());
    let paragraph = |text: &str| ui.print(format_args!("{}\n", words::folded(text, "", ui.columns())));
    let list = |heading: &str, lines: &[String]| {
        if !lines.is_empty() {
            ui.print(format_args!("\n{heading}\n"))?;
        }
        lines.iter().try_for_each(|line| ui.print(format_args!("{}\n", words::folded(line, "  - ", ui.columns()))))
    };
    words::unlike_the_measured(advice).iter().try_for_each(|sentence| paragraph(&format!("{sentence}\n")))?;
    if let Some(sentence) = words::in_a_sentence(advice).filter(|_| !with.details) {
        return paragraph(&sentence);
    }
    paragraph(&words::verdict(advice))?;
    let of_bursts = bursts::bursts(advice).into_iter().chain(bursts::slowest(advice));
    of_bursts.chain(words::sample(advice)).try_for_each(|sentence| paragraph(&sentence))?;
    let (firmness, gains) = (words::firmness(advice), words::gains(advice));
    for (nth, sentence) in gains.iter().chain(&firmness).enumerate() {
        // Confidence, and the effect of a little less or more memory; the price of safety is a detail.
        if with.details || nth < gains.len() + 2 {
            paragraph(sentence)?;
        }
    }
    let now = if last { words::now(advice, with.config, with.platform) } else { Vec::new() };
    print_lines(&now, ui)?;
    if !with.details {
        ui.print(format_args!("\n"))?;
        print(&tables::evidence(advice))?;
        if !last {
            return Ok(());
        }
        return paragraph(
            "--details plays and shows more: all configurations, notes, other devices, huge pages, and what this does not know; --rows \
             every size; --baselines the fewest faults that any policy could have.",
        );
    }
    for sentence in words::other_devices(advice) {
        paragraph(&sentence)?;
    }
    ui.print("\n")?;
    if with.rows {
        let narrow = [
            "configuration",
            "memory",
            "n",
            "runtime",
            "slower by",
            "at most",
            "major faults",
            "faults at most",
            "note",
        ];
        print(&tables::rows(std::slice::from_ref(advice)).only(&narrow))?;
    }
    print(&tables::side_by_side(advice))?;
    print(&tables::schemes(advice))?;
    list("To note:", &words::notes(advice))?;
    list("With the kernel's own parameters:", &words::kernel_defaults(advice))?;
    if !last {
        return ui.print("\n");
    }
    ui.print("\n")?;
    if let Some(huge) = &advice.huge_pages {
        print(&tables::huge_pages(huge))?;
        let latencies = tables::narrow_latencies(huge);
        if !latencies.rows.is_empty() {
            print(&latencies)?;
        }
        paragraph(&words::huge_pages(huge))?;
        let latencies = words::latencies(huge);
        if !latencies.is_empty() {
            paragraph(&latencies)?;
        }
        list("What latencies of huge pages assume:", &words::latency_assumptions(huge))?;
    }
    list("Configurations with schemes:", &words::configurations(advice))?;
    list("What this does not know:", &advice.unknowns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_folder_to_the_file() {
        for (folder, file, path) in [
            ("/home/me/work", "/home/me/work/a.parquet", "a.parquet"),
            ("/home/me/work/out", "/home/me/work/traces/a.parquet", "../traces/a.parquet"),
            ("/home/me", "/srv/a.parquet", "/srv/a.parquet"),
        ] {
            assert_eq!(from(Path::new(folder), Path::new(file)), Path::new(path));
        }
    }
}
