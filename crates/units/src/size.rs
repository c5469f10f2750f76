//! Sizes in bytes.

use crate::page::{PAGE_SHIFT, Pages};
use crate::quantity::{Kind, approximate, quantity_traits};

/// A size in bytes. Page counts are [`Pages`]; the two meet only in named conversions.
///
/// Read from `1.5GiB`, `200 MiB`, `64k`, `4096` (bare numbers are bytes; one-letter units are binary, as in the kernel;
/// `MB` is decimal). Written exactly, so that parsing gives the value back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub(crate) u64);

const UNITS: &[(&str, u64)] =
    &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("PiB", 1 << 50)];

const KIND: Kind = Kind {
    what: "a size",
    example: "`1.5GiB`",
    units: UNITS,
    aliases: &[
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
        ("T", 1 << 40),
        ("P", 1 << 50),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    bare: Some(1),
};

quantity_traits!(Bytes, KIND, "a size such as \"1.5GiB\"");

impl Bytes {
    /// 0 bytes.
    pub const ZERO: Self = Self(0);
    /// A size of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// A size of `kib` KiB; saturates.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1 << 10))
    }
    /// A size of `mib` MiB; saturates.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }
    /// A size of `gib` GiB; saturates.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Whole pages that fit; a tail shorter than one page is dropped.
    pub const fn pages_floor(self) -> Pages {
        Pages::new(self.0 >> PAGE_SHIFT)
    }
    /// Number of base pages needed to hold it, rounded up.
    pub const fn pages_ceil(self) -> Pages {
        Pages::new(self.0.div_ceil(1 << PAGE_SHIFT))
    }
    /// Three significant digits for people: `1.53 GiB`. Not meant to be read back.
    pub fn approx(self) -> String {
        approximate(UNITS, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_and_written() {
        let table = [
            ("1.5GiB", 3 << 29, "1.5GiB"),
            ("200 MiB", 200 << 20, "200MiB"),
            ("4096", 4096, "4KiB"),
            ("64k", 65_536, "64KiB"),
            ("1,000", 1000, "1000B"), // 1000/1024 needs more than three decimals
            ("2MB", 2_000_000, "1953.125KiB"),
            ("0", 0, "0B"),
        ];
        for (text, bytes, printed) in table {
            let size: Bytes = text.parse().unwrap();
            assert_eq!(size.get(), bytes, "{text}");
            assert_eq!(size.to_string(), printed, "{text}");
        }
        assert_eq!(Bytes::new(1_645_000_000).approx(), "1.53 GiB");
    }

    #[test]
    fn bad_sizes_say_what_is_allowed() {
        let error = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(
            error("5 parsecs"),
            "`5 parsecs` has the unknown unit `parsecs`; allowed: B, KiB, MiB, GiB, TiB, PiB"
        );
        assert!(error("").contains("expected a number with a unit"));
        assert!(error("-1").contains("expected a number with a unit"));
        assert!(error("1.2.3").contains("expected a number"));
        assert!(error("99999999999999999999").contains("too large"));
        assert!(error("99999999PiB").contains("too large"));
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_the_size_back(bytes: u64) {
            prop_assert_eq!(Bytes::new(bytes).to_string().parse::<Bytes>(), Ok(Bytes::new(bytes)));
        }
        #[test]
        fn parsing_never_panics(text in "\\PC{0,12}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
