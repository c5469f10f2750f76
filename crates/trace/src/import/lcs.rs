//! libCacheSim's own binary format `lcs`, versions 1 to 8, little-endian.
//!
//! A header, then one record a request. The header begins and ends with a magic number; it holds the version and statistics;
//! only the number of requests is read. It has 8192 bytes, but 1024 in files of 2023. Records begin with `u32 clock_time`
//! (seconds), `u64 obj_id`, the object's size (`u32`, from version 3 on `i64`); from version 2 on an operation of 8 bits
//! follows. Dropped: tenant, time to live, next access, features. Each record becomes one row, of a page or, with
//! `split_objects`, of all pages of the object. Options read: `unit`, `sector_bytes`, `clock`, `time_unit`, `ns_per_request`, `split_objects`.
//!
//! Layout: libCacheSim, `traceReader/customizedReader/lcs.h`; operations: its `include/libCacheSim/enum.h`.

use super::requests::{self, Requests};
use super::times::{Basis, Time, TimeUnit};
use super::{ImportOptions, Importer, Input};
use crate::{Result, TraceError, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "lcs",
    about: "libCacheSim lcs, versions 1 to 8 (also .zst)",
    has_sizes: true,
    has_clock: true,
    detect: |_, head| head.starts_with(&MAGIC.to_le_bytes()),
    meta: |_| requests::meta("lcs"),
    convert,
};

const MAGIC: u64 = 0x1234_5678_9abc_def0;
/// Header sizes before and after the header grew.
const HEADER_BYTES_OLD: usize = 1024;
const HEADER_BYTES: usize = 8192;
/// Sizes by version, from 1 on.
const RECORD_BYTES: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let header = read_header(input)?;
    let mut requests = Requests::new(options);
    requests.times.learn(TimeUnit::Seconds, Basis::Format);
    let mut record = vec![0; header.record_bytes];
    loop {
        let number = requests.count();
        let bad = |input: &Input, what: String| TraceError::bad_value(input.path(), "record", number, what);
        match input.next_record(&mut record)? {
            0 => break,
            len if len < record.len() => {
                let what = format!("cut off: {len} of {} bytes. The file was not copied whole", record.len());
                return Err(bad(input, what));
            }
            _ => {
                let request = parse(&record, header.version).map_err(|what| bad(input, what))?;
                let object = requests.place(request.id, request.size_bytes).map_err(|what| bad(input, what))?;
                requests.push(writer, object, request.write, Time::whole(request.clock_s))?;
            }
        }
    }
    let count = requests.count();
    if !options.split_objects {
        writer.note("object sizes were dropped: each object is one page")?;
    }
    if header.version == 1 {
        writer.note("all requests are taken for reads: version 1 has no operations")?;
    }
    requests.finish(writer)?;
    if header.nr_requests > count {
        writer
            .note(format!("the header counts {} requests, the file has {count}: it is cut off", header.nr_requests))?;
        writer.set_outcome(None, false)?;
    }
    Ok(())
}

struct Header {
    version: u64,
    /// Number of requests according to the file; 0 if not given.
    nr_requests: u64,
    record_bytes: usize,
}

fn read_header(input: &mut Input) -> Result<Header> {
    let wrong = |input: &Input, found: String| TraceError::WrongFormat {
        path: input.path().to_owned(),
        expected: "a trace of libCacheSim's format lcs",
        found,
    };
    let mut bytes = vec![0; HEADER_BYTES];
    let old = input.next_record(&mut bytes[..HEADER_BYTES_OLD])?;
    if old < HEADER_BYTES_OLD || number(&bytes[..8]) != MAGIC {
        let found = if old < HEADER_BYTES_OLD { "its header is cut off" } else { "it does not begin as one" };
        return Err(wrong(input, found.to_owned()));
    }
    if number(&bytes[HEADER_BYTES_OLD - 8..HEADER_BYTES_OLD]) != MAGIC {
        let rest = input.next_record(&mut bytes[HEADER_BYTES_OLD..])?;
        if rest < HEADER_BYTES - HEADER_BYTES_OLD {
            return Err(wrong(input, "its header is cut off".to_owned()));
        }
        if number(&bytes[HEADER_BYTES - 8..]) != MAGIC {
            let found = "its header has no end after 1024 or 8192 bytes; another layout, or damaged";
            return Err(wrong(input, found.to_owned()));
        }
    }
    let version = number(&bytes[8..16]);
    let record_bytes = usize::try_from(version).ok().and_then(|version| RECORD_BYTES.get(version.wrapping_sub(1)));
    let Some(&record_bytes) = record_bytes else {
        return Err(wrong(input, format!("it is of version {version}; versions 1 to {} are read", RECORD_BYTES.len())));
    };
    let nr_requests = u64::try_from(number(&bytes[24..32]).cast_signed()).unwrap_or(0);
    Ok(Header { version, nr_requests, record_bytes })
}

struct Request {
    clock_s: u64,
    id: u64,
    size_bytes: u64,
    write: bool,
}

/// `record` must have the length of its version.
fn parse(record: &[u8], version: u64) -> Result<Request, String> {
    let (size, operation) = match version {
        1 => (number(&record[12..16]), None),
        2 => (number(&record[12..16]), Some(record[16])),
        _ => (number(&record[12..20]), Some(record[20])),
    };
    let size_bytes = u64::try_from(size.cast_signed()).map_err(|_| format!("the size is {}", size.cast_signed()))?;
    // get, gets and read read; set, add, cas, replace, append, prepend, delete, incr, decr, write and update write.
    let write = operation.is_some_and(|operation| matches!(operation, 3..=11 | 13 | 14));
    Ok(Request { clock_s: number(&record[..4]), id: number(&record[4..12]), size_bytes, write })
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
