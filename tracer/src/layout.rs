// SPDX-License-Identifier: GPL-2.0-or-later

//! The memory that a program finds at its first instruction: its image, the loader and the stack, which the emulator maps
//! without a system call of the program.

use std::os::unix::ffi::OsStringExt;

use crate::record::{Record, map_flags};

/// The emulator keeps itself above (its own image, libraries and heap); programs are placed far below.
const EMULATOR_FROM: u64 = 0x5000_0000_0000;
/// The smallest stack that `ulimit -s` is ever set to in practice, in pages.
const STACK_PAGES: u64 = 16;

/// Reports the mappings of the program in `/proc/self/maps`.
pub(crate) fn initial(mut sink: impl FnMut(&Record<'_>)) {
    let Ok(text) = std::fs::read("/proc/self/maps") else { return };
    let mappings: Vec<Line<'_>> = text.split(|&byte| byte == b'\n').filter_map(parse).collect();
    let program = || mappings.iter().filter(|line| line.start < EMULATOR_FROM >> 12);
    // Anonymous memory next to a file is its .bss; the stack is the largest that stands alone.
    let stack = program()
        .filter(|line| line.name.is_empty() && line.writable && line.end - line.start >= STACK_PAGES)
        .max_by_key(|line| line.end - line.start)
        .map(|line| line.start);
    for line in program().filter(|line| line.accessible) {
        let mut flags = map_flags::INITIAL;
        if line.shared {
            flags |= map_flags::SHARED;
        }
        if line.executable {
            flags |= map_flags::EXECUTABLE;
        }
        if line.name.starts_with(b"/") {
            flags |= map_flags::FILE;
        }
        if stack == Some(line.start) {
            flags |= map_flags::STACK;
        }
        let (start, pages) = (line.start, line.end - line.start);
        sink(&Record::Map { start, pages, flags, file_page: line.file_page, name: line.name });
    }
}

/// One mapping, in pages.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    start: u64,
    end: u64,
    accessible: bool,
    writable: bool,
    executable: bool,
    shared: bool,
    file_page: u64,
    name: &'a [u8],
}

/// `4000000000-4000001000 r-xp 00001000 fe:00 1234   /usr/bin/true`
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut rest = line;
    let mut word = || {
        let skipped = rest.iter().position(|&byte| byte != b' ')?;
        let from = &rest[skipped..];
        let end = from.iter().position(|&byte| byte == b' ').unwrap_or(from.len());
        rest = &from[end..];
        Some(&from[..end])
    };
    let hex = |text: &[u8]| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let range = word()?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (hex(&range[..dash])? >> 12, hex(&range[dash + 1..])? >> 12);
    let mode = word().filter(|mode| mode.len() == 4)?;
    let file_page = hex(word()?)? >> 12;
    let (_device, _inode) = (word()?, word()?);
    let name = rest.iter().position(|&byte| byte != b' ').map_or(&rest[..0], |at| &rest[at..]);
    Some(Line {
        start,
        end,
        accessible: mode[..3] != *b"---",
        writable: mode[1] == b'w',
        executable: mode[2] == b'x',
        shared: mode[3] == b's',
        file_page,
        name,
    })
    .filter(|line| line.start < line.end)
}

/// What the process is called: the emulator sets no name, so this is the program it was given.
pub(crate) fn program_name() -> Vec<u8> {
    crate::plugin::program_path().map(|path| path.into_os_string().into_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_maps_are_read() {
        let line = b"4000002000-4000005000 r-xp 00002000 fe:00 99        /a dir/true";
        let expected = Line {
            start: 0x400_0002,
            end: 0x400_0005,
            accessible: true,
            writable: false,
            executable: true,
            shared: false,
            file_page: 2,
            name: b"/a dir/true",
        };
        assert_eq!(parse(line), Some(expected));
        let anonymous = parse(b"4000802000-4001002000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.name, anonymous.writable), (&b""[..], true));
        for bad in [&b""[..], b"x", b"1-2", b"2-1 rw-p 0 0 0", b"zz-1 rw-p 0 0 0", b"1000-2000 rw 0 0:0 0"] {
            assert_eq!(parse(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
