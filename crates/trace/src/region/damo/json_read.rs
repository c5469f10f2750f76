//! damo's `json` and `json_compressed`: records read twice, first without their snapshots, then snapshot by snapshot.
//!
//! Memory holds one snapshot, for a file of any length.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::input;
use super::json_schema::{JsonHeader, JsonIntervals, JsonSnapshot, Tally};
use super::quantity::{COUNT, Scalar};
use crate::region::{ContextMeta, Intervals, RecordMeta, Snapshot, TargetMeta, Warning};
use crate::{Result, TraceError};

/// A damo record file, opened.
#[derive(Debug)]
pub(crate) struct JsonRecords {
    path: PathBuf,
    zlib: bool,
    /// Target and intervals of each record of the file.
    records: Vec<(u32, Intervals)>,
}

impl JsonRecords {
    /// Reads the file once, and checks everything. Returns its metadata and warnings. `stand_in`: intervals for records that
    /// have none.
    pub(crate) fn open(path: &Path, zlib: bool, stand_in: Intervals) -> Result<(Self, RecordMeta, Vec<Warning>)> {
        let mut headers = Vec::new();
        let mut parse = Parse::new(path, zlib)?;
        parse.run(RecordsSeed { headers: Some(&mut headers), snapshots: None })?;
        let mut meta = RecordMeta { recorder: "damo".to_owned(), complete: true, ..RecordMeta::default() };
        let mut records = Vec::new();
        let mut warnings = Vec::new();
        for header in headers {
            if !header.has_snapshots {
                return Err(wrong(path, "a record has no list `snapshots`"));
            }
            let missing = header.intervals.max_nr_accesses().is_none();
            let intervals = if missing { fill(header.intervals, stand_in) } else { header.intervals };
            if intervals.max_nr_accesses().is_none() && !warnings.contains(&Warning::NoIntervals) {
                warnings.push(Warning::NoIntervals);
            }
            records.push((place(&mut meta, header, intervals)?, intervals));
        }
        let this = Self { path: path.to_owned(), zlib, records };
        let mut tally = Tally::default();
        let mut counts = (0, 0);
        this.stream(&mut tally, &mut |snapshot| {
            counts = (counts.0 + 1, counts.1 + snapshot.regions.len() as u64);
            ControlFlow::Continue(())
        })?;
        (meta.snapshots, meta.regions) = counts;
        tell(tally, &mut warnings);
        Ok((this, meta, warnings))
    }

    /// Passes on every snapshot in the order of the file.
    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Snapshot) -> ControlFlow<()>) -> Result<()> {
        self.stream(&mut Tally::default(), each)
    }

    fn stream(&self, tally: &mut Tally, each: &mut dyn FnMut(&Snapshot) -> ControlFlow<()>) -> Result<()> {
        let latest_ns = vec![0; self.records.iter().map(|(target, _)| *target as usize + 1).max().unwrap_or(0)];
        let snapshot = Snapshot::default();
        let mut sink = Sink { records: &self.records, tally, each, latest_ns, snapshot, number: 0, stopped: false };
        let done = Parse::new(&self.path, self.zlib)?.run(RecordsSeed { headers: None, snapshots: Some(&mut sink) });
        if sink.stopped { Ok(()) } else { done }
    }
}

fn wrong(path: &Path, found: &str) -> TraceError {
    TraceError::WrongFormat {
        path: path.to_owned(),
        expected: "a region record (damo's JSON: a list of records with snapshots)",
        found: found.to_owned(),
    }
}

fn fill(known: Intervals, stand_in: Intervals) -> Intervals {
    Intervals {
        sample_ns: known.sample_ns.or(stand_in.sample_ns),
        aggregation_ns: known.aggregation_ns.or(stand_in.aggregation_ns),
        update_ns: known.update_ns.or(stand_in.update_ns),
    }
}

