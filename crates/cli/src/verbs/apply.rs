//! `isotherm apply`: makes the output of `advise --config` the settings of this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_daemon::changes::{Changed, UnitKnob, protected, same_value, shown};
use isotherm_linux::cgroup::{Group, Hierarchy, Limit};
use isotherm_linux::counters::{meminfo, memory_stat};
use isotherm_linux::knobs::value_of;
use isotherm_linux::{LiveError, Root, page_bytes};
use isotherm_report::{Cell, Column, Table};
use isotherm_scenario::{Scenario, VariantSpec, parse};
use isotherm_units::{Amount, Bytes, Duration};
use serde::Serialize;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::{self, HandsArgs, Use, hands, policy_of, private_file, to_cli};
use crate::ui::Ui;

mod daemon_config;
mod module;
mod unit;

/// Make settings of this machine out of a configuration that `isotherm advise --config` wrote.
///
/// Shows the exact list of writes, and makes them only with --yes. Each write is recorded in a journal before it is made, is read back
/// after it, and is undone by `isotherm restore`. The limit becomes the group's memory.high, above which the kernel reclaims and kills no
/// process; with --max it becomes memory.max, as in the simulation. Of a unit of systemd it becomes the property MemoryHigh or MemoryMax,
/// through `systemctl set-property`, because systemd undoes what others write into the group of a unit: the limit stays through restarts and
/// reboots, with --runtime through restarts alone. The modules DAMON_RECLAIM and DAMON_LRU_SORT for the presets `reclaim`
/// and `lru-sort` are switches of the whole machine. So is the page-replacement policy: if the advice is for another policy than this
/// machine runs, it is refused, or switches with --switch-policy.
///
/// Everything that needs watching at run time is work for the daemon: schemes over a group, generations, limits, compaction and tiering.
/// --daemon-config FILE writes them as a configuration that `isotherm daemon check` and `isotherm daemon run` take, with targets in the
/// group of --cgroup; presets then act on this group alone. Sections have enable = false, with --yes enable = true.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm advise traces/redis.parquet --config redis.toml
  sudo isotherm apply redis.toml --cgroup /system.slice/redis.service
  sudo isotherm apply redis.toml --cgroup /system.slice/redis.service --yes
  sudo isotherm apply redis.toml --unit redis --runtime --yes
  sudo isotherm apply redis.toml --cgroup /system.slice/redis.service --age 2m --daemon-config isotherm.toml --yes
  sudo isotherm daemon run isotherm.toml
  sudo isotherm restore")]
pub(crate) struct Args {
    /// File that `advise --config` wrote.
    #[arg(value_name = "ADVICE.toml")]
    advice: PathBuf,
    /// The control group (version 2) that the limit is for: its path, or the name of a unit of systemd or the number of a container.
    #[arg(long, value_name = "GROUP", group = "whose")]
    cgroup: Option<String>,
    /// The unit of systemd that the limit is for: redis, redis.service, redis@1.service.
    #[arg(long, value_name = "NAME", group = "whose")]
    unit: Option<String>,
    /// Keep the limit of a unit until the next reboot, in place of for good.
    #[arg(long, requires = "whose")]
    runtime: bool,
    /// Set memory.max, above which processes are killed, in place of memory.high.
    #[arg(long, requires = "whose")]
    max: bool,
    /// Switch the page-replacement policy of the whole machine to the policy of the advice.
    #[arg(long)]
    switch_policy: bool,
    /// Write the daemon's part as a configuration for `isotherm daemon run`; `-` prints it.
    #[arg(long, value_name = "FILE")]
    daemon_config: Option<PathBuf>,
    /// Age from which presets and tools over generations treat memory as cold, in place of the age that was fitted to the length of the
    /// recording.
    #[arg(long, value_name = "TIME")]
    age: Option<Duration>,
    /// DAMON has one user at a time: switch DAMON_STAT off for the module, if it has DAMON.
    #[arg(long)]
    take_damon_stat: bool,
    /// Make the writes.
    #[arg(long)]
    yes: bool,
    /// Show the writes and make none, also with --yes.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    hands: HandsArgs,
    #[command(flatten)]
    format: FormatArg,
}

/// The Multi-Gen LRU's switch; hexadecimal, as the kernel prints it.
const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Values with all of its parts on, and with none.
const ALL_ON: &str = "0x0007";
const ALL_OFF: &str = "0x0000";

