//! Samples against the whole, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::*;
use crate::analysis::heatmap;
use crate::{MapKind, MapRange, PageCacheRange, ProcessMeta, ThreadMeta};
use proptest::prelude::*;

/// Identity of a page, independent of mappings: memory of a process at an address, or a page of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Memory(usize, u64),
    File(String, u64),
}

/// Mappings by process and page, from events.
#[derive(Default)]
struct Model(BTreeMap<(usize, u64), (Option<String>, u64)>);

impl Model {
    fn see(&mut self, process: usize, kind: &EventKind) {
        match kind {
            EventKind::Map(map) => {
                for page in map.start..map.end {
                    let file_page = map.file_page + (page - map.start);
                    self.0.insert((process, page), (map.file.clone(), file_page));
                }
            }
            EventKind::Unmap { start, end } => (*start..*end).for_each(|page| {
                self.0.remove(&(process, page));
            }),
            _ => {}
        }
    }

    fn identity(&self, process: usize, page: u64) -> Identity {
        match self.0.get(&(process, page)) {
            Some((Some(file), file_page)) => Identity::File(file.clone(), *file_page),
            _ => Identity::Memory(process, page),
        }
    }
}

/// Every touch: time and thread of its row, and the page's identity.
fn touches(path: &Path) -> Vec<(u64, u32, Identity)> {
    let mut reader = TraceReader::open(path).unwrap();
    let meta = reader.meta().clone();
    let (mut model, mut events, mut batch) = (Model::default(), meta.events.iter().peekable(), RowBatch::new());
    let mut touches = Vec::new();
    while reader.next_batch(&mut batch).unwrap() {
        for (number, row) in (batch.first_row..).zip(batch.rows()) {
            while let Some(event) = events.next_if(|event| event.row <= number) {
                model.see(meta.process_of(event.thread), &event.kind);
            }
            let process = meta.process_of(row.thread);
            let pages = row.page..row.page + u64::from(row.pages);
            touches.extend(pages.map(|page| (row.time_ns, row.thread, model.identity(process, page))));
        }
    }
    touches
}

#[derive(Clone, Debug)]
enum Act {
    Map { process: u32, start: u64, pages: u64, file: Option<(u8, u64)> },
    Unmap { process: u32, start: u64, pages: u64 },
    Touch { process: u32, start: u64, pages: u32 },
}

fn meta(nr_processes: usize) -> TraceMeta {
    TraceMeta {
        processes: vec![ProcessMeta::default(); nr_processes],
        threads: (0..nr_processes).map(|process| ThreadMeta { process, ..ThreadMeta::default() }).collect(),
        epoch_ns: 1_000_000,
        page_cache: Some(PageCacheRange::RECORDED),
        ..TraceMeta::default()
    }
}

fn write(path: &Path, acts: &[Act]) {
    let mut writer = TraceWriter::create_finished(path, meta(2)).unwrap();
    for (time_ns, act) in (0..).zip(acts) {
        match act {
            Act::Map { process, start, pages, file } => {
                let map = MapRange {
                    start: *start,
                    end: start + pages,
                    what: if file.is_some() { MapKind::File } else { MapKind::Anonymous },
                    file: file.map(|(name, _)| format!("/file{name}")),
                    file_page: file.map_or(0, |(_, page)| page),
                    ..MapRange::default()
                };
                writer.event(*process, time_ns, EventKind::Map(map)).unwrap();
            }
            Act::Unmap { process, start, pages } => {
                writer.event(*process, time_ns, EventKind::Unmap { start: *start, end: start + pages }).unwrap();
            }
            Act::Touch { process, start, pages } => {
                let row =
                    TraceRow { time_ns, thread: *process, page: *start, pages: *pages, write: true, kernel: false };
                writer.push(row).unwrap();
            }
        }
    }
    writer.finish().unwrap();
}

fn sample(path: &Path, n: u32) -> Option<std::path::PathBuf> {
    let output = path.with_extension("sample");
    let rate = SampleRate::one_in(n).unwrap();
    write_sample(&mut TraceReader::open(path).unwrap(), rate, &output, |_| ()).ok().map(|_| output)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Addresses in steps that are not whole groups, so that edges can be anywhere.
    let range = || (0u64..40, 1u64..300).prop_map(|(at, pages)| (at * 37, pages));
    let act =
        (0u32..2, range(), 0u8..6, 0u8..2, 0u64..500).prop_map(|(process, (start, pages), what, name, file_page)| {
            match what {
                0 => Act::Map { process, start, pages, file: None },
                1 | 2 => Act::Map { process, start, pages, file: Some((name, file_page)) },
                3 => Act::Unmap { process, start, pages },
                _ => Act::Touch { process, start, pages: u32::try_from(pages).unwrap() },
            }
        });
    proptest::collection::vec(act, 1..60)
}

