//! The kernel's proportional controller, shared by quota goals and interval tuning (docs/spec/schemes.md#s6).

pub(crate) const SCORE_GOAL: u64 = 10_000;

/// No result is below this.
const FLOOR: u64 = 10_000;

/// The next input for the `last` one and its `score`, 10,000 on goal: `last × (2 − score / 10,000)`. At most doubles,
/// saturates, and goes no lower than 10,000. Large inputs are divided before they are multiplied, as in the kernel.
pub fn feedback(last: u64, score: u64) -> u64 {
    if score == SCORE_GOAL {
        return last;
    }
    if score >= 2 * SCORE_GOAL {
        return FLOOR;
    }
    let off = score.abs_diff(SCORE_GOAL);
    let step = if last < u64::MAX / off { last * off / SCORE_GOAL } else { last / SCORE_GOAL * off };
    if score > SCORE_GOAL { last.saturating_sub(step).max(FLOOR) } else { last.saturating_add(step) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/schemes.md#s15, examples 1 to 5.
    #[test]
    fn the_next_input_follows_the_score() {
        // (example, last, score, next)
        let table = [
            (1, 100_000_000, 0, 200_000_000),
            (1, 100_000_000, 5_000, 150_000_000),
            (1, 100_000_000, 9_000, 110_000_000),
            (2, 100_000_000, 11_000, 90_000_000),
            (2, 100_000_000, 15_000, 50_000_000),
            (2, 100_000_000, 19_999, 10_000),
            (2, 100_000_000, 20_000, 10_000),
            (3, 900_000, 200, 1_782_000),
            (3, 900_000, 250_000_000, 10_000),
            (3, 900_000, 2_000, 1_620_000),
            (4, u64::MAX, 0, u64::MAX),
            (4, 1 << 63, 5_000, 13_835_058_055_282_160_808),
            (5, 10_000, 15_000, 10_000),
        ];
        for (example, last, score, next) in table {
            assert_eq!(feedback(last, score), next, "example {example}: last {last}, score {score}");
        }
    }
}
