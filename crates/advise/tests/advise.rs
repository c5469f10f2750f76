//! Advice on small recordings that are made here.

use isotherm_advise::{
    Advice, AdviceRow, CANDIDATES, EFFORTS, Effort, Question, Recommendation, Sampling, advise, predict, recommend_each,
};
use isotherm_kernel::memory::KernelRelease;
use isotherm_trace::{EventKind, MapKind, MapRange, TraceMeta, TraceRow, TraceWriter};
use isotherm_units::{Amount, Bytes, Ratio};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Of this recording, in milliseconds of CPU time, which are epochs.
const LENGTH_MS: u64 = 2_500;
pub(crate) const MS: u64 = 1_000_000;
/// Pages that are written once, in the first 100 ms: 24 MiB.
const ONCE: u64 = 6_144;
/// Pages after them that are written every 20 ms until the end: 4 MiB.
const EVER: u64 = 1_024;

/// A program that fills memory, and then uses a seventh of it.
pub(crate) fn recording(folder: &Path) -> PathBuf {
    recording_of(folder, TraceMeta::single("filler"))
}

/// The same of another program. Its threads but the first start at once, and do nothing.
pub(crate) fn recording_of(folder: &Path, meta: TraceMeta) -> PathBuf {
    let path = folder.join("filler.parquet");
    let nr_threads = u32::try_from(meta.threads.len()).unwrap();
    let mut writer = TraceWriter::create(&path, TraceMeta { epoch_ns: MS, ..meta }).unwrap();
    let (start, end) = (1 << 20, (1 << 20) + ONCE + EVER);
    let map = MapRange { start, end, what: MapKind::Anonymous, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map)).unwrap();
    for thread in 1..nr_threads {
        writer.event(0, 0, EventKind::StartThread { thread }).unwrap();
    }
    for ms in 0..LENGTH_MS {
        let (page, pages) = match ms {
            0..100 => (start + ms * ONCE.div_ceil(100), ONCE.div_ceil(100)),
            _ => (start + ONCE + ms % 20 * EVER.div_ceil(20), EVER.div_ceil(20)),
        };
        let pages = u32::try_from(pages.min(end - page)).unwrap();
        writer.push(TraceRow { time_ns: ms * MS, thread: 0, page, pages, write: true, kernel: false }).unwrap();
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
    path
}

pub(crate) fn question(path: &Path, memory: &[u64], kernels: &[KernelRelease]) -> Question {
    let share = |percent: &u64| Amount::Share(Ratio::from_percent(*percent));
    Question {
        memory: memory.iter().map(share).collect(),
        every_size: true,
        cpus: 2,
        baselines: true,
        details: true,
        sampling: Sampling::Off,
        threads: Some(1),
        ..Question::usual("filler".to_owned(), path.to_owned(), kernels.to_vec())
    }
}

fn ask(path: &Path, memory: &[u64]) -> Advice {
    let answers = advise(&question(path, memory, &[KernelRelease::V7_2]), &());
    answers.unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// The advice that the tests check, from 100 % of peak on.
pub(crate) fn advice() -> &'static Advice {
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

/// docs/use/advise.md#configurations: tried on request, next to the others, and nothing else changes.
#[test]
fn right_sizing_is_tried_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let question = Question { limits: true, ..question(&recording(folder.path()), &[100], &[KernelRelease::V7_2]) };
    let sized = advise(&question, &()).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let plain = advice();
    assert!(!plain.rows.iter().any(|row| row.candidate.contains("limits")));
    let others: Vec<&AdviceRow> = sized.rows.iter().filter(|row| !row.candidate.contains("limits")).collect();
    assert_eq!(others, plain.rows.iter().collect::<Vec<_>>());
    assert_eq!(sized.recommendation, plain.recommendation);
    for policy in ["classic", "mglru"] {
        let name = format!("{policy} + limits");
        let row = row(&sized, &name, sized.peak_bytes);
        assert!(row.n >= 1 && !row.is_calibrated, "{row:?}");
        assert!(
            row.mean_bytes.high < self::row(&sized, policy, sized.peak_bytes).mean_bytes.low,
            "it holds less: {row:?}"
        );
        let configuration = sized.configurations.iter().find(|one| one.candidate == name).unwrap();
        let [preset] = &configuration.presets[..] else { panic!("{configuration:?}") };
        assert!(preset.starts_with("{ interval = \"100ms\", floor = "), "{preset}");
    }
}

