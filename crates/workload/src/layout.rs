//! The mappings of an address space as they change.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_units::PageRange;
use isotherm_units::access::{Backing, LayoutChange, Mapping, Owner, Run, Sharing};

/// Disjoint mappings by first page. Neighbours are kept apart even when they could be one.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    mappings: BTreeMap<u64, Mapping>,
}

impl Layout {
    /// These mappings, later ones over earlier ones.
    pub fn of(mappings: &[Mapping]) -> Self {
        let mut layout = Self::default();
        mappings.iter().for_each(|&mapping| layout.map(mapping));
        layout
    }

    /// Adds `mapping`; earlier mappings there go.
    pub fn map(&mut self, mapping: Mapping) {
        if !mapping.pages.is_empty() {
            self.unmap(mapping.pages);
            self.mappings.insert(mapping.pages.start, mapping);
        }
    }

    /// Removes the pages of `range` from all mappings.
    pub fn unmap(&mut self, range: PageRange) {
        while let Some(mapping) = self.first_overlap(range) {
            self.mappings.remove(&mapping.pages.start);
            for kept in [
                PageRange::new(mapping.pages.start, range.start.min(mapping.pages.end)),
                PageRange::new(range.end.max(mapping.pages.start), mapping.pages.end),
            ] {
                if !kept.is_empty() {
                    self.mappings.insert(kept.start, part_of(mapping, kept));
                }
            }
        }
    }

    /// All mappings, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Mapping> + '_ {
        self.mappings.values().copied()
    }

    /// The mapping of `page`.
    pub fn find(&self, page: u64) -> Option<Mapping> {
        let (_, &mapping) = self.mappings.range(..=page).next_back()?;
        mapping.pages.contains(page).then_some(mapping)
    }

    /// The mapped parts of `range`, lowest first.
    pub(crate) fn mapped_parts(&self, range: PageRange) -> impl Iterator<Item = PageRange> + '_ {
        let first = self.first_overlap(range).map_or(range.end, |mapping| mapping.pages.start);
        let overlapping = self.mappings.range(first..range.end.max(first));
        overlapping.map(move |(_, mapping)| mapping.pages.intersection(range)).filter(|part| !part.is_empty())
    }

    /// The lowest mapping that shares a page with `range`.
    pub(crate) fn first_overlap(&self, range: PageRange) -> Option<Mapping> {
        if range.is_empty() {
            return None;
        }
        let above = || self.mappings.range(range.start..range.end).next().map(|(_, &mapping)| mapping);
        self.find(range.start).or_else(above)
    }

    /// The largest range around the unmapped `page` that holds no mapping.
    pub(crate) fn hole_around(&self, page: u64) -> PageRange {
        let below = self.mappings.range(..=page).next_back().map_or(0, |(_, mapping)| mapping.pages.end);
        let above = self.mappings.range(page..).next().map_or(isotherm_trace::PAGE_LIMIT, |(&start, _)| start);
        PageRange::new(below, above)
    }
}

/// The pages `kept` of `mapping`.
fn part_of(mut mapping: Mapping, kept: PageRange) -> Mapping {
    if let Backing::File { first_page, .. } = &mut mapping.backing {
        *first_page += kept.start - mapping.pages.start;
    }
    mapping.pages = kept;
    mapping
}

/// The owner of the pages that a process touches. Follows mappings, copies of private file pages, and forks.
///
/// A page of a private file mapping belongs to the file until it is first written; from that write on to the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace {
    process: usize,
    layout: Layout,
    copied: BTreeSet<u64>,
}

impl AddressSpace {
    /// The address space of process `process` with the mappings of its start.
    pub(crate) fn new(process: usize, mappings: &[Mapping]) -> Self {
        Self { process, layout: Layout::of(mappings), copied: BTreeSet::new() }
    }

    /// The initial space of `process` when it is forked from this one and maps `mappings` in addition.
    pub(crate) fn fork(&self, process: usize, mappings: &[Mapping]) -> Self {
        let mut child = Self { process, ..self.clone() };
        mappings.iter().for_each(|&mapping| child.change(LayoutChange::Map(mapping)));
        child
    }

    pub(crate) fn change(&mut self, change: LayoutChange) {
        let gone = match change {
            LayoutChange::Map(mapping) => {
                self.layout.map(mapping);
                mapping.pages
            }
            LayoutChange::Unmap(range) => {
                self.layout.unmap(range);
                range
            }
            LayoutChange::Advise(..) | LayoutChange::Pin(_) => return,
        };
        if !self.copied.is_empty() && !gone.is_empty() {
            let mut tail = self.copied.split_off(&gone.start);
            self.copied.append(&mut tail.split_off(&gone.end));
        }
    }

