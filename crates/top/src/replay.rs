//! A feed from a region record.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isotherm_trace::region::{RecordMeta, Region, RegionReader, Snapshot, TargetMeta};

use crate::{Detail, Feed, FeedError, Frame, GroupRow, HeatRegion, RowKey, RowKind};

/// Hot: found accessed in at least this share of the checks, in parts per million.
const HOT_PPM: u64 = 250_000;
const PPM: u128 = 1_000_000;

/// Plays a region record back at its own pace times a speed. Holds one snapshot of each target.
///
/// A record that is still being written is followed: at its end the file is opened again when it has grown.
#[derive(Debug)]
pub struct Replay {
    path: PathBuf,
    reader: RegionReader,
    /// Speed relative to the clock; 0: as fast as frames are asked for.
    speed: u32,
    origin_ns: Option<u64>,
    /// Snapshots returned; they are skipped when the file is opened again.
    taken: u64,
    /// Read, but not yet part of a frame.
    ahead: Option<Snapshot>,
    latest: Vec<Option<(GroupRow, Detail)>>,
    /// Moment of the record at which the clock started.
    start: Option<(Instant, u64)>,
    /// Frames up to this time are shown without waiting.
    fast_until_ns: u64,
    at_end: bool,
}

impl Replay {
    /// Opens the record. `speed` times as fast as it was recorded; 0 means no waiting at all.
    ///
    /// # Errors
    /// When the file cannot be read or is no region record of isotherm's own format. A torn record opens up to its last whole
    /// batch.
    pub fn open(path: impl AsRef<Path>, speed: u32) -> Result<Self, FeedError> {
        let path = path.as_ref().to_owned();
        let reader = RegionReader::open(&path)?;
        Ok(Self {
            path,
            reader,
            speed,
            origin_ns: None,
            taken: 0,
            ahead: None,
            latest: Vec::new(),
            start: None,
            fast_until_ns: 0,
            at_end: false,
        })
    }

    /// Fills `ahead`. `false`: no snapshot is left for now.
    fn read_ahead(&mut self) -> Result<bool, FeedError> {
        if self.ahead.is_some() {
            return Ok(true);
        }
        let mut snapshot = Snapshot::default();
        if !self.reader.next_snapshot(&mut snapshot)? {
            if self.reader.is_finished() {
                self.at_end = true;
                return Ok(false);
            }
            if !self.open_again(&mut snapshot)? {
                return Ok(false);
            }
        }
        self.taken += 1;
        let begin_ns = snapshot.start_ns();
        self.origin_ns.get_or_insert(begin_ns);
        self.ahead = Some(snapshot);
        Ok(true)
    }

    /// Opens an unfinished record again if it has grown, and reads the first snapshot that is new.
    fn open_again(&mut self, snapshot: &mut Snapshot) -> Result<bool, FeedError> {
        let bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if bytes == self.reader.file_bytes() {
            return Ok(false);
        }
        // Finishing a record replaces the stream by Parquet; in between it may not open, and the next call tries again.
        let Ok(reader) = RegionReader::open(&self.path) else { return Ok(false) };
        self.reader = reader;
        for _ in 0..self.taken {
            if !self.reader.next_snapshot(snapshot)? {
                return Ok(false);
            }
        }
        Ok(self.reader.next_snapshot(snapshot)?)
    }

    /// Time from the start of the record.
    fn since_start(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.origin_ns.unwrap_or(0))
    }

    /// How long the frame at `at_ns` has to wait.
    fn wait_for(&mut self, at_ns: u64) -> Duration {
        if self.speed == 0 || at_ns < self.fast_until_ns {
            return Duration::ZERO;
        }
        let (started, start_ns) = *self.start.get_or_insert_with(|| (Instant::now(), at_ns));
        let due = Duration::from_nanos(at_ns.saturating_sub(start_ns) / u64::from(self.speed));
        due.saturating_sub(started.elapsed())
    }

    fn take(&mut self, snapshot: &Snapshot) {
        let meta = self.reader.meta();
        let target = snapshot.target as usize;
        let regions = heat_regions(snapshot, meta.context_of(snapshot.target).address_unit_bytes);
        let key = RowKey(u64::from(snapshot.target));
        let row = row(key, meta, snapshot, &regions);
        if self.latest.len() <= target {
            self.latest.resize(target + 1, None);
        }
        self.latest[target] = Some((row, Detail { key, regions, ..Detail::default() }));
    }

    /// Notes for the reader of the record.
    fn notes(&self) -> Vec<String> {
        let meta = self.reader.meta();
        let mut notes = vec!["a region record has no swap, pressure, refaults, generations or nodes".to_owned()];
        notes.extend(meta.notes.iter().cloned());
        notes
    }
}

