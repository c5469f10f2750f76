//! Jobs and answers between processes: documents of TOML, each behind a line with its length. TOML keeps every number.

use crate::SweepError;
use crate::job::{Job, play};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read, Write};

/// Longer documents are refused.
const BYTES_MAX: u64 = 64 << 20;

pub(crate) fn send<T: Serialize>(to: &mut impl Write, document: &T) -> Result<(), SweepError> {
    let text = toml::to_string(document).map_err(|error| SweepError::Wire(error.to_string()))?;
    let sent = writeln!(to, "{}", text.len()).and_then(|()| to.write_all(text.as_bytes())).and_then(|()| to.flush());
    sent.map_err(|error| SweepError::Wire(error.to_string()))
}

/// The next document; `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>, SweepError> {
    let wrong = |what: String| SweepError::Wire(what);
    let mut line = String::new();
    if from.by_ref().take(32).read_line(&mut line).map_err(|error| wrong(error.to_string()))? == 0 {
        return Ok(None);
    }
    let bytes = line.trim_end().parse().ok().filter(|&bytes| bytes <= BYTES_MAX);
    let bytes: u64 = bytes.ok_or_else(|| wrong(format!("{:?} in place of a length", line.trim_end())))?;
    let mut text = String::new();
    let read = from.take(bytes).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if read as u64 != bytes {
        return Err(wrong(format!("{read} of {bytes} bytes, then the end")));
    }
    toml::from_str(&text).map(Some).map_err(|error| wrong(error.message().to_owned()))
}

/// Plays jobs from `jobs` until their end; `before` sees each.
///
/// # Errors
/// Input that is no job, or answers that are no longer read.
pub fn serve(
    jobs: &mut impl BufRead,
    answers: &mut impl Write,
    mut before: impl FnMut(&Job),
) -> Result<(), SweepError> {
    while let Some(job) = receive::<Job>(jobs)? {
        before(&job);
        send(answers, &play(&job))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use proptest::prelude::*;

    #[test]
    fn what_is_served_comes_back_in_turn() {
        let job = |number| Job { number, scenario: "name = 'x'".into(), folder: "f".into() };
        let mut jobs = Vec::new();
        (0..3).for_each(|number| send(&mut jobs, &job(number)).unwrap());
        let mut answers = Vec::new();
        serve(&mut jobs.as_slice(), &mut answers, |_| {}).unwrap();
        let mut answers = answers.as_slice();
        for number in 0..3 {
            assert_eq!(receive::<Answer>(&mut answers).unwrap().map(|answer| answer.number), Some(number));
        }
        assert_eq!(receive::<Answer>(&mut answers).unwrap(), None);
    }

    #[test]
    fn garbage_is_told_and_not_taken() {
        for (bytes, what) in [
            (&b"x\n"[..], "in place of a length"),
            (b"5", "0 of 5 bytes"),
            (b"99999999999999999999\n", "in place of a length"),
            (b"68719476736\n", "in place of a length"),
            (b"2\n=\n", "key"),
            (b"3\n\xff\xfe\xfd", "UTF-8"),
        ] {
            let error = receive::<Answer>(&mut &bytes[..]).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    proptest! {
        #[test]
        fn numbers_arrive_as_they_were(value in any::<f64>().prop_filter("equal to itself", |value| !value.is_nan())) {
            let row = crate::JobRow {
                workload: "w\n\"".into(), variant: String::new(), kernel: "7.2".into(), ending: crate::Ending::Killed,
                values: [("m".to_owned(), value)].into(),
            };
            let answer = Answer { number: 1, seconds: value, error: None, rows: vec![row] };
            let mut bytes = Vec::new();
            send(&mut bytes, &answer).unwrap();
            prop_assert_eq!(receive::<Answer>(&mut bytes.as_slice()).unwrap(), Some(answer));
        }
    }
}
