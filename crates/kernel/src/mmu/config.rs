//! How the simulated processor and kernel treat page tables: levels, accessed bits above the leaf, translation caches.

use super::{Level, TranslationConfig};
use serde::{Deserialize, Serialize};

/// The `[machine.mmu]` table of a scenario. The default is an x86-64 server whose every access walks the whole table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MmuConfig {
    /// Levels of a page table: 4, or 5 with 57-bit addresses. Default 4.
    pub levels: u8,
    /// Whether a new table is entered with its accessed bit set, as Linux does it on x86-64 and arm64. A first probe of an entry above the
    /// leaf then finds it accessed, even if nothing was touched. Default true.
    pub preset_accessed: bool,
    /// Whether the processor sets accessed bits above the leaf and the kernel may clear them. False on guests of Xen with
    /// paravirtual page tables, on RISC-V, on arm64 without FEAT_HAFT. Default true.
    pub nonleaf_accessed: bool,
    /// Whether the processor sets accessed bits at all. Without (arm64 before FEAT_HAFDBS), the next use of an entry whose bit was
    /// cleared is a minor fault, and kernels walk no page tables to age pages. Default true.
    #[serde(skip_serializing_if = "is_true")]
    pub leaf_accessed: bool,
    /// Whether user and kernel have top-level tables of their own (the Meltdown mitigation): a bit that a user's walk sets in one table is
    /// not seen in the other, which the kernel reads. Default false.
    pub page_table_isolation: bool,
    /// TLB and paging-structure caches. Default: none, every access walks from the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationConfig>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for MmuConfig {
    fn default() -> Self {
        Self {
            levels: 4,
            preset_accessed: true,
            nonleaf_accessed: true,
            leaf_accessed: true,
            page_table_isolation: false,
            translation: None,
        }
    }
}

impl MmuConfig {
    /// Whether all values are defaults: such a table is not printed.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// log2 of the bytes that an entry spans, from the base page up.
    pub fn shifts(&self) -> Vec<u8> {
        debug_assert!((4..=5).contains(&self.levels), "configurations are checked before");
        (0..self.levels).map(|level| 12 + 9 * level).collect()
    }

    /// The highest level whose accessed bit is meaningful to the kernel.
    pub fn highest_level(&self) -> Level {
        debug_assert!((4..=5).contains(&self.levels), "configurations are checked before");
        let top = if self.page_table_isolation { self.levels - 2 } else { self.levels - 1 };
        if self.nonleaf_accessed { Level::new(top).expect("4 or 5 levels") } else { Level::LEAF }
    }

    /// Checks the values: the first bad one with its key and the allowed values.
    pub fn first_error(&self) -> Option<(&'static str, u64, &'static str)> {
        if !(4..=5).contains(&self.levels) {
            return Some(("mmu.levels", u64::from(self.levels), "4 or 5"));
        }
        self.translation.as_ref().and_then(TranslationConfig::first_error)
    }

    /// The settings that a page table needs.
    pub(crate) fn table_kind(&self) -> TableKind {
        TableKind {
            highest_set: self.highest_level().max(Level::PMD),
            preset: self.preset_accessed,
            translated: self.translation.is_some(),
            by_fault: !self.leaf_accessed,
        }
    }
}

/// The settings of [`MmuConfig`] that a page table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableKind {
    /// Highest level whose accessed bits the processor sets where the kernel can see them: at least the level of 2 MiB leaves.
    pub(crate) highest_set: Level,
    /// New tables are entered with their accessed bit set.
    pub(crate) preset: bool,
    /// Accesses go through translation caches, so that bits are set by walks, word by word.
    pub(crate) translated: bool,
    /// The processor sets no accessed bits: an entry without it faults, and the kernel sets it.
    pub(crate) by_fault: bool,
}

impl Default for TableKind {
    fn default() -> Self {
        MmuConfig::default().table_kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_follow_from_the_machine() {
        let table = [
            (MmuConfig::default(), Level::P4D),
            (MmuConfig { page_table_isolation: true, ..MmuConfig::default() }, Level::PUD),
            (MmuConfig { levels: 5, ..MmuConfig::default() }, Level::PGD),
            (MmuConfig { levels: 5, page_table_isolation: true, ..MmuConfig::default() }, Level::P4D),
            (MmuConfig { nonleaf_accessed: false, ..MmuConfig::default() }, Level::LEAF),
        ];
        for (config, highest) in table {
            assert_eq!(config.highest_level(), highest, "{config:?}");
        }
        assert_eq!(MmuConfig { levels: 5, ..MmuConfig::default() }.shifts(), [12, 21, 30, 39, 48]);
        assert_eq!(MmuConfig { levels: 3, ..MmuConfig::default() }.first_error(), Some(("mmu.levels", 3, "4 or 5")));
    }
}
