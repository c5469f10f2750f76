//! Our scan: hot regions first, then on from the cursor of exploring, by full scans of regions or by probes
//! (docs/spec/promotion.md#s3-2).
//!
//! Departures from that section. A probe counts as a hit only where the accessed page is on a slow node, as a page that has moved
//! already needs no scan. A region with few pages is scanned rather than probed, as probes would miss them. The first probe of a
//! region is charged only for the pages that it reads, so that the first lap is over at once. Heat counts touched pages, whether
//! they are useful already or must be found again first.
//!
//! Large spaces are mostly not used at all, and tables show it. The processor sets an accessed bit in each entry that it walks through, so
//! one entry that spans 1 GiB covers all regions below it. If it was not used since the last lap they are skipped, for the price of a page
//! each; a lap over an idle space is then over within each scan. Otherwise a region is scanned if it was skipped before, and else once in
//! the time of a lap.

use super::heat::{Budget, HeatMap, Region, Sample};
use super::range_scan::{RangeScan, scan_end};
use crate::host::{AddressRange, Capabilities, HostError, Level, NodeId, Probe, ProbeResult, Seen};
use crate::monitor::Random;
use isotherm_units::{Duration, Instant, PAGE_BYTES};

/// Draws of addresses until enough of them hit a page.
const ROUNDS: u32 = 4;
/// One bit for a larger range says too little.
const UPPER_SPAN_MAX: u64 = 1 << 30;

/// The inputs of a rotating scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct RotateRules {
    pub(super) cover_ms: u64,
    pub(super) nr_probes: u32,
    pub(super) probe_above: u64,
    /// The host reports on which node a page is.
    pub(super) has_page_nodes: bool,
}

/// A scan under way.
#[derive(Clone, Debug)]
pub(super) struct Rotate {
    /// Eligible, ascending.
    areas: Vec<AddressRange>,
    budget: Budget,
    probes: bool,
    /// Table entries whose bits cover the regions below them, if the host has any: their level, and the bytes that each spans.
    upper: Option<(Level, u64)>,
    /// Hot regions that wait for their scan.
    hot: std::vec::IntoIter<usize>,
    /// Regions that were covered in this scan.
    is_seen: Vec<bool>,
    /// Bytes of the budget that are used.
    exploited: u64,
    explored: u64,
    /// Regions that the cursor passed: a lap passes all of them.
    passed: usize,
    walk: Option<Walk>,
    pub(super) useful: u64,
    /// Pages on slow nodes whose bit was set.
    pub(super) touched: u64,
}

/// A scan of a region, in parts.
#[derive(Clone, Copy, Debug)]
struct Walk {
    region: usize,
    at: u64,
    touched: u64,
    present: u64,
}

