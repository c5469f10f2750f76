//! Repeats the smallest slice of the real runs. Without an emulator, a kernel or the guest's program these tests say so and pass;
//! with `ISOTHERM_REQUIRE_ALL=1` they fail.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use isotherm_fidelity::compare::compare;
use isotherm_fidelity::{Folios, KernelData, Refresh, Selection, Workload, Workloads};
use isotherm_rig::AtHand;
use std::path::Path;
use std::time::Duration;

use crate::ONE_AT_A_TIME;

/// The rig; `None`, after a message, if a part is missing.
fn rig() -> Option<AtHand> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    AtHand::find(target, "6.12", is_required, &|what| println!("{what}")).unwrap()
}

fn slice() -> (Selection, Vec<Workload>) {
    let selection = Selection {
        kernels: vec!["6.12".to_owned()],
        workloads: vec!["zipf".to_owned()],
        policies: vec!["classic".to_owned()],
        limits: vec![75],
    };
    let workloads = Workloads::bundled().build(&selection, Path::new(".")).unwrap();
    (selection, workloads)
}

#[test]
fn a_slice_is_made_anew_stored_and_compared() {
    let Some(AtHand { kernel: (_, kernel), guest }) = rig() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (selection, workloads) = slice();
    let refresh = Refresh {
        kernel: ("6.12", &kernel),
        guest: &guest,
        folios: Folios::SINGLE,
        selection: &selection,
        workloads: &workloads,
        boots: 1,
        time_limit: Duration::from_secs(300),
        command: "a test",
    };
    let data = refresh.go(&|_| ()).unwrap();
    assert_eq!((data.release.as_str(), data.runs.len()), (kernel.release.as_str(), 1));
    let folder = tempfile::tempdir().unwrap();
    data.store(folder.path()).unwrap();
    let stored = KernelData::load_all(folder.path()).unwrap();
    assert_eq!(stored, [data]);
    let compared = compare(&workloads, &selection, &stored, &|| ()).unwrap();
    let faults = compared.rows.iter().find(|row| row.metric == "major_faults").unwrap();
    // A quarter of 16,384 pages is missing: thousands of faults, in both worlds within a tenth.
    assert!(faults.real_low > 5_000 && faults.error.unwrap() < 0.1, "{faults:?}");
    assert!(compared.residency[0].overlap > 0.9, "{:?}", compared.residency);
}

#[test]
fn a_boot_that_takes_too_long_leaves_nothing() {
    let Some(AtHand { kernel: (_, kernel), guest }) = rig() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (selection, workloads) = slice();
    let refresh = Refresh {
        kernel: ("6.12", &kernel),
        guest: &guest,
        folios: Folios::SINGLE,
        selection: &selection,
        workloads: &workloads,
        boots: 1,
        time_limit: Duration::from_millis(300),
        command: "a test",
    };
    let error = refresh.go(&|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("the guest did not end within 0 s and was stopped"), "{error}");
}
