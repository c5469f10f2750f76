//! The operations of one thread of a key-value store.

use std::sync::Arc;

use isotherm_units::Instant;
use isotherm_units::access::{After, Batch, Channel, Run, Stream, StreamError};

use super::distribution::{Sampler, gaussian_item, hotspot_rank};
use crate::chance::{Dice, Rng, below, dice};
use crate::extent::{Budget, Extent};

/// What all threads share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) items: u64,
    pub(super) packing: Packing,
    pub(super) data_pages: u64,
    /// Pages of each level of the index, root first.
    pub(super) index_levels: Vec<u64>,
    pub(super) index_fanout: u64,
    pub(super) sampler: Sampler,
    /// A random word below it inserts.
    pub(super) insert_below: u64,
    /// A random word below it inserts or writes.
    pub(super) modify_below: u64,
    pub(super) compute_ns: u32,
    pub(super) channel: Channel,
    pub(super) load: bool,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn index_pages(&self) -> u64 {
        self.index_levels.iter().sum()
    }
}

/// How items lie in pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packing {
    /// Several in a page: the high half of `item * reciprocal` is the page.
    Several { reciprocal: u64 },
    /// So many pages each.
    Pages(u32),
}

impl Packing {
    /// `per_page`: 1 to 256. Exact for items below 2^48: the reciprocal is too large by less than `per_page / 2^64`.
    pub(super) fn several_per_page(per_page: u64) -> Self {
        match per_page {
            1 => Self::Pages(1),
            _ => Self::Several { reciprocal: u64::MAX / per_page + 1 },
        }
    }
    #[inline]
    fn first_page(self, item: u64) -> u64 {
        match self {
            Self::Several { reciprocal } => below(item, reciprocal).0,
            Self::Pages(pages) => item * u64::from(pages),
        }
    }
    fn pages(self) -> u32 {
        match self {
            Self::Several { .. } => 1,
            Self::Pages(pages) => pages,
        }
    }
}

pub(super) struct KeyValue {
    plan: Arc<Plan>,
    data_start: u64,
    index_start: Option<u64>,
    dice: Dice,
    budget: Budget,
    batch_operations: u64,
    /// What is left to load, as page numbers.
    load: Vec<std::ops::Range<u64>>,
    /// The item of the next sequential access.
    sequential_next: u64,
    /// The item of this thread's next insert.
    insert_next: u64,
    threads: u64,
}

impl KeyValue {
    pub(super) fn new(
        plan: Arc<Plan>,
        data_start: u64,
        index_start: Option<u64>,
        thread: usize,
        threads: usize,
        extent: Extent,
    ) -> Self {
        let (index, threads) = (thread as u64, threads as u64);
        let share = |start: u64, pages: u64| {
            let cut = |index: u64| {
                let cut = u128::from(pages) * u128::from(index) / u128::from(threads);
                start + u64::try_from(cut).expect("a part of a u64")
            };
            cut(index)..cut(index + 1)
        };
        let mut load = Vec::new();
        if plan.load {
            // Taken from the end.
            load.extend(index_start.map(|start| share(start, plan.index_pages())));
            load.push(share(data_start, plan.data_pages));
        }
        let operation_ns = u64::from(plan.compute_ns) + 100 * (1 + plan.index_levels.len() as u64);
        Self {
            dice: dice(plan.seed, thread),
            budget: extent.share(index, threads),
            batch_operations: extent.batch_operations(operation_ns),
            load,
            sequential_next: share(0, plan.items).start,
            insert_next: index % plan.items,
            threads,
            plan,
            data_start,
            index_start,
        }
    }

    /// Appends writes of pages not loaded yet. Whether there were any.
    fn load(&mut self, batch: &mut Batch) -> bool {
        while batch.runs.len() < LOAD_RUNS {
            let Some(range) = self.load.last_mut() else { break };
            let pages = u32::try_from((range.end - range.start).min(LOAD_RUN_PAGES)).expect("at most LOAD_RUN_PAGES");
            if pages == 0 {
                self.load.pop();
                continue;
            }
            batch.runs.push(Run::write(range.start, pages).through(self.plan.channel));
            range.start += u64::from(pages);
        }
        !batch.runs.is_empty()
    }

