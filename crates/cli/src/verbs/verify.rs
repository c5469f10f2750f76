//! `isotherm verify`: runs a command alone and under memory limits on this machine, and compares.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration as WallDuration;

use isotherm_advise::advice::words::folded;
use isotherm_linux::cgroup::{Ceiling, OwnGroups};
use isotherm_linux::{Root, Stopwatch};
use isotherm_recorder::find_program;
use isotherm_units::{Amount, Bytes, Duration, Ratio};
use isotherm_verify::{
    Asked, Design, End, Files, Judged, Order, Run, Size, Start, Starts, Stated, Verdict, VerifyError, disturbs, judge,
    run as run_once, sentence, stated, table, usual_pairs,
};
use serde::Serialize;

use super::advise::{Advised, advised};
use super::apply;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::to_cli;
use crate::ui::Ui;

/// Find out on this machine whether a command holds under a memory limit.
///
/// Runs COMMAND alone and under limits, in turns and in a memory cgroup of its own (version 1 or 2), and compares time, major faults and
/// kills. The limit is that which `isotherm advise` recommends for COMMAND, which is recorded first, or that of --advice or --memory. A
/// tenth less and a tenth more are tried too. Half of the turns start cold: the files that the command maps or keeps open leave the page
/// cache before, as far as no other program maps them. The others start warm, as after a restart.
///
/// COMMAND must end by itself, and do the same work each time. It runs without a terminal: its input is empty and its output is dropped. A
/// service that runs already is compared by `isotherm daemon trial`. Exit code 0: it holds; 1: it does not; 4: undecided, or stopped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm verify -- ./nightly-report
  sudo isotherm verify --memory 200MiB,300MiB -- python3 train.py
  isotherm advise --format json -- ./nightly-report > advice.json
  sudo isotherm verify --advice advice.json --pairs 10 -o verified.json -- ./nightly-report
  systemd-run --user --scope -p Delegate=yes isotherm verify --memory 200MiB -- ./nightly-report")]
pub(crate) struct Args {
    /// Try these limits: sizes, or shares of the peak of the first run. The first one decides [default: that which `isotherm advise`
    /// recommends, and a tenth less and more].
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    memory: Vec<Amount>,
    /// Output of `isotherm advise --format json` for COMMAND: its recommendation is tried, its predictions stand next to what is measured.
    #[arg(long, value_name = "FILE")]
    advice: Option<PathBuf>,
    /// Turns: each has a run without a limit and one at each size [default: what fits into two minutes, 6 to 30].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// How much slower than without a limit is still fine [default: that of the advice, else 5%].
    #[arg(long, value_name = "RATIO")]
    slowdown: Option<Ratio>,
    /// COMMAND prints the length of each burst of its work, a number of nanoseconds a line: these are compared, not the whole run.
    #[arg(long)]
    bursts: bool,
    /// With --bursts: time that may be added to 99 of 100 bursts.
    #[arg(long, value_name = "TIME", requires = "bursts")]
    latency: Option<Duration>,
    /// Starts that are tried: both, cold or warm.
    #[arg(long, value_name = "STARTS", default_value = "both", value_parser = starts_named)]
    start: Starts,
    /// Limit by memory.high, which never kills, in place of memory.max.
    #[arg(long)]
    high: bool,
    /// End a run that takes longer than this [default: ten times the first run, which may take an hour].
    #[arg(long, value_name = "TIME")]
    at_most: Option<Duration>,
    /// Decides the order within turns.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run although this machine has too little room or rest.
    #[arg(long)]
    anyway: bool,
    /// Make the recommendation the setting of this control group (version 2) or unit of systemd, as `isotherm apply` does, if it holds.
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["memory", "advice"])]
    apply_if_holds: Option<String>,
    /// Write everything, each run included, to this file, as JSON.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Longest first run.
