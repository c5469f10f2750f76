//! Changes while running: attributes, and whole configurations (docs/spec/monitoring.md#s11).
//!
//! A configuration is checked whole when it is given. The new state is built from it in one step, at the point of a tick
//! where the kernel serves its control calls. The kernel changes the running context piece by piece and stops it when a piece
//! fails.

use super::attrs::Attributes;
use super::config::{MonitorConfig, Operations};
use super::error::MonitorError;
use super::level::Levels;
use super::ranges;
use super::region::{HIT_BP, Region, convert_count};
use super::snapshot::Event;
use super::target::Target;
use super::{Monitor, admit};
use crate::host::{MonitorHost, TargetId};
use crate::vocabulary::UnitRange;

/// One entry of a new list of targets. Entries meet the targets that are there by their place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetChange {
    /// The target at this place becomes `id`; without one there, it is added.
    Set {
        /// The number that the host knows it by.
        id: TargetId,
        /// The ranges that it covers from now on. If empty, the target keeps its present ranges, with all results.
        ranges: Vec<UnitRange>,
    },
    /// The target at this place is removed; later targets keep their places until all are matched.
    Remove,
}

/// A checked change that waits for its point in the tick.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    config: MonitorConfig,
    /// `None`: targets stay as they are, with levels for the new configuration.
    targets: Option<Vec<PlannedTarget>>,
    /// New levels of the targets that stay.
    levels: Vec<(TargetId, Levels)>,
    size_min: u64,
}

impl Plan {
    pub(super) fn set_paused(&mut self, paused: bool) {
        self.config.paused = paused;
    }
}

#[derive(Clone, Debug)]
struct PlannedTarget {
    /// Target whose regions it takes over.
    from: Option<TargetId>,
    id: TargetId,
    levels: Levels,
    ranges: Vec<UnitRange>,
}

impl Monitor {
    /// Puts `config`, and with `Some` a new list of targets, in force at the next tick's service point (at once while not running).
    /// Unchanged parts keep their results: a commit without any change changes nothing, also where tuning has moved the intervals (the
    /// kernel would set them back). A later commit replaces an earlier one that still waits.
    ///
    /// # Errors
    /// The fault of the new configuration; then nothing changes.
    pub fn commit(
        &mut self,
        config: MonitorConfig,
        targets: Option<&[TargetChange]>,
        host: &dyn MonitorHost,
    ) -> Result<(), MonitorError> {
        config.validate()?;
        let admitted = |id| admit(&config, id, host).map(|levels| (id, levels));
        let mut levels = Vec::new();
        let planned = match targets {
            None => {
                levels = self.targets.iter().map(|target| admitted(target.id)).collect::<Result<Vec<_>, _>>()?;
                None
            }
            Some(changes) => Some(self.plan_targets(changes, admitted)?),
        };
        let nr_targets = planned.as_ref().map_or(self.targets.len(), Vec::len);
        if config.operations == Operations::Paddr && nr_targets > 1 {
            let second = planned.as_ref().map_or(self.targets[1].id, |planned| planned[1].id);
            return Err(MonitorError::SecondPhysicalTarget(second));
        }
        let first = planned.as_ref().and_then(|planned| planned.first()).map(|planned| &planned.levels);
        let first = first.or(levels.first().map(|(_, levels)| levels));
        let size_min = first.map_or(self.size_min, |levels| config.size_min(levels));
        let wanted = |id| self.targets.iter().find(|target| target.id == id).map_or(&[][..], |target| &target.wanted);
        let covered: Vec<(TargetId, &[UnitRange])> = match &planned {
            None => self.targets.iter().map(|target| (target.id, &target.wanted[..])).collect(),
            Some(planned) => {
                let kept = |planned: &PlannedTarget| planned.from.filter(|_| planned.ranges.is_empty()).map(wanted);
                planned.iter().map(|planned| (planned.id, kept(planned).unwrap_or(&planned.ranges))).collect()
            }
        };
        for (target, ranges) in covered {
            ranges::validate(ranges, size_min, config.addr_unit.get())
                .map_err(|source| MonitorError::Ranges { target, source })?;
            if ranges.is_empty() && config.operations != Operations::Vaddr {
                return Err(MonitorError::RangesMissing { target, operations: config.operations.name() });
            }
        }
        debug_assert!(size_min.is_power_of_two(), "ranges are aligned by masks");
        self.pending = Some(Plan { config, targets: planned, levels, size_min });
        if !self.is_running() {
            self.serve();
        }
        Ok(())
    }

