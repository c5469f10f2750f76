//! `/proc/swaps`: the swap devices; and `mm_stat` of a zram device.

use crate::Strange;

/// A swap device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Path; spaces in it are written `\040`.
    pub path: String,
    /// `partition`, `file`.
    pub kind: String,
    pub total_bytes: u64,
    pub used_bytes: u64,
    pub priority: i64,
}

impl Swap {
    /// Name of the zram device that it is on: `zram0`.
    pub fn zram(&self) -> Option<&str> {
        let name = self.path.rsplit('/').next()?;
        let number = name.strip_prefix("zram")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    }

    /// Bytes that are free.
    pub const fn free_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.used_bytes)
    }
}

/// The contents of a zram device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZramUse {
    /// Bytes written to it.
    pub original_bytes: u64,
    /// The same, compressed.
    pub compressed_bytes: u64,
    /// Memory that the device takes, with losses of its allocator.
    pub memory_bytes: u64,
}

/// Parses the text of the file.
///
/// # Errors
/// The line that is not understood; the first must be the header.
pub fn parse(text: &str) -> Result<Vec<Swap>, Strange> {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with("Filename")) {
        return Err(Strange::new(text));
    }
    lines.filter(|line| !line.trim().is_empty()).map(|line| row(line).ok_or_else(|| Strange::new(line))).collect()
}

fn row(line: &str) -> Option<Swap> {
    // From the right: the kernel escapes white space in the path, but " (deleted)" comes after it.
    let mut words = line.split_whitespace().rev();
    let priority = words.next()?.parse().ok()?;
    let mut kib = || words.next()?.parse::<u64>().ok()?.checked_mul(1024);
    let (used_bytes, total_bytes) = (kib()?, kib()?);
    let kind = words.next()?.to_owned();
    let path = words.next_back()?.to_owned();
    Some(Swap { path, kind, total_bytes, used_bytes, priority })
}

/// Parses the text of `mm_stat`.
///
/// # Errors
/// The text, if it has fewer than three numbers.
pub fn parse_zram(text: &str) -> Result<ZramUse, Strange> {
    let mut words = text.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse().ok()).ok_or_else(|| Strange::new(text));
    Ok(ZramUse { original_bytes: number()?, compressed_bytes: number()?, memory_bytes: number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_files() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram0   partition\t1024\t\t256\t\t100\n/swap (deleted)  file  8 0 -2\n";
        let swaps = parse(text).unwrap();
        assert_eq!((swaps[0].zram(), swaps[0].free_bytes(), swaps[0].priority), (Some("zram0"), 768 << 10, 100));
        assert_eq!((swaps[1].path.as_str(), swaps[1].kind.as_str(), swaps[1].zram()), ("/swap", "file", None));
        for text in [
            "",
            "x",
            "Filename\n/dev/a",
            "Filename\n/dev/a file x 0 1",
            "Filename\n/dev/a file 99999999999999999999 0 1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let zram = parse_zram(" 4096  74 12288 0 12288 0 0 0 0\n").unwrap();
        assert_eq!(zram, ZramUse { original_bytes: 4096, compressed_bytes: 74, memory_bytes: 12_288 });
        assert!(parse_zram("1 2").is_err() && parse_zram("a b c").is_err());
    }
}
