//! The verbs. A new one = one file here with `Args` (its help text is the struct's doc comment, its examples are
//! `after_help`) and `run`, a `mod` line, one line in the table, and its name in a group.

mod accuracy;
mod advise;
mod apply;
mod bug_report;
mod calibrate;
mod check;
mod compact;
mod compare;
mod completion;
mod convert;
mod daemon;
mod doctor;
mod explain;
mod export;
mod import;
mod man;
mod monitor;
mod record;
mod region_files;
mod reload;
mod replay;
mod report;
mod restore;
mod run;
mod scrub;
mod selection;
mod simulate;
mod status;
mod stop;
mod sweep;
mod top;
mod trial;
mod tune;
mod unfinished;
mod verify;

pub(crate) use isotherm_terminal::{Styled, render, style};

isotherm_terminal::verbs! {
    Record => record,
    Report => report,
    Monitor => monitor,
    Top => top,
    Calibrate => calibrate,
    Advise => advise,
    Verify => verify,
    Simulate => simulate,
    Sweep => sweep,
    Tune => tune,
    Apply => apply,
    Restore => restore,
    Daemon => daemon,
    Compact => compact,
    #[command(alias = "trace")]
    Convert => convert,
    Doctor => doctor,
    BugReport => bug_report,
    Completion => completion,
    Man => man,
    // The old names, kept for one release.
    #[command(hide = true)]
    Accuracy => accuracy,
    #[command(hide = true)]
    Check => check,
    #[command(hide = true)]
    Compare => compare,
    #[command(hide = true)]
    Explain => explain,
    #[command(hide = true)]
    Export => export,
    #[command(hide = true)]
    Import => import,
    #[command(hide = true)]
    Reload => reload,
    #[command(hide = true)]
    Replay => replay,
    #[command(hide = true)]
    Run => run,
    #[command(hide = true)]
    Scrub => scrub,
    #[command(hide = true)]
    Status => status,
    #[command(hide = true)]
    Stop => stop,
    #[command(hide = true)]
    Trial => trial,
}

/// Verbs in the groups that `--help` shows.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["record", "report", "monitor", "top", "calibrate"]),
    ("Decide", &["advise", "verify", "simulate", "sweep", "tune"]),
    ("Act", &["apply", "restore", "daemon", "compact"]),
    ("Files", &["convert"]),
    ("Help", &["doctor", "bug-report", "completion", "man"]),
];

/// Clap's template for the help of the command, with the verbs in groups.
pub(crate) fn help_template() -> String {
    let verbs = <Verb as clap::Subcommand>::augment_subcommands(clap::Command::new("isotherm"));
    let line = |name: &&str| {
        let about = verbs.find_subcommand(name).and_then(clap::Command::get_about);
        let about = about.map(|about| about.to_string()).unwrap_or_default();
        // One line each; what follows a colon is for the verb's own help.
        let about = about.split_once(": ").map_or(about.as_str(), |(first, _)| first);
        format!("  {name:<10}  {}\n", about.trim_end_matches('.'))
    };
    let group =
        |(title, names): &(&str, &[&str])| format!("\n{title}:\n{}", names.iter().map(line).collect::<String>());
    let groups: String = GROUPS.iter().map(group).collect();
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_that_is_shown_stands_in_one_group() {
        let verbs = <Verb as clap::Subcommand>::augment_subcommands(clap::Command::new("isotherm"));
        let shown = verbs.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name().to_owned());
        let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), grouped.collect::<Vec<_>>());
        let help = help_template();
        let about = |name: &str| help.lines().any(|line| line.trim_start().starts_with(name) && line.len() > 20);
        assert!(GROUPS.iter().flat_map(|(_, names)| names.iter()).all(|name| about(name)), "{help}");
    }
}
