//! Files of memory cgroups: limits, and members of a group.

use crate::Strange;
use isotherm_units::Bytes;

/// A limit of a group: `memory.high`, `memory.max`, `memory.min`, `memory.low`, `memory.swap.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The kernel writes `max`.
    Unlimited,
    At(Bytes),
}

impl Limit {
    /// Parses the text of one of the files.
    ///
    /// # Errors
    /// The text, if it is neither `max` nor a number of bytes.
    pub fn parse(text: &str) -> Result<Self, Strange> {
        match text.trim() {
            "max" => Ok(Self::Unlimited),
            number => number.parse().map(|bytes| Self::At(Bytes::new(bytes))).map_err(|_| Strange::new(text)),
        }
    }
}

/// PIDs in `cgroup.procs`. 0 means a process outside of our namespace of PIDs, and is left out.
///
/// # Errors
/// The line that is no number.
pub fn processes(text: &str) -> Result<Vec<u32>, Strange> {
    let pids = text.lines().filter(|line| !matches!(line.trim(), "" | "0"));
    pids.map(|line| line.trim().parse().map_err(|_| Strange::new(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_processes() {
        assert_eq!(Limit::parse("max\n"), Ok(Limit::Unlimited));
        assert_eq!(Limit::parse("8192\n"), Ok(Limit::At(Bytes::new(8192))));
        assert_eq!(Limit::parse("much\n"), Err(Strange::new("much")));
        assert_eq!(processes("0\n12\n13\n"), Ok(vec![12, 13]));
        assert_eq!((processes(""), processes("1\nx\n")), (Ok(vec![]), Err(Strange::new("x"))));
    }
}
