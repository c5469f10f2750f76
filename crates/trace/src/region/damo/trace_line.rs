//! One line of kernel text: `damon_aggregated` and its siblings, as perf script, trace-cmd and ftrace print them.
//!
//! Source: Linux `include/trace/events/damon.h`. The front ends only differ in the text before the event's name; a
//! thread's name may contain spaces. So a line is split at the name: the time is the word before it.

use crate::region::Region;
use crate::region::snapshot::PROBES_MAX;

/// Contents of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Not about monitoring: a comment, a header, another event.
    Other,
    Region(Box<RegionLine>),
    /// Auto-tuning changed the sampling interval.
    Tune {
        sample_ns: u64,
    },
}

/// One region of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionLine {
    /// Whether the line is from `damon_region_aggregated`.
    pub(crate) with_probes: bool,
    /// Number in the thread's name, `kdamond.N`; 0 if it is missing.
    pub(crate) kdamond: u32,
    pub(crate) time_ns: u64,
    pub(crate) target_id: u64,
    pub(crate) nr_regions: u64,
    /// `None`: damo's placeholder after the only snapshot of a target.
    pub(crate) region: Option<Region>,
}

/// Parses a line. Returns an error for a malformed line that names an event of monitoring.
pub(crate) fn parse(line: &str) -> Result<Line, String> {
    for (name, with_probes) in [("damon_aggregated:", false), ("damon_region_aggregated:", true)] {
        if let Some((before, fields)) = split(line, name) {
            return region(before, fields, with_probes).map(|region| Line::Region(Box::new(region)));
        }
    }
    if let Some((_, fields)) = split(line, "damon_monitor_intervals_tune:") {
        let sample_us = fields.trim().strip_prefix("sample_us=").and_then(|value| value.parse::<u64>().ok());
        let sample_us = sample_us.filter(|&sample_us| sample_us > 0);
        let sample_us = sample_us.ok_or("`sample_us=` with a number above 0 should follow the event's name")?;
        return Ok(Line::Tune { sample_ns: sample_us.saturating_mul(1000) });
    }
    Ok(Line::Other)
}

/// The text before and after the event's name, which must be a separate word, after `damon:` in perf script.
fn split<'a>(line: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let at = line.find(name)?;
    let (before, behind) = (&line[..at], &line[at + name.len()..]);
    let before = before.strip_suffix("damon:").unwrap_or(before);
    before.ends_with(char::is_whitespace).then_some((before, behind))
}

fn region(before: &str, fields: &str, with_probes: bool) -> Result<RegionLine, String> {
    let time = before.split_whitespace().next_back().and_then(|word| word.strip_suffix(':')).and_then(seconds);
    let time_ns = time.ok_or("before the event's name there is no time such as `82820.952659:`")?;
    let kdamond = before.split_once("kdamond.").map_or(0, |(_, rest)| {
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        rest[..digits].parse().unwrap_or(0)
    });
    let mut words = fields.split_whitespace();
    let mut value = |keys: &[&str]| -> Result<u64, String> {
        let word = words.next().unwrap_or_default();
        let value = keys.iter().find_map(|key| word.strip_prefix(key)?.strip_prefix('='));
        let wanted = || format!("`{}=` and a number should be where \"{}\" is", keys[0], shown(word));
        let value = value.ok_or_else(wanted)?;
        // damo writes `None` for a record of all targets together.
        if value == "None" { Ok(0) } else { value.parse().map_err(|_| wanted()) }
    };
    // Before mainline, kernels called it `pid`.
    let target_id = value(&["target_id", "pid"])?;
    let nr_regions = value(&["nr_regions"])?;
    let range = words.next().unwrap_or_default();
    let wanted = || format!("`start-end:` should be where \"{}\" is", shown(range));
    let (start, end) = range.strip_suffix(':').and_then(|range| range.split_once('-')).ok_or_else(wanted)?;
    let (start, end): (u64, u64) = start.parse().ok().zip(end.parse().ok()).ok_or_else(wanted)?;
    let accesses = words.next().unwrap_or_default();
    let line = |region| RegionLine { with_probes, kdamond, time_ns, target_id, nr_regions, region };
    if (start, end, accesses) == (0, 0, "-1") {
        return Ok(line(None));
    }
    if start >= end {
        return Err(format!("region {start}-{end}: its end must be above its start"));
    }
    let nr_accesses = accesses.parse();
    let nr_accesses =
        nr_accesses.map_err(|_| format!("a number of accesses should be where \"{}\" is", shown(accesses)))?;
    let age = match words.next() {
        None | Some("None") => None,
        Some(word) => Some(word.parse().map_err(|_| format!("an age should be where \"{}\" is", shown(word)))?),
    };
    let mut probe_hits = [0; PROBES_MAX];
    if with_probes {
        let rest: Vec<&str> = words.by_ref().collect();
        read_hits(&rest, &mut probe_hits)?;
    }
    if let Some(word) = words.next() {
        return Err(format!("\"{}\" stands after the age, where nothing should", shown(word)));
    }
    Ok(line(Some(Region { start, end, nr_accesses, age, probe_hits, ..Region::default() })))
}

