//! The two formats on disk: round trips are exact, other readers agree, and damage only gives errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use isotherm_trace::{
    Event, EventKind, Fraction, MapKind, MapRange, NativeRun, ProcessMeta, Result, RowBatch, ThreadMeta, TraceError,
    TraceMeta, TraceReader, TraceRow, TraceWriter, finish_stream,
};
use proptest::prelude::*;

fn read(path: &Path) -> Result<(TraceMeta, Vec<TraceRow>)> {
    let mut reader = TraceReader::open(path)?;
    let mut rows = Vec::new();
    let mut batch = RowBatch::new();
    while reader.next_batch(&mut batch)? {
        assert_eq!(batch.first_row, rows.len() as u64);
        rows.extend(batch.rows());
    }
    assert!(batch.is_empty());
    assert_eq!(reader.meta().rows, rows.len() as u64);
    Ok((reader.meta().clone(), rows))
}

/// Rows of two threads with long and short runs, and jumps both ways.
fn sample_rows(count: u64) -> Vec<TraceRow> {
    let page = |index: u64| if index.is_multiple_of(7) { (1 << 51) + index } else { index * 7919 % 100_000 };
    let pages = |index: u64| if index.is_multiple_of(11) { 5000 } else { 1 };
    let row = |index: u64| TraceRow {
        time_ns: index / 10 * 1_000_000,
        thread: u32::try_from(index % 2).unwrap(),
        page: page(index),
        pages: pages(index),
        write: index.is_multiple_of(3),
        kernel: index.is_multiple_of(5),
    };
    (0..count).map(row).collect()
}

fn map(start: u64, end: u64) -> EventKind {
    EventKind::Map(MapRange { start, end, what: MapKind::Heap, ..MapRange::default() })
}

/// Writes rows with declarations and events between them; leaves the writer open.
fn record(path: &Path, rows: &[TraceRow]) -> TraceWriter {
    let start = TraceMeta { command: vec!["a b".into()], epoch_ns: 1_000_000, ..TraceMeta::default() };
    let mut writer = TraceWriter::create(path, start).unwrap();
    writer.add_process(ProcessMeta { pid: 7, name: "p".into(), forked_from: None }).unwrap();
    writer.add_thread(ThreadMeta { tid: 7, ..ThreadMeta::default() }).unwrap();
    writer.event(0, 0, map(10, 20)).unwrap();
    writer.add_thread(ThreadMeta { tid: 8, started_by: Some(0), ..ThreadMeta::default() }).unwrap();
    writer.event(0, 0, EventKind::StartThread { thread: 1 }).unwrap();
    for (index, &row) in rows.iter().enumerate() {
        if index == 5 {
            writer.event(1, row.time_ns, EventKind::Unmap { start: 10, end: 12 }).unwrap();
        }
        writer.push(row).unwrap();
    }
    writer.note("a remark").unwrap();
    writer.set_outcome(Some(3), true).unwrap();
    writer
}

fn expected_events() -> Vec<Event> {
    vec![
        Event { row: 0, thread: 0, time_ns: 0, kind: map(10, 20) },
        Event { row: 0, thread: 0, time_ns: 0, kind: EventKind::StartThread { thread: 1 } },
        Event { row: 5, thread: 1, time_ns: 0, kind: EventKind::Unmap { start: 10, end: 12 } },
    ]
}

/// A native run sets the clock: CPU times are scaled, sleeps are not, and everything else stays.
#[test]
fn a_recording_is_finished_by_another_clock() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, timed) = (folder.path().join("plain"), folder.path().join("timed"));
    let rows = sample_rows(300);
    record(&plain, &rows).finish().unwrap();
    let mut writer = record(&timed, &rows);
    writer.event(0, 29_000_000, EventKind::Idle { ns: 77 }).unwrap();
    let native = NativeRun { cpu_ns: 43_500_000, peak_rss_bytes: 1 << 20, ..NativeRun::default() };
    writer.finish_with(Some(native), Some(Fraction { numerator: 3, denominator: 2 })).unwrap();
    let ((before, plain), (after, timed)) = (read(&plain).unwrap(), read(&timed).unwrap());
    let scaled: Vec<TraceRow> = plain.iter().map(|row| TraceRow { time_ns: row.time_ns * 3 / 2, ..*row }).collect();
    assert_eq!(timed, scaled);
    assert_eq!((before.native, after.native, after.epoch_ns), (None, Some(native), 1_500_000));
    let idle = after.events.iter().find(|event| matches!(event.kind, EventKind::Idle { .. })).unwrap();
    assert_eq!((idle.time_ns, &idle.kind), (43_500_000, &EventKind::Idle { ns: 77 }));
}

