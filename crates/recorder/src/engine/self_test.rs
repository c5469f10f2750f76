//! Remembers that the engine works on this host, so that not every recording has to try it first, which takes 0.3 to 0.5 s.
//!
//! A finding is a file in the user's cache folder. It lists all that it depends on, and holds only if nothing of that has changed:
//! isotherm's version, the user, the running kernel since its boot, the namespaces, and for each part of the engine its path, size and
//! times. Only success is stored. An engine that did not work is tried again each time, because it may have been fixed.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Valgrind;
use crate::sys;

/// isotherm's part of the user's cache folder; `None` if neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("isotherm"))
}

/// A finding that the engine works.
#[derive(Clone)]
pub(super) struct Finding {
    file: PathBuf,
    state: String,
}

impl Finding {
    /// The finding about an engine; `None` if the host does not report enough, or there is no cache folder.
    pub(super) fn of(engine: &Valgrind) -> Option<Self> {
        Some(Self {
            file: cache_folder()?.join("engines/valgrind"),
            state: state(&engine.parts(), Path::new("/proc"))?,
        })
    }

    /// Whether the engine was found to work in the current state.
    pub(super) fn holds(&self) -> bool {
        std::fs::read(&self.file).is_ok_and(|kept| kept == self.state.as_bytes())
    }

    /// Stores that the engine works. If that fails, the engine is tried again next time.
    pub(super) fn keep(&self) {
        let Some(folder) = self.file.parent() else { return };
        let _ = std::fs::create_dir_all(folder).and_then(|()| {
            // Renamed into place when complete: others may read it now.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(self.state.as_bytes())?;
            file.persist(&self.file).map(drop).map_err(|error| error.error)
        });
    }

    /// Deletes it, because the engine failed.
    pub(super) fn forget(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// All that a finding depends on, one line each.
fn state(parts: &[PathBuf], proc: &Path) -> Option<String> {
    let boot = std::fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    let mut lines = vec![
        format!("isotherm {}", env!("CARGO_PKG_VERSION")),
        format!("user {}", sys::user()),
        format!("kernel {} {}", sys::kernel(), boot.trim()),
    ];
    // A container may forbid what its host allows.
    for space in ["mnt", "pid", "user"] {
        lines.push(std::fs::read_link(proc.join("self/ns").join(space)).ok()?.display().to_string());
    }
    for part in parts {
        let status = std::fs::metadata(part).ok()?;
        lines.push(format!(
            "{} {}:{} {} bytes, mode {:o}, {}.{:09} {}.{:09}",
            part.display(),
            status.dev(),
            status.ino(),
            status.len(),
            status.mode(),
            status.mtime(),
            status.mtime_nsec(),
            status.ctime(),
            status.ctime_nsec()
        ));
    }
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_holds_while_all_that_it_depends_on_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        std::fs::write(&part, "1").unwrap();
        let file = folder.path().join("cache/isotherm/engines/x");
        let now =
            || Finding { file: file.clone(), state: state(std::slice::from_ref(&part), Path::new("/proc")).unwrap() };
        assert!(!now().holds());
        now().keep();
        assert!(now().holds());
        std::fs::write(&part, "12").unwrap();
        assert!(!now().holds(), "another file");
        now().keep();
        assert!(now().holds());
        now().forget();
        assert!(!now().holds());
        std::fs::write(&file, "").unwrap();
        assert!(!now().holds(), "a torn finding is none");
        std::fs::remove_file(&part).unwrap();
        assert_eq!(state(&[part], Path::new("/proc")), None);
        assert_eq!(state(&[], folder.path()), None, "no /proc, no finding");
        let nowhere = Finding { file: "/proc/no/such/folder".into(), state: String::new() };
        nowhere.keep();
        assert!(!nowhere.holds());
    }
}
