//! Text of DynamoRIO's drmemtrace `view` tool: every reference of a program, by thread.
//!
//! A line is `record# instr#: tid kind size byte(s) @ 0xaddress …`; kinds `ifetch`, `read` and `write` are references, prefetches and
//! flushes are none. A tid may have its program before it (`W0.T4711`); each program is a process. `<thread N exited>` ends a thread; other
//! `<…>` are markers, which are skipped. The tool does not print the parent of a thread, so the thread that ran before it is taken as its
//! parent. Time is the count of a thread's own instructions: kernel instructions in its system calls count too, and rounds of an
//! instruction with `rep` after the first do not. They are `non-fetched`, or have the number of the instruction before. Dropped: references
//! of kernel addresses, system calls, times of day, processors. Source: DynamoRIO, `clients/drcachesim/tools/view.cpp`, versions of 2021
//! to 2026. Before November 2022 the tool printed no number of the instruction and a `T` before the thread, before May 2022 instructions
//! without `ifetch`, and before November 2021 no number of the record.
//!
//! Options read: `epoch_ns`, `ns_per_instruction`.

use std::collections::HashMap;

use super::samples::KERNEL_FROM;
use super::{ImportOptions, Importer, Input};
use crate::{EpochFilter, EventKind, ProcessMeta, Result, ThreadMeta, TraceMeta, TraceRow, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "drmemtrace",
    about: "text of DynamoRIO's `drrun -t drmemtrace -tool view`",
    has_sizes: false,
    has_clock: false,
    detect: |_, head| {
        head.split(|&byte| byte == b'\n')
            .take(100)
            .any(|line| matches!(parse(line), Some(Line { said: Said::Touch { .. }, .. })))
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

/// A thread: the number of its program in a trace of several, else 0, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ThreadId {
    workload: u32,
    tid: u32,
}

/// A line about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    thread: ThreadId,
    /// Number of the instruction, from 1 on.
    instruction: Option<u64>,
    said: Said,
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
    /// A further round of an instruction with `rep`, which is not fetched again.
    Round,
    /// A prefetch or a flush of caches.
    Hint,
    Marker,
    Exit,
}

/// A thread that was seen.
#[derive(Debug)]
struct Thread {
    workload: u32,
    /// Instructions so far.
    instructions: u64,
    /// Number of the latest instruction in the file.
    latest: Option<u64>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct Threads {
    by_id: HashMap<ThreadId, u32>,
    /// Threads by number.
    all: Vec<Thread>,
    /// Process by workload.
    processes: HashMap<u32, usize>,
    latest: Option<u32>,
}

impl Threads {
    /// Assumed parent of a new thread: the thread of its program that ran last, or else the first one still alive.
    fn starter(&self, workload: u32) -> Option<u32> {
        let lives = |number: &u32| {
            let thread = &self.all[*number as usize];
            !thread.has_ended && thread.workload == workload
        };
        self.latest.filter(lives).or_else(|| (0u32..).take(self.all.len()).find(lives))
    }

    /// The process of a program; the first one is in the metadata from the start.
    fn process(&mut self, workload: u32, writer: &mut TraceWriter) -> Result<usize> {
        if let Some(&process) = self.processes.get(&workload) {
            return Ok(process);
        }
        let process = match self.processes.len() {
            0 => 0,
            _ => {
                let name = format!("program {workload}");
                writer.add_process(ProcessMeta { name, ..ProcessMeta::default() })?
            }
        };
        Ok(*self.processes.entry(workload).or_insert(process))
    }
}

/// Lines that are no rows.
#[derive(Debug, Default)]
struct Dropped {
    hints: u64,
    of_kernel: u64,
    strange_lines: u64,
    is_cut: bool,
}

/// A conversion under way.
struct View<'a> {
    options: &'a ImportOptions,
    writer: &'a mut TraceWriter,
    filter: EpochFilter,
    rows: Vec<TraceRow>,
    threads: Threads,
    dropped: Dropped,
}

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let filter = EpochFilter::new(options.epoch_ns);
    let (rows, threads, dropped) = (Vec::new(), Threads::default(), Dropped::default());
    let mut view = View { options, writer, filter, rows, threads, dropped };
    while let Some((_, line)) = input.next_line()? {
        let parsed = parse(line);
        let is_talk = is_talk(line);
        if !input.line_has_end() {
            // Its numbers may be truncated.
            view.dropped.is_cut = true;
            break;
        }
        match parsed {
            Some(line) => view.take(line)?,
            None => view.dropped.strange_lines += u64::from(!is_talk),
        }
    }
    view.finish()
}

