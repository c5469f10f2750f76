//! Inputs: number `n` of a target, from its corpus.

use isotherm_units::hash::fnv1a;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Longest input, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// Most changes to one input.
const CHANGES_MAX: u32 = 8;

/// Numbers that break parsers, as text.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "+1",
    "1",
    "00000000000000000000000000000000001",
    "127",
    "255",
    "256",
    "4095",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "1000000000000",
    "4503599627370495",
    "4503599627370496",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999999",
    "0x0",
    "0xffffffffffffffff",
    "0x10000000000000000",
    "7fffffffffff",
    "ffffffffffffffff",
    "0.1",
    "1.5",
    "1e3",
    "1e400",
    "-1e400",
    "1e-400",
    "0.000000000000000000000000000000000001",
    "NaN",
    "inf",
    "18446744073709.551615",
    "100%",
    "16EiB",
    "16777216TiB",
];

/// Text that every format may meet.
const WORDS: &[&str] = &[
    " ",
    "\t",
    "\n",
    "\r\n",
    "\n\n",
    "\0",
    "\"",
    "'",
    "`",
    "\\",
    "/",
    "//",
    "..",
    ":",
    ",",
    ";",
    "=",
    "#",
    "%",
    "*",
    "?",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "(",
    ")",
    "-",
    "+",
    ".",
    "é",
    "µ",
    "→",
    "\u{2028}",
    "\u{feff}",
    "\u{1f525}",
    "\u{fffd}",
    "true",
    "null",
    "max",
    "[]",
    "{}",
    "\"\"",
];

/// Input `n` of a target. The corpus comes first, unchanged; then changed entries.
///
/// # Panics
/// When the corpus is empty.
pub fn input(seed: u64, target: &str, words: &[&str], corpus: &[Vec<u8>], n: u64) -> Vec<u8> {
    if let Some(entry) = usize::try_from(n).ok().and_then(|n| corpus.get(n)) {
        return entry.clone();
    }
    let mut mutator = Mutator { random: Xoshiro256PlusPlus::seed_from_u64(mixed(seed, target, n)), words, corpus };
    mutator.make()
}

/// FNV-1a over all that determines an input.
fn mixed(seed: u64, target: &str, n: u64) -> u64 {
    let (seed, n) = (seed.to_le_bytes(), n.to_le_bytes());
    fnv1a(seed.into_iter().chain(target.bytes()).chain(n))
}

struct Mutator<'a> {
    random: Xoshiro256PlusPlus,
    words: &'a [&'a str],
    corpus: &'a [Vec<u8>],
}

