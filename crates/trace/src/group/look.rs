//! A sample of a group at one moment.

use serde::Serialize;

/// How the generations were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LookKind {
    /// A new generation was created just before: pages in older ones were not used since the previous sample.
    Aged,
    /// The generations were read without ageing.
    #[default]
    Read,
}

/// One generation on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// Number of the NUMA node.
    pub node: u64,
    /// Sequence number; younger generations have larger ones.
    pub seq: u64,
    /// Nanoseconds since the generation was created.
    pub age_ns: u64,
    /// Anonymous memory in it.
    pub anon_bytes: u64,
    /// File memory in it.
    pub file_bytes: u64,
}

impl Generation {
    /// Anonymous and file memory together.
    pub const fn bytes(&self) -> u64 {
        self.anon_bytes.saturating_add(self.file_bytes)
    }
}

/// Counters of the group. `None`: not read, or not in this kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauges {
    /// `memory.current`.
    pub memory_current_bytes: Option<u64>,
    /// `memory.swap.current`.
    pub swap_current_bytes: Option<u64>,
    /// `workingset_refault_anon`, a count since the group was created.
    pub refaults_anon: Option<u64>,
    /// `workingset_refault_file`, a count since the group was created.
    pub refaults_file: Option<u64>,
    /// `pgmajfault`, a count since the group was created.
    pub major_faults: Option<u64>,
    /// Total of `some` in `memory.pressure`, in nanoseconds.
    pub pressure_some_ns: Option<u64>,
    /// Total of `full` in `memory.pressure`, in nanoseconds.
    pub pressure_full_ns: Option<u64>,
    /// `memory.high`; `None` also means `max`, no limit.
    pub high_bytes: Option<u64>,
    /// `memory.max`; `None` also means `max`, no limit.
    pub max_bytes: Option<u64>,
}

impl Gauges {
    /// Number of counters, in the order of the columns.
    pub(crate) const COUNT: usize = 9;

    pub(crate) const fn to_array(self) -> [Option<u64>; Self::COUNT] {
        [
            self.memory_current_bytes,
            self.swap_current_bytes,
            self.refaults_anon,
            self.refaults_file,
            self.major_faults,
            self.pressure_some_ns,
            self.pressure_full_ns,
            self.high_bytes,
            self.max_bytes,
        ]
    }

    pub(crate) const fn of_array(values: [Option<u64>; Self::COUNT]) -> Self {
        let [memory, swap, anon, file, major, some, full, high, max] = values;
        Self {
            memory_current_bytes: memory,
            swap_current_bytes: swap,
            refaults_anon: anon,
            refaults_file: file,
            major_faults: major,
            pressure_some_ns: some,
            pressure_full_ns: full,
            high_bytes: high,
            max_bytes: max,
        }
    }
}

/// The generations and counters of a group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Nanoseconds on the recording's clock; never decreases.
    pub time_ns: u64,
    /// Whether a generation was created for it.
    pub kind: LookKind,
    /// Counters read at the same moment.
    pub gauges: Gauges,
    /// Generations by node, then by sequence number, both ascending; each pair once. Empty: the group had no generations.
    pub generations: Vec<Generation>,
}

impl Look {
    /// Memory in all generations together.
    pub fn total_bytes(&self) -> u64 {
        self.generations.iter().map(Generation::bytes).fold(0, u64::saturating_add)
    }

    /// Why this sample is invalid; `None` if it is valid.
    pub(crate) fn flaw(&self) -> Option<String> {
        if self.generations.len() > LOOK_GENERATIONS_MAX {
            return Some(format!("it has more than {LOOK_GENERATIONS_MAX} generations"));
        }
        let key = |generation: &Generation| (generation.node, generation.seq);
        let pair = self.generations.windows(2).find(|pair| key(&pair[0]) >= key(&pair[1]))?;
        Some(format!(
            "generation {} of node {} stands before {} of node {}; they must ascend by node, then by number",
            pair[0].seq, pair[0].node, pair[1].seq, pair[1].node
        ))
    }
}

/// Most generations of a sample: 1024 nodes with four each, and some reserve.
pub(crate) const LOOK_GENERATIONS_MAX: usize = 1 << 13;
