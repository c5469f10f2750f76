//! The page of an answer: what it says, where, and that nothing but its inputs is in it.

use crate::advise::{advice, question, recording};
use isotherm_advise::advice::page::{Occasion, html};
use isotherm_advise::advice::platform::Platform;
use isotherm_kernel::memory::KernelRelease;
use std::path::Path;

fn page(date: &str, platform: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let question = question(&recording(folder.path()), &[100], &[KernelRelease::V7_2]);
    let platform: Platform = platform.parse().unwrap();
    let occasion = Occasion { config: Some(Path::new("advice.toml")), platform: &platform, date };
    html(std::slice::from_ref(advice()), &question, occasion).unwrap()
}

fn between<'a>(html: &'a str, from: &str, to: &str) -> &'a str {
    let inside = html.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    inside.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}")).0
}

#[test]
fn the_answer_says_what_to_do_and_where_it_comes_from() {
    let html = page("2023-11-14", "docker:db");
    let verdict = between(&html, "<section class=\"verdict\">", "</section>");
    assert!(verdict.contains("Recommendation: ") && verdict.contains("How sure it is: of 100 runs 95 "), "{verdict}");
    let steps = between(verdict, "<ol class=\"steps\">", "</ol>");
    assert!(steps.contains("<code>docker update --memory ") && steps.contains("--memory-swap -1 db</code>"), "{steps}");
    let origin = between(verdict, "<dl class=\"origin\">", "</dl>");
    for (name, value) in [
        ("report of", "2023-11-14"),
        ("recorded on", "not known"),
        ("recorder", "not known"),
        ("clock error", "not known"),
        ("exit code", "0"),
    ] {
        assert!(origin.contains(&format!("<dt>{name}</dt><dd>{value}</dd>")), "{name}: {origin}");
    }
    let policy = advice().recommendation.as_ref().unwrap().candidate.split(" + ").next().unwrap();
    assert!(verdict.contains(&format!("<code>{policy}</code>: the kernel&#39;s ")), "explained: {verdict}");
}

#[test]
fn the_same_inputs_give_the_same_page() {
    assert_eq!(page("2023-11-14", "cgroup"), page("2023-11-14", "cgroup"));
}

#[test]
fn what_few_need_is_folded_and_all_is_listed() {
    let html = page("2023-11-14", "cgroup");
    let list = between(&html, "<nav class=\"contents\"", "</nav>");
    let folds: Vec<&str> = html.split("<summary><h2>").skip(1).map(|rest| rest.split_once('<').unwrap().0).collect();
    for heading in [
        "Major faults by memory size",
        "Memory held, by memory size",
        "All configurations",
        "With the kernel&#39;s own parameters",
        "Memory over time",
        "Working set and idle memory",
        "The recommended configuration over time",
        "Misses at every size",
        "Huge pages",
        "Every size",
        "The recommended configuration as a scenario",
        "Configurations with schemes",
    ] {
        assert!(folds.contains(&heading), "{heading}: {folds:?}");
    }
    for heading in folds.iter().chain(&["Side by side", "Runtime by memory size", "What this does not know"]) {
        assert!(list.contains(&format!(">{heading}</a>")), "{heading}: {list}");
    }
}

/// 5 % are allowed.
#[test]
fn the_chart_of_slow_downs_opens_with_twice_what_is_allowed() {
    let html = page("2023-11-14", "cgroup");
    let charts = html.split("data-chart=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0);
    let opened: Vec<&str> = charts.filter(|chart| chart.contains("&quot;first&quot;:100000.0")).collect();
    let [slower] = opened[..] else { panic!("{} charts", opened.len()) };
    assert!(slower.contains("Slower than with unlimited memory"), "{slower}");
    assert!(html.contains("It opens with 0 to 10.0 %, twice the slow-down allowed"));
}
