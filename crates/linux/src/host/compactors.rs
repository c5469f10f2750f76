//! Processes of our own that compact a node: the write blocks until the whole node was scanned, and only SIGKILL ends it earlier
//! (docs/spec/compaction.md#s7-2). So the loop never waits for it.

use super::compacting::{free_zones, is_kswapd_working};
use crate::counters::vmstat;
use crate::{LiveError, Root, sys};
use isotherm_core::host::{CompactEnd, CompactStep, Compacted, Granularity, NodeId, ZoneId, ZoneState};
use isotherm_core::vocabulary::HUGE_ORDER;
use isotherm_units::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration as Wait, Instant};

/// Time for which a compaction of a whole node also counts for its other zones.
const FRESH: Wait = Wait::from_secs(2);
/// Longest wait for a killed process. It may be stuck in I/O; then it is left to end by itself.
const DYING: Wait = Wait::from_millis(100);

/// The program that compacts: its last argument is the path of the file to write to.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

/// Compacting processes, at most one for each node.
#[derive(Debug, Default)]
pub(super) struct Compactors {
    program: Option<Program>,
    running: BTreeMap<NodeId, Running>,
    /// Processes that were killed and have not ended yet.
    dying: Vec<(NodeId, Child)>,
    /// Other zones of a node that was just compacted.
    covered: BTreeMap<NodeId, (Instant, BTreeSet<ZoneId>)>,
    kswapd: BTreeMap<NodeId, (Instant, bool)>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    seen: Seen,
    /// CPU time used at the last check.
    cpu_ns: u64,
    /// Largest number of free huge pages of the zone so far.
    huge_most: u64,
}

/// Counters at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    moved: u64,
    scanned_migrate: u64,
    scanned_free: u64,
}

/// The file that compacts a node; on a kernel without NUMA, the file for the machine.
pub(super) fn file_of(root: &Root, node: NodeId) -> String {
    let file = format!("/sys/devices/system/node/node{}/compact", node.0);
    if node == NodeId(0) && !root.has("/sys/devices/system/node") {
        "/proc/sys/vm/compact_memory".to_owned()
    } else {
        file
    }
}

/// Counters of the whole machine. Work of kcompactd does not count as ours.
fn look(root: &Root) -> Result<Seen, LiveError> {
    let events = vmstat::read(root)?;
    let get = |name| events.get(name).unwrap_or(0);
    Ok(Seen {
        moved: get("pgmigrate_success"),
        scanned_migrate: get("compact_migrate_scanned").saturating_sub(get("compact_daemon_migrate_scanned")),
        scanned_free: get("compact_free_scanned").saturating_sub(get("compact_daemon_free_scanned")),
    })
}

impl Compactors {
    pub(super) fn set_program(&mut self, path: PathBuf, arguments: Vec<OsString>) {
        self.program = Some(Program { path, arguments });
    }

    pub(super) fn granularity(&self, root: &Root) -> Option<Granularity> {
        let is_there = self.program.is_some() && root.has(file_of(root, NodeId(0)));
        is_there.then_some(Granularity::Node)
    }

