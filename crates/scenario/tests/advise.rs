//! Advice on small recordings that are made here.

use isotherm_scenario::advise::{Advice, AdviceRow, CANDIDATES, Question, REPEATS, advise};
use isotherm_sim::swap::device::DeviceKind;
use isotherm_trace::{EventKind, MapKind, MapRange, Row, TraceMeta, TraceWriter};
use isotherm_units::{Amount, Ratio};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Of this recording, in milliseconds of CPU time, which are epochs.
const LENGTH_MS: u64 = 2_500;
const MS: u64 = 1_000_000;
/// Pages that are written once, in the first 100 ms: 24 MiB.
const ONCE: u64 = 6_144;
/// Pages behind them that are written every 20 ms until the end: 4 MiB.
const EVER: u64 = 1_024;

/// A program that fills memory, and then uses a seventh of it.
fn recording(folder: &Path) -> PathBuf {
    let path = folder.join("filler.parquet");
    let mut writer = TraceWriter::create(&path, TraceMeta { epoch_ns: MS, ..TraceMeta::single("filler") }).unwrap();
    let (start, end) = (1 << 20, (1 << 20) + ONCE + EVER);
    let map = MapRange { start, end, what: MapKind::Anonymous, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map)).unwrap();
    for ms in 0..LENGTH_MS {
        let (page, pages) = match ms {
            0..100 => (start + ms * ONCE.div_ceil(100), ONCE.div_ceil(100)),
            _ => (start + ONCE + ms % 20 * EVER.div_ceil(20), EVER.div_ceil(20)),
        };
        let pages = u32::try_from(pages.min(end - page)).unwrap();
        writer.push(Row { time_ns: ms * MS, thread: 0, page, pages, write: true }).unwrap();
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
    path
}

fn ask(path: &Path, memory: &[u64]) -> Advice {
    let share = |percent: &u64| Amount::Share(Ratio::from_percent(*percent));
    let question = Question {
        name: "filler".to_owned(),
        trace: path.to_owned(),
        memory: memory.iter().map(share).collect(),
        swap: DeviceKind::Zram,
        slowdown: Ratio::from_percent(5),
        cpus: 2,
        threads: Some(1),
    };
    advise(&question, &()).unwrap_or_else(|error| panic!("{error}"))
}

/// The advice that the tests look at, from 100 % of peak on.
fn advice() -> &'static Advice {
    static ADVICE: OnceLock<Advice> = OnceLock::new();
    ADVICE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        ask(&recording(folder.path()), &[100])
    })
}

fn row<'a>(advice: &'a Advice, candidate: &str, memory_bytes: u64) -> &'a AdviceRow {
    let is_it = |row: &&AdviceRow| row.candidate == candidate && row.memory_bytes == memory_bytes;
    advice.rows.iter().find(is_it).unwrap_or_else(|| panic!("no row {candidate} {memory_bytes}"))
}

#[test]
fn combinations_do_something_and_every_figure_carries_its_interval() {
    let advice = advice();
    // Under a limit of the whole peak, proactive reclaim holds less than that; the policy alone does not.
    for policy in ["classic", "mglru"] {
        let plain = row(advice, policy, advice.peak_bytes);
        let reclaim = row(advice, &format!("{policy} + reclaim"), advice.peak_bytes);
        assert!(plain.schemes.is_empty() && plain.monitor_cpu_ns == 0);
        let [pageout] = &reclaim.schemes[..] else { panic!("{:?}", reclaim.schemes) };
        assert_eq!(pageout.action, "pageout");
        assert!(pageout.applied_bytes > 12 << 20, "{policy}: {pageout:?}");
        assert!(reclaim.mean_ci95_high_bytes.unwrap() < plain.mean_ci95_low_bytes.unwrap(), "{reclaim:?}");
        assert!(reclaim.mean_bytes < plain.mean_bytes * 9 / 10, "{reclaim:?}");
        assert!(reclaim.monitor_cpu_ns > 0);
        let sort = row(advice, &format!("{policy} + lru_sort"), advice.peak_bytes);
        assert_eq!(sort.schemes.iter().map(|scheme| scheme.action).collect::<Vec<_>>(), ["lru-prio", "lru-deprio"]);
        assert!(sort.schemes.iter().any(|scheme| scheme.applied_bytes > 0), "{:?}", sort.schemes);
    }
    // Generations tell what is cold as well, without a monitor.
    let (plain, proactive) =
        (row(advice, "mglru", advice.peak_bytes), row(advice, "mglru + proactive", advice.peak_bytes));
    let [evict] = &proactive.schemes[..] else { panic!("{:?}", proactive.schemes) };
    assert_eq!(evict.action, "evict");
    assert!(evict.applied_bytes > 12 << 20, "{evict:?}");
    assert!(proactive.mean_bytes < plain.mean_bytes * 9 / 10 && proactive.monitor_cpu_ns > 0, "{proactive:?}");
    for row in &advice.rows {
        assert_eq!(row.n, REPEATS as u64, "{row:?}");
        let interval = (row.runtime_ratio_ci95_low_ppm, row.runtime_ratio_ppm, row.runtime_ratio_ci95_high_ppm);
        if let (Some(low), Some(mean), Some(high)) = interval {
            assert!(low <= mean && mean <= high, "{row:?}");
        } else {
            assert!(row.unfinished > 0, "{row:?}");
        }
        assert!(row.major_faults_ci95_low.is_some() && row.mean_ci95_high_bytes.is_some());
    }
    let best = advice.recommendation.as_ref().expect("a seventh of its memory is enough");
    assert!(best.runtime_ratio_ci95_high_ppm.unwrap() <= 1_050_000, "the upper end counts");
    assert!(best.gain.mean_saved_ci95_low_bytes.is_some() && best.gain.saved_bytes > 0);
    assert_eq!(best.candidate == "classic", best.gain.against_classic.is_none());
    // All set-ups stand side by side at the recommended size.
    assert_eq!(advice.compared_bytes, best.memory_bytes);
    CANDIDATES.iter().for_each(|candidate| assert_eq!(row(advice, candidate.name, best.memory_bytes).n, 5));
    // With the kernel's own parameters nothing happens in two and a half seconds, and that is told.
    let presets: Vec<&str> = advice.kernel_defaults.iter().map(|defaults| defaults.preset).collect();
    assert_eq!(presets, ["lru-sort", "reclaim"]);
    for sentence in advice.kernel_defaults.iter().flat_map(|defaults| &defaults.words) {
        assert!(sentence.join(" ").contains("watermarks"), "{sentence:?}");
    }
}

