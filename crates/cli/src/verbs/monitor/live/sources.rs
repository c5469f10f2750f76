//! Selects the source of a monitor, and checks its requirements.

use isotherm_core::host::{AddressRange, TargetId, UnitRange};
use isotherm_core::monitor::{MonitorConfig, Operations, Strategy};
use isotherm_daemon::{Monitored, Source};
use isotherm_linux::damon::{DamonTarget, Options};
use isotherm_linux::doctor::{State, WATCHES};
use isotherm_linux::{Family, LiveHost, LiveTarget, Module, Root};
use isotherm_units::{Duration, Instant};

use super::{Chosen, SourceName};
use crate::error::CliError;
use crate::live::{DamonSource, Following, Sweeping, probed, system_ram, to_cli};
use crate::ui::Ui;
use crate::verbs::monitor::settings::SettingArgs;

const DAMON: Chosen = Chosen { name: "damon", words: "DAMON, the kernel's monitor" };
const MODULE: Chosen = Chosen { name: "module", words: "accessed bits (module)" };
const CLEAR_REFS: Chosen =
    Chosen { name: super::CLEAR_REFS, words: "clear_refs and smaps: one number for each mapping" };

type Opened = (Box<dyn Source>, Chosen, &'static str);

/// A source over processes.
#[allow(clippy::too_many_arguments, reason = "each is one thing that the command line says")]
pub(super) fn of_family(
    asked: SourceName,
    args: &SettingArgs,
    seed: Option<u64>,
    root: &Root,
    family: Family,
    options: Options,
    now: Instant,
    ui: &Ui,
) -> Result<Opened, CliError> {
    let settings = args.settings(ui)?;
    let config = settings.config.clone();
    let ranges: Vec<UnitRange> = settings.ranges.iter().map(|range| UnitRange::new(range.start, range.end)).collect();
    if config.operations == Operations::Paddr {
        return Err(CliError::usage("--ops paddr is physical memory: give --physical in place of a process"));
    }
    let operations = if config.operations == Operations::Fvaddr { "fvaddr" } else { "vaddr" };
    let damon = |family: Family| -> Result<Opened, CliError> {
        refuse_strategy(&config, "damon")?;
        let target = damon_target(&config, &settings.ranges, root, family, ui)?;
        let source = DamonSource::start(root, target, config.attributes.clone(), options, now)?;
        Ok((Box::new(source), DAMON, operations))
    };
    let module = |module: Module, family: Family| -> Result<Opened, CliError> {
        Ok((Box::new(following(config.clone(), &ranges, seed, module, root, family, now)?), MODULE, operations))
    };
    let clear_refs = |family: Family| -> Result<Opened, CliError> {
        refuse_strategy(&config, "clear-refs")?;
        Ok((Box::new(Sweeping::start(sweep_interval(&config), root, family, now)?), CLEAR_REFS, "vaddr"))
    };
    match asked {
        SourceName::Damon => damon(family),
        SourceName::Module => module(Module::open(root).map_err(to_cli)?, family),
        SourceName::ClearRefs => clear_refs(family),
        SourceName::Generations => {
            Err(CliError::usage("generations have no addresses: they are written by another loop"))
        }
        SourceName::Auto if config.strategy != Strategy::default() => {
            // Only the module reads upper levels of page tables.
            module(Module::open(root).map_err(to_cli)?, family)
        }
        SourceName::Auto => {
            for finding in probed(root) {
                if finding.state != State::Works {
                    ui.say(format_args!("passed over: {}: {}", finding.name, finding.words));
                    continue;
                }
                let opened = match WATCHES.iter().position(|name| *name == finding.name) {
                    Some(0) => damon(family.clone()),
                    Some(1) => Module::open(root).map_err(to_cli).and_then(|opened| module(opened, family.clone())),
                    _ => clear_refs(family.clone()),
                };
                match opened {
                    Ok(opened) => return Ok(opened),
                    // It worked on our own child process just before.
                    Err(error) => ui.say(format_args!("passed over: {}: {error}", finding.name)),
                }
            }
            Err(CliError::host_cannot("no way to watch a process works here; `isotherm doctor` says what is missing"))
        }
    }
}

/// A source over physical memory.
pub(super) fn physical(
    asked: SourceName,
    args: &SettingArgs,
    seed: Option<u64>,
    root: &Root,
    options: Options,
    now: Instant,
    ui: &Ui,
) -> Result<(Box<dyn Source>, Chosen), CliError> {
    let settings = args.settings(ui)?;
    let given = settings.ranges.iter().map(|range| AddressRange::new(range.start, range.end));
    let mut ranges: Vec<AddressRange> = given.collect();
    if ranges.is_empty() {
        ranges = system_ram(root)?;
    }
    let wants_upper = settings.config.strategy != Strategy::default();
    let damon = |ranges| -> Result<(Box<dyn Source>, Chosen), CliError> {
        refuse_strategy(&settings.config, "damon")?;
        let attributes = settings.config.attributes.clone();
        Ok((Box::new(DamonSource::start(root, DamonTarget::Physical(ranges), attributes, options, now)?), DAMON))
    };
    let module = |ranges: Vec<AddressRange>| -> Result<(Box<dyn Source>, Chosen), CliError> {
        let config = MonitorConfig { operations: Operations::Paddr, ..settings.config.clone() };
        let ranges: Vec<UnitRange> = ranges.iter().map(|range| UnitRange::new(range.start, range.end)).collect();
        let mut host = LiveHost::new(root.clone());
        host.use_module(Some(Module::open(root).map_err(to_cli)?));
        let target = TargetId(0);
        host.add(target, LiveTarget::Physical);
        let watched = Monitored::start(config, seed.unwrap_or(1), host, &[(target, ranges)], now);
        let watched = watched.map_err(CliError::host_cannot)?.announcing(target, "physical memory");
        Ok((Box::new(watched), MODULE))
    };
    match asked {
        SourceName::Damon => damon(ranges),
        SourceName::Module => module(ranges),
        SourceName::Auto if wants_upper => module(ranges),
        SourceName::Auto => damon(ranges.clone()).or_else(|error| {
            ui.say(format_args!("passed over: damon: {error}"));
            module(ranges)
        }),
        SourceName::ClearRefs | SourceName::Generations => {
            Err(CliError::usage("physical memory is watched by --source damon or --source module"))
        }
    }
}

/// DAMON is given one process: of several the one with most memory, which a warning reports.
fn damon_target(
    config: &MonitorConfig,
    ranges: &[isotherm_scenario::monitoring::RangeSpec],
    root: &Root,
    mut family: Family,
    ui: &Ui,
) -> Result<DamonTarget, CliError> {
    let members = family.update().map_err(to_cli)?.came;
    let resident = |pid: u32| {
        let statm = root.read(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0)
    };
    let largest = members.iter().max_by_key(|member| resident(member.pid));
    let Some(largest) = largest else {
        return Err(CliError::failed("there is no process to watch: the group is empty, or all have ended"));
    };
    if members.len() > 1 {
        ui.warn(format_args!(
            "DAMON watches one process here: {} of {}, the one with most memory; --source module watches all",
            largest.pid,
            members.len()
        ));
    }
    if config.operations == Operations::Fvaddr {
        let ranges = ranges.iter().map(|range| AddressRange::new(range.start, range.end)).collect();
        return Ok(DamonTarget::Ranges(largest.pid, ranges));
    }
    Ok(DamonTarget::Process(largest.pid))
}

fn following(
    config: MonitorConfig,
    ranges: &[UnitRange],
    seed: Option<u64>,
    module: Module,
    root: &Root,
    family: Family,
    now: Instant,
) -> Result<Following, CliError> {
    let mut host = LiveHost::new(root.clone());
    host.use_module(Some(module));
    Following::start(config, ranges, seed.unwrap_or(1), host, root, family, now)
}

/// Aggregations are sweeps, which lock the target's address space: never more often than once a second.
fn sweep_interval(config: &MonitorConfig) -> Duration {
    config.attributes.aggr_interval.max(Duration::from_secs(1))
}

fn refuse_strategy(config: &MonitorConfig, source: &str) -> Result<(), CliError> {
    if config.strategy == Strategy::default() {
        return Ok(());
    }
    Err(CliError::host_cannot(format!(
        "the source `{source}` does not look at page tables: --strategy needs the accessed-bit module (module/README.md)"
    )))
}