    /// Appends `operations` operations on items that `item` picks.
    #[inline]
    fn operate(&mut self, operations: u64, batch: &mut Batch, item: impl Fn(&mut Dice) -> u64) {
        if self.plan.insert_below == 0 && self.index_start.is_none() {
            self.operate_plainly(operations, batch, item);
        } else {
            self.operate_fully(operations, batch, |stream| item(&mut stream.dice));
        }
    }

    /// Without inserts and index, one run an operation: the hot loop of most benchmarks.
    #[inline]
    fn operate_plainly(&mut self, operations: u64, batch: &mut Batch, item: impl Fn(&mut Dice) -> u64) {
        let Plan { packing, compute_ns, channel, modify_below, .. } = *self.plan;
        let pages = packing.pages();
        let data_start = self.data_start;
        // A local copy stays in registers.
        let mut dice = self.dice.clone();
        batch.runs.extend((0..operations).map(|_| {
            let item = item(&mut dice);
            let is_write = match modify_below {
                0 => false,
                u64::MAX => true,
                _ => dice.next_u64() < modify_below,
            };
            run(data_start + packing.first_page(item), pages, is_write).through(channel).after_ns(compute_ns)
        }));
        self.dice = dice;
    }

    fn operate_fully(&mut self, operations: u64, batch: &mut Batch, item: impl Fn(&mut Self) -> u64) {
        let plan = Arc::clone(&self.plan);
        for _ in 0..operations {
            let choice = self.dice.next_u64();
            let is_insert = choice < plan.insert_below;
            let item = if is_insert {
                let inserted = self.insert_next;
                self.insert_next = (self.insert_next + self.threads) % plan.items;
                inserted
            } else {
                item(self)
            };
            let first = batch.runs.len();
            if let Some(start) = self.index_start {
                push_index_walk(&plan, start, item, is_insert, &mut batch.runs);
            }
            let page = self.data_start + plan.packing.first_page(item);
            let is_write = choice < plan.modify_below;
            batch.runs.push(run(page, plan.packing.pages(), is_write).through(plan.channel));
            batch.runs[first].think_ns = plan.compute_ns;
        }
    }
}

/// Longest run of the load phase, and runs in one of its batches.
const LOAD_RUN_PAGES: u64 = 512;
const LOAD_RUNS: usize = 64;

#[inline]
fn run(page: u64, pages: u32, is_write: bool) -> Run {
    if is_write { Run::write(page, pages) } else { Run::read(page, pages) }
}

/// One page of each level, root first. An insert writes its leaf.
fn push_index_walk(plan: &Plan, start: u64, item: u64, is_insert: bool, runs: &mut Vec<Run>) {
    let first = runs.len();
    let mut below_level = item;
    let mut end = start + plan.index_pages();
    for (depth, &pages) in plan.index_levels.iter().rev().enumerate() {
        below_level /= plan.index_fanout;
        end -= pages;
        runs.push(run(end + below_level, 1, is_insert && depth == 0).through(plan.channel));
    }
    runs[first..].reverse();
}

impl Stream for KeyValue {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.load(batch) {
            return Ok(After::Continue);
        }
        let operations = self.budget.take(self.batch_operations, now);
        if operations == 0 {
            return Ok(After::Finish);
        }
        batch.operations = operations;
        let plan = Arc::clone(&self.plan);
        let items = plan.items;
        match &plan.sampler {
            Sampler::Uniform => self.operate(operations, batch, |dice| below(dice.next_u64(), items).0),
            Sampler::Ranked { table, place } => self.operate(operations, batch, |dice| place.item(table.draw(dice))),
            Sampler::Gaussian { table, center } => {
                self.operate(operations, batch, |dice| gaussian_item(table, *center, items, dice));
            }
            Sampler::Hotspot { hot_items, hot_below, place } => {
                self.operate(operations, batch, |dice| place.item(hotspot_rank(*hot_items, *hot_below, items, dice)));
            }
            Sampler::Sequential => self.operate_fully(operations, batch, |stream| {
                let item = stream.sequential_next;
                stream.sequential_next = if item + 1 == items { 0 } else { item + 1 };
                item
            }),
            Sampler::Latest { table } => self.operate_fully(operations, batch, |stream| {
                let item = stream.insert_next + items - 1 - table.draw(&mut stream.dice);
                if item >= items { item - items } else { item }
            }),
        }
        Ok(After::Continue)
    }
}
