//! Page migration: a page, or a huge page, moves from its frame to another one, and users notice only by waiting
//! (docs/spec/compaction.md#s5, `docs/mechanism/compaction.md`). Compaction and memory tiers move pages only through this module.
//!
//! A batch is unmapped page by page, the translations are flushed, and the pages are copied and mapped again one after the other.
//! The state moves at once when a batch begins; its time passes afterwards, and until then its pages are [in flight](Flights): a
//! thread that touches one waits until that page has arrived.
//!
//! Behaviour follows `mm/migrate.c` of Linux 7.2. Not modelled: locks of pages held by others, so that only pinned pages are tried again
//! without success.

mod flight;
mod nodes;
mod prices;
mod relocate;
#[cfg(test)]
mod tests;

pub use flight::{Flight, Flights, Mover};
pub use nodes::NodeMove;

use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Mapper, Mappers, Memory, PageOwner};
use crate::mmu::{DensePage, Level};
use crate::reclaim::ReclaimPolicy;
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Pages that are unmapped under one flush at most (`NR_MAX_BATCHED_MIGRATION`).
pub const BATCH_PAGES: u64 = 512;
/// How often a batch is tried (`NR_MAX_MIGRATE_ASYNC_RETRY`).
const ASYNC_PASSES: u64 = 3;
/// Number of tries for the remaining pages then, page by page (`NR_MAX_MIGRATE_SYNC_RETRY`).
const SYNC_PASSES: u64 = 7;
/// Base pages of a huge page.
pub(crate) const HUGE_PAGES: u32 = 1 << HUGE_ORDER;
const HUGE_ORDER: u32 = Level::PMD.span_shift();

/// How much migration may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrateMode {
    /// For nothing (`MIGRATE_ASYNC`).
    Async,
    /// Waits for locks of pages, not for devices (`MIGRATE_SYNC_LIGHT`).
    #[default]
    SyncLight,
    /// Waits for write-back as well (`MIGRATE_SYNC`).
    Sync,
}

/// When translations are flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// Once for all pages of a batch, as since Linux 6.3.
    #[default]
    PerBatch,
    /// After each page, as before.
    PerPage,
}

/// Why a page stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The page is pinned: tried as often as the kernel does, without success.
    Pinned,
    /// It is being written; [`Migrated::retry_at`] says when it is worth another try in [`MigrateMode::Sync`].
    Writeback,
    /// It is being read.
    Reading,
    /// It is on no list: free, taken by reclaim, or not a page of programs and files.
    Isolated,
    /// It is not the first page of the huge page that it is part of, or it is of a folio of several pages of a file: these stay where they
    /// are.
    PartOfHuge,
    /// The target frame is in use.
    TargetTaken,
    /// The policy is a baseline, which knows pages by their frames.
    Baseline,
}

impl Refusal {
    pub const ALL: [Self; 7] = [
        Self::Pinned,
        Self::Writeback,
        Self::Reading,
        Self::Isolated,
        Self::PartOfHuge,
        Self::TargetTaken,
        Self::Baseline,
    ];
}

/// A page and where it is to go: frames of the same number of base pages. The target was taken from its node and has no owner;
/// for a huge page it is the first of as many frames in a row.
pub type Move = (FrameId, FrameId);

/// The result for pages that were to move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Base pages moved. Their old frames are free.
    pub pages: u64,
    /// Pages among them in huge pages.
    pub huge_pages: u64,
    /// Indices of moves that did not take place, ascending, and why. Their targets are still the caller's.
    pub failed: Vec<(usize, Refusal)>,
    /// When the last page has arrived: the batch's CPU time is over.
    pub until: Instant,
    /// When the first write-back that was in the way ends.
    pub retry_at: Option<Instant>,
}

/// Where the pages are before the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    List,
    /// The caller took them off.
    Caller,
}

/// A page that is ready to go.
struct Going {
    index: usize,
    from: FrameId,
    to: FrameId,
    /// Base pages.
    pages: u32,
    mappers: Mappers,
    is_pinned: bool,
}

impl Memory {
    /// Moves pages. CPU time is charged to [`Memory::ledger`]; accesses to pages in flight wait.
    ///
    /// Each page keeps its contents and all its state: its owner and all its mappers, its group's charge, its flags, accessed and dirty
    /// bits, its slot in swap. It goes to the head of the list it was on, as the kernel puts it back; with generations it stays among the
    /// young or the old ones. Order of `moves` is the order of work.
    ///
    /// Counts `pgmigrate_success` and `pgmigrate_fail` in base pages, `thp_migration_success` and `thp_migration_fail` in
    /// huge ones.
    pub fn migrate_batch(&mut self, policy: &mut dyn ReclaimPolicy, moves: &[Move], mode: MigrateMode) -> Migrated {
        self.migrate(policy, moves, mode, Source::List)
    }

