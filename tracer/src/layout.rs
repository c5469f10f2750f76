// SPDX-License-Identifier: GPL-2.0-or-later

//! The memory that a program finds at its first instruction: its image, the loader and the stack, which the emulator maps
//! without a system call of the program.

use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use crate::record::{Record, map_flags};

/// Up to QEMU 8 the emulator keeps itself above (its own image, libraries and heap), and places programs far below.
const EMULATOR_FROM: u64 = 0x5000_0000_0000;
/// From QEMU 9 on, what was mapped before the program was loaded: ranges of pages of the emulator's own.
static EMULATOR: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
/// The smallest stack that `ulimit -s` is ever set to in practice, in pages.
const STACK_PAGES: u64 = 16;

/// To be called while the plugin is loaded, which is before the program is, where programs lie among the emulator's memory.
pub(crate) fn note_emulator() {
    let text = std::fs::read("/proc/self/maps").unwrap_or_default();
    let lines = text.split(|&byte| byte == b'\n').filter_map(parse);
    let _ = EMULATOR.set(lines.map(|line| (line.start, line.end)).collect());
}

/// Reports the mappings of the program in `/proc/self/maps`. Under QEMU 9 and later that is what came since [`note_emulator`]. What the
/// emulator itself has taken meanwhile is reported too, without harm, because no program touches it; but for its translated code, which
/// alone is anonymous and executable.
pub(crate) fn initial(mut sink: impl FnMut(&Record<'_>)) {
    let Ok(text) = std::fs::read("/proc/self/maps") else { return };
    let mappings: Vec<Line<'_>> = text.split(|&byte| byte == b'\n').filter_map(parse).collect();
    let of_program: Vec<&Line<'_>> = mappings.iter().filter(|line| is_of_program(line)).collect();
    let stack = stack_of(&of_program);
    for line in of_program.iter().filter(|line| line.accessible) {
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

fn is_of_program(line: &Line<'_>) -> bool {
    let Some(emulator) = EMULATOR.get() else { return line.start < EMULATOR_FROM >> 12 };
    let own = emulator.iter().any(|&(start, end)| start < line.end && line.start < end);
    // In brackets are the emulator's heap and stack, which grow.
    !own && !line.name.starts_with(b"[") && (!line.name.is_empty() || !line.executable)
}

/// The stack: the largest anonymous mapping with a guard page below, or of all where there is none.
fn stack_of(lines: &[&Line<'_>]) -> Option<u64> {
    let has_guard = |line: &Line<'_>| lines.iter().any(|below| below.end == line.start && !below.accessible);
    let stacks =
        lines.iter().filter(|line| line.name.is_empty() && line.writable && line.end - line.start >= STACK_PAGES);
    stacks.max_by_key(|line| (has_guard(line), line.end - line.start)).map(|line| line.start)
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
    fn the_stack_is_the_largest_with_a_guard_below() {
        let lines = [
            &b"1000000-4000000 rw-p 00000000 00:00 0 "[..],
            b"7000000-7001000 ---p 00000000 00:00 0 ",
            b"7001000-7801000 rw-p 00000000 00:00 0 ",
            b"9000000-9001000 ---p 00000000 00:00 0 ",
            b"9001000-9101000 rw-p 00000000 00:00 0 ",
        ]
        .map(|line| parse(line).unwrap());
        assert_eq!(stack_of(&lines.iter().collect::<Vec<_>>()), Some(0x7001));
        assert_eq!(stack_of(&[&lines[0]]), Some(0x1000));
        assert_eq!(stack_of(&[]), None);
    }

    #[test]
    fn programs_are_told_from_the_emulator() {
        let own = |line: &[u8]| is_of_program(&parse(line).unwrap());
        assert!(own(b"4000000000-4000001000 rw-p 00000000 00:00 0 "));
        assert!(!own(b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 "), "above where programs are, up to QEMU 8");
        note_emulator();
        let (start, _) = EMULATOR.get().unwrap()[0];
        assert!(!own(format!("{:x}-{:x} rw-p 00000000 00:00 0 ", start << 12, (start + 1) << 12).as_bytes()));
        assert!(own(b"1000-2000 r-xp 00000000 fe:00 9 /bin/x") && !own(b"1000-2000 rw-p 00000000 00:00 0 [heap]"));
        assert!(!own(b"1000-2000 rwxp 00000000 00:00 0 "), "translated code");
    }

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
