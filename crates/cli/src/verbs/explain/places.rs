//! Locations of the regions that schemes saw: by target and its group, and by address range.

use isotherm_core::schemes::{REASONS, SchemeReport};
use isotherm_report::{Cell, Column, Table, Unit};
use serde::Serialize;

/// A reason at a place.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    monitor: String,
    scheme: usize,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    /// Byte addresses, the end not included.
    start: u64,
    end: u64,
    reason: &'static str,
    regions: u64,
    bytes: u64,
}

/// The places of one scheme. `targets`: names and groups, in the order of the monitor's targets.
pub(super) fn of(monitor: &str, report: &SchemeReport, targets: &[(String, Option<String>)]) -> Vec<Place> {
    let mut places = Vec::new();
    for place in &report.places {
        let number = usize::try_from(place.target.0).unwrap_or(usize::MAX);
        let (target, cgroup) = targets.get(number).cloned().unwrap_or_else(|| (format!("target {number}"), None));
        for (reason, tally) in &place.by_reason {
            let name = REASONS.iter().find(|(own, _)| own == reason).map_or("", |(_, name)| *name);
            places.push(Place {
                monitor: monitor.to_owned(),
                scheme: report.index,
                target: target.clone(),
                cgroup: cgroup.clone(),
                start: place.range.start,
                end: place.range.end,
                reason: name,
                regions: tally.regions,
                bytes: tally.bytes,
            });
        }
    }
    places
}

/// For people: the most frequent result at each place, and its share.
pub(super) fn shown<'a>(places: impl Iterator<Item = &'a Place>) -> Table {
    let columns = vec![
        Column::text("target"),
        Column::text("group"),
        Column::number("from", Unit::Address),
        Column::number("to", Unit::Address),
        Column::number("shown", Unit::Bytes),
        Column::text("most of it"),
        Column::number("share", Unit::Ppm),
    ];
    let mut table = Table::new("where", columns);
    let places: Vec<&Place> = places.collect();
    // Adjacent ranges with the same report are merged.
    let mut told: Vec<Told<'_>> = Vec::new();
    for there in places.chunk_by(|a, b| (&a.target, a.start) == (&b.target, b.start)) {
        let all = there.iter().fold(0u64, |sum, place| sum.saturating_add(place.bytes));
        let Some(most) = there.iter().max_by_key(|place| place.bytes) else { continue };
        let next = Told { first: most, end: most.end, all, most_bytes: most.bytes };
        match told.last_mut().filter(|last| last.goes_on_as(most)) {
            Some(last) => last.join(&next),
            None => told.push(next),
        }
    }
    for Told { first, end, all, most_bytes } in told {
        let share = u128::from(most_bytes) * 1_000_000 / u128::from(all.max(1));
        table.push(vec![
            first.target.clone().into(),
            first.cgroup.clone().map_or(Cell::Missing, Cell::from),
            first.start.into(),
            end.into(),
            all.into(),
            first.reason.replace('_', " ").into(),
            Cell::Int(u64::try_from(share).unwrap_or(u64::MAX)),
        ]);
    }
    table
}

/// A line for people.
struct Told<'a> {
    first: &'a Place,
    end: u64,
    all: u64,
    most_bytes: u64,
}

impl Told<'_> {
    fn goes_on_as(&self, next: &Place) -> bool {
        (&self.first.target, self.end, self.first.reason) == (&next.target, next.start, next.reason)
    }

    fn join(&mut self, next: &Self) {
        self.end = next.end;
        self.all = self.all.saturating_add(next.all);
        self.most_bytes = self.most_bytes.saturating_add(next.most_bytes);
    }
}

/// Every reason at every place, for programs.
pub(super) fn long_table(places: &[Place]) -> Table {
    let columns = vec![
        Column::text("monitor"),
        Column::number("scheme", Unit::Count),
        Column::text("target"),
        Column::text("group"),
        Column::number("start", Unit::Address),
        Column::number("end", Unit::Address),
        Column::text("reason"),
        Column::number("regions", Unit::Count),
        Column::number("bytes", Unit::Bytes),
    ];
    let mut table = Table::new("", columns);
    for place in places {
        table.push(vec![
            place.monitor.as_str().into(),
            Cell::Int(place.scheme as u64),
            place.target.as_str().into(),
            place.cgroup.clone().map_or(Cell::Missing, Cell::from),
            place.start.into(),
            place.end.into(),
            place.reason.into(),
            place.regions.into(),
            place.bytes.into(),
        ]);
    }
    table
}

impl Place {
    pub(super) fn is_of(&self, monitor: &str, scheme: usize) -> bool {
        (self.monitor.as_str(), self.scheme) == (monitor, scheme)
    }
}
