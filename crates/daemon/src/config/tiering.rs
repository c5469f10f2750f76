//! `[tiering]`: promotion to fast memory and demotion to slow one (docs/use/tiers.md#on-a-live-machine).

use super::check::{Contradiction, wrong};
use super::{Config, Engine};
use isotherm_core::promotion::{MODES, Mode, PromotionConfig, SCALE_MAX};
use isotherm_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `[tiering]` table: `policy` and `balancing` as in scenarios, and the keys that only a live machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TieringConfig {
    /// Whether it may act. Default no: the writes are reported, and not made.
    pub enable: bool,
    /// Who moves pages. Default `auto`: isotherm for scan daemons, the kernel for all else.
    pub engine: Engine,
    /// `rch`, `v0` to `v3` are scan daemons: pages of `targets` that are used are promoted. `numa-mode-2` promotes used pages of all
    /// processes, `numa-mode-1` moves pages to the processors that use them, `none` promotes nothing. If left out, promotion keeps its
    /// present setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Paths of groups or names of `[[targets]]` tables whose processes a scan daemon scans.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Keys of a scan daemon, except its mode, which follows from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionConfig>,
    /// How much rarer than others the processes of an entry of `targets` are scanned, by the entry: 0 to 10, 0 is not at all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scales: BTreeMap<String, u32>,
    /// Controls of NUMA balancing. Keys that are left out keep the kernel's present values.
    pub balancing: BalancingKnobs,
    /// Whether reclaim moves pages down rather than out. If left out, it keeps its present setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demotion: Option<bool>,
}

/// Controls of NUMA balancing, as in scenarios, and the controls of its scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct BalancingKnobs {
    /// A process is not scanned before it has run for this time. Whole milliseconds, 1ms to 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_delay: Option<Duration>,
    /// The least time between two scans of a process. Whole milliseconds, 1ms to 10m, not above `scan-period-max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_period_min: Option<Duration>,
    /// The most. Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_period_max: Option<Duration>,
    /// Memory that one scan marks. Whole MiB, 1MiB to 4GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_size: Option<Bytes>,
    /// Mode 2: a page that faults sooner after it was marked is hot. Whole milliseconds, 1ms to 10m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_threshold: Option<Duration>,
    /// Mode 2: most memory promoted a second, in 2^20 bytes, 1 to 1048576.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promote_rate_limit_mbps: Option<u64>,
}

const MIB: u64 = 1 << 20;

