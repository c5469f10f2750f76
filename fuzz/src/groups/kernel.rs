//! Texts of kernels in `/proc` and `/sys`: each by itself, and machines as trees of files.

use crate::target::{Scratch, Target, text};
use isotherm_core::host::{
    AddressRange, Compacting as _, Gauge, Gauging as _, Generational as _, Mappings as _, NodeId, TargetId,
    Tiering as _,
};
use isotherm_linux::cgroup::Hierarchy;
use isotherm_linux::counters::nodes;
use isotherm_linux::doctor::{Context, examine};
use isotherm_linux::knobs::value_of;
use isotherm_linux::{Family, LiveError, LiveHost, LiveTarget, Process, Root, damon, lru_gen, maps, pagemap, smaps};
use isotherm_texts::free_text::FreeText;
use isotherm_texts::min_ttl::MinTtl;
use isotherm_texts::{Counters, buddyinfo, meminfo, numa_stat, pressure, swaps, zoneinfo};
use std::path::{Component, Path};

const ZONES: &[&str] =
    &["Node 0, zone   Normal", "  pages free     3840", "high", "promo", "managed", "protection: (0, 3154)", "cpu: 0"];
const BLOCKS: &[&str] =
    &["Node 0, zone   Normal", "Page block order: 9", "type      Movable", ">100000", "Number of blocks type"];
const COUNTS: &[&str] = &["MemTotal:", " kB", "nr_free_pages", "N0=4096", "max", "workingset_refault_anon"];
const STALLS: &[&str] = &["some avg10=", "full avg10=", "avg60=", "avg300=", "total=", "100.00"];
const MAPS: &[&str] = &["r-xp", "---p", "[heap]", "[stack]", "fe:00", "-", "/usr/bin/x (deleted)", "ffffffffff600000"];
const SMAPS: &[&str] = &["Rss:", "Referenced:", "VmFlags:", "rd ex mr", " kB", "ProtectionKey:", "FilePmdMapped:"];
const GENERATIONS: &[&str] =
    &["memcg     1 /", " node     0", "          0      67023       1024          9 ", "-3", "0x0007", "y"];
const TREE: &[&str] = &[
    "=== /proc/swaps\n",
    "=== /proc/1/stat\n",
    "=== /sys/kernel/mm/damon/admin/kdamonds/0/state\n",
    "on",
    "[always] madvise never",
];

/// The process that trees have for targets of one file.
const PID: u32 = 812;
const STAT: &[u8] = include_bytes!("../../../crates/linux/tests/trees/6.12/proc/812/stat");

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "buddyinfo",
        reaches: "texts buddyinfo, free_text",
        words: BLOCKS,
        run: |_, input| {
            let _ = FreeText::parse(&text(input));
            if let Ok(zones) = buddyinfo::parse(&text(input)) {
                let printed = buddyinfo::write(&zones);
                assert_eq!(buddyinfo::parse(&printed).as_ref(), Ok(&zones), "printed as\n{printed}");
            }
        },
    },
    Target {
        name: "pagetypeinfo",
        reaches: "texts pagetypeinfo, free_text",
        words: BLOCKS,
        run: |_, input| drop(FreeText::parse(&text(input))),
    },
    Target {
        name: "zoneinfo",
        reaches: "texts zoneinfo, linux host",
        words: ZONES,
        run: |scratch, input| {
            let _ = zoneinfo::parse(&text(input));
            scratch.file("proc/zoneinfo", input);
            ask_host(&mut LiveHost::new(Root::below(scratch.folder())));
        },
    },
    Target {
        name: "meminfo",
        reaches: "texts Counters, meminfo, numa_stat",
        words: COUNTS,
        run: |_, input| {
            let text = text(input);
            for counters in [meminfo::parse(&text).ok(), Counters::parse(&text).ok()].into_iter().flatten() {
                let names: Vec<&str> = counters.iter().map(|(name, _)| name).collect();
                counters.sum(&names);
            }
            let _ = numa_stat::parse(&text);
        },
    },
    Target {
        name: "swaps",
        reaches: "texts swaps (swaps, mm_stat of zram)",
        words: &["/dev/zram0", "partition", "file", "\\040", "-2"],
        run: |_, input| {
            let text = text(input);
            let _ = swaps::parse(&text).map(|swaps| swaps.iter().filter_map(|swap| swap.zram()).count());
            let _ = swaps::parse_zram(&text);
        },
    },
    Target {
        name: "pressure",
        reaches: "texts pressure",
        words: STALLS,
        run: |_, input| drop(pressure::parse(&text(input))),
    },
    Target {
        name: "lru-gen",
        reaches: "texts lru_gen, min_ttl, linux lru_gen",
        words: GENERATIONS,
        run: |scratch, input| {
            let text = text(input);
            if let Ok(listings) = isotherm_texts::lru_gen::parse(&text) {
                lru_gen::lruvecs(&listings, "/", Some(1));
                let printed = isotherm_texts::lru_gen::write(&listings);
                assert_eq!(isotherm_texts::lru_gen::parse(&printed).as_ref(), Ok(&listings), "printed as\n{printed}");
            }
            let _ = MinTtl::parse(&text);
            scratch.file("sys/kernel/mm/lru_gen/enabled", input);
            scratch.file("sys/kernel/mm/lru_gen/min_ttl_ms", input);
            let root = Root::below(scratch.folder());
            let _ = (lru_gen::enabled(&root), lru_gen::min_ttl_ms(&root));
        },
    },
    Target {
        name: "proc-maps",
        reaches: "texts maps, linux host",
        words: MAPS,
        run: |scratch, input| with_process(scratch, "maps", input),
    },
    Target {
        name: "proc-smaps",
        reaches: "texts smaps, linux smaps",
        words: SMAPS,
        run: |scratch, input| with_process(scratch, "smaps", input),
    },
    Target {
        name: "proc-stat",
        reaches: "texts stat, linux Process, Family",
        words: &["(", ")", "Z", "S 1", "18446744073709551615"],
        run: |scratch, input| with_process(scratch, "stat", input),
    },
    Target {
        name: "proc-pagemap",
        reaches: "linux pagemap",
        words: &[],
        run: |scratch, input| with_process(scratch, "pagemap", input),
    },
    Target {
        name: "cgroup",
        reaches: "texts cgroup, linux cgroup::{Hierarchy, Group}, Family",
        words: &["max", "812\n", "0\n", "4096"],
        run: |scratch, input| {
            for file in ["cgroup.procs", "memory.current", "memory.high", "memory.stat"] {
                scratch.file(&format!("sys/fs/cgroup/app/{file}"), input);
            }
            scratch.file("sys/fs/cgroup/cgroup.controllers", b"memory cpu\n");
            let root = Root::below(scratch.folder());
            let Ok(hierarchy) = Hierarchy::find(&root) else { return };
            let _ = (hierarchy.matching(&text(input)), hierarchy.group(&text(input)));
            if let Ok(group) = hierarchy.group("/app") {
                let _ = (group.processes(), group.current(), group.bytes("memory.high"), group.limit("memory.high"));
            }
            let _ = Family::of_group(&root, "/app");
        },
    },
    Target {
        name: "knob",
        reaches: "linux Root::value, knobs::value_of",
        words: &["[", "]", "always [madvise] never", "0x0007"],
        run: |scratch, input| {
            scratch.file("knob", input);
            let root = Root::below(scratch.folder());
            let _ = (value_of(&root, "/knob"), root.value::<u64>("/knob"), root.value::<i64>("/knob"));
        },
    },
    Target {
        name: "machine",
        reaches: "linux doctor, damon, counters::nodes, LiveHost (trees of files)",
        words: TREE,
        run: machine,
    },
];