/// The target that a record belongs to; records that only differ in intervals belong to one target.
fn place(meta: &mut RecordMeta, header: JsonHeader, intervals: Intervals) -> Result<u32> {
    let (kdamond, context) = (header.kdamond, header.context);
    let goal = header.goal;
    let same =
        |known: &ContextMeta| known.kdamond == kdamond && known.context == context && known.intervals_goal == goal;
    let context_index = meta.contexts.iter().position(same).unwrap_or_else(|| {
        let new = ContextMeta { kdamond, context, intervals, intervals_goal: goal, ..ContextMeta::default() };
        meta.contexts.push(new);
        meta.contexts.len() - 1
    });
    let target = TargetMeta {
        context: context_index,
        id: header.target_id,
        scheme: header.scheme,
        scheme_filters: header.scheme_filters,
        data_source: header.data_source,
        ..TargetMeta::default()
    };
    let index = meta.targets.iter().position(|known| *known == target).unwrap_or_else(|| {
        meta.targets.push(target);
        meta.targets.len() - 1
    });
    Ok(u32::try_from(index).expect("the file would not fit on any disk"))
}

fn tell(tally: Tally, warnings: &mut Vec<Warning>) {
    let Tally { no_ages, rounded, converted, sorted, probes_left_out } = tally;
    let all = [
        (no_ages, Warning::NoAges { regions: no_ages }),
        (rounded, Warning::Rounded { values: rounded }),
        (converted, Warning::Converted { values: converted }),
        (sorted, Warning::Sorted { snapshots: sorted }),
        (probes_left_out, Warning::ProbesLeftOut { regions: probes_left_out }),
    ];
    warnings.extend(all.into_iter().filter(|(count, _)| *count > 0).map(|(_, warning)| warning));
}

/// A pass over the file.
struct Parse {
    path: PathBuf,
    zlib: bool,
    deserializer: serde_json::Deserializer<serde_json::de::IoRead<Box<dyn std::io::Read>>>,
}

impl Parse {
    fn new(path: &Path, zlib: bool) -> Result<Self> {
        let deserializer = serde_json::Deserializer::from_reader(input::open(path, zlib)?);
        Ok(Self { path: path.to_owned(), zlib, deserializer })
    }

    fn run(&mut self, seed: RecordsSeed<'_, '_>) -> Result<()> {
        let read = seed.deserialize(&mut self.deserializer).and_then(|()| self.deserializer.end());
        read.map_err(|error| self.explain(&error))
    }

    #[cold]
    fn explain(&self, error: &serde_json::Error) -> TraceError {
        let (line, column) = (error.line() as u64, error.column());
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        if error.is_io() {
            if self.zlib && error.io_error_kind() != Some(std::io::ErrorKind::PermissionDenied) {
                let what = format!("its zlib stream is cut off or garbage after line {line} of the text in it");
                return TraceError::damaged(&self.path, 0, what);
            }
            let kind = error.io_error_kind().unwrap_or(std::io::ErrorKind::Other);
            return TraceError::io("read", &self.path, kind.into());
        }
        let what = if error.is_eof() {
            "the file ends inside its JSON: it is cut off. Copy or record it again".to_owned()
        } else {
            format!("column {column}: {what}")
        };
        TraceError::bad_value(&self.path, "line", line.max(1), what)
    }
}

/// The whole file. Exactly one of the two is set.
struct RecordsSeed<'a, 'b> {
    headers: Option<&'a mut Vec<JsonHeader>>,
    snapshots: Option<&'a mut Sink<'b>>,
}

impl<'de> DeserializeSeed<'de> for RecordsSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RecordsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of damo's records")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let first: Option<String> = map.next_key()?;
        Err(A::Error::custom(match first.as_deref() {
            Some("kdamonds") => "this is a configuration (`kdamonds`), not a record of what was monitored".to_owned(),
            Some(key) => format!("an object that begins with `{key}` where a list of damo's records should be"),
            None => "an empty object where a list of damo's records should be".to_owned(),
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let header = self.headers.is_some().then(JsonHeader::default);
            let seed = RecordSeed { index, header, snapshots: self.snapshots.as_deref_mut() };
            let Some(header) = list.next_element_seed(seed)? else { return Ok(()) };
            if let (Some(headers), Some(header)) = (&mut self.headers, header) {
                headers.push(header);
            }
            index += 1;
        }
    }
}

