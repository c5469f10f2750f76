//! A daemon next to a hostile user with groups of his own: the guest's job and report.

use crate::living::LiveWorkload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Run the daemon over groups of services and of a tenant, who does what he can to hold it up; then end it by SIGTERM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenancy {
    /// The services.
    pub workloads: Vec<LiveWorkload>,
    /// Absolute path.
    pub program: String,
    pub environment: BTreeMap<String, String>,
    /// Arguments of the daemon.
    pub daemon: Vec<String>,
    /// Arguments that print the state of the daemon as JSON.
    pub status: Vec<String>,
    /// The section over the groups of services.
    pub section: String,
    pub tenant: Tenant,
    /// Time that the daemon has for itself before the tenant begins.
    pub seconds_alone: u64,
    /// Time that the tenant has.
    pub seconds: u64,
}

/// The tenant: uid and gid 65534.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The control group that is delegated to him, made if need be.
    pub group: String,
    /// Groups that he makes, evenly over the time; as many as he can, where that is too fast.
    pub groups: u64,
    /// Groups that he has at a time.
    pub groups_at_a_time: u64,
    /// Connections that he holds, without a request.
    pub connections: u64,
    /// Address of the daemon's metrics.
    pub listen: String,
    pub seed: u64,
}

/// What the tenant did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Churn {
    /// Groups made and removed.
    pub made: u64,
    pub removed: u64,
    /// Names that the kernel refused.
    pub names_refused: u64,
    /// Groups renamed, and renames that were refused: version 2 knows none.
    pub renamed: u64,
    pub renames_refused: u64,
    /// Limits and guarantees that he wrote, and those that were refused.
    pub limits: u64,
    pub limits_refused: u64,
    /// Connections that he opened in all, and those open now.
    pub connected: u64,
    pub open: u64,
}

/// State of the daemon at one moment, from its own report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenancyState {
    /// Since the daemon began.
    pub at_ns: u64,
    /// Runs of the section.
    pub runs: u64,
    /// Factor by which all sections are slowed down.
    pub stretch: u64,
    pub cpu_ns: u64,
    /// Groups that sections have, in all.
    pub targets: u64,
    /// Why nothing acts.
    pub paused: Option<String>,
    /// Time in which a reader of metrics had its answer; `None` if it had none.
    pub metrics_ms: Option<u64>,
}

/// Result of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenanted {
    pub churn: Churn,
    /// Before the tenant began, and while he was there.
    pub alone: Vec<TenancyState>,
    pub with_tenant: Vec<TenancyState>,
    /// `VmHWM` of the daemon just before its end.
    pub resident_peak_bytes: u64,
    /// From SIGTERM to the exit.
    pub term_ms: u64,
    /// Of the daemon; `None`: a signal ended it, or it ended before it was asked to.
    pub exit_code: Option<i32>,
    /// Its messages, the end of them.
    pub said: String,
    /// Files read before and after, except for the tenant's.
    pub knobs_read: u64,
    /// Knobs that it left changed, a line each.
    pub knobs_changed: Vec<String>,
}
