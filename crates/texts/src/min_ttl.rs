//! Thrashing prevention: `/sys/kernel/mm/lru_gen/min_ttl_ms` (docs/spec/mglru.md#s10).
//!
//! The switch protects no page. While the node's daemon reclaims and everything that it could evict is younger than the time to
//! live, it has a process killed: the memory used within that time does not fit.

use thiserror::Error;

/// Largest value: the kernel's 32 bits.
const MAX_MS: u64 = u32::MAX as u64;

/// A value of `min_ttl_ms`; 0 is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinTtl {
    ms: u64,
}

/// A value of `min_ttl_ms` that the kernel refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("min_ttl_ms is `{got}`; allowed: 0 (off) to {MAX_MS} milliseconds")]
pub struct MinTtlError {
    got: String,
}

/// An unsigned number as C writes it: `0x` hexadecimal, `0` octal, else decimal. Without a sign.
pub fn parse_unsigned(text: &str) -> Option<u64> {
    let is_plain = |digits: &str| !digits.is_empty() && !digits.starts_with('+');
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    is_plain(digits).then(|| u64::from_str_radix(digits, radix).ok())?
}

impl MinTtl {
    /// A value of this number of milliseconds.
    ///
    /// # Errors
    /// More than fit 32 bits.
    pub fn from_ms(ms: u64) -> Result<Self, MinTtlError> {
        if ms > MAX_MS { Err(MinTtlError { got: ms.to_string() }) } else { Ok(Self { ms }) }
    }

    /// The value as the kernel reads it: an unsigned number, decimal, or octal and hexadecimal as in C.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, MinTtlError> {
        let word = text.trim();
        let refuse = || MinTtlError { got: word.chars().take(40).collect() };
        let ms = parse_unsigned(word).filter(|&ms| ms <= MAX_MS);
        ms.map(|ms| Self { ms }).ok_or_else(refuse)
    }

    /// The value in milliseconds; 0 is off.
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// The text of the file.
    pub fn text(self) -> String {
        format!("{}\n", self.ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_as_the_kernel_does() {
        assert_eq!(MinTtl::parse("1000\n").map(MinTtl::text), Ok("1000\n".to_owned()));
        assert_eq!(MinTtl::parse(" 0x10\n").map(MinTtl::ms), Ok(16));
        assert_eq!(MinTtl::parse("010").map(MinTtl::ms), Ok(8));
        for text in ["", "-1", "+1", "0x", "0x+1", "08", "1s", "é", "4294967296", "99999999999999999999999"] {
            let error = MinTtl::parse(text).expect_err(text).to_string();
            assert!(
                error.starts_with("min_ttl_ms is `") && error.contains("allowed: 0 (off) to 4294967295"),
                "{error}"
            );
        }
    }
}