    fn plan_targets(
        &self,
        changes: &[TargetChange],
        admitted: impl Fn(TargetId) -> Result<(TargetId, Levels), MonitorError>,
    ) -> Result<Vec<PlannedTarget>, MonitorError> {
        let mut planned: Vec<PlannedTarget> = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let old = self.targets.get(index).map(|target| target.id);
            match change {
                TargetChange::Remove if old.is_none() => {
                    return Err(MonitorError::NothingToTakeAway { index, nr_targets: self.targets.len() });
                }
                TargetChange::Remove => {}
                TargetChange::Set { id, .. } if planned.iter().any(|other| other.id == *id) => {
                    return Err(MonitorError::TargetTwice(*id));
                }
                TargetChange::Set { id, ranges } => {
                    let (id, levels) = admitted(*id)?;
                    planned.push(PlannedTarget { from: old, id, levels, ranges: ranges.clone() });
                }
            }
        }
        Ok(planned)
    }

    /// Puts a waiting commit in force.
    pub(super) fn serve(&mut self) {
        let Some(Plan { config, targets, levels, size_min }) = self.pending.take() else { return };
        debug_assert!(size_min.is_power_of_two(), "ranges are aligned by masks");
        debug_assert!(targets.is_none() || levels.is_empty(), "a new list of targets brings their levels itself");
        self.size_min = size_min;
        for (id, levels) in levels {
            if let Some(target) = self.targets.iter_mut().find(|target| target.id == id) {
                target.levels = levels;
            }
        }
        if let Some(planned) = targets {
            self.replace_targets(planned);
        }
        self.schemes.commit(&config.schemes, self.schedule.tick, &self.attributes);
        // Compared with what was asked for before, not with what tuning has made of it.
        if config.attributes != self.config.attributes {
            self.aggr_samples = config.attributes.aggr_ticks();
            self.set_attributes(config.attributes.clone());
        }
        self.config = config;
        self.events.push(Event::Committed);
        debug_assert!(self.aggr_samples > 0, "an aggregation holds one sample at least");
    }

    fn replace_targets(&mut self, planned: Vec<PlannedTarget>) {
        let mut old = std::mem::take(&mut self.targets);
        for PlannedTarget { from, id, levels, ranges } in planned {
            let place = from.and_then(|from| old.iter().position(|target| target.id == from));
            let mut target = match place {
                Some(place) => Target { id, levels, ..old.remove(place) },
                // It ended while the change waited, and that was reported.
                None if from == Some(id) => continue,
                None => Target::new(id, levels, ranges.clone()),
            };
            target.descent.forget();
            if !ranges.is_empty() {
                ranges::apply(&mut target.regions, &ranges, self.size_min, &mut self.spare);
                target.wanted = ranges;
            }
            debug_assert!(
                self.targets.iter().all(|other| other.id != id),
                "the plan refused a target that is there twice"
            );
            self.targets.push(target);
        }
    }

    /// Puts `new` in force: converts results and arms all schedules again. Any difference does that, as in the kernel; in the
    /// middle of an aggregation the samples so far are given up.
    pub(super) fn set_attributes(&mut self, new: Attributes) {
        debug_assert!(new.sample_interval <= new.aggr_interval, "an aggregation holds one sample at least");
        let is_aggregating = self.schedule.tick < self.schedule.next_aggregation;
        let convert = Conversion::between(&self.attributes, &new);
        for region in self.targets.iter_mut().flat_map(|target| &mut target.regions) {
            convert.apply(region, is_aggregating);
        }
        self.schedule.next_aggregation = self.schedule.tick + new.aggr_ticks();
        self.schedule.next_update = self.schedule.tick + new.update_ticks();
        self.schemes.arm(self.schedule.tick, &new);
        self.attributes = new;
        debug_assert!(self.schedule.tick < self.schedule.next_aggregation, "the next aggregation is yet to come");
    }
}

