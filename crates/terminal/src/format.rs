//! The forms in which rows are printed, shared by every verb that prints rows.

/// `--format`. Tables are for people and may change; `json` and `csv` carry plain integers in base units, with the unit
/// in the field name, and are for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns with units.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One header line, then one line per row.
    Csv,
}

/// Flattened into a verb's arguments.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArg {
    /// How to print rows.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}
