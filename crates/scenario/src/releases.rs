//! One scenario by the rules of other releases of the kernel, and several releases side by side.

use crate::{Scenario, ScenarioResult};
use isotherm_kernel::memory::KernelRelease;

impl Scenario {
    /// The same scenario by the rules of `release`, in all its variants. A `[machine.mglru] baseline` stays.
    #[must_use]
    pub fn on_kernel(mut self, release: KernelRelease) -> Self {
        self.machine.kernel = release;
        for variant in &mut self.variants {
            if let Some(toml::Value::Table(machine)) = variant.patch.get_mut("machine") {
                machine.remove("kernel");
            }
        }
        self
    }
}

/// One result from the results of a scenario on several releases, in the order given. Each variant gets its release as a suffix, `classic
/// on 6.12`, also where ratios name it. Rows of a variant are adjacent.
pub fn side_by_side(results: Vec<(KernelRelease, ScenarioResult)>) -> ScenarioResult {
    let scenario = results.first().map(|(_, result)| result.scenario.clone()).unwrap_or_default();
    let mut all = ScenarioResult {
        scenario,
        rows: Vec::new(),
        ratios: Vec::new(),
        schemes: Vec::new(),
        killed: Vec::new(),
        expectations: Vec::new(),
    };
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for (release, result) in results {
        let on = |variant: &mut String| *variant = format!("{variant} on {release}");
        for mut row in result.rows {
            let key = (row.workload.clone(), row.variant.clone());
            on(&mut row.variant);
            rows.push((key, row));
        }
        for mut row in result.ratios {
            let key = (row.workload.clone(), row.variant.clone());
            on(&mut row.variant);
            on(&mut row.against);
            ratios.push((key, row));
        }
        for mut run in result.schemes {
            on(&mut run.variant);
            all.schemes.push(run);
        }
        for mut row in result.killed {
            on(&mut row.variant);
            all.killed.push(row);
        }
        for mut row in result.expectations {
            on(&mut row.expected.variant);
            row.expected.against.iter_mut().for_each(on);
            all.expectations.push(row);
        }
    }
    all.rows = together(rows);
    all.ratios = together(ratios);
    all
}

/// Rows by workload, then variant, both in the order in which they are first seen; else in the order given.
fn together<T>(rows: Vec<((String, String), T)>) -> Vec<T> {
    let (mut workloads, mut variants) = (Vec::new(), Vec::new());
    let place = |names: &mut Vec<String>, name: String| {
        names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
    };
    let mut placed: Vec<((usize, usize), T)> = rows
        .into_iter()
        .map(|((workload, variant), row)| ((place(&mut workloads, workload), place(&mut variants, variant)), row))
        .collect();
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{RatioRow, ResultRow};
    use crate::stats::Summary;

    const TEXT: &str = r#"
        name = "x"
        against = "old"
        [[workloads]]
        name = "w"
        load = { kind = "scan", footprint = "4MiB" }
        [[variants]]
        name = "old"
        patch.machine = { kernel = "6.12", cpus = 4 }
        [[variants]]
        name = "usual"
    "#;

    #[test]
    fn every_variant_gets_the_release_and_keeps_the_rest() {
        let scenario = crate::parse(TEXT, "x.toml").unwrap();
        let kernels = |scenario: &Scenario| -> Vec<(KernelRelease, u32)> {
            let variants =
                crate::variant::expand(scenario, &isotherm_kernel::reclaim::AddedPolicies::default()).unwrap();
            variants
                .iter()
                .map(|(_, variant)| (variant.scenario.machine.kernel, variant.scenario.machine.cpus))
                .collect()
        };
        let (old, new) = (KernelRelease::V6_12, KernelRelease::V7_2);
        assert_eq!(kernels(&scenario), [(old, 4), (new, 2)]);
        assert_eq!(kernels(&scenario.clone().on_kernel(new)), [(new, 4), (new, 2)]);
        assert_eq!(kernels(&scenario.on_kernel(old)), [(old, 4), (old, 2)]);
    }

    #[test]
    fn lines_of_a_variant_stand_together_and_ratios_stay_within_a_release() {
        let result = |kernel| {
            let summary = Summary::of(&[1.0]).unwrap();
            let key = |workload, variant| ((workload, variant, "m"), kernel);
            let rows = [("w", "a"), ("w", "b"), ("x", "a"), ("x", "b")];
            ScenarioResult {
                scenario: "s".to_owned(),
                rows: rows.map(|(workload, variant)| ResultRow::new(key(workload, variant), summary, None)).to_vec(),
                ratios: vec![RatioRow::new(key("w", "b"), "a", summary, None)],
                schemes: Vec::new(),
                killed: Vec::new(),
                expectations: Vec::new(),
            }
        };
        let all = side_by_side(KernelRelease::COMPARED.map(|release| (release, result(release))).to_vec());
        let rows: Vec<_> =
            all.rows.iter().map(|row| format!("{} {} ({})", row.workload, row.variant, row.kernel)).collect();
        let expected = [
            "w a on 6.12 (6.12)",
            "w a on 7.2 (7.2)",
            "w b on 6.12 (6.12)",
            "w b on 7.2 (7.2)",
            "x a on 6.12 (6.12)",
            "x a on 7.2 (7.2)",
            "x b on 6.12 (6.12)",
            "x b on 7.2 (7.2)",
        ];
        assert_eq!(rows, expected);
        let ratios: Vec<_> = all.ratios.iter().map(|row| format!("{} : {}", row.variant, row.against)).collect();
        assert_eq!(ratios, ["b on 6.12 : a on 6.12", "b on 7.2 : a on 7.2"]);
    }
}
