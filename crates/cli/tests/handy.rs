//! Completion, manual pages and the version.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

fn isotherm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isotherm")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let output = isotherm(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Verbs in `isotherm help`, which has them in groups.
fn verbs() -> BTreeSet<String> {
    let help = said(&["help"]);
    let (_, list) = help.split_once("\nMeasure:\n").unwrap();
    let (list, _) = list.split_once("\nOptions:\n").unwrap();
    let named = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: BTreeSet<String> = named.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.contains("advise") && names.contains("man") && names.len() > 15, "{help}");
    names
}

#[test]
fn shells_take_the_scripts() {
    for (shell, words) in
        [("bash", "complete -F _isotherm"), ("zsh", "#compdef isotherm"), ("fish", "complete -c isotherm")]
    {
        let script = said(&["completion", shell]);
        assert!(script.contains(words) && verbs().iter().all(|verb| script.contains(verb)), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("isotherm.bash");
    std::fs::write(&path, said(&["completion", "bash"])).unwrap();
    let typed = format!(
        "source {} && COMP_WORDS=(isotherm adv) COMP_CWORD=1 && _isotherm isotherm adv isotherm && echo ${{COMPREPLY[@]}}",
        path.display()
    );
    let completed = Command::new("bash").args(["-c", &typed]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&completed.stdout).trim(),
        "advise",
        "{}",
        String::from_utf8_lossy(&completed.stderr)
    );
    assert_eq!(isotherm(&["completion", "dosh"]).status.code(), Some(2));
}

#[test]
fn each_verb_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("share/man1");
    said(&["man", man.to_str().unwrap()]);
    for verb in verbs() {
        let page = std::fs::read_to_string(man.join(format!("isotherm-{verb}.1")))
            .unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS") && page.contains("Examples:"),
            "{verb}: {page}"
        );
    }
    assert!(std::fs::read_to_string(man.join("isotherm.1")).unwrap().contains("advise"));
    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = isotherm(&["man", folder.path().join("file").to_str().unwrap()]);
    assert!(refused.status.code() == Some(1) && String::from_utf8_lossy(&refused.stderr).contains("cannot write"));
}

#[test]
fn the_version_says_what_it_was_built_from() {
    let short = said(&["-V"]);
    assert_eq!(short, format!("isotherm {}\n", env!("CARGO_PKG_VERSION")));
    let long = said(&["--version"]);
    assert!(long.starts_with(short.trim()) && long.contains("\ncommit: ") && long.contains(", rustc "), "{long}");
}

#[test]
fn a_bug_report_has_no_names_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("isotherm.toml"), "[[targets]]\nname = \"secret\"\ncgroup = \"/secret.slice\"\n").unwrap();
    let (config, audit) = (path("isotherm.toml"), path("none.jsonl"));
    let told = said(&["bug-report", "-o", &path("report"), "--config", &config, "--audit", &audit]);
    assert!(told.contains("read it, then attach it"), "{told}");
    let report = folder.path().join("report");
    for (file, words) in [("version.txt", "isotherm "), ("machine.txt", "MemTotal"), ("doctor.json", "\"verdict\"")] {
        let text = std::fs::read_to_string(report.join(file)).unwrap();
        assert!(text.contains(words) && !text.contains("secret"), "{file}: {text}");
    }
    let left_out = std::fs::read_to_string(report.join("left-out.txt")).unwrap();
    assert!(left_out.contains("isotherm.toml: left out") && left_out.contains("audit.jsonl: left out"), "{left_out}");
    assert!(!report.join("isotherm.toml").exists() && !report.join("audit.jsonl").exists());
    let again = isotherm(&["bug-report", "-o", &path("report")]);
    assert_eq!(again.status.code(), Some(2), "{}", String::from_utf8_lossy(&again.stderr));
    said(&["bug-report", "-o", &path("named"), "--config", &config, "--audit", &audit, "--with-names"]);
    assert!(std::fs::read_to_string(folder.path().join("named/isotherm.toml")).unwrap().contains("secret"));
}
