//! Valgrind's `lackey --trace-mem=yes`: every reference of a program as text.
//!
//! Lines `I addr,size` (instruction), ` L` (load), ` S` (store), ` M` (load and store); `==pid==` and `--pid--` are
//! Valgrind's own words. There is no time and there are no threads: the instruction count is the clock, and
//! everything is one thread. Lines of another format (the program's own output in the same log, a torn last line)
//! are skipped and counted. Source: `spec` of formats, checked with Valgrind 3.19.
//!
//! Options read: `epoch_ns`, `ns_per_instruction`.

use super::{ImportOptions, Importer, Input};
use crate::{Clock, ClockKind, EpochFilter, Result, TraceMeta, TraceRow, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "lackey",
    about: "text of `valgrind --tool=lackey --trace-mem=yes`",
    has_sizes: false,
    has_clock: false,
    // The program, or a wrapper around it, may print something first.
    detect: |_, head| head.split(|&byte| byte == b'\n').any(|line| parse(line).is_some()),
    meta,
    convert,
};

const PAGE_SHIFT: u32 = isotherm_units::PAGE_SHIFT;
/// Longest plausible reference, in bytes: the largest registers have 64, saved states some KiB.
const SIZE_MAX: u64 = 1 << 16;

/// Metadata of a trace made by [`convert`] before its first row.
pub fn meta(options: &ImportOptions) -> TraceMeta {
    TraceMeta {
        recorder: "valgrind lackey".to_owned(),
        epoch_ns: options.epoch_ns,
        ns_per_instruction: Some(options.ns_per_instruction),
        clock: Clock { kind: ClockKind::Instructions, error_percent: None },
        ..TraceMeta::single("program")
    }
}

/// Reads the text and pushes rows of thread 0, through the epoch filter.
///
/// # Errors
/// When the input cannot be read or the trace cannot be written.
pub fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let mut filter = EpochFilter::new(options.epoch_ns);
    let mut rows: Vec<TraceRow> = Vec::new();
    let mut instructions = 0u64;
    let mut strange_lines = 0u64;
    while let Some((_, line)) = input.next_line()? {
        let Some((kind, address, size)) = parse(line) else {
            let said_by_valgrind = line.starts_with(b"==") || line.starts_with(b"--");
            if said_by_valgrind {
                learn(line, writer);
            } else if !line.is_empty() {
                strange_lines += 1;
            }
            continue;
        };
        instructions += u64::from(kind == b'I');
        let time_ns = options.ns_per_instruction.times(instructions).min(i64::MAX.unsigned_abs());
        let write = matches!(kind, b'S' | b'M');
        let last = address.saturating_add(size.saturating_sub(1)) >> PAGE_SHIFT;
        for page in address >> PAGE_SHIFT..=last {
            filter.touch(0, time_ns, page, write, &mut |row| rows.push(row));
        }
        for row in rows.drain(..) {
            writer.push(row)?;
        }
    }
    filter.flush(&mut |row| rows.push(row));
    rows.into_iter().try_for_each(|row| writer.push(row))?;
    if strange_lines > 0 {
        writer.note(format!("{strange_lines} lines that are no references were passed over"))?;
    }
    writer.note(format!("{instructions} instructions; time is their count; all threads appear as one"))?;
    let exit_code = writer.meta().exit_code;
    writer.set_outcome(exit_code, true)
}

/// Kind, address and size of a reference.
fn parse(line: &[u8]) -> Option<(u8, u64, u64)> {
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return None,
    };
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let (address, size) = (&rest[..comma], &rest[comma + 1..]);
    if address.is_empty() || address.len() > 16 || size.is_empty() || size.len() > 5 {
        return None;
    }
    let mut number = 0u64;
    for &byte in address {
        number = number << 4 | u64::from(char::from(byte).to_digit(16)?);
    }
    let mut bytes = 0u64;
    for &byte in size {
        bytes = bytes * 10 + u64::from(char::from(byte).to_digit(10)?);
    }
    (bytes <= SIZE_MAX).then_some((kind, number, bytes))
}

/// Takes the program's name and process id from Valgrind's first lines, unless they are known already.
fn learn(line: &[u8], writer: &mut TraceWriter) {
    let Ok(line) = std::str::from_utf8(line) else { return };
    let Some((pid, said)) = line.trim_start_matches('=').split_once("== ") else { return };
    if let Some(command) = said.strip_prefix("Command: ") {
        writer.learn_command(pid.parse().unwrap_or(0), command.split(' ').map(str::to_owned).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wrapper_says_first_does_not_hide_it() {
        let wrapper = "starting the service, attempt 1\n".repeat(500);
        assert!((IMPORTER.detect)(std::path::Path::new("log"), (wrapper.clone() + "I  0400,3\n").as_bytes()));
        assert!(!(IMPORTER.detect)(std::path::Path::new("log"), wrapper.as_bytes()));
    }

    #[test]
    fn lines_of_valgrind_3_19() {
        let table = [
            ("I  0401ab70,3", Some((b'I', 0x401_ab70, 3))),
            (" S 1fff000678,8", Some((b'S', 0x1f_ff00_0678, 8))),
            (" L 1fff000678,8", Some((b'L', 0x1f_ff00_0678, 8))),
            (" M 0421b1d8,4", Some((b'M', 0x421_b1d8, 4))),
            ("==11968== Lackey, an example Valgrind tool", None),
            ("I 0401ab70,3", None),
            (" S 1fff000678", None),
            (" S 1fff000678,", None),
            (" S 1fff00067800000000,8", None),
        ];
        for (line, expected) in table {
            assert_eq!(parse(line.as_bytes()), expected, "{line:?}");
        }
    }
}
