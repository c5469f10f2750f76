//! Proactive reclaim: old pages are evicted before memory is short, within a budget, and not while that does harm.

use super::error::GenerationsError;
use super::estimator::{Estimator, EstimatorConfig, GroupReading, Reading, TARGETS_ALL, check_targets};
use super::outcomes::{GenerationReason, GenerationWhy};
use crate::host::{Answer, Gauge, GenerationsHost, HostError};
use crate::vocabulary::GenerationRow;
use crate::vocabulary::{Eviction, Swappiness};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Ratio};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Age of the oldest of four generations right after an ageing, in intervals.
const OLDEST_INTERVALS: u64 = 3;
/// Passes whose evictions are compared with later refaults.
const PASSES_BLAMED: usize = 8;

/// Settings of a proactive reclaimer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReclaimerConfig {
    /// Paths of groups; each stands for all below it, too. Default: `/`, all.
    pub targets: Vec<String>,
    /// Generations of this age and more are evicted. Their pages were not used for this time, less one interval at most.
    pub threshold: Duration,
    /// Time between two ageings and passes, from a third of the threshold up to all of it: no generation gets older than three
    /// intervals. Left out: half of the threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Preference for anonymous pages over pages of files. Default 60, as kernels are; without swap set 0.
    pub swappiness: Swappiness,
    /// Bytes to evict in a pass at most, at least one page. Default 128 MiB.
    pub budget: Bytes,
    /// Passes are left out, and the budget halved, after an interval in which some task was stalled by memory for more than
    /// this share of the time. Default 0.1 %.
    pub pressure: Ratio,
    /// It also backs off after an interval in which more pages came back than this share of the evictions of the last eight passes. Default
    /// 5 %.
    pub refaults: Ratio,
    /// Whether walks scan everywhere, as for estimates.
    pub force_scan: bool,
}

impl Default for ReclaimerConfig {
    fn default() -> Self {
        Self {
            targets: vec![TARGETS_ALL.to_owned()],
            threshold: Duration::from_secs(120),
            interval: None,
            swappiness: Swappiness::Of(60),
            budget: Bytes::from_mib(128),
            pressure: Ratio::from_ppm(1000),
            refaults: Ratio::from_percent(5),
            force_scan: true,
        }
    }
}

impl ReclaimerConfig {
    /// The interval: as configured, else half of the threshold.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_ns(self.threshold.ns() / 2))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), GenerationsError> {
        check_targets(&self.targets)?;
        let (interval, threshold) = (self.interval(), self.threshold);
        let longest = interval.saturating_mul(OLDEST_INTERVALS);
        if threshold < interval || threshold > longest {
            let allowed = format!(
                "from the interval of {interval} to three of it ({longest}): no generation gets older than that"
            );
            return Err(GenerationsError::new("threshold", threshold, allowed));
        }
        if self.budget.get() < PAGE_BYTES {
            return Err(GenerationsError::new("budget", self.budget, "a page (4KiB) and more"));
        }
        for (key, share) in [("pressure", self.pressure), ("refaults", self.refaults)] {
            if share > Ratio::ONE {
                return Err(GenerationsError::new(key, share, "0% to 100%"));
            }
        }
        self.estimator().validate()
    }

    /// The part that ages and reads. Both types are walked, even if only one may be evicted: memory that is not walked grows old although
    /// it is used.
    fn estimator(&self) -> EstimatorConfig {
        EstimatorConfig {
            targets: self.targets.clone(),
            interval: self.interval(),
            window: None,
            force_scan: self.force_scan,
            ..EstimatorConfig::default()
        }
    }
}

/// The result of one pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The generations before anything was evicted.
    pub reading: Reading,
    /// Bytes in generations of the threshold's age and more.
    pub cold_bytes: u64,
    /// Bytes that this pass was allowed to evict.
    pub budget_bytes: u64,
    pub evicted_bytes: u64,
    /// Evicted bytes that were faulted in again since the last pass; `None` if the host does not know.
    pub refaulted_bytes: Option<u64>,
    /// Share of the time since the last pass in which some task was stalled by memory, in millionths, where the host knows it.
    pub stalled_ppm: Option<u64>,
    /// Why it evicted nothing: memory pressure or refaults were above their limit; `None` if neither was.
    pub held_back: Option<GenerationReason>,
}

/// A tool that ages generations and evicts old ones.
#[derive(Debug)]
pub struct Reclaimer {
    config: ReclaimerConfig,
    estimator: Estimator,
    budget: u64,
    /// Time of the last reading of gauges, and their values.
    before: Option<(Instant, Readings)>,
    /// Bytes evicted by the last passes.
    evicted: VecDeque<u64>,
    why: GenerationWhy,
}