/// 28 MiB in one mapping from a multiple of 2 MiB on: 14 ranges, all of each.
#[test]
fn what_could_be_huge_is_told() {
    let huge = &advice().huge_pages;
    let dense = huge.dense().expect("all of it is");
    assert_eq!((dense.ranges, dense.held_bytes, dense.overhead_bytes), (14, 28 << 20, 0));
    assert_eq!((dense.held_share_ppm, dense.accesses_share_ppm), (1_000_000, 1_000_000));
    assert_eq!(huge.not_told, None);
    // And at what latency they would come.
    let fragmented = huge.fragmented.as_ref().expect("they could be huge");
    assert_eq!((fragmented.wanted, fragmented.vanilla().got + fragmented.vanilla().failed), (14, 3 * 14));
    assert!(fragmented.with_best().failed <= fragmented.vanilla().failed, "{fragmented:?}");
}

#[test]
fn the_written_set_up_is_the_one_that_was_played() {
    let advice = advice();
    let config = advice.config.as_ref().expect("a recommendation");
    let best = advice.recommendation.as_ref().expect("a recommendation");
    let text = isotherm_scenario::print(config);
    let scenario = isotherm_scenario::parse(&text, "config").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(scenario, *config);
    let set_up = advice.set_ups.iter().find(|set_up| set_up.candidate == best.candidate).expect("of the table");
    assert_eq!(scenario.monitors.len() + scenario.generations.len(), set_up.presets.len());
    assert_eq!(scenario.policy, best.candidate.split(" + ").next().unwrap());
}

/// A new key is fine; one that is gone or renamed breaks the programs that read it.
#[test]
fn json_has_the_documented_shape() {
    let advice = serde_json::to_value(advice()).unwrap();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let shape = [
        ("answer", keys(&advice)),
        ("row", keys(&advice["rows"][0])),
        ("set-up", keys(&advice["set_ups"][0])),
        ("recommendation", keys(&advice["recommendation"])),
        ("gain", keys(&advice["recommendation"]["gain"])),
        ("defaults", keys(&advice["kernel_defaults"][0])),
        ("huge pages", keys(&advice["huge_pages"])),
        ("ranges", keys(&advice["huge_pages"]["ranges"])),
        ("step", keys(&advice["huge_pages"]["ranges"]["steps"][0])),
        ("fragmented", keys(&advice["huge_pages"]["fragmented"])),
        ("latency", keys(&advice["huge_pages"]["fragmented"]["rows"][0])),
    ];
    let expected = [
        (
            "answer",
            "compared_bytes huge_pages kernel_defaults notes peak_bytes program recommendation rows set_ups slowdown_allowed_ppm swap \
             unknowns unlimited_major_faults unlimited_mean_bytes unlimited_runtime_ns",
        ),
        (
            "row",
            "candidate ending faults_to_opt_ppm is_fast_enough major_faults major_faults_ci95_high major_faults_ci95_low \
             mean_bytes mean_ci95_high_bytes mean_ci95_low_bytes memory_bytes memory_share_ppm monitor_cpu_ns n \
             pressure_some_ppm reclaim_cpu_ns runs_on_linux runtime_ns runtime_ratio_ci95_high_ppm \
             runtime_ratio_ci95_low_ppm runtime_ratio_ppm schemes unfinished",
        ),
        ("set-up", "candidate enough_bytes presets runs_on_linux"),
        (
            "recommendation",
            "candidate gain memory_bytes memory_share_ppm runtime_ratio_ci95_high_ppm runtime_ratio_ci95_low_ppm \
             runtime_ratio_ppm",
        ),
        (
            "gain",
            "against_classic classic_enough_bytes mean_saved_bytes mean_saved_ci95_high_bytes mean_saved_ci95_low_bytes \
             saved_at_most_bytes saved_bytes",
        ),
        ("defaults", "candidate preset runtime_ratio_ppm words"),
        ("huge pages", "dense_share_ppm fragmented not_told ranges"),
        ("ranges", "anonymous_bytes steps touched_bytes"),
        ("step", "accesses_share_ppm held_bytes held_share_ppm least_share_ppm overhead_bytes ranges"),
        ("fragmented", "assumptions best machine_bytes n rows wanted"),
        (
            "latency",
            "daemon_cpu_ns design failed fallback_p50_ns fallback_p95_ns got light_p50_ns light_share_ppm max_ns mean_ns \
             runs_on_linux",
        ),
    ];
    for ((name, found), (_, expected)) in shape.iter().zip(expected) {
        assert_eq!(found, expected, "{name}");
    }
}
