//! Traces of other programs, by importer; and detection of the format.

use crate::target::{Scratch, Target, text};
use isotherm_trace::import::{IdUnit, ImportOptions, RequestClock, import};
use isotherm_workload::masim::MasimConfig;
use std::path::Path;

const LACKEY: &[&str] = &["I  ", " L ", " S ", " M ", "==11968== ", "Command: ", "1fff000678,8", ",65536", ",0"];
const VIEW: &[&str] =
    &["ifetch", "read", "write", "byte(s) @ 0x", "<thread 71 exited>", "<marker:", "pref-r-L1", "0xffffffffffffffff"];
const PERF: &[&str] = &[
    "page-faults:",
    "cpu/mem-stores/P:",
    "|OP STORE|",
    "address=0x",
    "error_code=0x6",
    "26297/26297",
    "[001]",
    "36786.786235:",
];
const CSV: &[&str] = &["time,id,size", "page,pages", "time_ns", "thread", "write", "kernel", "key", ";set", "\"a,b\""];
const OPTIONS: &[&str] = &[
    "time-col=1",
    "obj-id-col=2",
    "obj-size-col=3",
    "op-col=4",
    "delimiter=,",
    "delimiter=\\t",
    "has-header=1",
    "obj-id-is-num=0",
];
const MASIM: &[&str] = &["# regions", "none", "data.bin", ", 1, 4096, 20, ro", "wo", "rw", "\n\n", "5000"];

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "import-lackey",
        reaches: "importer lackey",
        words: LACKEY,
        run: |scratch, input| plain(scratch, "lackey", input),
    },
    Target {
        name: "import-drmemtrace",
        reaches: "importer drmemtrace",
        words: VIEW,
        run: |scratch, input| plain(scratch, "drmemtrace", input),
    },
    Target {
        name: "import-perf",
        reaches: "importer perf-samples",
        words: PERF,
        run: |scratch, input| plain(scratch, "perf-samples", input),
    },
    Target {
        name: "import-lcs",
        reaches: "importer lcs",
        words: &[],
        run: |scratch, input| sized(scratch, "lcs", input),
    },
    Target {
        name: "import-oracle-general",
        reaches: "importer oracle-general",
        words: &[],
        run: |scratch, input| sized(scratch, "oracle-general", input),
    },
    Target { name: "import-csv", reaches: "importer csv", words: CSV, run: csv },
    Target {
        name: "import-csv-columns",
        reaches: "importer csv, option `--columns`",
        words: OPTIONS,
        run: |scratch, input| {
            let options = ImportOptions { csv_columns: Some(text(input).into_owned()), ..ImportOptions::default() };
            convert(scratch, Some("csv"), b"1,42,4096,get\n2,7,100,set\n", &options);
        },
    },
    Target {
        name: "import-text",
        reaches: "importer text",
        words: &["0x7000", "r 8", "7 w", ",W", "# pages"],
        run: lines,
    },
    Target {
        name: "import-parquet",
        reaches: "importer parquet",
        words: &["PAR1", "time_ns", "page"],
        run: |scratch, input| plain(scratch, "parquet", input),
    },
    Target {
        name: "import-any",
        reaches: "recognition of formats, zstd",
        words: &["PAR1", "==1== ", "I  0401ab70,3", "(\u{b5}/\u{fd}"],
        run: |scratch, input| convert(scratch, None, input, &ImportOptions::default()),
    },
    Target {
        name: "masim",
        reaches: "isotherm_workload::masim::MasimConfig",
        words: MASIM,
        run: |_, input| {
            if let Ok(config) = MasimConfig::parse(Path::new("masim"), input) {
                config.footprint();
            }
        },
    },
];

fn convert(scratch: &Scratch, from: Option<&str>, input: &[u8], options: &ImportOptions) {
    let path = scratch.file("foreign", input);
    let _ = import(from, &path, &scratch.folder().join("ours"), options);
}

fn plain(scratch: &Scratch, from: &str, input: &[u8]) {
    convert(scratch, Some(from), input, &ImportOptions::default());
}

/// Formats with sizes of objects.
fn sized(scratch: &Scratch, from: &str, input: &[u8]) {
    plain(scratch, from, input);
    let options = ImportOptions { split_objects: true, clock: RequestClock::File, ..ImportOptions::default() };
    convert(scratch, Some(from), input, &options);
}

fn csv(scratch: &Scratch, input: &[u8]) {
    plain(scratch, "csv", input);
    let columns = "time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=1,obj-id-is-num=0";
    let options = ImportOptions {
        split_objects: true,
        clock: RequestClock::File,
        csv_columns: Some(columns.to_owned()),
        ..ImportOptions::default()
    };
    convert(scratch, Some("csv"), input, &options);
    let columns = "time-col=1,obj-id-col=2,obj-size-col=3".to_owned();
    let options =
        ImportOptions { unit: IdUnit::Sectors, sizes_in_sectors: true, csv_columns: Some(columns), ..options };
    convert(scratch, Some("csv"), input, &options);
}

fn lines(scratch: &Scratch, input: &[u8]) {
    plain(scratch, "text", input);
    let options =
        ImportOptions { radix: 16, unit: IdUnit::Addresses, ns_per_request: u64::MAX, ..ImportOptions::default() };
    convert(scratch, Some("text"), input, &options);
}
