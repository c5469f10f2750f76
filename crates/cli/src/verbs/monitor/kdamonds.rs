//! Converts damo's configuration to our settings.

use std::path::Path;

use isotherm_scenario::damo::watching_of;
use isotherm_trace::region::kdamonds::{Context, SampleControl, read_kdamonds};

use super::settings::Settings;
use crate::error::CliError;
use crate::ui::Ui;

/// Reads the first context of the first kernel thread; warns of each setting that it does not take over.
pub(super) fn read(path: &Path, ui: &Ui) -> Result<Settings, CliError> {
    let (kdamonds, warnings) = read_kdamonds(path).map_err(|error| match error {
        error @ isotherm_trace::TraceError::Io { .. } => CliError::from(error),
        // A mistake in the configuration is a usage error, like a wrong flag.
        error => CliError::usage(error),
    })?;
    warnings.iter().for_each(|warning| ui.warn(warning));
    let bad = |what: String| CliError::usage(format!("{}: {what}", path.display()));
    let mut contexts = kdamonds.kdamonds.iter().flat_map(|kdamond| &kdamond.contexts);
    let context = contexts.next().ok_or_else(|| bad("it has no context to monitor with".to_owned()))?;
    if contexts.next().is_some() {
        ui.warn("more than one context: the first one is taken");
    }
    for lost in left_out(context) {
        ui.warn(format_args!("{}: {lost}", path.display()));
    }
    let (config, ranges) = watching_of(context, "contexts[0]").map_err(|error| bad(error.to_string()))?;
    Ok(Settings { config, ranges })
}

/// Settings of a context that have no meaning for a replay.
fn left_out(context: &Context) -> Vec<&'static str> {
    let parts = [
        (
            !context.schemes.is_empty(),
            "its schemes are not applied: nothing is done with what is found (a scenario's `damo = \"FILE\"` applies them)",
        ),
        (!context.probes.is_empty(), "its attribute probes are left out"),
        (context.sample_control != SampleControl::default(), "its control of samples is left out"),
        (context.targets.len() > 1, "it has several targets: ranges are those of the first"),
    ];
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect()
}
