//! The analyses against naive models that keep one entry for each page and check everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use isotherm_trace::analysis::{HeatmapOptions, IdleAt, footprint, heatmap, hot, huge_ranges, idle, info, mrc, wss};
use isotherm_trace::{
    EventKind, MapKind, MapRange, ProcessMeta, ThreadMeta, TraceMeta, TraceReader, TraceRow, TraceWriter,
};
use proptest::prelude::*;

/// A step of the program, in file order.
#[derive(Clone, Debug)]
enum Step {
    Row(TraceRow),
    Event(u32, u64, EventKind),
}

/// Thread 0 and 2 in process 0, thread 1 in process 1. Threads 1 and 2 are started when the steps say so.
fn meta() -> TraceMeta {
    let thread = |process, started_by| ThreadMeta { process, started_by, ..ThreadMeta::default() };
    TraceMeta {
        processes: vec![ProcessMeta::default(), ProcessMeta { forked_from: Some(0), ..ProcessMeta::default() }],
        threads: vec![thread(0, None), thread(1, Some(0)), thread(0, Some(0))],
        epoch_ns: 10,
        ..TraceMeta::default()
    }
}

fn write(path: &Path, steps: &[Step]) -> TraceReader {
    let mut writer = TraceWriter::create(path, meta()).unwrap();
    for step in steps {
        match step {
            Step::Row(row) => writer.push(*row).unwrap(),
            Step::Event(thread, time_ns, kind) => writer.event(*thread, *time_ns, kind.clone()).unwrap(),
        }
    }
    // Not finished: events stay as they are, unfolded.
    writer.flush().unwrap();
    std::mem::forget(writer);
    TraceReader::open(path).unwrap()
}

fn map(start: u64, end: u64, what: MapKind) -> EventKind {
    EventKind::Map(MapRange { start, end, what, ..MapRange::default() })
}
fn row(thread: u32, time_ns: u64, page: u64, pages: u32, write: bool) -> Step {
    Step::Row(TraceRow { time_ns, thread, page, pages, write, kernel: false })
}

#[test]
fn pages_of_the_page_cache_are_shared_and_outlive_processes() {
    use isotherm_trace::PageCacheRange;
    use isotherm_trace::analysis::{footprint, info, mrc, wss};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let first = PageCacheRange::RECORDED.start;
    let meta = TraceMeta { page_cache: Some(PageCacheRange::RECORDED), ..meta() };
    let mut writer = TraceWriter::create(&path, meta).unwrap();
    let cached = || {
        let (what, file) = (MapKind::PageCache, Some("/data/f".to_owned()));
        EventKind::Map(MapRange { start: first, end: first + 8, what, file, ..MapRange::default() })
    };
    let row = |thread, time_ns, page, pages, kernel| TraceRow { time_ns, thread, page, pages, write: false, kernel };
    writer.event(0, 0, map(5, 9, MapKind::Heap)).unwrap();
    writer.push(row(0, 0, 5, 1, false)).unwrap();
    writer.event(0, 0, cached()).unwrap();
    writer.push(row(0, 0, first, 4, true)).unwrap();
    writer.event(0, 5, EventKind::StartThread { thread: 1 }).unwrap();
    // The child opens the same file: nothing is replaced, and its pages are the same.
    writer.event(1, 0, cached()).unwrap();
    writer.push(row(1, 0, 5, 1, false)).unwrap();
    writer.push(row(1, 0, first + 2, 4, true)).unwrap();
    writer.event(1, 10, EventKind::EndThread).unwrap();
    writer.push(row(0, 20, first, 6, true)).unwrap();
    writer.finish().unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let found = footprint(&mut reader).unwrap();
    assert_eq!((found.touched_pages, found.page_cache_pages), (8, 6), "one page in each process, six of the file");
    assert_eq!(found.peak_resident_pages, 8);
    assert_eq!(isotherm_trace::analysis::page_cache_pages(&mut reader).unwrap(), Some(6));
    let curve = mrc(&mut reader).unwrap();
    assert_eq!((curve.accesses, curve.cold_misses, curve.misses_at(8)), (16, 8, 8), "the file stayed");
    let windows: Vec<u64> = wss(&mut reader, 10).unwrap().windows.iter().map(|window| window.pages).collect();
    assert_eq!(windows, [8, 0, 6]);
    let info = info(&mut reader).unwrap();
    assert!(info.descriptor_accesses);
    assert_eq!((info.accesses, info.kernel_accesses), (16, 14));
    let of_file: Vec<_> = info.mappings.iter().filter(|row| row.label == "page cache f").collect();
    assert_eq!(of_file.iter().map(|row| (row.process, row.touched_pages)).collect::<Vec<_>>(), [(0, 4), (1, 2)]);
}

