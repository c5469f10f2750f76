//! The engine that carries a section out.

use serde::{Deserialize, Serialize};

/// The engine that carries a section out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The kernel if it can do all the work of the section, else isotherm.
    #[default]
    Auto,
    /// An engine of the kernel, which is set up and watched.
    Kernel,
    /// isotherm decides, and the kernel moves pages on its request.
    Isotherm,
}
