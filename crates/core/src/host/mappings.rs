//! Mappings of processes.

use super::HostError;
use crate::vocabulary::{AddressRange, TargetId};

/// Reports what processes map. Calls that a host does not implement answer "not here".
pub trait Mappings {
    /// Appends the mapped ranges of a virtual target, ascending and disjoint; adjacent ones may stay apart.
    ///
    /// # Errors
    /// [`HostError::Gone`] once the process has ended; [`HostError::NotHere`] for physical memory.
    fn mappings(&mut self, _target: TargetId, _out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell what processes map"))
    }
}
