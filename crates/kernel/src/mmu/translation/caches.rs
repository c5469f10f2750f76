//! The caches of one core: a set-associative TLB and one small cache for each level above the leaf.
//!
//! Sketch: a TLB hit reads one set of 12 tags of 8 bytes, kept in order of use, and moves the hit to the front. A miss
//! searches at most four lists of a few dozen tags. 12 KiB a core at the default size.

use super::config::TranslationConfig;
use super::{Reads, Translation};
use crate::mmu::{Level, SpaceId};

/// Address spaces whose translations a core keeps under PCID; Linux uses six identifiers a core and takes them round robin.
const PCID_SPACES: usize = 6;

/// No translation: spaces are numbered below it.
const EMPTY: u64 = u64::MAX;
const HUGE_BIT: u64 = 1 << 47;
const SPACE_SHIFT: u32 = 48;

/// Tags in order of use, the last used first, at most `limit`.
#[derive(Clone, Debug)]
struct Recent {
    tags: Vec<u64>,
    limit: usize,
}

impl Recent {
    fn new(limit: u32) -> Self {
        let limit = usize::try_from(limit).expect("a few");
        Self { tags: Vec::new(), limit }
    }
    fn hit(&mut self, tag: u64) -> bool {
        let found = self.tags.iter().position(|&known| known == tag);
        if let Some(at) = found {
            self.tags[..=at].rotate_right(1);
        }
        found.is_some()
    }
    fn insert(&mut self, tag: u64) {
        if self.limit > 0 {
            self.tags.truncate(self.limit - 1);
            self.tags.insert(0, tag);
        }
        debug_assert!(self.tags.len() <= self.limit, "the least used makes room");
    }
}

/// Translation caches of one core.
#[derive(Clone, Debug)]
pub struct Caches {
    /// `ways` tags a set, in order of use.
    tlb: Vec<u64>,
    ways: usize,
    /// Sets - 1; sets are a power of two.
    set_mask: u64,
    /// By level, from PMD: words that lead to a table below.
    structures: Vec<Recent>,
    pcid: bool,
    /// Spaces whose translations may be here, and the next to give up.
    known: Vec<SpaceId>,
    next_known: usize,
    /// Tag bits of the space that runs.
    tag: u64,
}

fn tag_of(space: SpaceId) -> u64 {
    (space.index() as u64) << SPACE_SHIFT
}

impl Caches {
    /// Empty caches of the sizes of `config`, which must be valid, for tables of `levels` levels.
    pub fn new(config: &TranslationConfig, levels: u8) -> Self {
        let limits = [config.pde_entries, config.pdpte_entries, config.pml4_entries, config.pml5_entries];
        let ways = usize::try_from(config.tlb_ways).expect("few");
        let sets = usize::try_from(config.sets()).expect("bounded");
        debug_assert!(sets == 0 || sets.is_power_of_two(), "the set of a page is found by a mask");
        Self {
            tlb: vec![EMPTY; sets * ways],
            ways,
            set_mask: (sets as u64).saturating_sub(1),
            structures: limits.into_iter().take(usize::from(levels) - 1).map(Recent::new).collect(),
            pcid: config.pcid,
            known: Vec::new(),
            next_known: 0,
            tag: EMPTY,
        }
    }

    /// A thread of `space` runs on this core from now on. Without PCID a change of the space drops everything; with it, only the
    /// translations of the space that must give up its identifier.
    pub fn switch_to(&mut self, space: SpaceId) {
        debug_assert!(self.known.len() <= PCID_SPACES, "there are as many spaces as identifiers");
        let tag = tag_of(space);
        if self.tag == tag {
            return;
        }
        self.tag = tag;
        if !self.pcid {
            self.flush_everything();
        } else if !self.known.contains(&space) {
            if self.known.len() < PCID_SPACES {
                self.known.push(space);
            } else {
                let given_up = std::mem::replace(&mut self.known[self.next_known], space);
                self.next_known = (self.next_known + 1) % PCID_SPACES;
                self.flush(given_up);
            }
        }
    }