#[test]
fn idle_ages_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [
        row(0, 0, 5, 4, false),
        Step::Event(0, 5, EventKind::StartThread { thread: 1 }),
        row(0, 20, 5, 1, true),
        Step::Event(0, 40, EventKind::Unmap { start: 7, end: 9 }),
        row(1, 55, 5, 1, false),
        row(0, 100, 6, 1, false),
        Step::Event(0, 150, EventKind::EndThread),
    ];
    let mut reader = write(&folder.path().join("t"), &steps);
    let mut ages = |at| -> Vec<(u64, u64, Vec<u64>)> {
        let moments = idle(&mut reader, at, &[0, 30, 60]).unwrap();
        moments.into_iter().map(|moment| (moment.time_ns, moment.in_use_pages, moment.idle_pages)).collect()
    };
    assert_eq!(ages(IdleAt::Time(0)), [(0, 4, vec![0, 0, 0])]);
    assert_eq!(ages(IdleAt::Time(30)), [(30, 0, vec![1, 3, 0])], "10 ns, and three pages 30 ns: bounds are included");
    assert_eq!(ages(IdleAt::Time(39)), [(39, 0, vec![1, 3, 0])], "still mapped though no row follows before the unmap");
    assert_eq!(ages(IdleAt::Time(40)), [(40, 0, vec![1, 1, 0])]);
    // Process 1 touched its page 5 at 60, process 0 its page 5 at 20.
    let last = (100, 1, vec![0, 1, 1]);
    assert_eq!(ages(IdleAt::LastAccess), std::slice::from_ref(&last));
    assert_eq!(ages(IdleAt::Spread(2)), [(50, 0, vec![0, 2, 0]), last]);
    assert_eq!(ages(IdleAt::Time(150)), [(150, 0, vec![0, 0, 1])], "process 0 has ended");
    for (at, word) in [(IdleAt::Time(151), "150 ns"), (IdleAt::Spread(0), "1 to"), (IdleAt::Spread(u32::MAX), "1 to")] {
        let error = idle(&mut reader, at, &[0]).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    for bounds_ns in [&[][..], &[1, 2], &[0, 0], &[0, 2, 1]] {
        assert!(idle(&mut reader, IdleAt::LastAccess, bounds_ns).is_err(), "{bounds_ns:?}");
    }
}

/// A touch of one page, or the removal of pages, with the trace time; the model's own walk.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Touch { process: usize, page: u64, write: bool, time_ns: u64 },
    Gone { process: usize, start: u64, end: u64 },
}