/// docs/use/advise.md: more effort plays more, and where replays are spent where they decide the answer is that of the whole search.
#[test]
#[ignore = "nightly: plays one recording at several efforts"]
fn efforts_play_as_much_as_they_say_and_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let [quick, normal, thorough] = EFFORTS else { panic!("{EFFORTS:?}") };
    let [quick, normal, thorough] = [quick, normal, thorough].map(|&(effort, _)| {
        let question = Question { effort, ..question(&path, &[40, 60, 80, 100], &[KernelRelease::V7_2]) };
        advise(&question, &()).unwrap_or_else(|error| panic!("{error}")).remove(0)
    });
    assert!(quick.replays < normal.replays && normal.replays < thorough.replays);
    let best = |advice: &Advice| {
        let best = advice.recommendation.as_ref().expect("some size is safe");
        (best.candidate, best.memory_bytes)
    };
    assert_eq!(best(&normal), best(&thorough));
    let least = |advice: &Advice| advice.recommendation.as_ref().map_or(0, |best| best.n);
    assert!(least(&quick) >= 5 && least(&normal) >= 10 && least(&thorough) >= 10);
    let compared = |advice: &Advice, least| {
        let mut rows = advice.rows.iter().filter(|row| row.memory_bytes == advice.compared_bytes);
        rows.all(|row| row.n >= least)
    };
    assert!(compared(&quick, 1) && compared(&normal, 2) && compared(&thorough, 5));
    assert!(thorough.rows.iter().all(|row| row.n >= 2));
}

/// docs/use/advise.md#effort: what decides nothing is played only where it is asked for, and the recommendation is the same without it.
#[test]
fn a_plain_question_plays_what_decides() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let full = question(&path, &[10, 20, 40, 60, 80, 100], &[KernelRelease::V7_2]);
    let plain = Question { every_size: false, baselines: false, details: false, ..full.clone() };
    let [full, plain] = [full, plain].map(|question| advise(&question, &()).unwrap().remove(0));
    let best = |advice: &Advice| {
        let best = advice.recommendation.as_ref().expect("some size is safe");
        (best.candidate, best.memory_bytes, best.runtime_ratio_ppm.median)
    };
    assert_eq!(best(&plain), best(&full));
    assert!(plain.replays * 4 < full.replays * 3, "{} {}", plain.replays, full.replays);
    assert!(plain.configurations.iter().all(|one| one.runs_on_linux) && plain.huge_pages.is_none());
    assert!(plain.other_devices.is_empty() && plain.kernel_defaults.is_empty() && plain.course.is_empty());
    for row in plain.rows.iter().filter(|row| !row.is_calibrated) {
        assert_eq!((row.memory_bytes, row.n), (plain.compared_bytes, 2), "{}", row.candidate);
    }
    let smallest = |advice: &Advice, name| {
        advice.rows.iter().filter(|row| row.candidate == name).map(|row| row.memory_share_ppm).min()
    };
    assert_eq!(smallest(&full, "opt").map(|share| share / 10_000), Some(9), "a size that was chosen");
    assert!(full.other_devices.len() == 5 && full.huge_pages.is_some() && !full.course.is_empty());
}

/// docs/use/advise.md#effort: the policy that loses is tried where the other is enough, and not in a band of its own. On SQLite that is
/// `mglru`.
#[test]
fn what_loses_the_race_has_no_band_of_its_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
    let question =
        Question { cpus: 4, threads: None, ..question(&path, &[40, 50, 60, 70, 80, 90, 100], &[KernelRelease::V7_2]) };
    let advice = advise(&question, &()).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let best = advice.recommendation.as_ref().expect("some size is safe");
    assert_eq!(best.candidate, "classic");
    let sizes = |candidate: &str| advice.rows.iter().filter(|row| row.candidate == candidate).count();
    // Seven asked for, one above the peak, five that bisection and comparison add; eight more without the race.
    assert!(sizes("classic") >= 25 && sizes("mglru") <= 16, "{} {}", sizes("classic"), sizes("mglru"));
    assert!(row(&advice, "mglru", advice.compared_bytes).n >= 5, "it was compared all the same");
}

