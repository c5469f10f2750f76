//! The live host over trees of files that represent machines: gauges, zones and generations.

use isotherm_core::host::{
    Answer, Compacting, Eviction, Gauge, Gauging, Generational, HostError, Lruvec, Metric, NodeId, TargetId, ZoneId,
};
use isotherm_core::vocabulary::{Marks, Swappiness};
use isotherm_linux::{LiveHost, Root};
use std::fs;

const FILES: &[(&str, &str)] = &[
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    ),
    ("proc/pressure/cpu", "some avg10=2.50 avg60=0.00 avg300=0.00 total=9\n"),
    ("proc/meminfo", "MemTotal:    2048 kB\nMemFree:     1024 kB\n"),
    (
        "proc/vmstat",
        "nr_active_anon 1\nnr_active_file 2\nnr_inactive_anon 3\nnr_inactive_file 4\nthp_fault_alloc 5\nthp_fault_fallback 6\n",
    ),
    ("proc/buddyinfo", "Node 0, zone      DMA      1      0      1 \nNode 0, zone   Normal      3      2      1 \n"),
    (
        "proc/zoneinfo",
        "Node 0, zone      DMA\n  pages free     5\n        min      1\n        low      2\n        high     3\n        present  10\n\
         Node 0, zone   Normal\n  pages free     11\n        min      4\n        low      5\n        high     6\n        present  90\n\
         Node 0, zone  Movable\n  pages free     0\n        min      0\n        low      0\n        high     0\n        present  0\n",
    ),
    (
        "proc/pagetypeinfo",
        "Page block order: 9\nPages per block:  512\n\n\
         Free pages count per migrate type at order       0      1      2 \n\
         Node    0, zone   Normal, type      Movable      1      0      1 \n\n\
         Number of blocks type      Movable \nNode 0, zone   Normal            1 \n",
    ),
    ("proc/40/stat", "40 (kswapd0) R 2 0 0 0 -1\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  1024 kB\nNode 0 MemFree:  512 kB\n"),
    ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  1024 kB\nNode 1 MemFree:  256 kB\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
    (
        "sys/fs/cgroup/app.slice/web/memory.numa_stat",
        "anon N0=1 N1=1\nactive_anon N0=8192 N1=4096\ninactive_file N0=4096 N1=0\n",
    ),
    ("sys/fs/cgroup/app.slice/web/memory.stat", "anon 1\nworkingset_refault_anon 2\nworkingset_refault_file 3\n"),
    ("sys/fs/cgroup/app.slice/web/memory.current", "123456789\n"),
    ("sys/fs/cgroup/app.slice/web/memory.events", "low 0\nhigh 12\nmax 3\noom 0\n"),
    (
        "sys/fs/cgroup/app.slice/web/memory.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    ),
    ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
    (
        "sys/kernel/debug/lru_gen",
        "memcg     2 /app.slice/web\n node     0\n          4        300          5          6 \n          5        100          7          8 \n",
    ),
];

fn machine() -> (tempfile::TempDir, LiveHost) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = LiveHost::new(Root::below(folder.path()));
    (folder, host)
}

fn gauge(host: &mut LiveHost, gauge: Gauge) -> Result<Option<u64>, HostError> {
    let mut values = [None];
    host.gauges(&[gauge], &mut values).map(|()| values[0])
}