const FIRST_AT_MOST: WallDuration = WallDuration::from_secs(3600);
/// How much longer than the first run another may take, and a time that is always given.
const TIMES_AT_MOST: u32 = 10;
const ALWAYS_GIVEN: WallDuration = WallDuration::from_secs(10);
/// Allowed slow-down if no other is given: 5 %.
const USUAL_PPM: u64 = 1_050_000;

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let groups = ready()?;
    let program = found(&args.command[0])?;
    if args.apply_if_holds.is_some() && args.format.format != Format::Table {
        return Err(CliError::usage(
            "--apply-if-holds prints what it writes as a table: leave out --format, and take -o FILE",
        ));
    }
    if args.high && groups.version() == 1 {
        return Err(CliError::host_cannot(
            "control groups are of version 1 here, which has no memory.high: leave out --high",
        ));
    }
    let (stated, scenario) = match &args.advice {
        Some(path) => (Some(read(path)?), None),
        None if args.memory.is_empty() => {
            // Before it is recorded: whether the machine is at rest.
            refuse_to_disturb(Bytes::new(0), Bytes::new(0), args.anyway, ui)?;
            let Advised { json, scenario } = advised(&args.command, args.slowdown, args.latency, ui)?;
            (Some(stated(&json).map_err(to_usage)?), scenario)
        }
        None => (None, None),
    };
    let ratio_ppm = args.slowdown.map(|slowdown| 1_000_000 + slowdown.ppm());
    let asked = Asked {
        ratio_ppm: ratio_ppm.or(stated.as_ref().map(|stated| stated.slowdown_ppm)).unwrap_or(USUAL_PPM),
        latency: args.latency,
    };
    let verified = measure(&args, &groups, stated, asked, ui)?;
    drop(groups);
    print(&args, &program, &verified, ui)?;
    let decisive = verified.sizes.iter().find(|row| row.is_asked);
    match (verified.is_stopped, decisive.map(|row| row.verdict)) {
        (true, _) => Err(CliError::partial("stopped: this is what was known by then")),
        (false, Some(Verdict::Holds)) => match (&args.apply_if_holds, scenario) {
            (Some(group), Some(scenario)) => apply::apply_now(scenario, group, ui),
            _ => Ok(ExitCode::SUCCESS),
        },
        (false, Some(Verdict::Fails)) => Ok(ExitCode::FAILURE),
        (false, _) => Err(CliError::partial("undecided: more --pairs, or a quieter machine, narrow the interval")),
    }
}

/// What `advise --verify -- COMMAND` needs; an error says what this machine lacks.
pub(super) fn ready() -> Result<OwnGroups, CliError> {
    OwnGroups::find(&Root::default()).map_err(to_cli)
}

/// Runs a command under the recommendation of an answer, with what `isotherm verify` takes by itself.
pub(super) fn of_advice(groups: &OwnGroups, command: &[String], answer: &str, ui: &Ui) -> Result<Verified, CliError> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let line = ["verify", "--"].into_iter().chain(command.iter().map(String::as_str));
    let Line { args } = clap::Parser::try_parse_from(line).map_err(CliError::usage)?;
    let stated = stated(answer).map_err(to_usage)?;
    // Without --bursts there is no burst to hold against a latency.
    let asked = Asked { ratio_ppm: stated.slowdown_ppm, latency: None };
    measure(&args, groups, Some(stated), asked, ui)
}

/// All that is known in the end.
#[derive(Debug, Serialize)]
pub(super) struct Verified {
    command: Vec<String>,
    control_groups: u8,
    design: Design,
    asked: Asked,
    is_stopped: bool,
    /// Results by size.
    sizes: Vec<Judged>,
    stated: Option<Stated>,
    /// The first run, which is compared with no other.
    first: Run,
    /// Runs by turn, in the order in which they were made.
    turns: Vec<Vec<Run>>,
}

