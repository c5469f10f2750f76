//! Several recordings of one program in one question: the one that needs most memory decides.

use super::machine::Machine;
use super::{Args, With, checked, name_of, platform_of, print_for_people, question_of};
use crate::error::CliError;
use crate::format::Format;
use crate::kernel;
use crate::ui::Ui;
use isotherm_advise::advice::document;
use isotherm_advise::{Advice, Question, advise};
use isotherm_kernel::reclaim::POLICIES;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::BarProgress;
use std::path::PathBuf;
use std::process::ExitCode;

/// Asks about each recording; where the deciding one takes another policy than others, about these once more with its policy.
pub(super) fn run(paths: &[PathBuf], args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let (machine, kernels) = (Machine::of(args).calibrated(args, ui)?, kernel::asked_or_host(args.kernel)?);
    let ask = |path: &PathBuf, policy: Option<&'static str>| {
        let trace = checked(path, args, ui)?;
        let usual = Question::usual(name_of(path), trace, kernels.releases.clone());
        let question = question_of(usual, args, &machine);
        let question = Question { policy: policy.or(question.policy), ..question };
        let bar = BarProgress::interruptible(ui, &format!("replaying {}", question.name));
        let answers = advise(&question, &bar);
        bar.finish();
        let mut answers = answers?;
        if !args.anyway {
            answers.iter_mut().for_each(|advice| advice.withhold_if_unknowable(&question));
        }
        Ok::<_, CliError>(answers)
    };
    let mut all = paths.iter().map(|path| ask(path, None)).collect::<Result<Vec<_>, _>>()?;
    if let Some(policy) = decides(&all).and_then(|index| policy_of(&all[index])) {
        for (path, answers) in paths.iter().zip(&mut all) {
            if policy_of(answers).is_some_and(|other| other != policy) {
                *answers = ask(path, Some(policy))?;
            }
        }
    }
    let decides = decides(&all);
    match args.format.format {
        Format::Json => {
            let documents: Result<Vec<_>, _> = all.iter().map(|answers| document(answers)).collect();
            let value = serde_json::json!({ "recordings": documents.map_err(CliError::failed)?, "decides": decides });
            let text = serde_json::to_string_pretty(&value).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))?;
        }
        Format::Csv => ui.print_data(table(&all, decides).to_csv())?,
        Format::Table => {
            ui.say(format_args!("{}", kernels.why));
            machine.found.iter().for_each(|found| ui.say(found));
            ui.print_styled(&crate::verbs::render(&table(&all, decides), Format::Table, ui).before_line())?;
            let platform = platform_of(args);
            let with = With { details: false, rows: false, config: None, platform: &platform };
            match decides {
                Some(index) => {
                    for (nth, advice) in all[index].iter().enumerate() {
                        print_for_people(advice, with, nth + 1 == all[index].len(), ui)?;
                    }
                }
                None => ui.print("No recommendation for all of them: one has none. Ask about that one by itself.\n")?,
            }
        }
    }
    if all.iter().flatten().any(|advice| advice.is_partial) {
        return Err(CliError::partial("interrupted: this is what was known by then"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The recording that needs most memory; `None` if one of them has no answer. One that is too short to judge is not asked.
fn decides(all: &[Vec<Advice>]) -> Option<usize> {
    let judged = all.iter().enumerate().filter(|(_, answers)| answers.iter().all(|advice| advice.withheld.is_none()));
    let needs = judged.map(|(index, answers)| {
        let each = answers.iter().map(|advice| advice.recommendation.as_ref().map(|best| best.memory_bytes));
        Some((each.collect::<Option<Vec<u64>>>()?.into_iter().max()?, index))
    });
    needs
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max_by_key(|&(bytes, index)| (bytes, usize::MAX - index))
        .map(|(_, index)| index)
}

/// The policy that a recommendation stands on, without what runs with it.
fn policy_of(answers: &[Advice]) -> Option<&'static str> {
    let candidate = answers.first()?.recommendation.as_ref()?.candidate;
    POLICIES.iter().map(|entry| entry.name).find(|name| candidate.split(' ').next() == Some(name))
}

fn table(all: &[Vec<Advice>], decides: Option<usize>) -> Table {
    let columns = vec![
        Column::text("recording"),
        Column::text("kernel"),
        Column::number("peak", Unit::Bytes),
        Column::number("needs", Unit::Bytes),
        Column::number("slower by", Unit::Ppm),
        Column::number("at worst", Unit::Ppm),
        Column::text("with"),
        Column::text("note"),
    ];
    let mut table = Table::new("Recordings", columns);
    for (index, advice) in
        all.iter().enumerate().flat_map(|(index, answers)| answers.iter().map(move |one| (index, one)))
    {
        if decides == Some(index) {
            table.highlight.get_or_insert(table.rows.len());
        }
        let best = advice.recommendation.as_ref();
        let over = |ratio: u64| ratio.saturating_sub(1_000_000);
        let note = match (&advice.withheld, best) {
            (Some(_), _) => "says too little",
            (None, None) => "no size is safe",
            (None, Some(_)) if decides == Some(index) => "decides",
            (None, Some(_)) => "",
        };
        table.push(vec![
            advice.program.clone().into(),
            advice.kernel.name().into(),
            advice.peak_bytes.into(),
            best.map(|best| best.memory_bytes).into(),
            best.map(|best| over(best.runtime_ratio_ppm.median)).into(),
            best.map(|best| over(best.runtime_ratio_ppm.high)).into(),
            best.map_or(Cell::Missing, |best| best.candidate.into()),
            note.into(),
        ]);
    }
    table
}
