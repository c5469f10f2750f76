//! `isotherm-lab live`: the command itself inside real kernels.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_fidelity::versus::live::{hot_set_1g, sparse_64g};
use isotherm_fidelity::versus::monitor::PATTERNS;
use isotherm_guest::patterns::Pattern;
use isotherm_terminal::{CliError, FormatArg, Ui};

use super::in_kernels::{InKernels, Runs, Tidy};

mod advice;
mod compaction;
mod kills;
mod monitor;
mod prices;
mod programs;
mod promotion;
mod reclaim;
mod record;
mod sorting;
mod trial;
mod verbs;

/// Run `isotherm monitor` inside real kernels, each way of watching over each access pattern, and compare its findings with the pages that
/// were really used.
///
/// The command is built statically (`cargo xtask static`), the module for each kernel (`cargo xtask module`). All settable files of /proc
/// and /sys are read before and after each run: a change that the command left behind is a failure.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm-lab live
  isotherm-lab live --advice --seconds 60
  isotherm-lab live --record --kernel 7.2
  isotherm-lab live --programs --pattern sqlite,python
  isotherm-lab live --reclaim --seconds 120 --boots 1
  isotherm-lab live --kills 200
  isotherm-lab live --sorting --boots 1
  isotherm-lab live --promotion --way rch --boots 1
  isotherm-lab live --trial --kernel 7.2 --boots 1
  isotherm-lab live --verbs
  isotherm-lab live --prices
  isotherm-lab live --kernel 7.2 --pattern hot-set,sparse-64g --way damon --boots 1")]
pub(crate) struct Args {
    #[command(flatten)]
    place: InKernels,
    /// Only these patterns, workloads or programs.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pattern: Vec<String>,
    /// Only these ways of watching.
    #[arg(long, value_name = "WAY", value_delimiter = ';')]
    way: Vec<String>,
    /// Boots of each case.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    boots: u32,
    /// Instead: have `isotherm advise --cgroup` watch groups, set the memory.high that it recommends, and count refaults.
    #[arg(long, conflicts_with_all = ["way", "boots"])]
    advice: bool,
    /// Instead: have `isotherm record --cgroup` record the patterns, and compare with the pages that were used.
    #[arg(long, conflicts_with_all = ["advice", "way", "boots"])]
    record: bool,
    /// Instead: have `isotherm record --cgroup` record the programs of traces/, and compare the recommendations of `isotherm advise` with
    /// those for the programs' own recordings.
    #[arg(long, conflicts_with_all = ["advice", "record", "way", "boots", "seconds"])]
    programs: bool,
    /// Keep the traces of --programs in this folder.
    #[arg(long, value_name = "FOLDER", requires = "programs")]
    keep: Option<PathBuf>,
    /// Instead: run each live verb once, and check how it ends and which changes it leaves behind.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "pattern", "way", "boots"])]
    verbs: bool,
    /// Instead: have `isotherm daemon run` take the cold memory of a service, and count the pages that are left and that come back.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "pattern"])]
    reclaim: bool,
    /// Instead: start `isotherm daemon run` this many times, kill it at random moments, and check what `isotherm restore` leaves changed.
    #[arg(long, value_name = "N", conflicts_with_all = ["advice", "record", "programs", "verbs", "reclaim", "pattern", "boots", "seconds"])]
    kills: Option<u64>,
    /// Instead: fragment memory, have `isotherm compact` and `isotherm daemon run` compact it, and ask for huge pages.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "reclaim", "kills", "pattern", "boots", "seconds"])]
    compaction: bool,
    /// Instead: play patterns under sudden pressure, with lists as they are, sorted by the kernel, and sorted by `isotherm daemon run`.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "reclaim", "kills", "compaction", "seconds"])]
    sorting: bool,
    /// Instead: fill memory on a slow node, and have `isotherm daemon run` bring the used pages to the fast one.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "reclaim", "kills", "compaction", "sorting", "pattern", "seconds"])]
    promotion: bool,
    /// Instead: have `isotherm daemon trial` compare configurations that act.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "reclaim", "kills", "compaction", "sorting", "promotion", "pattern", "seconds"])]
    trial: bool,
    /// Instead: measure the time of scans, probes and flushes by the module, next to the costs that the simulated machine charges for them.
    #[arg(long, conflicts_with_all = ["advice", "record", "programs", "verbs", "pattern", "way", "boots", "seconds"])]
    prices: bool,
    /// How long each is watched, in seconds of the guest.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=7200))]
    seconds: u64,
    #[command(flatten)]
    format: FormatArg,
}

/// The patterns, with one of a large space.
const NAMES: [&str; 6] = ["hot-set", "hot-sets", "moving", "scan", "zipf", "sparse"];
/// Name, constructor, and whether it is run by default.
type Large = (&'static str, fn() -> Pattern, bool);
/// Patterns of larger spaces.
const LARGE: [Large; 2] = [("sparse-64g", sparse_64g, true), ("hot-set-1g", hot_set_1g, false)];

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.prices {
        return prices::run(&args, ui);
    }
    args.place.check()?;
    if args.verbs {
        verbs::run(&args, ui)
    } else if args.advice {
        advice::run(&args, ui)
    } else if let Some(rounds) = args.kills {
        kills::run(&args, rounds, ui)
    } else if args.compaction {
        compaction::run(&args, ui)
    } else if args.sorting {
        sorting::run(&args, ui)
    } else if args.promotion {
        promotion::run(&args, ui)
    } else if args.trial {
        trial::run(&args, ui)
    } else if args.reclaim {
        reclaim::run(&args, ui)
    } else if args.record {
        record::run(&args, ui)
    } else if args.programs {
        programs::run(&args, ui)
    } else {
        monitor::run(&args, ui)
    }
}

impl Args {
    fn wants(&self, pattern: &str) -> bool {
        self.pattern.is_empty() || self.pattern.iter().any(|name| name == pattern)
    }

    /// The ways asked for.
    fn ways<'a, W>(&self, all: &'a [W], name: impl Fn(&W) -> &'static str) -> Result<Vec<&'a W>, CliError> {
        let is_wanted = |way: &&W| self.way.is_empty() || self.way.iter().any(|wanted| wanted == name(way));
        let ways: Vec<&W> = all.iter().filter(is_wanted).collect();
        if ways.is_empty() {
            let known: Vec<&str> = all.iter().map(name).collect();
            return Err(CliError::usage(format!("no such way; allowed: {}", known.join("; "))));
        }
        Ok(ways)
    }

    /// The patterns asked for.
    fn patterns(&self) -> Result<Vec<(&'static str, Pattern)>, CliError> {
        let known = PATTERNS.iter().filter(|pattern| NAMES.contains(&pattern.name) && self.wants(pattern.name));
        let mut patterns: Vec<_> = known.map(|pattern| (pattern.name, pattern.pattern())).collect();
        let is_wanted = |name: &str, by_itself| if self.pattern.is_empty() { by_itself } else { self.wants(name) };
        patterns.extend(
            LARGE.iter().filter(|(name, _, usual)| is_wanted(name, *usual)).map(|(name, make, _)| (*name, make())),
        );
        if patterns.is_empty() {
            let large = LARGE.map(|(name, ..)| name).join(", ");
            return Err(CliError::usage(format!("no such pattern; allowed: {}, {large}", NAMES.join(", "))));
        }
        Ok(patterns)
    }
}
