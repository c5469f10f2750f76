//! One pass: all regions are shown to all schemes that are due (docs/spec/schemes.md#s4).

use super::engine::{Engine, Slot, Walk};
use super::filter::{Alignment, Verdict, judge, rejects_unmatched};
use super::goal;
use super::outcomes::Reason;
use super::pattern::Resolved;
use super::priority::Histogram;
use super::quota::{Grain, Score};
use super::report::TriedRegion;
use super::walk::{Rest, walk};
use crate::host::{AddressRange, Applied, HostError, MonitorHost, NodeId, Order, TargetId};
use crate::monitor::{Attributes, HIT_BP, Region, Target, align_down};
use crate::vocabulary::{Action, PageFilter, PageFilters, PageTest, Scorer};
use isotherm_units::{Bytes, Instant};

/// Time, regions and limits of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) now: Instant,
    pub(crate) tick: u64,
    pub(crate) attributes: &'a Attributes,
    pub(crate) is_physical: bool,
    /// Bytes of an address unit.
    pub(crate) unit: Bytes,
    /// The smallest region in address units.
    pub(crate) size_min: u64,
    /// No regions are joined above this size in address units.
    pub(crate) size_max: u64,
    pub(crate) page_bytes: u64,
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Targets that turned out to have ended.
    pub(crate) ended: Vec<TargetId>,
    /// Refusals of the host: the first of each scheme.
    pub(crate) refusals: Vec<(TargetId, &'static str, HostError)>,
    /// Tried regions, once each scheme had a pass since they were asked for.
    pub(crate) walked: Option<Vec<TriedRegion>>,
}

/// A due scheme in the units of this pass.
struct Plan {
    pattern: Resolved,
    scorer: Scorer,
    filter: PageFilters,
    /// Filters for regions that the core layer has let through without any.
    no_filters: PageFilters,
    has_refused: bool,
}

/// The result for a region.
enum End {
    For(Reason),
    Filtered(Verdict),
}

impl Pass<'_> {
    pub(crate) fn grain(&self) -> Grain {
        Grain { region_bytes: self.size_min.saturating_mul(self.unit.get()), page_bytes: self.page_bytes }
    }

    fn alignment(&self) -> Alignment {
        Alignment { unit: self.unit, size_min: self.size_min }
    }

    fn bytes(&self, region: &Region) -> u64 {
        region.len().saturating_mul(self.unit.get())
    }

    fn byte_range(&self, region: &Region) -> AddressRange {
        region.range.in_bytes(self.unit)
    }
}

impl Engine {
    /// Runs a pass of the schemes that are due; `spare` is scratch space. Deactivated schemes are armed again together with the others.
    pub(crate) fn run(
        &mut self,
        pass: &Pass<'_>,
        targets: &mut [Target],
        spare: &mut Vec<Region>,
        host: &mut dyn MonitorHost,
    ) -> Outcome {
        debug_assert!(
            self.walk.as_ref().is_none_or(|walk| walk.is_done.len() == self.slots.len()),
            "a walk waits for each scheme once"
        );
        let mut outcome = Outcome::default();
        let is_due = |slot: &Slot| pass.tick >= slot.next_apply;
        self.forget(|id| targets.iter().all(|target| target.id != id));
        let mut plans: Vec<Option<Plan>> = Vec::with_capacity(self.slots.len());
        for slot in &mut self.slots {
            let plan = is_due(slot).then(|| slot.begin(pass, host)).flatten();
            plans.push(plan.map(|plan| slot.adjust_quota(plan, pass, targets, spare, host, &mut outcome)));
        }
        let Self { slots, walk: tried, .. } = self;
        for target in targets {
            let id = target.id;
            walk(&mut target.regions, spare, Some(pass.size_max), |region, rest| {
                for (index, (slot, plan)) in slots.iter_mut().zip(&mut plans).enumerate() {
                    let Some(plan) = plan else { continue };
                    if outcome.ended.contains(&id) {
                        return;
                    }
                    let tried = tried.as_mut().filter(|walk| !walk.is_done[index]).map(|walk| (index, walk));
                    slot.show(plan, pass, (id, region), rest, host, &mut outcome, tried);
                }
            });
        }
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| is_due(slot)) {
            slot.arm(pass.tick, pass.attributes);
            slot.last_folio = None;
            slot.all_passes.join(&slot.last_pass);
            if let Some(walk) = &mut self.walk {
                walk.is_done[index] = true;
            }
        }
        outcome.walked = self.walk.take_if(|walk| walk.is_done.iter().all(|is_done| *is_done)).map(|walk| walk.found);
        outcome
    }
}