impl Feed for Replay {
    fn next(&mut self, wait: Duration) -> Result<Option<Frame>, FeedError> {
        if !self.read_ahead()? {
            std::thread::sleep(if self.speed == 0 { Duration::ZERO } else { wait });
            return Ok(None);
        }
        let time_ns = self.ahead.as_ref().map_or(0, |snapshot| snapshot.time_ns);
        let at_ns = self.since_start(time_ns);
        let left = self.wait_for(at_ns);
        std::thread::sleep(left.min(wait));
        if left > wait {
            return Ok(None);
        }
        // Snapshots of several targets that end at the same moment are one frame.
        while self.read_ahead()? {
            match self.ahead.take_if(|snapshot| snapshot.time_ns <= time_ns) {
                Some(snapshot) => self.take(&snapshot),
                None => break,
            }
        }
        let (groups, details) = self.latest.iter().flatten().cloned().unzip();
        Ok(Some(Frame { at_ns, groups, details, nodes: Vec::new(), notes: self.notes() }))
    }

    fn choose(&mut self, _: RowKey) {}

    fn fast_forward(&mut self, until_ns: u64) {
        self.fast_until_ns = until_ns;
    }

    fn name(&self) -> String {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("replay of {file}")
    }

    fn is_at_end(&self) -> bool {
        self.at_end && self.ahead.is_none()
    }
}

fn heat_regions(snapshot: &Snapshot, unit_bytes: u64) -> Vec<HeatRegion> {
    let max = snapshot.intervals.max_nr_accesses();
    let aggregation_ns = snapshot.duration_ns.or(snapshot.intervals.aggregation_ns);
    let ppm = |region: &Region| {
        let share = u128::from(region.nr_accesses) * PPM / u128::from(max?.max(1));
        Some(u64::try_from(share.min(PPM)).expect("at most a million"))
    };
    let regions = snapshot.regions.iter().map(|region| HeatRegion {
        start: region.start.saturating_mul(unit_bytes),
        end: region.end.saturating_mul(unit_bytes),
        access_ppm: if region.nr_accesses == 0 { Some(0) } else { ppm(region) },
        age_ns: region.age.zip(aggregation_ns).map(|(age, aggregation)| u64::from(age).saturating_mul(aggregation)),
    });
    regions.collect()
}

fn row(key: RowKey, meta: &RecordMeta, snapshot: &Snapshot, regions: &[HeatRegion]) -> GroupRow {
    let target = &meta.targets[snapshot.target as usize];
    let physical = meta.context_of(snapshot.target).operations == "paddr";
    let sum = |wanted: fn(u64) -> bool| {
        let bytes = regions.iter().filter(|region| region.access_ppm.is_some_and(wanted)).map(HeatRegion::bytes);
        bytes.fold(0, u64::saturating_add)
    };
    let known = regions.iter().all(|region| region.access_ppm.is_some());
    GroupRow {
        key,
        name: target_name(target),
        kind: if physical { RowKind::Space } else { RowKind::Process },
        pid: target.pid,
        hot_bytes: known.then(|| sum(|ppm| ppm >= HOT_PPM)),
        warm_bytes: known.then(|| sum(|ppm| ppm > 0 && ppm < HOT_PPM)),
        cold_bytes: Some(sum(|ppm| ppm == 0)),
        ..GroupRow::default()
    }
}

fn target_name(target: &TargetMeta) -> String {
    let name = match (target.name.as_str(), target.pid, target.id) {
        ("", Some(pid), _) => format!("pid {pid}"),
        ("", None, Some(id)) => format!("target {id}"),
        ("", None, None) => "all targets".to_owned(),
        (name, ..) => name.to_owned(),
    };
    target.scheme.map_or_else(|| name.clone(), |scheme| format!("{name}, scheme {scheme}"))
}
