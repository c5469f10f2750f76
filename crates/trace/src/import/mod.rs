//! Imports traces of other programs. Each format is one file, and one line in [`IMPORTERS`].
//!
//! Everything streams. There are two kinds of input: streams of *references* (Valgrind lackey, drmemtrace) go through the
//! [`crate::EpochFilter`]; streams of *requests* (oracleGeneral, lcs, csv, text) and of samples (perf) keep one row for each item, in
//! order, so that a replay can be compared request for request ([`crate::TraceMeta::epoch_ns`] is then 0).

mod delimited;
mod drmemtrace;
mod extents;
mod input;
pub mod lackey;
mod lcs;
mod native;
mod numbering;
mod oracle_general;
mod perf;
mod requests;
mod samples;
mod text;
mod times;

use std::path::Path;

pub use input::Input;
pub use times::TimeUnit;

use crate::file::foreign;
use crate::{Fraction, Result, TraceError, TraceMeta, TraceWriter};

/// Default length of an epoch, nanoseconds of CPU time.
pub const EPOCH_NS: u64 = 1_000_000;

/// Assumed CPU time of an instruction if only instructions are counted: 4 a nanosecond would be a fast core on friendly code,
/// 1 a slow one; no more than an order of magnitude is claimed.
pub const NS_PER_INSTRUCTION: Fraction = Fraction { numerator: 1, denominator: 2 };

/// Longest sector.
const SECTOR_BYTES_MAX: u64 = 1 << 30;

/// Options of the importers. Each importer's documentation lists the options that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Length of an epoch for references, nanoseconds. Longer: smaller trace, coarser order.
    pub epoch_ns: u64,
    /// CPU time of an instruction for references.
    pub ns_per_instruction: Fraction,
    /// Time between two requests if times are synthetic, nanoseconds.
    pub ns_per_request: u64,
    /// Source of the times of requests.
    pub clock: RequestClock,
    /// Unit of the file's own times, for [`RequestClock::File`] only. `None`: the unit of the format, or a guess, which is noted.
    pub time_unit: Option<TimeUnit>,
    /// Meaning of the ids of requests.
    pub unit: IdUnit,
    /// Length of a sector, bytes, for [`IdUnit::Sectors`] and `sizes_in_sectors`.
    pub sector_bytes: u64,
    /// Whether the sizes in csv are counted in sectors instead of bytes.
    pub sizes_in_sectors: bool,
    /// 10 or 16: base of numbers without `0x` in text and csv.
    pub radix: u32,
    /// Columns of csv in libCacheSim's notation, for example
    /// `time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=1,obj-id-is-num=1`; columns count from 1. `None`: the
    /// header line must name columns of our own csv.
    pub csv_columns: Option<String>,
    /// Requests of objects: each row is all pages of the object, by its size and pages of 4 KiB, instead of one page. Objects
    /// then lie one after the other in order of appearance.
    pub split_objects: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            epoch_ns: EPOCH_NS,
            ns_per_instruction: NS_PER_INSTRUCTION,
            ns_per_request: 1000,
            clock: RequestClock::Even,
            time_unit: None,
            unit: IdUnit::ByLooks,
            sector_bytes: 512,
            sizes_in_sectors: false,
            radix: 10,
            csv_columns: None,
            split_objects: false,
        }
    }
}

/// Source of the times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestClock {
    /// Synthetic: [`ImportOptions::ns_per_request`] from one to the next.
    #[default]
    Even,
    /// The file's own clock, from its first request on; its unit is [`ImportOptions::time_unit`]. Often wall time of days: a replay
    /// lasts as long.
    File,
}

/// Meaning of the ids of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdUnit {
    /// In text `0x…` are addresses; all others are pages or objects.
    #[default]
    ByLooks,
    /// All numbers are page or object numbers.
    Pages,
    /// All numbers are byte addresses.
    Addresses,
    /// All numbers are sectors of a block device, [`ImportOptions::sector_bytes`] each, from address 0 on.
    Sectors,
}

impl IdUnit {
    fn is_address(self) -> bool {
        matches!(self, Self::Addresses | Self::Sectors)
    }
}

/// A foreign format that traces can be imported from.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether its requests carry object sizes; only then [`ImportOptions::split_objects`] is allowed.
    pub has_sizes: bool,
    /// Whether its input may have times; only then [`RequestClock::File`] is allowed.
    pub has_clock: bool,
    /// Whether a file with this name and (decompressed) head has this format.
    pub detect: fn(name: &Path, head: &[u8]) -> bool,
    /// Metadata of the trace before the first row.
    pub meta: fn(&ImportOptions) -> TraceMeta,
    /// Reads the whole input and writes its rows to the writer.
    pub convert: fn(&mut Input, &ImportOptions, &mut TraceWriter) -> Result<()>,
}

