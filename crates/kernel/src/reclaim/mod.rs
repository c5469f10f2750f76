//! Page replacement: the trait that every policy implements, and the table of policies.
//!
//! The machine decides *when* to reclaim (kswapd, direct reclaim, limits: [`driver`]); a policy decides *which* page, and
//! [`outcome`] handles a chosen page under any policy: unmap, swap out, write back, free.

mod added;
#[cfg(test)]
mod baseline_tests;
pub mod classic;
mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod demotion;
pub mod driver;
pub mod external_policy;
mod fifo;
mod lru;
pub mod mglru;
mod opt;
mod order_log;
pub mod outcome;
pub mod refault;
mod reference_bit;
pub mod scan_balance;
mod swap_out;
mod work;

pub use added::AddedPolicies;
pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;
pub use mglru::{Mglru, MglruConfig};
pub use opt::Opt;
pub use scan_balance::SWAP_CLUSTER_MAX;
pub use work::Work;

use crate::cgroup::CgroupId;
use crate::cgroup::protection::Effective;
use crate::fault::{AtOnce, Playing};
use crate::lean::Kind;
use crate::memory::{FileId, FrameId, Memory, NodeId};
use crate::mmu::{SpaceId, Stop};
use isotherm_units::access::{Future, Run};

/// Index of an lruvec: the pages of one group on one node. `cgroup * nodes + node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LruvecId(pub(crate) u32);

impl LruvecId {
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a page became resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// New anonymous memory, zeroed or copied.
    Anonymous,
    /// Read back from swap.
    SwapIn,
    /// Read from a file for an access that was waiting for it, or read ahead.
    FileRead,
    /// Made in the page cache by `write()`: its shadow, if any, is ignored.
    FileWrite,
}

/// The hint of a scheme or `madvise` about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Expected to be used: `LRU_PRIO`.
    Prioritise,
    /// Not expected to be used: `LRU_DEPRIO`.
    Deprioritise,
    /// `MADV_COLD`.
    Cold,
    /// `MADV_FREE`: contents may go without being written.
    LazyFree,
    /// `POSIX_FADV_DONTNEED` on a file page that stays: not expected to be used.
    DeactivateFile,
    /// A fault through an executable or file mapping just unmapped a young entry: counts as one use.
    UnmappedYoung,
}

/// The task for which pages are reclaimed: decides counters and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimer {
    /// The node's daemon.
    Kswapd,
    /// A task that could not allocate.
    Direct,
    /// A task whose group is at a limit.
    Limit,
    /// `memory.reclaim` or a scheme: on request, and no task waits.
    Proactive,
}

/// One reclaim attempt: its goal, and its result so far. Lives through all priorities of the attempt.
#[derive(Clone, Debug)]
pub struct Scan {
    /// On whose behalf.
    pub reclaimer: Reclaimer,
    /// Reclaim from this group and its descendants; the root means global reclaim.
    pub root: CgroupId,
    /// Pages wanted.
    pub nr_to_reclaim: u64,
    /// 12 (gentle: list >> 12) to 0 (everything).
    pub priority: u32,
    /// Whether anonymous pages may be swapped out.
    pub may_swap: bool,
    /// 0..=200, or 201 for anonymous only.
    pub swappiness: u32,
    /// Pages examined so far, in the current priority (the driver resets it).
    pub nr_scanned: u64,
    /// Pages freed so far.
    pub nr_reclaimed: u64,
    /// Kinds of the pages taken off the lists in this walk over a node (the driver resets it).
    pub taken: Taken,
    /// The queue of the swap device is full: the policy stopped early, and the driver waits before it goes on.
    pub blocked: bool,
    /// An active list should have been deactivated, but must not be.
    pub skipped_deactivate: bool,
    /// Deactivate regardless of the balance.
    pub force_deactivate: bool,
    /// A group was skipped because it is below its `low`.
    pub low_skipped: bool,
    /// Ignore `memory.low`.
    pub low_reclaim: bool,
    /// Cache-trim mode was used without success, so it is off for this attempt.
    pub cache_trim_disabled: bool,
    /// Cache-trim mode was used in the current walk over a node.
    pub cache_trim_used: bool,
    /// Protection of the group whose lruvec is being shrunk (the driver sets it).
    pub effective: Effective,
}

