//! The runs of a thread of a recording that is held in memory: as they are played, or packed into 8 bytes each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use isotherm_units::access::{Batch, Channel, Run};

/// All runs of a thread, which every replay shares.
#[derive(Clone, Debug)]
pub(super) enum HeldRuns {
    /// Batches show parts of the list without a copy.
    Plain(Arc<Vec<Run>>),
    /// Batches get unpacked copies.
    Packed(PackedRuns),
}

impl HeldRuns {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(runs) => runs.len(),
            Self::Packed(runs) => runs.words.len(),
        }
    }

    pub(super) fn extend(&mut self, more: &[Run]) {
        match self {
            Self::Plain(runs) => Arc::make_mut(runs).extend_from_slice(more),
            Self::Packed(runs) => more.iter().for_each(|&run| runs.push(run)),
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        match self {
            Self::Plain(runs) => Arc::make_mut(runs).shrink_to_fit(),
            Self::Packed(runs) => runs.words.shrink_to_fit(),
        }
    }

    /// Puts the runs in `range` into a batch, which holds none.
    pub(super) fn put(&self, range: Range<usize>, batch: &mut Batch) {
        match self {
            Self::Plain(runs) => batch.runs.share(runs, range),
            Self::Packed(runs) => batch.runs.extend(range.map(|at| runs.get(at))),
        }
    }
}

/// Runs of 8 bytes. From the lowest bit: 20 bits of the page, 12 bits for the number of its region of 4 GiB, 24 bits of nanoseconds, 6 bits
/// of pages, whether through a descriptor, whether a write.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedRuns {
    words: Vec<u64>,
    /// Upper digits of pages, in the order in which they came up.
    regions: Vec<u64>,
    /// Their numbers, and the one of the last run.
    numbers: BTreeMap<u64, usize>,
    recent: usize,
    /// Runs that do not fit, by their place, ascending. Their words are [`UNPACKED`].
    unpacked: Vec<(usize, Run)>,
}

const PAGE_BITS: u32 = 20;
const REGION_BITS: u32 = 12;
const THINK_BITS: u32 = 24;
const PAGES_BITS: u32 = 6;
const THINK_SHIFT: u32 = PAGE_BITS + REGION_BITS;
const PAGES_SHIFT: u32 = THINK_SHIFT + THINK_BITS;
const DESCRIPTOR_BIT: u64 = 1 << (PAGES_SHIFT + PAGES_BITS);
const WRITE_BIT: u64 = DESCRIPTOR_BIT << 1;
const _: () = assert!(WRITE_BIT == 1 << 63, "all bits are used");
/// A word of no pages.
const UNPACKED: u64 = 0;

impl PackedRuns {
    fn push(&mut self, run: Run) {
        let word = self.pack(run);
        if word.is_none() {
            self.unpacked.push((self.words.len(), run));
        }
        self.words.push(word.unwrap_or(UNPACKED));
    }

    fn pack(&mut self, run: Run) -> Option<u64> {
        let fits = |value: u32, bits: u32| value >> bits == 0;
        if run.pages == 0 || !fits(run.pages, PAGES_BITS) || !fits(run.think_ns, THINK_BITS) {
            return None;
        }
        let region = self.region(run.page() >> PAGE_BITS)? as u64;
        let flag = |bit: u64, is_set: bool| if is_set { bit } else { 0 };
        Some(
            run.page() & ((1 << PAGE_BITS) - 1)
                | region << PAGE_BITS
                | u64::from(run.think_ns) << THINK_SHIFT
                | u64::from(run.pages) << PAGES_SHIFT
                | flag(DESCRIPTOR_BIT, run.channel() == Channel::FileDescriptor)
                | flag(WRITE_BIT, run.is_write()),
        )
    }

    /// The number of a region; `None` if there are too many.
    fn region(&mut self, upper: u64) -> Option<usize> {
        if self.regions.get(self.recent) != Some(&upper) {
            let next = self.regions.len();
            self.recent = match self.numbers.get(&upper) {
                Some(&known) => known,
                None if next >> REGION_BITS != 0 => return None,
                None => {
                    self.regions.push(upper);
                    self.numbers.insert(upper, next);
                    next
                }
            };
        }
        Some(self.recent)
    }

    #[inline]
    fn get(&self, at: usize) -> Run {
        let word = self.words[at];
        let field = |shift: u32, bits: u32| {
            u32::try_from(word >> shift & ((1 << bits) - 1)).expect("fields have at most 24 bits")
        };
        let pages = field(PAGES_SHIFT, PAGES_BITS);
        if pages == 0 {
            let place = self.unpacked.partition_point(|&(place, _)| place < at);
            return self.unpacked[place].1;
        }
        let upper = self.regions[field(PAGE_BITS, REGION_BITS) as usize];
        let page = upper << PAGE_BITS | u64::from(field(0, PAGE_BITS));
        let run = if word & WRITE_BIT == 0 { Run::read(page, pages) } else { Run::write(page, pages) };
        let channel = if word & DESCRIPTOR_BIT == 0 { Channel::PageTable } else { Channel::FileDescriptor };
        run.through(channel).after_ns(field(THINK_SHIFT, THINK_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_run() -> impl Strategy<Value = Run> {
        let page = prop_oneof![0..1_u64 << 52, 0..1_u64 << 21, (1_u64 << 52) - 9..1 << 52];
        let pages = prop_oneof![1..5_u32, 62..66_u32, Just(u32::MAX)];
        let think = prop_oneof![0..9_u32, (1_u32 << 24) - 2..(1 << 24) + 2, Just(u32::MAX)];
        (page, pages, think, any::<bool>(), any::<bool>()).prop_map(|(page, pages, think, is_write, is_file)| {
            let run = if is_write { Run::write(page, pages) } else { Run::read(page, pages) };
            run.through(if is_file { Channel::FileDescriptor } else { Channel::PageTable }).after_ns(think)
        })
    }

    proptest! {
        #[test]
        fn packed_runs_come_back(runs in prop::collection::vec(any_run(), 0..60)) {
            let mut packed = HeldRuns::Packed(PackedRuns::default());
            packed.extend(&runs);
            let mut batch = Batch::default();
            packed.put(0..packed.len(), &mut batch);
            prop_assert_eq!(&*batch.runs, &runs[..]);
        }
    }

    #[test]
    fn what_does_not_fit_is_kept_as_it_is() {
        let mut packed = PackedRuns::default();
        let far = |region: u64| Run::read(region << PAGE_BITS, 1);
        (0..5000).for_each(|region| packed.push(far(region)));
        assert_eq!((packed.regions.len(), packed.unpacked.len()), (4096, 904), "more regions than numbers");
        assert!((0..5000).zip(0..).all(|(region, at)| packed.get(at) == far(region)));
    }
}
