//! Memory that a scheme leaves alone although its region qualifies (docs/spec/schemes.md#s8).
//!
//! Filters on addresses and targets are decided here, region by region (core layer); filters on pages are decided by the host, page by page
//! (operations layer), with the [`PageFilters`](super::PageFilters) that it is given.

use super::pattern::Bounds;
use crate::OutOfRange;
use crate::host::{MonitorHost, TargetId};
use crate::monitor::{Region, align_down};
use crate::vocabulary::UnitRange;
use crate::vocabulary::{FILTER_TYPES, FilterType, Layer};
use crate::vocabulary::{PageFilter, PageTest};
use isotherm_units::Bytes;
use serde::{Deserialize, Serialize};

/// One filter. The first of a list that matches decides. If none matches, the action is applied, unless the last filter is an
/// allow filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Filter {
    /// The property that the filter tests.
    #[serde(alias = "filter_type", alias = "type")]
    pub filter_type: FilterType,
    /// Matches memory of that type (`true`) or all other memory (`false`).
    pub matching: bool,
    /// Matching memory is treated (`true`) or left alone (`false`).
    pub allow: bool,
    /// For `addr`: the range of byte addresses.
    #[serde(default, alias = "address_range", skip_serializing_if = "Option::is_none")]
    pub address_range: Option<FilterRange>,
    /// For `target`: the number by which the driver knows the target. In the kernel this is its place in the list, which is the same until
    /// a target ends.
    #[serde(default, alias = "target_idx", skip_serializing_if = "Option::is_none")]
    pub target_idx: Option<u32>,
    /// For `memcg`: absolute path of the memory cgroup.
    #[serde(default, alias = "memcg_path", skip_serializing_if = "Option::is_none")]
    pub memcg_path: Option<String>,
    /// For `hugepage-size`: sizes of the folio, both bounds included.
    #[serde(default, alias = "hugepage_size", skip_serializing_if = "Option::is_none")]
    pub hugepage_size: Option<Bounds<Bytes>>,
}

/// Addresses `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FilterRange {
    /// Address of the first byte.
    pub start: u64,
    /// Address of the byte after the last; not part of the range. At least `start`.
    pub end: u64,
}

impl Filter {
    /// A filter of a type without argument.
    pub const fn new(filter_type: FilterType, matching: bool, allow: bool) -> Self {
        let (address_range, target_idx, memcg_path, hugepage_size) = (None, None, None, None);
        Self { filter_type, matching, allow, address_range, target_idx, memcg_path, hugepage_size }
    }

    pub(crate) fn validate(&self, list: &str, index: usize, layer: Layer) -> Result<(), OutOfRange> {
        let place = |key: &str| format!("{list}[{index}].{key}");
        let refuse = |key: &str, got: String, allowed: String| Err(OutOfRange::new(place(key), got, allowed));
        let entry = self.filter_type.entry();
        if entry.layer != layer {
            let of_layer = FILTER_TYPES.iter().filter(|entry| entry.layer == layer).map(|entry| entry.name);
            return refuse("filter-type", entry.name.to_owned(), of_layer.collect::<Vec<_>>().join(", "));
        }
        let given = [
            ("address-range", self.address_range.is_some()),
            ("target-idx", self.target_idx.is_some()),
            ("memcg-path", self.memcg_path.is_some()),
            ("hugepage-size", self.hugepage_size.is_some()),
        ];
        for (key, is_given) in given {
            match (is_given, entry.argument == Some(key)) {
                (false, true) => return refuse(key, "not given".to_owned(), format!("one, for `{}`", entry.name)),
                (true, false) => return refuse(key, "given".to_owned(), format!("none with `{}`", entry.name)),
                _ => {}
            }
        }
        if let Some(FilterRange { start, end }) = self.address_range.filter(|range| range.end < range.start) {
            return refuse("address-range.end", end.to_string(), format!("start ({start}) and more"));
        }
        let sizes = self.hugepage_size.and_then(|size| size.max.map(|max| (size.min, max)));
        if let Some((min, max)) = sizes.filter(|(min, max)| min > max) {
            return refuse("hugepage-size.max", max.to_string(), format!("min ({min}) and more"));
        }
        Ok(())
    }

