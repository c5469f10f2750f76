//! How the program of a recording ended.

use std::path::{Path, PathBuf};

use isotherm_trace::TraceReader;

use super::Args;
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::record::why_died;

/// The full path of a recording whose program did its work.
pub(super) fn checked(trace: &Path, args: &Args, ui: &Ui) -> Result<PathBuf, CliError> {
    let trace = std::path::absolute(trace).unwrap_or_else(|_| trace.to_owned());
    if let Some(how) = failure(&trace) {
        if !args.anyway {
            return Err(CliError::failed(format!(
                "no advice: {how}. What it needs when it works is not in this recording: record it again, or say --anyway"
            )));
        }
        ui.warn(format_args!("{how}: what it needs when it works is not in this recording"));
    }
    Ok(trace)
}

/// How the recorded program ended, if it failed, or was ended by a signal. A part that was cut out of a recording has no end of its own.
fn failure(trace: &Path) -> Option<String> {
    let reader = TraceReader::open(trace).ok()?;
    how_it_failed(reader.meta().exit_code?, reader.meta().complete)
}

fn how_it_failed(exit_code: i32, is_complete: bool) -> Option<String> {
    match exit_code {
        0 if is_complete => None,
        0 => Some("the recording was cut off before its program ended".to_owned()),
        code @ 129..=192 => {
            let signal = code - 128;
            Some(format!("the recorded program was ended by signal {signal}{}", why_died(signal)))
        }
        code => Some(format!("the recorded program failed with exit code {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_program_ended_is_said() {
        for (code, is_complete, words) in [
            (0, false, Some("cut off")),
            (1, true, Some("exit code 1")),
            (132, true, Some("ended by signal 4, an illegal instruction: if it runs without the recorder")),
            (139, true, Some("ended by signal 11")),
            (143, false, Some("ended by signal 15")),
            (255, true, Some("exit code 255")),
            (0, true, None),
        ] {
            let how = how_it_failed(code, is_complete);
            assert_eq!(how.is_some(), words.is_some(), "{code}");
            assert!(how.is_none_or(|how| how.contains(words.unwrap_or_default())), "{code}");
        }
    }
}
