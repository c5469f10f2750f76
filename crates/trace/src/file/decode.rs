//! Decoders of the value encodings of Parquet pages: DELTA_BINARY_PACKED and RLE, as our writer makes them, and PLAIN and
//! dictionary, as other programs write them when they rewrite a trace.
//!
//! A page is handed in as its bytes followed by [`PAGE_SLACK_BYTES`] of anything, so that the inner loops may read past
//! the end of the values. Source: Apache Parquet format 2.10, `Encodings.md`.

use super::footer::Physical;
use super::unpack::{SLACK_BYTES, unpack_32};

/// Readable bytes that must follow the values of a page.
pub(crate) const PAGE_SLACK_BYTES: usize = 4 * 64 + SLACK_BYTES;

/// The flaw of a page.
pub(crate) type Flaw = &'static str;

const CUT_OFF: Flaw = "a page ends inside its values";

/// An unsigned integer of a column.
pub(crate) trait Word: Copy {
    /// Keeps the low bits: Parquet's arithmetic wraps at the width of the column.
    fn from_low(bits: u64) -> Self;
}
impl Word for u64 {
    #[inline]
    fn from_low(bits: u64) -> Self {
        bits
    }
}
impl Word for u32 {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "dropping the high bits is what it is for")]
    fn from_low(bits: u64) -> Self {
        bits as Self
    }
}

/// Decoder of the integers of one page.
#[derive(Debug)]
pub(crate) enum Integers {
    Delta(Box<Delta>),
    Plain { at: usize, end: usize, physical: Physical },
    Dictionary(Hybrid),
}

impl Integers {
    /// Fills `out` with the next values.
    pub(crate) fn read<W: Word>(&mut self, page: &[u8], dictionary: &[u64], out: &mut [W]) -> Result<(), Flaw> {
        match self {
            Self::Delta(delta) => delta.read(page, out),
            Self::Plain { at, end, physical } => {
                let width = if *physical == Physical::Int32 { 4 } else { 8 };
                let bytes = page[..*end].get(*at..*at + out.len() * width).ok_or(CUT_OFF)?;
                *at += bytes.len();
                for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(width)) {
                    *value = W::from_low(little_endian(bytes));
                }
                Ok(())
            }
            Self::Dictionary(hybrid) => {
                let mut missing = false;
                let mut done = 0;
                hybrid.read(page, out.len(), |index, repeat| {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    let value = dictionary.get(index).copied().unwrap_or_else(|| {
                        missing = true;
                        0
                    });
                    out[done..done + repeat].fill(W::from_low(value));
                    done += repeat;
                })?;
                if missing { Err("an index points outside the dictionary") } else { Ok(()) }
            }
        }
    }
}

/// Up to eight bytes, lowest first.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn varint(page: &[u8], at: &mut usize, end: usize) -> Result<u64, Flaw> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = *page[..end].get(*at).ok_or(CUT_OFF)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number in a page is longer than 64 bits")
}

fn zigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// DELTA_BINARY_PACKED: blocks of miniblocks of bit-packed differences.
#[derive(Debug)]
pub(crate) struct Delta {
    at: usize,
    end: usize,
    miniblocks: usize,
    groups_per_miniblock: usize,
    /// Values of the page not yet decoded, the first one included.
    left: usize,
    /// The value before the next one; at the start, the first value itself.
    previous: u64,
    first_is_due: bool,
    min_delta: u64,
    /// Offset of the bit widths of the block's next miniblocks.
    widths_at: usize,
    miniblocks_left: usize,
    width: u8,
    /// Groups of 32 values left in this miniblock.
    groups_left: usize,
    spare: [u64; 32],
    spare_at: usize,
    spare_len: usize,
}

impl Delta {
    /// Starts on the values at `page[at..end]`, which must be `count`.
    pub(crate) fn new(page: &[u8], mut at: usize, end: usize, count: usize) -> Result<Self, Flaw> {
        let block_len = varint(page, &mut at, end)?;
        let miniblocks = varint(page, &mut at, end)?;
        let total = varint(page, &mut at, end)?;
        let first = zigzag(varint(page, &mut at, end)?);
        if total != count as u64 {
            return Err("its page header and its values disagree on how many there are");
        }
        if miniblocks == 0 || miniblocks > 512 || block_len > 1 << 16 || block_len % (miniblocks * 32) != 0 {
            return Err("a block size that the format does not allow");
        }
        let groups = block_len / miniblocks / 32;
        if groups == 0 {
            return Err("a block size that the format does not allow");
        }
        let too_large = "a block size that the format does not allow";
        Ok(Self {
            at,
            end,
            miniblocks: usize::try_from(miniblocks).map_err(|_| too_large)?,
            groups_per_miniblock: usize::try_from(groups).map_err(|_| too_large)?,
            left: count,
            previous: first,
            first_is_due: true,
            min_delta: 0,
            widths_at: at,
            miniblocks_left: 0,
            width: 0,
            groups_left: 0,
            spare: [0; 32],
            spare_at: 0,
            spare_len: 0,
        })
    }

