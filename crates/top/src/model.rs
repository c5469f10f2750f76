//! Plain data to be shown. A figure that was not measured is `None` and shown as `-`, never as 0.

/// Identifies a row for as long as the feed runs: a feed never gives one key to two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(pub u64);

/// Kind of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKind {
    /// A control group.
    Group,
    /// A process.
    #[default]
    Process,
    /// Physical memory, or a set of ranges that belongs to no process.
    Space,
}

/// The state of the memory of all groups and nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since the feed began; never decreases from one frame to the next.
    pub at_ns: u64,
    /// One row for each group and process that exists at this moment, in any order.
    pub groups: Vec<GroupRow>,
    /// NUMA nodes by number. Empty: not known.
    pub nodes: Vec<NodeRow>,
    /// Details of some rows, at most one for each; of the chosen row at least, if the feed has any.
    pub details: Vec<Detail>,
    /// Notes for the reader of this frame, for example which figures are missing and why.
    pub notes: Vec<String>,
}

impl Frame {
    /// The details of the row `key`.
    pub fn detail(&self, key: RowKey) -> Option<&Detail> {
        self.details.iter().find(|detail| detail.key == key)
    }

    /// Rows, nodes, regions and generations: the memory of a frame is proportional to these.
    pub(crate) fn parts(&self) -> usize {
        let details = self.details.iter().map(|detail| 1 + detail.regions.len() + detail.generations.len());
        1 + self.groups.len() + self.nodes.len() + details.sum::<usize>()
    }
}

/// A group or process in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRow {
    /// Identity of the row.
    pub key: RowKey,
    /// Path of the group, or command of the process. May hold any characters.
    pub name: String,
    pub kind: RowKind,
    /// Process id, for a process.
    pub pid: Option<u32>,
    /// Resident memory of the process, or memory charged to the group.
    pub resident_bytes: Option<u64>,
    /// Memory found accessed in at least a quarter of the checks.
    pub hot_bytes: Option<u64>,
    /// Memory found accessed in some checks, but in less than a quarter.
    pub warm_bytes: Option<u64>,
    /// Memory that no check found accessed.
    pub cold_bytes: Option<u64>,
    /// Memory in swap.
    pub swapped_bytes: Option<u64>,
    /// Share of time in which some task of the group waited for memory (PSI `some`, 10 s), in parts per million.
    pub pressure_ppm: Option<u64>,
}

impl GroupRow {
    /// Memory that was found accessed: hot and warm.
    pub fn working_set_bytes(&self) -> Option<u64> {
        Some(self.hot_bytes?.saturating_add(self.warm_bytes?))
    }
}

/// Details of one row that the list does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The row.
    pub key: RowKey,
    /// Monitored regions by address, without overlap. Empty: not monitored.
    pub regions: Vec<HeatRegion>,
    /// Generations of the group. Empty: not known.
    pub generations: Vec<Generation>,
    /// Refaults per second of anonymous and file memory, in thousandths.
    pub refaults_milli_per_s: Option<u64>,
    /// Share of time in which some task waited for memory (PSI `some`, 10 s), in parts per million.
    pub pressure_some_ppm: Option<u64>,
    /// Share of time in which all tasks waited for memory (PSI `full`, 10 s), in parts per million.
    pub pressure_full_ppm: Option<u64>,
    /// Share of anonymous memory in huge pages, in parts per million.
    pub huge_ppm: Option<u64>,
    /// Bytes on each NUMA node, by node number. Empty: not known.
    pub node_bytes: Vec<(u32, u64)>,
}

/// A range of addresses that was about equally hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatRegion {
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Share of checks that found an access, in parts per million. `None`: the intervals are not known.
    pub access_ppm: Option<u64>,
    /// How long the heat has stayed about the same, in nanoseconds.
    pub age_ns: Option<u64>,
}

impl HeatRegion {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// A generation of the Multi-Gen LRU, summed over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Sequence number; younger generations have larger ones.
    pub seq: u64,
    /// Nanoseconds since the generation was made.
    pub age_ns: u64,
    /// Anonymous memory in the generation.
    pub anon_bytes: u64,
    /// File memory in the generation.
    pub file_bytes: u64,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    /// Number of the node.
    pub node: u32,
    /// Memory tier, 0 is the fastest.
    pub tier: Option<u32>,
    /// Memory of the node.
    pub total_bytes: Option<u64>,
    /// Free memory of the node.
    pub free_bytes: Option<u64>,
    /// Number of free blocks of each order, from order 0. Empty: not known.
    pub free_blocks: Vec<u64>,
}
