//! `isotherm monitor` of running processes: a source, its loop, and the growing record.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use isotherm_core::monitor::RegionRecord;
use isotherm_daemon::{End, Finding, Heard, RegionLook, Source, WatchOptions, Watched, watch};
use isotherm_linux::Root;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::monitoring::record_region;
use isotherm_trace::TraceError;
use isotherm_trace::region::{ContextMeta, Intervals, RecordMeta, RegionWriter, Snapshot, TargetMeta};
use isotherm_units::{Bytes, Clock, Duration, Instant};
use serde::Serialize;

use super::settings::SettingArgs;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::{BudgetArgs, COUNTS, GroupWatch, LiveClock, OwnCpu, Target, TargetArgs};
use crate::ui::Ui;

/// Where findings of a running machine come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SourceName {
    /// The first that works here: DAMON, the module, clear_refs.
    #[default]
    Auto,
    /// The kernel's own monitor, by its files in sysfs.
    Damon,
    /// Our monitor over the accessed-bit module, at all levels of page tables.
    Module,
    /// `clear_refs` and `smaps`: one number for each mapping.
    ClearRefs,
    /// The generations of the Multi-Gen LRU of a group: ages, but no addresses. Writes a group record.
    Generations,
}

/// For `#[command(flatten)]`.
#[derive(Debug, clap::Args)]
pub(crate) struct LiveArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Where findings come from.
    #[arg(id = "live-source", long = "source", value_enum, value_name = "SOURCE", default_value = "auto")]
    source: SourceName,
    /// If only DAMON_STAT uses DAMON, switch it off during the run, and on again afterwards.
    #[arg(long)]
    take_damon_stat: bool,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// Start this program and watch it.
    #[arg(id = "live-command", last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl LiveArgs {
    fn damon_options(&self) -> isotherm_linux::damon::Options {
        isotherm_linux::damon::Options { takes_damon_stat: self.take_damon_stat }
    }

    /// Whether a running process or machine is to be watched.
    pub(crate) fn is_given(&self) -> bool {
        self.target.is_given() || !self.command.is_empty()
    }
}

/// The source whose regions are mappings.
const CLEAR_REFS: &str = "clear-refs";

/// Results of watching, for tables.
#[derive(Debug, Default, Serialize)]
struct Summary {
    source: &'static str,
    ended: String,
    watched_ns: u64,
    snapshots: u64,
    targets: u64,
    regions_mean: f64,
    /// Of the last aggregations of all targets that are left, together.
    watched_bytes: u64,
    used_bytes: u64,
    cpu_ns: u64,
    cpu_of_kernel_ns: u64,
    cpu_share_ppm: u64,
    stretched: u32,
}

