//! All policies: those of the table, and policies that a program which embeds the simulator adds.

use super::external_policy::{Outside, PolicyMaker};
use super::{PolicyError, PolicySettings, ReclaimPolicy, policy_by_name};
use std::sync::Arc;

/// Policies that are in no table, by name.
#[derive(Clone, Debug, Default)]
pub struct AddedPolicies(Vec<Arc<dyn PolicyMaker>>);

impl AddedPolicies {
    /// Adds one.
    ///
    /// # Errors
    /// A policy of the table, or an added one, has this name.
    pub fn add(&mut self, maker: Arc<dyn PolicyMaker>) -> Result<(), PolicyError> {
        let name = maker.name();
        if self.check(name).is_ok() || name.is_empty() || name == "all" {
            return Err(PolicyError::Taken { name: name.to_owned() });
        }
        self.0.push(maker);
        Ok(())
    }

    fn added(&self, name: &str) -> Option<&dyn PolicyMaker> {
        self.0.iter().map(AsRef::as_ref).find(|maker| maker.name() == name)
    }

    /// Whether there is a policy of this name.
    ///
    /// # Errors
    /// When there is none: the error lists the names there are and the nearest one.
    pub fn check(&self, name: &str) -> Result<(), PolicyError> {
        if self.added(name).is_some() {
            return Ok(());
        }
        policy_by_name(name).map(drop).map_err(|error| match error {
            PolicyError::Unknown { name, suggestion, .. } => {
                let added = self.0.iter().map(|maker| maker.name().to_owned()).collect();
                PolicyError::Unknown { name, suggestion, added }
            }
            error => error,
        })
    }

    /// The policy of this name, for a machine.
    ///
    /// # Errors
    /// There is none, or it cannot be made.
    pub fn build(&self, name: &str, settings: &PolicySettings) -> Result<Box<dyn ReclaimPolicy>, PolicyError> {
        if let Some(maker) = self.added(name) {
            let broken = |why| PolicyError::Outside { name: name.to_owned(), why };
            return Ok(Box::new(Outside::new(name, maker.make().map_err(broken)?)));
        }
        self.check(name)?;
        Ok(policy_by_name(name)?.build_with(settings))
    }
}
