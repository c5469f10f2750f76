//! The kill switch: generations on and off while the machine runs (docs/spec/mglru.md#s13).

use super::Mglru;
use super::command::Refusal;
use super::generations::TYPES;
use super::page::{NR_GENS, PageState};
use crate::memory::{Flag, ListEnd, Memory};
use crate::reclaim::LruvecId;
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::Lru;
use isotherm_texts::min_ttl::parse_unsigned;

/// The parts that are on, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches(u8);

const CORE: u8 = 0x1;
const WALKS: u8 = 0x2;
const UPPER_BITS: u8 = 0x4;
const ALL: u8 = CORE | WALKS | UPPER_BITS;

impl Default for Switches {
    fn default() -> Self {
        Self(ALL)
    }
}

impl Switches {
    /// Parses a write to `enabled`: `y`, `n`, or a number in C notation; its undefined bits are ignored.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for any other text.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text.as_bytes().first() {
            Some(b'y' | b'Y') => return Ok(Self(ALL)),
            Some(b'n' | b'N') => return Ok(Self(0)),
            _ => {}
        }
        let number = parse_unsigned(text.trim()).ok_or(Refusal::Invalid)?;
        Ok(Self(u8::try_from(number & u64::from(ALL)).expect("three bits")))
    }

    /// Whether pages are kept in generations at all.
    pub const fn has_core(self) -> bool {
        self.0 & CORE != 0
    }
    /// Whether page tables are walked.
    pub const fn has_walks(self) -> bool {
        self.0 & WALKS != 0
    }
    /// Whether walks go by accessed bits above the leaf.
    pub const fn has_upper_bits(self) -> bool {
        self.0 & UPPER_BITS != 0
    }

    /// The value of `enabled`: bits that the processor cannot serve are left out.
    pub fn text(self, memory: &Memory) -> String {
        let mut bits = self.0;
        if !memory.mmu.leaf_accessed {
            bits &= !WALKS;
        }
        if !memory.mmu.nonleaf_accessed {
            bits &= !UPPER_BITS;
        }
        format!("0x{bits:04x}\n")
    }
}

impl Mglru {
    pub const fn switches(&self) -> Switches {
        self.switches
    }

    /// Writes `enabled`: switches on and off, and moves all pages to the lists that count from now on.
    ///
    /// # Errors
    /// [`Refusal::Invalid`]: nothing changed.
    pub fn write_enabled(&mut self, memory: &mut Memory, text: &str) -> Result<(), Refusal> {
        let switches = Switches::parse(text)?;
        self.insert_pending(memory);
        let was_on = std::mem::replace(&mut self.switches, switches).has_core();
        if switches.has_core() != was_on {
            for index in 0..self.generations.lruvecs.len() {
                let lruvec = LruvecId(u32::try_from(index).expect("made from lruvecs"));
                if was_on { self.fill_lists(memory, lruvec) } else { self.fill_generations(memory, lruvec) }
            }
        }
        Ok(())
    }

    /// All pages of the two lists of each type enter generations, in their order.
    fn fill_generations(&mut self, memory: &mut Memory, lruvec: LruvecId) {
        for lru in Lru::ALL {
            while let Some(frame) = self.classic.give_oldest(memory, lruvec, lru) {
                debug_assert!(
                    self.generations.state(frame).generation().is_none(),
                    "a page of the two lists is of no generation"
                );
                let flags = memory.frames.flags(frame);
                let mut state = PageState::new(page_type(memory, frame));
                if flags.has(Flag::Workingset) {
                    state = state.with_workingset();
                }
                if flags.has(Flag::Referenced) {
                    state = self.baseline.used_by_descriptor(state);
                }
                self.generations.set_state(&memory.frames, frame, state);
                self.generations.insert(memory, frame, false);
            }
        }
    }

    /// All pages of the generations go to active and inactive lists, list by list in the order of list numbers, which differs from the
    /// order of their ages.
    fn fill_lists(&mut self, memory: &mut Memory, lruvec: LruvecId) {
        for at in 0..NR_GENS {
            for page_type in TYPES {
                while let Some(frame) = self.generations.get(lruvec).lists[at][page_type as usize].tail() {
                    let state = self.generations.state(frame);
                    let generation = state.generation().expect("on a list");
                    self.generations.take_off(memory, frame);
                    let is_young = self.generations.get(lruvec).is_young(generation);
                    let flags = [
                        (Flag::Active, is_young),
                        (Flag::Workingset, state.is_workingset()),
                        (Flag::Referenced, state.is_referenced()),
                    ];
                    for (flag, is_set) in flags {
                        if is_set { memory.frames.set(frame, flag) } else { memory.frames.clear(frame, flag) }
                    }
                    self.classic.adopt(memory, frame, ListEnd::Head);
                }
            }
        }
        debug_assert_eq!(self.generations.get(lruvec).nr, [[0; 2]; NR_GENS], "nothing is left in generations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E20: what may be written.
    #[test]
    fn e20_kill_switch_values() {
        for (text, bits) in
            [("y", 7), ("Yes", 7), ("n", 0), ("5", 5), ("0x8", 0), ("0x0001", 1), ("017", 7), ("3\n", 3)]
        {
            assert_eq!(Switches::parse(text), Ok(Switches(bits)), "{text:?}");
        }
        for text in ["", "abc", "-1", "+1", "0x", "1 2", " "] {
            assert_eq!(Switches::parse(text), Err(Refusal::Invalid), "{text:?}");
        }
    }
}
