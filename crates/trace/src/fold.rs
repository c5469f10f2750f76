//! Folds events: a heap that grew in a thousand steps becomes one mapping.

use crate::{Event, EventKind, MapRange, TraceMeta};

/// The events of `meta`, sorted by row, with each mapping that continues an earlier one at either end folded into it.
///
/// Folding moves the growth to the time of the first mapping, where it has no visible effect. It is not done if, in
/// between, the same process mapped or unmapped any of the new pages, or a process was forked (the child would
/// inherit more). Pages cannot have been touched before they were mapped.
pub(crate) fn fold_events(meta: &TraceMeta) -> Vec<Event> {
    let mut events = meta.events.clone();
    events.sort_by_key(|event| event.row);
    let mut folded: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        if let EventKind::Map(map) = &event.kind {
            let process = meta.process_of(event.thread);
            if let Some((index, grown)) = find_base(meta, &folded, process, map) {
                folded[index].kind = EventKind::Map(grown);
                continue;
            }
        }
        folded.push(event);
    }
    folded
}

/// Number of earlier mappings searched for one to extend; keeps the work linear.
const LOOK_BACK: usize = 64;

fn find_base(meta: &TraceMeta, before: &[Event], process: usize, map: &MapRange) -> Option<(usize, MapRange)> {
    for (index, event) in before.iter().enumerate().rev().take(LOOK_BACK) {
        let same_process = meta.process_of(event.thread) == process;
        match &event.kind {
            EventKind::Map(base) if same_process => {
                if let Some(grown) = join(base, map) {
                    return Some((index, grown));
                }
                if base.start < map.end && map.start < base.end {
                    return None;
                }
            }
            EventKind::Unmap { start, end } if same_process && *start < map.end && map.start < *end => return None,
            EventKind::StartThread { thread } if meta.process_of(*thread) != meta.process_of(event.thread) => {
                return None;
            }
            _ => {}
        }
    }
    None
}

/// One mapping of both ranges, if they are adjacent and of the same kind.
fn join(base: &MapRange, more: &MapRange) -> Option<MapRange> {
    let alike = base.what == more.what
        && base.file == more.file
        && base.shared == more.shared
        && base.executable == more.executable;
    if !alike {
        return None;
    }
    let from_file = base.file.is_some();
    if base.end == more.start && (!from_file || base.file_page + (base.end - base.start) == more.file_page) {
        return Some(MapRange { end: more.end, ..base.clone() });
    }
    if more.end == base.start && (!from_file || more.file_page + (more.end - more.start) == base.file_page) {
        return Some(MapRange { start: more.start, file_page: more.file_page, ..base.clone() });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MapKind, ProcessMeta, ThreadMeta};

    fn map(row: u64, start: u64, end: u64, what: MapKind) -> Event {
        let kind = EventKind::Map(MapRange { start, end, what, ..MapRange::default() });
        Event { row, thread: 0, time_ns: row, kind }
    }
    fn unmap(row: u64, start: u64, end: u64) -> Event {
        Event { row, thread: 0, time_ns: row, kind: EventKind::Unmap { start, end } }
    }
    fn fold(events: Vec<Event>) -> Vec<Event> {
        fold_events(&TraceMeta { events, ..TraceMeta::single("t") })
    }

    #[test]
    fn growth_folds_to_the_earliest_in_both_directions() {
        use MapKind::{Heap, Stack};
        let events = vec![
            map(0, 10, 20, Heap),
            map(1, 90, 99, Stack),
            map(2, 20, 30, Heap),
            map(3, 80, 90, Stack),
            map(4, 30, 31, Heap),
        ];
        assert_eq!(fold(events), [map(0, 10, 31, Heap), map(1, 80, 99, Stack)]);
    }

    #[test]
    fn what_was_unmapped_or_mapped_between_stays() {
        use MapKind::{Anonymous, Heap};
        let unmapped = vec![map(0, 10, 20, Heap), unmap(1, 15, 25), map(2, 20, 30, Heap)];
        assert_eq!(fold(unmapped.clone()), unmapped);
        let elsewhere = vec![map(0, 10, 20, Heap), unmap(1, 30, 40), map(2, 20, 30, Heap)];
        assert_eq!(fold(elsewhere), [map(0, 10, 30, Heap), unmap(1, 30, 40)]);
        let replaced = vec![map(0, 10, 20, Heap), map(1, 20, 22, Anonymous), map(2, 20, 30, Heap)];
        assert_eq!(fold(replaced.clone()), replaced);
        let other_kind = vec![map(0, 10, 20, Heap), map(1, 20, 30, Anonymous)];
        assert_eq!(fold(other_kind.clone()), other_kind);
    }

    #[test]
    fn a_fork_between_keeps_growth_apart() {
        let mut meta = TraceMeta::single("t");
        meta.processes.push(ProcessMeta { forked_from: Some(0), ..ProcessMeta::default() });
        meta.threads.push(ThreadMeta { process: 1, started_by: Some(0), ..ThreadMeta::default() });
        let fork = Event { row: 1, thread: 0, time_ns: 1, kind: EventKind::StartThread { thread: 1 } };
        meta.events = vec![map(0, 10, 20, MapKind::Heap), fork, map(2, 20, 30, MapKind::Heap)];
        assert_eq!(fold_events(&meta), meta.events);
    }

    #[test]
    fn file_pages_must_continue() {
        let file = |row, start, end, file_page| {
            let map =
                MapRange { start, end, what: MapKind::File, file: Some("a".into()), file_page, ..MapRange::default() };
            Event { row, thread: 0, time_ns: 0, kind: EventKind::Map(map) }
        };
        assert_eq!(fold(vec![file(0, 10, 20, 5), file(1, 20, 21, 15)]), [file(0, 10, 21, 5)]);
        assert_eq!(fold(vec![file(0, 10, 20, 5), file(1, 20, 21, 0)]).len(), 2);
    }
}
