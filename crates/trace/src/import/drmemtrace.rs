//! Text of DynamoRIO's drmemtrace `view` tool: every reference of a program, by thread.
//!
//! A line is `record# instr#: tid kind size byte(s) @ 0xaddress …`; kinds `ifetch`, `read` and `write` are references, prefetches
//! and flushes are none. `<thread N exited>` ends a thread; other `<…>` are markers, which are skipped. The tool does not print the
//! parent of a thread, so the thread that ran before it is taken as its parent. Time is the count of a thread's own instructions.
//! Dropped: processes (all threads are assigned to one), system calls, times of day, processors. Source: DynamoRIO,
//! `clients/drcachesim/tools/view.cpp`, versions since 2022 (with the column of instructions).
//!
//! Options read: `epoch_ns`, `ns_per_instruction`.

use std::collections::HashMap;

use super::{ImportOptions, Importer, Input};
use crate::{EpochFilter, EventKind, ProcessMeta, Result, ThreadMeta, TraceMeta, TraceRow, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "drmemtrace",
    about: "text of DynamoRIO's `drrun -t drmemtrace -tool view`",
    has_sizes: false,
    detect: |_, head| {
        head.split(|&byte| byte == b'\n').take(100).any(|line| matches!(parse(line), Some((_, Said::Touch { .. }))))
    },
    meta,
    convert,
};

/// Longest plausible reference, in bytes.
const SIZE_MAX: u64 = 1 << 16;

fn meta(options: &ImportOptions) -> TraceMeta {
    TraceMeta {
        recorder: "drmemtrace view".to_owned(),
        epoch_ns: options.epoch_ns,
        ns_per_instruction: Some(options.ns_per_instruction),
        processes: vec![ProcessMeta { name: "program".to_owned(), ..ProcessMeta::default() }],
        ..TraceMeta::default()
    }
}

/// Contents of a line about its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Touch {
        is_instruction: bool,
        write: bool,
        address: u64,
        size: u64,
    },
    /// A prefetch or a flush of caches.
    Hint,
    Marker,
    Exit,
}

#[derive(Debug, Default)]
struct Threads {
    by_tid: HashMap<u32, u32>,
    /// Instructions so far, by number.
    instructions: Vec<u64>,
    /// Whether it has ended, by number.
    ended: Vec<bool>,
    latest: Option<u32>,
}

impl Threads {
    /// Assumed parent of a new thread: the thread that ran last, or else the first one still alive.
    fn starter(&self) -> Option<u32> {
        let lives = |number: &u32| !self.ended[*number as usize];
        self.latest.filter(lives).or_else(|| (0u32..).take(self.ended.len()).find(lives))
    }
}

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let mut filter = EpochFilter::new(options.epoch_ns);
    let mut rows: Vec<TraceRow> = Vec::new();
    let mut threads = Threads::default();
    let (mut hints, mut strange_lines, mut is_cut) = (0u64, 0u64, false);
    let time = |instructions: u64| options.ns_per_instruction.times(instructions).min(i64::MAX.unsigned_abs());
    while let Some((_, line)) = input.next_line()? {
        let parsed = parse(line);
        let is_talk =
            line.is_empty() || line.starts_with(b"---") || line.starts_with(b"<--") || line == b"Output format:";
        if !input.line_has_end() {
            // Its numbers may be truncated.
            is_cut = true;
            break;
        }
        let Some((tid, said)) = parsed else {
            strange_lines += u64::from(!is_talk);
            continue;
        };
        if said == Said::Hint {
            hints += 1;
            continue;
        }
        // A thread starts at its first line.
        let number = match threads.by_tid.get(&tid) {
            Some(&number) => number,
            None => {
                let by = threads.starter();
                let started_by = by.and_then(|by| usize::try_from(by).ok());
                let number = writer.add_thread(ThreadMeta { process: 0, tid, name: String::new(), started_by })?;
                if let Some(by) = by {
                    filter.flush_thread(by, &mut |row| rows.push(row));
                    rows.drain(..).try_for_each(|row| writer.push(row))?;
                    let now_ns = time(threads.instructions[by as usize]);
                    writer.event(by, now_ns, EventKind::StartThread { thread: number })?;
                }
                threads.by_tid.insert(tid, number);
                threads.instructions.push(0);
                threads.ended.push(false);
                number
            }
        };
        threads.latest = Some(number);
        let instructions = &mut threads.instructions[number as usize];
        match said {
            Said::Touch { is_instruction, write, address, size } => {
                *instructions += u64::from(is_instruction);
                let last = address.saturating_add(size.saturating_sub(1)) >> isotherm_units::PAGE_SHIFT;
                for page in address >> isotherm_units::PAGE_SHIFT..=last {
                    filter.touch(number, time(*instructions), page, write, &mut |row| rows.push(row));
                }
                rows.drain(..).try_for_each(|row| writer.push(row))?;
            }
            Said::Exit => {
                filter.flush_thread(number, &mut |row| rows.push(row));
                rows.drain(..).try_for_each(|row| writer.push(row))?;
                writer.event(number, time(*instructions), EventKind::EndThread)?;
                threads.ended[number as usize] = true;
                // Another thread may get the same tid.
                threads.by_tid.remove(&tid);
            }
            Said::Marker | Said::Hint => {}
        }
    }
    filter.flush(&mut |row| rows.push(row));
    rows.into_iter().try_for_each(|row| writer.push(row))?;
    let instructions: u64 = threads.instructions.iter().sum();
    writer.note(format!("{instructions} instructions; a thread's time is the count of its own"))?;
    if threads.instructions.len() > 1 {
        writer.note("who started a thread is not known: each is taken to be started by the one that ran before it")?;
    }
    if hints > 0 {
        writer.note(format!("{hints} prefetches and flushes were passed over"))?;
    }
    if strange_lines > 0 {
        writer.note(format!("{strange_lines} lines that are no records were passed over"))?;
    }
    if is_cut {
        writer.note("the last line has no end, so it may be cut: left out")?;
    }
    writer.set_outcome(None, !is_cut)
}

