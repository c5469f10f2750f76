//! Level of the page table at which a region is sampled, and the consequences: strategies, one file each.
//!
//! Hardware sets an accessed bit in every entry that a page walk goes through. A bit high up covers a large span: a clear bit proves that
//! nothing below was accessed (translation caches apart), a set bit only shows where to scan.

mod flex;
mod leaf;
mod pick;
mod ptp;
mod ptp_aligned;
pub(crate) mod ptp_descend;

use super::error::MonitorError;
use crate::host::{AddressRange, Capabilities, Level, Probe, TargetId};
use isotherm_units::Ratio;
use serde::{Deserialize, Serialize};

/// Every strategy. To add a strategy: a file in this folder and a line here; configuration, drivers and tests read the table.
pub const STRATEGIES: &[StrategyEntry] =
    &[leaf::ENTRY, ptp::ENTRY, ptp_aligned::ENTRY, ptp_descend::ENTRY, flex::ENTRY];

/// The largest number of page-table levels that is supported.
pub const LEVELS_MAX: usize = 8;

/// A strategy's name, and its differences from the others.
#[derive(Debug)]
pub struct StrategyEntry {
    /// Name of the strategy in configuration files.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Reads entries above the leaf, and so needs a target whose hardware sets their bits.
    pub probes_upper: bool,
    /// Scans tables below and next to accessed entries between samples, and splits regions at the borders that it found.
    pub(crate) walks_down: bool,
    /// The smallest region by default spans one entry of this level.
    pub(crate) smallest: Level,
    /// The level at which an address of a region is probed.
    pub(crate) pick: fn(&Levels, AddressRange, u64) -> Level,
    /// Where a cut goes that was drawn at an offset into a range; the last argument is the smallest size of a region.
    pub(crate) place: fn(&Levels, AddressRange, u64, u64) -> u64,
}

/// One of [`STRATEGIES`], by its name. By default plain DAMON, `leaf`.
#[derive(Clone, Copy, Debug)]
pub struct Strategy(pub(crate) &'static StrategyEntry);

impl Strategy {
    /// The entry of this strategy in the table.
    pub fn entry(self) -> &'static StrategyEntry {
        self.0
    }
}

impl Default for Strategy {
    fn default() -> Self {
        Self(&STRATEGIES[0])
    }
}

impl PartialEq for Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Strategy {}

impl std::str::FromStr for Strategy {
    type Err = MonitorError;
    fn from_str(name: &str) -> Result<Self, MonitorError> {
        STRATEGIES.iter().find(|entry| entry.name == name).map(Self).ok_or_else(|| {
            let names: Vec<&str> = STRATEGIES.iter().map(|entry| entry.name).collect();
            MonitorError::UnknownStrategy { name: name.to_owned(), allowed: names.join(", ") }
        })
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.0.name)
    }
}

impl Serialize for Strategy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// The page table of one target, as far as its accessed bits are meaningful.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    shifts: Vec<u8>,
    highest: u8,
    /// Tolerated share of an entry outside its region for the levels from 1 on, in millionths; the last holds for all above.
    leaks_ppm: Vec<u32>,
    /// Upper entries only rule out: see [`Capabilities::rules_out`].
    rules_out: bool,
}

impl Levels {
    pub(crate) fn new(target: TargetId, capabilities: Capabilities, leaks: &[Ratio]) -> Result<Self, MonitorError> {
        let Capabilities { shifts, highest_level: Level(highest), rules_out, .. } = capabilities;
        let ascends = shifts.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = shifts.len() <= LEVELS_MAX && shifts.iter().all(|shift| *shift < 64);
        if !ascends || !fits || usize::from(highest) >= shifts.len() {
            return Err(MonitorError::BadLevels { target, shifts, highest });
        }
        let leaks_ppm = leaks.iter().map(|leak| u32::try_from(leak.ppm()).unwrap_or(u32::MAX)).collect();
        Ok(Self { shifts, highest, leaks_ppm, rules_out })
    }

    /// The level at which `address` of `region` is probed. If upper entries only rule out, all of them are read.
    pub(crate) fn pick(&self, strategy: &StrategyEntry, region: AddressRange, address: u64) -> Level {
        match (strategy.probes_upper, self.rules_out) {
            (false, _) => Level::LEAF,
            (true, true) => Level(self.highest),
            (true, false) => (strategy.pick)(self, region, address),
        }
    }