/// How results under old attributes read under new ones.
struct Conversion {
    max_old: u32,
    max_new: u32,
    aggr_ns_old: u64,
    aggr_ns_new: u64,
}

impl Conversion {
    fn between(old: &Attributes, new: &Attributes) -> Self {
        debug_assert!(new.aggr_interval.ns() > 0, "ages are counted in aggregations, which take time");
        Self {
            max_old: old.nr_accesses_max(),
            max_new: new.nr_accesses_max(),
            aggr_ns_old: old.aggr_interval.ns(),
            aggr_ns_new: new.aggr_interval.ns(),
        }
    }

    fn apply(&self, region: &mut Region, is_aggregating: bool) {
        let converted = |count| convert_count(count, self.max_old, self.max_new);
        if is_aggregating {
            region.last_nr_accesses = converted(region.last_nr_accesses);
            region.nr_accesses_bp = region.last_nr_accesses.wrapping_mul(HIT_BP);
            region.nr_accesses = 0;
        } else {
            region.nr_accesses = converted(region.nr_accesses);
            region.nr_accesses_bp = region.nr_accesses.wrapping_mul(HIT_BP);
        }
        let age = u128::from(region.age) * u128::from(self.aggr_ns_old) / u128::from(self.aggr_ns_new.max(1));
        region.age = u32::try_from(age).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;
    use isotherm_units::Duration;

    fn attributes(sample_us: u64, aggr_us: u64) -> Attributes {
        Attributes {
            sample_interval: Duration::from_us(sample_us),
            aggr_interval: Duration::from_us(aggr_us),
            ..Attributes::default()
        }
    }

    /// docs/spec/monitoring.md#s17, examples 22 to 26 and 45.
    #[test]
    fn results_are_converted_to_new_intervals() {
        // (example, old, new, count, age, new count, new age)
        let table = [
            (22, (10, 1000), (100, 10_000), (15, 20), (15, 2)),
            (23, (10, 1000), (1, 1000), (15, 2), (150, 2)),
            (24, (10, 1000), (1, 100), (150, 2), (150, 20)),
            (25, (1000, 30_000), (2000, 60_000), (7, 0), (6, 0)),
            (26, (5000, 100_000), (50_000, 100_000), (3, 0), (0, 0)),
            (45, (5000, 100_000), (10_000, 200_000), (0, 13), (0, 6)),
        ];
        for (example, old, new, (count, age), expected) in table {
            let mut converted = region(0, 1, count, age);
            Conversion::between(&attributes(old.0, old.1), &attributes(new.0, new.1)).apply(&mut converted, false);
            assert_eq!((converted.nr_accesses, converted.age), expected, "example {example}");
            assert_eq!(converted.nr_accesses_bp, expected.0 * HIT_BP, "example {example}");
        }
    }

    #[test]
    fn in_the_middle_of_an_aggregation_the_samples_so_far_are_given_up() {
        let mut partial = Region { last_nr_accesses: 15, ..region(0, 1, 7, 20) };
        Conversion::between(&attributes(10, 1000), &attributes(1, 1000)).apply(&mut partial, true);
        assert_eq!((partial.nr_accesses, partial.last_nr_accesses, partial.nr_accesses_bp), (0, 150, 1_500_000));
    }
}