/// Every importer, in the order in which a file is tried.
pub const IMPORTERS: &[Importer] = &[
    native::IMPORTER,
    lackey::IMPORTER,
    drmemtrace::IMPORTER,
    perf::IMPORTER,
    lcs::IMPORTER,
    oracle_general::IMPORTER,
    delimited::IMPORTER,
    text::IMPORTER,
];

/// Finds an importer by its name.
///
/// # Errors
/// When there is none of that name; lists all names.
pub fn importer(name: &str) -> Result<&'static Importer> {
    IMPORTERS.iter().find(|importer| importer.name == name).ok_or_else(|| {
        let names: Vec<_> = IMPORTERS.iter().map(|importer| importer.name).collect();
        TraceError::option("from", format!("there is no format `{name}`; allowed: {}", names.join(", ")))
    })
}

/// Converts `input` to a finished trace at `output`. `from`: name of the importer; `None`: recognized by content and name.
/// Input compressed with zstd is decompressed, in any format; other compression is named.
///
/// # Errors
/// When the input cannot be read, is of no known format or is damaged (with the line or record), or the output cannot be
/// written. `output` is then untouched.
pub fn import(from: Option<&str>, input: &Path, output: &Path, options: &ImportOptions) -> Result<TraceMeta> {
    check(options)?;
    let named = from.map(importer).transpose()?;
    let mut opened = Input::open(input)?;
    let head = opened.head()?;
    if head.is_empty() {
        return Err(TraceError::Empty { path: input.to_owned() });
    }
    if let Some(found) = foreign::named(head) {
        let expected = "of a format that is read";
        return Err(TraceError::WrongFormat { path: input.to_owned(), expected, found: found.to_owned() });
    }
    let found = named.or_else(|| IMPORTERS.iter().find(|importer| (importer.detect)(input, head)));
    let Some(importer) = found else {
        let names: Vec<_> = IMPORTERS.iter().map(|importer| importer.name).collect();
        return Err(TraceError::WrongFormat {
            path: input.to_owned(),
            expected: "of a format that can be told by its content",
            found: format!("say which it is with --from {}", names.join("|")),
        });
    };
    if options.split_objects && !importer.has_sizes {
        let names: Vec<_> = IMPORTERS.iter().filter(|one| one.has_sizes).map(|one| one.name).collect();
        let what = format!("{} has no sizes of objects; formats that have: {}", importer.name, names.join(", "));
        return Err(TraceError::option("split-objects", what));
    }
    if options.clock == RequestClock::File && !importer.has_clock {
        let names: Vec<_> = IMPORTERS.iter().filter(|one| one.has_clock).map(|one| one.name).collect();
        let what =
            format!("{} has no times; formats that have: {}. Leave out --clock file", importer.name, names.join(", "));
        return Err(TraceError::option("clock", what));
    }
    let mut writer = TraceWriter::create_finished(output, (importer.meta)(options))?;
    (importer.convert)(&mut opened, options, &mut writer)?;
    if writer.meta().rows == 0 {
        return Err(TraceError::WrongFormat {
            path: input.to_owned(),
            expected: "a trace with accesses",
            found: format!("read as {}, it has none", importer.name),
        });
    }
    writer.finish()
}

fn check(options: &ImportOptions) -> Result<()> {
    if options.epoch_ns == 0 {
        return Err(TraceError::option("epoch", "is 0; at least 1 ns is allowed, 1 ms is usual"));
    }
    if options.ns_per_instruction.denominator == 0 {
        return Err(TraceError::option("ns-per-instruction", "divides by 0"));
    }
    if !matches!(options.radix, 10 | 16) {
        return Err(TraceError::option("radix", format!("is {}; allowed: 10, 16", options.radix)));
    }
    if !(1..=SECTOR_BYTES_MAX).contains(&options.sector_bytes) {
        let what =
            format!("is {} bytes; allowed: 1 to {SECTOR_BYTES_MAX}, usual are 512 and 4096", options.sector_bytes);
        return Err(TraceError::option("sector-size", what));
    }
    if options.sizes_in_sectors && !options.split_objects {
        return Err(TraceError::option("size-unit", "is of the sizes that --split-objects uses; add that"));
    }
    if options.time_unit.is_some() && options.clock != RequestClock::File {
        return Err(TraceError::option("time-unit", "is of the file's own clock, which --clock file takes; add that"));
    }
    Ok(())
}
