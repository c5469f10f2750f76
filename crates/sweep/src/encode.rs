//! The file of one run: a table of Parquet with a row for each workload and variant.

use crate::job::{Answer, Ending};
use crate::plan::Run;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::sync::Arc;
use toml::Value;

/// Kind of a column of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Flag,
    Whole,
    Number,
    Text,
}

impl ColumnKind {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Boolean(_) => Self::Flag,
            Value::Integer(_) => Self::Whole,
            Value::Float(_) => Self::Number,
            _ => Self::Text,
        }
    }

    /// The kind that holds values of both.
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (one, same) if one == same => one,
            (Self::Whole, Self::Number) | (Self::Number, Self::Whole) => Self::Number,
            _ => Self::Text,
        }
    }

    const fn physical(self) -> Physical {
        match self {
            Self::Flag => Physical::BOOLEAN,
            Self::Whole => Physical::INT64,
            Self::Number => Physical::DOUBLE,
            Self::Text => Physical::BYTE_ARRAY,
        }
    }
}

/// Columns in front of the keys of the space.
const FIRST: [(&str, ColumnKind); 7] = [
    ("digest", ColumnKind::Text),
    ("build", ColumnKind::Text),
    ("seed", ColumnKind::Whole),
    ("workload", ColumnKind::Text),
    ("variant", ColumnKind::Text),
    ("kernel", ColumnKind::Text),
    ("ending", ColumnKind::Text),
];
/// A message: why a run failed. The column of errors, which is the last because it is long.
const ERROR: &str = "error";

/// The columns that differ from dataset to dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Keys of the space, by name.
    pub(crate) keys: Vec<(String, ColumnKind)>,
    pub(crate) metrics: Vec<String>,
}

impl Columns {
    /// All columns, in order.
    pub(crate) fn all(&self) -> Vec<(&str, ColumnKind)> {
        let keys = self.keys.iter().map(|(name, kind)| (name.as_str(), *kind));
        let metrics = self.metrics.iter().map(|name| (name.as_str(), ColumnKind::Number));
        FIRST.into_iter().chain(keys).chain(metrics).chain([(ERROR, ColumnKind::Text)]).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all().into_iter().map(|(name, _)| name)
    }
}

/// The bytes of a run's file. Equal answers of equal runs give equal bytes.
///
/// # Errors
/// The table cannot be laid out.
pub(crate) fn encode(run: &Run, columns: &Columns, build: &str, answer: &Answer) -> Result<Vec<u8>, ParquetError> {
    let all = columns.all();
    let fields = all.iter().map(|&(name, kind)| {
        let logical = (kind == ColumnKind::Text).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, kind.physical())
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    });
    let schema = Type::group_type_builder("sweep").with_fields(fields.collect::<Result<_, _>>()?).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let table = rows(run, columns, build, answer);
    let mut group = writer.next_row_group()?;
    for (index, (_, kind)) in all.iter().enumerate() {
        write(&mut group, *kind, table.iter().map(|row| &row[index]))?;
    }
    group.close()?;
    writer.into_inner()
}

/// The values of all rows; a run without a result has one row.
fn rows(run: &Run, columns: &Columns, build: &str, answer: &Answer) -> Vec<Vec<Option<Value>>> {
    let text = |text: &str| Some(Value::from(text.to_owned()));
    let seed = Some(Value::from(run.seed.cast_signed()));
    let key = |(name, _): &(String, ColumnKind)| run.point.get(name).cloned();
    let row =
        |names: [Option<Value>; 3], ending: Ending, metric: &dyn Fn(&str) -> Option<f64>, error: Option<Value>| {
            let first =
                [text(&run.id), text(build), seed.clone()].into_iter().chain(names).chain([text(ending.name())]);
            let metrics = columns.metrics.iter().map(|name| metric(name).map(Value::from));
            first.chain(columns.keys.iter().map(key)).chain(metrics).chain([error]).collect()
        };
    if answer.rows.is_empty() {
        let error = answer.error.as_deref().unwrap_or("it gave no figures");
        return vec![row([None, None, None], Ending::Failed, &|_| None, text(error))];
    }
    let of = |played: &crate::JobRow| {
        let names = [text(&played.workload), text(&played.variant), text(&played.kernel)];
        row(names, played.ending, &|name| played.values.get(name).copied(), None)
    };
    answer.rows.iter().map(of).collect()
}

