//! Kills in an answer, and answers that say nothing.

use crate::advise::{MS, question, recording_of};
use isotherm_advise::advice::words::verdict;
use isotherm_advise::{Advice, AdviceRow, Effort, Question, advise};
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_trace::{Clock, ClockKind, EventKind, MapKind, MapRange, TraceMeta, TraceRow, TraceWriter};
use std::path::{Path, PathBuf};

/// Of each half: 16 MiB.
const PAGES: u64 = 4096;

/// 16 MiB that are written at the start, and 16 MiB of a file that are read once after that, in 3.2 s.
fn reader(folder: &Path) -> PathBuf {
    let path = folder.join("reader.parquet");
    let mut writer = TraceWriter::create(&path, TraceMeta { epoch_ns: MS, ..TraceMeta::single("reader") }).unwrap();
    let first = |what: u64| what << 20;
    for (what, kind) in [(1, MapKind::Anonymous), (2, MapKind::Image)] {
        let file = (what == 2).then(|| "/srv/data".to_owned());
        let (start, end) = (first(what), first(what) + PAGES);
        writer.event(0, 0, EventKind::Map(MapRange { start, end, what: kind, file, ..MapRange::default() })).unwrap();
    }
    for ms in 0..3200 {
        let (what, write, nth) = if ms < 200 { (1, true, ms) } else { (2, false, ms - 200) };
        let pages = if ms < 200 { PAGES.div_ceil(200) } else { PAGES.div_ceil(3000) };
        let page = first(what) + nth * pages;
        let Ok(pages) = u32::try_from((first(what) + PAGES).saturating_sub(page).min(pages)) else { continue };
        if pages > 0 {
            writer.push(TraceRow { time_ns: ms * MS, thread: 0, page, pages, write, kernel: false }).unwrap();
        }
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
    path
}

/// Without swap only the file can be reclaimed: with less than the 16 MiB of the rest the program is killed.
#[test]
fn where_kills_are_near_at_most_1_run_in_100_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = reader(folder.path());
    let sizes = [Effort::Quick, Effort::Normal].map(|effort| {
        let asked = question(&path, &[100, 80, 60, 50], &[KernelRelease::V7_2]);
        let swap = DeviceConfig::Kind(DeviceKind::None);
        let asked = Question { effort, swap, details: false, baselines: false, ..asked };
        let advice = advise(&asked, &()).unwrap().remove(0);
        let best = advice.recommendation.as_ref().expect("all of its peak is enough");
        let (kills, chance) = (best.kills.share, best.kill_chance);
        assert_eq!(kills.of, 0);
        let killed_with = chance.killed_with_bytes.expect("it is, at half of its peak");
        let is_near = killed_with >= best.memory_bytes / 10 * 9;
        assert!(chance.at_most_ppm <= 10_000 || !is_near, "{effort:?}: {chance:?}");
        assert!(killed_with < best.memory_bytes && chance.of > 0 && chance.n > kills.n, "{chance:?}");
        assert!(verdict(&advice).contains("by the curve of all "), "{}", verdict(&advice));
        let is_best = |row: &&AdviceRow| (row.memory_bytes, row.candidate) == (best.memory_bytes, best.candidate);
        assert!(advice.rows.iter().find(is_best).is_some_and(|row| row.is_fast_enough && !row.is_one_replay));
        assert!(advice.rows.iter().all(|row| row.is_one_replay == (row.n == 1)));
        best.memory_bytes
    });
    assert!(sizes[1] <= sizes[0], "more replays find a smaller size: {sizes:?}");
    assert!((PAGES * 4096..PAGES * 4096 * 5 / 4).contains(&sizes[1]), "{sizes:?}");
}

#[test]
fn an_answer_that_is_withheld_calls_no_size_enough() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock { kind: ClockKind::InstructionMix, error_percent: None };
    let path = recording_of(folder.path(), TraceMeta { clock, ..TraceMeta::single("java") });
    let asked = Question { effort: Effort::Quick, ..question(&path, &[100], &[KernelRelease::V7_2]) };
    let mut advice: Advice = advise(&asked, &()).unwrap().remove(0);
    assert!(advice.rows.iter().any(|row| row.is_fast_enough && row.native_at_most_ppm.is_some()));
    advice.withhold_if_unknowable(&asked);
    assert!(advice.withheld.is_some() && advice.recommendation.is_none());
    assert!(!advice.rows.iter().any(|row| row.is_fast_enough || row.native_at_most_ppm.is_some()));
    assert!(advice.configurations.iter().all(|configuration| configuration.enough_bytes.is_none()));
    assert!(advice.other_devices.is_empty() && advice.clock.is_none());
}
