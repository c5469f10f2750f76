//! Mappings of a process, needed to record moves and discards.

use std::collections::BTreeMap;

use isotherm_trace::{EventKind, MapKind, MapRange};

use crate::protocol::MapFlags;

/// The mappings of one process, disjoint, by first page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    ranges: BTreeMap<u64, MapRange>,
}

impl Layout {
    /// Maps `range`, in place of earlier mappings.
    pub(crate) fn map(&mut self, range: MapRange) -> EventKind {
        self.take(range.start, range.end);
        self.ranges.insert(range.start, range.clone());
        EventKind::Map(range)
    }

    /// Unmaps `[start, end)`.
    pub(crate) fn unmap(&mut self, start: u64, end: u64) -> EventKind {
        self.take(start, end);
        EventKind::Unmap { start, end }
    }

    /// `mremap` from one range to another, which may overlap or be the same.
    pub(crate) fn remap(&mut self, old: (u64, u64), new: (u64, u64)) -> Vec<EventKind> {
        let mut events = Vec::new();
        let pieces = self.pieces(old.0, old.1);
        let template = pieces.last().cloned().unwrap_or_default();
        if old.0 == new.0 {
            // In place: the common part keeps its contents.
            if new.1 < old.1 {
                events.push(self.unmap(new.1, old.1));
            } else if new.1 > old.1 {
                events.push(self.map(part(&template, old.1, new.1)));
            }
            return events;
        }
        if old.1 > old.0 {
            events.push(self.unmap(old.0, old.1));
        }
        for piece in &pieces {
            let moved = |page: u64| page - old.0 + new.0;
            let (start, end) = (moved(piece.start), moved(piece.end).min(new.1));
            if start < end {
                let range = MapRange { start, end, ..piece.clone() };
                events.push(self.map(range));
            }
        }
        let mapped_to = new.0 + (old.1 - old.0);
        if mapped_to < new.1 {
            let rest = part(&template, old.1, old.1 + (new.1 - mapped_to));
            events.push(self.map(MapRange { start: mapped_to, end: new.1, ..rest }));
        }
        events
    }

    /// `MADV_DONTNEED`: private anonymous memory in the range is as if mapped again. Pages of files stay in the page
    /// cache.
    pub(crate) fn discard(&mut self, start: u64, end: u64) -> Vec<EventKind> {
        let pieces = self.pieces(start, end);
        let anonymous = pieces.into_iter().filter(|piece| piece.file.is_none() && !piece.shared);
        anonymous.flat_map(|piece| [self.unmap(piece.start, piece.end), self.map(piece)]).collect()
    }

    /// Copies of the parts of mappings in `[start, end)`.
    fn pieces(&self, start: u64, end: u64) -> Vec<MapRange> {
        let first = self.ranges.range(..=start).next_back().map_or(start, |(&first, _)| first);
        let overlapping = self.ranges.range(first..end.max(first)).map(|(_, range)| range);
        overlapping
            .filter(|range| range.end > start && range.start < end)
            .map(|range| part(range, range.start.max(start), range.end.min(end)))
            .collect()
    }

    /// Removes `[start, end)`; keeps the parts outside it.
    fn take(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.ranges.range(..=start).next_back().map_or(start, |(&first, _)| first);
        let keys: Vec<u64> = self.ranges.range(first..end.max(first)).map(|(&key, _)| key).collect();
        for key in keys {
            let Some(range) = self.ranges.get(&key).cloned() else { continue };
            if range.end <= start || range.start >= end {
                continue;
            }
            self.ranges.remove(&key);
            if range.start < start {
                self.ranges.insert(range.start, part(&range, range.start, start));
            }
            if range.end > end {
                self.ranges.insert(end, part(&range, end, range.end));
            }
        }
    }
}

/// The part `[start, end)` of what `range` maps, which may extend beyond its end.
fn part(range: &MapRange, start: u64, end: u64) -> MapRange {
    let file_page = if range.file.is_some() { range.file_page + start.saturating_sub(range.start) } else { 0 };
    MapRange { start, end, file_page, ..range.clone() }
}

