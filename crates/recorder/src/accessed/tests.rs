//! Recordings of simulated processes.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_trace::{EventKind, MapRange, RowBatch, TraceMeta, TraceReader};
use isotherm_units::{Clock, Duration, Instant, Meter, Ratio, Woken};

use super::{
    AccessedOptions, AccessedRecording, AccessedReport, BitScanner, Bits, Change, LookError, Who, record_accessed,
};

#[derive(Clone)]
struct Time {
    now: Rc<Cell<Instant>>,
    stop_at: Option<Instant>,
}

impl Time {
    fn new() -> Self {
        Self { now: Rc::new(Cell::new(Instant::START)), stop_at: None }
    }
}

impl Clock for Time {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        self.now.set(self.now.get().max(until));
        if self.stop_at.is_some_and(|stop| self.now.get() >= stop) { Woken::Stopped } else { Woken::Due }
    }
}

struct Looks {
    count: Rc<Cell<u64>>,
    each: Duration,
}

impl Meter for Looks {
    fn spent(&mut self) -> Duration {
        self.each.saturating_mul(self.count.get())
    }
}

/// One process that maps pages 1000 to 2000: in epoch n it uses page 1000 + n and writes page 1500. It runs half of the time. From the
/// third scan on it has a child by fork, which uses page 1001 and ends after the fifth.
struct World {
    time: Time,
    looks: Rc<Cell<u64>>,
    epoch: u64,
    gone_from: u64,
}

const PARENT: Who = Who(0);
const CHILD: Who = Who(1);

impl World {
    fn new(time: &Time) -> Self {
        Self { time: time.clone(), looks: Rc::default(), epoch: 0, gone_from: u64::MAX }
    }
}

impl BitScanner for World {
    fn page_bytes(&self) -> u64 {
        4096
    }

    fn changes(&mut self) -> Result<Vec<Change>, LookError> {
        self.epoch += 1;
        let came = |who, pid, parent| Change::Came {
            who,
            pid,
            name: format!("p{pid}"),
            parent,
            shares_with_parent: parent.is_some(),
        };
        Ok(match self.epoch {
            1 => vec![came(PARENT, 10, None)],
            3 => vec![came(CHILD, 11, Some(PARENT))],
            6 => vec![Change::Went(CHILD)],
            epoch if epoch == self.gone_from => vec![Change::Went(PARENT)],
            _ => vec![],
        })
    }

    fn mappings(&mut self, who: Who) -> Result<Vec<MapRange>, LookError> {
        if who == PARENT && self.epoch >= self.gone_from {
            return Err(LookError::Gone);
        }
        let end = if self.epoch >= 4 { 2100 } else { 2000 };
        Ok(vec![MapRange { start: 1000, end, ..MapRange::default() }])
    }

    fn cpu_time(&mut self, _who: Who) -> Result<Duration, LookError> {
        Ok(Duration::from_ns(self.time.now().ns() / 2))
    }

    fn look(&mut self, who: Who, start: u64, end: u64, bits: &mut Bits) -> Result<(), LookError> {
        assert_eq!((start, bits.young.len() as u64), (1000, (end - start).div_ceil(64)));
        self.looks.set(self.looks.get() + 1);
        let set = |bits: &mut Vec<u64>, page: u64| bits[((page - 1000) / 64) as usize] |= 1 << ((page - 1000) % 64);
        for page in [1000, 1001, 1500] {
            set(&mut bits.present, page);
        }
        if who == PARENT {
            set(&mut bits.young, 1000 + self.epoch);
            set(&mut bits.young, 1500);
            set(&mut bits.written, 1500);
        } else {
            set(&mut bits.young, 1001);
        }
        Ok(())
    }

    fn settle(&mut self, _who: Who) -> Result<(), LookError> {
        Ok(())
    }
}

struct Recorded {
    meta: TraceMeta,
    /// Time in ms, thread, page, pages, written.
    rows: Vec<(u64, u32, u64, u32, bool)>,
    recording: AccessedRecording,
    said: Vec<String>,
}

