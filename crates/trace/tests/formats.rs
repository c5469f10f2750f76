//! Importers and exporters: worked samples of each format, round trips, and invalid input.

use std::path::{Path, PathBuf};

use isotherm_trace::export::{ExportOptions, export};
use isotherm_trace::import::{IMPORTERS, IdUnit, ImportOptions, RequestClock, import};
use isotherm_trace::{
    EventKind, Fraction, MapRange, ProcessMeta, Result, RowBatch, ThreadMeta, TraceMeta, TraceReader, TraceRow,
    TraceWriter,
};
use proptest::prelude::*;

use crate::drmemtrace::VIEW;

fn read(path: &Path) -> (TraceMeta, Vec<TraceRow>) {
    let mut reader = TraceReader::open(path).unwrap();
    let mut rows = Vec::new();
    let mut batch = RowBatch::new();
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend(batch.rows());
    }
    (reader.meta().clone(), rows)
}

/// A folder with one input.
pub(crate) struct Case {
    folder: tempfile::TempDir,
    pub(crate) input: PathBuf,
}

impl Case {
    pub(crate) fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join(name);
        std::fs::write(&input, bytes).unwrap();
        Self { folder, input }
    }
    fn output(&self) -> PathBuf {
        self.folder.path().join("out.parquet")
    }
    pub(crate) fn import(&self, from: Option<&str>, options: &ImportOptions) -> Result<(TraceMeta, Vec<TraceRow>)> {
        import(from, &self.input, &self.output(), options)?;
        Ok(read(&self.output()))
    }
    pub(crate) fn error(&self, from: Option<&str>, options: &ImportOptions) -> String {
        let error = import(from, &self.input, &self.output(), options).unwrap_err();
        assert!(!self.output().exists(), "nothing is left of a failed import");
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 1, "no temporary either");
        error.to_string()
    }
}

pub(crate) fn defaults() -> ImportOptions {
    ImportOptions::default()
}

/// Requests as (page, write).
pub(crate) fn requests(rows: &[TraceRow]) -> Vec<(u64, bool)> {
    assert!(rows.iter().all(|row| row.pages == 1 && row.thread == 0));
    rows.iter().map(|row| (row.page, row.write)).collect()
}