#[test]
fn a_recording_reads_the_same_before_and_after_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    // More rows than two batches of the stream, of the reader, and a page of Parquet.
    let rows = sample_rows(150_001);
    let mut writer = record(&path, &rows);
    writer.flush().unwrap();
    let (meta, read_rows) = read(&path).unwrap();
    assert_eq!(read_rows, rows);
    assert_eq!((&meta.events, meta.exit_code, meta.complete), (&expected_events(), Some(3), false));
    assert!(meta.notes.iter().any(|note| note.contains("not finished")), "{:?}", meta.notes);

    let finished = writer.finish().unwrap();
    let (meta, read_rows) = read(&path).unwrap();
    assert_eq!(read_rows, rows);
    assert_eq!(meta, finished);
    assert_eq!((&meta.events, meta.exit_code, meta.complete), (&expected_events(), Some(3), true));
    assert_eq!((meta.notes.as_slice(), meta.command.as_slice()), (&["a remark".into()][..], &["a b".into()][..]));
    assert_eq!(meta.accesses, rows.iter().map(|row| u64::from(row.pages)).sum::<u64>());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary is left");
}

#[test]
fn a_killed_recorder_leaves_all_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows = sample_rows(100);
    let mut writer = record(&path, &rows[..60]);
    writer.flush().unwrap();
    rows[60..].iter().for_each(|&row| writer.push(row).unwrap());
    // Neither flushed nor finished, as after kill -9.
    std::mem::forget(writer);
    assert_eq!(read(&path).unwrap().1, rows[..60]);
    let meta = finish_stream(&path).unwrap();
    assert!(!meta.complete);
    let (again, read_rows) = read(&path).unwrap();
    assert_eq!((again, read_rows.as_slice()), (meta.clone(), &rows[..60]));
    assert_eq!(finish_stream(&path).unwrap(), meta, "a finished file stays as it is");
}

#[test]
fn other_readers_see_the_same_parquet() {
    use parquet::file::reader::FileReader;
    use parquet::record::RowAccessor;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows = sample_rows(3000);
    record(&path, &rows).finish().unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
    let names: Vec<_> = fields.iter().map(|field| field.name().to_owned()).collect();
    assert_eq!(names, ["time_ns", "thread", "page", "pages", "write", "kernel"]);
    for (row, found) in rows.iter().zip(reader.get_row_iter(None).unwrap()) {
        let found = found.unwrap();
        let found = TraceRow {
            time_ns: found.get_ulong(0).unwrap(),
            thread: found.get_uint(1).unwrap(),
            page: found.get_ulong(2).unwrap(),
            pages: found.get_uint(3).unwrap(),
            write: found.get_bool(4).unwrap(),
            kernel: found.get_bool(5).unwrap(),
        };
        assert_eq!(found, *row);
    }
    let column = reader.metadata().row_group(0).column(2);
    assert!(column.encodings().any(|encoding| encoding == parquet::basic::Encoding::DELTA_BINARY_PACKED));
}

#[test]
fn other_readers_see_the_same_stream() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows = sample_rows(100);
    let mut writer = record(&path, &rows);
    writer.flush().unwrap();
    let stream = arrow_ipc::reader::StreamReader::try_new(std::fs::File::open(&path).unwrap(), None).unwrap();
    let mut pages = Vec::new();
    let mut notes = 0;
    for batch in stream.map_while(std::result::Result::ok) {
        let events = batch.column_by_name("event").unwrap().as_string::<i32>().clone();
        let column = batch.column_by_name("page").unwrap().as_primitive::<UInt64Type>().clone();
        for (event, page) in events.iter().zip(column.values()) {
            match event {
                None => pages.push(*page),
                Some(json) => {
                    notes += 1;
                    assert!(json.starts_with('{'), "{json}");
                }
            }
        }
    }
    assert_eq!(pages, rows.iter().map(|row| row.page).collect::<Vec<_>>());
    assert_eq!(notes, 8, "one process, two threads, three events, a remark, an outcome");
}

