//! `/proc/kpageflags`: the flags of page frames. For root only.

use crate::{LiveError, Root};
use std::os::unix::fs::FileExt as _;

const PATH: &str = "/proc/kpageflags";
/// Frames that are read with one call.
const BATCH_FRAMES: usize = 8192;

/// The flags of one page frame, by the kernel's stable bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFlags(pub u64);

impl PageFlags {
    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
    /// Accessed since reclaim last saw it.
    pub const fn is_referenced(self) -> bool {
        self.has(2)
    }
    pub const fn is_dirty(self) -> bool {
        self.has(4)
    }
    /// On an LRU list.
    pub const fn is_on_lru(self) -> bool {
        self.has(5)
    }
    /// On an active list; with generations, in one of the two youngest.
    pub const fn is_active(self) -> bool {
        self.has(6)
    }
    /// Free, as the head of a block in the buddy allocator.
    pub const fn is_buddy(self) -> bool {
        self.has(10)
    }
    pub const fn is_anon(self) -> bool {
        self.has(12)
    }
    pub const fn is_hugetlb(self) -> bool {
        self.has(17)
    }
    pub const fn is_unevictable(self) -> bool {
        self.has(18)
    }
    /// No memory behind this number.
    pub const fn is_no_page(self) -> bool {
        self.has(20)
    }
    /// Part of a transparent huge page.
    pub const fn is_thp(self) -> bool {
        self.has(22)
    }
}

/// The flags of `frames` page frames from `first` on; fewer at the end of memory.
///
/// # Errors
/// [`LiveError::Io`].
pub fn read(root: &Root, first: u64, frames: usize) -> Result<Vec<PageFlags>, LiveError> {
    let path = root.path(PATH);
    let io = |error| LiveError::io("read", &path, error);
    let file = std::fs::File::open(&path).map_err(io)?;
    let mut flags = Vec::new();
    let mut buffer = vec![0; frames.min(BATCH_FRAMES) * 8];
    while flags.len() < frames {
        let wanted = (frames - flags.len()).min(BATCH_FRAMES) * 8;
        let at = first.checked_add(flags.len() as u64).and_then(|frame| frame.checked_mul(8));
        let Some(at) = at else { break };
        let read = file.read_at(&mut buffer[..wanted], at).map_err(io)?;
        flags.extend(parse(&buffer[..read]));
        if read < 8 {
            break;
        }
    }
    Ok(flags)
}

/// Frames in bytes of the file; a torn one at the end is left out.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = PageFlags> {
    bytes.as_chunks::<8>().0.iter().map(|word| PageFlags(u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_words() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        assert!(read(&root, 0, 1).unwrap_err().is_missing());
        std::fs::create_dir(root.path("proc")).unwrap();
        let mut bytes: Vec<u8> =
            [1_u64 << 2 | 1 << 22, 1 << 6, 1 << 20].iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.push(7);
        std::fs::write(root.path(PATH), bytes).unwrap();
        let flags = read(&root, 0, 100).unwrap();
        assert_eq!(flags.len(), 3);
        assert!(flags[0].is_referenced() && flags[0].is_thp() && !flags[0].is_active());
        assert!(flags[1].is_active() && flags[2].is_no_page());
        assert_eq!(read(&root, 1, 1).unwrap(), flags[1..2]);
        assert_eq!(read(&root, u64::MAX, 1).unwrap(), []);
    }
}
