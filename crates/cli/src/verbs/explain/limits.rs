//! Decisions of right-sizing in a run, with reasons.

use isotherm_core::limits::LimitsStep;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_sim::machine::LimitsOutcome;

use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

/// Words, and the decisions of each group. Of several equal holds in a row only the first is shown.
pub(super) fn print(limits: &[LimitsOutcome], ui: &Ui) -> Result<(), CliError> {
    for group in limits {
        ui.print(format_args!("\n{}\n", group.words.join("\n")))?;
        let is_new = |(nth, step): &(usize, &LimitsStep)| {
            let before = nth.checked_sub(1).map(|before| &group.steps[before]);
            before.is_none_or(|before| {
                (before.action, before.reason, before.limit_bytes) != (step.action, step.reason, step.limit_bytes)
            })
        };
        let steps = group.steps.iter().enumerate().filter(is_new).map(|(_, step)| (group.target.as_str(), step));
        ui.print_styled(&super::super::render(&table(steps), Format::Table, ui).after_line())?;
    }
    Ok(())
}

/// A line for each decision, of all groups.
pub(super) fn long_table(limits: &[LimitsOutcome]) -> Table {
    table(limits.iter().flat_map(|group| group.steps.iter().map(|step| (group.target.as_str(), step))))
}

fn table<'a>(steps: impl Iterator<Item = (&'a str, &'a LimitsStep)>) -> Table {
    let columns = vec![
        Column::text("group"),
        Column::number("time", Unit::Ns),
        Column::text("action"),
        Column::text("reason"),
        Column::number("use", Unit::Bytes),
        Column::number("limit", Unit::Bytes),
        Column::number("stalled", Unit::Ppm),
        Column::number("refaults", Unit::Pages),
        Column::number("harm of goal", Unit::Ppm),
    ];
    let mut table = Table::new("decisions on memory.high", columns);
    for (target, step) in steps {
        table.push(vec![
            target.into(),
            step.at_ns.into(),
            step.action.name().into(),
            step.reason.name().replace('_', " ").into(),
            step.usage_bytes.into(),
            step.limit_bytes.map_or(Cell::Missing, Cell::Int),
            step.stalled_ppm.into(),
            step.refaulted_pages.into(),
            step.harm_ppm.into(),
        ]);
    }
    table
}
