//! Compaction by the live host, over trees of files for machines with one and two nodes.

use isotherm_core::compaction::{Budget, CompactExtfrag, Request, Why, ZoneReport};
use isotherm_core::host::conformance;
use isotherm_core::host::{CompactEnd, CompactMode, CompactStep, Compacting, HostError, NodeId, Stop, ZoneId};
use isotherm_linux::{LiveHost, Root};
use isotherm_units::{Duration, Instant};
use std::fs;
use std::path::{Path, PathBuf};

/// 1024 single free pages and one huge page, on each of `nodes` nodes.
fn scattered(nodes: u32) -> String {
    (0..nodes).map(|node| format!("Node {node}, zone   Normal   1024 0 0 0 0 0 0 0 0 1 0\n")).collect()
}

/// The same memory in three huge pages.
fn joined(nodes: u32) -> String {
    (0..nodes).map(|node| format!("Node {node}, zone   Normal   0 0 0 0 0 0 0 0 0 3 0\n")).collect()
}

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(nodes: u32) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let zone = |node| {
            format!(
                "Node {node}, zone   Normal\n  pages free     1536\n        min      10\n        low      12\n        high     14\n        \
                 present  90000\n"
            )
        };
        machine.write("proc/zoneinfo", &(0..nodes).map(zone).collect::<String>());
        machine.write("proc/buddyinfo", &scattered(nodes));
        machine.write("joined", &joined(nodes));
        machine.write("proc/vmstat", "pgmigrate_success 100\ncompact_migrate_scanned 5\n");
        machine.write("vmstat", "pgmigrate_success 900\ncompact_migrate_scanned 2005\n");
        for node in 0..nodes {
            machine.write(&format!("sys/devices/system/node/node{node}/compact"), "");
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    /// A host that compacts by a script, whose `$0` is the file.
    fn host(&self, script: &str) -> LiveHost {
        let mut host = LiveHost::new(Root::below(self.folder.path()));
        let script = format!("cd {}; echo $$ > pid; printf 1 > \"$0\"; {script}", self.folder.path().display());
        host.use_compactor("/bin/sh", &["-c", &script]);
        host
    }

    fn is_running(&self) -> bool {
        let pid = fs::read_to_string(self.path("pid")).unwrap_or_default();
        !pid.trim().is_empty() && Path::new("/proc").join(pid.trim()).exists()
    }

    fn written(&self, node: u32) -> String {
        fs::read_to_string(self.path(&format!("sys/devices/system/node/node{node}/compact"))).unwrap()
    }
}

fn reports(host: &mut LiveHost, request: Request) -> Result<Vec<ZoneReport>, HostError> {
    let start = std::time::Instant::now();
    let now = || Instant::START + Duration::from_ns(u64::try_from(start.elapsed().as_nanos()).unwrap());
    let mut work = CompactExtfrag::new(request, now(), host).unwrap();
    while work.poll_timeout().is_some() {
        assert!(start.elapsed().as_secs() < 60, "it never ends");
        work.handle_timeout(now(), host)?;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(work.reports().to_vec())
}

const JOINS: &str = "mv vmstat proc/vmstat; mv joined proc/buddyinfo";

#[test]
fn it_is_ended_at_the_mark() {
    let machine = Machine::new(2);
    let mut host = machine.host(&format!("{JOINS}; exec sleep 600"));
    let reports = reports(&mut host, Request::new(1, None, 9, 30, 25)).unwrap();
    let [report] = reports.as_slice() else { panic!("one zone: {reports:?}") };
    assert_eq!((report.why, report.extfrag_before, report.extfrag_after), (Why::ReachedLow, 66, 0));
    assert_eq!((report.work.blocks_freed, report.work.pages_moved, report.work.scanned_migrate), (2, 800, 2000));
    assert_eq!((machine.written(0).as_str(), machine.written(1).as_str()), ("", "1"), "the other node is left alone");
    assert!(!machine.is_running(), "it would go on to the end of the node");
}

#[test]
fn a_node_that_was_gone_through_is_over() {
    let machine = Machine::new(1);
    let mut host = machine.host("true");
    let reports = reports(&mut host, Request::new(0, None, 9, 30, 25)).unwrap();
    assert_eq!((reports[0].why, reports[0].extfrag_after), (Why::ScannersMet, 66));
    assert_eq!(machine.written(0), "1");
}

#[test]
fn budgets_and_a_host_that_is_dropped_end_it() {
    let machine = Machine::new(1);
    let mut host = machine.host("exec sleep 600");
    let budget = Budget { wall: Some(Duration::from_ms(200)), ..Budget::default() };
    let reports = reports(&mut host, Request { budget, ..Request::new(0, None, 9, 30, 25) }).unwrap();
    assert!(matches!(reports[0].why, Why::Budget(_)), "{reports:?}");
    assert!(machine.is_running(), "who asked has to say so");
    host.cease(NodeId(0));
    assert!(!machine.is_running());
    host.compact(&step(0, true)).unwrap();
    drop(host);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!machine.is_running());
}

fn step(node: u32, is_first: bool) -> CompactStep {
    CompactStep {
        zone: ZoneId { node: NodeId(node), zone: 0 },
        is_first,
        mode: CompactMode::SyncLight,
        stop: Stop::Order { order: 9, low: 25 },
        counts_in_flight: false,
        stops_for_reclaim: true,
        max_scanned: 4096,
        max_moved: u64::MAX,
    }
}

#[test]
fn what_cannot_be_is_told() {
    let machine = Machine::new(1);
    let mut host = machine.host("exit 3");
    let refused = reports(&mut host, Request::new(0, None, 9, 30, 25)).unwrap_err().to_string();
    assert!(refused.contains("could not be written") && refused.contains("exit status: 3"), "{refused}");
    assert!(matches!(host.compact(&step(7, true)), Err(HostError::Failed(_))), "no such node");
    let end = host.compact(&step(0, false)).unwrap().end;
    assert_eq!(end, Some(CompactEnd::Contended), "nobody began");
    machine.write("proc/40/stat", "40 (kswapd0) R 2 0 0 0 -1\n");
    let mut host = machine.host("exec sleep 600");
    assert_eq!(host.compact(&step(0, true)).unwrap().end, Some(CompactEnd::Reclaiming));
    fs::remove_file(machine.path("sys/devices/system/node/node0/compact")).unwrap();
    assert!(matches!(machine.host("true").compact(&step(0, true)), Err(HostError::NotHere(_))));
    let mut unable = LiveHost::new(Root::below(machine.folder.path()));
    assert!(matches!(unable.compact(&step(0, true)), Err(HostError::NotHere(_))));
}

#[test]
fn it_keeps_the_contract() {
    for nodes in [1, 2] {
        let machine = Machine::new(nodes);
        machine.write("proc/buddyinfo", &joined(nodes));
        conformance::compacting(&mut machine.host("true")).assert_none();
        conformance::compacting(&mut LiveHost::new(Root::below(machine.folder.path()))).assert_none();
    }
}