fn facts(steps: &[Step]) -> (Vec<Fact>, u64) {
    let meta = meta();
    let (mut offsets, mut now) = ([Some(0u64), None, None], 0u64);
    let mut alive = [1, 0];
    let mut facts = Vec::new();
    for step in steps {
        let (thread, time_ns) = match step {
            Step::Row(row) => (row.thread, row.time_ns),
            Step::Event(thread, time_ns, _) => (*thread, *time_ns),
        };
        let process = meta.process_of(thread);
        if let Step::Event(_, _, EventKind::Map(MapRange { start, end, .. }) | EventKind::Unmap { start, end }) = step {
            facts.push(Fact::Gone { process, start: *start, end: *end });
        }
        let offset = *offsets[thread as usize].get_or_insert(now.saturating_sub(time_ns));
        now = now.max(offset + time_ns);
        match step {
            Step::Row(row) => facts.extend((row.page..row.page + u64::from(row.pages)).map(|page| Fact::Touch {
                process,
                page,
                write: row.write,
                time_ns: now,
            })),
            Step::Event(_, _, EventKind::StartThread { thread: started }) => {
                if offsets[*started as usize].is_none() {
                    offsets[*started as usize] = Some(now);
                    alive[meta.process_of(*started)] += 1;
                }
            }
            Step::Event(_, _, EventKind::Idle { ns }) => offsets[thread as usize] = Some(offset + ns),
            Step::Event(_, _, EventKind::EndThread) => {
                if alive[process] == 1 {
                    facts.push(Fact::Gone { process, start: 0, end: u64::MAX });
                }
                alive[process] = std::cmp::max(alive[process] - 1, 0);
            }
            Step::Event(..) => {}
        }
    }
    (facts, now)
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u32..3, 0u64..25, prop_oneof![0u64..48, 1000u64..1016], 1u32..6, 0u8..40, any::<bool>());
    proptest::collection::vec(step, 1..250).prop_map(|steps| {
        let mut clocks = [0u64; 3];
        let step = |(thread, wait, page, pages, dice, write): (u32, u64, u64, u32, u8, bool)| {
            let clock = &mut clocks[thread as usize];
            *clock += wait;
            let end = page + 2 * u64::from(pages);
            let event = |kind| Step::Event(thread, *clock, kind);
            match dice {
                0 => event(EventKind::Unmap { start: page, end }),
                1 => event(map(page, end, MapKind::Heap)),
                2 => event(map(page, end, MapKind::Stack)),
                3 => event(EventKind::Idle { ns: wait * 3 }),
                4 | 5 => event(EventKind::StartThread { thread: u32::from(dice) - 3 }),
                6 if wait < 3 => event(EventKind::EndThread),
                _ => row(thread, *clock, page, pages, write),
            }
        };
        steps.into_iter().map(step).collect()
    })
}

