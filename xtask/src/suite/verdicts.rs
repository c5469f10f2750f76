//! Parses the output of a test program with one thread: `test NAME ... ok`, a line a case, in the order in which they run.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// How one case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Failed,
    Ignored,
}

/// One case that was run.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) name: String,
    pub(super) end: End,
    pub(super) took: Duration,
}

/// All output of a program.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) verdicts: Vec<Verdict>,
    /// A case that began and never ended: the program died in it, or was stopped.
    pub(super) unfinished: Option<String>,
    /// Output after the verdicts: that of cases that failed, or that were shown.
    pub(super) rest: Vec<String>,
}

/// Reads a program's standard output until it ends. A case takes the time until the next line: `clock` is read once a line.
///
/// Output of a case's child processes, which bypasses the harness, may be anywhere between its name and its verdict.
pub(super) fn read(output: impl Read, mut clock: impl FnMut() -> Instant) -> Said {
    let mut said = Said::default();
    let mut reader = BufReader::new(output);
    let mut before = clock();
    let mut line = Vec::new();
    let mut is_over = false;
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
        line.clear();
        let now = clock();
        if is_over {
            said.rest.push(text);
            continue;
        }
        if matches!(text.as_str(), "failures:" | "successes:") {
            is_over = true;
            said.rest.push(text);
            continue;
        }
        let begun = text.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        let (name, verdict) = match (begun, said.unfinished.take()) {
            (Some((name, verdict)), _) => (name.trim_end_matches(" - should panic").to_owned(), verdict),
            (None, Some(name)) => (name, text.as_str()),
            (None, None) => {
                // The count of cases, or other output between two of them.
                before = now;
                continue;
            }
        };
        match end(verdict) {
            Some(end) => {
                said.verdicts.push(Verdict { name, end, took: now.duration_since(before) });
                before = now;
            }
            None => said.unfinished = Some(name),
        }
    }
    said
}

fn end(verdict: &str) -> Option<End> {
    let ends = |word: &str| verdict == word || verdict.starts_with(&format!("{word}, ")) || verdict.ends_with(word);
    [("ok", End::Passed), ("FAILED", End::Failed)]
        .into_iter()
        .find(|(word, _)| ends(word))
        .map(|(_, end)| end)
        .or_else(|| verdict.starts_with("ignored").then_some(End::Ignored))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that goes on by a second a line.
    fn said(text: &str) -> Said {
        let start = Instant::now();
        let mut lines = 0;
        read(text.as_bytes(), || {
            lines += 1;
            start + Duration::from_secs(lines)
        })
    }

    #[test]
    fn each_case_has_its_end_and_its_time() {
        let said = said(
            "\nrunning 4 tests\ntest a::one ... ok\ntest a::two ... ignored, nightly: long\ntest b - should panic ... ok\n\
             test c ... FAILED\n\nsuccesses:\n\n---- a::one stdout ----\nskipped: no disk\n",
        );
        let ends: Vec<_> = said.verdicts.iter().map(|verdict| (verdict.name.as_str(), verdict.end)).collect();
        let (passed, ignored, failed) = (End::Passed, End::Ignored, End::Failed);
        assert_eq!(ends, [("a::one", passed), ("a::two", ignored), ("b", passed), ("c", failed)]);
        assert!(said.verdicts.iter().all(|verdict| verdict.took == Duration::from_secs(1)), "{said:?}");
        assert!(said.rest.contains(&"skipped: no disk".to_owned()), "{said:?}");
        assert_eq!(said.unfinished, None);
    }

    #[test]
    fn what_children_print_hides_no_verdict() {
        let said = said("running 2 tests\ntest a ... warning: x\nmore\nok\ntest b ... built in 3 sok\n");
        assert_eq!(said.verdicts.len(), 2, "{said:?}");
        assert_eq!(said.verdicts[0].took, Duration::from_secs(3));
    }

    #[test]
    fn a_program_that_dies_names_the_case_it_died_in() {
        for text in ["running 2 tests\ntest a ... ok\ntest b ... ", "test a ... ok\ntest b ... \n", "test b ... gone"] {
            assert_eq!(said(text).unfinished.as_deref(), Some("b"), "{text}");
        }
        for text in ["", "\n", "test", "\u{fffd}\0", "thread 'main' panicked"] {
            assert!(said(text).verdicts.is_empty() && said(text).unfinished.is_none(), "{text}");
        }
    }
}