/// Totals since the host began.
#[derive(Clone, Debug, Default)]
struct Readings {
    stalled_us: Option<u64>,
    /// Keyed by the host's number of the group; only groups that could be read.
    refaulted_bytes: BTreeMap<u64, u64>,
}

impl Readings {
    /// Bytes that came back since `before`, in groups that were read then, too. Refaults of a group from before its first
    /// reading are not counted.
    fn refaulted_since(&self, before: &Self) -> Option<u64> {
        let of_both = |(memcg, now): (&u64, &u64)| Some(now.saturating_sub(*before.refaulted_bytes.get(memcg)?));
        let mut since = self.refaulted_bytes.iter().filter_map(of_both).peekable();
        since.peek()?;
        Some(since.fold(0, u64::saturating_add))
    }
}

/// A group with cold memory.
struct Cold<'a> {
    group: &'a GroupReading,
    min_gen_nr: u64,
    pages: u64,
}

impl Reclaimer {
    /// Not running yet.
    ///
    /// # Errors
    /// An invalid value of `config`.
    pub fn new(config: ReclaimerConfig) -> Result<Self, GenerationsError> {
        config.validate()?;
        let estimator = Estimator::new(config.estimator())?;
        let budget = config.budget.get();
        Ok(Self { config, estimator, budget, before: None, evicted: VecDeque::new(), why: GenerationWhy::default() })
    }

    pub const fn config(&self) -> &ReclaimerConfig {
        &self.config
    }

    /// Begins, as [`Estimator::start`].
    pub fn start(&mut self, now: Instant) {
        self.estimator.start(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; `None` before the start.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.estimator.poll_timeout()
    }

    /// Number of intervals that were left out because a call came too late.
    pub const fn missed(&self) -> u64 {
        self.estimator.missed()
    }

    /// Counts of results for groups so far, ageing included.
    pub fn why(&self) -> GenerationWhy {
        let ageing = self.estimator.why();
        let mut sum = self.why.with(ageing);
        sum.passes.begun = ageing.passes.begun;
        sum
    }

    /// Ages, and evicts old generations, if a pass is due at `now`. Otherwise as [`Estimator::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant, host: &mut dyn GenerationsHost) -> Option<Pass> {
        let reading = self.estimator.handle_timeout(now, host)?;
        let readings = self.read_gauges(host);
        let (refaulted_bytes, stalled_ppm) = match &self.before {
            Some((then, before)) => {
                let stalled_us = readings.stalled_us.zip(before.stalled_us).map(|(now, then)| now.saturating_sub(then));
                let elapsed_us = now.since(*then).ns() / 1000;
                let ppm = |us: u64| us.saturating_mul(1_000_000).checked_div(elapsed_us).unwrap_or(0);
                (readings.refaulted_since(before), stalled_us.map(ppm))
            }
            None => (None, None),
        };
        self.before = Some((now, readings));
        let held_back = self.trouble(stalled_ppm, refaulted_bytes);
        let full = self.config.budget.get();
        self.budget = match held_back {
            Some(_) => self.budget / 2,
            None => self.budget.saturating_add(full / 4).min(full),
        };
        let mut cold = self.cold_groups(&reading);
        let cold_bytes = bytes(cold.iter().map(|group| group.pages).fold(0, u64::saturating_add));
        self.why.passes.pressure += u64::from(held_back == Some(GenerationReason::Pressure));
        self.why.passes.refaults += u64::from(held_back == Some(GenerationReason::Refaults));
        let budget_bytes = self.budget;
        let evicted_bytes = match held_back {
            Some(reason) => {
                cold.iter().for_each(|group| self.why.count(reason, bytes(group.pages)));
                0
            }
            None => self.evict(&mut cold, host),
        };
        if self.evicted.len() == PASSES_BLAMED {
            self.evicted.pop_front();
        }
        self.evicted.push_back(evicted_bytes);
        Some(Pass { cold_bytes, budget_bytes, evicted_bytes, refaulted_bytes, stalled_ppm, held_back, reading })
    }

    fn read_gauges(&mut self, host: &mut dyn GenerationsHost) -> Readings {
        let mut stalled = [None];
        let pressure = host.gauges(&[Gauge::StallSomeUs], &mut stalled);
        let memcgs: Vec<u64> = self.config.targets.iter().filter_map(|target| host.memcg(target)).collect();
        let refaults: Vec<Gauge> = memcgs.iter().map(|&memcg| Gauge::RefaultBytes { memcg }).collect();
        let mut values = vec![None; refaults.len()];
        let came_back = host.gauges(&refaults, &mut values);
        self.why.passes.unread += u64::from(pressure.is_err() || came_back.is_err());
        let read = memcgs.into_iter().zip(values).filter_map(|(memcg, value)| Some((memcg, value?)));
        Readings {
            stalled_us: pressure.ok().and(stalled[0]),
            refaulted_bytes: if came_back.is_ok() { read.collect() } else { BTreeMap::new() },
        }
    }

