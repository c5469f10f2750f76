//! Programs that read the limit when they start, and then run otherwise than they were recorded.

use crate::Advice;
use isotherm_units::Bytes;

/// A JVM that finds less memory than this, or one processor, takes itself for a small machine (HotSpot: `os::is_server_class_machine`).
const SERVER_CLASS_BYTES: u64 = 1792 << 20;
/// A JVM's largest heap unless its command says one, from the limit at which that is half of it to the one at which it is a quarter
/// (HotSpot: `Arguments::set_heap_size`; measured with JDK 17).
const JVM_HEAP_BYTES: u64 = 126 << 20;
/// The least that Node.js gives its old space, and half of the limit above (V8: `Heap::HeapSizeFromPhysicalMemory`; measured with
/// Node.js 20).
const NODE_HEAP_MIN_BYTES: u64 = 256 << 20;
/// The most that it gives it, with or without a limit (measured likewise).
const NODE_HEAP_MAX_BYTES: u64 = 4 << 30;

/// What a program makes of the limit that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapts {
    /// A JVM whose command names no collector. It reads `memory.max`, as the next one does, and not `memory.high` (HotSpot:
    /// `CgroupV2MemoryController::read_memory_limit_in_bytes`).
    JvmCollector,
    /// A JVM whose command gives its heap no size.
    JvmHeap,
    /// Node.js whose command gives its heap no size. It reads `memory.high` too (libuv: `uv_get_constrained_memory`).
    NodeHeap,
}

impl Adapts {
    const ALL: [Self; 3] = [Self::JvmCollector, Self::JvmHeap, Self::NodeHeap];

    /// Names of the program; and what a word of its command starts and ends with, if that word decides.
    const fn known_by(self) -> (&'static [&'static str], &'static [(&'static str, &'static str)]) {
        match self {
            Self::JvmCollector => (&["java"], &[("-XX:+Use", "GC")]),
            Self::JvmHeap => (&["java"], &[("-Xmx", ""), ("-XX:MaxHeapSize=", ""), ("-XX:MaxRAM", "")]),
            Self::NodeHeap => (&["node", "nodejs"], &[("--max-old-space-size", ""), ("--max_old_space_size", "")]),
        }
    }

    /// What a process of this name and of the recorded command makes of its limit.
    pub(crate) fn of(name: &str, command: &[String]) -> Vec<Self> {
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_open = |adapts: &Self| {
            let (names, decide) = adapts.known_by();
            let decides =
                |word: &String| decide.iter().any(|(start, end)| word.starts_with(start) && word.ends_with(end));
            names.contains(&base) && !command.iter().any(decides)
        };
        Self::ALL.into_iter().filter(is_open).collect()
    }

    /// What that changes under a limit, if it can matter to a program with this peak.
    fn says(self, limit: u64, peak: u64) -> Option<String> {
        let amount = |bytes| Bytes::new(bytes).approx();
        match self {
            Self::JvmCollector => (limit < SERVER_CLASS_BYTES).then(|| {
                "A JVM that finds a hard limit below 1792 MiB (memory.max; it does not look at memory.high) chooses the serial collector, \
                 and can be half as fast for it: name the collector that it has now, as in -XX:+UseG1GC."
                    .to_owned()
            }),
            Self::JvmHeap => {
                let heap = (limit / 2).min(JVM_HEAP_BYTES.max(limit / 4));
                Some(format!(
                    "Without -Xmx a JVM under this hard limit gives its heap {} at most, and fails with OutOfMemoryError where it needs \
                     more: name the size that it needs.",
                    amount(heap)
                ))
            }
            Self::NodeHeap => {
                let heap = (limit / 2).max(NODE_HEAP_MIN_BYTES);
                (heap < peak.min(NODE_HEAP_MAX_BYTES)).then(|| {
                    format!(
                        "Node.js under this limit, memory.high too, gives its heap {} at most, and ends where it needs more: name the \
                         size that it needs with --max-old-space-size.",
                        amount(heap)
                    )
                })
            }
        }
    }
}

