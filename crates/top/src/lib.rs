//! The screens of `isotherm top`, independent of the source of frames.
//!
//! A [`Feed`] returns [`Frame`]s: plain data, in which every figure that was not measured is `None`. [`State`] holds the frames
//! received and the user's choices; it changes by keys and frames only. [`draw`] turns a state into characters. [`run`] joins the
//! three on a terminal, and [`capture()`] draws one screen as text. Keys and panes: `docs/use/watch.md#top`.

mod capture;
mod feed;
mod history;
mod keys;
mod model;
mod replay;
mod screen;
mod state;
mod terminal;

pub use capture::capture;
pub use feed::{Feed, FeedError};
pub use keys::{KeysError, parse_keys};
pub use model::{Detail, Frame, Generation, GroupRow, HeatRegion, NodeRow, RowKey, RowKind};
pub use replay::Replay;
pub use screen::{Look, draw};
pub use state::{Effect, Sort, State, Tab};
pub use terminal::{TopError, run};
