//! Programs that read the limit when they start, and then run otherwise than they were recorded.

use crate::Advice;

/// A JVM that finds less memory than this, or one processor, takes itself for a small machine (HotSpot: `os::is_server_class_machine`).
const SERVER_CLASS_BYTES: u64 = 1792 << 20;

/// What a limit changes about how the program runs, in a sentence.
pub(super) fn warning(advice: &Advice) -> Option<&'static str> {
    let memory_bytes = advice.recommendation.as_ref()?.memory_bytes;
    of(advice.processes.iter().map(|process| process.name.as_str()), memory_bytes)
}

fn of<'a>(mut processes: impl Iterator<Item = &'a str>, memory_bytes: u64) -> Option<&'static str> {
    let is_jvm = |name: &str| name.rsplit('/').next() == Some("java");
    (memory_bytes < SERVER_CLASS_BYTES && processes.any(is_jvm)).then_some(
        "A JVM that finds a limit below 1792 MiB chooses the serial collector, and can be half as fast for it: name the collector that it \
         has now, as in -XX:+UseG1GC.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jvm_under_a_small_limit_is_warned_of() {
        let warned = |name, mib: u64| of([name].into_iter(), mib << 20).is_some();
        assert!(warned("java", 57) && warned("/usr/bin/java", 1791));
        assert!(!warned("java", 1792) && !warned("javac", 57) && !warned("node", 57));
    }
}