/// Thread id and contents; `None` if the line is no record.
fn parse(line: &[u8]) -> Option<(u32, Said)> {
    let line = std::str::from_utf8(line).ok()?;
    let (counts, rest) = line.split_once(": ")?;
    let is_count = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words = counts.split_ascii_whitespace();
    if !words.next().is_some_and(is_count) || !words.all(is_count) {
        return None;
    }
    let (tid, record) = rest.trim_start().split_once(' ')?;
    let tid: u32 = tid.parse().ok()?;
    let record = record.trim();
    if let Some(marker) = record.strip_prefix('<') {
        let exits = marker.strip_prefix("thread ").is_some_and(|rest| rest.ends_with(" exited>"));
        return Some((tid, if exits { Said::Exit } else { Said::Marker }));
    }
    let (kind, rest) = record.split_once(' ')?;
    let (size, rest) = rest.trim_start().split_once(" byte(s) @ 0x")?;
    let digits = rest.split_ascii_whitespace().next()?;
    let size = size.parse().ok().filter(|&size| size <= SIZE_MAX)?;
    let address = u64::from_str_radix(digits, 16).ok()?;
    let touch = |is_instruction, write| Said::Touch { is_instruction, write, address, size };
    let said = match kind {
        "ifetch" => touch(true, false),
        "read" => touch(false, false),
        "write" => touch(false, true),
        "iflush" | "dflush" => Said::Hint,
        _ if kind.starts_with("pref") => Said::Hint,
        _ => return None,
    };
    Some((tid, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_view_tool() {
        let touch = |tid, is_instruction, write, address, size| {
            Some((tid, Said::Touch { is_instruction, write, address, size }))
        };
        // Lines of DynamoRIO's sample traces: https://github.com/DynamoRIO/drmemtrace_samples, README.
        let table = [
            (
                "       47743       37770:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 08       mov    0x08(%rsp)[8byte] -> %rbx",
                touch(2_765_543, true, false, 0x40_4a7e, 5),
            ),
            (
                "       47744       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                touch(2_765_543, false, false, 0x7fdf_64e2_adc8, 8),
            ),
            (
                "   1   0:  7 write       16 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                touch(7, false, true, 0x7fdf_64e2_adc8, 16),
            ),
            (
                "       10663        8012:     2444839 <marker: timestamp 13334813807921548>",
                Some((2_444_839, Said::Marker)),
            ),
            ("   9   8:  7 <thread 7 exited>", Some((7, Said::Exit))),
            (
                "   9   8:  7 pref-r-L1    8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                Some((7, Said::Hint)),
            ),
            ("------------------------------------------------------------", None),
            ("<--record#-> <--instr#->: <---tid---> <record details>", None),
            ("   9   8:  7 read   8 byte(s) @ 0x", None),
            ("   9   8:  7 read   8 byte(s) @ 0x12345678123456789 by", None),
            ("   9   8:  7 read   99999999 byte(s) @ 0x1 by", None),
            ("   9   8:  99999999999 read   8 byte(s) @ 0x1 by", None),
        ];
        for (line, expected) in table {
            assert_eq!(parse(line.as_bytes()), expected, "{line:?}");
        }
    }
}
