//! Files of our own: page traces, region records, group records; and records and configurations of damo.

use crate::target::{Scratch, Target, text};
use isotherm_trace::fuzzing::{Kind, write_with_metadata};
use isotherm_trace::group::{GroupReader, Look};
use isotherm_trace::region::RegionStore;
use isotherm_trace::region::kdamonds::{parse_kdamonds, print_kdamonds};
use isotherm_trace::{RowBatch, TraceError, TraceReader};
use std::path::Path;

/// Rows, snapshots and samples that are read from one input: a few bytes can encode very many of them.
const ROWS_MAX: usize = 1 << 18;

const PARQUET: &[&str] = &["PAR1", "isotherm", "trace", "time_ns", "\x15\x00", "\x19\x1c", "(\u{b5}/\u{fd}"];
const IPC: &[&str] = &["ARROW1", "isotherm", "time_ns", "pages", "notes", "{\"remark\":", "\u{0}\u{0}\u{0}\u{0}"];
const TRACE_KEYS: &[&str] = &[
    "format_version",
    "page_bytes",
    "epoch_ns",
    "processes",
    "threads",
    "events",
    "kind",
    "start",
    "end",
    "map",
    "unmap",
    "thread",
    "forked_from",
    "started_by",
    "clock",
    "rows",
];
const RECORD_KEYS: &[&str] = &[
    "record_version",
    "contexts",
    "targets",
    "intervals",
    "sample_ns",
    "aggregate_ns",
    "snapshots",
    "notes",
    "probes",
];
const DAMO: &[&str] = &[
    "kdamonds",
    "contexts",
    "ops",
    "vaddr",
    "paddr",
    "targets",
    "intervals",
    "sample_us",
    "5 ms",
    "min",
    "max",
    "schemes",
    "action",
    "access_pattern",
    "nr_accesses",
    "quotas",
    "max sz",
];
const DAMO_TEXT: &[&str] =
    &["damon_aggregated:", "damon_region_aggregated:", "target_id=0", "nr_regions=3", "4096-8192: 3 0", "probe_hits="];

pub(super) const TARGETS: &[Target] = &[
    Target { name: "page-trace", reaches: "isotherm_trace::TraceReader (Parquet)", words: PARQUET, run: page_trace },
    Target {
        name: "page-trace-stream",
        reaches: "isotherm_trace::TraceReader (Arrow IPC)",
        words: IPC,
        run: page_trace,
    },
    Target {
        name: "page-trace-metadata",
        reaches: "isotherm_trace::TraceMeta (JSON)",
        words: TRACE_KEYS,
        run: |scratch, input| {
            let path = scratch.folder().join("trace");
            if write_with_metadata(&path, Kind::Trace, &text(input)).is_ok() {
                let _ = read_trace(&path);
            }
        },
    },
    Target {
        name: "region-record",
        reaches: "isotherm_trace::region::RegionReader (Parquet)",
        words: PARQUET,
        run: region_record,
    },
    Target {
        name: "region-record-stream",
        reaches: "isotherm_trace::region::RegionReader (Arrow IPC)",
        words: IPC,
        run: region_record,
    },
    Target {
        name: "region-record-metadata",
        reaches: "isotherm_trace::region::RecordMeta (JSON)",
        words: RECORD_KEYS,
        run: |scratch, input| {
            let path = scratch.folder().join("record");
            if write_with_metadata(&path, Kind::Regions, &text(input)).is_ok() {
                read_record(&path);
            }
        },
    },
    Target {
        name: "group-record",
        reaches: "isotherm_trace::group::GroupReader (Parquet, Arrow IPC)",
        words: PARQUET,
        run: |scratch, input| {
            let _ = read_group(&scratch.file("group", input));
        },
    },
    Target {
        name: "group-record-metadata",
        reaches: "isotherm_trace::group::GroupMeta (JSON)",
        words: RECORD_KEYS,
        run: |scratch, input| {
            let path = scratch.folder().join("group");
            if write_with_metadata(&path, Kind::Group, &text(input)).is_ok() {
                let _ = read_group(&path);
            }
        },
    },
    Target {
        name: "damo-record-json",
        reaches: "isotherm_trace::region::RegionStore (damo's JSON)",
        words: DAMO,
        run: region_record,
    },
    Target {
        name: "damo-record-text",
        reaches: "isotherm_trace::region::RegionStore (text of trace events)",
        words: DAMO_TEXT,
        run: region_record,
    },
    Target {
        name: "damo-kdamonds",
        reaches: "isotherm_trace::region::kdamonds::parse_kdamonds",
        words: DAMO,
        run: kdamonds,
    },
];

fn page_trace(scratch: &Scratch, input: &[u8]) {
    let _ = read_trace(&scratch.file("trace", input));
}

/// All rows, and the same once more from the start.
fn read_trace(path: &Path) -> Result<(), TraceError> {
    let mut reader = TraceReader::open(path)?;
    let (mut batch, mut counts) = (RowBatch::new(), [0; 2]);
    for count in &mut counts {
        while *count < ROWS_MAX && reader.next_batch(&mut batch)? {
            *count += batch.len();
        }
        reader.rewind();
    }
    assert_eq!(counts[0], counts[1], "a second pass reads other rows");
    Ok(())
}

fn region_record(scratch: &Scratch, input: &[u8]) {
    read_record(&scratch.file("record", input));
}

fn read_record(path: &Path) {
    struct Enough;
    impl From<TraceError> for Enough {
        fn from(_: TraceError) -> Self {
            Self
        }
    }
    let Ok(mut store) = RegionStore::open(path) else { return };
    let mut left = ROWS_MAX;
    let _ = store.for_each(|snapshot| {
        left = left.checked_sub(snapshot.regions.len() + 1).ok_or(Enough)?;
        Ok::<(), Enough>(())
    });
}

fn read_group(path: &Path) -> Result<(), TraceError> {
    let (mut reader, mut look) = (GroupReader::open(path)?, Look::default());
    for _ in 0..ROWS_MAX {
        if !reader.next_look(&mut look)? {
            break;
        }
    }
    Ok(())
}

/// A parsed file can be printed, and is read back as the same.
fn kdamonds(_: &Scratch, input: &[u8]) {
    let name = Path::new("kdamonds");
    let Ok((kdamonds, _)) = parse_kdamonds(name, &text(input)) else { return };
    let printed = print_kdamonds(&kdamonds);
    let (again, warnings) = parse_kdamonds(name, &printed).expect("what we print is read");
    assert!(again == kdamonds && warnings.is_empty(), "printed as\n{printed}");
}
