//! The work of policies to find pages, in their own units.

/// Work of policies since the machine began. A policy that has no such means leaves its count at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Work {
    /// Page-table entries examined by walks and look-arounds; entries reached by the reverse map do not count.
    pub entries_examined: u64,
    /// Accessed bits that walks, look-arounds and the reverse map found set and cleared.
    pub entries_cleared: u64,
    /// Faults that only set an accessed bit, on a processor that does not.
    pub accessed_faults: u64,
    /// Entries of 2 MiB tested for their accessed bit by walks.
    pub tables_tested: u64,
    /// Tests of a Bloom filter.
    pub filter_tests: u64,
    /// Tests in which the filter held nothing, so that a table was skipped.
    pub filter_misses: u64,
    /// Address spaces walked.
    pub spaces_walked: u64,
    /// Generations made.
    pub ageings: u64,
    /// Mappings found through the reverse map and checked for use.
    pub rmap_walks: u64,
    /// Young entries that look-arounds found in addition to the entry they were made for.
    pub neighbours_found: u64,
    /// Pages moved to a younger generation when eviction met them.
    pub sorted: u64,
    /// Pages that eviction took off the oldest generation.
    pub isolated: u64,
}

impl Work {
    /// Adds the counts of another piece of work.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.entries_examined += other.entries_examined;
        self.entries_cleared += other.entries_cleared;
        self.accessed_faults += other.accessed_faults;
        self.tables_tested += other.tables_tested;
        self.filter_tests += other.filter_tests;
        self.filter_misses += other.filter_misses;
        self.spaces_walked += other.spaces_walked;
        self.ageings += other.ageings;
        self.rmap_walks += other.rmap_walks;
        self.neighbours_found += other.neighbours_found;
        self.sorted += other.sorted;
        self.isolated += other.isolated;
    }
}
