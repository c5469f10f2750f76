//! Errors of the core, translated to damo's keys.

use super::DamoError;
use isotherm_core::OutOfRange;
use isotherm_core::monitor::MonitorError;
use isotherm_core::schemes::{FILTER_TYPES, Layer, SchemeError};
use isotherm_trace::region::kdamonds::{Context, Scheme};

/// Our keys whose damo names are not just ours with underscores, by the key before them where it matters.
const KEYS: [(&str, &str, &str); 16] = [
    ("", "apply-interval", "apply_interval_us"),
    ("access-pattern", "size", "sz_bytes"),
    ("quotas", "size", "sz_bytes"),
    ("quotas", "time", "time_ms"),
    ("quotas", "reset-interval", "reset_interval_ms"),
    ("quotas", "fail-charge", "fail_charge"),
    ("fail-charge", "denom", "denom"),
    ("watermarks", "interval", "interval_us"),
    ("watermarks", "high", "high_permil"),
    ("watermarks", "mid", "mid_permil"),
    ("watermarks", "low", "low_permil"),
    ("", "core-filters", "filters"),
    ("", "ops-filters", "filters"),
    ("core-filters", "target-idx", "damon_target_idx"),
    ("", "max-nr-snapshots", "stats.max_nr_snapshots"),
    ("", "target-nid", "target_nid"),
];

/// Keys of attributes of monitoring.
const ATTRIBUTES: [(&str, &str); 11] = [
    ("sample-interval", "intervals.sample_us"),
    ("aggr-interval", "intervals.aggr_us"),
    ("ops-update-interval", "intervals.ops_update_us"),
    ("min-nr-regions", "nr_regions.min"),
    ("max-nr-regions", "nr_regions.max"),
    ("intervals-goal.access", "intervals.intervals_goal.access_bp"),
    ("intervals-goal.aggrs", "intervals.intervals_goal.aggrs"),
    ("intervals-goal.min-sample-interval", "intervals.intervals_goal.min_sample_us"),
    ("intervals-goal.max-sample-interval", "intervals.intervals_goal.max_sample_us"),
    ("addr-unit", "addr_unit"),
    ("operations", "ops"),
];

/// An error of the configuration that `context` was made into.
pub(super) fn of_monitor(error: MonitorError, context: &Context, place: &str) -> DamoError {
    match error {
        MonitorError::OutOfRange(OutOfRange { place: what, got, allowed }) => {
            let known = ATTRIBUTES.iter().find(|(ours, _)| *ours == what);
            let key = known.map_or_else(|| super::damo_name(&what), |(_, damos)| (*damos).to_owned());
            DamoError { place: format!("{place}.{key}"), got, allowed }
        }
        MonitorError::Scheme { index, source } => {
            let scheme = context.schemes.get(index);
            of_scheme(source, scheme, &format!("{place}.schemes[{index}]"))
        }
        other => DamoError::new(place, "not possible", other.to_string()),
    }
}

fn of_scheme(error: SchemeError, scheme: Option<&Scheme>, place: &str) -> DamoError {
    match error {
        SchemeError::OutOfRange(OutOfRange { place: ours, got, allowed }) => {
            let key = scheme.map_or_else(|| ours.clone(), |scheme| damo_place(&ours, scheme));
            DamoError { place: format!("{place}.{key}"), got, allowed }
        }
        other => DamoError::new(place, "not possible", other.to_string()),
    }
}

/// `core-filters[0].target-idx` as `filters[3].damon_target_idx`, if the first filter of that layer is the fourth of all.
fn damo_place(ours: &str, scheme: &Scheme) -> String {
    let mut before = "";
    let mut place = Vec::new();
    for segment in ours.split('.') {
        let (key, index) = segment.split_once('[').unwrap_or((segment, ""));
        let index = index.strip_suffix(']').and_then(|index| index.parse().ok());
        let known = KEYS.iter().find(|(parent, ours, _)| *ours == key && (parent.is_empty() || *parent == before));
        let name = known.map_or_else(|| super::damo_name(key), |(_, _, damos)| (*damos).to_owned());
        let index: Option<usize> = match key {
            "core-filters" => index.and_then(|index| filter_place(scheme, Layer::Core, index)),
            "ops-filters" => index.and_then(|index| filter_place(scheme, Layer::Ops, index)),
            _ => index,
        };
        place.push(index.map_or_else(|| name.clone(), |index| format!("{name}[{index}]")));
        before = key;
    }
    // The two numbers of that share are sibling keys in damo.
    place.join(".").replace("fail_charge.", "fail_charge_")
}

/// Index of filter number `index` of a layer among all filters.
fn filter_place(scheme: &Scheme, layer: Layer, index: usize) -> Option<usize> {
    let is_of_layer =
        |name: &str| FILTER_TYPES.iter().any(|entry| super::damo_name(entry.name) == name && entry.layer == layer);
    let places = scheme.filters.iter().enumerate().filter(|(_, filter)| is_of_layer(&filter.filter_type));
    places.map(|(place, _)| place).nth(index)
}