/// Kinds of the pages taken off their lists: decide throttling (docs/spec/classic-lru.md#s7-1) and whether the flusher is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// All pages taken.
    pub pages: u64,
    /// File pages among them.
    pub file: u64,
    /// File pages that were dirty or under write-back.
    pub dirty: u64,
    /// File pages that were dirty and not queued for writing.
    pub dirty_unqueued: u64,
    /// Pages under write-back.
    pub writeback: u64,
    /// File pages under write-back that reclaim had met before: reclaim goes round faster than the disk writes.
    pub congested: u64,
    /// Pages under write-back that kswapd met a second time while nothing but such pages came.
    pub immediate: u64,
    /// Pages handed to the swap device.
    pub written: u64,
    /// Page-table entries removed.
    pub unmapped: u64,
}

impl Taken {
    /// Adds the counts of another batch.
    pub const fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.file += other.file;
        self.dirty += other.dirty;
        self.dirty_unqueued += other.dirty_unqueued;
        self.writeback += other.writeback;
        self.congested += other.congested;
        self.immediate += other.immediate;
        self.written += other.written;
        self.unmapped += other.unmapped;
    }
}

impl Scan {
    /// A scan at the gentlest priority for `nr_to_reclaim` pages of `root` and below, swapping allowed.
    pub fn new(reclaimer: Reclaimer, root: CgroupId, nr_to_reclaim: u64, swappiness: u32) -> Self {
        debug_assert!(
            swappiness <= scan_balance::SWAPPINESS_ANON_ONLY,
            "swappiness is 0 to 200, or 201 for anonymous pages only"
        );
        Self {
            reclaimer,
            root,
            nr_to_reclaim,
            priority: DEF_PRIORITY,
            may_swap: true,
            swappiness,
            nr_scanned: 0,
            nr_reclaimed: 0,
            taken: Taken::default(),
            blocked: false,
            skipped_deactivate: false,
            force_deactivate: false,
            low_skipped: false,
            low_reclaim: false,
            cache_trim_disabled: false,
            cache_trim_used: false,
            effective: Effective::default(),
        }
    }

    /// Whether the whole machine is short of memory, rather than a group at its limit.
    pub fn is_global(&self) -> bool {
        self.root == CgroupId::ROOT
    }
}

/// First priority of an attempt: a 4096th of each list.
pub const DEF_PRIORITY: u32 = 12;

/// Pages on the lists of one lruvec, as `memory.stat` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ListSizes {
    /// Cold anonymous pages.
    pub inactive_anon: u64,
    /// Hot anonymous pages.
    pub active_anon: u64,
    /// Cold file pages.
    pub inactive_file: u64,
    /// Hot file pages.
    pub active_file: u64,
    /// Pages that reclaim skips.
    pub unevictable: u64,
}

impl ListSizes {
    /// Anonymous pages that may be reclaimed.
    pub const fn anon(&self) -> u64 {
        self.inactive_anon + self.active_anon
    }
    /// File pages that may be reclaimed.
    pub const fn file(&self) -> u64 {
        self.inactive_file + self.active_file
    }
    /// All pages.
    pub const fn all(&self) -> u64 {
        self.anon() + self.file() + self.unevictable
    }
}

/// Page-table accesses that are reported to a policy. The kernel's policies get none and read accessed bits instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    None,
    /// The first run that goes on after a fault, beginning with the page that faulted.
    AfterFault,
    All,
}

