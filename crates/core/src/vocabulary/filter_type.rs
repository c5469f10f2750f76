//! Properties that filters of schemes test: one table of all types.

use serde::{Deserialize, Serialize};

/// Property that a filter tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterType {
    /// The address of the region. A region that crosses a border is cut there.
    Addr,
    /// The target that the region belongs to.
    Target,
    /// The page is anonymous.
    Anon,
    /// The page is on an active list.
    Active,
    /// The page is charged to a memory cgroup.
    Memcg,
    /// The page was accessed since this was last asked. Asking ages it.
    Young,
    /// The size of the folio that the page belongs to, in bytes.
    #[serde(alias = "hugepage_size")]
    HugepageSize,
    /// The page is in no page table.
    Unmapped,
}

/// Whether the core or the host applies a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The core applies it, region by region, before the action is tried.
    Core,
    /// The host applies it, page by page, while it carries out the action.
    Ops,
}

/// A filter type with its name and argument; an entry of [`FILTER_TYPES`].
#[derive(Clone, Copy, Debug)]
pub struct FilterEntry {
    pub filter_type: FilterType,
    /// Name of the type in files; underscores are taken as well.
    pub name: &'static str,
    /// Whether the core or the host applies it.
    pub layer: Layer,
    /// The key of its argument in files, such as `memcg-path`; `None` if it takes no argument.
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
    /// The entry of this type in [`FILTER_TYPES`].
    pub fn entry(self) -> &'static FilterEntry {
        FILTER_TYPES.iter().find(|entry| entry.filter_type == self).expect("every type has a line")
    }
}