fn measure(
    args: &Args,
    groups: &OwnGroups,
    stated: Option<Stated>,
    asked: Asked,
    ui: &Ui,
) -> Result<Verified, CliError> {
    let has_room = |peak: Bytes, sizes: &[Size]| {
        let smallest = sizes.iter().map(|size| size.bytes).min().unwrap_or(peak);
        refuse_to_disturb(peak, smallest, args.anyway, ui)
    };
    let predicted = stated.as_ref().map(|stated| (Bytes::new(stated.peak_bytes), sizes(args, Some(stated), None)));
    // Before anything runs: what is known of its peak, and whether the machine is at rest.
    match &predicted {
        Some((peak, sizes)) => has_room(*peak, sizes.as_deref().unwrap_or_default())?,
        None => has_room(Bytes::new(0), &[])?,
    }
    let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let goes_on = || !clock.is_ending();
    let mut files = Files::default();
    let given = args.at_most.map(|at_most| WallDuration::from_nanos(at_most.ns()));
    let order = Order {
        command: &args.command,
        limit: None,
        start: Start::Warm,
        has_bursts: args.bursts,
        at_most: given.unwrap_or(FIRST_AT_MOST),
    };
    ui.say("first run, without a limit");
    let first = run_once(groups, &order, &goes_on, Some(&mut files)).map_err(to_failed)?;
    refuse_a_bad_first(&first)?;
    let peak = first.peak_bytes.map(Bytes::new);
    let took = Duration::from_ns(first.wall_ns).approx();
    ui.say(format_args!(
        "it took {took}{}",
        peak.map_or_else(String::new, |peak| format!(", and up to {} of memory", peak.approx()))
    ));
    let sizes = sizes(args, stated.as_ref(), peak)?;
    has_room(peak.unwrap_or_default(), &sizes)?;
    let pairs = args.pairs.unwrap_or_else(|| usual_pairs(first.wall_ns, sizes.len()));
    let design = Design { sizes, pairs, starts: args.start, seed: args.seed };
    let first_wall = WallDuration::from_nanos(first.wall_ns);
    let at_most = given.unwrap_or((first_wall * TIMES_AT_MOST).max(ALWAYS_GIVEN));
    let ceiling = if args.high { Ceiling::High } else { Ceiling::Max };
    let length = Duration::from_ns(first.wall_ns.saturating_mul(design.nr_runs()));
    ui.say(format_args!("{} runs, about {}; Ctrl-C stops and shows what is known", design.nr_runs(), length.approx()));
    let bar = ui.progress("running", design.nr_runs());
    let mut turns: Vec<Vec<Run>> = Vec::new();
    let mut is_stopped = false;
    'turns: for turn in design.turns() {
        let mut runs = Vec::new();
        for size in turn.runs {
            if turn.start == Start::Cold {
                files.forget();
            }
            let limit = size.map(|nr| (ceiling, design.sizes[nr]));
            let order = Order { limit, start: turn.start, at_most, ..order };
            match run_once(groups, &order, &goes_on, None) {
                Ok(run) => runs.push(run),
                Err(VerifyError::Stopped) => {
                    is_stopped = true;
                    break 'turns;
                }
                Err(error) => return Err(to_failed(error)),
            }
            bar.inc(1);
        }
        let free = runs.iter().find(|run| run.memory_bytes.is_none() && !run.is_good());
        if let Some(free) = free {
            bar.finish_and_clear();
            return Err(CliError::failed(format!(
                "a run without a limit {}, and the first one did not: the command does not do the same each time{}",
                how(free),
                said(free)
            )));
        }
        turns.push(runs);
    }
    bar.finish_and_clear();
    Ok(Verified {
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        control_groups: groups.version(),
        asked,
        is_stopped,
        sizes: judge(&design, &turns, stated.as_ref(), asked),
        design,
        stated,
        first,
        turns,
    })
}

fn print(args: &Args, program: &str, verified: &Verified, ui: &Ui) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(verified).map_err(CliError::failed)?;
    if let Some(path) = &args.output {
        isotherm_trace::write_in_one_step(path, format!("{json}\n").as_bytes())
            .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    match args.format.format {
        Format::Json => ui.print_data(format_args!("{json}\n")),
        Format::Csv => ui.print_data(table(&verified.sizes).to_csv()),
        Format::Table => print_for_people(program, verified, ui),
    }
}

/// The sentence, the table, and what the figures do not show.
pub(super) fn print_for_people(program: &str, verified: &Verified, ui: &Ui) -> Result<(), CliError> {
    let paragraph = |text: &str, mark: &str| ui.print(format_args!("{}\n", folded(text, mark, ui.columns())));
    for row in verified.sizes.iter().filter(|row| row.is_asked) {
        paragraph(&sentence(program, row, verified.asked), "")?;
    }
    let table = super::render(&table(&verified.sizes), Format::Table, ui);
    ui.print_styled(&table.before_line().after_line())?;
    remarks(verified).iter().try_for_each(|line| paragraph(line, "  - "))
}