    /// Drops all translations of `space`.
    pub fn flush(&mut self, space: SpaceId) {
        let tag = tag_of(space);
        self.tlb.iter_mut().filter(|entry| is_of(**entry, tag)).for_each(|entry| *entry = EMPTY);
        self.drop_structures(tag);
    }

    /// Drops the translation of one page, and with it, as Intel's processors do, all cached upper words of its space.
    pub fn invalidate_page(&mut self, space: SpaceId, page: u64) {
        let tag = tag_of(space);
        let huge = page >> Level::PMD.span_shift();
        for (number, entry) in [(page, tag | page), (huge, tag | HUGE_BIT | huge)] {
            if let Some(found) = self.set(number).iter_mut().find(|known| **known == entry) {
                *found = EMPTY;
            }
        }
        self.drop_structures(tag);
    }

    fn drop_structures(&mut self, tag: u64) {
        self.structures.iter_mut().for_each(|recent| recent.tags.retain(|&entry| !is_of(entry, tag)));
    }

    /// Drops all translations.
    pub fn flush_everything(&mut self) {
        self.tlb.fill(EMPTY);
        self.structures.iter_mut().for_each(|recent| recent.tags.clear());
    }

    fn set(&mut self, number: u64) -> &mut [u64] {
        if self.tlb.is_empty() {
            return &mut [];
        }
        let first = usize::try_from(number & self.set_mask).expect("a set") * self.ways;
        &mut self.tlb[first..first + self.ways]
    }

    /// Whether `entry` is in the set of `number`; moves it to the front.
    fn hit(&mut self, number: u64, entry: u64) -> bool {
        let set = self.set(number);
        let found = set.iter().position(|&known| known == entry);
        if let Some(at) = found.filter(|&at| at > 0) {
            set[..=at].rotate_right(1);
        }
        found.is_some()
    }

    fn fill(&mut self, number: u64, entry: u64) {
        let set = self.set(number);
        if let Some(last) = set.last_mut() {
            *last = entry;
            set.rotate_right(1);
        }
    }
}

impl Translation for Caches {
    const OFF: bool = false;

    #[inline]
    fn walk(&mut self, page: u64, leaf: impl FnOnce() -> Level) -> Reads {
        debug_assert!(self.tag != EMPTY && page < HUGE_BIT, "a space runs here, and its pages leave the tag alone");
        let huge = page >> Level::PMD.span_shift();
        let (base_entry, huge_entry) = (self.tag | page, self.tag | HUGE_BIT | huge);
        if self.hit(page, base_entry) || self.hit(huge, huge_entry) {
            return Reads::NONE;
        }
        let leaf = leaf();
        // The word at a level is not read if the cache of that level, or of one below it, has it.
        let upper = leaf.number().max(1)..u8::try_from(self.structures.len()).expect("few") + 1;
        let leads_on = |level: u8| level > leaf.number();
        let mut end = upper.end;
        for level in upper.clone().filter(|&level| leads_on(level)) {
            let entry = self.tag | page >> Level::new(level).expect("a level").span_shift();
            if self.structures[usize::from(level) - 1].hit(entry) {
                end = level;
                break;
            }
        }
        for level in (upper.start..end).filter(|&level| leads_on(level)) {
            let entry = self.tag | page >> Level::new(level).expect("a level").span_shift();
            self.structures[usize::from(level) - 1].insert(entry);
        }
        match leaf {
            Level::LEAF => self.fill(page, base_entry),
            _ => self.fill(huge, huge_entry),
        }
        Reads::levels(leaf, end)
    }
}

/// Whether `entry` belongs to the space of `tag`.
const fn is_of(entry: u64, tag: u64) -> bool {
    entry != EMPTY && entry >> SPACE_SHIFT == tag >> SPACE_SHIFT
}