    fn read<W: Word>(&mut self, page: &[u8], mut out: &mut [W]) -> Result<(), Flaw> {
        if self.first_is_due && !out.is_empty() {
            self.first_is_due = false;
            self.left = self.left.checked_sub(1).ok_or(CUT_OFF)?;
            out[0] = W::from_low(self.previous);
            out = &mut out[1..];
        }
        while !out.is_empty() {
            if self.spare_at < self.spare_len {
                let taken = out.len().min(self.spare_len - self.spare_at);
                let spare = &self.spare[self.spare_at..self.spare_at + taken];
                let (here, rest) = out.split_at_mut(taken);
                here.iter_mut().zip(spare).for_each(|(value, &spare)| *value = W::from_low(spare));
                self.spare_at += taken;
                out = rest;
                continue;
            }
            if self.left == 0 {
                return Err(CUT_OFF);
            }
            if self.groups_left == 0 {
                self.next_miniblock(page)?;
            }
            if self.width == 0 {
                // Equal differences: no bits, and all requested groups at once.
                let len = self.left.min(self.groups_left * 32).min(out.len().next_multiple_of(32));
                let (here, rest) = out.split_at_mut(len.min(out.len()));
                self.equal_steps(len, here);
                out = rest;
            } else if out.len() >= 32 && self.left >= 32 {
                let (here, rest) = out.split_first_chunk_mut::<32>().expect("just checked");
                self.next_group(page, here)?;
                out = rest;
            } else {
                let mut values = [0u64; 32];
                let valid = self.left.min(32);
                self.next_group(page, &mut values)?;
                self.spare = values;
                (self.spare_at, self.spare_len) = (0, valid);
            }
        }
        Ok(())
    }

    fn next_miniblock(&mut self, page: &[u8]) -> Result<(), Flaw> {
        if self.miniblocks_left == 0 {
            self.min_delta = zigzag(varint(page, &mut self.at, self.end)?);
            self.widths_at = self.at;
            self.at += self.miniblocks;
            if self.at > self.end {
                return Err(CUT_OFF);
            }
            self.miniblocks_left = self.miniblocks;
        }
        self.width = page[self.widths_at];
        self.widths_at += 1;
        self.miniblocks_left -= 1;
        self.groups_left = self.groups_per_miniblock;
        if self.width > 64 { Err("a bit width above 64") } else { Ok(()) }
    }

    /// Decodes the next 32 values; fewer are valid when fewer are left.
    #[inline]
    fn next_group<W: Word>(&mut self, page: &[u8], out: &mut [W; 32]) -> Result<(), Flaw> {
        // The padding of the last group may be missing.
        let valid = self.left.min(32);
        if self.at + (valid * usize::from(self.width)).div_ceil(8) > self.end {
            return Err(CUT_OFF);
        }
        let mut deltas = [0u64; 32];
        unpack_32(self.width, &page[self.at..], &mut deltas);
        self.at += 4 * usize::from(self.width);
        self.groups_left -= 1;
        self.left -= valid;
        let min_delta = self.min_delta;
        let mut sum = self.previous;
        for (value, delta) in out.iter_mut().zip(deltas) {
            sum = sum.wrapping_add(delta.wrapping_add(min_delta));
            *value = W::from_low(sum);
        }
        self.previous = sum;
        Ok(())
    }

    /// Decodes `len` values of the current miniblock, whose differences are all `min_delta`; what exceeds `out` is kept.
    fn equal_steps<W: Word>(&mut self, len: usize, out: &mut [W]) {
        let (start, step) = (self.previous, self.min_delta);
        let at = |index: usize| start.wrapping_add(step.wrapping_mul(index as u64));
        if step == 0 {
            out.fill(W::from_low(start));
        } else {
            out.iter_mut().enumerate().for_each(|(index, value)| *value = W::from_low(at(index + 1)));
        }
        let kept = len - out.len();
        for index in 0..kept {
            self.spare[index] = at(out.len() + index + 1);
        }
        (self.spare_at, self.spare_len) = (0, kept);
        self.left -= len;
        self.groups_left -= len.div_ceil(32);
        self.previous = at(len);
    }
}

/// The RLE / bit-packing hybrid: booleans, levels, dictionary indices.
#[derive(Debug)]
pub(crate) struct Hybrid {
    at: usize,
    end: usize,
    width: u8,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Repeat {
        value: u64,
        left: usize,
    },
    /// `next` values of the packed run are already returned.
    Packed {
        start: usize,
        next: usize,
        len: usize,
    },
}

