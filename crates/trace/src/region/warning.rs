//! Warnings of a reader or a conversion, in addition to its result.

/// A difference from what a reader of the file may expect. Nothing is dropped, changed or made up without one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// An unfinished recording, read up to its last whole batch.
    NotFinished {
        /// Bytes after the last whole batch, which are left out.
        cut_bytes: u64,
    },
    /// The file lacks the monitor's intervals: access counts stay unchanged, and frequencies are unknown.
    NoIntervals,
    /// Regions without an age; it becomes `None`.
    NoAges { regions: u64 },
    /// The file holds only the end of a snapshot; its length was taken from the snapshots around it.
    DurationsDeduced { snapshots: u64 },
    /// Snapshots with missing regions (lost events, or a truncated file) are left out.
    IncompleteSnapshots { snapshots: u64, first_line: u64 },
    /// The last line has no line break: it may be truncated, and is left out.
    LastLineCut { line: u64 },
    /// Lines of other events are skipped.
    OtherLines { lines: u64 },
    /// `damon_aggregated` lines are skipped, because `damon_region_aggregated` lines contain the same data and more.
    RepeatedLines { lines: u64 },
    /// Regions were not sorted by address, and were sorted.
    Sorted { snapshots: u64 },
    /// Numbers with a fraction were rounded down.
    Rounded { values: u64 },
    /// Access counts or ages were given in another unit and were converted with the intervals.
    Converted { values: u64 },
    /// Hits of more than [`super::PROBES_MAX`] probes; the excess is left out.
    ProbesLeftOut { regions: u64 },
    /// The output format cannot carry this, so it is not in the output.
    NotCarried { what: &'static str },
    /// The configuration next to the record cannot be read, so its values are unknown.
    CompanionUnreadable {
        /// Why the file cannot be read, with its path.
        why: String,
    },
    /// An unknown key was ignored.
    UnknownKey {
        /// The key with its path, for example `kdamonds[0].contexts[0].key`.
        key: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFinished { cut_bytes } => {
                write!(f, "not finished: read up to the last whole batch; {cut_bytes} bytes after it left out")
            }
            Self::NoIntervals => f.write_str(
                "the file has no intervals: access counts are known, frequencies are not. Give the sampling and \
                 aggregation interval of the recording",
            ),
            Self::NoAges { regions } => write!(f, "{regions} regions have no age (an early kernel?)"),
            Self::DurationsDeduced { snapshots } => {
                write!(
                    f,
                    "the file holds no begin of snapshots: lengths of {snapshots} were taken from those around them"
                )
            }
            Self::IncompleteSnapshots { snapshots, first_line } => write!(
                f,
                "{snapshots} snapshots lack regions (events lost while recording, or the file is cut) and are left out; the \
                 first begins in line {first_line}"
            ),
            Self::LastLineCut { line } => write!(f, "line {line} has no end, so it may be cut: left out"),
            Self::OtherLines { lines } => write!(f, "{lines} lines of other events passed over"),
            Self::RepeatedLines { lines } => {
                write!(
                    f,
                    "{lines} lines of damon_aggregated passed over: damon_region_aggregated says the same and more"
                )
            }
            Self::Sorted { snapshots } => {
                write!(f, "regions of {snapshots} snapshots were not in order and were sorted")
            }
            Self::Rounded { values } => write!(f, "{values} numbers with a fraction were rounded down"),
            Self::Converted { values } => {
                write!(f, "{values} numbers were converted to samples or aggregations with the intervals")
            }
            Self::ProbesLeftOut { regions } => {
                write!(f, "{regions} regions have hits of more than {} probes; the rest is left out", super::PROBES_MAX)
            }
            Self::NotCarried { what } => write!(f, "the output's format cannot carry {what}; left out"),
            Self::CompanionUnreadable { why } => write!(f, "the configuration beside the record is passed over: {why}"),
            Self::UnknownKey { key } => write!(f, "`{key}` is not known here and was passed over"),
        }
    }
}
