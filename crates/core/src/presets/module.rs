//! Presets as the kernel has them: the parameters of its modules, under their names and in their units.

use super::{LruSort, Preset, Reclaim};
use isotherm_units::{Duration, Ratio};

/// A module of the kernel that does the work of a preset. Its files are in `/sys/module/NAME/parameters/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    /// `damon_reclaim`, `damon_lru_sort`.
    pub name: &'static str,
    /// Parameters and their values, as they are written. `enabled` and `commit_inputs` are not among them.
    pub parameters: Vec<(&'static str, String)>,
    /// Counters that can be read back, as the module names them.
    pub counters: &'static [&'static str],
}

const RECLAIM_COUNTERS: &[&str] = &[
    "nr_reclaim_tried_regions",
    "bytes_reclaim_tried_regions",
    "nr_reclaimed_regions",
    "bytes_reclaimed_regions",
    "nr_quota_exceeds",
];
const LRU_SORT_COUNTERS: &[&str] = &[
    "nr_lru_sort_tried_hot_regions",
    "bytes_lru_sort_tried_hot_regions",
    "nr_lru_sorted_hot_regions",
    "bytes_lru_sorted_hot_regions",
    "nr_hot_quota_exceeds",
    "nr_lru_sort_tried_cold_regions",
    "bytes_lru_sort_tried_cold_regions",
    "nr_lru_sorted_cold_regions",
    "bytes_lru_sorted_cold_regions",
    "nr_cold_quota_exceeds",
];

impl Preset {
    /// The module of the kernel that does the same; `None` where there is none.
    pub fn kernel_module(&self) -> Option<KernelModule> {
        match self {
            Self::Reclaim(preset) => Some(reclaim(preset)),
            Self::LruSort(preset) => Some(lru_sort(preset)),
            Self::Stat(_) | Self::PlrusRadical(_) => None,
        }
    }
}

fn us(time: Duration) -> String {
    (time.ns() / 1000).to_string()
}

fn ms(time: Duration) -> String {
    (time.ns() / 1_000_000).to_string()
}

fn permil(share: Ratio) -> String {
    (share.ppm() / 1000).to_string()
}

fn flag(is_on: bool) -> String {
    if is_on { "Y" } else { "N" }.to_owned()
}

fn reclaim(preset: &Reclaim) -> KernelModule {
    let parameters = vec![
        ("min_age", us(preset.min_age)),
        ("quota_ms", ms(preset.quota_time)),
        ("quota_sz", preset.quota_size.get().to_string()),
        ("quota_reset_interval_ms", ms(preset.quota_reset_interval)),
        ("quota_mem_pressure_us", preset.quota_mem_pressure_us.to_string()),
        ("quota_autotune_feedback", preset.quota_autotune_feedback.to_string()),
        ("autotune_monitoring_intervals", flag(preset.autotune_monitoring_intervals)),
        ("skip_anon", flag(preset.skip_anon)),
        ("wmarks_interval", us(preset.wmarks_interval)),
        ("wmarks_high", permil(preset.wmarks_high)),
        ("wmarks_mid", permil(preset.wmarks_mid)),
        ("wmarks_low", permil(preset.wmarks_low)),
        ("sample_interval", us(preset.sample_interval)),
        ("aggr_interval", us(preset.aggr_interval)),
        ("min_nr_regions", preset.min_nr_regions.to_string()),
        ("max_nr_regions", preset.max_nr_regions.to_string()),
        ("monitor_region_start", preset.monitor_region_start.to_string()),
        ("monitor_region_end", preset.monitor_region_end.to_string()),
        ("addr_unit", preset.addr_unit.get().to_string()),
    ];
    KernelModule { name: "damon_reclaim", parameters, counters: RECLAIM_COUNTERS }
}

fn lru_sort(preset: &LruSort) -> KernelModule {
    let parameters = vec![
        ("active_mem_bp", preset.active_mem_bp.to_string()),
        ("autotune_monitoring_intervals", flag(preset.autotune_monitoring_intervals)),
        ("filter_young_pages", flag(preset.filter_young_pages)),
        ("hot_thres_access_freq", permil(preset.hot_thres_access_freq)),
        ("cold_min_age", us(preset.cold_min_age)),
        ("quota_ms", ms(preset.quota_time)),
        ("quota_reset_interval_ms", ms(preset.quota_reset_interval)),
        ("wmarks_interval", us(preset.wmarks_interval)),
        ("wmarks_high", permil(preset.wmarks_high)),
        ("wmarks_mid", permil(preset.wmarks_mid)),
        ("wmarks_low", permil(preset.wmarks_low)),
        ("sample_interval", us(preset.sample_interval)),
        ("aggr_interval", us(preset.aggr_interval)),
        ("min_nr_regions", preset.min_nr_regions.to_string()),
        ("max_nr_regions", preset.max_nr_regions.to_string()),
        ("monitor_region_start", preset.monitor_region_start.to_string()),
        ("monitor_region_end", preset.monitor_region_end.to_string()),
        ("addr_unit", preset.addr_unit.get().to_string()),
    ];
    KernelModule { name: "damon_lru_sort", parameters, counters: LRU_SORT_COUNTERS }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/schemes.md#s12: the defaults are those of the kernel, in its units.
    #[test]
    fn defaults_are_what_the_modules_begin_with() {
        let of = |name: &str| name.parse::<Preset>().unwrap().kernel_module();
        let value = |module: &KernelModule, key: &str| {
            module.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone()).unwrap()
        };
        let reclaim = of("reclaim").unwrap();
        for (key, expected) in [
            ("min_age", "120000000"),
            ("quota_ms", "10"),
            ("quota_sz", "134217728"),
            ("quota_reset_interval_ms", "1000"),
            ("wmarks_interval", "5000000"),
            ("wmarks_high", "500"),
            ("wmarks_mid", "400"),
            ("wmarks_low", "200"),
            ("sample_interval", "5000"),
            ("aggr_interval", "100000"),
            ("skip_anon", "N"),
        ] {
            assert_eq!(value(&reclaim, key), expected, "{key}");
        }
        let lru_sort = of("lru-sort").unwrap();
        for (key, expected) in [("hot_thres_access_freq", "500"), ("cold_min_age", "120000000"), ("wmarks_high", "200")]
        {
            assert_eq!(value(&lru_sort, key), expected, "{key}");
        }
        assert!(of("stat").is_none() && of("plrus-radical").is_none());
    }
}
