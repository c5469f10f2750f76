//! The machine: kernel, pages, rights.

use super::{AS_ROOT, Context, Finding, Part, State};
use crate::release;

pub(super) fn kernel(context: &Context<'_>) -> Vec<Finding> {
    let Some(version) = release::version_below(&context.root.path("/proc")) else {
        let words = "/proc does not tell the kernel's version";
        return vec![Finding::new(Part::Machine, "kernel", State::Missing, words).fix("mount -t proc proc /proc")];
    };
    let number = numbers(&version);
    let known = context.models.iter().filter_map(|model| Some((numbers(model)?, *model)));
    // A difference in the major number outweighs any in the minor one.
    let nearest = number.and_then(|(major, minor)| {
        known.min_by_key(|((of_major, of_minor), _)| (major.abs_diff(*of_major), minor.abs_diff(*of_minor)))
    });
    let words = match nearest {
        Some((model, name)) if Some(model) == number => format!("Linux {version}; simulated by the rules of {name}"),
        Some((_, name)) => {
            format!("Linux {version}; the rules of {name} come nearest, which the simulated machine has")
        }
        None => format!("Linux {version}, a release that is not understood"),
    };
    let state = if nearest.is_some() { State::Works } else { State::Partly };
    vec![Finding::new(Part::Machine, "kernel", state, words)]
}

/// Major and minor number of a release.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

pub(super) fn pages(context: &Context<'_>) -> Vec<Finding> {
    let bytes = crate::clock::page_bytes();
    let words = match bytes {
        4096 => "pages of 4 KiB".to_owned(),
        _ => format!("pages of {} KiB: sizes here are multiples of that; the simulated machine has 4 KiB", bytes >> 10),
    };
    let state = if bytes == 4096 { State::Works } else { State::Partly };
    if !context.root.is_real() {
        return Vec::new();
    }
    vec![Finding::new(Part::Machine, "page size", state, words)]
}

/// Capabilities that monitoring needs, by their bits: capabilities(7).
const RIGHTS: [(&str, u32, &str); 4] = [
    ("CAP_SYS_ADMIN", 21, "DAMON, generations, the module, page frames"),
    ("CAP_SYS_PTRACE", 19, "other users' processes"),
    ("CAP_SYS_NICE", 23, "advice to other processes, moves between nodes"),
    ("CAP_SYS_RESOURCE", 24, "pressure triggers with short windows"),
];

pub(super) fn rights(context: &Context<'_>) -> Vec<Finding> {
    let status = context.root.read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(bits) = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else {
        return vec![Finding::new(
            Part::Machine,
            "rights",
            State::Missing,
            "/proc/self/status does not tell our capabilities",
        )];
    };
    let lacking: Vec<String> = RIGHTS
        .iter()
        .filter(|(_, bit, _)| bits >> bit & 1 == 0)
        .map(|(name, _, what)| format!("{name} ({what})"))
        .collect();
    if lacking.is_empty() {
        return vec![Finding::new(
            Part::Machine,
            "rights",
            State::Works,
            "all capabilities that watching and acting want",
        )];
    }
    let state = if lacking.len() == RIGHTS.len() { State::Missing } else { State::Partly };
    // Real, effective, saved, of file systems: proc_pid_status(5).
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let is_root = users.and_then(|users| users.split_whitespace().nth(1)) == Some("0");
    let fix = if is_root {
        "root in a container lacks what the container was not given: start it with these capabilities"
    } else {
        AS_ROOT
    };
    vec![Finding::new(Part::Machine, "rights", state, format!("without {}", lacking.join(", "))).fix(fix)]
}