/// The tool's own lines: legend and separators.
fn is_talk(line: &[u8]) -> bool {
    line.is_empty()
        || line.starts_with(b"---")
        || line.starts_with(b"<--")
        || line.starts_with(b"<record#>")
        || line == b"Output format:"
}

impl View<'_> {
    fn time_ns(&self, number: u32) -> u64 {
        let instructions = self.threads.all[number as usize].instructions;
        self.options.ns_per_instruction.times(instructions).min(i64::MAX.unsigned_abs())
    }

    fn take(&mut self, line: Line) -> Result<()> {
        if line.said == Said::Hint {
            self.dropped.hints += 1;
            return Ok(());
        }
        // A thread starts at its first line.
        let number = match self.threads.by_id.get(&line.thread) {
            Some(&number) => number,
            None => self.start(line.thread)?,
        };
        self.threads.latest = Some(number);
        match line.said {
            Said::Touch { is_instruction, write, address, size } => {
                if is_instruction {
                    self.count(number, line.instruction);
                }
                self.touch(number, write, address, size)
            }
            Said::Exit => self.end(number, line.thread),
            Said::Marker | Said::Round | Said::Hint => Ok(()),
        }
    }

    fn start(&mut self, id: ThreadId) -> Result<u32> {
        let process = self.threads.process(id.workload, self.writer)?;
        let by = self.threads.starter(id.workload);
        let started_by = by.and_then(|by| usize::try_from(by).ok());
        let number = self.writer.add_thread(ThreadMeta { process, tid: id.tid, name: String::new(), started_by })?;
        if let Some(by) = by {
            self.flush_thread(by)?;
            let now_ns = self.time_ns(by);
            self.writer.event(by, now_ns, EventKind::StartThread { thread: number })?;
        }
        self.threads.by_id.insert(id, number);
        self.threads.all.push(Thread { workload: id.workload, instructions: 0, latest: None, has_ended: false });
        Ok(number)
    }

    /// Counts an instruction. Rounds of one with `rep` have its number; tools before 2026 print them as fetches.
    fn count(&mut self, number: u32, instruction: Option<u64>) {
        let thread = &mut self.threads.all[number as usize];
        let is_round = instruction.is_some() && thread.latest == instruction;
        thread.latest = instruction;
        thread.instructions += u64::from(!is_round);
    }

    fn touch(&mut self, number: u32, write: bool, address: u64, size: u64) -> Result<()> {
        if address >= KERNEL_FROM {
            self.dropped.of_kernel += 1;
            return Ok(());
        }
        let time_ns = self.time_ns(number);
        let last = address.saturating_add(size.saturating_sub(1)).min(KERNEL_FROM - 1) >> isotherm_units::PAGE_SHIFT;
        for page in address >> isotherm_units::PAGE_SHIFT..=last {
            self.filter.touch(number, time_ns, page, write, &mut |row| self.rows.push(row));
        }
        self.write_rows()
    }

    fn end(&mut self, number: u32, id: ThreadId) -> Result<()> {
        self.flush_thread(number)?;
        let now_ns = self.time_ns(number);
        self.writer.event(number, now_ns, EventKind::EndThread)?;
        self.threads.all[number as usize].has_ended = true;
        // Another thread may get the same tid.
        self.threads.by_id.remove(&id);
        Ok(())
    }

    fn flush_thread(&mut self, number: u32) -> Result<()> {
        self.filter.flush_thread(number, &mut |row| self.rows.push(row));
        self.write_rows()
    }

    fn write_rows(&mut self) -> Result<()> {
        self.rows.drain(..).try_for_each(|row| self.writer.push(row))
    }

    fn finish(mut self) -> Result<()> {
        self.filter.flush(&mut |row| self.rows.push(row));
        self.write_rows()?;
        let (writer, dropped) = (self.writer, self.dropped);
        let instructions: u64 = self.threads.all.iter().map(|thread| thread.instructions).sum();
        writer.note(format!("{instructions} instructions; a thread's time is the count of its own"))?;
        if self.threads.all.len() > 1 {
            writer
                .note("who started a thread is not known: each is taken to be started by the one that ran before it")?;
        }
        let counts = [
            (dropped.hints, "prefetches and flushes were passed over"),
            (dropped.of_kernel, "references of kernel addresses were dropped; its instructions count as time"),
            (dropped.strange_lines, "lines that are no records were passed over"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            writer.note(format!("{count} {what}"))?;
        }
        if dropped.is_cut {
            writer.note("the last line has no end, so it may be cut: left out")?;
        }
        writer.set_outcome(None, !dropped.is_cut)
    }
}

