//! The verbs. A new one = one file here with `Args` (its help text is the struct's doc comment, its examples are
//! `after_help`) and `run`, a `mod` line, and one line in the table.

mod accuracy;
mod advise;
mod apply;
mod doctor;
mod explain;
mod export;
mod import;
mod monitor;
mod record;
mod region_files;
mod report;
mod restore;
mod selection;
mod simulate;
mod top;
mod trace;

pub(crate) use isotherm_terminal::{render, style};

isotherm_terminal::verbs! {
    Accuracy => accuracy,
    Advise => advise,
    Apply => apply,
    Doctor => doctor,
    Explain => explain,
    Export => export,
    Import => import,
    Monitor => monitor,
    Record => record,
    Report => report,
    Restore => restore,
    Simulate => simulate,
    Top => top,
    Trace => trace,
}
