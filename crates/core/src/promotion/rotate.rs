//! Our scan: hot regions first, then on from where exploring stood, by looks or by probes (promotion.md section 3.2).
//!
//! Departures from that section: a probe counts as a hit only where the accessed page is on a slow node, as what has moved already
//! needs no look; a region with few pages is looked at rather than probed, for probes would miss them; the first look at a region
//! only takes bits away, as what was touched at some time since the process began is not yet hot.

use super::gate::PageRule;
use super::heat::{Budget, HeatMap, Region};
use super::look::{LOOK_BYTES, Look};
use crate::host::{AddressRange, HostError, Level, NodeId, Probe, Seen, Sight};
use crate::monitor::Random;
use isotherm_units::Instant;

/// Draws of addresses until enough of them met a page.
const ROUNDS: u32 = 4;

/// What a rotating scan goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct RotateRules {
    pub(super) rule: PageRule,
    pub(super) cover_ms: u64,
    pub(super) nr_probes: u32,
    pub(super) probe_above: u64,
    /// The host tells on which node a page is.
    pub(super) has_page_nodes: bool,
}

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Rotate {
    /// Eligible, ascending.
    areas: Vec<AddressRange>,
    budget: Budget,
    probes: bool,
    /// Hot regions that wait for their look.
    hot: std::vec::IntoIter<usize>,
    /// Regions that had their look in this scan.
    is_seen: Vec<bool>,
    /// Bytes of the budget that are used.
    exploited: u64,
    explored: u64,
    /// Regions that the cursor passed: all of them are a lap.
    passed: usize,
    walk: Option<Walk>,
    pub(super) useful: u64,
}

/// A look at a region, in parts.
#[derive(Clone, Copy, Debug)]
struct Walk {
    region: usize,
    at: u64,
    only_arms: bool,
    useful: u64,
    present: u64,
}

impl Rotate {
    pub(super) fn new(
        areas: Vec<AddressRange>,
        map: &mut HeatMap,
        (scan_size, period_ms): (u64, u64),
        rules: &RotateRules,
        now: Instant,
    ) -> Self {
        map.update(&areas);
        let eligible = areas.iter().fold(0u64, |sum, area| sum.saturating_add(area.len()));
        Self {
            budget: Budget::new(scan_size, eligible, period_ms, rules.cover_ms),
            probes: eligible > rules.probe_above,
            hot: map.by_urgency(now).into_iter(),
            is_seen: vec![false; map.regions().len()],
            exploited: 0,
            explored: 0,
            passed: 0,
            walk: None,
            useful: 0,
            areas,
        }
    }

    /// One look or one probe. `true` ends the scan.
    ///
    /// # Errors
    /// The space is gone.
    pub(super) fn step(
        &mut self,
        map: &mut HeatMap,
        look: &mut Look<'_>,
        rules: &RotateRules,
        random: &mut Random,
        now: Instant,
    ) -> Result<bool, HostError> {
        if self.walk.is_some() {
            self.go_on(map, look, now)?;
            return Ok(false);
        }
        if let Some(index) = self.next_hot(map) {
            self.begin(index, map, rules);
            self.go_on(map, look, now)?;
            return Ok(false);
        }
        let Some(index) = self.next_in_turn(map) else { return Ok(true) };
        self.explored += map.regions()[index].bytes;
        if self.probes && !self.is_sparse_or_hit(index, map, look, rules, random, now)? {
            return Ok(false);
        }
        self.begin(index, map, rules);
        self.go_on(map, look, now)?;
        Ok(false)
    }

    /// The next hot region, while the budget for them lasts.
    fn next_hot(&mut self, map: &HeatMap) -> Option<usize> {
        let index = self.hot.next()?;
        let used = self.exploited + map.regions()[index].bytes;
        if used > self.budget.exploit {
            self.hot = Vec::new().into_iter();
            return None;
        }
        self.exploited = used;
        Some(index)
    }

    /// The next region at the cursor that had no look yet, while its budget and the lap last.
    fn next_in_turn(&mut self, map: &mut HeatMap) -> Option<usize> {
        while self.explored < self.budget.explore && self.passed < map.regions().len() {
            let index = map.at_cursor()?;
            map.cursor = map.regions()[index].start.saturating_add(map.size());
            self.passed += 1;
            if !self.is_seen[index] {
                return Some(index);
            }
        }
        None
    }

    fn begin(&mut self, region: usize, map: &HeatMap, rules: &RotateRules) {
        let Region { start, is_armed, .. } = map.regions()[region];
        self.is_seen[region] = true;
        let only_arms = !is_armed && rules.rule == PageRule::SecondAccess;
        self.walk = Some(Walk { region, at: start, only_arms, useful: 0, present: 0 });
    }

