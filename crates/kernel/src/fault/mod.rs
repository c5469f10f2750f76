//! The kernel's paths that bring pages in and let them go without reclaim: page faults, `read()` and `write()`, layout
//! changes, fork, exit, write-back (docs/spec/classic-lru.md#s3, #s9; `docs/mechanism/machine.md#faults`).
//!
//! Nothing here sleeps. A path that must wait or reclaim returns that in its [`FaultOutcome`] and is called again with the same arguments
//! afterwards; [`FaultState`] remembers the counts and finished work.

mod advise;
mod allocate;
mod anonymous;
mod at_once;
mod cached;
mod collapse;
mod complete;
mod descriptor;
mod file;
mod folios;
mod fork;
mod huge;
mod layout;
mod missing;
pub mod orders;
mod release;
mod shared_memory;
mod space;
mod swap_in;
mod window;
mod writeback;

#[cfg(test)]
mod folios_random;
#[cfg(test)]
mod random;

pub use advise::advise;
pub use allocate::{MemoryPolicy, Shortage, allocate};
pub use at_once::{AtOnce, Playing};
pub use cached::cache_file;
pub use collapse::collapse;
pub use complete::complete_io;
pub use descriptor::descriptor;
#[cfg(any(test, feature = "testkit"))]
pub(crate) use folios::put_folio;
pub use fork::fork;
pub use huge::set_huge;
pub use layout::{change_layout, exit, map, unmap};
pub use missing::fault_again;
pub use space::{new_space, try_new_space};
#[cfg(any(test, feature = "testkit"))]
pub(crate) use window::put_file_page;
pub use writeback::{Flusher, flush_old};

use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{FileId, Flag, FrameId, Memory, NodeId};
use crate::migrate::Mover;
use crate::mmu::{DensePage, Entry, Need, SpaceId, Vma};
use crate::reclaim::ReclaimPolicy;
use descriptor::Call;
use isotherm_units::Instant;
use isotherm_units::access::{Backing, FileKind, Sharing};
use missing::{Contents, Missing};
use window::Window;

/// How far a fault or a system call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Over: the access will succeed.
    Done,
    /// The thread waits for a device; call again at `until`, after [`complete_io`].
    Wait {
        /// When the transfer ends.
        until: Instant,
        /// Whether the wait counts as a memory stall: the page was in the working set (docs/spec/pressure.md#s1).
        memstall: bool,
    },
    /// The page is on its way to another frame; call again at `until`.
    Migrating {
        /// When it arrives.
        until: Instant,
    },
    /// A huge page is to be made: step it ([`FaultState::step_huge`]) until it is over, then call again.
    Huge,
    /// No memory: reclaim, then call again.
    Short(Shortage),
    /// No memory is mapped there, or it lies behind the end of its file: the process dies.
    Bad {
        /// Virtual page.
        page: u64,
    },
}

/// The state of a thread between the calls of one fault or system call.
#[derive(Clone, Debug, Default)]
pub struct FaultState {
    /// Memory of this node is preferred: where the thread runs, unless its program's policy names another.
    pub node: NodeId,
    policy: MemoryPolicy,
    current: Option<Current>,
    /// Pages still to be read ahead.
    window: Option<Window>,
    /// The last shortage concerned a page that is only read ahead.
    optional: bool,
    /// Pages of the folio that the last shortage was for; 0 and 1: a page.
    pages_short: u64,
    call: Option<Call>,
    /// A huge page that is being made, or was.
    huge: Option<huge::Making>,
    /// The page for which the last call found no memory.
    missing: Option<Missing>,
}

/// The access being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    space: SpaceId,
    page: u64,
    need: Need,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    access: Access,
    /// Counted as a major fault.
    major: bool,
    /// The CPU time of the fault has been charged.
    paid: bool,
    /// The page was looked up in its cache before: readahead state does not move again.
    tried: bool,
    /// A readahead window was planned: a second read of the page has no window.
    planned: bool,
}

impl FaultState {
    /// A thread that prefers memory of `node` wherever it runs.
    pub fn on(node: NodeId) -> Self {
        Self { node, policy: MemoryPolicy::Preferred, ..Self::default() }
    }
    /// A thread that only takes memory of `node`.
    pub fn bound_to(node: NodeId) -> Self {
        Self { node, policy: MemoryPolicy::Bound, ..Self::default() }
    }
    /// The thread runs on a processor of `node` from now on.
    #[inline]
    pub fn runs_on(&mut self, node: NodeId) {
        if self.policy == MemoryPolicy::Local {
            self.node = node;
        }
    }

