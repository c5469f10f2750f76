//! The text of `lru_gen` (docs/spec/mglru.md#s14-1): read, and written as the kernel writes it.

use crate::Strange;
use crate::line::Words;
use isotherm_units::{GenerationRow, Listing, Lruvec, NodeId};
use std::fmt::Write;
use thiserror::Error;

/// The switches of `enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enabled {
    /// The Multi-Gen LRU itself.
    pub core: bool,
    /// It walks page tables.
    pub walk: bool,
    /// The walk reads accessed bits above the lowest level.
    pub non_leaf: bool,
}

impl Enabled {
    /// Parses the text of `/sys/kernel/mm/lru_gen/enabled`.
    ///
    /// # Errors
    /// The text, if it is no hexadecimal number.
    pub fn parse(text: &str) -> Result<Self, Strange> {
        let digits = text.trim();
        let bits =
            u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).map_err(|_| Strange::new(text))?;
        Ok(Self { core: bits & 1 != 0, walk: bits & 2 != 0, non_leaf: bits & 4 != 0 })
    }
}

/// A text that no kernel writes, and the wrong line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("lru_gen, line {line}: {problem}; got `{text}`")]
pub struct LruGenError {
    /// Number of the line, from 1.
    pub line: usize,
    pub problem: Problem,
    /// The beginning of the line that is wrong.
    pub text: String,
}

/// Fault of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Neither of the three kinds of line.
    #[error("expected `memcg ID PATH`, ` node NUMBER` or ` SEQ AGE-MS ANON FILE`")]
    Line,
    /// A node comes before the first group.
    #[error("a node without a memcg before it")]
    NodeBeforeGroup,
    /// A generation before the first node of a group.
    #[error("a generation without a node before it")]
    RowBeforeNode,
    /// A number that is none, or above 2^64 - 1.
    #[error("expected an unsigned number of at most 2^64 - 1")]
    Number,
    /// The number of a node above 2^32 - 1.
    #[error("expected the number of a node")]
    Node,
    /// The numbers of the generations do not ascend by one.
    #[error("generations must ascend by one")]
    Order,
    /// The kernel keeps two generations at least.
    #[error("a node with fewer than two generations: the text is cut off")]
    TooFewRows,
    /// The last line has no line end.
    #[error("the last line has no end: the text is cut off")]
    CutOff,
}

/// Characters of a line that an error shows.
const SHOWN: usize = 60;

/// Reads the text of `lru_gen`, group by group in the text's order. An empty text has no groups. Lines of groups without
/// memory nodes give nothing; lines of statistics, which `lru_gen_full` has, are skipped.
///
/// # Errors
/// The first line that the kernel would not have written.
pub fn parse(text: &str) -> Result<Vec<Listing>, LruGenError> {
    let error = |line: usize, text: &str, problem| {
        let text = text.trim_end_matches('\n').chars().take(SHOWN).collect();
        LruGenError { line, problem, text }
    };
    let mut found = Reading::default();
    let mut last = (0, "");
    for (line, text) in (1..).zip(text.split_inclusive('\n')) {
        if !text.ends_with('\n') {
            return Err(error(line, text, Problem::CutOff));
        }
        found.take(text.trim_end_matches('\n')).map_err(|problem| error(line, text, problem))?;
        last = (line, text);
    }
    found.close().map_err(|problem| error(last.0, last.1, problem))?;
    Ok(found.listings)
}

#[derive(Default)]
struct Reading<'a> {
    listings: Vec<Listing>,
    group: Option<(u64, &'a str)>,
    /// The last listing still gets rows.
    is_open: bool,
}

