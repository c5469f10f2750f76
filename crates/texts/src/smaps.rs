//! `/proc/PID/smaps`: contents and kind of a mapping. Reading it walks the page tables
//! (docs/spec/live-linux.md#1-interfaces-that-show-accesses-or-page-state).

use crate::maps::{Mapping, append};

/// A mapping with the numbers that isotherm needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmapsArea {
    pub mapping: Mapping,
    /// Bytes that are present.
    pub resident_bytes: u64,
    /// Bytes of pages whose accessed bit is set, or that carry the mark of reclaim.
    pub referenced_bytes: u64,
    /// Bytes of pages that belong to no file; pages of shared memory do not count.
    pub anonymous_bytes: u64,
    /// Bytes under huge leaves, anonymous.
    pub huge_bytes: u64,
    /// Bytes in swap.
    pub swap_bytes: u64,
    pub flags: VmFlags,
}

/// Flags of a mapping, the two letters each of `VmFlags`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmFlags(Vec<[u8; 2]>);

impl VmFlags {
    fn parse(text: &str) -> Self {
        Self(text.split_ascii_whitespace().filter_map(|word| word.as_bytes().try_into().ok()).collect())
    }

    /// Whether a flag is set, by its two letters: `io`, `pf`, `mm`, `ht`, `lo`.
    pub fn has(&self, letters: &str) -> bool {
        self.0.iter().any(|flag| flag == letters.as_bytes())
    }

    /// The kernel wrote no flags at all: it is older than 3.8, or the text is cut.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The mappings, ascending and disjoint.
///
/// # Errors
/// The first line that is no mapping and belongs to none.
pub fn parse(text: &str) -> Result<Vec<SmapsArea>, &str> {
    let mut areas = Vec::new();
    let mut area: Option<SmapsArea> = None;
    for line in text.lines() {
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            let mapping = Mapping::parse(line).ok_or(line)?;
            finish(&mut areas, area.replace(SmapsArea::new(mapping)));
            continue;
        }
        let area = area.as_mut().ok_or(line)?;
        let (name, value) = line.split_once(':').ok_or(line)?;
        let place = match name {
            "Rss" => &mut area.resident_bytes,
            "Referenced" => &mut area.referenced_bytes,
            "Anonymous" => &mut area.anonymous_bytes,
            "AnonHugePages" => &mut area.huge_bytes,
            "Swap" => &mut area.swap_bytes,
            "VmFlags" => {
                area.flags = VmFlags::parse(value);
                continue;
            }
            _ => continue,
        };
        *place = bytes(value).ok_or(line)?;
    }
    finish(&mut areas, area);
    Ok(areas)
}

fn finish(areas: &mut Vec<SmapsArea>, area: Option<SmapsArea>) {
    if let Some(area) = area {
        append(areas, area, |area| &mut area.mapping.range);
    }
}

impl SmapsArea {
    fn new(mapping: Mapping) -> Self {
        Self {
            mapping,
            resident_bytes: 0,
            referenced_bytes: 0,
            anonymous_bytes: 0,
            huge_bytes: 0,
            swap_bytes: 0,
            flags: VmFlags::default(),
        }
    }
}

/// `     12 kB`.
fn bytes(value: &str) -> Option<u64> {
    let (number, unit) = value.trim().split_once(' ')?;
    let kilobytes: u64 = number.parse().ok()?;
    (unit.trim() == "kB").then(|| kilobytes.checked_mul(1024))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
55d1c1b00000-55d1c1b21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
KernelPageSize:        4 kB
Rss:                  64 kB
Referenced:           32 kB
Anonymous:            64 kB
Swap:                  8 kB
THPeligible:    0
ProtectionKey:         0
VmFlags: rd wr mr mw me ac sd
7ffd00021000-7ffd00025000 r--p 00000000 00:00 0                          [vvar]
Size:                 16 kB
Rss:                   0 kB
VmFlags: rd mr pf io de dd zz99
";

    #[test]
    fn numbers_and_flags_belong_to_their_mapping() {
        let areas = parse(TEXT).unwrap();
        let heap = &areas[0];
        assert_eq!((heap.resident_bytes, heap.referenced_bytes, heap.anonymous_bytes), (65536, 32768, 65536));
        assert_eq!((heap.swap_bytes, heap.huge_bytes), (8192, 0));
        assert!(heap.flags.has("wr") && !heap.flags.has("io") && areas[1].flags.has("io") && areas[1].flags.has("pf"));
        assert_eq!((areas.len(), areas[1].referenced_bytes), (2, 0));
    }

    #[test]
    fn what_is_wrong_is_shown() {
        for line in ["Rss: 4 kB", "1000-2000 x", "Rss"] {
            assert_eq!(parse(line), Err(line));
        }
        for line in ["Rss: 4", "Rss: x kB", "Rss: 4 MB", "Rss: 99999999999999999999 kB", "Rss: 18446744073709551615 kB"]
        {
            assert_eq!(parse(&format!("1000-2000 rw-p 0 0:0 0\n{line}\n")).unwrap_err(), line);
        }
        for end in 0..TEXT.len() {
            assert!(
                parse(&TEXT[..end]).is_err() || parse(&TEXT[..end]).is_ok_and(|areas| areas.len() <= 2),
                "{end} bytes"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", at in 0..TEXT.len()) {
            let _ = parse(&text);
            let _ = parse(&format!("{}{text}{}", &TEXT[..at], &TEXT[at..]));
        }
    }
}
