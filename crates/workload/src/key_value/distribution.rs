//! The item that an operation picks.

use isotherm_units::Ratio;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::WorkloadError;
use crate::chance::{Permutation, Random, Ranked, Rng, Weight, below, fill_words, threshold};
use crate::spaces::check_share;

/// How operations choose among items. Written as a name (`"zipfian"`: all defaults) or as a table with a `shape`
/// (`{ shape = "zipfian", theta = 0.8 }`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    remote = "Self",
    tag = "shape",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Distribution {
    /// All items alike. The worst case of any policy: nothing can be learned.
    Uniform {},
    /// Item of rank r (from 1) with probability ∝ r^-theta: popularity in caches and key-value stores.
    Zipfian {
        /// Skew, 0 to 4; 0 is uniform. Default 0.99, as in YCSB.
        #[serde(default = "default_theta")]
        theta: f64,
        /// Whether hot items lie scattered over all items, as with hashed keys, or at the front. Default scattered.
        #[serde(default = "default_scrambled")]
        scrambled: bool,
    },
    /// Item of rank r with probability ∝ e^(-r / mean).
    Exponential {
        /// Mean rank as a share of all items, above 0. Default 10 %.
        #[serde(default = "default_mean")]
        mean: Ratio,
        /// Whether hot items lie scattered over all items or at the front. Default scattered.
        #[serde(default = "default_scrambled")]
        scrambled: bool,
    },
    /// A bell over neighbouring items; draws beyond the ends are drawn again.
    Gaussian {
        /// The middle as a share of all items, 0 to 100 %. Default 50 %.
        #[serde(default = "default_center")]
        center: Ratio,
        /// Standard deviation as a share of all items, above 0. Default 10 %.
        #[serde(default = "default_mean")]
        deviation: Ratio,
    },
    /// Items one after the other, wrapping; each thread begins at its own share.
    Sequential {},
    /// The item inserted last is the most popular, the one before it the second (zipfian by age).
    Latest {
        /// Skew, 0 to 4. Default 0.99.
        #[serde(default = "default_theta")]
        theta: f64,
    },
    /// A share of hot items takes a share of operations; the others go to the other items. Even inside both.
    Hotspot {
        /// Hot items as a share of all. Default 20 %.
        #[serde(default = "default_hot")]
        hot: Ratio,
        /// Share of operations on hot items. Default 80 %.
        #[serde(default = "default_hot_accesses")]
        hot_accesses: Ratio,
        /// Whether hot items lie scattered over all items or at the front. Default scattered.
        #[serde(default = "default_scrambled")]
        scrambled: bool,
    },
}

fn default_theta() -> f64 {
    0.99
}
fn default_scrambled() -> bool {
    true
}
fn default_mean() -> Ratio {
    Ratio::from_percent(10)
}
fn default_center() -> Ratio {
    Ratio::from_percent(50)
}
fn default_hot() -> Ratio {
    Ratio::from_percent(20)
}
fn default_hot_accesses() -> Ratio {
    Ratio::from_percent(80)
}

impl Default for Distribution {
    fn default() -> Self {
        Self::Zipfian { theta: default_theta(), scrambled: default_scrambled() }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Distribution;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a distribution, or a table with its `shape`")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Distribution, E> {
                let table = std::iter::once(("shape", name));
                Distribution::deserialize(serde::de::value::MapDeserializer::new(table))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, table: A) -> Result<Distribution, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(table))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A distribution over a fixed number of items, with its tables. Shared by all threads.
#[derive(Clone, Debug)]
pub(crate) enum Sampler {
    Uniform,
    Ranked { table: Ranked, place: Place },
    Gaussian { table: Ranked, center: u64 },
    Sequential,
    Latest { table: Ranked },
    Hotspot { hot_items: u64, hot_below: u64, place: Place },
}

/// Where ranks lie.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    InOrder,
    Scattered(Box<Permutation>),
}

impl Place {
    fn new(scrambled: bool, items: u64, seed: u64) -> Self {
        if scrambled { Self::Scattered(Box::new(Permutation::new(items, seed ^ 0x15e5_7e44))) } else { Self::InOrder }
    }
    /// Replaces ranks by items.
    fn apply(&self, ranks: &mut [u64]) {
        match self {
            Self::InOrder => {}
            Self::Scattered(permutation) => permutation.apply(ranks),
        }
    }
}

