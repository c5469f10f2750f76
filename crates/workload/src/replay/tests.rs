use std::collections::BTreeMap;
use std::path::Path;

use isotherm_trace::{EventKind, MapKind, MapRange, ProcessMeta, ThreadMeta, TraceMeta, TraceRow, TraceWriter};
use isotherm_units::access::{
    After, Backing, Future, LayoutChange, Mapping, Owner, Run, Sharing, Stream, ThreadStart, Timing,
};
use isotherm_units::{Duration, PageRange};
use proptest::prelude::*;

use super::*;
use crate::order::testing::{Played, drain};

/// The contents of a trace, in the order of the file.
#[derive(Clone, Debug)]
enum Item {
    TraceRow { thread: u32, time_ns: u64, page: u64, pages: u32, write: bool },
    Event { thread: u32, time_ns: u64, kind: EventKind },
}

fn read(thread: u32, time_ns: u64, page: u64, pages: u32) -> Item {
    Item::TraceRow { thread, time_ns, page, pages, write: false }
}
fn write(thread: u32, time_ns: u64, page: u64, pages: u32) -> Item {
    Item::TraceRow { thread, time_ns, page, pages, write: true }
}
fn event(thread: u32, time_ns: u64, kind: EventKind) -> Item {
    Item::Event { thread, time_ns, kind }
}
fn map(start: u64, end: u64) -> EventKind {
    EventKind::Map(MapRange { start, end, ..MapRange::default() })
}
/// Pages `start..end` of file `name` from its page `first` on, read and written through descriptors.
fn cached(name: &str, start: u64, end: u64, first: u64) -> EventKind {
    let (what, file) = (MapKind::PageCache, Some(name.to_owned()));
    EventKind::Map(MapRange { start, end, what, file, file_page: first, ..MapRange::default() })
}
fn unmap(start: u64, end: u64) -> EventKind {
    EventKind::Unmap { start, end }
}

/// `threads`: the process of each. Process 1 and later are forked from process 0.
fn meta(epoch_ns: u64, threads: &[usize]) -> TraceMeta {
    let processes = 1 + threads.iter().max().unwrap();
    let process = |index| ProcessMeta {
        name: format!("p{index}"),
        forked_from: (index > 0).then_some(0),
        ..ProcessMeta::default()
    };
    let thread = |(index, &process): (usize, &usize)| ThreadMeta {
        process,
        started_by: (index > 0).then_some(0),
        ..ThreadMeta::default()
    };
    TraceMeta {
        epoch_ns,
        processes: (0..processes).map(process).collect(),
        threads: threads.iter().enumerate().map(thread).collect(),
        ..TraceMeta::default()
    }
}

fn store(path: &Path, meta: TraceMeta, items: &[Item]) {
    let mut writer = TraceWriter::create_finished(path, meta).unwrap();
    for item in items.iter().cloned() {
        match item {
            Item::TraceRow { thread, time_ns, page, pages, write } => {
                writer.push(TraceRow { time_ns, thread, page, pages, write, kernel: false }).unwrap();
            }
            Item::Event { thread, time_ns, kind } => writer.event(thread, time_ns, kind).unwrap(),
        }
    }
    writer.finish().unwrap();
}

/// A stored trace, and contexts that hold it as it is or packed, or decode it while it is played.
struct Stored {
    folder: tempfile::TempDir,
}