#[test]
fn a_stream_without_the_column_of_the_kernel_is_read() {
    use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
    use arrow_schema::{DataType, Field, Schema};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let rows: Vec<TraceRow> = sample_rows(3000);
    let field = |name: &str, kind| Field::new(name, kind, name == "event");
    let fields = vec![
        field("time_ns", DataType::UInt64),
        field("thread", DataType::UInt32),
        field("page", DataType::UInt64),
        field("pages", DataType::UInt32),
        field("write", DataType::Boolean),
        field("event", DataType::Utf8),
    ];
    let two_threads = TraceMeta { threads: vec![ThreadMeta::default(); 2], ..TraceMeta::single("t") };
    let entry = ("isotherm".to_owned(), serde_json::to_string(&two_threads).unwrap());
    let metadata = std::collections::HashMap::from([entry]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let wide = |of: fn(&TraceRow) -> u64| Arc::new(rows.iter().map(of).collect::<UInt64Array>()) as ArrayRef;
    let narrow = |of: fn(&TraceRow) -> u32| Arc::new(rows.iter().map(of).collect::<UInt32Array>()) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        wide(|row| row.time_ns),
        narrow(|row| row.thread),
        wide(|row| row.page),
        narrow(|row| row.pages),
        Arc::new(rows.iter().map(|row| Some(row.write)).collect::<BooleanArray>()),
        Arc::new(StringArray::from(vec![None::<&str>; rows.len()])),
    ];
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(std::fs::File::create(&path).unwrap(), &schema).unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.finish().unwrap();
    let expected: Vec<TraceRow> = rows.iter().map(|row| TraceRow { kernel: false, ..*row }).collect();
    assert_eq!(read(&path).unwrap().1, expected);
}