/// Bytes in hexadecimal, with or without spaces, commas or a name between them.
fn read_hits(words: &[&str], hits: &mut [u32; PROBES_MAX]) -> Result<(), String> {
    let text: String = words.concat();
    let text = text.strip_prefix("probe_hits=").unwrap_or(&text);
    let wanted = || format!("probe hits in hexadecimal, two digits each, should be where \"{}\" is", shown(text));
    let mut bytes = Vec::new();
    for part in text.trim_matches(['{', '}', '[', ']']).split(',').filter(|part| !part.is_empty()) {
        let digits = part.strip_prefix("0x").unwrap_or(part);
        if !digits.is_ascii() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wanted());
        }
        // A list of one digit each is what `%x` prints; bytes without separators have two.
        if digits.len() == 1 {
            bytes.push(u32::from_str_radix(digits, 16).map_err(|_| wanted())?);
            continue;
        }
        if digits.len() % 2 != 0 {
            return Err(wanted());
        }
        for pair in 0..digits.len() / 2 {
            bytes.push(u32::from_str_radix(&digits[pair * 2..pair * 2 + 2], 16).map_err(|_| wanted())?);
        }
    }
    if bytes.len() > PROBES_MAX {
        return Err(format!("there are hits of {} probes; at most {PROBES_MAX} are allowed", bytes.len()));
    }
    hits[..bytes.len()].copy_from_slice(&bytes);
    Ok(())
}

