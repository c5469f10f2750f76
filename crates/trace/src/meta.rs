//! Metadata of a trace: its origin, units, processes and threads, and mappings over time.
//!
//! Written as JSON into the file's metadata under the key `isotherm`. Reading is tolerant: absent keys take their defaults, unknown
//! keys are ignored, unknown event kinds become [`EventKind::Unknown`].

use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes. Readers refuse later ones.
pub const FORMAT_VERSION: u32 = 1;

/// Everything about a trace except its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceMeta {
    /// The [`FORMAT_VERSION`] that the file was written with.
    pub format_version: u32,
    /// The command that was recorded, or empty.
    pub command: Vec<String>,
    /// Tool that observed the accesses, for example `valgrind tool`, `import oracleGeneral`.
    pub recorder: String,
    /// Whether rows include memory that the kernel touched for the program in system calls: buffers, paths, structures.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel_accesses: bool,
    /// Page numbers that represent pages of the page cache: rows in this range are reads and writes through file descriptors. `None`:
    /// such accesses were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheRange>,
    /// Program and version that wrote the file.
    pub created_by: String,
    /// Description of the machine of the recording (architecture, kernel, CPU).
    pub host: String,
    /// Bytes a page; a power of two.
    pub page_bytes: u64,
    /// Length of an epoch in nanoseconds of a thread's CPU time. 0: no epoch filter, each row is one request.
    pub epoch_ns: u64,
    /// In a spatial sample ([`crate::sample`]): the pages of the whole that each of its pages counts for. `None`: this is the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// CPU time assumed for an instruction, if time was computed from an instruction count.
    pub ns_per_instruction: Option<Fraction>,
    /// Bytes that the kernel mapped around a page fault in a file, and marked as used, in a trace of accessed bits: one page where that
    /// was switched off. `None`: not known, or the trace does not come from accessed bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_around_bytes: Option<u64>,
    /// Where the CPU time of rows and events comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub clock: Clock,
    /// Resource use of the program in a separate run without the recorder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeRun>,
    /// The address spaces; [`ThreadMeta::process`] is an index in this list.
    pub processes: Vec<ProcessMeta>,
    /// Threads; [`crate::TraceRow::thread`] is an index in this list.
    pub threads: Vec<ThreadMeta>,
    /// Events between rows, ordered by [`Event::row`].
    pub events: Vec<Event>,
    /// Exit code of the recorded program (128 + n after signal n), if it ended.
    pub exit_code: Option<i32>,
    /// Whether the recording ran to the program's end. `false`: interrupted or torn; the existing part is valid.
    pub complete: bool,
    /// Number of rows in the file.
    pub rows: u64,
    /// Pages touched by all rows: the sum of their `pages`.
    pub accesses: u64,
    /// Notes for readers of results: what an importer dropped, changed or made up.
    pub notes: Vec<String>,
}

impl Default for TraceMeta {
    fn default() -> Self {
        Self {
            format_version: FORMAT_VERSION,
            command: Vec::new(),
            recorder: String::new(),
            kernel_accesses: false,
            page_cache: None,
            created_by: concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned(),
            host: String::new(),
            page_bytes: isotherm_units::PAGE_BYTES,
            epoch_ns: 0,
            sample: None,
            ns_per_instruction: None,
            fault_around_bytes: None,
            clock: Clock::default(),
            native: None,
            processes: Vec::new(),
            threads: Vec::new(),
            events: Vec::new(),
            exit_code: None,
            complete: false,
            rows: 0,
            accesses: 0,
            notes: Vec::new(),
        }
    }
}

impl TraceMeta {
    /// [`recorder`](Self::recorder) of traces that are made of accessed bits of running processes.
    pub const ACCESSED_BITS: &'static str = "isotherm record, accessed bits";

    /// Whether the program ran under an engine that executes each of its instructions, several times as long as by itself.
    pub fn is_made_by_an_engine(&self) -> bool {
        self.clock.kind != ClockKind::Unknown && self.recorder != Self::ACCESSED_BITS
    }

    /// Whether accesses of an epoch are sorted by address, because their order was not observed.
    pub fn has_no_order_within_epochs(&self) -> bool {
        self.recorder == Self::ACCESSED_BITS
    }

    /// The meta of a trace with one process of one thread, both named `name`.
    pub fn single(name: &str) -> Self {
        Self {
            processes: vec![ProcessMeta { name: name.to_owned(), ..ProcessMeta::default() }],
            threads: vec![ThreadMeta { name: name.to_owned(), ..ThreadMeta::default() }],
            ..Self::default()
        }
    }
    /// The process of thread `thread`; 0 for threads that are not listed.
    pub fn process_of(&self, thread: u32) -> usize {
        self.threads.get(thread as usize).map_or(0, |thread| thread.process)
    }
    /// Whether `page` represents a page of the page cache ([`TraceMeta::page_cache`]).
    pub fn is_page_cache(&self, page: u64) -> bool {
        self.page_cache.is_some_and(|range| range.contains(page))
    }
}

