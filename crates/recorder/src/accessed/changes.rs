//! Differences between two readings of the mappings of a process.

use isotherm_trace::{EventKind, MapRange};

/// Events that turn `old` into `new`, both ascending and disjoint. Parts that stay keep their contents and give no event. A part that
/// was unmapped and mapped again in between, with the same file, is not detected.
pub(crate) fn between(old: &[MapRange], new: &[MapRange]) -> Vec<EventKind> {
    let mut borders: Vec<u64> = old.iter().chain(new).flat_map(|range| [range.start, range.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
    let mut events: Vec<EventKind> = Vec::new();
    for pair in borders.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        while olds.next_if(|range| range.end <= start).is_some() {}
        while news.next_if(|range| range.end <= start).is_some() {}
        let before = olds.peek().copied().filter(|range| range.start <= start);
        let after = news.peek().copied().filter(|range| range.start <= start);
        match (before, after) {
            (None, None) => {}
            (Some(_), None) => push_unmap(&mut events, start, end),
            (Some(before), Some(after)) if is_same(before, after) => {}
            (_, Some(after)) => push_map(&mut events, after, start, end),
        }
    }
    events
}

/// Whether a page in both has the same contents. Protection may differ.
fn is_same(one: &MapRange, other: &MapRange) -> bool {
    let first_page = |range: &MapRange| range.file_page.wrapping_sub(range.start);
    let same_file = one.file == other.file && (one.file.is_none() || first_page(one) == first_page(other));
    // A mapping that becomes `[heap]` at its first growth is the same memory.
    let same_kind = one.what == other.what || one.file.is_none();
    same_file && same_kind && one.shared == other.shared
}

fn push_unmap(events: &mut Vec<EventKind>, start: u64, end: u64) {
    if let Some(EventKind::Unmap { end: last, .. }) = events.last_mut().filter(|_| start > 0)
        && *last == start
    {
        *last = end;
        return;
    }
    events.push(EventKind::Unmap { start, end });
}

fn push_map(events: &mut Vec<EventKind>, range: &MapRange, start: u64, end: u64) {
    if let Some(EventKind::Map(last)) = events.last_mut()
        && last.end == start
        && last.start >= range.start
        && is_same(last, range)
    {
        last.end = end;
        return;
    }
    let file_page = if range.file.is_some() { range.file_page + (start - range.start) } else { range.file_page };
    events.push(EventKind::Map(MapRange { start, end, file_page, ..range.clone() }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::MapKind;

    fn memory(start: u64, end: u64) -> MapRange {
        MapRange { start, end, ..MapRange::default() }
    }

    fn file(start: u64, end: u64, file_page: u64) -> MapRange {
        MapRange { what: MapKind::File, file: Some("/a".to_owned()), file_page, ..memory(start, end) }
    }

    #[test]
    fn only_what_changed_is_said() {
        let map = EventKind::Map;
        let unmap = |start, end| EventKind::Unmap { start, end };
        let old = [memory(10, 20), file(30, 40, 5)];
        for (new, events) in [
            (vec![memory(10, 20), file(30, 40, 5)], vec![]),
            (vec![memory(10, 25), file(30, 40, 5)], vec![map(memory(20, 25))]),
            (vec![memory(10, 15), file(30, 40, 5)], vec![unmap(15, 20)]),
            (vec![memory(12, 14)], vec![unmap(10, 12), unmap(14, 20), unmap(30, 40)]),
            // The same file from another page on differs; a split by protection does not.
            (vec![memory(10, 20), file(30, 40, 6)], vec![map(file(30, 40, 6))]),
            (vec![memory(10, 13), memory(13, 20), file(30, 35, 5), file(35, 40, 10)], vec![]),
            (vec![memory(10, 20), memory(30, 35), file(35, 40, 10)], vec![map(memory(30, 35))]),
            (vec![], vec![unmap(10, 20), unmap(30, 40)]),
        ] {
            assert_eq!(between(&old, &new), events, "{new:?}");
        }
        assert_eq!(between(&[], &old), [map(memory(10, 20)), map(file(30, 40, 5))]);
    }

    #[test]
    fn playing_the_changes_gives_the_new_mappings() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut ranges = || {
            let (mut page, mut ranges) = (0, Vec::new());
            while page < 60 {
                let (start, end) = (page + random(4), page + 4 + random(6));
                ranges.push(if random(2) == 0 { memory(start, end) } else { file(start, end, start + 100) });
                page = end;
            }
            ranges
        };
        for _ in 0..300 {
            let (old, new) = (ranges(), ranges());
            let pages = |ranges: &[MapRange], page: u64| {
                let range = ranges.iter().find(|range| (range.start..range.end).contains(&page))?;
                Some((range.file.clone(), range.file.as_ref().map(|_| range.file_page + page - range.start)))
            };
            let events = between(&old, &new);
            for page in 0..80 {
                let mut now = pages(&old, page);
                for event in &events {
                    match event {
                        EventKind::Map(range) if (range.start..range.end).contains(&page) => {
                            now = pages(std::slice::from_ref(range), page);
                        }
                        EventKind::Unmap { start, end } if (*start..*end).contains(&page) => now = None,
                        _ => {}
                    }
                }
                assert_eq!(now, pages(&new, page), "page {page} of {old:?} to {new:?}");
            }
        }
    }
}
