//! Generations of the Multi-Gen LRU: the file `lru_gen` of debugfs, and the switches of `/sys/kernel/mm/lru_gen`.

use crate::counters::{parsed, quoted, unknown};
use crate::{LiveError, Root};
use isotherm_core::host::{Ageing, Eviction, Listing, Lruvec};
pub use isotherm_texts::lru_gen::Enabled;

const FILE: &str = "/sys/kernel/debug/lru_gen";
const SWITCHES: &str = "/sys/kernel/mm/lru_gen";

/// Parts that are switched on.
///
/// # Errors
/// [`LiveError::NotHere`] for a kernel without it, [`LiveError::Strange`].
pub fn enabled(root: &Root) -> Result<Enabled, LiveError> {
    parsed(root, format!("{SWITCHES}/enabled"), Enabled::parse).map_err(|error| match error {
        error if error.is_missing() => LiveError::NotHere {
            what: "the Multi-Gen LRU",
            needs: "it needs a kernel of 6.1 or newer with CONFIG_LRU_GEN".to_owned(),
        },
        error => error,
    })
}

/// Milliseconds for which the youngest generations are protected from eviction; 0 if they are not.
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
    parsed(root, FILE, |text| match text.trim() {
        // Every kernel has at least one group.
        "" => Err(quoted(text)),
        _ => isotherm_texts::lru_gen::parse(text).map_err(unknown),
    })
    .map_err(|error| if error.is_missing() { absent(root) } else { error })
}

/// Why the file is missing.
fn absent(root: &Root) -> LiveError {
    let needs = match enabled(root) {
        Err(error) => error.to_string(),
        Ok(_) => "debugfs is not mounted; `mount -t debugfs none /sys/kernel/debug` mounts it".to_owned(),
    };
    LiveError::NotHere { what: "the file lru_gen", needs }
}

/// Identifiers of the group at this path in commands, one for each node. The path is as in the file: `/` is the root.
///
/// A group that was removed is listed under its path until its last page is gone, also when there is a new one of this path. The new one
/// is that with the number of the folder, `inode`, as 7.2 has it, else the last one: they are listed in the order in
/// which they were made (`kernel/cgroup/cgroup.c: css_next_child`).
pub fn lruvecs(listings: &[Listing], path: &str, inode: Option<u64>) -> Vec<Lruvec> {
    let path = if path.is_empty() { "/" } else { path };
    let named = || listings.iter().filter(|listing| listing.path == path).map(|listing| listing.lruvec);
    let last = named().next_back().map(|lruvec| lruvec.memcg);
    let living = inode.filter(|&inode| named().any(|lruvec| lruvec.memcg == inode)).or(last);
    named().filter(|lruvec| Some(lruvec.memcg) == living).collect()
}

/// Creates a generation.
///
/// # Errors
/// [`LiveError::Refused`] with the kernel's refusal as text, [`LiveError::NotHere`], [`LiveError::Io`].
pub fn age(root: &Root, order: &Ageing) -> Result<(), LiveError> {
    let why = "the group is gone, or its youngest generation is older than the one that the command names";
    command(root, order.lruvec, &order.to_string(), why)
}

/// Evicts generations, except pages that turn out to be in use.
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
    use isotherm_core::host::NodeId;

    // 6.1 and 6.12 pad like this; 7.2 differs in the number of the group alone.
    const TEXT: &str = "memcg     1 /\n node     0\n          0      67023       1024          9 \n          1      12031         -3         12 \n\
        memcg     2 /app.slice/web 1.service\n node     0\n          4        100          5          6 \n          5          0          0          0 \n node     1\n          \
        7         90          0          0 \n          8          0          0          0 \n";

    #[test]
    fn a_group_is_found_by_its_path() {
        let listings = isotherm_texts::lru_gen::parse(TEXT).unwrap();
        let web = lruvecs(&listings, "/app.slice/web 1.service", None);
        assert_eq!(web, [0, 1].map(|node| Lruvec { memcg: 2, node: NodeId(node) }));
        assert_eq!((lruvecs(&listings, "", None).len(), lruvecs(&listings, "/absent", None).len()), (1, 0));
    }

    /// After a restart of its service the old group is listed as long as it has pages.
    #[test]
    fn of_two_groups_of_a_path_the_living_one_counts() {
        let group =
            |memcg: u64| format!("memcg {memcg} /web\n node 0\n 0 1 1 1\n 1 1 1 1\n node 1\n 0 1 1 1\n 1 1 1 1\n");
        let text = format!("memcg 1 /\n node 0\n 0 1 1 1\n 1 1 1 1\n{}{}", group(812), group(437));
        let listings = isotherm_texts::lru_gen::parse(&text).unwrap();
        let of = |inode| lruvecs(&listings, "/web", inode).iter().map(|lruvec| lruvec.memcg).collect::<Vec<_>>();
        assert_eq!(of(None), [437, 437], "the last one, on both nodes");
        assert_eq!(of(Some(9)), [437, 437], "6.1 and 6.12 have numbers of their own");
        assert_eq!(of(Some(812)), [812, 812], "the folder's number decides");
    }

    #[test]
    fn switches_and_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        assert!(read(&root).unwrap_err().to_string().contains("CONFIG_LRU_GEN"));
        std::fs::create_dir_all(root.path(SWITCHES)).unwrap();
        std::fs::write(root.path("/sys/kernel/mm/lru_gen/enabled"), "0x0007\n").unwrap();
        assert!(read(&root).unwrap_err().to_string().contains("mount -t debugfs"));
        std::fs::create_dir_all(root.path("/sys/kernel/debug")).unwrap();
        std::fs::write(root.path(FILE), "\n").unwrap();
        assert!(matches!(read(&root), Err(LiveError::Strange { .. })), "no kernel is without a group");
        std::fs::write(root.path(FILE), TEXT).unwrap();
        assert_eq!(read(&root).unwrap().len(), 3);
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
