//! Group records on disk: round trips, torn, cut at every byte, garbage, empty, huge.

use isotherm_trace::TraceError;
use isotherm_trace::group::{
    Gauges, Generation, GroupMeta, GroupReader, GroupWriter, Look, LookKind, finish_group_record, is_group_record,
};

fn look(number: u64) -> Look {
    let generation = |node: u64, index: u64| Generation {
        node,
        seq: number + index,
        age_ns: (3 - index) * 1_000_000_000,
        anon_bytes: 4096 * (index + number),
        file_bytes: 8192 * index,
    };
    let gauges = Gauges {
        memory_current_bytes: Some(1 << 30),
        refaults_file: Some(number),
        pressure_some_ns: Some(0),
        max_bytes: (number.is_multiple_of(2)).then_some(u64::MAX),
        ..Gauges::default()
    };
    let nodes = if number == 2 { 0..0 } else { 0..2 };
    let generations = nodes.flat_map(|node| (0..4).map(move |index| generation(node, index))).collect();
    let kind = if number.is_multiple_of(3) { LookKind::Read } else { LookKind::Aged };
    Look { time_ns: number * 1_000_000_000, kind, gauges, generations }
}

fn meta() -> GroupMeta {
    GroupMeta {
        group: "/app/db".to_owned(),
        interval_ns: 1_000_000_000,
        huge_pages: Some(false),
        ..GroupMeta::default()
    }
}

/// A stream of six samples in three batches, and the samples.
fn stream(path: &std::path::Path) -> Vec<Look> {
    let looks: Vec<Look> = (0..6).map(look).collect();
    let mut writer = GroupWriter::create(path, meta()).unwrap();
    for pair in looks.chunks(2) {
        pair.iter().for_each(|look| writer.push(look).unwrap());
        writer.note("a remark").unwrap();
        writer.flush().unwrap();
    }
    looks
}

#[test]
fn what_was_written_is_read_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("group");
    let looks = stream(&path);
    let mut torn = GroupReader::open(&path).unwrap();
    assert!(!torn.is_finished() && !torn.meta().complete);
    assert_eq!((torn.meta().looks, torn.read_all().unwrap()), (6, looks.clone()));
    finish_group_record(&path).unwrap();
    let mut done = GroupReader::open(&path).unwrap();
    assert!(done.is_finished());
    assert_eq!((done.meta().group.as_str(), done.meta().huge_pages), ("/app/db", Some(false)));
    assert_eq!(done.read_all().unwrap(), looks);

    let mut writer = GroupWriter::create(&path, meta()).unwrap();
    writer.push(&looks[0]).unwrap();
    writer.set_outcome(true).unwrap();
    let written = writer.finish().unwrap();
    assert!(written.complete && written.looks == 1);
    assert_eq!(GroupReader::open(&path).unwrap().meta(), &written);
}

#[test]
fn a_file_cut_at_any_byte_is_an_error_or_opens_up_to_its_last_batch() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cut) = (folder.path().join("group"), folder.path().join("cut"));
    let looks = stream(&path);
    let bytes = std::fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for len in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        if let Ok(mut reader) = GroupReader::open(&cut) {
            let read = reader.read_all().unwrap();
            assert_eq!(read, looks[..read.len()], "cut at {len}");
            seen.insert(read.len());
        }
    }
    assert!(seen.is_superset(&[0, 2, 4].into()), "{seen:?}");
    finish_group_record(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for len in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        assert!(GroupReader::open(&cut).is_err(), "cut at {len}");
    }
}

#[test]
fn changed_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("group");
    stream(&path);
    let whole = std::fs::read(&path).unwrap();
    finish_group_record(&path).unwrap();
    for bytes in [whole, std::fs::read(&path).unwrap()] {
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0xa5;
            std::fs::write(&path, &changed).unwrap();
            if let Ok(mut reader) = GroupReader::open(&path) {
                let _ = reader.read_all();
            }
        }
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    for bytes in [&b""[..], b"hello", &[0xff; 4096], &[0; 1 << 20]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(GroupReader::open(&path).is_err());
    }
    std::fs::write(&path, b"hello").unwrap();
    assert!(!is_group_record(&path));
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/sqlite.parquet");
    assert!(!is_group_record(trace));
    assert!(matches!(GroupReader::open(trace), Err(TraceError::WrongFormat { .. })));
    stream(&path);
    assert!(is_group_record(&path));
}

#[test]
fn looks_must_be_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = GroupWriter::create(folder.path().join("group"), meta()).unwrap();
    writer.push(&look(4)).unwrap();
    assert!(writer.push(&look(3)).unwrap_err().to_string().contains("time may not go back"));
    let mut twice = look(5);
    twice.generations[1].seq = twice.generations[0].seq;
    assert!(writer.push(&twice).unwrap_err().to_string().contains("must ascend"));
}
