//! The tree of groups, charges and limits.

use super::Limit;
use crate::counters::Counters;
use smallvec::SmallVec;

/// Index of a group; 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub(crate) u16);

impl CgroupId {
    /// The root group: no limits, pays for everything.
    pub const ROOT: Self = Self(0);
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A limit or protection of a group, by its file name after `memory.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// Hard limit.
    Max,
    /// Soft limit with throttling.
    High,
    /// Best-effort protection.
    Low,
    /// Hard protection.
    Min,
    /// Limit on swap.
    SwapMax,
    /// Soft limit on swap.
    SwapHigh,
}

/// `memory.events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryEvents {
    /// Reclaimed although below `low`.
    pub low: u64,
    /// Throttled into reclaim by `high`.
    pub high: u64,
    /// Limit hit.
    pub max: u64,
    /// Out of memory.
    pub oom: u64,
    /// Processes killed.
    pub oom_kill: u64,
}

/// One group.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// `/` for the root, else `/a/b`.
    pub path: String,
    /// `None` for the root.
    pub parent: Option<CgroupId>,
    /// Children, in the order in which they were made.
    pub children: Vec<CgroupId>,
    /// `memory.max` in pages.
    pub max: Limit,
    /// `memory.high` in pages.
    pub high: Limit,
    /// `memory.low` in pages.
    pub low: u64,
    /// `memory.min` in pages.
    pub min: u64,
    /// `memory.swap.max` in pages.
    pub swap_max: Limit,
    /// `memory.swap.high` in pages.
    pub swap_high: Limit,
    /// Pages charged to it and its descendants, stock included.
    pub usage: u64,
    /// Highest `usage` so far.
    pub peak: u64,
    /// Swap slots charged to it and its descendants.
    pub swap_usage: u64,
    /// Charged ahead and not used yet (own, not descendants').
    pub stock: u64,
    /// Events in the group itself; [`Cgroups::memory_stat`] adds its descendants.
    pub counters: Counters,
    /// `memory.events`, own and descendants'.
    pub events: MemoryEvents,
}

/// A charge went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Pages really charged: 0 when the stock served it. Pages that the `memory.high` penalty counts.
    pub charged: u64,
}

/// A charge would exceed this group's `memory.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit(pub CgroupId);

/// Pages charged ahead in one go (docs/spec/classic-lru.md#s7-5).
const CHARGE_BATCH: u64 = 64;

/// The tree.
#[derive(Clone, Debug)]
pub struct Cgroups {
    groups: Vec<Cgroup>,
    /// By group: the group and its ancestors, the root last.
    lineages: Vec<Box<[CgroupId]>>,
    /// Pages to try to charge ahead: 64, or 1 for policies that are judged page-exact.
    pub charge_batch: u64,
    /// A `memory.high` or `memory.swap.high` was ever set.
    has_soft_limits: bool,
    /// A `memory.swap.max` was ever set.
    has_swap_limits: bool,
}

impl Default for Cgroups {
    fn default() -> Self {
        Self::new()
    }
}

impl Cgroups {
    /// The root alone.
    pub fn new() -> Self {
        let groups = vec![Self::group("/".to_owned(), None)];
        let lineages = vec![Box::from([CgroupId::ROOT])];
        Self { groups, lineages, charge_batch: CHARGE_BATCH, has_soft_limits: false, has_swap_limits: false }
    }

    fn group(path: String, parent: Option<CgroupId>) -> Cgroup {
        Cgroup {
            path,
            parent,
            children: Vec::new(),
            max: Limit::Unlimited,
            high: Limit::Unlimited,
            low: 0,
            min: 0,
            swap_max: Limit::Unlimited,
            swap_high: Limit::Unlimited,
            usage: 0,
            peak: 0,
            swap_usage: 0,
            stock: 0,
            counters: Counters::default(),
            events: MemoryEvents::default(),
        }
    }

    /// Makes a child called `name` of `parent`; `None` when 65 535 groups exist.
    pub fn add(&mut self, parent: CgroupId, name: &str) -> Option<CgroupId> {
        let id = CgroupId(u16::try_from(self.groups.len()).ok()?);
        let prefix = self.get(parent).path.trim_end_matches('/');
        let path = format!("{prefix}/{name}");
        self.groups.push(Self::group(path, Some(parent)));
        self.lineages.push(std::iter::once(id).chain(self.lineage(parent)).collect());
        self.get_mut(parent).children.push(id);
        Some(id)
    }

