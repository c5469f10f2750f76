//! Limits of memory cgroups that a host sets.

use super::HostError;
use isotherm_units::Bytes;

/// Sets limits of memory cgroups. Calls that a host does not implement answer "not here".
pub trait Limiting {
    /// Writes `memory.high` of a group; `None` is `max`, no limit. If usage is above the new limit, the excess is reclaimed, as
    /// far as that is possible; no process is killed. Reclaim may go on after the call.
    ///
    /// `memcg` is the number of the group, from [`Gauging::memcg`](super::Gauging::memcg).
    ///
    /// # Errors
    /// [`HostError::NotHere`]; [`HostError::Failed`]: there is no such group, or the write was refused. The limit keeps its old value.
    fn set_memory_high(&mut self, _memcg: u64, _high: Option<Bytes>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host sets no limits of groups"))
    }
}
