//! Where the live half writes files as root: each place with what says that this path, this value and this owner are right.

use super::{File, bare};
use crate::Findings;

/// The page that lists these files for operators.
const PAGE: &str = "docs/use/operate.md";

/// Where the rule holds.
const LIVE: &[&str] =
    &["crates/linux/src/", "crates/daemon/src/", "crates/cli/src/live/", "crates/cli/src/verbs/compact.rs"];

/// Calls that make, change or remove files.
const CALLS: &[&str] = &[
    "fs::write(",
    "fs::rename(",
    "fs::remove_",
    "fs::create_dir",
    "fs::set_permissions(",
    "fs::copy(",
    "File::create",
    "OpenOptions::new()",
    "unlinkat(",
    "renameat(",
    "DirBuilder::new()",
];

/// Files that may have such calls.
const WRITERS: &[&str] = &[
    "crates/linux/src/root.rs",
    "crates/linux/src/cgroup/own.rs",
    "crates/linux/src/module/mod.rs",
    "crates/linux/src/systemd/drop_in.rs",
    "crates/cli/src/live/private_file.rs",
    "crates/cli/src/live/knobs.rs",
    "crates/cli/src/live/daemon/audit.rs",
    "crates/cli/src/live/daemon/files.rs",
    "crates/cli/src/live/daemon/tape.rs",
    "crates/cli/src/live/daemon/metrics/mod.rs",
    "crates/cli/src/live/daemon/socket.rs",
    "crates/cli/src/verbs/compact.rs",
];

pub(super) fn check(files: &[File], findings: &mut Findings) {
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    for file in files.iter().filter(|file| file.is("rs") && LIVE.iter().any(|place| file.path.starts_with(place))) {
        if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
            continue;
        }
        let is_listed = WRITERS.contains(&file.path.as_str());
        let mut writes = false;
        for (index, code) in bare::lines(&file.text).iter().enumerate() {
            if code.trim_end() == "#[cfg(test)]" {
                break;
            }
            let call = CALLS.iter().find(|call| code.contains(*call));
            writes |= call.is_some();
            if let Some(call) = call.filter(|_| !is_listed) {
                let what = format!(
                    "`{call}` as root: go through `Root::write_knob` or `private_file::open`, or list the file here and in {PAGE}, with what \
                     says that path, value and owner are right"
                );
                findings.push(file.at(index, &what));
            }
        }
        if is_listed && !(writes && page.contains(&format!("`{}`", file.path))) {
            findings.push(format!(
                "{}: it writes nothing, or {PAGE} does not list it among what writes as root",
                file.path
            ));
        }
    }
}
