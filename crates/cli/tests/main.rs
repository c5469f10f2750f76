//! Tests of the command from outside: output, files and exit codes of each verb. A single program, so that it
//! is linked once.

mod advise;
mod apply;
mod browser;
mod command;
mod commands;
mod compact;
mod compare;
mod control;
mod daemon;
mod doctor;
mod explain;
mod hands;
mod handy;
mod libcachesim;
mod live;
mod machine;
mod metrics;
mod min_ttl;
mod monitor;
mod natively;
mod page;
mod prometheus;
mod python;
mod record;
mod records;
mod report;
mod roots;
mod scrub;
mod service;
mod simulate;
mod sweep;
mod trace;
mod trial;
mod units;
mod verify;