impl Slot {
    /// Begins its part of a pass; `None` where watermarks have it switched off.
    fn begin(&mut self, pass: &Pass<'_>, host: &dyn MonitorHost) -> Option<Plan> {
        debug_assert!(pass.tick >= self.next_apply, "only a scheme that is due has a turn");
        let scheme = &self.scheme;
        let mut filters: Vec<PageFilter> =
            scheme.ops_filters.iter().filter_map(|filter| filter.for_pages(host)).collect();
        if scheme.spares_young(pass.is_physical) {
            filters.push(PageFilter { test: PageTest::Young, matching: true, allow: false });
        }
        self.last_pass.clear(scheme.core_filters.len(), filters.len());
        self.last_pass.passes = 1;
        if !self.is_active {
            self.last_pass.inactive_passes = 1;
            return None;
        }
        Some(Plan {
            pattern: scheme.access_pattern.resolve(pass.attributes),
            scorer: scheme.action.scorer(pass.is_physical).unwrap_or(Scorer::Equal),
            // Whether unmatched pages pass is decided without the filter that was added: kept as in the kernel.
            filter: PageFilters::new(filters, rejects_unmatched(&scheme.ops_filters)),
            no_filters: PageFilters::default(),
            has_refused: false,
        })
    }

    /// Begins a new window if it is time, and finds the score below which regions wait. That counts regions that were
    /// charged in this window already, or will be skipped: kept as in the kernel.
    fn adjust_quota(
        &mut self,
        plan: Plan,
        pass: &Pass<'_>,
        targets: &mut [Target],
        spare: &mut Vec<Region>,
        host: &mut dyn MonitorHost,
        outcome: &mut Outcome,
    ) -> Plan {
        let Self { scheme, quota, goals, stats, last_pass, .. } = self;
        let quotas = &scheme.quotas;
        debug_assert_eq!(goals.len(), quotas.goals.len(), "each goal has its state");
        let qualifies = |region: &Region| plan.pattern.misses(region, pass.bytes(region)).is_none();
        let was_full = quota.roll(quotas, pass.now, pass.grain(), || {
            let eligible = |host: &mut dyn MonitorHost| {
                let mut by_node: Vec<(NodeId, u64)> = Vec::new();
                for target in targets.iter() {
                    let regions = target.regions.iter().filter(|region| qualifies(region));
                    let ranges: Vec<AddressRange> = regions.map(|region| pass.byte_range(region)).collect();
                    host.node_bytes(target.id, &ranges, &mut by_node)?;
                }
                Ok(by_node)
            };
            goal::score(&quotas.goals, goals, host, eligible).unwrap_or_else(|error| {
                last_pass.goal_unread_passes = 1;
                last_pass.last_refusal = Some(error.to_string());
                let target = targets.first().map_or(TargetId(0), |target| target.id);
                outcome.refusals.push((target, "gauges", error));
                Score::Unknown
            })
        });
        stats.qt_exceeds += u64::from(was_full);
        quota.min_score = 0;
        if !quota.is_set(quotas) {
            return plan;
        }
        last_pass.quota_too_small_passes = u64::from(quota.esz < pass.grain().region_bytes);
        let mut histogram = Histogram::EMPTY;
        let has_page_filters = scheme.has_page_filters();
        for target in targets {
            let id = target.id;
            walk(&mut target.regions, spare, None, |region, rest| {
                if !qualifies(region) {
                    return;
                }
                let cut = |region: &mut Region, offset| rest.cut(region, offset);
                let verdict = judge(&scheme.core_filters, has_page_filters, pass.alignment(), id, region, cut);
                if matches!(verdict, Verdict::Allowed | Verdict::Undecided) {
                    histogram.add(plan.scorer.score(region, pass.attributes, &quotas.weights), pass.bytes(region));
                }
            });
        }
        quota.min_score = histogram.cut_off(quota.esz);
        plan
    }