impl TieringConfig {
    /// The value of `kernel.numa_balancing` for the policy.
    pub(crate) fn mode(&self) -> Option<&'static str> {
        match self.policy.as_deref()? {
            "none" => Some("0"),
            "numa-mode-1" => Some("1"),
            _ => Some("2"),
        }
    }

    /// The scan daemon of the policy.
    fn mode_of_scans(&self) -> Option<Mode> {
        let policy = self.policy.as_deref()?;
        MODES.iter().find(|entry| entry.name == policy).map(|entry| entry.mode)
    }

    /// Whether isotherm moves pages, and not the kernel.
    pub fn is_own(&self) -> bool {
        self.mode_of_scans().is_some()
    }

    /// The scan daemon, as it is configured.
    pub(crate) fn promotion(&self) -> PromotionConfig {
        let mode = self.mode_of_scans();
        PromotionConfig { mode, ..self.promotion.clone().unwrap_or_default() }
    }

    fn check_scans(&self, mode: Mode) -> Result<(), Contradiction> {
        if self.engine == Engine::Kernel {
            return Err(Contradiction {
                key: "tiering.engine".to_owned(),
                other: Some("tiering.policy".to_owned()),
                message: "it is a scan daemon, which no kernel has; leave `engine` out".to_owned(),
            });
        }
        if self.targets.is_empty() {
            let message = "a scan daemon looks at processes; name groups: targets = [\"web\"]";
            return Err(wrong("tiering.targets", message.to_owned()));
        }
        if let Some(first) = self.balancing.first() {
            return Err(Contradiction {
                key: format!("tiering.balancing.{first}"),
                other: Some("tiering.policy".to_owned()),
                message: "NUMA balancing is not what promotes here; leave it out".to_owned(),
            });
        }
        if self.demotion.is_some() {
            return Err(Contradiction {
                key: "tiering.demotion".to_owned(),
                other: Some("tiering.policy".to_owned()),
                message: "demotion is a switch of the kernel, and this section is carried out by isotherm; set it by other means"
                    .to_owned(),
            });
        }
        if self.promotion.as_ref().and_then(|config| config.mode).is_some_and(|given| given != mode) {
            return Err(Contradiction {
                key: "tiering.promotion.mode".to_owned(),
                other: Some("tiering.policy".to_owned()),
                message: "the mode is that of the policy; leave it out".to_owned(),
            });
        }
        for (target, scale) in &self.scales {
            let key = format!("tiering.scales.{target}");
            if !self.targets.contains(target) {
                return Err(wrong(&key, format!("`{target}` is no entry of `targets`: {}", self.targets.join(", "))));
            }
            if !mode.limits().has_scale {
                return Err(wrong(&key, "this policy knows no scales; allowed: v1 and later, rch".to_owned()));
            }
            if *scale > SCALE_MAX {
                return Err(wrong(&key, format!("it is {scale}; allowed: 0 to {SCALE_MAX}")));
            }
        }
        self.promotion().validate().map_err(|error| wrong("tiering.promotion", error.to_string()))
    }

    /// Controls that bring another section to this one while it runs, by the names of the daemon's files; `None`: it has to be restarted.
    pub(crate) fn controls_from(&self, other: &Self) -> Option<Vec<(&'static str, String)>> {
        let (new, old) = (self.promotion(), other.promotion());
        let whole_ms = |time: Duration| (time.ns() / 1_000_000).to_string();
        let mut controls = Vec::new();
        let mut changed = |name, is_changed: bool, text: String| {
            if is_changed {
                controls.push((name, text));
            }
        };
        changed("scan_enabled", new.scan_enabled != old.scan_enabled, u32::from(new.scan_enabled).to_string());
        changed("mms_to_scan", new.mms_to_scan != old.mms_to_scan, new.mms_to_scan.to_string());
        changed("target_node", new.target_node != old.target_node, new.target_node.to_string());
        for (name, new, old) in [
            ("scan_sleep_ms", new.scan_sleep, old.scan_sleep),
            ("mm_scan_period_ms", new.mm_scan_period, old.mm_scan_period),
        ] {
            // An omitted value means the mode's default, which only a new daemon knows.
            if let (Some(new), true) = (new, new != old) {
                changed(name, true, whole_ms(new));
            }
        }
        let PromotionConfig { scan_enabled, mms_to_scan, target_node, scan_sleep, mm_scan_period, .. } = new.clone();
        let like = PromotionConfig { scan_enabled, mms_to_scan, target_node, scan_sleep, mm_scan_period, ..old };
        let is_left_out = |new: Option<Duration>, old: Option<Duration>| new.is_none() && old.is_some();
        let other_promotion = other.promotion();
        let forgets = is_left_out(new.scan_sleep, other_promotion.scan_sleep)
            || is_left_out(new.mm_scan_period, other_promotion.mm_scan_period);
        let same = Self { promotion: self.promotion.clone(), scales: self.scales.clone(), ..other.clone() } == *self;
        (same && like == new && !forgets).then_some(controls)
    }

    pub(super) fn check(&self) -> Result<(), Contradiction> {
        if let Some(mode) = self.mode_of_scans() {
            return self.check_scans(mode);
        }
        if self.engine == Engine::Isotherm {
            let message = "isotherm carries out scan daemons, and this is none; say policy = \"rch\", \"v0\", \"v1\", \"v2\" or \
                           \"v3\", or leave `engine` out";
            return Err(wrong("tiering.engine", message.to_owned()));
        }
        for (key, is_given) in [("targets", !self.targets.is_empty()), ("promotion", self.promotion.is_some())] {
            if is_given {
                let message = "the kernel's engines take all processes, and have no such thing; it is for scan daemons, such as \
                               policy = \"rch\"";
                return Err(wrong(&format!("tiering.{key}"), message.to_owned()));
            }
        }
        match self.policy.as_deref() {
            None | Some("none" | "numa-mode-1" | "numa-mode-2") => {}
            Some("damon-migrate") => {
                let message =
                    "it is a monitor with schemes: say it as [[monitors]] with `migrate-hot` and `migrate-cold`";
                return Err(wrong("tiering.policy", message.to_owned()));
            }
            Some(policy) => {
                let message = format!(
                    "`{policy}` is no policy of a live machine; allowed: none, numa-mode-1, numa-mode-2, rch, v0, v1, v2, v3"
                );
                return Err(wrong("tiering.policy", message));
            }
        }
        let BalancingKnobs { scan_delay, scan_period_min, scan_period_max, scan_size, hot_threshold, .. } =
            self.balancing;
        for (name, time) in [
            ("scan-delay", scan_delay),
            ("scan-period-min", scan_period_min),
            ("scan-period-max", scan_period_max),
            ("hot-threshold", hot_threshold),
        ] {
            let Some(time) = time else { continue };
            let is_whole = time.ns().is_multiple_of(1_000_000);
            if !is_whole || time < Duration::from_ms(1) || time > Duration::from_secs(600) {
                let message = format!("it is {time}; allowed: whole milliseconds from 1ms to 10m");
                return Err(wrong(&format!("tiering.balancing.{name}"), message));
            }
        }
        if let (Some(least), Some(most)) = (scan_period_min, scan_period_max)
            && least > most
        {
            return Err(Contradiction {
                key: "tiering.balancing.scan-period-min".to_owned(),
                other: Some("tiering.balancing.scan-period-max".to_owned()),
                message: format!("the least is {least}, and the most is {most}; make it the other way round"),
            });
        }
        if let Some(size) = scan_size.filter(|size| size.get() % MIB != 0 || !(MIB..=4096 * MIB).contains(&size.get()))
        {
            let message = format!("it is {size}; allowed: whole MiB from 1MiB to 4GiB");
            return Err(wrong("tiering.balancing.scan-size", message));
        }
        let limit = self.balancing.promote_rate_limit_mbps;
        if let Some(limit) = limit.filter(|limit| !(1..=1 << 20).contains(limit)) {
            let message = format!("it is {limit}; allowed: 1 to 1048576");
            return Err(wrong("tiering.balancing.promote-rate-limit-mbps", message));
        }
        if let Some(first) = self.balancing.first()
            && matches!(self.policy.as_deref(), Some("none"))
        {
            return Err(Contradiction {
                key: format!("tiering.balancing.{first}"),
                other: Some("tiering.policy".to_owned()),
                message: "nothing is balanced under the policy `none`; leave one of them out".to_owned(),
            });
        }
        if self.policy.is_none() && self.demotion.is_none() && self.balancing.first().is_none() {
            let message = "it says nothing to set; give it a `policy`, `demotion` or `balancing`";
            return Err(wrong("tiering", message.to_owned()));
        }
        Ok(())
    }
}

