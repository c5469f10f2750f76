//! All replays of one question on one release, and the replays that count for a size.

use super::chance::{KERNEL_CHARGE_BP, LIMIT_SPREAD_BP};
use super::run::Run;
use isotherm_units::Bytes;
use std::collections::BTreeMap;

/// The least limit that chance gives to a size, in ten-thousandths of it.
const LEAST_BP: u64 = 10_000 - LIMIT_SPREAD_BP - KERNEL_CHARGE_BP;
/// How far below a size a kill says something about it, in ten-thousandths.
const A_LITTLE_BP: u64 = 1000;

/// How far from a size a limit may be to say something about kills at it, in ten-thousandths.
const A_QUARTER_BP: u64 = 2500;

/// `bp` ten-thousandths of a size.
fn part(size: Bytes, bp: u64) -> Bytes {
    Bytes::new(u64::try_from(u128::from(size.get()) * u128::from(bp) / 10_000).unwrap_or(u64::MAX))
}

/// Replays by configuration (its place in the table of candidates) and size.
#[derive(Default)]
pub(super) struct Pool(BTreeMap<(usize, Bytes), Vec<Run>>);

impl Pool {
    /// Adds replays of a configuration at a size.
    pub(super) fn add(&mut self, index: usize, size: Bytes, runs: impl IntoIterator<Item = Run>) {
        let mut runs = runs.into_iter().peekable();
        // A place exists only if something was played at it.
        if runs.peek().is_some() {
            self.0.entry((index, size)).or_default().extend(runs);
        }
    }

    /// The replays made at exactly this size.
    pub(super) fn at(&self, index: usize, size: Bytes) -> &[Run] {
        self.0.get(&(index, size)).map_or(&[], Vec::as_slice)
    }

    /// Sizes at which a configuration was played, ascending.
    pub(super) fn sizes(&self, index: usize) -> impl DoubleEndedIterator<Item = Bytes> + '_ {
        self.0.range((index, Bytes::ZERO)..=(index, Bytes::new(u64::MAX))).map(|((_, size), _)| *size)
    }

    /// Replaces replays of samples by those of another pool.
    pub(super) fn take_samples_of(&mut self, other: &Self) {
        for runs in self.0.values_mut() {
            runs.retain(|run| run.pages == 1);
        }
        for (&(index, size), runs) in &other.0 {
            self.add(index, size, runs.iter().filter(|run| run.pages > 1).cloned());
        }
        self.0.retain(|_, runs| !runs.is_empty());
    }

    /// Number of replays of the whole recording that count for a size.
    pub(super) fn nr_whole_around(&self, index: usize, size: Bytes) -> usize {
        self.around(index, size).iter().filter(|run| run.pages == 1).count()
    }

    /// Replays of the whole recording, and of samples.
    pub(super) fn nr_played(&self) -> (u64, u64) {
        let of = |is_whole: bool| self.0.values().flatten().filter(|run| (run.pages == 1) == is_whole).count() as u64;
        (of(true), of(false))
    }

    /// All replays of a configuration whose limit chance could have given to `size`: replays of the size itself, and of its neighbours. If
    /// any of these is a replay of the whole recording, replays of samples do not count.
    pub(super) fn around(&self, index: usize, size: Bytes) -> Vec<&Run> {
        let (low, high) = (part(size, LEAST_BP), Self::largest_limit(size));
        let all = self.0.range((index, Bytes::ZERO)..=(index, Bytes::new(u64::MAX)));
        let all = all
            .flat_map(|((_, own), runs)| runs.iter().map(move |run| (*own, run)))
            .filter(|(own, run)| *own == size || (low..=high).contains(&run.limit))
            .map(|(_, run)| run);
        whole_if_any(all.collect())
    }

    /// All replays of a configuration with limits from a quarter below a size to a quarter above, with the same rule for samples.
    pub(super) fn within_a_quarter(&self, index: usize, size: Bytes) -> Vec<&Run> {
        let limits = part(size, 10_000 - A_QUARTER_BP)..=part(size, 10_000 + A_QUARTER_BP);
        whole_if_any(self.of(index).filter(|run| limits.contains(&run.limit)).collect())
    }

    /// The largest limit that chance gives to a size.
    pub(super) fn largest_limit(size: Bytes) -> Bytes {
        part(size, 10_000 + LIMIT_SPREAD_BP)
    }

    /// The least limit at which a kill says that kills are near.
    pub(super) fn a_little_less(size: Bytes) -> Bytes {
        part(size, 10_000 - A_LITTLE_BP)
    }

    /// Replays of a configuration whose limit chance could not have given to `size`, but is at most [`A_LITTLE_BP`] below it.
    pub(super) fn a_little_below(&self, index: usize, size: Bytes) -> Vec<&Run> {
        let (low, high) = (Self::a_little_less(size), part(size, LEAST_BP));
        self.of(index).filter(|run| (low..high).contains(&run.limit)).collect()
    }

    /// Every replay of a configuration.
    pub(super) fn of(&self, index: usize) -> impl Iterator<Item = &Run> {
        self.0.range((index, Bytes::ZERO)..=(index, Bytes::new(u64::MAX))).flat_map(|(_, runs)| runs)
    }

    /// Configurations and sizes in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, Bytes)> + '_ {
        self.0.keys().copied()
    }
}

/// Where any of these replays is of the whole recording, those of samples do not count.
fn whole_if_any(mut runs: Vec<&Run>) -> Vec<&Run> {
    if runs.iter().any(|run| run.pages == 1) {
        runs.retain(|run| run.pages == 1);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    #[test]
    fn replays_of_neighbours_count_where_their_limit_could_be_this_sizes() {
        let mib = Bytes::from_mib;
        let mut pool = Pool::default();
        // 100 MiB: limits from 95.5 to 103.
        pool.add(2, mib(100), [run(mib(100), 1), run(mib(94), 2)]);
        pool.add(2, mib(101), [run(mib(103), 3), run(mib(104), 4)]);
        pool.add(2, mib(97), [run(mib(96), 5), run(mib(95), 6)]);
        pool.add(3, mib(100), [run(mib(100), 7)]);
        let faults: Vec<u64> = pool.around(2, mib(100)).iter().map(|run| run.major_faults).collect();
        assert_eq!(faults, [5, 1, 2, 3], "its own always, others by their limit");
        let below: Vec<u64> = pool.a_little_below(2, mib(100)).iter().map(|run| run.major_faults).collect();
        assert_eq!(below, [6, 2], "90 to 95.5 MiB");
        let quarter =
            |size| pool.within_a_quarter(2, mib(size)).iter().map(|run| run.major_faults).collect::<Vec<u64>>();
        assert_eq!((quarter(100), quarter(126)), (vec![5, 6, 1, 2, 3, 4], vec![5, 6, 1, 3, 4]), "94.5 MiB to 157.5");
        assert_eq!(pool.sizes(2).collect::<Vec<_>>(), [mib(97), mib(100), mib(101)]);
        assert_eq!(pool.at(2, mib(99)).len(), 0);
        pool.add(2, mib(99), None);
        assert_eq!(pool.sizes(2).count(), 3, "nothing was played there");
        assert_eq!((pool.of(2).count(), pool.of(3).count()), (6, 1));
    }
}
