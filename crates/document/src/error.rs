//! Errors of documents.

/// Why a text is not the expected document. The place is `file:line:column`, as far as the key is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The text is not TOML, or not of the type.
    #[error("{place}: {message}")]
    Syntax {
        place: String,
        /// The error, and the allowed values.
        message: String,
    },
    /// The text is of the type, and a check refuses it.
    #[error("{place}: {message}")]
    Meaning {
        place: String,
        /// The error, the allowed values and the way out.
        message: String,
    },
}
