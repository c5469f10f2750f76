//! Selection of a part of a trace.

use std::str::FromStr;

use isotherm_units::{Bytes, Duration, Ratio};

use crate::{MapKind, MapRange, Result, TraceError, TraceMeta};

/// A point in time of a file: from its start, or as a share of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A moment at this time after the start.
    After(Duration),
    /// A moment at this share of the length, at most the whole length.
    Share(Ratio),
}

impl Moment {
    /// The point in nanoseconds from the start of a file that lasts `length_ns`.
    pub fn ns_of(self, length_ns: u64) -> u64 {
        match self {
            Self::After(span) => span.ns(),
            Self::Share(ratio) => ratio.of(length_ns),
        }
    }

    /// Whether the length of the file must be known.
    pub(crate) fn needs_length(self) -> bool {
        matches!(self, Self::Share(_))
    }
}

/// Both ends of a window in nanoseconds from the start, of a file that lasts `length_ns`.
///
/// # Errors
/// When the window ends before it begins.
pub(crate) fn window_ns(from: Option<Moment>, to: Option<Moment>, length_ns: u64) -> Result<(u64, u64)> {
    let from_ns = from.map_or(0, |moment| moment.ns_of(length_ns));
    let to_ns = to.map_or(u64::MAX, |moment| moment.ns_of(length_ns));
    if from_ns >= to_ns {
        let (from, to) = (Duration::from_ns(from_ns), Duration::from_ns(to_ns));
        let what = format!("is {from}, which is not before --to ({to}); a window needs a length");
        return Err(TraceError::option("from", what));
    }
    Ok((from_ns, to_ns))
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::After(span) => span.fmt(f),
            Self::Share(ratio) => ratio.fmt(f),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    /// `2s`, `150ms`, or `25%` of the length.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_end().ends_with('%') {
            return match text.parse::<Ratio>() {
                Ok(ratio) if ratio <= Ratio::ONE => Ok(Self::Share(ratio)),
                Ok(_) => Err("more than 100 % of the length".to_owned()),
                Err(error) => Err(error.to_string()),
            };
        }
        let span: Duration =
            text.parse().map_err(|error| format!("{error}, or a share of the length such as `25%`"))?;
        Ok(Self::After(span))
    }
}

/// A range of byte addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address.
    pub start: u64,
    /// Address after the last; above `start`.
    pub end: u64,
}

impl FromStr for AddressRange {
    type Err = String;

    /// `START-END`, each `0x7f3a00000000`, a size with a unit such as `1GiB`, or eight or more hexadecimal digits as in
    /// `/proc/PID/maps`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (start, end) = text.split_once('-').ok_or_else(|| format!("`{text}` is not START-END"))?;
        let range = Self { start: address(start.trim())?, end: address(end.trim())? };
        if range.start >= range.end {
            return Err(format!("`{text}` ends before it begins; END is the address after the last"));
        }
        Ok(range)
    }
}

/// Hexadecimal digits from which on a number without `0x` is an address.
const MAPS_DIGITS_MIN: usize = 8;

fn address(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no address; allowed: 0x7f3a00000000, 1GiB, or eight or more hexadecimal digits");
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).map_err(|_| bad());
    }
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all_digits && text.len() >= MAPS_DIGITS_MIN {
        return u64::from_str_radix(text, 16).map_err(|_| bad());
    }
    // A bare number is refused: it would mean bytes here, and hexadecimal in /proc.
    if all_digits && text != "0" {
        return Err(bad());
    }
    text.parse::<Bytes>().map(Bytes::get).map_err(|_| bad())
}

/// Ranges in ascending order, with adjacent and overlapping ones joined.
pub(crate) fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1;
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
    ranges
}

/// Kind of accesses that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Rows that only read.
    Reads,
    /// Rows that write.
    Writes,
}

/// A part of a page trace: all that every given criterion keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Start in trace time, inclusive.
    pub from: Option<Moment>,
    /// End in trace time, exclusive.
    pub to: Option<Moment>,
    /// Accesses of these threads: index, tid or name. A number is an index if that exists. Empty: of all.
    pub threads: Vec<String>,
    /// Accesses of these processes: index, pid or name, as with threads.
    pub processes: Vec<String>,
    /// Accesses to pages that any of these ranges touches. Empty: to all.
    pub ranges: Vec<AddressRange>,
    /// Accesses to pages of these mappings: a kind (`heap`, `stack`, …), or a part of the mapped file's path. Empty: to all.
    pub mappings: Vec<String>,
    /// Only reads, or only writes.
    pub access: Option<Access>,
}

