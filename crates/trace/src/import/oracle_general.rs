//! libCacheSim's oracleGeneral: records of 24 bytes, little-endian, without a header: `u32 clock_time` (seconds), `u64 obj_id`,
//! `u32 obj_size`, `i64 next_access_vtime`.
//!
//! Each record becomes one read of page `obj_id`, or with `split_objects` of as many pages as the size needs. Dropped: the
//! size, unless `split_objects` uses it, and the next access (it follows from the order). Ids of 2^51 or more are numbered
//! densely. Options read: `unit`, `sector_bytes`, `clock`, `time_unit`, `ns_per_request`, `split_objects`.

use std::path::Path;

use super::requests::{self, Requests};
use super::times::{Basis, Time, TimeUnit};
use super::{ImportOptions, Importer, Input};
use crate::{Result, TraceError, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "oracle-general",
    about: "libCacheSim oracleGeneral (.oracleGeneral, .oracleGeneral.bin, also .zst)",
    has_sizes: true,
    has_clock: true,
    detect,
    meta: |_| requests::meta("oracleGeneral"),
    convert,
};

const RECORD_BYTES: usize = 24;

/// Detects it by name, or by plausible records from the first on: times never decrease, and each next access is after its own.
fn detect(name: &Path, head: &[u8]) -> bool {
    let name = name.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.contains("oraclegeneral") {
        return true;
    }
    let records: Vec<_> = head.chunks_exact(RECORD_BYTES).take(64).map(parse).collect();
    let plausible = |index: usize, next: i64| {
        next == -1 || next == i64::MAX || usize::try_from(next).is_ok_and(|next| next > index)
    };
    !records.is_empty()
        && head[..RECORD_BYTES].contains(&0)
        && records.windows(2).all(|pair| pair[0].clock_s <= pair[1].clock_s)
        && records.iter().enumerate().all(|(index, record)| plausible(index, record.next))
}

struct Record {
    clock_s: u32,
    id: u64,
    size_bytes: u32,
    next: i64,
}

fn parse(bytes: &[u8]) -> Record {
    let number =
        |from: usize, to: usize| bytes[from..to].iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    Record {
        clock_s: u32::try_from(number(0, 4)).expect("four bytes"),
        id: number(4, 12),
        size_bytes: u32::try_from(number(12, 16)).expect("four bytes"),
        next: number(16, 24).cast_signed(),
    }
}

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let mut requests = Requests::new(options);
    requests.times.learn(TimeUnit::Seconds, Basis::Format);
    let mut bytes = [0u8; RECORD_BYTES];
    loop {
        match input.next_record(&mut bytes)? {
            0 => break,
            RECORD_BYTES => {
                let record = parse(&bytes);
                let object = requests.place(record.id, u64::from(record.size_bytes));
                let object =
                    object.map_err(|what| TraceError::bad_value(input.path(), "record", requests.count(), what))?;
                requests.push(writer, object, false, Time::whole(u64::from(record.clock_s)))?;
            }
            len => {
                let what = format!("cut off: {len} of {RECORD_BYTES} bytes. Not oracleGeneral, or not copied whole");
                return Err(TraceError::bad_value(input.path(), "record", requests.count(), what));
            }
        }
    }
    writer.note(if options.split_objects {
        "all requests are reads"
    } else {
        "object sizes were dropped: each object is one page; all requests are reads"
    })?;
    requests.finish(writer)
}