/// A process with one file replaced in an otherwise real tree.
fn with_process(scratch: &Scratch, file: &str, input: &[u8]) {
    let place = |file: &str| format!("proc/{PID}/{file}");
    for (name, bytes) in [("stat", STAT), ("pagemap", &[][..]), ("maps", &[])] {
        scratch.file(&place(name), if name == file { input } else { bytes });
    }
    scratch.file(&place(file), input);
    let root = Root::below(scratch.folder());
    let _ = Family::of_process(&root, PID);
    let Ok(process) = Process::open(&root, PID) else { return };
    let _ = (maps(&process), smaps(&process), process.life(), process.major_faults());
    for (start, end) in [(0, 1 << 20), (u64::MAX - 8192, u64::MAX), (1 << 63, (1 << 63) + 1)] {
        let _ = pagemap(&process, AddressRange { start, end });
    }
    let mut host = LiveHost::new(root);
    host.add(TargetId(1), LiveTarget::Process(process));
    let _ = host.mappings(TargetId(1), &mut Vec::new());
    let _ = host.areas(TargetId(1), &mut Vec::new());
    ask_host(&mut host);
}

/// The queries of the live loop.
fn ask_host(host: &mut LiveHost) {
    let node = Some(NodeId(0));
    let gauges = [
        Gauge::StallSomeUs,
        Gauge::TotalBytes(None),
        Gauge::TotalBytes(node),
        Gauge::FreeBytes(None),
        Gauge::FreeBytes(node),
        Gauge::ActiveBytes,
        Gauge::InactiveBytes,
    ];
    for gauge in gauges {
        let _ = host.gauges(&[gauge], &mut [None]);
    }
    let _ = host.zones(&mut Vec::new());
    let _ = host.compaction_signals(NodeId(0));
    let _ = host.node_memory(NodeId(0));
    let _ = host.spaces(&mut Vec::new());
    host.tiering_capabilities();
    host.generation_capabilities();
    let _ = host.read_generations(&mut Vec::new());
}

/// A whole machine: `=== PATH`, then the text of that file, as in the doctor's tests.
fn machine(scratch: &Scratch, input: &[u8]) {
    let folder = scratch.folder().join("machine");
    let _ = std::fs::remove_dir_all(&folder);
    for section in text(input).split("=== ").skip(1).take(200) {
        let (path, content) = section.split_once('\n').unwrap_or((section, ""));
        let _ = put(&folder, path, content.replace("\\0", "\0").as_bytes());
    }
    let root = Root::below(&folder);
    for finding in examine(&Context {
        root: &root,
        child: None,
        models: &["6.12", "7.2"],
        undo: |_| Err(LiveError::Refused("nothing is changed here".to_owned())),
    }) {
        assert!(!finding.name.is_empty());
    }
    let _ = (damon::operations(&root), damon::users(&root));
    if let (Ok(nodes), Ok(tiers)) = (nodes::read(&root), nodes::tiers(&root)) {
        nodes::demotion_targets(&nodes, &tiers, NodeId(0));
    }
    ask_host(&mut LiveHost::new(root));
}

/// A file below the folder; paths that would leave it are skipped.
fn put(folder: &Path, path: &str, content: &[u8]) -> std::io::Result<()> {
    let mut place = folder.to_owned();
    for part in Path::new(path.trim()).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::RootDir => {}
            _ => return Ok(()),
        }
    }
    if let Some(parent) = place.parent().filter(|parent| parent.starts_with(folder)) {
        std::fs::create_dir_all(parent)?;
        std::fs::write(place, content)?;
    }
    Ok(())
}
