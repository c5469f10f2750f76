//! Kind `masim`: configuration files of masim, the access generator of the DAMON project, unchanged.

mod config;
mod stream;

use std::io::Read;
use std::path::{Path, PathBuf};

use isotherm_units::Duration;
use isotherm_units::access::Program;
use serde::{Deserialize, Serialize};

pub use config::{MasimConfig, Mode, Order, Pattern, Phase, Region};
use stream::{Masim, Options};

use crate::spaces::{Spaces, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

/// Plays a masim configuration: regions are mapped, phases follow each other by time, each touches regions sequentially
/// or at random by weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MasimSpec {
    /// The configuration file; relative to the scenario's folder. Give this or `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The text of a configuration. Give this or `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Condition that ends a phase. Default `time`, as masim.
    #[serde(default)]
    pub phases_end: PhasesEnd,
    /// CPU time of one access, up to 1 ms, in addition to the latency of the memory. Default 20 ns: with 80 ns of DRAM
    /// that is the 10^7 accesses a second seen in masim's own logs. Raise it to play a slower masim.
    #[serde(default = "default_access_time")]
    pub access_time: Duration,
    /// Accesses to a region before the next is chosen, at least 1. Default 131072, as masim.
    #[serde(default = "default_accesses_per_pick")]
    pub accesses_per_pick: u64,
    /// How often all phases are played. Default 1.
    #[serde(default = "default_repeat")]
    pub repeat: u64,
    /// Whether masim's limit is copied: a random pattern only ever touches 1000 × 1000 offsets of its region, drawn once.
    /// Default no: every page of the region.
    #[serde(default)]
    pub limits: bool,
    /// Whether all regions are written once before the first phase. Default no, as masim: what no phase touches is never
    /// mapped to memory. Regions with an initial data file are written in any case.
    #[serde(default)]
    pub touch_first: bool,
    /// Whether regions use 2 MiB pages. Default no.
    #[serde(default)]
    pub huge: bool,
}

/// Condition that ends a phase of a masim configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhasesEnd {
    /// The machine's clock: a slower machine does less.
    #[default]
    ByTime,
    /// Work: as many accesses as fit in the phase's length at `access_time` each, so that a slower machine takes longer.
    ByWork,
}

fn default_access_time() -> Duration {
    Duration::from_ns(20)
}
fn default_accesses_per_pick() -> u64 {
    128 << 10
}
fn default_repeat() -> u64 {
    1
}

impl MasimSpec {
    /// The file at `path`, all else by default.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            config: None,
            phases_end: PhasesEnd::ByTime,
            access_time: default_access_time(),
            accesses_per_pick: default_accesses_per_pick(),
            repeat: default_repeat(),
            limits: false,
            touch_first: false,
            huge: false,
        }
    }
}

/// Larger files are no masim configurations.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl Kind for MasimSpec {
    const NAME: &'static str = "masim";
    const SUMMARY: &'static str = "configuration files of masim, DAMON's access generator, unchanged";
    const EXAMPLE: &'static str = "kind = \"masim\"\npath = \"zigzag.masim\"\naccess-time = \"20ns\"\n\
                                   touch-first = true\nphases-end = \"by-work\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let access_ns = think_ns(Self::NAME, "access-time", self.access_time)?;
        if self.access_time > Duration::from_ms(1) {
            return Err(WorkloadError::field(Self::NAME, "access-time", self.access_time, "0 to 1ms"));
        }
        if self.accesses_per_pick == 0 {
            return Err(WorkloadError::field(Self::NAME, "accesses-per-pick", 0, "1 or more"));
        }
        if self.repeat == 0 {
            return Err(WorkloadError::field(Self::NAME, "repeat", 0, "1 or more"));
        }
        if self.phases_end == PhasesEnd::ByWork && self.access_time == Duration::ZERO {
            let problem = "phases end by work, but an access takes no time";
            return Err(WorkloadError::contradiction(Self::NAME, problem, "give `access-time` or end them `by-time`"));
        }
        let config = match (&self.path, &self.config) {
            (Some(path), None) => {
                let path = context.resolve(path);
                MasimConfig::parse(&path, &read(&path)?)?
            }
            (None, Some(text)) => MasimConfig::parse(Path::new("config"), text.as_bytes())?,
            (path, _) => {
                let problem =
                    if path.is_some() { "both `path` and `config` are given" } else { "no configuration is given" };
                return Err(WorkloadError::contradiction(
                    Self::NAME,
                    problem,
                    "give `path`, a file, or `config`, its text",
                ));
            }
        };
        footprint_pages(Self::NAME, "path", config.footprint())?;
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let starts = config.regions.iter().map(|region| {
            spaces.map(&region.name, region.bytes.pages_ceil().get(), Storage::Anonymous, None, self.huge)
        });
        let starts: Vec<u64> = starts.collect();
        let options = Options {
            access_ns,
            accesses_per_pick: self.accesses_per_pick,
            repeat: self.repeat,
            limits: self.limits,
            touch_first: self.touch_first,
            phases_end: self.phases_end,
            seed: context.seed,
        };
        Ok(spaces.into_program(vec![Box::new(Masim::new(config, &starts, options))]))
    }

    fn depends_on_time(&self) -> Option<String> {
        let by_time = self.phases_end == PhasesEnd::ByTime;
        by_time.then(|| "masim's phases end by time; give `phases-end = \"by-work\"` or record a run".to_owned())
    }
}

/// The bytes of a file up to the largest length.
fn read(path: &Path) -> Result<Vec<u8>, WorkloadError> {
    let io = |source| WorkloadError::io(MasimSpec::NAME, path, source);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io(std::io::Error::other("it is larger than 16MiB and so is no masim configuration")));
    }
    Ok(bytes)
}