impl Selection {
    /// Whether the selection keeps everything.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the selection drops accesses for other reasons than time.
    pub(crate) fn drops_rows(&self) -> bool {
        *self != Self { from: self.from, to: self.to, ..Self::default() }
    }

    /// Text of the kept part, for notes: `cut from 2s to 5s`, `mapping heap`.
    pub(crate) fn words(&self) -> String {
        let mut words = Vec::new();
        let list = |what: &str, of: &[String]| format!("{what} {}", of.join(" or "));
        if !self.threads.is_empty() {
            words.push(list("thread", &self.threads));
        }
        if !self.processes.is_empty() {
            words.push(list("process", &self.processes));
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<String> = self.ranges.iter().map(|r| format!("{:#x}-{:#x}", r.start, r.end)).collect();
            words.push(list("range", &ranges));
        }
        if !self.mappings.is_empty() {
            words.push(list("mapping", &self.mappings));
        }
        match self.access {
            Some(Access::Reads) => words.push("reads".to_owned()),
            Some(Access::Writes) => words.push("writes".to_owned()),
            None => {}
        }
        words.join(", ")
    }

    /// For each thread of `meta`, whether its rows are kept.
    ///
    /// # Errors
    /// When the trace has no such thread or process; lists existing ones.
    pub(crate) fn threads_kept(&self, meta: &TraceMeta) -> Result<Vec<bool>> {
        let mut kept = vec![true; meta.threads.len()];
        if !self.threads.is_empty() {
            let known: Vec<Known<'_>> = meta.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
            let found = find("thread", "tid", &known, &self.threads)?;
            kept.iter_mut().zip(found).for_each(|(kept, found)| *kept &= found);
        }
        if !self.processes.is_empty() {
            let known: Vec<Known<'_>> =
                meta.processes.iter().map(|process| (process.pid, process.name.as_str())).collect();
            let found = find("process", "pid", &known, &self.processes)?;
            kept.iter_mut().zip(&meta.threads).for_each(|(kept, thread)| *kept &= found[thread.process]);
        }
        Ok(kept)
    }
}

/// Whether one of `wanted` matches this mapping: a kind by its name, any other text as a part of the file's path.
pub(crate) fn is_mapping(what: MapKind, file: Option<&str>, wanted: &[String]) -> bool {
    wanted.iter().any(|text| {
        let kind = MapKind::from(text.clone());
        if kind.name() == text { kind == what } else { file.is_some_and(|file| file.contains(text.as_str())) }
    })
}

/// Fails if the trace never had a wanted mapping.
pub(crate) fn check_mappings(meta: &TraceMeta, wanted: &[String]) -> Result<()> {
    let maps = || {
        meta.events.iter().filter_map(|event| match &event.kind {
            crate::EventKind::Map(map) => Some(map),
            _ => None,
        })
    };
    for text in wanted {
        let one = std::slice::from_ref(text);
        if maps().any(|map| is_mapping(map.what, map.file.as_deref(), one)) {
            continue;
        }
        let name = |map: &MapRange| map.file.clone().unwrap_or_else(|| map.what.name().to_owned());
        let mut known: Vec<String> = maps().map(name).collect();
        known.sort_unstable();
        known.dedup();
        let what = if known.is_empty() {
            format!("`{text}`: the trace does not say what was mapped")
        } else {
            let rest = if known.len() > NAMED_MAX { ", …" } else { "" };
            known.truncate(NAMED_MAX);
            format!("no mapping is `{text}` or shows a file of that name; the trace has {}{rest}", known.join(", "))
        };
        return Err(TraceError::option("mapping", what));
    }
    Ok(())
}

/// Most threads, processes or mappings that an error lists.
const NAMED_MAX: usize = 20;

/// Id (0: not known) and name.
type Known<'a> = (u32, &'a str);

