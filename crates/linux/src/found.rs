//! The machine as a program finds it: swap, the disk under its files, processors, huge pages.

use crate::counters::swaps::{self, Swap};
use crate::{LiveError, Root, page_bytes};
use isotherm_units::Bytes;
use rustix::fs::{major, minor};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Kinds of block devices, as their files in `/sys` show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Compressed memory.
    Zram,
    /// A RAM disk.
    Ram,
    Nvme,
    /// A SATA or SAS drive without moving parts.
    Ssd,
    /// A drive that rotates.
    Disk,
    /// A disk of a virtual machine: its speed is its host's.
    Virtual,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name in `/sys/block`, such as `nvme0n1`.
    pub name: String,
    pub kind: BlockKind,
}

/// Where anonymous pages go when memory is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapFound {
    /// There is no swap.
    None,
    /// The swap of the highest priority. `device`: `None` if its kind is not known.
    On {
        path: String,
        device: Option<BlockDevice>,
        /// zswap keeps pages compressed in memory before they are written to it.
        zswap: bool,
    },
}

/// What swap there is.
///
/// # Errors
/// `/proc/swaps` cannot be read.
pub fn swap(root: &Root) -> Result<SwapFound, LiveError> {
    let swaps = swaps::read(root)?;
    let first = swaps.iter().filter(|swap| swap.total_bytes > 0).max_by_key(|swap| swap.priority);
    Ok(first.map_or(SwapFound::None, |swap| on(root, swap)))
}

fn on(root: &Root, swap: &Swap) -> SwapFound {
    let path = swap.path.replace("\\040", " ");
    // A device by its name; a file by the disk that it lies on.
    let of_name = path.strip_prefix("/dev/").and_then(|name| named(root, name));
    let device = of_name.or_else(|| under(root, Path::new(&path)));
    let zswap = root.read("/sys/module/zswap/parameters/enabled").is_ok_and(|text| text.trim() == "Y");
    SwapFound::On { path, device, zswap }
}

/// The disk that a file or folder lies on; `None` for file systems without one (overlay, network, btrfs), and where it is not known.
pub fn under(root: &Root, path: &Path) -> Option<BlockDevice> {
    let device = std::fs::metadata(path).ok()?;
    // The device itself, or that of the file system.
    let number = if device.rdev() != 0 { device.rdev() } else { device.dev() };
    numbered(root, major(number), minor(number))
}

/// The largest readahead of files in a folder; `None` where it is not known. Source: `read_ahead_kb` of the file system, or of its disk.
pub fn readahead(root: &Root, folder: &Path) -> Option<Bytes> {
    let device = std::fs::metadata(folder).ok()?.dev();
    readahead_of(root, major(device), minor(device))
}

fn readahead_of(root: &Root, major: u32, minor: u32) -> Option<Bytes> {
    let kib = |folder: &Path| -> Option<u64> {
        std::fs::read_to_string(folder.join("read_ahead_kb")).ok()?.trim().parse().ok()
    };
    let of_disk = || {
        let device = std::fs::canonicalize(root.path(format!("/sys/dev/block/{major}:{minor}"))).ok()?;
        let whole = if device.join("partition").exists() { device.parent()? } else { &device };
        kib(&whole.join("queue"))
    };
    let kib = kib(&root.path(format!("/sys/class/bdi/{major}:{minor}"))).or_else(of_disk)?;
    kib.checked_mul(1024).map(Bytes::new)
}

/// By device number, through partitions and mappings down to a drive.
fn numbered(root: &Root, major: u32, minor: u32) -> Option<BlockDevice> {
    let real = std::fs::canonicalize(root.path(format!("/sys/dev/block/{major}:{minor}"))).ok()?;
    drive(&real, 8)
}

fn named(root: &Root, name: &str) -> Option<BlockDevice> {
    if name.contains('/') {
        return None; // a link of /dev/mapper, which `under` follows
    }
    drive(&std::fs::canonicalize(root.path(format!("/sys/class/block/{name}"))).ok()?, 8)
}

/// The drive under a device's folder in `/sys`. Mappings over several drives: the first. `depth`: mappings over mappings.
fn drive(folder: &Path, depth: u32) -> Option<BlockDevice> {
    let whole = if folder.join("partition").exists() { folder.parent()? } else { folder };
    let lower = || {
        let mut slaves: Vec<PathBuf> =
            std::fs::read_dir(whole.join("slaves")).ok()?.flatten().map(|entry| entry.path()).collect();
        slaves.sort_unstable();
        std::fs::canonicalize(slaves.first()?).ok()
    };
    if let Some(lower) = lower() {
        return depth.checked_sub(1).and_then(|depth| drive(&lower, depth));
    }
    let name = whole.file_name()?.to_str()?.to_owned();
    let rotates = std::fs::read_to_string(whole.join("queue/rotational")).ok()?.trim() == "1";
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let kind = if is(&["zram"]) {
        BlockKind::Zram
    } else if is(&["ram", "pmem"]) {
        BlockKind::Ram
    } else if is(&["nvme"]) {
        BlockKind::Nvme
    } else if is(&["vd", "xvd"]) {
        BlockKind::Virtual
    } else if rotates {
        BlockKind::Disk
    } else {
        BlockKind::Ssd
    };
    Some(BlockDevice { name, kind })
}

