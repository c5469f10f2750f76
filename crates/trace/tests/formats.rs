//! Importers and exporters: worked samples of each format, round trips, and input that is wrong.

use std::path::{Path, PathBuf};

use isotherm_trace::export::{ExportOptions, export};
use isotherm_trace::import::{IMPORTERS, IdUnit, ImportOptions, RequestClock, import};
use isotherm_trace::{
    EventKind, Fraction, MapRange, ProcessMeta, Result, RowBatch, ThreadMeta, TraceMeta, TraceReader, TraceRow,
    TraceWriter,
};
use proptest::prelude::*;

fn read(path: &Path) -> (TraceMeta, Vec<TraceRow>) {
    let mut reader = TraceReader::open(path).unwrap();
    let mut rows = Vec::new();
    let mut batch = RowBatch::new();
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend(batch.rows());
    }
    (reader.meta().clone(), rows)
}

/// A folder with one input in it.
struct Case {
    folder: tempfile::TempDir,
    input: PathBuf,
}

impl Case {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join(name);
        std::fs::write(&input, bytes).unwrap();
        Self { folder, input }
    }
    fn output(&self) -> PathBuf {
        self.folder.path().join("out.parquet")
    }
    fn import(&self, from: Option<&str>, options: &ImportOptions) -> Result<(TraceMeta, Vec<TraceRow>)> {
        import(from, &self.input, &self.output(), options)?;
        Ok(read(&self.output()))
    }
    fn error(&self, from: Option<&str>, options: &ImportOptions) -> String {
        let error = import(from, &self.input, &self.output(), options).unwrap_err();
        assert!(!self.output().exists(), "nothing is left of a failed import");
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 1, "no temporary either");
        error.to_string()
    }
}

fn defaults() -> ImportOptions {
    ImportOptions::default()
}

/// Requests as (page, write).
fn requests(rows: &[TraceRow]) -> Vec<(u64, bool)> {
    assert!(rows.iter().all(|row| row.pages == 1 && row.thread == 0));
    rows.iter().map(|row| (row.page, row.write)).collect()
}

fn records(all: &[(u32, u64, u32, i64)]) -> Vec<u8> {
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
    // The bytes in the specification of formats, two records; the second id is 0x19a1.
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
    /// The next access found backwards in blocks equals the one found by looking ahead; ids come back as they were.
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

    /// Every importer takes any bytes without harm.
    #[test]
    fn garbage_is_survived(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..300),
            "([ILSM=0-9a-f,rwx\" .#-]{0,20}\n){0,20}".prop_map(String::into_bytes),
        ],
    ) {
        let case = Case::new("x", bytes);
        let csv = ImportOptions { csv_columns: Some("obj-id-col=1,time-col=2,op-col=3".into()), ..defaults() };
        for importer in IMPORTERS {
            let _ = case.import(Some(importer.name), &defaults());
            let _ = case.import(Some(importer.name), &csv);
        }
        let _ = case.import(None, &defaults());
    }
}