fn write<'v>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    kind: ColumnKind,
    values: impl Iterator<Item = &'v Option<Value>>,
) -> Result<(), ParquetError> {
    match kind {
        ColumnKind::Flag => put::<BoolType>(group, values, |value| value.as_bool()),
        ColumnKind::Whole => put::<Int64Type>(group, values, Value::as_integer),
        ColumnKind::Number => put::<DoubleType>(group, values, number),
        ColumnKind::Text => put::<ByteArrayType>(group, values, |value| Some(ByteArray::from(shown(value).as_str()))),
    }
}

fn put<'v, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = &'v Option<Value>>,
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.map(|value| value.as_ref().and_then(&of)).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("fewer columns than said".into()))?;
    column.typed::<T>().write_batch(&there, Some(&levels), None)?;
    column.close()
}

#[expect(clippy::cast_precision_loss, reason = "whole numbers of a column that has fractions too")]
fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A text without its quotes, other values as TOML.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRow;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::collections::BTreeMap;
    use std::io::Write;

    #[test]
    fn a_file_is_read_as_it_was_meant() {
        let point = [("policy", Value::from("mglru")), ("on", Value::from(true)), ("x", Value::from(3))];
        let point: BTreeMap<String, Value> = point.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let run = Run { id: "ab".into(), seed: 5, point, scenario: String::new(), cost: 1 };
        let keys = [
            ("absent", ColumnKind::Text),
            ("on", ColumnKind::Flag),
            ("policy", ColumnKind::Text),
            ("x", ColumnKind::Number),
        ];
        let keys = keys.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
        let columns = Columns { keys, metrics: vec!["runtime_ns".into(), "psi".into()] };
        let row = |workload: &str, ending| JobRow {
            workload: workload.into(),
            variant: "v".into(),
            kernel: "7.2".into(),
            ending,
            values: BTreeMap::from([("runtime_ns".into(), 0.1 + 0.2)]),
        };
        let rows = vec![row("a", Ending::Finished), row("b", Ending::Killed)];
        let answer = Answer { number: 0, seconds: 1.0, error: None, rows };
        let shown = |answer: &Answer| -> Vec<String> {
            let bytes = encode(&run, &columns, "1.0 abc", answer).unwrap();
            assert_eq!(bytes, encode(&run, &columns, "1.0 abc", &Answer { seconds: 9.0, ..answer.clone() }).unwrap());
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
        };
        let of = |workload: &str, ending: &str| {
            format!(
                "{{digest: \"ab\", build: \"1.0 abc\", seed: 5, workload: \"{workload}\", variant: \"v\", kernel: \"7.2\", ending: \"{ending}\", \
                 absent: null, on: true, policy: \"mglru\", x: 3.0, runtime_ns: 0.30000000000000004, psi: null, error: null}}"
            )
        };
        assert_eq!(shown(&answer), [of("a", "finished"), of("b", "killed")]);
        let failed = shown(&Answer::failed(0, 1.0, "why".into()));
        assert!(failed[0].contains("ending: \"failed\"") && failed[0].ends_with("error: \"why\"}"), "{failed:?}");
    }

    #[test]
    fn kinds_are_joined() {
        use ColumnKind::{Flag, Number, Text, Whole};
        assert_eq!(
            [Whole.joined(Number), Whole.joined(Whole), Flag.joined(Whole), Text.joined(Number)],
            [Number, Whole, Text, Text]
        );
    }
}
