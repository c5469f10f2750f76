//! The advice as an HTML page: the answer with what to do, what it stands on, and the rest folded.

use std::path::Path;

use super::platform::Platform;
use super::{bursts, charts, tables, terms, views, words};
use crate::{Advice, FEWEST_FAULTS, HugePages, Question, percent};
use isotherm_kernel::reclaim::baselines;
use isotherm_report::{HtmlPage, PictureSize, Table, Verdict, traces};
use isotherm_scenario::Scenario;
use isotherm_trace::{TraceMeta, TraceReader};
use isotherm_units::{Bytes, Duration};

/// What a page says of the command that writes it.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    /// The scenario that is written as well; `None`: there is none.
    pub config: Option<&'a Path>,
    /// What keeps the program. Lines to type are in its words.
    pub platform: &'a Platform,
    /// The day, as in `2026-11-27`. No clock is read here: the same inputs give the same page.
    pub date: &'a str,
}

/// The page. At least one answer; the first supplies all that does not depend on the release.
///
/// # Errors
/// When the recording cannot be read.
pub fn html(answers: &[Advice], question: &Question, occasion: Occasion<'_>) -> isotherm_trace::Result<String> {
    let advice = &answers[0];
    let title = format!("How much memory does {} need?", advice.program);
    let machines: Vec<String> = answers.iter().map(words::machine).collect();
    let lead = format!(
        "A recording replayed on a simulated machine under {} configurations: {}.",
        advice.configurations.len(),
        machines.join("; ")
    );
    let meta = TraceReader::open(&question.trace)?.meta().clone();
    let mut page = HtmlPage::new(title, lead);
    page.verdict(&verdict(advice, occasion, &meta)).contents();
    further(&mut page, advice);
    if answers.len() > 1 {
        page.section("What each release says").table(&tables::releases(answers));
        page.paragraph("The recommendation holds on all of them; what differs between them stands on a page for each.");
        page.pages(&answers.iter().map(release_page).collect::<Vec<_>>());
    }
    for advice in answers {
        on_release(&mut page, advice, answers.len() > 1);
    }
    page.end_page();
    let end_ns = views::heatmap(&mut page, &question.trace)?;
    views::folded(&mut page, advice, &question.trace, end_ns)?;
    advice.huge_pages.iter().for_each(|huge| huge_pages(&mut page, huge));
    let all = tables::rows(answers);
    let inside = format!("all {} figures behind the charts: a row for each configuration at each size", all.rows.len());
    explained(page.fold("Every size", &inside), &all);
    scenario(&mut page, advice, occasion);
    let configurations = words::configurations(advice);
    if !configurations.is_empty() {
        page.fold("Configurations with schemes", "the parameters that each was played with").list(&configurations);
    }
    page.notes("What this does not know", &advice.unknowns);
    page.footer(format!("isotherm {}", env!("CARGO_PKG_VERSION")));
    Ok(page.to_html())
}

/// What, how sure, and what to do; then the most important numbers, and where the recording comes from.
fn verdict(advice: &Advice, occasion: Occasion<'_>, meta: &TraceMeta) -> Verdict {
    let size = |bytes: u64| Bytes::new(bytes).approx();
    let mut facts = vec![("peak memory", size(advice.peak_bytes))];
    if let Some(best) = &advice.recommendation {
        facts.push(("recommended memory", size(best.memory_bytes)));
        facts.push(("saved", size(best.gain.saved_bytes)));
        facts.push(("saved on average", size(best.gain.mean_saved_bytes.median)));
    }
    facts.push(("runtime with unlimited memory", Duration::from_ns(advice.unlimited_runtime_ns).approx()));
    // Where nothing is to be done, there is nothing to type.
    let steps = match words::in_a_sentence(advice) {
        Some(_) => Vec::new(),
        None => words::now(advice, occasion.config, occasion.platform),
    };
    let sure = words::firmness(advice).into_iter().next().map(|said| format!("How sure it is: {}", small(&said)));
    let policy = advice.recommendation.as_ref().and_then(|best| terms::in_text(best.candidate));
    let mut origin = vec![("report of".to_owned(), occasion.date.to_owned())];
    origin.extend(traces::origin(meta));
    Verdict {
        headline: words::verdict(advice),
        text: bursts::bursts(advice).into_iter().chain(bursts::slowest(advice)).chain(sure).chain(policy).collect(),
        steps: steps.into_iter().map(|(line, what)| (line, what.to_owned())).collect(),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        origin,
    }
}