/// Parquet as other programs write it: other encodings, pages of version 1, columns that could be null.
#[test]
fn traces_rewritten_by_other_programs_are_read() {
    use parquet::basic::{Compression, Encoding};
    use parquet::file::properties::{WriterProperties, WriterVersion};
    let zstd = Compression::ZSTD(parquet::basic::ZstdLevel::default());
    let builder = WriterProperties::builder;
    let plain = || builder().set_dictionary_enabled(false).set_encoding(Encoding::PLAIN);
    let table = [
        ("dictionary v1", builder().set_compression(zstd), true),
        ("dictionary v2", builder().set_writer_version(WriterVersion::PARQUET_2_0).set_compression(zstd), true),
        ("plain v1, not null", plain(), false),
        ("plain v1", plain().set_compression(zstd), true),
        (
            "plain v2, small pages",
            plain().set_writer_version(WriterVersion::PARQUET_2_0).set_data_page_row_count_limit(77),
            true,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let rows = sample_rows(20_000);
    for (name, properties, nullable) in table {
        let path = folder.path().join("t.parquet");
        write_foreign(&path, &rows, properties.set_write_batch_size(64).build(), nullable, true);
        let (_, read_rows) = read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        // They have no column `kernel`: the program made all accesses itself.
        let expected: Vec<TraceRow> = rows.iter().map(|row| TraceRow { kernel: false, ..*row }).collect();
        assert!(read_rows == expected, "{name}: rows differ");
    }
    let path = folder.path().join("t.parquet");
    write_foreign(&path, &rows, plain().build(), false, false);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("metadata key `isotherm`") && error.contains("import"), "{error}");
}

fn write_foreign(
    path: &Path,
    rows: &[TraceRow],
    properties: parquet::file::properties::WriterProperties,
    nullable: bool,
    with_meta: bool,
) {
    use parquet::data_type::{BoolType, Int32Type, Int64Type};
    let repetition = if nullable { "OPTIONAL" } else { "REQUIRED" };
    let schema = format!(
        "message schema {{ {repetition} BOOLEAN write; {repetition} INT64 page; {repetition} INT64 pages;
         {repetition} INT64 time_ns; {repetition} INT32 thread; }}"
    );
    let schema = Arc::new(parquet::schema::parser::parse_message_type(&schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::file::writer::SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for rows in rows.chunks(7000) {
        let levels = vec![1i16; rows.len()];
        let levels = nullable.then_some(&levels[..]);
        let mut group = writer.next_row_group().unwrap();
        let mut bools = group.next_column().unwrap().unwrap();
        let write: Vec<bool> = rows.iter().map(|row| row.write).collect();
        bools.typed::<BoolType>().write_batch(&write, levels, None).unwrap();
        bools.close().unwrap();
        let columns: [fn(&TraceRow) -> u64; 3] = [|row| row.page, |row| u64::from(row.pages), |row| row.time_ns];
        for column in columns {
            let values: Vec<i64> = rows.iter().map(|row| column(row).cast_signed()).collect();
            let mut integers = group.next_column().unwrap().unwrap();
            integers.typed::<Int64Type>().write_batch(&values, levels, None).unwrap();
            integers.close().unwrap();
        }
        let threads: Vec<i32> = rows.iter().map(|row| row.thread.cast_signed()).collect();
        let mut integers = group.next_column().unwrap().unwrap();
        integers.typed::<Int32Type>().write_batch(&threads, levels, None).unwrap();
        integers.close().unwrap();
        group.close().unwrap();
    }
    if with_meta {
        let meta = TraceMeta { threads: vec![ThreadMeta::default(); 2], ..TraceMeta::single("t") };
        let json = serde_json::to_string(&meta).unwrap();
        writer.append_key_value_metadata(parquet::file::metadata::KeyValue::new("isotherm".to_owned(), json));
    }
    writer.close().unwrap();
}

/// A small file of each form, with its rows.
fn small_files(folder: &Path) -> [(PathBuf, Vec<TraceRow>); 2] {
    let rows = sample_rows(40);
    let (stream, finished) = (folder.join("stream"), folder.join("finished"));
    let mut writer = record(&stream, &rows[..20]);
    writer.flush().unwrap();
    rows[20..].iter().for_each(|&row| writer.push(row).unwrap());
    writer.flush().unwrap();
    std::mem::forget(writer);
    record(&finished, &rows).finish().unwrap();
    [(stream, rows.clone()), (finished, rows)]
}

/// A copy that is changed in place: creating a file for each change would wait for the disk thousands of times.
fn copy_to_change(from: &Path, to: &Path) -> (std::fs::File, Vec<u8>) {
    std::fs::copy(from, to).unwrap();
    (std::fs::File::options().write(true).open(to).unwrap(), std::fs::read(from).unwrap())
}

#[test]
fn truncation_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let [(stream, rows), (finished, _)] = small_files(folder.path());
    let cut_path = folder.path().join("cut");
    let (file, bytes) = copy_to_change(&finished, &cut_path);
    for len in (0..bytes.len() as u64).rev() {
        file.set_len(len).unwrap();
        let error = read(&cut_path).expect_err("Parquet needs its end").to_string();
        assert!(error.contains("cut"), "the path is told: {error}");
    }
    let cut_path = folder.path().join("torn");
    let (file, bytes) = copy_to_change(&stream, &cut_path);
    let mut lengths = Vec::new();
    let mut headless = false;
    for len in (0..bytes.len() as u64).rev() {
        file.set_len(len).unwrap();
        match read(&cut_path) {
            Ok((meta, read_rows)) => {
                assert!(!headless, "it opened at {len} bytes but not at more");
                assert!(!meta.complete);
                assert_eq!(read_rows, rows[..read_rows.len()]);
                lengths.push(read_rows.len());
            }
            Err(_) => headless = true,
        }
    }
    lengths.dedup();
    assert_eq!(lengths, [20, 0], "whole batches only (the last one is whole only in the whole file)");
}

#[test]
fn damage_to_any_byte_is_survived() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().unwrap();
    for (original, _) in small_files(folder.path()) {
        let path = folder.path().join("damaged");
        let (file, bytes) = copy_to_change(&original, &path);
        for (at, &byte) in bytes.iter().enumerate() {
            for change in [0x01, 0x80, 0xff] {
                file.write_all_at(&[byte ^ change], at as u64).unwrap();
                // Both results are valid: many bytes have no effect, or hold values that may be anything.
                let _ = read(&path);
            }
            file.write_all_at(&[byte], at as u64).unwrap();
        }
        assert_eq!(read(&path).unwrap().1, read(&original).unwrap().1, "all damage was undone");
    }
}

