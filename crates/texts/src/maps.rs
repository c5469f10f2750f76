//! `/proc/PID/maps`. The parser is our own: that of `procfs` panics on some file names, and a process may give its mappings any
//! name.

use isotherm_units::AddressRange;

/// The first address that belongs to the kernel on any machine with 64 bits. `[vsyscall]` lies above it and is no memory of the
/// process.
const KERNEL_HALF: u64 = 1 << 63;

/// A mapping, as a line of `maps` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the four letters of a line, each alone")]
pub struct Mapping {
    /// Byte addresses.
    pub range: AddressRange,
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_executable: bool,
    /// Other processes that map the same file see writes; otherwise writes make a copy.
    pub is_shared: bool,
    /// Byte in the file where the mapping starts.
    pub offset: u64,
    /// 0 where no file is mapped.
    pub inode: u64,
    /// Path of the file as the kernel writes it, or a name in brackets, or nothing.
    pub name: String,
}

impl Mapping {
    /// Reads a line of `maps`, or the first line of a mapping in `smaps`; `None` if it is not of that form.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end_matches('\n').splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let range = AddressRange::new(hex(start)?, hex(end)?);
        let [read, write, execute, share]: [u8; 4] = fields.next()?.as_bytes().try_into().ok()?;
        let flag = |letter: u8, set: u8| (letter == set || letter == b'-').then_some(letter == set);
        let offset = hex(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        hex(major).and(hex(minor))?;
        let inode = fields.next()?.parse().ok()?;
        let mapping = Self {
            range,
            is_readable: flag(read, b'r')?,
            is_writable: flag(write, b'w')?,
            is_executable: flag(execute, b'x')?,
            is_shared: matches!(share, b's' | b'S'),
            offset,
            inode,
            name: fields.next().unwrap_or_default().trim_start().to_owned(),
        };
        (!range.is_empty() && matches!(share, b'p' | b's' | b'S')).then_some(mapping)
    }

    /// Whether its pages go to swap when they are reclaimed: anonymous ones, copies of file pages, and shared memory. Files on a
    /// tmpfs elsewhere than in `/dev/shm` cannot be recognised.
    pub fn may_need_swap(&self) -> bool {
        const SHARED_MEMORY: [&str; 5] = ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/i915"];
        let is_shared_memory = SHARED_MEMORY.iter().any(|path| self.name.starts_with(path));
        self.inode == 0 || is_shared_memory || (self.is_writable && !self.is_shared)
    }

    /// Whether a file that can be read again backs it.
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }
}

/// The mappings, ascending and disjoint: of mappings that overlap, because they changed while the text was made, the upper one is cut.
///
/// # Errors
/// The first line that is no mapping.
pub fn parse(text: &str) -> Result<Vec<Mapping>, &str> {
    let mut mappings = Vec::new();
    for line in text.lines() {
        append(&mut mappings, Mapping::parse(line).ok_or(line)?, |mapping| &mut mapping.range);
    }
    Ok(mappings)
}

/// Appends the part above the last one, if it lies in the half of processes.
pub(crate) fn append<T>(list: &mut Vec<T>, mut item: T, range: impl Fn(&mut T) -> &mut AddressRange) {
    let above = list.last_mut().map_or(0, |last| range(last).end);
    let place = range(&mut item);
    place.start = place.start.max(above);
    if !place.is_empty() && place.end <= KERNEL_HALF {
        list.push(item);
    }
}

/// A number without `0x` in front. The standard library also takes a sign.
fn hex(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
55d1c0a00000-55d1c0a02000 r--p 00000000 fe:00 131 /usr/bin/cat
55d1c0a02000-55d1c0a07000 r-xp 00002000 fe:00 131                        /usr/bin/cat (deleted)
55d1c1b00000-55d1c1b21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-s 00000000 00:01 2049                       /memfd:a b (deleted)
7f0000400000-7f0000401000 ---p 00000000 00:00 0 \n\
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn lines_are_read_whatever_files_are_called() {
        let mappings = parse(TEXT).unwrap();
        assert_eq!(mappings.len(), 6, "[vsyscall] is nobody's");
        assert_eq!(mappings[1].name, "/usr/bin/cat (deleted)");
        assert_eq!((mappings[1].range.start, mappings[1].offset, mappings[1].inode), (0x55d1_c0a0_2000, 0x2000, 131));
        assert!(mappings[1].is_executable && !mappings[1].is_writable && !mappings[1].is_shared);
        assert!(mappings[3].is_shared && mappings[4].name.is_empty() && !mappings[4].is_readable);
        let swap: Vec<bool> = mappings.iter().map(Mapping::may_need_swap).collect();
        assert_eq!(swap, [false, false, true, true, true, true]);
        // The parser of procfs panics on these names.
        for name in ["/SYSV1", "[stack:", "[", "]", "/SYSV0000é", "[stack:x"] {
            let line = format!("1000-2000 rw-p 00000000 00:00 7 {name}");
            assert_eq!(parse(&line).unwrap()[0].name, name);
        }
    }

    #[test]
    fn what_changed_while_it_was_read_does_not_overlap() {
        let text = "1000-5000 rw-p 0 0:0 0\n3000-8000 rw-p 0 0:0 0\n2000-4000 rw-p 0 0:0 0\n9000-a000 rw-p 0 0:0 0\n";
        let ranges: Vec<_> =
            parse(text).unwrap().iter().map(|mapping| (mapping.range.start, mapping.range.end)).collect();
        assert_eq!(ranges, [(0x1000, 0x5000), (0x5000, 0x8000), (0x9000, 0xa000)]);
    }

    #[test]
    fn other_lines_are_shown() {
        let lines = [
            "1000-1000 rw-p 0 0:0 0",
            "2000-1000 rw-p 0 0:0 0",
            "+1000-2000 rw-p 0 0:0 0",
            "1000-2000 rwxxp 0 0:0 0",
            "1000-2000 rw-q 0 0:0 0",
            "1000-2000 rw-p 0 00 0",
            "1000-2000 rw-p 0 0:0 -1",
            "1000-11111111111111111 rw-p 0 0:0 0",
            "-",
            " ",
            "1000-2000 é-p 0 0:0 0",
        ];
        for line in lines {
            assert_eq!(parse(line), Err(line));
        }
        assert_eq!(parse(""), Ok(Vec::new()));
        for end in 0..TEXT.len() {
            let nr_lines = TEXT[..end].lines().count();
            let read = parse(&TEXT[..end]);
            assert!(read.is_err() || read.is_ok_and(|mappings| mappings.len() <= nr_lines), "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", at in 0..TEXT.len()) {
            let _ = parse(&text);
            let _ = parse(&format!("{}{text}{}", &TEXT[..at], &TEXT[at..]));
        }
    }
}
