//! Descriptions of stored tables: their columns, the kinds of these, and names for messages.

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U64,
    U32,
    Bool,
}

/// A column. No column has absent values.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether a file may lack it; all its values are then 0 or `false`. Such columns come after all others.
    pub(crate) optional: bool,
}

impl Column {
    pub(crate) const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, optional: false }
    }
    pub(crate) const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, optional: true }
    }
}

/// The columns of one kind of file.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name with its article, for messages: `a page trace`.
    pub(crate) what: &'static str,
    /// The command that writes such streams, for messages.
    pub(crate) made_by: &'static str,
    /// Name of the schema's root in Parquet.
    pub(crate) root: &'static str,
    pub(crate) columns: &'static [Column],
}

impl Table {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }
}

/// The names of [`TRACE`].
pub(crate) const COLUMNS: [&str; 6] = ["time_ns", "thread", "page", "pages", "write", "kernel"];

/// Page traces; columns in the order of [`crate::RowBatch`].
pub(crate) const TRACE: Table = Table {
    what: "a page trace",
    made_by: "isotherm record",
    root: "trace",
    columns: &[
        Column::required(COLUMNS[0], Kind::U64),
        Column::required(COLUMNS[1], Kind::U32),
        Column::required(COLUMNS[2], Kind::U64),
        Column::required(COLUMNS[3], Kind::U32),
        Column::required(COLUMNS[4], Kind::Bool),
        Column::optional(COLUMNS[5], Kind::Bool),
    ],
};