/// Page numbers of a trace that no program maps. A file that is read or written through descriptors has its page numbers in it, given
/// by [`EventKind::Map`] in each process that uses it. They are always the same, so one page number is one page of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCacheRange {
    /// The first page number.
    pub start: u64,
    /// The page number after the last; not part of the range.
    pub end: u64,
}

impl PageCacheRange {
    /// The range that the recorder uses: 8 TiB from address 0x6800_0000_0000 on. User addresses of x86-64 end at 0x8000_0000_0000;
    /// neither the kernel nor an engine allocates addresses there on its own.
    pub const RECORDED: Self = Self { start: 0x6_8000_0000, end: 0x7_0000_0000 };

    /// Whether `page` lies in it.
    pub fn contains(self, page: u64) -> bool {
        (self.start..self.end).contains(&page)
    }
}

/// Source and accuracy of the times of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    pub kind: ClockKind,
    /// Largest difference from native CPU time, in percent of native CPU time, over all whole programs for which it was measured
    /// (`docs/use/recording.md#time`); `None`: it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<u32>,
}

impl Clock {
    /// The clock of a trace whose times were scaled to a native run.
    pub const NATIVE: Self = Self { kind: ClockKind::Native, error_percent: Some(10) };
}

/// Source of a thread's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "String")]
pub enum ClockKind {
    /// Unknown: the file is older than this field, or its times come from another tool.
    #[default]
    Unknown,
    /// The number of its instructions, each of the same length.
    Instructions,
    /// Instructions, far memory accesses and system calls, each kind with its own price.
    InstructionMix,
    /// As [`ClockKind::Instructions`] or [`ClockKind::InstructionMix`], scaled to the CPU time of a run without the recorder.
    Native,
}

impl ClockKind {
    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Instructions => "instructions",
            Self::InstructionMix => "instruction_mix",
            Self::Native => "native",
        }
    }
}

impl From<String> for ClockKind {
    /// Names from later versions become [`ClockKind::Unknown`].
    fn from(name: String) -> Self {
        let known = [Self::Instructions, Self::InstructionMix, Self::Native];
        known.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
    }
}

/// A ratio of two integers, kept exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fraction {
    /// Numerator.
    pub numerator: u64,
    /// Denominator; never 0.
    pub denominator: u64,
}

impl Fraction {
    /// `count` times this ratio, rounded down; saturates.
    pub fn times(self, count: u64) -> u64 {
        let product = u128::from(count) * u128::from(self.numerator) / u128::from(self.denominator.max(1));
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// This ratio times another, to nine digits; itself without another.
    #[must_use]
    pub fn scaled(self, by: Option<Self>) -> Self {
        const DENOMINATOR: u64 = 1_000_000_000;
        by.map_or(self, |by| Self { numerator: by.times(self.times(DENOMINATOR)), denominator: DENOMINATOR })
    }
}

/// Resource use of a program without a recorder, as counted by the kernel. Memory is the sum over its processes, sampled every
/// [`sample_ns`](Self::sample_ns): shared pages count once for each process, and peaks between two samples are missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NativeRun {
    /// User and system time of the program and of the children it waited for, nanoseconds; the kernel counts hundredths of a second.
    pub cpu_ns: u64,
    /// Time from start to end, nanoseconds.
    pub wall_ns: u64,
    /// Highest resident memory (`VmRSS`), bytes.
    pub peak_rss_bytes: u64,
    /// Highest memory of page tables (`VmPTE`), bytes.
    pub peak_page_table_bytes: u64,
    /// Highest swap (`VmSwap`), bytes.
    pub peak_swap_bytes: u64,
    /// Time in which some task of the whole system waited for memory (PSI `some`) while it ran, nanoseconds; `None` without PSI.
    pub system_stall_ns: Option<u64>,
    /// Time from one sample to the next, nanoseconds.
    pub sample_ns: u64,
    /// Exit code, or 128 + n after signal n.
    pub exit_code: i32,
}

/// An address space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessMeta {
    /// Process ID when recorded, 0 if not known.
    pub pid: u32,
    pub name: String,
    /// Index of the process whose memory it began with (copy-on-write).
    pub forked_from: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadMeta {
    /// Index of its process in [`TraceMeta::processes`].
    pub process: usize,
    /// Thread ID when recorded, 0 if not known.
    pub tid: u32,
    pub name: String,
    /// Index of the thread that started it; `None`: it started with the program.
    pub started_by: Option<usize>,
}

