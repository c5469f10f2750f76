//! `isotherm top`.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_linux::Root;
use isotherm_report::TermStyle;
use isotherm_top::{Feed, FeedError, Look, Replay, TopError, capture, parse_keys};
use isotherm_units::Duration;

use super::Styled;
use crate::error::CliError;
use crate::ui::Ui;

mod live;

/// Watch hot, warm, cold and swapped memory of groups and processes on the terminal.
///
/// Groups are shown by the ages of their generations, the process that is chosen by the accessed-bit module or clear_refs. No other state
/// is touched. With --replay, plays a region record back. `?` shows the keys. NO_COLOR and --color never take colours away.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm top
  isotherm top --capture 80x24
  isotherm top --replay redis.regions.parquet
  isotherm top --replay redis.regions.parquet --speed 4 --from 10s
  isotherm top --replay redis.regions.parquet --capture 80x24 --keys 'j3'")]
pub(crate) struct Args {
    /// Play this region record, finished or still being written.
    #[arg(long, value_name = "RECORD")]
    replay: Option<PathBuf>,
    /// Times that the replay runs faster than the recording.
    #[arg(long, default_value_t = 1, requires = "replay", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    speed: u32,
    /// Begin here, as time from the start of the record. With --capture: show this moment.
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<Duration>,
    /// Use ASCII characters only; so it is without the flag where the locale is not UTF-8.
    #[arg(long)]
    ascii: bool,
    /// Print one screen of this size as text, the last one of the record or of the machine now, and end. Needs no terminal.
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size)]
    capture: Option<(u16, u16)>,
    /// Keys to press before the screen is printed: characters, and `<enter>`, `<left>` and so on.
    #[arg(long, requires = "capture", default_value = "")]
    keys: String,
}

/// Largest side of a captured screen: larger pictures would only waste memory.
const SIDE_MAX: u16 = 1000;

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let keys = parse_keys(&args.keys).map_err(|error| CliError::usage(error).while_doing("--keys"))?;
    let style = TermStyle::detect(ui.colour(), (0, 0), |name| std::env::var(name).ok());
    let look = Look { colour: style.colour, unicode: style.unicode && !args.ascii };
    let from_ns = args.from.map(Duration::ns);
    if let Some(size) = args.capture {
        let mut feed: Box<dyn Feed> = match &args.replay {
            Some(record) => Box::new(Replay::open(record, 0).map_err(of_feed)?),
            None => Box::new(live::LiveFeed::once(Root::default())?),
        };
        let text = capture(&mut *feed, &keys, from_ns, size, look).map_err(of_feed)?;
        ui.print_styled(&Styled::drawn(text))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !ui.is_terminal() || !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        return Err(CliError::host_cannot(
            "`isotherm top` needs a terminal for its input and its output. Without one, record with `isotherm monitor`, show a record \
             with `isotherm report`, or print one screen with --replay RECORD --capture 80x24",
        ));
    }
    let mut feed: Box<dyn Feed> = match &args.replay {
        Some(record) => Box::new(Replay::open(record, args.speed).map_err(of_feed)?),
        None => Box::new(live::LiveFeed::start(Root::default())?),
    };
    isotherm_top::run(&mut *feed, look, from_ns).map_err(|error| match error {
        TopError::Feed(error) => of_feed(error),
        TopError::Terminal(_) => CliError::failed(error),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of_feed(error: FeedError) -> CliError {
    match error {
        FeedError::Trace(error) => error.into(),
        FeedError::Source(_) => CliError::failed(error),
    }
}

/// `80x24`.
fn size(text: &str) -> Result<(u16, u16), String> {
    let side = |text: &str| text.parse::<u16>().ok().filter(|side| (1..=SIDE_MAX).contains(side));
    let sides = text.split_once('x').and_then(|(width, height)| side(width).zip(side(height)));
    sides.ok_or_else(|| format!("allowed: WIDTHxHEIGHT such as 80x24, each from 1 to {SIDE_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_sides() {
        assert_eq!(size("80x24"), Ok((80, 24)));
        for text in ["", "80", "x", "80x", "0x24", "80x1001", "80x24x1", "-1x5", "99999x1"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
