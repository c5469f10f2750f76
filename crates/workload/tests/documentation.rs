//! Examples of the documentation work as written.

use isotherm_workload::{KINDS, WorkloadSpec, kind_named};

const PAGE: &str = include_str!("../../../docs/use/scenarios.md");

/// The section on workloads.
fn section() -> &'static str {
    PAGE.split_once("\n## Workloads\n").expect("the page has the section, as its last").1
}

/// The fenced `toml` blocks of the section.
fn blocks() -> Vec<&'static str> {
    let after_fences = section().split("```toml\n").skip(1);
    after_fences.map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn every_snippet_is_a_workload_and_survives_printing() {
    for text in blocks().into_iter().chain(KINDS.iter().map(|entry| entry.example)) {
        let spec: WorkloadSpec = toml::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let printed = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<WorkloadSpec>(&printed).unwrap(), spec, "{printed}");
    }
}

#[test]
fn every_kind_has_a_section_with_a_snippet_and_an_example() {
    for entry in KINDS {
        assert!(section().contains(&format!("\n### {}\n", entry.name)), "no section for {}", entry.name);
        let line = format!("kind = \"{}\"\n", entry.name);
        assert!(blocks().iter().any(|block| block.starts_with(&line)), "no snippet for {}", entry.name);
        let spec: WorkloadSpec = toml::from_str(entry.example).unwrap();
        assert_eq!(spec.entry(), entry);
        assert_eq!(kind_named(entry.name), Some(entry));
        assert!(!entry.summary.is_empty());
    }
    assert_eq!(kind_named("nothing"), None);
}

#[test]
fn unknown_kinds_and_keys_are_refused_with_what_is_known() {
    let error = |text: &str| toml::from_str::<WorkloadSpec>(text).unwrap_err().to_string();
    let table = [
        ("kind = 'masin'", "unknown variant `masin`, expected one of `trace`, `key-value`"),
        ("kind = 'scan'\nfootprnt = '1GiB'", "unknown field `footprnt`, expected one of `footprint`"),
        ("kind = 'trace'", "missing field `path`"),
        ("footprint = '1GiB'", "missing field `kind`"),
        ("kind = 'scan'\nfootprint = '1 parsec'", "unknown unit `parsec`"),
        ("kind = 'idle'\nduration = '5'", "has no unit"),
        ("kind = 'phases'\n[[phases]]\nkind = 'idle'\nx = 1", "unknown field `x`"),
    ];
    for (text, expected) in table {
        assert!(error(text).contains(expected), "{text}: {}", error(text));
    }
}
