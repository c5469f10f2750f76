//! `/proc/zoneinfo`: of it only what weighs a zone's score and says whether it may be compacted.

use super::TextError;
use super::line::{self, Words};

/// A zone's sizes and watermarks, in pages. Marks that a kernel does not print are 0: boosts before 5.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Number of the NUMA node.
    pub node: u32,
    pub zone: String,
    /// Free pages, those on per-CPU lists aside.
    pub free: u64,
    /// What the marks below are raised by just now.
    pub boost: u64,
    /// Watermarks `min`, `low` and `high` in pages, boost included.
    pub min: u64,
    pub low: u64,
    pub high: u64,
    /// Pages that are there: the weight of the zone's score. 0 in zones without memory.
    pub present: u64,
    /// Of these, those that the allocator manages.
    pub managed: u64,
    /// Pages kept back from requests that could use a higher zone, by that zone.
    pub protection: Vec<u64>,
}

/// Reads `/proc/zoneinfo`, zones without memory included.
///
/// # Errors
/// The first line that is wrong, or what a zone lacks.
pub fn parse_zoneinfo(text: &str) -> Result<Vec<ZoneInfo>, TextError> {
    let mut zones: Vec<Partial> = Vec::new();
    for (number, text) in line::lines(text)? {
        let mut words = Words::new(number, text);
        if words.takes(&["Node"]) {
            let mut words = Words::new(number, text);
            let (node, zone) = (words.node()?, words.name("zone", false)?);
            if zones.iter().any(|other| other.node == node && other.zone == zone) {
                return Err(TextError::Twice { line: number, what: format!("node {node}, zone {zone}") });
            }
            zones.push(Partial { node, zone, ..Partial::default() });
        } else {
            let Some(zone) = zones.last_mut() else { return Err(words.unexpected("`Node N, zone NAME`")) };
            zone.take(&mut words)?;
        }
    }
    if zones.is_empty() {
        return Err(TextError::Empty);
    }
    zones.into_iter().map(Partial::finish).collect()
}

/// The lines that are read, and where their numbers go.
const KEYS: [&str; 7] = ["free", "boost", "min", "low", "high", "present", "managed"];

#[derive(Default)]
struct Partial {
    node: u32,
    zone: String,
    values: [Option<u64>; KEYS.len()],
    protection: Option<Vec<u64>>,
}

impl Partial {
    /// The rest of the text is other counters; new kernels add to them, so that they are passed over unread.
    fn take(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        if words.takes(&["protection:"]) {
            let numbers = words.list()?;
            self.protection.get_or_insert(numbers);
            return Ok(());
        }
        words.takes(&["pages"]);
        let Some(key) = KEYS.iter().position(|key| words.takes(&[key])) else { return Ok(()) };
        match words.numbers()? {
            (numbers, false) if numbers.len() == 1 => {
                // The first is the zone's; per-CPU lists behind it have a `high` as well.
                self.values[key].get_or_insert(numbers[0]);
                Ok(())
            }
            _ => Err(words.unexpected(format!("`{}` and one number", KEYS[key]))),
        }
    }

    fn finish(self) -> Result<ZoneInfo, TextError> {
        let [free, boost, min, low, high, present, managed] = self.values;
        let place = format!("node {}, zone {}", self.node, self.zone);
        let need = |value: Option<u64>, key: &str| {
            value.ok_or_else(|| TextError::Missing { missing: format!("`{key}` of {place}") })
        };
        let present = need(present, "present")?;
        Ok(ZoneInfo {
            free: need(free, "pages free")?,
            boost: boost.unwrap_or(0),
            min: need(min, "min")?,
            low: need(low, "low")?,
            high: need(high, "high")?,
            present,
            managed: managed.unwrap_or(present),
            protection: self.protection.unwrap_or_default(),
            node: self.node,
            zone: self.zone,
        })
    }
}
