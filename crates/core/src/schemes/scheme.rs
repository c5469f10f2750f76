//! One scheme as written in files, and its validation.

use super::error::SchemeError;
use super::filter::Filter;
use super::pattern::AccessPattern;
use super::quota::Quotas;
use super::watermark::{WatermarkMetric, Watermarks};
use crate::OutOfRange;
use crate::host::{MonitorHost, TargetId};
use crate::monitor::Attributes;
use crate::vocabulary::{ACTIONS, Action, Destination, FILTER_TYPES, FilterType, Layer, METRICS, Metric};
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

/// An action, and the regions that it is for. By default all regions are counted, and nothing is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scheme {
    /// Action on the regions.
    pub action: Action,
    /// Pattern of regions that qualify.
    #[serde(alias = "access_pattern")]
    pub access_pattern: AccessPattern,
    /// How often, in whole microseconds, cut to whole samples. Zero: at the end of each aggregation.
    #[serde(alias = "apply_interval", alias = "apply_interval_us", alias = "apply-interval-us")]
    pub apply_interval: Duration,
    /// `lru-prio` marks pages as accessed, as the original series did: an inactive page becomes referenced in the first pass, and active in
    /// the second. Default no: it becomes active at once.
    #[serde(skip_serializing_if = "is_no")]
    pub marks_accessed: bool,
    pub quotas: Quotas,
    pub watermarks: Watermarks,
    /// Filters of types `addr` and `target`, applied to regions in order.
    #[serde(alias = "core_filters", skip_serializing_if = "Vec::is_empty")]
    pub core_filters: Vec<Filter>,
    /// Filters of all other types, applied to pages in order.
    #[serde(alias = "ops_filters", skip_serializing_if = "Vec::is_empty")]
    pub ops_filters: Vec<Filter>,
    /// For migrations: number of the node to move to.
    #[serde(alias = "target_nid", skip_serializing_if = "Option::is_none")]
    pub target_nid: Option<u32>,
    /// For migrations in a process: several nodes, by turns.
    #[serde(alias = "destinations", skip_serializing_if = "Vec::is_empty")]
    pub dests: Vec<Destination>,
    /// The scheme stops after it has seen the last region of a target this many times. 0: never.
    #[serde(alias = "max_nr_snapshots")]
    pub max_nr_snapshots: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_no(value: &bool) -> bool {
    !*value
}

impl Scheme {
    /// Checks what can be checked without a host. `is_physical`: it is for physical memory.
    ///
    /// # Errors
    /// The first invalid value, its place in the scheme, and the allowed values.
    pub fn validate(&self, attributes: &Attributes, is_physical: bool) -> Result<(), OutOfRange> {
        let space = if is_physical { "physical memory" } else { "a process" };
        if self.action.scorer(is_physical).is_none() {
            let of_space = ACTIONS.iter().filter(|entry| entry.action.scorer(is_physical).is_some());
            let allowed = format!("{}, for {space}", join(of_space.map(|entry| entry.name)));
            return Err(OutOfRange::new("action", self.action, allowed));
        }
        if self.marks_accessed && self.action != Action::LruPrio {
            return Err(OutOfRange::new("marks-accessed", true, format!("false, with `{}`", self.action)));
        }
        self.access_pattern.validate(attributes)?;
        self.quotas.validate()?;
        self.watermarks.validate()?;
        for (index, filter) in self.core_filters.iter().enumerate() {
            filter.validate("core-filters", index, Layer::Core)?;
        }
        for (index, filter) in self.ops_filters.iter().enumerate() {
            filter.validate("ops-filters", index, Layer::Ops)?;
        }
        for (index, goal) in self.quotas.goals.iter().enumerate() {
            if goal.metric.entry().is_physical && !is_physical {
                let place = format!("quotas.goals[{index}].metric");
                let others = join(METRICS.iter().filter(|entry| !entry.is_physical).map(|entry| entry.name));
                return Err(OutOfRange::new(place, goal.metric.entry().name, format!("{others}, for {space}")));
            }
        }
        if !self.apply_interval.ns().is_multiple_of(1000) {
            return Err(OutOfRange::new("apply-interval", self.apply_interval, "whole microseconds"));
        }
        self.validate_destinations(is_physical)
    }

