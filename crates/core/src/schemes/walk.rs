//! Goes through the regions of a target while they are being cut and joined.

use crate::monitor::Region;

/// Regions that come after the present one.
pub(crate) struct Rest {
    /// Right parts that were cut off, the next one last.
    cuts: Vec<Region>,
    has_more: bool,
}

impl Rest {
    /// Cuts off the part from `offset` on, which is visited next.
    pub(crate) fn cut(&mut self, region: &mut Region, offset: u64) {
        self.cuts.push(region.split_off(offset));
    }

    /// Whether the region at hand is the last of its target.
    pub(crate) fn is_empty(&self) -> bool {
        self.cuts.is_empty() && !self.has_more
    }
}

/// Calls `visit` for each region from left to right. With `join_up_to`, each then joins its left neighbour if the two have
/// equal counts and ages and are no larger together. Only the probe hits of the right one are lost.
///
/// That is meant for pieces that quotas cut off, but any such pair is joined, as in the kernel. A scheme applied more often
/// than once per aggregation also joins random halves that had equal samples so far.
pub(crate) fn walk(
    regions: &mut Vec<Region>,
    spare: &mut Vec<Region>,
    join_up_to: Option<u64>,
    mut visit: impl FnMut(&mut Region, &mut Rest),
) {
    spare.clear();
    std::mem::swap(regions, spare);
    let mut rest = Rest { cuts: Vec::new(), has_more: false };
    let mut input = spare.iter().copied().peekable();
    while let Some(mut region) = rest.cuts.pop().or_else(|| input.next()) {
        rest.has_more = input.peek().is_some();
        visit(&mut region, &mut rest);
        debug_assert!(!region.is_empty(), "a cut leaves something on both sides");
        debug_assert!(
            regions.last().is_none_or(|left| left.range.end <= region.range.start),
            "regions and what is cut off them come in order"
        );
        match (regions.last_mut(), join_up_to) {
            (Some(left), Some(size_max)) if is_twin(left, &region, size_max) => left.range.end = region.range.end,
            _ => regions.push(region),
        }
    }
}

fn is_twin(left: &Region, right: &Region, size_max: u64) -> bool {
    let history = |region: &Region| (region.age, region.last_nr_accesses, region.nr_accesses);
    left.range.end == right.range.start
        && history(left) == history(right)
        && left.len().checked_add(right.len()).is_some_and(|len| len <= size_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::UnitRange;

    fn region(start: u64, end: u64, age: u32) -> Region {
        Region { range: UnitRange::new(start, end), age, ..Region::default() }
    }

    #[test]
    fn what_is_cut_off_is_visited_next() {
        let mut regions = vec![region(0, 10, 1), region(20, 30, 1)];
        let mut visited = Vec::new();
        walk(&mut regions, &mut Vec::new(), None, |region, rest| {
            if region.len() == 10 && region.range.start == 0 {
                rest.cut(region, 6);
                rest.cut(region, 2);
            }
            visited.push((region.range.start, region.range.end, rest.is_empty()));
        });
        assert_eq!(visited, [(0, 2, false), (2, 6, false), (6, 10, false), (20, 30, true)]);
        assert_eq!(regions.len(), 4);
    }

    #[test]
    fn equal_neighbours_join_up_to_a_size() {
        let pieces = [region(0, 2, 1), region(2, 4, 1), region(4, 6, 1), region(6, 8, 2), region(9, 10, 2)];
        let mut regions = pieces.to_vec();
        walk(&mut regions, &mut Vec::new(), Some(4), |_, _| {});
        let bounds: Vec<(u64, u64)> = regions.iter().map(|region| (region.range.start, region.range.end)).collect();
        assert_eq!(bounds, [(0, 4), (4, 6), (6, 8), (9, 10)]);
    }
}