impl<'a> Reading<'a> {
    fn take(&mut self, line: &'a str) -> Result<(), Problem> {
        if let Some(rest) = line.strip_prefix("memcg ") {
            self.close()?;
            // Linux 6.1 pads the number. A path may hold blanks, and be missing: then there are no groups but the root.
            let rest = rest.trim_start();
            let (id, path) = rest.split_once(' ').unwrap_or((rest, ""));
            self.group = Some((number(id)?, if path.is_empty() { "/" } else { path }));
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(" node ") {
            self.close()?;
            let (memcg, path) = self.group.ok_or(Problem::NodeBeforeGroup)?;
            let node = u32::try_from(number(rest.trim_start())?).map_err(|_| Problem::Node)?;
            let lruvec = Lruvec { memcg, node: NodeId(node) };
            self.listings.push(Listing { lruvec, path: path.to_owned(), rows: Vec::new() });
            self.is_open = true;
            return Ok(());
        }
        let words = Words::new(0, line.strip_prefix(' ').ok_or(Problem::Line)?);
        let Some([seq, age, anon, file]) = words.exactly() else {
            // A tier or counters of walks: more than four words, most of them with a letter at the end.
            return if self.is_open && is_statistics(line) { Ok(()) } else { Err(Problem::Line) };
        };
        let row = GenerationRow {
            seq: number(seq)?,
            age_ms: number(age)?,
            anon_pages: pages(anon)?,
            file_pages: pages(file)?,
        };
        let listing = self.listings.last_mut().filter(|_| self.is_open).ok_or(Problem::RowBeforeNode)?;
        if listing.rows.last().is_some_and(|before| before.seq.checked_add(1) != Some(row.seq)) {
            return Err(Problem::Order);
        }
        listing.rows.push(row);
        Ok(())
    }

    /// The open listing gets no more rows.
    fn close(&mut self) -> Result<(), Problem> {
        let is_short = self.listings.last().is_some_and(|listing| listing.rows.len() < 2);
        if std::mem::take(&mut self.is_open) && is_short {
            return Err(Problem::TooFewRows);
        }
        Ok(())
    }
}

fn is_statistics(line: &str) -> bool {
    line.split_ascii_whitespace().count() > 4 && line.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Counts are summed over CPUs without a lock: for a moment they can be below 0.
fn pages(word: &str) -> Result<u64, Problem> {
    match word.strip_prefix('-') {
        Some(digits) => number(digits).map(|_| 0),
        None => number(word),
    }
}

fn number(word: &str) -> Result<u64, Problem> {
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Number);
    }
    word.parse().map_err(|_| Problem::Number)
}

