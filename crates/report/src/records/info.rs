//! Contents of a record.

use isotherm_trace::TraceError;
use isotherm_trace::region::{ContextMeta, Intervals, RegionStore};
use serde::Serialize;

use super::{Survey, target_name, unit_bytes};
use crate::{Cell, Column, Table, Unit};

/// Metadata and contents of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordInfo {
    /// Storage format.
    pub form: String,
    /// The command that was monitored.
    pub command: Vec<String>,
    /// Program that observed.
    pub recorder: String,
    /// Program that wrote the file.
    pub created_by: String,
    pub host: String,
    /// Whether the record ran to its end.
    pub complete: bool,
    /// Time from the first moment to the last.
    pub duration_ns: u64,
    /// Time on the record's own clock.
    pub first_moment_ns: u64,
    /// Snapshots of all targets.
    pub snapshots: u64,
    pub regions: u64,
    /// Most of one snapshot.
    pub regions_max: u64,
    pub regions_without_age: u64,
    /// How memory was monitored.
    pub contexts: Vec<ContextMeta>,
    pub targets: Vec<TargetInfo>,
    /// Notes for judging the record.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TargetInfo {
    pub target: u32,
    pub name: String,
    /// Index of its context.
    pub context: usize,
    pub snapshots: u64,
    pub regions: u64,
    /// Intervals of the last one.
    pub intervals: Intervals,
    /// Memory in the largest one.
    pub monitored_bytes: u64,
}

/// One pass over the record.
///
/// # Errors
/// A damaged record.
pub fn info(store: &mut RegionStore, survey: &Survey) -> Result<RecordInfo, TraceError> {
    let mut targets: Vec<TargetInfo> = (survey.targets.iter())
        .map(|&target| TargetInfo {
            target,
            name: target_name(store, target),
            context: store.meta().targets[target as usize].context,
            ..TargetInfo::default()
        })
        .collect();
    let units: Vec<u64> = survey.targets.iter().map(|&target| unit_bytes(store, target)).collect();
    survey.for_each(store, |snapshot| {
        let index = survey.targets.binary_search(&snapshot.target).unwrap_or(0);
        let target = &mut targets[index];
        target.snapshots += 1;
        target.regions += snapshot.regions.len() as u64;
        target.intervals = snapshot.intervals;
        target.monitored_bytes = target.monitored_bytes.max(snapshot.total_len().saturating_mul(units[index]));
        Ok(())
    })?;
    let meta = store.meta();
    Ok(RecordInfo {
        form: store.form().name().to_owned(),
        command: meta.command.clone(),
        recorder: meta.recorder.clone(),
        created_by: meta.created_by.clone(),
        host: meta.host.clone(),
        complete: meta.complete,
        duration_ns: survey.end_ns.saturating_sub(survey.start_ns),
        first_moment_ns: survey.origin_ns,
        snapshots: survey.snapshots,
        regions: survey.regions,
        regions_max: survey.regions_max,
        regions_without_age: survey.regions_without_age,
        contexts: meta.contexts.clone(),
        targets,
        notes: super::caveats(store),
    })
}

/// For people: the record, its contexts, its targets.
pub fn info_tables(info: &RecordInfo) -> Vec<Table> {
    let mut about = Table::new("region record", vec![Column::text(""), Column::text("")]);
    let mut say = |name: &str, value: String| {
        if !value.is_empty() {
            about.push(vec![name.into(), value.into()]);
        }
    };
    say("command", crate::traces::command_line(&info.command));
    say("recorder", info.recorder.clone());
    say("written by", info.created_by.clone());
    say("host", info.host.clone());
    say("form", info.form.clone());
    say("complete", if info.complete { "yes" } else { "no" }.to_owned());
    say("duration", Unit::Ns.approx(info.duration_ns as f64));
    say("snapshots", info.snapshots.to_string());
    let mean = info.regions / info.snapshots.max(1);
    say("regions", format!("{} ({mean} a snapshot, {} at most)", info.regions, info.regions_max));
    if info.regions_without_age > 0 {
        say("without age", format!("{} regions", info.regions_without_age));
    }
    vec![about, contexts(info), info_csv(info)]
}

fn contexts(info: &RecordInfo) -> Table {
    let columns = vec![
        Column::text("context"),
        Column::text("operations"),
        Column::number("sample", Unit::Ns),
        Column::number("aggregation", Unit::Ns),
        Column::number("update", Unit::Ns),
        Column::number("min regions", Unit::Count),
        Column::number("max regions", Unit::Count),
        Column::text("tuned"),
    ];
    let mut table = Table::new("monitored", columns);
    for context in &info.contexts {
        let tuned = context.intervals_goal.is_some_and(|goal| goal.nr_aggregations > 0);
        table.push(vec![
            format!("{}.{}", context.kdamond, context.context).into(),
            if context.operations.is_empty() { Cell::Missing } else { context.operations.clone().into() },
            context.intervals.sample_ns.into(),
            context.intervals.aggregation_ns.into(),
            context.intervals.update_ns.into(),
            context.min_regions.into(),
            context.max_regions.into(),
            Cell::Bool(tuned),
        ]);
    }
    table
}

/// One row a target.
pub fn info_csv(info: &RecordInfo) -> Table {
    let columns = vec![
        Column::number("target", Unit::Count),
        Column::text("name"),
        Column::number("snapshots", Unit::Count),
        Column::number("regions", Unit::Count),
        Column::number("monitored", Unit::Bytes),
        Column::number("sample", Unit::Ns),
        Column::number("aggregation", Unit::Ns),
    ];
    let mut table = Table::new("targets", columns);
    for target in &info.targets {
        table.push(vec![
            Cell::Int(u64::from(target.target)),
            target.name.clone().into(),
            target.snapshots.into(),
            target.regions.into(),
            target.monitored_bytes.into(),
            target.intervals.sample_ns.into(),
            target.intervals.aggregation_ns.into(),
        ]);
    }
    table
}
