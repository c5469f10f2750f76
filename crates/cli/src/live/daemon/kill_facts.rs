//! Which process thrashing prevention would have killed on this machine.

use isotherm_core::vocabulary::Swappiness;
use isotherm_daemon::control_loop::{KillFacts, Victim};
use isotherm_linux::cgroup::{Hierarchy, Limit};
use isotherm_linux::counters::swaps;
use isotherm_linux::{LiveError, Root, lru_gen, victim};
use std::collections::BTreeSet;

/// Reads generations, guarantees, swap, switches and scores.
pub(super) fn kill_facts(root: &Root) -> Result<KillFacts, LiveError> {
    let listings = lru_gen::read(root)?;
    let paths: BTreeSet<&String> = listings.iter().map(|listing| &listing.path).collect();
    let below_min = paths.into_iter().filter(|path| is_below_min(root, path)).cloned().collect();
    let victim = victim(root)?.map(|found| Victim {
        process: found.process.pid,
        command: found.process.file.unwrap_or(found.process.name),
        score: found.score,
        group: found.group,
    });
    let panics = root.value::<u32>("/proc/sys/vm/panic_on_oom").is_ok_and(|value| value > 0);
    Ok(KillFacts { listings, below_min, swappiness: swappiness(root)?, victim, panics })
}

/// Without free swap anonymous pages are not evicted.
fn swappiness(root: &Root) -> Result<Swappiness, LiveError> {
    let free = swaps::read(root)?.iter().map(swaps::Swap::free_bytes).fold(0, u64::saturating_add);
    let number = if free == 0 { 0 } else { root.value("/proc/sys/vm/swappiness")? };
    Swappiness::of(number).map_err(LiveError::Refused)
}

fn is_below_min(root: &Root, path: &str) -> bool {
    let Ok(group) = Hierarchy::unified(root).and_then(|hierarchy| hierarchy.group(path)) else { return false };
    match (group.limit("memory.min"), group.current()) {
        (Ok(Limit::At(min)), Ok(current)) => current <= min && min.get() > 0,
        (Ok(Limit::Unlimited), _) => true,
        _ => false,
    }
}
