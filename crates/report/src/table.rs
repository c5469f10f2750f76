//! One table, three writers: aligned text for people, JSON and CSV for programs.

use crate::colour::Paint;
use crate::terminal::{TermStyle, display_width, paint_text, truncate};
use crate::unit::{Display, Unit, significant};
use isotherm_units::text::printable;

/// The writer that a user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned text.
    #[default]
    Table,
    /// One JSON object with the array `rows`.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

/// The edge that the cells of a column share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    /// Numbers.
    Right,
}

/// A column. The field name in JSON and CSV is the name in snake case followed by the unit (`peak memory` in bytes becomes
/// `peak_memory_bytes`).
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading without unit.
    pub name: String,
    /// Unit of the numbers; `None` for text.
    pub unit: Option<Unit>,
    /// Edge shared in text.
    pub align: Align,
}

impl Column {
    /// A column of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), unit: None, align: Align::Left }
    }
    /// A column of numbers in `unit`.
    pub fn number(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit: Some(unit), align: Align::Right }
    }

    /// The field name in JSON and CSV.
    pub fn key(&self) -> String {
        let mut key = String::new();
        for c in self.name.chars() {
            if c.is_alphanumeric() {
                key.extend(c.to_lowercase());
            } else if !key.ends_with('_') && !key.is_empty() {
                key.push('_');
            }
        }
        let suffix = self.unit.map_or("", Unit::key_suffix);
        let key = key.trim_end_matches('_');
        if key.ends_with(suffix) || key == suffix.trim_start_matches('_') {
            key.to_owned()
        } else {
            format!("{key}{suffix}")
        }
    }
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A whole number in the column's base unit.
    Int(u64),
    /// A number in the column's base unit that need not be whole (means, factors). A number that is not finite counts as missing.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Not known or not meaningful here: `null` in JSON, empty in CSV, `–` in text.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}
impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Cell {
    fn number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "for display; JSON and CSV write the integer")]
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) if value.is_finite() => Some(*value),
            _ => None,
        }
    }

    fn plain(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Int(value) => Some(value.to_string()),
            Self::Float(value) if value.is_finite() => Some(format!("{value}")),
            Self::Bool(value) => Some(value.to_string()),
            Self::Float(_) | Self::Missing => None,
        }
    }
}

