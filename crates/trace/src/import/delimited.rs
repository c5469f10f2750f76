//! Text in columns: csv of libCacheSim's kind, described by column numbers, or our own, recognised by its header line.
//!
//! With `csv_columns`: one row a request. Columns count from 1; `obj-id-is-num=0` takes ids as names. Object sizes are dropped, unless
//! `split_objects` uses all pages of each object. Without `csv_columns`: the header line names our columns `time_ns, thread, page, pages,
//! write` in any order (`page` must be there), and rows are used unchanged. Fields may be quoted; a delimiter inside quotes belongs to the
//! field. Options read: `csv_columns`, `unit`, `sector_bytes`, `sizes_in_sectors`, `radix`, `clock`, `time_unit`, `ns_per_request`,
//! `split_objects`, `epoch_ns` (own columns only).

use super::requests::{self, Object, Requests};
use super::text::{number_of, operation};
use super::times::{Basis, Time, TimeUnit};
use super::{ImportOptions, Importer, Input, RequestClock};
use crate::file::table::COLUMNS;
use crate::{Result, ThreadMeta, TraceError, TraceRow, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "csv",
    about: "text in columns: libCacheSim csv (with --columns), or time_ns,thread,page,pages,write,kernel with a header line",
    has_sizes: true,
    has_clock: true,
    detect: |name, head| {
        let extension = name.extension().is_some_and(|extension| extension == "csv" || extension == "tsv");
        extension || (head.starts_with(COLUMNS[0].as_bytes()) && head.contains(&b','))
    },
    meta: |_| requests::meta("csv"),
    convert,
};

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let missing = |what: &str| Err(TraceError::option("split-objects", what));
    match &options.csv_columns {
        Some(columns) => {
            let columns = Columns::parse(columns)?;
            if options.split_objects && columns.size.is_none() {
                return missing("needs the sizes of objects; say where they are with obj-size-col in --columns");
            }
            if options.clock == RequestClock::File && columns.time.is_none() {
                return no_clock("say which column has the times with time-col in --columns");
            }
            if options.unit.is_address() && !columns.id_is_number {
                let what = "is for numbers, and obj-id-is-num=0 takes ids for names; leave out one of them";
                return Err(TraceError::option("unit", what));
            }
            convert_requests(input, options, &columns, writer)
        }
        None if options.split_objects => {
            missing("is for requests of objects; say where their ids and sizes are with --columns")
        }
        None if options.time_unit.is_some() => {
            let what = "is for files of requests; our own columns have nanoseconds. For others say which they are with --columns";
            Err(TraceError::option("time-unit", what))
        }
        None => convert_own(input, options, writer),
    }
}

/// Indices of the columns, from 0.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    time: Option<usize>,
    id: usize,
    size: Option<usize>,
    operation: Option<usize>,
    delimiter: u8,
    has_header: bool,
    id_is_number: bool,
}

impl Columns {
    fn parse(spec: &str) -> Result<Self> {
        let bad = |what: String| TraceError::option("columns", what);
        let mut found = Self {
            time: None,
            id: 0,
            size: None,
            operation: None,
            delimiter: b',',
            has_header: false,
            id_is_number: true,
        };
        let mut id = None;
        let mut rest = spec.to_owned();
        // The delimiter may be the comma that also separates the options.
        if let Some(at) = rest.find("delimiter=") {
            let after = &rest[at + "delimiter=".len()..];
            let (delimiter, len) = match after.as_bytes() {
                [b'\\', b't', ..] => (b'\t', 2),
                [byte, ..] if byte.is_ascii() => (*byte, 1),
                _ => return Err(bad("`delimiter=` needs one ASCII character, for example `delimiter=;`".to_owned())),
            };
            found.delimiter = delimiter;
            rest.replace_range(at..at + "delimiter=".len() + len, "");
        }
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| bad(format!("`{part}` is not key=value")))?;
            let column = || match value.parse::<usize>() {
                Ok(number @ 1..=10_000) => Ok(number - 1),
                _ => Err(bad(format!("`{part}`: columns count from 1"))),
            };
            let flag = || match value {
                "1" | "true" => Ok(true),
                "0" | "false" => Ok(false),
                _ => Err(bad(format!("`{part}`: allowed are 0, 1, true, false"))),
            };
            match key {
                "time-col" => found.time = Some(column()?),
                "obj-id-col" => id = Some(column()?),
                "obj-size-col" => found.size = Some(column()?),
                "op-col" => found.operation = Some(column()?),
                "has-header" => found.has_header = flag()?,
                "obj-id-is-num" => found.id_is_number = flag()?,
                _ => {
                    return Err(bad(format!(
                        "`{key}` is not known; allowed: time-col, obj-id-col, obj-size-col, op-col, delimiter, \
                         has-header, obj-id-is-num"
                    )));
                }
            }
        }
        found.id = id.ok_or_else(|| bad("`obj-id-col` is missing".to_owned()))?;
        Ok(found)
    }
}