impl Mutator<'_> {
    /// A number below `end`, which is above 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.next_u64() % end as u64).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn make(&mut self) -> Vec<u8> {
        if self.one_in(100) {
            return self.without_corpus();
        }
        let corpus = self.corpus;
        let mut bytes = corpus[self.below(corpus.len())].clone();
        // Few changes are the most usual: many at once are refused early.
        let changes = 1 + self.random.next_u64().trailing_ones().min(CHANGES_MAX - 1);
        for _ in 0..changes {
            self.change(&mut bytes);
            bytes.truncate(BYTES_MAX);
        }
        bytes
    }

    /// Without the corpus: nothing, noise, words, one long line.
    fn without_corpus(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => Vec::new(),
            1 => (0..self.below(64)).map(|_| self.byte()).collect(),
            2 => {
                let mut bytes = Vec::new();
                for _ in 0..self.below(32) {
                    bytes.extend_from_slice(self.word());
                }
                bytes
            }
            _ => {
                let (word, times) = (self.word().to_owned(), self.times());
                word.repeat(times.min(BYTES_MAX / word.len().max(1)))
            }
        }
    }

    fn byte(&mut self) -> u8 {
        self.random.next_u64().to_le_bytes()[0]
    }

    /// How often something is repeated: mostly a little, seldom very often.
    fn times(&mut self) -> usize {
        if self.one_in(16) { 1 << (8 + self.below(11)) } else { 1 + self.below(256) }
    }

    /// A word of any format.
    fn word(&mut self) -> &'static [u8] {
        let lists = [NUMBERS, WORDS];
        let list = lists[self.below(2)];
        list[self.below(list.len())].as_bytes()
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        match self.below(18) {
            0 => self.flip(bytes),
            1 => {
                let byte = self.byte();
                if let Some(place) = self.place_in(bytes) {
                    bytes[place] = byte;
                }
            }
            2 => {
                let end = self.below(bytes.len() + 1);
                bytes.truncate(end);
            }
            3 => {
                let range = self.range(bytes);
                bytes.drain(range);
            }
            4 => self.copy_within(bytes),
            5 => self.splice(bytes),
            6 | 7 => self.insert_word(bytes),
            8 => self.overwrite_with_word(bytes),
            9 => self.overwrite_integer(bytes),
            10..=12 => self.replace_number(bytes),
            13 => self.replace_token(bytes),
            14 | 15 => self.change_lines(bytes),
            16 => {
                let at = self.below(bytes.len() + 1);
                let noise: Vec<u8> = (0..=self.below(16)).map(|_| self.byte()).collect();
                bytes.splice(at..at, noise);
            }
            _ => self.blow_up(bytes),
        }
    }

    fn place_in(&mut self, bytes: &[u8]) -> Option<usize> {
        if bytes.is_empty() { None } else { Some(self.below(bytes.len())) }
    }

    /// A range, mostly short, within the bytes.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(bytes.len() + 1);
        let most = if self.one_in(4) { bytes.len() - start } else { (bytes.len() - start).min(32) };
        start..start + self.below(most + 1)
    }

    fn flip(&mut self, bytes: &mut [u8]) {
        if let Some(place) = self.place_in(bytes) {
            bytes[place] ^= 1 << self.below(8);
        }
    }

    fn copy_within(&mut self, bytes: &mut Vec<u8>) {
        let range = self.range(bytes);
        let chunk = bytes[range].to_vec();
        let at = self.below(bytes.len() + 1);
        bytes.splice(at..at, chunk);
    }

    /// The beginning of one entry and the end of another.
    fn splice(&mut self, bytes: &mut Vec<u8>) {
        let corpus = self.corpus;
        let other = &corpus[self.below(corpus.len())];
        let from = self.below(other.len() + 1);
        let at = self.below(bytes.len() + 1);
        bytes.truncate(at);
        bytes.extend_from_slice(&other[from..]);
    }

    /// A word of the format, or of any.
    fn any_word(&mut self) -> Vec<u8> {
        let words = self.words;
        if !words.is_empty() && self.one_in(2) {
            words[self.below(words.len())].as_bytes().to_vec()
        } else {
            self.word().to_vec()
        }
    }

    fn insert_word(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let word = self.any_word();
        bytes.splice(at..at, word);
    }

    fn overwrite_with_word(&mut self, bytes: &mut [u8]) {
        let word = self.any_word();
        if let Some(at) = self.place_in(bytes) {
            let len = word.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&word[..len]);
        }
    }

    /// A number of 1, 2, 4 or 8 bytes, near the limits of such numbers.
    fn overwrite_integer(&mut self, bytes: &mut [u8]) {
        const ENDS: [u64; 10] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff_ffff, 0x7fff_ffff, u64::MAX, 1 << 63];
        let number = ENDS[self.below(ENDS.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1);
        let width = 1 << self.below(4);
        let mut number = number.to_le_bytes()[..width].to_vec();
        if self.one_in(2) {
            number.reverse();
        }
        if bytes.len() >= width {
            let at = self.below(bytes.len() - width + 1);
            bytes[at..at + width].copy_from_slice(&number);
        }
    }

    /// A run of digits becomes another number.
    fn replace_number(&mut self, bytes: &mut Vec<u8>) {
        if let Some(range) = self.run_of(bytes, |byte| byte.is_ascii_digit()) {
            let number = NUMBERS[self.below(NUMBERS.len())];
            bytes.splice(range, number.bytes());
        }
    }

    /// A run of letters and digits becomes another word.
    fn replace_token(&mut self, bytes: &mut Vec<u8>) {
        if let Some(range) = self.run_of(bytes, |byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let word = self.any_word();
            bytes.splice(range, word);
        }
    }

    /// The first run of such bytes at or after a random place.
    fn run_of(&mut self, bytes: &[u8], is_in: fn(u8) -> bool) -> Option<std::ops::Range<usize>> {
        let from = self.place_in(bytes)?;
        let start = from + bytes[from..].iter().position(|&byte| is_in(byte))?;
        let len = bytes[start..].iter().position(|&byte| !is_in(byte)).unwrap_or(bytes.len() - start);
        Some(start..start + len)
    }

    /// A line is left out, doubled, swapped with another, or joined with the next.
    fn change_lines(&mut self, bytes: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        if lines.is_empty() {
            return;
        }
        let (one, other) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(4) {
            0 => drop(lines.remove(one)),
            1 => lines.insert(other, lines[one]),
            2 => lines.swap(one, other),
            _ => lines[one] = lines[one].strip_suffix(b"\n").unwrap_or(lines[one]),
        }
        *bytes = lines.concat();
    }

    /// A part, a line or a word many times over: deep nesting, long lines, many rows.
    fn blow_up(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let chunk = match self.below(3) {
            0 => self.any_word(),
            1 => {
                let range = self.range(bytes);
                bytes[range].to_vec()
            }
            _ => {
                let start = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
                let end = bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |next| at + next + 1);
                bytes[start..end].to_vec()
            }
        };
        let room = BYTES_MAX.saturating_sub(bytes.len()) / chunk.len().max(1);
        let times = self.times().min(room);
        bytes.splice(at..at, chunk.repeat(times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Vec<Vec<u8>> {
        vec![b"size = 12 MiB\ntime = 3 s\n".to_vec(), b"[1, 2, 3]\n".to_vec()]
    }

    #[test]
    fn equal_numbers_give_equal_inputs_and_the_corpus_comes_first() {
        let corpus = corpus();
        let make = |seed, n| input(seed, "x", &["MiB"], &corpus, n);
        assert_eq!(make(1, 0), corpus[0]);
        assert_eq!(make(1, 1), corpus[1]);
        for n in 2..500 {
            assert_eq!(make(1, n), make(1, n), "input {n}");
        }
        let differ = (2..500).filter(|&n| make(1, n) != make(2, n)).count();
        assert!(differ > 450, "only {differ} inputs follow from the seed");
        assert_ne!(input(1, "y", &[], &corpus, 7), input(1, "x", &[], &corpus, 7));
    }

    #[test]
    fn inputs_vary_in_every_way_that_is_promised_and_stay_bounded() {
        let corpus = corpus();
        let all: Vec<Vec<u8>> = (2..20_000).map(|n| input(3, "x", &["FORMAT"], &corpus, n)).collect();
        assert!(all.iter().all(|bytes| bytes.len() <= BYTES_MAX));
        assert!(all.iter().any(Vec::is_empty));
        assert!(all.iter().any(|bytes| bytes.len() > 100_000));
        let has = |what: &[u8]| all.iter().any(|bytes| bytes.windows(what.len()).any(|window| window == what));
        assert!(has(b"FORMAT") && has(b"18446744073709551615 MiB") && has("é".as_bytes()) && has(b"[[[[[["));
        assert!(all.iter().any(|bytes| std::str::from_utf8(bytes).is_err()));
        assert!(all.iter().any(|bytes| bytes.starts_with(b"size") && bytes.ends_with(b"3]\n")), "no splice");
        let distinct: std::collections::BTreeSet<&Vec<u8>> = all.iter().collect();
        assert!(distinct.len() > 10_000, "only {} are distinct", distinct.len());
    }
}
