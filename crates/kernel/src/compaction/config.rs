//! Compaction settings of a machine.

use crate::migrate::Flush;
use serde::{Deserialize, Serialize};

/// Effort of an allocation of a huge page when none is free: `/sys/kernel/mm/transparent_hugepage/defrag`. Mappings marked `huge` have
/// asked for huge pages (`MADV_HUGEPAGE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defrag {
    /// Takes a free one or none at all.
    #[default]
    Never,
    /// Wakes kswapd and kcompactd, and goes on with a base page.
    Defer,
    /// Compacts and reclaims where huge pages were asked for: the default of Linux.
    Madvise,
    /// Compacts and reclaims.
    Always,
}

impl Defrag {
    /// Whether the thread itself compacts.
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Madvise | Self::Always)
    }
}

/// The `[machine.compaction]` table of a scenario. Compaction of its own accord is a daemon of its own, which the machine's builder adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CompactionConfig {
    /// Effort of faults for a huge page. Default `never`, which is not the default of Linux.
    pub defrag: Defrag,
    /// Pages locked in memory are not moved: `vm.compact_unevictable_allowed` is 0. Default false.
    pub keeps_unevictable: bool,
    /// When moving pages flushes translations: once a batch, or after each page as before Linux 6.3.
    pub flush: Flush,
}

impl CompactionConfig {
    /// Whether nothing was changed: such a table is not printed.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
