//! damo's configuration as a setting of our own.

use std::path::Path;

use isotherm_core::monitor::{Attributes, IntervalsGoal, MonitorConfig, Operations};
use isotherm_scenario::monitoring::RangeSpec;
use isotherm_trace::region::kdamonds::{Context, MonitorIntervals, SampleControl, read_kdamonds};
use isotherm_units::{Bytes, Duration, Ratio};

use super::settings::Settings;
use crate::error::CliError;
use crate::ui::Ui;

/// Reads the first context of the first kernel thread; what it does not take over is warned of.
pub(super) fn read(path: &Path, ui: &Ui) -> Result<Settings, CliError> {
    let (kdamonds, warnings) = read_kdamonds(path).map_err(|error| match error {
        error @ isotherm_trace::TraceError::Io { .. } => CliError::from(error),
        // A configuration with a mistake is the user's, like a wrong flag.
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
    settings_of(context).map_err(bad)
}

/// What of a context has no meaning for a replay.
fn left_out(context: &Context) -> Vec<&'static str> {
    let parts = [
        (!context.schemes.is_empty(), "its schemes are not applied: nothing is done with what is found"),
        (!context.probes.is_empty(), "its attribute probes are left out"),
        (context.sample_control != SampleControl::default(), "its control of samples is left out"),
        (context.targets.len() > 1, "it has several targets: ranges are those of the first"),
    ];
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what).collect()
}

fn settings_of(context: &Context) -> Result<Settings, String> {
    let operations = match context.operations.as_str() {
        "vaddr" => Operations::Vaddr,
        "fvaddr" => Operations::Fvaddr,
        "paddr" => Operations::Paddr,
        other => return Err(format!("`ops` is `{other}`; allowed: vaddr, fvaddr, paddr")),
    };
    let regions =
        |what: &str, value: u64| u32::try_from(value).map_err(|_| format!("`{what}` is {value}; allowed: below 2^32"));
    let MonitorIntervals { sample_ns, aggregation_ns, update_ns, goal } = context.intervals;
    let intervals_goal = (goal.nr_aggregations > 0).then(|| -> Result<IntervalsGoal, String> {
        Ok(IntervalsGoal {
            access: Ratio::from_ppm(goal.access_ppm),
            aggrs: regions("aggrs", goal.nr_aggregations)?,
            min_sample_interval: Duration::from_ns(goal.min_sample_ns),
            max_sample_interval: Duration::from_ns(goal.max_sample_ns),
        })
    });
    let attributes = Attributes {
        sample_interval: Duration::from_ns(sample_ns),
        aggr_interval: Duration::from_ns(aggregation_ns),
        ops_update_interval: Duration::from_ns(update_ns),
        min_nr_regions: regions("min_nr_regions", context.min_regions)?,
        max_nr_regions: regions("max_nr_regions", context.max_regions)?,
        intervals_goal: intervals_goal.transpose()?,
    };
    let addr_unit = Bytes::new(context.address_unit_bytes);
    let config = MonitorConfig { operations, attributes, addr_unit, ..MonitorConfig::default() };
    let ranges = context.targets.first().map_or(&[][..], |target| &target.regions);
    let ranges = ranges.iter().map(|range| RangeSpec { start: range.start, end: range.end });
    Ok(Settings { config, ranges: ranges.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_becomes_a_setting() {
        let context = Context { operations: "fvaddr".to_owned(), max_regions: 77, ..Context::default() };
        let settings = settings_of(&context).unwrap();
        assert_eq!(settings.config.operations, Operations::Fvaddr);
        assert_eq!(settings.config.attributes.max_nr_regions, 77);
        assert_eq!(settings.config.attributes.ops_update_interval, Duration::from_secs(1));
        assert!(settings.config.attributes.intervals_goal.is_none());
        assert!(settings_of(&Context::default()).is_err(), "no operations set");
        let huge = Context { max_regions: 1 << 40, ..context };
        assert!(settings_of(&huge).unwrap_err().contains("max_nr_regions"));
    }
}