struct RecordSeed<'a, 'b> {
    index: usize,
    header: Option<JsonHeader>,
    snapshots: Option<&'a mut Sink<'b>>,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_, '_> {
    type Value = Option<JsonHeader>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_, '_> {
    type Value = Option<JsonHeader>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {} of damo: an object with target_id and snapshots", self.index)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let index = self.index;
        let bad = |what: String| A::Error::custom(format!("record {index}: {what}"));
        while let Some(key) = map.next_key::<String>()? {
            let Some(header) = &mut self.header else {
                match (key.as_str(), self.snapshots.as_deref_mut()) {
                    ("snapshots", Some(sink)) => map.next_value_seed(SnapshotsSeed { record: index, sink })?,
                    _ => map.next_value::<IgnoredAny>().map(|_| ())?,
                }
                continue;
            };
            let number = |name: &str, value: &Scalar| -> Result<Option<u64>, String> {
                let value = value.value(COUNT, 1).map_err(|what| format!("{name}: {what}"))?;
                Ok(value.map(|value| value.value))
            };
            let small = |name: &str, value: &Scalar| -> Result<Option<u32>, String> {
                let value = number(name, value)?;
                value.map(u32::try_from).transpose().map_err(|_| format!("{name} is above 2^32"))
            };
            match key.as_str() {
                "kdamond_idx" => header.kdamond = small(&key, &map.next_value()?).map_err(bad)?.unwrap_or(0),
                "context_idx" => header.context = small(&key, &map.next_value()?).map_err(bad)?.unwrap_or(0),
                "scheme_idx" => header.scheme = small(&key, &map.next_value()?).map_err(bad)?,
                "target_id" => header.target_id = number(&key, &map.next_value()?).map_err(bad)?,
                // damo writes `unknown` if it is not known.
                "data_source" => {
                    header.data_source = map.next_value::<Option<String>>()?.filter(|source| source != "unknown");
                }
                "scheme_filters" => {
                    header.scheme_filters = map.next_value::<Option<Vec<_>>>()?.unwrap_or_default();
                }
                "intervals" => {
                    let intervals = map.next_value::<Option<JsonIntervals>>()?;
                    let read = intervals.map(|intervals| intervals.convert()).transpose().map_err(bad)?;
                    (header.intervals, header.goal) = read.unwrap_or_default();
                }
                "snapshots" => {
                    map.next_value::<IgnoredAny>()?;
                    header.has_snapshots = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self.header)
    }
}

/// Receiver of snapshots.
struct Sink<'a> {
    records: &'a [(u32, Intervals)],
    tally: &'a mut Tally,
    each: &'a mut dyn FnMut(&Snapshot) -> ControlFlow<()>,
    latest_ns: Vec<u64>,
    snapshot: Snapshot,
    number: u64,
    stopped: bool,
}

impl Sink<'_> {
    /// An empty error text means that the receiver stopped the pass.
    fn take(&mut self, record: usize, json: JsonSnapshot) -> Result<(), String> {
        let (target, intervals) =
            *self.records.get(record).ok_or("there are more records than at first: the file grew while it was read")?;
        self.snapshot.target = target;
        if !json.convert(intervals, self.tally, &mut self.snapshot)? {
            return Ok(());
        }
        let latest_ns = &mut self.latest_ns[target as usize];
        if self.snapshot.time_ns < *latest_ns {
            return Err(format!("it ends at {} ns, before the one before it ({latest_ns} ns)", self.snapshot.time_ns));
        }
        *latest_ns = self.snapshot.time_ns;
        self.snapshot.number = self.number;
        self.number += 1;
        if (self.each)(&self.snapshot).is_break() {
            self.stopped = true;
            return Err(String::new());
        }
        Ok(())
    }
}

struct SnapshotsSeed<'a, 'b> {
    record: usize,
    sink: &'a mut Sink<'b>,
}

impl<'de> DeserializeSeed<'de> for SnapshotsSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SnapshotsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the list of snapshots of record {}", self.record)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let record = self.record;
        let mut index = 0;
        while let Some(json) = list.next_element::<JsonSnapshot>()? {
            let taken = self.sink.take(record, json);
            taken.map_err(|what| A::Error::custom(format!("record {record}, snapshot {index}: {what}")))?;
            index += 1;
        }
        Ok(())
    }
}