/// What the figures do not show.
fn remarks(verified: &Verified) -> Vec<String> {
    let runs = || verified.turns.iter().flatten();
    let killed = |start: Start| runs().filter(move |run| run.start == start && run.kills > 0).count();
    let (cold, warm) = (killed(Start::Cold), killed(Start::Warm));
    let mut lines = Vec::new();
    if cold != warm {
        lines.push(format!(
            "killed in {cold} runs that started cold and in {warm} that started warm: whether the files of the program are in memory decides"
        ));
    }
    if runs().any(|run| run.left_behind > 0) {
        lines.push(
            "it left processes behind, which were ended: only what it does until it ends is compared; start it in the foreground".to_owned(),
        );
    }
    if let Some(failed) = runs().find(|run| !run.is_good() && run.kills == 0) {
        lines.push(format!("a run under a limit {}{}", how(failed), said(failed)));
    }
    lines
}

/// Limits that are tried. Shares are of `peak`.
fn sizes(args: &Args, stated: Option<&Stated>, peak: Option<Bytes>) -> Result<Vec<Size>, CliError> {
    if let (Some(stated), true) = (stated, args.memory.is_empty()) {
        return Ok(stated.sizes());
    }
    let size = |(nr, amount): (usize, &Amount)| {
        let bytes = match (amount, peak) {
            (Amount::Absolute(bytes), _) => Ok(*bytes),
            (Amount::Share(share), Some(peak)) => Ok(Bytes::new(share.of(peak.get()))),
            (Amount::Share(_), None) => Err(CliError::host_cannot(
                "this kernel does not keep the peak of a group (version 2 needs 5.19): give --memory as a size",
            )),
        };
        bytes.map(|bytes| Size { bytes, is_asked: nr == 0 })
    };
    args.memory.iter().enumerate().map(size).collect()
}

fn refuse_to_disturb(peak: Bytes, smallest: Bytes, anyway: bool, ui: &Ui) -> Result<(), CliError> {
    for refusal in disturbs(&Root::default(), peak, smallest).map_err(to_cli)? {
        if !anyway {
            return Err(CliError::host_cannot(format!("{refusal}; --anyway runs it all the same")));
        }
        ui.warn(refusal);
    }
    Ok(())
}

fn refuse_a_bad_first(first: &Run) -> Result<(), CliError> {
    if first.end == End::Exit(0) {
        return Ok(());
    }
    let way_out = if first.end == End::TooLong { ": a service is compared by `isotherm daemon trial`" } else { "" };
    Err(CliError::failed(format!("without a limit the command {}{way_out}{}", how(first), said(first))))
}

/// How a run ended that did not end well.
fn how(run: &Run) -> String {
    match run.end {
        End::Exit(code) => format!("ended with exit code {code}"),
        End::Signal(signal) => format!("was ended by signal {signal}"),
        End::TooLong => format!("had not ended after {}", Duration::from_ns(run.wall_ns).approx()),
    }
}

fn said(run: &Run) -> String {
    if run.said.is_empty() { String::new() } else { format!("; it said: {}", run.said) }
}

fn read(path: &Path) -> Result<Stated, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::usage(error).while_doing(format!("cannot read {}", path.display())))?;
    stated(&text).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}

/// The command's name, if there is such a program.
fn found(command: &OsString) -> Result<String, CliError> {
    let path = find_program(command, std::env::var_os("PATH").as_deref()).map_err(CliError::usage)?;
    Ok(path.file_name().map_or_else(|| "the command".to_owned(), |name| name.to_string_lossy().into_owned()))
}

fn starts_named(name: &str) -> Result<Starts, String> {
    match name {
        "both" => Ok(Starts::Both),
        "cold" => Ok(Starts::Cold),
        "warm" => Ok(Starts::Warm),
        _ => Err("allowed: both, cold, warm".to_owned()),
    }
}

fn to_usage(error: VerifyError) -> CliError {
    CliError::usage(error.to_string())
}

fn to_failed(error: VerifyError) -> CliError {
    match error {
        VerifyError::Live(error) => to_cli(error),
        VerifyError::Stopped => CliError::partial("stopped before the first run had ended"),
        error => CliError::failed(error.to_string()),
    }
}
