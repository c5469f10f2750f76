//! Kills for lack of memory: by kind of start, and the chance of one at a size, from replays with all limits.

use super::chance::Draw;
use super::expected::kinds;
use super::judge::Judge;
use super::kill_curve;
use super::pool::Pool;
use super::run::Run;
use isotherm_scenario::Share;
use isotherm_sim::machine::Ending;
use isotherm_units::Bytes;
use serde::Serialize;

/// The chance of a kill that a recommendation allows, in millionths, at its upper bound: 1 in 100 runs.
const ALLOWED_PPM: u64 = 10_000;
/// Draws whose limits stand for those of all runs at a size.
const DRAWS: std::ops::RangeInclusive<u64> = 1..=64;

/// How a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// It reads its files itself.
    First,
    /// Its files are in memory already, paid by others.
    Restart,
}

impl Start {
    fn of(run: &Run) -> Self {
        if run.is_warm { Self::Restart } else { Self::First }
    }
}

/// Kills of the kind of start that is killed more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kills {
    /// That kind. If none of either is killed, the one with fewer replays, of which less is known.
    pub start: Start,
    /// Of the replays of this kind those that were killed, with the chance of that in a run.
    #[serde(flatten)]
    pub share: Share,
}

impl Kills {
    /// Of these replays. Without any, nothing is known.
    pub(super) fn of(runs: &[&Run]) -> Self {
        let each = kinds(runs).into_iter().map(|kind| Self::of_start(&kind, Start::of(kind[0])));
        each.max_by_key(|kills| (kills.share.ppm(), kills.share.at_most_ppm()))
            .unwrap_or(Self::of_start(&[], Start::First))
    }

    fn of_start(runs: &[&Run], start: Start) -> Self {
        let of_kind = || runs.iter().filter(|run| Start::of(run) == start);
        let killed = of_kind().filter(|run| is_killed(run)).count();
        Self { start, share: Share::new(killed as u64, of_kind().count() as u64) }
    }
}

/// The chance of a kill at a size, from replays of one kind of start with limits a quarter below it and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KillChance {
    /// Of these replays those that were killed.
    pub of: u64,
    /// Replays with limits down to a quarter below the size; if any was killed, also those with more than its own, up to a quarter.
    pub n: u64,
    /// The least of their limits, bytes.
    pub from_bytes: u64,
    /// The largest limit with which one was killed, bytes; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed_with_bytes: Option<u64>,
    /// Upper bound of the chance of a kill in a run at the size with a confidence of 95 %, in millionths. If one was killed, by the curve
    /// of all; otherwise by their number, as less memory kills no less often.
    pub at_most_ppm: u64,
}

impl KillChance {
    /// `peak`: with limits from there on nothing is reclaimed, so that no run is killed.
    fn of(kind: &[&Run], size: Bytes, peak: Bytes) -> Self {
        let killed_with = kind.iter().filter(|run| is_killed(run)).map(|run| run.limit).max();
        let could_be_less = |run: &&&Run| killed_with.is_some() || run.limit <= Pool::largest_limit(size);
        let counted: Vec<&&Run> = kind.iter().filter(could_be_less).collect();
        let of = counted.iter().filter(|run| is_killed(run)).count() as u64;
        let n = counted.len() as u64;
        let limits: Vec<Bytes> =
            DRAWS.map(|number| Draw::of(number, 1).limit(size)).filter(|&limit| limit < peak).collect();
        let at_most_ppm = if limits.is_empty() {
            0
        } else if killed_with.is_some() {
            let seen = counted.iter().map(|run| (run.limit.get(), is_killed(run)));
            let of_these = kill_curve::at_most_ppm(seen, limits.iter().map(|limit| limit.get()), size.get());
            (of_these * limits.len() as u64).div_ceil(DRAWS.count() as u64)
        } else {
            Share::new(of, n).at_most_ppm()
        };
        Self {
            of,
            n,
            from_bytes: counted.iter().map(|run| run.limit).min().unwrap_or(size).get(),
            killed_with_bytes: killed_with.map(Bytes::get),
            at_most_ppm,
        }
    }
}

/// Kills of a configuration at a size, and their chance, of the kind of start that is killed more often at this size and around it.
pub(super) fn chance(judge: &Judge<'_>, index: usize, size: Bytes) -> Option<(Kills, KillChance)> {
    let (within, peak) = (judge.player.pool.within_a_quarter(index, size), judge.player.peak);
    let each = kinds(&within).into_iter().map(|kind| (Start::of(kind[0]), KillChance::of(&kind, size, peak)));
    let share = |chance: &KillChance| Share { of: chance.of, n: chance.n, ..Share::default() }.ppm();
    let (start, chance) = each.max_by_key(|(_, chance)| (share(chance), chance.at_most_ppm))?;
    Some((Kills::of_start(&judge.player.pool.around(index, size), start), chance))
}

