//! `isotherm compact`: compacts a node, once, down to a fragmentation level.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_core::compaction::{Budget, CompactExtfrag, Request, StartError, Why, ZoneReport};
use isotherm_core::host::{Compacting as _, NodeId, ZoneState};
use isotherm_linux::{LiveHost, Root, Stopwatch};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_units::Duration;
use serde::Serialize;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Join free memory of a node into large blocks, once, down to a level of fragmentation.
///
/// Shows by order how much free memory lies in blocks that are too small, and compacts only with --yes: zones that are above --high, until
/// they are at --low. The kernel compacts a whole node and has no level, so a separate process does it, and is ended at the mark. Pages in
/// use move, and who touches one on its way waits for it. It leaves no change that `isotherm restore` would have to undo. Exit code 4: a
/// zone is still above --low.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm compact
  sudo isotherm compact --yes
  sudo isotherm compact --node 1 --order 4 --high 50 --low 20 --budget 10s --yes")]
pub(crate) struct Args {
    /// Number of the NUMA node.
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    node: u32,
    /// log2 of the pages of a block: 9 is a huge page of 2 MiB.
    #[arg(long, value_name = "ORDER", default_value_t = 9)]
    order: u32,
    /// Compact a zone if more of its free memory than this lies in smaller blocks, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 30)]
    high: u32,
    /// And until it is no more than this, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 25)]
    low: u32,
    /// Go on no longer than this.
    #[arg(long, value_name = "TIME")]
    budget: Option<Duration>,
    /// Compact.
    #[arg(long)]
    yes: bool,
    /// Show the present state and compact nothing, also with --yes.
    #[arg(long)]
    dry_run: bool,
    /// Work on a tree of files in place of this machine.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
    /// Only write to this file, as a process of the daemon or of this verb.
    #[arg(long, value_name = "FILE", hide = true)]
    only_write: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// This command as the process that compacts: the path of the file follows.
pub(crate) const COMPACTOR: &[&str] = &["compact", "--only-write"];
/// Time between two reads of the progress.
const POLL: Duration = Duration::from_ms(20);

/// An order of a node.
#[derive(Debug, Serialize)]
struct Row {
    node: u32,
    order: usize,
    /// Blocks that are free, or are had by splitting larger ones.
    blocks: u64,
    /// Free memory in smaller blocks, percent.
    extfrag: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extfrag_after: Option<u32>,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if let Some(file) = &args.only_write {
        return only_write(file);
    }
    let mut host = LiveHost::new(args.root.clone().map_or_else(Root::default, Root::below));
    let program =
        std::env::current_exe().map_err(|error| CliError::failed(error).while_doing("cannot find this program"))?;
    host.use_compactor(program, COMPACTOR);
    let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
    let budget = Budget { wall: args.budget, ..Budget::default() };
    let request = Request { budget, ..Request::new(args.node, None, args.order, args.high, args.low) };
    let work = CompactExtfrag::new(request, clock.now(), &mut host);
    let mut work = work.map_err(|refused| match refused {
        StartError::Request(error) => CliError::usage(error),
        other => CliError::host_cannot(other),
    })?;
    let before = zones(&mut host, args.node)?;
    let acts = args.yes && !args.dry_run;
    if !acts {
        show(&rows(args.node, &before, None), args.format.format, ui)?;
        let high = before.iter().filter(|zone| zone.blocks.extfrag(args.order) > args.high).count();
        ui.say(match high {
            0 => format!("no zone is above {}%: there is nothing to do", args.high),
            _ => format!("{high} zones are above {}%; nothing was compacted: --yes compacts them", args.high),
        });
        return Ok(ExitCode::SUCCESS);
    }
    while let Some(due) = work.poll_timeout() {
        if clock.is_ending() {
            work.cancel();
        }
        let stepped = work.handle_timeout(due.max(clock.now()), &mut host);
        stepped.map_err(CliError::host_cannot)?;
        clock.sleep_until(clock.now() + POLL);
    }
    // An exhausted budget ends the request, but not the kernel's work.
    host.cease(NodeId(args.node));
    let after = zones(&mut host, args.node)?;
    show(&rows(args.node, &before, Some(&after)), args.format.format, ui)?;
    for ZoneReport { zone, why, extfrag_before, extfrag_after, work } in work.reports() {
        let (moved, freed) = (work.pages_moved, work.blocks_freed);
        ui.say(format_args!(
            "{zone}: {extfrag_before}% before, {extfrag_after}% now, {moved} pages moved, {freed} huge pages more: {why}"
        ));
    }
    let is_short = |report: &&ZoneReport| report.why != Why::AlreadyBelowHigh && report.extfrag_after > args.low;
    match work.reports().iter().filter(is_short).count() {
        0 => Ok(ExitCode::SUCCESS),
        short => Err(CliError::partial(format!("{short} zones are still above {}%", args.low))),
    }
}

/// The process that compacts: the write blocks until the whole node was gone through. It ends with its parent.
fn only_write(file: &Path) -> Result<ExitCode, CliError> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(CliError::failed)?;
    if rustix::process::getppid() != parent {
        return Err(CliError::failed("the process that asked for it has ended"));
    }
    let failed = |error| CliError::failed(error).while_doing(format!("cannot write {}", file.display()));
    let mut knob = std::fs::OpenOptions::new().write(true).open(file).map_err(failed)?;
    knob.write_all(b"1").map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn zones(host: &mut LiveHost, node: u32) -> Result<Vec<ZoneState>, CliError> {
    let mut zones = Vec::new();
    host.zones(&mut zones).map_err(CliError::host_cannot)?;
    zones.retain(|zone| zone.id.node.0 == node);
    Ok(zones)
}

/// Free blocks of all zones together, and the share of free memory that lies in smaller ones.
fn of_order(zones: &[ZoneState], order: u32) -> (u64, u32) {
    let blocks = zones.iter().map(|zone| zone.blocks.suitable(order)).fold(0, u64::saturating_add);
    let free = zones.iter().map(|zone| zone.blocks.pages()).fold(0, u64::saturating_add);
    let small = u128::from(free.saturating_sub(blocks << order)) * 100;
    (blocks, small.checked_div(u128::from(free)).and_then(|share| u32::try_from(share).ok()).unwrap_or(0))
}

fn rows(node: u32, before: &[ZoneState], after: Option<&[ZoneState]>) -> Vec<Row> {
    let orders = before.iter().map(|zone| zone.blocks.orders()).max().unwrap_or(0);
    let row = |order: u32| {
        let (blocks, extfrag) = of_order(before, order);
        let after = after.map(|zones| of_order(zones, order));
        let (blocks_after, extfrag_after) = (after.map(|after| after.0), after.map(|after| after.1));
        Row { node, order: order as usize, blocks, extfrag, blocks_after, extfrag_after }
    };
    (0..orders).map(row).collect()
}

fn show(rows: &[Row], format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(rows).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(table(rows).to_csv()),
        Format::Table => ui.print_styled(&super::render(&table(rows), Format::Table, ui)),
    }
}

fn table(rows: &[Row]) -> Table {
    let is_after = rows.iter().any(|row| row.blocks_after.is_some());
    let count = |name: &str| Column::number(name, Unit::Count);
    let mut columns = ["node", "order", "free blocks", "in smaller, %"].map(count).to_vec();
    if is_after {
        columns.extend(["free blocks after", "in smaller after, %"].map(count));
    }
    let mut table = Table::new("fragmentation", columns);
    for row in rows {
        let numbers = [u64::from(row.node), row.order as u64, row.blocks, u64::from(row.extfrag)];
        let after = [row.blocks_after, row.extfrag_after.map(u64::from)];
        let cells = numbers.into_iter().chain(after.into_iter().flatten());
        table.push(cells.map(Cell::from).collect());
    }
    table
}