/// docs/use/advise.md#effort: below the first size that is too slow a combination cannot be safe.
#[test]
#[ignore = "nightly: plays one recording at several efforts"]
fn combinations_are_not_played_below_what_is_too_slow_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let shares = [8, 10, 12, 60, 100];
    let of = |effort| {
        let question = Question { effort, ..question(&path, &shares, &[KernelRelease::V7_2]) };
        advise(&question, &()).unwrap_or_else(|error| panic!("{error}")).remove(0)
    };
    let (normal, thorough) = (of(Effort::Normal), of(Effort::Thorough));
    let sizes: Vec<u64> = shares.iter().map(|share| normal.peak_bytes * share / 100 / 4096 * 4096).collect();
    let at = |advice: &'_ Advice, candidate: &str, size: u64| {
        advice.rows.iter().find(|row| row.candidate == candidate && row.memory_bytes == size).cloned()
    };
    let is_slow = |row: &AdviceRow| row.runtime_ratio_ppm.is_none_or(|ratio| ratio.median > 1_050_000);
    let mut nr_left_out = 0;
    for candidate in normal.configurations.iter().filter(|one| one.runs_on_linux && !one.is_calibrated) {
        let name = candidate.candidate;
        let mut was_slow = false;
        for &size in sizes.iter().rev() {
            assert!(at(&thorough, name, size).is_some(), "{name} at {size}, all of it");
            let row = at(&normal, name, size).filter(|_| size != normal.compared_bytes);
            assert!(!was_slow || row.is_none(), "{name} at {size}, below what was too slow");
            nr_left_out += usize::from(row.is_none() && size != normal.compared_bytes);
            was_slow |= row.as_ref().is_some_and(is_slow);
        }
    }
    assert!(nr_left_out > 0, "some are too slow above the smallest size");
    let plain = |advice: &Advice| sizes.iter().all(|&size| at(advice, "classic", size).is_some());
    assert!(plain(&normal) && plain(&thorough), "policies alone are played everywhere");
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
        assert!(reclaim.mean_bytes.high < plain.mean_bytes.low, "{reclaim:?}");
        assert!(reclaim.mean_bytes.median < plain.mean_bytes.median * 19 / 20, "{reclaim:?} {plain:?}");
        assert!(reclaim.monitor_cpu_ns > 0);
        let sort = row(advice, &format!("{policy} + lru_sort"), advice.peak_bytes);
        assert_eq!(sort.schemes.iter().map(|scheme| scheme.action).collect::<Vec<_>>(), ["lru-prio", "lru-deprio"]);
        assert!(sort.schemes.iter().any(|scheme| scheme.applied_bytes > 0), "{:?}", sort.schemes);
    }
    // Generations show cold memory as well, without a monitor.
    let (plain, proactive) =
        (row(advice, "mglru", advice.peak_bytes), row(advice, "mglru + proactive", advice.peak_bytes));
    let [evict] = &proactive.schemes[..] else { panic!("{:?}", proactive.schemes) };
    assert_eq!(evict.action, "evict");
    assert!(evict.applied_bytes > 12 << 20, "{evict:?}");
    assert!(proactive.mean_bytes.median < plain.mean_bytes.median * 9 / 10, "{proactive:?}");
    assert!(proactive.monitor_cpu_ns > 0, "{proactive:?}");
    for row in &advice.rows {
        // One replay a size shows the shape; where all are compared there are more.
        assert!(row.n >= if row.memory_bytes == advice.compared_bytes { 2 } else { 1 }, "{row:?}");
        let has_no_time = row.unfinished > 0 || row.candidate == isotherm_advise::FEWEST_FAULTS;
        assert_eq!(row.runtime_ratio_ppm.is_none(), has_no_time, "{row:?}");
        let intervals = [Some(row.major_faults), Some(row.mean_bytes), row.runtime_ratio_ppm];
        for one in intervals.into_iter().flatten() {
            assert!(one.chance_low <= one.median && one.median <= one.chance_high, "{row:?}");
            assert!(one.low <= one.chance_low && one.chance_high <= one.high, "{row:?}");
        }
        // Only configurations that were compared with real kernels have a known model error.
        let is_widened = row.major_faults.high > row.major_faults.chance_high;
        assert!(row.is_calibrated || !is_widened, "{row:?}");
    }
    assert!(
        advice.rows.iter().any(|row| row.candidate == "mglru" && row.major_faults.high > row.major_faults.chance_high)
    );
    let best = advice.recommendation.as_ref().expect("a seventh of its memory is enough");
    assert!(best.runtime_ratio_ppm.high <= 1_050_000, "the upper end counts");
    assert!(best.gain.mean_saved_bytes.low > 0 && best.gain.saved_bytes > 0);
    assert_eq!(best.candidate == "classic", best.gain.against_classic.is_none());
    assert!(
        advice
            .configurations
            .iter()
            .any(|configuration| configuration.candidate == best.candidate && configuration.is_calibrated)
    );
    // The certainty of the recommendation is reported.
    let permil: Vec<u64> = best.neighbours.iter().map(|neighbour| neighbour.of_recommended_permil).collect();
    assert_eq!(permil, [970, 1030, 1100]);
    assert!(
        best.odds.iter().any(|odds| odds.memory_bytes == best.memory_bytes && odds.too_slow_ppm == 0),
        "{:?}",
        best.odds
    );
    assert_eq!(advice.other_devices.len(), 2 + 3, "storage and swap but for what was asked for");
    // All configurations are compared at the recommended size.
    assert_eq!(advice.compared_bytes, best.memory_bytes);
    let plain = CANDIDATES.iter().filter(|candidate| !candidate.name.contains("limits"));
    for candidate in plain {
        let row = row(advice, candidate.name, best.memory_bytes);
        assert!(row.n >= if row.is_calibrated { 5 } else { 2 }, "{row:?}");
    }
    // With the kernel's own parameters nothing happens in two and a half seconds, and that is reported.
    let presets: Vec<&str> = advice.kernel_defaults.iter().map(|defaults| defaults.preset).collect();
    assert_eq!(presets, ["lru-sort", "reclaim"]);
    for sentence in advice.kernel_defaults.iter().flat_map(|defaults| &defaults.words) {
        assert!(sentence.join(" ").contains("watermarks"), "{sentence:?}");
    }
}

