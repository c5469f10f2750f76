//! Names in the metadata of traces, region records and group records.

use std::path::Path;

use isotherm_trace::group::{GroupMeta, GroupReader, GroupWriter, Look};
use isotherm_trace::region::{OpenOptions, RecordMeta, RegionStore, RegionWriter};
use isotherm_trace::{EventKind, TraceMeta, TraceReader, TraceWriter};
use serde_json::Value;

use super::names::{Kind, Names};
use crate::error::CliError;

/// Twice: once to meet all names, once to replace them.
fn twice<T: Clone>(meta: &T, names: &mut Names, scrub: impl Fn(&mut T, &mut Names)) -> T {
    scrub(&mut meta.clone(), names);
    names.plan();
    let mut scrubbed = meta.clone();
    scrub(&mut scrubbed, names);
    scrubbed
}

pub(super) fn trace(mut reader: TraceReader, output: &Path, names: &mut Names) -> Result<(), CliError> {
    let meta = twice(reader.meta(), names, trace_meta);
    let mut writer = TraceWriter::create_finished(output, meta)?;
    reader.for_each_batch(|batch| writer.push_batch(batch))?;
    writer.finish()?;
    Ok(())
}

fn trace_meta(meta: &mut TraceMeta, names: &mut Names) {
    command(&mut meta.command, names);
    meta.host = names.name(Kind::Host, &meta.host);
    for process in &mut meta.processes {
        process.pid = names.pid(process.pid);
        process.name = names.name(Kind::Process, &process.name);
    }
    for thread in &mut meta.threads {
        thread.tid = names.pid(thread.tid);
        thread.name = names.name(Kind::Process, &thread.name);
    }
    for event in &mut meta.events {
        if let EventKind::Map(range) = &mut event.kind
            && let Some(file) = &mut range.file
        {
            *file = names.name(Kind::Mapping, file);
        }
    }
    notes(&mut meta.notes, names);
}

pub(super) fn record(input: &Path, output: &Path, names: &mut Names) -> Result<Vec<String>, CliError> {
    let mut store = RegionStore::open_with(input, OpenOptions::default())?;
    let warnings = store.warnings().iter().map(ToString::to_string).collect();
    let meta = twice(store.meta(), names, record_meta);
    let mut writer = RegionWriter::create_finished(output, meta)?;
    store.for_each(|snapshot| writer.push(snapshot))?;
    writer.finish()?;
    Ok(warnings)
}

fn record_meta(meta: &mut RecordMeta, names: &mut Names) {
    command(&mut meta.command, names);
    meta.host = names.name(Kind::Host, &meta.host);
    for target in &mut meta.targets {
        target.pid = target.pid.map(|pid| names.pid(pid));
        target.name = match target.name.as_str() {
            // A target that is no process has a generic name.
            "" | "physical" | "physical memory" => target.name.clone(),
            path if path.starts_with('/') => names.group(path),
            name => names.name(Kind::Process, name),
        };
        target.scheme_filters.iter_mut().for_each(|filter| values(filter, names));
        target.data_source = target.data_source.as_ref().map(|source| names.text(source));
    }
    notes(&mut meta.notes, names);
}

pub(super) fn group(input: &Path, output: &Path, names: &mut Names) -> Result<(), CliError> {
    let mut reader = GroupReader::open(input)?;
    let meta = twice(reader.meta(), names, group_meta);
    let complete = meta.complete;
    let mut writer = GroupWriter::create(output, meta)?;
    let mut look = Look::default();
    while reader.next_look(&mut look)? {
        writer.push(&look)?;
    }
    writer.set_outcome(complete)?;
    writer.finish()?;
    Ok(())
}

fn group_meta(meta: &mut GroupMeta, names: &mut Names) {
    command(&mut meta.command, names);
    meta.host = names.name(Kind::Host, &meta.host);
    meta.group = names.group(&meta.group);
    notes(&mut meta.notes, names);
}

/// A command line is one name: its arguments reveal as much as its program.
fn command(command: &mut Vec<String>, names: &mut Names) {
    if !command.is_empty() {
        *command = vec![names.name(Kind::Command, &command.join(" "))];
    }
}

/// Notes are words of people and programs, which may contain any name: they are replaced as a whole.
fn notes(notes: &mut [String], names: &mut Names) {
    for note in notes {
        *note = names.name(Kind::Note, note);
    }
}

fn values(value: &mut Value, names: &mut Names) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| values(value, names)),
        Value::Array(all) => all.iter_mut().for_each(|value| values(value, names)),
        Value::String(path) if path.starts_with('/') => *path = names.group(path),
        _ => {}
    }
}
