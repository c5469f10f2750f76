//! The traces of the differential test: small ones computed only with integers, and one real recording.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use isotherm_trace::{RowBatch, TraceReader};
use isotherm_units::random::Random;

/// A trace as a cache simulator sees it: one page per request.
pub(crate) struct Requests {
    /// Names the trace in the golden file.
    pub(crate) name: &'static str,
    /// The page of each request, below [`Requests::span`].
    pub(crate) pages: Vec<u64>,
}

const REQUESTS: usize = 30_000;

impl Requests {
    /// All traces, sorted by name.
    pub(crate) fn all() -> Vec<Self> {
        vec![Self::loop_and_noise(), Self::scan_and_hot(), Self::sqlite(), Self::zipf()]
    }

    /// A part from the middle of a bundled recording; pages are numbered by their first use.
    fn sqlite() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite.parquet");
        let mut reader = TraceReader::open(path).unwrap();
        let mut batch = RowBatch::new();
        let mut touched = Vec::new();
        while reader.next_batch(&mut batch).unwrap() {
            touched.extend(batch.rows().flat_map(|row| row.page..row.page + u64::from(row.pages)));
        }
        let mut numbers = HashMap::new();
        let mut number = |page: &u64| {
            let next = numbers.len() as u64;
            *numbers.entry(*page).or_insert(next)
        };
        Self { name: "sqlite", pages: touched[300_000..300_000 + REQUESTS].iter().map(&mut number).collect() }
    }

    /// A loop over 1,000 pages (the worst case of LRU below that size), with every eighth request anywhere in 2,400 pages.
    fn loop_and_noise() -> Self {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let page = |i: usize| if i % 8 == 7 { below(&mut random, 2400) } else { (i - i / 8) as u64 % 1000 };
        Self { name: "loop-and-noise", pages: (0..REQUESTS).map(page).collect() }
    }

    /// Three of four requests in 600 hot pages, the others in a cyclic scan over 5,000 pages.
    fn scan_and_hot() -> Self {
        let mut random = Random::new(0xd1b5_4a32_d192_ed03);
        let page = |i: usize| if i % 4 == 3 { 600 + (i / 4) as u64 % 5000 } else { below(&mut random, 600) };
        Self { name: "scan-and-hot", pages: (0..REQUESTS).map(page).collect() }
    }

    /// Weights of about 1 / rank (equal for every power of two), over 4,096 scattered pages.
    fn zipf() -> Self {
        let mut random = Random::new(0x2545_f491_4f6c_dd1d);
        let mut page = || {
            let level = below(&mut random, 12);
            let rank = (1 << level) + below(&mut random, 1 << level);
            rank * 2_654_435_761 % 4096
        };
        Self { name: "zipf", pages: (0..REQUESTS).map(|_| page()).collect() }
    }

    /// Largest page plus one.
    pub(crate) fn span(&self) -> u64 {
        self.pages.iter().max().map_or(0, |page| page + 1)
    }

    /// For each request the index of the next one of the same page.
    pub(crate) fn next_uses(&self) -> Vec<Option<usize>> {
        let mut later = HashMap::new();
        let mut next: Vec<Option<usize>> =
            self.pages.iter().enumerate().rev().map(|(index, page)| later.insert(*page, index)).collect();
        next.reverse();
        next
    }

    /// Writes `NAME.bin` into `folder`: 24-byte little-endian records of time, object, size, next use.
    pub(crate) fn write_oracle_general(&self, folder: &Path) -> PathBuf {
        let mut bytes = Vec::with_capacity(self.pages.len() * 24);
        for (page, next) in self.pages.iter().zip(self.next_uses()) {
            bytes.extend_from_slice(&0u32.to_le_bytes());
            bytes.extend_from_slice(&page.to_le_bytes());
            bytes.extend_from_slice(&4096u32.to_le_bytes());
            bytes.extend_from_slice(&next.map_or(-1, |index| i64::try_from(index).unwrap()).to_le_bytes());
        }
        let path = folder.join(self.name).with_extension("bin");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// FNV-1a over the bitmap of misses, as `libcachesim_misses.py` prints it.
pub(crate) fn digest(missed: &[bool]) -> u64 {
    let byte = |eight: &[bool]| eight.iter().rev().fold(0u8, |byte, &missed| byte << 1 | u8::from(missed));
    isotherm_units::hash::fnv1a(missed.chunks(8).map(byte))
}

/// A number below `bound`, by the reduction that the golden file was made with.
fn below(random: &mut Random, bound: u64) -> u64 {
    (random.next() >> 33) % bound
}