    /// The level of the entry that answers for a probe.
    pub(crate) fn answers(&self, probe: Probe) -> Level {
        if self.rules_out { Level::LEAF } else { probe.level }
    }

    /// All levels above the leaf that may be probed, ascending.
    pub(crate) fn upper(&self) -> impl DoubleEndedIterator<Item = Level> + use<> {
        (1..=self.highest).map(Level)
    }

    /// Whether the table has entries at `level`, with usable bits or without.
    pub(crate) fn has(&self, level: Level) -> bool {
        usize::from(level.0) < self.shifts.len()
    }

    /// Bytes of an entry at `level`, which must exist.
    pub(crate) fn span(&self, level: Level) -> u128 {
        1 << self.shifts[usize::from(level.0)]
    }

    /// First byte and first byte behind of the entry at `level` on the way to `address`. The last entry of the address space
    /// ends at 2^64.
    pub(crate) fn entry(&self, level: Level, address: u64) -> (u128, u128) {
        let start = u128::from(address) & !(self.span(level) - 1);
        (start, start + self.span(level))
    }

    /// The tolerated share outside of a region, in millionths.
    pub(crate) fn leak_ppm(&self, level: Level) -> u32 {
        let index = usize::from(level.0.saturating_sub(1)).min(self.leaks_ppm.len().saturating_sub(1));
        self.leaks_ppm.get(index).copied().unwrap_or(0)
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> u64 {
        1 << self.shifts[0]
    }
}

/// Cuts stay where they were drawn.
fn place_as_drawn(_: &Levels, _: AddressRange, offset: u64, _: u64) -> u64 {
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x86-64 tables of four levels, the topmost usable one given.
    pub(super) fn four(highest: u8) -> Levels {
        Levels { shifts: vec![12, 21, 30, 39], highest, leaks_ppm: Vec::new(), rules_out: false }
    }

    /// x86-64 tables of five levels.
    pub(super) fn five(highest: u8) -> Levels {
        Levels { shifts: vec![12, 21, 30, 39, 48], highest, leaks_ppm: Vec::new(), rules_out: false }
    }

    impl Levels {
        pub(super) fn with_leaks(mut self, leaks_ppm: &[u32]) -> Self {
            self.leaks_ppm = leaks_ppm.to_vec();
            self
        }
    }

    #[test]
    fn strategies_are_found_by_name() {
        for entry in STRATEGIES {
            assert_eq!(entry.name.parse::<Strategy>().unwrap().to_string(), entry.name);
            assert!(!entry.walks_down || entry.probes_upper, "{}: it walks down from upper entries", entry.name);
        }
        let error = "page".parse::<Strategy>().unwrap_err().to_string();
        assert_eq!(error, "unknown strategy `page`; allowed: leaf, ptp, ptp-aligned, ptp-descend, flex");
    }

    #[test]
    fn impossible_tables_are_refused() {
        let levels = |shifts: &[u8], highest| {
            let capabilities = Capabilities {
                shifts: shifts.to_vec(),
                highest_level: Level(highest),
                flush: false,
                scan_children: false,
                rules_out: false,
            };
            Levels::new(TargetId(1), capabilities, &[])
        };
        assert!(levels(&[12, 21], 1).is_ok());
        for (shifts, highest) in [(&[][..], 0), (&[12, 12], 0), (&[21, 12], 0), (&[12, 21], 2), (&[12, 64], 1)] {
            assert!(matches!(levels(shifts, highest), Err(MonitorError::BadLevels { .. })), "{shifts:?} {highest}");
        }
    }

    /// Any granule works: arm64 with 16 KiB pages (docs/spec/page-table-profiling.md#s2-1).
    #[test]
    fn spans_follow_the_shifts() {
        let levels = Levels { shifts: vec![14, 25, 36, 47], highest: 3, leaks_ppm: Vec::new(), rules_out: false };
        assert_eq!(levels.page(), 16 << 10);
        assert_eq!(levels.entry(Level(1), (32 << 20) + 5), (32 << 20, 64 << 20));
    }
}