/// For each of `known`, whether `wanted` names it.
fn find(option: &'static str, id_name: &str, known: &[Known<'_>], wanted: &[String]) -> Result<Vec<bool>> {
    let mut found = vec![false; known.len()];
    for word in wanted {
        let number = word.parse::<u32>().ok();
        let index = number.filter(|&number| (number as usize) < known.len());
        let is_meant = |place: usize, (id, name): Known<'_>| match index {
            Some(index) => index as usize == place,
            None => (id != 0 && number == Some(id)) || name == word,
        };
        let mut any = false;
        for (place, &entry) in known.iter().enumerate() {
            let meant = is_meant(place, entry);
            found[place] |= meant;
            any |= meant;
        }
        if !any {
            let list: Vec<String> = (known.iter().enumerate().take(NAMED_MAX))
                .map(|(place, (id, name))| format!("{place} ({id_name} {id}, {name})"))
                .collect();
            let rest = if known.len() > NAMED_MAX { ", …" } else { "" };
            let what = format!("there is no {option} `{word}`; the trace has {}{rest}", list.join(", "));
            return Err(TraceError::option(option, what));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessMeta, ThreadMeta};

    #[test]
    fn moments_are_spans_or_shares() {
        let parse = |text: &str| text.parse::<Moment>();
        assert_eq!(parse("2s").unwrap().ns_of(5), 2_000_000_000);
        assert_eq!(parse("25%").unwrap().ns_of(1000), 250);
        for (bad, word) in [("101%", "100 %"), ("5", "25%"), ("x%", "ratio")] {
            assert!(parse(bad).unwrap_err().contains(word), "{bad}");
        }
        let after = |ns| Some(Moment::After(Duration::from_ns(ns)));
        assert_eq!(window_ns(after(3), None, 0).unwrap(), (3, u64::MAX));
        assert!(window_ns(after(3), after(3), 0).unwrap_err().to_string().contains("not before --to"));
    }

    #[test]
    fn ranges_of_addresses() {
        let table = [
            ("0x7f00-0x8000", Ok((0x7f00, 0x8000))),
            ("7fca6f223000-7fca6f224000", Ok((0x7fca_6f22_3000, 0x7fca_6f22_4000))),
            ("1MiB-1.5GiB", Ok((1 << 20, 3 << 29))),
            ("0-4k", Ok((0, 4096))),
            ("0x8000-0x7f00", Err("ends before")),
            ("0x1000", Err("START-END")),
            ("1000-2000", Err("no address")),
            ("-", Err("no address")),
            ("0xfffffffffffffffff-1", Err("no address")),
        ];
        for (text, expected) in table {
            match (text.parse::<AddressRange>(), expected) {
                (Ok(found), Ok((start, end))) => assert_eq!(found, AddressRange { start, end }, "{text}"),
                (Err(found), Err(word)) => assert!(found.contains(word), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_number_is_an_index_first() {
        let process = |pid, name: &str| ProcessMeta { pid, name: name.to_owned(), forked_from: None };
        let thread = |process, tid| ThreadMeta { process, tid, name: "t".to_owned(), started_by: None };
        let meta = TraceMeta {
            processes: vec![process(70, "sh"), process(1, "redis")],
            threads: vec![thread(0, 70), thread(1, 1), thread(1, 99)],
            ..TraceMeta::default()
        };
        let kept = |threads: &[&str], processes: &[&str]| {
            let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            Selection { threads: own(threads), processes: own(processes), ..Selection::default() }.threads_kept(&meta)
        };
        assert_eq!(kept(&["1"], &[]).unwrap(), [false, true, false], "the index, not tid 1 by luck");
        assert_eq!(kept(&["99", "0"], &[]).unwrap(), [true, false, true]);
        assert_eq!(kept(&[], &["redis"]).unwrap(), [false, true, true]);
        assert_eq!(kept(&[], &["70"]).unwrap(), [true, false, false]);
        assert_eq!(kept(&["t"], &["1"]).unwrap(), [false, true, true], "both must hold");
        let error = kept(&[], &["postgres"]).unwrap_err().to_string();
        assert!(error.contains("`process`") && error.contains("1 (pid 1, redis)"), "{error}");
    }

    #[test]
    fn mappings_by_kind_or_file() {
        let wanted = |text: &str| vec![text.to_owned()];
        assert!(is_mapping(MapKind::Heap, None, &wanted("heap")));
        assert!(is_mapping(MapKind::File, Some("/lib/libc.so.6"), &wanted("libc")));
        assert!(is_mapping(MapKind::File, Some("/lib/x"), &wanted("file")));
        assert!(!is_mapping(MapKind::Image, Some("/bin/file"), &wanted("file")), "a kind's word is the kind");
        assert!(!is_mapping(MapKind::Anonymous, None, &wanted("libc")));
    }
}
