//! Who carries a section out.

use serde::{Deserialize, Serialize};

/// Who carries a section out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The kernel where it can do all that the section says, else isotherm.
    #[default]
    Auto,
    /// An engine of the kernel, which is set up and watched.
    Kernel,
    /// isotherm decides, and the kernel moves pages when it is told to.
    Isotherm,
}
