//! Cuts, filters and merges of page traces: worked examples, and random traces against naive models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isotherm_trace::analysis::{
    Footprint, Heatmap, HeatmapOptions, Hot, Info, MissRatioCurve, WorkingSet, footprint, heatmap, hot, info, mrc, wss,
};
use isotherm_trace::edit::{Access, AddressRange, Moment, Selection, TracePart, merge, write_part};
use isotherm_trace::{
    Event, EventKind, MapKind, MapRange, NativeRun, ProcessMeta, Result, RowBatch, ThreadMeta, TraceMeta, TraceReader,
    TraceRow, TraceRows, TraceWriter,
};
use isotherm_units::{Duration, Ratio};
use proptest::prelude::*;

/// A step of a trace, in file order.
#[derive(Clone, Debug)]
enum Step {
    Row(TraceRow),
    Event(u32, u64, EventKind),
}

fn row(thread: u32, time_ns: u64, page: u64, pages: u32) -> TraceRow {
    TraceRow { time_ns, thread, page, pages, write: false, kernel: false }
}

fn map(start: u64, end: u64, what: MapKind) -> EventKind {
    EventKind::Map(MapRange { start, end, what, ..MapRange::default() })
}

/// Writes an unfinished trace: its events stay unfolded.
fn write(path: &Path, meta: TraceMeta, steps: &[Step]) {
    let mut writer = TraceWriter::create(path, meta).unwrap();
    for step in steps {
        match step {
            Step::Row(row) => writer.push(*row).unwrap(),
            Step::Event(thread, time_ns, kind) => writer.event(*thread, *time_ns, kind.clone()).unwrap(),
        }
    }
    writer.flush().unwrap();
    drop(writer);
}

fn rows_of(source: &mut dyn TraceRows) -> Vec<TraceRow> {
    let mut rows = Vec::new();
    source
        .for_each_batch(&mut |batch: &RowBatch| {
            assert_eq!(batch.first_row, rows.len() as u64);
            rows.extend(batch.rows());
            Ok(())
        })
        .unwrap();
    rows
}

fn read(path: &Path) -> (TraceMeta, Vec<TraceRow>) {
    let mut reader = TraceReader::open(path).unwrap();
    let rows = rows_of(&mut reader);
    (reader.meta().clone(), rows)
}

fn part(path: &Path, selection: &Selection) -> Result<TracePart> {
    TracePart::new(TraceReader::open(path).unwrap(), selection)
}

/// Writes the part and reads it back.
fn written(path: &Path, selection: &Selection) -> (TraceMeta, Vec<TraceRow>) {
    let output = path.with_extension("out");
    let meta = write_part(&mut part(path, selection).unwrap(), &output, |_| {}).unwrap();
    let (read_meta, rows) = read(&output);
    assert_eq!(meta, read_meta);
    (meta, rows)
}

fn window(from_ns: u64, to_ns: u64) -> Selection {
    let after = |ns| Some(Moment::After(Duration::from_ns(ns)));
    Selection { from: after(from_ns), to: after(to_ns), ..Selection::default() }
}

fn event(row: u64, thread: u32, time_ns: u64, kind: EventKind) -> Event {
    Event { row, thread, time_ns, kind }
}

/// Thread 0 and 1 in process 0, thread 2 in process 1, which is forked from it; thread 3 in process 0.
fn family() -> TraceMeta {
    let thread = |process, tid, started_by| ThreadMeta { process, tid, started_by, name: format!("t{tid}") };
    let process = |pid, forked_from| ProcessMeta { pid, forked_from, name: format!("p{pid}") };
    TraceMeta {
        command: vec!["app".into()],
        processes: vec![process(100, None), process(200, Some(0))],
        threads: vec![thread(0, 100, None), thread(0, 101, Some(0)), thread(1, 200, Some(0)), thread(0, 102, Some(0))],
        epoch_ns: 10,
        complete: true,
        exit_code: Some(0),
        native: Some(NativeRun::default()),
        ..TraceMeta::default()
    }
}