/// Whether replays of a configuration with a little less memory than `size` were killed.
pub(super) fn are_near(judge: &Judge<'_>, index: usize, size: Bytes) -> bool {
    judge.player.pool.a_little_below(index, size).into_iter().any(is_killed)
}

/// The largest size below another one at which a replay of a configuration was killed.
pub(super) fn largest_with_kills(judge: &Judge<'_>, index: usize, below: Bytes) -> Option<Bytes> {
    let pool = &judge.player.pool;
    pool.sizes(index).rev().find(|&size| size < below && pool.at(index, size).iter().any(is_killed))
}

/// Whether a size is enough to live: no replay with a little less memory was killed, or by the curve of all replays with their kind of
/// start at most 1 run in 100 is. `nr_open`: with fewer replays around the size than this, it is not yet decided, and taken for enough.
pub(super) fn is_enough(judge: &Judge<'_>, index: usize, size: Bytes, nr_open: usize) -> bool {
    if !are_near(judge, index, size) || judge.nr_judging(index, size) < nr_open {
        return true;
    }
    let (within, peak) = (judge.player.pool.within_a_quarter(index, size), judge.player.peak);
    let kinds = kinds(&within).into_iter();
    let is_near = |kind: &Vec<&Run>| kind.iter().any(|run| is_killed(run) && run.limit >= Pool::a_little_less(size));
    kinds.filter(is_near).all(|kind| KillChance::of(&kind, size, peak).at_most_ppm <= ALLOWED_PPM)
}

fn is_killed(run: &Run) -> bool {
    run.ending == Ending::OutOfMemory
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::run;
    use super::*;

    fn start(mib: u64, is_warm: bool, is_killed: bool) -> Run {
        let ending = if is_killed { Ending::OutOfMemory } else { Ending::Finished };
        Run { is_warm, ending, ..run(Bytes::from_mib(mib), 0) }
    }

    fn of(runs: &[Run]) -> (Start, u64, u64) {
        let Kills { start, share } = Kills::of(&runs.iter().collect::<Vec<_>>());
        (start, share.of, share.n)
    }

    #[test]
    fn the_kind_that_is_killed_more_often_counts() {
        let first = |nr_killed: usize| (0..10).map(move |nth| start(100, false, nth < nr_killed));
        let restarts = |nr_killed: usize| (0..4).map(move |nth| start(100, true, nth < nr_killed));
        let both = |of_first, of_restarts| of(&first(of_first).chain(restarts(of_restarts)).collect::<Vec<Run>>());
        assert_eq!(both(0, 1), (Start::Restart, 1, 4), "not 1 of 14");
        assert_eq!(both(3, 1), (Start::First, 3, 10));
        assert_eq!(both(0, 0), (Start::Restart, 0, 4), "of fewer less is known");
        assert_eq!(of(&[]), (Start::First, 0, 0));
    }

    /// Of replays with a limit that the size cannot have, those below count: if they live, so do those of the size.
    #[test]
    fn without_a_kill_less_memory_counts_and_with_one_all_limits_do() {
        let size = Bytes::from_mib(100);
        let chance = |runs: &[Run]| KillChance::of(&runs.iter().collect::<Vec<_>>(), size, Bytes::from_mib(1000));
        let alive: Vec<Run> = [80, 95, 103, 104].map(|mib| start(mib, true, false)).into();
        let none = chance(&alive);
        assert_eq!((none.of, none.n, none.from_bytes, none.killed_with_bytes), (0, 3, 80 << 20, None));
        assert_eq!(none.at_most_ppm, Share::new(0, 3).at_most_ppm());
        let seen = |mib, is_killed, n| std::iter::repeat_n(start(mib, true, is_killed), n);
        let steep: Vec<Run> = seen(90, true, 20).chain(seen(94, false, 40)).chain(seen(104, false, 40)).collect();
        let one = chance(&steep);
        assert_eq!((one.of, one.n, one.killed_with_bytes), (20, 100, Some(90 << 20)));
        assert!(one.at_most_ppm <= ALLOWED_PPM, "{one:?}");
        let flat: Vec<Run> = seen(90, true, 1).chain(seen(90, false, 19)).chain(seen(96, false, 20)).collect();
        assert!(chance(&flat).at_most_ppm > ALLOWED_PPM, "{:?}", chance(&flat));
        let with_peak = |mib| KillChance::of(&flat.iter().collect::<Vec<_>>(), size, Bytes::from_mib(mib)).at_most_ppm;
        assert_eq!(with_peak(95), 0, "no limit of 100 MiB takes anything from it");
        assert!(with_peak(99) < chance(&flat).at_most_ppm, "many do not");
    }
}
