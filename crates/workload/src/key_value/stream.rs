//! The operations of one thread of a key-value store.

use std::sync::Arc;

use isotherm_units::access::{After, Batch, Channel, Run, Stream, StreamError};
use isotherm_units::{Bytes, Instant, PAGE_BYTES};

use super::distribution::Sampler;
use crate::chance::{Random, Rng, below, fill_words, random};
use crate::extent::{Budget, Extent};

/// The data that all threads share.
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
pub(crate) enum Packing {
    /// Several in a page: the high half of `item * reciprocal` is the page.
    Several { reciprocal: u64 },
    /// This number of pages each.
    Pages(u32),
}

impl Packing {
    /// How items of `size`, 16 B to 1 TiB, lie in `pages` pages, and how many fit.
    pub(crate) fn of(size: Bytes, pages: u64) -> (u64, Self) {
        if size.get() <= PAGE_BYTES {
            let per_page = PAGE_BYTES / size.get();
            return (pages * per_page, Self::several_per_page(per_page));
        }
        let per_item = size.pages_ceil().get();
        (pages / per_item, Self::Pages(u32::try_from(per_item).expect("at most 1 TiB")))
    }
    /// `per_page`: 1 to 256. Exact for items below 2^48: the reciprocal is too large by less than `per_page / 2^64`.
    fn several_per_page(per_page: u64) -> Self {
        match per_page {
            1 => Self::Pages(1),
            _ => Self::Several { reciprocal: u64::MAX / per_page + 1 },
        }
    }
    /// Replaces items by their first pages.
    pub(crate) fn apply(self, items: &mut [u64]) {
        match self {
            Self::Several { reciprocal } => items.iter_mut().for_each(|item| *item = below(*item, reciprocal).0),
            Self::Pages(1) => {}
            Self::Pages(pages) => items.iter_mut().for_each(|item| *item *= u64::from(pages)),
        }
    }
    pub(crate) fn pages(self) -> u32 {
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
    random: Random,
    budget: Budget,
    batch_operations: u64,
    /// The rest to load, as page numbers.
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
            random: random(plan.seed, thread),
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

    /// Appends one operation for each of `items`, which are used up: one run an operation. The hot loop of most benchmarks.
    fn operate_plainly(&mut self, items: &mut [u64], batch: &mut Batch) {
        let Plan { packing, compute_ns, channel, modify_below, .. } = *self.plan;
        packing.apply(items);
        let (pages, start) = (packing.pages(), self.data_start);
        let run = |page: u64, is_write| run(start + page, pages, is_write).through(channel).after_ns(compute_ns);
        match modify_below {
            0 => batch.runs.extend(items.iter().map(|&page| run(page, false))),
            u64::MAX => batch.runs.extend(items.iter().map(|&page| run(page, true))),
            _ => {
                let mut choices = [0; BLOCK];
                fill_words(&mut self.random, &mut choices[..items.len()]);
                let chosen = items.iter().zip(&choices);
                batch.runs.extend(chosen.map(|(&page, &choice)| run(page, choice < modify_below)));
            }
        }
    }

    /// The same with inserts and index.
    fn operate_fully(&mut self, items: &mut [u64], batch: &mut Batch) {
        let plan = Arc::clone(&self.plan);
        let is_by_age = matches!(plan.sampler, Sampler::Latest { .. });
        for item in items {
            let choice = self.random.next_u64();
            let is_insert = choice < plan.insert_below;
            if is_insert {
                *item = self.insert_next;
                self.insert_next = (self.insert_next + self.threads) % plan.items;
            } else if is_by_age {
                *item = item_of_age(*item, self.insert_next, plan.items);
            }
            let first = batch.runs.len();
            if let Some(start) = self.index_start {
                push_index_walk(&plan, start, *item, is_insert, batch.runs.own());
            }
            plan.packing.apply(std::slice::from_mut(item));
            let is_write = choice < plan.modify_below;
            batch.runs.push(run(self.data_start + *item, plan.packing.pages(), is_write).through(plan.channel));
            batch.runs.own()[first].think_ns = plan.compute_ns;
        }
    }
}

/// Items that are drawn together: 2 KiB.
const BLOCK: usize = 256;

/// The item inserted `age` inserts before the last, when the next goes to `insert_next`.
fn item_of_age(age: u64, insert_next: u64, items: u64) -> u64 {
    let item = insert_next + items - 1 - age;
    if item >= items { item - items } else { item }
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
        let is_plain = plan.insert_below == 0 && self.index_start.is_none();
        let mut items = [0; BLOCK];
        let mut left = usize::try_from(operations).expect("a batch");
        while left > 0 {
            let items = &mut items[..left.min(BLOCK)];
            left -= items.len();
            plan.sampler.fill(plan.items, &mut self.random, &mut self.sequential_next, items);
            if !is_plain {
                self.operate_fully(items, batch);
                continue;
            }
            if let Sampler::Latest { .. } = plan.sampler {
                items.iter_mut().for_each(|item| *item = item_of_age(*item, self.insert_next, plan.items));
            }
            self.operate_plainly(items, batch);
        }
        Ok(After::Continue)
    }
}
