//! Plain text: one page number or address a line, optionally with `r` or `w` before or after it.
//!
//! Numbers with `0x` are addresses, others are page numbers, unless the option `unit` sets one for all; `radix` 16 reads
//! bare numbers as hexadecimal. Words are separated by spaces, tabs or commas; empty lines and lines with `#` are
//! skipped. Each line is one row. Options read: `unit`, `sector_bytes`, `radix`, `ns_per_request`.

use super::requests::{self, Object, Requests};
use super::times::Time;
use super::{IdUnit, ImportOptions, Importer, Input};
use crate::{Result, TraceWriter};

pub(super) const IMPORTER: Importer = Importer {
    name: "text",
    about: "one page number (decimal) or address (0x…) a line, optionally with r or w",
    has_sizes: false,
    has_clock: false,
    detect: |_, head| {
        let first = head.split(|&byte| byte == b'\n').find(|line| !is_comment(line));
        first.and_then(|line| std::str::from_utf8(line).ok()).is_some_and(|line| parse(line.trim_end(), 10).is_ok())
    },
    meta: |_| requests::meta("text"),
    convert,
};

fn convert(input: &mut Input, options: &ImportOptions, writer: &mut TraceWriter) -> Result<()> {
    let mut requests = Requests::new(options);
    let mut first_is_address = None;
    while let Some((_, line)) = input.next_line()? {
        if is_comment(line) {
            continue;
        }
        let parsed = match std::str::from_utf8(line) {
            Ok(text) => parse(text, options.radix),
            Err(_) => Err("not text".to_owned()),
        };
        let (number, prefixed, write) = parsed.map_err(|what| input.bad_line(what))?;
        let by_looks = options.unit == IdUnit::ByLooks;
        if by_looks && *first_is_address.get_or_insert(prefixed) != prefixed {
            let what = "numbers with and without `0x` are mixed; say what they are with --unit pages|addresses|sectors";
            return Err(input.bad_line(what));
        }
        let object = if by_looks && prefixed { Object::at(number, 0) } else { requests.place(number, 0) };
        let object = object.map_err(|what| input.bad_line(what))?;
        let time = Time::whole(requests.count());
        requests.push(writer, object, write, time)?;
    }
    requests.finish(writer)
}

fn is_comment(line: &[u8]) -> bool {
    line.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|&byte| byte == b'#')
}

/// Number, whether it had `0x`, and whether it is a write.
fn parse(line: &str, radix: u32) -> Result<(u64, bool, bool), String> {
    let mut number = None;
    let mut write = None;
    for word in line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty()) {
        let taken = match (operation(word), number_of(word, radix)) {
            (_, Some(value)) if number.is_none() => number.replace(value).is_none(),
            (Some(is_write), _) => write.replace(is_write).is_none(),
            _ => false,
        };
        if !taken {
            return Err(format!("`{word}` is not understood; a line is a number and optionally r or w"));
        }
    }
    let (value, prefixed) = number.ok_or("no number; a line is a number and optionally r or w")?;
    Ok((value, prefixed, write.unwrap_or(false)))
}

/// A number in `radix`, or with `0x` in 16; also returns whether it had `0x`.
pub(super) fn number_of(word: &str, radix: u32) -> Option<(u64, bool)> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| (value, true)),
        None if word.starts_with(['+', '-']) => None,
        None => u64::from_str_radix(word, radix).ok().map(|value| (value, false)),
    }
}

/// Whether a word for an operation is a write.
pub(super) fn operation(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" | "l" | "load" | "get" | "gets" | "i" | "ifetch" => Some(false),
        "w" | "write" | "s" | "store" | "m" | "modify" | "set" | "put" | "add" | "replace" | "cas" | "append"
        | "prepend" | "delete" | "incr" | "decr" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_a_line() {
        let table = [
            ("17", Ok((17, false, false))),
            ("0x7f00 w", Ok((0x7f00, true, true))),
            ("R 12", Ok((12, false, false))),
            ("write,12", Ok((12, false, true))),
            ("  9\t w ", Ok((9, false, true))),
            ("", Err(())),
            ("w", Err(())),
            ("-3", Err(())),
            ("1 2", Err(())),
            ("18446744073709551616", Err(())),
        ];
        for (line, expected) in table {
            assert_eq!(parse(line, 10).map_err(|_| ()), expected, "{line:?}");
        }
        assert_eq!(parse("ff", 16), Ok((255, false, false)));
    }
}