#[test]
fn a_cut_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let file = MapRange {
        start: 50,
        end: 60,
        what: MapKind::File,
        file: Some("/lib/a".into()),
        file_page: 7,
        ..MapRange::default()
    };
    let steps = [
        Step::Event(0, 0, map(0, 20, MapKind::Heap)),
        Step::Event(0, 0, EventKind::Map(file.clone())),
        Step::Row(row(0, 0, 1, 1)),
        Step::Event(0, 10, EventKind::StartThread { thread: 1 }),
        Step::Row(row(1, 0, 2, 1)),
        // Thread 1 sleeps from 20 to 70: its CPU time stays 10.
        Step::Event(1, 10, EventKind::Idle { ns: 50 }),
        Step::Event(0, 20, EventKind::Unmap { start: 50, end: 52 }),
        Step::Event(0, 30, EventKind::StartThread { thread: 2 }),
        Step::Row(row(2, 0, 3, 1)),
        Step::Row(row(0, 30, 4, 1)),
        Step::Event(2, 5, EventKind::EndThread),
        // Here the window begins, at 40: thread 0 at CPU time 40, thread 1 asleep for 30 more, thread 2 gone.
        Step::Row(row(0, 45, 5, 1)),
        Step::Event(0, 50, EventKind::StartThread { thread: 3 }),
        Step::Row(row(3, 0, 6, 2)),
        Step::Event(0, 60, map(90, 95, MapKind::Stack)),
        Step::Row(row(1, 15, 7, 1)),
        // 45 CPU plus 50 from its sleep: thread 3 sleeps until 105; the window ends at 100.
        Step::Event(3, 5, EventKind::Idle { ns: 50 }),
        Step::Row(row(0, 99, 8, 1)),
        // Here it ends.
        Step::Row(row(0, 110, 9, 1)),
    ];
    write(&path, family(), &steps);
    let (meta, rows) = written(&path, &window(40, 100));
    assert_eq!(rows, [row(0, 5, 5, 1), row(2, 0, 6, 2), row(1, 5, 7, 1), row(0, 59, 8, 1)]);
    let tids: Vec<(u32, Option<usize>)> = meta.threads.iter().map(|thread| (thread.tid, thread.started_by)).collect();
    assert_eq!(tids, [(100, None), (101, None), (102, Some(0))], "threads 0 and 1 live from the start, 3 starts later");
    assert_eq!(meta.processes.len(), 1, "process 1 has ended before");
    let left = MapRange { start: 52, file_page: 9, ..file };
    assert_eq!(
        meta.events,
        [
            event(0, 0, 0, map(0, 20, MapKind::Heap)),
            event(0, 0, 0, EventKind::Map(left)),
            event(0, 1, 0, EventKind::Idle { ns: 30 }),
            event(1, 0, 10, EventKind::StartThread { thread: 2 }),
            event(2, 0, 20, map(90, 95, MapKind::Stack)),
            event(3, 2, 5, EventKind::Idle { ns: 45 }),
            event(4, 0, 60, EventKind::Idle { ns: 0 }),
        ]
    );
    assert_eq!((meta.complete, meta.exit_code, meta.native), (false, None, None));
    assert_eq!((meta.rows, meta.accesses, meta.command), (4, 5, vec!["app".to_owned()]));
    let mut reader = TraceReader::open(path.with_extension("out")).unwrap();
    assert_eq!(footprint(&mut reader).unwrap().duration_ns, 60, "the window's length");

    // The same in shares of the length, which is 110; and up to the end.
    let share = |percent| Some(Moment::Share(Ratio::from_percent(percent)));
    let shares = Selection { from: share(50), to: share(100), ..Selection::default() };
    let (meta, rows) = written(&path, &shares);
    assert_eq!(rows, [row(1, 5, 7, 1), row(0, 44, 8, 1)], "55 to 110; thread 1 sleeps for 15 more");
    assert!(!meta.complete);
    let (meta, rows) = written(&path, &Selection { to: None, ..shares });
    assert_eq!(
        (rows.len(), meta.complete, meta.exit_code),
        (3, false, Some(0)),
        "torn as the input, which lacks its end"
    );
}

