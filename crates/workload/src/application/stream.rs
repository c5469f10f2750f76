//! The operations of one thread of an application.

use std::sync::Arc;

use isotherm_units::access::{After, Batch, Channel, Run, Stream, StreamError};
use isotherm_units::{Duration, Instant};

use crate::chance::{Random, Rng, random};
use crate::extent::{BATCH_OPERATIONS, Budget, Extent};
use crate::key_value::{Packing, Sampler};

/// The data that all threads share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) areas: Vec<Area>,
    pub(super) steps: Vec<Operation>,
    pub(super) compute_ns: u32,
    pub(super) processes: u64,
    pub(super) threads: u64,
    pub(super) seed: u64,
}

/// An area as each process sees it.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) start: u64,
    pub(super) pages: u64,
    /// Each process has its own.
    pub(super) is_private: bool,
    pub(super) channel: Channel,
    pub(super) load: bool,
}

#[derive(Debug)]
pub(super) struct Operation {
    /// Index of the area.
    pub(super) area: usize,
    pub(super) items: u64,
    pub(super) packing: Packing,
    pub(super) sampler: Sampler,
    pub(super) count: u64,
    pub(super) every: u64,
    /// Operations by which rare steps begin later, so that they do not all fall into the same
    /// operation.
    pub(super) phase: u64,
    /// A random word below it stores.
    pub(super) write_below: u64,
}

impl Plan {
    /// Index of thread `nth` among the threads that share `area`, and their number.
    fn place(&self, area: &Area, nth: u64) -> (u64, u64) {
        if !area.is_private {
            return (nth, self.threads);
        }
        let (process, rank) = (nth % self.processes, nth / self.processes);
        (rank, (self.threads - process).div_ceil(self.processes))
    }

    /// Mean number of runs in an operation, at least one.
    fn runs_per_operation(&self) -> u64 {
        self.steps.iter().map(|step| step.count.div_ceil(step.every)).sum::<u64>().max(1)
    }
}

/// The part of `all` that belongs to number `nth` of `of`.
fn part(all: u64, (nth, of): (u64, u64)) -> std::ops::Range<u64> {
    let cut = |nth: u64| u64::try_from(u128::from(all) * u128::from(nth) / u128::from(of)).expect("a part of a u64");
    cut(nth)..cut(nth + 1)
}

pub(super) struct Application {
    plan: Arc<Plan>,
    random: Random,
    budget: Budget,
    batch_operations: u64,
    /// The rest to load, by area.
    load: Vec<(usize, std::ops::Range<u64>)>,
    /// By step: item of the next sequential access.
    next: Vec<u64>,
    /// Operations done.
    done: u64,
    items: Vec<u64>,
    /// Computing of operations that took no step.
    owed_ns: u64,
}

/// Longest run of the load phase, and runs in one of its batches.
const LOAD_RUN_PAGES: u64 = 512;
const LOAD_RUNS: usize = 64;
/// Items that are drawn together.
const BLOCK: u64 = 256;

impl Application {
    pub(super) fn new(plan: &Arc<Plan>, nth: usize, extent: Extent) -> Self {
        let index = nth as u64;
        let loaded = plan.areas.iter().enumerate().filter(|(_, area)| area.load);
        let load = loaded.map(|(number, area)| (number, part(area.pages, plan.place(area, index))));
        let first = |step: &Operation| part(step.items, plan.place(&plan.areas[step.area], index)).start;
        let operation_ns = u64::from(plan.compute_ns) + 100 * plan.runs_per_operation();
        Self {
            random: random(plan.seed, nth),
            budget: extent.share(index, plan.threads),
            batch_operations: extent
                .batch_operations(operation_ns)
                .min((BATCH_OPERATIONS / plan.runs_per_operation()).max(1)),
            load: load.collect(),
            next: plan.steps.iter().map(first).collect(),
            done: 0,
            items: Vec::new(),
            owed_ns: 0,
            plan: Arc::clone(plan),
        }
    }

    /// Appends writes of pages not loaded yet. Whether there were any.
    fn load(&mut self, batch: &mut Batch) -> bool {
        while batch.runs.len() < LOAD_RUNS {
            let Some((area, range)) = self.load.first_mut() else { break };
            let area = &self.plan.areas[*area];
            let pages = u32::try_from((range.end - range.start).min(LOAD_RUN_PAGES)).expect("at most LOAD_RUN_PAGES");
            if pages == 0 {
                self.load.remove(0);
                continue;
            }
            batch.runs.push(Run::write(area.start + range.start, pages).through(area.channel));
            range.start += u64::from(pages);
        }
        !batch.runs.is_empty()
    }

    fn operate(&mut self, batch: &mut Batch) {
        let plan = Arc::clone(&self.plan);
        let first = batch.runs.len();
        for (nth, step) in plan.steps.iter().enumerate() {
            // The first operation in which it is taken, then each `every`-th.
            if self.done % step.every != step.phase % step.every {
                continue;
            }
            let area = &plan.areas[step.area];
            let mut left = step.count;
            while left > 0 {
                let block = left.min(BLOCK);
                left -= block;
                self.items.clear();
                self.items.resize(usize::try_from(block).expect("at most BLOCK"), 0);
                step.sampler.fill(step.items, &mut self.random, &mut self.next[nth], &mut self.items);
                step.packing.apply(&mut self.items);
                for &page in &self.items {
                    let is_write = match step.write_below {
                        0 => false,
                        u64::MAX => true,
                        below => self.random.next_u64() < below,
                    };
                    let page = area.start + page;
                    let pages = step.packing.pages();
                    let run = if is_write { Run::write(page, pages) } else { Run::read(page, pages) };
                    batch.runs.push(run.through(area.channel));
                }
            }
        }
        self.owed_ns += u64::from(plan.compute_ns);
        if let Some(run) = batch.runs.own().get_mut(first) {
            run.think_ns = u32::try_from(self.owed_ns).unwrap_or(u32::MAX);
            self.owed_ns -= u64::from(run.think_ns);
        }
        self.done += 1;
    }
}

impl Stream for Application {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.load(batch) {
            return Ok(After::Continue);
        }
        let operations = self.budget.take(self.batch_operations, now);
        if operations == 0 {
            return Ok(After::Finish);
        }
        batch.operations = operations;
        for _ in 0..operations {
            self.operate(batch);
        }
        Ok(match std::mem::take(&mut self.owed_ns) {
            0 => After::Continue,
            owed_ns => After::Compute(Duration::from_ns(owed_ns)),
        })
    }
}
