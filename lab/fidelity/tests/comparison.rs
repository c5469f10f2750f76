//! The stored runs of real kernels against the present simulated machine.

use std::path::Path;

use isotherm_fidelity::compare::compare;
use isotherm_fidelity::{Comparison, FidelityError, KernelData, Selection, Workloads};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn compared(selection: &Selection) -> Result<Comparison, FidelityError> {
    let workloads = Workloads::bundled().build(selection, root())?;
    compare(&workloads, selection, &KernelData::bundled()?, &|| ())
}

fn named(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// A short workload of the fitting set. The bounds are the errors reached when the runs were stored, rounded up: larger ones
/// would be a regression. It is no bar of the comparison.
#[test]
fn skewed_anonymous_memory_faults_as_in_the_kernel() {
    let selection = Selection { workloads: named("zipf"), kernels: named("7.2"), ..Selection::default() };
    let compared = compared(&selection).unwrap();
    assert_eq!(compared.rows.len(), 2 * 3 * 8, "policies, limits, counters");
    let judged = |row: &&isotherm_fidelity::CounterRow| row.metric == "major_faults" || row.metric == "pages_stolen";
    assert_eq!(compared.rows.iter().filter(judged).count(), 2 * 3 * 2);
    for row in compared.rows.iter().filter(judged) {
        assert!(row.error.unwrap() <= 0.035, "{row:?}");
    }
    assert_eq!(compared.residency.len(), 2 * 3);
    for row in &compared.residency {
        assert!(row.overlap >= 0.85, "{row:?}");
    }
    // Policies are never ordered wrongly; where none differ by more than 5 %, nothing is judged.
    let ordering = compared.bars.iter().find(|bar| bar.what.starts_with("classic and mglru ordered")).unwrap();
    assert_eq!(ordering.is_met.is_none(), ordering.rows == 0, "{ordering:?}");
    assert_ne!(ordering.is_met, Some(false), "{ordering:?}");
}

/// Every stored run is of the present script: otherwise `Stale` says what to do.
#[test]
fn stored_runs_are_of_the_present_scripts() {
    let selection = Selection::default();
    let workloads = Workloads::bundled().build(&selection, root()).unwrap();
    for data in KernelData::bundled().unwrap() {
        for workload in &workloads {
            for cell in selection.cells_of(&workload.name) {
                let Some(run) = data.run(&cell) else { panic!("kernel {} has no run of {cell:?}", data.kernel) };
                assert_eq!(run.digest, workload.digest, "{cell:?}");
                assert_eq!(run.limit_pages, workload.limit(cell.limit_percent).get(), "{cell:?}");
            }
        }
    }
}

#[test]
fn nothing_to_compare_with_is_said() {
    let selection = Selection { workloads: named("zipf"), limits: vec![75], ..Selection::default() };
    let workloads = Workloads::bundled().build(&selection, root()).unwrap();
    let error = compare(&workloads, &selection, &[], &|| ()).unwrap_err().to_string();
    assert!(error.starts_with("no stored runs of this selection"), "{error}");
    let mut data = KernelData::bundled().unwrap();
    for run in &mut data[0].runs {
        run.digest = "0".to_owned();
    }
    let error = compare(&workloads, &selection, &data, &|| ()).unwrap_err().to_string();
    assert!(error.contains("--refresh --kernel 7.2 --workload zipf"), "{error}");
}