    /// Shows it a region. The part that it cuts off goes to `rest`.
    #[expect(clippy::too_many_arguments, reason = "the state of a walk, each part borrowed from another owner")]
    fn show(
        &mut self,
        plan: &mut Plan,
        pass: &Pass<'_>,
        (target, region): (TargetId, &mut Region),
        rest: &mut Rest,
        host: &mut dyn MonitorHost,
        outcome: &mut Outcome,
        tried: Option<(usize, &mut Walk)>,
    ) {
        debug_assert!(!region.is_empty(), "what others cut off leaves something");
        let held_back = if self.quota.is_full(&self.scheme.quotas, pass.grain()) {
            Some(Reason::QuotaFull)
        } else if self.is_before_resume(pass, target, region, rest) {
            Some(Reason::BeforeResume)
        } else if self.scheme.max_nr_snapshots != 0 && self.stats.nr_snapshots >= self.scheme.max_nr_snapshots {
            Some(Reason::SnapshotsUsedUp)
        } else {
            None
        };
        let misses = plan.pattern.misses(region, pass.bytes(region));
        let end = match misses.or(held_back) {
            Some(reason) => End::For(reason),
            None if self.has_priority(plan, pass, region) => {
                self.attempt(plan, pass, (target, region), rest, host, outcome, tried)
            }
            None => End::For(Reason::LowPriority),
        };
        let bytes = pass.bytes(region);
        let reason = if let End::For(reason) = end { reason } else { Reason::CoreFilter };
        self.places.count(target, pass.byte_range(region), reason);
        match end {
            End::For(reason) => self.last_pass.count(reason, bytes),
            End::Filtered(verdict) => self.last_pass.count_rejected(verdict, bytes),
        }
        if held_back.is_none() && rest.is_empty() && !outcome.ended.contains(&target) {
            self.stats.nr_snapshots += 1;
        }
    }

    fn has_priority(&self, plan: &Plan, pass: &Pass<'_>, region: &Region) -> bool {
        let quotas = &self.scheme.quotas;
        !self.quota.is_set(quotas)
            || plan.scorer.score(region, pass.attributes, &quotas.weights) >= self.quota.min_score
    }

    /// Whether the region lies before the place where the quota ran out; a region across it is cut there. The place holds up
    /// to the end of its target, and everything before it waits for the next pass even if there is quota to spare: kept as in
    /// the kernel. So a quota that runs out at the very end of a target costs a whole pass.
    fn is_before_resume(&mut self, pass: &Pass<'_>, target: TargetId, region: &mut Region, rest: &mut Rest) -> bool {
        let Some((resume_target, resume)) = self.quota.resume else { return false };
        if target != resume_target {
            return true;
        }
        let mut is_before = region.range.end <= resume;
        if !is_before && region.range.start < resume {
            let offset = align_down(resume - region.range.start, pass.size_min);
            is_before = true;
            debug_assert!(offset < region.len(), "the place lies inside the region");
            if offset > 0 {
                rest.cut(region, offset);
            } else if region.len() > pass.size_min {
                rest.cut(region, pass.size_min);
            }
        }
        if rest.is_empty() {
            self.quota.resume = None;
        }
        is_before
    }

