//! What filters of schemes look at: one table of all types.

use serde::{Deserialize, Serialize};

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterType {
    /// The address of the region. One that crosses a border is cut there.
    Addr,
    /// The target of the region.
    Target,
    /// The page is anonymous.
    Anon,
    /// The page is on an active list.
    Active,
    /// The page is charged to a memory cgroup.
    Memcg,
    /// The page was accessed since this was last asked. Asking ages it.
    Young,
    /// The size of the folio.
    #[serde(alias = "hugepage_size")]
    HugepageSize,
    /// The page is in no page table.
    Unmapped,
}

/// Who decides a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The core, by region.
    Core,
    /// The host, by page.
    Ops,
}

/// One line of [`FILTER_TYPES`].
#[derive(Clone, Copy, Debug)]
pub struct FilterEntry {
    pub filter_type: FilterType,
    /// Its name in files; underscores are taken as well.
    pub name: &'static str,
    /// Who decides it.
    pub layer: Layer,
    /// The key of its argument.
    pub argument: Option<&'static str>,
}

pub const FILTER_TYPES: [FilterEntry; 8] = {
    use FilterType as Type;
    const fn entry(filter_type: Type, name: &'static str, layer: Layer, argument: Option<&'static str>) -> FilterEntry {
        FilterEntry { filter_type, name, layer, argument }
    }
    [
        entry(Type::Addr, "addr", Layer::Core, Some("address-range")),
        entry(Type::Target, "target", Layer::Core, Some("target-idx")),
        entry(Type::Anon, "anon", Layer::Ops, None),
        entry(Type::Active, "active", Layer::Ops, None),
        entry(Type::Memcg, "memcg", Layer::Ops, Some("memcg-path")),
        entry(Type::Young, "young", Layer::Ops, None),
        entry(Type::HugepageSize, "hugepage-size", Layer::Ops, Some("hugepage-size")),
        entry(Type::Unmapped, "unmapped", Layer::Ops, None),
    ]
};

impl FilterType {
    /// Its line of the table.
    pub fn entry(self) -> &'static FilterEntry {
        FILTER_TYPES.iter().find(|entry| entry.filter_type == self).expect("every type has a line")
    }
}
