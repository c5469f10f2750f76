//! Adopting: processes become targets and cease to be such while a host is at work.

use super::HostError;
use crate::vocabulary::{AddressRange, TargetId};

const NO_PROCESSES: &str = "this host takes in no processes";

/// Takes processes in as targets, by their numbers on the machine. Calls that a host does not implement answer "not here".
pub trait Adopting {
    /// Whether the host can read accessed bits of processes now.
    ///
    /// # Errors
    /// [`HostError::NotHere`] with the missing feature, [`HostError::Failed`].
    fn can_look(&mut self) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_PROCESSES))
    }

    /// Makes a process a target. No other target has this number.
    ///
    /// # Errors
    /// [`HostError::Gone`] if the process has ended, [`HostError::NotHere`], [`HostError::Failed`].
    fn adopt(&mut self, _target: TargetId, _process: u32) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_PROCESSES))
    }

    /// Lets go of a target, which is [`HostError::Gone`] from now on. An unknown target is ignored.
    fn dismiss(&mut self, _target: TargetId) {}

    /// Whether a target lives, and runs the program that it ran when it was adopted.
    fn is_as_adopted(&mut self, _target: TargetId) -> bool {
        false
    }

    /// Bytes of a range of a process that are in memory.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`], [`HostError::Failed`].
    fn present_bytes(&mut self, _target: TargetId, _range: AddressRange) -> Result<u64, HostError> {
        Err(HostError::NotHere(NO_PROCESSES))
    }
}