/// Whether a program of this name makes its memory larger or smaller by how long it takes, whatever its command says: a JVM has its
/// young generation meet a pause (`MaxGCPauseMillis`) and a share of the time (`GCTimeRatio`).
pub(crate) fn sizes_memory_by_time(name: &str) -> bool {
    name.rsplit('/').next() == Some("java")
}

/// What the recommended limit changes about how the program runs, a sentence each.
pub(super) fn warnings(advice: &Advice) -> Vec<String> {
    let Some(best) = &advice.recommendation else { return Vec::new() };
    let adapts = |one: &Adapts| advice.processes.iter().any(|process| process.adapts.contains(one));
    let found = Adapts::ALL.into_iter().filter(adapts);
    found.filter_map(|adapts| adapts.says(best.memory_bytes, advice.peak_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Adapts::{JvmCollector, JvmHeap, NodeHeap};

    fn of(command: &str) -> Vec<Adapts> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        Adapts::of(&words[0], &words)
    }

    #[test]
    fn a_runtime_whose_command_names_no_size_and_collector_chooses_by_the_limit() {
        assert_eq!(of("java Ticker"), [JvmCollector, JvmHeap]);
        assert_eq!(of("/usr/bin/java -Xmx96m -XX:+UseStringDeduplication Ticker"), [JvmCollector]);
        assert_eq!(of("java -XX:+UseG1GC Ticker"), [JvmHeap]);
        for named in ["-Xmx1g", "-XX:MaxHeapSize=1g", "-XX:MaxRAMPercentage=75", "-XX:MaxRAM=1g"] {
            assert_eq!(of(&format!("java -XX:+UseSerialGC {named} Ticker")), []);
        }
        assert_eq!(of("node app.js"), [NodeHeap]);
        assert_eq!(of("node --max-old-space-size=400 app.js"), []);
        assert_eq!(of("javac A.java"), []);
        assert_eq!(of("nodeenv a"), []);
    }

    #[test]
    fn a_jvm_sizes_its_memory_by_time() {
        assert!(sizes_memory_by_time("java") && sizes_memory_by_time("/usr/lib/jvm/bin/java"));
        assert!(!sizes_memory_by_time("javac") && !sizes_memory_by_time("node") && !sizes_memory_by_time(""));
    }

    #[test]
    fn a_collector_is_chosen_below_1792_mib() {
        let says = |mib: u64| JvmCollector.says(mib << 20, 0).is_some();
        assert!(says(57) && says(1791) && !says(1792));
    }

    /// `java -XX:+PrintFlagsFinal` of JDK 17 and, less the young generation, `v8.getHeapStatistics()` of Node.js 20 in groups of these
    /// limits.
    #[test]
    fn heaps_are_those_that_runtimes_say_of_themselves() {
        for (limit, heap) in [
            (64, "32.0 MiB"),
            (200, "100 MiB"),
            (300, "126 MiB"),
            (1000, "250 MiB"),
            (2000, "500 MiB"),
            (4000, "1000 MiB"),
        ] {
            let says = JvmHeap.says(limit << 20, 0).unwrap();
            assert!(says.contains(&format!(" {heap} at most")), "{limit}: {says}");
        }
        for (limit, heap) in [(64, "256 MiB"), (300, "256 MiB"), (1000, "500 MiB")] {
            let says = NodeHeap.says(limit << 20, 1200 << 20).unwrap();
            assert!(says.contains(&format!(" {heap} at most")), "{limit}: {says}");
        }
        assert_eq!(NodeHeap.says(200 << 20, 250 << 20), None, "the smallest heap is enough");
        assert_eq!(NodeHeap.says(9 << 30, 10 << 30), None, "its heap is as large as without a limit");
    }
}
