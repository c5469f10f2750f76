//! Actions of schemes: the supported ones, and the effect of each on page frames (docs/spec/schemes.md#s10).
//!
//! A huge page maps 512 frames that are on lists one by one and need not lie together. So a walk over physical memory
//! treats each frame inside the range, 4 KiB at a time; only questions about a folio answer for the whole huge page.

use super::folios::{Folio, YoungBlocks};
use super::{HostTarget, MemoryHost};
use isotherm_core::host::{
    Action, AddressRange, Applied, FilterType, HostError, Order, PageFilters, SchemeCapabilities, Untreated,
};
use isotherm_core::schemes::ACTIONS;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::memory::{Flag, FrameId};
use isotherm_kernel::reclaim::outcome::{self, Fate};
use isotherm_kernel::reclaim::{Hint, Reclaimer, SWAP_CLUSTER_MAX, Scan};
use isotherm_units::{Duration, PAGE_SHIFT, PageRange};

/// Bytes of a page frame.
const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

impl MemoryHost<'_> {
    /// Actions that schemes can apply to `target`.
    pub(super) fn offers(&self, target: HostTarget) -> SchemeCapabilities {
        use FilterType as Type;
        let is_physical = target == HostTarget::Physical;
        let of_target = ACTIONS.iter().map(|entry| entry.action).filter(|action| action.scorer(is_physical).is_some());
        let actions: Vec<Action> = of_target.filter(|&action| self.refusal(target, action).is_none()).collect();
        let is_filtered =
            |action: &&Action| is_physical || matches!(action, Action::Stat | Action::MigrateHot | Action::MigrateCold);
        let filtered_actions = actions.iter().filter(is_filtered).copied().collect();
        let mut filters = vec![Type::Anon, Type::Memcg, Type::Young, Type::HugepageSize, Type::Unmapped];
        if self.policy.knows_active() {
            filters.push(Type::Active);
        }
        SchemeCapabilities { actions, filtered_actions, filters }
    }

    /// The feature that is missing for `action`, if it is not possible.
    fn refusal(&self, target: HostTarget, action: Action) -> Option<&'static str> {
        let unless = |can: bool, needs| (!can).then_some(needs);
        let is_physical = target == HostTarget::Physical;
        match action {
            Action::Stat | Action::Pageout => None,
            Action::MigrateHot | Action::MigrateCold if self.memory.nodes.len() == 1 => {
                Some("migration needs a machine with more than one node")
            }
            Action::MigrateHot | Action::MigrateCold => unless(
                !self.policy.is_exact(),
                "page-exact baselines know pages by their frames, which a move would change",
            ),
            Action::LruPrio => unless(self.policy.heeds(Hint::Prioritise), "this policy's order cannot be sorted"),
            Action::LruDeprio if !is_physical => self.refusal(target, Action::Cold),
            Action::LruDeprio => unless(self.policy.heeds(Hint::Deprioritise), "this policy's order cannot be sorted"),
            _ if is_physical => Some("advice is for processes; give one as target"),
            Action::Willneed => None,
            Action::Cold => unless(self.policy.heeds(Hint::Cold), "this policy has no cold end that pages are sent to"),
            Action::Hugepage | Action::Nohugepage | Action::Collapse => {
                unless(!self.policy.is_exact(), "page-exact baselines know no huge pages")
            }
        }
    }

    /// Carries out an order, and returns its cost.
    pub(super) fn carry_out(&mut self, target: HostTarget, order: &mut Order<'_>) -> Result<Applied, HostError> {
        if let Some(needs) = self.refusal(target, order.action) {
            return Err(HostError::NotHere(needs));
        }
        let before = self.memory.ledger.peek();
        self.memory.ledger.spend(self.memory.costs.scheme_try_ns());
        // Charges are counted against the next thread that returns to user mode, which this one does not.
        let charged = self.memory.charged;
        let mut untreated = Untreated::default();
        let bytes = match target {
            HostTarget::Physical => self.apply_to_frames(order, &mut untreated),
            HostTarget::Space(space) => self.apply_to_space(space, order, &mut untreated),
        };
        self.memory.charged = charged;
        let spent = Duration::from_ns(self.memory.ledger.peek() - before);
        bytes.map(|bytes| Applied { bytes, spent, untreated })
    }

    /// Walks the page frames of the range. Returns the bytes treated.
    fn apply_to_frames(&mut self, order: &mut Order<'_>, untreated: &mut Untreated) -> Result<u64, HostError> {
        let end = self.memory.frames.len() as u64 * PAGE_BYTES;
        untreated.elsewhere = order.range.end.saturating_sub(order.range.start.max(end));
        let (mut young, mut free_until) = (YoungBlocks::default(), 0);
        let mut picked = Vec::new();
        for frame in self.frames_in(order.range) {
            self.memory.ledger.spend(self.memory.costs.scheme_folio_ns());
            let number = u64::from(frame.index_u32());
            if !self.is_listed(frame) {
                if frame.index_u32() >= free_until {
                    free_until = self.memory.nodes.free_until(frame).unwrap_or(free_until);
                }
                untreated.free += if frame.index_u32() < free_until { PAGE_BYTES } else { 0 };
                continue;
            }
            if *order.last_folio == Some(number) {
                continue;
            }
            *order.last_folio = Some(number);
            if self.admit(order.filter, PAGE_BYTES, frame, &mut young) {
                picked.push(frame);
            }
        }
        let hint = match order.action {
            Action::LruPrio => Hint::Prioritise,
            Action::LruDeprio => Hint::Deprioritise,
            Action::Pageout => {
                let freed = self.page_out(&picked);
                self.note_swapless(&picked, untreated);
                return Ok(freed * PAGE_BYTES);
            }
            Action::MigrateHot | Action::MigrateCold => return self.migrate_frames(&picked, order.target_nid),
            Action::Stat => return Ok(0),
            // No kernel does these to physical memory: `refusal` answers first.
            Action::Willneed | Action::Cold | Action::Hugepage | Action::Nohugepage | Action::Collapse => return Ok(0),
        };
        for &frame in &picked {
            if order.marks_accessed {
                self.policy.mark_accessed(self.memory, frame);
            } else {
                self.policy.hint(self.memory, frame, hint);
            }
        }
        Ok(picked.len() as u64 * PAGE_BYTES)
    }

    /// Asks the filter about `bytes` of the folio in `frame`.
    pub(super) fn admit(
        &mut self,
        filter: &mut PageFilters,
        bytes: u64,
        frame: FrameId,
        young: &mut YoungBlocks,
    ) -> bool {
        if filter.is_open() {
            return filter.admit(bytes, |_| false);
        }
        let folio = Folio::of(self.memory, frame);
        filter.admit(bytes, |test| self.holds(&folio, test, young))
    }

    /// Reclaims pages that are on lists, used or not. Returns the number of pages that are free now: pages under write-back are freed when
    /// reclaim meets them again.
    fn page_out(&mut self, frames: &[FrameId]) -> u64 {
        let memory = &mut *self.memory;
        let swappiness = memory.config.swappiness;
        let mut scan = Scan::new(Reclaimer::Proactive, CgroupId::ROOT, frames.len() as u64, swappiness);
        for &frame in frames {
            memory.ledger.spend(memory.costs.lru_scan_page_ns());
            memory.frames.clear(frame, Flag::Referenced);
            memory.frames.take_young(frame);
            if memory.frames.has(frame, Flag::Unevictable) {
                continue;
            }
            let fate = outcome::take_out(memory, self.policy, frame, &mut scan);
            if fate == Fate::Freed {
                scan.nr_reclaimed += 1;
                continue;
            }
            if fate == Fate::Activate && self.policy.knows_active() {
                outcome::activate(memory, frame);
            }
            outcome::put_back(memory, self.policy, frame);
        }
        let nr_flushes = scan.taken.unmapped.div_ceil(SWAP_CLUSTER_MAX);
        memory.ledger.spend(nr_flushes * memory.costs.tlb_flush_ns());
        memory.update_hidden();
        scan.nr_reclaimed
    }

    /// Notes pages that stayed because nothing can be swapped out.
    pub(super) fn note_swapless(&self, frames: &[FrameId], untreated: &mut Untreated) {
        let slots = &self.memory.slots;
        if slots.free() > 0 {
            return;
        }
        let has = |frame: FrameId, flag| self.memory.frames.has(frame, flag);
        let stays =
            |frame: FrameId| has(frame, Flag::OnList) && has(frame, Flag::SwapBacked) && !has(frame, Flag::SwapCache);
        let bytes = frames.iter().filter(|&&frame| stays(frame)).count() as u64 * PAGE_BYTES;
        *(if slots.total() == 0 { &mut untreated.no_swap } else { &mut untreated.swap_full }) += bytes;
    }

    /// The machine's frames in a range of physical memory, including frames that the range covers only in part.
    pub(super) fn frames_in(&self, range: AddressRange) -> impl Iterator<Item = FrameId> + use<> {
        let nr_frames = u32::try_from(self.memory.frames.len()).expect("frames are numbered in 32 bits");
        let clamp = |number: u64| u32::try_from(number).map_or(nr_frames, |number| number.min(nr_frames));
        (clamp(range.start / PAGE_BYTES)..clamp(range.end.div_ceil(PAGE_BYTES))).map(FrameId::new)
    }
}

/// The pages of a range of bytes that is aligned to pages.
pub(super) fn pages(range: AddressRange) -> PageRange {
    PageRange::new(range.start >> PAGE_SHIFT, range.end >> PAGE_SHIFT)
}