/// One write.
#[derive(Clone, Debug, Serialize)]
struct Write {
    path: String,
    now: String,
    new: String,
    /// ResolvedTarget it is for.
    scope: String,
    result: &'static str,
}

impl Write {
    /// The value as the knob takes it.
    fn text(&self) -> String {
        if UnitKnob::of(&self.path).is_some() { UnitKnob::wanted(&self.new) } else { self.new.clone() }
    }
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let scenario = read(&args.advice, args.yes && !args.dry_run)?;
    make(scenario, args, ui)
}

/// Makes the limit of a recommendation that was just verified that of a group, as `--cgroup GROUP --yes` does.
pub(super) fn apply_now(scenario: Scenario, group: &str, ui: &Ui) -> Result<ExitCode, CliError> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let line = ["apply", "the advice", "--yes", "--cgroup", group];
    let Line { args } = clap::Parser::try_parse_from(line).map_err(CliError::usage)?;
    make(scenario, args, ui)
}

fn make(mut scenario: Scenario, mut args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let root = args.hands.root();
    args.cgroup = match (args.cgroup, &args.unit) {
        (Some(name), _) => Some(path_of(&root, name)?),
        (None, unit) => unit.as_ref().map(|name| unit::group_of(&root, name)).transpose()?,
    };
    let acts = args.yes && !args.dry_run;
    if let Some(age) = args.age {
        daemon_config::with_age(&mut scenario, age)?;
    }
    let mut module = module::of(&scenario, &args).filter(|_| args.daemon_config.is_none());
    refuse_what_needs_more(&scenario, &args, module.is_some())?;
    // Everything is checked before anything is written.
    let is_printed = args.daemon_config.as_deref() == Some(Path::new("-"));
    let configuration = match &args.daemon_config {
        None => None,
        Some(_) if is_printed && args.yes => {
            return Err(CliError::usage("--daemon-config - prints alone, and --yes writes: name a file"));
        }
        Some(file) => Some((file, configuration(&scenario, &args, acts)?)),
    };
    if let Some((_, (text, _))) = configuration.as_ref().filter(|_| is_printed) {
        ui.print_data(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut writes = plan(&scenario, &args, &root)?;
    if let Some(module) = &mut module {
        writes.extend(module::plan(&scenario, module, &args, &root)?);
    }
    if acts {
        let hands = hands(&root, &args.hands.journal, Use::Write)?;
        let mut hands = hands.ok_or_else(|| CliError::failed("there is no journal"))?;
        for write in &mut writes {
            let accepts = |now: &str| same_value(shown(now), &write.new);
            let Changed { was_so, .. } = hands.set("apply", &write.path, &write.text(), accepts).map_err(|error| {
                CliError::failed(format!("{error}; `isotherm restore` takes back what was written before it"))
            })?;
            write.result = if was_so { "was so already" } else { "written" };
        }
        if let Some(module) = &mut module {
            module::begins(module, &root)?;
        }
    }
    if let Some((file, (text, _))) = &configuration {
        daemon_config::write(file, text)?;
    }
    match args.format.format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&writes).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))?;
        }
        Format::Csv => ui.print_data(table(&writes).to_csv())?,
        Format::Table => ui.print_styled(&super::render(&table(&writes), Format::Table, ui))?,
    }
    if let Some((file, (_, nr_sections))) = configuration {
        let what = if acts { "which act" } else { "which observe: enable = false until --yes, or until you set it" };
        let file = file.display();
        ui.say(format_args!(
            "{file}: {nr_sections} sections, {what}; next: isotherm daemon check {file}; sudo isotherm daemon run --dry-run {file}; sudo isotherm daemon run {file}"
        ));
    }
    if module.is_some() {
        ui.say("the module treats memory of the whole machine; --daemon-config FILE keeps its schemes to the group");
    }
    if args.age.is_none() && (args.daemon_config.is_some() || module.is_some()) {
        for (name, key, age) in daemon_config::ages(&scenario) {
            ui.warn(format_args!(
                "`{name}`: `{key}` is {age}, fitted to the length of the recording; --age 2m sets another"
            ));
        }
    }
    if acts {
        ui.say("`isotherm restore` takes back what was written");
    } else {
        ui.say("no setting was written; --yes writes this list");
    }
    Ok(ExitCode::SUCCESS)
}

