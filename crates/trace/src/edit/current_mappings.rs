//! The mappings at a moment, with all their properties.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::{Event, EventKind, MapRange, TraceMeta};

/// Mappings of each process, updated event by event.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// By process and first page: the page after the last, and the original mapping.
    ranges: BTreeMap<(usize, u64), (u64, Rc<MapRange>)>,
}

impl Standing {
    /// Applies an event of `process`.
    pub(crate) fn see(&mut self, meta: &TraceMeta, event: &Event, process: usize) {
        match &event.kind {
            EventKind::Map(map) => {
                self.cut(process, map.start, map.end);
                self.ranges.insert((process, map.start), (map.end, Rc::new(map.clone())));
            }
            EventKind::Unmap { start, end } => self.cut(process, *start, *end),
            EventKind::StartThread { thread } => {
                let child = meta.process_of(*thread);
                let forked = meta.processes.get(child).and_then(|child| child.forked_from) == Some(process);
                if forked && child != process && self.of(child).next().is_none() {
                    let inherited: Vec<_> = self.of(process).map(|(start, range)| (start, range.clone())).collect();
                    self.ranges.extend(inherited.into_iter().map(|(start, range)| ((child, start), range)));
                }
            }
            EventKind::EndThread | EventKind::Idle { .. } | EventKind::Unknown => {}
        }
    }

    /// Removes `start..end`; parts of mappings outside it stay.
    fn cut(&mut self, process: usize, start: u64, end: u64) {
        let before = self.ranges.range((process, 0)..(process, start)).next_back();
        if let Some((&key, (range_end, map))) = before.filter(|(_, (range_end, _))| *range_end > start) {
            let (range_end, map) = (*range_end, Rc::clone(map));
            self.ranges.insert(key, (start, Rc::clone(&map)));
            if range_end > end {
                self.ranges.insert((process, end), (range_end, map));
            }
        }
        while let Some((&key, (range_end, map))) = self.ranges.range((process, start)..(process, end)).next() {
            let (range_end, map) = (*range_end, Rc::clone(map));
            self.ranges.remove(&key);
            if range_end > end {
                self.ranges.insert((process, end), (range_end, map));
            }
        }
    }

    fn of(&self, process: usize) -> impl Iterator<Item = (u64, &(u64, Rc<MapRange>))> + '_ {
        self.ranges.range((process, 0)..(process + 1, 0)).map(|(&(_, start), range)| (start, range))
    }

    /// The mappings of `process` by address, each with its page of the file there.
    pub(crate) fn mappings(&self, process: usize) -> impl Iterator<Item = MapRange> + '_ {
        self.of(process).map(|(start, (end, map))| {
            let shift = if map.file.is_some() { start - map.start } else { 0 };
            MapRange { start, end: *end, file_page: map.file_page.saturating_add(shift), ..(**map).clone() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MapKind, ProcessMeta, ThreadMeta};

    #[test]
    fn holes_leave_the_rest_with_its_file_pages() {
        let meta = TraceMeta {
            processes: vec![ProcessMeta::default(), ProcessMeta { forked_from: Some(0), ..ProcessMeta::default() }],
            threads: vec![ThreadMeta::default(), ThreadMeta { process: 1, ..ThreadMeta::default() }],
            ..TraceMeta::default()
        };
        let mut standing = Standing::default();
        let mut see = |kind| standing.see(&meta, &Event { row: 0, thread: 0, time_ns: 0, kind }, 0);
        let file = MapRange {
            start: 10,
            end: 20,
            what: MapKind::File,
            file: Some("a".into()),
            file_page: 5,
            ..MapRange::default()
        };
        let heap = MapRange { start: 18, end: 25, what: MapKind::Heap, ..MapRange::default() };
        see(EventKind::Map(file.clone()));
        see(EventKind::Unmap { start: 12, end: 14 });
        see(EventKind::Map(heap.clone()));
        see(EventKind::StartThread { thread: 1 });
        see(EventKind::Unmap { start: 0, end: 100 });
        assert_eq!(standing.mappings(0).count(), 0);
        let inherited: Vec<MapRange> = standing.mappings(1).collect();
        let left = MapRange { end: 12, ..file.clone() };
        let right = MapRange { start: 14, end: 18, file_page: 9, ..file };
        assert_eq!(inherited, [left, right, heap], "by hand: file page 5 is page 10, so page 14 shows file page 9");
    }
}