#[test]
fn a_fork_before_the_window_keeps_what_it_inherited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let steps = [
        Step::Event(0, 0, map(0, 20, MapKind::Heap)),
        Step::Event(0, 10, EventKind::StartThread { thread: 2 }),
        Step::Event(0, 20, EventKind::Unmap { start: 0, end: 20 }),
        Step::Row(row(2, 15, 3, 1)),
        Step::Row(row(0, 40, 90, 1)),
    ];
    write(&path, family(), &steps);
    let (meta, rows) = written(&path, &window(22, 1000));
    assert_eq!(rows, [row(1, 3, 3, 1), row(0, 18, 90, 1)]);
    assert_eq!(meta.processes.iter().map(|process| process.forked_from).collect::<Vec<_>>(), [None, None]);
    assert_eq!(meta.events, [event(0, 1, 0, map(0, 20, MapKind::Heap))], "of process 1 only");
    // With the fork inside, it stays a fork.
    let (meta, _) = written(&path, &window(5, 1000));
    assert_eq!(meta.processes[1].forked_from, Some(0));
    assert_eq!(meta.events[1], event(0, 0, 5, EventKind::StartThread { thread: 1 }));
}

#[test]
fn a_filter_drops_rows_and_keeps_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let steps = [
        Step::Event(0, 0, map(0, 20, MapKind::Heap)),
        Step::Event(0, 0, map(20, 30, MapKind::Stack)),
        Step::Event(0, 0, EventKind::StartThread { thread: 1 }),
        Step::Row(row(0, 0, 18, 4)),
        Step::Row(row(0, 50, 25, 1)),
        Step::Event(1, 20, EventKind::StartThread { thread: 3 }),
        Step::Row(TraceRow { write: true, ..row(3, 0, 1, 1) }),
        Step::Row(row(0, 90, 28, 1)),
    ];
    write(&path, family(), &steps);
    let heap = Selection { mappings: vec!["heap".into()], ..Selection::default() };
    let (meta, rows) = written(&path, &heap);
    assert_eq!(rows, [row(0, 0, 18, 2), TraceRow { write: true, ..row(2, 0, 1, 1) }]);
    // Thread 3 (2 here: there is no other process) starts at 50 as before, and thread 0 lives until 90.
    let idle = |row, time_ns| event(row, 0, time_ns, EventKind::Idle { ns: 0 });
    assert_eq!(meta.events[2], event(0, 0, 0, EventKind::StartThread { thread: 1 }));
    assert_eq!(meta.events[3..], [idle(1, 50), event(1, 1, 20, EventKind::StartThread { thread: 2 }), idle(2, 90)]);
    assert!(
        meta.notes.iter().any(|note| note.contains("mapping heap: 3 accesses kept, 4 dropped")),
        "{:?}",
        meta.notes
    );
    let writes = Selection { access: Some(Access::Writes), ..Selection::default() };
    assert_eq!(written(&path, &writes).1, [TraceRow { write: true, ..row(2, 0, 1, 1) }]);
    let range = AddressRange { start: 19 * 4096, end: 26 * 4096 };
    let range = Selection { ranges: vec![range], ..Selection::default() };
    assert_eq!(written(&path, &range).1, [row(0, 0, 19, 3), row(0, 50, 25, 1)]);
}