    /// The same for pages that the caller took off their lists, as reclaim does. Moved pages are on lists again, the others are as they
    /// were.
    pub fn migrate_isolated(&mut self, policy: &mut dyn ReclaimPolicy, moves: &[Move], mode: MigrateMode) -> Migrated {
        self.migrate(policy, moves, mode, Source::Caller)
    }

    fn migrate(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        moves: &[Move],
        mode: MigrateMode,
        source: Source,
    ) -> Migrated {
        let mut migrated = Migrated { until: self.now, ..Migrated::default() };
        policy.insert_waiting(self);
        let mut going = Vec::new();
        for (index, &(from, to)) in moves.iter().enumerate() {
            match self.ready(policy, from, to, source) {
                Ok((pages, mappers)) => {
                    self.ledger.spend(if source == Source::List { self.costs.migrate_isolate_ns } else { 0 });
                    // A pin on a part of a huge page pins all of it: the kernel counts references by folio.
                    let is_pinned = (0..pages).any(|at| self.frames.is_pinned(FrameId::new(from.index_u32() + at)));
                    going.push(Going { index, from, to, pages, mappers, is_pinned });
                }
                Err(refusal) => self.refuse(&mut migrated, index, from, refusal, mode),
            }
        }
        for batch in batches(&going) {
            self.move_batch(policy, batch, mode, &mut migrated);
        }
        migrated.failed.sort_unstable();
        migrated.until = self.now + Duration::from_ns(self.ledger.peek());
        migrated
    }

    /// Whether a page can be moved at all: its base pages, and who maps it.
    fn ready(
        &self,
        policy: &dyn ReclaimPolicy,
        from: FrameId,
        to: FrameId,
        source: Source,
    ) -> Result<(u32, Mappers), Refusal> {
        let flags = self.frames.flags(from);
        match () {
            () if policy.is_exact() => return Err(Refusal::Baseline),
            () if flags.has(Flag::OnList) != (source == Source::List) => return Err(Refusal::Isolated),
            () if flags.has(Flag::Reading) => return Err(Refusal::Reading),
            () if flags.has(Flag::Writeback) => return Err(Refusal::Writeback),
            () if self.frames.order(from) > 0 => return Err(Refusal::PartOfHuge),
            () if from == to || self.frames.has(to, Flag::OnList) => return Err(Refusal::TargetTaken),
            () => {}
        }
        match self.huge_page_of(from) {
            Some(first) if first == from => {
                let PageOwner::Anonymous { space, page } = self.frames.owner(from) else { unreachable!("anonymous") };
                Ok((HUGE_PAGES, Mappers::from_iter([Mapper { space, page, executable: false }])))
            }
            Some(_) => Err(Refusal::PartOfHuge),
            None => Ok((1, self.mappers(from))),
        }
    }

    /// The first frame of the huge page that a frame is part of, if one entry maps it with its neighbours.
    pub fn huge_page_of(&self, frame: FrameId) -> Option<FrameId> {
        let PageOwner::Anonymous { space, page } = self.frames.owner(frame) else { return None };
        let owner = self.spaces.get(space.index())?;
        if owner.huge_blocks.is_empty() || owner.table.entry(page) != crate::mmu::Entry::Frame(frame) {
            return None;
        }
        let at = owner.table.page_of(page);
        if !owner.huge_blocks.contains(&(at >> HUGE_ORDER)) {
            return None;
        }
        let within = u32::try_from(at % u64::from(HUGE_PAGES)).expect("below 512");
        Some(FrameId::new(frame.index_u32() - within))
    }

    fn refuse(&mut self, migrated: &mut Migrated, index: usize, from: FrameId, refusal: Refusal, mode: MigrateMode) {
        // Not isolated at all: the kernel does not count it.
        let is_tried = matches!(refusal, Refusal::Pinned | Refusal::Writeback | Refusal::Reading);
        if is_tried {
            self.ledger.spend(self.costs.migrate_isolate_ns + self.costs.migrate_lock_ns);
            self.count_result(from, Counter::PgMigrateFail, 1);
        }
        if refusal == Refusal::Writeback && mode == MigrateMode::Sync {
            let due = self.io.due(from);
            migrated.retry_at = migrated.retry_at.into_iter().chain(due).min();
        }
        migrated.failed.push((index, refusal));
    }

    fn count_result(&mut self, frame: FrameId, counter: Counter, n: u64) {
        let cgroup = self.frames.cgroup(frame);
        self.count(counter, cgroup, n);
    }

