//! The part of a scenario that a key is of.

use isotherm_document::{Document, KeyPath, PathSegment};

/// The scope of a key: the scenario, or one of its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The scenario itself.
    Whole,
    /// A pair of the matrix: indices in its two lists.
    Matrix {
        /// Index in `policies`.
        policy: usize,
        /// Index in `limits`.
        limit: usize,
    },
    /// A variant, by its index in `variants`.
    Patch(usize),
}

impl Scope {
    /// Place of `path` in this part. A key that is left out has the place of its table.
    pub(crate) fn place(self, document: &Document<'_>, path: &KeyPath) -> String {
        match (self, path.steps()) {
            (Self::Matrix { policy, .. }, [PathSegment::Key(key)]) if key == "policy" => {
                document.place(&KeyPath::from("matrix.policies").at(policy))
            }
            (Self::Matrix { limit, .. }, [PathSegment::Key(key)]) if key == "limit" => {
                document.place(&KeyPath::from("matrix.limits").at(limit))
            }
            (Self::Patch(index), _) => {
                let variant = KeyPath::from("variants").at(index);
                document.place_in(&variant.clone().key("patch"), path).unwrap_or_else(|| document.place(&variant))
            }
            (Self::Whole | Self::Matrix { .. }, _) => document.place(path),
        }
    }
}
