//! Why an engine of the kernel cannot be switched on, or has ended.

use super::STAT;
use crate::control_loop::{SystemError, TargetError};
use isotherm_texts::damon::NR_KDAMONDS;

/// Why an engine of the kernel cannot be switched on here or now, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("this kernel has no DAMON in sysfs: it needs CONFIG_DAMON_SYSFS (Linux 5.18 and later)")]
    NoDamon,
    /// Number of kdamonds, as the kernel prints it.
    #[error(
        "somebody made {0} kdamonds: they are left alone; end the program that made them, or write 0 to {NR_KDAMONDS}"
    )]
    Kdamonds(String),
    #[error("{0} is on and has DAMON: it is somebody else's, and is left alone")]
    ModuleHasDamon(&'static str),
    #[error("DAMON_STAT has DAMON, which has one user at a time: take-damon-stat = true takes it away meanwhile")]
    StatHasDamon,
    #[error("the kdamond was switched on and does not run")]
    KdamondOff,
    #[error("process {0} left its group while the kdamond was made; it is made anew")]
    ProcessLeft(u32),
    #[error("the processes that it watched have ended")]
    ProcessesEnded,
    #[error(
        "filters that allow cannot be joined with {0} groups; give each group a scheme of its own, or use filters that reject"
    )]
    AllowFilters(usize),
    #[error("filters of type `target` number processes, which have no order here; name other targets")]
    TargetFilter,
    #[error(
        "this kernel has no {0}: it needs DAMON with that module built in (CONFIG_DAMON_RECLAIM, CONFIG_DAMON_LRU_SORT)"
    )]
    NoModule(&'static str),
    #[error("{0} is on already: it is somebody else's, and is left alone")]
    ModuleOn(&'static str),
    #[error("{0} was switched on and does not run: somebody else may have DAMON ({STAT}: take-damon-stat = true)")]
    ModuleOff(&'static str),
    #[error("this kernel's {module} has no parameter {name}")]
    NoParameter { module: &'static str, name: &'static str },
    #[error("no memory is known")]
    NoMemory,
    /// `needs`: description of kernels that have the file.
    #[error("this kernel has no {path}: {needs}")]
    NoSetting { path: &'static str, needs: &'static str },
    /// Value of the switch.
    #[error(
        "the Multi-Gen LRU is off (/sys/kernel/mm/lru_gen/enabled is {0}): min-ttl would do nothing; write y there"
    )]
    GenerationsOff(String),
    #[error("the kernel tells no tiers of memory: it needs Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION")]
    NoTiers,
    #[error("the machine has one node of memory: there is nothing to promote from or demote to")]
    OneNode,
    #[error(
        "all {0} nodes are in one tier, and the kernel moves no page between them; it needs firmware tables (HMAT) that tell which node is \
         slow, and a kernel that reads them: 6.12 does, 6.1 not"
    )]
    OneTier(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_words() {
        for (error, words) in [
            (SystemError::new("EIO").into(), "EIO"),
            (TargetError::NoneRuns("/a".to_owned()).into(), "no process of its targets runs now: /a"),
            (
                EngineError::NoDamon,
                "this kernel has no DAMON in sysfs: it needs CONFIG_DAMON_SYSFS (Linux 5.18 and later)",
            ),
            (
                EngineError::Kdamonds("2".to_owned()),
                "somebody made 2 kdamonds: they are left alone; end the program that made them, or write 0 to \
                 /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
            ),
            (
                EngineError::ModuleHasDamon("damon_reclaim"),
                "damon_reclaim is on and has DAMON: it is somebody else's, and is left alone",
            ),
            (
                EngineError::StatHasDamon,
                "DAMON_STAT has DAMON, which has one user at a time: take-damon-stat = true takes it away meanwhile",
            ),
            (EngineError::KdamondOff, "the kdamond was switched on and does not run"),
            (EngineError::ProcessLeft(7), "process 7 left its group while the kdamond was made; it is made anew"),
            (EngineError::ProcessesEnded, "the processes that it watched have ended"),
            (
                EngineError::AllowFilters(2),
                "filters that allow cannot be joined with 2 groups; give each group a scheme of its own, or use filters that reject",
            ),
            (
                EngineError::TargetFilter,
                "filters of type `target` number processes, which have no order here; name other targets",
            ),
            (
                EngineError::NoModule("damon_reclaim"),
                "this kernel has no damon_reclaim: it needs DAMON with that module built in (CONFIG_DAMON_RECLAIM, CONFIG_DAMON_LRU_SORT)",
            ),
            (
                EngineError::ModuleOn("damon_reclaim"),
                "damon_reclaim is on already: it is somebody else's, and is left alone",
            ),
            (
                EngineError::ModuleOff("damon_reclaim"),
                "damon_reclaim was switched on and does not run: somebody else may have DAMON \
                 (/sys/module/damon_stat/parameters/enabled: take-damon-stat = true)",
            ),
            (
                EngineError::NoParameter { module: "damon_reclaim", name: "min_age" },
                "this kernel's damon_reclaim has no parameter min_age",
            ),
            (EngineError::NoMemory, "no memory is known"),
            (EngineError::NoSetting { path: "/a", needs: "it needs b" }, "this kernel has no /a: it needs b"),
            (
                EngineError::GenerationsOff("0x0000".to_owned()),
                "the Multi-Gen LRU is off (/sys/kernel/mm/lru_gen/enabled is 0x0000): min-ttl would do nothing; write y there",
            ),
            (
                EngineError::NoTiers,
                "the kernel tells no tiers of memory: it needs Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION",
            ),
            (EngineError::OneNode, "the machine has one node of memory: there is nothing to promote from or demote to"),
            (
                EngineError::OneTier(2),
                "all 2 nodes are in one tier, and the kernel moves no page between them; it needs firmware tables (HMAT) that tell which \
                 node is slow, and a kernel that reads them: 6.12 does, 6.1 not",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
