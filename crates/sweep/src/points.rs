//! Makes points from a space.

use crate::space::{Axis, Draws, Method, Space};
use crate::{RUNS_MAX, SweepError};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use toml::Value;

/// Values of keys, in the order in which they are set.
pub(crate) type Point = Vec<(String, Value)>;

/// Number of runs of a space. File patterns are relative to `folder`. Equal runs are counted more than once.
///
/// # Errors
/// A pattern that no file matches.
pub fn nr_runs(space: &Space, folder: &Path) -> Result<u128, SweepError> {
    Ok(nr_of(space, &listed(space, folder)?))
}

/// By axis: its values, if it has a list of values.
fn listed(space: &Space, folder: &Path) -> Result<Vec<Option<Vec<Value>>>, SweepError> {
    space.axes.iter().map(|axis| axis.listed(folder)).collect()
}

fn nr_of(space: &Space, listed: &[Option<Vec<Value>>]) -> u128 {
    let nr_draws = space.draws.map_or(1, |draws| draws.points);
    let listed = listed.iter().flatten().map(|values| values.len() as u128);
    let others = [space.points.len().max(1) as u128, u128::from(nr_draws), u128::from(space.repeats)];
    listed.chain(others).fold(1, u128::saturating_mul)
}

/// All points: each of the list with each of the grid with each draw, the draws innermost.
///
/// # Errors
/// A pattern that no file matches, or more than `runs_max` runs: these are only counted.
pub(crate) fn points(space: &Space, folder: &Path, runs_max: u64) -> Result<Vec<Point>, SweepError> {
    let listed = listed(space, folder)?;
    let runs = nr_of(space, &listed);
    if runs > u128::from(RUNS_MAX) {
        return Err(SweepError::FarTooMany { runs });
    }
    if runs > u128::from(runs_max) {
        return Err(SweepError::TooMany { runs, limit: runs_max });
    }
    let mut grid: Vec<(&Axis, Vec<Value>)> = Vec::new();
    let mut drawn: Vec<&Axis> = Vec::new();
    for (axis, values) in space.axes.iter().zip(listed) {
        match values {
            Some(values) => grid.push((axis, values)),
            None => drawn.push(axis),
        }
    }
    let draws = draw(space, &drawn);
    let mut points: Vec<Point> = match space.points.as_slice() {
        [] => vec![Point::new()],
        listed => listed.iter().map(|table| table.clone().into_iter().collect()).collect(),
    };
    for (axis, values) in grid {
        let with = |point: Point| {
            values.iter().map(move |value| {
                let mut point = point.clone();
                point.push((axis.key.clone(), value.clone()));
                point
            })
        };
        points = points.into_iter().flat_map(with).collect::<Vec<Point>>();
    }
    let with_draws = |point: Point| draws.iter().map(move |draw| point.iter().chain(draw).cloned().collect());
    Ok(points.into_iter().flat_map(with_draws).collect())
}

/// The draws, each with a value for each drawn axis; one empty draw without any.
fn draw(space: &Space, axes: &[&Axis]) -> Vec<Point> {
    let Some(Draws { method, points }) = space.draws else { return vec![Point::new()] };
    let nr = points as usize;
    let mut places: Vec<Vec<f64>> = Vec::new();
    for index in 0..axes.len() {
        // Each axis has its own random numbers: adding another axis does not change them.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(space.seed.wrapping_add(index as u64));
        let mut parts: Vec<usize> = (0..nr).collect();
        shuffle(&mut parts, &mut random);
        let mut place = |part: usize| match method {
            Method::Random => unit(&mut random),
            Method::LatinHypercube => (part as f64 + unit(&mut random)) / nr as f64,
        };
        places.push(parts.into_iter().map(&mut place).collect());
    }
    let value = |nth: usize, axis: usize| (axes[axis].key.clone(), axes[axis].at(places[axis][nth]));
    (0..nr).map(|nth| (0..axes.len()).map(|axis| value(nth, axis)).collect()).collect()
}

/// A number from 0 up to, not including, 1.
fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn shuffle(items: &mut [usize], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        let below = last as u128 + 1;
        let other = usize::try_from((u128::from(random.next_u64()) * below) >> 64).expect("an index");
        items.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(text: &str) -> Space {
        Space::parse(&format!("scenario = 'a'\n{text}"), "x").unwrap()
    }

    fn of(text: &str) -> Vec<String> {
        let points = points(&space(text), Path::new(""), 1000).unwrap();
        let one =
            |point: Point| point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
        points.into_iter().map(one).collect()
    }

    #[test]
    fn lists_and_grids_are_combined() {
        assert_eq!(of(""), [""]);
        let text = "points = [{ a = 1 }, { a = 2, b = 3 }]\n[[axes]]\nkey = 'c'\nvalues = [4, 5]\n\
            [[axes]]\nkey = 'd'\nvalues = [true]";
        assert_eq!(of(text), ["a=1 c=4 d=true", "a=1 c=5 d=true", "a=2 b=3 c=4 d=true", "a=2 b=3 c=5 d=true"]);
    }

    #[test]
    fn too_many_points_are_counted_and_not_made() {
        let axis = |nr: u32| format!("[[axes]]\nkey = 'k{nr}'\nvalues = [1,2,3,4,5,6,7,8,9,0]\n");
        let axes: String = (0..5).map(axis).collect();
        let error = points(&space(&axes), Path::new(""), 10_000).unwrap_err();
        assert!(matches!(error, SweepError::TooMany { runs: 100_000, limit: 10_000 }), "{error}");
        for (nr, runs) in [(9, 1_000_000_000), (40, u128::MAX)] {
            let axes: String = (0..nr).map(axis).collect();
            let error = points(&space(&axes), Path::new(""), u64::MAX).unwrap_err();
            assert!(matches!(error, SweepError::FarTooMany { runs: told } if told == runs), "{error}");
        }
    }

    #[test]
    fn draws_are_the_same_beside_other_axes() {
        let one = "draws = { points = 5 }\n[[axes]]\nkey = 'a'\nlow = 0.0\nhigh = 1.0\n";
        let two = format!("{one}[[axes]]\nkey = 'b'\nlow = 1\nhigh = 9\n[[axes]]\nkey = 'c'\nvalues = [1]");
        let firsts: Vec<String> = of(&two).iter().map(|text| text.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!(firsts, of(one));
    }

    proptest! {
        #[test]
        fn a_latin_hypercube_draws_once_from_each_part(points in 1u32..200, seed in 0..u64::MAX) {
            let axes = "[[axes]]\nkey = 'a'\nlow = 0.0\nhigh = 1.0\n[[axes]]\nkey = 'b'\nlow = 0.0\nhigh = 1.0";
            let mut space = space(&format!("draws = {{ points = {points} }}\n{axes}"));
            space.seed = seed;
            let drawn = draw(&space, &space.axes.iter().collect::<Vec<_>>());
            for axis in 0..2 {
                let mut parts: Vec<u32> = drawn.iter().map(|point| {
                    let place = point[axis].1.as_float().unwrap() * f64::from(points);
                    (0..points).find(|part| f64::from(*part + 1) > place).unwrap()
                }).collect();
                parts.sort_unstable();
                prop_assert_eq!(&parts, &(0..points).collect::<Vec<_>>());
            }
        }
    }
}