#[test]
fn a_process_brings_those_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let steps = [
        Step::Event(0, 0, map(0, 20, MapKind::Heap)),
        Step::Row(row(0, 0, 1, 1)),
        Step::Event(0, 10, EventKind::StartThread { thread: 1 }),
        Step::Event(0, 20, EventKind::StartThread { thread: 2 }),
        Step::Row(row(1, 5, 2, 1)),
        Step::Row(row(2, 5, 3, 1)),
    ];
    write(&path, family(), &steps);
    let process = |name: &str| Selection { processes: vec![name.into()], ..Selection::default() };
    let (meta, rows) = written(&path, &process("p200"));
    assert_eq!(rows, [row(2, 5, 3, 1)]);
    assert_eq!((meta.processes.len(), meta.threads.len()), (2, 3), "its parent, whose mappings it inherits");
    let (meta, rows) = written(&path, &process("100"));
    assert_eq!((meta.processes.len(), rows.len()), (1, 2), "the child is gone");
    assert!(!meta.events.iter().any(|event| event.kind == EventKind::StartThread { thread: 2 }));
    let thread = Selection { threads: vec!["t101".into()], ..Selection::default() };
    let (meta, rows) = written(&path, &thread);
    assert_eq!((rows, meta.threads.len()), (vec![row(1, 5, 2, 1)], 2), "the other thread of its process keeps time");
}

#[test]
fn what_leaves_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    write(&path, family(), &[Step::Row(row(0, 7, 1, 3))]);
    let error = |selection: Selection| part(&path, &selection).unwrap_err().to_string();
    for (selection, words) in [
        (window(100, 200), ["nothing is left of it for", "trace time 100ns to 200ns", "3 accesses from 0 to 7"]),
        (window(3, 5), ["nothing is left of it for", "3ns to 5ns", "over"]),
        (window(9, 9), ["`from`", "not before --to", "9ns"]),
        (
            Selection { ranges: vec![AddressRange { start: 0, end: 9 }], ..Selection::default() },
            ["nothing is left of it for", "range 0x0-0x9", "isotherm report info"],
        ),
        (
            Selection { threads: vec!["x".into()], ..Selection::default() },
            ["`thread`", "no thread `x`", "0 (tid 100, t100)"],
        ),
        (Selection { mappings: vec!["x".into()], ..Selection::default() }, ["`mapping`", "`x`", "does not say"]),
    ] {
        let error = error(selection);
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of a part that is none");
}

#[test]
fn a_merge_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b, out) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("out"));
    let meta = |command: &str| TraceMeta { command: vec![command.into()], notes: vec!["odd".into()], ..family() };
    write(
        &a,
        meta("one"),
        &[
            Step::Event(0, 0, map(0, 20, MapKind::Heap)),
            Step::Row(row(0, 5, 1, 1)),
            Step::Event(0, 20, EventKind::StartThread { thread: 1 }),
            Step::Row(row(1, 10, 2, 1)),
        ],
    );
    write(
        &b,
        meta("two"),
        &[
            Step::Row(row(0, 0, 7, 1)),
            Step::Event(0, 10, EventKind::Idle { ns: 15 }),
            Step::Row(row(0, 10, 8, 2)),
            Step::Row(row(0, 30, 9, 1)),
        ],
    );
    let meta = merge(&[a.clone(), b.clone()], &out, |_| {}).unwrap();
    let (read_meta, rows) = read(&out);
    assert_eq!(meta, read_meta);
    // Trace times: a 5, 30; b 0, 25 (after its sleep), 45.
    assert_eq!(rows, [row(4, 0, 7, 1), row(0, 5, 1, 1), row(4, 10, 8, 2), row(1, 10, 2, 1), row(4, 30, 9, 1)]);
    assert_eq!(
        meta.events,
        [
            event(0, 0, 0, map(0, 20, MapKind::Heap)),
            event(2, 4, 10, EventKind::Idle { ns: 15 }),
            event(2, 0, 20, EventKind::StartThread { thread: 1 }),
        ]
    );
    assert_eq!((meta.processes.len(), meta.threads.len(), meta.processes[3].forked_from), (4, 8, Some(2)));
    assert_eq!((meta.threads[6].process, meta.threads[6].started_by), (3, Some(4)));
    assert_eq!((meta.command.len(), meta.exit_code, meta.native), (0, Some(0), None));
    assert!(meta.notes.iter().any(|note| note == "processes 2 to 3 are merged from b (two)"), "{:?}", meta.notes);
    assert!(meta.notes.iter().any(|note| note == "a: odd"), "{:?}", meta.notes);
    assert!(!meta.complete, "neither was finished");
}

