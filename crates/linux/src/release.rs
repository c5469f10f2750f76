//! Version of the running kernel.

use std::path::Path;

/// Version of the running kernel in its own format, `6.12.48+deb13-amd64`; `None` if `/proc` does not have it.
pub fn kernel_version() -> Option<String> {
    version_below(Path::new("/proc"))
}

/// The same below another root's `/proc`.
pub(crate) fn version_below(proc: &Path) -> Option<String> {
    let text = std::fs::read_to_string(proc.join("sys/kernel/osrelease")).ok()?;
    let version = text.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_a_line_of_proc() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(version_below(proc.path()), None);
        let folder = proc.path().join("sys/kernel");
        std::fs::create_dir_all(&folder).unwrap();
        for (text, version) in [("6.12.48+deb13-amd64\n", Some("6.12.48+deb13-amd64")), ("\n", None)] {
            std::fs::write(folder.join("osrelease"), text).unwrap();
            assert_eq!(version_below(proc.path()).as_deref(), version);
        }
    }
}
