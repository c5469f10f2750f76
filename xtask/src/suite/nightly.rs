//! Stages of the nightly run: tests that take too long for every change, and the everyday stage that is the small form of each.

use crate::{Findings, bench, check, dkms, fuzz, licences};

use super::script;

type NightlyStage = (&'static str, fn() -> Findings);

/// Name and work of each stage.
pub(super) const STAGES: &[NightlyStage] = &[
    ("documentation", check::documentation),
    ("advisories", licences::advisories),
    ("release digests", check::digests),
    ("wheel", || script("scripts/python", &["test-wheel"])),
    ("DKMS", || dkms::run(&[])),
    ("instructions", || bench::run(&["instructions".to_owned()])),
    ("fuzz", || fuzz::run(&["--for".to_owned(), "10m".to_owned()])),
];
