//! Ways to change memory or settings. They are only checked, not tried on a process.

use super::{AS_ROOT, Context, Finding, Part, State, chosen, said};
use crate::cgroup::Hierarchy;
use crate::{Process, sys};

const PART: Part = Part::Acting;

pub(super) fn advice(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "process_madvise";
    let Some(child) = context.child else { return Vec::new() };
    let range = child.range();
    let ranges = [((range.start + range.end) / 2, range.len() / 2)];
    vec![match cold(child.process(), &ranges) {
        Ok(bytes) => {
            Finding::new(PART, NAME, State::Works, format!("{} KiB of a process of our own became cold", bytes >> 10))
        }
        Err(error) => Finding::new(PART, NAME, State::Missing, format!("refused: {error}"))
            .fix(if error.kind() == std::io::ErrorKind::PermissionDenied { AS_ROOT } else { "Linux 5.10 or newer" }),
    }]
}

fn cold(process: &Process, ranges: &[(u64, u64)]) -> std::io::Result<u64> {
    let Some(pidfd) = process.pidfd() else { return Err(std::io::ErrorKind::NotFound.into()) };
    sys::process_madvise(pidfd, ranges, sys::Advice::Cold)
}

pub(super) fn groups(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "cgroup v2";
    match Hierarchy::find(context.root) {
        Err(error) => vec![Finding::new(PART, NAME, State::Missing, said(&error))],
        Ok(hierarchy) => {
            let groups = hierarchy.matching("/*").unwrap_or_default();
            let has_reclaim = groups.iter().any(|group| context.root.has(group.folder().join("memory.reclaim")));
            let words = format!(
                "with the memory controller; {}",
                if has_reclaim { "memory.reclaim is there" } else { "no group at the top has memory.reclaim" }
            );
            let state = if has_reclaim { State::Works } else { State::Partly };
            let finding = Finding::new(PART, NAME, state, words);
            vec![if has_reclaim {
                finding
            } else {
                finding.fix("Linux 5.19 or newer, and as root: echo +memory > /sys/fs/cgroup/cgroup.subtree_control")
            }]
        }
    }
}

pub(super) fn huge_pages(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "huge pages";
    let text = context.root.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    vec![match chosen(&text) {
        Some(word) => Finding::new(PART, NAME, State::Works, format!("transparent huge pages: {word}")),
        None => Finding::new(PART, NAME, State::Missing, "this kernel has no transparent huge pages")
            .fix("a kernel with CONFIG_TRANSPARENT_HUGEPAGE"),
    }]
}

pub(super) fn compaction(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "compaction";
    let proactiveness = context.root.value::<u32>("/proc/sys/vm/compaction_proactiveness");
    let by_node = context.root.has("/sys/devices/system/node/node0/compact");
    vec![match (proactiveness, by_node) {
        (Ok(value), true) => Finding::new(PART, NAME, State::Works, format!("by node; proactiveness {value}")),
        (Ok(value), false) => {
            Finding::new(PART, NAME, State::Partly, format!("all nodes at once; proactiveness {value}"))
        }
        (Err(_), true) => {
            Finding::new(PART, NAME, State::Partly, "by node; no proactive compaction").fix("Linux 5.9 or newer")
        }
        (Err(_), false) => Finding::new(PART, NAME, State::Missing, "this kernel does not compact")
            .fix("a kernel with CONFIG_COMPACTION"),
    }]
}
