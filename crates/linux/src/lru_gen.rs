//! Generations of the Multi-Gen LRU: the file `lru_gen` of debugfs, and the switches of `/sys/kernel/mm/lru_gen`.

use crate::counters::{parsed, quoted};
use crate::{LiveError, Root};
use isotherm_core::host::{Ageing, Eviction, Listing, Lruvec, NodeId};
use isotherm_core::vocabulary::GenerationRow;

const FILE: &str = "/sys/kernel/debug/lru_gen";
const SWITCHES: &str = "/sys/kernel/mm/lru_gen";

/// The switches of `enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enabled {
    /// The Multi-Gen LRU itself.
    pub core: bool,
    /// It walks page tables.
    pub walk: bool,
    /// The walk looks at accessed bits above the lowest level.
    pub non_leaf: bool,
}

/// Which parts are on.
///
/// # Errors
/// [`LiveError::NotHere`] for a kernel without it, [`LiveError::Strange`].
pub fn enabled(root: &Root) -> Result<Enabled, LiveError> {
    parsed(root, format!("{SWITCHES}/enabled"), parse_enabled).map_err(|error| match error {
        error if error.is_missing() => LiveError::NotHere {
            what: "the Multi-Gen LRU",
            needs: "it needs a kernel of 6.1 or newer with CONFIG_LRU_GEN".to_owned(),
        },
        error => error,
    })
}

fn parse_enabled(text: &str) -> Result<Enabled, String> {
    let digits = text.trim();
    let bits = u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).map_err(|_| quoted(text))?;
    Ok(Enabled { core: bits & 1 != 0, walk: bits & 2 != 0, non_leaf: bits & 4 != 0 })
}

/// Milliseconds for which the youngest generations are kept from eviction; 0: they are not.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn min_ttl_ms(root: &Root) -> Result<u64, LiveError> {
    root.value(format!("{SWITCHES}/min_ttl_ms"))
}

/// All groups on all nodes, in the order of the file.
///
/// # Errors
/// [`LiveError::NotHere`] with what to do, [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<Listing>, LiveError> {
    parsed(root, FILE, parse).map_err(|error| if error.is_missing() { absent(root) } else { error })
}

/// Why the file is not there.
fn absent(root: &Root) -> LiveError {
    let needs = match enabled(root) {
        Err(error) => error.to_string(),
        Ok(_) => "debugfs is not mounted; `mount -t debugfs none /sys/kernel/debug` mounts it".to_owned(),
    };
    LiveError::NotHere { what: "the file lru_gen", needs }
}

/// The numbers by which commands name the group at this path, one a node. The path is that of the file: `/` is the root.
pub fn lruvecs(listings: &[Listing], path: &str) -> Vec<Lruvec> {
    let path = if path.is_empty() { "/" } else { path };
    listings.iter().filter(|listing| listing.path == path).map(|listing| listing.lruvec).collect()
}

/// Parses the text of the file. Lines of statistics, as in `lru_gen_full`, are passed over.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> Result<Vec<Listing>, String> {
    let mut listings: Vec<Listing> = Vec::new();
    let mut group: Option<(u64, String)> = None;
    let mut has_node = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line = line.trim();
        let strange = || quoted(line);
        if let Some(rest) = line.strip_prefix("memcg ") {
            let (number, path) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), "/"));
            // The root is written with an empty path where no group file system is mounted.
            let path = if path.trim().is_empty() { "/" } else { path.trim() };
            group = Some((number.parse().map_err(|_| strange())?, path.to_owned()));
            has_node = false;
        } else if let Some(rest) = line.strip_prefix("node ") {
            let (memcg, path) = group.clone().ok_or_else(strange)?;
            let node = NodeId(rest.trim().parse().map_err(|_| strange())?);
            listings.push(Listing { lruvec: Lruvec { memcg, node }, path, rows: Vec::new() });
            has_node = true;
        } else {
            let listing = listings.last_mut().filter(|_| has_node).ok_or_else(strange)?;
            let numbers: Vec<Option<i64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
            let [Some(seq), Some(age), Some(anon), Some(file)] = numbers.as_slice() else {
                // Lines of `lru_gen_full` begin with a tier and end with letters, or are a list of walk counters.
                if line.bytes().any(|byte| byte.is_ascii_alphabetic()) && line.split_whitespace().count() > 2 {
                    continue;
                }
                return Err(strange());
            };
            // Counts are summed over CPUs without a lock: for a moment they can be below 0.
            let count = |number: i64| u64::try_from(number).unwrap_or(0);
            let row = GenerationRow {
                seq: count(*seq),
                age_ms: count(*age),
                anon_pages: count(*anon),
                file_pages: count(*file),
            };
            if listing.rows.last().is_some_and(|last| last.seq.checked_add(1) != Some(row.seq)) {
                return Err(strange());
            }
            listing.rows.push(row);
        }
    }
    if group.is_none() { Err(quoted(text)) } else { Ok(listings) }
}

