//! Rules for tests: one program a package, every file of tests is run, no case is ignored except those of the nightly run, which a page
//! lists.

use super::File;
use crate::Findings;

/// Lists the nightly cases.
const PAGE: &str = "docs/developing.md";
const NIGHTLY: &str = "#[ignore = \"nightly: ";

pub(super) fn check(file: &File, files: &[File], findings: &mut Findings) {
    let page = files.iter().find(|other| other.path == PAGE).map_or("", |page| page.text.as_str());
    let lines: Vec<&str> = file.text.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("#[ignore")) {
        if !line.trim_start().starts_with(NIGHTLY) {
            findings.push(file.at(index, "an ignored test tests nothing, unless it is `#[ignore = \"nightly: why\"]`"));
        }
        let name = lines[index..].iter().find_map(|line| line.trim_start().strip_prefix("fn "));
        let name = name.and_then(|rest| rest.split('(').next()).unwrap_or_default();
        if !page.contains(&format!("`{name}`")) {
            findings.push(file.at(index, &format!("{PAGE} does not list `{name}` among the cases of the night")));
        }
    }
    let Some((folder, name)) = file.path.rsplit_once('/').filter(|(folder, _)| folder.ends_with("/tests")) else {
        return;
    };
    if name == "main.rs" || file.path.matches('/').count() != folder.matches('/').count() + 1 {
        return;
    }
    let module = name.trim_end_matches(".rs");
    let main = files.iter().find(|other| other.path == format!("{folder}/main.rs"));
    // A folder of that name with Rust sources below `src` is not cargo's.
    if folder.contains("/src/") {
        return;
    }
    let has = |main: &File| main.text.lines().any(|line| line == format!("mod {module};"));
    if !main.is_some_and(has) {
        findings.push(format!("{}: {folder}/main.rs has no line `mod {module};`, so nothing runs it", file.path));
    }
}
