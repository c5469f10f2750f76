//! The verbs. To add a verb: a file here with `Args` (its help text is the struct's doc comment, its examples are `after_help`) and `run`,
//! a `mod` line, and a line in the table.

mod asked;
mod fidelity;
mod fidelity_advice;
mod fidelity_compaction;
mod fidelity_folios;
mod fidelity_monitor;
mod fidelity_promotion;
mod fidelity_sorting;
#[macro_use]
mod in_kernels;
mod kills;
mod live;
mod native;
mod recorders;
mod rig;
mod tenant;
mod verify;
mod versus;

isotherm_terminal::verbs! {
    Fidelity => fidelity,
    FidelityAdvice => fidelity_advice,
    /// Compares the monitor with the DAMON of real kernels, over access patterns.
    #[command(after_help = fidelity_monitor::AFTER_HELP)]
    FidelityMonitor => fidelity_monitor,
    /// Compares LRU_SORT with that of real kernels: faults under sudden pressure, with it and without.
    #[command(after_help = fidelity_sorting::AFTER_HELP)]
    FidelitySorting => fidelity_sorting,
    FidelityFolios => fidelity_folios,
    /// Compares compaction and huge pages with real kernels, with proactive compaction and without.
    #[command(after_help = fidelity_compaction::AFTER_HELP)]
    FidelityCompaction => fidelity_compaction,
    /// Compares hint-fault promotion from a slow node with real kernels.
    #[command(after_help = fidelity_promotion::AFTER_HELP)]
    FidelityPromotion => fidelity_promotion,
    Kills => kills,
    Live => live,
    Native => native,
    Recorders => recorders,
    Rig => rig,
    Tenant => tenant,
    Verify => verify,
}
