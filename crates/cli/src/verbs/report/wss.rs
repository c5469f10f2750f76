//! `isotherm report wss`.

use isotherm_report::traces;
use isotherm_trace::analysis;
use isotherm_units::Duration;

use super::TraceArg;
use super::output::{Outcome, PictureArgs, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw the working set over time: how much different memory was touched in each window, and its percentiles.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Length of a window [default: 100ms, rounded up to whole epochs].
    #[arg(long, value_name = "TIME")]
    window: Option<Duration>,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let (working_set, meta) = args.trace.analyse(ui, |reader| {
        let window_ns = args.window.map_or_else(|| usual_window_ns(reader.meta().epoch_ns), Duration::ns);
        analysis::wss(reader, window_ns)
    })?;
    let drawing = traces::wss_chart(&working_set, &meta);
    let outcome = Outcome {
        title: "Working set".into(),
        drawing: Some(&drawing),
        tables: vec![traces::wss_table(&working_set, &meta)],
        csv: &|| traces::wss_csv(&working_set, &meta),
        json: &|| json_in_pages(&working_set, &meta),
        notes: traces::caveats(&meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

/// Windows of whole epochs: others would hold one epoch more or less in turn.
fn usual_window_ns(epoch_ns: u64) -> u64 {
    let usual_ns = Duration::from_ms(100).ns();
    usual_ns.checked_next_multiple_of(epoch_ns.max(1)).unwrap_or(epoch_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_whole_epochs() {
        for (epoch_ns, window_ns) in
            [(0, 100_000_000), (1_000_000, 100_000_000), (8_000_000, 104_000_000), (u64::MAX, u64::MAX)]
        {
            assert_eq!(usual_window_ns(epoch_ns), window_ns, "{epoch_ns}");
        }
    }
}
