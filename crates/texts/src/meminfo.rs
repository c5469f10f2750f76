//! `/proc/meminfo`, and the file of the same name of a node.

use crate::{Counters, Strange};

/// Bytes by name (`MemTotal`), counts where the kernel writes no unit. The `Node 0` in front of the lines of a node is cut off.
///
/// # Errors
/// The line without a name and number, or the error of an empty text.
pub fn parse(text: &str) -> Result<Counters, Strange> {
    let mut counters = Counters::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| Strange::new(line))?;
        let name = match name.strip_prefix("Node ") {
            Some(rest) => rest.trim_start().split_once(' ').ok_or_else(|| Strange::new(line))?.1,
            None => name,
        };
        let mut words = value.split_whitespace();
        let number: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| Strange::new(line))?;
        let unit_bytes = if words.next() == Some("kB") { 1024 } else { 1 };
        counters.insert(name.trim(), number.saturating_mul(unit_bytes));
    }
    if counters.is_empty() { Err(Strange::new(text)) } else { Ok(counters) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes() {
        let system = parse("MemTotal:        2048 kB\nHugePages_Total:       3\n").unwrap();
        assert_eq!((system.get("MemTotal"), system.get("HugePages_Total")), (Some(2_097_152), Some(3)));
        let node = parse("Node 12 MemFree:       4 kB\n").unwrap();
        assert_eq!(node.get("MemFree"), Some(4096));
        for text in ["MemTotal", "MemTotal:", "MemTotal: x kB", "Node 0", "Node 0:"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
