//! The daemon's configuration, as written in files.

use super::mode::{Limits, Mode};
use super::throttle::Throttling;
use crate::OutOfRange;
use crate::vocabulary::PageRule;
use isotherm_units::{Bytes, Duration, PAGE_BYTES};
use serde::{Deserialize, Serialize};

/// Slots that the kernel visits in a round.
const MMS_TO_SCAN: u32 = 4096;
const COVER: Duration = Duration::from_secs(60);
const PROBES: u32 = 32;
const PROBES_MAX: u32 = 512;
const PROBE_ABOVE: Bytes = Bytes::new(16 << 30);

/// How the scan daemon runs. Keys that are left out take the mode's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct PromotionConfig {
    /// Rules of the decisions. If left out: `rch`, or the mode that the caller chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Off, it lists spaces and scans none.
    pub scan_enabled: bool,
    /// The node of the top tier to which pages go if there is no reason for another; in `v0` always.
    pub target_node: u32,
    /// The scan period of new spaces, within the bounds of the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mm_scan_period: Option<Duration>,
    /// Sleep between two rounds, in whole milliseconds. 0: never sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_sleep: Option<Duration>,
    /// Spaces that a round visits, due or not; 0 visits none.
    pub mms_to_scan: u32,
    /// Whether the scan period, the scan size or both are adapted.
    pub throttling: Throttling,
    /// Condition under which a page is useful, that is, worth promoting. Left out: as the mode has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_rule: Option<PageRule>,
    /// The scan of an area ends at the first empty entry, as in `v0`. In sparse heaps the pages after a hole are never found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_on_hole: Option<bool>,
    /// Scanning splits huge mappings, as in all versions: afterwards they cost base pages' misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_thp_on_scan: Option<bool>,
    /// `rch`: every part of a space is scanned once in this time. Shorter finds sooner and costs more, in proportion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cover: Option<Duration>,
    /// `rch`: pages of a region that a probe samples, 1 to 512. A probe misses a region of which a share `f` is used with probability `(1 -
    /// f)^probes`: 5 % of regions used to 9 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u32>,
    /// `rch`: in spaces with more eligible memory regions are probed before they are scanned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_above: Option<Bytes>,
    /// `rch`: bytes that may move in a second. Left out: no limit, as in the series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Bytes>,
}

impl Default for PromotionConfig {
    fn default() -> Self {
        Self {
            mode: None,
            scan_enabled: true,
            target_node: 0,
            mm_scan_period: None,
            scan_sleep: None,
            mms_to_scan: MMS_TO_SCAN,
            throttling: Throttling::default(),
            page_rule: None,
            abort_on_hole: None,
            split_thp_on_scan: None,
            cover: None,
            probes: None,
            probe_above: None,
            rate_limit: None,
        }
    }
}

impl PromotionConfig {
    /// The configuration with the defaults of a mode.
    pub fn of_mode(mode: Mode) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// The mode: as configured, else `rch`.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// Checks all that can be checked without a host.
    ///
    /// # Errors
    /// The first value outside its limits, with the allowed values.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let limits = self.mode().limits();
        let [least, _, most] = limits.period_ms.map(Duration::from_ms);
        if let Some(period) =
            self.mm_scan_period.filter(|period| *period < least || *period > most || !is_whole(*period))
        {
            return Err(OutOfRange::new(
                "mm-scan-period",
                period,
                format!("whole milliseconds from {least} to {most}"),
            ));
        }
        if let Some(sleep) = self.scan_sleep.filter(|sleep| !is_whole(*sleep)) {
            return Err(OutOfRange::new("scan-sleep", sleep, "whole milliseconds; 0 never sleeps"));
        }
        let region_keys = [
            ("cover", self.cover.map(|value| value.to_string())),
            ("probes", self.probes.map(|value| value.to_string())),
            ("probe-above", self.probe_above.map(|value| value.to_string())),
            ("rate-limit", self.rate_limit.map(|value| value.to_string())),
        ];
        if let (false, Some((what, Some(got)))) =
            (limits.by_region, region_keys.into_iter().find(|(_, value)| value.is_some()))
        {
            return Err(OutOfRange::new(
                what,
                format!("{got} with mode `{}`", self.mode().entry().name),
                "mode `rch` only",
            ));
        }
        if let Some(cover) = self.cover.filter(|cover| *cover < Duration::from_secs(1) || !is_whole(*cover)) {
            return Err(OutOfRange::new("cover", cover, "1s and more, whole milliseconds"));
        }
        if let Some(probes) = self.probes.filter(|probes| !(1..=PROBES_MAX).contains(probes)) {
            return Err(OutOfRange::new("probes", probes, format!("1 to {PROBES_MAX}")));
        }
        if let Some(rate) = self.rate_limit.filter(|rate| rate.get() < PAGE_BYTES) {
            return Err(OutOfRange::new("rate-limit", rate, "4KiB a second and more; left out, there is no limit"));
        }
        Ok(())
    }

    /// The numbers and rules of the mode, with the configured exceptions.
    pub(super) fn limits(&self) -> Limits {
        let limits = self.mode().limits();
        Limits {
            sleep_ms: self.scan_sleep.map_or(limits.sleep_ms, ms),
            rule: self.page_rule.unwrap_or(limits.rule),
            stops_at_hole: self.abort_on_hole.unwrap_or(limits.stops_at_hole),
            splits_huge: self.split_thp_on_scan.unwrap_or(limits.splits_huge),
            ..limits
        }
    }

    /// The scan period of new spaces in milliseconds.
    pub(super) fn period_ms(&self) -> u64 {
        self.mm_scan_period.map_or(self.mode().limits().period_ms[1], ms)
    }

    pub(super) fn cover_ms(&self) -> u64 {
        ms(self.cover.unwrap_or(COVER))
    }

    pub(super) fn nr_probes(&self) -> u32 {
        self.probes.unwrap_or(PROBES)
    }

    /// Eligible bytes above which regions are probed.
    pub(super) fn probe_above_bytes(&self) -> u64 {
        self.probe_above.unwrap_or(PROBE_ABOVE).get()
    }
}

