//! Settings of a monitor, from flags and damo's configurations.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use isotherm_core::monitor::{
    Attributes, Baseline, FlushPolicy, IntervalsGoal, MonitorConfig, Operations, STRATEGIES, Sampling, Strategy,
};
use isotherm_scenario::monitoring::RangeSpec;
use isotherm_units::{Bytes, Duration, Ratio};

use super::kdamonds;
use crate::error::CliError;
use crate::ui::Ui;

/// Flattened into the arguments of verbs that monitor. Flags count more than the configuration.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "How to monitor")]
pub(crate) struct SettingArgs {
    /// Take all this from damo's configuration (`damo args damon`).
    #[arg(long, value_name = "FILE", alias = "kdamonds")]
    config: Option<PathBuf>,
    /// Address space: vaddr follows a process's mappings, fvaddr takes --ranges of it, paddr is physical memory
    /// [default: vaddr].
    #[arg(long, value_enum, value_name = "OPS")]
    ops: Option<Ops>,
    /// Addresses to monitor, for fvaddr and paddr, and at the start for vaddr: START-END, comma-separated, 0x… or decimal.
    #[arg(long, value_name = "RANGES", value_delimiter = ',', alias = "regions", value_parser = parse_range)]
    ranges: Vec<RangeSpec>,
    /// Time from clearing an accessed bit to testing it [default: 5ms].
    #[arg(long, value_name = "TIME", aliases = ["sample_us", "sample-interval", "sample_interval"])]
    sample: Option<Duration>,
    /// Time over which positive samples are counted [default: 100ms].
    #[arg(long, value_name = "TIME", aliases = ["aggr_us", "aggr-interval", "aggr_interval"])]
    aggr: Option<Duration>,
    /// Time between two reads of the mappings [default: 1s, as damo; of traces, which are short: an aggregation].
    #[arg(long, value_name = "TIME", aliases = ["updr", "update_us", "ops-update-interval", "ops_update_interval"])]
    update: Option<Duration>,
    /// Fewest regions [default: 10].
    #[arg(long, value_name = "N", aliases = ["minr", "min-nr-regions", "min_nr_regions"])]
    min_regions: Option<u32>,
    /// Most regions: each costs a clear and a test a sample [default: 1000].
    #[arg(long, value_name = "N", aliases = ["maxr", "max-nr-regions", "max_nr_regions"])]
    max_regions: Option<u32>,
    /// Smallest region, a power of two.
    #[arg(long, value_name = "SIZE", aliases = ["min_region_sz", "min-region-sz"])]
    min_region_size: Option<Bytes>,
    /// All three intervals at once.
    #[arg(long, num_args = 3, value_names = ["SAMPLE", "AGGR", "UPDATE"], hide = true,
          alias = "monitoring_intervals", conflicts_with_all = ["sample", "aggr", "update"])]
    monitoring_intervals: Option<Vec<Duration>>,
    /// Both limits of regions at once.
    #[arg(long, num_args = 2, value_names = ["MIN", "MAX"], hide = true,
          alias = "monitoring_nr_regions_range", conflicts_with_all = ["min_regions", "max_regions"])]
    monitoring_nr_regions_range: Option<Vec<u32>>,
    /// Tune the intervals to find this share of all possible accesses over the given number of aggregations, between two sampling
    /// intervals.
    #[arg(long, num_args = 4, value_names = ["SHARE", "AGGRS", "MIN", "MAX"],
          aliases = ["monitoring-intervals-goal", "monitoring_intervals_goal"])]
    intervals_goal: Option<Vec<String>>,
    /// Level of the page table at which regions are sampled [default: leaf].
    #[arg(long, value_name = "STRATEGY", value_parser = PossibleValuesParser::new(STRATEGIES.iter().map(|entry| entry.name)))]
    strategy: Option<String>,
    /// How the samples of an aggregation lie in time [default: spread].
    #[arg(long, value_enum, value_name = "HOW")]
    sampling: Option<SamplingChoice>,
    /// When cached translations are dropped, so that upper bits are set again [default: none].
    #[arg(long, value_enum, value_name = "WHEN")]
    flush: Option<FlushChoice>,
    /// Release whose behaviour to follow where kernels differ [default: 7.2].
    #[arg(long, value_enum, value_name = "KERNEL")]
    baseline: Option<BaselineChoice>,
}

