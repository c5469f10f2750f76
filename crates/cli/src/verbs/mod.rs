//! The verbs. A new one = one file here with `Args` (its help text is the struct's doc comment, its examples are
//! `after_help`) and `run`, a `mod` line, and one line in the table.

mod accuracy;
mod advise;
mod apply;
mod bug_report;
mod check;
mod compact;
mod compare;
mod completion;
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
mod trace;
mod trial;
mod tune;
mod unfinished;

pub(crate) use isotherm_terminal::{render, style};

isotherm_terminal::verbs! {
    Accuracy => accuracy,
    Advise => advise,
    Apply => apply,
    BugReport => bug_report,
    Check => check,
    Compact => compact,
    Compare => compare,
    Completion => completion,
    Doctor => doctor,
    Explain => explain,
    Export => export,
    Import => import,
    Man => man,
    Monitor => monitor,
    Record => record,
    Reload => reload,
    Replay => replay,
    Report => report,
    Restore => restore,
    Run => run,
    Scrub => scrub,
    Simulate => simulate,
    Status => status,
    Stop => stop,
    Sweep => sweep,
    Top => top,
    Trace => trace,
    Trial => trial,
    Tune => tune,
}
