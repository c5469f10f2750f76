//! Page numbers for objects without a number, or with a number that is too large.

use std::collections::HashMap;

use crate::PAGE_LIMIT;

/// Ids from here on get dense numbers from here on; lower ids are page numbers as they are, so the two never collide.
const DENSE_FROM: u64 = PAGE_LIMIT / 2;

/// Gives each object a page number, in order of appearance. Memory: some 40 bytes for each object that needs a number.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    large: HashMap<u64, u64>,
    named: HashMap<Vec<u8>, u64>,
}

impl Numbering {
    pub(crate) fn page_of(&mut self, id: u64) -> u64 {
        if id < DENSE_FROM {
            return id;
        }
        let next = DENSE_FROM + self.large.len() as u64;
        *self.large.entry(id).or_insert(next)
    }

    pub(crate) fn page_of_name(&mut self, name: &[u8]) -> u64 {
        if let Some(&page) = self.named.get(name) {
            return page;
        }
        let page = self.named.len() as u64;
        self.named.insert(name.to_vec(), page);
        page
    }

    /// Summary for the trace's notes.
    pub(crate) fn remark(&self) -> Option<String> {
        match (self.large.len(), self.named.len()) {
            (0, 0) => None,
            (large, 0) => Some(format!(
                "{large} object ids of 2^51 or more were numbered densely from 2^51 on, in order of appearance"
            )),
            (_, named) => Some(format!("{named} object names were numbered from 0 on, in order of appearance")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ids_stay_and_large_ones_are_dense() {
        let mut numbering = Numbering::default();
        let ids = [7, u64::MAX, DENSE_FROM - 1, DENSE_FROM, u64::MAX, 7];
        let pages = ids.map(|id| numbering.page_of(id));
        assert_eq!(pages, [7, DENSE_FROM, DENSE_FROM - 1, DENSE_FROM + 1, DENSE_FROM, 7]);
        assert!(numbering.remark().unwrap().starts_with("2 object ids"));
    }
}