impl Rotate {
    pub(super) fn new(
        areas: Vec<AddressRange>,
        capabilities: &Capabilities,
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
            upper: upper_entries(capabilities, map.size()),
            hot: map.by_urgency(now).into_iter(),
            is_seen: vec![false; map.regions().len()],
            exploited: 0,
            explored: 0,
            passed: 0,
            walk: None,
            useful: 0,
            touched: 0,
            areas,
        }
    }

    /// One part of a region or one probe. `true` ends the scan.
    ///
    /// # Errors
    /// The space has ended.
    pub(super) fn step(
        &mut self,
        map: &mut HeatMap,
        scan: &mut RangeScan<'_>,
        rules: &RotateRules,
        random: &mut Random,
        now: Instant,
    ) -> Result<bool, HostError> {
        if self.walk.is_some() {
            self.go_on(map, scan, now)?;
            return Ok(false);
        }
        if let Some(index) = self.next_hot(map) {
            self.begin(index, map);
            self.go_on(map, scan, now)?;
            return Ok(false);
        }
        let Some(index) = self.next_in_turn(map, scan, rules, now)? else { return Ok(true) };
        let Region { bytes, sample, .. } = map.regions()[index];
        let is_first_probe = self.probes && sample.is_none();
        if self.probes && !self.is_sparse_or_hit(index, map, scan, rules, random, now)? {
            let probed = u64::from(rules.nr_probes) * PAGE_BYTES;
            self.explored += if is_first_probe { bytes.min(probed) } else { bytes };
            return Ok(false);
        }
        self.explored += bytes;
        self.begin(index, map);
        self.go_on(map, scan, now)?;
        Ok(false)
    }

    /// The next hot region, while the budget for them lasts.
    fn next_hot(&mut self, map: &HeatMap) -> Option<usize> {
        let index = self.hot.next()?;
        if !self.take_exploit(map.regions()[index].cost()) {
            self.hot = Vec::new().into_iter();
            return None;
        }
        Some(index)
    }

    /// Charges a region to the budget of hot ones, if it fits. The first of a scan always does: regions of very large spaces are
    /// larger than that budget, and would never be scanned.
    fn take_exploit(&mut self, bytes: u64) -> bool {
        let used = self.exploited + bytes;
        let fits = self.exploited == 0 || used <= self.budget.exploit;
        if fits {
            self.exploited = used;
        }
        fits
    }

    /// The next region at the cursor that was not scanned yet, while its budget and the lap last.
    ///
    /// # Errors
    /// The space has ended.
    fn next_in_turn(
        &mut self,
        map: &mut HeatMap,
        scan: &mut RangeScan<'_>,
        rules: &RotateRules,
        now: Instant,
    ) -> Result<Option<usize>, HostError> {
        while self.explored < self.budget.explore && self.passed < map.regions().len() {
            let Some(index) = map.at_cursor() else { break };
            // Taken before the cursor moves on: a scan that ends here clears no bit in vain.
            let is_used = !self.probes || self.is_entry_used(index, map, scan)?;
            map.cursor = map.regions()[index].start.saturating_add(map.size());
            self.passed += 1;
            if index + 1 == map.regions().len() {
                map.entry = None; // the next lap asks again, also where one entry is all there is
            }
            if self.is_seen[index] {
                continue;
            }
            let region = map.region(index);
            let was_quiet = std::mem::replace(&mut region.is_quiet, !is_used);
            let lap = Duration::from_ms(rules.cover_ms);
            let is_due = was_quiet || region.scanned_at.is_none_or(|last| now.since(last) >= lap);
            if self.probes && self.upper.is_some() && region.sample.is_some() && !(is_used && is_due) {
                scan.counters.regions_quiet += u64::from(!is_used);
                self.explored += PAGE_BYTES;
                continue;
            }
            return Ok(Some(index));
        }
        Ok(None)
    }

    /// Whether the table entry above a region was used since the last check. Clears its accessed bit.
    fn is_entry_used(&self, index: usize, map: &mut HeatMap, scan: &mut RangeScan<'_>) -> Result<bool, HostError> {
        let Some((level, span)) = self.upper else { return Ok(true) };
        let address = map.regions()[index].start;
        let entry = address & !(span - 1);
        if let Some((_, is_used)) = map.entry.filter(|(start, _)| *start == entry) {
            return Ok(is_used);
        }
        let mut results = [ProbeResult::default()];
        let is_used = match scan.host.clear(scan.target, &[Probe { address, level }], &mut results) {
            Ok(()) => matches!(results[0].seen, Seen::Accessed | Seen::Unknown),
            Err(gone @ HostError::Gone(_)) => return Err(gone),
            Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                scan.counters.scan_failed += 1;
                true
            }
        };
        map.entry = Some((entry, is_used));
        Ok(is_used)
    }

    fn begin(&mut self, region: usize, map: &HeatMap) {
        self.is_seen[region] = true;
        self.walk = Some(Walk { region, at: map.regions()[region].start, touched: 0, present: 0 });
    }

    /// One part of a region, and after the last part the consequences.
    fn go_on(&mut self, map: &mut HeatMap, scan: &mut RangeScan<'_>, now: Instant) -> Result<(), HostError> {
        let Some(mut walk) = self.walk.take() else { return Ok(()) };
        let end = map.regions()[walk.region].start.saturating_add(map.size());
        if let Some(range) = self.part(walk.at, end) {
            let found = scan.scan(range)?;
            self.useful += found.useful;
            self.touched += found.touched;
            walk.touched += found.touched;
            walk.present += found.present;
            walk.at = range.end;
            if self.part(walk.at, end).is_some() {
                self.walk = Some(walk);
                return Ok(());
            }
        }
        scan.counters.vma_scans += 1;
        let region = map.region(walk.region);
        region.scanned(walk.touched, walk.present, now);
        region.pages = walk.present;
        Ok(())
    }

    /// The first eligible bytes of `[from, end)`, as many as one part takes.
    fn part(&self, from: u64, end: u64) -> Option<AddressRange> {
        let area = self.areas[self.areas.partition_point(|area| area.end <= from)..].first()?;
        let start = area.start.max(from);
        let end = scan_end(start, end.min(area.end));
        (start < end).then_some(AddressRange::new(start, end))
    }

    /// Probes a region. `true`: scan it now. Its first probe only clears bits.
    fn is_sparse_or_hit(
        &mut self,
        index: usize,
        map: &mut HeatMap,
        scan: &mut RangeScan<'_>,
        rules: &RotateRules,
        random: &mut Random,
        now: Instant,
    ) -> Result<bool, HostError> {
        scan.counters.regions_probed += 1;
        let region = map.regions()[index];
        let range = AddressRange::new(region.start, region.start.saturating_add(map.size()));
        let parts = self.parts(range);
        if self.is_hit(region.sample, &parts, scan, rules)? {
            scan.counters.probes_hit += 1;
            if self.take_exploit(region.cost()) {
                return Ok(true);
            }
            // Its bits stay, for the scan that comes next.
            map.region(index).hit(now);
            return Ok(false);
        }
        let (sample, present) = arm(&parts, rules.nr_probes, scan, random)?;
        map.region(index).sample = Some(sample);
        if present < rules.nr_probes.div_ceil(2) {
            return Ok(true);
        }
        map.region(index).scanned(0, 1, now);
        Ok(false)
    }

    /// Whether a page of the sample was accessed on a slow node. Bits are left for the scan that may follow.
    fn is_hit(
        &self,
        sample: Option<Sample>,
        parts: &[AddressRange],
        scan: &mut RangeScan<'_>,
        rules: &RotateRules,
    ) -> Result<bool, HostError> {
        let Some(sample) = sample else { return Ok(false) };
        let mut draw = Draw::new(parts, sample.seed);
        let probes = draw.probes(sample.draws);
        let mut results = vec![ProbeResult::default(); probes.len()];
        match scan.host.test(scan.target, &probes, &mut results) {
            Ok(()) => {}
            Err(gone @ HostError::Gone(_)) => return Err(gone),
            Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                scan.counters.scan_failed += 1;
                return Ok(false);
            }
        }
        let accessed = probes.iter().zip(&results).filter(|(_, result)| result.seen == Seen::Accessed);
        let accessed: Vec<u64> = accessed.map(|(probe, _)| probe.address).collect();
        on_slow_node(&accessed, scan, rules)
    }

    /// The eligible parts of a region.
    fn parts(&self, region: AddressRange) -> Vec<AddressRange> {
        let first = self.areas.partition_point(|area| area.end <= region.start);
        let overlapping = self.areas[first..].iter().take_while(|area| area.start < region.end);
        overlapping.map(|area| AddressRange::new(area.start.max(region.start), area.end.min(region.end))).collect()
    }
}