/// A page-replacement policy of the simulated kernel.
///
/// A page on the policy's lists has [`Flag::OnList`](crate::memory::Flag::OnList). The machine calls from fault paths, system calls and
/// reclaim; CPU time is charged to [`Memory::ledger`]. Results may depend only on arguments and own state.
pub trait ReclaimPolicy: Send {
    /// Adds a new group; called once per group and node, before any page of it.
    fn add_lruvec(&mut self, lruvec: LruvecId);

    /// `frame` became resident. `shadow` was left by the page's last eviction. The policy puts it on a list, sets its flags and
    /// counts refaults.
    fn added(&mut self, memory: &mut Memory, frame: FrameId, arrival: Arrival, shadow: Option<u64>);

    /// The same for pages of one lruvec that came together, in this order.
    fn added_all(&mut self, memory: &mut Memory, pages: &[(FrameId, Option<u64>)], arrival: Arrival) {
        for &(frame, shadow) in pages {
            self.added(memory, frame, arrival, shadow);
        }
    }

    /// Handles faults that nothing holds up, of a thread that plays on after each ([`AtOnce`]). Never overridden: it is a part of the
    /// policy so that the compiler makes one for each, which calls the policy without a table of its methods.
    fn play_over_faults(
        &mut self,
        memory: &mut Memory,
        faults: &mut AtOnce,
        playing: Playing<'_>,
        stop: &mut Stop,
    ) -> Option<u64> {
        faults.play(memory, self, playing, stop)
    }

    /// `frame` is about to be freed by exit, unmap or truncation: forget it. Not called for pages the policy itself freed.
    fn removed(&mut self, memory: &mut Memory, frame: FrameId);

