//! Policies from outside: a program that embeds the simulator decides, in batches.
//!
//! A [`VictimPicker`] gets reports of the events of pages and chooses the next victims. Both are batched, because each call may be costly:
//! it may lead into an interpreter. [`Outside`] makes it a page-exact policy (`docs/mechanism/reclaim.md#baselines`). It asks for more
//! victims than it needs and takes them one by one. A page that is touched in between is not taken. So a policy whose order changes only by
//! touches decides as if it had been asked each time.

use super::order_log::{evict_exactly, is_pinned};
use super::outcome::{count_on, free_lazily, page_type};
use super::refault::refault_counters;
use super::scan_balance::PageType;
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyError, ReclaimPolicy, Scan, Touches};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;
use std::collections::VecDeque;

/// Event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageEvent {
    /// It became resident. The page may be chosen from now on.
    Added = 0,
    /// It was used. Reported only to a chooser that wants it.
    Touched = 1,
    /// It is resident no more: evicted, or freed by its program.
    Removed = 2,
    /// It was chosen and cannot go now, for want of swap. It may be chosen again.
    Kept = 3,
}

/// Events since the last time, in order. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageEvents {
    /// [`PageEvent`] as a number.
    pub kind: Vec<u8>,
    /// The page's frame. It names the page from [`PageEvent::Added`] to [`PageEvent::Removed`], and may name another one after that.
    pub page: Vec<u32>,
    /// The list of a group and node that the page is charged to, as in [`VictimPicker::choose`].
    pub list: Vec<u32>,
    /// For an added page: number of pages evicted since this page was, or -1 if it comes for the first time or this is not known.
    pub distance: Vec<i64>,
}

impl PageEvents {
    fn push(&mut self, kind: PageEvent, page: FrameId, list: LruvecId, distance: i64) {
        self.kind.push(kind as u8);
        self.page.push(page.index_u32());
        self.list.push(list.0);
        self.distance.push(distance);
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }
}

/// A policy that decides in batches.
pub trait VictimPicker: Send {
    /// Whether it wants every touch reported.
    fn wants_touches(&self) -> bool;

    /// How many victims to ask for at a time, at least 1. With 1 it decides about each page when that page is evicted.
    fn ahead(&self) -> usize;

    /// Reports the events since the last call.
    ///
    /// # Errors
    /// It cannot go on: the reason, as text. The run ends with that.
    fn tell(&mut self, events: PageEvents) -> Result<(), String>;

    /// The next `count` pages to evict of these lists, in order; fewer where there are fewer. The pages stay resident until
    /// [`PageEvent::Removed`] is reported: not all of them need be taken.
    ///
    /// # Errors
    /// Errors of [`VictimPicker::tell`].
    fn choose(&mut self, count: usize, lists: &[u32]) -> Result<Vec<u32>, String>;
}

/// Makes a policy that is in no table.
pub trait PolicyMaker: Send + Sync + std::fmt::Debug {
    /// Name of the policy in scenarios.
    fn name(&self) -> &str;

    /// A chooser for one machine, without pages.
    ///
    /// # Errors
    /// The reason, as text.
    fn make(&self) -> Result<Box<dyn VictimPicker>, String>;
}

/// Most events that are held back before they are reported.
const EVENTS_MAX: usize = 1 << 16;

/// The frame is on a list.
const LISTED: u8 = 1;
/// The frame is among the victims that were chosen.
const CHOSEN: u8 = 2;

/// A page-exact policy whose decisions a [`VictimPicker`] makes.
pub struct Outside {
    name: String,
    chooser: Box<dyn VictimPicker>,
    wants_touches: bool,
    ahead: usize,
    events: PageEvents,
    /// State by frame.
    state: Vec<u8>,
    /// Victims in order. Entries whose frame is not [`CHOSEN`] any more are skipped.
    victims: VecDeque<FrameId>,
    /// The lists that the victims were chosen of.
    of_lists: Vec<LruvecId>,
    /// Sizes by list.
    sizes: Vec<ListSizes>,
    nr_listed: u64,
    nr_evicted: u64,
    failure: Option<String>,
}

impl Outside {
    /// A policy without pages; `name` is used in messages.
    pub fn new(name: &str, chooser: Box<dyn VictimPicker>) -> Self {
        Self {
            name: name.to_owned(),
            wants_touches: chooser.wants_touches(),
            ahead: chooser.ahead().max(1),
            chooser,
            events: PageEvents::default(),
            state: Vec::new(),
            victims: VecDeque::new(),
            of_lists: Vec::new(),
            sizes: Vec::new(),
            nr_listed: 0,
            nr_evicted: 0,
            failure: None,
        }
    }

