//! Replays with a common beginning.

use super::candidate::CANDIDATES;
use super::chance::Draw;
use isotherm_units::Bytes;

/// Replays that can be branches of one: of one configuration and draw.
pub(super) struct Family {
    /// Place of the configuration in the table.
    pub(super) index: usize,
    pub(super) draw: Draw,
    /// Sizes, ascending, with the number of the job.
    pub(super) members: Vec<(Bytes, usize)>,
}

/// The families of jobs. Schemes and tools cannot be copied: each replay with them is a family of its own.
pub(super) fn families(jobs: &[(usize, Bytes, Draw)]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for (job, &(index, size, draw)) in jobs.iter().enumerate() {
        let is_plain = CANDIDATES[index].nr_parts() == 0;
        let is_own = |family: &&mut Family| is_plain && (family.index, family.draw) == (index, draw);
        match families.iter_mut().find(is_own) {
            Some(family) => family.members.push((size, job)),
            None => families.push(Family { index, draw, members: vec![(size, job)] }),
        }
    }
    families.iter_mut().for_each(|family| family.members.sort_unstable());
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_of_one_configuration_in_one_world() {
        let place = |name: &str| CANDIDATES.iter().position(|candidate| candidate.name == name).unwrap();
        let (classic, lru, combined) = (place("classic"), place("lru"), place("classic + reclaim"));
        let job = |index, mib, number| (index, Bytes::from_mib(mib), Draw::of(number, 2));
        let jobs = [
            job(classic, 30, 0),
            job(classic, 10, 0),
            job(classic, 10, 9),
            job(lru, 10, 0),
            job(combined, 10, 0),
            job(combined, 20, 0),
            job(classic, 20, 0),
            job(classic, 20, 9),
        ];
        let members: Vec<Vec<usize>> =
            families(&jobs).iter().map(|family| family.members.iter().map(|&(_, job)| job).collect()).collect();
        // Ascending; a configuration with schemes or tools is a family of its own.
        assert_eq!(members, [vec![1, 6, 0], vec![2, 7], vec![3], vec![4], vec![5]]);
    }
}
