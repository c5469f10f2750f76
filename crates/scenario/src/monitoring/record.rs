//! Makes a region record from a running monitor.

use super::attach::WatchedProcess;
use isotherm_core::host::TargetId;
use isotherm_core::monitor::{MonitorConfig, RegionRecord, Snapshot};
use isotherm_trace::region::{self, ContextMeta, Intervals, IntervalsGoal, RecordMeta, TargetMeta};

/// Metadata of a record of this monitor.
pub(super) fn meta_of(config: &MonitorConfig, targets: &[WatchedProcess], host: &str) -> RecordMeta {
    let attributes = &config.attributes;
    let goal = attributes.intervals_goal.as_ref().map(|goal| IntervalsGoal {
        access_ppm: goal.access.ppm(),
        nr_aggregations: u64::from(goal.aggrs),
        min_sample_ns: goal.min_sample_interval.ns(),
        max_sample_ns: goal.max_sample_interval.ns(),
    });
    let context = ContextMeta {
        operations: super::operations_name(config.operations).to_owned(),
        intervals: Intervals::new(
            attributes.sample_interval.ns(),
            attributes.aggr_interval.ns(),
            attributes.ops_update_interval.ns(),
        ),
        intervals_goal: goal,
        min_regions: Some(u64::from(attributes.min_nr_regions)),
        max_regions: Some(u64::from(attributes.max_nr_regions)),
        ..ContextMeta::default()
    };
    let target = |(id, target): (u64, &WatchedProcess)| TargetMeta {
        id: Some(id),
        name: target.name.clone(),
        ..TargetMeta::default()
    };
    RecordMeta {
        recorder: "isotherm monitor".to_owned(),
        host: host.to_owned(),
        contexts: vec![context],
        targets: (0..).zip(targets).map(target).collect(),
        ..RecordMeta::default()
    }
}

/// The regions of each target as records hold them. Addresses of a core snapshot are bytes, regardless of the monitor's
/// unit.
pub fn record_snapshots(snapshot: &Snapshot, config: &MonitorConfig) -> Vec<region::Snapshot> {
    let intervals = Intervals::new(
        snapshot.sample_interval.ns(),
        snapshot.aggr_interval.ns(),
        config.attributes.ops_update_interval.ns(),
    );
    let one = |(id, place): &(TargetId, std::ops::Range<usize>)| region::Snapshot {
        number: snapshot.number,
        target: id.0,
        time_ns: snapshot.at.ns(),
        duration_ns: Some(snapshot.elapsed.ns()),
        intervals,
        stats: None,
        regions: snapshot.regions[place.clone()].iter().map(record_region).collect(),
    };
    snapshot.targets.iter().map(one).collect()
}

/// One region as records hold it.
pub fn record_region(region: &RegionRecord) -> region::Region {
    region::Region {
        start: region.range.start,
        end: region.range.end,
        nr_accesses: region.nr_accesses,
        age: Some(region.age),
        level: region.level.0,
        probe_hits: region.probe_hits,
        filter_passed_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::host::{AddressRange, Level};
    use isotherm_units::{Duration, Instant};

    #[test]
    fn nothing_is_lost_on_the_way_to_a_record() {
        let record = |start, end| RegionRecord {
            range: AddressRange::new(start, end),
            nr_accesses: 3,
            age: 7,
            probe_hits: [1, 0, 0, 2],
            level: Level(2),
        };
        let snapshot = Snapshot {
            at: Instant::from_ns(400_000_000),
            number: 2,
            sample_interval: Duration::from_ms(5),
            aggr_interval: Duration::from_ms(200),
            nr_accesses_max: 40,
            elapsed: Duration::from_ms(200),
            targets: vec![(TargetId(0), 0..1), (TargetId(1), 1..2)],
            regions: vec![record(4096, 8192), record(0, 4096)],
            ..Snapshot::default()
        };
        let both = record_snapshots(&snapshot, &MonitorConfig::default());
        assert_eq!(both.iter().map(|one| one.target).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(both[0].intervals.max_nr_accesses(), Some(40));
        assert_eq!((both[0].time_ns, both[0].start_ns(), both[0].number), (400_000_000, 200_000_000, 2));
        let region = both[0].regions[0];
        assert_eq!((region.start, region.end, region.nr_accesses, region.age), (4096, 8192, 3, Some(7)));
        assert_eq!((region.level, region.probe_hits), (2, [1, 0, 0, 2]));
        assert_eq!(both[1].regions.len(), 1);
    }
}