    /// Calls `each` with the owner and the owner's number of every page of `run`, in order. Unmapped pages are the
    /// process's own.
    pub(crate) fn for_each_owned(&mut self, run: Run, mut each: impl FnMut(Owner, u64)) {
        let own = Owner::Process(self.process);
        let mut rest = run.range();
        while !rest.is_empty() {
            let mapping = self.layout.find(rest.start);
            let end = mapping.map_or_else(|| self.layout.hole_around(rest.start).end, |mapping| mapping.pages.end);
            let part = PageRange::new(rest.start, rest.end.min(end));
            match mapping.map(|mapping| (mapping.backing, mapping.pages.start)) {
                Some((Backing::File { file, first_page, sharing }, start)) => {
                    for page in part.start..part.end {
                        let is_copied = sharing == Sharing::Private
                            && if run.is_write() {
                                self.copied.insert(page);
                                true
                            } else {
                                self.copied.contains(&page)
                            };
                        match is_copied {
                            true => each(own, page),
                            false => each(Owner::File(file), first_page + (page - start)),
                        }
                    }
                }
                Some((Backing::Anonymous, _)) | None => (part.start..part.end).for_each(|page| each(own, page)),
            }
            rest.start = part.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(start: u64, end: u64, first_page: u64, sharing: Sharing) -> Mapping {
        let backing = Backing::File { file: 0, first_page, sharing };
        Mapping { backing, ..Mapping::anonymous(PageRange::new(start, end)) }
    }

    #[test]
    fn a_hole_in_a_file_mapping_keeps_file_pages() {
        let mut layout = Layout::of(&[file(10, 20, 100, Sharing::Shared)]);
        layout.unmap(PageRange::new(13, 15));
        assert_eq!(layout.find(12).unwrap(), file(10, 13, 100, Sharing::Shared));
        assert_eq!(layout.find(13), None);
        assert_eq!(layout.find(15).unwrap(), file(15, 20, 105, Sharing::Shared));
        assert_eq!(layout.hole_around(14), PageRange::new(13, 15));
        let parts: Vec<PageRange> = layout.mapped_parts(PageRange::new(12, 17)).collect();
        assert_eq!(parts, [PageRange::new(12, 13), PageRange::new(15, 17)]);
        assert_eq!(layout.mapped_parts(PageRange::new(13, 15)).count(), 0);
        assert_eq!(layout.first_overlap(PageRange::new(14, 16)).unwrap().pages.start, 15);
        assert_eq!(layout.first_overlap(PageRange::new(13, 15)), None);
    }

    #[test]
    fn private_file_pages_change_owner_at_the_first_write() {
        let mut space = AddressSpace::new(3, &[file(10, 20, 100, Sharing::Private)]);
        let mut owners = |run| {
            let mut found = Vec::new();
            space.for_each_owned(run, |owner, page| found.push((owner, page)));
            found
        };
        assert_eq!(owners(Run::read(10, 2)), [(Owner::File(0), 100), (Owner::File(0), 101)]);
        assert_eq!(owners(Run::write(11, 1)), [(Owner::Process(3), 11)]);
        assert_eq!(owners(Run::read(10, 2)), [(Owner::File(0), 100), (Owner::Process(3), 11)]);
        assert_eq!(owners(Run::read(19, 2)), [(Owner::File(0), 109), (Owner::Process(3), 20)]);
        let mut child = space.fork(4, &[]);
        child.for_each_owned(Run::read(11, 1), |owner, page| assert_eq!((owner, page), (Owner::Process(4), 11)));
        space.change(LayoutChange::Map(file(11, 12, 7, Sharing::Private)));
        space.for_each_owned(Run::read(11, 1), |owner, page| assert_eq!((owner, page), (Owner::File(0), 7)));
    }

    proptest! {
        /// Against one cell per page.
        #[test]
        fn it_equals_a_page_table(changes in prop::collection::vec((0u64..40, 0u64..12, 0u8..3), 0..40)) {
            let mut layout = Layout::default();
            let mut table = [None; 64];
            for (step, (start, len, what)) in changes.into_iter().enumerate() {
                let pages = PageRange::at(start, len);
                let first_page = step as u64 * 1000;
                match what {
                    0 => layout.unmap(pages),
                    1 => layout.map(Mapping::anonymous(pages)),
                    _ => layout.map(file(pages.start, pages.end, first_page, Sharing::Shared)),
                }
                for page in start..start + len {
                    table[usize::try_from(page).unwrap()] = match what {
                        0 => None,
                        1 => Some(None),
                        _ => Some(Some(first_page + page - start)),
                    };
                }
            }
            for page in 0..64u64 {
                let found = layout.find(page).map(|mapping| match mapping.backing {
                    Backing::Anonymous => None,
                    Backing::File { first_page, .. } => Some(first_page + page - mapping.pages.start),
                });
                prop_assert_eq!(found, table[usize::try_from(page).unwrap()], "page {}", page);
            }
        }
    }
}
