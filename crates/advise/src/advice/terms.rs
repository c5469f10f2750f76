//! Words of the page that are not plain, each explained where it stands.

use isotherm_report::{Cell, Table};

/// Word and meaning.
const TERMS: &[(&str, &str)] = &[
    ("classic", "the kernel's two lists of pages, active and inactive (two-list LRU)"),
    ("mglru", "the kernel's Multi-Gen LRU, which sorts pages into generations by age"),
    ("lru_sort", "DAMON's proactive sorting: hot memory up the lists, cold memory down"),
    ("reclaim", "DAMON's proactive reclaim: what was not used for some time is evicted before memory is short"),
    ("proactive", "old generations are evicted before memory is short"),
    ("limits", "right-sizing: a limit that follows what the program uses"),
    ("opt", "Belady's MIN, which knows the future: no policy has fewer faults, and none can be built like it"),
    ("enough", "the smallest size tried that is safe: fast enough there, and with more memory too"),
    ("gamble", "runs fall into a good and a bad group, and chance decides which; never recommended"),
    ("baseline", "an exact policy that no kernel has, for comparison"),
];

/// The terms among the words of a text, explained; `None` without any.
pub(super) fn in_text(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let found = TERMS.iter().filter(|(term, _)| words.contains(term));
    let said: Vec<String> = found.map(|(term, meaning)| format!("`{term}`: {meaning}")).collect();
    (!said.is_empty()).then(|| said.join(". ") + ".")
}

/// The terms in headings and cells of a table.
pub(super) fn in_table(table: &Table) -> Option<String> {
    let headings = table.columns.iter().map(|column| column.name.as_str());
    let cells = table.rows.iter().flatten().filter_map(|cell| match cell {
        Cell::Text(text) => Some(text.as_str()),
        _ => None,
    });
    in_text(&headings.chain(cells).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CANDIDATES;
    use isotherm_kernel::reclaim::baselines;
    use isotherm_report::Column;

    #[test]
    fn whole_words_alone_are_terms() {
        assert_eq!(in_text("optimal, unlimited"), None);
        let said = in_text("mglru + lru_sort").unwrap();
        assert!(said.starts_with("`mglru`: ") && said.contains(". `lru_sort`: ") && said.ends_with('.'), "{said}");
        let mut table = Table::new("", vec![Column::text("enough"), Column::text("note")]);
        table.push(vec![Cell::Missing, Cell::from("gamble")]);
        let said = in_table(&table).unwrap();
        assert!(said.contains("`enough`: ") && said.contains("`gamble`: "), "{said}");
    }

    #[test]
    fn each_part_of_a_configuration_is_explained() {
        let is_baseline = |part: &str| part != "opt" && baselines().any(|entry| entry.name == part);
        for part in CANDIDATES.iter().flat_map(|candidate| candidate.name.split(" + ")) {
            assert!(is_baseline(part) || in_text(part).is_some(), "{part}");
        }
    }
}
