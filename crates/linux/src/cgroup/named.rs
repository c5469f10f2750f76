//! Groups by the names that people use: a unit of systemd, a container.

use super::{GROUPS_MAX, Group, Hierarchy};
use crate::LiveError;

/// Least length of the beginning of a container's number: what `docker ps` shows.
const ID_MIN: usize = 12;

impl Hierarchy {
    /// The group of a unit (`nginx.service`, `nginx`) or of a container of Docker or Podman (its number, or 12 and more digits of it).
    ///
    /// Slices are searched, and what Docker makes without systemd. What lies below a service or in `user.slice` is not: its owner chose
    /// the names there.
    ///
    /// # Errors
    /// [`LiveError::Gone`] if there is none, [`LiveError::Refused`] if there are several.
    pub(super) fn named(&self, name: &str) -> Result<Group, LiveError> {
        let mut found = Vec::new();
        let mut open = vec!["/".to_owned()];
        for _ in 0..GROUPS_MAX {
            let Some(path) = open.pop() else { break };
            // A group may be removed during the search.
            let Ok(group) = self.at(&path) else { continue };
            for below in group.below() {
                let leaf = below.rsplit('/').next().unwrap_or_default();
                if is_called(&below, leaf, name) {
                    found.push(below);
                } else if (leaf.ends_with(".slice") && below != "/user.slice") || below == "/docker" {
                    open.push(below);
                }
            }
        }
        found.sort_unstable();
        match &found[..] {
            [] => Err(LiveError::Gone(format!(
                "there is no cgroup, unit or container called {name}; `systemd-cgls` lists those that there are"
            ))),
            [path] => self.at(path),
            several => {
                Err(LiveError::Refused(format!("{name} may be any of {}: give the path of one", several.join(", "))))
            }
        }
    }
}

fn is_called(path: &str, leaf: &str, name: &str) -> bool {
    let is_unit = leaf == name || leaf.strip_suffix(".service") == Some(name);
    let container = |prefix: &str| leaf.strip_prefix(prefix)?.strip_suffix(".scope");
    let id = container("docker-").or_else(|| container("libpod-")).or_else(|| path.strip_prefix("/docker/"));
    let is_id = name.len() >= ID_MIN && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_unit || (is_id && id.is_some_and(|id| id.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn units_and_containers_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: String| std::fs::create_dir_all(folder.path().join("sys/fs/cgroup").join(path)).unwrap();
        for path in [
            "system.slice/nginx.service/nginx.service",
            "system.slice/db.slice/db.service",
            "user.slice/user-1000.slice/mine.service",
            "a.slice/twice.service",
            "b.slice/twice.service",
        ] {
            make(path.to_owned());
        }
        make(format!("system.slice/docker-{ID}.scope"));
        make(format!("machine.slice/libpod-f{ID}.scope"));
        make(format!("docker/e{ID}"));
        std::fs::write(folder.path().join("sys/fs/cgroup/cgroup.controllers"), "memory\n").unwrap();
        let hierarchy = Hierarchy::find(&Root::below(folder.path())).unwrap();
        let of = |name: &str| hierarchy.group(name).map(|group| group.path().to_owned());
        assert_eq!(of("nginx").unwrap(), "/system.slice/nginx.service");
        assert_eq!(of("db.service").unwrap(), "/system.slice/db.slice/db.service");
        assert_eq!(of(&ID[..12]).unwrap(), format!("/system.slice/docker-{ID}.scope"));
        assert_eq!(of(&format!("f{ID}")).unwrap(), format!("/machine.slice/libpod-f{ID}.scope"));
        assert_eq!(of(&format!("e{}", &ID[..11])).unwrap(), format!("/docker/e{ID}"));
        assert_eq!(of("system.slice").unwrap(), "/system.slice", "a path of one part is a path");
        for (refused, words) in [
            ("mine.service", "no cgroup, unit or container called mine.service"),
            (&ID[..11], "no cgroup, unit or container"),
            ("twice", "any of /a.slice/twice.service, /b.slice/twice.service"),
            ("a.slice/nginx.service", "there is no cgroup /a.slice/nginx.service"),
        ] {
            let error = of(refused).unwrap_err().to_string();
            assert!(error.contains(words), "{refused}: {error}");
        }
    }
}