#[test]
fn only_what_fits_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let write_one = |name: &str, meta: TraceMeta, steps: &[Step]| {
        let path = folder.path().join(name);
        write(&path, meta, steps);
        path
    };
    let one = [Step::Row(row(0, 0, 1, 1))];
    let a = write_one("a", family(), &one);
    let large = write_one("large", TraceMeta { page_bytes: 65_536, ..family() }, &one);
    let slow = write_one("slow", TraceMeta { epoch_ns: 1000, ..family() }, &one);
    let empty = write_one("empty", family(), &[]);
    let out = folder.path().join("out");
    let error = |inputs: &[&PathBuf]| {
        let inputs: Vec<PathBuf> = inputs.iter().map(|path| (*path).clone()).collect();
        merge(&inputs, &out, |_| {}).unwrap_err().to_string()
    };
    for (inputs, words) in [
        (vec![&a, &large], vec!["large", "65536", "4096", "/a;"]),
        (vec![&a, &slow], vec!["slow", "1us", "10ns", "/a;"]),
        (vec![&a], vec!["two or more"]),
        (vec![&empty, &empty], vec!["no trace has accesses"]),
    ] {
        let error = error(&inputs);
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        assert!(!out.exists());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "no temporary is left");
    assert_eq!(merge(&[a.clone(), a], &out, |_| {}).unwrap().rows, 2, "the same program twice");
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u32..4, 0u64..25, 0u64..48, 1u32..6, 0u8..40, any::<bool>());
    proptest::collection::vec(step, 1..150).prop_map(|steps| {
        let mut clocks = [0u64; 4];
        let step = |(thread, wait, page, pages, dice, write): (u32, u64, u64, u32, u8, bool)| {
            let clock = &mut clocks[thread as usize];
            *clock += wait;
            let end = page + 2 * u64::from(pages);
            let event = |kind| Step::Event(thread, *clock, kind);
            match dice {
                0 => event(EventKind::Unmap { start: page, end }),
                1 => event(map(page, end, MapKind::Heap)),
                2 | 3 => event(EventKind::Map(MapRange {
                    start: page,
                    end,
                    what: MapKind::File,
                    file: Some(format!("/lib/{dice}")),
                    file_page: wait,
                    ..MapRange::default()
                })),
                4 => event(EventKind::Idle { ns: wait * 5 }),
                5..=7 => event(EventKind::StartThread { thread: u32::from(dice) - 4 }),
                8 if wait < 6 => event(EventKind::EndThread),
                _ => Step::Row(TraceRow { write, ..row(thread, *clock, page, pages) }),
            }
        };
        steps.into_iter().map(step).collect()
    })
}

/// Possible steps of a program: no thread is active before its start, or after its end.
fn possible_steps() -> impl Strategy<Value = Vec<Step>> {
    any_steps().prop_map(|steps| {
        let (mut started, mut ended) = ([true, false, false, false], [false; 4]);
        let mut is_possible = |step: &Step| {
            let (thread, kind) = match step {
                Step::Row(row) => (row.thread as usize, None),
                Step::Event(thread, _, kind) => (*thread as usize, Some(kind)),
            };
            if !started[thread] || ended[thread] {
                return false;
            }
            match kind {
                Some(EventKind::StartThread { thread: other }) => {
                    !std::mem::replace(&mut started[*other as usize], true)
                }
                Some(EventKind::EndThread) => {
                    ended[thread] = true;
                    true
                }
                _ => true,
            }
        };
        steps.into_iter().filter(|step| is_possible(step)).collect()
    })
}

/// The same with mappings that all differ. Finishing a trace folds a mapping that continues another one into that, which drops
/// its event and its time.
fn unlike(mut steps: Vec<Step>) -> Vec<Step> {
    for (number, step) in steps.iter_mut().enumerate() {
        if let Step::Event(_, _, EventKind::Map(map)) = step {
            map.file = Some(format!("/lib/{number}"));
        }
    }
    steps
}

