//! What an answer holds besides the program's own pages: the kernel's memory, the clock's error, and what a limit changes.

use crate::advise::{question, recording_of};
use isotherm_advise::advice::words::verdict;
use isotherm_advise::{Advice, Effort, Question, advise};
use isotherm_kernel::memory::KernelRelease;
use isotherm_trace::{Clock, ClockKind, ThreadMeta, TraceMeta};

fn ask(meta: TraceMeta) -> Advice {
    let folder = tempfile::tempdir().unwrap();
    let path = recording_of(folder.path(), meta);
    let asked = Question { effort: Effort::Quick, ..question(&path, &[100], &[KernelRelease::V7_2]) };
    advise(&asked, &()).unwrap().remove(0)
}

fn recommended_bytes(advice: &Advice) -> u64 {
    advice.recommendation.as_ref().expect("a seventh of its memory is enough").memory_bytes
}

/// 200 more threads take 22 KiB each, less what draws take of every limit.
#[test]
fn many_threads_need_memory_of_the_kernel() {
    let one = TraceMeta::single("filler");
    let more = (0..200).map(|tid| ThreadMeta { process: 0, tid, name: String::new(), started_by: Some(0) });
    let many = TraceMeta { threads: one.threads.iter().cloned().chain(more).collect(), ..one.clone() };
    let (one, many) = (ask(one), ask(many));
    let peak_kib = (many.peak_bytes - one.peak_bytes) / 1024;
    assert!((4200..4300).contains(&peak_kib), "{peak_kib} KiB");
    let least = recommended_bytes(&one) + (4 << 20);
    assert!(recommended_bytes(&many) > least, "{} {}", recommended_bytes(&many), recommended_bytes(&one));
}

#[test]
fn the_clocks_error_is_in_the_sentence() {
    let of = |error_percent| {
        let clock = Clock { kind: ClockKind::InstructionMix, error_percent };
        ask(TraceMeta { clock, ..TraceMeta::single("filler") })
    };
    let (exact, doubtful) = (of(None), of(Some(162)));
    assert_eq!(exact.clock, None);
    assert!(!verdict(&exact).contains("clock"), "{}", verdict(&exact));
    let high = doubtful.recommendation.as_ref().unwrap().runtime_ratio_ppm.high;
    let clock = doubtful.clock.expect("its error is known");
    assert_eq!(clock.runtime_ratio_at_most_ppm, high + (high - 1_000_000) * 162 / 100);
    let said = verdict(&doubtful);
    assert!(said.contains("162 %") && said.contains("with an exact one it is"), "{said}");
}

#[test]
fn a_jvm_is_warned_of_in_the_answer() {
    let said = |name| verdict(&ask(TraceMeta::single(name)));
    let java = said("java");
    assert!(java.contains("as in -XX:+UseG1GC.") && java.contains("Without -Xmx"), "{java}");
    assert!(!said("filler").contains("JVM"));
    let command = ["java", "-XX:+UseG1GC", "-Xmx96m"].map(str::to_owned).to_vec();
    let named = verdict(&ask(TraceMeta { command, ..TraceMeta::single("java") }));
    assert!(!named.contains("JVM"), "{named}");
}
