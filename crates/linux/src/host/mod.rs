//! The live machine as a Host of `isotherm-core`: which target is which process, and the roles, a file each.

use crate::Root;

/// Answers what `core` asks, from the machine below a [`Root`].
#[derive(Debug, Default)]
pub struct LiveHost {
    pub(crate) root: Root,
}

impl LiveHost {
    /// A host over a machine, without targets.
    pub fn new(root: Root) -> Self {
        Self { root }
    }
}