    /// One part of the look at a region, and what follows from it when it is the last.
    fn go_on(&mut self, map: &mut HeatMap, look: &mut Look<'_>, now: Instant) -> Result<(), HostError> {
        let Some(mut walk) = self.walk.take() else { return Ok(()) };
        let end = map.regions()[walk.region].start.saturating_add(map.size());
        if let Some(range) = self.part(walk.at, end) {
            let found = look.scan(range, walk.only_arms)?;
            walk.useful += found.useful;
            walk.present += found.present;
            walk.at = range.end;
            if self.part(walk.at, end).is_some() {
                self.walk = Some(walk);
                return Ok(());
            }
        }
        look.counters.vma_scans += 1;
        self.useful += walk.useful;
        let region = map.region(walk.region);
        region.looked(walk.useful, walk.present, now);
        (region.is_armed, region.is_probed) = (true, true);
        Ok(())
    }

    /// The first eligible bytes of `[from, end)`, as many as one look takes.
    fn part(&self, from: u64, end: u64) -> Option<AddressRange> {
        let area = self.areas[self.areas.partition_point(|area| area.end <= from)..].first()?;
        let start = area.start.max(from);
        let end = end.min(area.end).min(start.saturating_add(LOOK_BYTES));
        (start < end).then_some(AddressRange::new(start, end))
    }

    /// Probes a region. `true`: look at it now. Its first probe only takes bits away.
    fn is_sparse_or_hit(
        &mut self,
        index: usize,
        map: &mut HeatMap,
        look: &mut Look<'_>,
        rules: &RotateRules,
        random: &mut Random,
        now: Instant,
    ) -> Result<bool, HostError> {
        let start = map.regions()[index].start;
        let range = AddressRange::new(start, start.saturating_add(map.size()));
        let (present, accessed) = self.probe(range, rules.nr_probes, look, random)?;
        look.counters.regions_probed += 1;
        if present < rules.nr_probes.div_ceil(2) {
            return Ok(true);
        }
        let is_hit = on_slow_node(&accessed, look, rules)?;
        let region = map.region(index);
        let is_first = !std::mem::replace(&mut region.is_probed, true);
        if is_first || !is_hit {
            region.looked(0, 1, now);
            return Ok(false);
        }
        look.counters.probes_hit += 1;
        let used = self.exploited + region.bytes;
        if used > self.budget.exploit {
            region.hit(now);
            return Ok(false);
        }
        self.exploited = used;
        Ok(true)
    }

    /// Clears the bits of pages drawn at random. How many pages that met, and the addresses of those whose bit was set.
    fn probe(
        &self,
        region: AddressRange,
        nr_probes: u32,
        look: &mut Look<'_>,
        random: &mut Random,
    ) -> Result<(u32, Vec<u64>), HostError> {
        let parts = self.parts(region);
        let bytes: u64 = parts.iter().map(|part| part.len()).sum();
        let (mut present, mut accessed) = (0, Vec::new());
        for _ in 0..ROUNDS {
            let wanted = nr_probes - present;
            if wanted == 0 {
                break;
            }
            let draw = |_| Probe { address: nth_byte(&parts, random.between(0, bytes)), level: Level::LEAF };
            let mut probes: Vec<Probe> = (0..wanted).map(draw).collect();
            probes.sort_by_key(|probe| probe.address);
            probes.dedup_by_key(|probe| probe.address >> 12);
            let mut sights = vec![Sight::default(); probes.len()];
            match look.host.clear(look.target, &probes, &mut sights) {
                Ok(()) => {}
                Err(gone @ HostError::Gone(_)) => return Err(gone),
                Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                    look.counters.scan_failed += 1;
                    break;
                }
            }
            for (probe, sight) in probes.iter().zip(&sights) {
                present += u32::from(matches!(sight.seen, Seen::Accessed | Seen::Idle));
                if sight.seen == Seen::Accessed {
                    accessed.push(probe.address);
                }
            }
        }
        Ok((present, accessed))
    }

    /// The eligible parts of a region.
    fn parts(&self, region: AddressRange) -> Vec<AddressRange> {
        let first = self.areas.partition_point(|area| area.end <= region.start);
        let overlapping = self.areas[first..].iter().take_while(|area| area.start < region.end);
        overlapping.map(|area| AddressRange::new(area.start.max(region.start), area.end.min(region.end))).collect()
    }
}

/// The byte with that number, counted over all parts.
fn nth_byte(parts: &[AddressRange], mut nth: u64) -> u64 {
    for part in parts {
        if nth < part.len() {
            return part.start + nth;
        }
        nth -= part.len();
    }
    parts.last().map_or(0, |part| part.end - 1)
}

/// Whether one of these pages is on a slow node; where the host cannot tell, whether there are any.
fn on_slow_node(addresses: &[u64], look: &mut Look<'_>, rules: &RotateRules) -> Result<bool, HostError> {
    if addresses.is_empty() || !rules.has_page_nodes {
        return Ok(!addresses.is_empty());
    }
    let mut nodes: Vec<Option<NodeId>> = vec![None; addresses.len()];
    match look.host.page_nodes(look.target, addresses, &mut nodes) {
        Ok(()) => {}
        Err(gone @ HostError::Gone(_)) => return Err(gone),
        Err(HostError::NotHere(_) | HostError::Failed(_)) => {
            look.counters.scan_failed += 1;
            return Ok(true);
        }
    }
    let slow = |node: NodeId| look.gate.nodes.iter().any(|tally| tally.node == node && !tally.is_top_tier);
    Ok(nodes.into_iter().flatten().any(slow))
}
