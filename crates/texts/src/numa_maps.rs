//! `/proc/PID/numa_maps`: pages of each mapping by node.

use crate::Strange;
use isotherm_units::NodeId;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaMapping {
    /// Address of its first byte.
    pub start: u64,
    /// `default`, `bind:0`, `interleave:0-1`.
    pub policy: String,
    /// Pages by node, in units of `page_bytes`.
    pub pages: Vec<(NodeId, u64)>,
    /// Size of a page; 4096 where the line does not say.
    pub page_bytes: u64,
}

/// Parses the text of the file.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> Result<Vec<NumaMapping>, Strange> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| row(line).ok_or_else(|| Strange::new(line)))
        .collect()
}

fn row(line: &str) -> Option<NumaMapping> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut mapping = NumaMapping { start, policy: words.next()?.to_owned(), pages: Vec::new(), page_bytes: 4096 };
    for word in words {
        let Some((name, value)) = word.split_once('=') else { continue };
        if name == "kernelpagesize_kB" {
            mapping.page_bytes = value.parse::<u64>().ok()?.checked_mul(1024)?;
        } else if let Some(node) = name.strip_prefix('N').and_then(|node| node.parse().ok()) {
            mapping.pages.push((NodeId(node), value.parse().ok()?));
        }
    }
    Some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_by_node() {
        let text = "55a0c0000000 default file=/usr/bin/N0=9 mapped=3 N0=1 N1=2 kernelpagesize_kB=4\n7f0000000000 bind:1 anon=1 dirty=1 N1=1 kernelpagesize_kB=2048\n";
        let maps = parse(text).unwrap();
        assert_eq!(maps[0].pages, [(NodeId(0), 1), (NodeId(1), 2)]);
        assert_eq!((maps[1].policy.as_str(), maps[1].page_bytes), ("bind:1", 2 << 20));
        for text in ["x default", "7f00", "7f00 default N0=x", "7f00 default kernelpagesize_kB=99999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
