//! Policies and workloads that a program which embeds isotherm adds to the tables.

use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_workload::RegisteredWorkloads;

/// Policies and workloads in addition to the tables. Scenarios name the policies as any other, and the workloads by the kind `registered`.
/// The command has none.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    pub policies: AddedPolicies,
    pub workloads: RegisteredWorkloads,
}