/// Rows under named columns. A row with too few cells is filled up with [`Cell::Missing`]; more cells than columns are
/// not shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A line above the table in text and HTML, and the field `table` in JSON; empty for none.
    pub title: String,
    /// The columns, from left.
    pub columns: Vec<Column>,
    /// The rows, from the top.
    pub rows: Vec<Vec<Cell>>,
    /// Row that is pointed out (a recommendation).
    pub highlight: Option<usize>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, rows: Vec::new(), highlight: None }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// The same table with only the columns of these names, in the order they have here.
    pub fn only(&self, names: &[&str]) -> Self {
        let kept: Vec<usize> =
            (0..self.columns.len()).filter(|&c| names.contains(&self.columns[c].name.as_str())).collect();
        Self {
            title: self.title.clone(),
            columns: kept.iter().map(|&c| self.columns[c].clone()).collect(),
            rows: (0..self.rows.len()).map(|row| kept.iter().map(|&c| self.cell(row, c).clone()).collect()).collect(),
            highlight: self.highlight,
        }
    }

    /// The table in `format`, ending with a newline. `style` matters for text only.
    pub fn render(&self, format: Format, style: &TermStyle) -> String {
        match format {
            Format::Table => self.to_text(style),
            Format::Json => self.to_json(),
            Format::Csv => self.to_csv(),
        }
    }

    /// `{"table": …, "rows": [{…}, …]}`: integers in base units, the unit in the field name.
    pub fn to_json(&self) -> String {
        let title =
            if self.title.is_empty() { String::new() } else { format!("\"table\": {}, ", json_string(&self.title)) };
        format!("{{{title}\"rows\": {}}}\n", self.json_rows())
    }

    /// Only the array of row objects, one row a line, fields in column order.
    pub fn json_rows(&self) -> String {
        let keys: Vec<String> = self.columns.iter().map(|column| json_string(&column.key())).collect();
        let rows: Vec<String> = (0..self.rows.len())
            .map(|row| {
                let fields = keys.iter().enumerate().map(|(column, key)| match self.cell(row, column) {
                    Cell::Text(text) => format!("{key}: {}", json_string(text)),
                    cell => format!("{key}: {}", cell.plain().unwrap_or_else(|| "null".to_owned())),
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            })
            .collect();
        if rows.is_empty() { "[]".to_owned() } else { format!("[\n  {}\n]", rows.join(",\n  ")) }
    }

    /// A header line of field names, then one line a row. Quoted as RFC 4180 says; lines end with `\n`.
    pub fn to_csv(&self) -> String {
        let mut out = self.columns.iter().map(|column| csv_field(&column.key())).collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in 0..self.rows.len() {
            let fields =
                (0..self.columns.len()).map(|column| csv_field(&self.cell(row, column).plain().unwrap_or_default()));
            out.push_str(&fields.collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out
    }

    /// Aligned text. Numbers of a column share one unit, named in its heading, unless they spread over more than three
    /// decades. Wider than the terminal: the widest column of words is shortened.
    pub fn to_text(&self, style: &TermStyle) -> String {
        let grid = self.shown();
        let mut widths: Vec<usize> =
            (0..self.columns.len()).map(|c| grid.iter().map(|row| display_width(&row[c])).max().unwrap_or(0)).collect();
        self.fit(&mut widths, style.width);
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&paint_text(style, &self.title, None, true));
            out.push('\n');
        }
        for (line, cells) in grid.iter().enumerate() {
            let mut text = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let cell = truncate(cell, widths[column], style.unicode);
                let padding = " ".repeat(widths[column].saturating_sub(display_width(&cell)));
                let gap = if column == 0 { "" } else { "  " };
                match self.columns[column].align {
                    Align::Left => text.push_str(&format!("{gap}{cell}{padding}")),
                    Align::Right => text.push_str(&format!("{gap}{padding}{cell}")),
                }
            }
            let text = text.trim_end();
            let highlighted = self.highlight.is_some_and(|row| row + 1 == line);
            let paint = if line == 0 { Some(Paint::Muted) } else { highlighted.then_some(Paint::Series(2)) };
            out.push_str(&paint_text(style, text, paint, highlighted));
            out.push('\n');
        }
        out
    }

    /// Heading line and rows as words, as text and HTML show them.
    pub(crate) fn shown(&self) -> Vec<Vec<String>> {
        let displays: Vec<Option<ColumnDisplay>> = (0..self.columns.len()).map(|c| self.column_display(c)).collect();
        let mut grid = vec![
            self.columns
                .iter()
                .zip(&displays)
                .map(|(column, display)| match display {
                    Some(ColumnDisplay { scale: Some(scale), .. }) if !scale.suffix.is_empty() => {
                        format!("{} [{}]", column.name, scale.suffix)
                    }
                    _ if column.unit == Some(Unit::Pages) && column.name != "pages" => {
                        format!("{} [pages]", column.name)
                    }
                    _ => column.name.clone(),
                })
                .collect::<Vec<_>>(),
        ];
        for row in 0..self.rows.len() {
            let cells = displays.iter().enumerate().map(|(column, display)| {
                let cell = self.cell(row, column);
                match (cell, cell.number(), display) {
                    (_, Some(number), Some(display)) => display.show(number, cell),
                    (Cell::Bool(value), ..) => if *value { "yes" } else { "no" }.to_owned(),
                    (Cell::Text(text), ..) => printable(text).into_owned(),
                    (_, None, _) => "–".to_owned(),
                    (cell, ..) => cell.plain().unwrap_or_default(),
                }
            });
            grid.push(cells.collect());
        }
        grid
    }

    fn cell(&self, row: usize, column: usize) -> &Cell {
        self.rows.get(row).and_then(|row| row.get(column)).unwrap_or(&Cell::Missing)
    }

    fn column_display(&self, column: usize) -> Option<ColumnDisplay> {
        let unit = self.columns[column].unit?;
        let numbers = (0..self.rows.len()).filter_map(|row| self.cell(row, column).number()).map(f64::abs);
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0f64);
        for number in numbers.filter(|number| *number > 0.0) {
            (smallest, largest) = (smallest.min(number), largest.max(number));
        }
        let scale = match unit {
            Unit::Address | Unit::Count | Unit::Pages => None,
            Unit::Bytes | Unit::Ns if largest > smallest * 1_000.0 => None,
            _ => Some(unit.display(largest)),
        };
        let decimals = scale.map_or(0, |scale| match largest / scale.divisor {
            _ if scale.divisor == 1.0 && matches!(unit, Unit::Bytes | Unit::Ns) => 0,
            shown if unit == Unit::Factor || shown < 10.0 => 2,
            shown if shown < 100.0 => 1,
            _ if unit == Unit::Ppm => 1,
            _ => 0,
        });
        Some(ColumnDisplay { unit, scale, decimals })
    }

    /// Shortens the widest columns of text until the table fits; numbers are never cut.
    fn fit(&self, widths: &mut [usize], available: usize) {
        const NARROWEST: usize = 8;
        loop {
            let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            let widest = (0..widths.len())
                .filter(|&c| self.columns[c].align == Align::Left && widths[c] > NARROWEST)
                .max_by_key(|&c| widths[c]);
            match widest {
                Some(column) if total > available => {
                    widths[column] = widths[column].saturating_sub(total - available).max(NARROWEST);
                }
                _ => return,
            }
        }
    }
}

/// How the numbers of one column are shown.
struct ColumnDisplay {
    unit: Unit,
    /// `None`: each number with its own unit.
    scale: Option<Display>,
    decimals: usize,
}

