//! The kernel's fragmentation score of a node (docs/spec/compaction.md#s3).

/// A zone's part in its node's score: percent, truncated. `present_pages` of the zone and of the node.
/// Source: Linux 7.2 `mm/compaction.c`, `fragmentation_score_zone_weighted`.
pub fn weighted_score(zone_score: u32, present_pages: u64, node_present_pages: u64) -> u32 {
    let score = u128::from(present_pages) * u128::from(zone_score) / (u128::from(node_present_pages) + 1);
    u32::try_from(score).unwrap_or(u32::MAX)
}

/// The score of a node, 0 to 100: the weighted scores of its zones, each given as (score, present pages), each truncated.
/// Source: Linux 7.2 `mm/compaction.c`, `fragmentation_score_node`.
pub fn node_score(zones: &[(u32, u64)]) -> u32 {
    let node_present: u64 = zones.iter().map(|(_, present)| present).sum();
    zones.iter().map(|&(score, present)| weighted_score(score, present, node_present)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e3_the_score_of_a_node_truncates_zone_by_zone() {
        let present = [3998, 782_336, 5_505_024];
        assert_eq!(node_score(&[(6, present[0]), (0, present[1]), (20, present[2])]), 17);
        assert_eq!(node_score(&[(6, present[0]), (0, present[1]), (1, present[2])]), 0);
        assert_eq!(weighted_score(20, present[2], present.iter().sum()), 17);
        assert_eq!(node_score(&[]), 0);
        // One full zone does not reach 100: the kernel adds one page to the divisor.
        assert_eq!(node_score(&[(100, 1000)]), 99);
    }
}
