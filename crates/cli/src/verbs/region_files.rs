//! Region records among the files that `import` and `export` take.

use std::io::Read;
use std::path::Path;

use isotherm_trace::region::{Intervals, OpenOptions, RecordFormat, RegionStore};
use isotherm_trace::{TraceError, TraceReader};
use isotherm_units::Duration;

use crate::error::CliError;
use crate::ui::Ui;

/// Facts that a record may lack about itself: flattened into the arguments of verbs.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct IntervalArgs {
    /// Region records: time between two checks of a region, if the file does not give it.
    #[arg(long, value_name = "TIME", alias = "sample_us")]
    sample: Option<Duration>,
    /// Region records: time over which checks were counted, if the file does not give it.
    #[arg(long, value_name = "TIME", alias = "aggr_us")]
    aggr: Option<Duration>,
}

impl IntervalArgs {
    /// The first of the flags that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match (self.sample, self.aggr) {
            (Some(_), _) => Some("--sample"),
            (None, Some(_)) => Some("--aggr"),
            (None, None) => None,
        }
    }

    /// Fails if one was given, for a file that is a page trace.
    pub(crate) fn refuse_for_trace(&self, input: &Path) -> Result<(), CliError> {
        match self.given() {
            Some(flag) => {
                Err(CliError::usage(format!("{flag} is for region records, which {} is not", input.display())))
            }
            None => Ok(()),
        }
    }

    /// How a record is opened.
    pub(crate) fn options(&self) -> Result<OpenOptions, CliError> {
        let (sample_ns, aggregation_ns) = (self.sample.map(Duration::ns), self.aggr.map(Duration::ns));
        match (sample_ns, aggregation_ns) {
            (Some(0), _) => return Err(CliError::usage("--sample is 0; allowed: above 0")),
            (sample, Some(aggregation)) if aggregation < sample.unwrap_or(1) => {
                return Err(CliError::usage("--aggr is below --sample; an aggregation counts at least one sample"));
            }
            (Some(_), None) => return Err(CliError::usage("--sample without --aggr: frequencies need both")),
            _ => {}
        }
        Ok(OpenOptions { intervals: Intervals { sample_ns, aggregation_ns, update_ns: None } })
    }
}

/// Whether the file is a region record: decided by its first bytes, and for formats that both kinds share by its columns.
pub(crate) fn is_record(path: &Path) -> bool {
    // Bytes read from a pipe would be missing in the import, and a record is never one.
    if !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut head));
    if read.is_err() {
        return false;
    }
    let has = |words: &[u8]| head.windows(words.len()).any(|window| window == words);
    match head.as_slice() {
        [b'P', b'A', b'R', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
            matches!(TraceReader::open(path), Err(TraceError::WrongFormat { .. })) && RegionStore::open(path).is_ok()
        }
        // RFC 1950: deflate with a check sum of the two bytes.
        [0x78, second, ..] if (0x7800 + u32::from(*second)) % 31 == 0 => true,
        _ if has(b"damon_aggregated:") || has(b"damon_region_aggregated:") => true,
        _ => head.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"[{".contains(byte)),
    }
}

/// Reads the record at `input` and writes it at `output`; warns of lost data.
pub(crate) fn convert(
    input: &Path,
    options: OpenOptions,
    output: &Path,
    format: RecordFormat,
    ui: &Ui,
) -> Result<(), CliError> {
    let spinner = ui.spinner("converting the record");
    let done = RegionStore::open_with(input, options).and_then(|mut store| {
        let mut warnings = store.warnings().to_vec();
        warnings.extend(store.write(output, format)?);
        Ok((warnings, store.meta().snapshots, store.meta().regions))
    });
    spinner.finish_and_clear();
    let (warnings, snapshots, regions) = done?;
    warnings.iter().for_each(|warning| ui.warn(warning));
    ui.say(format_args!("{}: {snapshots} snapshots, {regions} regions", output.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_cannot_have_been_are_refused() {
        let of = |sample: Option<u64>, aggr: Option<u64>| {
            IntervalArgs { sample: sample.map(Duration::from_ns), aggr: aggr.map(Duration::from_ns) }.options()
        };
        assert!(of(None, None).is_ok() && of(Some(5), Some(100)).is_ok() && of(None, Some(100)).is_ok());
        for (sample, aggr) in [(Some(0), Some(5)), (Some(5), Some(4)), (Some(5), None), (None, Some(0))] {
            assert!(of(sample, aggr).is_err(), "{sample:?} {aggr:?}");
        }
    }
}
