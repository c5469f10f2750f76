//! How far two recordings of one program agree. Addresses differ between engines, so pages are named by their mapping and their place in
//! it: a file's name and page, or the number of an anonymous mapping of its process, in the order in which they were first touched.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use isotherm_trace::{EventKind, MapKind, TraceError, TraceReader};
use serde::Serialize;

/// Trace time of a window.
const WINDOW_NS: u64 = 10_000_000;

/// Overlap (Jaccard: pages in both, divided by pages in either) of valgrind's and QEMU's recordings of a deterministic program.
#[derive(Debug, Serialize)]
pub(super) struct Agreement {
    pub(super) release: &'static str,
    pub(super) program: &'static str,
    /// Windows of 10 ms of a thread's time in which one of them touched anything.
    pub(super) windows: usize,
    pub(super) median: f64,
    pub(super) mean: f64,
    /// Of all pages of the run.
    pub(super) whole: f64,
}

/// A page by name: process in the order of their starts, mapping, page in it.
type Name = (usize, u32, u64);

/// What was touched, by thread and window.
struct Touches {
    windows: BTreeMap<(u32, u64), BTreeSet<Name>>,
}

/// Numbers for the names of mappings, the same for both recordings.
#[derive(Default)]
struct Names(HashMap<String, u32>);

impl Names {
    fn of(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(name).or_insert(next)
    }
}

impl Agreement {
    pub(super) fn of(
        release: &'static str,
        program: &'static str,
        one: &Path,
        other: &Path,
    ) -> Result<Self, TraceError> {
        let mut names = Names::default();
        let (one, other) = (touches(one, &mut names)?, touches(other, &mut names)?);
        let keys: BTreeSet<_> = one.windows.keys().chain(other.windows.keys()).collect();
        let none = BTreeSet::new();
        let of =
            |touches: &'_ Touches, key: &_| -> BTreeSet<Name> { touches.windows.get(key).unwrap_or(&none).clone() };
        let mut overlaps: Vec<f64> = keys.iter().map(|key| jaccard(&of(&one, key), &of(&other, key))).collect();
        overlaps.sort_by(f64::total_cmp);
        let all = |touches: &Touches| touches.windows.values().flatten().copied().collect::<BTreeSet<Name>>();
        let count = overlaps.len().max(1);
        Ok(Self {
            release,
            program,
            windows: overlaps.len(),
            median: overlaps.get(overlaps.len() / 2).copied().unwrap_or(1.0),
            mean: overlaps.iter().sum::<f64>() / count as f64,
            whole: jaccard(&all(&one), &all(&other)),
        })
    }
}

/// Members of both, divided by members of either; 1 if there are none.
fn jaccard(one: &BTreeSet<Name>, other: &BTreeSet<Name>) -> f64 {
    let both = one.intersection(other).count();
    let either = one.len() + other.len() - both;
    if either == 0 { 1.0 } else { both as f64 / either as f64 }
}

/// One mapping: its end, its name, and what its first page is called.
#[derive(Clone, Copy)]
struct Mapped {
    end: u64,
    /// `None`: anonymous and not touched yet.
    name: Option<u32>,
    first: u64,
}

/// Mappings of one process by their first page.
#[derive(Clone, Default)]
struct Mappings {
    ranges: BTreeMap<u64, Mapped>,
    nr_anonymous: u32,
}