impl ColumnDisplay {
    fn show(&self, number: f64, cell: &Cell) -> String {
        let decimals = self.decimals;
        match (self.scale, cell) {
            (Some(scale), _) => {
                let text = format!("{:.decimals$}", number / scale.divisor);
                let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'-'));
                if is_zero && number != 0.0 { format!("<{}", ["1", "0.1", "0.01"][decimals.min(2)]) } else { text }
            }
            (None, Cell::Int(value)) => match self.unit {
                Unit::Address => format!("{value:#x}"),
                Unit::Count | Unit::Pages => value.to_string(),
                unit => unit.approx(number),
            },
            (None, _) if matches!(self.unit, Unit::Count | Unit::Pages) => significant(number, 4),
            (None, _) => self.unit.approx(number),
        }
    }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Table {
        let mut table = Table::new(
            "hot ranges",
            vec![
                Column::text("mapping"),
                Column::number("start", Unit::Address),
                Column::number("size", Unit::Bytes),
                Column::number("CPU time", Unit::Ns),
                Column::number("share", Unit::Ppm),
                Column::number("slow-down", Unit::Factor),
                Column::number("touches", Unit::Count),
            ],
        );
        table.push(vec![
            "heap".into(),
            0x5555_0000_0000.into(),
            (200u64 << 20).into(),
            1_500_000_000.into(),
            Cell::Int(750_000),
            Cell::Float(1.256),
            12_345_678.into(),
        ]);
        table.push(vec![
            "libc, \"so\"".into(),
            0x7fff_0000_0000.into(),
            (64u64 << 10).into(),
            2_000_000.into(),
            Cell::Int(3),
        ]);
        table
    }

    #[test]
    fn text_has_units_in_its_headings() {
        insta::assert_snapshot!(example().to_text(&TermStyle::plain(100)), @r#"
        hot ranges
        mapping              start     size  CPU time [s]  share [%]  slow-down [×]   touches
        heap        0x555500000000  200 MiB          1.50       75.0           1.26  12345678
        libc, "so"  0x7fff00000000   64 KiB         <0.01       <0.1              –         –
        "#);
    }

    #[test]
    fn json_and_csv_have_base_units_in_their_field_names() {
        insta::assert_snapshot!(example().to_json(), @r#"
        {"table": "hot ranges", "rows": [
          {"mapping": "heap", "start": 93823560581120, "size_bytes": 209715200, "cpu_time_ns": 1500000000, "share_ppm": 750000, "slow_down": 1.256, "touches": 12345678},
          {"mapping": "libc, \"so\"", "start": 140733193388032, "size_bytes": 65536, "cpu_time_ns": 2000000, "share_ppm": 3, "slow_down": null, "touches": null}
        ]}
        "#);
        insta::assert_snapshot!(example().to_csv(), @r#"
        mapping,start,size_bytes,cpu_time_ns,share_ppm,slow_down,touches
        heap,93823560581120,209715200,1500000000,750000,1.256,12345678
        "libc, ""so""",140733193388032,65536,2000000,3,,
        "#);
        let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        assert_eq!(json["rows"][0]["size_bytes"], 200 << 20);
        assert_eq!(json["rows"][1]["slow_down"], serde_json::Value::Null);
    }

    #[test]
    fn keys_do_not_repeat_their_unit() {
        assert_eq!(Column::number("pages", Unit::Pages).key(), "pages");
        assert_eq!(Column::number("Peak memory (bytes)", Unit::Bytes).key(), "peak_memory_bytes");
        assert_eq!(Column::number("p99 stall", Unit::Ns).key(), "p99_stall_ns");
    }

    #[test]
    fn wide_columns_of_words_give_way_to_numbers() {
        let mut table = Table::new("", vec![Column::text("command"), Column::number("n", Unit::Count)]);
        table.push(vec!["x".repeat(300).into(), u64::MAX.into()]);
        let text = table.to_text(&TermStyle::plain(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("18446744073709551615"));
        assert!(!table.to_text(&TermStyle::plain(0)).is_empty());
    }

    #[test]
    fn columns_can_be_left_out() {
        let table = example().only(&["touches", "mapping"]);
        assert_eq!(table.to_csv(), "mapping,touches\nheap,12345678\n\"libc, \"\"so\"\"\",\n");
    }

    #[test]
    fn odd_tables_are_written() {
        let empty = Table::default();
        assert_eq!(empty.to_json(), "{\"rows\": []}\n");
        assert_eq!(empty.to_text(&TermStyle::plain(80)), "\n");
        let mut table = Table::new("t", vec![Column::number("v", Unit::Bytes)]);
        table.push(vec![]);
        table.push(vec![Cell::Float(f64::NAN)]);
        table.push(vec![Cell::Float(f64::INFINITY), Cell::Int(3)]);
        assert!(table.to_json().contains("{\"v_bytes\": null}"));
        table.push(vec!["esc\u{1b}[31m".into()]);
        assert!(!table.to_text(&TermStyle::plain(80)).contains('\u{1b}'));
    }
}