/// `--ops`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ops {
    Vaddr,
    Fvaddr,
    Paddr,
}

/// `--sampling`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SamplingChoice {
    /// One address per region and sample.
    Spread,
    /// As many addresses per region as samples, cleared at the beginning, tested at the end.
    Batch,
}

/// `--flush`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlushChoice {
    /// Never.
    None,
    /// At each sample.
    Batched,
    /// From the time at which a contradiction is seen to the end of the next aggregation.
    Adaptive,
}

/// `--baseline`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum BaselineChoice {
    /// Linux 6.6.
    #[value(name = "6.6", aliases = ["v6_6", "v6.6"])]
    V6_6,
    /// Linux 7.2.
    #[value(name = "7.2", aliases = ["v7_2", "v7.2"])]
    V7_2,
}

/// A checked setting.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: MonitorConfig,
    pub(crate) ranges: Vec<RangeSpec>,
}

impl Settings {
    /// Defaults of the flags: damo's defaults, which are the kernel's except that the mappings are read each second.
    fn usual() -> Self {
        let attributes = Attributes { ops_update_interval: Duration::from_secs(1), ..Attributes::default() };
        Self { config: MonitorConfig { attributes, ..MonitorConfig::default() }, ranges: Vec::new() }
    }
}

impl SettingArgs {
    /// Whether a setting of the monitor was given.
    pub(crate) fn is_given(&self) -> bool {
        let strings = [&self.strategy].into_iter().any(Option::is_some);
        let choices = [self.ops.is_some(), self.sampling.is_some(), self.flush.is_some(), self.baseline.is_some()];
        let times = [self.sample, self.aggr, self.update].iter().any(Option::is_some);
        let numbers = self.min_regions.or(self.max_regions).is_some() || self.min_region_size.is_some();
        let several = self.monitoring_intervals.is_some()
            || self.monitoring_nr_regions_range.is_some()
            || self.intervals_goal.is_some();
        self.config.is_some()
            || !self.ranges.is_empty()
            || strings
            || choices.contains(&true)
            || times
            || numbers
            || several
    }

    /// Whether the user leaves it to us when to read the mappings.
    pub(super) fn leaves_update_open(&self) -> bool {
        self.update.is_none() && self.config.is_none() && self.monitoring_intervals.is_none()
    }

    /// The setting, checked as far as it can be without a target.
    pub(crate) fn settings(&self, ui: &Ui) -> Result<Settings, CliError> {
        let mut settings = match &self.config {
            Some(path) => kdamonds::read(path, ui)?,
            None => Settings::usual(),
        };
        self.apply(&mut settings)?;
        settings.config.validate().map_err(CliError::usage)?;
        check_ranges(&settings)?;
        Ok(settings)
    }

    fn apply(&self, settings: &mut Settings) -> Result<(), CliError> {
        let config = &mut settings.config;
        if let Some([sample, aggr, update]) = self.monitoring_intervals.as_deref() {
            let attributes = &mut config.attributes;
            (attributes.sample_interval, attributes.aggr_interval) = (*sample, *aggr);
            attributes.ops_update_interval = *update;
        }
        if let Some([min, max]) = self.monitoring_nr_regions_range.as_deref() {
            (config.attributes.min_nr_regions, config.attributes.max_nr_regions) = (*min, *max);
        }
        replace(&mut config.attributes.sample_interval, self.sample);
        replace(&mut config.attributes.aggr_interval, self.aggr);
        replace(&mut config.attributes.ops_update_interval, self.update);
        replace(&mut config.attributes.min_nr_regions, self.min_regions);
        replace(&mut config.attributes.max_nr_regions, self.max_regions);
        config.min_region_size = self.min_region_size.or(config.min_region_size);
        if let Some(words) = &self.intervals_goal {
            config.attributes.intervals_goal = Some(parse_goal(words)?);
        }
        if let Some(name) = &self.strategy {
            config.strategy = Strategy::from_str(name).map_err(CliError::usage)?;
        }
        let operations = self.ops.map(|ops| match ops {
            Ops::Vaddr => Operations::Vaddr,
            Ops::Fvaddr => Operations::Fvaddr,
            Ops::Paddr => Operations::Paddr,
        });
        replace(&mut config.operations, operations);
        let sampling = self.sampling.map(|sampling| match sampling {
            SamplingChoice::Spread => Sampling::Spread,
            SamplingChoice::Batch => Sampling::Batch,
        });
        replace(&mut config.sampling, sampling);
        let flush = self.flush.map(|flush| match flush {
            FlushChoice::None => FlushPolicy::None,
            FlushChoice::Batched => FlushPolicy::Batched,
            FlushChoice::Adaptive => FlushPolicy::Adaptive,
        });
        replace(&mut config.flush, flush);
        let baseline = self.baseline.map(|baseline| match baseline {
            BaselineChoice::V6_6 => Baseline::V6_6,
            BaselineChoice::V7_2 => Baseline::V7_2,
        });
        replace(&mut config.baseline, baseline);
        if !self.ranges.is_empty() {
            settings.ranges.clone_from(&self.ranges);
        }
        Ok(())
    }
}