/// The naive clock: trace time of each step, in order.
fn trace_times(meta: &TraceMeta, steps: &[Step]) -> Vec<u64> {
    let mut offsets: Vec<Option<u64>> =
        meta.threads.iter().map(|thread| thread.started_by.is_none().then_some(0)).collect();
    let mut now = 0;
    let time = |step: &Step| {
        let (thread, cpu, kind) = match step {
            Step::Row(row) => (row.thread, row.time_ns, None),
            Step::Event(thread, cpu, kind) => (*thread, *cpu, Some(kind)),
        };
        let offset = offsets[thread as usize].get_or_insert(now.max(cpu) - cpu);
        now = now.max(*offset + cpu);
        match kind {
            Some(EventKind::StartThread { thread }) => {
                offsets[*thread as usize].get_or_insert(now);
            }
            Some(EventKind::Idle { ns }) => *offset += ns,
            _ => {}
        }
        now
    };
    steps.iter().map(time).collect()
}

/// The steps of a trace in order.
fn steps_of(meta: &TraceMeta, rows: &[TraceRow]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut events = meta.events.iter().peekable();
    for (number, row) in rows.iter().enumerate() {
        while let Some(event) = events.next_if(|event| event.row <= number as u64) {
            steps.push(Step::Event(event.thread, event.time_ns, event.kind.clone()));
        }
        steps.push(Step::Row(*row));
    }
    steps.extend(events.map(|event| Step::Event(event.thread, event.time_ns, event.kind.clone())));
    steps
}