/// Writes the text as the kernel does: listings of a group must follow each other.
pub fn write(listings: &[Listing]) -> String {
    let mut out = String::new();
    let mut group = None;
    for Listing { lruvec, path, rows } in listings {
        if group.replace((lruvec.memcg, path)) != Some((lruvec.memcg, path)) {
            put(&mut out, format_args!("memcg {} {path}", lruvec.memcg));
        }
        put(&mut out, format_args!(" node {:5}", lruvec.node.0));
        for GenerationRow { seq, age_ms, anon_pages, file_pages } in rows {
            put(&mut out, format_args!(" {seq:10} {age_ms:10} {anon_pages:10}  {file_pages:10} "));
        }
    }
    out
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("strings take all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
memcg 0 /
 node     0
          0      13000          0           0\x20
          1      13000          0           0\x20
memcg 7 /app with blanks/db
 node     0
          4      12031       1024           9\x20
          5       8020        800          12\x20
          6       3011      16000          96\x20
          7       1002      53000           0\x20
 node     1
          0          0          0           0\x20
          1          0          0           0\x20
";

    /// E21: the row of the example, in its place.
    #[test]
    fn e21_row_is_read_and_written() {
        let listings = parse(TEXT).expect("the kernel's");
        assert_eq!(listings.len(), 3);
        let lruvec = Lruvec { memcg: 7, node: NodeId(0) };
        assert_eq!((listings[1].lruvec, listings[1].path.as_str()), (lruvec, "/app with blanks/db"));
        assert_eq!(listings[1].rows[0], GenerationRow { seq: 4, age_ms: 12_031, anon_pages: 1024, file_pages: 9 });
        assert_eq!(listings[2].lruvec.node, NodeId(1));
        let written = write(&listings);
        assert_eq!(written.lines().nth(6), Some("          4      12031       1024           9 "));
        assert_eq!(written, TEXT);
    }

    /// No kernel gives two groups one number, but a text of others may.
    #[test]
    fn groups_of_one_number_keep_their_paths() {
        let text = "memcg 1 /a\n node     0\n 2 100 5 6 \n 3 0 0 0 \nmemcg 1  e\n node     0\n 2 100 5 6 \n 3 0 0 0 \n";
        let listings = parse(text).expect("two groups");
        assert_eq!((listings[0].path.as_str(), listings[1].path.as_str()), ("/a", " e"));
        assert_eq!(parse(&write(&listings)), Ok(listings));
    }

    /// Without memory cgroups there is one group, number 0, and no path.
    #[test]
    fn a_kernel_without_groups_is_read() {
        let text = "memcg 0 \n node     0\n 2 100 5 6 \n 3 0 0 0 \n";
        let listings = parse(text).expect("the kernel's");
        assert_eq!((listings[0].path.as_str(), listings[0].rows.len()), ("/", 2));
        assert_eq!(parse(""), Ok(Vec::new()));
        let padded = parse("memcg     7 /a b\n node     0\n 2 100 5 6 \n 3 0 0 0 \n").expect("Linux 6.1's");
        assert_eq!((padded[0].lruvec.memcg, padded[0].path.as_str()), (7, "/a b"));
        assert_eq!(parse("memcg 3 /empty\n"), Ok(Vec::new()), "no memory node");
    }

    // 6.1 and 6.12 pad like this; 7.2 differs in the number of the group alone.
    const PADDED: &str = "memcg     1 /\n node     0\n          0      67023       1024          9\n          1      12031         -3         12 \n\
        memcg     2 /app.slice/web 1.service\n node     0\n          4        100          5          6 \n          5          0          0          0 \n \
        node     1\n          7         90          0          0 \n          8          0          0          0 \n";

    #[test]
    fn groups_nodes_and_generations() {
        let listings = parse(PADDED).unwrap();
        assert_eq!(listings.len(), 3);
        assert_eq!(listings[0].rows[1], GenerationRow { seq: 1, age_ms: 12_031, anon_pages: 0, file_pages: 12 });
        assert_eq!((listings[2].path.as_str(), listings[2].lruvec.node), ("/app.slice/web 1.service", NodeId(1)));
        let full = "memcg 1 /\n node 0\n 1 2 3 4 \n    0  0r 0e 0p 0 0 0\n 2 1 0 0 \n    0  0R 0T 0 0 0 0\n    1L 2O 3N 4Y 5F 6A\n";
        assert_eq!(parse(full).unwrap()[0].rows.len(), 2);
    }

    #[test]
    fn switches_are_bits() {
        assert_eq!(Enabled::parse("0x0007\n").unwrap(), Enabled { core: true, walk: true, non_leaf: true });
        assert_eq!(Enabled::parse("0x0000").unwrap(), Enabled::default());
        assert!(Enabled::parse("yes").is_err() && Enabled::parse("").is_err());
    }

    #[test]
    fn what_is_no_listing_is_refused() {
        for text in [
            "x",
            "memcg",
            "memcg x /",
            "node 0",
            "memcg 1 /\nnode x",
            "memcg 1 /\n 1 2 3 4",
            "memcg 1 /\nnode 0\n1 2 3",
            "memcg 1 /\nnode 0\n1 0 0 0\n3 0 0 0",
        ] {
            assert!(parse(text).is_err(), "{text}");
            assert!(parse(&format!("{text}\n")).is_err(), "{text}");
        }
        for end in 0..PADDED.len() {
            let _ = parse(&PADDED[..end]);
        }
    }

    #[test]
    fn garbage_is_refused_with_its_line() {
        let head = "memcg 1 /a\n node     0\n";
        let row = " 1 2 3 4\n 2 1 0 0\n";
        let table = [
            (" node     0\n".to_owned(), 1, Problem::NodeBeforeGroup),
            (" 1 2 3 4\n".to_owned(), 1, Problem::RowBeforeNode),
            (format!("memcg 1 /a\n{row}"), 2, Problem::RowBeforeNode),
            (format!("{head}{row}memcg 2 /b\n{row}"), 6, Problem::RowBeforeNode),
            ("memcg one /a\n".to_owned(), 1, Problem::Number),
            ("memcg -1 /a\n".to_owned(), 1, Problem::Number),
            ("memcg 99999999999999999999 /a\n".to_owned(), 1, Problem::Number),
            ("memcg 1 /a\n node 4294967296\n".to_owned(), 2, Problem::Node),
            ("memcg 1 /a\n node \n".to_owned(), 2, Problem::Number),
            ("hello\n".to_owned(), 1, Problem::Line),
            ("\n".to_owned(), 1, Problem::Line),
            (format!("{head} 1 2 3\n"), 3, Problem::Line),
            (format!("{head} 1 2 3 4 5\n"), 3, Problem::Line),
            (format!("{head} 1 2 3 4x\n"), 3, Problem::Number),
            (format!("{head} 1 2 3 4\n 3 1 0 0\n"), 4, Problem::Order),
            (format!("{head} 18446744073709551615 2 3 4\n 0 1 0 0\n"), 4, Problem::Order),
            (format!("{head} 1 2 3 4\n"), 3, Problem::TooFewRows),
            (format!("{head}memcg 2 /b\n"), 3, Problem::TooFewRows),
            (format!("{head} 1 2 3 4\n 2 1 0 0"), 4, Problem::CutOff),
        ];
        for (text, line, problem) in table {
            let error = parse(&text).expect_err(&text);
            assert_eq!((error.line, error.problem), (line, problem), "{text:?}");
        }
        let error = parse(&format!("{}\n", "x".repeat(1000))).expect_err("one long line").to_string();
        assert!(error.starts_with("lru_gen, line 1: expected `memcg ID PATH`") && error.len() < 200, "{error}");
    }

    #[test]
    fn every_truncation_is_an_error_or_whole_groups() {
        let whole = parse(TEXT).expect("the kernel's");
        for end in 0..TEXT.len() {
            if let Ok(read) = parse(&TEXT[..end]) {
                let last = read.len().saturating_sub(1);
                assert_eq!(read[..last], whole[..last], "cut at {end}");
                if let Some(cut) = read.last() {
                    assert!(whole[last].rows.starts_with(&cut.rows) && cut.rows.len() >= 2, "cut at {end}");
                }
            }
        }
    }

    #[test]
    fn many_groups_are_read() {
        let groups = 20_000;
        let text: String =
            (0..groups).map(|id| format!("memcg {id} /g{id}\n node     0\n 1 2 3 4\n 2 1 0 0\n")).collect();
        assert_eq!(parse(&text).map(|listings| listings.len()), Ok(groups));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[memcgnode0-9 /\n]{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(
            groups in proptest::collection::vec(
                (proptest::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), 2..5), 0u64..1 << 50), 0..5,
            ),
        ) {
            let mut listings = Vec::new();
            for (memcg, (rows, first)) in (0..).zip(groups) {
                let rows = (first..).zip(rows).map(|(seq, (age_ms, anon_pages, file_pages))| {
                    GenerationRow { seq, age_ms, anon_pages, file_pages }
                });
                let lruvec = Lruvec { memcg, node: NodeId(0) };
                listings.push(Listing { lruvec, path: format!("/group {memcg}"), rows: rows.collect() });
            }
            prop_assert_eq!(parse(&write(&listings)), Ok(listings));
        }
    }
}
