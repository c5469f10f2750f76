//! Text of `perf script`: samples with a data address.
//!
//! Memory samples (`perf mem record`, `perf record -d`) and page faults (`perf record -e page-faults -c 1 -d`, or the tracepoints
//! `exceptions:page_fault_user`). The fields are those of `perf script -F comm,pid,tid,time,event,addr,data_src`; others may be
//! present too. Each sample is one row. A sample is a store by its data source, its error code, or `store` in the event's name;
//! everything else is a read. Time is the clock of the samples, from the first one on: sleeps count as running. Lines of another
//! format (call chains, `PERF_RECORD_…`) are skipped and counted. Samples of kernel addresses, or without an address, are dropped
//! and counted.
//!
//! Formats checked with perf 6.1. Options read: none.

use super::samples::{Sample, Samples};
use super::{ImportOptions, Importer, Input};
use crate::{Result, TraceError, TraceMeta, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "perf-samples",
    about: "text of `perf script -F comm,pid,tid,time,event,addr,data_src`: memory samples, page faults",
    has_sizes: false,
    has_clock: true,
    detect: |_, head| {
        let lines = head.split(|&byte| byte == b'\n').take(100);
        lines.filter_map(|line| parse(std::str::from_utf8(line).ok()?)).any(|sample| sample.address.is_some())
    },
    meta: |_| TraceMeta { recorder: "perf script".to_owned(), epoch_ns: 0, ..TraceMeta::default() },
    convert,
};

/// The command that prints the required fields.
const COMMAND: &str = "perf script -F comm,pid,tid,time,event,addr,data_src";

/// A sample as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Printed<'a> {
    comm: &'a str,
    /// `None` if only the thread's id is printed.
    pid: Option<u32>,
    tid: u32,
    time_ns: u64,
    event: &'a str,
    /// `None` if there is none; 0 if perf did not know it.
    address: Option<u64>,
    write: bool,
}

fn convert(input: &mut Input, _: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let mut samples = Samples::default();
    let mut faults = 0;
    let mut only_tid = None;
    while let Some((_, line)) = input.next_line()? {
        let line = line.to_vec();
        if !input.line_has_end() {
            samples.is_cut = true;
            break;
        }
        let Some(printed) = std::str::from_utf8(&line).ok().and_then(parse) else {
            samples.other_lines += u64::from(!line.is_empty());
            continue;
        };
        faults += u64::from(printed.event.contains("fault"));
        let Some(address) = samples.user_address(printed.address) else { continue };
        let Printed { pid, tid, time_ns, write, comm: name, .. } = printed;
        // Without a pid, a thread's address space is known only if there is no other thread.
        if pid.is_none() && *only_tid.get_or_insert(tid) != tid {
            let what =
                format!("samples of several threads do not say of which process they are. Print them with: {COMMAND}");
            return Err(input.bad_line(what));
        }
        samples.push(writer, Sample { pid: pid.unwrap_or(tid), tid, name, time_ns, address, write })?;
    }
    if samples.count > 0 && samples.without_address == samples.count {
        return Err(TraceError::Unsupported {
            path: input.path().to_owned(),
            what: format!(
                "its {} samples carry no address of data. Record with `perf mem record` or `perf record -d`, and print with: \
                 {COMMAND}",
                samples.count
            ),
        });
    }
    if samples.count > faults {
        writer.note(
            "samples: each row is one access out of many, and most accesses are missing; footprint, working sets and misses \
             are lower bounds",
        )?;
    }
    if faults > 0 {
        writer.note(
            "page faults: each row is an access to a page that was not mapped in; later accesses to the page are missing",
        )?;
    }
    samples.finish(writer)
}

/// `comm pid/tid [cpu] time: period event: address …`; `None`: another kind of line.
fn parse(line: &str) -> Option<Printed<'_>> {
    // The time is the first word that is a number with a fraction and ends in a colon.
    let (time_at, time_word) = words(line).find(|(_, word)| time_of(word).is_some())?;
    let before = line[..time_at].trim_end();
    let before = match before.rsplit_once(char::is_whitespace) {
        Some((rest, cpu)) if cpu.starts_with('[') => rest.trim_end(),
        _ => before,
    };
    let (comm, ids) = before.rsplit_once(char::is_whitespace)?;
    let (pid, tid) = match ids.split_once('/') {
        Some((pid, tid)) => (Some(pid.parse().ok()?), tid.parse().ok()?),
        None => (None, ids.parse().ok()?),
    };
    let after = &line[time_at + time_word.len()..];
    let mut rest = words(after);
    let (mut event_at, mut event) = rest.next()?;
    if event.bytes().all(|byte| byte.is_ascii_digit()) {
        (event_at, event) = rest.next()?;
    }
    let name = event.strip_suffix(':')?;
    let fields = &after[event_at + event.len()..];
    let address = address(fields);
    let write = is_write(name, fields);
    Some(Printed { comm: comm.trim(), pid, tid, time_ns: time_of(time_word)?, event: name, address, write })
}

/// The words of a line and their offsets.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_ascii_whitespace().map(move |word| (word.as_ptr().addr() - line.as_ptr().addr(), word))
}

/// Parses `123.456789:`, to nanoseconds.
fn time_of(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<u64>().ok()? * scale)
}

