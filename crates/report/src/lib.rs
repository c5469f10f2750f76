//! Results as terminal text, JSON, CSV, HTML and SVG.
//!
//! Three things are drawn: a [`Table`], a [`Chart`] and a [`Heatmap`]; an [`HtmlPage`] holds any number of them. Each is
//! a plain struct that a caller fills and then renders in as many forms as it likes. Pictures are laid out once, as a
//! list of shapes, and that list is written as SVG.
//!
//! Nothing here prints or touches files: renderers return text or bytes. No input makes them panic; values that cannot be placed on an axis
//! (NaN, infinity, zero on a log axis) are left out or drawn at the edge.

mod cells;
mod chart;
mod chart_live;
mod chart_scene;
mod chart_terminal;
mod colour;
mod compare;
mod contents;
mod group_info;
mod heatmap;
mod heatmap_live;
mod heatmap_pair;
mod heatmap_scene;
mod heatmap_terminal;
mod html;
pub mod records;
mod scale;
mod scene;
mod svg;
mod table;
mod terminal;
mod text_width;
pub mod traces;
mod unit;

pub use chart::{Axis, Callout, Chart, Emphasis, Reference, Series, SeriesKind};
pub use colour::{Rgb, heat_colour};
pub use compare::{Comparison, Side};
pub use group_info::{GroupInfo, group_info, group_info_table};
pub use heatmap::{Band, Heatmap, Measure};
pub use heatmap_pair::HeatmapPair;
pub use html::{HtmlPage, Verdict};
pub use scale::ScaleKind;
pub use scene::{Picture, PictureSize};
pub use table::{Align, Cell, Column, Format, Table};
pub use terminal::{ColourDepth, TermStyle};
pub use unit::Unit;
