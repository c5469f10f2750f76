//! Emptying the blocks of one zone that are cheapest to empty, those in use last or not at all.

use super::choice::{Bounds, Candidate, PassedOver, choose, targets};
use super::price::MAX_BATCH;
use super::warmth::Warmth;
use super::{BLOCK_PAGES, HeatConfig};
use crate::compaction::run::{BudgetLimit, Task, Why, ZoneReport};
use crate::compaction::{BlockUse, rfc::after};
use crate::host::{BlocksScan, CompactEnd, CompactMode, Compacted, MoveBatch, PageBlock, PageContent, ZoneState};
use crate::host::{Compacting, HostError};
use isotherm_units::{Duration, Instant};
use std::collections::VecDeque;

/// Blocks that are watched together before they are emptied.
const GROUP: usize = 16;
/// The key of a full block that nobody uses is the most that a block may cost at first; then twice, four, eight times that.
const MAX_ROUND: u32 = 3;
/// A block is given up for so many epochs, and twice as many each further time up to the largest.
const BAR_EPOCHS: u64 = 8;
const MAX_BAR_EPOCHS: u64 = 64;
/// So many of the blocks to fill are named with a batch: more than its pages need.
const FILLED_AT_ONCE: usize = 2 * MAX_BATCH as usize;
/// Waits are limited in each span of this length.
pub(super) const STALL_SPAN: Duration = Duration::from_ms(100);

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    usage: BlockUse,
    warmth: Warmth,
    barred_until: Option<Instant>,
    /// How long it was barred last, in epochs.
    bar_epochs: u64,
}

/// A block that is being emptied.
#[derive(Debug)]
struct Source {
    number: u32,
    /// Pages not used while they were watched. In batches; what was used since then is spared.
    quiet: VecDeque<u32>,
    /// What was spared, one by one: known when the others are through.
    spared: Option<VecDeque<u32>>,
    /// Uses of its pages, thousandths a second.
    rate: u64,
    /// How many pages it had.
    pages: u32,
    moved: u64,
}

#[derive(Debug)]
enum Phase {
    /// Heat is measured for so many epochs yet.
    Warming(u32),
    /// Blocks are chosen next.
    Choosing,
    /// Accessed bits of these were cleared.
    Settling(VecDeque<u32>),
    /// These are emptied.
    Emptying(VecDeque<u32>, Option<Source>),
}

/// A zone at work.
#[derive(Debug)]
pub(super) struct Work {
    task: Task,
    wanted: u64,
    turn: u32,
    blocks: Vec<Known>,
    phase: Phase,
    next_look: Instant,
    round: u32,
    extfrag_before: u32,
    /// Blocks to fill, the first in front.
    fill: VecDeque<u32>,
    /// Waits of late: when, and how long.
    stalls: VecDeque<(Instant, u64)>,
    /// Waits expected or seen, whichever are longer, of all batches.
    stall_ns: u64,
    started: Instant,
    total: Compacted,
}

/// What a step came to.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) work: Compacted,
    pub(super) next: Instant,
    pub(super) report: Option<ZoneReport>,
}

impl Work {
    /// Until `wanted` huge pages are free in the zone. `turn` says which pages of blocks are sampled.
    pub(super) fn new(task: Task, wanted: u64, turn: u32, config: &HeatConfig, now: Instant) -> Self {
        Self {
            task,
            wanted,
            turn,
            blocks: Vec::new(),
            phase: Phase::Warming(config.warm_up),
            next_look: now,
            round: 0,
            extfrag_before: 0,
            fill: VecDeque::new(),
            stalls: VecDeque::new(),
            stall_ns: 0,
            started: now,
            total: Compacted::default(),
        }
    }

