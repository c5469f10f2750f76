//! `mglru`: the Multi-Gen LRU of Linux (docs/spec/mglru.md; `docs/mechanism/mglru.md`).
//!
//! Pages belong to generations by the time when they were last found used. Ageing makes a new generation and promotes into the one before
//! it the pages that the page tables show as used; eviction takes from the oldest. Uses through descriptors move no page: they raise its
//! tier, and tiers whose pages are refaulted too often are spared. Refault ratios decide which type and which tiers go.

mod ageing;
mod baseline;
mod bloom;
mod command;
mod config;
mod controller;
mod evict;
mod files;
#[cfg(test)]
mod folio_tests;
mod generations;
mod groups;
mod hints;
mod look_around;
mod node;
mod page;
#[cfg(test)]
mod patch_tests;
mod pending;
mod readout;
mod refault;
mod switch;
#[cfg(test)]
mod tests;
mod v6_12;
#[cfg(test)]
mod v6_12_tests;
mod walk;

pub use ageing::WalkStats;
pub use baseline::Baseline;
pub use command::{Action, Command, Refusal};
pub use config::{Features, MglruConfig};
pub use files::ControlFile;
pub use readout::{ReadoutRow, cold_and_working_set};
pub use switch::Switches;

/// The rules, for an engine that keeps pages in another form.
pub(crate) mod rules {
    pub(crate) use super::ageing::is_due;
    pub(crate) use super::baseline::Baseline;
    pub(crate) use super::bloom::{BloomFilter, table_id};
    pub(crate) use super::controller::{TIER_GAINS, tier_limit, type_to_evict};
    pub(crate) use super::generations::{Entering, Lruvec, TYPES, list_of};
    pub(crate) use super::look_around::window;
    pub(crate) use super::page::{
        MAX_NR_GENS, MIN_LRU_BATCH, MIN_NR_GENS, NR_GENS, NR_TIERS, PageState, ProbeResult, tier_of_refs,
    };
    pub(crate) use super::pending::PENDING_MAX;
    pub(crate) use super::refault::{is_recent, refs_of, token};
    pub(crate) use super::walk::{Accessed, is_worthwhile};
}

use super::classic::Classic;
use super::outcome::page_type;
use super::refault::ShadowLayout;
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Reclaimer, Scan};
use crate::cgroup::CgroupId;
use crate::lean::Kind;
use crate::memory::{Flag, FrameId, ListEnd, Memory, NodeId};
use ageing::SpaceLists;
use evict::Turn;
use generations::Generations;
use groups::{Draw, GroupQueue, Move, NR_BINS};
use isotherm_units::Instant;
use page::PageState;
use pending::Pending;

/// Entry in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "mglru",
    summary: "Multi-Gen LRU of Linux: generations, found by walks over page tables",
    runs_on_linux: true,
    make: |settings| Box::new(Mglru::with_config(settings.mglru)),
};

/// The Multi-Gen LRU.
#[derive(Clone, Debug)]
pub struct Mglru {
    config: MglruConfig,
    /// Kernel whose rules it follows: the baseline of `config`, or 7.2.
    baseline: Baseline,
    switches: Switches,
    generations: Generations,
    pending: Pending,
    /// Pages locked in memory; all pages while generations are switched off.
    classic: Classic,
    spaces: SpaceLists,
    /// Groups by node.
    groups: Vec<GroupQueue>,
    lot: Lot,
    /// The reclaimer has a walk context: the findings of a look-around are noted in bytes and counts.
    has_walk_context: bool,
    shadows: Option<ShadowLayout>,
}

impl Default for Mglru {
    fn default() -> Self {
        Self::new()
    }
}

/// The generator behind random bins: xorshift. Only the order of groups depends on it.
#[derive(Clone, Debug)]
struct Lot(u64);

impl Draw for Lot {
    fn bin(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 61).expect("three bits") % NR_BINS
    }
}

impl Mglru {
    /// A policy without pages, with every feature on, as is the default of Linux 7.2.
    pub fn new() -> Self {
        Self::with_config(MglruConfig::default())
    }

