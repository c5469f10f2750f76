//! Code of a recording is in use between the moments that name it.

use super::tests::{Rig, config};
use super::*;
use isotherm_kernel::cgroup::Limit;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{
    After, Backing, Batch, FileKind, FileSpec, Forks, Mapping, Process, Run, Sharing, Stream, StreamError, Thread,
    ThreadStart, Timing,
};
use isotherm_units::{Bytes, Duration, PageRange, Pages};

/// Pages of code, at page 0, each named once an epoch.
const CODE: u64 = 40;
/// Pages of data behind them, of which each epoch names some at random: far more than the limit holds.
const DATA: u64 = 4000;
const EPOCH_NS: u64 = 1_000_000;
const EPOCHS: u64 = 40;

#[derive(Clone)]
struct Recording {
    epoch: Option<Duration>,
    played: u64,
}

impl Stream for Recording {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.played == EPOCHS {
            return Ok(After::Finish);
        }
        let mut random = isotherm_units::random::Random::new(self.played + 1);
        let data = (0..500).map(|_| Run::write(1000 + random.below(DATA), 1).after_ns(2000));
        batch.runs.extend((0..CODE).map(|page| Run::read(page, 1)).chain(data));
        self.played += 1;
        Ok(After::Continue)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }

    fn epoch(&self) -> Option<Duration> {
        self.epoch
    }
}

/// The ending under `limit` pages, and refaults of code.
fn play(limit: u64, executable: bool, epoch_ns: Option<u64>) -> (Ending, u64) {
    let config = MachineConfig { code_in_use: true, ..config(Bytes::from_mib(64), DeviceKind::Zram) };
    let config = MachineConfig { lazy_statistics: true, ..config };
    let outcome = play_on(&config, limit, executable, epoch_ns);
    (outcome.programs[0].ending, outcome.system().counters.get(Counter::WorkingsetRefaultFile))
}

fn play_on(config: &MachineConfig, limit: u64, executable: bool, epoch_ns: Option<u64>) -> Outcome {
    // The kernel adds counters up soon after the start, as the group comes to its limit.
    play_from(Instant::START + Duration::from_ms(1990), config, limit, executable, epoch_ns)
}

fn play_from(start: Instant, config: &MachineConfig, limit: u64, executable: bool, epoch_ns: Option<u64>) -> Outcome {
    let backing = Backing::File { file: 0, first_page: 0, sharing: Sharing::Private };
    let code = Mapping { executable, backing, ..Mapping::anonymous(PageRange::new(0, CODE)) };
    let stream = Recording { epoch: epoch_ns.map(Duration::from_ns), played: 0 };
    let program = Program {
        name: "recorded".to_owned(),
        files: vec![FileSpec { name: "code".to_owned(), pages: CODE, kind: FileKind::Regular }],
        processes: vec![Process {
            layout: vec![code, Mapping::anonymous(PageRange::new(1000, 1000 + DATA))],
            ..Process::default()
        }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: None,
    };
    let mut rig = Rig::new(config);
    rig.builder.set(rig.app, Knob::Max, Limit::At(Pages::new(limit)));
    let id = rig.builder.add_program(program, rig.app).unwrap();
    rig.builder.start_at(id, start);
    rig.builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap()
}

#[test]
fn code_stays_that_is_named_in_each_epoch() {
    let (ending, refaults) = play(100, true, Some(EPOCH_NS));
    assert_eq!(ending, Ending::Finished);
    let (_, as_named) = play(100, true, None);
    assert!(as_named > CODE, "named once in a storm it looks idle: {as_named}");
    assert!(refaults < CODE, "each is lost once at most, until counters are added up: {refaults} of {as_named}");
}

#[test]
fn pages_of_data_are_used_when_they_are_named() {
    assert_eq!(play(100, false, Some(EPOCH_NS)), play(100, false, None));
}

#[test]
fn code_that_is_named_too_seldom_is_none_in_use() {
    // Each batch takes a millisecond, ten of these epochs.
    assert_eq!(play(100, true, Some(EPOCH_NS / 10)), play(100, true, None));
}

#[test]
fn files_that_others_have_read_are_paid_by_them() {
    let of = |warm_files: bool| {
        let config =
            MachineConfig { warm_files, lazy_statistics: true, ..config(Bytes::from_mib(64), DeviceKind::Zram) };
        let outcome = play_on(&config, 5000, true, None);
        let group = outcome.cgroup("/app").expect("made by the rig").peak_pages;
        (group, outcome.system().counters.get(Counter::PgMajFault))
    };
    let ((cold, reads), (warm, no_reads)) = (of(false), of(true));
    assert!((1..=64).contains(&(cold - warm)), "charged by batches of 64: {cold} {warm}");
    assert!(reads > 0 && no_reads == 0, "{reads} {no_reads}");
}

/// A worker adds counters up every two seconds of the machine's time, whenever a program starts: until then, reclaim knows of no page.
#[test]
fn counters_are_added_up_at_moments_of_the_machine() {
    let config = config(Bytes::from_mib(64), DeviceKind::Zram);
    let deactivated = |start_ms: u64, lazy_statistics: bool| {
        let config = MachineConfig { lazy_statistics, ..config.clone() };
        let start = Instant::START + Duration::from_ms(start_ms);
        let outcome = play_from(start, &config, 100, true, Some(EPOCH_NS));
        (outcome.programs[0].runtime(), outcome.system().counters.get(Counter::PgDeactivate))
    };
    assert_ne!(deactivated(0, true), deactivated(1990, true), "the worker runs 2 s and 10 ms after the start");
    assert_eq!(deactivated(0, false), deactivated(1990, false), "up to date always");
}
