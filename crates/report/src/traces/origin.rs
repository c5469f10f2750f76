//! Where a recording comes from, and how far to trust it, in a few words each.

use isotherm_trace::{ClockKind, TraceMeta};

/// Host, recorder, error of the clock and exit code: name, value. What the file does not say is "not known".
pub fn origin(meta: &TraceMeta) -> Vec<(String, String)> {
    let known = |value: &str| if value.is_empty() { "not known".to_owned() } else { value.to_owned() };
    let clock = match (meta.clock.error_percent, meta.clock.kind) {
        (Some(percent), _) => format!("up to {percent} % off"),
        (None, ClockKind::Unknown) => "not known".to_owned(),
        (None, _) => "not measured".to_owned(),
    };
    let exit = meta.exit_code.map_or_else(String::new, |code| code.to_string());
    let end = if meta.complete { "" } else { ", cut off before the end" };
    let facts = [
        ("recorded on", known(&meta.host)),
        ("recorder", known(&meta.recorder)),
        ("clock error", clock),
        ("exit code", known(&exit) + end),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::Clock;

    #[test]
    fn what_a_file_does_not_say_is_not_known() {
        let words = |meta: &TraceMeta| origin(meta).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        let whole = TraceMeta {
            host: "Linux 6.1.0 x86_64, AMD EPYC".to_owned(),
            recorder: "valgrind tool".to_owned(),
            clock: Clock::NATIVE,
            exit_code: Some(0),
            complete: true,
            ..TraceMeta::default()
        };
        assert_eq!(words(&whole), ["Linux 6.1.0 x86_64, AMD EPYC", "valgrind tool", "up to 10 % off", "0"]);
        let counted = TraceMeta { clock: Clock { kind: ClockKind::Instructions, error_percent: None }, ..whole };
        assert_eq!(words(&counted)[2], "not measured");
        let torn = ["not known", "not known", "not known", "not known, cut off before the end"];
        assert_eq!(words(&TraceMeta::default()), torn);
    }
}
