//! `isotherm doctor` over whole trees of files: checks its whole output, and that its page names every
//! probe. `UPDATE_SCREENS=1 cargo test -p isotherm-cli --test main doctor` writes the checked-in outputs
//! again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Makes a machine from a tree in text form: `=== PATH`, then the text of that file, with `\0` for that
/// byte.
fn tree(release: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(repository().join(format!("crates/linux/tests/doctor/{release}.tree"))).unwrap();
    for section in text.split("=== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        let path = folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("\\0", "\0")).unwrap();
    }
    folder
}

fn doctor(root: &Path, format: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm"))
        .args(["doctor", "--format", format, "--root"])
        .arg(root)
        .env("COLUMNS", "100")
        .env_remove("LANG")
        .output()
        .expect("it was built")
}

#[test]
fn all_that_it_prints_is_as_checked_in() {
    for (release, exit) in [("6.1", 4), ("6.12", 4), ("7.2", 4)] {
        let folder = tree(release);
        let output = doctor(folder.path(), "table");
        assert_eq!(output.status.code(), Some(exit), "{release}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/doctor/{release}.txt"));
        // Paths in error messages begin with the path of the tree.
        let found = String::from_utf8(output.stdout).unwrap().replace(folder.path().to_str().unwrap(), "");
        if std::env::var_os("UPDATE_SCREENS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&path).unwrap(), "{}", path.display());
        assert!(found.lines().all(|line| line.chars().count() <= 100), "{found}");
    }
}

#[test]
fn tables_and_documents_have_the_same_findings() {
    let folder = tree("7.2");
    let json: serde_json::Value = serde_json::from_slice(&doctor(folder.path(), "json").stdout).unwrap();
    let csv = String::from_utf8(doctor(folder.path(), "csv").stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(csv.lines().next(), Some("part,name,state,words,fix"));
    assert_eq!(csv.lines().count(), 1 + findings.len(), "{csv}");
    for finding in findings {
        let (name, state) = (finding["name"].as_str().unwrap(), finding["state"].as_str().unwrap());
        assert!(csv.lines().any(|line| line.contains(&format!(",{name},{state},"))), "{finding}");
    }
}

#[test]
fn the_page_names_every_probe_in_order() {
    let page = fs::read_to_string(repository().join("docs/use/watch.md")).unwrap();
    let (_, probes) = page.split_once("\n### Probes\n").unwrap();
    let (probes, _) = probes.split_once("\n### ").unwrap();
    let rows = probes.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let named: Vec<&str> = rows.map(|(name, _)| name).collect();
    assert_eq!(named, isotherm_linux::doctor::names().collect::<Vec<_>>(), "docs/use/watch.md#doctor, section Probes");
}

#[test]
fn the_page_shows_what_it_prints() {
    let page = fs::read_to_string(repository().join("docs/use/watch.md")).unwrap();
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/7.2.txt")).unwrap();
    assert!(
        page.contains(&format!("```text\n{text}```\n")),
        "docs/use/watch.md#doctor must show crates/cli/tests/doctor/7.2.txt"
    );
}