impl Sampler {
    /// `items`: 1 to 2^52.
    pub(crate) fn new(
        kind: &'static str,
        distribution: Distribution,
        items: u64,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let zipf = |theta: f64| {
            if (0.0..=4.0).contains(&theta) {
                Ok(Ranked::new(Weight::Zipf { theta }, items))
            } else {
                Err(WorkloadError::field(kind, "distribution.theta", theta, "0 to 4"))
            }
        };
        // In items, at least half of one: below, the first item has practically all the weight anyway.
        #[expect(clippy::cast_precision_loss, reason = "items stay below 2^52")]
        let width = |field, share: Ratio| {
            if share == Ratio::ZERO || share > Ratio::ONE {
                return Err(WorkloadError::field(kind, field, share, "more than 0%, up to 100%"));
            }
            Ok((share.ppm() as f64 * items as f64 / 1e6).max(0.5))
        };
        Ok(match distribution {
            Distribution::Uniform {} => Self::Uniform,
            Distribution::Sequential {} => Self::Sequential,
            Distribution::Zipfian { theta, scrambled } => {
                Self::Ranked { table: zipf(theta)?, place: Place::new(scrambled, items, seed) }
            }
            Distribution::Latest { theta } => Self::Latest { table: zipf(theta)? },
            Distribution::Exponential { mean, scrambled } => {
                let scale = width("distribution.mean", mean)?;
                let table = Ranked::new(Weight::Exponential { scale }, items);
                Self::Ranked { table, place: Place::new(scrambled, items, seed) }
            }
            Distribution::Gaussian { center, deviation } => {
                check_share(kind, "distribution.center", center)?;
                let deviation = width("distribution.deviation", deviation)?;
                let table = Ranked::new(Weight::HalfNormal { deviation }, items);
                Self::Gaussian { table, center: center.of(items).min(items - 1) }
            }
            Distribution::Hotspot { hot, hot_accesses, scrambled } => {
                check_share(kind, "distribution.hot", hot)?;
                check_share(kind, "distribution.hot-accesses", hot_accesses)?;
                let hot_items = hot.of(items);
                let hot_below = match hot_items {
                    0 => 0,
                    all if all == items => u64::MAX,
                    _ => threshold(hot_accesses),
                };
                Self::Hotspot { hot_items, hot_below, place: Place::new(scrambled, items, seed) }
            }
        })
    }

    /// Fills `out` with items out of `items`; [`Sampler::Latest`] with ages. `next` is the item of the next sequential
    /// access.
    pub(crate) fn fill(&self, items: u64, random: &mut Random, next: &mut u64, out: &mut [u64]) {
        match self {
            Self::Uniform => {
                fill_words(random, out);
                out.iter_mut().for_each(|word| *word = below(*word, items).0);
            }
            Self::Ranked { table, place } => {
                table.fill(random, out);
                place.apply(out);
            }
            Self::Gaussian { table, center } => {
                table.fill(random, out);
                for item in out {
                    *item = gaussian_item(table, *item, *center, items, random);
                }
            }
            Self::Sequential => {
                for item in out {
                    *item = *next;
                    *next = if *next + 1 == items { 0 } else { *next + 1 };
                }
            }
            Self::Latest { table } => table.fill(random, out),
            Self::Hotspot { hot_items, hot_below, place } => {
                for item in out.iter_mut() {
                    let is_hot = random.next_u64() <= *hot_below && *hot_items > 0;
                    let (from, among) = if is_hot { (0, *hot_items) } else { (*hot_items, items - hot_items) };
                    *item = from + below(random.next_u64(), among).0;
                }
                place.apply(out);
            }
        }
    }
}

/// The item at `distance` to either side of `center`; distances that lead beyond the ends are drawn again.
#[inline]
fn gaussian_item(table: &Ranked, mut distance: u64, center: u64, items: u64, random: &mut Random) -> u64 {
    loop {
        // The bell's middle lies between `center - 1` and `center`.
        let is_above = random.next_u64() >> 63 == 0;
        let item = std::hint::select_unpredictable(is_above, center + distance, center.wrapping_sub(distance + 1));
        if item < items {
            return item;
        }
        distance = table.draw(random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_a_table() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Holder {
            distribution: Distribution,
        }
        let parse = |text: &str| toml::from_str::<Holder>(text).map(|holder| holder.distribution);
        assert_eq!(parse("distribution = 'zipfian'").unwrap(), Distribution::default());
        assert_eq!(
            parse("distribution = { shape = 'zipfian', theta = 1.2, scrambled = false }").unwrap(),
            Distribution::Zipfian { theta: 1.2, scrambled: false }
        );
        let error = |text| parse(text).unwrap_err().to_string();
        assert!(error("distribution = 'zipf'").contains("unknown variant `zipf`, expected one of `uniform`"));
        assert!(error("distribution = { shape = 'uniform', theta = 1.0 }").contains("unknown field `theta`"));
        assert!(error("distribution = 3").contains("the name of a distribution"));
        let names = ["uniform", "zipfian", "exponential", "gaussian", "sequential", "latest", "hotspot"];
        for name in names {
            let holder = Holder { distribution: parse(&format!("distribution = '{name}'")).unwrap() };
            let printed = toml::to_string(&holder).unwrap();
            assert_eq!(toml::from_str::<Holder>(&printed).unwrap(), holder, "{printed}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        let message = |distribution| Sampler::new("key-value", distribution, 10, 0).unwrap_err().to_string();
        let table = [
            (Distribution::Zipfian { theta: -1.0, scrambled: true }, "`distribution.theta` is -1; allowed: 0 to 4"),
            (Distribution::Latest { theta: f64::NAN }, "`distribution.theta` is NaN"),
            (Distribution::Exponential { mean: Ratio::ZERO, scrambled: true }, "`distribution.mean` is"),
            (
                Distribution::Gaussian { center: Ratio::from_percent(101), deviation: Ratio::ONE },
                "`distribution.center` is 101%; allowed: 0% to 100%",
            ),
        ];
        for (distribution, expected) in table {
            assert!(message(distribution).contains(expected), "{}", message(distribution));
        }
    }
}