fn record(mut world: World, mut time: Time, length: Option<Duration>, each: Duration) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("t.parquet");
    let options = AccessedOptions {
        command: vec!["p10".to_owned()],
        output: output.clone(),
        epoch: Duration::from_ms(100),
        length,
        max_cpu: Ratio::from_percent(1),
        max_bytes: None,
        fault_around_bytes: Some(65536),
        host: "a test".to_owned(),
    };
    let mut meter = Looks { count: world.looks.clone(), each };
    let mut said = Vec::new();
    let recording = record_accessed(&options, &mut world, &mut time, &mut meter, &mut |report| match report {
        AccessedReport::Said(words) => said.push(words),
        AccessedReport::Progress { .. } => {}
    })
    .unwrap();
    let mut reader = TraceReader::open(&output).unwrap();
    let meta = reader.meta().clone();
    let (mut batch, mut rows) = (RowBatch::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend(batch.rows().map(|row| (row.time_ns / 1_000_000, row.thread, row.page, row.pages, row.write)));
    }
    Recorded { meta, rows, recording, said }
}

#[test]
fn epochs_become_rows() {
    let time = Time::new();
    let recorded = record(World::new(&time), time, Some(Duration::from_ms(600)), Duration::ZERO);
    let of_parent: Vec<_> = recorded.rows.iter().filter(|row| row.1 == 0).copied().collect();
    let expected = [
        // Resident pages first, then those used in each epoch; the clock runs at half the speed of wall time.
        (0, 0, 1000, 2, false),
        (0, 0, 1500, 1, true),
        (0, 0, 1002, 1, false),
        (0, 0, 1500, 1, true),
        (50, 0, 1003, 1, false),
        (50, 0, 1500, 1, true),
    ];
    assert_eq!(of_parent[..6], expected);
    let of_child: Vec<_> = recorded.rows.iter().filter(|row| row.1 == 1).copied().collect();
    assert_eq!(of_child, [(0, 1, 1001, 1, false), (50, 1, 1001, 1, false)], "its first look tells what fork did");
    assert_eq!((recorded.recording.epochs, recorded.recording.end.as_str()), (7, "the time is over"));
    assert_eq!((recorded.recording.processes, recorded.recording.stretched), (2, 1));
    assert!(recorded.meta.complete && recorded.meta.notes.len() == 3);
}

#[test]
fn processes_mappings_and_sleeps_are_events() {
    let time = Time::new();
    let recorded = record(World::new(&time), time, Some(Duration::from_ms(600)), Duration::ZERO);
    let meta = &recorded.meta;
    assert_eq!((meta.processes[1].forked_from, meta.threads[1].started_by), (Some(0), Some(0)));
    let of = |thread: u32| meta.events.iter().filter(move |event| event.thread == thread).map(|event| &event.kind);
    let idle = |kind: &&EventKind| **kind == EventKind::Idle { ns: 50_000_000 };
    assert_eq!(of(0).filter(idle).count(), 6);
    let maps: Vec<(u64, u64)> = of(0)
        .filter_map(|kind| match kind {
            EventKind::Map(range) => Some((range.start, range.end)),
            _ => None,
        })
        .collect();
    assert_eq!(maps, [(1000, 2000), (2000, 2100)], "growth keeps what was there");
    assert_eq!(of(0).filter(|kind| **kind == EventKind::StartThread { thread: 1 }).count(), 1);
    assert_eq!(of(1).filter(|kind| **kind == EventKind::EndThread).count(), 1);
    assert_eq!(
        of(1).filter(|kind| matches!(kind, EventKind::Map(range) if range.start == 1000)).count(),
        0,
        "it is a copy"
    );
}

#[test]
fn it_ends_with_the_last_process_or_when_told_to() {
    let time = Time::new();
    let recorded = record(World { gone_from: 8, ..World::new(&time) }, time, None, Duration::ZERO);
    assert_eq!(recorded.recording.end, "all that was recorded has ended");
    let time = Time { stop_at: Some(Instant::START + Duration::from_ms(300)), ..Time::new() };
    let recorded = record(World::new(&time), time, None, Duration::ZERO);
    assert_eq!((recorded.recording.end.as_str(), recorded.recording.epochs), ("stopped", 4));
    assert!(recorded.rows.iter().any(|row| row.2 == 1004), "the last epoch belongs to it");
}

#[test]
fn dear_looks_come_less_often() {
    let time = Time::new();
    let recorded = record(World::new(&time), time, Some(Duration::from_secs(60)), Duration::from_ms(20));
    assert!(recorded.recording.stretched > 10, "{:?}", recorded.recording);
    assert!(recorded.recording.longest_epoch >= Duration::from_secs(2));
    assert!(recorded.said[0].contains("more than 1%"), "{:?}", recorded.said);
    assert!(recorded.meta.notes.iter().any(|note| note.contains("epochs became up to")));
    assert!(recorded.recording.spent < Duration::from_ms(1600), "{}", recorded.recording.spent);
}
