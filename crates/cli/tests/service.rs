//! The unit of systemd is clean and hardened; the manifest for Kubernetes agrees with it, and its configuration passes `isotherm daemon
//! check`.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_unit_is_clean_and_hardened() {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let why = "systemd-analyze is not installed (apt-get install systemd)";
        assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    // The program built here, so that its path exists.
    let folder = tempfile::tempdir().unwrap();
    let unit = std::fs::read_to_string(repository("contrib/systemd/isotherm.service")).unwrap();
    let here = folder.path().join("isotherm.service");
    std::fs::write(&here, unit.replace("/usr/bin/isotherm", env!("CARGO_BIN_EXE_isotherm"))).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&here).output().unwrap();
    let words = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !words.contains("isotherm.service:"), "{words}");
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=30"])
        .arg(&here)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "its exposure is above 3.0: {words}");
    assert!(words.contains("Overall exposure level"), "{words}");
}

#[test]
fn the_manifest_has_the_unit_s_capabilities_and_a_valid_configuration() {
    let manifest = std::fs::read_to_string(repository("contrib/kubernetes/isotherm.yaml")).unwrap();
    let after = |begin: &str| -> Vec<&str> {
        manifest.lines().filter_map(|line| line.trim_start().strip_prefix(begin)).collect()
    };
    assert_eq!(after("kind: "), ["Namespace", "ConfigMap", "DaemonSet"]);
    let unit = std::fs::read_to_string(repository("contrib/systemd/isotherm.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let granted: Vec<String> = serde_json::from_str(after("add: ")[0]).expect("a list in JSON's notation");
    let granted: Vec<String> = granted.iter().map(|name| format!("CAP_{name}")).collect();
    assert_eq!(granted.join(" "), line, "as the unit has them");
    assert_eq!(after("privileged: "), ["false"]);
    let entries = after("- { name: ");
    let names = |mounts: bool| -> Vec<&str> {
        let entries = entries.iter().map(|entry| entry.split_once(", ").expect("a mount or a volume"));
        entries.filter(|(_, rest)| rest.starts_with("mountPath: ") == mounts).map(|(name, _)| name).collect()
    };
    assert!(names(true).len() >= 7);
    assert_eq!(names(true), names(false), "each volume is mounted");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("isotherm.toml");
    let (_, rest) = manifest.split_once("  isotherm.toml: |\n").unwrap();
    let (text, _) = rest.split_once("---\n").unwrap();
    std::fs::write(&config, text.replace("\n    ", "\n")).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_isotherm")).arg("check").arg(&config).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