/// The path of a group that is named as a unit or container; what is not there now stays as it was said.
fn path_of(root: &Root, name: String) -> Result<String, CliError> {
    if name.contains('/') {
        return Ok(name);
    }
    match Hierarchy::unified(root).and_then(|hierarchy| hierarchy.group(&name)) {
        Ok(group) => Ok(group.path().to_owned()),
        Err(error @ LiveError::Refused(_)) => Err(to_cli(error)),
        Err(_) => Ok(name),
    }
}

/// The configuration for the daemon, and the number of its sections.
fn configuration(scenario: &Scenario, args: &Args, acts: bool) -> Result<(String, usize), CliError> {
    let place = args.advice.display().to_string();
    if !daemon_config::has_sections(scenario) {
        return Err(CliError::usage(format!(
            "{place} has nothing for the daemon: its limit and policy are set once, by `isotherm apply {place}` without --daemon-config"
        )));
    }
    daemon_config::text(scenario, &place, args.cgroup.as_deref(), acts)
}

/// Refuses scenarios that this command cannot apply, and names the command that can.
fn refuse_what_needs_more(scenario: &Scenario, args: &Args, has_module: bool) -> Result<(), CliError> {
    let place = args.advice.display();
    // A variant that changes nothing is the file as it is: advice compares it with the program without limits.
    let is_as_it_stands = |variant: &VariantSpec| variant.patch.is_empty();
    if !(scenario.variants.is_empty() || scenario.variants.iter().any(is_as_it_stands)) || scenario.matrix.is_some() {
        return Err(CliError::usage(format!(
            "{place} has several variants, and does not say which one is meant: leave [[variants]] and [matrix] out, and say its \
             values in the file itself"
        )));
    }
    let tables = daemon_config::section_names(scenario);
    let is_done_once = tables.is_empty() || (has_module && tables == ["[[monitors]]"]);
    if is_done_once || args.daemon_config.is_some() {
        return Ok(());
    }
    let cgroup = args.cgroup.as_deref().unwrap_or("PATH");
    Err(CliError::usage(format!(
        "{place} has {}, which a daemon has to carry out; type: isotherm apply {place} --cgroup {cgroup} --daemon-config isotherm.toml, \
         then: sudo isotherm daemon run isotherm.toml",
        tables.join(", ")
    )))
}

/// Largest file of advice, in bytes: ours take some KiB.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the file. If it changes something, no other user may be able to write it.
fn read(path: &Path, acts: bool) -> Result<Scenario, CliError> {
    let named = |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot read {}", path.display()));
    let (text, is_shared) = private_file::read(path, BYTES_MAX).map_err(named)?;
    if acts && is_shared {
        return Err(CliError::usage(format!(
            "{} can be written by others, or its folder can; a file that changes this machine must be root's, or yours, alone: \
             chmod go-w {0}",
            path.display()
        )));
    }
    parse(&text, &path.display().to_string()).map_err(CliError::usage)
}

/// The list of writes.
fn plan(scenario: &Scenario, args: &Args, root: &Root) -> Result<Vec<Write>, CliError> {
    let place = args.advice.display();
    let mut writes = Vec::new();
    let enabled = match scenario.policy.as_str() {
        "mglru" => ALL_ON,
        "classic" => ALL_OFF,
        other => {
            return Err(CliError::host_cannot(format!(
                "{place}: the policy `{other}` is no kernel's: it was simulated to compare with; allowed: classic, mglru"
            )));
        }
    };
    match value_of(root, LRU_GEN) {
        Ok(now) if args.switch_policy => writes.push(Write {
            path: LRU_GEN.to_owned(),
            now,
            new: enabled.to_owned(),
            scope: "the whole machine".to_owned(),
            result: "to be written",
        }),
        Ok(now) => {
            let runs = policy_of(&now);
            if runs != scenario.policy {
                return Err(CliError::host_cannot(format!(
                    "{place} is for the policy {}, and this machine runs {runs}: a size that is safe under one need not be under the other. \
                     Ask again with `isotherm advise --policy {runs}`, or switch the whole machine with --switch-policy",
                    scenario.policy
                )));
            }
        }
        // A kernel without it only has the two lists.
        Err(error) if error.is_missing() && enabled == ALL_OFF => {}
        Err(error) if error.is_missing() => {
            return Err(CliError::host_cannot(
                "this kernel has no Multi-Gen LRU: it needs 6.1 or newer with CONFIG_LRU_GEN",
            ));
        }
        Err(error) => return Err(to_cli(error)),
    }
    let limit = match scenario.limit {
        None => None,
        Some(Amount::Absolute(bytes)) => Some(bytes),
        Some(Amount::Share(_)) => {
            return Err(CliError::usage(format!(
                "{place}: `limit` is a share of a peak, which a live group does not have; write it in bytes"
            )));
        }
    };
    match (limit, &args.cgroup) {
        // The group comes from the daemon's sections.
        (None, _) if args.daemon_config.is_some() => {}
        // Right-sizing writes memory.high itself.
        (Some(_), _) if !scenario.limits.is_empty() && !args.max => {}
        (None, None) => {}
        (None, Some(_)) => {
            return Err(CliError::usage(format!("{place} has no `limit`: there is nothing to set in a group")));
        }
        (Some(_), None) => {
            return Err(CliError::usage(format!(
                "{place} has a `limit`: say which control group it is for, --cgroup PATH"
            )));
        }
        (Some(limit), Some(path)) => writes.extend(limit_of(root, path, limit, args)?),
    }
    Ok(writes)
}

