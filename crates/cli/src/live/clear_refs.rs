//! `clear_refs` and `smaps` as a source: a number for each mapping of each process.

use std::collections::BTreeMap;

use isotherm_core::host::{AddressRange, Level};
use isotherm_core::monitor::RegionRecord;
use isotherm_daemon::{Finding, RegionLook, Source, SourceError};
use isotherm_linux::{ClearRefs, ClearedPages, Family, LiveError, Member, Process, Referenced, Root};
use isotherm_units::{Duration, Instant};

use super::to_cli;
use crate::error::CliError;

/// Count of a mapping whose resident pages were all accessed: counts are percentages.
pub(crate) const COUNTS: u64 = 100;

/// Counts that differ by less keep the age of a mapping.
const SIMILAR: u32 = 10;

/// Sweeps of all members of a family.
#[derive(Debug)]
pub(crate) struct Sweeping {
    root: Root,
    family: Family,
    members: BTreeMap<Member, Swept>,
    next_number: u32,
    /// Interval as configured, and as stretched.
    interval: Duration,
    stretch: u32,
    next: Instant,
    ended: bool,
}

#[derive(Debug)]
struct Swept {
    /// Index of the target, once it is announced.
    target: Option<u32>,
    process: Process,
    sweeps: ClearRefs,
    last: Option<Instant>,
    before: Vec<RegionRecord>,
}

impl Sweeping {
    /// Starts at `now`; the first result comes an interval later.
    pub(crate) fn start(interval: Duration, root: &Root, family: Family, now: Instant) -> Result<Self, CliError> {
        let mut family = family;
        let first = family.update().map_err(to_cli)?;
        if first.came.is_empty() {
            return Err(CliError::failed("there is no process to watch: the group is empty, or all have ended"));
        }
        let mut sweeping = Self {
            root: root.clone(),
            family,
            members: BTreeMap::new(),
            next_number: 0,
            interval: interval.max(Duration::from_secs(1)),
            stretch: 1,
            next: now,
            ended: false,
        };
        let mut refusal = None;
        for member in first.came {
            if let Err(error) = sweeping.add(member) {
                refusal = Some(error);
            }
        }
        match refusal {
            Some(error) if sweeping.members.is_empty() => Err(to_cli(error)),
            _ => Ok(sweeping),
        }
    }

    fn add(&mut self, member: Member) -> Result<(), LiveError> {
        let process = Process::open(&self.root, member.pid)?;
        let swept =
            Swept { target: None, process, sweeps: ClearRefs::new(ClearedPages::All), last: None, before: Vec::new() };
        self.members.insert(member, swept);
        Ok(())
    }

    fn follow(&mut self, found: &mut Vec<Finding>) -> Result<(), LiveError> {
        let changes = self.family.update()?;
        let mut again = Vec::new();
        self.members.retain(|member, swept| {
            let stays = !changes.went.contains(member) && swept.process.check().is_ok();
            if !stays {
                found.extend(swept.target.map(|target| Finding::Went { target }));
                if !changes.went.contains(member) {
                    again.push(*member);
                }
            }
            stays
        });
        for member in changes.came.into_iter().chain(again) {
            // Ended already, or not readable for us.
            let _ = self.add(member);
        }
        Ok(())
    }
}

impl Source for Sweeping {
    fn poll_timeout(&self) -> Option<Instant> {
        (!self.ended).then_some(self.next)
    }

    fn look(&mut self, now: Instant, found: &mut Vec<Finding>) -> Result<(), SourceError> {
        if now < self.next {
            return Ok(());
        }
        self.follow(found).map_err(|error| SourceError::Failed(Box::new(error)))?;
        let interval = self.interval.saturating_mul(u64::from(self.stretch));
        self.next = now + interval;
        for swept in self.members.values_mut() {
            let referenced = match swept.sweeps.sweep(&swept.process, now) {
                Ok(Some(referenced)) => referenced,
                // Too large for such a short interval: it is swept at its next turn.
                Ok(None) => continue,
                Err(LiveError::Gone(_)) => continue,
                Err(error) => return Err(SourceError::Failed(Box::new(error))),
            };
            // The first sweep finds accesses from before any interval.
            let Some(last) = swept.last.replace(now) else { continue };
            let target = *swept.target.get_or_insert_with(|| {
                let target = self.next_number;
                self.next_number += 1;
                let name = swept.process.name().to_owned();
                found.push(Finding::Came { target, pid: Some(swept.process.pid()), name });
                target
            });
            let regions = regions(&referenced, &swept.before);
            swept.before.clone_from(&regions);
            let elapsed = now.since(last);
            found.push(Finding::Regions(RegionLook {
                target,
                at: now,
                elapsed,
                sample_interval: Duration::from_ns(interval.ns() / COUNTS),
                aggr_interval: interval,
                regions,
            }));
        }
        if self.members.is_empty() {
            self.ended = true;
            return Err(SourceError::Gone("all that was watched has ended".to_owned()));
        }
        Ok(())
    }

    fn stretch(&mut self, stretch: u32, _now: Instant) -> Result<(), SourceError> {
        self.stretch = stretch;
        Ok(())
    }
}

/// The resident parts of mappings, as regions that begin where their mapping does; ages continue if a mapping with a similar count was there before.
fn regions(referenced: &[Referenced], before: &[RegionRecord]) -> Vec<RegionRecord> {
    let resident = referenced.iter().filter(|mapping| mapping.resident_bytes > 0 && !mapping.range.is_empty());
    resident
        .map(|mapping| {
            let share = u128::from(mapping.referenced_bytes) * u128::from(COUNTS);
            let share = share.div_ceil(u128::from(mapping.resident_bytes)).min(u128::from(COUNTS));
            let nr_accesses = u32::try_from(share).unwrap_or(0);
            let same = before.iter().find(|region| region.range.start == mapping.range.start);
            let is_same = |region: &&RegionRecord| {
                region.nr_accesses.abs_diff(nr_accesses) < SIMILAR && (region.nr_accesses == 0) == (nr_accesses == 0)
            };
            let age = same.filter(is_same).map_or(0, |region| region.age.saturating_add(1));
            let resident = mapping.resident_bytes.min(mapping.range.len());
            let range = AddressRange::new(mapping.range.start, mapping.range.start + resident);
            RegionRecord { range, nr_accesses, age, level: Level::LEAF, ..RegionRecord::default() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn mappings_become_regions_with_ages() {
        let mapping = |start: u64, resident: u64, referenced: u64| Referenced {
            range: AddressRange::new(start, start + 0x10_0000),
            resident_bytes: resident,
            referenced_bytes: referenced,
        };
        let first = regions(&[mapping(0, 4096 * 4, 4096), mapping(1 << 30, 0, 0), mapping(2 << 30, 8192, 0)], &[]);
        let shown = |regions: &[RegionRecord]| {
            regions.iter().map(|region| (region.range.start, region.nr_accesses, region.age)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&first), [(0, 25, 0), (2 << 30, 0, 0)], "what is not resident is no region");
        assert_eq!(first[0].range, AddressRange::new(0, 4096 * 4), "of a large mapping what is resident");
        let second = regions(&[mapping(0, 4096 * 4, 4096), mapping(2 << 30, 8192, 1)], &first);
        assert_eq!(shown(&second), [(0, 25, 1), (2 << 30, 1, 0)], "a first use ends an age");
        assert_eq!(shown(&regions(&[mapping(0, 1, u64::MAX)], &second)), [(0, 100, 0)]);
    }
}
