//! The moving thread: queued pages go to a node of the top tier, batch by batch (docs/spec/promotion.md#s1-8).

use super::rate::Bucket;
use super::{Promotion, TimeoutReport};
use crate::host::{HostError, MoveOrder, NodeId, PageMove, PromotionHost, TargetId};
use isotherm_units::{Duration, Instant, PAGE_BYTES};

/// Most folios of one call to the host, and most base pages of all of them except the first.
const BATCH: u32 = 512;

/// Tries of a full node in a row before the queued pages are given up: 1 s of pauses.
const REFUSALS_MAX: u32 = 50;

/// State of the thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Mover {
    /// Not before that.
    pub(super) ready_at: Instant,
    /// The bytes that may move; filled from the first call on.
    bucket: Option<Bucket>,
    /// Batches in a row that moved nothing because the node had no room.
    refusals: u32,
}

/// Results of a batch of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The space that the pages belong to.
    pub target: TargetId,
    pub node: NodeId,
    /// Folios in the batch.
    pub asked: u64,
    /// Folios of the batch that were moved; the others stayed where they were.
    pub moved: u64,
}

impl Promotion {
    pub(super) fn poll_migrate(&self) -> Option<Instant> {
        (self.limits.migrate_pause_ms.is_some() && !self.list.is_empty()).then_some(self.mover.ready_at)
    }

    /// The first page was queued: the thread wakes, and pauses before it reads the queue.
    pub(super) fn wake_mover(&mut self, now: Instant) {
        let pause = Duration::from_ms(self.limits.migrate_pause_ms.unwrap_or(0));
        self.mover.ready_at = self.mover.ready_at.max(now + pause);
    }

    pub(super) fn handle_migrate(&mut self, now: Instant, host: &mut dyn PromotionHost) -> TimeoutReport {
        self.move_batch(now, host)
    }

    /// Moves the next batch, or waits for the rate.
    pub(super) fn move_batch(&mut self, now: Instant, host: &mut dyn PromotionHost) -> TimeoutReport {
        self.mover.ready_at = now;
        let mut pages_most = u64::from(BATCH);
        if let Some(rate) = self.config.rate_limit {
            let bucket = self.mover.bucket.get_or_insert_with(|| Bucket::new(rate, now));
            let batch = u64::from(BATCH) * PAGE_BYTES;
            let available = bucket.available(now);
            if available < batch.min(rate.get()) {
                self.mover.ready_at = bucket.ready_at(batch);
                return TimeoutReport::default();
            }
            pages_most = pages_most.min(available / PAGE_BYTES);
        }
        if self.limits.drops_stale {
            pages_most = pages_most.min(self.most_room(host));
        }
        let most = BATCH.min(u32::try_from(pages_most).unwrap_or(BATCH)).max(1);
        let Some(batch) = self.list.take(most, pages_most) else { return TimeoutReport::default() };
        let slot = self.slots.get(&batch.key).expect("a list goes with its space");
        let target = slot.target;
        let asked = u64::try_from(batch.pages.len()).expect("a batch");
        let node = self.node_for(slot.node, asked, host);
        let order = MoveOrder {
            pages: &batch.pages,
            to: node,
            together: self.limits.together,
            keeps_high_watermark: self.limits.keeps_high_watermark,
            only_active: self.limits.only_active,
            leaves_shared: self.limits.skips_unmovable,
            only_promotes: true,
        };
        let mut results = vec![PageMove::NotPresent; batch.pages.len()];
        let mut report = MigrationReport { target, node, asked, moved: 0 };
        match host.migrate(target, &order, &mut results) {
            Ok(spent) => {
                report.moved = self.account(batch.key, &results, now);
                TimeoutReport { spent, scan: None, migration: Some(report) }
            }
            Err(HostError::Gone(_)) => {
                self.counters.dropped_exit += asked;
                self.exit(target);
                TimeoutReport::default()
            }
            Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                self.counters.failed_call += asked;
                self.counters.migrate_failed += asked;
                self.learn(batch.key, 0, asked);
                TimeoutReport { migration: Some(report), ..TimeoutReport::default() }
            }
        }
    }

    /// The node by the last scan of the space, else the knob's; if the mode asks for room, a node that has it.
    fn node_for(&self, chosen: Option<NodeId>, pages: u64, host: &mut dyn PromotionHost) -> NodeId {
        let wished = chosen.unwrap_or(NodeId(self.config.target_node));
        if !self.limits.target.asks_for_room() || !self.host_has.node_memory {
            return wished;
        }
        let good = self.host_has.nodes.iter().filter(|node| node.is_top_tier && node.has_memory);
        let others: Vec<NodeId> = good.map(|node| node.node).collect();
        super::target_node::with_room(wished, &others, pages, |node| host.node_memory(node).ok().flatten())
    }

    /// Pages that some node of the top tier can take above its high watermark, 1 at least: the try that fails there wakes its reclaim.
    fn most_room(&self, host: &mut dyn PromotionHost) -> u64 {
        if !self.host_has.node_memory {
            return u64::from(BATCH);
        }
        let good = self.host_has.nodes.iter().filter(|node| node.is_top_tier && node.has_memory);
        let room = |node: NodeId| {
            // What a host does not report does not limit.
            host.node_memory(node)
                .ok()
                .flatten()
                .map_or(u64::from(BATCH), |memory| memory.free.saturating_sub(memory.high).saturating_sub(1))
        };
        good.map(|node| node.node).map(room).max().unwrap_or(0).max(1)
    }

    /// Counts the result of a batch. Returns the folios that moved.
    fn account(&mut self, key: super::SlotKey, results: &[PageMove], now: Instant) -> u64 {
        let before = (self.counters.migrated, self.counters.migrated_pages);
        results.iter().for_each(|&outcome| self.counters.moved(outcome));
        let moved = self.counters.migrated - before.0;
        if let Some(bucket) = &mut self.mover.bucket {
            bucket.take((self.counters.migrated_pages - before.1) * PAGE_BYTES);
        }
        let is_stale =
            |outcome: &&PageMove| matches!(outcome, PageMove::SameNode | PageMove::TopTier | PageMove::NotPresent);
        // A page that was gone predicts nothing about the next; patch version 3 counts it as failed all the same.
        let stale = if self.limits.drops_stale { results.iter().filter(is_stale).count() } else { 0 };
        let failed = results.len() - stale - usize::try_from(moved).expect("of the batch");
        self.learn(key, moved, u64::try_from(failed).expect("of the batch"));
        let is_refused = results.iter().any(|outcome| matches!(outcome, PageMove::Full | PageMove::BelowWatermark));
        if is_refused && self.limits.drops_stale {
            self.mover.refusals = if moved > 0 { 0 } else { self.mover.refusals + 1 };
            if self.mover.refusals >= REFUSALS_MAX {
                // Nothing makes room there. The next scan finds the pages that are still hot.
                self.counters.dropped_stale += self.list.clear(key);
                self.mover.refusals = 0;
            }
            self.mover.ready_at = now + Duration::from_ms(self.limits.migrate_pause_ms.unwrap_or(0));
        } else if moved > 0 {
            self.mover.refusals = 0;
        }
        moved
    }

    fn learn(&mut self, key: super::SlotKey, moved: u64, failed: u64) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.feedback.count(moved, failed);
        }
    }
}
