//! The search for the smallest memory that is safe: not a point but a band, from a size up to the peak.
//!
//! Sizes are tried in steps of a hundredth of the peak, in finer steps below a fifth of it. A size is judged by all replays whose limit
//! could be a draw of it. It is safe if it, and every larger size, is within the slow-down asked for by the upper end of its interval, and
//! if at most 1 run in 100 is killed at it ([`kills`]). At least the 15 steps above a safe size are all tried. Above these, a gap between two sizes is tried in its middle as long as it could hide
//! a size that is too slow.

use super::candidate::{CANDIDATES, FEWEST_FAULTS};
use super::chance::LIMIT_MIN;
use super::judge::{EQUAL_STEPS, Judge};
use super::kills;
use super::race;
use isotherm_scenario::ScenarioError;
use isotherm_units::Bytes;

/// Steps above a size that are all tried.
const STEPS_ABOVE: u64 = 15;
/// Steps below it: replays there may have limits that could be draws of the size.
const STEPS_BELOW: u64 = 4;
/// Steps above a size from which limits could be draws of that size.
const STEPS_NEAR: u64 = 5;
/// Most steps in a gap, regardless of the results at its ends.
const GAP_STEPS_MAX: u64 = 5;
/// Replays that are played at once, at least, where sizes are tried one after the other.
const TOGETHER: usize = 2;
/// Sizes that are played before it is known whether they are safe.
const LARGE: usize = 3;
/// Steps of bisection between sizes asked for: 10 % of peak come down to below 1 %.
const BISECTIONS: u32 = 4;

/// Plays these configurations at the sizes asked for. For configurations that can be recommended, finds roughly the border between too slow
/// and fast enough.
///
/// In a race, configurations are played [downwards](survey_down): below a size that is too slow none would be safe. Sizes that a user has
/// chosen are all played, by `opt` too, the fewest faults that any policy could have. Combinations are left out unless details are asked
/// for.
pub(super) fn survey(judge: &mut Judge<'_>, configurations: &[usize]) -> Result<(), ScenarioError> {
    let question = judge.player.question;
    let is_race = question.effort.is_race();
    let can_win: Vec<usize> =
        configurations.iter().copied().filter(|&index| judge.model_error(index).is_some()).collect();
    let is_shown =
        |index: &usize| !can_win.contains(index) && (!is_race || question.details || !is_combination(judge, *index));
    let is_everywhere = |index: &usize| !is_race || question.every_size && CANDIDATES[*index].name == FEWEST_FAULTS;
    let (everywhere, shown): (Vec<usize>, Vec<usize>) =
        configurations.iter().copied().filter(is_shown).partition(is_everywhere);
    let sizes = judge.player.sizes.clone();
    let first = if is_race && !question.every_size { sizes.len().saturating_sub(LARGE) } else { 0 };
    let mut places = at_each(&can_win, &sizes[first..]);
    places.extend(at_each(&everywhere, &sizes));
    // If the peak itself is asked for, so is room for chance above it: a program may need all of its memory.
    let above = judge.player.above_peak();
    if sizes.last().is_some_and(|&largest| largest >= judge.player.peak && largest < above) {
        places.extend(at_each(&can_win, &[above]));
    }
    judge.player.play_up_to(question.effort.of_shape(), &places)?;
    survey_down(judge, can_win.clone(), &sizes, first)?;
    // Others fail at about the same sizes.
    let is_enough =
        |&size: &Bytes| can_win.iter().any(|&index| lowest_safe(judge, index).is_some_and(|low| low <= size));
    let from = sizes.iter().position(is_enough).unwrap_or(sizes.len().saturating_sub(1));
    survey_down(judge, shown, &sizes, from)?;
    bisect(judge, &can_win, None)
}

/// Plays configurations at the sizes from the given one on. A configuration that is safe down to there is played on below, to the first size
/// that is too slow or one further.
fn survey_down(
    judge: &mut Judge<'_>,
    mut shown: Vec<usize>,
    sizes: &[Bytes],
    mut from: usize,
) -> Result<(), ScenarioError> {
    let of_shape = judge.player.question.effort.of_shape();
    judge.player.play_up_to(of_shape, &at_each(&shown, &sizes[from..]))?;
    while from > 0 && !judge.player.is_stopped() {
        shown.retain(|&index| lowest_safe(judge, index).is_some_and(|lowest| lowest <= sizes[from]));
        if shown.is_empty() {
            break;
        }
        // The last one goes down by two sizes, so that two threads have work.
        let next = from.saturating_sub(TOGETHER.div_ceil(shown.len()));
        judge.player.play_up_to(of_shape, &at_each(&shown, &sizes[next..from]))?;
        from = next;
    }
    Ok(())
}

fn at_each(configurations: &[usize], sizes: &[Bytes]) -> Vec<(usize, Bytes)> {
    configurations.iter().flat_map(|&index| sizes.iter().map(move |&size| (index, size))).collect()
}

