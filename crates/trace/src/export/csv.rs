//! csv: our rows with our columns (metadata and events are lost), or one line per access for other programs.

use std::fmt::Write;
use std::path::Path;

use super::{ExportOptions, Exporter, Output, check_processes, for_each_access, object_id};
use crate::file::table::COLUMNS;
use crate::{Result, TraceReader, TraceRow};

pub(super) const EXPORTER: Exporter = Exporter {
    name: "csv",
    about: "text: time_ns,thread,page,pages,write,kernel a row, or time,obj_id,obj_size,op an access",
    endings: &[".csv"],
    convert,
};

fn convert(reader: &mut TraceReader, output: &Path, options: &ExportOptions) -> Result<()> {
    let mut out = Output::create(output)?;
    let mut line = String::new();
    let mut put = |out: &mut Output, text: std::fmt::Arguments<'_>| {
        line.clear();
        line.write_fmt(text).expect("a string takes everything");
        out.write(line.as_bytes())
    };
    if options.per_access {
        check_processes(reader)?;
        let page_bytes = reader.meta().page_bytes;
        put(&mut out, format_args!("time,obj_id,obj_size,op\n"))?;
        for_each_access(reader, |process, page, write, time_ns| {
            let (seconds, id) = (time_ns / 1_000_000_000, object_id(process, page));
            let operation = if write { "write" } else { "read" };
            put(&mut out, format_args!("{seconds},{id},{page_bytes},{operation}\n"))
        })?;
    } else {
        put(&mut out, format_args!("{}\n", COLUMNS.join(",")))?;
        reader.for_each_batch(|batch| {
            batch.rows().try_for_each(|row| {
                let (write, kernel) = (u8::from(row.write), u8::from(row.kernel));
                let TraceRow { time_ns, thread, page, pages, .. } = row;
                put(&mut out, format_args!("{time_ns},{thread},{page},{pages},{write},{kernel}\n"))
            })
        })?;
    }
    out.finish()
}
