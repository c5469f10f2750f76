//! Components of the command, as CycloneDX 1.5: every crate that is linked into it, and all embedded files.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Findings, workspace};

/// Prints the list.
pub(crate) fn run() -> Findings {
    let asked = workspace::cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .output();
    let output = match asked {
        Ok(output) if output.status.success() => output,
        Ok(output) => return vec![format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr))],
        Err(error) => return vec![format!("cannot run cargo: {error}")],
    };
    match serde_json::from_slice(&output.stdout) {
        Ok(metadata) => match bill(&metadata) {
            Some(bill) => {
                println!("{bill:#}");
                Vec::new()
            }
            None => vec!["cargo metadata has no package isotherm-cli".to_owned()],
        },
        Err(error) => vec![format!("cargo metadata: {error}")],
    }
}

fn bill(metadata: &Value) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let root = packages.iter().find(|package| package["name"] == "isotherm-cli")?;
    let linked = linked(metadata, root["id"].as_str()?);
    let mut parts: Vec<Value> = packages
        .iter()
        .filter(|package| package["id"] != root["id"] && package["id"].as_str().is_some_and(|id| linked.contains(id)))
        .map(|package| {
            let (name, version) = (text(package, "name"), text(package, "version"));
            let mut part = json!({
                "type": "library",
                "name": name,
                "version": version,
                "purl": format!("pkg:cargo/{name}@{version}"),
                "bom-ref": format!("pkg:cargo/{name}@{version}"),
            });
            if let Some(license) = package["license"].as_str() {
                part["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
            }
            part
        })
        .collect();
    parts.push(json!({
        "type": "library",
        "name": "uplot",
        "version": "1.6.32",
        "purl": "pkg:npm/uplot@1.6.32",
        "bom-ref": "pkg:npm/uplot@1.6.32",
        "licenses": [{ "expression": "MIT" }],
        "description": "embedded in HTML reports",
    }));
    parts.sort_by_key(|part| part["purl"].to_string());
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "name": "isotherm",
            "version": root["version"],
            "licenses": [{ "expression": root["license"] }],
        } },
        "components": parts,
    }))
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// Identities of all packages that `root` is linked with: neither for builds alone nor for tests alone.
fn linked(metadata: &Value, root: &str) -> BTreeSet<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(id) = open.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let dependencies = nodes.iter().find(|node| node["id"] == id.as_str()).and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            if kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null())) {
                open.extend(dependency["pkg"].as_str().map(str::to_owned));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_once_and_what_builds_is_not() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("isotherm-cli"), package("a"), package("b"), package("builder"), package("tests")],
            "resolve": { "nodes": [
                { "id": "isotherm-cli", "deps": [dependency("a", Value::Null), dependency("b", Value::Null), dependency("builder", json!("build"))] },
                { "id": "a", "deps": [dependency("b", Value::Null), dependency("tests", json!("dev"))] },
                { "id": "b", "deps": [] },
            ] },
        });
        let bill = bill(&metadata).unwrap();
        let names: Vec<&str> = bill["components"].as_array().unwrap().iter().map(|part| text(part, "name")).collect();
        assert_eq!(names, ["a", "b", "uplot"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(super::bill(&json!({ "packages": [] })).is_none());
    }
}