    /// Checks the progress of a compaction.
    pub(super) fn step(&mut self, root: &Root, step: &CompactStep) -> Result<Compacted, LiveError> {
        let node = step.zone.node;
        let states = free_zones(root)?;
        let Some(state) = states.iter().find(|state| state.id == step.zone) else {
            return Err(LiveError::Refused(format!("there is no {}", step.zone)));
        };
        let is_reached = step.stop.is_reached(&state.blocks, 0);
        let over = |end| Ok(Compacted { end: Some(end), ..Compacted::default() });
        if step.is_first {
            self.cease(node);
            if is_reached {
                return over(CompactEnd::Reached);
            }
            if step.stops_for_reclaim && self.is_reclaiming(root, node) {
                return over(CompactEnd::Reclaiming);
            }
            if self.is_covered(step.zone) {
                return over(CompactEnd::ScannersMet);
            }
            if self.is_dying(node) {
                return over(CompactEnd::Contended);
            }
            self.begin(root, state)?;
            return Ok(Compacted::default());
        }
        let is_reclaiming = step.stops_for_reclaim && self.is_reclaiming(root, node);
        let Some(running) = self.running.get_mut(&node) else { return over(CompactEnd::Contended) };
        // After the wait, nothing is known about an ended process.
        let cpu = sys::cpu_time_of(running.child.id()).map_or(running.cpu_ns, Duration::ns);
        let spent = cpu.saturating_sub(std::mem::replace(&mut running.cpu_ns, cpu));
        let file = || root.path(file_of(root, node));
        let ended = running.child.try_wait().map_err(|error| LiveError::io("compact by", &file(), error))?;
        let end = match ended {
            _ if is_reached => Some(CompactEnd::Reached),
            Some(status) if status.success() => Some(CompactEnd::ScannersMet),
            Some(status) => {
                self.running.remove(&node);
                return Err(LiveError::Refused(format!(
                    "{} could not be written ({status}): it needs root",
                    file_of(root, node)
                )));
            }
            None if is_reclaiming => Some(CompactEnd::Reclaiming),
            None => None,
        };
        if end == Some(CompactEnd::ScannersMet) {
            let others = states.iter().map(|state| state.id).filter(|id| id.node == node && *id != step.zone);
            self.covered.insert(node, (Instant::now(), others.collect()));
        }
        let (before, huge_most) = (running.seen, running.huge_most);
        // The kernel adds up scanned pages when it leaves a zone, so the process is ended first.
        if end.is_some() {
            self.cease(node);
        }
        let now = look(root)?;
        let huge = state.blocks.suitable(HUGE_ORDER);
        let work = Compacted {
            end,
            pages_moved: now.moved.saturating_sub(before.moved),
            scanned_migrate: now.scanned_migrate.saturating_sub(before.scanned_migrate),
            scanned_free: now.scanned_free.saturating_sub(before.scanned_free),
            blocks_freed: huge.saturating_sub(huge_most),
            cpu: Duration::from_ns(spent),
            ..Compacted::default()
        };
        if let Some(running) = self.running.get_mut(&node) {
            running.seen = now;
            running.huge_most = huge_most.max(huge);
            if work.pages_moved >= step.max_moved {
                // The budget is exhausted; the caller sees that at the next step.
                self.cease(node);
            }
        }
        Ok(work)
    }

    fn begin(&mut self, root: &Root, state: &ZoneState) -> Result<(), LiveError> {
        let node = state.id.node;
        let file = root.path(file_of(root, node));
        let Some(program) = &self.program else {
            return Err(LiveError::Refused("nobody said which program compacts".to_owned()));
        };
        if !file.exists() {
            return Err(LiveError::io("open", &file, std::io::ErrorKind::NotFound.into()));
        }
        let seen = look(root)?;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(&file);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = spawned.map_err(|error| LiveError::io("start", &program.path, error))?;
        let huge_most = state.blocks.suitable(HUGE_ORDER);
        self.running.insert(node, Running { child, seen, cpu_ns: 0, huge_most });
        Ok(())
    }

    /// Ends the process of a node, if there is one.
    pub(super) fn cease(&mut self, node: NodeId) {
        let Some(mut running) = self.running.remove(&node) else { return };
        // It may have ended already.
        let _ = running.child.kill();
        let since = Instant::now();
        while since.elapsed() < DYING {
            if !matches!(running.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Wait::from_millis(1));
        }
        self.dying.push((node, running.child));
    }

    fn is_dying(&mut self, node: NodeId) -> bool {
        self.dying.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        self.dying.iter().any(|(other, _)| *other == node)
    }

    /// Whether a zone was just compacted together with another one of its node. Reported once.
    fn is_covered(&mut self, zone: ZoneId) -> bool {
        let Some((at, zones)) = self.covered.get_mut(&zone.node) else { return false };
        at.elapsed() < FRESH && zones.remove(&zone)
    }

    fn is_reclaiming(&mut self, root: &Root, node: NodeId) -> bool {
        // A check reads all processes.
        const KEPT: Wait = Wait::from_millis(500);
        let (at, is_so) = self.kswapd.entry(node).or_insert_with(|| (Instant::now(), is_kswapd_working(root, node)));
        if at.elapsed() >= KEPT {
            (*at, *is_so) = (Instant::now(), is_kswapd_working(root, node));
        }
        *is_so
    }
}

impl Drop for Compactors {
    fn drop(&mut self) {
        let nodes: Vec<NodeId> = self.running.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.cease(node));
    }
}