/// An event between two rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// It applies before this row of the file (rows of all threads counted).
    #[serde(default, skip_serializing_if = "is_default")]
    pub row: u64,
    /// Index in [`TraceMeta::threads`] of the thread that did it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub thread: u32,
    /// CPU time of that thread when it happened, nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_ns: u64,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kind of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A range of the thread's address space was mapped, in place of earlier mappings.
    Map(MapRange),
    /// A range was unmapped, its contents forgotten.
    Unmap {
        /// Number of the first virtual page.
        start: u64,
        /// Number of the page after the last; not part of the range.
        end: u64,
    },
    /// This thread started another one (a first thread of another process: a fork).
    StartThread {
        /// Index in [`TraceMeta::threads`] of the new thread.
        #[serde(rename = "started")]
        thread: u32,
    },
    /// This thread ended. When the last thread of a process ends, its memory is freed.
    EndThread,
    /// This thread slept here, and used no CPU time.
    Idle {
        /// Wall time of the sleep, nanoseconds.
        ns: u64,
    },
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A mapped range and its backing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapRange {
    /// Number of the first virtual page.
    pub start: u64,
    /// Number of the page after the last; not part of the range.
    pub end: u64,
    pub what: MapKind,
    /// Path of the mapped file; `None` if there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Number of the file's page at the first page of the mapping.
    #[serde(skip_serializing_if = "is_default")]
    pub file_page: u64,
    /// Whether the mapping is `MAP_SHARED`: then writes are seen by others.
    #[serde(skip_serializing_if = "is_default")]
    pub shared: bool,
    /// Whether code may run from it (`PROT_EXEC`).
    #[serde(skip_serializing_if = "is_default")]
    pub executable: bool,
}

/// Omitted from the JSON: programs with many mappings have events that take more space than rows.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Kind of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "String")]
pub enum MapKind {
    /// The heap that `brk` grows.
    Heap,
    /// A thread's stack.
    Stack,
    /// Private memory without a file.
    #[default]
    Anonymous,
    /// A mapped file other than the program's own.
    File,
    /// Shared memory without a regular file.
    Shared,
    /// The program's own file and its loader.
    Image,
    /// Not a mapping of the program: pages of a file that it reads and writes through descriptors ([`TraceMeta::page_cache`]). Files of
    /// memory file systems are [`MapKind::Shared`] there.
    PageCache,
}

impl MapKind {
    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Anonymous => "anonymous",
            Self::File => "file",
            Self::Shared => "shared",
            Self::Image => "image",
            Self::PageCache => "page_cache",
        }
    }
}

impl From<String> for MapKind {
    /// Names from later versions become [`MapKind::Anonymous`].
    fn from(name: String) -> Self {
        let known = [Self::Heap, Self::Stack, Self::Anonymous, Self::File, Self::Shared, Self::Image, Self::PageCache];
        known.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TraceMeta {
        let map = MapRange {
            start: 1,
            end: PAGE_TOP,
            what: MapKind::File,
            file: Some("/lib/a.so".into()),
            file_page: 3,
            shared: false,
            executable: true,
        };
        let kinds = [
            EventKind::Map(map),
            EventKind::Unmap { start: 4, end: 9 },
            EventKind::StartThread { thread: 1 },
            EventKind::EndThread,
            EventKind::Idle { ns: u64::MAX },
        ];
        TraceMeta {
            ns_per_instruction: Some(Fraction { numerator: 1, denominator: 4 }),
            clock: Clock { kind: ClockKind::InstructionMix, error_percent: Some(40) },
            events: kinds.into_iter().map(|kind| Event { row: 7, thread: 2, time_ns: 5, kind }).collect(),
            exit_code: Some(-1),
            ..TraceMeta::single("x")
        }
    }
    const PAGE_TOP: u64 = crate::PAGE_LIMIT;

    #[test]
    fn json_round_trip() {
        let meta = sample();
        let json = serde_json::to_string(&meta).unwrap();
        assert_eq!(serde_json::from_str::<TraceMeta>(&json).unwrap(), meta);
    }

    #[test]
    fn reading_is_tolerant() {
        let json = r#"{"command":["a"],"later":{"x":1},"clock":{"kind":"sundial"},"events":[{"row":3,"kind":"teleport","to":9},
            {"row":4,"kind":"map","start":1,"end":2,"what":"gpu"}]}"#;
        let meta: TraceMeta = serde_json::from_str(json).unwrap();
        assert_eq!(meta.command, ["a"]);
        assert_eq!(meta.page_bytes, 4096);
        assert_eq!(meta.clock, Clock::default());
        assert_eq!(meta.events[0], Event { row: 3, thread: 0, time_ns: 0, kind: EventKind::Unknown });
        assert!(matches!(&meta.events[1].kind, EventKind::Map(map) if map.what == MapKind::Anonymous && map.end == 2));
    }

    #[test]
    fn fractions_round_down_and_saturate() {
        assert_eq!(Fraction { numerator: 1, denominator: 4 }.times(7), 1);
        assert_eq!(Fraction { numerator: 3, denominator: 1 }.times(u64::MAX), u64::MAX);
    }
}