/// Whether a configuration runs on Linux but cannot be recommended.
fn is_combination(judge: &Judge<'_>, index: usize) -> bool {
    CANDIDATES[index].runs_on_linux() && judge.model_error(index).is_none()
}

/// The same border for combinations, if it may be clearly below `best`: no more precision is needed.
pub(super) fn survey_combinations(judge: &mut Judge<'_>, best: Option<Bytes>) -> Result<(), ScenarioError> {
    let question = judge.player.question;
    if question.effort.is_race() && !question.details {
        return Ok(());
    }
    let candidates = question.candidates().into_iter();
    let combinations: Vec<usize> = candidates.filter(|&index| is_combination(judge, index)).collect();
    let best = best.filter(|_| question.effort.is_race());
    bisect(judge, &combinations, best)
}

/// Halves the gap in which the smallest safe size of each of these configurations lies, while that could be clearly below `best`.
fn bisect(judge: &mut Judge<'_>, configurations: &[usize], best: Option<Bytes>) -> Result<(), ScenarioError> {
    let of_shape = judge.player.question.effort.of_shape();
    for _ in 0..BISECTIONS {
        let wanted: Vec<(usize, Bytes)> =
            configurations.iter().filter_map(|&index| Some((index, between(judge, index, best)?))).collect();
        if wanted.is_empty() || judge.player.is_stopped() {
            break;
        }
        judge.player.play_up_to(of_shape, &wanted)?;
    }
    Ok(())
}

/// The middle between the smallest size that is fast enough and the next smaller one, if they are far enough apart and that one is
/// clearly below `best`.
fn between(judge: &Judge<'_>, index: usize, best: Option<Bytes>) -> Option<Bytes> {
    let high = lowest_safe(judge, index)?;
    // Below the smallest size tried nothing is known: half of it comes next.
    let low = judge.player.pool.sizes(index).take_while(|&size| size < high).last().unwrap_or_default();
    if best.is_some_and(|best| low.get() + EQUAL_STEPS * judge.player.step_at(best).get() >= best.get()) {
        return None;
    }
    let middle = judge.player.on_lattice(Bytes::new(low.get().midpoint(high.get())));
    (middle > low && middle < high && middle >= LIMIT_MIN).then_some(middle)
}

/// The smallest size tried that is safe, by the replays made. Where kills are near and too few replays are made to judge them, a size is
/// taken for safe: more will be made.
pub(super) fn lowest_safe(judge: &Judge<'_>, index: usize) -> Option<Bytes> {
    let sure_of_life = judge.player.question.effort.to_be_sure_of_life();
    let is_safe = |&size: &Bytes| {
        judge.expected(index, size).is_some_and(|expected| judge.is_fast_enough(&expected))
            && kills::is_enough(judge, index, size, sure_of_life)
    };
    judge.player.pool.sizes(index).rev().take_while(is_safe).last()
}