    /// Test that the host makes; `None` for filters of the core layer.
    pub(crate) fn for_pages(&self, host: &dyn MonitorHost) -> Option<PageFilter> {
        let test = match self.filter_type {
            FilterType::Addr | FilterType::Target => return None,
            FilterType::Anon => PageTest::Anon,
            FilterType::Active => PageTest::Active,
            FilterType::Memcg => PageTest::Memcg(self.memcg_path.as_deref().and_then(|path| host.memcg(path))),
            FilterType::Young => PageTest::Young,
            FilterType::HugepageSize => {
                let size = self.hugepage_size.unwrap_or_default();
                PageTest::FolioBytes { min: size.min.get(), max: size.max.map_or(u64::MAX, Bytes::get) }
            }
            FilterType::Unmapped => PageTest::Unmapped,
        };
        Some(PageFilter { test, matching: self.matching, allow: self.allow })
    }
}

/// Verdict of the core layer's filters on a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An allowing filter matched, so page filters are not asked.
    Allowed,
    /// None matched, and that is no reason against it.
    Undecided,
    /// This filter matched, and leaves the region alone.
    Rejected(usize),
    /// No filter matched, and the last one allows: all other regions are left alone.
    RejectedByDefault,
}

/// Whether memory that no filter matches is left alone.
pub(crate) fn rejects_unmatched(filters: &[Filter]) -> bool {
    filters.last().is_some_and(|filter| filter.allow)
}

/// Whether `region` of `target` is to be treated. Memory behind a border of a filter goes to `cut`, and is judged on its own later.
/// Unmatched regions are left to the page filters, if there are any.
pub(crate) fn judge(
    filters: &[Filter],
    has_page_filters: bool,
    grain: Alignment,
    target: TargetId,
    region: &mut Region,
    mut cut: impl FnMut(&mut Region, u64),
) -> Verdict {
    debug_assert!(!region.is_empty(), "only what holds something is judged");
    debug_assert!(
        grain.unit > Bytes::ZERO && grain.size_min.is_power_of_two(),
        "borders are divided by the one and aligned by the other"
    );
    for (index, filter) in filters.iter().enumerate() {
        let is_of_type = match (filter.address_range, filter.target_idx) {
            (Some(range), _) => {
                let border = |address: u64| align_down(address / grain.unit.get(), grain.size_min);
                is_inside(UnitRange::new(border(range.start), border(range.end)), region, &mut cut)
            }
            (None, wanted) => wanted == Some(target.0),
        };
        if is_of_type == filter.matching {
            return if filter.allow { Verdict::Allowed } else { Verdict::Rejected(index) };
        }
    }
    if rejects_unmatched(filters) && !has_page_filters { Verdict::RejectedByDefault } else { Verdict::Undecided }
}

/// How addresses of filters become borders of regions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alignment {
    /// Bytes of an address unit.
    pub(crate) unit: Bytes,
    /// The smallest region in address units.
    pub(crate) size_min: u64,
}

