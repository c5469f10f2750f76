//! The unit of systemd is clean and hardened; the manifest for Kubernetes parses, and its configuration passes `isotherm check`.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

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
    // The program as it is here, so that its path is one.
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
    let documents: Vec<Value> =
        manifest.split("\n---\n").map(|one| serde_saphyr::from_str(one).expect("YAML")).collect();
    let kinds: Vec<&str> = documents.iter().filter_map(|document| document["kind"].as_str()).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "DaemonSet"]);
    let container = &documents[2]["spec"]["template"]["spec"]["containers"][0];
    let unit = std::fs::read_to_string(repository("contrib/systemd/isotherm.service")).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let granted = container["securityContext"]["capabilities"]["add"].as_array().unwrap();
    let granted: Vec<String> = granted.iter().map(|name| format!("CAP_{}", name.as_str().unwrap())).collect();
    assert_eq!(granted.join(" "), line, "as the unit has them");
    assert_eq!(container["securityContext"]["privileged"], false);
    let volumes = documents[2]["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("isotherm.toml");
    std::fs::write(&config, documents[1]["data"]["isotherm.toml"].as_str().unwrap()).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_isotherm")).arg("check").arg(&config).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
