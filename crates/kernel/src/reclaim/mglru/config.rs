//! How the policy is set up: its parts, and the administrator's settings before the machine ran.

use super::baseline::Baseline;
use isotherm_texts::min_ttl::MinTtl;
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

/// Parts that can be left out, to see what each is worth. Linux has all features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "a list of switches, named where they are set")]
pub struct Features {
    /// Ageing walks page tables. Without walks, only pages met by the reverse map are found in use. The file `enabled` cannot bring them
    /// back.
    pub walks: bool,
    /// Walks pass over tables whose 2 MiB entry was not accessed. The file `enabled` cannot bring that back.
    pub upper_bits: bool,
    /// When the reverse map meets a young entry, the entries next to it are scanned too.
    pub look_around: bool,
    /// Walks pass over tables that had few young entries the last time.
    pub bloom_filter: bool,
    /// Pages used through descriptors are spared if they are refaulted more often than others.
    pub tiers: bool,
    /// Reclaim of the whole machine visits groups in turn. Without it reclaim visits all groups in the order of the tree.
    pub group_order: bool,
    /// Direct reclaim stops as soon as its target is met. Without it reclaim first takes a fair share of each group.
    pub backoff: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            walks: true,
            upper_bits: true,
            look_around: true,
            bloom_filter: true,
            tiers: true,
            group_order: true,
            backoff: true,
        }
    }
}

/// The `[machine.mglru]` table of a scenario. The default is Linux 7.2 as it boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MglruConfig {
    /// The release whose rules it follows: `6.12` or `7.2`. Default: the release of `[machine] kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// Features that are switched on. Default: all.
    pub features: Features,
    /// `min_ttl_ms`, whole milliseconds up to 4294967295: if the oldest generation that may be evicted is younger than this
    /// everywhere, the daemon has a process killed. Zero, the default: never.
    pub min_ttl: Duration,
}

impl MglruConfig {
    /// Whether nothing was changed: such a table is not printed.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the values: the first bad one with its key and the allowed values.
    pub fn first_error(&self) -> Option<(&'static str, String, &'static str)> {
        let ns = self.min_ttl.ns();
        let is_stored = ns.is_multiple_of(1_000_000) && MinTtl::from_ms(ns / 1_000_000).is_ok();
        (!is_stored).then(|| ("mglru.min-ttl", self.min_ttl.to_string(), "0 to 4294967295 whole milliseconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_live_is_what_the_kernel_can_store() {
        let with = |min_ttl| MglruConfig { min_ttl, ..MglruConfig::default() };
        for good in [Duration::ZERO, Duration::from_ms(1), Duration::from_ms(u64::from(u32::MAX))] {
            assert_eq!(with(good).first_error(), None, "{good}");
        }
        for bad in [Duration::from_us(1500), Duration::from_ns(1), Duration::from_ms(u64::from(u32::MAX) + 1)] {
            assert_eq!(with(bad).first_error().unwrap().0, "mglru.min-ttl", "{bad}");
        }
    }
}