fn is_inside(range: UnitRange, region: &mut Region, cut: &mut impl FnMut(&mut Region, u64)) -> bool {
    let UnitRange { start, end } = region.range;
    if range.start <= start && end <= range.end {
        return true;
    }
    if end <= range.start || range.end <= start {
        return false;
    }
    if start < range.start {
        cut(region, range.start - start);
        return false;
    }
    debug_assert!(start < range.end && range.end < end, "the border lies inside the region");
    cut(region, range.end - start);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAIN: Alignment = Alignment { unit: Bytes::new(1), size_min: 1 };

    fn addr(matching: bool, allow: bool) -> Filter {
        let address_range = Some(FilterRange { start: 2, end: 6 });
        Filter { address_range, ..Filter::new(FilterType::Addr, matching, allow) }
    }

    /// docs/spec/schemes.md#s15, example 33.
    #[test]
    fn regions_are_cut_at_the_borders_of_address_filters() {
        // (region, is inside, cut into)
        type Bounds = (u64, u64);
        let table: [(Bounds, bool, &[Bounds]); 5] = [
            ((3, 5), true, &[(3, 5)]),
            ((1, 2), false, &[(1, 2)]),
            ((6, 8), false, &[(6, 8)]),
            ((1, 4), false, &[(1, 2), (2, 4)]),
            ((2, 8), true, &[(2, 6), (6, 8)]),
        ];
        for ((start, end), is_inside, expected) in table {
            let mut region = Region { range: UnitRange::new(start, end), ..Region::default() };
            let mut pieces = Vec::new();
            let filters = [addr(true, false)];
            let verdict = judge(&filters, false, GRAIN, TargetId(0), &mut region, |region, offset| {
                pieces.push(region.split_off(offset));
            });
            let rejected = verdict == Verdict::Rejected(0);
            assert_eq!(rejected, is_inside, "example 33: [{start}, {end})");
            pieces.insert(0, region);
            let bounds: Vec<Bounds> = pieces.iter().map(|piece| (piece.range.start, piece.range.end)).collect();
            assert_eq!(bounds, expected, "example 33: [{start}, {end})");
        }
    }

    /// docs/spec/schemes.md#s15, example 34: whether unmatched memory is rejected by the core's and by the host's filters.
    #[test]
    fn the_last_filter_decides_on_what_none_matches() {
        let core = |allow| vec![Filter { target_idx: Some(9), ..Filter::new(FilterType::Target, true, allow) }];
        let ops = |allow| vec![Filter::new(FilterType::Anon, true, allow)];
        let table = [
            (vec![], vec![], (false, false)),
            (core(true), vec![], (true, false)),
            (core(false), vec![], (false, false)),
            (core(false), ops(true), (false, true)),
            (core(true), ops(true), (false, true)),
        ];
        for (core, ops, expected) in table {
            let mut region = Region { range: UnitRange::new(0, 1), ..Region::default() };
            let verdict = judge(&core, !ops.is_empty(), GRAIN, TargetId(0), &mut region, |_, _| {});
            let rejected = (verdict == Verdict::RejectedByDefault, rejects_unmatched(&ops));
            assert_eq!(rejected, expected, "example 34: {core:?}, {ops:?}");
        }
    }

    #[test]
    fn the_first_match_decides() {
        let target = |idx, allow| Filter { target_idx: Some(idx), ..Filter::new(FilterType::Target, true, allow) };
        let filters = [target(1, false), target(2, true), addr(false, false)];
        let judged = |id, start, end| {
            let mut region = Region { range: UnitRange::new(start, end), ..Region::default() };
            judge(&filters, false, GRAIN, TargetId(id), &mut region, |_, _| {})
        };
        assert_eq!(judged(1, 3, 5), Verdict::Rejected(0));
        assert_eq!(judged(2, 0, 2), Verdict::Allowed);
        assert_eq!(judged(3, 0, 2), Verdict::Rejected(2));
        assert_eq!(judged(3, 3, 5), Verdict::Undecided);
    }

    #[test]
    fn arguments_must_fit_the_type() {
        let error = |filter: Filter, layer| filter.validate("core-filters", 2, layer).unwrap_err().to_string();
        let bare = error(Filter::new(FilterType::Addr, true, true), Layer::Core);
        assert_eq!(bare, "`core-filters[2].address-range` is not given; allowed: one, for `addr`");
        let anon = error(Filter::new(FilterType::Anon, true, true), Layer::Core);
        assert_eq!(anon, "`core-filters[2].filter-type` is anon; allowed: addr, target");
        let more = error(Filter { target_idx: Some(0), ..addr(true, true) }, Layer::Core);
        assert_eq!(more, "`core-filters[2].target-idx` is given; allowed: none with `addr`");
        let back = Filter { address_range: Some(FilterRange { start: 9, end: 1 }), ..addr(true, true) };
        assert_eq!(error(back, Layer::Core), "`core-filters[2].address-range.end` is 1; allowed: start (9) and more");
        let size = Some(Bounds::new(Bytes::new(2), Bytes::new(1)));
        let size = Filter { hugepage_size: size, ..Filter::new(FilterType::HugepageSize, true, true) };
        assert!(error(size, Layer::Ops).contains("hugepage-size.max` is 1B; allowed: min (2B) and more"));
    }

    #[test]
    fn filters_are_read_in_both_spellings() {
        let text =
            "filter_type = \"hugepage_size\"\nmatching = true\nallow = false\nhugepage_size = { max = \"2MiB\" }";
        let read: Filter = toml::from_str(text).expect("damo's spelling");
        assert_eq!(read.validate("ops-filters", 0, Layer::Ops), Ok(()));
        assert_eq!(toml::from_str::<Filter>(&toml::to_string(&read).unwrap()).unwrap(), read);
        for entry in &FILTER_TYPES {
            let text = format!("filter-type = \"{}\"\nmatching = true\nallow = true", entry.name);
            assert_eq!(toml::from_str::<Filter>(&text).expect(entry.name).filter_type, entry.filter_type);
        }
    }
}