/// `None`: the line is no record.
fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line).ok()?;
    let (instruction, rest) = match line.split_once(": ") {
        _ if starts_with_thread(line) => (None, line),
        Some((counts, rest)) => (instruction_of(counts)?, rest.trim_start()),
        None => return None,
    };
    let (id, record) = rest.split_once(' ')?;
    Some(Line { thread: thread_of(id)?, instruction, said: said(record.trim())? })
}

/// Lines of 2021 and before have no numbers before the thread.
fn starts_with_thread(line: &str) -> bool {
    line.strip_prefix('T').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The number of the instruction, in the second column of numbers. Versions before November 2022 have only that of records.
fn instruction_of(counts: &str) -> Option<Option<u64>> {
    let is_count = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words = counts.split_ascii_whitespace();
    let has_record = words.next().is_some_and(is_count);
    let instruction = words.next();
    (has_record && instruction.is_none_or(is_count) && words.all(is_count)).then(|| instruction?.parse().ok())
}

/// `4711`; `T4711` in versions of 2022 and before, `W0.T4711` in versions of 2025 and later.
fn thread_of(word: &str) -> Option<ThreadId> {
    let (workload, tid) = match word.strip_prefix('W') {
        Some(rest) => rest.split_once(".T")?,
        None => ("0", word.strip_prefix('T').unwrap_or(word)),
    };
    Some(ThreadId { workload: workload.parse().ok()?, tid: tid.parse().ok()? })
}

/// An instruction as versions before May 2022 print it: `0xaddress 48 8b 07 mov …`, or `0xaddress non-branch 5 byte(s)`. Bytes
/// that stand on a line of their own are not counted, so the size may be too small for an instruction that crosses pages.
fn fetch_of_2021(record: &str) -> Option<Said> {
    let mut words = record.strip_prefix("0x")?.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let rest: Vec<_> = words.collect();
    let size = match rest.as_slice() {
        [.., size, "byte(s)"] => size.parse().ok().filter(|&size| size <= SIZE_MAX)?,
        bytes => bytes_of(bytes)?,
    };
    Some(Said::Touch { is_instruction: true, write: false, address, size })
}

/// Length of the code that a disassembled line begins with: bytes on x86, words of four bytes elsewhere.
fn bytes_of(words: &[&str]) -> Option<u64> {
    let is_hexadecimal = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match words.first()?.len() {
        2 => Some(words.iter().take_while(|word| word.len() == 2).filter(is_hexadecimal).count() as u64),
        8 => words.first().filter(|word| is_hexadecimal(word)).map(|_| 4),
        _ => None,
    }
    .filter(|&bytes| bytes > 0)
}

fn said(record: &str) -> Option<Said> {
    if let Some(marker) = record.strip_prefix('<') {
        let exits = marker.strip_prefix("thread ").is_some_and(|rest| rest.ends_with(" exited>"));
        return Some(if exits { Said::Exit } else { Said::Marker });
    }
    if record.starts_with("0x") {
        return fetch_of_2021(record);
    }
    let (kind, rest) = record.split_once(' ')?;
    let (size, rest) = rest.trim_start().split_once(" byte(s) @ 0x")?;
    let (digits, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let size = size.parse().ok().filter(|&size| size <= SIZE_MAX)?;
    let address = u64::from_str_radix(digits, 16).ok()?;
    let touch = |is_instruction, write| Said::Touch { is_instruction, write, address, size };
    match kind {
        "ifetch" if rest.trim() == "non-fetched instruction" => Some(Said::Round),
        "ifetch" => Some(touch(true, false)),
        "non-fetched" => Some(Said::Round),
        "read" => Some(touch(false, false)),
        "write" => Some(touch(false, true)),
        "iflush" | "dflush" => Some(Said::Hint),
        _ if kind.starts_with("pref") => Some(Said::Hint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_view_tool() {
        let line = |instruction, tid, said| {
            Some(Line { thread: ThreadId { workload: 0, tid }, instruction: Some(instruction), said })
        };
        let touch = |instruction, tid, is_instruction, write, address, size| {
            line(instruction, tid, Said::Touch { is_instruction, write, address, size })
        };
        let unnumbered = |is_instruction, address, size| {
            let said = Said::Touch { is_instruction, write: false, address, size };
            Some(Line { thread: ThreadId { workload: 0, tid: 7 }, instruction: None, said })
        };
        // Lines of DynamoRIO's sample traces: https://github.com/DynamoRIO/drmemtrace_samples, README.
        let table = [
            (
                "       47743       37770:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 08       mov    0x08(%rsp)[8byte] -> %rbx",
                touch(37_770, 2_765_543, true, false, 0x40_4a7e, 5),
            ),
            (
                "       47744       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                touch(37_770, 2_765_543, false, false, 0x7fdf_64e2_adc8, 8),
            ),
            (
                "   1   0:  7 write       16 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                touch(0, 7, false, true, 0x7fdf_64e2_adc8, 16),
            ),
            (
                "       10663        8012:     2444839 <marker: timestamp 13334813807921548>",
                line(8012, 2_444_839, Said::Marker),
            ),
            ("   9   8:  7 <thread 7 exited>", line(8, 7, Said::Exit)),
            (
                "   9   8:  7 pref-r-L1    8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e",
                line(8, 7, Said::Hint),
            ),
            (
                "   9   8:  7 ifetch       2 byte(s) @ 0x0000000000404a7e non-fetched instruction",
                line(8, 7, Said::Round),
            ),
            ("   9   8:  W0.T7 non-fetched  2 byte(s) @ 0x0000000000404a7e f3 a4  rep movs", line(8, 7, Said::Round)),
            ("   9   8:  W0.T7 <thread W0.T7 exited>", line(8, 7, Said::Exit)),
            ("   101: T7 read         8 byte(s) @ 0x1 by PC 0x2", unnumbered(false, 1, 8)),
            ("   101: T7 ifetch 3 byte(s) @ 0x0000000000402680 48 8b 07  mov", unnumbered(true, 0x40_2680, 3)),
            ("   201: T7   0x7f000000152a  non-branch 5 byte(s)", unnumbered(true, 0x7f00_0000_152a, 5)),
            ("   201: T7   0x7f000000152a  indirect call 2 byte(s)", unnumbered(true, 0x7f00_0000_152a, 2)),
            (
                "   201: T7   0x0000000000402680  48 8b 07             mov    (%rdi) -> %rax",
                unnumbered(true, 0x40_2680, 3),
            ),
            ("T7   0x0000000000402680  48 8b 07             mov    $0x10: (%rdi)", unnumbered(true, 0x40_2680, 3)),
            ("T7   0x0000000000402680  a9bf7bfd   stp    %x29 %x30", unnumbered(true, 0x40_2680, 4)),
            ("T7     read  1 byte(s) @ 0x7f000000538c", unnumbered(false, 0x7f00_0000_538c, 1)),
            ("   201: T7   0x7f000000152a  non-branch 99999999 byte(s)", None),
            ("   201: T7   0x7f000000152a  zz", None),
            ("   201: T7   0x7f000000152a", None),
            ("   201: T7   0x", None),
            ("   201: T7        00 00 00 00", None),
            ("The program: 0x1", None),
            ("T", None),
            ("   9   8:  W0.7 <thread W0.T7 exited>", None),
            ("   9   8:  W.T7 <thread W0.T7 exited>", None),
            ("   9   x:  7 read   8 byte(s) @ 0x1", None),
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
