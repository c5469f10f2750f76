//! The rules that every policy must keep. The tests loop over [`POLICIES`](super::POLICIES): a policy is tested by being registered.
//! Programs that add policies check theirs by [`check`], with the feature `conformance`.

use super::driver::{Attempt, ReclaimStep};
use super::{Hint, ReclaimPolicy};
use crate::cgroup::{CgroupId, Knob};
use crate::memory::{Flag, FrameId, Mark, NodeId};
use crate::migrate::{MigrateMode, Move};
use crate::mmu::SpaceId;
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};
use isotherm_units::access::Mapping;
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A policy that is checked.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// Used in messages.
    pub name: &'a str,
    /// Makes one without pages.
    pub make: &'a dyn Fn() -> Box<dyn ReclaimPolicy>,
}

/// Panics where a policy breaks it.
type Rule = fn(Candidate<'_>);

/// The rules that need no random history, by their text.
const RULES: &[(&str, Rule)] = &[
    ("a group ends under its limit", a_group_ends_under_its_limit),
    ("a machine ends with its free memory", a_machine_ends_with_its_free_memory),
    ("protected groups are spared", protected_groups_are_spared),
    ("sorting keeps pages on lists", sorting_keeps_pages_on_lists),
];

/// Checks a policy against every rule, and in this number of random histories, which are the same each time.
///
/// # Errors
/// The rule that is broken and how, as text, with the shortest history that was found to break it.
pub fn check(candidate: Candidate<'_>, histories: u32) -> Result<(), String> {
    for (rule, holds) in RULES {
        catch_unwind(AssertUnwindSafe(|| holds(candidate)))
            .map_err(|panic| format!("policy `{}`: {rule}: {}", candidate.name, words_of(panic.as_ref())))?;
    }
    let config = Config { cases: histories, failure_persistence: None, max_shrink_iters: 256, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let broken = runner.run(&histories_of_events(), |(events, swap)| {
        nothing_is_lost(candidate, &events, swap);
        Ok(())
    });
    broken.map_err(|broken| format!("policy `{}`: nothing is lost whatever happens: {broken}", candidate.name))
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

fn histories_of_events() -> impl Strategy<Value = (Vec<Event>, DeviceKind)> {
    (prop::collection::vec(event(), 1..150), prop::sample::select(DeviceKind::ALL.to_vec()))
}

/// After every event memory and lists are consistent, and locked pages are where they were.
fn nothing_is_lost(candidate: Candidate<'_>, events: &[Event], swap: DeviceKind) {
    let mut scene = Scene::new(candidate, swap);
    for &event in events {
        scene.carry_out(event);
    }
}

const FRAMES: u64 = 64;
/// Room to spare: kernels leave anonymous pages alone when fewer than a batch of slots are free.
const SWAP: u64 = 512;
const ANON_PAGES: u64 = 48;
const FILE_AT: u64 = 1000;
const FILE_PAGES: u64 = 40;

/// An event of the machine.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Process, page of its anonymous (below 48) or file memory, store.
    Touch(usize, u64, bool),
    Unmap(usize, u64, u64),
    Hint(usize, u64, Hint),
    MarkAccessed(usize, u64),
    Limit(usize, u64),
    Low(usize, u64),
    Reclaim(usize, u64),
    Pass(u64),
    Kswapd,
    Lock(usize, u64),
    /// Moves pages to other frames.
    Migrate(usize, u64, u64),
    /// A child of the process takes its place, or the child that did ends.
    Fork(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let who = 0usize..3;
    let page = 0..ANON_PAGES + FILE_PAGES;
    let hints =
        [Hint::Prioritise, Hint::Deprioritise, Hint::Cold, Hint::LazyFree, Hint::DeactivateFile, Hint::UnmappedYoung];
    prop_oneof![
        12 => (who.clone(), page.clone(), any::<bool>()).prop_map(|(who, page, store)| Event::Touch(who, page, store)),
        1 => (who.clone(), 0..ANON_PAGES, 1u64..8).prop_map(|(who, page, len)| Event::Unmap(who, page, len)),
        2 => (who.clone(), page.clone(), prop::sample::select(hints.to_vec()))
            .prop_map(|(who, page, hint)| Event::Hint(who, page, hint)),
        1 => (who.clone(), page.clone()).prop_map(|(who, page)| Event::MarkAccessed(who, page)),
        1 => (who.clone(), 4u64..FRAMES).prop_map(|(who, pages)| Event::Limit(who, pages)),
        1 => (who.clone(), 0u64..24).prop_map(|(who, pages)| Event::Low(who, pages)),
        1 => (who.clone(), 1u64..40).prop_map(|(who, pages)| Event::Reclaim(who, pages)),
        2 => (1u64..200_000).prop_map(Event::Pass),
        1 => Just(Event::Kswapd),
        1 => (who.clone(), page.clone()).prop_map(|(who, page)| Event::Lock(who, page)),
        2 => (who.clone(), page, 1u64..20).prop_map(|(who, page, len)| Event::Migrate(who, page, len)),
        1 => who.prop_map(Event::Fork),
    ]
}

struct Scene {
    bed: Testbed,
    groups: Vec<CgroupId>,
    spaces: Vec<SpaceId>,
    locked: Vec<(usize, u64, FrameId)>,
    /// By process: its parent, while the parent lives.
    parents: [Option<SpaceId>; 3],
}

impl Scene {
    /// Groups `/a`, `/a/b` and `/c` with a process each; one file that all map.
    fn new(candidate: Candidate<'_>, swap: DeviceKind) -> Self {
        let mut bed = Testbed::new((candidate.make)(), FRAMES, swap, 96);
        let a = bed.group(CgroupId::ROOT, "a");
        let b = bed.group(a, "b");
        let c = bed.group(CgroupId::ROOT, "c");
        let groups = vec![a, b, c];
        let file = bed.file("shared", FILE_PAGES);
        let spaces: Vec<SpaceId> = groups.iter().map(|&group| bed.space(group, ANON_PAGES)).collect();
        for (index, &space) in spaces.iter().enumerate() {
            bed.map_open_file(space, FILE_AT, file, FILE_PAGES, index == 0);
        }
        Self { bed, groups, spaces, locked: Vec::new(), parents: [None; 3] }
    }

    fn at(&self, who: usize, page: u64) -> (SpaceId, u64) {
        (self.spaces[who], if page < ANON_PAGES { page } else { FILE_AT + page - ANON_PAGES })
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::Touch(who, page, store) => {
                let (space, page) = self.at(who, page);
                let touch = if store { self.bed.write(space, page) } else { self.bed.read(space, page) };
                if touch == Touch::OutOfMemory {
                    self.locked.clear();
                    self.bed.unmap(space, PageRange::new(0, ANON_PAGES));
                    self.bed.map(space, Mapping::anonymous(PageRange::new(0, ANON_PAGES)));
                }
            }
            Event::Unmap(who, page, len) => {
                let range = PageRange::new(page, (page + len).min(ANON_PAGES));
                self.locked.retain(|&(other, locked, _)| other != who || !range.contains(locked));
                self.bed.unmap(self.spaces[who], range);
                self.bed.map(self.spaces[who], Mapping::anonymous(range));
            }
            Event::Hint(who, page, hint) => {
                let (space, page) = self.at(who, page);
                if let Some(frame) = self.bed.frame(space, page) {
                    self.bed.policy.hint(&mut self.bed.memory, frame, hint);
                }
            }
            Event::MarkAccessed(who, page) => {
                let (space, page) = self.at(who, page);
                if let Some(frame) = self.bed.frame(space, page) {
                    self.bed.policy.mark_accessed(&mut self.bed.memory, frame);
                }
            }
            Event::Limit(who, pages) => {
                let group = self.groups[who];
                self.bed.set(group, Knob::Max, pages);
                let over = self.bed.memory.cgroups.get(group).usage.saturating_sub(pages);
                if over > 0 {
                    self.bed.run(Attempt::once(group, over));
                }
            }
            Event::Low(who, pages) => self.bed.set(self.groups[who], Knob::Low, pages),
            Event::Reclaim(who, pages) => {
                let step = self.bed.run(Attempt::proactive(self.groups[who], pages, 60));
                assert!(matches!(step, ReclaimStep::Done { .. }), "{step:?}");
            }
            Event::Pass(ns) => {
                let until = self.bed.memory.now + Duration::from_ns(ns);
                self.bed.pass_time(until);
            }
            Event::Kswapd => {
                let node = self.bed.memory.nodes.ids().next().expect("one node");
                self.bed.run(Attempt::kswapd(node));
            }
            Event::Fork(who) => self.fork_or_end(who),
            Event::Migrate(who, page, len) => self.migrate(who, page, len),
            Event::Lock(who, page) => {
                let (space, page) = self.at(who, page);
                let has = |frame, flag| self.bed.memory.frames.has(frame, flag);
                // A shared page may be copied at the next store, and then another frame is there.
                let lockable = |&frame: &FrameId| !has(frame, Flag::Unevictable) && !has(frame, Flag::Shared);
                let frame = self.bed.frame(space, page).filter(lockable);
                if let Some(frame) = frame.filter(|_| self.locked.len() < 3 && page < ANON_PAGES) {
                    self.bed.lock(frame);
                    self.locked.push((who, page, frame));
                }
            }
        }
        self.check();
    }

    /// Moves pages to other frames; pages of a baseline stay.
    fn migrate(&mut self, who: usize, page: u64, len: u64) {
        let (space, first) = self.at(who, page);
        let frames = (first..first + len).filter_map(|page| self.bed.frame(space, page));
        let mut from: Vec<FrameId> =
            frames.filter(|frame| !self.locked.iter().any(|(.., other)| other == frame)).collect();
        from.sort_unstable();
        from.dedup();
        let Testbed { memory, policy, .. } = &mut self.bed;
        let target = |from| Some((from, memory.take_target(NodeId::default(), Mark::Nothing)?));
        let moves: Vec<Move> = from.into_iter().map_while(target).collect();
        let moved = memory.migrate_batch(policy.as_mut(), &moves, MigrateMode::SyncLight);
        assert_eq!(moved.pages + moved.failed.len() as u64, moves.len() as u64);
        assert!(!policy.is_exact() || moved.pages == 0, "baselines know frames");
        for (at, _) in moved.failed {
            memory.give_target(moves[at].1, 0);
        }
    }

    fn fork_or_end(&mut self, who: usize) {
        self.locked.retain(|&(other, ..)| other != who);
        match self.parents[who].take() {
            None => {
                let parent = self.spaces[who];
                self.spaces[who] = self.bed.fork(parent);
                self.parents[who] = Some(parent);
            }
            Some(parent) if who == 0 => {
                let child = std::mem::replace(&mut self.spaces[who], parent);
                self.bed.exit(child);
            }
            Some(parent) => self.bed.exit(parent),
        }
    }

    fn check(&self) {
        self.bed.check_lists();
        for &(who, page, frame) in &self.locked {
            assert_eq!(self.bed.frame(self.spaces[who], page), Some(frame), "a locked page was taken");
        }
    }
}

fn a_group_ends_under_its_limit(candidate: Candidate<'_>) {
    let name = candidate.name;
    for swap in [DeviceKind::Zram, DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Disk] {
        let mut bed = Testbed::new((candidate.make)(), FRAMES, swap, 256);
        let group = bed.group(CgroupId::ROOT, "limited");
        bed.set(group, Knob::Max, 20);
        let space = bed.space(group, 128);
        for round in 0..3 {
            for page in 0..128 {
                let touch = bed.write(space, (page * 5 + round) % 128);
                assert_ne!(touch, Touch::OutOfMemory, "{} on {swap}", name);
                assert!(bed.memory.cgroups.get(group).usage <= 20, "{} on {swap}", name);
            }
        }
        bed.settle();
        bed.check_lists();
    }
}

fn a_machine_ends_with_its_free_memory(candidate: Candidate<'_>) {
    let name = candidate.name;
    let mut bed = Testbed::new((candidate.make)(), FRAMES, DeviceKind::Nvme, SWAP);
    let space = bed.space(CgroupId::ROOT, 200);
    for page in 0..200 {
        assert_ne!(bed.write(space, page), Touch::OutOfMemory, "{}", name);
    }
    bed.settle();
    bed.check_lists();
    bed.unmap(space, PageRange::new(0, 200));
    assert_eq!((bed.memory.nodes.nr_used(), bed.memory.slots.used()), (0, 0), "{}", name);
}

fn protected_groups_are_spared(candidate: Candidate<'_>) {
    let name = candidate.name;
    let mut bed = Testbed::new((candidate.make)(), FRAMES, DeviceKind::Nvme, SWAP);
    let (kept, taken) = (bed.group(CgroupId::ROOT, "kept"), bed.group(CgroupId::ROOT, "taken"));
    bed.memory.cgroups.charge_batch = 1; // stocks would blur the picture on so small a machine
    bed.set(kept, Knob::Min, 20);
    let (in_kept, in_taken) = (bed.space(kept, 20), bed.space(taken, 200));
    (0..20).for_each(|page| assert_eq!(bed.write(in_kept, page), Touch::Minor));
    for page in 0..200 {
        assert_ne!(bed.write(in_taken, page), Touch::OutOfMemory, "{}", name);
    }
    assert_eq!(bed.memory.cgroups.get(kept).usage, 20, "{}", name);
    bed.check_lists();
}

/// Schemes rely on it: a policy that lets its lists be sorted keeps the pages on them, and its count of active pages agrees with the pages
/// that it calls active.
fn sorting_keeps_pages_on_lists(candidate: Candidate<'_>) {
    let name = candidate.name;
    let mut bed = Testbed::new((candidate.make)(), FRAMES, DeviceKind::Zram, 256);
    let space = bed.space(CgroupId::ROOT, 20);
    (0..20).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor, "{}", name));
    let frames: Vec<FrameId> = (0..20).filter_map(|page| bed.frame(space, page)).collect();
    for hint in [Hint::Prioritise, Hint::Deprioritise, Hint::Prioritise] {
        let is_heeded = bed.policy.heeds(hint);
        for &frame in frames.iter().filter(|_| is_heeded) {
            bed.policy.hint(&mut bed.memory, frame, hint);
            assert!(bed.memory.frames.has(frame, Flag::OnList), "{}: {hint:?}", name);
        }
        bed.check_lists();
        if bed.policy.knows_active() {
            let nr_active = frames.iter().filter(|&&frame| bed.policy.is_active(&bed.memory, frame)).count() as u64;
            let sizes = bed.policy.sizes(bed.memory.lruvec(CgroupId::ROOT, crate::memory::NodeId::default()));
            assert_eq!(sizes.active_anon, nr_active, "{}: {hint:?}", name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::POLICIES;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]
        #[test]
        fn nothing_is_lost_whatever_happens(
            events in prop::collection::vec(event(), 1..150),
            swap in prop::sample::select(DeviceKind::ALL.to_vec()),
        ) {
            for entry in POLICIES {
                nothing_is_lost(Candidate { name: entry.name, make: &|| entry.build() }, &events, swap);
            }
        }
    }

    #[test]
    fn every_policy_keeps_to_the_rules() {
        for entry in POLICIES {
            let candidate = Candidate { name: entry.name, make: &|| entry.build() };
            RULES.iter().for_each(|(_, holds)| holds(candidate));
        }
    }

    /// Loses a page that was reported to it.
    #[test]
    fn a_policy_that_breaks_a_rule_is_told_so() {
        use crate::reclaim::external_policy::{Outside, PageEvents, VictimPicker};
        struct ChoosesNothing;
        impl VictimPicker for ChoosesNothing {
            fn wants_touches(&self) -> bool {
                false
            }
            fn ahead(&self) -> usize {
                8
            }
            fn tell(&mut self, _events: PageEvents) -> Result<(), String> {
                Ok(())
            }
            fn choose(&mut self, _count: usize, _lists: &[u32]) -> Result<Vec<u32>, String> {
                Ok(Vec::new())
            }
        }
        let make = || Box::new(Outside::new("nothing", Box::new(ChoosesNothing))) as Box<dyn ReclaimPolicy>;
        let words = check(Candidate { name: "nothing", make: &make }, 1).unwrap_err();
        assert!(words.starts_with("policy `nothing`: a group ends under its limit: "), "{words}");
    }
}