pub(crate) fn records(all: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (clock_s, id, size, next) in all {
        bytes.extend(clock_s.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

#[test]
fn lackey_sample() {
    // Epoch of 4 ns, one instruction a nanosecond: instructions 1 to 3 are before the second epoch.
    let text = "==11968== Lackey, an example Valgrind tool\n==11968== Command: ./prog -v\n==11968== \n\
                I  0401ab70,3\nI  0401ab73,5\n S 1fff000678,8\n L 1fff000ffc,8\nhello from the program\nI  0401b770,1\n\
                I  0401ab70,3\n M 1fff000678,4\n==11968== Exit code: 0\n L 1fff00";
    let case = Case::new("log.txt", text);
    let options =
        ImportOptions { epoch_ns: 4, ns_per_instruction: Fraction { numerator: 1, denominator: 1 }, ..defaults() };
    let (meta, rows) = case.import(None, &options).unwrap();
    let row = |time_ns, page, pages, write| TraceRow { time_ns, thread: 0, page, pages, write, kernel: false };
    assert_eq!(
        rows,
        [
            row(0, 0x401a, 1, false),
            row(0, 0x01ff_f000, 1, true),
            row(0, 0x01ff_f001, 1, false),
            row(0, 0x401b, 1, false),
            row(4, 0x401a, 1, false),
            row(4, 0x01ff_f000, 1, true),
        ]
    );
    assert_eq!((meta.command, meta.processes[0].pid, meta.epoch_ns), (vec!["./prog".into(), "-v".into()], 11968, 4));
    assert!(meta.complete);
    assert!(meta.notes.iter().any(|note| note.starts_with("2 lines that are no references")), "{:?}", meta.notes);
    assert!(meta.notes.iter().any(|note| note.starts_with("4 instructions")), "{:?}", meta.notes);
}

#[test]
fn oracle_general_sample() {
    // The bytes in docs/spec/formats.md, two records; the second id is 0x19a1.
    let bytes = [
        0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x04, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa1, 0x19, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x10, 0x00, 0x00, 0x40, 0x8a, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];
    for name in ["a.oracleGeneral", "a.oracleGeneral.bin", "no-ending"] {
        let (meta, rows) = Case::new(name, bytes).import(None, &defaults()).unwrap();
        assert_eq!(requests(&rows), [(7, false), (0x19a1, false)]);
        assert_eq!((meta.epoch_ns, rows[1].time_ns, meta.recorder.as_str()), (0, 1000, "import oracleGeneral"));
    }
    let compressed = zstd::encode_all(&bytes[..], 1).unwrap();
    let (_, rows) = Case::new("a.oracleGeneral.zst", compressed).import(None, &defaults()).unwrap();
    assert_eq!(requests(&rows), [(7, false), (0x19a1, false)]);
}

#[test]
fn large_ids_are_numbered_and_said() {
    let bytes = records(&[(10, u64::MAX, 1, -1), (10, 5, 1, -1), (12, 1 << 60, 1, -1), (11, u64::MAX, 1, -1)]);
    let case = Case::new("a.oracleGeneral", bytes);
    let options = ImportOptions { clock: RequestClock::File, ..defaults() };
    let (meta, rows) = case.import(None, &options).unwrap();
    let first = 1 << 51;
    assert_eq!(requests(&rows), [(first, false), (5, false), (first + 1, false), (first, false)]);
    assert_eq!(rows.iter().map(|row| row.time_ns).collect::<Vec<_>>(), [0, 0, 2_000_000_000, 2_000_000_000]);
    for expected in ["2 object ids of 2^51", "went back 1 times", "sizes were dropped"] {
        assert!(meta.notes.iter().any(|note| note.contains(expected)), "{expected}: {:?}", meta.notes);
    }
}

#[test]
fn csv_of_libcachesim() {
    let text = "time,id,size\r\n1,42,4096\r\n2,0x10,1\r\n\r\n3,\"42\",4096\r\n";
    let columns = "time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=1,obj-id-is-num=1";
    let options = ImportOptions { csv_columns: Some(columns.into()), ..defaults() };
    let (_, rows) = Case::new("a.csv", text).import(None, &options).unwrap();
    assert_eq!(requests(&rows), [(42, false), (16, false), (42, false)]);

    let text = "key one;get\nkey two;set\nkey one;get\n";
    let columns = "obj-id-col=1,op-col=2,delimiter=;,obj-id-is-num=0";
    let options = ImportOptions { csv_columns: Some(columns.into()), ..defaults() };
    let (meta, rows) = Case::new("a.csv", text).import(None, &options).unwrap();
    assert_eq!(requests(&rows), [(0, false), (1, true), (0, false)]);
    assert!(meta.notes.iter().any(|note| note.starts_with("2 object names")), "{:?}", meta.notes);
}

#[test]
fn text_of_pages_and_addresses() {
    type Line = (&'static str, ImportOptions, &'static [(u64, bool)]);
    let table: [Line; 4] = [
        ("# pages\n7\n\n7 w\nr 8\n", defaults(), &[(7, false), (7, true), (8, false)]),
        ("0x7000\n0x8fff,W\n", defaults(), &[(7, false), (8, true)]),
        ("28672\n", ImportOptions { unit: IdUnit::Addresses, ..defaults() }, &[(7, false)]),
        ("ff\n10\n", ImportOptions { radix: 16, unit: IdUnit::Pages, ..defaults() }, &[(255, false), (16, false)]),
    ];
    for (text, options, expected) in table {
        let (_, rows) = Case::new("a.txt", text).import(Some("text"), &options).unwrap();
        assert_eq!(requests(&rows), expected, "{text:?}");
    }
    let (meta, _) = Case::new("a", "12\n13\n").import(None, &defaults()).unwrap();
    assert_eq!(meta.recorder, "import text");
}

#[test]
fn wrong_input_is_told_with_its_place() {
    let columns = |spec: &str| ImportOptions { csv_columns: Some(spec.into()), ..defaults() };
    type Line = (&'static str, &'static [u8], Option<&'static str>, ImportOptions, &'static [&'static str]);
    let table: [Line; 14] = [
        ("a.txt", b"", None, defaults(), &["a.txt", "empty"]),
        ("a.txt", b"1\n2\nthree\n", None, defaults(), &["a.txt", "line 3", "three"]),
        ("a.txt", b"1\n0x2000\n", None, defaults(), &["line 2", "--unit"]),
        ("a.txt", b"1\n\xff\xfe\n", Some("text"), defaults(), &["line 2", "not text"]),
        ("a.txt", b"# nothing\n", Some("text"), defaults(), &["a.txt", "has none"]),
        ("a.bin", b"\x00\x01\x02", None, defaults(), &["a.bin", "--from", "lackey"]),
        ("a.oracleGeneral", &[0; 47], None, defaults(), &["record 1", "23 of 24"]),
        ("a.csv", b"x,y\n1,2\n", None, defaults(), &["line 1", "no column `page`", "--columns"]),
        ("a.csv", b"1,2\n3\n", None, columns("obj-id-col=2"), &["line 2", "no column 2"]),
        ("a.csv", b"1,x\n", None, columns("obj-id-col=2"), &["line 1", "`x`", "obj-id-is-num=0"]),
        ("a.csv", b"1\n", None, columns("obj-id-column=2"), &["columns", "obj-id-column", "allowed"]),
        ("a.csv", b"page,pages\n5,0\n", None, defaults(), &["line 2", "`pages` is 0"]),
        ("a.csv", b"page,time_ns\n5,9\n5,3\n", None, defaults(), &["line 3", "before 9 ns"]),
        ("a.log", b"==1== Lackey\n", Some("lackey"), defaults(), &["a.log", "has none"]),
    ];
    for (name, bytes, from, options, expected) in table {
        let error = Case::new(name, bytes).error(from, &options);
        for word in expected {
            assert!(error.contains(word), "{name} {bytes:?}: `{word}` is not in: {error}");
        }
    }
    let error = Case::new("a.txt", "1\n").error(Some("lacky"), &defaults());
    assert!(error.contains("lacky") && IMPORTERS.iter().all(|importer| error.contains(importer.name)), "{error}");
    let long = Case::new("a.txt", vec![b'1'; 1 << 20]);
    assert!(long.error(Some("text"), &defaults()).contains("longer than 64 KiB"));
    let torn = zstd::encode_all(&records(&[(0, 1, 1, -1); 5000])[..], 1).unwrap();
    let torn = Case::new("a.oracleGeneral.zst", &torn[..torn.len() - 5]);
    assert!(torn.error(None, &defaults()).contains("cannot read"));
}

/// A file of libCacheSim's lcs: header of 8192 bytes, or 1024 as in 2023; and the records unchanged.
fn lcs(version: u64, is_new: bool, nr_requests: i64, records: &[Vec<u8>]) -> Vec<u8> {
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    let mut bytes = vec![0; if is_new { 8192 } else { 1024 }];
    let end = bytes.len() - 8;
    bytes[..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes[24..32].copy_from_slice(&nr_requests.to_le_bytes());
    bytes[end..].copy_from_slice(&magic);
    records.iter().for_each(|record| bytes.extend(record));
    bytes
}

fn lcs_versions() -> impl Strategy<Value = u64> {
    0u64..11
}

/// One record of lcs: clock, id, size, operation; then tenant, time to live, next access and features, if the version has
/// them.
fn lcs_record(version: u64, clock_s: u32, id: u64, size: u32, operation: u8) -> Vec<u8> {
    let mut bytes = [&clock_s.to_le_bytes()[..], &id.to_le_bytes()].concat();
    match version {
        1 | 2 => bytes.extend(size.to_le_bytes()),
        _ => bytes.extend(i64::from(size).to_le_bytes()),
    }
    if version > 1 {
        bytes.extend([operation, 7, 0, 0]);
    }
    if version > 2 {
        bytes.extend(3600u32.to_le_bytes());
    }
    bytes.extend((-1i64).to_le_bytes());
    let features = match version {
        4..=8 => 1 << (version - 4),
        _ => 0,
    };
    bytes.extend(vec![0xff; 4 * features]);
    bytes
}

#[test]
fn lcs_of_every_version() {
    // Sizes of records: libCacheSim, traceReader/customizedReader/lcs.h, its static assertions.
    for (version, bytes) in (1..).zip([24, 28, 36, 40, 44, 52, 68, 100]) {
        assert_eq!(lcs_record(version, 0, 0, 0, 0).len(), bytes, "version {version}");
        for is_new in [true, false] {
            // get, set, read, write, delete, nop. Version 1 has no operations.
            let all: Vec<_> = [(5, 1), (6, 3), (5, 12), (7, 13), (7, 9), (5, 0)]
                .map(|(id, operation)| lcs_record(version, 100, id, 5000, operation))
                .into();
            let (meta, rows) = Case::new("a", lcs(version, is_new, 6, &all)).import(None, &defaults()).unwrap();
            let writes = |write| write && version > 1;
            let expected = [(5, false), (6, true), (5, false), (7, true), (7, true), (5, false)];
            assert_eq!(requests(&rows), expected.map(|(page, write)| (page, writes(write))), "version {version}");
            assert_eq!((meta.recorder.as_str(), meta.complete, meta.epoch_ns), ("import lcs", true, 0));
            assert!(meta.notes.iter().any(|note| note.starts_with("object sizes were dropped")), "{:?}", meta.notes);
        }
    }
    let one = [lcs_record(3, 0, 1, 1, 1)];
    let (meta, _) = Case::new("a.lcs", lcs(3, true, 2, &one)).import(None, &defaults()).unwrap();
    assert!(!meta.complete && meta.notes.iter().any(|note| note.contains("counts 2 requests, the file has 1")));
}

#[test]
fn lcs_that_is_wrong_is_told() {
    let one = [lcs_record(3, 0, 1, 1, 1)];
    let whole = lcs(3, true, 1, &one);
    let mut no_end = whole.clone();
    no_end[8191] = 0;
    let mut negative = lcs_record(3, 0, 1, 1, 1);
    negative[19] = 0x80;
    for (bytes, words) in [
        (whole[..whole.len() - 1].to_vec(), vec!["record 0", "35 of 36"]),
        (whole[..8191].to_vec(), vec!["header is cut off"]),
        (whole[..900].to_vec(), vec!["header is cut off"]),
        (no_end, vec!["no end after 1024 or 8192"]),
        (lcs(9, true, 1, &one), vec!["version 9", "1 to 8"]),
        (lcs(0, true, 1, &one), vec!["version 0"]),
        (lcs(u64::MAX, true, 1, &one), vec!["version 18446744073709551615"]),
        (lcs(3, true, 1, &[negative]), vec!["record 0", "size is -"]),
        (lcs(3, true, 0, &[]), vec!["has none"]),
    ] {
        let error = Case::new("a.lcs", bytes).error(Some("lcs"), &defaults());
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
    let other = Case::new("a", vec![0; 9000]).error(Some("lcs"), &defaults());
    assert!(other.contains("does not begin as one"), "{other}");
}

#[test]
fn objects_are_split_into_pages() {
    let split = |options: ImportOptions| ImportOptions { split_objects: true, ..options };
    let pages = |rows: &[TraceRow]| rows.iter().map(|row| (row.page, row.pages)).collect::<Vec<_>>();
    // 5000 bytes are 2 pages, 0 bytes one, 4096 one; the first object grows to 3 pages and moves behind the others.
    let expected = [(0, 2), (2, 1), (3, 1), (0, 2), (4, 3), (4, 2)];
    let sizes = [(9u64, 5000u32), (1 << 60, 0), (3, 4096), (9, 5000), (9, 12_288), (9, 4097)];
    let oracle = records(&sizes.map(|(id, size)| (0, id, size, -1)));
    let lcs = lcs(2, true, 6, &sizes.map(|(id, size)| lcs_record(2, 0, id, size, 1)));
    for (name, bytes) in [("a.oracleGeneral", oracle), ("a.lcs", lcs)] {
        let (meta, rows) = Case::new(name, bytes).import(None, &split(defaults())).unwrap();
        assert_eq!(pages(&rows), expected, "{name}");
        assert_eq!((meta.rows, meta.accesses), (6, 11));
        let note = "3 objects lie one after the other on as many pages as they need, 7 in all; 1 times";
        assert!(meta.notes.iter().any(|found| found.starts_with(note)), "{:?}", meta.notes);
        assert!(!meta.notes.iter().any(|note| note.contains("sizes were dropped")), "{:?}", meta.notes);
    }
    let columns = |spec: &str| split(ImportOptions { csv_columns: Some(spec.into()), ..defaults() });
    let csv = columns("obj-id-col=1,obj-size-col=2,obj-id-is-num=0");
    let (_, rows) = Case::new("a.csv", "x,5000\ny,1\nx,1\n").import(None, &csv).unwrap();
    assert_eq!(pages(&rows), [(0, 2), (2, 1), (0, 1)], "names");
    let blocks = ImportOptions { unit: IdUnit::Addresses, ..columns("obj-id-col=1,obj-size-col=2") };
    let (_, rows) = Case::new("a.csv", "4095,2\n0x3000,8192\n8192,0\n").import(None, &blocks).unwrap();
    assert_eq!(pages(&rows), [(0, 2), (3, 2), (2, 1)], "addresses stay where they are");
    for (name, text, from, options, words) in [
        ("a.csv", "1,2\n", None, columns("obj-id-col=1"), vec!["split-objects", "obj-size-col"]),
        ("a.csv", "page\n1\n", None, split(defaults()), vec!["split-objects", "--columns"]),
        ("a.csv", "1,big\n", None, columns("obj-id-col=1,obj-size-col=2"), vec!["line 1", "`big`", "size in bytes"]),
        ("a.csv", "1,-1\n", None, columns("obj-id-col=1,obj-size-col=2"), vec!["line 1", "`-1`"]),
        ("a.csv", "1,999999999999999999\n", None, columns("obj-id-col=1,obj-size-col=2"), vec!["line 1", "16 TiB"]),
        ("a.txt", "1\n", Some("text"), split(defaults()), vec!["split-objects", "text has no sizes", "lcs"]),
        ("a.log", "I  0401ab70,3\n", None, split(defaults()), vec!["split-objects", "lackey has no sizes"]),
    ] {
        let error = Case::new(name, text).error(from, &options);
        assert!(words.iter().all(|word| error.contains(word)), "{text:?} {words:?}: {error}");
    }
}

/// Page faults of two processes and a memory sample, as perf 6.1 prints them.
const PERF: &str = "\
         python3 26297/26297 36786.786235: page-faults:     55ac8d132424      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A
         python3 26297/26298 36786.786245: page-faults:     7fca6f257110      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A
    my prog 1 300/300 36786.787235: cpu/mem-stores/P:     55ac8d132424      5080144 |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A|BLK  N/A
         python3 26297/26297 36786.786230: page-faults: ffff888100000000      1e05080021 |OP N/A|LVL N/A or N/A
         python3 26297/26297 36786.786230: page-faults:                0      1e05080021 |OP N/A|LVL N/A or N/A
         python3 26297/26297 36786.786230: page-faults:     55ac8d133424      1e05080021 |OP N/A|LVL N/A or N/A
         python3 26297 36786.786204: PERF_RECORD_MMAP2 26297/26297: [0x7ffd8d163000(0x21000) @ 0x7ffffffde000 00:00 0 0]: rw-p [stack]
";

#[test]
fn perf_script_sample() {
    let (meta, rows) = Case::new("perf.txt", PERF).import(None, &defaults()).unwrap();
    let row = |time_ns, thread, page, write| TraceRow { time_ns, thread, page, pages: 1, write, kernel: false };
    assert_eq!(
        rows,
        [
            row(0, 0, 0x5_5ac8_d132, false),
            row(10_000, 1, 0x7_fca6_f257, false),
            row(1_000_000, 2, 0x5_5ac8_d132, true),
            row(0, 0, 0x5_5ac8_d133, false),
        ]
    );
    let threads: Vec<_> =
        meta.threads.iter().map(|thread| (thread.tid, thread.process, thread.name.as_str())).collect();
    assert_eq!(threads, [(26297, 0, "python3"), (26298, 0, "python3"), (300, 1, "my prog 1")]);
    assert_eq!((meta.processes[1].pid, meta.epoch_ns, meta.complete), (300, 0, true));
    for note in [
        "samples: each row is one access out of many",
        "page faults: each row",
        "time is the clock of the samples",
        "1 samples of kernel addresses",
        "1 samples without an address",
        "1 lines that are no samples",
    ] {
        assert!(meta.notes.iter().any(|found| found.starts_with(note)), "{note}: {:?}", meta.notes);
    }
    let command = "perf script -F comm,pid,tid,time,event,addr,data_src";
    let without = "  x 7 1.000000:   1 page-faults:  ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])\n";
    let error = Case::new("p", without).error(Some("perf-samples"), &defaults());
    assert!(error.contains("1 samples carry no address") && error.contains(command), "{error}");
    let two = "x 7 1.000000: page-faults: 7f00\ny 8 1.000001: page-faults: 7f00\n";
    let error = Case::new("p", two).error(Some("perf-samples"), &defaults());
    assert!(error.contains("line 2") && error.contains("of which process") && error.contains(command), "{error}");
    assert_eq!(Case::new("p", &two[..33]).import(Some("perf-samples"), &defaults()).unwrap().1.len(), 1);
}

/// Every truncated sample is read up to its last whole line or record, or refused; no data are invented.
#[test]
fn samples_cut_at_every_byte() {
    let all: Vec<_> = [(5, 1), (6, 3)].map(|(id, operation)| lcs_record(2, 100, id, 5000, operation)).into();
    let lcs = lcs(2, false, 2, &all);
    for (importer, sample, nr_from) in
        [("drmemtrace", VIEW.as_bytes(), 0), ("perf-samples", PERF.as_bytes(), 0), ("lcs", lcs.as_slice(), 8150)]
    {
        let touched = |rows: &[TraceRow]| -> std::collections::BTreeSet<(u32, u64)> {
            let pages = |row: &TraceRow| {
                let row = *row;
                (0..u64::from(row.pages)).map(move |page| (row.thread, row.page + page))
            };
            rows.iter().flat_map(pages).collect()
        };
        let (_, whole) = Case::new("x", sample).import(Some(importer), &defaults()).unwrap();
        let whole = touched(&whole);
        for len in nr_from..sample.len() {
            let case = Case::new("x", &sample[..len]);
            if let Ok((meta, rows)) = case.import(Some(importer), &defaults()) {
                assert!(touched(&rows).is_subset(&whole), "{importer} cut at {len}");
                let at_line_end = sample[..len].ends_with(b"\n") || sample[..len].is_empty();
                assert_eq!(meta.complete, importer != "lcs" && at_line_end, "{importer} cut at {len}");
            }
        }
    }
}

#[test]
fn huge_and_empty_input_is_refused() {
    for importer in ["drmemtrace", "perf-samples", "lcs"] {
        let error = Case::new("x", "").error(Some(importer), &defaults());
        assert!(error.contains("empty"), "{importer}: {error}");
        let error = Case::new("x", "\n\n").error(Some(importer), &defaults());
        assert!(error.contains("has none") || error.contains("cut off"), "{importer}: {error}");
        let error = Case::new("x", vec![b'1'; 1 << 20]).error(Some(importer), &defaults());
        assert!(error.contains("64 KiB") || error.contains("does not begin"), "{importer}: {error}");
    }
    // Numbers at their limits.
    let view = "  1  1: 4294967295 ifetch 65536 byte(s) @ 0x7fffffffffffffff x\n";
    let (_, rows) = Case::new("x", view).import(None, &defaults()).unwrap();
    assert_eq!((rows[0].page, rows[0].pages), ((1 << 51) - 1, 1), "the last page below the kernel");
    let perf = "x 4294967295/4294967295 18446744073.709551615: page-faults: 7fffffffffffffff\n";
    let (meta, _) = Case::new("x", perf).import(None, &defaults()).unwrap();
    assert_eq!((meta.recorder.as_str(), meta.threads[0].tid), ("perf script", u32::MAX));
}

/// Two processes whose pages have the same numbers, runs, writes and events.
fn sample(path: &Path) -> Vec<TraceRow> {
    let meta = TraceMeta {
        processes: vec![ProcessMeta::default(), ProcessMeta { forked_from: Some(0), ..ProcessMeta::default() }],
        threads: vec![ThreadMeta::default(), ThreadMeta { process: 1, started_by: Some(0), ..ThreadMeta::default() }],
        epoch_ns: 1_000_000,
        complete: true,
        ..TraceMeta::default()
    };
    let row = |thread, time_ns, page, pages, write| TraceRow { time_ns, thread, page, pages, write, kernel: false };
    let rows = vec![
        row(0, 0, 10, 3, false),
        row(1, 0, 11, 1, true),
        row(0, 2_000_000_000, 11, 1, true),
        row(1, 5, 11, 2, false),
    ];
    let mut writer = TraceWriter::create(path, meta).unwrap();
    writer.event(0, 0, EventKind::Map(MapRange { start: 10, end: 20, ..MapRange::default() })).unwrap();
    writer.event(0, 0, EventKind::StartThread { thread: 1 }).unwrap();
    rows.iter().for_each(|&row| writer.push(row).unwrap());
    writer.finish().unwrap();
    rows
}

#[test]
fn oracle_general_export_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, plain, packed) =
        (folder.path().join("t"), folder.path().join("t.oracleGeneral"), folder.path().join("t.oracleGeneral.zst"));
    sample(&trace);
    export(None, &trace, &plain, &ExportOptions::default()).unwrap();
    // Accesses: 10 11 12 of process 0, 11 of process 1, 11 of process 0, 11 12 of process 1.
    let other = 1u64 << 52;
    let expected = records(&[
        (0, 10, 4096, -1),
        (0, 11, 4096, 4),
        (0, 12, 4096, -1),
        (0, other | 11, 4096, 5),
        (2, 11, 4096, -1),
        (2, other | 11, 4096, -1),
        (2, other | 12, 4096, -1),
    ]);
    assert_eq!(std::fs::read(&plain).unwrap(), expected);
    export(None, &trace, &packed, &ExportOptions::default()).unwrap();
    assert_eq!(zstd::decode_all(&std::fs::read(&packed).unwrap()[..]).unwrap(), expected);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary is left");
}

#[test]
fn csv_export_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, csv, back) = (folder.path().join("t"), folder.path().join("t.csv"), folder.path().join("back.parquet"));
    let rows = sample(&trace);
    export(None, &trace, &csv, &ExportOptions::default()).unwrap();
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with("time_ns,thread,page,pages,write,kernel\n0,0,10,3,0,0\n0,1,11,1,1,0\n"), "{text}");
    import(None, &csv, &back, &defaults()).unwrap();
    assert_eq!(read(&back).1, rows);
    export(Some("csv"), &trace, &csv, &ExportOptions { per_access: true }).unwrap();
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with("time,obj_id,obj_size,op\n0,10,4096,read\n") && text.lines().count() == 8, "{text}");
}

#[test]
fn a_trace_survives_export_and_import_as_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, copy, back) = (folder.path().join("t"), folder.path().join("c.parquet"), folder.path().join("b"));
    sample(&trace);
    export(None, &trace, &copy, &ExportOptions::default()).unwrap();
    import(None, &copy, &back, &defaults()).unwrap();
    assert_eq!(read(&back), read(&trace));
}