impl Stored {
    fn new(meta: TraceMeta, items: &[Item]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        store(&folder.path().join("t.parquet"), meta, items);
        Self { folder }
    }
    fn context(&self, rows_plain_max: u64, rows_held_max: u64) -> BuildContext {
        let context = BuildContext::new(self.folder.path());
        BuildContext { traces: Arc::new(TraceStore::holding(rows_plain_max, rows_held_max)), ..context }
    }
    fn held(&self, spec: &TraceSpec) -> Program {
        spec.build(&self.context(u64::MAX, u64::MAX)).unwrap()
    }
    fn packed(&self, spec: &TraceSpec) -> Program {
        spec.build(&self.context(0, u64::MAX)).unwrap()
    }
    fn live(&self, spec: &TraceSpec) -> Program {
        spec.build(&self.context(0, 0)).unwrap()
    }
    /// Plays it held, packed and live. Packed, the batches are the same. Live, each thread must do the same; how threads interleave depends
    /// on where batches end.
    fn play(&self, spec: &TraceSpec) -> Played {
        let (held, live) = (drain(self.held(spec)), drain(self.live(spec)));
        assert_eq!(held, drain(self.packed(spec)));
        for thread in 0..live.threads.iter().max().map_or(0, |last| last + 1) {
            assert_eq!(held.of_thread(thread), live.of_thread(thread), "thread {thread}");
        }
        assert_eq!((held.runs.len(), &held.compute_ns), (live.runs.len(), &live.compute_ns));
        held
    }
}

fn spec() -> TraceSpec {
    TraceSpec::new("t.parquet")
}

#[test]
fn one_thread_row_for_row() {
    let library = MapRange {
        start: 200,
        end: 210,
        what: MapKind::Image,
        file: Some("/lib/a.so".into()),
        file_page: 5,
        executable: true,
        ..MapRange::default()
    };
    let stored = Stored::new(
        meta(1000, &[0]),
        &[
            event(0, 0, map(100, 110)),
            event(0, 0, EventKind::Map(library)),
            write(0, 0, 100, 3),
            read(0, 0, 200, 2),
            read(0, 1000, 105, 1),
            event(0, 1700, EventKind::Idle { ns: 5000 }),
            event(0, 1700, unmap(105, 110)),
            write(0, 3000, 100, 1),
            event(0, 3600, EventKind::EndThread),
        ],
    );
    let program = stored.held(&spec());
    let backing = Backing::File { file: 0, first_page: 5, sharing: Sharing::Private };
    assert_eq!(
        program.processes[0].layout,
        [
            Mapping::anonymous(PageRange::new(100, 110)),
            Mapping { pages: PageRange::new(200, 210), backing, executable: true, huge: false },
        ]
    );
    assert_eq!((program.files[0].name.as_str(), program.files[0].pages), ("/lib/a.so", 15));
    assert_eq!((program.timing, program.threads.len()), (Timing::Recorded, 1));
    let played = stored.play(&spec());
    // Epoch 0 lasts 1000 ns and has two rows: at 0 and 500. The epoch at 1000 lasts until 3000.
    assert_eq!(
        played.runs,
        [
            Run::write(100, 3),
            Run::read(200, 2).after_ns(500),
            Run::read(105, 1).after_ns(500),
            Run::write(100, 1).after_ns(2000),
        ]
    );
    assert_eq!(
        played.afters,
        [
            After::Sleep(Duration::from_ns(5000)),
            After::Change(LayoutChange::Unmap(PageRange::new(105, 110))),
            After::Compute(Duration::from_ns(600)),
            After::Finish,
        ]
    );
    assert_eq!(played.compute_ns[&0], 3600);
    assert_eq!(played.operations, 0);
}