    /// Tries the action on as much of a qualifying region as the quota allows. The region's age restarts even if nothing was changed, so
    /// that a scheme does not try it again and again without effect.
    #[expect(clippy::too_many_arguments, reason = "the state of a walk, each part borrowed from another owner")]
    fn attempt(
        &mut self,
        plan: &mut Plan,
        pass: &Pass<'_>,
        (target, region): (TargetId, &mut Region),
        rest: &mut Rest,
        host: &mut dyn MonitorHost,
        outcome: &mut Outcome,
        tried: Option<(usize, &mut Walk)>,
    ) -> End {
        debug_assert!(!self.quota.is_full(&self.scheme.quotas, pass.grain()), "a full quota holds all regions back");
        let Self { scheme, quota, stats, last_pass, last_folio, .. } = self;
        let quotas = &scheme.quotas;
        let mut size = pass.bytes(region);
        if quota.is_set(quotas) && size > quota.esz - quota.charged {
            let room = align_down((quota.esz - quota.charged) / pass.unit.get(), pass.size_min);
            debug_assert!(room >= pass.size_min, "a quota that is not full has room for the smallest region");
            rest.cut(region, room);
            size = pass.bytes(region);
        }
        // The size is what it was before an address filter cut it: kept as in the kernel. With a quota, the search for the
        // lowest score has made that cut already.
        let cut = |region: &mut Region, offset| rest.cut(region, offset);
        let verdict = judge(&scheme.core_filters, scheme.has_page_filters(), pass.alignment(), target, region, cut);
        let filter = match verdict {
            Verdict::Rejected(_) | Verdict::RejectedByDefault => return End::Filtered(verdict),
            Verdict::Allowed => &mut plan.no_filters,
            Verdict::Undecided => &mut plan.filter,
        };
        filter.restart();
        let mut refusal = None;
        let mut applied = Applied::default();
        if scheme.action != Action::Stat || scheme.has_page_filters() {
            let mut order = Order {
                action: scheme.action,
                range: pass.byte_range(region),
                filter,
                target_nid: scheme.target_nid.map(NodeId),
                destinations: &scheme.dests,
                marks_accessed: scheme.marks_accessed,
                last_folio,
            };
            match host.apply(target, &mut order) {
                Ok(done) => applied = done,
                Err(HostError::Gone(_)) => {
                    outcome.ended.push(target);
                    return End::For(Reason::Gone);
                }
                Err(error) => refusal = Some(error),
            }
        }
        quota.charge(quotas, size, applied.bytes, applied.spent);
        if quota.is_full(quotas, pass.grain()) {
            quota.resume = Some((target, region.range.end));
        }
        if let Some((scheme, walk)) = tried {
            walk.found.push(TriedRegion {
                scheme,
                target,
                range: pass.byte_range(region),
                nr_accesses: region.nr_accesses_bp / HIT_BP,
                age: region.age,
                probe_hits: region.probe_hits,
                sz_filter_passed: filter.passed_bytes(),
            });
        }
        if scheme.action != Action::Stat {
            region.age = 0;
        }
        stats.nr_tried += 1;
        stats.sz_tried += size;
        stats.nr_applied += u64::from(applied.bytes > 0);
        debug_assert!(stats.nr_applied <= stats.nr_tried, "only a try changes something");
        stats.sz_applied += applied.bytes;
        stats.sz_ops_filter_passed += filter.passed_bytes();
        if verdict == Verdict::Undecided {
            last_pass.count_stopped_pages(filter.stopped_bytes());
        }
        let Some(error) = refusal else {
            last_pass.untreated.join(applied.untreated);
            let is_treated = applied.bytes > 0 && applied.untreated.bytes() < size;
            return End::For(match scheme.action {
                Action::Stat => Reason::Counted,
                _ if is_treated => Reason::Applied,
                _ => Reason::of_untreated(&applied.untreated).unwrap_or(Reason::NoEffect),
            });
        };
        let reason = if matches!(error, HostError::NotHere(_)) { Reason::NotHere } else { Reason::Failed };
        last_pass.last_refusal = Some(error.to_string());
        if !plan.has_refused {
            plan.has_refused = true;
            outcome.refusals.push((target, "apply", error));
        }
        End::For(reason)
    }
}