proptest! {
    /// A page is in the sample always or never, as one unique page, in the order and at the times of the whole.
    #[test]
    fn a_sample_is_the_whole_with_pages_left_out(acts in acts(), n in 2u32..6) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole");
        write(&path, &acts);
        let whole = touches(&path);
        let sampled = sample(&path, n).map_or_else(Vec::new, |sample| touches(&sample));
        // The page of the whole for a page of the sample: its axis is cut at the same points.
        let place = |identity: &Identity| {
            let (axis, page) = match identity {
                Identity::Memory(_, page) => ("", *page),
                Identity::File(name, page) => (name.as_str(), *page),
            };
            let grid = Grid::new(4096, n.into(), axis);
            let (start, end) = grid.places(page, page + 1);
            (start < end).then(|| match identity {
                Identity::Memory(process, _) => Identity::Memory(*process, start),
                Identity::File(name, _) => Identity::File(name.clone(), start),
            })
        };
        let expected: Vec<_> = whole
            .iter()
            .filter_map(|(time, thread, identity)| Some((*time, *thread, place(identity)?)))
            .collect();
        prop_assert_eq!(sampled, expected);
    }
}

#[test]
fn a_large_range_has_its_share_in_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let map = Act::Map { process: 0, start: 1000, pages: 1 << 20, file: None };
    let file = Act::Map { process: 1, start: 5000, pages: 1 << 18, file: Some((1, 77)) };
    let touch = |process, start, pages| Act::Touch { process, start, pages };
    write(&path, &[map, file, touch(0, 1000, 1 << 20), touch(1, 5000, 1 << 18)]);
    let sampled = sample(&path, 16).unwrap();
    let mut reader = TraceReader::open(&sampled).unwrap();
    assert_eq!(reader.meta().sample, Some(16));
    let mut rows = Vec::new();
    let mut batch = RowBatch::new();
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend(batch.rows());
    }
    // Each is one row, because chosen groups are adjacent. At an edge the share may be off by a group.
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, pages) in rows.iter().zip([1u32 << 20, 1 << 18]) {
        assert!(row.pages.abs_diff(pages / 16) <= 64, "{row:?}");
    }
    let maps: BTreeSet<u64> = reader
        .meta()
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Map(map) => Some(map.start),
            _ => None,
        })
        .collect();
    assert!(rows.iter().all(|row| maps.contains(&row.page)), "mappings hold what is touched");
}

#[test]
fn threads_compute_as_long_as_in_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    // The last rows are of a page that is not chosen.
    let grid = Grid::new(4096, 4, "");
    let other = (0..256).find(|&page| grid.place(page) == grid.place(page + 1)).unwrap();
    let mut acts = vec![Act::Touch { process: 0, start: 0, pages: 256 }];
    acts.extend((0..50).map(|_| Act::Touch { process: 0, start: other, pages: 1 }));
    write(&path, &acts);
    let sampled = sample(&path, 4).unwrap();
    let end = |path: &Path| {
        let mut reader = TraceReader::open(path).unwrap();
        heatmap(
            &mut reader,
            &crate::analysis::HeatmapOptions { columns: 4, rows: 4, fold_pages: 1, whole_epochs: false },
        )
        .unwrap()
        .duration_ns
    };
    assert_eq!(end(&sampled), end(&path));
}

#[test]
fn what_cannot_be_sampled_is_refused_with_nothing_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let grid = Grid::new(4096, 1024, "");
    let other = (0..256).find(|&page| grid.place(page) == grid.place(page + 1)).unwrap();
    write(&path, &[Act::Touch { process: 0, start: other, pages: 1 }]);
    let output = folder.path().join("sample");
    let rate = SampleRate::one_in(1024).unwrap();
    let error = write_sample(&mut TraceReader::open(&path).unwrap(), rate, &output, |_| ()).unwrap_err().to_string();
    assert!(error.contains("none of its pages is in a sample of 1/1024; take a larger one"), "{error}");
    assert!(!output.exists());
    write(&path, &[Act::Touch { process: 0, start: 0, pages: 300 }]);
    let small = sample(&path, 2).unwrap();
    let error = write_sample(&mut TraceReader::open(small).unwrap(), rate, &output, |_| ()).unwrap_err().to_string();
    assert!(error.contains("it is a sample already"), "{error}");
}
