//! Advice on samples, next to that on the whole (`docs/use/advise.md#samples`).

use isotherm_advise::{Advice, Effort, Question, Sampling, advise};
use isotherm_kernel::memory::KernelRelease;
use isotherm_scenario::{Progress, ScenarioError};
use isotherm_trace::sample::SampleRate;
use isotherm_units::{Amount, Bytes, Duration, Ratio};
use isotherm_workload::synthetic::{MadeTrace, write_made};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A service with 256 MiB.
fn recording() -> &'static Path {
    static RECORDING: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = RECORDING.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made.parquet");
        let (footprint, length) = (Bytes::from_mib(256), Duration::from_secs(20));
        let made = MadeTrace { footprint, touches: 500_000, length, theta: 0.9, seed: 1 };
        write_made(&path, &made, || ()).unwrap();
        (folder, path)
    });
    path
}

fn question(sampling: Sampling) -> Question {
    let share = |percent: u64| Amount::Share(Ratio::from_percent(percent));
    Question {
        memory: [60, 100].map(share).to_vec(),
        cpus: 2,
        effort: Effort::Quick,
        sampling,
        ..Question::usual("made".to_owned(), recording().to_owned(), vec![KernelRelease::V7_2])
    }
}

fn ask(sampling: Sampling) -> Result<Advice, ScenarioError> {
    advise(&question(sampling), &()).map(|mut answers| answers.remove(0))
}

fn whole() -> &'static Advice {
    static WHOLE: OnceLock<Advice> = OnceLock::new();
    WHOLE.get_or_init(|| ask(Sampling::Off).unwrap_or_else(|error| panic!("{error}")))
}

fn rate(n: u32) -> SampleRate {
    SampleRate::one_in(n).unwrap()
}

fn recommended(advice: &Advice) -> u64 {
    advice.recommendation.as_ref().expect("some size is safe").memory_bytes
}

#[test]
#[ignore = "nightly: plays every size of a long recording"]
fn a_sample_alone_answers_in_sizes_of_the_whole() {
    let sample = ask(Sampling::Only(rate(4))).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((sample.sample, sample.replays), (Some(4), 0));
    assert!(sample.sampled_replays > 0 && sample.rows.iter().all(|row| row.sample == 4));
    let (own, of_whole) = (sample.peak_bytes, whole().peak_bytes);
    assert!(own.abs_diff(of_whole) < of_whole / 50, "{own} {of_whole}");
    let (own, of_whole) = (recommended(&sample), recommended(whole()));
    assert!(own.abs_diff(of_whole) < of_whole / 20, "{own} {of_whole}");
    for row in sample.rows.iter().filter(|row| row.memory_share_ppm == 600_000) {
        let same =
            |one: &&isotherm_advise::AdviceRow| (one.candidate, one.memory_share_ppm) == (row.candidate, 600_000);
        let whole = whole().rows.iter().find(same).expect("the same sizes were asked for");
        let (own, of_whole) = (row.major_faults.median, whole.major_faults.median);
        assert!(own.abs_diff(of_whole) < of_whole / 8, "{}: {own} {of_whole}", row.candidate);
        let [own, of_whole] = [row, whole].map(|row| row.runtime_ratio_ppm.expect("finished").median);
        assert!(own.abs_diff(of_whole) < (of_whole - 1_000_000) / 6, "{}: {own} {of_whole}", row.candidate);
    }
    // The configuration it recommends plays the whole.
    let config = sample.config.expect("a recommendation");
    assert_eq!(config.machine.sample, 1);
    assert!(isotherm_scenario::print(&config).contains("made.parquet"));
}

#[test]
fn a_scout_leads_to_the_same_answer_with_few_replays_of_the_whole() {
    let scouted = ask(Sampling::Scout(rate(4))).unwrap_or_else(|error| panic!("{error}"));
    assert!(scouted.replays < whole().replays / 2, "{} of {}", scouted.replays, whole().replays);
    assert!(scouted.sampled_replays > 0);
    let best = scouted.recommendation.as_ref().expect("some size is safe");
    assert_eq!(best.candidate, whole().recommendation.as_ref().unwrap().candidate);
    let (own, of_whole) = (best.memory_bytes, recommended(whole()));
    assert!(own.abs_diff(of_whole) <= whole().peak_bytes / 50, "{own} {of_whole}");
    let row = scouted.rows.iter().find(|row| (row.candidate, row.memory_bytes) == (best.candidate, best.memory_bytes));
    let row = row.expect("it was played");
    assert_eq!(row.sample, 1, "it stands on replays of the whole");
    assert!(best.n >= 5, "{best:?}");
    assert_eq!((scouted.peak_bytes, scouted.unlimited_runtime_ns), (whole().peak_bytes, whole().unlimited_runtime_ns));
}

#[test]
fn small_samples_are_refused_with_the_way_out() {
    let error = ask(Sampling::Only(rate(16))).unwrap_err().to_string();
    assert!(error.contains("and fewer than 60MiB say too little"), "{error}");
    assert!(error.contains("take 1/4 or a larger part"), "{error}");
    // No scout is used where it would not help.
    assert_eq!(ask(Sampling::Auto).unwrap().sample, None);
}

/// A user who stops after some replays.
struct Impatient {
    left: AtomicU64,
}

impl Progress for Impatient {
    fn planned(&self, _work: u64) {}
    fn done(&self, _work: u64) {
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }
    fn is_stopped(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn who_is_stopped_says_what_is_known() {
    for replays in [0, 5, 60] {
        let impatient = Impatient { left: AtomicU64::new(replays) };
        let answers = advise(&Question { threads: Some(1), ..question(Sampling::Off) }, &impatient);
        let advice = answers.unwrap_or_else(|error| panic!("{error}")).remove(0);
        assert!(advice.is_partial);
        assert!(advice.replays <= replays, "{} {replays}", advice.replays);
        assert_eq!(advice.peak_bytes, whole().peak_bytes);
    }
    assert!(!whole().is_partial);
}
