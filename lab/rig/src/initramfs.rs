//! A guest's first file system: an archive in the kernel's format that is unpacked into memory at boot.

use cpio::newc::{Builder, trailer};
use std::io::{self, Write};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DATA: u32 = 0o100_644;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// Files of a guest, being assembled.
#[derive(Debug, Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initramfs {
    /// An archive with the first process, and the console that it writes to before it mounts anything.
    pub(crate) fn new(init: &[u8]) -> Self {
        let mut files = Self::default();
        files.add(Builder::new("dev").mode(FOLDER), &[]);
        files.add(Builder::new("dev/console").mode(CHARACTER_DEVICE).rdev_major(5).rdev_minor(1), &[]);
        for folder in ["proc", "sys"] {
            files.add(Builder::new(folder).mode(FOLDER), &[]);
        }
        files.add(Builder::new("init").mode(PROGRAM), init);
        files
    }

    /// Adds a file; `path` without a slash in front.
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.add(Builder::new(path).mode(DATA), bytes);
    }

    /// Adds a file of the host as it is there: with its time, by which interpreters check that compiled files are current.
    pub(crate) fn as_on_host(&mut self, path: &str, is_program: bool, changed_s: u32, bytes: &[u8]) {
        let mode = if is_program { PROGRAM } else { DATA };
        self.add(Builder::new(path).mode(mode).mtime(changed_s), bytes);
    }

    /// Adds a folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.add(Builder::new(path).mode(FOLDER), &[]);
    }

    fn add(&mut self, entry: Builder, bytes: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(bytes.len()).expect("files of a guest are far below 4 GiB");
        let mut writer = entry.ino(self.entries).nlink(1).write(&mut self.bytes, length);
        let written = writer.write_all(bytes).and_then(|()| writer.finish().map(|_| ()));
        written.expect("memory takes it");
    }

    /// The archive.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        trailer(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn it_holds_what_was_put_in() {
        let mut files = Initramfs::new(b"program");
        files.folder("modules");
        files.file("modules/00-a.ko", b"module");
        let archive = files.finish().unwrap();
        let mut names = Vec::new();
        let mut rest: Box<dyn Read> = Box::new(io::Cursor::new(archive));
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            names.push((reader.entry().name().to_owned(), reader.entry().mode() & 0o777, bytes.len()));
            rest = Box::new(reader.finish().unwrap());
        }
        let expected = [("dev", 0o755, 0), ("dev/console", 0o600, 0), ("proc", 0o755, 0), ("sys", 0o755, 0)];
        let more = [("init", 0o755, 7), ("modules", 0o755, 0), ("modules/00-a.ko", 0o644, 6)];
        let expected: Vec<_> =
            expected.iter().chain(&more).map(|&(name, mode, len)| (name.to_owned(), mode, len)).collect();
        assert_eq!(names, expected);
    }
}
