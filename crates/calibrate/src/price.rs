//! From measurements to prices by the names of the table of costs.

use isotherm_kernel::costs::Costs;
use isotherm_kernel::prices::Prices;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times that are part of swapping a page out and in again, which can only be measured together.
pub const NAMES_BY_SWAP: [&str; 18] = [
    "swap_in_fault_ns",
    "swap_out_page_ns",
    "page_cache_add_ns",
    "minor_fault_swap_cache_ns",
    "direct_reclaim_entry_ns",
    "reclaim_group_ns",
    "lru_scan_page_ns",
    "lru_move_ns",
    "rmap_walk_ns",
    "unmap_page_ns",
    "free_page_ns",
    "pte_scan_ns",
    "lzo_rle_compress_ns",
    "lzo_rle_decompress_ns",
    "lz4_compress_ns",
    "lz4_decompress_ns",
    "zstd_compress_ns",
    "zstd_decompress_ns",
];
/// Times of other faults, which differ between machines as that of a first write does: entry, exit and page tables.
const NAMES_BY_FAULT: [&str; 4] =
    ["minor_fault_zero_page_ns", "minor_fault_file_ns", "fault_around_page_ns", "file_read_fault_ns"];

/// One figure, measured several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Measured {
    /// Name in the table of costs, or [`SWAPPED_PAGE`].
    pub name: String,
    /// Median.
    pub ns: u64,
    /// A quarter of the samples are below, a quarter above.
    pub quarter_ns: [u64; 2],
    /// Number of samples.
    pub samples: u64,
    /// How it was measured.
    pub how: String,
}

/// Name of the time that a page takes which goes to swap and comes back: of no entry alone.
pub const SWAPPED_PAGE: &str = "swapped_page_ns";

impl Measured {
    /// Median and quarters of samples in ns; `None` without any.
    pub fn of(name: &str, how: &str, samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|ns| ns.is_finite() && *ns >= 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and far below 2^64")]
        let at =
            |quarter: usize| sorted.get((sorted.len().saturating_sub(1)) * quarter / 4).map(|ns| ns.round() as u64);
        Some(Self {
            name: name.to_owned(),
            ns: at(2)?.max(1),
            quarter_ns: [at(1)?, at(3)?],
            samples: sorted.len() as u64,
            how: how.to_owned(),
        })
    }
}

/// Prices that follow from measurements. `simulated_ns` is what a page costs that is swapped out and in again with the prices of the table.
pub fn prices(measured: &[Measured], simulated_ns: Option<u64>) -> Prices {
    let costs = Costs::default();
    let of_table = |name: &str| costs.entry(name).map_or(0, |entry| entry.value);
    let found = |name: &str| measured.iter().find(|one| one.name == name).map(|one| one.ns);
    let mut prices: BTreeMap<String, u64> = BTreeMap::new();
    let mut scale = |names: &[&str], (num, den): (u64, u64)| {
        for name in names {
            let price = u128::from(of_table(name)) * u128::from(num) / u128::from(den.max(1));
            prices.insert((*name).to_owned(), u64::try_from(price).unwrap_or(u64::MAX).max(1));
        }
    };
    if let Some((fault, zero)) = found("minor_fault_anon_ns").zip(found("page_zero_ns")) {
        let whole_of_table = of_table("minor_fault_anon_ns") + of_table("page_zero_ns");
        scale(&NAMES_BY_FAULT, (fault + zero, whole_of_table));
    }
    if let Some((page, simulated)) = found(SWAPPED_PAGE).zip(simulated_ns) {
        scale(&NAMES_BY_SWAP, (page, simulated));
    }
    let direct = measured.iter().filter(|one| costs.entry(&one.name).is_some());
    prices.extend(direct.map(|one| (one.name.clone(), one.ns)));
    // Names and bounds are those of the table; a price out of bounds is no measurement.
    Prices::new(prices).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, ns: u64) -> Measured {
        Measured::of(name, "by hand", &[ns as f64]).unwrap()
    }

    #[test]
    fn a_page_that_is_swapped_scales_all_of_its_parts() {
        let costs = Costs::default();
        let prices = prices(&[one(SWAPPED_PAGE, 24_000)], Some(12_000));
        for name in NAMES_BY_SWAP {
            assert_eq!(prices.get(name), Some(2 * costs.entry(name).unwrap().value), "{name}");
        }
        assert_eq!(prices.get("minor_fault_anon_ns"), None);
        assert!(
            super::prices(&[one(SWAPPED_PAGE, 24_000)], None).is_empty(),
            "without a simulated one it says nothing"
        );
    }

    #[test]
    fn a_first_write_scales_other_faults() {
        let prices = prices(&[one("minor_fault_anon_ns", 1840), one("page_zero_ns", 180)], None);
        assert_eq!((prices.get("minor_fault_anon_ns"), prices.get("page_zero_ns")), (Some(1840), Some(180)));
        // 2020 ns of 1010.
        assert_eq!(prices.get("minor_fault_zero_page_ns"), Some(900));
        assert_eq!(prices.get("swap_in_fault_ns"), None);
    }

    #[test]
    fn samples_have_a_middle_and_quarters() {
        let many: Vec<f64> = (1..=9).map(f64::from).collect();
        let measured = Measured::of("syscall_ns", "", &many).unwrap();
        assert_eq!((measured.ns, measured.quarter_ns, measured.samples), (5, [3, 7], 9));
        assert_eq!(Measured::of("syscall_ns", "", &[]), None);
        assert_eq!(Measured::of("syscall_ns", "", &[f64::NAN, f64::INFINITY, -1.0]), None);
        assert_eq!(Measured::of("syscall_ns", "", &[0.0]).unwrap().ns, 1, "no price is nothing");
    }
}
