//! When a scheme is at work at all: by the share of free memory (docs/spec/schemes.md#s9).

use crate::OutOfRange;
use crate::host::{Gauge, HostError, MonitorHost};
use isotherm_units::{Duration, Ratio};
use serde::{Deserialize, Serialize};

/// Metric that the watermarks are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatermarkMetric {
    /// Nothing: the scheme is always switched on.
    #[default]
    None,
    /// The free share of all memory, in whole per mille.
    #[serde(alias = "free_mem_rate")]
    FreeMemRate,
}

/// Switches a scheme on below `mid`, and off above `high` or below `low`. Above `high` nothing needs to be done; below `low` the
/// rest of the system is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Watermarks {
    /// Metric that the three marks are compared with.
    pub metric: WatermarkMetric,
    /// Time between two checks while no scheme of the context is switched on. Otherwise each tick checks.
    #[serde(alias = "interval_us", alias = "interval-us")]
    pub interval: Duration,
    /// The scheme switches off above this share. All three marks are cut to whole per mille.
    #[serde(alias = "high_permil", alias = "high-permil")]
    pub high: Ratio,
    /// The scheme switches on below this share.
    #[serde(alias = "mid_permil", alias = "mid-permil")]
    pub mid: Ratio,
    /// The scheme switches off below this share.
    #[serde(alias = "low_permil", alias = "low-permil")]
    pub low: Ratio,
}

impl Watermarks {
    /// Watermarks on free memory, with marks in per mille.
    pub const fn free_mem_rate(interval: Duration, high: u64, mid: u64, low: u64) -> Self {
        Self {
            metric: WatermarkMetric::FreeMemRate,
            interval,
            high: Ratio::from_ppm(high * 1000),
            mid: Ratio::from_ppm(mid * 1000),
            low: Ratio::from_ppm(low * 1000),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), OutOfRange> {
        let refuse =
            |key: &str, got: String, allowed: String| Err(OutOfRange::new(format!("watermarks.{key}"), got, allowed));
        if self.metric == WatermarkMetric::None {
            if self.high.max(self.mid).max(self.low) > Ratio::ZERO {
                return refuse("metric", "none, with marks".to_owned(), "free-mem-rate, or no marks".to_owned());
            }
            return Ok(());
        }
        if self.high > Ratio::ONE {
            return refuse("high", self.high.to_string(), "up to 100%".to_owned());
        }
        if self.mid > self.high {
            return refuse("mid", self.mid.to_string(), format!("up to watermarks.high ({})", self.high));
        }
        if self.low > self.mid {
            return refuse("low", self.low.to_string(), format!("up to watermarks.mid ({})", self.mid));
        }
        if self.interval < Duration::from_us(1) {
            return refuse("interval", self.interval.to_string(), "1us and more".to_owned());
        }
        Ok(())
    }

    /// Whether it is at work with `free` per mille, given whether it was before.
    pub(crate) fn is_active(&self, free_permil: u64, was_active: bool) -> bool {
        let [high, mid, low] = [self.high, self.mid, self.low].map(|mark| mark.ppm() / 1000);
        debug_assert!(low <= mid && mid <= high, "marks were validated");
        match () {
            () if free_permil > high || free_permil < low => false,
            () if free_permil >= mid => was_active,
            () => true,
        }
    }
}

/// Free per mille of all memory.
pub(crate) fn free_permil(host: &mut dyn MonitorHost) -> Result<u64, HostError> {
    let mut values = [None; 2];
    host.gauges(&[Gauge::FreeBytes(None), Gauge::TotalBytes(None)], &mut values)?;
    let [free, total] = values.map(|value| u128::from(value.unwrap_or_default()));
    Ok(u64::try_from(free * 1000 / total.max(1)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/schemes.md#s15, example 36.
    #[test]
    fn it_starts_below_mid_and_stops_above_high_or_below_low() {
        let watermarks = Watermarks::free_mem_rate(Duration::from_secs(5), 200, 150, 50);
        let rates = [250, 200, 151, 150, 149, 180, 200, 201, 160, 149, 50, 49, 100];
        let mut is_active = true;
        let states: Vec<bool> = rates
            .into_iter()
            .map(|rate| {
                is_active = watermarks.is_active(rate, is_active);
                is_active
            })
            .collect();
        let (on, off) = (true, false);
        assert_eq!(states, [off, off, off, off, on, on, on, off, off, on, on, off, on], "example 36");
    }

    #[test]
    fn marks_out_of_order_are_refused() {
        let error = |high, mid, low| {
            Watermarks::free_mem_rate(Duration::from_secs(5), high, mid, low).validate().unwrap_err().to_string()
        };
        assert_eq!(error(200, 300, 50), "`watermarks.mid` is 30%; allowed: up to watermarks.high (20%)");
        assert_eq!(error(200, 150, 160), "`watermarks.low` is 16%; allowed: up to watermarks.mid (15%)");
        assert_eq!(error(2000, 150, 50), "`watermarks.high` is 200%; allowed: up to 100%");
        assert!(Watermarks::default().validate().is_ok());
        let never = Watermarks { interval: Duration::ZERO, ..Watermarks::free_mem_rate(Duration::ZERO, 200, 150, 50) };
        assert!(never.validate().is_err());
        let idle = Watermarks { high: Ratio::ONE, ..Watermarks::default() };
        assert!(idle.validate().unwrap_err().to_string().starts_with("`watermarks.metric` is none, with marks"));
    }
}
