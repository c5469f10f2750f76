//! Nearest ranks.

/// The value below or at which the share `permille` of sorted values lies; `None` without values.
pub(crate) fn nearest<T: Copy>(sorted: &[T], permille: usize) -> Option<T> {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(nearest::<f64>(&[], 500), None);
        let ten: Vec<u64> = (1..=10).collect();
        let table = [(0, 1), (500, 5), (501, 6), (900, 9), (950, 10), (1000, 10)];
        for (permille, expected) in table {
            assert_eq!(nearest(&ten, permille), Some(expected), "{permille}");
        }
        assert_eq!(nearest(&ten[..1], 900), Some(1));
    }
}