/// Misses of an LRU memory of `places` pages that forgets removed pages.
fn naive_misses(facts: &[Fact], places: usize) -> u64 {
    let mut cache: Vec<(usize, u64)> = Vec::new();
    let mut misses = 0;
    for fact in facts {
        match *fact {
            Fact::Touch { process, page, .. } => {
                let at = cache.iter().position(|&held| held == (process, page));
                misses += u64::from(at.is_none());
                if let Some(at) = at {
                    cache.remove(at);
                }
                cache.insert(0, (process, page));
                cache.truncate(places);
            }
            Fact::Gone { process, start, end } => {
                cache.retain(|&(held, page)| held != process || !(start..end).contains(&page));
            }
        }
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn equal_naive_models(steps in any_steps(), window_ns in 10u64..60, columns in 1u32..9, rows in 1u32..30) {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = write(&folder.path().join("t"), &steps);
        let (facts, duration_ns) = facts(&steps);
        let touches: Vec<_> = facts.iter().filter_map(|fact| match *fact {
            Fact::Touch { process, page, write, time_ns } => Some((process, page, write, time_ns)),
            Fact::Gone { .. } => None,
        }).collect();

        // Footprint: sets of pages.
        let mut resident = BTreeSet::new();
        let mut peak = 0;
        for fact in &facts {
            match *fact {
                Fact::Touch { process, page, .. } => { resident.insert((process, page)); }
                Fact::Gone { process, start, end } => resident.retain(|&(held, page)| held != process || !(start..end).contains(&page)),
            }
            peak = peak.max(resident.len() as u64);
        }
        let touched: BTreeSet<_> = touches.iter().map(|&(process, page, ..)| (process, page)).collect();
        let written: BTreeSet<_> = touches.iter().filter(|touch| touch.2).map(|&(process, page, ..)| (process, page)).collect();
        let found = footprint(&mut reader).unwrap();
        prop_assert_eq!(found.touched_pages, touched.len() as u64);
        prop_assert_eq!(found.written_pages, written.len() as u64);
        prop_assert_eq!(found.peak_resident_pages, peak);
        prop_assert_eq!(found.duration_ns, duration_ns);

        // Info agrees with the footprint, and its parts add up.
        let summary = info(&mut reader).unwrap();
        prop_assert_eq!(&summary.footprint, &found);
        prop_assert_eq!(summary.accesses, touches.len() as u64);
        prop_assert_eq!(summary.write_accesses, touches.iter().filter(|touch| touch.2).count() as u64);
        prop_assert_eq!(summary.mappings.iter().map(|entry| entry.touched_pages).sum::<u64>(), found.touched_pages);
        prop_assert_eq!(summary.mappings.iter().map(|entry| entry.written_pages).sum::<u64>(), found.written_pages);
        prop_assert_eq!(summary.mappings.iter().map(|entry| entry.accesses).sum::<u64>(), summary.accesses);
        prop_assert_eq!(summary.threads.iter().map(|thread| thread.accesses).sum::<u64>(), summary.accesses);

        // Working set: a set of pages for each window.
        let found = wss(&mut reader, window_ns).unwrap();
        let mut sets: BTreeMap<u64, (BTreeSet<_>, BTreeSet<_>, u64)> = BTreeMap::new();
        for &(process, page, write, time_ns) in &touches {
            let (pages, written, accesses) = sets.entry(time_ns / window_ns).or_default();
            pages.insert((process, page));
            if write {
                written.insert((process, page));
            }
            *accesses += 1;
        }
        for (index, window) in (0u64..).zip(&found.windows) {
            let (pages, written, accesses) = sets.remove(&index).unwrap_or_default();
            prop_assert_eq!((window.start_ns, window.pages, window.written_pages, window.accesses),
                (index * window_ns, pages.len() as u64, written.len() as u64, accesses));
        }
        prop_assert!(sets.is_empty(), "windows are missing: {:?}", sets);

        // Idle age: the last touch of each page that is mapped at the last touch of all.
        let end = facts.iter().rposition(|fact| matches!(fact, Fact::Touch { .. })).map_or(0, |last| last + 1);
        let (mut last_ns, mut now_ns) = (BTreeMap::new(), 0);
        for fact in &facts[..end] {
            match *fact {
                Fact::Touch { process, page, time_ns, .. } => {
                    now_ns = time_ns;
                    last_ns.insert((process, page), time_ns);
                }
                Fact::Gone { process, start, end } => {
                    last_ns.retain(|&(held, page), _| held != process || !(start..end).contains(&page));
                }
            }
        }
        if end > 0 {
            let pages = |ages: std::ops::Range<u64>| {
                last_ns.values().filter(|&&last_ns| ages.contains(&(now_ns - last_ns))).count() as u64
            };
            let found = &idle(&mut reader, IdleAt::LastAccess, &[0, 20, 50]).unwrap()[0];
            prop_assert_eq!((found.time_ns, found.in_use_pages), (now_ns, pages(0..10)));
            prop_assert_eq!(&found.idle_pages, &[pages(10..20), pages(20..50), pages(50..u64::MAX)]);
        }

        // Miss-ratio curve: one cache of each size.
        let curve = mrc(&mut reader).unwrap();
        prop_assert_eq!(curve.accesses, touches.len() as u64);
        for places in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 1000] {
            let expected = if places == 0 { curve.accesses } else { naive_misses(&facts, places) };
            prop_assert_eq!(curve.misses_at(places as u64), expected, "{} places", places);
        }
        prop_assert_eq!(curve.misses_at(u64::MAX), curve.cold_misses);

        // Hot: counts by page.
        let found = hot(&mut reader, usize::MAX).unwrap();
        prop_assert_eq!(found.mappings.iter().map(|entry| entry.accesses).sum::<u64>(), found.accesses);
        let mut seen = 0;
        for range in &found.ranges {
            let pages = range.start..range.end;
            let is_inside = |touch: &&(usize, u64, bool, u64)| touch.0 == range.process && pages.contains(&touch.1);
            let inside: Vec<_> = touches.iter().filter(is_inside).collect();
            let pages: BTreeSet<_> = inside.iter().map(|touch| touch.1).collect();
            seen += range.accesses;
            // Ranges of different mappings may interleave, so a range holds at most the accesses inside its ends.
            prop_assert!(range.accesses <= inside.len() as u64 && range.touched_pages <= pages.len() as u64);
            prop_assert!(pages.contains(&range.start) && pages.contains(&(range.end - 1)));
        }
        prop_assert_eq!(seen, found.accesses);
        prop_assert!(found.ranges.is_sorted_by(|a, b| a.accesses >= b.accesses));

        // Heatmap: every access is in the cell of its row and column, and counted once.
        let options = HeatmapOptions { columns, rows, fold_pages: 64, whole_epochs: false };
        let map = heatmap(&mut reader, &options).unwrap();
        prop_assert!(map.rows.len() <= rows as usize);
        let mut cells = vec![0u64; map.cells.len()];
        let mut dropped = 0;
        for &(process, page, _, time_ns) in &touches {
            let at = map.rows.iter().position(|row| {
                map.bands[row.band as usize].process == process && (row.start..row.end).contains(&page)
            });
            let column = u64::from(columns) * time_ns / duration_ns.max(1);
            let column = usize::try_from(column.min(u64::from(columns) - 1)).unwrap();
            match at {
                Some(at) => cells[at * columns as usize + column] += 1,
                None => dropped += 1,
            }
        }
        prop_assert_eq!((&map.cells, map.dropped_accesses), (&cells, dropped));
        prop_assert!(dropped == 0 || map.dropped_bands > 0);
    }
}

