//! The kernel's DAMON through its files in sysfs (docs/spec/live-linux.md): its features, its users, and monitoring with it.

mod session;

pub use session::{DamonTarget, Options, Session, Snapshot, TriedRegion, Tuned, Undo};

use crate::{LiveError, Root};
use isotherm_texts::damon::{ADMIN, NR_KDAMONDS};

/// The module that monitors the whole machine; on by default on 7.2.
const STAT_ENABLED: &str = "/sys/module/damon_stat/parameters/enabled";
/// Modules of the kernel that run DAMON, and their folders.
const MODULES: [(&str, &str); 3] =
    [("DAMON_STAT", "damon_stat"), ("DAMON_LRU_SORT", "damon_lru_sort"), ("DAMON_RECLAIM", "damon_reclaim")];
/// Operations assumed for kernels that do not list them.
const OPERATIONS_WITHOUT_LIST: [&str; 2] = ["vaddr", "paddr"];

/// A user of DAMON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamonUser {
    /// A module of the kernel that is on: `DAMON_STAT`, `DAMON_LRU_SORT`, `DAMON_RECLAIM`.
    Module(&'static str),
    /// A kdamond created through sysfs.
    Kdamond {
        /// Number in sysfs.
        number: u32,
        is_on: bool,
        /// PID of its thread, while it is on.
        pid: Option<u32>,
    },
}

impl std::fmt::Display for DamonUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Module(name) => f.write_str(name),
            Self::Kdamond { number, is_on: false, .. } => write!(f, "kdamond {number}, which somebody made and is off"),
            Self::Kdamond { number, pid: Some(pid), .. } => {
                write!(f, "kdamond {number}, which somebody runs (PID {pid})")
            }
            Self::Kdamond { number, pid: None, .. } => write!(f, "kdamond {number}, which somebody runs"),
        }
    }
}

/// The file that switches a module of [`DamonUser::Module`] on and off.
pub(crate) fn enabled_file(name: &str) -> Option<String> {
    let (_, folder) = MODULES.iter().find(|(module, _)| *module == name)?;
    Some(format!("/sys/module/{folder}/parameters/enabled"))
}

/// PID of the thread that a module runs; `None` while it runs none, and if the module does not report it.
pub(crate) fn module_thread(root: &Root, name: &str) -> Option<u32> {
    let (_, folder) = MODULES.iter().find(|(module, _)| *module == name)?;
    root.value(format!("/sys/module/{folder}/parameters/kdamond_pid")).ok()
}

/// Operations that contexts can have on this kernel: `vaddr`, `fvaddr`, `paddr`. The kernel lists them only in an existing context;
/// without one, the operations that every kernel with these files has.
///
/// # Errors
/// [`LiveError::NotHere`] for a kernel without DAMON in sysfs.
pub fn operations(root: &Root) -> Result<Vec<String>, LiveError> {
    needs_sysfs(root)?;
    match root.read(format!("{ADMIN}/0/contexts/0/avail_operations")) {
        Ok(text) => Ok(text.split_whitespace().map(str::to_owned).collect()),
        Err(error) if error.is_missing() => Ok(OPERATIONS_WITHOUT_LIST.map(str::to_owned).to_vec()),
        Err(error) => Err(error),
    }
}

fn needs_sysfs(root: &Root) -> Result<(), LiveError> {
    if root.has(ADMIN) {
        return Ok(());
    }
    Err(LiveError::NotHere {
        what: "DAMON",
        needs:
            "it needs a kernel of 5.18 or newer with CONFIG_DAMON_SYSFS, and CONFIG_DAMON_VADDR or CONFIG_DAMON_PADDR"
                .to_owned(),
    })
}

/// Current users of DAMON: modules first, then kdamonds by number. Changes nothing.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`]. A kernel without DAMON has no users.
pub fn users(root: &Root) -> Result<Vec<DamonUser>, LiveError> {
    let mut users = Vec::new();
    for (name, module) in MODULES {
        let path = format!("/sys/module/{module}/parameters/enabled");
        if !root.has(&path) {
            continue;
        }
        // In the kernel's format: kernel/params.c: param_get_bool, param_set_bool (7.2).
        match root.value::<String>(&path)?.as_str() {
            "Y" | "y" | "1" => users.push(DamonUser::Module(name)),
            "N" | "n" | "0" => {}
            other => {
                return Err(LiveError::strange(root.path(&path), format!("`{}`", isotherm_texts::shortened(other))));
            }
        }
    }
    if root.has(ADMIN) {
        let kdamonds: u32 = root.value(NR_KDAMONDS)?;
        // A machine has a few; no kernel has more than this.
        for number in 0..kdamonds.min(4096) {
            let is_on = root.read(format!("{ADMIN}/{number}/state"))?.trim() == "on";
            let pid = root.value::<i64>(format!("{ADMIN}/{number}/pid")).ok().and_then(|pid| u32::try_from(pid).ok());
            users.push(DamonUser::Kdamond { number, is_on, pid });
        }
    }
    Ok(users)
}