fn no_clock<T>(way_out: &str) -> Result<T> {
    Err(TraceError::option("clock", format!("`file` needs times in the file: {way_out}, or leave out --clock file")))
}

fn convert_requests(
    input: &mut Input,
    options: &ImportOptions,
    columns: &Columns,
    writer: &mut TraceWriter,
) -> Result<()> {
    let mut requests = Requests::new(options);
    let mut skip_header = columns.has_header;
    while let Some((_, line)) = input.next_line()? {
        if line.is_empty() {
            continue;
        }
        if std::mem::take(&mut skip_header) {
            learn_unit(line, columns, &mut requests);
            continue;
        }
        let request = read_request(line, columns, options, &mut requests).map_err(|what| input.bad_line(what))?;
        requests.push(writer, request.object, request.write, request.time)?;
    }
    if !options.split_objects {
        writer.note("object sizes were dropped: each object is one page")?;
    }
    requests.finish(writer)
}

/// Takes the unit of times from the name of their column.
fn learn_unit(header: &[u8], columns: &Columns, requests: &mut Requests) {
    let fields = split(header, columns.delimiter);
    let name = columns.time.and_then(|column| std::str::from_utf8(fields.get(column)?).ok());
    if let Some(unit) = name.and_then(TimeUnit::of_column) {
        requests.times.learn(unit, Basis::Column);
    }
}

struct Request {
    object: Object,
    write: bool,
    time: Time,
}

fn read_request(
    line: &[u8],
    columns: &Columns,
    options: &ImportOptions,
    requests: &mut Requests,
) -> Result<Request, String> {
    let fields: Vec<&[u8]> = split(line, columns.delimiter);
    let field = |column: usize| {
        let found =
            fields.get(column).ok_or_else(|| format!("no column {}: the line has {}", column + 1, fields.len()));
        found.copied()
    };
    let text = |column: usize| {
        std::str::from_utf8(field(column)?).map(str::trim).map_err(|_| format!("column {} is not text", column + 1))
    };
    let size_bytes = match columns.size.filter(|_| options.split_objects) {
        None => 0,
        Some(column) => {
            let word = text(column)?;
            let (unit, unit_bytes) =
                if options.sizes_in_sectors { ("sectors", options.sector_bytes) } else { ("bytes", 1) };
            let wrong = || format!("`{word}` in column {} is no size in {unit} below 2^64 bytes", column + 1);
            word.parse::<u64>().ok().and_then(|size| size.checked_mul(unit_bytes)).ok_or_else(wrong)?
        }
    };
    let object = if columns.id_is_number {
        let word = text(columns.id)?;
        let (number, _) = number_of(word, options.radix).ok_or_else(|| {
            format!("`{word}` in column {} is not a number below 2^64; names need obj-id-is-num=0", columns.id + 1)
        })?;
        requests.place(number, size_bytes)?
    } else {
        let number = requests.numbering.page_of_name(field(columns.id)?);
        requests.object(number, size_bytes)?
    };
    let write = match columns.operation {
        None => false,
        Some(column) => {
            let word = text(column)?;
            operation(word).ok_or_else(|| format!("`{word}` in column {} is no operation; r or w", column + 1))?
        }
    };
    let time = match columns.time {
        None => Time::whole(requests.count()),
        Some(column) => {
            let word = text(column)?;
            let wrong = || format!("`{word}` in column {} is no time; a decimal number is, as 12 or 12.5", column + 1);
            Time::parse(word).ok_or_else(wrong)?
        }
    };
    Ok(Request { object, write, time })
}