fn replace<T>(value: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *value = new;
    }
}

fn check_ranges(settings: &Settings) -> Result<(), CliError> {
    let show = |range: &RangeSpec| format!("{:#x}-{:#x}", range.start, range.end);
    for pair in settings.ranges.windows(2) {
        if pair[0].end > pair[1].start {
            let (first, second) = (show(&pair[0]), show(&pair[1]));
            let what = "overlap or are not in order of addresses";
            return Err(CliError::usage(format!(
                "--ranges: {first} and {second} {what}; give each once, lowest first"
            )));
        }
    }
    Ok(())
}

fn parse_range(text: &str) -> Result<RangeSpec, String> {
    let number = |word: &str| match word.trim().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.trim().parse().ok(),
    };
    let ends = text.split_once('-').and_then(|(start, end)| Some((number(start)?, number(end)?)));
    let (start, end) = ends.ok_or("allowed: START-END as addresses, such as 0x1000-0x9000")?;
    if start >= end {
        return Err(format!("its end is not above its start; {start:#x}-{end:#x} holds nothing"));
    }
    Ok(RangeSpec { start, end })
}

fn parse_goal(words: &[String]) -> Result<IntervalsGoal, CliError> {
    let bad = |what: &str, error: String| CliError::usage(format!("--intervals-goal: {what}: {error}"));
    let [share, aggrs, min, max] = words else { return Err(CliError::usage("--intervals-goal takes four values")) };
    let time = |what: &str, word: &str| word.parse::<Duration>().map_err(|error| bad(what, error.to_string()));
    Ok(IntervalsGoal {
        access: share.parse::<Ratio>().map_err(|error| bad("SHARE", error.to_string()))?,
        aggrs: aggrs.parse().map_err(|_| bad("AGGRS", format!("`{aggrs}` is not a whole number")))?,
        min_sample_interval: time("MIN", min)?,
        max_sample_interval: time("MAX", max)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_judged() {
        assert_eq!(parse_range("0x1000-8192"), Ok(RangeSpec { start: 4096, end: 8192 }));
        for text in ["", "5", "0x2000-0x1000", "1-1", "a-b", "1-0xg"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
        let of = |ranges: &[(u64, u64)]| Settings {
            ranges: ranges.iter().map(|&(start, end)| RangeSpec { start, end }).collect(),
            ..Settings::usual()
        };
        assert!(check_ranges(&of(&[(0, 5), (5, 9)])).is_ok());
        assert!(check_ranges(&of(&[(0, 6), (5, 9)])).is_err());
        assert!(check_ranges(&of(&[(5, 9), (0, 5)])).is_err());
    }

    #[test]
    fn flags_change_the_defaults() {
        let args = SettingArgs {
            sample: Some(Duration::from_ms(1)),
            monitoring_nr_regions_range: Some(vec![3, 50]),
            intervals_goal: Some(["4%", "3", "5ms", "10s"].map(str::to_owned).to_vec()),
            strategy: Some("ptp".to_owned()),
            ..SettingArgs::default()
        };
        let mut settings = Settings::usual();
        assert!(!SettingArgs::default().is_given() && args.is_given());
        args.apply(&mut settings).unwrap();
        let attributes = &settings.config.attributes;
        assert_eq!(
            (attributes.sample_interval, attributes.aggr_interval),
            (Duration::from_ms(1), Duration::from_ms(100))
        );
        assert_eq!((attributes.min_nr_regions, attributes.max_nr_regions), (3, 50));
        assert_eq!(attributes.intervals_goal.as_ref().unwrap().access, Ratio::from_percent(4));
        assert_eq!(settings.config.strategy.entry().name, "ptp");
    }
}