#[test]
fn rows_of_the_page_cache_go_through_descriptors() {
    use isotherm_trace::PageCacheRange;
    use isotherm_units::access::{Channel, FileKind};
    let first = PageCacheRange::RECORDED.start;
    let memory = MapRange {
        start: first + 64,
        end: first + 66,
        what: MapKind::Shared,
        file: Some("/dev/shm/m".into()),
        ..MapRange::default()
    };
    let stored = Stored::new(
        TraceMeta { page_cache: Some(PageCacheRange::RECORDED), ..meta(1000, &[0, 1]) },
        &[
            event(0, 0, map(10, 20)),
            write(0, 0, 10, 1),
            event(0, 0, cached("/data", first, first + 4, 0)),
            read(0, 0, first, 4),
            // The file has grown: its next pages come behind, and the finished trace has one mapping.
            event(0, 0, cached("/data", first + 4, first + 6, 4)),
            write(0, 0, first + 3, 3),
            event(0, 0, EventKind::Map(memory)),
            write(0, 0, first + 64, 2),
            event(0, 500, EventKind::StartThread { thread: 1 }),
            read(1, 0, first + 1, 1),
            read(1, 0, 10, 1),
            // No file is known there: then it is memory.
            read(1, 0, first + 900, 1),
        ],
    );
    let program = stored.held(&spec());
    let files: Vec<_> = program.files.iter().map(|file| (file.name.as_str(), file.pages, file.kind)).collect();
    assert_eq!(files, [("/data", 6, FileKind::Regular), ("trace./dev/shm/m", 2, FileKind::SharedMemory)]);
    let played = stored.play(&spec());
    let by_call = |run: Run| run.through(Channel::FileDescriptor);
    let untimed = |thread| played.of_thread(thread).into_iter().map(|run| run.after_ns(0)).collect::<Vec<_>>();
    let own = [
        Run::write(10, 1),
        by_call(Run::read(first, 4)),
        by_call(Run::write(first + 3, 3)),
        by_call(Run::write(first + 64, 2)),
    ];
    assert_eq!(untimed(0), own);
    assert_eq!(untimed(1), [by_call(Run::read(first + 1, 1)), Run::read(10, 1), Run::read(first + 900, 1)]);
    let changes = played.afters.iter().filter_map(|after| match after {
        After::Change(LayoutChange::Map(mapping)) => Some(mapping.backing),
        _ => None,
    });
    let shared = |file, first_page| Backing::File { file, first_page, sharing: Sharing::Shared };
    assert_eq!(changes.collect::<Vec<_>>(), [shared(0, 0), shared(1, 0), Backing::Anonymous]);
    let as_reads = stored.play(&TraceSpec { play_as: PlayAs::Read, ..spec() });
    assert_eq!(as_reads.of_thread(0)[2].after_ns(0), by_call(Run::read(first + 3, 3)));
}

#[test]
fn threads_and_forks_come_back() {
    let stored = Stored::new(
        meta(1000, &[0, 0, 1]),
        &[
            event(0, 0, map(10, 20)),
            write(0, 0, 10, 10),
            event(0, 500, EventKind::StartThread { thread: 1 }),
            event(0, 600, EventKind::StartThread { thread: 2 }),
            write(1, 0, 12, 1),
            event(2, 0, unmap(10, 15)),
            event(2, 0, map(10, 12)),
            read(2, 0, 10, 2),
            read(2, 0, 15, 5),
            event(1, 800, EventKind::EndThread),
            read(0, 1000, 10, 10),
        ],
    );
    let program = stored.held(&spec());
    let starts: Vec<(usize, ThreadStart)> = program.threads.iter().map(|t| (t.process, t.start)).collect();
    assert_eq!(starts, [(0, ThreadStart::WithProgram), (0, ThreadStart::ByThread), (1, ThreadStart::ByThread)]);
    assert_eq!(program.processes[1].forked_from, Some(0));
    assert!(program.processes[1].layout.is_empty());
    // `drain` checks that each page is mapped in its process.
    let played = stored.play(&spec());
    assert_eq!(played.of_thread(0), [Run::write(10, 10), Run::read(10, 10).after_ns(1000)]);
    assert_eq!(played.of_thread(1), [Run::write(12, 1)]);
    assert_eq!(played.of_thread(2), [Run::read(10, 2), Run::read(15, 5).after_ns(500)]);
    assert_eq!(played.compute_ns, BTreeMap::from([(0, 2000), (1, 800), (2, 1000)]));
    assert_eq!(played.afters.iter().filter(|after| **after == After::Finish).count(), 3);
}

