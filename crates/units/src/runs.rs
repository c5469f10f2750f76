//! The runs of a batch: its own, or a part of a list that many share.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::access::Run;

/// Runs in order. A generator adds its runs; the replay of a recording that is held in memory [shows](Self::share) a part of the recording,
/// without a copy.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    own: Vec<Run>,
    /// In place of its own runs, which are empty then.
    shared: Option<(Arc<Vec<Run>>, Range<usize>)>,
}

impl Runs {
    /// Adds a run.
    #[inline]
    pub fn push(&mut self, run: Run) {
        self.own().push(run);
    }

    /// Shows the runs of `list` in `range`, in place of the earlier ones.
    ///
    /// # Panics
    /// When the range does not lie in the list.
    pub fn share(&mut self, list: &Arc<Vec<Run>>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= list.len(), "{range:?} lies in a list of {}", list.len());
        self.own.clear();
        match &mut self.shared {
            Some((shown, shown_range)) if Arc::ptr_eq(shown, list) => *shown_range = range,
            shared => *shared = Some((Arc::clone(list), range)),
        }
    }

    /// Removes all runs; keeps the allocated memory.
    pub fn clear(&mut self) {
        self.own.clear();
        // A list that was shown stays at hand: mostly its next part comes next.
        if let Some((_, range)) = &mut self.shared {
            *range = 0..0;
        }
    }

    /// The runs to be changed: a copy, where they were shared.
    pub fn own(&mut self) -> &mut Vec<Run> {
        if let Some((list, range)) = self.shared.take() {
            self.own.extend_from_slice(&list[range]);
        }
        &mut self.own
    }
}

impl Deref for Runs {
    type Target = [Run];

    #[inline]
    fn deref(&self) -> &[Run] {
        match &self.shared {
            None => &self.own,
            Some((list, range)) => &list[range.clone()],
        }
    }
}

impl Extend<Run> for Runs {
    fn extend<I: IntoIterator<Item = Run>>(&mut self, runs: I) {
        self.own().extend(runs);
    }
}

impl From<Vec<Run>> for Runs {
    fn from(own: Vec<Run>) -> Self {
        Self { own, shared: None }
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = &'a Run;
    type IntoIter = std::slice::Iter<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_part_is_shown_until_something_is_changed() {
        let list = Arc::new((0..10).map(|page| Run::read(page, 1)).collect::<Vec<_>>());
        let mut runs = Runs::default();
        runs.push(Run::write(99, 1));
        runs.share(&list, 2..5);
        assert_eq!(*runs, list[2..5]);
        assert!(std::ptr::eq(runs.as_ptr(), &raw const list[2]), "no copy");
        runs.clear();
        assert!(runs.is_empty());
        runs.share(&list, 5..7);
        runs.push(Run::write(99, 1));
        assert_eq!(*runs, [list[5], list[6], Run::write(99, 1)]);
        runs.clear();
        runs.extend(list.iter().copied().take(2));
        assert_eq!((runs.len(), Arc::strong_count(&list)), (2, 1), "the list is let go");
    }
}