fn convert_own(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let header = match input.next_line()? {
        Some((_, line)) => String::from_utf8_lossy(line).into_owned(),
        None => return Ok(()),
    };
    let names: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
    let place = COLUMNS.map(|column| names.iter().position(|name| *name == column));
    if place[2].is_none() {
        return Err(input.bad_line(format!(
            "the header line names no column `page`; say where the columns are, for example --columns \
             time-col=1,obj-id-col=2,has-header=1 (found: {})",
            names.iter().take(8).copied().collect::<Vec<_>>().join(", ")
        )));
    }
    let with_time = place[0].is_some();
    if options.clock == RequestClock::File && !with_time {
        return no_clock("its header line names no column `time_ns`");
    }
    if with_time {
        writer.set_epoch_ns(options.epoch_ns);
    }
    let mut count = 0u64;
    while let Some((_, line)) = input.next_line()? {
        if line.is_empty() {
            continue;
        }
        let fields = split(line, b',');
        let read = |column: usize, default: u64| match place[column] {
            None => Ok(default),
            Some(at) => {
                let word = fields.get(at).and_then(|field| std::str::from_utf8(field).ok()).unwrap_or_default().trim();
                let number = match word {
                    "true" | "True" => Some(1),
                    "false" | "False" => Some(0),
                    _ => number_of(word, 10).map(|(number, _)| number),
                };
                number.ok_or_else(|| format!("`{word}` is not allowed in column `{}`", COLUMNS[column]))
            }
        };
        let row = (|| {
            let narrow = |column: usize, value: u64| {
                u32::try_from(value).map_err(|_| format!("{value} is too large for column `{}`", COLUMNS[column]))
            };
            let time_ns = read(0, count.saturating_mul(options.ns_per_request))?;
            let thread = narrow(1, read(1, 0)?)?;
            if thread > 65_535 {
                return Err(format!("thread {thread} is above 65,535"));
            }
            let (write, kernel) = (read(4, 0)? != 0, read(5, 0)? != 0);
            Ok(TraceRow { time_ns, thread, page: read(2, 0)?, pages: narrow(3, read(3, 1)?)?, write, kernel })
        })();
        let row = row.map_err(|what: String| input.bad_line(what))?;
        while writer.meta().threads.len() <= row.thread as usize {
            writer.add_thread(ThreadMeta::default())?;
        }
        writer.push(row).map_err(|error| match error {
            TraceError::BadValue { what, .. } => input.bad_line(what),
            error => error,
        })?;
        count += 1;
    }
    writer.note("read from csv: epoch, processes and mappings are not known")?;
    writer.set_outcome(None, true)
}

/// The fields of a line, without their quotes.
fn split(line: &[u8], delimiter: u8) -> Vec<&[u8]> {
    let mut fields = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    for (at, &byte) in line.iter().enumerate() {
        if byte == b'"' {
            quoted = !quoted;
        } else if byte == delimiter && !quoted {
            fields.push(&line[start..at]);
            start = at + 1;
        }
    }
    fields.push(&line[start..]);
    let unquote = |field: &mut &[u8]| {
        if let [b'"', inner @ .., b'"'] = *field {
            *field = inner;
        }
    };
    fields.iter_mut().for_each(unquote);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_options_of_libcachesim() {
        let spec = "time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=1,obj-id-is-num=1";
        let expected = Columns {
            time: Some(0),
            id: 1,
            size: Some(2),
            operation: None,
            delimiter: b',',
            has_header: true,
            id_is_number: true,
        };
        assert_eq!(Columns::parse(spec).unwrap(), expected);
        let spec = "obj-id-col=5,delimiter=\\t,op-col=6,obj-id-is-num=0";
        let expected = Columns {
            time: None,
            id: 4,
            size: None,
            operation: Some(5),
            delimiter: b'\t',
            has_header: false,
            id_is_number: false,
        };
        assert_eq!(Columns::parse(spec).unwrap(), expected);
        for (bad, word) in [
            ("time-col=1", "obj-id-col"),
            ("obj-id-col=0", "count from 1"),
            ("obj-id-col=2,colour=3", "colour"),
            ("obj-id-col", "key=value"),
            ("obj-id-col=2,has-header=maybe", "true"),
            ("obj-id-col=2,delimiter=", "delimiter"),
        ] {
            let error = Columns::parse(bad).unwrap_err().to_string();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn quotes_protect_delimiters() {
        assert_eq!(split(b"1,\"a,b\",", b','), [&b"1"[..], b"a,b", b""]);
    }
}