    /// A page that was [taken off](Self::removed) its list in frame `from` is in frame `to` now, perhaps of another node, with
    /// its flags. It goes to the head of its list, as the kernel puts back isolated pages.
    fn put_back(&mut self, memory: &mut Memory, _from: FrameId, to: FrameId) {
        self.added(memory, to, Arrival::Anonymous, None);
    }
    /// The page was used through a file descriptor.
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId);

    /// A page of the policy gets a hint. Returns whether anything changed.
    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool;

    /// Whether the policy acts on `hint` at all. Schemes whose action needs an unsupported hint are refused before they run, so return
    /// `false` rather than ignore the hint later. A policy that returns `true` for [`Hint::Prioritise`] or [`Hint::Deprioritise`] carries
    /// it out at once, on pages on lists only, and leaves the page on a list.
    fn heeds(&self, _hint: Hint) -> bool {
        false
    }

    /// Whether the policy takes folios of several pages: it gets their heads, frees them whole and counts their pages
    /// (docs/spec/large-folios.md#f3). A machine that has such folios refuses the others.
    fn knows_folios(&self) -> bool {
        false
    }

    /// Whether [`sizes`](Self::sizes) and [`is_active`](Self::is_active) distinguish active pages from inactive ones. With generations the
    /// two youngest count as active.
    fn knows_active(&self) -> bool {
        false
    }

    /// Whether a page on a list is an active one. Only called on policies that [know](Self::knows_active).
    fn is_active(&self, _memory: &Memory, _frame: FrameId) -> bool {
        false
    }

    /// A walk over the groups of `node` below `scan.root` begins: the time for decisions that depend on the balance of the whole subtree.
    fn begin_walk(&mut self, _memory: &mut Memory, _node: NodeId, _scan: &mut Scan) {}

    /// Puts pages on their lists that wait for it, as the kernel does after reading ahead and before it gives up a slot.
    fn insert_waiting(&mut self, _memory: &mut Memory) {}

    /// Reclaims from `node` and visits the groups in an order of its own. `false`: nothing was done, and the driver visits
    /// them in the order of the tree.
    fn shrink_node(&mut self, _memory: &mut Memory, _node: NodeId, _scan: &mut Scan) -> bool {
        false
    }

    /// Reclaims from one lruvec at `scan.priority`, as the driver visits it. Exact policies free one page.
    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan);

    /// Frees one page, the best choice among all pages of `lruvecs`. Only for [exact](Self::is_exact) policies, which get
    /// this call in place of [`shrink_lruvec`](Self::shrink_lruvec).
    fn shrink_exactly(&mut self, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
        for &lruvec in lruvecs {
            self.shrink_lruvec(memory, lruvec, scan);
        }
    }

    /// Housekeeping of kswapd before each priority step.
    fn age_node(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan);

    /// All priorities of an attempt from `scan.root` are done (on `node` only for kswapd, else on all nodes).
    fn reclaim_ended(&mut self, memory: &mut Memory, node: Option<NodeId>, scan: &Scan);

    /// Write-back of `frame` ended while it was marked [`Flag::Reclaim`](crate::memory::Flag::Reclaim).
    fn writeback_ended(&mut self, memory: &mut Memory, frame: FrameId);

    /// The shadow of `frame`, which is being evicted by a reclaim from `root`; below 2^63 - 2. `None`: none.
    fn shadow_of(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Option<u64>;

    fn sizes(&self, lruvec: LruvecId) -> ListSizes;

    /// The kernel adds up the counts that its processors hold for groups: every 2 s, and when `memory.stat` is read. Nothing to do if
    /// counters are always up to date.
    fn flush_statistics(&mut self) {}

    /// Pages on the lists, as given to the kernel's caches that shrink with them.
    fn pages_for_shrinkers(&self, lruvec: LruvecId) -> u64 {
        self.sizes(lruvec).all()
    }

    /// Checks list lengths, flags and owners; the text names the fault. Meant for tests and `strict` runs.
    ///
    /// # Errors
    /// The first violation.
    fn check(&self, memory: &Memory) -> Result<(), String>;

    /// The policy as one of generations, for its own files under `/sys` and debugfs.
    fn as_mglru(&mut self) -> Option<&mut mglru::Mglru> {
        None
    }

    /// Accesses that must be reported to [`touched`](Self::touched).
    fn wanted_touches(&self) -> Touches {
        Touches::None
    }

    /// Page-table accesses that were done, in order, each exactly once: hits, and accesses that faulted after their fault is over and
    /// [`added`](Self::added) was called for the page. Delivered before the kernel handles the next fault, so that a victim is chosen with
    /// all earlier accesses known. Only touches that [`wanted_touches`](Self::wanted_touches) asks for.
    fn touched(&mut self, _memory: &mut Memory, _space: SpaceId, _runs: &[Run]) {}

    /// `child` was forked from `parent`, whose pages may be shared from now on. Only called if [`wanted_touches`](Self::wanted_touches)
    /// asks for any touches.
    fn forked(&mut self, _memory: &mut Memory, _parent: SpaceId, _child: SpaceId) {}

    /// Whether the policy is a page-exact baseline. The machine then charges page by page, reclaims one page for each page
    /// needed and runs no kswapd; a victim's frame is free at once, and its write, if it needs one, goes on without it.
    /// Readahead is the machine's and stays as configured.
    fn is_exact(&self) -> bool {
        false
    }

    /// A second policy in the same state, for a second machine; `None`: there can be one only.
    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        None
    }

    /// The policy as the [lean engine](crate::lean) knows it, if that decides as this policy does.
    fn lean(&self) -> Option<Kind> {
        None
    }

    /// Why the policy cannot go on; the run ends with that. Only policies from [outside] can fail.
    fn failure(&self) -> Option<PolicyError> {
        None
    }

    /// Whether the policy cannot work without [`set_future`](Self::set_future).
    fn needs_future(&self) -> bool {
        false
    }

    /// The future of program `program` (as in [`AddressSpace::process`](crate::mmu::AddressSpace::process)), before it
    /// starts. `files` are the machine's numbers of the program's files.
    ///
    /// # Errors
    /// When the policy cannot use it together with futures it has already.
    fn set_future(&mut self, _program: usize, _future: Future, _files: &[FileId]) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// A policy as users see it.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Whether a Linux system can be set up to work this way; the others are baselines, shown but never recommended.
    pub runs_on_linux: bool,
    /// Makes one for a machine.
    make: fn(&PolicySettings) -> Box<dyn ReclaimPolicy>,
}