/// 28 MiB in one mapping from a multiple of 2 MiB on: 14 ranges, all of each.
#[test]
fn what_could_be_huge_is_told() {
    let huge = advice().huge_pages.as_ref().expect("details were asked for");
    let dense = huge.dense().expect("all of it is");
    assert_eq!((dense.ranges, dense.held_bytes, dense.overhead_bytes), (14, 28 << 20, 0));
    assert_eq!((dense.held_share_ppm, dense.accesses_share_ppm), (1_000_000, 1_000_000));
    assert_eq!(huge.not_reported, None);
    // Latencies of these huge pages.
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
    let configuration = advice
        .configurations
        .iter()
        .find(|configuration| configuration.candidate == best.candidate)
        .expect("of the table");
    assert_eq!(scenario.monitors.len() + scenario.generations.len(), configuration.presets.len());
    assert_eq!(scenario.policy, best.candidate.split(" + ").next().unwrap());
}

/// Accessed bits of a program that writes 2 MiB all the time, and uses each fourth page of a file of 8 MiB in each half second.
fn all_over_a_file(path: &Path, recorder: &str, fault_around_bytes: Option<u64>) {
    let (epoch_ns, recorder) = (500 * MS, recorder.to_owned());
    let meta = TraceMeta { epoch_ns, recorder, fault_around_bytes, ..TraceMeta::single("all over a file") };
    let mut writer = TraceWriter::create(path, meta).unwrap();
    let (first, pages) = (1 << 20, 2048);
    let file = MapRange {
        start: first,
        end: first + pages,
        what: MapKind::Image,
        file: Some("/srv/data".to_owned()),
        ..MapRange::default()
    };
    writer.event(0, 0, EventKind::Map(file)).unwrap();
    for epoch in 0..10 {
        let row =
            |page, pages, write| TraceRow { time_ns: epoch * epoch_ns, thread: 0, page, pages, write, kernel: false };
        writer.push(row(1 << 10, 512, true)).unwrap();
        (0..pages).step_by(4).try_for_each(|page| writer.push(row(first + page, 1, false))).unwrap();
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
}

/// docs/use/recording.md#running-processes
#[test]
fn a_trace_without_fault_around_is_not_told_to_be_made_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bits.parquet");
    let meta = TraceMeta {
        epoch_ns: MS,
        recorder: TraceMeta::ACCESSED_BITS.to_owned(),
        fault_around_bytes: Some(4096),
        ..TraceMeta::single("bits")
    };
    let mut writer = TraceWriter::create(&path, meta).unwrap();
    for ms in 0..50 {
        let row = TraceRow { time_ns: ms * MS, thread: 0, page: 1 << 20, pages: 600, write: true, kernel: false };
        writer.push(row).unwrap();
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
    let unknowns = ask(&path, &[100]).unknowns;
    let says = |words: &str| unknowns.iter().any(|unknown| unknown.contains(words));
    assert!(says("in which order") && !says("--no-fault-around"), "{unknowns:?}");
}

/// docs/use/watch.md: a trace made of accessed bits has no order within an epoch. Both ends are played, and the worse one counts.
#[test]
fn a_trace_without_an_order_is_judged_by_the_worse_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bits.parquet");
    let asked = |recorder: &str| {
        all_over_a_file(&path, recorder, None);
        ask(&path, &[100, 50, 30])
    };
    let says = |advice: &Advice, words: &str| advice.unknowns.iter().any(|unknown| unknown.contains(words));
    let memory = |advice: &Advice| advice.recommendation.as_ref().map_or(advice.peak_bytes, |found| found.memory_bytes);
    let ordered = asked("another");
    assert!(!says(&ordered, "in which order") && !says(&ordered, "--no-fault-around"));
    let around = asked(TraceMeta::ACCESSED_BITS);
    assert!(says(&around, "in which order") && says(&around, "figures are those scattered"), "{:?}", around.unknowns);
    assert!(says(&around, "--no-fault-around"));
    assert!(memory(&around) > memory(&ordered), "{} {}", memory(&around), memory(&ordered));
    // Playing the written configuration gives these figures again.
    let config = isotherm_scenario::print(around.config.as_ref().unwrap());
    assert!(config.contains("epoch-order = \"scattered\""), "{config}");
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
        ("interval", keys(&advice["rows"][0]["major_faults"])),
        ("share", keys(&advice["rows"][0]["kills"])),
        ("process", keys(&advice["processes"][0])),
        ("configuration", keys(&advice["configurations"][0])),
        ("recommendation", keys(&advice["recommendation"])),
        ("gain", keys(&advice["recommendation"]["gain"])),
        ("neighbour", keys(&advice["recommendation"]["neighbours"][0])),
        ("odds", keys(&advice["recommendation"]["odds"][0])),
        ("device", keys(&advice["other_devices"][0])),
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
            "compared_bytes configurations effort holds_on huge_pages kernel kernel_defaults notes other_devices peak_bytes processes program \
             recommendation replays rows sampled_replays slowdown_allowed_ppm storage swap unknowns unlimited_major_faults unlimited_mean_bytes \
             unlimited_runtime_ns unlimited_work_ns",
        ),
        (
            "row",
            "candidate ending faults_to_opt_ppm gamble is_calibrated is_fast_enough is_one_replay kills major_faults mean_bytes \
             memory_bytes memory_share_ppm monitor_cpu_ns n native_at_most_ppm pressure_some_ppm reclaim_cpu_ns runs_on_linux runtime_ns \
             runtime_ratio_ppm sample schemes slowest unfinished",
        ),
        ("interval", "chance_high chance_low high low median"),
        ("share", "high_ppm low_ppm n of start"),
        ("process", "burst bursts name process work_ns"),
        ("configuration", "candidate enough_bytes is_calibrated presets runs_on_linux"),
        (
            "recommendation",
            "allowed_faults candidate gain kill_chance kills kills_with_less major_faults memory_bytes memory_share_ppm n native_at_most_ppm neighbours \
             odds runtime_ratio_ppm",
        ),
        ("gain", "against_classic classic_enough_bytes mean_saved_bytes saved_at_most_bytes saved_bytes"),
        ("neighbour", "is_fast_enough major_faults memory_bytes n of_recommended_permil runtime_ratio_ppm"),
        ("odds", "memory_bytes memory_share_ppm n too_slow_ppm"),
        ("device", "device is_fast_enough major_faults role runtime_ratio_ppm"),
        ("defaults", "candidate preset runtime_ratio_ppm words"),
        ("huge pages", "dense_share_ppm fragmented not_reported ranges"),
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

