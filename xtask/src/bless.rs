//! `cargo xtask bless`: writes what tests compare with what the code makes: tables of pages, digests, golden files, pictures. The test of
//! each fails where it differs, and names this command.

use crate::{Findings, keys, tidy, workspace};

/// How one is written.
#[derive(Clone, Copy)]
enum By {
    /// A step of our own.
    Step(fn() -> Findings),
    /// Cases of a package, run with `ISOTHERM_BLESS=1`: package and name.
    Cases(&'static str, &'static str),
    /// A bench of a package, run so.
    Bench(&'static str, &'static str),
}

/// What is made, by name.
const MADE: &[(&str, By)] = &[
    ("keys", By::Step(keys::run)),
    ("words", By::Step(|| tidy::words::write(&workspace::root()))),
    ("costs", By::Cases("isotherm-kernel", "the_documented_table_is_this_table")),
    ("results", By::Cases("isotherm-scenario", "the_page_of_results_has_all_metrics")),
    ("digests", By::Cases("isotherm-scenario", "results_are_the_bytes_of_every_build")),
    ("damo", By::Cases("isotherm-scenario", "checked_in_files_are_what_damo_makes")),
    ("sampled-curves", By::Cases("isotherm-workload", "the_documented_errors_are_those_of_the_sample")),
    ("metrics", By::Cases("isotherm-cli", "the_page_has_all_metrics")),
    ("libcachesim", By::Cases("isotherm-cli", "golden_is_what_libcachesim_says")),
    ("pictures", By::Cases("isotherm-cli", "pictures_of_the_report")),
    ("instructions", By::Bench("isotherm-cli", "instructions")),
];

/// Writes those that are named.
pub(crate) fn run(names: &[String]) -> Findings {
    let known = || MADE.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        return vec![format!("say which, or several: {}", known())];
    }
    let by = |name: &String| MADE.iter().find(|(known, _)| known == name).map(|(_, by)| *by);
    if let Some(unknown) = names.iter().find(|name| by(name).is_none()) {
        return vec![format!("nothing that is made is called `{unknown}`; there are {}", known())];
    }
    names.iter().filter_map(by).flat_map(write).collect()
}

fn write(by: By) -> Findings {
    let arguments = match by {
        By::Step(step) => return step(),
        By::Cases(package, case) => ["test", "--locked", "--package", package, case],
        By::Bench(package, bench) => ["bench", "--package", package, "--bench", bench],
    };
    match workspace::cargo().args(arguments).env("ISOTHERM_BLESS", "1").status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(_) => vec![format!("`ISOTHERM_BLESS=1 cargo {}` failed; see above", arguments.join(" "))],
        Err(error) => vec![format!("cannot run cargo: {error}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_made_is_written() {
        let said = run(&["keys".to_owned(), "nothing".to_owned()]);
        assert!(said.len() == 1 && said[0].contains("`nothing`") && said[0].contains("keys, words, costs"), "{said:?}");
        assert!(run(&[])[0].starts_with("say which"));
    }

    /// A case that has another name now would be filtered out, and nothing written.
    #[test]
    fn each_case_is_there_and_names_the_command() {
        let root = workspace::root();
        let sources: Vec<String> = workspace::files(&root)
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "rs") && !path.starts_with("xtask"))
            .filter_map(|path| std::fs::read_to_string(root.join(path)).ok())
            .filter(|text| text.contains("ISOTHERM_BLESS"))
            .collect();
        for (name, by) in MADE {
            if let By::Cases(_, case) = by {
                let of_case: Vec<&String> =
                    sources.iter().filter(|text| text.contains(&format!("fn {case}()"))).collect();
                assert_eq!(of_case.len(), 1, "{case}");
                assert!(of_case[0].contains(&format!("cargo xtask bless {name}")), "{case} does not name {name}");
            }
        }
    }
}