    fn note(&mut self, memory: &Memory, event: PageEvent, frame: FrameId, distance: i64) {
        self.events.push(event, frame, memory.lruvec_of(frame), distance);
        if self.events.len() >= EVENTS_MAX {
            self.tell();
        }
    }

    /// Reports the events; returns whether the policy can go on.
    fn tell(&mut self) -> bool {
        if self.failure.is_none() && !self.events.is_empty() {
            self.failure = self.chooser.tell(std::mem::take(&mut self.events)).err();
        }
        self.failure.is_none()
    }

    fn size(&mut self, memory: &Memory, frame: FrameId) -> &mut u64 {
        let sizes = &mut self.sizes[memory.lruvec_of(frame).index()];
        match page_type(memory, frame) {
            PageType::Anon => &mut sizes.inactive_anon,
            PageType::File => &mut sizes.inactive_file,
        }
    }

    fn enlist(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "already on a list");
        if self.state.len() <= frame.index() {
            self.state.resize(frame.index() + 1, 0);
        }
        memory.frames.set(frame, Flag::OnList);
        self.state[frame.index()] = LISTED;
        *self.size(memory, frame) += 1;
        self.nr_listed += 1;
    }

    /// Takes a page off its list; returns whether it was on one.
    fn delist(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        let was_listed = memory.frames.take(frame, Flag::OnList);
        if was_listed {
            *self.size(memory, frame) -= 1;
            self.state[frame.index()] = 0;
            self.nr_listed -= 1;
        }
        was_listed
    }

    fn touch(&mut self, memory: &Memory, frame: FrameId) {
        if memory.frames.has(frame, Flag::OnList) {
            self.state[frame.index()] &= !CHOSEN;
            self.note(memory, PageEvent::Touched, frame, -1);
        }
    }

    /// Forgets the victims that were chosen.
    fn forget_victims(&mut self) {
        for frame in self.victims.drain(..) {
            self.state[frame.index()] &= !CHOSEN;
        }
    }

    /// The first victim that can go now.
    fn next_victim(&mut self, memory: &Memory) -> Option<FrameId> {
        let mut at = 0;
        while let Some(&frame) = self.victims.get(at) {
            if self.state[frame.index()] & CHOSEN == 0 {
                self.victims.remove(at);
            } else if is_pinned(memory, frame) {
                at += 1; // keeps its place until it can go
            } else {
                self.victims.remove(at);
                self.state[frame.index()] &= !CHOSEN;
                return Some(frame);
            }
        }
        None
    }

    /// Asks for victims until one can be evicted. `None`: none can, or the policy cannot go on.
    fn choose(&mut self, memory: &Memory, lists: &[LruvecId]) -> Option<FrameId> {
        let mut count = self.ahead + self.victims.len();
        loop {
            self.forget_victims();
            if !self.tell() {
                return None;
            }
            let numbers: Vec<u32> = lists.iter().map(|list| list.0).collect();
            let chosen =
                self.chooser.choose(count, &numbers).and_then(|chosen| self.take(memory, lists, &chosen, count));
            match chosen {
                Ok(nr_chosen) => {
                    if let Some(frame) = self.next_victim(memory) {
                        return Some(frame);
                    }
                    if nr_chosen < count {
                        return None;
                    }
                    count *= 2; // all of them are pinned
                }
                Err(failure) => {
                    self.failure = Some(failure);
                    return None;
                }
            }
        }
    }

    /// Checks the victims and queues them; returns their number.
    fn take(&mut self, memory: &Memory, lists: &[LruvecId], chosen: &[u32], count: usize) -> Result<usize, String> {
        if chosen.len() > count {
            return Err(format!("it chose {} pages; allowed: the {count} that were asked for, or fewer", chosen.len()));
        }
        for &page in chosen {
            let state = self.state.get_mut(page as usize).filter(|state| **state & LISTED != 0);
            let Some(state) = state else {
                return Err(format!(
                    "it chose page {page}, which is not resident; allowed: pages that were told as added and not as removed since"
                ));
            };
            if *state & CHOSEN != 0 {
                return Err(format!("it chose page {page} twice; allowed: each page once"));
            }
            let frame = FrameId::new(page);
            if !lists.contains(&memory.lruvec_of(frame)) {
                let list = memory.lruvec_of(frame).index();
                return Err(format!(
                    "it chose page {page}, which is on list {list}; allowed: pages of the lists that were asked for"
                ));
            }
            *state |= CHOSEN;
            self.victims.push_back(frame);
        }
        self.of_lists.clear();
        self.of_lists.extend_from_slice(lists);
        Ok(chosen.len())
    }
}