impl BalancingKnobs {
    /// The first key that is given.
    fn first(&self) -> Option<&'static str> {
        let given = [
            ("scan-delay", self.scan_delay.is_some()),
            ("scan-period-min", self.scan_period_min.is_some()),
            ("scan-period-max", self.scan_period_max.is_some()),
            ("scan-size", self.scan_size.is_some()),
            ("hot-threshold", self.hot_threshold.is_some()),
            ("promote-rate-limit-mbps", self.promote_rate_limit_mbps.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

impl Config {
    pub(super) fn check_tiering(&self) -> Result<(), Contradiction> {
        let Some(section) = &self.tiering else { return Ok(()) };
        section.check()?;
        for (at, target) in section.targets.iter().enumerate() {
            let place = format!("tiering.targets[{at}]");
            let meant = self.processes_of(target, &place)?;
            if let Some(why) = meant.protected().filter(|_| section.enable) {
                return Err(wrong(&place, format!("`{target}` is left alone: {why}; name others")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> TieringConfig {
        TieringConfig { policy: Some(name.to_owned()), ..TieringConfig::default() }
    }

    #[test]
    fn what_no_live_machine_has_is_refused_by_name() {
        for name in ["none", "numa-mode-1", "numa-mode-2"] {
            assert_eq!(policy(name).check(), Ok(()), "{name}");
        }
        assert_eq!((policy("none").mode(), policy("numa-mode-2").mode()), (Some("0"), Some("2")));
        for (name, words) in [("damon-migrate", "[[monitors]]"), ("x", "allowed: none")] {
            let wrong = policy(name).check().unwrap_err();
            assert!(wrong.key == "tiering.policy" && wrong.message.contains(words), "{wrong:?}");
        }
        assert_eq!(policy("rch").check().unwrap_err().key, "tiering.targets");
        let scans = |name| TieringConfig { targets: vec!["/app".to_owned()], ..policy(name) };
        for name in ["rch", "v0", "v1", "v2", "v3"] {
            assert_eq!((scans(name).check(), scans(name).is_own()), (Ok(()), true), "{name}");
        }
        assert_eq!(scans("numa-mode-2").check().unwrap_err().key, "tiering.targets");
        let kernels = TieringConfig { engine: Engine::Kernel, ..scans("rch") };
        assert_eq!(kernels.check().unwrap_err().other.as_deref(), Some("tiering.policy"));
        let promotion =
            Some(PromotionConfig { mm_scan_period: Some(Duration::from_us(1)), ..PromotionConfig::default() });
        assert_eq!(TieringConfig { promotion, ..scans("v1") }.check().unwrap_err().key, "tiering.promotion");
        let own = TieringConfig { engine: Engine::Isotherm, ..policy("numa-mode-2") };
        assert_eq!(own.check().unwrap_err().key, "tiering.engine");
        assert_eq!(TieringConfig::default().check().unwrap_err().key, "tiering");
    }

    #[test]
    fn controls_out_of_range_are_refused() {
        let with = |balancing| TieringConfig { balancing, ..policy("numa-mode-2") }.check();
        let knobs = BalancingKnobs::default();
        let ms = |ms| Some(Duration::from_ms(ms));
        assert_eq!(with(BalancingKnobs { scan_period_min: ms(5), scan_period_max: ms(5), ..knobs }), Ok(()));
        for (balancing, key) in [
            (BalancingKnobs { scan_delay: Some(Duration::from_us(1500)), ..knobs }, "scan-delay"),
            (BalancingKnobs { hot_threshold: ms(600_001), ..knobs }, "hot-threshold"),
            (BalancingKnobs { scan_size: Some(Bytes::new(5000)), ..knobs }, "scan-size"),
            (BalancingKnobs { promote_rate_limit_mbps: Some(0), ..knobs }, "promote-rate-limit-mbps"),
            (BalancingKnobs { scan_period_min: ms(9), scan_period_max: ms(8), ..knobs }, "scan-period-min"),
        ] {
            assert_eq!(with(balancing).unwrap_err().key, format!("tiering.balancing.{key}"));
        }
        let none = TieringConfig { balancing: BalancingKnobs { scan_delay: ms(5), ..knobs }, ..policy("none") };
        assert_eq!(none.check().unwrap_err().other.as_deref(), Some("tiering.policy"));
    }

    #[test]
    fn controls_change_while_it_runs_and_all_else_begins_anew() {
        let scans = TieringConfig { targets: vec!["/app".to_owned()], ..policy("v1") };
        let with = |change: &dyn Fn(&mut PromotionConfig)| {
            let mut promotion = PromotionConfig::default();
            change(&mut promotion);
            TieringConfig { promotion: Some(promotion), ..scans.clone() }
        };
        assert_eq!(scans.controls_from(&scans), Some(Vec::new()));
        let slower = with(&|it| {
            it.scan_sleep = Some(Duration::from_ms(70));
            it.scan_enabled = false;
        });
        let controls = slower.controls_from(&scans).unwrap();
        assert_eq!(controls, [("scan_enabled", "0".to_owned()), ("scan_sleep_ms", "70".to_owned())]);
        assert_eq!(scans.controls_from(&slower), None, "the default is the mode's");
        assert_eq!(with(&|it| it.abort_on_hole = Some(true)).controls_from(&scans), None);
        assert_eq!(TieringConfig { enable: true, ..scans.clone() }.controls_from(&scans), None);
        assert_eq!(TieringConfig { policy: Some("v2".to_owned()), ..scans.clone() }.controls_from(&scans), None);
        let scaled = |name: &str, scale| TieringConfig { scales: [(name.to_owned(), scale)].into(), ..scans.clone() };
        assert_eq!(scaled("/app", 3).controls_from(&scans), Some(Vec::new()));
        assert_eq!(scaled("/app", 3).check(), Ok(()));
        assert_eq!(scaled("/app", 11).check().unwrap_err().key, "tiering.scales./app");
        assert!(scaled("/other", 1).check().unwrap_err().message.contains("no entry of `targets`"));
        let old = TieringConfig { policy: Some("v0".to_owned()), ..scaled("/app", 1) };
        assert!(old.check().unwrap_err().message.contains("knows no scales"));
    }
}
