//! Flags that select a part of a page trace or region record, shared by `report` and `trace`.

use isotherm_trace::edit::{AddressRange, Moment, Selection};

/// A window of time; for `#[command(flatten)]`.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Part of the file")]
pub(crate) struct WindowArgs {
    /// From this time on: from the start (`2s`), or a share of the length (`25%`).
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Moment>,
    /// Up to this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Moment>,
}

/// Memory of a page trace; for `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Part of the file")]
pub(crate) struct PlaceArgs {
    /// Page traces: only pages of these addresses: 0x7f3a00000000-0x7f3a10000000, 1GiB-2GiB.
    #[arg(long, value_name = "START-END", value_delimiter = ',')]
    range: Vec<AddressRange>,
    /// Page traces: only pages of such mappings: heap, stack, anonymous, file, shared, image, or a part of the mapped file's path.
    #[arg(long, value_name = "TEXT")]
    mapping: Vec<String>,
}

impl PlaceArgs {
    /// The first of the flags that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [(!self.range.is_empty(), "--range"), (!self.mapping.is_empty(), "--mapping")];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// The selected memory, at all times.
    pub(crate) fn selection(&self) -> Selection {
        Selection { ranges: self.range.clone(), mappings: self.mapping.clone(), ..Selection::default() }
    }
}
