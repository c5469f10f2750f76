//! Where frames come from.

use std::time::Duration;

use crate::{Frame, RowKey};

/// Why a feed cannot go on. Its text is shown to the user after the terminal has been restored.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The record cannot be read.
    #[error(transparent)]
    Trace(#[from] isotherm_trace::TraceError),
    /// Another source failed. The text names the failure, its place, the allowed values and the remedy.
    #[error("{0}")]
    Source(String),
}

/// A source of frames: a record that is replayed, or a running machine.
///
/// The event loop calls [`Feed::next`] about ten times a second between two polls of the keyboard. A live feed samples at its own interval:
/// it returns `None` until the next sample is due. It leaves out, as `None`, each figure that it could not read, and gives the reason in
/// [`Frame::notes`]. A source that vanishes (a group removed, a monitor taken by another program) is a note; an error ends the program.
pub trait Feed {
    /// The next frame, or `None` if none is ready within `wait`. A feed may return early; it never waits longer.
    ///
    /// # Errors
    /// When there will be no more frames because the source failed.
    fn next(&mut self, wait: Duration) -> Result<Option<Frame>, FeedError>;

    /// The user chose the row `key`: later frames hold its details. A feed that has details of all rows may ignore this.
    fn choose(&mut self, key: RowKey);

    /// Source in a few words, for the first line of the screen.
    fn name(&self) -> String;

    /// Frames up to `until_ns` need not wait for their time. Only a replay can do this.
    fn fast_forward(&mut self, until_ns: u64) {
        let _ = until_ns;
    }

    /// Whether the last frame was returned and no other will follow.
    fn is_at_end(&self) -> bool {
        false
    }
}