#[test]
fn gauges_are_read_from_their_files() {
    let (_folder, mut host) = machine();
    let memcg = host.memcg("/app.slice/web").expect("it is there");
    assert_eq!((host.memcg("/absent"), host.memcg("/../../proc")), (None, None));
    let page = 4096;
    for (asked, value) in [
        (Gauge::StallSomeUs, Some(1234)),
        (Gauge::TotalBytes(None), Some(2 << 20)),
        (Gauge::FreeBytes(Some(NodeId(1))), Some(256 << 10)),
        (Gauge::FreeBytes(Some(NodeId(7))), None),
        (Gauge::ActiveBytes, Some(3 * page)),
        (Gauge::InactiveBytes, Some(7 * page)),
        (Gauge::MemcgBytes { node: NodeId(0), memcg }, Some(12_288)),
        (Gauge::RefaultBytes { memcg }, Some(5 * page)),
        (Gauge::RefaultBytes { memcg: u64::MAX }, None),
        (Gauge::GroupBytes { memcg }, Some(123_456_789)),
        (Gauge::GroupStallSomeUs { memcg }, Some(77)),
        (Gauge::GroupHighEvents { memcg }, Some(12)),
        (Gauge::GroupHighEvents { memcg: u64::MAX }, None),
    ] {
        assert_eq!(gauge(&mut host, asked), Ok(value), "{asked:?}");
    }
    let capabilities = host.gauge_capabilities(TargetId(0));
    assert!(capabilities.free_mem_rate && capabilities.metrics.contains(&Metric::NodeMemcgUsedBp));
}

#[test]
fn what_is_missing_is_not_here() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = LiveHost::new(Root::below(folder.path()));
    for asked in [Gauge::StallSomeUs, Gauge::TotalBytes(None), Gauge::ActiveBytes, Gauge::RefaultBytes { memcg: 1 }] {
        assert!(matches!(gauge(&mut host, asked), Err(HostError::NotHere(_))), "{asked:?}");
    }
    assert_eq!(host.gauge_capabilities(TargetId(0)), Default::default());
    assert!(matches!(host.zones(&mut Vec::new()), Err(HostError::NotHere(_))));
    assert!(matches!(host.read_generations(&mut Vec::new()), Err(HostError::NotHere(_))));
    assert!(!host.generation_capabilities().read && host.generation_capabilities().missing.is_some());
}

#[test]
fn zones_with_memory_and_how_busy_a_node_is() {
    let (_folder, mut host) = machine();
    let mut zones = Vec::new();
    host.zones(&mut zones).unwrap();
    assert_eq!(zones.iter().map(|zone| zone.id.zone).collect::<Vec<_>>(), [0, 1], "the empty one is left out");
    let normal = zones[1];
    assert_eq!((normal.id, normal.present), (ZoneId { node: NodeId(0), zone: 1 }, 90));
    assert_eq!((normal.blocks.pages(), normal.marks), (11, Marks { min: 4, low: 5, high: 6 }));
    assert_eq!((normal.movable.map(|blocks| blocks.pages()), zones[0].movable), (Some(5), None));
    let signals = host.compaction_signals(NodeId(0)).unwrap();
    assert_eq!((signals.is_reclaiming, signals.huge_wanted, signals.cpu_pressure_bp), (true, 11, 250));
    assert!(!host.compaction_signals(NodeId(1)).unwrap().is_reclaiming);
}

#[test]
fn generations_are_read_and_what_a_refusing_kernel_answers_is_passed_on() {
    let (folder, mut host) = machine();
    let mut listings = Vec::new();
    host.read_generations(&mut listings).unwrap();
    assert_eq!((listings[0].path.as_str(), listings[0].rows.len()), ("/app.slice/web", 2));
    assert!(host.generation_capabilities().evict);
    // A plain file keeps the written command, which is no listing: the read-back of the eviction
    // reports that.
    let lruvec = Lruvec { memcg: 2, node: NodeId(0) };
    let order = Eviction { lruvec, min_gen_nr: 4, swappiness: Swappiness::Of(60), limit_pages: None };
    let mut answers = Vec::new();
    host.evict_generations(&[order], &mut answers);
    assert!(matches!(&answers[..], [Answer::Failed(words)] if words.contains("lru_gen")), "{answers:?}");
    assert_eq!(fs::read_to_string(folder.path().join("sys/kernel/debug/lru_gen")).unwrap(), "- 2 0 4 60");
}
