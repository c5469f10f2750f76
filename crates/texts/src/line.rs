//! The common part of the kernel's tables of zones: rows `Node 0, zone   Normal, type …` with numbers behind.

use crate::{TextError, shortened};
use isotherm_units::NodeId;
use isotherm_units::free_blocks::FreeBlocks;

/// Lines that are not empty, numbered from 1, without the blanks around them.
///
/// # Errors
/// The last line does not end.
pub(super) fn lines(text: &str) -> Result<Vec<(usize, &str)>, TextError> {
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(TextError::CutOff { line: text.lines().count() });
    }
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    Ok(numbered.filter(|(_, line)| !line.is_empty()).collect())
}

/// The words of a line, taken from the left.
pub(super) struct Words<'a> {
    line: usize,
    text: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: usize, text: &'a str) -> Self {
        Self { line, text, words: text.split_whitespace() }
    }

    pub(super) const fn line(&self) -> usize {
        self.line
    }

    /// The whole line does not fit.
    pub(super) fn unexpected(&self, expected: impl Into<String>) -> TextError {
        unexpected(self.line, expected, self.text)
    }

    /// The words that are left, which must be `N`.
    pub(super) fn exactly<const N: usize>(&self) -> Option<[&'a str; N]> {
        let mut words = self.words.clone();
        let mut found = [""; N];
        for word in &mut found {
            *word = words.next()?;
        }
        words.next().is_none().then_some(found)
    }

    /// Whether the next words are these; takes them if so.
    pub(super) fn takes(&mut self, words: &[&str]) -> bool {
        let mut ahead = self.words.clone();
        let is_there = words.iter().all(|word| ahead.next() == Some(word));
        if is_there {
            self.words = ahead;
        }
        is_there
    }

    /// A name, without the comma behind it where `ends_with_comma`.
    pub(super) fn name(&mut self, what: &str, ends_with_comma: bool) -> Result<String, TextError> {
        let word = self.words.next().unwrap_or_default();
        let name = if ends_with_comma { word.strip_suffix(',').unwrap_or_default() } else { word };
        let is_name = !name.is_empty() && name.len() <= 16 && name.chars().all(|c| c.is_ascii_alphanumeric());
        if is_name { Ok(name.to_owned()) } else { Err(unexpected(self.line, format!("the name of a {what}"), word)) }
    }

    /// `Node 0, zone`, whose number it gives.
    pub(super) fn node(&mut self) -> Result<NodeId, TextError> {
        let error = self.unexpected("`Node N, zone NAME`");
        if !self.takes(&["Node"]) {
            return Err(error);
        }
        let node = self.words.next().and_then(|word| word.strip_suffix(',')).and_then(|word| word.parse().ok());
        match node {
            Some(node) if self.takes(&["zone"]) => Ok(NodeId(node)),
            _ => Err(error),
        }
    }

    /// All that is left: numbers. `>` before a number means that it is a lower bound; the second value tells whether there was one.
    pub(super) fn numbers(&mut self) -> Result<(Vec<u64>, bool), TextError> {
        let mut is_at_least = false;
        let mut numbers = Vec::new();
        for word in self.words.by_ref() {
            let digits = word.strip_prefix('>').inspect(|_| is_at_least = true).unwrap_or(word);
            // `parse` would take a sign.
            let number = if digits.starts_with('+') { None } else { digits.parse().ok() };
            numbers.push(number.ok_or_else(|| unexpected(self.line, "a whole number below 2^64", word))?);
        }
        Ok((numbers, is_at_least))
    }

    /// All that is left: `(0, 3019, 22475)`.
    pub(super) fn list(&mut self) -> Result<Vec<u64>, TextError> {
        let list: Vec<&str> = self.words.by_ref().collect();
        let list = list.join(" ");
        let inner = list.strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let numbers = inner.map(|inner| inner.split(", ").map(str::parse).collect::<Result<_, _>>());
        numbers.and_then(Result::ok).ok_or_else(|| unexpected(self.line, "a list `(N, N, …)`", &list))
    }

    /// All that is left: names.
    pub(super) fn names(&mut self, what: &str) -> Result<Vec<String>, TextError> {
        let mut names = Vec::new();
        while self.words.clone().next().is_some() {
            names.push(self.name(what, false)?);
        }
        Ok(names)
    }
}

/// `found` is shortened, because it may be any text.
pub(super) fn unexpected(line: usize, expected: impl Into<String>, found: &str) -> TextError {
    let found = if found.is_empty() { "the end of the line".to_owned() } else { format!("{:?}", shortened(found)) };
    TextError::Unexpected { line, expected: expected.into(), found }
}

/// Counts by order, as many as in the rows before.
pub(super) fn blocks(line: usize, counts: &[u64], orders: &mut Option<usize>) -> Result<FreeBlocks, TextError> {
    if counts.is_empty() {
        return Err(unexpected(line, "counts of free blocks, by order", ""));
    }
    let expected = *orders.get_or_insert(counts.len());
    if counts.len() != expected {
        let found = format!("{} of them", counts.len());
        return Err(unexpected(line, format!("counts for {expected} orders, as in the rows before"), &found));
    }
    FreeBlocks::new(counts).map_err(|source| TextError::Blocks { line, source })
}
