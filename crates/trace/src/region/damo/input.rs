//! Opens a foreign record from its start, repeatedly: plain or in a zlib stream.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::{Result, TraceError};

const BUFFER_BYTES: usize = 1 << 17;

/// Whether `head` begins a zlib stream (RFC 1950): method deflate, and a header that is a multiple of 31. Text never does.
pub(crate) fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [method, flags, ..]
        if method & 0x0f == 8 && method >> 4 <= 7 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0)
        && head[0] == 0x78
}

/// A file's bytes, decompressed while reading.
pub(crate) fn open(path: &Path, zlib: bool) -> Result<Box<dyn Read>> {
    let file = File::open(path).map_err(|error| TraceError::io("open", path, error))?;
    let plain = BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(if zlib { Box::new(BufReader::with_capacity(BUFFER_BYTES, ZlibDecoder::new(plain))) } else { Box::new(plain) })
}
