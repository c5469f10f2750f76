//! What tables are stored: which columns, of which kind, under which name they are spoken of.

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U64,
    U32,
    Bool,
}

/// One column. None of them has absent values.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// The columns of one kind of file.
#[derive(Debug)]
pub(crate) struct Table {
    /// With its article, for messages: `a page trace`.
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
pub(crate) const COLUMNS: [&str; 5] = ["time_ns", "thread", "page", "pages", "write"];

/// Page traces; columns in the order of [`crate::RowBatch`].
pub(crate) const TRACE: Table = Table {
    what: "a page trace",
    made_by: "isotherm record",
    root: "trace",
    columns: &[
        Column { name: COLUMNS[0], kind: Kind::U64 },
        Column { name: COLUMNS[1], kind: Kind::U32 },
        Column { name: COLUMNS[2], kind: Kind::U64 },
        Column { name: COLUMNS[3], kind: Kind::U32 },
        Column { name: COLUMNS[4], kind: Kind::Bool },
    ],
};