impl ReclaimPolicy for Outside {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        let len = self.sizes.len().max(lruvec.index() + 1);
        self.sizes.resize(len, ListSizes::default());
    }

    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, shadow: Option<u64>) {
        let mut distance = -1;
        if let Some(evicted) = shadow {
            let cgroup = memory.frames.cgroup(frame);
            let [refault, ..] = refault_counters(page_type(memory, frame));
            memory.count(refault, cgroup, 1);
            distance = i64::try_from(self.nr_evicted.saturating_sub(evicted)).unwrap_or(i64::MAX);
        }
        self.enlist(memory, frame);
        self.note(memory, PageEvent::Added, frame, distance);
    }

    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        if self.delist(memory, frame) {
            self.note(memory, PageEvent::Removed, frame, -1);
        }
    }

    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if self.wants_touches {
            self.touch(memory, frame);
        }
    }

    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        hint == Hint::LazyFree && free_lazily(memory, frame, |memory, is_on| count_on(self.size(memory, frame), is_on))
    }

    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        self.shrink_exactly(memory, &[lruvec], scan);
    }

    fn shrink_exactly(&mut self, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
        if self.of_lists != lruvecs {
            self.forget_victims();
        }
        let mut looks = 2 * self.nr_listed + 1;
        while looks > 0 && self.failure.is_none() {
            looks -= 1;
            let Some(frame) = self.next_victim(memory).or_else(|| self.choose(memory, lruvecs)) else { return };
            let list = memory.lruvec_of(frame);
            self.delist(memory, frame);
            if evict_exactly(memory, self, frame, scan) {
                self.nr_evicted += 1;
                self.events.push(PageEvent::Removed, frame, list, -1);
                return;
            }
            self.enlist(memory, frame);
            self.note(memory, PageEvent::Kept, frame, -1);
        }
    }

    fn age_node(&mut self, _memory: &mut Memory, _node: NodeId, _scan: &mut Scan) {}
    fn reclaim_ended(&mut self, _memory: &mut Memory, _node: Option<NodeId>, _scan: &Scan) {}
    fn writeback_ended(&mut self, _memory: &mut Memory, _frame: FrameId) {}

    /// How many pages were evicted before it, this one included.
    fn shadow_of(&mut self, _memory: &mut Memory, _frame: FrameId, _root: CgroupId) -> Option<u64> {
        Some(self.nr_evicted + 1)
    }

    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.sizes[lruvec.index()]
    }

    fn check(&self, memory: &Memory) -> Result<(), String> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut sizes = vec![ListSizes::default(); self.sizes.len()];
        for (index, _) in self.state.iter().enumerate().filter(|(_, state)| **state & LISTED != 0) {
            let frame = FrameId::new(u32::try_from(index).expect("made from a frame"));
            if !memory.frames.has(frame, Flag::OnList) {
                return Err(format!("{frame:?} is listed but has no list flag"));
            }
            let sizes = &mut sizes[memory.lruvec_of(frame).index()];
            match page_type(memory, frame) {
                PageType::Anon => sizes.inactive_anon += 1,
                PageType::File => sizes.inactive_file += 1,
            }
        }
        if sizes == self.sizes { Ok(()) } else { Err(format!("sizes are {:?}, counted {sizes:?}", self.sizes)) }
    }

    fn wanted_touches(&self) -> Touches {
        if self.wants_touches { Touches::All } else { Touches::None }
    }

    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        for run in runs {
            for page in run.page()..run.page() + u64::from(run.pages) {
                if let Some(frame) = memory.space(space).table.frame_at(page) {
                    self.touch(memory, frame);
                }
            }
        }
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<PolicyError> {
        let why = self.failure.clone()?;
        Some(PolicyError::Outside { name: self.name.clone(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy_by_name;
    use super::*;
    use crate::cgroup::Knob;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Testbed, Touch};
    use isotherm_units::PageRange;
    use std::collections::BTreeMap;

    /// The answer of a chooser.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Answers {
        Rightly,
        WithAPageThatIsGone,
        WithAPageTwice,
        WithTooMany,
        WithAnError,
    }

    /// Orders pages by their last event of certain kinds.
    struct ByTime {
        wants_touches: bool,
        ahead: usize,
        answers: Answers,
        time: u64,
        /// By page: time and list.
        pages: BTreeMap<u32, (u64, u32)>,
    }

    impl ByTime {
        fn boxed(wants_touches: bool, ahead: usize, answers: Answers) -> Box<dyn ReclaimPolicy> {
            let chooser = Self { wants_touches, ahead, answers, time: 0, pages: BTreeMap::new() };
            Box::new(Outside::new("by-time", Box::new(chooser)))
        }
    }

    impl VictimPicker for ByTime {
        fn wants_touches(&self) -> bool {
            self.wants_touches
        }
        fn ahead(&self) -> usize {
            self.ahead
        }
        fn tell(&mut self, events: PageEvents) -> Result<(), String> {
            for ((&kind, &page), &list) in events.kind.iter().zip(&events.page).zip(&events.list) {
                self.time += 1;
                if kind == PageEvent::Removed as u8 {
                    assert!(self.pages.remove(&page).is_some(), "it was told as added");
                } else {
                    self.pages.insert(page, (self.time, list));
                }
            }
            Ok(())
        }
        fn choose(&mut self, count: usize, lists: &[u32]) -> Result<Vec<u32>, String> {
            let mut pages: Vec<(u64, u32)> = (self.pages.iter())
                .filter(|(_, (_, list))| lists.contains(list))
                .map(|(&page, &(time, _))| (time, page))
                .collect();
            pages.sort_unstable();
            let mut pages: Vec<u32> = pages.into_iter().map(|(_, page)| page).collect();
            match self.answers {
                Answers::Rightly => pages.truncate(count),
                Answers::WithAPageThatIsGone => pages = vec![1 << 20],
                Answers::WithAPageTwice => pages = vec![pages[0], pages[0]],
                Answers::WithTooMany => pages = pages.iter().cycle().take(count + 1).copied().collect(),
                Answers::WithAnError => return Err("it does not want to".to_owned()),
            }
            Ok(pages)
        }
    }

    /// Two limited groups and forks: how each access went.
    fn history(policy: Box<dyn ReclaimPolicy>, swap: DeviceKind) -> Vec<Touch> {
        let mut bed = Testbed::new(policy, 96, swap, 400);
        let groups = [bed.group(CgroupId::ROOT, "a"), bed.group(CgroupId::ROOT, "b")];
        bed.set(groups[0], Knob::Max, 20);
        let file = bed.file("shared", 60);
        let mut spaces = groups.map(|group| bed.space(group, 80));
        for (index, &space) in spaces.iter().enumerate() {
            bed.map_open_file(space, 1000, file, 60, index == 0);
        }
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut touches = Vec::new();
        for step in 0..900 {
            let space = spaces[usize::try_from(next(2)).unwrap()];
            let page = next(80).min(next(80));
            let page = if next(4) == 0 { 1000 + page.min(59) } else { page };
            touches.push(if next(3) == 0 { bed.write(space, page) } else { bed.read(space, page) });
            if step % 400 == 399 {
                bed.unmap(space, PageRange::new(10, 14));
                bed.map(space, isotherm_units::access::Mapping::anonymous(PageRange::new(10, 14)));
                let child = bed.fork(spaces[1]);
                let parent = std::mem::replace(&mut spaces[1], child);
                bed.exit(parent);
            }
            if step % 250 == 0 {
                bed.check_lists();
            }
        }
        touches
    }

    #[test]
    fn an_order_that_only_touches_change_is_kept_however_far_ahead_is_asked() {
        for swap in [DeviceKind::Zram, DeviceKind::None] {
            for (name, wants_touches) in [("lru", true), ("fifo", false)] {
                let expected = history(policy_by_name(name).unwrap().build(), swap);
                assert!(expected.contains(&Touch::Major) || swap == DeviceKind::None);
                for ahead in [1, 7, 1000] {
                    let outside = history(ByTime::boxed(wants_touches, ahead, Answers::Rightly), swap);
                    assert!(outside == expected, "{name}, {ahead} ahead, {swap}");
                }
            }
        }
    }

    #[test]
    fn nonsense_ends_the_policy_with_words() {
        for (answers, words) in [
            (Answers::WithAPageThatIsGone, "it chose page 1048576, which is not resident; allowed: "),
            (Answers::WithAPageTwice, " twice; allowed: each page once"),
            (Answers::WithTooMany, "it chose 9 pages; allowed: the 8 that were asked for, or fewer"),
            (Answers::WithAnError, "it does not want to"),
        ] {
            let mut bed = Testbed::new(ByTime::boxed(true, 8, answers), 32, DeviceKind::Zram, 100);
            let space = bed.space(CgroupId::ROOT, 64);
            let ended = (0..64).map(|page| bed.write(space, page)).find(|&touch| touch == Touch::OutOfMemory);
            assert_eq!(ended, Some(Touch::OutOfMemory), "{words}");
            let failure = bed.policy.failure().unwrap().to_string();
            assert!(failure.starts_with("policy `by-time`: ") && failure.contains(words), "{failure}");
        }
    }
}
