//! Advice as tables, sentences and a page.

pub(crate) mod adaptive;
pub mod bursts;
mod charts;
pub mod page;
pub mod platform;
pub mod tables;
mod terms;
mod views;
pub mod words;

use crate::Advice;

/// The answers as a JSON document: one as it is, several in a list.
///
/// # Errors
/// When a value has no form in JSON.
pub fn document(answers: &[Advice]) -> serde_json::Result<serde_json::Value> {
    match answers {
        [advice] => serde_json::to_value(advice),
        several => serde_json::to_value(serde_json::json!({ "releases": several })),
    }
}