    /// Does what is due.
    pub(super) fn step(
        &mut self,
        config: &HeatConfig,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<Stepped, HostError> {
        if let Some(why) = self.over_budget(config, now) {
            return self.end(why, now, host);
        }
        if now >= self.next_look {
            return self.check(config, now, host);
        }
        match std::mem::replace(&mut self.phase, Phase::Choosing) {
            Phase::Warming(left) => {
                self.phase = Phase::Warming(left);
                Ok(Self::nothing_until(self.next_look))
            }
            Phase::Choosing => self.choose(config, now, host),
            Phase::Settling(group) => {
                self.phase = Phase::Emptying(group, None);
                Ok(Self::nothing_until(now))
            }
            Phase::Emptying(group, source) => self.empty(group, source, config, now, host),
        }
    }

    pub(super) const fn total(&self) -> &Compacted {
        &self.total
    }

    fn nothing_until(next: Instant) -> Stepped {
        Stepped { work: Compacted::default(), next, report: None }
    }

    fn over_budget(&self, config: &HeatConfig, now: Instant) -> Option<Why> {
        let budget = &config.budget;
        let total = &self.total;
        match () {
            () if budget.pages.is_some_and(|most| total.pages_moved >= most) => Some(Why::Budget(BudgetLimit::Pages)),
            () if budget.cpu.is_some_and(|most| total.cpu >= most) => Some(Why::Budget(BudgetLimit::Cpu)),
            () if budget.wall.is_some_and(|most| now.since(self.started) >= most) => {
                Some(Why::Budget(BudgetLimit::Wall))
            }
            () if budget.fruitless_pages == Some(0) => Some(Why::NoProgress),
            () => None,
        }
    }

    /// Looks at all blocks: what they hold, and how warm they are.
    fn check(&mut self, config: &HeatConfig, now: Instant, host: &mut dyn Compacting) -> Result<Stepped, HostError> {
        let mut seen: Vec<PageBlock> = Vec::new();
        let check = BlocksScan { zone: self.task.zone, samples: config.samples, turn: self.turn };
        host.page_blocks(&check, &mut seen)?;
        // What was used before the first look was used at any time.
        let is_first = self.blocks.is_empty();
        if is_first {
            self.extfrag_before = self.zone(host)?.map_or(0, |zone| zone.blocks.extfrag(self.task.order));
        }
        let len = seen.iter().map(|block| block.number as usize + 1).max().unwrap_or(0);
        self.blocks.resize(len.max(self.blocks.len()), Known::default());
        for PageBlock { number, usage, sampled, accessed } in seen {
            let known = &mut self.blocks[number as usize];
            known.usage = usage;
            if !is_first {
                known.warmth.learn(sampled, accessed, usage.movable);
            }
        }
        self.next_look = after(now, config.epoch);
        self.phase = match std::mem::replace(&mut self.phase, Phase::Choosing) {
            Phase::Warming(0) => Phase::Choosing,
            Phase::Warming(left) => {
                self.phase = Phase::Warming(left - 1);
                return Ok(Self::nothing_until(self.next_look));
            }
            other => other,
        };
        Ok(Self::nothing_until(now))
    }

    fn candidates(&self, config: &HeatConfig, now: Instant) -> Vec<Candidate> {
        let blocks = (0..).zip(&self.blocks);
        let candidate = |(number, known): (u32, &Known)| Candidate {
            number,
            usage: known.usage,
            rate: known.warmth.rate(config.epoch),
            is_hot: known.warmth.is_hot(),
            is_barred: known.barred_until.is_some_and(|until| now < until),
        };
        blocks.map(candidate).collect()
    }

    fn choose(&mut self, config: &HeatConfig, now: Instant, host: &mut dyn Compacting) -> Result<Stepped, HostError> {
        let signals = host.compaction_signals(self.task.zone.node)?;
        if signals.is_reclaiming || signals.has_reclaimed {
            return self.end(Why::ReclaimRunning, now, host);
        }
        let Some(zone) = self.zone(host)? else { return self.end(Why::Cancelled, now, host) };
        let free = zone.blocks.suitable(self.task.order);
        if free >= self.wanted {
            return self.end(Why::ReachedLow, now, host);
        }
        let prices = &config.prices;
        let bounds = Bounds {
            count: (self.wanted - free).min(GROUP as u64),
            stall_ns: config.budget.stall.map(|most| most.ns().saturating_sub(self.stall_ns)),
            key: prices.key(BLOCK_PAGES, 0) << self.round,
            takes_hot: self.round > 0,
            margin: zone.marks.min,
        };
        let candidates = self.candidates(config, now);
        let choice = choose(&candidates, prices, &bounds);
        self.fill = targets(&candidates, |number| choice.sources.contains(&number)).into();
        if choice.sources.is_empty() {
            return match choice.passed_over {
                PassedOver { hot: 1.., .. } if self.round < MAX_ROUND && bounds.stall_ns != Some(0) => {
                    self.round += 1;
                    Ok(Self::nothing_until(now))
                }
                PassedOver { hot: 1.., .. } => self.end(Why::HeatBlocked, now, host),
                PassedOver { no_room: 1.., .. } => self.end(Why::NoTargets, now, host),
                PassedOver { .. } => self.end(Why::ScannersMet, now, host),
            };
        }
        let mut pages = Vec::new();
        for &number in &choice.sources {
            pages.clear();
            host.block_pages(self.task.zone, number, true, &mut pages)?;
        }
        self.phase = Phase::Settling(choice.sources.into());
        Ok(Self::nothing_until(after(now, config.settle)))
    }

    /// Goes on with a block, or with the next.
    fn empty(
        &mut self,
        mut group: VecDeque<u32>,
        source: Option<Source>,
        config: &HeatConfig,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<Stepped, HostError> {
        let Some(mut source) = source else {
            let Some(number) = group.pop_front() else { return Ok(Self::nothing_until(now)) };
            let source = self.open(number, config, now, host)?;
            self.phase = Phase::Emptying(group, source);
            return Ok(Self::nothing_until(now));
        };
        if source.quiet.is_empty() && source.spared.is_none() {
            let is_wanted = self.look_again(&mut source, config, now, host)?;
            self.phase = Phase::Emptying(group, is_wanted.then_some(source));
            return Ok(Self::nothing_until(now));
        }
        let batch = source.batch(config);
        let expected = config.prices.stall(source.rate_of(batch, config), batch);
        let is_too_much = config.budget.stall.is_some_and(|most| self.stall_ns.saturating_add(expected) > most.ns());
        if batch == 0 || is_too_much {
            if is_too_much {
                self.give_up(&source, config, now);
            }
            self.phase = Phase::Emptying(group, None);
            return Ok(Self::nothing_until(now));
        }
        if let Some(room_at) = self.wait_for_room(expected, config, now) {
            self.phase = Phase::Emptying(group, Some(source));
            return Ok(Self::nothing_until(room_at));
        }
        let is_spared = source.spared.is_some();
        let pages: Vec<u32> = source.spared.as_mut().unwrap_or(&mut source.quiet).drain(..batch as usize).collect();
        while self.fill.front().is_some_and(|&number| self.blocks[number as usize].usage.free() == 0) {
            self.fill.pop_front();
        }
        let fill: Vec<u32> = self.fill.iter().copied().take(FILLED_AT_ONCE).collect();
        let mut work = host.move_pages(&MoveBatch {
            zone: self.task.zone,
            block: source.number,
            pages: &pages,
            targets: &fill,
            spares_accessed: !is_spared,
            mode: CompactMode::SyncLight,
        })?;
        let end = work.end.take();
        self.note_stall(expected.max(work.stalls.total.ns()), now);
        self.note_moved(source.number, &fill, work.pages_moved);
        source.moved += work.pages_moved;
        let work = self.count(work);
        // Others took the room, or the page cannot be moved after all.
        if end == Some(CompactEnd::NoTargets) || is_spared && work.pages_moved == 0 {
            self.give_up(&source, config, now);
            self.phase = Phase::Emptying(group, None);
        } else {
            self.phase = Phase::Emptying(group, Some(source));
        }
        Ok(Stepped { work, next: now, report: None })
    }

    /// A last look at a block before it is emptied: not at all if too much of it was used while it was watched.
    fn open(
        &mut self,
        number: u32,
        config: &HeatConfig,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<Option<Source>, HostError> {
        let (quiet, used, fixed) = self.sort_pages(number, host)?;
        let pages = quiet.len() + used.len();
        let spares_all = config.budget.stall == Some(Duration::ZERO);
        // It was clean when it was chosen.
        if fixed || used.len() * 4 > pages || spares_all && !used.is_empty() {
            self.bar(number, config, now);
            return Ok(None);
        }
        // Heat counts a page once in an epoch; what was used in this short time tells of blocks where all pages are.
        let seen_rate = used.len() as u64 * (1_000_000_000_000 / config.settle.ns().max(1));
        let warmth = self.blocks.get(number as usize).map_or(0, |known| known.warmth.rate(config.epoch));
        let rate = warmth.max(seen_rate);
        let pages = u32::try_from(pages).unwrap_or(BLOCK_PAGES);
        Ok(Some(Source { number, quiet: quiet.into(), spared: None, rate, pages, moved: 0 }))
    }

    /// What of a block is left when those not in use are through; whether to go on with it.
    fn look_again(
        &mut self,
        source: &mut Source,
        config: &HeatConfig,
        now: Instant,
        host: &mut dyn Compacting,
    ) -> Result<bool, HostError> {
        let (quiet, used, fixed) = self.sort_pages(source.number, host)?;
        let left: VecDeque<u32> = quiet.into_iter().chain(used).collect();
        let spares_all = config.budget.stall == Some(Duration::ZERO);
        if fixed || left.len() as u64 * 4 > u64::from(source.pages) || spares_all && !left.is_empty() {
            self.give_up(source, config, now);
            return Ok(false);
        }
        source.spared = Some(left);
        Ok(true)
    }

    /// Movable pages of a block, those not used and those used, and whether there are others.
    fn sort_pages(&mut self, number: u32, host: &mut dyn Compacting) -> Result<(Vec<u32>, Vec<u32>, bool), HostError> {
        let mut seen = Vec::new();
        host.block_pages(self.task.zone, number, false, &mut seen)?;
        let (mut quiet, mut used, mut is_fixed) = (Vec::new(), Vec::new(), false);
        for (page, result) in (0..).zip(&seen) {
            match result {
                PageContent::Movable { accessed: true } => used.push(page),
                PageContent::Movable { accessed: false } => quiet.push(page),
                PageContent::Free => {}
                PageContent::Fixed => is_fixed = true,
            }
        }
        self.total.scanned_migrate += seen.len() as u64;
        Ok((quiet, used, is_fixed))
    }

    /// A block stays in use although some of its pages were moved.
    fn give_up(&mut self, source: &Source, config: &HeatConfig, now: Instant) {
        self.total.pages_in_vain += source.moved;
        self.bar(source.number, config, now);
    }

    fn bar(&mut self, number: u32, config: &HeatConfig, now: Instant) {
        if let Some(known) = self.blocks.get_mut(number as usize) {
            known.bar_epochs = (known.bar_epochs * 2).clamp(BAR_EPOCHS, MAX_BAR_EPOCHS);
            let span = config.epoch.ns().saturating_mul(known.bar_epochs);
            known.barred_until = Some(after(now, Duration::from_ns(span)));
        }
    }

    /// When waits of so long may be caused; `None`: now. Where even an idle span has no room, it is done alone in one.
    fn wait_for_room(&mut self, expected: u64, config: &HeatConfig, now: Instant) -> Option<Instant> {
        while self.stalls.front().is_some_and(|&(at, _)| now.since(at) >= STALL_SPAN) {
            self.stalls.pop_front();
        }
        let spent: u64 = self.stalls.iter().map(|&(_, ns)| ns).sum();
        let is_over = expected > 0 && spent.saturating_add(expected) > config.span_stall.ns();
        let first = self.stalls.front().filter(|_| is_over)?;
        Some(after(first.0, STALL_SPAN))
    }

    fn note_stall(&mut self, ns: u64, now: Instant) {
        self.stall_ns = self.stall_ns.saturating_add(ns);
        if ns > 0 {
            self.stalls.push_back((now, ns));
        }
    }

    /// Pages have gone from a block into the first that have room, as far as is known until the next look.
    fn note_moved(&mut self, source: u32, fill: &[u32], moved: u64) {
        let mut left = u32::try_from(moved).unwrap_or(0);
        if let Some(known) = self.blocks.get_mut(source as usize) {
            known.usage.movable = known.usage.movable.saturating_sub(left);
        }
        for &number in fill {
            let usage = &mut self.blocks[number as usize].usage;
            let taken = left.min(u32::try_from(usage.free()).unwrap_or(0));
            usage.movable += taken;
            left -= taken;
            if left == 0 {
                break;
            }
        }
    }

    fn count(&mut self, work: Compacted) -> Compacted {
        self.total.merge(&work);
        work
    }

    fn zone(&self, host: &mut dyn Compacting) -> Result<Option<ZoneState>, HostError> {
        let mut zones = Vec::new();
        host.zones(&mut zones)?;
        Ok(zones.into_iter().find(|zone| zone.id == self.task.zone))
    }

    fn end(&mut self, why: Why, now: Instant, host: &mut dyn Compacting) -> Result<Stepped, HostError> {
        let extfrag_after = self.zone(host)?.map_or(0, |zone| zone.blocks.extfrag(self.task.order));
        // Nothing was looked at yet.
        let extfrag_before = if self.blocks.is_empty() { extfrag_after } else { self.extfrag_before };
        let spoilt = self.blocks.iter().filter(|known| known.usage.fixed > 0).count() as u64;
        let work = Compacted { blocks_spoiled_unmovable: spoilt, ..self.total };
        let report = ZoneReport { zone: self.task.zone, why, extfrag_before, extfrag_after, work };
        Ok(Stepped { work: Compacted::default(), next: now, report: Some(report) })
    }
}

impl Source {
    /// How many pages go next: of those in use one, of the others as many as are best for how much the block is used.
    fn batch(&self, config: &HeatConfig) -> u32 {
        match &self.spared {
            Some(spared) => u32::from(!spared.is_empty()),
            None => {
                let left = u32::try_from(self.quiet.len()).unwrap_or(MAX_BATCH);
                config.prices.batch_of(self.pages, self.rate).min(left)
            }
        }
    }

    /// Uses of so many of its pages, thousandths a second. What was used while it was watched is used at least once in that
    /// time.
    fn rate_of(&self, pages: u32, config: &HeatConfig) -> u64 {
        let share = u128::from(self.rate) * u128::from(pages) / u128::from(self.pages.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        match self.spared {
            Some(_) => share.max(1_000_000_000_000 / config.settle.ns().max(1)),
            None => share,
        }
    }
}