/// `seconds.fraction` in nanoseconds, exactly.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn shown(word: &str) -> String {
    super::quantity::shortened(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(line: &str) -> RegionLine {
        match parse(line) {
            Ok(Line::Region(region)) => *region,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_front_end_of_formats_md() {
        let front_ends = [
            "kdamond.0  4452 [000] 82820.952659: damon:damon_aggregated: ",
            "     kdamond.0-4452    [000] .....  82820.952659: damon_aggregated:     ",
            "     kdamond.0-4452    [000] 82820.952659: damon_aggregated:     ",
            "           <...>-4452    [000] d..1. 82820.952659: damon_aggregated: ",
            "kdamond.x xxxx xxxx 82820.952659: damon:damon_aggregated: ",
            "a name with spaces 4452 [000] 82820.952659: damon:damon_aggregated: ",
        ];
        for front in front_ends {
            let line = found(&format!("{front}target_id=7 nr_regions=8 4096-20480: 3"));
            let region = Region { start: 4096, end: 20480, nr_accesses: 3, ..Region::default() };
            assert_eq!((line.time_ns, line.target_id, line.nr_regions), (82_820_952_659_000, 7, 8), "{front}");
            assert_eq!(line.region, Some(region), "{front}");
            let line = found(&format!("{front}target_id=7 nr_regions=8 4096-20480: 3 505"));
            assert_eq!(line.region, Some(Region { age: Some(505), ..region }));
            let line = found(&format!("{front}target_id=7 nr_regions=8 4096-20480: 3 None"));
            assert_eq!(line.region, Some(region));
            let line = found(&format!("{front}target_id=None nr_regions=1 0-0: -1 -1"));
            assert_eq!((line.target_id, line.region), (0, None));
        }
        assert_eq!(found("kdamond.12-9 [1] 1.5: damon_aggregated: pid=5 nr_regions=1 0-1: 0").kdamond, 12);
    }

    #[test]
    fn siblings() {
        let hits = |text: &str| {
            found(&format!("k-1 [0] 1.0: damon_region_aggregated: target_id=0 nr_regions=1 0-1: 0 2 {text}"))
                .region
                .expect("a region")
                .probe_hits
        };
        // The first one is from damo's own test.
        for text in ["probe_hits=03 0a", "03 0a", "030a", "03,0a", "probe_hits={0x3,0xa}", "0x3,0xa"] {
            assert_eq!(hits(text), [3, 10, 0, 0], "{text}");
        }
        assert_eq!(hits(""), [0; 4]);
        let tune = parse("k 1 [0] 2.0: damon:damon_monitor_intervals_tune: sample_us=80000");
        assert_eq!(tune, Ok(Line::Tune { sample_ns: 80_000_000 }));
        for other in [
            "# tracer: nop",
            "cpus=4",
            "",
            "kdamond.0 1 [0] 1.0: damon:damos_before_apply: ctx_idx=0 scheme_idx=0 target_idx=0 nr_regions=1 0-1: 0 1",
            "kdamond.0 1 [0] 1.0: damon:damos_esz: ctx_idx=0 scheme_idx=0 esz=5",
            "xdamon_aggregated: target_id=0",
        ] {
            assert_eq!(parse(other), Ok(Line::Other), "{other}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let front = "kdamond.0 1 [0] 1.0: damon:damon_aggregated:";
        let table = [
            ("k 1 [0] damon_aggregated: target_id=0 nr_regions=1 0-1: 0".to_owned(), "no time"),
            ("k 1 [0] 1.2.3: damon_aggregated: target_id=0 nr_regions=1 0-1: 0".to_owned(), "no time"),
            (format!("{front} nr_regions=1 0-1: 0"), "`target_id=`"),
            (format!("{front} target_id=x nr_regions=1 0-1: 0"), "`target_id=`"),
            (format!("{front} target_id=0 0-1: 0"), "`nr_regions=`"),
            (format!("{front} target_id=0 nr_regions=1 0:1: 0"), "`start-end:`"),
            (format!("{front} target_id=0 nr_regions=1 5-5: 0"), "above its start"),
            (format!("{front} target_id=0 nr_regions=1 0-1:"), "number of accesses"),
            (format!("{front} target_id=0 nr_regions=1 0-1: 1 x"), "an age"),
            (format!("{front} target_id=0 nr_regions=1 0-1: 1 2 3"), "after the age"),
            ("k 1 1.0: damon_region_aggregated: target_id=0 nr_regions=1 0-1: 1 2 xyz".to_owned(), "hexadecimal"),
            ("k 1 1.0: damon_region_aggregated: target_id=0 nr_regions=1 0-1: 1 2 0102030405".to_owned(), "5 probes"),
            ("k 1 1.0: damon_monitor_intervals_tune: sample_us=0".to_owned(), "above 0"),
        ];
        for (line, part) in table {
            let error = parse(&line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_survived(front in ".{0,20}", fields in ".{0,60}") {
            let _ = parse(&format!("{front} 1.5: damon_aggregated: {fields}"));
            let _ = parse(&format!("{front} 1.5: damon_region_aggregated: target_id=0 nr_regions=1 0-1: 1 2 {fields}"));
        }
    }
}
