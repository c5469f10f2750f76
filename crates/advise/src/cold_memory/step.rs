//! Evidence from the time between two samples: how much memory must stay so that only memory idle for longer than a cut is evicted,
//! and how much of that was used again.

use serde::Serialize;

/// Three figures of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Bounds {
    /// The least that the source allows.
    pub low: f64,
    /// The most likely figure under the assumptions in `docs/use/advise.md#records-of-a-running-program`.
    pub middle: f64,
    /// The most that the source allows.
    pub high: f64,
}

impl Bounds {
    /// All three divided by `by`.
    #[must_use]
    pub fn per(self, by: f64) -> Self {
        Self { low: self.low / by, middle: self.middle / by, high: self.high / by }
    }

    /// The sum, figure by figure.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, middle: self.middle + other.middle, high: self.high + other.high }
    }
}

/// Memory that had been idle for `age_ns` and longer at a sample, and its use until the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) age_ns: u64,
    /// Memory idle for that long at the first sample.
    pub(super) cold_bytes: u64,
    /// All other memory at the first sample.
    pub(super) hot_low_bytes: u64,
    /// Largest amount, up to the second sample, of memory that was idle for less than `age_ns`.
    pub(super) hot_high_bytes: u64,
    /// Bytes of it that were used again.
    pub(super) again_bytes: Bounds,
}

/// The changes from one sample to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    pub(super) duration_ns: u64,
    /// Cuts by age, youngest first: the younger a cut, the less memory stays and the more is used again.
    pub(super) cuts: Vec<Cut>,
    /// The larger of all memory at the first sample and at the second.
    pub(super) total_bytes: u64,
}

impl Step {
    /// Evicted memory that is used again, if `memory_bytes` stay. `None`: with so few pages one page may be refaulted many times
    /// between two samples, which samples do not show.
    pub(super) fn again_bytes(&self, memory_bytes: u64) -> Option<Bounds> {
        if memory_bytes >= self.total_bytes {
            return Some(Bounds::default());
        }
        let holds = |cut: &&Cut| cut.hot_high_bytes <= memory_bytes;
        let high = self.cuts.iter().filter(holds).map(|cut| cut.again_bytes.high).reduce(f64::min)?;
        let gives_up = |cut: &&Cut| cut.hot_low_bytes >= memory_bytes;
        let low = self.cuts.iter().filter(gives_up).map(|cut| cut.again_bytes.low).fold(0.0, f64::max).min(high);
        Some(Bounds { low, middle: self.middle(memory_bytes).clamp(low, high), high })
    }

    /// On the straight line between the two neighbouring cuts; after the last cut, on the line to 0 at all memory.
    fn middle(&self, memory_bytes: u64) -> f64 {
        let mut below = None;
        let points = self.cuts.iter().map(|cut| (cut.hot_high_bytes, cut.again_bytes.middle));
        for (memory, again) in points.chain([(self.total_bytes, 0.0)]) {
            if memory > memory_bytes {
                let Some((left, left_again)) = below else { return again };
                let share = ratio(memory_bytes - left, memory - left);
                return left_again + (again - left_again) * share;
            }
            below = Some((memory, again));
        }
        0.0
    }

    /// Least memory for which there is a figure.
    pub(super) fn floor_bytes(&self) -> u64 {
        self.cuts.iter().map(|cut| cut.hot_high_bytes).fold(self.total_bytes, u64::min)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The two records' common form.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) source: super::Source,
    pub(super) steps: Vec<Step>,
    /// The same for anonymous and file memory separately, if the source has them.
    pub(super) by_kind: Vec<(&'static str, Vec<Step>)>,
    pub(super) looks: u64,
    pub(super) span_ns: u64,
    /// Memory that a limit counts and that is on no list: page tables, kernel stacks, charges made in advance.
    pub(super) outside_bytes: u64,
    /// Refaults while watching: predictions come on top of these. `None`: not counted.
    pub(super) refaults_seen: Option<u64>,
    /// Time that some task was stalled while watching. `None`: not read.
    pub(super) pressure_some_ns: Option<u64>,
    pub(super) notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 bytes 30 were used in the last interval, 20 in the one before, 50 earlier; of these two 12 and 2 were used again.
    fn step() -> Step {
        let again = |bytes: f64| Bounds { low: bytes / 2.0, middle: bytes, high: bytes };
        let cut = |age_ns, hot_low_bytes, hot_high_bytes, bytes| Cut {
            age_ns,
            cold_bytes: 100 - hot_low_bytes,
            hot_low_bytes,
            hot_high_bytes,
            again_bytes: again(bytes),
        };
        Step { duration_ns: 1, cuts: vec![cut(1, 30, 40, 12.0), cut(2, 50, 60, 2.0)], total_bytes: 100 }
    }

    #[test]
    fn less_memory_is_never_predicted_to_be_better() {
        let step = step();
        assert_eq!(step.again_bytes(100), Some(Bounds::default()));
        assert_eq!(step.again_bytes(60), Some(Bounds { low: 0.0, middle: 2.0, high: 2.0 }));
        assert_eq!(step.again_bytes(50), Some(Bounds { low: 1.0, middle: 7.0, high: 12.0 }), "half way");
        assert_eq!(step.again_bytes(80), Some(Bounds { low: 0.0, middle: 1.0, high: 2.0 }));
        assert_eq!(step.again_bytes(39), None, "less than was in use");
        assert_eq!(step.floor_bytes(), 40);
        let found: Vec<Bounds> = (40..=100).map(|bytes| step.again_bytes(bytes).expect("supported")).collect();
        assert!(
            found.is_sorted_by(|one, next| one.high >= next.high && one.middle >= next.middle && one.low >= next.low)
        );
        assert!(found.iter().all(|bounds| bounds.low <= bounds.middle && bounds.middle <= bounds.high));
    }
}