/// On several releases there is one recommendation, and it holds on each.
#[test]
fn what_is_recommended_for_all_releases_holds_on_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let answers = advise(&question(&path, &[60, 100], &KernelRelease::ALL), &()).unwrap();
    assert_eq!(answers.iter().map(|advice| advice.kernel).collect::<Vec<_>>(), KernelRelease::ALL);
    let best: Vec<_> = answers.iter().map(|advice| advice.recommendation.as_ref().expect("it fits")).collect();
    assert_eq!((best[0].candidate, best[0].memory_bytes), (best[1].candidate, best[1].memory_bytes));
    for (advice, best) in answers.iter().zip(best) {
        assert!(best.runtime_ratio_ppm.high <= 1_050_000);
        let configuration =
            advice.configurations.iter().find(|configuration| configuration.candidate == best.candidate).unwrap();
        assert!(configuration.enough_bytes.unwrap() <= best.memory_bytes, "{configuration:?}");
    }
}

/// Every hundredth of the peak is tried in the 15 steps above the recommended size, each several times.
#[test]
fn the_band_above_the_recommendation_has_no_gaps() {
    let advice = advice();
    let best = advice.recommendation.as_ref().unwrap();
    let step = advice.peak_bytes / 100 / 4096 * 4096;
    let sizes: Vec<u64> = advice
        .rows
        .iter()
        .filter(|row| row.candidate == best.candidate && row.memory_bytes >= best.memory_bytes)
        .map(|row| row.memory_bytes)
        .collect();
    for pair in sizes.windows(2).take_while(|pair| pair[1] <= best.memory_bytes + 15 * step) {
        assert!(pair[1] - pair[0] <= step, "{pair:?} of steps of {step}");
    }
    let rows =
        advice.rows.iter().filter(|row| row.candidate == best.candidate && row.memory_bytes >= best.memory_bytes);
    assert!(rows.clone().count() > 15 && rows.clone().all(|row| row.is_fast_enough), "safe is a band");
}

