//! The directory through which the engine sends its records: `control`, `fifo`, and a chunk file per thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::protocol::{CHUNK_BYTES, Header, ProtocolError};
use crate::sys;

/// Offsets in `control`: see `docs/use/recording.md#protocol`.
const NEXT_UID_OFFSET: u64 = 8;
const STOP_OFFSET: u64 = 12;

/// A spool; removed when dropped.
pub(crate) struct Spool {
    directory: tempfile::TempDir,
    control: File,
    fifo: File,
    incoming: Incoming,
}

/// Bytes read from a stream of chunks and not used yet: between two calls, a part of a chunk.
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    filled: usize,
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; 1 << 16], filled: 0 }
    }

    /// Buffer for the next bytes; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Takes `len` bytes that were read into [`Incoming::space`], and gives all whole chunks to `sink`.
    pub(crate) fn take<E: From<ProtocolError>>(
        &mut self,
        len: usize,
        sink: impl FnMut(Header, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let filled = self.filled + len;
        let used = chunks(&self.bytes[..filled], sink)?;
        // Less than a chunk is left, so there is always room.
        self.bytes.copy_within(used..filled, 0);
        self.filled = filled - used;
        Ok(())
    }
}

impl Spool {
    /// Makes a spool in a memory file system if there is one, else in the directory for temporary files.
    pub(crate) fn create() -> io::Result<Self> {
        let in_directory = |base: &Path| tempfile::Builder::new().prefix("isotherm-").tempdir_in(base);
        let directory = in_directory(Path::new("/dev/shm")).or_else(|_| in_directory(&std::env::temp_dir()))?;
        let path = directory.path().join("control");
        let mut control = File::options().read(true).write(true).create_new(true).open(path)?;
        control.write_all(&[0; CHUNK_BYTES])?;
        control.seek(SeekFrom::Start(NEXT_UID_OFFSET))?;
        control.write_all(&1u32.to_le_bytes())?;
        let fifo = sys::make_fifo(&directory.path().join("fifo"))?;
        Ok(Self { directory, control, fifo, incoming: Incoming::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Asks all recorded processes to stop sending; the program runs on.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.control.seek(SeekFrom::Start(STOP_OFFSET))?;
        self.control.write_all(&1u32.to_le_bytes())
    }

    /// Waits for chunks for at most `milliseconds`, then passes all chunks to `sink`. Returns whether there were any.
    pub(crate) fn receive<E: From<ProtocolError> + From<io::Error>>(
        &mut self,
        milliseconds: u32,
        mut sink: impl FnMut(Header, &[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !sys::wait_readable(&self.fifo, milliseconds)? {
            return Ok(false);
        }
        let mut any = false;
        // Bounded, so that signals and progress get their turn with a program that is faster than we are.
        for _ in 0..64 {
            match self.fifo.read(self.incoming.space()) {
                Ok(0) => break,
                Ok(len) => {
                    any = true;
                    self.incoming.take(len, &mut sink)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(any)
    }

    /// The chunk that a thread was filling when it was killed, if it left one.
    pub(crate) fn left_by(&self, uid: u32) -> Option<Vec<u8>> {
        let path: PathBuf = self.directory.path().join(format!("thread.{uid}"));
        std::fs::read(path).ok()
    }
}

/// Passes each whole chunk of `bytes` to `sink`. Returns the number of bytes used.
pub(crate) fn chunks<E: From<ProtocolError>>(
    bytes: &[u8],
    mut sink: impl FnMut(Header, &[u8]) -> Result<(), E>,
) -> Result<usize, E> {
    let mut offset = 0;
    while let Some(header) = Header::read(&bytes[offset..])? {
        let start = offset + crate::protocol::HEADER_BYTES;
        let Some(payload) = bytes.get(start..start + header.payload_bytes) else { break };
        sink(header, payload)?;
        offset = start + header.payload_bytes;
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_at_their_lengths() {
        let chunk = |uid: u8, payload: &[u8]| {
            let len = u8::try_from(payload.len()).unwrap();
            let mut bytes = vec![b'i', b'T', b'R', b'1', len, 0, 0, 0, uid, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(payload);
            bytes
        };
        let bytes = [chunk(1, b"abc"), chunk(2, b""), chunk(3, b"de")].concat();
        for len in 0..=bytes.len() {
            let mut seen = Vec::new();
            let used = chunks::<ProtocolError>(&bytes[..len], |header, payload| {
                seen.push((header.uid, payload.to_vec()));
                Ok(())
            })
            .unwrap();
            let whole = [19, 35, 53].iter().filter(|&&end| end <= len).count();
            assert_eq!((seen.len(), used), (whole, [0, 19, 35, 53][whole]), "cut at {len}");
        }
    }

    #[test]
    fn a_fifo_gives_what_was_written_and_control_says_stop() {
        let mut spool = Spool::create().unwrap();
        let mut writer = File::options().write(true).open(spool.path().join("fifo")).unwrap();
        writer.write_all(b"iTR1\x01\0\0\0\x05\0\0\0\0\0\0\0").unwrap();
        let mut seen = Vec::new();
        let mut receive = |spool: &mut Spool| {
            spool.receive::<Box<dyn std::error::Error>>(0, |header, payload| {
                seen.push((header.uid, payload.to_vec()));
                Ok(())
            })
        };
        assert!(receive(&mut spool).unwrap());
        writer.write_all(b"\x02").unwrap();
        assert!(receive(&mut spool).unwrap());
        assert!(!receive(&mut spool).unwrap());
        assert_eq!(seen, [(5, vec![2])]);
        spool.stop().unwrap();
        let control = std::fs::read(spool.path().join("control")).unwrap();
        assert_eq!(control[..16], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(spool.left_by(0), None);
    }
}