/// The writes that limit a group, unless the group is protected or memory is guaranteed to it. That of a unit has two: the group's file
/// first, so that the reclaim that this takes holds up this program and not systemd; then the property, so that the value stays.
fn limit_of(root: &Root, path: &str, limit: Bytes, args: &Args) -> Result<Vec<Write>, CliError> {
    let hierarchy = Hierarchy::unified(root).map_err(to_cli)?;
    let group = hierarchy.group(path).map_err(to_cli)?;
    if let Some(why) = protected(group.path()) {
        return Err(CliError::usage(format!("the group {} is left alone: {why}", group.path())));
    }
    if let Some(guaranteed) = hierarchy.guaranteed(group.path(), true).map_err(to_cli)? {
        return Err(CliError::usage(format!(
            "the group {} is left alone: memory is guaranteed to {guaranteed} (memory.min or memory.low), from which a limit would take",
            group.path()
        )));
    }
    let file = if args.max { "memory.max" } else { "memory.high" };
    let now = group.limit(file).map_err(to_cli)?;
    refuse_without_room(root, &group, limit)?;
    let bytes = limit.get() / page_bytes() * page_bytes();
    let now = match now {
        Limit::Unlimited => "max".to_owned(),
        Limit::At(bytes) => bytes.get().to_string(),
    };
    let write = |path: String, now: String| Write {
        path,
        now,
        new: bytes.to_string(),
        scope: group.path().to_owned(),
        result: "to be written",
    };
    let mut writes = vec![write(group.folder().join(file).display().to_string(), now)];
    if let Some(knob) = unit::knob_of(root, group.path(), file, args.runtime)? {
        let now = property_of(root, &knob)?;
        writes.push(write(knob.path(), now));
    }
    Ok(writes)
}

/// The property as it is, unless its drop-in says other things, which could not be put back.
fn property_of(root: &Root, knob: &UnitKnob) -> Result<String, CliError> {
    let value = live::unit_value(root, knob).map_err(CliError::failed)?;
    let value = value.ok_or_else(|| CliError::failed(format!("systemd has no unit {}", knob.unit)))?;
    match knob.refusal(&value) {
        Some(words) => Err(CliError::usage(format!("{}: {words}", knob.path()))),
        None => Ok(shown(&value).to_owned()),
    }
}

/// Anonymous memory has to go somewhere.
fn refuse_without_room(root: &Root, group: &Group, limit: Bytes) -> Result<(), CliError> {
    let stat = memory_stat::read(root, group.folder()).map_err(to_cli)?;
    let anonymous = stat.get("anon").unwrap_or(0);
    let swap_free = meminfo::read(root).map_err(to_cli)?.get("SwapFree").unwrap_or(0);
    let over = anonymous.saturating_sub(limit.get());
    if over > swap_free {
        return Err(CliError::host_cannot(format!(
            "{} of the group's anonymous memory would have to go to swap, which has {} free: add swap, or allow the group more",
            Bytes::new(over).approx(),
            Bytes::new(swap_free).approx()
        )));
    }
    Ok(())
}

fn table(writes: &[Write]) -> Table {
    let mut table = Table::new("writes", ["knob", "now", "new", "for", "result"].map(Column::text).to_vec());
    for write in writes {
        let cells = [write.path.as_str(), &write.now, &write.new, &write.scope, write.result];
        table.push(cells.map(Cell::from).to_vec());
    }
    table
}