#[test]
fn predictions_are_those_of_the_sizes_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let question = question(&path, &[100], &[KernelRelease::V6_12]);
    let sizes = [Bytes::from_mib(3), Bytes::from_mib(20)]; // 4 MiB are in use to the end
    let wanted: Vec<(&str, Bytes)> = sizes.iter().flat_map(|&size| [("classic", size), ("mglru", size)]).collect();
    let predictions = predict(&question, &wanted, 4, &()).unwrap();
    assert_eq!(predictions.len(), 4);
    for (prediction, (candidate, size)) in predictions.iter().zip(&wanted) {
        assert_eq!((prediction.candidate, prediction.memory_bytes), (*candidate, size.get()));
        assert_eq!((prediction.kernel, prediction.n), (KernelRelease::V6_12, 4));
    }
    assert!(predictions[0].major_faults.median > predictions[2].major_faults.median, "less memory, more faults");
    assert!(predict(&question, &[("no such configuration", sizes[0])], 1, &()).unwrap().is_empty());
}

/// More slow-down allowed never needs more memory, and each answer keeps to its own.
#[test]
fn several_slow_downs_are_answered_as_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let question = question(&path, &[60, 100], &[KernelRelease::V7_2]);
    let slowdowns = [2, 5].map(Ratio::from_percent);
    let each = recommend_each(&question, &slowdowns, &()).unwrap();
    let sizes: Vec<u64> = each.iter().map(|best| best.as_ref().expect("it fits").memory_bytes).collect();
    assert!(sizes[1] <= sizes[0], "{sizes:?}");
    for (slowdown, best) in slowdowns.into_iter().zip(&each) {
        assert!(best.as_ref().unwrap().runtime_ratio_ppm.high <= 1_000_000 + slowdown.ppm());
    }
    // Figures that are only shown next to a recommendation change nothing in it.
    let alone = recommend_each(&question, &slowdowns[1..], &()).unwrap().remove(0).expect("it fits");
    let shown = advise(&question, &()).unwrap().remove(0).recommendation.expect("it fits");
    let judged = |best: &Recommendation| {
        (best.candidate, best.memory_bytes, best.n, best.runtime_ratio_ppm, best.major_faults, best.allowed_faults)
    };
    assert_eq!(judged(&alone), judged(&shown));
    assert_eq!((alone.neighbours, alone.odds), (shown.neighbours, shown.odds));
}