fn ms(span: Duration) -> u64 {
    span.ns() / 1_000_000
}

fn is_whole(span: Duration) -> bool {
    span.ns().is_multiple_of(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_is_allowed() {
        type Row = (fn(&mut PromotionConfig), &'static str);
        let table: [Row; 9] = [
            (
                |c| c.mm_scan_period = Some(Duration::from_ms(399)),
                "`mm-scan-period` is 399ms; allowed: whole milliseconds from 400ms to 5s",
            ),
            (
                |c| (c.mode, c.mm_scan_period) = (Some(Mode::V2), Some(Duration::from_ms(599))),
                "`mm-scan-period` is 599ms; allowed: whole milliseconds from 600ms to 5s",
            ),
            (
                |c| c.mm_scan_period = Some(Duration::from_us(500_500)),
                "`mm-scan-period` is 500.5ms; allowed: whole milliseconds from 400ms to 5s",
            ),
            (
                |c| c.scan_sleep = Some(Duration::from_us(1)),
                "`scan-sleep` is 1us; allowed: whole milliseconds; 0 never sleeps",
            ),
            (
                |c| (c.mode, c.probes) = (Some(Mode::V0), Some(32)),
                "`probes` is 32 with mode `v0`; allowed: mode `rch` only",
            ),
            (|c| c.cover = Some(Duration::ZERO), "`cover` is 0ns; allowed: 1s and more, whole milliseconds"),
            (|c| c.probes = Some(0), "`probes` is 0; allowed: 1 to 512"),
            (
                |c| c.rate_limit = Some(Bytes::ZERO),
                "`rate-limit` is 0B; allowed: 4KiB a second and more; left out, there is no limit",
            ),
            (
                |c| (c.mode, c.rate_limit) = (Some(Mode::V3), Some(Bytes::new(1 << 20))),
                "`rate-limit` is 1MiB with mode `v3`; allowed: mode `rch` only",
            ),
        ];
        for (change, expected) in table {
            let mut config = PromotionConfig::default();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), expected);
        }
        for entry in super::super::MODES {
            assert_eq!(PromotionConfig::of_mode(entry.mode).validate(), Ok(()), "{}", entry.name);
        }
    }

    #[test]
    fn files_say_what_they_mean() {
        let text = "mode = \"rch\"\ncover = \"30s\"\nrate-limit = \"200MiB\"\nthrottling = \"size-only\"\n";
        let config: PromotionConfig = toml::from_str(text).unwrap();
        assert_eq!((config.cover_ms(), config.throttling), (30_000, Throttling::SizeOnly));
        let again: PromotionConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
        let error = |text| toml::from_str::<PromotionConfig>(text).unwrap_err().to_string();
        assert!(error("mode = \"v4\"").contains("`v0`, `v1`, `v2`, `v3`, `rch`"));
        assert!(error("scan-size = \"1GiB\"").contains("unknown field `scan-size`"));
    }

    #[test]
    fn what_is_set_takes_the_place_of_the_modes_own() {
        let mut config = PromotionConfig::of_mode(Mode::V0);
        assert_eq!((config.limits(), config.period_ms()), (Mode::V0.limits(), 2000));
        config.scan_sleep = Some(Duration::ZERO);
        config.page_rule = Some(PageRule::SecondAccess);
        (config.abort_on_hole, config.split_thp_on_scan) = (Some(false), Some(false));
        config.mm_scan_period = Some(Duration::from_ms(450));
        let limits = config.limits();
        assert_eq!((limits.sleep_ms, limits.rule, config.period_ms()), (0, PageRule::SecondAccess, 450));
        assert!(!limits.stops_at_hole && !limits.splits_huge);
    }
}