/// A mapping in the trace's format, from the engine's record.
pub(crate) fn map_range(start: u64, end: u64, flags: MapFlags, file_page: u64, name: String) -> MapRange {
    // Files of memory file systems, and System V segments: they are backed by swap, not by a disk.
    let in_memory = ["/memfd:", "/dev/shm/", "/SYSV", "/sysv-shm"].iter().any(|prefix| name.starts_with(prefix));
    let what = match flags {
        MapFlags { heap: true, .. } => MapKind::Heap,
        MapFlags { stack: true, .. } => MapKind::Stack,
        MapFlags { file: true, .. } if in_memory => MapKind::Shared,
        MapFlags { file: true, initial: true, .. } => MapKind::Image,
        MapFlags { file: true, .. } => MapKind::File,
        MapFlags { shared: true, .. } => MapKind::Shared,
        _ => MapKind::Anonymous,
    };
    let file = flags.file.then_some(name);
    let file_page = if flags.file { file_page } else { 0 };
    MapRange { start, end, what, file, file_page, shared: flags.shared, executable: flags.executable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(start: u64, end: u64) -> MapRange {
        MapRange { start, end, ..MapRange::default() }
    }
    fn file(start: u64, end: u64, file_page: u64) -> MapRange {
        MapRange { start, end, what: MapKind::File, file: Some("/f".into()), file_page, ..MapRange::default() }
    }
    fn layout(ranges: &[MapRange]) -> Layout {
        let mut layout = Layout::default();
        for range in ranges {
            layout.map(range.clone());
        }
        layout
    }
    fn all(layout: &Layout) -> Vec<MapRange> {
        layout.ranges.values().cloned().collect()
    }

    #[test]
    fn a_mapping_in_the_middle_splits_the_one_below() {
        let layout = layout(&[file(10, 20, 5), anonymous(13, 15)]);
        assert_eq!(all(&layout), [file(10, 13, 5), anonymous(13, 15), file(15, 20, 10)]);
    }

    #[test]
    fn unmapping_cuts_at_both_ends() {
        let mut layout = layout(&[anonymous(10, 20), anonymous(20, 30), anonymous(40, 50)]);
        layout.unmap(15, 45);
        assert_eq!(all(&layout), [anonymous(10, 15), anonymous(45, 50)]);
        layout.unmap(0, 0);
        layout.unmap(100, 200);
        assert_eq!(all(&layout).len(), 2);
    }

    #[test]
    fn growing_in_place_maps_only_the_new_part() {
        let mut layout = layout(&[file(10, 12, 0)]);
        assert_eq!(layout.remap((10, 12), (10, 15)), [EventKind::Map(file(12, 15, 2))]);
        assert_eq!(layout.remap((10, 15), (10, 11)), [EventKind::Unmap { start: 11, end: 15 }]);
    }

    #[test]
    fn moving_takes_the_kind_along() {
        let mut layout = layout(&[file(10, 14, 3)]);
        let events = layout.remap((10, 14), (100, 106));
        assert_eq!(
            events,
            [
                EventKind::Unmap { start: 10, end: 14 },
                EventKind::Map(file(100, 104, 3)),
                EventKind::Map(file(104, 106, 7))
            ]
        );
    }

    #[test]
    fn discarding_renews_private_anonymous_memory_only() {
        let mut layout = layout(&[anonymous(10, 20), file(20, 30, 0)]);
        let events = layout.discard(15, 25);
        assert_eq!(events, [EventKind::Unmap { start: 15, end: 20 }, EventKind::Map(anonymous(15, 20))]);
    }

    #[test]
    fn kinds_of_mappings() {
        let kind = |flags, name: &str| map_range(0, 1, flags, 0, name.to_owned()).what;
        let file = MapFlags { file: true, ..MapFlags::default() };
        assert_eq!(kind(MapFlags::default(), ""), MapKind::Anonymous);
        assert_eq!(kind(file, "/usr/lib/x.so"), MapKind::File);
        assert_eq!(kind(file, "/dev/shm/x"), MapKind::Shared);
        assert_eq!(kind(MapFlags { initial: true, ..file }, "/bin/x"), MapKind::Image);
        assert_eq!(kind(MapFlags { heap: true, ..MapFlags::default() }, ""), MapKind::Heap);
        assert_eq!(kind(MapFlags { shared: true, ..MapFlags::default() }, ""), MapKind::Shared);
    }
}