#[test]
fn what_is_no_trace_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let table: [(&[u8], &str); 9] = [
        (b"", "is empty"),
        (b"time_ns,thread\n", "begins like text"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"ARROW1\0\0", "Feather"),
        (b"\x7fELF\x02\x01\x01\x00", "7f 45 4c 46"),
        (b"PAR1", "ends before its footer"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "does not fit"),
        (b"\xff\xff\xff\xff\xf0\xff\xff\xff", "nothing is left"),
        (b"\xff\xff\xff\xff\x08\x00\x00\x00garbage!", "garbage"),
    ];
    for (bytes, expected) in table {
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("x.parquet"), "{bytes:?}: {error}");
    }
    let missing = read(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, TraceError::Io { action: "open", .. }), "{missing}");
    let a_folder = read(folder.path()).unwrap_err().to_string();
    assert!(a_folder.contains("not a regular file"), "{a_folder}");
}

#[test]
fn a_stream_ending_in_zeroes_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let [(stream, rows), _] = small_files(folder.path());
    let mut bytes = std::fs::read(&stream).unwrap();
    bytes.extend([0; 4096]);
    std::fs::write(&stream, &bytes).unwrap();
    assert_eq!(read(&stream).unwrap().1, rows);
}

#[test]
fn later_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let meta = TraceMeta { format_version: 2, ..TraceMeta::single("t") };
    TraceWriter::create_finished(&path, meta).unwrap().finish().unwrap();
    let error = TraceReader::open(&path).unwrap_err();
    assert!(matches!(error, TraceError::TooNew { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn rows_that_cannot_be_are_refused_by_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(folder.path().join("t"), TraceMeta::single("t")).unwrap();
    let good = TraceRow { time_ns: 5, thread: 0, page: 1, pages: 1, write: false, kernel: false };
    writer.push(good).unwrap();
    let table = [
        (TraceRow { pages: 0, ..good }, "`pages` is 0"),
        (TraceRow { page: (1 << 52) - 1, pages: 2, ..good }, "exceeds 2^52"),
        (TraceRow { page: u64::MAX, ..good }, "exceeds 2^52"),
        (TraceRow { thread: 1, ..good }, "not among the 1 listed"),
        (TraceRow { time_ns: 4, ..good }, "before 5 ns"),
    ];
    for (row, expected) in table {
        let error = writer.push(row).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    writer.push(TraceRow { page: (1 << 52) - 1, ..good }).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_told() {
    let error = TraceWriter::create("/proc/nowhere/t.parquet", TraceMeta::single("t")).unwrap_err().to_string();
    assert!(error.contains("/proc/nowhere/t.parquet"), "{error}");
}

fn any_row() -> impl Strategy<Value = TraceRow> {
    let page = prop_oneof![0u64..1000, 0u64..(1 << 51), Just((1 << 52) - u64::from(u32::MAX))];
    let pages = prop_oneof![Just(1u32), 1u32..100, Just(u32::MAX)];
    (0u64..3, page, pages, any::<bool>(), any::<bool>()).prop_map(|(time_ns, page, pages, write, kernel)| TraceRow {
        time_ns,
        thread: 0,
        page,
        pages,
        write,
        kernel,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_rows_round_trip(mut rows in proptest::collection::vec(any_row(), 0..900), flush_at in 0usize..900) {
        let mut clock = 0;
        for row in &mut rows {
            clock += row.time_ns * row.page % 1_000_000_007;
            row.time_ns = clock;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut writer = TraceWriter::create(&path, TraceMeta::single("t")).unwrap();
        for (index, &row) in rows.iter().enumerate() {
            if index == flush_at {
                writer.flush().unwrap();
            }
            writer.push(row).unwrap();
        }
        writer.flush().unwrap();
        prop_assert_eq!(&read(&path).unwrap().1, &rows);
        writer.finish().unwrap();
        prop_assert_eq!(&read(&path).unwrap().1, &rows);
    }

    #[test]
    fn garbage_is_survived(
        head in prop_oneof![Just(&b"PAR1"[..]), Just(&b"\xff\xff\xff\xff"[..]), Just(&b""[..])],
        body in proptest::collection::vec(any::<u8>(), 0..400),
        tail in prop_oneof![Just(&b"\x20\0\0\0PAR1"[..]), Just(&b"\xff\0\0\0PAR1"[..]), Just(&b""[..])],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, [head, &body, tail].concat()).unwrap();
        prop_assert!(read(&path).is_err());
    }
}
