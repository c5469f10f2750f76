//! Prices of one machine, in place of those of the table of [`costs`](crate::costs).

use crate::costs::Costs;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// Largest price, in ns: a second.
const PRICE_MAX_NS: u64 = 1_000_000_000;

/// Prices that were measured on a machine, by the names of the table. Only times of processors and of their memory: devices have numbers of
/// their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub struct Prices(BTreeMap<String, u64>);

impl Prices {
    /// Prices in ns by name; keys of a scenario have hyphens in place of underscores.
    ///
    /// # Errors
    /// The first name that is none of the table's times, or whose price is not 1 to 1,000,000,000 ns.
    pub fn new(prices: BTreeMap<String, u64>) -> Result<Self, String> {
        let prices: BTreeMap<String, u64> =
            prices.into_iter().map(|(name, price)| (name.replace('-', "_"), price)).collect();
        for (name, &price) in &prices {
            if !Costs::default()
                .entries()
                .iter()
                .any(|entry| entry.name == name && is_time_of_processors(entry.name, entry.unit))
            {
                return Err(format!(
                    "no price has the name `{name}`; the times of processors have, of the table in docs/mechanism/machine.md#costs"
                ));
            }
            if !(1..=PRICE_MAX_NS).contains(&price) {
                return Err(format!("`{name}` is {price}; allowed: 1 to {PRICE_MAX_NS} ns"));
            }
        }
        Ok(Self(prices))
    }

    /// The table of a scenario: keys there have hyphens.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_as_keys<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, price)| (name.replace('_', "-"), price)))
    }

    /// Whether all prices are those of the table.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The price of this name, in ns; `None` for that of the table.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

impl TryFrom<BTreeMap<String, u64>> for Prices {
    type Error = String;

    fn try_from(prices: BTreeMap<String, u64>) -> Result<Self, String> {
        Self::new(prices)
    }
}

impl From<Prices> for BTreeMap<String, u64> {
    fn from(prices: Prices) -> Self {
        prices.0
    }
}

/// Whether an entry is a time that a processor spends, which user space can measure and a machine may differ in.
fn is_time_of_processors(name: &str, unit: &str) -> bool {
    let is_of_device = ["nvme_", "ssd_", "disk_"].iter().any(|prefix| name.starts_with(prefix));
    unit == "ns" && !is_of_device && !name.contains("latency")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(name: &str, price: u64) -> Result<Prices, String> {
        Prices::new(BTreeMap::from([(name.to_owned(), price)]))
    }

    #[test]
    fn only_times_of_processors_have_a_price_here() {
        for name in ["swap_in_fault_ns", "minor_fault_anon_ns", "lzo_rle_compress_ns", "syscall_ns"] {
            assert_eq!(prices(name, 7).unwrap().get(name), Some(7));
            for wrong in [0, PRICE_MAX_NS + 1, u64::MAX] {
                assert!(prices(name, wrong).unwrap_err().contains("1 to 1000000000 ns"), "{name} = {wrong}");
            }
        }
        for name in [
            "nvme_read_latency_ns",
            "dram_latency_ns",
            "zstd_ratio_permille",
            "disk_sequential_ns",
            "",
            "swap_in_fault",
        ] {
            assert!(prices(name, 7).unwrap_err().contains(name), "{name}");
        }
    }

    #[test]
    fn a_price_replaces_that_of_the_table_alone() {
        let table = Costs::default();
        let priced = table.priced(&prices("swap_in_fault_ns", 7).unwrap());
        assert_eq!(priced.swap_in_fault_ns(), 7);
        assert_eq!(priced.priced(&prices("swap_in_fault_ns", table.swap_in_fault_ns()).unwrap()), table);
        assert_eq!(table.priced(&Prices::default()), table);
    }
}
