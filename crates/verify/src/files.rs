//! The files that a program uses, and how they leave memory before a cold start.

use isotherm_linux::cgroup::OwnGroup;
use isotherm_linux::{Process, Root, maps};
use rustix::fs::{Advice, fadvise};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

/// Most files that are kept; a program with more starts cold in part.
const FILES_MAX: usize = 4096;

/// Files that the members of a group map or have open.
#[derive(Clone, Debug, Default)]
pub struct Files(BTreeSet<PathBuf>);

impl FromIterator<PathBuf> for Files {
    fn from_iter<I: IntoIterator<Item = PathBuf>>(paths: I) -> Self {
        Self(paths.into_iter().take(FILES_MAX).collect())
    }
}

impl Files {
    /// Adds the files of all members.
    pub(crate) fn look_at(&mut self, group: &OwnGroup<'_>) {
        let root = Root::default();
        for pid in group.processes().unwrap_or_default() {
            // A process may end meanwhile.
            let mappings = Process::open(&root, pid).and_then(|process| maps(&process)).unwrap_or_default();
            let mapped = mappings.into_iter().filter(|mapping| mapping.inode != 0).map(|mapping| mapping.name.into());
            let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let open = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
            let room = FILES_MAX.saturating_sub(self.0.len());
            self.0
                .extend(mapped.chain(open).filter(|path: &PathBuf| path.starts_with("/") && path.is_file()).take(room));
        }
    }

    /// Has them leave the page cache. Mapped and dirty pages stay (posix_fadvise(2), `POSIX_FADV_DONTNEED`).
    pub fn forget(&self) {
        for path in &self.0 {
            if let Ok(file) = File::open(path) {
                // Where it fails, the program starts warm in part.
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
    }
}