impl PolicyEntry {
    /// The policy as Linux sets it up, for a machine.
    pub fn build(&self) -> Box<dyn ReclaimPolicy> {
        self.build_with(&PolicySettings::default())
    }

    /// The policy with these settings. Each policy reads its own.
    pub fn build_with(&self, settings: &PolicySettings) -> Box<dyn ReclaimPolicy> {
        (self.make)(settings)
    }
}

/// Settings of the policies that have any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// Settings of `mglru`.
    pub mglru: MglruConfig,
}

/// Every policy. To add a policy: a file in this folder, with its entry, and a line here; command line, scenarios, `advise` and the
/// conformance suite read this table.
pub const POLICIES: &[PolicyEntry] = &[classic::ENTRY, mglru::ENTRY, lru::ENTRY, fifo::ENTRY, clock::ENTRY, opt::ENTRY];

/// The policies of [`POLICIES`] that no Linux system can be set up for, in their order.
pub fn baselines() -> impl Iterator<Item = &'static PolicyEntry> {
    POLICIES.iter().filter(|entry| !entry.runs_on_linux)
}

/// The policy called `name`.
///
/// # Errors
/// When there is none: the error lists the names there are and the nearest one.
pub fn policy_by_name(name: &str) -> Result<&'static PolicyEntry, PolicyError> {
    POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let nearest =
            POLICIES.iter().map(|entry| (strsim::levenshtein(entry.name, &name.to_lowercase()), entry.name)).min();
        let suggestion = nearest.filter(|&(distance, nearest)| distance <= nearest.len() / 2).map(|(_, name)| name);
        PolicyError::Unknown { name: name.to_owned(), suggestion, added: Vec::new() }
    })
}

/// A policy that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    #[error("unknown policy `{name}`; allowed: {}{}", policy_names(added), did_you_mean(*suggestion))]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest name, if one is near.
        suggestion: Option<&'static str>,
        /// Names of policies that are in no table.
        added: Vec<String>,
    },
    /// A policy with this name cannot be added.
    #[error(
        "a policy cannot be called `{name}`: there is one of this name, or the name means something else; choose another"
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// A policy from outside cannot go on.
    #[error("policy `{name}`: {why}")]
    Outside {
        name: String,
        /// The reason, as text.
        why: String,
    },
    /// Two programs with a future each run side by side.
    #[error(
        "policy `opt` can follow the future of one program only, but programs {first} and {second} both run: positions in \
         two futures cannot be compared; run them one at a time, or choose another policy"
    )]
    SeveralFutures {
        /// Index of the program whose future it has.
        first: usize,
        /// Index of the other.
        second: usize,
    },
}

fn policy_names(added: &[String]) -> String {
    POLICIES.iter().map(|entry| entry.name).chain(added.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_is_answered_with_the_names_there_are() {
        assert_eq!(policy_by_name("clock").map(|entry| entry.name), Ok("clock"));
        let message = |name| policy_by_name(name).map(|entry| entry.name).unwrap_err().to_string();
        let allowed = "allowed: classic, mglru, lru, fifo, clock, opt";
        assert_eq!(message("clasic"), format!("unknown policy `clasic`; {allowed}; did you mean `classic`?"));
        assert_eq!(message("lock"), format!("unknown policy `lock`; {allowed}; did you mean `clock`?"));
        assert_eq!(message("LRU"), format!("unknown policy `LRU`; {allowed}; did you mean `lru`?"));
        assert_eq!(message("arc-with-ghosts"), format!("unknown policy `arc-with-ghosts`; {allowed}"));
        assert_eq!(message(""), format!("unknown policy ``; {allowed}"));
    }
}
