//! The mapping of each page over time, and the groups of mappings in results.

use std::collections::BTreeMap;

use crate::{Event, EventKind, MapKind, MapRange, TraceMeta};

/// All mappings of one kind and file in one process: the unit of results.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) process: usize,
    /// `None`: touched outside every known mapping.
    pub(crate) what: Option<MapKind>,
    pub(crate) file: Option<String>,
}

impl Group {
    /// Kind and last name of the file, for display.
    pub(crate) fn label(&self) -> String {
        let kind = self.what.map_or("not mapped", MapKind::name).replace('_', " ");
        match &self.file {
            Some(file) => format!("{kind} {}", file.rsplit('/').next().unwrap_or(file)),
            None => kind,
        }
    }
}

/// The current mappings of all processes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// By process and start: end and group.
    ranges: BTreeMap<(usize, u64), (u64, u32)>,
    groups: Vec<Group>,
    group_of: BTreeMap<Group, u32>,
    /// The last answer.
    last: Option<(usize, u64, u64, u32)>,
}

impl Layout {
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    fn group(&mut self, group: Group) -> u32 {
        let Self { groups, group_of, .. } = self;
        *group_of.entry(group).or_insert_with_key(|group| {
            groups.push(group.clone());
            u32::try_from(groups.len() - 1).expect("far fewer groups than events")
        })
    }

    /// Applies an event of `process`.
    pub(crate) fn see(&mut self, meta: &TraceMeta, event: &Event, process: usize) {
        match &event.kind {
            EventKind::Map(map) => self.map(process, map),
            EventKind::Unmap { start, end } => self.cut(process, *start, *end),
            EventKind::StartThread { thread } => {
                let child = meta.process_of(*thread);
                let forked = meta.processes.get(child).and_then(|child| child.forked_from) == Some(process);
                if forked && child != process && self.ranges.range((child, 0)..(child + 1, 0)).next().is_none() {
                    self.fork(process, child);
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, process: usize, map: &MapRange) {
        self.cut(process, map.start, map.end);
        let group = self.group(Group { process, what: Some(map.what), file: map.file.clone() });
        self.ranges.insert((process, map.start), (map.end, group));
    }

    /// Removes mappings in the range; parts outside it stay.
    fn cut(&mut self, process: usize, start: u64, end: u64) {
        self.last = None;
        if let Some((&(_, before), &(before_end, group))) =
            self.ranges.range((process, 0)..(process, start)).next_back()
            && before_end > start
        {
            self.ranges.insert((process, before), (start, group));
            if before_end > end {
                self.ranges.insert((process, end), (before_end, group));
            }
        }
        while let Some((&key, &(range_end, group))) = self.ranges.range((process, start)..(process, end)).next() {
            self.ranges.remove(&key);
            if range_end > end {
                self.ranges.insert((process, end), (range_end, group));
            }
        }
    }

    fn fork(&mut self, parent: usize, child: usize) {
        let inherited: Vec<_> =
            self.ranges.range((parent, 0)..(parent + 1, 0)).map(|(&(_, start), &range)| (start, range)).collect();
        for (start, (end, group)) in inherited {
            let group = self.group(Group { process: child, ..self.groups[group as usize].clone() });
            self.ranges.insert((child, start), (end, group));
        }
    }

    /// The group of `page`, and the first page after it for which the answer may differ.
    #[inline]
    pub(crate) fn find(&mut self, process: usize, page: u64) -> (u32, u64) {
        if let Some((last_process, start, end, group)) = self.last
            && last_process == process
            && (start..end).contains(&page)
        {
            return (group, end);
        }
        self.search(process, page)
    }

    #[cold]
    fn search(&mut self, process: usize, page: u64) -> (u32, u64) {
        let before = self.ranges.range((process, 0)..=(process, page)).next_back();
        let (start, end, group) = match before {
            Some((&(_, start), &(end, group))) if page < end => (start, end, group),
            _ => {
                let next = self.ranges.range((process, page)..(process + 1, 0)).next();
                let end = next.map_or(u64::MAX, |(&(_, start), _)| start);
                let group = self.group(Group { process, what: None, file: None });
                (page, end, group)
            }
        };
        self.last = Some((process, start, end, group));
        (group, end)
    }

    /// Whether mappings of one group, adjacent ones joined, cover all of `start..end`.
    pub(crate) fn is_one_mapping(&self, process: usize, start: u64, end: u64) -> bool {
        let first = self.ranges.range((process, 0)..=(process, start)).next_back();
        let others = self.ranges.range((process, start + 1)..(process, end));
        let (mut at, mut held_by) = (start, None);
        for (&(_, from), &(until, group)) in first.into_iter().chain(others) {
            if from > at || until <= at || *held_by.get_or_insert(group) != group {
                return false;
            }
            at = until;
        }
        at >= end
    }

    /// Splits a run where the mapping changes: calls `each` with group, first page and page after the last.
    #[inline]
    pub(crate) fn split(&mut self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32, u64, u64)) {
        let mut at = start;
        while at < end {
            let (group, until) = self.find(process, at);
            let until = until.min(end);
            each(group, at, until);
            at = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a model with one cell for each page.
        #[test]
        fn equals_a_page_by_page_model(
            changes in proptest::collection::vec((any::<bool>(), 0u64..60, 1u64..30, 0u8..3), 0..40),
            from in 0u64..90, len in 1u64..40,
        ) {
            let meta = TraceMeta::single("t");
            let mut layout = Layout::default();
            let mut model = [None; 130];
            for (maps, start, len, kind) in changes {
                let what = [MapKind::Heap, MapKind::Stack, MapKind::File][usize::from(kind)];
                let end = start + len;
                let kind = if maps {
                    EventKind::Map(MapRange { start, end, what, ..MapRange::default() })
                } else {
                    EventKind::Unmap { start, end }
                };
                model[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()].fill(maps.then_some(what));
                layout.see(&meta, &Event { row: 0, thread: 0, time_ns: 0, kind }, 0);
                let _ = layout.find(0, from);
            }
            let mut found = Vec::new();
            layout.split(0, from, from + len, |group, start, end| {
                found.extend((start..end).map(|_| group));
            });
            let found: Vec<_> = found.into_iter().map(|group| layout.groups()[group as usize].what).collect();
            let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(from + len).unwrap());
            prop_assert_eq!(&found[..], &model[from..to]);
        }
    }
}
