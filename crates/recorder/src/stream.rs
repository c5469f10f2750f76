//! A trace from a stream of chunks: the recorder behind an engine, without the engine. Meant for benches and tests.

use std::io::Read;
use std::path::Path;

use isotherm_trace::{TraceMeta, TraceWriter};
use isotherm_units::Duration;

use crate::assemble::{AssembleError, Assembler};
use crate::error::RecordError;
use crate::spool::Incoming;

/// Reads chunks (`docs/use/recording.md#protocol`) to the end of `stream` and writes their trace to `output`, with epochs of
/// `epoch` of CPU time, as a recording does with data from its FIFO. Returns the metadata of the finished trace.
///
/// # Errors
/// When the stream cannot be read or is invalid, or the trace cannot be written.
pub fn trace_from_stream(stream: &mut dyn Read, output: &Path, epoch: Duration) -> Result<TraceMeta, RecordError> {
    let meta = TraceMeta { epoch_ns: epoch.ns(), ..TraceMeta::default() };
    let mut assembler = Assembler::new(TraceWriter::create(output, meta)?, epoch.ns());
    let mut incoming = Incoming::new();
    let bad = |error: AssembleError| match error {
        AssembleError::Trace(error) => RecordError::Trace(error),
        AssembleError::Protocol(error) => RecordError::Stream { path: output.to_owned(), why: error.to_string() },
    };
    loop {
        let len = stream.read(incoming.space()).map_err(|error| RecordError::io("read the stream", error))?;
        if len == 0 {
            break;
        }
        incoming.take(len, |header, payload| assembler.chunk(header, payload)).map_err(bad)?;
    }
    let (mut writer, _, written) = assembler.finish();
    written?;
    writer.set_outcome(None, true)?;
    Ok(writer.finish()?)
}
