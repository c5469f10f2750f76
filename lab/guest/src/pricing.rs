//! Cost of reading and clearing accessed bits in a real kernel: the guest's job and report.

use serde::{Deserialize, Serialize};

/// Measure each act on processes that the guest starts for it. The accessed-bit module is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// Pages of 4 KiB of the processes with small and with huge pages; a multiple of 4096.
    pub pages: u64,
    /// Measurements of each act, after a first one that is not counted; at least 1.
    pub repeats: u32,
}

/// The process that an act works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PricedMemory {
    /// All memory in pages of 4 KiB.
    Small,
    /// All memory in pages of 2 MiB.
    Huge,
    /// A page of 4 KiB in each of 512 consecutive GiB, and a page in each 512 GiB of the 31.5 TiB after them.
    Sparse,
}

impl PricedMemory {
    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "4 KiB pages",
            Self::Huge => "2 MiB pages",
            Self::Sparse => "sparse",
        }
    }
}

/// The measured act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A call of the module that only answers its version.
    Call,
    /// A scan that changes nothing; no accessed bit is set.
    Read,
    /// A scan that clears accessed bits; all are set.
    Clear,
    /// A scan that clears accessed and dirty bits; all are set.
    ClearWritten,
    /// Probes, up to 4096 in one call, that change nothing; no accessed bit is set.
    Test,
    /// Probes, up to 4096 in one call, that clear accessed bits; all are set.
    TestClear,
    /// Probes, each a call of its own, that clear accessed bits; all are set.
    TestClearAlone,
    /// Dropping the process's cached translations, on a machine of one processor.
    Flush,
    /// Reading `/proc/PID/pagemap`, 64 KiB a call.
    Pagemap,
    /// One `PAGEMAP_SCAN` for present pages.
    PagemapScan,
    /// Writing `1` to `/proc/PID/clear_refs`; all accessed bits are set.
    ClearRefs,
    /// Reading `/proc/PID/smaps`; all accessed bits are set.
    Smaps,
}

impl Act {
    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "scan",
            Self::Clear => "scan, clear",
            Self::ClearWritten => "scan, clear, written",
            Self::Test => "probe",
            Self::TestClear => "probe, clear",
            Self::TestClearAlone => "probe, clear, a call each",
            Self::Flush => "flush",
            Self::Pagemap => "pagemap",
            Self::PagemapScan => "PAGEMAP_SCAN",
            Self::ClearRefs => "clear_refs",
            Self::Smaps => "smaps",
        }
    }
}

/// Time of an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub memory: PricedMemory,
    pub act: Act,
    /// Level of the entries that were asked for: 0 for entries of 4 KiB.
    pub level: u8,
    /// Entries of page tables that were read. A huge page is one, also when asked for in parts. For acts that read none: the number of
    /// acts.
    pub nr_entries: u64,
    /// Entries among these whose accessed bit was found set.
    pub nr_young: u64,
    /// Calls of the kernel.
    pub nr_calls: u64,
    /// Time of all calls together, one figure for each repeat, in nanoseconds of the guest.
    pub took_ns: Vec<u64>,
}

/// All measurements. Each act found the expected entries, or the job failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Priced {
    /// Prices, in the order in which they were measured. A kernel without `PAGEMAP_SCAN` has no such line.
    pub prices: Vec<Price>,
}