/// The data address. A lone number followed by a symbol is the address of the instruction: perf prints it if no address was recorded or
/// requested.
fn address(fields: &str) -> Option<u64> {
    let mut words = fields.split_ascii_whitespace();
    if let Some(named) = words.clone().find_map(|word| word.strip_prefix("address=")) {
        return hexadecimal(named.strip_prefix("0x").unwrap_or(named));
    }
    let address = hexadecimal(words.next()?)?;
    let mut rest = words.peekable();
    let is_instruction =
        rest.peek().is_some() && !rest.any(|word| word.len() >= NUMBER_DIGITS_MIN && hexadecimal(word).is_some());
    (!is_instruction).then_some(address)
}

/// Fewest digits of an address: a shorter word may be a symbol's name.
const NUMBER_DIGITS_MIN: usize = 6;

fn hexadecimal(word: &str) -> Option<u64> {
    let is_number = !word.starts_with(['+', '-']);
    u64::from_str_radix(word, 16).ok().filter(|_| is_number)
}

fn is_write(event: &str, fields: &str) -> bool {
    if let Some((_, source)) = fields.split_once("|OP ") {
        let operation = source.split('|').next().unwrap_or_default();
        if operation.contains("STORE") || operation.contains("LOAD") {
            return operation.contains("STORE");
        }
    }
    if let Some((_, code)) = fields.split_once("error_code=") {
        let digits = code.split_ascii_whitespace().next().unwrap_or_default();
        // Bit 1: the access was a write. Source: Linux `arch/x86/include/asm/trap_pf.h`, `X86_PF_WRITE`.
        return hexadecimal(digits.strip_prefix("0x").unwrap_or(digits)).is_some_and(|code| code & 2 != 0);
    }
    event.to_ascii_lowercase().contains("store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_script() {
        // (line, pid, tid, time, address, write). The first seven are perf 6.1's own. The eighth, with the fields of `-d -W`, is
        // from linux-perf-users: T. Falcon, January 2025, on fields of `perf script` for core PMUs of hybrid processors.
        type Line = (&'static str, Option<u32>, u32, u64, Option<u64>, bool);
        let table: [Line; 11] = [
            (
                "         python3 26297/26297 36786.786235: page-faults:     55ac8d132424 ",
                Some(26297),
                26297,
                36_786_786_235_000,
                Some(0x55ac_8d13_2424),
                false,
            ),
            (
                "         python3 26297/26298 36786.786235: page-faults:     55ac8d132424      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A",
                Some(26297),
                26298,
                36_786_786_235_000,
                Some(0x55ac_8d13_2424),
                false,
            ),
            (
                "  a b 12 [001] 1.5:  1 page-faults:     7fca6f257110 dl_close_state.2+0x0 (/usr/lib/ld.so) ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])",
                None,
                12,
                1_500_000_000,
                Some(0x7fca_6f25_7110),
                false,
            ),
            (
                "         python3 26297 36786.786235:          1 page-faults:  ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])",
                None,
                26297,
                36_786_786_235_000,
                None,
                false,
            ),
            (
                "  true  4633 [001] 37152.972835: exceptions:page_fault_user: address=0x7f1069afcb70 ip=0x7f1069afcb70 error_code=0x14",
                None,
                4633,
                37_152_972_835_000,
                Some(0x7f10_69af_cb70),
                false,
            ),
            (
                "  true  4633 [001] 37152.972844: exceptions:page_fault_user: address=0x7f1069b15e06 ip=0x7f1069afd7ad error_code=0x6",
                None,
                4633,
                37_152_972_844_000,
                Some(0x7f10_69b1_5e06),
                true,
            ),
            ("true 4639/4639 37154.330720: page-faults: ", Some(4639), 4639, 37_154_330_720_000, None, false),
            (
                "chromium-browse   46572 [002] 544966.882384:      10000 cpu_core/MEM_UOPS_RETIRED.LOAD_LATENCY/: 7ffdf1391b0c     10268100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK    N/A    5   7    0   7fad7c47425d [unknown] (/usr/lib64/libglib-2.0.so)",
                None,
                46572,
                544_966_882_384_000,
                Some(0x7ffd_f139_1b0c),
                false,
            ),
            (
                "x 1/1 0.000000001: cpu/mem-stores/P: 7f00 5080144 |OP STORE|LVL L1 hit",
                Some(1),
                1,
                1,
                Some(0x7f00),
                true,
            ),
            ("x 1/1 0.1: cpu/mem-stores/P: 7f00", Some(1), 1, 100_000_000, Some(0x7f00), true),
            ("x 1/1 0.1: page-faults: 0", Some(1), 1, 100_000_000, Some(0), false),
        ];
        for (line, pid, tid, time_ns, address, write) in table {
            let sample = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((sample.pid, sample.tid, sample.time_ns), (pid, tid, time_ns), "{line}");
            assert_eq!((sample.address, sample.write), (address, write), "{line}");
        }
        assert_eq!(parse("  a b 12 [001] 1.5:  1 page-faults: 7").unwrap().comm, "a b");
        for other in [
            "",
            "\tffffffff8175336a elf_load",
            " python3 26297 36786.786175: PERF_RECORD_COMM exec: python3:26297/26297",
            "x 1/1 0.1:",
            "x 1/1 99999999999999999999.1: page-faults: 7",
            "x 1/1 1.0000000001: page-faults: 7",
            "x y/1 1.0: page-faults: 7",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