/// Mapping of each row's first page at its touch: kind, file and its page. One entry for each page.
fn shown(meta: &TraceMeta, steps: &[Step]) -> Vec<Option<(MapKind, Option<String>, u64)>> {
    type Page = (MapKind, Option<String>, u64);
    let mut pages: BTreeMap<(usize, u64), Page> = BTreeMap::new();
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Row(row) => found.push(pages.get(&(meta.process_of(row.thread), row.page)).cloned()),
            Step::Event(thread, _, kind) => {
                let process = meta.process_of(*thread);
                match kind {
                    EventKind::Map(map) => (map.start..map.end).for_each(|page| {
                        let shift = if map.file.is_some() { page - map.start } else { 0 };
                        pages.insert((process, page), (map.what, map.file.clone(), map.file_page + shift));
                    }),
                    EventKind::Unmap { start, end } => {
                        (*start..*end).for_each(|page| drop(pages.remove(&(process, page))));
                    }
                    EventKind::StartThread { thread } => {
                        let child = meta.process_of(*thread);
                        let has_some = pages.range((child, 0)..(child + 1, 0)).next().is_some();
                        if child != process && meta.processes[child].forked_from == Some(process) && !has_some {
                            let inherited: Vec<_> = pages.range((process, 0)..(process + 1, 0)).collect();
                            let inherited: Vec<_> =
                                inherited.into_iter().map(|(&(_, page), what)| ((child, page), what.clone())).collect();
                            pages.extend(inherited);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

type Reports = (Info, (WorkingSet, MissRatioCurve, Hot, Heatmap, Footprint));

/// All analyses of a trace; the file's own length is left out.
fn reports(source: &mut dyn TraceRows) -> Reports {
    let info = Info { file_bytes: 0, milli_bytes_per_access: 0, ..info(source).unwrap() };
    let options = HeatmapOptions { columns: 7, rows: 12, fold_pages: 16, whole_epochs: false };
    let rest = (
        wss(source, 40).unwrap(),
        mrc(source).unwrap(),
        hot(source, 5).unwrap(),
        heatmap(source, &options).unwrap(),
        footprint(source).unwrap(),
    );
    (info, rest)
}

fn any_selection() -> impl Strategy<Value = Selection> {
    let moment = |ns| Some(Moment::After(Duration::from_ns(ns)));
    let window = prop_oneof![
        Just((None, None)),
        (0u64..400, 1u64..400).prop_map(move |(from, length)| (moment(from), moment(from + length))),
        (0u64..90).prop_map(|percent| (Some(Moment::Share(Ratio::from_percent(percent))), None)),
    ];
    let words = |all: &'static [&'static str]| {
        prop_oneof![
            3 => Just(Vec::new()),
            1 => proptest::sample::subsequence(all, 1).prop_map(|words| words.into_iter().map(str::to_owned).collect())
        ]
    };
    let ranges = prop_oneof![
        2 => Just(Vec::new()),
        1 => proptest::collection::vec((0u64..40, 1u64..10), 1..4).prop_map(|ranges| {
            let range = |(start, len)| AddressRange { start: start * 4096, end: (start + len) * 4096 };
            ranges.into_iter().map(range).collect::<Vec<_>>()
        })
    ];
    let access = prop_oneof![3 => Just(None), 1 => Just(Some(Access::Reads)), 1 => Just(Some(Access::Writes))];
    (window, words(&["0", "1", "t200"]), words(&["p100", "1"]), ranges, words(&["heap", "lib"]), access).prop_map(
        |((from, to), threads, processes, ranges, mappings, access)| Selection {
            from,
            to,
            threads,
            processes,
            ranges,
            mappings,
            access,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A report of a part equals that of the file written from it, and of any copy of that.
    #[test]
    fn a_report_of_a_part_is_that_of_its_file(steps in any_steps(), selection in any_selection()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        write(&path, family(), &steps);
        prop_assume!(!selection.is_whole());
        let Ok(mut found) = part(&path, &selection) else { return Ok(()) };
        let of_part = reports(&mut found);
        let (_, rows) = written(&path, &selection);
        prop_assert_eq!(&rows_of(&mut found), &rows);
        let mut reader = TraceReader::open(path.with_extension("out")).unwrap();
        prop_assert_eq!(reports(&mut reader), of_part);
    }

    /// A cut keeps the rows of the window in order, the CPU time between rows of each thread, and the mapping of every page.
    #[test]
    fn a_cut_keeps_rows_clocks_and_mappings(steps in possible_steps().prop_map(unlike), from in 0u64..300, length in 1u64..300) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        write(&path, family(), &steps);
        let times = trace_times(&family(), &steps);
        let pages_shown = shown(&family(), &steps);
        let in_window: Vec<(usize, TraceRow)> = steps.iter().zip(&times)
            .filter_map(|(step, &time)| match step { Step::Row(row) => Some((time, *row)), Step::Event(..) => None })
            .enumerate()
            .filter(|(_, (time, _))| (from..from + length).contains(time))
            .map(|(number, (_, row))| (number, row))
            .collect();
        if in_window.is_empty() {
            prop_assert!(part(&path, &window(from, from + length)).is_err());
            return Ok(());
        }
        let (meta, rows) = written(&path, &window(from, from + length));
        let source = family();
        let tid = |meta: &TraceMeta, row: &TraceRow| meta.threads[row.thread as usize].tid;
        let what = |meta: &TraceMeta, row: &TraceRow| (tid(meta, row), row.page, row.pages, row.write);
        prop_assert_eq!(
            rows.iter().map(|row| what(&meta, row)).collect::<Vec<_>>(),
            in_window.iter().map(|(_, row)| what(&source, row)).collect::<Vec<_>>()
        );
        for thread in 0..source.threads.len() {
            let of = |rows: Vec<(u32, u64)>| -> Vec<u64> {
                let times: Vec<u64> = rows.into_iter().filter(|row| row.0 == source.threads[thread].tid).map(|row| row.1).collect();
                times.windows(2).map(|pair| pair[1] - pair[0]).collect()
            };
            prop_assert_eq!(
                of(rows.iter().map(|row| (tid(&meta, row), row.time_ns)).collect()),
                of(in_window.iter().map(|(_, row)| (tid(&source, row), row.time_ns)).collect())
            );
        }
        let before: Vec<_> = in_window.iter().map(|(number, _)| pages_shown[*number].clone()).collect();
        prop_assert_eq!(shown(&meta, &steps_of(&meta, &rows)), before);
    }

    /// With one thread, every row of a cut keeps its trace time, relative to the start of the window.
    #[test]
    fn a_cut_of_one_thread_keeps_trace_times(
        parts in proptest::collection::vec((0u64..30, 0u64..60, any::<bool>()), 2..60),
        from in 0u64..600, length in 1u64..600,
    ) {
        let mut clock = 0;
        let steps: Vec<Step> = parts.into_iter().map(|(wait, ns, sleeps)| {
            clock += wait;
            if sleeps { Step::Event(0, clock, EventKind::Idle { ns }) } else { Step::Row(row(0, clock, wait, 1)) }
        }).collect();
        let meta = TraceMeta { epoch_ns: 10, ..TraceMeta::single("t") };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        write(&path, meta.clone(), &steps);
        let of_rows = |steps: &[Step], times: Vec<u64>| -> Vec<u64> {
            steps.iter().zip(times).filter(|(step, _)| matches!(step, Step::Row(_))).map(|(_, time)| time).collect()
        };
        let length_of_source = *trace_times(&meta, &steps).last().unwrap();
        let expected: Vec<u64> = of_rows(&steps, trace_times(&meta, &steps)).into_iter()
            .filter(|time| (from..from + length).contains(time)).map(|time| time - from).collect();
        if expected.is_empty() {
            return Ok(());
        }
        let (meta, rows) = written(&path, &window(from, from + length));
        let steps_out = steps_of(&meta, &rows);
        let times = trace_times(&meta, &steps_out);
        let last = *times.last().unwrap();
        prop_assert_eq!(of_rows(&steps_out, times), expected);
        if length_of_source >= from + length {
            prop_assert_eq!(last, length, "the cut is as long as the window");
        }
    }

    /// A filter by address changes neither the length of a trace nor any start time.
    #[test]
    fn a_filter_by_address_keeps_the_length(steps in any_steps().prop_map(unlike), start in 0u64..40, len in 1u64..20) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        write(&path, family(), &steps);
        let range = AddressRange { start: start * 4096, end: (start + len) * 4096 };
        let selection = Selection { ranges: vec![range], ..Selection::default() };
        let Ok(mut found) = part(&path, &selection) else { return Ok(()) };
        let mut whole = TraceReader::open(&path).unwrap();
        prop_assert_eq!(footprint(&mut found).unwrap().duration_ns, footprint(&mut whole).unwrap().duration_ns);
        let pages = |rows: &[TraceRow]| -> Vec<(u32, u64, u64)> {
            let of = |row: &TraceRow| {
                let row = *row;
                (0..u64::from(row.pages)).map(move |page| (row.thread, row.time_ns, row.page + page))
            };
            rows.iter().flat_map(of).filter(|touch| (start..start + len).contains(&touch.2)).collect()
        };
        if found.meta().threads.len() == 4 {
            prop_assert_eq!(pages(&rows_of(&mut found)), pages(&rows_of(&mut whole)));
        }
    }

    /// Merged traces can be separated: filtering for the processes of one gives its rows again.
    #[test]
    fn a_merge_comes_apart(first in any_steps().prop_map(unlike), second in any_steps().prop_map(unlike)) {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, out) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("out"));
        write(&a, family(), &first);
        write(&b, family(), &second);
        let Ok(meta) = merge(&[a.clone(), b.clone()], &out, |_| {}) else { return Ok(()) };
        let (_, rows) = read(&out);
        let times = trace_times(&meta, &steps_of(&meta, &rows));
        prop_assert!(times.is_sorted());
        let ours = |rows: &[TraceRow], first_thread: u32| -> Vec<TraceRow> {
            let of = |row: &&TraceRow| (first_thread..first_thread + 4).contains(&row.thread);
            rows.iter().filter(of).map(|row| TraceRow { thread: row.thread - first_thread, ..*row }).collect()
        };
        prop_assert_eq!(ours(&rows, 0), read(&a).1);
        prop_assert_eq!(ours(&rows, 4), read(&b).1);
        let length = |path: &Path| footprint(&mut TraceReader::open(path).unwrap()).unwrap().duration_ns;
        prop_assert_eq!(length(&out), length(&a).max(length(&b)));
    }
}
