//! Deliberate faults that the harness must find, for its own tests. They are in no list and in no campaign.

use crate::target::{Target, text};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "planted-panic",
        reaches: "an index that a number in the text gives",
        words: &["size="],
        run: |_, input| {
            let text = text(input);
            let Some(size) = text.strip_prefix("size=").and_then(|size| size.trim().parse::<usize>().ok()) else {
                return;
            };
            assert!(size < 1000, "{size} of them");
        },
    },
    Target {
        name: "planted-memory",
        reaches: "memory that a number in the text asks for",
        words: &["size="],
        run: |_, input| {
            let text = text(input);
            let Some(size) = text.strip_prefix("size=").and_then(|size| size.trim().parse::<u32>().ok()) else {
                return;
            };
            std::hint::black_box(vec![1_u8; size as usize]);
        },
    },
    Target {
        name: "planted-time",
        reaches: "work that never ends",
        words: &["size="],
        run: |_, input| {
            while input.len() > 10 {
                std::hint::black_box(input);
            }
        },
    },
    Target {
        name: "planted-stack",
        reaches: "a call for each bracket",
        words: &["[["],
        run: |_, input| {
            std::hint::black_box(depth(input));
        },
    },
];

fn depth(input: &[u8]) -> usize {
    let kept = std::hint::black_box([0_u8; 1024]);
    match input.split_first() {
        Some((b'[', rest)) => 1 + depth(rest) + usize::from(kept[1023]),
        _ => 0,
    }
}
