//! One tick, in the exact order of section 3: check, merge and age, cut the too large, serve changes, schemes, tune, record
//! and reset, cut at random, follow the mappings; then prepare the next.

use super::config::{Operations, Sampling};
use super::merge::{MergeLimits, merge_all, threshold};
use super::ranges::{self, RangesError, separate_ranges, three_ranges};
use super::region::Region;
use super::snapshot::{Event, RegionRecord, Tick, slot};
use super::split::{align_up, pieces, size_limit, split_at_random, split_large};
use super::target::Target;
use super::{Baseline, Due, FlushPolicy, Monitor, PAGE, Phase, Random, Schedule, batch, flush, probes, tune};
use crate::host::{HostError, Level, MonitorHost, Probe, ProbeResult, Seen};
use crate::monitor::level::ptp_descend::Cut;
use crate::schemes::{Outcome, Pass};
use crate::vocabulary::UnitRange;
use isotherm_units::{Duration, Instant};

impl Monitor {
    /// Does the work that is due at `now`. Early or repeated calls do nothing. A late call does one tick; missed ticks are only counted.
    /// Catching up one by one would load a machine that is loaded already. Counts and ages are stated as if every tick had come in time.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut dyn MonitorHost) -> Tick {
        let Some(at) = self.poll_timeout().filter(|at| *at <= now) else { return Tick::default() };
        let number_before = self.snapshot.number;
        debug_assert!(self.pace() > Duration::ZERO, "missed ticks are counted by the time of one");
        let missed = match self.phase {
            Phase::Sampling(_) => now.since(at).ns() / self.pace().ns(),
            // Nothing is sampled then.
            Phase::Stopped | Phase::Starting(_) | Phase::Inactive(_) | Phase::Paused { .. } => 0,
        };
        self.activity.wakeups += 1;
        self.activity.missed_ticks += missed;
        match self.phase {
            Phase::Stopped => {}
            Phase::Starting(_) => {
                self.begin(now, host);
                self.next_tick(now, host);
            }
            Phase::Sampling(_) => {
                let due = self.first_half(host);
                self.pause_or_go_on(due, now, host);
            }
            Phase::Inactive(_) => {
                self.serve();
                self.next_tick(now, host);
            }
            Phase::Paused { due, .. } => self.pause_or_go_on(due, now, host),
        }
        debug_assert!(self.snapshot.number <= number_before + 1, "a call ends one aggregation at most");
        let has_snapshot = self.snapshot.number > number_before;
        Tick { has_snapshot, missed, events: std::mem::take(&mut self.events) }
    }

    /// Start-up.
    fn begin(&mut self, now: Instant, host: &mut dyn MonitorHost) {
        self.schedule = Schedule {
            tick: 0,
            next_aggregation: self.attributes.aggr_ticks(),
            next_update: self.attributes.update_ticks(),
            next_tuning: 0,
        };
        debug_assert!(self.schedule.next_aggregation > 0, "an aggregation holds one sample at least");
        if let Some(goal) = &self.attributes.intervals_goal {
            self.schedule.next_tuning = self.schedule.next_aggregation.saturating_mul(u64::from(goal.aggrs));
        }
        self.schemes.arm(0, &self.attributes);
        self.nr_regions_cut = 0;
        self.snapshot.at = now;
        self.for_each_target(host, |monitor, index, host| {
            let target = &mut monitor.targets[index];
            if target.wanted.is_empty() {
                return monitor.follow_mappings(index, host);
            }
            let Target { wanted, regions, .. } = target;
            ranges::apply(regions, wanted, monitor.size_min, &mut monitor.spare);
            Ok(())
        });
        self.size_max = self.enforce_min_nr_regions();
    }

    /// CHECK, and at the end of an aggregation merge. Between the halves, callers see regions that are merged and not yet reset.
    fn first_half(&mut self, host: &mut dyn MonitorHost) -> Due {
        self.schedule.tick += match self.config.sampling {
            Sampling::Spread => 1,
            Sampling::Batch => self.attributes.aggr_ticks(),
        };
        self.activity.ticks += 1;
        let Schedule { tick, next_aggregation, next_update, .. } = self.schedule;
        let due = Due {
            aggregation: tick >= next_aggregation,
            next_aggregation,
            update: tick >= next_update && self.config.operations == Operations::Vaddr,
            next_update,
        };
        self.check(host);
        if due.aggregation {
            let limits = MergeLimits {
                threshold: threshold(self.highest_count),
                threshold_max: self.attributes.nr_accesses_max(),
                size_max: self.size_max,
                nr_regions_max: self.attributes.max_nr_regions,
            };
            merge_all(&mut self.targets, limits, self.config.baseline);
            self.size_max = match self.config.baseline {
                Baseline::V7_2 => self.enforce_min_nr_regions(),
                Baseline::V6_6 => self.size_limit(),
            };
        }
        due
    }

    /// The service point: changes, then sleep on if paused, else the rest of the tick and the next one's PREPARE.
    fn pause_or_go_on(&mut self, due: Due, now: Instant, host: &mut dyn MonitorHost) {
        debug_assert!(
            matches!(self.phase, Phase::Sampling(_) | Phase::Paused { .. }),
            "a tick ends after its sample or its pause"
        );
        self.serve();
        if self.config.paused {
            self.cancel_walk();
            self.phase = Phase::Paused { until: now + self.attributes.sample_interval, due };
            return;
        }
        // Schemes see this tick's samples, merged regions and changed settings, and what they do to ages is
        // what the snapshot below records.
        self.apply_schemes(now, host);
        self.second_half(due, now, host);
        self.next_tick(now, host);
    }

    /// Applies the schemes that are due. A target that turns out to have ended is dropped.
    fn apply_schemes(&mut self, now: Instant, host: &mut dyn MonitorHost) {
        if self.schemes.is_empty() {
            self.cancel_walk();
            return;
        }
        if !self.schemes.is_due(self.schedule.tick) {
            return;
        }
        let pass = Pass {
            now,
            tick: self.schedule.tick,
            attributes: &self.attributes,
            is_physical: self.config.operations == Operations::Paddr,
            unit: self.config.addr_unit,
            size_min: self.size_min,
            size_max: self.size_limit(),
            page_bytes: self.targets.first().map_or(PAGE, |target| target.levels.page()),
        };
        debug_assert!(pass.size_min <= pass.size_max, "the smallest region is never too large");
        let Outcome { ended, refusals, walked } = self.schemes.run(&pass, &mut self.targets, &mut self.spare, host);
        for (target, call, error) in refusals {
            self.events.push(Event::HostFailed { target, call, error });
        }
        self.targets.retain(|target| !ended.contains(&target.id));
        self.events.extend(ended.into_iter().map(Event::TargetGone));
        self.events.extend(walked.map(Event::TriedRegions));
    }

    /// Gives up collecting tried regions.
    pub(super) fn cancel_walk(&mut self) {
        if self.schemes.cancel_walk() {
            self.events.push(Event::WalkCancelled);
        }
    }

    /// Tune, record and reset, cut at random, follow the mappings.
    fn second_half(&mut self, due: Due, now: Instant, host: &mut dyn MonitorHost) {
        if due.aggregation {
            self.tune();
            self.schedule.next_aggregation = due.next_aggregation + self.attributes.aggr_ticks();
            self.record(now);
            for region in self.targets.iter_mut().flat_map(|target| &mut target.regions) {
                region.reset();
            }
            self.split();
        }
        if due.update {
            self.schedule.next_update = due.next_update + self.attributes.update_ticks();
            self.for_each_target(host, Self::follow_mappings);
        }
        debug_assert!(self.targets.iter().all(Target::is_in_order), "regions are ascending and disjoint");
    }

    /// PREPARE, unless no target is left, or no scheme is at work: then it sleeps until one may be.
    fn next_tick(&mut self, now: Instant, host: &mut dyn MonitorHost) {
        if let Some(first) = self.targets.first().map(|target| target.id).filter(|_| !self.schemes.is_empty()) {
            match self.schemes.wait(now, host) {
                Ok(None) => {}
                Ok(Some(wait)) => {
                    self.cancel_walk();
                    debug_assert!(wait > Duration::ZERO, "a context that is not at work sleeps");
                    self.phase = Phase::Inactive(now + wait);
                    return;
                }
                Err(error) => self.events.push(Event::HostFailed { target: first, call: "gauges", error }),
            }
        }
        self.for_each_target(host, Self::prepare);
        if self.targets.is_empty() {
            self.events.push(Event::Stopped);
            self.stop();
            return;
        }
        self.phase = Phase::Sampling(now + self.pace());
    }

    /// Time from PREPARE to CHECK.
    fn pace(&self) -> Duration {
        match self.config.sampling {
            Sampling::Spread => self.attributes.sample_interval,
            Sampling::Batch => self.attributes.aggr_interval,
        }
    }

    /// Chooses an address in each region, and the entry on the way to it whose bit is cleared now and tested a tick later.
    fn prepare(&mut self, index: usize, host: &mut dyn MonitorHost) -> Result<(), Failure> {
        let tick = self.schedule.tick;
        let target = &mut self.targets[index];
        target.drop_sample();
        let strategy = self.config.strategy.entry();
        let unit = self.config.addr_unit;
        let Target { regions, probes, levels, .. } = &mut *target;
        let random = &mut self.random;
        let draw = |region: &Region| {
            debug_assert!(!region.is_empty(), "an address is drawn from each region");
            let address = random.between(region.range.start, region.range.end) * unit.get();
            let level = match strategy.probes_upper {
                true => levels.pick(strategy, region.range.in_bytes(unit), address),
                false => Level::LEAF,
            };
            Probe { address, level }
        };
        match self.config.sampling {
            Sampling::Spread if !strategy.probes_upper => draw_leaves(regions, unit.get(), random, probes),
            Sampling::Spread => probes.extend(regions.iter().map(draw)),
            Sampling::Batch => {
                let samples = self.attributes.nr_accesses_max() as usize;
                probes.extend(regions.iter().flat_map(|region| std::iter::repeat_n(region, samples)).map(draw));
            }
        }
        if self.config.sampling == Sampling::Batch {
            batch::drop_twins(target);
        }
        if target.probes.is_empty() {
            return Ok(());
        }
        if self.config.flush == FlushPolicy::Adaptive {
            flush::add_companions(target, tick);
        }
        target.results.resize(target.probes.len(), ProbeResult::default());
        debug_assert!(
            self.config.sampling == Sampling::Batch
                || target.probes.len() == target.doubted.len() + target.regions.len(),
            "companions come first, then one probe a region"
        );
        if let Err(error) = host.clear(target.id, &target.probes, &mut target.results) {
            self.activity.dropped_samples += target.regions.len() as u64;
            target.drop_sample();
            return Err(Failure("clear", error));
        }
        if strategy.probes_upper {
            for probe in &target.probes {
                self.activity.clears[slot(probe.level)] += 1;
            }
        } else {
            self.activity.clears[slot(Level::LEAF)] += target.probes.len() as u64;
        }
        let is_flushing = match self.config.flush {
            FlushPolicy::None => false,
            FlushPolicy::Batched => true,
            FlushPolicy::Adaptive => self.activity.aggregations < self.flush_until,
        };
        if is_flushing {
            host.flush(target.id).map_err(|error| Failure("flush", error))?;
            self.activity.flushes += 1;
        }
        Ok(())
    }

    /// Tests what [`prepare`](Self::prepare) cleared.
    fn check(&mut self, host: &mut dyn MonitorHost) {
        self.highest_count = 0;
        self.for_each_target(host, |monitor, index, host| {
            monitor.check_target(index, host)?;
            monitor.walk_down(index, host)?;
            let target = &mut monitor.targets[index];
            if monitor.config.probes.is_empty() || target.probes.is_empty() {
                return Ok(());
            }
            probes::evaluate(&monitor.config.probes, target, host, &mut monitor.probe_buffers)
                .map_err(|error| Failure("has_attribute", error))
        });
    }

    fn check_target(&mut self, index: usize, host: &mut dyn MonitorHost) -> Result<(), Failure> {
        let target = &mut self.targets[index];
        if target.probes.is_empty() {
            return Ok(());
        }
        debug_assert_eq!(target.results.len(), target.probes.len(), "each probe has a place for what it sees");
        let samples = self.attributes.nr_accesses_max();
        let nr_companions = target.doubted.len();
        self.accessed.clear();
        let tested = match host.test_known(target.id, &target.probes, &mut self.accessed) {
            Ok(true) => Ok(true),
            Ok(false) => host.test(target.id, &target.probes, &mut target.results).map(|()| false),
            Err(error) => Err(error),
        };
        let is_known = tested.map_err(|error| {
            self.activity.dropped_samples += target.regions.len() as u64;
            target.drop_sample();
            Failure("test", error)
        })?;
        if is_known {
            for result in &mut target.results {
                result.seen = if result.seen == Seen::Accessed { Seen::Idle } else { result.seen };
            }
            for &place in &self.accessed {
                target.results[place].seen = Seen::Accessed;
            }
        }
        self.activity.count_tests(&target.results);
        if self.config.sampling == Sampling::Batch {
            self.activity.dropped_samples += batch::count(target);
            let counts = target.regions.iter().map(|region| region.nr_accesses);
            self.highest_count = counts.fold(self.highest_count, u32::max);
            return Ok(());
        }
        let mut highest_count = self.highest_count;
        let mut nr_unknown = 0;
        for (region, result) in target.regions.iter_mut().zip(&target.results[nr_companions..]) {
            region.level = result.level;
            match result.seen {
                Seen::Unknown => nr_unknown += 1,
                seen => region.count(seen == Seen::Accessed, samples),
            }
            highest_count = highest_count.max(region.nr_accesses);
        }
        self.highest_count = highest_count;
        self.activity.dropped_samples += nr_unknown;
        // Leaves do not contradict each other.
        if self.config.strategy.entry().probes_upper && flush::find_contradictions(target, &mut self.activity) {
            // To the end of the next aggregation: with flushes the contradiction is gone, and says nothing any more.
            self.flush_until = self.activity.aggregations + 2;
        }
        Ok(())
    }

    fn walk_down(&mut self, index: usize, host: &mut dyn MonitorHost) -> Result<(), Failure> {
        if !self.config.strategy.entry().walks_down {
            return Ok(());
        }
        let Target { id, levels, regions, probes, results, doubted, descent, .. } = &mut self.targets[index];
        let (place, pace) = ((*id, &*levels, self.size_min), (self.schedule.tick, self.config.descend));
        let failed = |error| Failure("scan_children", error);
        descent.read_due(place, pace, host, &mut self.activity).map_err(failed)?;
        if probes.is_empty() {
            return Ok(());
        }
        let nr_companions = doubted.len();
        let seen = (regions.as_slice(), &probes[nr_companions..], &results[nr_companions..]);
        descent.clear_next(place, pace, seen, host, &mut self.activity).map_err(failed)
    }

    /// Lets intervals follow their goal. Schedules are armed again only if intervals really change. The kernel does it
    /// whenever tuning wanted a change: pinned at its bounds, it never reaches a rare update of the mappings.
    fn tune(&mut self) {
        let Some(goal) = &self.attributes.intervals_goal else { return };
        if self.schedule.tick < self.schedule.next_tuning {
            return;
        }
        self.schedule.next_tuning += self.aggr_samples.saturating_mul(u64::from(goal.aggrs));
        let factor = tune::factor_bp(tune::score(&self.targets, self.aggr_samples, goal.access_bp()));
        if factor == 10_000 {
            return;
        }
        let sample_interval = tune::next_sample_interval(self.attributes.sample_interval, factor, goal);
        let aggr_interval = sample_interval.saturating_mul(self.aggr_samples);
        if (sample_interval, aggr_interval) == (self.attributes.sample_interval, self.attributes.aggr_interval) {
            return;
        }
        debug_assert!(
            Duration::ZERO < sample_interval && sample_interval <= aggr_interval,
            "tuning keeps the samples of an aggregation"
        );
        self.activity.tunings += 1;
        self.events.push(Event::Tuned { sample_interval, aggr_interval });
        self.set_attributes(super::Attributes { sample_interval, aggr_interval, ..self.attributes.clone() });
    }

    /// Makes the snapshot.
    fn record(&mut self, now: Instant) {
        self.activity.aggregations += 1;
        let unit = self.config.addr_unit;
        let snapshot = &mut self.snapshot;
        debug_assert!(snapshot.at <= now, "aggregations end one after the other");
        snapshot.elapsed = now.since(snapshot.at);
        snapshot.at = now;
        snapshot.number += 1;
        snapshot.sample_interval = self.attributes.sample_interval;
        snapshot.aggr_interval = self.attributes.aggr_interval;
        snapshot.nr_accesses_max = self.attributes.nr_accesses_max();
        snapshot.targets.clear();
        snapshot.regions.clear();
        for target in &self.targets {
            let first = snapshot.regions.len();
            snapshot.regions.extend(target.regions.iter().map(|region| RegionRecord {
                range: region.range.in_bytes(unit),
                nr_accesses: region.nr_accesses,
                age: region.age,
                probe_hits: region.probe_hits,
                level: region.level,
            }));
            snapshot.targets.push((target.id, first..snapshot.regions.len()));
        }
        let before = self.activity_before.tests;
        for (level, (now, before)) in self.activity.tests.iter().zip(before).enumerate() {
            snapshot.levels[level].tests = now.tests - before.tests;
            snapshot.levels[level].accessed = now.accessed - before.accessed;
            debug_assert!(
                snapshot.levels[level].accessed <= snapshot.levels[level].tests,
                "only what was tested was seen accessed"
            );
        }
        self.activity_before = self.activity;
    }

    /// Cuts regions: at the edges that a walk down has found, and at random.
    fn split(&mut self) {
        let nr_regions: u64 = self.targets.iter().map(|target| target.regions.len() as u64).sum();
        let nr_max = u64::from(self.attributes.max_nr_regions);
        let pieces = pieces(nr_regions, self.nr_regions_cut, nr_max);
        if pieces.is_some() {
            self.nr_regions_cut = nr_regions;
        }
        let strategy = self.config.strategy.entry();
        if pieces.is_none() && !strategy.walks_down {
            return;
        }
        let unit = self.config.addr_unit;
        let Self { targets, random, spare, size_min, .. } = self;
        let mut room = nr_max.saturating_sub(nr_regions);
        for target in targets {
            let Target { regions, levels, descent, .. } = target;
            spare.clear();
            for &region in regions.iter() {
                let before = spare.len();
                let bytes = region.range.in_bytes(unit);
                let cut = if strategy.walks_down { descent.cut(levels, bytes, *size_min) } else { Cut::Unknown };
                match (cut, pieces) {
                    (Cut::Around(used), _) if room >= 2 => {
                        let (mut rest, used) = (region, used.in_units(unit));
                        for edge in [used.start, used.end] {
                            if edge > rest.range.start && edge < rest.range.end {
                                let right = rest.split_off(edge - rest.range.start);
                                spare.push(rest);
                                rest = right;
                            }
                        }
                        spare.push(rest);
                    }
                    (Cut::Unknown, Some(pieces)) if room > 0 => {
                        let pieces = if room == 1 { 2 } else { pieces };
                        let place = |range: UnitRange, offset| {
                            (strategy.place)(levels, range.in_bytes(unit), offset, *size_min)
                        };
                        split_at_random(region, pieces, *size_min, |low, high| random.between(low, high), place, spare);
                    }
                    _ => spare.push(region),
                }
                debug_assert!(spare.len() > before, "a region leaves one piece at least");
                room -= (spare.len() - before - 1) as u64;
            }
            std::mem::swap(regions, spare);
            descent.forget();
        }
    }

    /// Reads the mappings of a process again, and makes its regions follow.
    fn follow_mappings(&mut self, index: usize, host: &mut dyn MonitorHost) -> Result<(), Failure> {
        debug_assert_eq!(self.config.operations, Operations::Vaddr, "only a whole process follows its mappings");
        let target = &mut self.targets[index];
        self.mappings.clear();
        host.mappings(target.id, &mut self.mappings).map_err(|error| Failure("mappings", error))?;
        let ranges = three_ranges(&self.mappings, target.levels.page()).and_then(|ranges| {
            ranges::validate(&ranges, self.size_min, 1)?;
            Ok(ranges)
        });
        match ranges {
            Ok(ranges) => {
                target.has_few_places = false;
                ranges::apply(&mut target.regions, &ranges, self.size_min, &mut self.spare);
            }
            Err(RangesError::TooFewGaps)
                if !self.mappings.is_empty() && (target.regions.is_empty() || target.has_few_places) =>
            {
                let ranges = separate_ranges(&self.mappings, target.levels.page().max(self.size_min));
                if !std::mem::replace(&mut target.has_few_places, true) {
                    self.events.push(Event::FewPlaces { target: target.id, places: ranges.len() });
                }
                ranges::apply(&mut target.regions, &ranges, self.size_min, &mut self.spare);
            }
            Err(why) => self.events.push(Event::NoLayout { target: target.id, why }),
        }
        Ok(())
    }

    /// Cuts all regions above the size limit, which it returns, aligned.
    fn enforce_min_nr_regions(&mut self) -> u64 {
        let limit = align_up(self.size_limit(), self.size_min);
        debug_assert!(limit >= self.size_min && limit.is_multiple_of(self.size_min), "pieces of that size are regions");
        for target in &mut self.targets {
            split_large(&mut target.regions, limit, &mut self.spare);
        }
        limit
    }

    /// No region should be larger, so that there are enough; not aligned.
    fn size_limit(&self) -> u64 {
        let total: u128 = self.targets.iter().map(Target::total).sum();
        size_limit(u64::try_from(total).unwrap_or(u64::MAX), self.attributes.min_nr_regions, self.size_min)
    }

    /// Does `what` for each target. A target that has ended is dropped; every error is reported.
    fn for_each_target(
        &mut self,
        host: &mut dyn MonitorHost,
        what: impl Fn(&mut Self, usize, &mut dyn MonitorHost) -> Result<(), Failure>,
    ) {
        let mut index = 0;
        while index < self.targets.len() {
            let target = self.targets[index].id;
            match what(self, index, host) {
                Ok(()) => {}
                Err(Failure(_, HostError::Gone(_))) => {
                    debug_assert_eq!(self.targets[index].id, target, "no target moves while one is looked at");
                    self.targets.remove(index);
                    self.events.push(Event::TargetGone(target));
                    continue;
                }
                Err(Failure(call, error)) => self.events.push(Event::HostFailed { target, call, error }),
            }
            index += 1;
        }
    }
}

/// A probe of the leaf at an address in each region, which is what most ticks draw.
fn draw_leaves(regions: &[Region], unit: u64, random: &mut Random, probes: &mut Vec<Probe>) {
    // A copy stays in registers.
    let mut chance = random.clone();
    probes.reserve(regions.len());
    for Region { range, .. } in regions {
        debug_assert!(!range.is_empty(), "an address is drawn from each region");
        probes.push(Probe { address: chance.between(range.start, range.end) * unit, level: Level::LEAF });
    }
    *random = chance;
}

/// A request that the host did not meet.
struct Failure(&'static str, HostError);