    /// A policy without pages, with this configuration.
    pub fn with_config(config: MglruConfig) -> Self {
        let baseline = config.baseline.unwrap_or_default();
        Self {
            config,
            baseline,
            switches: Switches::default(),
            generations: Generations { baseline, ..Generations::default() },
            pending: Pending::default(),
            classic: Classic::new(),
            spaces: SpaceLists::default(),
            groups: Vec::new(),
            lot: Lot(0x9e37_79b9_7f4a_7c15),
            has_walk_context: false,
            shadows: None,
        }
    }
}

impl Mglru {
    /// A page that a fault brings in has been used once by the fault; if it is of the working set it is young at once. Returns its state.
    #[inline]
    fn prepared(memory: &mut Memory, frame: FrameId, state: PageState) -> PageState {
        if memory.recent_fault && state.is_workingset() {
            memory.frames.set(frame, Flag::Active);
        } else if memory.recent_fault && !state.is_referenced() {
            return state.used_by_descriptor();
        }
        state
    }
}

impl ReclaimPolicy for Mglru {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.classic.add_lruvec(lruvec);
        self.generations.add_lruvec(lruvec, Instant::START);
    }

    /// docs/spec/mglru.md#s3-1.
    fn added(&mut self, memory: &mut Memory, frame: FrameId, arrival: Arrival, shadow: Option<u64>) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "a page that comes in is on no list");
        if !self.switches.has_core() {
            return self.classic.added(memory, frame, arrival, shadow);
        }
        // A page that was taken off to be reclaimed and is still here comes back as it was.
        if memory.frames.has(frame, Flag::Unevictable) {
            return self.classic.adopt(memory, frame, ListEnd::Head);
        }
        if memory.frames.take(frame, Flag::Isolated) {
            return self.generations.insert(memory, frame, false);
        }
        let mut state = PageState::new(page_type(memory, frame));
        let shadow = shadow.filter(|_| arrival != Arrival::FileWrite);
        match self.baseline {
            Baseline::V7_2 => {
                if let Some(shadow) = shadow {
                    state = self.refaulted(memory, frame, shadow, state);
                }
                state = Self::prepared(memory, frame, state);
            }
            Baseline::V6_12 => {
                if let Some(shadow) = shadow {
                    state = self.refaulted_v6_12(memory, frame, shadow, state);
                }
                if memory.recent_fault {
                    memory.frames.set(frame, Flag::Active);
                }
            }
        }
        self.put_off(memory, frame, state);
    }

    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        let state = self.generations.state(frame);
        if state.is_waiting() {
            self.stop_waiting(memory, frame);
        } else if let Some(generation) = state.generation() {
            let is_young = self.generations.get(memory.lruvec_of(frame)).is_young(generation);
            self.generations.take_off(memory, frame);
            if is_young {
                memory.frames.set(frame, Flag::Active);
            }
        } else {
            return self.classic.removed(memory, frame);
        }
        memory.frames.set(frame, Flag::Isolated);
    }

    /// As in the kernel: the page keeps whether its generation was one of the two youngest, and all its uses.
    fn put_back(&mut self, memory: &mut Memory, from: FrameId, to: FrameId) {
        debug_assert!(!memory.frames.has(to, Flag::OnList), "a page comes back that was taken off");
        let state = self.generations.state(from);
        self.generations.set_state(&memory.frames, to, state);
        if !self.switches.has_core() {
            return self.classic.put_back(memory, from, to);
        }
        if memory.frames.has(to, Flag::Unevictable) {
            return self.classic.adopt(memory, to, ListEnd::Head);
        }
        self.generations.insert(memory, to, false);
    }

    /// docs/spec/mglru.md#s2-1: counts, and never moves.
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if !self.switches.has_core() {
            return self.classic.mark_accessed(memory, frame);
        }
        if !memory.frames.has(frame, Flag::Unevictable) {
            let state = self.baseline.used_by_descriptor(self.generations.state(frame));
            self.generations.set_state(&memory.frames, frame, state);
        }
    }

    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        if !self.switches.has_core() {
            return self.classic.hint(memory, frame, hint);
        }
        self.take_hint(memory, frame, hint)
    }

    fn heeds(&self, _hint: Hint) -> bool {
        true
    }

    fn knows_folios(&self) -> bool {
        true
    }

    fn knows_active(&self) -> bool {
        true
    }

    /// The kernel's flag is clear on pages of generations, so that its filter calls none active; here it is as
    /// [`sizes`](ReclaimPolicy::sizes) counts them.
    fn is_active(&self, memory: &Memory, frame: FrameId) -> bool {
        let state = self.generations.state(frame);
        match state.generation() {
            Some(at) => self.generations.get(memory.lruvec_of(frame)).is_young(at),
            None => !state.is_waiting() && self.classic.is_active(memory, frame),
        }
    }

    fn begin_walk(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) {
        if !self.switches.has_core() {
            return self.classic.begin_walk(memory, node, scan);
        }
        self.insert_pending(memory);
    }

    fn insert_waiting(&mut self, memory: &mut Memory) {
        self.insert_pending(memory);
    }

    fn shrink_node(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) -> bool {
        let takes_turns = self.switches.has_core() && self.config.features.group_order && scan.is_global();
        if takes_turns {
            self.shrink_in_turn(memory, node, scan);
        }
        takes_turns
    }

    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        debug_assert!(!self.has_walk_context, "the means of a walk are those of one reclaimer");
        if !self.switches.has_core() {
            return self.classic.shrink_lruvec(memory, lruvec, scan);
        }
        self.has_walk_context = matches!(scan.reclaimer, Reclaimer::Kswapd | Reclaimer::Proactive);
        let turn = self.shrink(memory, lruvec, scan);
        self.has_walk_context = false;
        if turn == Turn::Rotate {
            self.rotate(memory, lruvec, Move::Young);
        }
    }

    fn age_node(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) {
        if !self.switches.has_core() {
            return self.classic.age_node(memory, node, scan);
        }
        self.guard_young(memory, node, scan);
    }

    fn reclaim_ended(&mut self, memory: &mut Memory, node: Option<NodeId>, scan: &Scan) {
        self.classic.reclaim_ended(memory, node, scan);
    }

    /// To the old end of the oldest generation: it can be freed now.
    fn writeback_ended(&mut self, memory: &mut Memory, frame: FrameId) {
        if !self.switches.has_core() {
            return self.classic.writeback_ended(memory, frame);
        }
        self.rotate_written(memory, frame);
    }

    fn shadow_of(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Option<u64> {
        if !self.switches.has_core() {
            return self.classic.shadow_of(memory, frame, root);
        }
        Some(self.evicted(memory, frame))
    }

    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        let [mut sizes, classic] = [self.generations.get(lruvec).sizes(), self.classic.sizes(lruvec)];
        sizes.inactive_anon += classic.inactive_anon;
        sizes.active_anon += classic.active_anon;
        sizes.inactive_file += classic.inactive_file;
        sizes.active_file += classic.active_file;
        sizes.unevictable += classic.unevictable;
        self.pending.add_sizes(lruvec, &mut sizes);
        sizes
    }

    fn flush_statistics(&mut self) {
        self.classic.flush_statistics();
    }

    /// 7.2 asks for sizes that only the two lists keep (`lruvec_lru_size` in `count_shadow_nodes`, since 7.1): if pages are in generations
    /// it finds none, and prunes nearly all nodes of shadows.
    fn pages_for_shrinkers(&self, lruvec: LruvecId) -> u64 {
        match self.baseline {
            Baseline::V7_2 => self.classic.pages_for_shrinkers(lruvec),
            Baseline::V6_12 => self.sizes(lruvec).all(),
        }
    }

    fn check(&self, memory: &Memory) -> Result<(), String> {
        self.classic.check(memory)?;
        self.generations.check(memory)?;
        let nr_waiting = self.generations.states.iter().filter(|state| state.is_waiting()).count();
        self.pending.check(|frame| self.generations.state(frame).is_waiting(), nr_waiting)
    }

    fn as_mglru(&mut self) -> Option<&mut Mglru> {
        Some(self)
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }

    fn lean(&self) -> Option<Kind> {
        let is_default = self.switches == Switches::default() && self.config.features == Features::default();
        (is_default && self.baseline == Baseline::V7_2).then_some(Kind::Mglru)
    }
}