impl Mappings {
    fn unmap(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, Mapped)> = self
            .ranges
            .range(..end)
            .filter(|(_, range)| range.end > start)
            .map(|(&first, &range)| (first, range))
            .collect();
        for (first, range) in touched {
            self.ranges.remove(&first);
            if first < start {
                self.ranges.insert(first, Mapped { end: start, ..range });
            }
            if range.end > end {
                self.ranges.insert(end, Mapped { first: range.first + (end - first), ..range });
            }
        }
    }

    fn map(&mut self, map: &isotherm_trace::MapRange, names: &mut Names) {
        self.unmap(map.start, map.end);
        let (name, first) = match (&map.file, map.what) {
            (Some(file), _) => (file.clone(), map.file_page),
            // A stack grows down from its end.
            (None, MapKind::Stack) => ("stack".to_owned(), u64::MAX / 2 - (map.end - map.start)),
            (None, MapKind::Heap) => ("heap".to_owned(), 0),
            (None, _) => {
                self.ranges.insert(map.start, Mapped { end: map.end, name: None, first: 0 });
                return;
            }
        };
        self.ranges.insert(map.start, Mapped { end: map.end, name: Some(names.of(name)), first });
    }

    /// The name of a touched page. Engines themselves have anonymous mappings that programs do not touch, so one is numbered at its
    /// first touch.
    fn name(&mut self, page: u64, names: &mut Names) -> (u32, u64) {
        let Some((&start, range)) = self.ranges.range_mut(..=page).next_back().filter(|(_, range)| range.end > page)
        else {
            return (names.of("nothing that is mapped".to_owned()), page);
        };
        let name = *range.name.get_or_insert_with(|| {
            self.nr_anonymous += 1;
            names.of(format!("anonymous {}", self.nr_anonymous))
        });
        (name, range.first + (page - start))
    }
}

fn touches(path: &Path, names: &mut Names) -> Result<Touches, TraceError> {
    let mut reader = TraceReader::open(path)?;
    let meta = reader.meta().clone();
    let mut processes = vec![Mappings::default(); meta.processes.len()];
    let mut events = meta.events.iter().peekable();
    let mut touches = Touches { windows: BTreeMap::new() };
    reader.for_each_batch(|batch| {
        for (index, row) in batch.rows().enumerate() {
            while let Some(event) = events.next_if(|event| event.row <= batch.first_row + index as u64) {
                let process = meta.process_of(event.thread);
                match &event.kind {
                    EventKind::Map(map) => processes[process].map(map, names),
                    EventKind::Unmap { start, end } => processes[process].unmap(*start, *end),
                    EventKind::StartThread { thread } => {
                        let started = meta.process_of(*thread);
                        if meta.processes[started].forked_from == Some(process) && started != process {
                            processes[started] = processes[process].clone();
                        }
                    }
                    _ => {}
                }
            }
            let process = meta.process_of(row.thread);
            let window = touches.windows.entry((row.thread, row.time_ns / WINDOW_NS)).or_default();
            for page in row.page..row.page + u64::from(row.pages) {
                let (name, place) = processes[process].name(page, names);
                window.insert((process, name, place));
            }
        }
        Ok::<(), TraceError>(())
    })?;
    Ok(touches)
}

#[cfg(test)]
mod tests {
    use isotherm_trace::{MapRange, TraceMeta, TraceRow, TraceWriter};

    use super::*;

    /// A program at `base` that touches two pages of a file and, 10 ms later, `late` pages of anonymous memory.
    fn trace(path: &Path, base: u64, late: u32) {
        let mut writer = TraceWriter::create_finished(path, TraceMeta::single("x")).unwrap();
        let file = MapRange {
            start: base,
            end: base + 9,
            what: MapKind::File,
            file: Some("/f".into()),
            ..MapRange::default()
        };
        writer.event(0, 0, EventKind::Map(file)).unwrap();
        writer
            .event(0, 0, EventKind::Map(MapRange { start: base + 20, end: base + 40, ..MapRange::default() }))
            .unwrap();
        writer.event(0, 0, EventKind::Unmap { start: base + 25, end: base + 26 }).unwrap();
        let row = |time_ns, page, pages| TraceRow { time_ns, thread: 0, page, pages, write: false, kernel: false };
        writer.push(row(0, base + 3, 2)).unwrap();
        writer.push(row(WINDOW_NS, base + 30, late)).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn the_same_at_other_addresses_agrees_and_less_agrees_less() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, less] = ["one", "other", "less"].map(|name| folder.path().join(name));
        trace(&one, 1000, 4);
        trace(&other, 77_000, 4);
        trace(&less, 500, 1);
        let of = |other| Agreement::of("r", "p", &one, other).unwrap();
        let same = of(&other);
        assert_eq!((same.windows, same.median, same.mean, same.whole), (2, 1.0, 1.0, 1.0));
        // By hand: the first window agrees, of the second 1 of 4; of the whole 3 of 6.
        let part = of(&less);
        assert_eq!((part.windows, part.mean, part.whole), (2, 0.625, 0.5));
    }
}