#[test]
fn unknown_pages_get_mappings_with_a_warning() {
    let stored = Stored::new(
        meta(1000, &[0]),
        &[event(0, 0, map(100, 110)), read(0, 0, 98, 20), read(0, 0, 1 << 30, 1), write(0, 1000, 5000, 1)],
    );
    let context = stored.context(u64::MAX, u64::MAX);
    let played = drain(spec().build(&context).unwrap());
    let runs: Vec<(u64, u32)> = played.runs.iter().map(|run| (run.page(), run.pages)).collect();
    assert_eq!(runs, [(98, 2), (100, 10), (110, 8), (1 << 30, 1), (5000, 1)]);
    let made: Vec<(u64, u64)> = played
        .afters
        .iter()
        .filter_map(|after| match after {
            After::Change(LayoutChange::Map(mapping)) => Some((mapping.pages.start, mapping.pages.end)),
            _ => None,
        })
        .collect();
    // 512 pages around 98 up to the known mapping, 1024 above it, then 2048 and 4096.
    assert_eq!(made, [(0, 100), (110, 1024), (1 << 30, (1 << 30) + 2048), (4096, 8192)]);
    let warnings = context.traces.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("process `p0` touched pages outside of all recorded mappings; made 4 anonymous"));
    stored.play(&spec());
}

#[test]
fn a_request_trace_is_one_anonymous_mapping_and_keeps_it_between_rounds() {
    let stored = Stored::new(meta(0, &[0]), &[read(0, 7000, 50, 1), write(0, 7000, 9, 2), read(0, 7400, 50, 1)]);
    let program = stored.held(&spec());
    assert_eq!(program.processes[0].layout, [Mapping::anonymous(PageRange::new(9, 51))]);
    assert_eq!((program.timing, program.threads.len()), (Timing::Modelled, 1));
    let played = stored.play(&TraceSpec { repeat: 3, play_as: PlayAs::Write, ..spec() });
    let round = [Run::write(50, 1), Run::write(9, 2).after_ns(200), Run::write(50, 1).after_ns(200)];
    assert_eq!(played.runs, round.repeat(3));
    assert_eq!(played.operations, 9);
    assert_eq!(played.afters, [After::Finish]);
}

#[test]
fn other_traces_begin_anew_each_round() {
    let stored = Stored::new(meta(10, &[0]), &[event(0, 0, map(1, 9)), read(0, 0, 1, 1), read(0, 10, 2, 1)]);
    let played = stored.play(&TraceSpec { repeat: 2, ..spec() });
    assert_eq!(played.processes, [0, 0, 1, 1]);
    assert_eq!(played.runs[..2], played.runs[2..]);
}

#[test]
fn long_times_do_not_get_lost() {
    let hour = 3_600_000_000_000;
    let stored = Stored::new(
        meta(1000, &[0]),
        &[event(0, 0, map(0, 9)), read(0, 5, 1, 1), read(0, hour, 2, 1), read(0, hour, 3, 1), read(0, 2 * hour, 4, 1)],
    );
    assert_eq!(stored.play(&spec()).compute_ns[&0], 2 * hour + 1000);
    for percent in [33, 50, 250] {
        let time_scale = Ratio::from_ppm(percent * 10_000 + 1);
        let played = stored.play(&TraceSpec { time_scale, ..spec() });
        let exact = u128::from(2 * hour + 1000) * u128::from(time_scale.ppm()) / 1_000_000;
        assert_eq!(u128::from(played.compute_ns[&0]), exact, "{percent} %");
    }
}

#[test]
fn larger_pages_are_base_pages_in_groups() {
    let meta = TraceMeta { page_bytes: 16_384, ..meta(10, &[0]) };
    let stored = Stored::new(meta, &[event(0, 0, map(1, 4)), read(0, 0, 1, 2)]);
    assert_eq!(stored.play(&spec()).runs, [Run::read(4, 8)]);
}

#[test]
fn shared_memory_is_the_programs_own() {
    let shared = MapRange { start: 1, end: 5, shared: true, ..MapRange::default() };
    let stored = Stored::new(meta(10, &[0]), &[event(0, 0, EventKind::Map(shared)), write(0, 0, 1, 4)]);
    let program = spec().build(&stored.context(9, 9).named("db")).unwrap();
    assert_eq!((program.files[0].name.as_str(), program.files[0].pages), ("db.shared-0", 4));
    assert_eq!(program.files[0].kind, FileKind::SharedMemory);
}