pub(crate) fn run(
    live: &LiveArgs,
    settings: &SettingArgs,
    seed: Option<u64>,
    output: &Path,
    format: FormatArg,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let options = live.budget.options()?;
    let root = Root::default();
    if live.source == SourceName::Generations {
        return generations(live, options, &root, output, ui);
    }
    let target = live.target.open(&root, &live.command)?;
    let mut clock = LiveClock::start()?;
    let (mut child, name, mut source, chosen, operations) = match target {
        Target::Physical => {
            let (source, name) =
                sources::physical(live.source, settings, seed, &root, live.damon_options(), clock.now(), ui)?;
            (None, "physical memory".to_owned(), source, name, "paddr")
        }
        Target::Family { family, name, child } => {
            let (source, chosen, operations) =
                sources::of_family(live.source, settings, seed, &root, family, live.damon_options(), clock.now(), ui)?;
            (child, name, source, chosen, operations)
        }
    };
    ui.say(format_args!("watching {name} by {}", chosen.words));
    let record = Record::create(output, chosen.name, operations, live, settings, ui)?;
    let summary = record.watch(source.as_mut(), &mut clock, options, chosen.name, ui)?;
    if let Some(child) = &mut child
        && child.wait().is_none()
    {
        ui.say(format_args!("process {} runs on", child.pid()));
    }
    print(&summary, format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// Generations have no addresses: ages of a group, in a group record.
fn generations(
    live: &LiveArgs,
    options: WatchOptions,
    root: &Root,
    output: &Path,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let Some(path) = &live.target.cgroup else {
        return Err(CliError::usage("generations are those of a control group: give --cgroup"));
    };
    let group = GroupWatch::open(root, path)?;
    ui.say(format_args!(
        "generations tell ages of memory by group, and no addresses: {} becomes a group record",
        output.display()
    ));
    let watched = group.record(output, None, options, &mut LiveClock::start()?, ui)?;
    let (elapsed, spent) = (watched.elapsed.approx(), watched.spent.approx());
    ui.say(format_args!(
        "{}: {} looks in {elapsed}, for {spent} of CPU time; ended: {}. Then: isotherm advise {0}",
        output.display(),
        watched.looks,
        watched.ended
    ));
    Ok(ExitCode::SUCCESS)
}

mod sources;

/// A source that was chosen.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    /// Name of the source as on the command line.
    name: &'static str,
    /// Description of the source, for people.
    words: &'static str,
}

/// The region record that grows.
struct Record {
    writer: RegionWriter,
    output: std::path::PathBuf,
}

impl Record {
    fn create(
        output: &Path,
        source: &str,
        operations: &str,
        live: &LiveArgs,
        settings: &SettingArgs,
        ui: &Ui,
    ) -> Result<Self, CliError> {
        let config = settings.settings(ui)?.config;
        let attributes = &config.attributes;
        let context = ContextMeta {
            operations: operations.to_owned(),
            intervals: Intervals::new(
                attributes.sample_interval.ns(),
                attributes.aggr_interval.ns(),
                attributes.ops_update_interval.ns(),
            ),
            min_regions: Some(u64::from(attributes.min_nr_regions)),
            max_regions: Some(u64::from(attributes.max_nr_regions)),
            counts_are_shares: source == CLEAR_REFS,
            ..ContextMeta::default()
        };
        let mut notes = vec![format!("watched live, source: {source}")];
        if source == CLEAR_REFS {
            notes.push("a region is a mapping, cut to what of it is resident; its count is the percentage of these pages that were used, not how often or which".to_owned());
        }
        let meta = RecordMeta {
            command: live.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            recorder: "isotherm monitor".to_owned(),
            host: isotherm_recorder::describe_host(),
            contexts: vec![context],
            notes,
            ..RecordMeta::default()
        };
        Ok(Self { writer: RegionWriter::create(output, meta)?, output: output.to_owned() })
    }

    fn watch(
        mut self,
        source: &mut dyn Source,
        clock: &mut LiveClock,
        options: WatchOptions,
        name: &'static str,
        ui: &Ui,
    ) -> Result<Summary, CliError> {
        let spinner = ui.spinner("watching: snapshots");
        let mut shown = Shown { counts_are_shares: name == CLEAR_REFS, ..Shown::default() };
        let mut failed: Option<TraceError> = None;
        let mut flushed = Instant::START;
        let watched = watch(source, clock, &mut OwnCpu, options, &mut |now, heard| {
            let noted = match heard {
                Heard::Found(Finding::Regions(look)) => {
                    spinner.inc(1);
                    shown.look(look);
                    spinner.set_message(format!("{}; snapshots:", shown.line(now)));
                    self.writer.push(&snapshot_of(look))
                }
                Heard::Found(Finding::Came { target, pid, name }) => {
                    shown.targets += 1;
                    self.writer
                        .add_target(TargetMeta {
                            id: Some(u64::from(*target)),
                            pid: *pid,
                            name: name.clone(),
                            ..TargetMeta::default()
                        })
                        .map(|_| ())
                }
                Heard::Found(Finding::Went { target }) => {
                    shown.last.remove(target);
                    Ok(())
                }
                Heard::Found(Finding::Said(words)) => {
                    spinner.suspend(|| ui.warn(words));
                    self.writer.note(words.clone())
                }
                Heard::Paced { stretch, refusal } => {
                    let words = paced(stretch, refusal, options);
                    spinner.suspend(|| ui.say(&words));
                    self.writer.note(words)
                }
            };
            let kept = noted.and_then(|()| {
                // The written record survives us; at most a second of it is lost.
                if now.since(flushed) < Duration::from_secs(1) {
                    return Ok(());
                }
                flushed = now;
                self.writer.flush()
            });
            match kept {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        spinner.finish_and_clear();
        if let Some(error) = failed {
            return Err(CliError::partial(error));
        }
        let watched = watched.map_err(CliError::partial)?;
        let summary = shown.summary(name, &watched, &self.writer);
        if self.writer.meta().snapshots == 0 {
            let _ = std::fs::remove_file(&self.output);
            return Err(CliError::failed(format!(
                "no snapshot in {}: {}; watch longer, or take a shorter --aggr",
                watched.elapsed.approx(),
                summary.ended
            )));
        }
        self.writer.set_outcome(watched.end != End::Stopped)?;
        self.writer.finish()?;
        ui.say(format_args!("wrote {}", self.output.display()));
        if let End::Lost(words) = &watched.end {
            return Err(CliError::partial(format!("{words}; {} holds what came before", self.output.display())));
        }
        Ok(summary)
    }
}

fn paced(stretch: u32, refusal: Option<String>, options: WatchOptions) -> String {
    match (stretch, refusal) {
        (_, Some(why)) => {
            format!("watching costs more than {} of a processor and cannot slow down: {why}", options.max_cpu)
        }
        (1, None) => "intervals are as asked for again".to_owned(),
        (_, None) => format!(
            "watching costs more than {} of a processor: intervals are {stretch} times as long now",
            options.max_cpu
        ),
    }
}

/// The present state, for the progress line and the summary.
#[derive(Debug, Default)]
struct Shown {
    targets: u64,
    /// Counts of regions are percentages of their memory.
    counts_are_shares: bool,
    last: std::collections::BTreeMap<u32, (u64, u64)>,
    /// Used and all bytes of all targets together, at the last sample.
    sums: (u64, u64),
}

impl Shown {
    fn look(&mut self, look: &RegionLook) {
        let (used, all) = look.used_and_all();
        // The count of a mapping gives its accessed share.
        let share = |region: &RegionRecord| region.range.len() / COUNTS * u64::from(region.nr_accesses);
        let used = if self.counts_are_shares { look.regions.iter().map(share).sum() } else { used };
        self.last.insert(look.target, (used, all));
        let add = |sums: (u64, u64), one: &(u64, u64)| (sums.0.saturating_add(one.0), sums.1.saturating_add(one.1));
        self.sums = self.last.values().fold((0, 0), add);
    }

    fn line(&self, now: Instant) -> String {
        let (used, all) = self.sums;
        let (used, all) = (Bytes::new(used).approx(), Bytes::new(all).approx());
        format!("watching: {}, {used} used of {all}", now.since(Instant::START).approx())
    }

    fn summary(&self, source: &'static str, watched: &Watched, writer: &RegionWriter) -> Summary {
        let (used_bytes, watched_bytes) = self.sums;
        let snapshots = writer.meta().snapshots;
        let share = u128::from(watched.spent.ns()) * 1_000_000 / u128::from(watched.elapsed.ns().max(1));
        Summary {
            source,
            ended: match &watched.end {
                End::TimeOver => "the time is over".to_owned(),
                End::Stopped => "stopped".to_owned(),
                End::TargetGone(words) | End::Lost(words) => words.clone(),
            },
            watched_ns: watched.elapsed.ns(),
            snapshots,
            targets: self.targets,
            regions_mean: (writer.meta().regions as f64 / snapshots.max(1) as f64 * 10.0).round() / 10.0,
            watched_bytes,
            used_bytes,
            cpu_ns: watched.spent.ns(),
            cpu_of_kernel_ns: watched.spent_by_kernel.ns(),
            cpu_share_ppm: u64::try_from(share).unwrap_or(u64::MAX),
            stretched: watched.stretched,
        }
    }
}

fn snapshot_of(look: &RegionLook) -> Snapshot {
    Snapshot {
        target: look.target,
        time_ns: look.at.ns(),
        duration_ns: Some(look.elapsed.ns()),
        intervals: Intervals {
            sample_ns: Some(look.sample_interval.ns()),
            aggregation_ns: Some(look.aggr_interval.ns()),
            update_ns: None,
        },
        regions: look.regions.iter().map(record_region).collect(),
        ..Snapshot::default()
    }
}

fn print(summary: &Summary, format: Format, ui: &Ui) -> Result<(), CliError> {
    if format == Format::Json {
        let text = serde_json::to_string_pretty(summary).map_err(CliError::failed)?;
        return ui.print_data(format_args!("{text}\n"));
    }
    let columns = vec![
        Column::text("source"),
        Column::number("watched", Unit::Ns),
        Column::number("targets", Unit::Count),
        Column::number("snapshots", Unit::Count),
        Column::number("regions mean", Unit::Count),
        Column::number("memory", Unit::Bytes),
        Column::number("used", Unit::Bytes),
        Column::number("CPU time", Unit::Ns),
        Column::number("CPU share", Unit::Ppm),
        Column::number("stretched", Unit::Count),
        Column::text("ended"),
    ];
    let mut table = Table::new("watched live", columns);
    table.push(vec![
        Cell::Text(summary.source.to_owned()),
        summary.watched_ns.into(),
        summary.targets.into(),
        summary.snapshots.into(),
        Cell::Float(summary.regions_mean),
        summary.watched_bytes.into(),
        summary.used_bytes.into(),
        summary.cpu_ns.into(),
        summary.cpu_share_ppm.into(),
        Cell::Int(u64::from(summary.stretched)),
        Cell::Text(summary.ended.clone()),
    ]);
    match format {
        Format::Csv => ui.print_data(table.to_csv()),
        _ => ui.print_styled(&crate::verbs::render(&table, format, ui)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_mappings_are_not_whole_mappings() {
        let region = RegionRecord {
            range: isotherm_core::host::AddressRange::new(0, 400 << 20),
            nr_accesses: 25,
            ..RegionRecord::default()
        };
        let look = RegionLook { regions: vec![region], ..RegionLook::default() };
        let used = |counts_are_shares| {
            let mut shown = Shown { counts_are_shares, ..Shown::default() };
            shown.look(&look);
            shown.sums
        };
        assert_eq!((used(true), used(false)), ((100 << 20, 400 << 20), (400 << 20, 400 << 20)));
    }

    #[test]
    fn pace_is_told_in_words() {
        let options = WatchOptions { length: None, max_cpu: isotherm_units::Ratio::from_percent(1) };
        assert_eq!(paced(1, None, options), "intervals are as asked for again");
        assert!(paced(7, None, options).contains("more than 1% of a processor: intervals are 7 times as long"));
        assert!(paced(7, Some("no".to_owned()), options).ends_with("cannot slow down: no"));
    }
}