/// Processors that this process may use: its affinity, and the quota of its groups.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// The machine's switch for transparent huge pages (`always`, `madvise`, `never`); `None` without the feature.
pub fn huge_pages(root: &Root) -> Option<String> {
    let text = root.read("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Bytes of a page, where they are not the 4 KiB that is simulated.
pub fn other_page_bytes() -> Option<u64> {
    Some(page_bytes()).filter(|&bytes| bytes != isotherm_units::PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(swaps: &str) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("proc/swaps", &format!("Filename Type Size Used Priority\n{swaps}"));
            std::fs::create_dir_all(tree.0.path().join("sys/class/block")).unwrap();
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn drive(&self, name: &str, rotational: &str) {
            self.write(&format!("sys/devices/{name}/queue/rotational"), rotational);
            self.link(name, &format!("sys/devices/{name}"));
        }

        fn link(&self, name: &str, to: &str) {
            symlink(self.0.path().join(to), self.0.path().join("sys/class/block").join(name)).unwrap();
        }

        fn swap(&self) -> SwapFound {
            swap(&Root::below(self.0.path())).unwrap()
        }
    }

    fn kind(found: &SwapFound) -> Option<BlockKind> {
        match found {
            SwapFound::On { device, .. } => device.as_ref().map(|device| device.kind),
            SwapFound::None => None,
        }
    }

    #[test]
    fn the_swap_of_the_highest_priority_counts() {
        assert_eq!(Tree::new("").swap(), SwapFound::None);
        let tree = Tree::new("/dev/sda2 partition 1000 0 -2\n/dev/zram0 partition 1000 0 100\n");
        tree.drive("zram0", "0\n");
        assert_eq!(kind(&tree.swap()), Some(BlockKind::Zram));
    }

    #[test]
    fn readahead_is_that_of_the_file_system_or_of_its_disk() {
        let tree = Tree::new("");
        let read = || readahead_of(&Root::below(tree.0.path()), 254, 1);
        assert_eq!(read(), None);
        tree.drive("vda", "0\n");
        tree.write("sys/devices/vda/vda1/partition", "1\n");
        std::fs::create_dir_all(tree.0.path().join("sys/dev/block")).unwrap();
        symlink(tree.0.path().join("sys/devices/vda/vda1"), tree.0.path().join("sys/dev/block/254:1")).unwrap();
        assert_eq!(read(), None);
        tree.write("sys/devices/vda/queue/read_ahead_kb", "8192\n");
        assert_eq!(read(), Some(Bytes::from_mib(8)));
        for (text, wanted) in [("64\n", Some(Bytes::from_kib(64))), ("0\n", Some(Bytes::ZERO))] {
            tree.write("sys/class/bdi/254:1/read_ahead_kb", text);
            assert_eq!(read(), wanted);
        }
        tree.write("sys/class/bdi/254:1/read_ahead_kb", "18446744073709551615\n");
        assert_eq!(read(), None, "more than there are bytes");
    }

    #[test]
    fn drives_have_kinds() {
        for (name, rotational, wanted) in [
            ("nvme0n1", "0\n", BlockKind::Nvme),
            ("sda", "0\n", BlockKind::Ssd),
            ("sda", "1\n", BlockKind::Disk),
            ("vda", "1\n", BlockKind::Virtual),
        ] {
            let tree = Tree::new(&format!("/dev/{name} partition 1000 0 -2\n"));
            tree.drive(name, rotational);
            assert_eq!(kind(&tree.swap()), Some(wanted), "{name}");
        }
    }

    #[test]
    fn partitions_and_mappings_lead_to_their_drive() {
        let tree = Tree::new("/dev/dm-1 partition 1000 0 -2\n");
        tree.drive("sda", "1\n");
        tree.write("sys/devices/sda/sda2/partition", "2\n");
        tree.link("sda2", "sys/devices/sda/sda2");
        tree.write("sys/devices/dm-1/queue/rotational", "0\n");
        std::fs::create_dir_all(tree.0.path().join("sys/devices/dm-1/slaves")).unwrap();
        symlink(tree.0.path().join("sys/devices/sda/sda2"), tree.0.path().join("sys/devices/dm-1/slaves/sda2"))
            .unwrap();
        tree.link("dm-1", "sys/devices/dm-1");
        assert_eq!(kind(&tree.swap()), Some(BlockKind::Disk));
        // A mapping over itself is not followed for ever.
        std::fs::remove_file(tree.0.path().join("sys/devices/dm-1/slaves/sda2")).unwrap();
        symlink(tree.0.path().join("sys/devices/dm-1"), tree.0.path().join("sys/devices/dm-1/slaves/dm-1")).unwrap();
        assert_eq!(kind(&tree.swap()), None);
    }

    #[test]
    fn unknown_swap_and_zswap_are_said() {
        let tree = Tree::new("/no/such/swap\\040file file 1000 0 -2\n");
        tree.write("sys/module/zswap/parameters/enabled", "Y\n");
        let found = SwapFound::On { path: "/no/such/swap file".to_owned(), device: None, zswap: true };
        assert_eq!(tree.swap(), found);
        tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        assert_eq!(huge_pages(&Root::below(tree.0.path())).as_deref(), Some("madvise"));
    }
}
