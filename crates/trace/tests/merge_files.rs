//! Files that traces read and write through descriptors, when the traces are merged.

use std::path::Path;

use isotherm_trace::analysis::footprint;
use isotherm_trace::edit::merge;
use isotherm_trace::{EventKind, MapKind, MapRange, PageCacheRange, TraceMeta, TraceReader, TraceRow, TraceWriter};

fn row(page: u64, pages: u32) -> TraceRow {
    TraceRow { time_ns: 0, thread: 0, page, pages, write: false, kernel: false }
}

fn write(path: &Path, meta: TraceMeta, map: Option<MapRange>, rows: &[TraceRow]) {
    let mut writer = TraceWriter::create_finished(path, meta).unwrap();
    map.into_iter().for_each(|map| writer.event(0, 0, EventKind::Map(map)).unwrap());
    rows.iter().for_each(|row| writer.push(*row).unwrap());
    writer.finish().unwrap();
}

#[test]
fn merged_traces_keep_their_files_apart() {
    let folder = tempfile::tempdir().unwrap();
    let first = PageCacheRange::RECORDED.start;
    let one = |name: &str, file: &str, pages: u64| {
        let path = folder.path().join(name);
        let (what, file) = (MapKind::PageCache, Some(file.to_owned()));
        let map = MapRange { start: first, end: first + pages, what, file, ..MapRange::default() };
        let meta = TraceMeta { page_cache: Some(PageCacheRange::RECORDED), ..TraceMeta::single(name) };
        write(&path, meta, Some(map), &[row(5, 1), TraceRow { kernel: true, ..row(first + 1, 2) }]);
        path
    };
    let inputs = [one("a", "/x", 3), one("b", "/y", 4)];
    let output = folder.path().join("out");
    let meta = merge(&inputs, &output, |_| {}).unwrap();
    assert_eq!(meta.page_cache, Some(PageCacheRange::RECORDED));
    let maps = meta.events.iter().filter_map(|event| match &event.kind {
        EventKind::Map(map) => Some((event.thread, map.start - first, map.end - first, map.file.as_deref().unwrap())),
        _ => None,
    });
    let maps: Vec<_> = maps.collect();
    assert_eq!(maps, [(0, 0, 3, "/x"), (1, 3, 7, "/y")], "the second trace's files come behind the first's");
    let mut used = Vec::new();
    let mut reader = TraceReader::open(&output).unwrap();
    reader
        .for_each_batch(|batch| {
            used.extend(batch.rows().map(|row| (row.thread, row.page, row.kernel)));
            Ok::<(), isotherm_trace::TraceError>(())
        })
        .unwrap();
    assert_eq!(used, [(0, 5, false), (0, first + 1, true), (1, 5, false), (1, first + 4, true)]);
    assert_eq!(footprint(&mut reader).unwrap().page_cache_pages, 4);
    // A trace without these accesses is reported, and one with another layout is refused.
    let plain = folder.path().join("plain");
    write(&plain, TraceMeta::single("p"), None, &[row(1, 1)]);
    let meta = merge(&[inputs[0].clone(), plain], &output, |_| {}).unwrap();
    assert!(meta.notes.iter().any(|note| note.contains("only some of the traces hold files")), "{:?}", meta.notes);
    let other = folder.path().join("other");
    let elsewhere =
        TraceMeta { page_cache: Some(PageCacheRange { start: 1 << 40, end: 1 << 41 }), ..TraceMeta::single("o") };
    write(&other, elsewhere, None, &[row(1, 1)]);
    let error = merge(&[inputs[0].clone(), other], &output, |_| {}).unwrap_err().to_string();
    assert!(error.contains("other page numbers"), "{error}");
}
