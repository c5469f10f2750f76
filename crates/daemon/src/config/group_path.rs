//! Paths of control groups, in any spelling.

/// Where version 2 is mounted: alone, and next to version 1 by systemd.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// A path or pattern as in `/proc/PID/cgroup`: without the mount point, with single slashes and without one at the end. Two spellings of a
/// group are one path.
pub(crate) fn group_path(path: &str) -> String {
    let parts = |path: &str| {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect::<Vec<_>>()
    };
    let all = parts(path);
    let inside = MOUNTS.iter().map(|mount| parts(mount)).find_map(|mount| all.strip_prefix(&mount[..]));
    format!("/{}", inside.unwrap_or(&all).join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_group_are_one_path() {
        for spelling in ["/app.slice/web", "/sys/fs/cgroup/app.slice/web/", "//sys/fs//cgroup/unified/./app.slice/web"]
        {
            assert_eq!(group_path(spelling), "/app.slice/web", "{spelling}");
        }
        assert_eq!((group_path("/").as_str(), group_path("/sys/fs/cgroup").as_str()), ("/", "/"));
        assert_eq!(group_path("/sys/fs/cgroups/x"), "/sys/fs/cgroups/x");
    }
}
