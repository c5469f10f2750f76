//! `isotherm advise --huge-pages`: only the question of huge pages.

use isotherm_advise::{HugePages, Question, huge_pages};
use isotherm_report::Table;
use isotherm_units::Bytes;
use serde::Serialize;

use super::{BarProgress, tables, words};
use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

#[derive(Serialize)]
struct Document<'a> {
    program: &'a str,
    peak_bytes: u64,
    huge_pages: &'a HugePages,
}

pub(super) fn run(question: &Question, format: Format, ui: &Ui) -> Result<(), CliError> {
    let bar = BarProgress::new(ui, "replaying");
    let found = huge_pages(question, &bar);
    bar.finish();
    let (peak, huge) = found?;
    match format {
        Format::Json => {
            let document = Document { program: &question.name, peak_bytes: peak.get(), huge_pages: &huge };
            let text = serde_json::to_string_pretty(&document).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(tables::huge_pages(&huge).to_csv()),
        Format::Table => print(&question.name, peak, &huge, ui),
    }
}

fn print(program: &str, peak: Bytes, huge: &HugePages, ui: &Ui) -> Result<(), CliError> {
    ui.print(format_args!("{program}: peak memory {}\n\n{}\n", peak.approx(), words::huge_pages(huge)))?;
    let table = |table: &Table| match table.rows.is_empty() {
        true => Ok(()),
        false => ui.print_styled(&super::super::render(table, Format::Table, ui).after_line()),
    };
    table(&tables::huge_pages(huge))?;
    let latencies = words::latencies(huge);
    if !latencies.is_empty() {
        ui.print(format_args!("\n{latencies}\n"))?;
    }
    table(&tables::narrow_latencies(huge))?;
    let steps = steps(huge);
    if !steps.is_empty() {
        ui.print(format_args!("\nTo do now:\n{}\n", steps.join("\n")))?;
    }
    for note in words::latency_assumptions(huge) {
        ui.say(format_args!("note: {note}"));
    }
    Ok(())
}

/// Commands to type on a live system; empty if no memory is worth it.
fn steps(huge: &HugePages) -> Vec<String> {
    if huge.dense().is_none() {
        return Vec::new();
    }
    let mut steps = vec![
        "  echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled    # who asks for them gets them"
            .to_owned(),
        "  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 CMD...    # malloc asks for them (glibc 2.35 and later)".to_owned(),
    ];
    if let Some(best) = huge.fragmented.as_ref().map(isotherm_advise::Fragmented::with_best) {
        steps.push(match best.runs_on_linux {
            true => "  sudo sysctl vm.compaction_proactiveness=75    # keeps some free; Linux has 20".to_owned(),
            false => format!(
                "  [[compaction]] with design = \"{}\" for `sudo isotherm daemon run`    # keeps some free: docs/use/operate.md",
                best.design
            ),
        });
    }
    steps
}
