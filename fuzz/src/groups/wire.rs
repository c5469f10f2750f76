//! Messages between the recorder's programs.

use crate::target::{Target, text};
use isotherm_recorder::trace_from_stream;
use isotherm_units::Duration;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "recorder-stream",
        reaches: "isotherm_recorder::trace_from_stream (chunks, records)",
        words: &["iTR1", "\u{1}\u{1}", "\u{3}", "\u{4}", "\u{e}\u{4}"],
        run: |scratch, input| {
            let trace = scratch.folder().join("trace");
            let _ = trace_from_stream(&mut &*input, &trace, Duration::from_ms(1));
        },
    },
    Target {
        name: "recorder-texts",
        reaches: "isotherm_recorder: proc status, pressure",
        words: &["VmRSS:", "VmPTE:", "VmSwap:", " kB", "some ", "total="],
        run: |_, input| isotherm_recorder::fuzzing::read_texts(&text(input)),
    },
];