impl Hybrid {
    /// Starts on the runs at `page[at..end]` with values of `width` bits, at most 32.
    pub(crate) fn new(at: usize, end: usize, width: u8) -> Result<Self, Flaw> {
        if width > 32 {
            return Err("a bit width above 32");
        }
        Ok(Self { at, end, width, run: Run::Repeat { value: 0, left: 0 } })
    }

    fn next_run(&mut self, page: &[u8]) -> Result<(), Flaw> {
        let head = varint(page, &mut self.at, self.end)?;
        let len = usize::try_from(head >> 1).map_err(|_| CUT_OFF)?;
        if len == 0 {
            return Err("an empty run");
        }
        if head & 1 == 0 {
            let bytes = usize::from(self.width).div_ceil(8);
            let value = page[..self.end].get(self.at..self.at + bytes).ok_or(CUT_OFF)?;
            self.at += bytes;
            self.run = Run::Repeat { value: little_endian(value), left: len };
        } else {
            let bytes = len.checked_mul(usize::from(self.width)).ok_or(CUT_OFF)?;
            // Writers may leave out the padding of the last group.
            let present = bytes.min(self.end - self.at);
            let values = if self.width == 0 { len.checked_mul(8) } else { Some(present * 8 / usize::from(self.width)) };
            self.run = Run::Packed { start: self.at, next: 0, len: values.ok_or(CUT_OFF)? };
            self.at += present;
            if present == 0 && self.width > 0 {
                return Err(CUT_OFF);
            }
        }
        Ok(())
    }

    /// Calls `each` with the next values and their numbers of repeats, `count` in total.
    pub(crate) fn read(&mut self, page: &[u8], mut count: usize, mut each: impl FnMut(u64, usize)) -> Result<(), Flaw> {
        while count > 0 {
            match &mut self.run {
                Run::Repeat { left: 0, .. } => self.next_run(page)?,
                Run::Packed { next, len, .. } if next == len => self.next_run(page)?,
                Run::Repeat { value, left } => {
                    let taken = count.min(*left);
                    each(*value, taken);
                    *left -= taken;
                    count -= taken;
                }
                Run::Packed { start, next, len } => {
                    let width = usize::from(self.width);
                    let mask = (1u64 << self.width) - 1;
                    let taken = count.min(*len - *next);
                    for index in *next..*next + taken {
                        let bit = index * width;
                        let from = *start + bit / 8;
                        let word = page.get(from..from + 8).map_or(0, little_endian);
                        each(word >> (bit % 8) & mask, 1);
                    }
                    *next += taken;
                    count -= taken;
                }
            }
        }
        Ok(())
    }

    /// Fills `out` with the next values of width 1: whole bytes of packed runs at once.
    pub(crate) fn read_bools(&mut self, page: &[u8], mut out: &mut [bool]) -> Result<(), Flaw> {
        while !out.is_empty() {
            match &mut self.run {
                Run::Packed { start, next, len }
                    if self.width == 1 && *next % 8 == 0 && *len - *next >= 8 && out.len() >= 8 =>
                {
                    let bytes = (out.len().min(*len - *next)) / 8;
                    let from = *start + *next / 8;
                    let (here, rest) = out.split_at_mut(bytes * 8);
                    unpack_bits(page.get(from..from + bytes).ok_or(CUT_OFF)?, here);
                    *next += bytes * 8;
                    out = rest;
                }
                _ => {
                    // Up to the next byte boundary, or a whole repeated run.
                    let some = match self.run {
                        Run::Repeat { left, .. } if left > 0 => out.len().min(left),
                        Run::Packed { next, len, .. } if next < len => out.len().min(8 - next % 8).min(len - next),
                        _ => {
                            self.next_run(page)?;
                            continue;
                        }
                    };
                    let (here, rest) = out.split_at_mut(some);
                    let mut done = 0;
                    self.read(page, some, |value, repeat| {
                        here[done..done + repeat].fill(value != 0);
                        done += repeat;
                    })?;
                    out = rest;
                }
            }
        }
        Ok(())
    }
}

/// Eight bits, lowest first, as bytes of 0 or 1.
const BITS: [[bool; 8]; 256] = {
    let mut table = [[false; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit] = byte >> bit & 1 != 0;
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Spreads the bits of `packed`, lowest first, over `out`, which has eight places for each byte.
pub(crate) fn unpack_bits(packed: &[u8], out: &mut [bool]) {
    for (&byte, out) in packed.iter().zip(out.chunks_exact_mut(8)) {
        out.copy_from_slice(&BITS[usize::from(byte)]);
    }
}