    /// Why nothing may be evicted now.
    fn trouble(&self, stalled_ppm: Option<u64>, refaulted_bytes: Option<u64>) -> Option<GenerationReason> {
        if stalled_ppm.is_some_and(|stalled| stalled > self.config.pressure.ppm()) {
            return Some(GenerationReason::Pressure);
        }
        let blamed = self.evicted.iter().fold(0, |sum: u64, &more| sum.saturating_add(more));
        let is_too_much = |came_back: u64| blamed > 0 && came_back > self.config.refaults.of(blamed);
        refaulted_bytes.is_some_and(is_too_much).then_some(GenerationReason::Refaults)
    }

    /// Groups with cold memory, most first.
    fn cold_groups<'a>(&mut self, reading: &'a Reading) -> Vec<Cold<'a>> {
        let threshold_ms = self.config.threshold.ns() / 1_000_000;
        let mut cold = Vec::new();
        for group in &reading.groups {
            match youngest_cold(&group.listing.rows, threshold_ms) {
                Some(min_gen_nr) => {
                    let pages = self.evictable(&group.listing.rows, min_gen_nr);
                    if pages == 0 {
                        self.why.count(GenerationReason::NothingOld, 0);
                    } else {
                        cold.push(Cold { group, min_gen_nr, pages });
                    }
                }
                None => self.why.count(GenerationReason::NothingOld, 0),
            }
        }
        cold.sort_by_key(|group| (Reverse(group.pages), group.group.listing.lruvec));
        cold
    }

    fn evictable(&self, rows: &[GenerationRow], min_gen_nr: u64) -> u64 {
        let swappiness = self.config.swappiness;
        let pages = |row: &GenerationRow| {
            let anon = if swappiness.takes_anon() { row.anon_pages } else { 0 };
            anon.saturating_add(if swappiness.takes_file() { row.file_pages } else { 0 })
        };
        rows.iter().filter(|row| row.seq <= min_gen_nr).map(pages).fold(0, u64::saturating_add)
    }

    /// Spends the budget, first on groups with the most cold memory. Bytes freed.
    fn evict(&mut self, cold: &mut [Cold<'_>], host: &mut dyn GenerationsHost) -> u64 {
        let mut left = self.budget / PAGE_BYTES;
        let mut orders = Vec::with_capacity(cold.len());
        for Cold { group, min_gen_nr, pages } in cold {
            let allowed = left.min(*pages);
            left -= allowed;
            if allowed < *pages {
                self.why.count(GenerationReason::BudgetUsed, bytes(*pages - allowed));
            }
            if allowed > 0 {
                orders.push(Eviction {
                    lruvec: group.listing.lruvec,
                    min_gen_nr: *min_gen_nr,
                    swappiness: self.config.swappiness,
                    limit_pages: Some(allowed),
                });
            }
        }
        let mut answers = Vec::with_capacity(orders.len());
        host.evict_generations(&orders, &mut answers);
        let mut freed = 0u64;
        for (order, answer) in orders.iter().zip(answers) {
            let asked = bytes(order.limit_pages.unwrap_or_default());
            match answer {
                Answer::Done { bytes } | Answer::Partly { bytes } => {
                    freed = freed.saturating_add(bytes);
                    self.why.count(GenerationReason::Evicted, bytes);
                    if bytes < asked {
                        self.why.count(GenerationReason::StillThere, asked - bytes);
                    }
                }
                Answer::NotHere(missing) => self.why.refused(&HostError::NotHere(missing)),
                Answer::Failed(cause) => self.why.refused(&HostError::Failed(cause)),
            }
        }
        freed
    }
}

/// The youngest generation of at least this age that may be evicted (docs/spec/mglru.md#s14-3).
fn youngest_cold(rows: &[GenerationRow], threshold_ms: u64) -> Option<u64> {
    let max_seq = rows.last()?.seq;
    let is_allowed = |row: &&GenerationRow| row.seq.checked_add(2).is_some_and(|seq| seq <= max_seq);
    rows.iter().filter(|row| row.age_ms >= threshold_ms).filter(is_allowed).map(|row| row.seq).max()
}

fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE_BYTES)
}