    /// The thread went on without calling [`fault`] again, because the access it waited for succeeded in between (another thread was
    /// faster): its next fault is a new one.
    #[inline]
    pub fn moved_on(&mut self) {
        if self.call.is_none() {
            self.current = None;
        }
    }

    /// Pages that the last [`FaultOutcome::Short`] was for, 1 to 512: more than one if a folio was to be charged in one go.
    #[inline]
    pub fn take_shortage_pages(&mut self) -> u64 {
        std::mem::take(&mut self.pages_short).max(1)
    }

    /// Whether the last [`FaultOutcome::Short`] was for a page that is only read ahead. If reclaim fails then, the right
    /// answer is to call again (the window is given up), not to kill.
    #[inline]
    pub fn shortage_is_optional(&self) -> bool {
        self.optional
    }
}

/// How a step of a fault ends: `Err` holds what the thread must do before the access is tried again.
type Step<T = ()> = Result<T, FaultOutcome>;

/// Handles a page fault at `page` of `space`. After [`FaultOutcome::Done`] the entry is present, and writable for
/// [`Need::Write`].
///
/// Counts `pgfault` once and `pgmajfault` at most once per fault, however often it is called again (docs/spec/pressure.md#s5).
pub fn fault(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    page: u64,
    need: Need,
    state: &mut FaultState,
) -> FaultOutcome {
    if let Some((until, mover)) = memory.arrival_of(space, page) {
        return wait_for_arrival(memory, space, until, mover);
    }
    state.missing = None;
    let mut faulting = match Faulting::begin(memory, policy, space, page, need, state) {
        Ok(faulting) => faulting,
        Err(outcome) => return outcome,
    };
    faulting.memory.recent_fault = faulting.vma.has_recency();
    let resolved = faulting.resolve();
    faulting.memory.recent_fault = false;
    match resolved {
        Ok(()) => {
            debug_assert!(faulting.is_resolved(), "page {page:#x} {need:?}");
            faulting.state.current = None;
            FaultOutcome::Done
        }
        Err(outcome) => outcome,
    }
}

/// The access met the entry of a page that is being moved: it sleeps until the page is unlocked, and is tried again. Source:
/// `migration_entry_wait`.
#[cold]
fn wait_for_arrival(memory: &mut Memory, space: SpaceId, until: Instant, mover: Mover) -> FaultOutcome {
    let cgroup = memory.space(space).cgroup;
    memory.count(Counter::PgFault, cgroup, 1);
    memory.ledger.spend(memory.costs.migrate_fault_ns);
    memory.migration.note_stall(until.since(memory.now), mover);
    FaultOutcome::Migrating { until }
}

impl Faulting<'_> {
    /// A page of a file that is written to, or mapped, is locked before; one on its way to another frame is locked by its
    /// mover. Source: `__filemap_get_folio` with `FGP_LOCK`, `filemap_fault`.
    fn wait_for_lock(&mut self, frame: FrameId) -> Step {
        let Some((until, mover)) = self.memory.arrival_at(frame) else { return Ok(()) };
        self.memory.migration.note_stall(until.since(self.memory.now), mover);
        Err(FaultOutcome::Migrating { until })
    }
}

/// Everything that one call of a fault works on.
struct Faulting<'a> {
    memory: &'a mut Memory,
    policy: &'a mut dyn ReclaimPolicy,
    state: &'a mut FaultState,
    space: SpaceId,
    /// Virtual page.
    page: u64,
    dense: DensePage,
    vma: Vma,
    need: Need,
}

impl<'a> Faulting<'a> {
    /// Finds the mapping; counts the fault if this is its first call.
    fn begin(
        memory: &'a mut Memory,
        policy: &'a mut dyn ReclaimPolicy,
        space: SpaceId,
        page: u64,
        need: Need,
        state: &'a mut FaultState,
    ) -> Result<Self, FaultOutcome> {
        let access = Access { space, page, need };
        if state.current.is_none_or(|current| current.access != access) {
            state.current = Some(Current { access, major: false, paid: false, tried: false, planned: false });
            state.window = None;
            state.optional = false;
            let cgroup = memory.space(space).cgroup;
            memory.count(Counter::PgFault, cgroup, 1);
        }
        let found = memory.space_mut(space);
        let vma = found.vmas.find_next(page).copied();
        match (vma, vma.and_then(|_| found.reach(page))) {
            (Some(vma), Some(dense)) => Ok(Self { memory, policy, state, space, page, dense, vma, need }),
            _ => {
                state.current = None;
                Err(FaultOutcome::Bad { page })
            }
        }
    }

