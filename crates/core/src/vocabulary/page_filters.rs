//! The page filters of a scheme as its host sees them: the host asks them page by page, and they count.

/// A question about a page. A page that is absent answers no test: do not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTest {
    /// The page belongs to an anonymous folio.
    Anon,
    /// Its folio is on an active list.
    Active,
    /// Its folio is charged to this memory cgroup. `None` names a group that no longer exists: no page matches.
    Memcg(Option<u64>),
    /// The page was accessed since this question was last asked, through any mapping or by an idle mark that was cleared. Asking clears the
    /// accessed state of a young one.
    Young,
    /// Bytes of the page's folio, both ends included.
    FolioBytes { min: u64, max: u64 },
    /// No page table maps the page's folio.
    Unmapped,
}

/// A filter that the host applies to single pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFilter {
    /// The property of the page that is tested.
    pub test: PageTest,
    /// The filter matches pages for which the test gives this answer.
    pub matching: bool,
    /// Pages that match are treated, or left alone.
    pub allow: bool,
}

/// Decides page by page which memory is treated, and counts the bytes that passed and that each filter stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageFilters {
    filters: Vec<PageFilter>,
    rejects_unmatched: bool,
    passed_bytes: u64,
    /// One count per filter, then the count of bytes that no filter matched.
    stopped_bytes: Vec<u64>,
}

impl PageFilters {
    /// Filters; the first that matches decides. Pages that no filter matches pass unless `rejects_unmatched`.
    pub fn new(filters: Vec<PageFilter>, rejects_unmatched: bool) -> Self {
        let stopped_bytes = vec![0; filters.len() + 1];
        Self { filters, rejects_unmatched, passed_bytes: 0, stopped_bytes }
    }

    /// Whether every page passes without a question.
    pub fn is_open(&self) -> bool {
        self.filters.is_empty()
    }

    /// Whether a folio of `bytes` passes; `holds` answers questions about it and is asked only the needed ones, in order.
    pub fn admit(&mut self, bytes: u64, mut holds: impl FnMut(PageTest) -> bool) -> bool {
        let decision = self.filters.iter().position(|filter| holds(filter.test) == filter.matching);
        let (passes, place) = match decision {
            Some(index) => (self.filters[index].allow, index),
            None => (!self.rejects_unmatched, self.filters.len()),
        };
        let count = if passes { Some(&mut self.passed_bytes) } else { self.stopped_bytes.get_mut(place) };
        if let Some(count) = count {
            *count = count.saturating_add(bytes);
        }
        passes
    }

    /// Bytes of folios that passed since the counts were last reset.
    pub fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Bytes that each filter stopped; the last entry counts bytes that no filter matched.
    pub fn stopped_bytes(&self) -> &[u64] {
        &self.stopped_bytes
    }

    /// Sets all counts to 0.
    pub(crate) fn restart(&mut self) {
        self.passed_bytes = 0;
        self.stopped_bytes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(test: PageTest, matching: bool, allow: bool) -> PageFilter {
        PageFilter { test, matching, allow }
    }

    /// docs/spec/schemes.md#s15, example 35.
    #[test]
    fn the_first_match_decides_and_the_rest_is_not_asked() {
        let filters = vec![filter(PageTest::Anon, true, true), filter(PageTest::Young, true, false)];
        let mut filter = PageFilters::new(filters, false);
        // (anonymous, young, is treated, questions asked)
        for (is_anon, is_young, expected, asked) in
            [(true, true, true, 1), (false, true, false, 2), (false, false, true, 2)]
        {
            let mut questions = 0;
            let passes = filter.admit(4096, |test| {
                questions += 1;
                if test == PageTest::Anon { is_anon } else { is_young }
            });
            assert_eq!((passes, questions), (expected, asked), "example 35: anon {is_anon}, young {is_young}");
        }
        assert_eq!((filter.passed_bytes(), filter.stopped_bytes()), (8192, &[0, 4096, 0][..]));
    }

    #[test]
    fn after_an_allowing_last_filter_the_rest_is_stopped() {
        let mut filter = PageFilters::new(vec![filter(PageTest::Unmapped, false, true)], true);
        assert!(filter.admit(4096, |_| false) && !filter.admit(8192, |_| true));
        assert_eq!(filter.stopped_bytes(), [0, 8192]);
        assert!(PageFilters::default().is_open());
    }
}
