//! File systems that the files of a series can lie on. Which folios a kernel gives them: `docs/spec/large-folios.md#f1`.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::RigError;
use crate::packages::need;

/// Size of a block in bytes, and of a page.
pub(crate) const BLOCK: usize = 4096;

/// A file system that the rig can make and the guest can mount.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    pub name: &'static str,
    /// The kernel's name of it, which is also that of its module.
    pub kind: &'static str,
    /// Options of the mount, separated by commas.
    pub(crate) options: &'static str,
    /// Least size of a device that its program accepts, in bytes.
    pub(crate) bytes_min: u64,
    /// The program that makes one, and the package that has it.
    maker: (&'static str, &'static str),
    /// Arguments of the program: for an image of that path, size in bytes and number of files.
    arguments: fn(&str, u64, usize) -> Vec<String>,
}

/// All file systems. To add one: a line here, and its module in `unpack` of `packages.rs`.
pub const FILE_SYSTEMS: &[FileSystem] = &[FileSystem::SINGLE, FileSystem::EXT4, FileSystem::XFS];

/// No thread fills in inode tables in the background.
const EXT4_OPTIONS: &str = "noinit_itable";

impl FileSystem {
    /// Ext4 that keeps pages of files single in every kernel. A file system that *can* hold encrypted files has no large folios (Linux
    /// 6.16 to 7.2, `ext4_should_enable_large_folio`).
    pub const SINGLE: Self = Self {
        name: "single",
        kind: "ext4",
        options: EXT4_OPTIONS,
        bytes_min: 0,
        maker: ("mke2fs", "e2fsprogs"),
        arguments: |path, bytes, files| mke2fs("^has_journal,encrypt", path, bytes, files),
    };
    /// Ext4, with large folios where the kernel has them.
    pub const EXT4: Self = Self {
        name: "ext4",
        arguments: |path, bytes, files| mke2fs("^has_journal", path, bytes, files),
        ..Self::SINGLE
    };
    /// XFS, with large folios.
    pub const XFS: Self = Self {
        name: "xfs",
        kind: "xfs",
        options: "",
        // mkfs.xfs refuses devices below 300 MiB since xfsprogs 5.19. Unused blocks of the RAM disk take no memory.
        bytes_min: 320 << 20,
        maker: ("mkfs.xfs", "xfsprogs"),
        arguments: |path, bytes, _| {
            let data = format!("file=1,name={path},size={bytes}");
            ["-q", "-K", "-b", &format!("size={BLOCK}"), "-d", &data].map(str::to_owned).to_vec()
        },
    };

    /// The blocks of an empty file system that are not zero: offset, then content. `image` is a path for it that is free.
    pub(crate) fn empty(&self, image: &Path, bytes: u64, files: usize) -> Result<Vec<u8>, RigError> {
        let (program, package) = self.maker;
        need(program, package)?;
        let made = Command::new(program)
            .args((self.arguments)(&image.display().to_string(), bytes, files))
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .map_err(RigError::io(program))?;
        if !made.status.success() {
            let reason = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(RigError::Damaged { path: image.to_owned(), reason });
        }
        blocks_of(image).map_err(RigError::io(image))
    }
}

/// No journal: its commits depend on the clock.
fn mke2fs(features: &str, path: &str, bytes: u64, files: usize) -> Vec<String> {
    let mut arguments = ["-q", "-F", "-t", "ext4", "-b", &BLOCK.to_string(), "-m", "0", "-N", &files.to_string()]
        .map(str::to_owned)
        .to_vec();
    let kib = format!("{}k", bytes / 1024);
    arguments.extend(["-O", features, "-E", "lazy_itable_init=1,nodiscard", path, &kib].map(str::to_owned));
    arguments
}

fn blocks_of(image: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = fs::File::open(image)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let (mut found, mut block) = (Vec::new(), vec![0; BLOCK]);
    for at in (0..length).step_by(BLOCK) {
        file.read_exact(&mut block)?;
        if block.iter().any(|&byte| byte != 0) {
            found.extend_from_slice(&at.to_le_bytes());
            found.extend_from_slice(&block);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_not_zero_are_kept_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let mut bytes = vec![0; 4 * BLOCK];
        bytes[2 * BLOCK + 5] = 7;
        fs::write(&image, bytes).unwrap();
        let blocks = blocks_of(&image).unwrap();
        assert_eq!(blocks.len(), 8 + BLOCK);
        assert_eq!((&blocks[..8], blocks[8 + 5]), (8192u64.to_le_bytes().as_slice(), 7));
    }

    #[test]
    fn each_is_made_where_its_program_is_installed() {
        for of in FILE_SYSTEMS {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("image");
            let bytes = of.bytes_min.max(8 << 20);
            match of.empty(&image, bytes, 256) {
                // The first block holds the superblock; the rest of the image is nearly empty.
                Ok(blocks) => {
                    assert_eq!(blocks[..8], [0; 8], "{}", of.name);
                    assert!((blocks.len() as u64) < bytes / 8, "{}: {} bytes", of.name, blocks.len());
                    assert_eq!(fs::metadata(&image).unwrap().len(), bytes, "{}", of.name);
                }
                Err(error) => assert!(error.is_lack(), "{}: {error}", of.name),
            }
        }
    }
}
