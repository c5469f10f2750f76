//! Which source watches, and what each needs.

use isotherm_core::host::UnitRange;
use isotherm_core::monitor::{MonitorConfig, Operations, Strategy};
use isotherm_daemon::Source;
use isotherm_linux::{Family, LiveHost, Module, Root};
use isotherm_units::{Duration, Instant};

use super::{Chosen, SourceName};
use crate::error::CliError;
use crate::live::{Following, Sweeping, to_cli};
use crate::ui::Ui;
use crate::verbs::monitor::settings::SettingArgs;

const MODULE: Chosen = Chosen { name: "module", words: "accessed bits (module)" };
const CLEAR_REFS: Chosen = Chosen { name: "clear-refs", words: "clear_refs and smaps: one number for each mapping" };

type Opened = (Box<dyn Source>, Chosen, &'static str);

/// A source over processes.
pub(super) fn of_family(
    asked: SourceName,
    args: &SettingArgs,
    seed: Option<u64>,
    root: &Root,
    family: Family,
    now: Instant,
    ui: &Ui,
) -> Result<Opened, CliError> {
    let settings = args.settings(ui)?;
    let config = settings.config;
    let ranges: Vec<UnitRange> = settings.ranges.iter().map(|range| UnitRange::new(range.start, range.end)).collect();
    if config.operations == Operations::Paddr {
        return Err(CliError::usage("--ops paddr is physical memory: give --physical in place of a process"));
    }
    let operations = if config.operations == Operations::Fvaddr { "fvaddr" } else { "vaddr" };
    match asked {
        SourceName::Module => {
            let module = Module::open(root).map_err(to_cli)?;
            Ok((Box::new(following(config, &ranges, seed, module, root, family, now)?), MODULE, operations))
        }
        SourceName::ClearRefs => {
            refuse_strategy(&config, "clear-refs")?;
            Ok((Box::new(Sweeping::start(sweep_interval(&config), root, family, now)?), CLEAR_REFS, "vaddr"))
        }
        SourceName::Damon => Err(CliError::host_cannot("DAMON is not driven yet")),
        SourceName::Auto => match Module::open(root) {
            Ok(module) => {
                Ok((Box::new(following(config, &ranges, seed, module, root, family, now)?), MODULE, operations))
            }
            Err(error) => {
                refuse_strategy(&config, "clear-refs")?;
                ui.warn(format_args!("{error}; watching by clear_refs, which tells one number for each mapping"));
                Ok((Box::new(Sweeping::start(sweep_interval(&config), root, family, now)?), CLEAR_REFS, "vaddr"))
            }
        },
    }
}

/// A source over physical memory.
pub(super) fn physical(
    _asked: SourceName,
    _args: &SettingArgs,
    _root: &Root,
    _now: Instant,
    _ui: &Ui,
) -> Result<(Box<dyn Source>, Chosen), CliError> {
    Err(CliError::host_cannot("DAMON is not driven yet"))
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