/// The highest entries that span no more than 1 GiB, and a region at least, among levels whose accessed bits are meaningful.
fn upper_entries(capabilities: &Capabilities, region_bytes: u64) -> Option<(Level, u64)> {
    let levels = (1..=capabilities.highest_level.0).rev().map(Level);
    let spans = levels.filter_map(|level| Some((level, u64::try_from(capabilities.span(level)?).ok()?)));
    spans.into_iter().find(|&(_, span)| (region_bytes.max(1)..=UPPER_SPAN_MAX).contains(&span))
}

/// Clears the bits of pages drawn at random, until enough draws have hit a page. Returns how many did.
fn arm(
    parts: &[AddressRange],
    nr_probes: u32,
    scan: &mut RangeScan<'_>,
    random: &mut Random,
) -> Result<(Sample, u32), HostError> {
    let mut sample = Sample { seed: random.between(0, u64::MAX), draws: 0 };
    let mut draw = Draw::new(parts, sample.seed);
    let mut present = 0;
    for _ in 0..ROUNDS {
        let wanted = nr_probes.saturating_sub(present);
        if wanted == 0 {
            break;
        }
        let probes = draw.probes(wanted);
        let mut results = vec![ProbeResult::default(); probes.len()];
        match scan.host.clear(scan.target, &probes, &mut results) {
            Ok(()) => {}
            Err(gone @ HostError::Gone(_)) => return Err(gone),
            Err(HostError::NotHere(_) | HostError::Failed(_)) => {
                scan.counters.scan_failed += 1;
                break;
            }
        }
        sample.draws += wanted;
        let met = results.iter().filter(|result| matches!(result.seen, Seen::Accessed | Seen::Idle)).count();
        present += u32::try_from(met).expect("a few draws");
    }
    Ok((sample, present))
}

/// Draws of addresses that a seed repeats.
struct Draw<'a> {
    parts: &'a [AddressRange],
    bytes: u64,
    random: Random,
}

impl<'a> Draw<'a> {
    fn new(parts: &'a [AddressRange], seed: u64) -> Self {
        Self { parts, bytes: parts.iter().map(|part| part.len()).sum(), random: Random::new(seed) }
    }

    /// The next draws. Of several addresses in the same page one is kept.
    fn probes(&mut self, draws: u32) -> Vec<Probe> {
        let draw = |_| nth_byte(self.parts, self.random.between(0, self.bytes));
        let mut addresses: Vec<u64> = (0..draws).map(draw).collect();
        addresses.sort_unstable();
        addresses.dedup_by_key(|address| *address / PAGE_BYTES);
        addresses.into_iter().map(|address| Probe { address, level: Level::LEAF }).collect()
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

/// Whether one of these pages is on a slow node; if the host does not know the nodes, whether there are any pages.
fn on_slow_node(addresses: &[u64], scan: &mut RangeScan<'_>, rules: &RotateRules) -> Result<bool, HostError> {
    if addresses.is_empty() || !rules.has_page_nodes {
        return Ok(!addresses.is_empty());
    }
    let mut nodes: Vec<Option<NodeId>> = vec![None; addresses.len()];
    match scan.host.page_nodes(scan.target, addresses, &mut nodes) {
        Ok(()) => {}
        Err(gone @ HostError::Gone(_)) => return Err(gone),
        Err(HostError::NotHere(_) | HostError::Failed(_)) => {
            scan.counters.scan_failed += 1;
            return Ok(true);
        }
    }
    let slow = |node: NodeId| scan.filter.nodes.iter().any(|tally| tally.node == node && !tally.is_top_tier);
    Ok(nodes.into_iter().flatten().any(slow))
}
