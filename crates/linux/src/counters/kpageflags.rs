//! `/proc/kpageflags`: the flags of page frames. For root only.

use crate::{LiveError, Root};
use isotherm_texts::kpageflags::{PageFlags, parse};
use std::os::unix::fs::FileExt as _;

const PATH: &str = "/proc/kpageflags";
/// Frames that are read with one call.
const BATCH_FRAMES: usize = 8192;

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
