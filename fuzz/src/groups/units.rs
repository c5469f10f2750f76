//! Texts that people write on a command line: sizes, times, ratios, patterns, ranges, keys.

use crate::target::{Target, text};
use isotherm_trace::edit::{AddressRange, Moment};
use isotherm_units::{Amount, Bytes, Duration, Ratio, wildcard};
use std::str::FromStr;

const SIZES: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "EiB", "k", "4096", "1.5GiB"];
const TIMES: &[&str] = &["ns", "us", "µs", "ms", "s", "min", "h", "d", "1.5ms"];
const RATIOS: &[&str] = &["%", "75%", "0.1%", "1/3", "bp", "ppm"];
const RANGES: &[&str] = &["-", "0x7f3a00000000", "1GiB", "7f3a00000000", "25%", "150ms"];

pub(super) const TARGETS: &[Target] = &[
    Target { name: "size", reaches: "isotherm_units::Bytes", words: SIZES, run: |_, input| same::<Bytes>(input) },
    Target { name: "time", reaches: "isotherm_units::Duration", words: TIMES, run: |_, input| same::<Duration>(input) },
    Target {
        name: "ratio",
        reaches: "isotherm_units::{Ratio, Amount}",
        words: RATIOS,
        run: |_, input| {
            same::<Ratio>(input);
            if let Ok(amount) = text(input).parse::<Amount>() {
                for whole in [0, 1, u64::MAX] {
                    amount.of(Bytes::new(whole));
                }
            }
        },
    },
    Target {
        name: "wildcard",
        reaches: "isotherm_units::wildcard::{fits, is_within, may_meet}",
        words: &["*", "?", "**", "/", "/a/*/b", "user.slice", "*.slice"],
        run: |_, input| {
            let text = text(input);
            let (pattern, name) = text.split_once('\n').unwrap_or((&text, "/user.slice/app-1.scope"));
            // The cost is the product of both lengths, as documented; no path is longer than this.
            if pattern.len().max(name.len()) > 4096 {
                return;
            }
            let fits = wildcard::fits(pattern, name);
            assert!(!fits || wildcard::fits(&format!("*{pattern}"), name), "a star before it makes less fit");
            wildcard::is_within(pattern, name);
            assert_eq!(wildcard::may_meet(pattern, name), wildcard::may_meet(name, pattern), "it is symmetric");
        },
    },
    Target {
        name: "keys",
        reaches: "isotherm_top::parse_keys",
        words: &["<", ">", "<enter>", "<lt>", "<pageup>"],
        run: |_, input| drop(isotherm_top::parse_keys(&text(input))),
    },
    Target {
        name: "range",
        reaches: "isotherm_trace::edit::{AddressRange, Moment}",
        words: RANGES,
        run: |_, input| {
            let text = text(input);
            if let Ok(range) = text.parse::<AddressRange>() {
                assert!(range.start < range.end, "{range:?}");
            }
            let _ = text.parse::<Moment>();
        },
    },
];

/// Reads a quantity, prints it, and reads that again.
fn same<T: FromStr + ToString + PartialEq + std::fmt::Debug>(input: &[u8]) {
    if let Ok(value) = text(input).parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().ok(), Some(value), "printed as {printed}");
    }
}