    #[inline]
    pub fn get(&self, id: CgroupId) -> &Cgroup {
        &self.groups[id.index()]
    }
    #[inline]
    pub fn get_mut(&mut self, id: CgroupId) -> &mut Cgroup {
        &mut self.groups[id.index()]
    }
    /// How many groups, the root included.
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    /// Never true: there is always a root.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// All group numbers, parents before children.
    pub fn ids(&self) -> impl Iterator<Item = CgroupId> + use<> {
        (0..u16::try_from(self.groups.len()).expect("checked in add")).map(CgroupId)
    }
    /// The group with this path.
    pub fn find(&self, path: &str) -> Option<CgroupId> {
        self.ids().find(|&id| self.get(id).path == path)
    }
    /// The group and its ancestors, the root last.
    #[inline]
    pub fn lineage(&self, id: CgroupId) -> impl Iterator<Item = CgroupId> + Clone + '_ {
        self.lineages[id.index()].iter().copied()
    }
    /// Changes the group and its ancestors.
    #[inline]
    pub fn for_lineage(&mut self, id: CgroupId, mut change: impl FnMut(&mut Cgroup)) {
        self.lineages[id.index()].iter().for_each(|id| change(&mut self.groups[id.index()]));
    }
    /// Whether `id` is `ancestor` or below it.
    #[inline]
    pub fn is_within(&self, id: CgroupId, ancestor: CgroupId) -> bool {
        ancestor == CgroupId::ROOT || ancestor == id || self.lineage(id).any(|id| id == ancestor)
    }
    /// `root` and all below it in pre-order.
    pub fn subtree(&self, root: CgroupId) -> SmallVec<[CgroupId; 8]> {
        let mut order = SmallVec::new();
        order.push(root);
        let mut at = 0;
        while at < order.len() {
            let children = &self.get(order[at]).children;
            at += 1;
            order.insert_from_slice(at, children);
        }
        order
    }

    /// Counters of `memory.stat`: the group's own and its descendants'.
    pub fn memory_stat(&self, id: CgroupId) -> Counters {
        self.subtree(id).into_iter().fold(Counters::default(), |mut sum, id| {
            sum.merge(&self.get(id).counters);
            sum
        })
    }

    /// Whether a group may be above its `memory.high` or `memory.swap.high`: without any, none is.
    #[inline]
    pub const fn has_soft_limits(&self) -> bool {
        self.has_soft_limits
    }

    /// Charges one page to `id` and its ancestors: from the stock, else a batch, else one page.
    ///
    /// # Errors
    /// The topmost-below group whose `memory.max` does not allow it; nothing is charged then.
    #[inline]
    pub fn charge(&mut self, id: CgroupId) -> Result<Charge, OverLimit> {
        let room = self.room(id);
        self.charge_into(id, room)
    }

    /// The same with a known [`room`](Self::room).
    #[inline]
    pub(crate) fn charge_into(&mut self, id: CgroupId, room: u64) -> Result<Charge, OverLimit> {
        let batch = self.charge_batch;
        let group = self.get_mut(id);
        if group.stock > 0 {
            group.stock -= 1;
            return Ok(Charge { charged: 0 });
        }
        if room == 0 {
            return Err(OverLimit(self.over_limit(id, 1).expect("there is no room")));
        }
        let charged = if room >= batch { batch } else { 1 };
        group.stock = charged - 1;
        self.charge_exactly(id, charged);
        Ok(Charge { charged })
    }

    /// Charges up to `pages` pages one after the other, as many as fit. Returns how many, and what was really charged.
    pub(crate) fn charge_several(&mut self, id: CgroupId, pages: u64) -> (u64, Charge) {
        let (mut left, mut charged) = (pages, 0);
        while left > 0 {
            let stock = self.get(id).stock;
            if stock > 0 {
                let served = left.min(stock);
                self.get_mut(id).stock -= served;
                left -= served;
                continue;
            }
            let room = self.room(id);
            if room == 0 {
                break;
            }
            // Near the limit nothing is charged ahead.
            let batch = self.charge_batch;
            let taken = if batch > 1 && room >= batch { batch } else { left.min(room) };
            self.get_mut(id).stock = taken;
            self.charge_exactly(id, taken);
            charged += taken;
        }
        (pages - left, Charge { charged })
    }

    /// Charges a folio of `pages`, at least 2, in one go: from the pages charged ahead if these are enough, else from the limit
    /// (docs/spec/large-folios.md#f3-1; `try_charge_memcg`, mm/memcontrol.c, Linux 6.12 and 7.2).
    ///
    /// # Errors
    /// The first group whose limit leaves no room for all of it; nothing is charged then.
    pub(crate) fn charge_folio(&mut self, id: CgroupId, pages: u64) -> Result<Charge, OverLimit> {
        let batch = self.charge_batch;
        let group = self.get_mut(id);
        if group.stock >= pages {
            group.stock -= pages;
            return Ok(Charge { charged: 0 });
        }
        let ahead = batch.max(pages);
        let charged = if self.over_limit(id, ahead).is_none() { ahead } else { pages };
        if let Some(over) = self.over_limit(id, charged) {
            return Err(OverLimit(over));
        }
        self.charge_exactly(id, charged);
        let group = self.get_mut(id);
        group.stock += charged - pages;
        if group.stock > batch {
            // `refill_stock`: more than a batch is given back, all of it.
            let stock = std::mem::take(&mut group.stock);
            self.uncharge(id, stock);
        }
        Ok(Charge { charged })
    }

    /// Pages that the group can still be charged: pages charged ahead, or the room under the limits of the group and its ancestors.
    #[inline]
    pub(crate) fn room(&self, id: CgroupId) -> u64 {
        let own = self.get(id);
        if own.stock > 0 {
            return own.stock;
        }
        self.lineage(id).fold(u64::MAX, |room, id| {
            let group = self.get(id);
            match group.max {
                Limit::Unlimited => room,
                Limit::At(max) => room.min(max.get().saturating_sub(group.usage)),
            }
        })
    }

    /// The first group from `id` upwards where `pages` more would exceed `memory.max`.
    #[inline]
    pub fn over_limit(&self, id: CgroupId, pages: u64) -> Option<CgroupId> {
        self.lineage(id).find(|&id| match self.get(id).max {
            Limit::Unlimited => false,
            Limit::At(max) => self.get(id).usage + pages > max.get(),
        })
    }

    /// Charges without checking limits (victims of the out-of-memory killer).
    #[inline]
    pub fn charge_exactly(&mut self, id: CgroupId, pages: u64) {
        self.for_lineage(id, |group| {
            group.usage += pages;
            group.peak = group.peak.max(group.usage);
        });
    }

    /// Gives charged pages back.
    #[inline]
    pub fn uncharge(&mut self, id: CgroupId, pages: u64) {
        self.for_lineage(id, |group| group.usage -= pages);
    }

    /// Gives back pages charged ahead in `root` and below it.
    pub fn drain_stock(&mut self, root: CgroupId) {
        for id in self.subtree(root) {
            let stock = std::mem::take(&mut self.get_mut(id).stock);
            if stock > 0 {
                self.uncharge(id, stock);
            }
        }
    }

    /// Whether a group may have a limit on swap: without any, all may use it.
    #[inline]
    pub(crate) const fn has_swap_limits(&self) -> bool {
        self.has_swap_limits
    }

    /// Whether one more swap slot fits `memory.swap.max` of the group and its ancestors.
    #[inline]
    pub fn may_swap(&self, id: CgroupId) -> bool {
        if !self.has_swap_limits {
            return true;
        }
        self.lineage(id).all(|id| match self.get(id).swap_max {
            Limit::Unlimited => true,
            Limit::At(max) => self.get(id).swap_usage < max.get(),
        })
    }

    /// Pages of the group are in swap, in slots of their own, in place of memory.
    #[inline]
    pub(crate) fn swapped_out(&mut self, id: CgroupId, pages: u64) {
        self.for_lineage(id, |group| {
            group.usage -= pages;
            group.swap_usage += pages;
        });
    }

    /// Charges pages without checking limits, and uncharges the slots that they leave.
    #[inline]
    pub(crate) fn charge_pages_for_slots(&mut self, id: CgroupId, pages: u64, slots: u64) {
        self.for_lineage(id, |group| {
            group.usage += pages;
            group.peak = group.peak.max(group.usage);
            group.swap_usage -= slots;
        });
    }

    /// Swap slots that the group may still use, by its own and its ancestors' limits; `u64::MAX` without any.
    pub fn swap_room(&self, id: CgroupId) -> u64 {
        if !self.has_swap_limits {
            return u64::MAX;
        }
        let room = self.lineage(id).filter_map(|id| match self.get(id).swap_max {
            Limit::Unlimited => None,
            Limit::At(max) => Some(max.get().saturating_sub(self.get(id).swap_usage)),
        });
        room.min().unwrap_or(u64::MAX)
    }

    /// Adds to or takes from the swap charge of the group and its ancestors.
    #[inline]
    pub fn charge_swap(&mut self, id: CgroupId, slots: i64) {
        self.for_lineage(id, |group| {
            group.swap_usage = group.swap_usage.checked_add_signed(slots).expect("uncharges what was charged");
        });
    }

    /// Sets a knob; a value that a protection cannot take (`max`) means all memory.
    pub fn set(&mut self, id: CgroupId, knob: Knob, value: Limit) {
        let pages = match value {
            Limit::Unlimited => u64::MAX,
            Limit::At(pages) => pages.get(),
        };
        let is_limit = value != Limit::Unlimited;
        self.has_soft_limits |= is_limit && matches!(knob, Knob::High | Knob::SwapHigh);
        self.has_swap_limits |= is_limit && knob == Knob::SwapMax;
        let group = self.get_mut(id);
        match knob {
            Knob::Max => group.max = value,
            Knob::High => group.high = value,
            Knob::Low => group.low = pages,
            Knob::Min => group.min = pages,
            Knob::SwapMax => group.swap_max = value,
            Knob::SwapHigh => group.swap_high = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::Pages;

    #[test]
    fn charges_climb_and_limits_bite_anywhere_on_the_way() {
        let mut tree = Cgroups::new();
        let outer = tree.add(CgroupId::ROOT, "outer").unwrap();
        let inner = tree.add(outer, "inner").unwrap();
        assert_eq!(tree.get(inner).path, "/outer/inner");
        tree.set(outer, Knob::Max, Limit::At(Pages::new(66)));
        assert_eq!(tree.charge(inner), Ok(Charge { charged: 64 }));
        assert_eq!((tree.get(inner).stock, tree.get(outer).usage), (63, 64));
        for _ in 0..63 {
            assert_eq!(tree.charge(inner), Ok(Charge { charged: 0 }));
        }
        assert_eq!(tree.charge(inner), Ok(Charge { charged: 1 }));
        assert_eq!(tree.charge(inner), Ok(Charge { charged: 1 }));
        assert_eq!(tree.charge(inner), Err(OverLimit(outer)));
        tree.uncharge(inner, 1);
        assert_eq!((tree.get(CgroupId::ROOT).usage, tree.get(outer).peak), (65, 66));
    }

    #[test]
    fn several_pages_are_charged_as_one_by_one() {
        for (batch, max) in [(CHARGE_BATCH, 200), (CHARGE_BATCH, 64), (CHARGE_BATCH, 1), (1, 100)] {
            let mut together = Cgroups::new();
            let outer = together.add(CgroupId::ROOT, "outer").unwrap();
            let inner = together.add(outer, "inner").unwrap();
            together.set(outer, Knob::Max, Limit::At(Pages::new(max)));
            together.charge_batch = batch;
            let mut one_by_one = together.clone();
            for pages in [0, 1, 32, 31, 100, 50, 1] {
                let all: Vec<Charge> = (0..pages).map_while(|_| one_by_one.charge(inner).ok()).collect();
                let charged = all.iter().map(|one| one.charged).sum();
                assert_eq!(together.charge_several(inner, pages), (all.len() as u64, Charge { charged }), "{max}");
                assert_eq!(format!("{together:?}"), format!("{one_by_one:?}"));
            }
        }
    }

    #[test]
    fn a_limit_on_swap_counts_from_when_it_is_set() {
        let mut tree = Cgroups::new();
        let group = tree.add(CgroupId::ROOT, "group").unwrap();
        tree.charge_exactly(group, 3);
        tree.swapped_out(group, 2);
        assert_eq!((tree.get(group).usage, tree.get(CgroupId::ROOT).swap_usage), (1, 2));
        assert!(tree.may_swap(group) && tree.swap_room(group) == u64::MAX && !tree.has_soft_limits());
        tree.set(group, Knob::SwapMax, Limit::At(Pages::new(2)));
        assert!(!tree.may_swap(group) && tree.swap_room(group) == 0 && tree.may_swap(CgroupId::ROOT));
        tree.set(group, Knob::High, Limit::At(Pages::new(9)));
        assert!(tree.has_soft_limits());
    }

    #[test]
    fn a_subtree_is_listed_in_pre_order() {
        let mut tree = Cgroups::new();
        let a = tree.add(CgroupId::ROOT, "a").unwrap();
        let b = tree.add(CgroupId::ROOT, "b").unwrap();
        let inner = tree.add(a, "x").unwrap();
        assert_eq!(tree.subtree(CgroupId::ROOT).as_slice(), [CgroupId::ROOT, a, inner, b]);
        assert!(tree.is_within(inner, a) && !tree.is_within(b, a));
    }
}