/// A sentence that goes on behind a colon.
fn small(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// What stands behind the answer, sentence by sentence.
fn further(page: &mut HtmlPage, advice: &Advice) {
    let peak = words::beside_the_peak(advice);
    let peak = (!peak.is_empty()).then(|| format!("Peak memory: {}{peak}.", Bytes::new(advice.peak_bytes).approx()));
    let said: Vec<String> = [
        words::unlike_the_measured(advice).into_iter().chain(words::sample(advice)).collect(),
        words::firmness(advice).into_iter().skip(1).collect(),
        words::gains(advice),
        words::other_devices(advice),
        peak.into_iter().collect::<Vec<_>>(),
    ]
    .concat();
    if !said.is_empty() {
        page.section("A little less, a little more, other devices").list(&said);
    }
}

/// File name and title of a release's page.
fn release_page(advice: &Advice) -> (String, String) {
    (format!("linux-{}", advice.kernel), format!("Linux {}", advice.kernel))
}

/// Adds the answer of one release, on a page of its own if there are several. Every heading then names the release.
fn on_release(page: &mut HtmlPage, advice: &Advice, is_one_of_several: bool) {
    if is_one_of_several {
        let (id, name) = release_page(advice);
        page.page(&id, &format!("By the rules of {name}"));
    }
    let heading = |text: &str| match is_one_of_several {
        true => format!("{text}: Linux {}", advice.kernel),
        false => text.to_owned(),
    };
    explained(page.section(&heading("Side by side")), &tables::evidence(advice));
    let size = PictureSize { width: 960, height: 420 };
    page.section(&heading("Runtime by memory size"));
    let has_baselines = advice.configurations.iter().any(|configuration| !configuration.runs_on_linux);
    let baselines = if has_baselines { format!(" {} are baselines.", other_baselines()) } else { String::new() };
    page.paragraph(&format!(
        "How much longer the program runs than with unlimited memory.{baselines} Where outcomes fall into two groups, both are points."
    ));
    page.chart(&charts::runtime(advice), size);
    if let Some(high) = charts::opens_up_to(advice) {
        page.small_print(&format!(
            "It opens with 0 to {}, twice the slow-down allowed, because sizes are decided there. Curves go on above: zooming out, or a \
             double-click, shows all.",
            percent(high)
        ));
    }
    let inside = "a chart of the faults that read from a device or decompress";
    page.fold(&heading("Major faults by memory size"), inside).chart(&charts::faults(advice), size);
    if has_baselines {
        page.paragraph(
            "`opt` (Belady's MIN) knows the future: no policy has fewer faults, and none can be built like it.",
        );
    }
    page.fold(&heading("Memory held, by memory size"), "a chart of the mean memory charge at each size");
    page.paragraph("The charge of the program, mean over time: what lies below the limit is free for others.");
    page.chart(&charts::charge(advice), size);
    if is_one_of_several {
        let inside = "how sure the figures are by the rules of this release";
        page.fold(&heading("How firmly it stands"), inside).list(&words::firmness(advice));
    }
    details(page, advice, heading);
}

/// What few readers need of a release's answer.
fn details(page: &mut HtmlPage, advice: &Advice, heading: impl Fn(&str) -> String) {
    let whole = tables::side_by_side(advice);
    let inside = format!("all {} side by side with their mean memory, and what schemes did", whole.rows.len());
    page.fold(&heading("All configurations"), &inside);
    page.paragraph(
        "How much slower than with unlimited memory, in the middle and at most; major faults likewise; memory charge, mean over time; and \
         the smallest size from which on each is safe. Upper ends hold chance, and for configurations that were compared with real kernels \
         also what the model is off.",
    );
    explained(page, &whole);
    let schemes = tables::schemes(advice);
    if !schemes.rows.is_empty() {
        page.table(&schemes);
    }
    let notes = words::notes(advice);
    if !notes.is_empty() {
        let inside = format!("{} on single configurations: sizes that are a gamble or nearly do, and why", notes.len());
        page.fold(&heading("To note"), &inside).list(&notes);
    }
    let defaults = words::kernel_defaults(advice);
    if !defaults.is_empty() {
        let inside = "what schemes do without parameters fitted to the recording";
        page.fold(&heading("With the kernel's own parameters"), inside).list(&defaults);
    }
}

/// A table, and what its words mean.
fn explained(page: &mut HtmlPage, table: &Table) {
    page.table(table);
    terms::in_table(table).iter().for_each(|terms| {
        page.small_print(terms);
    });
}

/// The baselines except `opt`, as `a`, `b` and `c`.
fn other_baselines() -> String {
    let names: Vec<_> =
        baselines().filter(|entry| entry.name != FEWEST_FAULTS).map(|entry| format!("`{}`", entry.name)).collect();
    let (last, others) = names.split_last().expect("several baselines");
    format!("{} and {last}", others.join(", "))
}

fn huge_pages(page: &mut HtmlPage, huge: &HugePages) {
    let inside = "how much of its memory could be huge pages of 2 MiB, and how long it would wait for them";
    page.fold("Huge pages", inside).paragraph(&words::huge_pages(huge));
    let huge_pages = tables::huge_pages(huge);
    if !huge_pages.rows.is_empty() {
        page.table(&huge_pages);
    }
    let latencies = tables::latencies(huge);
    if !latencies.rows.is_empty() {
        page.paragraph(&words::latencies(huge)).table(&latencies);
        page.paragraph("What these latencies assume:").list(&words::latency_assumptions(huge));
    }
}

fn scenario(page: &mut HtmlPage, advice: &Advice, occasion: Occasion<'_>) {
    let Some(config) = &advice.config else { return };
    page.fold("The recommended configuration as a scenario", "the file that `isotherm simulate` plays again");
    let place =
        occasion.config.map_or_else(|| "The file that --config writes".to_owned(), |file| file.display().to_string());
    page.paragraph(&format!(
        "{place} holds it together with the {} worlds that the figures are drawn from: `isotherm simulate` gives them again.",
        config.worlds.len()
    ));
    let alone = Scenario { worlds: Vec::new(), variants: Vec::new(), expectations: Vec::new(), ..config.clone() };
    page.code(&isotherm_scenario::print(&Scenario { against: None, ..alone }));
}
