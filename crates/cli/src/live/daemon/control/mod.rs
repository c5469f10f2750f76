//! The control socket: one request and one answer a connection, each a line of JSON (docs/use/operate.md#the-control-socket).

mod client;
mod desk;
mod server;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Told;

pub(crate) use client::{Heard, ask};
pub(crate) use desk::Desk;
pub(crate) use server::Control;

/// Longest request in bytes, its end of line included.
const REQUEST_MAX: usize = 4 << 10;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// The current state.
    Status,
    /// To read the configuration again.
    Reload,
    /// To end.
    Stop,
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    ask: Ask,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The state at the time of the request.
    Status(Box<Told>),
    /// The new configuration is in force.
    Taken { configuration: PathBuf },
    /// The new configuration is refused, and the old one goes on.
    NotTaken { why: String },
    /// The daemon ends. The lock is given back when it has.
    Ending,
    /// The request was understood, and what comes of it is not known.
    Unknown { why: String },
    /// As many requests as may wait do already. Nothing was done.
    Busy,
    /// The request, or who asks, is not allowed. Nothing was done.
    Refused { why: String },
}

/// The socket of a daemon's folder.
fn path(folder: &Path) -> PathBuf {
    folder.join("control")
}
