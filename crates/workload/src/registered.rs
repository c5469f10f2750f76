//! Kind `registered`: a workload of the program that embeds isotherm.

use std::collections::BTreeMap;
use std::sync::Arc;

use isotherm_units::access::Program;
use serde::{Deserialize, Serialize};

use crate::spec::Kind;
use crate::{BuildContext, WorkloadError};

/// A workload that the program which plays the scenario has registered under a name. The `isotherm` command has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RegisteredSpec {
    /// The name that it was registered under.
    pub name: String,
    /// Parameters of the workload, in its own terms. Default: nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Table(BTreeMap<String, Self>),
}

/// Makes workloads of a name.
pub trait WorkloadMaker: Send + Sync + std::fmt::Debug {
    /// The name in scenarios.
    fn name(&self) -> &str;

    /// A program that touches the same pages for the same parameters and seed. `name`: name of the workload in its scenario.
    ///
    /// # Errors
    /// The reason, as text.
    fn make(&self, parameters: &BTreeMap<String, Parameter>, name: &str, seed: u64) -> Result<Program, String>;
}

/// The workloads that a program has registered.
#[derive(Clone, Debug, Default)]
pub struct RegisteredWorkloads(Vec<Arc<dyn WorkloadMaker>>);

impl RegisteredWorkloads {
    /// Registers one; an earlier one of the same name is replaced.
    pub fn add(&mut self, maker: Arc<dyn WorkloadMaker>) {
        self.0.retain(|other| other.name() != maker.name());
        self.0.push(maker);
    }
}

impl Kind for RegisteredSpec {
    const NAME: &'static str = "registered";
    const SUMMARY: &'static str = "a workload of the program that plays the scenario, such as one in Python";
    const EXAMPLE: &'static str =
        "kind = \"registered\"\nname = \"stairs\"\nparameters = { pages = 4096, rounds = 3 }\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let registered = &context.registered.0;
        let Some(maker) = registered.iter().find(|maker| maker.name() == self.name) else {
            let names: Vec<&str> = registered.iter().map(|maker| maker.name()).collect();
            let allowed = match names.is_empty() {
                true => "none, as this program has registered no workload (docs/use/scenarios.md#workloads)".to_owned(),
                false => format!("what this program has registered: {}", names.join(", ")),
            };
            return Err(WorkloadError::field(Self::NAME, "name", format!("`{}`", self.name), allowed));
        };
        let name = context.name_or(&self.name);
        maker
            .make(&self.parameters, &name, context.seed)
            .map_err(|why| WorkloadError::Registered { name: self.name.clone(), why })
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WorkloadSpec, kind_named};

    #[derive(Debug)]
    struct Refuses;

    impl WorkloadMaker for Refuses {
        fn name(&self) -> &'static str {
            "refuses"
        }
        fn make(&self, parameters: &BTreeMap<String, Parameter>, name: &str, seed: u64) -> Result<Program, String> {
            Err(format!("{name} with {parameters:?} and seed {seed}"))
        }
    }

    #[test]
    fn what_is_not_registered_is_refused_with_what_is() {
        let spec: WorkloadSpec = toml::from_str(kind_named("registered").unwrap().example).unwrap();
        let message =
            |context: &BuildContext, spec: &WorkloadSpec| spec.build(context).map(drop).unwrap_err().to_string();
        let mut context = BuildContext::new(".").named("w").with_seed(7);
        let expected = "registered: `name` is `stairs`; allowed: none, as this program has registered no workload (docs/use/scenarios.md#workloads)";
        assert_eq!(message(&context, &spec), expected);
        context.registered.add(Arc::new(Refuses));
        context.registered.add(Arc::new(Refuses));
        let expected = "registered: `name` is `stairs`; allowed: what this program has registered: refuses";
        assert_eq!(message(&context, &spec), expected);
        let spec: WorkloadSpec =
            toml::from_str("kind = 'registered'\nname = 'refuses'\nparameters = { a = 1, b = [true] }").unwrap();
        let expected = "workload `refuses`: w with {\"a\": Integer(1), \"b\": List([Flag(true)])} and seed 7";
        assert_eq!(message(&context, &spec), expected);
    }
}