    fn validate_destinations(&self, is_physical: bool) -> Result<(), OutOfRange> {
        let has_weights = self.dests.iter().any(|destination| destination.weight > 0);
        if !self.action.migrates() {
            let key = match (self.target_nid, self.dests.is_empty()) {
                (Some(_), _) => "target-nid",
                (None, false) => "dests",
                (None, true) => return Ok(()),
            };
            return Err(OutOfRange::new(key, "given", format!("none with `{}`", self.action)));
        }
        if is_physical && !self.dests.is_empty() {
            return Err(OutOfRange::new("dests", "given", "target-nid, for physical memory"));
        }
        if !self.dests.is_empty() && !has_weights {
            return Err(OutOfRange::new("dests", "all of weight 0", "a weight of 1 and more"));
        }
        if self.dests.is_empty() && self.target_nid.is_none() {
            return Err(OutOfRange::new("target-nid", "not given", format!("a node, for `{}`", self.action)));
        }
        Ok(())
    }

    /// Whether the host visits pages one by one for it.
    pub(crate) fn has_page_filters(&self) -> bool {
        !self.ops_filters.is_empty()
    }

    /// Pages that were accessed a moment ago are spared though their region is cold; not where the user has a filter on young
    /// pages.
    pub(crate) fn spares_young(&self, is_physical: bool) -> bool {
        is_physical
            && self.action == Action::Pageout
            && !self.ops_filters.iter().any(|filter| filter.filter_type == FilterType::Young)
    }
}

/// Whether the host can do for `target` what `scheme` asks for.
pub(crate) fn admit(scheme: &Scheme, target: TargetId, host: &dyn MonitorHost) -> Result<(), SchemeError> {
    let (can, gauges) = (host.scheme_capabilities(target), host.gauge_capabilities(target));
    let not_here = |place: &str, got: &str, available: String| {
        let available = if available.is_empty() { "none".to_owned() } else { available };
        Err(SchemeError::NotHere { place: place.to_owned(), got: got.to_owned(), available })
    };
    let needs_host = scheme.action != Action::Stat || scheme.has_page_filters();
    if needs_host && !can.actions.contains(&scheme.action) {
        return not_here("action", scheme.action.name(), join(can.actions.iter().map(|action| action.name())));
    }
    for (index, filter) in scheme.ops_filters.iter().enumerate() {
        let entry = filter.filter_type.entry();
        let place = format!("ops-filters[{index}].filter-type");
        if !can.filtered_actions.contains(&scheme.action) {
            let others = join(can.filtered_actions.iter().map(|action| action.name()));
            let got = format!("{} with `{}`", entry.name, scheme.action);
            return not_here(&place, &got, format!("page filters with {others}"));
        }
        if !can.filters.contains(&filter.filter_type) {
            let names = FILTER_TYPES.iter().filter(|entry| can.filters.contains(&entry.filter_type));
            return not_here(&place, entry.name, join(names.map(|entry| entry.name)));
        }
        known_memcg(&format!("ops-filters[{index}]"), filter.memcg_path.as_deref(), host)?;
    }
    for (index, goal) in scheme.quotas.goals.iter().enumerate() {
        if goal.metric != Metric::UserInput && !gauges.metrics.contains(&goal.metric) {
            let names = METRICS.iter().filter(|entry| gauges.metrics.contains(&entry.metric)).map(|entry| entry.name);
            let place = format!("quotas.goals[{index}].metric");
            return not_here(&place, goal.metric.entry().name, join(std::iter::once("user-input").chain(names)));
        }
        known_memcg(&format!("quotas.goals[{index}]"), goal.memcg_path.as_deref(), host)?;
    }
    if scheme.watermarks.metric == WatermarkMetric::FreeMemRate && !gauges.free_mem_rate {
        return not_here("watermarks.metric", "free-mem-rate", "none".to_owned());
    }
    Ok(())
}

fn known_memcg(place: &str, path: Option<&str>, host: &dyn MonitorHost) -> Result<(), SchemeError> {
    match path.filter(|path| host.memcg(path).is_none()) {
        None => Ok(()),
        Some(path) => Err(SchemeError::UnknownMemcg { place: format!("{place}.memcg-path"), path: path.to_owned() }),
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