#[test]
fn an_unknown_target_lists_the_formats() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    sample(&trace);
    for (to, name) in [(Some("docx"), "a.csv"), (None, "a.docx")] {
        let error = export(to, &trace, &folder.path().join(name), &ExportOptions::default()).unwrap_err().to_string();
        assert!(error.contains("oracle-general") && error.contains("csv"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// The next access found backwards in blocks equals the one found by a forward search; ids are unchanged.
    #[test]
    fn oracle_general_round_trip(ids in proptest::collection::vec(0u64..40, 1..400)) {
        let folder = tempfile::tempdir().unwrap();
        let (first, trace, second) =
            (folder.path().join("a.oracleGeneral"), folder.path().join("t"), folder.path().join("b.oracleGeneral"));
        let next = |index: usize| {
            let found = ids[index + 1..].iter().position(|id| *id == ids[index]);
            found.map_or(-1, |ahead| i64::try_from(index + 1 + ahead).unwrap())
        };
        let all: Vec<_> = ids.iter().enumerate().map(|(index, &id)| (0, id, 4096, next(index))).collect();
        std::fs::write(&first, records(&all)).unwrap();
        import(None, &first, &trace, &defaults()).unwrap();
        export(None, &trace, &second, &ExportOptions::default()).unwrap();
        prop_assert_eq!(std::fs::read(&second).unwrap(), records(&all));
    }

    /// Every importer survives any bytes.
    #[test]
    fn garbage_is_survived(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..300),
            "([ILSM=0-9a-f,rwx\" .#-]{0,20}\n){0,20}".prop_map(String::into_bytes),
            "(a [0-9]{1,3}(/[0-9]{1,2})? [0-9]{1,3}\\.[0-9]{1,10}: [0-9 ]{0,3}x(store)?: [0-9a-f ]{0,20}(\\|OP LOAD|address=0x[0-9a-f]{0,18})?\n){0,20}"
                .prop_map(String::into_bytes),
            "(  [0-9]{1,4}  [0-9]: {1,2}(W[0-9]\\.T)?[0-9]{1,4} (read|write|ifetch|non-fetched|pref|<thread 1 exited>|<marker:) {1,3}[0-9]{1,3} byte\\(s\\) @ 0x[0-9a-f]{0,18}\n){0,20}"
                .prop_map(String::into_bytes),
            (lcs_versions(), proptest::collection::vec(any::<u8>(), 0..300))
                .prop_map(|(version, body)| lcs(version, true, 3, &[body])),
        ],
    ) {
        let case = Case::new("x", bytes);
        let csv = ImportOptions { csv_columns: Some("obj-id-col=1,time-col=2,op-col=3".into()), ..defaults() };
        let split = ImportOptions { split_objects: true, csv_columns: Some("obj-id-col=1,obj-size-col=2".into()), ..defaults() };
        for importer in IMPORTERS {
            let _ = case.import(Some(importer.name), &defaults());
            let _ = case.import(Some(importer.name), &csv);
            let _ = case.import(Some(importer.name), &split);
        }
        let _ = case.import(None, &defaults());
    }
}