/// The smallest size that is safe on each of these releases, by the replays made.
fn lowest_on_all(releases: &[Judge<'_>], index: usize) -> Option<Bytes> {
    let each: Option<Vec<Bytes>> = releases.iter().map(|judge| lowest_safe(judge, index)).collect();
    each.and_then(|each| each.into_iter().max())
}

/// Whether a configuration cannot come near `best` any more, by the replays made. More replays widen its intervals; a settled size lies
/// below the lowest that was found safe before by no more than the steps that are tried there. A scout has tried them already.
fn cannot_win(releases: &[Judge<'_>], index: usize, best: Bytes) -> bool {
    let steps = |size: Bytes| releases.iter().map(|judge| judge.player.step_at(size).get()).max().unwrap_or(0);
    let is_scouted = releases.iter().all(|judge| judge.is_scouted);
    let near = if is_scouted { STEPS_BELOW / 2 } else { STEPS_BELOW } + 1;
    lowest_on_all(releases, index).is_none_or(|lowest| lowest.get() > best.get() + near * steps(lowest))
}

/// Each configuration that may need least, with the smallest size that is safe on each of these releases, and the whole band above it
/// tried on each. The need of a configuration is that on its worst release.
///
/// In a race the configuration that seems to need least is played on, a round at a time, until that is settled; then the next. A
/// configuration that cannot come near any more, or is [beaten](race::is_beaten), is dropped. Only sizes of the lattice come up, each with
/// a bounded number of replays, so that it ends.
pub(super) fn settle(
    releases: &mut [Judge<'_>],
    mut open: Vec<usize>,
    is_race: bool,
) -> Result<Vec<(usize, Bytes)>, ScenarioError> {
    let mut settled: Vec<(usize, Bytes)> = Vec::new();
    loop {
        let best = settled.iter().map(|&(_, size)| size).min().filter(|_| is_race);
        open.retain(|&index| best.is_none_or(|best| !cannot_win(releases, index, best)));
        if let Some(best) = best {
            let mut left = Vec::new();
            for index in open {
                if !race::is_beaten(releases, index, best)? {
                    left.push(index);
                }
            }
            open = left;
        }
        let promise = |&index: &usize| Some((lowest_on_all(releases, index)?, index));
        let Some((at, index)) = open.iter().filter_map(promise).min() else { return Ok(settled) };
        if releases.iter().any(|judge| judge.player.is_stopped()) || !play_round(releases, index, at)? {
            settled.push((index, at));
            open.retain(|&one| one != index);
        }
    }
}

/// Plays the replays that are missing before `at` can be called safe; returns whether there were any.
fn play_round(releases: &mut [Judge<'_>], index: usize, at: Bytes) -> Result<bool, ScenarioError> {
    let mut has_played = false;
    for judge in releases.iter_mut() {
        let wanted = lacking(judge, index, at);
        has_played |= !wanted.is_empty();
        judge.player.play_more(&wanted)?;
    }
    Ok(has_played)
}

/// The next replays before `at` can be called safe: configuration, size, number of further replays. First the replays that judge `at`
/// itself, which may show that it is not safe; then the band above.
fn lacking(judge: &Judge<'_>, index: usize, at: Bytes) -> Vec<(usize, Bytes, usize)> {
    let wanted = lacking_in_all(judge, index, at);
    let near = STEPS_NEAR * judge.player.step_at(at).get();
    let first: Vec<_> = wanted.iter().copied().filter(|(_, size, _)| size.get() <= at.get() + near).collect();
    if first.is_empty() { wanted } else { first }
}

fn lacking_in_all(judge: &Judge<'_>, index: usize, at: Bytes) -> Vec<(usize, Bytes, usize)> {
    let top = judge.player.pool.sizes(index).last().unwrap_or(judge.player.peak);
    let step = judge.player.step_at(at).get();
    let played = |size: Bytes| judge.player.pool.at(index, size).len();
    let mut wanted = Vec::new();
    let mut want = |size: Bytes, more: usize| {
        if more > 0 {
            wanted.push((index, size, more));
        }
    };
    let effort = judge.player.question.effort;
    let of_band = effort.of_band();
    let is_near_kills = kills::are_near(judge, index, at);
    let sure = if is_near_kills { effort.to_be_sure_of_life() } else { effort.to_be_sure() };
    let sure = sure.saturating_sub(judge.nr_judging(index, at));
    want(at, of_band.saturating_sub(played(at)).max(sure));
    // Replays where some are killed say how fast kills become fewer.
    if let Some(killed) = kills::largest_with_kills(judge, index, at).filter(|_| is_near_kills) {
        want(killed, effort.to_be_sure().saturating_sub(played(killed)));
    }
    let lowest = at.get().saturating_sub(STEPS_BELOW * step).max(LIMIT_MIN.get());
    let coarse = judge.player.step().get();
    let fine_to = (at.get() + STEPS_ABOVE * step).min(top.get());
    let dense_to = (at.get() + STEPS_ABOVE * coarse).min(top.get());
    let fine = (lowest.div_ceil(step)..=fine_to / step).map(|number| number * step);
    let coarser = (fine_to / coarse + 1..=dense_to / coarse).map(|number| number * coarse);
    for size in fine.chain(coarser).map(Bytes::new).filter(|&size| size != at) {
        want(size, of_band.saturating_sub(played(size)));
    }
    let above: Vec<Bytes> = judge.player.pool.sizes(index).filter(|size| size.get() >= dense_to).collect();
    for &size in above.iter().filter(|size| size.get() > dense_to) {
        want(size, of_band.saturating_sub(played(size)));
    }
    for pair in above.windows(2) {
        let middle = judge.player.on_lattice(Bytes::new(pair[0].get().midpoint(pair[1].get())));
        if middle > pair[0] && middle < pair[1] && could_hide(judge, index, (pair[0], pair[1])) {
            want(middle, of_band);
        }
    }
    // If nothing else is missing it will be compared with others.
    if wanted.is_empty() && played(at) < effort.to_compare() {
        wanted.push((index, at, effort.to_compare() - played(at)));
    }
    wanted
}

/// Whether a size that is too slow could lie between two that are not: where the gap is wide, an end is close to the allowed slow-down, or
/// the ends differ.
fn could_hide(judge: &Judge<'_>, index: usize, (low, high): (Bytes, Bytes)) -> bool {
    let allowed = judge.slowdown.ppm();
    let excess = |size| judge.expected(index, size).map_or(u64::MAX, |expected| expected.excess_ppm());
    let (below, above) = (excess(low), excess(high));
    high.get() - low.get() > GAP_STEPS_MAX * judge.player.step().get()
        || below.max(above) > allowed / 2
        || below.abs_diff(above) > allowed / 4
}