    fn resolve(&mut self) -> Step {
        if self.state.window.is_some() {
            self.continue_window()?;
        }
        if self.is_resolved() {
            // Another thread was faster, or only the accessed bit is missing and the processor does not set it.
            let need = self.need;
            let table = &mut self.memory.space_mut(self.space).table;
            let was_young = table.is_young(self.dense);
            table.mark_touched(self.dense, need);
            if !self.memory.mmu.leaf_accessed && !was_young {
                self.memory.reclaim.work.accessed_faults += 1;
                self.pay_once(self.memory.costs.minor_fault_file_ns);
            }
            return Ok(());
        }
        let entry = self.memory.space(self.space).table.entry(self.dense);
        match (entry, self.vma.mapping.backing) {
            (Entry::Swap(slot), _) => self.swap_in(slot),
            (Entry::Zero | Entry::Frame(_), _) => self.write_protected(entry),
            (Entry::None, Backing::Anonymous) => self.anonymous(),
            (Entry::None, Backing::File { file, first_page, sharing }) => {
                let file = FileId::from_index(file);
                let page = first_page + (self.page - self.vma.pages().start);
                if page >= self.memory.files.get(file).len() {
                    self.state.current = None;
                    return Err(FaultOutcome::Bad { page: self.page });
                }
                match self.memory.files.get(file).kind {
                    FileKind::Regular => self.file(file, page, sharing),
                    FileKind::SharedMemory => self.shared_memory(file, page, sharing),
                }
            }
        }
    }

    fn is_resolved(&self) -> bool {
        let table = &self.memory.space(self.space).table;
        table.is_present(self.dense) && (self.need == Need::Read || table.is_writable(self.dense))
    }

    /// The group of the faulting process.
    fn cgroup(&self) -> CgroupId {
        self.memory.space(self.space).cgroup
    }

    fn current(&mut self) -> &mut Current {
        self.state.current.as_mut().expect("set by begin")
    }

    /// Makes the fault a major one.
    fn count_major(&mut self) {
        if !std::mem::replace(&mut self.current().major, true) {
            let cgroup = self.cgroup();
            self.memory.count(Counter::PgMajFault, cgroup, 1);
        }
    }

    /// Charges the CPU time of this fault, unless it was charged in an earlier call.
    fn pay_once(&mut self, ns: u64) {
        if !std::mem::replace(&mut self.current().paid, true) {
            self.memory.ledger.spend(ns);
        }
    }

    /// A frame for a page of the faulting process's group.
    fn allocate(&mut self) -> Step<FrameId> {
        let cgroup = self.cgroup();
        self.allocate_for(cgroup)
    }

    fn allocate_for(&mut self, cgroup: CgroupId) -> Step<FrameId> {
        self.state.optional = false;
        allocate(self.memory, cgroup, self.state.node, self.state.policy).map_err(FaultOutcome::Short)
    }

    /// The wait for a page in flight.
    fn wait_for(&self, frame: FrameId) -> FaultOutcome {
        let until = self.memory.io.due(frame).expect("in flight");
        FaultOutcome::Wait { until, memstall: self.memory.frames.has(frame, Flag::Workingset) }
    }

    /// Maps `frame` where nothing, the zero page or another frame was mapped.
    fn map_here(&mut self, frame: FrameId, writable: bool) {
        let dirty = writable && self.need == Need::Write;
        let space = self.memory.space_mut(self.space);
        if !matches!(space.table.entry(self.dense), Entry::Frame(_)) {
            space.nr_resident += 1;
        }
        space.table.set_present(self.dense, Entry::Frame(frame), writable, true, dirty);
    }

    /// Makes an anonymous page resident where none is mapped, writable.
    #[inline]
    fn supply(&mut self, cgroup: CgroupId, contents: Contents) -> Step {
        let has_recency = self.memory.recent_fault;
        let missing = Missing { space: self.space, page: self.dense, need: self.need, has_recency, cgroup, contents };
        missing::supply(self.memory, self.policy, self.state, missing)
    }

    fn sharing(&self) -> Sharing {
        match self.vma.mapping.backing {
            Backing::Anonymous => Sharing::Private,
            Backing::File { sharing, .. } => sharing,
        }
    }
}