#[test]
fn epochs_are_repeated_one_by_one_between_changes_of_the_layout() {
    // Epochs of 1000 ns: pages 1 and 2; page 3, a mapping goes and page 4 follows; sleep; page 5.
    let items = [
        event(0, 0, map(0, 20)),
        read(0, 0, 1, 1),
        read(0, 0, 2, 1),
        read(0, 1000, 3, 1),
        event(0, 1000, unmap(10, 20)),
        read(0, 1000, 4, 1),
        event(0, 2000, EventKind::Idle { ns: 700 }),
        read(0, 2000, 5, 1),
    ];
    let stored = Stored::new(meta(1000, &[0]), &items);
    let pages = |epoch_repeat: u32| {
        let played = stored.play(&TraceSpec { epoch_repeat, ..spec() });
        let pages: Vec<u64> = played.of_thread(0).iter().map(|run| run.page()).collect();
        (pages, played.compute_ns[&0])
    };
    assert_eq!(pages(1), (vec![1, 2, 3, 4, 5], 3000));
    assert_eq!(pages(3).0, [1, 2, 1, 2, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
    // All CPU time is three times as long, wherever it lies.
    assert_eq!(pages(3).1, 9000);

    let requests = Stored::new(meta(0, &[0]), &[read(0, 0, 1, 1)]);
    let error = TraceSpec { epoch_repeat: 2, ..spec() }.build(&requests.context(9, 9)).err().unwrap().to_string();
    assert!(error.contains("has no epochs") && error.contains("use `repeat`"), "{error}");
}

#[test]
fn bad_specs_and_files_are_named() {
    let stored = Stored::new(meta(10, &[0]), &[read(0, 0, 1, 1)]);
    let message = |spec: TraceSpec| {
        let error = spec.build(&stored.context(9, 9)).err().unwrap();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("{error}: {cause}")
    };
    assert!(message(TraceSpec { repeat: 0, ..spec() }).contains("`repeat` is 0; allowed: 1 or more"));
    assert!(message(TraceSpec { epoch_repeat: 0, ..spec() }).contains("`epoch-repeat` is 0; allowed: 1 or more"));
    assert!(message(TraceSpec { time_scale: Ratio::ZERO, ..spec() }).contains("`time-scale`"));
    assert!(message(TraceSpec::new("none.parquet")).contains("cannot replay"));
    std::fs::write(stored.folder.path().join("x"), "garbage").unwrap();
    assert!(message(TraceSpec::new("x")).contains("is not a page trace"));
    store(&stored.folder.path().join("empty"), meta(10, &[0]), &[event(0, 0, map(1, 2))]);
    assert!(message(TraceSpec::new("empty")).contains("holds no accesses"));
}

#[test]
fn a_trace_is_decoded_once_for_all_variants() {
    let stored = Stored::new(meta(10, &[0]), &[read(0, 0, 1, 1)]);
    let context = stored.context(9, 9);
    let first = spec().build(&context).unwrap();
    std::fs::remove_file(stored.folder.path().join("t.parquet")).unwrap();
    drop(first);
    // Without the file the store cannot be asked; the accesses are there all the same.
    assert!(spec().build(&context).is_err());
    let stored = Stored::new(meta(10, &[0]), &[read(0, 0, 1, 1)]);
    let context = stored.context(9, 9).with_future(true);
    let programs = [spec().build(&context).unwrap(), spec().build(&context.clone().with_seed(5)).unwrap()];
    assert!(programs.iter().all(|program| program.future.is_some()));
    drop(programs);
    let outlines = context
        .traces
        .outline(&stored.folder.path().join("t.parquet"), EpochOrder::Recorded, || panic!("decoded twice"));
    assert!(outlines.is_ok());
}

/// Random traces of up to four threads in two processes, with mappings that come, go and are used again.
fn random_trace() -> impl Strategy<Value = (TraceMeta, Vec<Item>)> {
    let row = (0u32..4, 0u64..3000, 0u64..60, 1u32..9, any::<bool>());
    let change = (0u32..4, 0u64..60, 1u64..20, 0u8..3);
    let item = prop_oneof![
        6 => row.prop_map(|(thread, step, page, pages, write)| (thread, step, Some((page, pages, write)), None)),
        2 => change.prop_map(|(thread, start, len, what)| (thread, 0, None, Some((start, start + len, what)))),
    ];
    (prop::collection::vec(item, 1..60), any::<bool>()).prop_map(|(items, two_processes)| {
        let threads = [0, 0, 0, usize::from(two_processes)];
        let mut times = [0u64; 4];
        let mut out = vec![event(0, 0, map(0, 30)), write(0, 0, 3, 2)];
        out.extend((1..4).map(|thread| event(0, 0, EventKind::StartThread { thread })));
        for (thread, step, row, change) in items {
            let time = &mut times[thread as usize];
            // Epochs of 1000 ns; about half of the rows stay in the epoch of the one before.
            *time += step / 1500 * 1000;
            match (row, change) {
                (Some((page, pages, is_write)), _) => {
                    out.push(Item::TraceRow { thread, time_ns: *time, page, pages, write: is_write });
                }
                (_, Some((start, end, 0))) => out.push(event(thread, *time, unmap(start, end))),
                (_, Some((start, end, 1))) => out.push(event(thread, *time, map(start, end))),
                (_, Some((start, end, _))) => {
                    let file = Some("/data".to_owned());
                    let range = MapRange { start, end, file, file_page: 3, ..MapRange::default() };
                    out.push(event(thread, *time, EventKind::Map(range)));
                }
                (None, None) => {}
            }
        }
        (meta(1000, &threads), out)
    })
}

fn pages_of(runs: impl Iterator<Item = Run>) -> Vec<(u64, bool)> {
    runs.flat_map(|run| (run.range().start..run.range().end).map(move |page| (page, run.is_write()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_thread_plays_its_rows_in_mapped_memory_and_in_its_time((meta, items) in random_trace()) {
        let stored = Stored::new(meta, &items);
        // Also checks held against live.
        let played = stored.play(&spec());
        let thrice = stored.play(&TraceSpec { epoch_repeat: 3, ..spec() });
        for thread in 0..4u32 {
            let rows = items.iter().filter_map(|item| match *item {
                Item::TraceRow { thread: t, time_ns, page, pages, write } if t == thread => Some((time_ns, page, pages, write)),
                _ => None,
            });
            let rows: Vec<_> = rows.collect();
            let expected = pages_of(rows.iter().map(|&(_, page, pages, write)| {
                if write { Run::write(page, pages) } else { Run::read(page, pages) }
            }));
            prop_assert_eq!(pages_of(played.of_thread(thread as usize).into_iter()), expected);
            let time = rows.last().map_or(0, |&(time_ns, ..)| time_ns + 1000);
            prop_assert_eq!(played.compute_ns.get(&(thread as usize)).copied().unwrap_or(0), time);
            prop_assert_eq!(thrice.of_thread(thread as usize).len(), 3 * played.of_thread(thread as usize).len());
            prop_assert_eq!(thrice.compute_ns.get(&(thread as usize)).copied().unwrap_or(0), 3 * time);
        }
    }

    #[test]
    fn the_future_lists_the_positions_of_every_page(
        (meta, items) in random_trace(), rounds in 1u64..3, epoch_repeat in 1u32..3,
    ) {
        let stored = Stored::new(meta, &items);
        let spec = TraceSpec { repeat: rounds, epoch_repeat, ..spec() };
        let context = stored.context(u64::MAX, u64::MAX).with_future(true);
        let program = crate::WorkloadSpec::Trace(spec).build(&context).unwrap();
        let future: Future = program.future.clone().unwrap();
        let mut naive: BTreeMap<(Owner, u64), Vec<u32>> = BTreeMap::new();
        let mut position = 0;
        crate::order::for_each_use(program, |used| {
            naive.entry((used.owner, used.page)).or_default().push(position);
            position += 1;
            Ok(())
        }).unwrap();
        for ((owner, page), positions) in naive {
            let dense = future.dense(owner, page).unwrap();
            prop_assert_eq!(future.uses_of(dense).collect::<Vec<_>>(), positions);
        }
    }
}

#[test]
fn a_stream_is_send() {
    fn is_send(_: &impl Send) {}
    let stored = Stored::new(meta(10, &[0]), &[read(0, 0, 1, 1)]);
    let streams: Vec<Box<dyn Stream>> = stored.live(&spec()).threads.into_iter().map(|thread| thread.stream).collect();
    is_send(&streams);
}

#[test]
fn a_stream_tells_the_length_of_its_epochs() {
    let epoch = |epoch_ns: u64, spec: TraceSpec| {
        let stored = Stored::new(meta(epoch_ns, &[0]), &[event(0, 0, map(0, 9)), read(0, 0, 1, 1)]);
        stored.held(&spec).threads[0].stream.epoch()
    };
    assert_eq!(epoch(1000, spec()), Some(Duration::from_ns(1000)));
    let slower = TraceSpec { time_scale: Ratio::from_percent(250), ..spec() };
    assert_eq!(epoch(1000, slower), Some(Duration::from_ns(2500)));
    assert_eq!(epoch(0, spec()), None, "each request is named");
}

#[test]
fn pages_of_an_epoch_come_in_an_order_of_chance_on_request() {
    let file = |start, end| {
        EventKind::Map(MapRange { start, end, what: MapKind::Image, file: Some("/data".into()), ..MapRange::default() })
    };
    let stored = Stored::new(
        meta(1000, &[0]),
        &[
            event(0, 0, file(160, 1760)),
            event(0, 0, map(4000, 4400)),
            read(0, 0, 200, 400),
            write(0, 0, 4000, 100),
            read(0, 0, 4200, 1),
            event(0, 1000, map(5000, 5100)),
            read(0, 1000, 200, 1),
            write(0, 1000, 5000, 100),
        ],
    );
    let scattered = TraceSpec { order: EpochOrder::Scattered, ..spec() };
    let runs_of =
        |played: &Played| -> Vec<(u64, u32)> { played.runs.iter().map(|run| (run.page(), run.pages)).collect() };
    let played = runs_of(&stored.play(&scattered));
    let ordered = runs_of(&stored.play(&spec()));
    assert_eq!(ordered, [(200, 400), (4000, 100), (4200, 1), (200, 1), (5000, 100)]);
    // Each page of the file by itself, other rows whole; what the second epoch has stays in it.
    let (first, second) = played.split_at(402);
    let files: Vec<u64> = first.iter().filter(|run| run.0 < 4000).map(|run| run.0).collect();
    assert!(!files.is_sorted() && first.iter().filter(|run| run.0 < 4000).all(|run| run.1 == 1));
    let sorted: std::collections::BTreeSet<u64> = files.into_iter().collect();
    assert!(sorted.into_iter().eq(200..600));
    assert!(first.contains(&(4000, 100)) && first.contains(&(4200, 1)));
    assert!(second.len() == 2 && second.contains(&(200, 1)) && second.contains(&(5000, 100)), "{second:?}");
    // The random order is the same in every run.
    assert_eq!(runs_of(&stored.play(&scattered)), played);
}

#[test]
fn requests_have_an_order_that_is_not_scattered() {
    let stored = Stored::new(meta(0, &[0]), &[read(0, 0, 1, 1)]);
    let scattered = TraceSpec { order: EpochOrder::Scattered, ..spec() };
    let error = scattered.build(&stored.context(u64::MAX, u64::MAX)).err().unwrap().to_string();
    assert!(error.contains("`epoch-order`") && error.contains("no epochs"), "{error}");
}
