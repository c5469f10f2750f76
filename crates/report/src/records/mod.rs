//! Region records of monitors as charts, heatmaps and tables. One file for each view, with its analysis; common code is here.
//!
//! A record is read with the memory of one snapshot, as often as a view needs it. A view that a record cannot support is
//! refused with a note of the missing data: frequencies need the intervals, idle times the ages.

mod access;
mod bands;
mod heatmap;
mod hot;
mod idle;
mod info;
mod moment;
mod pair;
mod survey;
mod wss;

pub use access::{SortKey, access_csv, access_table};
pub use bands::ShownBand;
pub use heatmap::{Grid, RecordHeatmap, Shown, heatmap, heatmap_caveats, heatmap_csv, heatmap_picture, left_out};
pub use hot::{HotRanges, hot, hot_csv, hot_tables};
pub use idle::{IDLE_BOUNDS_NS, IdleTimes, idle, idle_chart, idle_csv, idle_table};
pub use info::{RecordInfo, TargetInfo, info, info_csv, info_tables};
pub use moment::{Area, At, Moment, moments};
pub use pair::{PairBand, RecordPair, heatmap_pair, pair_picture};
pub use survey::{Selection, Survey};
pub use wss::{RecordWss, WssPercentile, WssPoint, wss, wss_chart, wss_csv, wss_table};

use isotherm_trace::TraceError;
use isotherm_trace::region::{RegionStore, Snapshot};

/// The monitored command or target, in one line.
pub fn subject(store: &RegionStore) -> String {
    let meta = store.meta();
    let command = crate::traces::command_line(&meta.command);
    let names: Vec<&str> =
        meta.targets.iter().map(|target| target.name.as_str()).filter(|name| !name.is_empty()).collect();
    match (command.trim(), names.first(), meta.recorder.as_str()) {
        ("", None, "") => "a record of unknown origin".to_owned(),
        ("", None, recorder) => recorder.to_owned(),
        ("", Some(name), _) => (*name).to_owned(),
        (command, ..) => command.to_owned(),
    }
}

/// Notes for judging numbers from this record.
pub fn caveats(store: &RegionStore) -> Vec<String> {
    let meta = store.meta();
    let mut notes: Vec<String> = store.warnings().iter().map(ToString::to_string).collect();
    if !meta.complete && notes.is_empty() {
        notes.push("the recording does not reach its end; what it has is right".to_owned());
    }
    for note in &meta.notes {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

/// The name of a target for people.
pub(crate) fn target_name(store: &RegionStore, target: u32) -> String {
    let meta = &store.meta().targets[target as usize];
    let mut name = match (meta.name.as_str(), meta.pid, meta.id) {
        ("", Some(pid), _) => format!("pid {pid}"),
        ("", None, Some(id)) => format!("target {id}"),
        ("", None, None) => "all targets".to_owned(),
        (name, ..) => name.to_owned(),
    };
    if let Some(scheme) = meta.scheme {
        name.push_str(&format!(", scheme {scheme}"));
    }
    name
}

const PPM: u64 = 1_000_000;

/// Number of checks out of a million that found the region accessed; `None` without intervals.
pub(crate) fn rate_ppm(snapshot: &Snapshot, nr_accesses: u32) -> Option<u64> {
    let max = snapshot.intervals.max_nr_accesses()?;
    Some((u64::from(nr_accesses).saturating_mul(PPM) / max).min(PPM))
}

/// The refusal if a record lacks data.
pub(crate) fn lacks(store: &RegionStore, what: impl Into<String>) -> TraceError {
    TraceError::Unsupported { path: store.path().to_owned(), what: what.into() }
}

/// The way out when intervals are missing.
pub(crate) fn no_intervals(store: &RegionStore, needed_for: &str) -> TraceError {
    lacks(
        store,
        format!(
            "it does not say how often the monitor looked, which {needed_for} needs; give the intervals of the recording \
             with --sample and --aggr"
        ),
    )
}

/// The refusal where ages are missing.
pub(crate) fn no_ages(store: &RegionStore, needed_for: &str) -> TraceError {
    lacks(store, format!("its regions have no ages (a kernel before 5.16?), which {needed_for} needs"))
}

/// A size in the record's address unit as bytes; saturates.
pub(crate) fn unit_bytes(store: &RegionStore, target: u32) -> u64 {
    store.meta().context_of(target).address_unit_bytes
}
