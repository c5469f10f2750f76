//! `memory.reclaim`: reclaim on request, in batches (docs/spec/pressure.md#s6-4).

use std::str::FromStr;

/// Swappiness value that means "anonymous pages only"; written `max`.
pub const SWAPPINESS_ANON_ONLY: u32 = 201;
const SWAPPINESS_MAX: u32 = 200;
/// Least pages that a batch reclaims.
const BATCH_MIN: u64 = 32;
/// Fruitless batches before giving up.
const RETRIES: u32 = 16;

/// A write to `memory.reclaim`: `bytes [swappiness=N|max]`. Bytes may carry the kernel's suffixes K to E.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProactiveRequest {
    /// Pages asked for; a tail below one page is cut off.
    pub pages: u64,
    /// 0..=200, or [`SWAPPINESS_ANON_ONLY`]; `None` takes the system's.
    pub swappiness: Option<u32>,
}

/// Why a write to `memory.reclaim` is refused. The kernel says `EINVAL`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProactiveError {
    /// The amount is no number of bytes.
    #[error("memory.reclaim: `{0}` is not a number of bytes; allowed: digits and one of K, M, G, T, P, E")]
    Amount(String),
    /// The swappiness is no number, or too large.
    #[error("memory.reclaim: swappiness `{0}`; allowed: 0..=200 or max")]
    Swappiness(String),
    /// A word that is no known option.
    #[error("memory.reclaim: unknown option `{0}`; allowed: swappiness=N")]
    Option(String),
}

impl FromStr for ProactiveRequest {
    type Err = ProactiveError;
    fn from_str(text: &str) -> Result<Self, ProactiveError> {
        let mut words = text.split_whitespace();
        let amount = words.next().unwrap_or("");
        let bytes = parse_bytes(amount).ok_or_else(|| ProactiveError::Amount(amount.to_owned()))?;
        let mut swappiness = None;
        for word in words {
            let value = word.strip_prefix("swappiness=").ok_or_else(|| ProactiveError::Option(word.to_owned()))?;
            swappiness = Some(match value {
                "max" => SWAPPINESS_ANON_ONLY,
                _ => value
                    .parse()
                    .ok()
                    .filter(|&n| n <= SWAPPINESS_MAX)
                    .ok_or_else(|| ProactiveError::Swappiness(value.to_owned()))?,
            });
        }
        Ok(Self { pages: bytes >> isotherm_units::PAGE_SHIFT, swappiness })
    }
}

/// Digits and at most one binary suffix, as the kernel's own parser takes them.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        "P" | "p" => 50,
        "E" | "e" => 60,
        _ => return None,
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProactiveStep {
    /// Run limit reclaim for this number of pages, then report to [`ProactiveReclaim::record`].
    Batch(u64),
    /// All that was asked for is reclaimed.
    Done,
    /// No more can be reclaimed: `EAGAIN`.
    TryAgain,
}

/// The progress of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProactiveReclaim {
    total: u64,
    reclaimed: u64,
    retries_left: u32,
}

impl ProactiveReclaim {
    /// Begins to reclaim `pages`.
    pub const fn start(pages: u64) -> (Self, ProactiveStep) {
        let reclaim = Self { total: pages, reclaimed: 0, retries_left: RETRIES };
        (reclaim, reclaim.step())
    }

    /// Takes the number of pages that the last batch reclaimed, which may exceed the request.
    pub const fn record(&mut self, pages: u64) -> ProactiveStep {
        if pages == 0 {
            match self.retries_left.checked_sub(1) {
                Some(left) => self.retries_left = left,
                None => return ProactiveStep::TryAgain,
            }
        }
        self.reclaimed = self.reclaimed.saturating_add(pages);
        self.step()
    }

    /// Pages reclaimed so far.
    pub const fn reclaimed(&self) -> u64 {
        self.reclaimed
    }

    const fn step(&self) -> ProactiveStep {
        if self.reclaimed >= self.total {
            return ProactiveStep::Done;
        }
        let quarter = (self.total - self.reclaimed) / 4;
        ProactiveStep::Batch(if quarter > BATCH_MIN { quarter } else { BATCH_MIN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn batches_of_one_gib() {
        // docs/spec/pressure.md#s6-4: each batch is a quarter of what is left, if each is achieved exactly.
        let (mut reclaim, mut step) = ProactiveReclaim::start(262_144);
        for batch in [65_536, 49_152, 36_864, 27_648] {
            assert_eq!(step, ProactiveStep::Batch(batch));
            step = reclaim.record(batch);
        }
    }

    #[test]
    fn a_request_ends_when_reached_or_after_seventeen_empty_batches() {
        let (mut reclaim, step) = ProactiveReclaim::start(40);
        assert_eq!(step, ProactiveStep::Batch(32));
        assert_eq!(reclaim.record(64), ProactiveStep::Done, "overshoot is fine");
        let (mut reclaim, _) = ProactiveReclaim::start(40);
        for _ in 0..16 {
            assert_eq!(reclaim.record(0), ProactiveStep::Batch(32));
        }
        assert_eq!((reclaim.record(0), reclaim.reclaimed()), (ProactiveStep::TryAgain, 0));
        assert_eq!(ProactiveReclaim::start(0).1, ProactiveStep::Done);
    }

    #[test]
    fn requests_are_read_as_the_kernel_does() {
        let read = |text: &str| text.parse::<ProactiveRequest>();
        assert_eq!(read("1G\n"), Ok(ProactiveRequest { pages: 262_144, swappiness: None }));
        assert_eq!(read("8191 swappiness=0"), Ok(ProactiveRequest { pages: 1, swappiness: Some(0) }));
        assert_eq!(read("0 swappiness=max").unwrap().swappiness, Some(SWAPPINESS_ANON_ONLY));
        let errors = ["", "max", "1GB", "-1", "+1", "99E", "1 swappiness=201", "1 swappiness=", "1 2"];
        for text in errors {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert_eq!(
            read("1M swappiness=500").unwrap_err().to_string(),
            "memory.reclaim: swappiness `500`; allowed: 0..=200 or max"
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "\\PC{0,20}") {
            let _ = text.parse::<ProactiveRequest>();
        }
    }
}