    /// One batch: all of it at first, then the remaining pages one by one.
    fn move_batch(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        batch: &[Going],
        mode: MigrateMode,
        migrated: &mut Migrated,
    ) {
        let flush = self.migration.flush;
        match flush {
            Flush::PerBatch => self.move_together(policy, batch, ASYNC_PASSES),
            Flush::PerPage => {
                batch.iter().for_each(|one| self.move_together(policy, std::slice::from_ref(one), ASYNC_PASSES))
            }
        }
        for one in batch.iter().filter(|one| one.is_pinned) {
            if mode != MigrateMode::Async {
                self.move_together(policy, std::slice::from_ref(one), SYNC_PASSES);
            }
            self.count_result(one.from, Counter::PgMigrateFail, u64::from(one.pages));
            if one.pages > 1 {
                self.count_result(one.from, Counter::ThpMigrationFail, 1);
            }
            migrated.failed.push((one.index, Refusal::Pinned));
        }
        for one in batch.iter().filter(|one| !one.is_pinned) {
            let pages = u64::from(one.pages);
            migrated.pages += pages;
            self.count_result(one.to, Counter::PgMigrateSuccess, pages);
            if one.pages > 1 {
                migrated.huge_pages += pages;
                self.count_result(one.to, Counter::ThpMigrationSuccess, 1);
            }
        }
    }

    /// Unmaps, flushes, moves. Pinned pages are tried `passes` times and mapped again where they were.
    fn move_together(&mut self, policy: &mut dyn ReclaimPolicy, batch: &[Going], passes: u64) {
        let prices = self.prices_of(batch);
        let at = self.now + Duration::from_ns(self.ledger.peek());
        let began = self.migration.begin(self.now, at);
        let mut spent_ns = 0;
        let mut unmapped_at = Vec::with_capacity(batch.len());
        for one in batch {
            unmapped_at.push(began + Duration::from_ns(spent_ns));
            spent_ns += prices.lock_ns + one.mappers.len() as u64 * prices.unmap_ns;
        }
        if batch.iter().any(|one| !one.mappers.is_empty()) {
            spent_ns += self.flush_for(batch, &prices);
        }
        for (one, from) in batch.iter().zip(unmapped_at) {
            spent_ns += if one.is_pinned { passes * prices.lock_ns } else { prices.copy_ns(one.pages) };
            spent_ns += one.mappers.len() as u64 * prices.remap_ns;
            if !one.is_pinned {
                self.relocate(policy, one.from, one.to, one.pages, &one.mappers);
            }
            let until = began + Duration::from_ns(spent_ns);
            self.migration.add_isolated(from, until, one.pages);
            let frame = if one.is_pinned { one.from } else { one.to };
            if matches!(self.frames.owner(frame), PageOwner::File { .. }) {
                self.migration.add_of_file(frame, from, until);
            }
            for mapper in &one.mappers {
                let page = self.space(mapper.space).table.page_of(mapper.page);
                let mover = self.migration.mover;
                self.migration.add(mapper.space, Flight { page, pages: one.pages, from, until, mover });
            }
        }
        self.ledger.spend(spent_ns);
    }

    /// A frame for a page to move into, from a zone of `node` that keeps more than `mark` free: no group is charged.
    pub fn take_target(&mut self, node: crate::memory::NodeId, mark: crate::memory::Mark) -> Option<FrameId> {
        let Self { nodes, frames, .. } = self;
        nodes.take(frames, node, mark)
    }

    /// 2^9 frames in a row for a huge page to move into.
    ///
    /// # Errors
    /// The obstacle.
    pub fn take_huge_target(
        &mut self,
        node: crate::memory::NodeId,
        mark: crate::memory::Mark,
    ) -> Result<FrameId, crate::memory::NoBlock> {
        let Self { nodes, frames, .. } = self;
        nodes.take_block(frames, node, HUGE_ORDER, mark)
    }

    /// Gives back a target that was not used: of 2^`order` base pages.
    pub fn give_target(&mut self, target: FrameId, order: u32) {
        let Self { nodes, frames, .. } = self;
        nodes.give_block(frames, target, order);
    }

    /// The page at `page`, for a thread that runs at [`Memory::now`]: `Some` with the time of its arrival if it is in flight.
    #[inline]
    pub(crate) fn arrival_of(&self, space: crate::mmu::SpaceId, page: u64) -> Option<(Instant, Mover)> {
        if self.migration.is_empty() { None } else { self.migration.arrival(space, page, self.now) }
    }

    /// The same for a file page that has a frame, for a thread that finds it in the page cache and has to lock it.
    #[inline]
    pub(crate) fn arrival_at(&self, frame: FrameId) -> Option<(Instant, Mover)> {
        self.migration.arrival_at(frame, self.now)
    }
}

/// Cuts a list where a batch is full.
fn batches(mut going: &[Going]) -> Vec<&[Going]> {
    let mut batches = Vec::new();
    while !going.is_empty() {
        let mut pages = 0;
        let is_over = |one: &Going| {
            pages += u64::from(one.pages);
            pages > BATCH_PAGES
        };
        let len = going.iter().position(is_over).unwrap_or(going.len());
        let (batch, rest) = going.split_at(len);
        batches.push(batch);
        going = rest;
    }
    batches
}

/// Whether an entry shows this frame.
fn shows(memory: &Memory, space: crate::mmu::SpaceId, page: DensePage, frame: FrameId) -> bool {
    memory.space(space).table.frame_of(page) == Some(frame)
}