#[test]
fn a_thread_starts_at_its_starters_time_and_sleep_counts() {
    let folder = tempfile::tempdir().unwrap();
    // Thread 0 computes 100, starts thread 2, sleeps 400; thread 2 computes 50 (at 150); thread 0 continues at 550.
    let steps = [
        row(0, 100, 1, 1, false),
        Step::Event(0, 100, EventKind::StartThread { thread: 2 }),
        row(2, 50, 2, 1, false),
        Step::Event(0, 100, EventKind::Idle { ns: 400 }),
        row(0, 150, 3, 1, false),
    ];
    let mut reader = write(&folder.path().join("t"), &steps);
    let found = wss(&mut reader, 100).unwrap();
    let pages: Vec<_> = found.windows.iter().map(|window| window.pages).collect();
    assert_eq!(pages, [0, 2, 0, 0, 0, 1]);
    let percentiles: Vec<_> = found.percentiles.iter().map(|entry| (entry.percent, entry.pages)).collect();
    // Sorted sizes 0 0 0 0 1 2; rank of p75 = 4.5 → the 5th.
    assert_eq!(percentiles[3..8], [(25, 0), (50, 0), (75, 1), (90, 2), (99, 2)]);
    assert_eq!(info(&mut reader).unwrap().cpu_ns, 200);
}

#[test]
fn mappings_are_told_apart_by_kind_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        MapRange { start: 0, end: 32, what: MapKind::File, file: Some("/lib/libc.so.6".into()), ..MapRange::default() };
    let steps = [
        Step::Event(0, 0, EventKind::Map(file)),
        Step::Event(0, 0, map(32, 64, MapKind::Heap)),
        row(0, 0, 30, 4, false),
        row(0, 10, 30, 4, true),
        row(0, 20, 99, 2, false),
    ];
    let mut reader = write(&folder.path().join("t"), &steps);
    let table = |label: &str, pages, accesses| (label.to_owned(), pages, accesses);
    let found: Vec<_> = hot(&mut reader, 10)
        .unwrap()
        .mappings
        .into_iter()
        .map(|entry| (entry.label, entry.touched_pages, entry.accesses))
        .collect();
    assert_eq!(found, [table("file libc.so.6", 2, 4), table("heap", 2, 4), table("not mapped", 2, 2)]);
    let ranges = hot(&mut reader, 10).unwrap().ranges;
    let ranges: Vec<_> = ranges.iter().map(|range| (range.start, range.end, range.accesses, range.share_ppm)).collect();
    assert_eq!(ranges, [(30, 32, 4, 400_000), (32, 34, 4, 400_000), (99, 101, 2, 200_000)]);
    let mut labels = |rows| {
        let map =
            heatmap(&mut reader, &HeatmapOptions { columns: 2, rows, fold_pages: 32, whole_epochs: false }).unwrap();
        map.bands.into_iter().map(|band| band.label).collect::<Vec<_>>()
    };
    assert_eq!(labels(9), ["file libc.so.6", "heap", "not mapped"]);
    assert_eq!(labels(8), ["heap +1", "not mapped"], "with few rows neighbours share a band");
}

