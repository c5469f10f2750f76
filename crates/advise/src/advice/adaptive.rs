//! Programs that read the limit when they start, and then run otherwise than they were recorded.

use crate::Advice;

/// A JVM that finds less memory than this, or one processor, takes itself for a small machine (HotSpot: `os::is_server_class_machine`).
const SERVER_CLASS_BYTES: u64 = 1792 << 20;

/// Whether a process of the recorded command is a JVM that chooses its collector by the memory that it finds. A command that names one
/// has chosen.
pub(crate) fn reads_its_limit(name: &str, command: &[String]) -> bool {
    let names_collector = |word: &String| word.starts_with("-XX:+Use") && word.ends_with("GC");
    name.rsplit('/').next() == Some("java") && !command.iter().any(names_collector)
}

/// What a limit changes about how the program runs, in a sentence.
pub(super) fn warning(advice: &Advice) -> Option<&'static str> {
    let adapts = advice.processes.iter().any(|process| process.adapts);
    of(adapts, advice.recommendation.as_ref()?.memory_bytes)
}

fn of(adapts: bool, memory_bytes: u64) -> Option<&'static str> {
    (adapts && memory_bytes < SERVER_CLASS_BYTES).then_some(
        "A JVM that finds a limit below 1792 MiB chooses the serial collector, and can be half as fast for it: name the collector that it \
         has now, as in -XX:+UseG1GC.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jvm_whose_command_names_no_collector_chooses_by_the_limit() {
        let adapts =
            |name, words: &str| reads_its_limit(name, &words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert!(adapts("java", "") && adapts("/usr/bin/java", "java -Xmx96m -XX:+UseStringDeduplication Ticker"));
        assert!(!adapts("java", "java -XX:+UseG1GC Ticker") && !adapts("java", "java -XX:+UseSerialGC Ticker"));
        let warned = |mib: u64| of(true, mib << 20).is_some();
        assert!(warned(57) && warned(1791) && !warned(1792) && of(false, 0).is_none());
        assert!(!adapts("javac", "javac A.java") && !adapts("node", "node a.js"));
    }
}