/// Makes a generation.
///
/// # Errors
/// [`LiveError::Refused`] with the kernel's refusal in words, [`LiveError::NotHere`], [`LiveError::Io`].
pub fn age(root: &Root, order: &Ageing) -> Result<(), LiveError> {
    let why = "the group is gone, or its youngest generation is older than the one that the command names";
    command(root, order.lruvec, &order.to_string(), why)
}

/// Evicts generations, as far as their pages are not in use after all.
///
/// # Errors
/// As of [`age`].
pub fn evict(root: &Root, order: &Eviction) -> Result<(), LiveError> {
    let why = "the group is gone, or the generation is one of the two youngest, which are never evicted";
    command(root, order.lruvec, &order.to_string(), why)
}

fn command(root: &Root, lruvec: Lruvec, text: &str, invalid: &str) -> Result<(), LiveError> {
    let on = format!("generations of group {} on node {}", lruvec.memcg, lruvec.node.0);
    root.write_on(&on, FILE, text).map_err(|error| {
        let LiveError::Io { source, .. } = &error else { return error };
        match source.raw_os_error() {
            _ if error.is_missing() => absent(root),
            Some(libc::EINVAL) => LiveError::Refused(format!("lru_gen refused `{text}`: {invalid}")),
            Some(libc::EINTR) => LiveError::Refused(format!("lru_gen did not finish `{text}`: a signal came")),
            Some(libc::ENOMEM) => LiveError::Refused(format!("lru_gen had no memory for `{text}`")),
            Some(libc::EPERM | libc::EACCES) => {
                LiveError::Refused(format!("lru_gen refused `{text}`: it is for root, without lockdown"))
            }
            _ => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // 6.1 and 6.12 pad like this; 7.2 differs in the number of the group alone.
    const TEXT: &str = "memcg     1 /\n node     0\n          0      67023       1024          9 \n          1      12031         -3         12 \n\
        memcg     2 /app.slice/web 1.service\n node     0\n          4        100          5          6 \n node     1\n          7         90          0          0 \n";

    #[test]
    fn groups_nodes_and_generations() {
        let listings = parse(TEXT).unwrap();
        assert_eq!(listings.len(), 3);
        assert_eq!(listings[0].rows[1], GenerationRow { seq: 1, age_ms: 12_031, anon_pages: 0, file_pages: 12 });
        let web = lruvecs(&listings, "/app.slice/web 1.service");
        assert_eq!(web, [0, 1].map(|node| Lruvec { memcg: 2, node: NodeId(node) }));
        assert_eq!((lruvecs(&listings, "").len(), lruvecs(&listings, "/absent").len()), (1, 0));
        let full = "memcg 1 /\n node 0\n 1 2 3 4 \n    0  0r 0e 0p 0 0 0\n";
        assert_eq!(parse(full).unwrap()[0].rows.len(), 1);
    }

    #[test]
    fn what_is_no_listing_is_refused() {
        for text in [
            "",
            "x",
            "memcg",
            "memcg x /",
            "node 0",
            "memcg 1 /\nnode x",
            "memcg 1 /\n 1 2 3 4",
            "memcg 1 /\nnode 0\n1 2 3",
            "memcg 1 /\nnode 0\n1 0 0 0\n3 0 0 0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for end in 0..TEXT.len() {
            let _ = parse(&TEXT[..end]);
        }
    }

    #[test]
    fn switches_and_what_is_missing() {
        assert_eq!(parse_enabled("0x0007\n").unwrap(), Enabled { core: true, walk: true, non_leaf: true });
        assert_eq!(parse_enabled("0x0000").unwrap(), Enabled::default());
        assert!(parse_enabled("yes").is_err() && parse_enabled("").is_err());
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        assert!(read(&root).unwrap_err().to_string().contains("CONFIG_LRU_GEN"));
        std::fs::create_dir_all(root.path(SWITCHES)).unwrap();
        std::fs::write(root.path("/sys/kernel/mm/lru_gen/enabled"), "0x0007\n").unwrap();
        assert!(read(&root).unwrap_err().to_string().contains("mount -t debugfs"));
        std::fs::create_dir_all(root.path("/sys/kernel/debug")).unwrap();
        std::fs::write(root.path(FILE), TEXT).unwrap();
        let lruvec = Lruvec { memcg: 2, node: NodeId(0) };
        let order = Ageing {
            lruvec,
            max_gen_nr: 4,
            swappiness: isotherm_core::vocabulary::Swappiness::Of(1),
            force_scan: true,
        };
        age(&root, &order).unwrap();
        assert_eq!(root.read(FILE).unwrap(), "+ 2 0 4 1");
    }
}