#[test]
fn options_that_cannot_be_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut reader = write(&folder.path().join("t"), &[row(0, 1 << 40, 1, 1, false)]);
    for (window_ns, expected) in [(0, "from the trace's epoch of 10 ns"), (9, "is 9 ns"), (10, "take a longer one")] {
        let error = wss(&mut reader, window_ns).unwrap_err().to_string();
        assert!(error.contains("window") && error.contains(expected), "{error}");
    }
    for (columns, rows) in [(0, 5), (5, 0), (1 << 20, 1 << 20)] {
        let options = HeatmapOptions { columns, rows, fold_pages: 1, whole_epochs: false };
        assert!(heatmap(&mut reader, &options).unwrap_err().to_string().contains("allowed"));
    }
}

#[test]
fn an_empty_trace_has_empty_results() {
    let folder = tempfile::tempdir().unwrap();
    let mut reader = write(&folder.path().join("t"), &[]);
    assert_eq!(info(&mut reader).unwrap().accesses, 0);
    assert_eq!(mrc(&mut reader).unwrap().misses_at(5), 0);
    assert_eq!(heatmap(&mut reader, &HeatmapOptions::default()).unwrap().cells.len(), 0);
    assert_eq!(wss(&mut reader, 10).unwrap().windows.len(), 1);
    assert!(hot(&mut reader, 5).unwrap().ranges.is_empty());
}

/// Ranges of 512 pages, by hand. Range 0: 384 pages of a mapping that covers it. Range 1: two adjacent mappings of the same kind,
/// 100 pages, then 300 others after those were unmapped. Range 2: half heap, half a file. Range 3: all of it, in one mapping.
#[test]
fn ranges_of_2_mib_are_told_by_how_much_of_them_is_touched() {
    let event = |time_ns, kind| Step::Event(0, time_ns, kind);
    let steps = [
        event(0, map(0, 700, MapKind::Anonymous)),
        event(0, map(700, 1024, MapKind::Anonymous)),
        event(0, map(1024, 1280, MapKind::Heap)),
        event(0, map(1280, 1536, MapKind::File)),
        event(0, map(1536, 2048, MapKind::Heap)),
        row(0, 1, 0, 384, true),
        row(0, 2, 0, 384, false),
        row(0, 3, 600, 100, true),
        event(3, EventKind::Unmap { start: 600, end: 700 }),
        event(3, map(600, 700, MapKind::Anonymous)),
        row(0, 4, 700, 300, true),
        row(0, 5, 1024, 512, true),
        row(0, 6, 1536, 512, true),
        event(6, EventKind::Unmap { start: 0, end: 2048 }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let found = huge_ranges(&mut write(&folder.path().join("t"), &steps)).unwrap().expect("mappings are known");
    let pages = |bytes: u64| bytes / 4096;
    assert_eq!(pages(found.touched_bytes), 384 + 400 + 512 + 512);
    assert_eq!(
        pages(found.anonymous_bytes),
        384 + 300 + 256 + 512,
        "of range 1 the most at one time, of range 2 the heap"
    );
    let steps: Vec<[u64; 4]> = (found.steps.iter())
        .map(|step| [step.least_share_ppm / 10_000, step.ranges, pages(step.held_bytes), pages(step.overhead_bytes)])
        .collect();
    let expected = [
        [0, 3, 1196, 340],
        [25, 3, 1196, 340],
        [50, 3, 1196, 340],
        [75, 2, 896, 128],
        [90, 1, 512, 0],
        [100, 1, 512, 0],
    ];
    assert_eq!(steps, expected);
    let dense = &found.steps[3];
    assert_eq!(dense.held_share_ppm, 896 * 1_000_000 / 1808);
    assert_eq!(dense.accesses_share_ppm, (2 * 384 + 512) * 1_000_000 / (2 * 384 + 400 + 1024));
}

#[test]
fn what_could_be_huge_needs_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let mut reader = write(&folder.path().join("t"), &[row(0, 1, 0, 512, true)]);
    let why = huge_ranges(&mut reader).unwrap().expect_err("no mappings");
    assert!(why.message().contains("nothing of mappings"), "{why:?}");
}
