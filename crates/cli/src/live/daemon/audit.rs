//! The audit: a line of JSON for each event, with its time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use isotherm_daemon::control_loop::{Act, AuditError, Effect, Line, Log, Stalled, Status};
use isotherm_units::text::printable;
use isotherm_units::{Bytes, Duration, Ratio};
use serde::Serialize;

use super::journald::{Journald, Priority};
use super::{Desk, Exporter, StatusFile};
use crate::error::CliError;
use crate::live::private_file;
use crate::ui::Ui;

/// Default path.
pub(crate) const AUDIT: &str = "/var/log/isotherm/actions.jsonl";
/// Size at which a file is rotated, in bytes.
const SIZE_MAX: u64 = 16 << 20;
/// Number of files kept in addition to the newest; `.1` is the youngest of them.
const KEPT: u32 = 4;

/// Lines go to a file, and as text to the user; the state goes to its own file.
#[derive(Debug)]
pub(crate) struct Audit<'a> {
    path: PathBuf,
    file: File,
    size: u64,
    status: StatusFile,
    exporter: Option<Exporter>,
    /// Requests that wait for lines and the state.
    desk: Option<Desk>,
    /// The system's log, if our output goes there.
    journald: Option<Journald>,
    ui: &'a Ui,
    /// A failed write of the state was reported; it is reported once.
    is_status_lost: bool,
}

#[derive(Serialize)]
struct Dated<'a> {
    time: String,
    #[serde(flatten)]
    line: &'a Line,
}

impl<'a> Audit<'a> {
    /// Opens it, and creates its folder.
    pub(crate) fn open(path: &Path, status: StatusFile, ui: &'a Ui) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| {
            let what = format!("cannot write {}", path.display());
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    CliError::host_cannot(format!("{what}: {error}; run it as root, or say --audit FILE"))
                }
                _ => CliError::failed(error).while_doing(what),
            }
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o750).create(folder).map_err(failed)?;
        }
        let file = opened(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            size,
            status,
            exporter: None,
            desk: None,
            journald: Journald::find(),
            ui,
            is_status_lost: false,
        })
    }

    /// Exports the state as metrics too.
    pub(crate) fn export(&mut self, exporter: Option<Exporter>) {
        self.exporter = exporter;
    }

    /// Answers requests too.
    pub(crate) fn answer(&mut self, desk: Desk) {
        self.desk = Some(desk);
    }

    /// Older files get higher numbers; the oldest is removed.
    fn rotate(&mut self) -> std::io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..KEPT).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        self.file = opened(&self.path)?;
        self.size = 0;
        Ok(())
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        // It may have been moved or removed, by logrotate for one: the next line begins a new file.
        let is_ours = match private_file::is_at(&self.file, &self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            is_ours => is_ours?,
        };
        if !is_ours {
            self.file = opened(&self.path)?;
            self.size = self.file.metadata()?.len();
        }
        if self.size >= SIZE_MAX {
            self.rotate()?;
        }
        let mut text = serde_json::to_vec(&Dated { time: now(), line })?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            // A part of the line may have been written; the next one starts on a new line.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += text.len() as u64;
        Ok(())
    }
}

fn opened(path: &Path) -> std::io::Result<File> {
    private_file::open(OpenOptions::new().append(true).create(true), path)
}

/// UTC, in the format of RFC 3339.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp(seconds, since.subsec_nanos())
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

impl Log for Audit<'_> {
    fn line(&mut self, line: &Line) -> Result<(), AuditError> {
        // Names of groups and processes are not ours: they could steer a terminal.
        let words = words(line);
        let words = printable(&words);
        let is_taken = |journald: &Journald| {
            serde_json::to_value(line).is_ok_and(|fields| journald.send(&words, priority(line), &fields).is_ok())
        };
        if !self.journald.as_ref().is_some_and(is_taken) {
            self.ui.say(&words);
        }
        let written = self.write(line);
        if let Some(desk) = &self.desk {
            desk.line(line, &self.status.configuration);
        }
        written.map_err(|error| AuditError::new(format_args!("{}: {error}", self.path.display())))
    }

    fn status(&mut self, status: &Status) {
        let told = self.status.told(status);
        if let Some(desk) = &self.desk {
            desk.status(&told);
        }
        let exported = self.exporter.as_mut().map_or(Ok(()), |exporter| exporter.update(status));
        let written = self.status.write(&told).and(exported);
        if let Err(error) = &written
            && !self.is_status_lost
        {
            self.ui.warn(format_args!(
                "the state cannot be written to {}, or metrics: {error}",
                self.status.folder.display()
            ));
        }
        self.is_status_lost = written.is_err();
    }
}

fn priority(line: &Line) -> Priority {
    match line {
        Line::Trouble { .. } | Line::Paused { .. } | Line::Stalled(_) | Line::NotReloaded { .. } => Priority::Warning,
        Line::Paced { stretch, .. } if *stretch > 1 => Priority::Warning,
        _ => Priority::Info,
    }
}

/// Text of a line for users.
fn words(line: &Line) -> String {
    match line {
        Line::Began { sections, acting } => format!("{sections} sections, {acting} of which may act"),
        Line::Section { section, engine, enabled, why } => {
            let mode = if *enabled { "may act" } else { "observes (enable = true lets it act)" };
            format!("{section}: {mode}; engine {engine}: {why}")
        }
        Line::Came { section, target } => format!("{section}: {target} belongs to it"),
        Line::Went { section, target } => format!("{section}: {target} no longer belongs to it"),
        Line::LeftAlone { section, target, why } => format!("{section}: {target} is left alone: {why}"),
        Line::MoreMoved { section, came, went } => {
            format!("{section}: {came} more groups were added, {went} more are gone")
        }
        Line::MoreLeftAlone { section, groups } => format!("{section}: {groups} more groups are left alone"),
        Line::Asks { section, target, write } => format!("{section}: {target}: `{write}` ..."),
        Line::Acted { section, act, .. } => format!("{section}: {}", act_words(act)),
        Line::Compacted { section, node, zone, order, why, extfrag_before, extfrag_after, huge_free_after, .. } => {
            format!(
                "{section}: node {node}, zone {zone}: order {order} was {extfrag_before}% fragmented, and is {extfrag_after}%; {huge_free_after} huge \
             pages of the node are free: {why}"
            )
        }
        Line::Writes { section, path, value } => format!("{section}: {path} = {value}"),
        Line::WouldWrite { section, path, value } => format!("{section}: would write {path} = {value}"),
        Line::Counted { section, asked_bytes, verified_bytes } => {
            let size = |bytes| Bytes::new(bytes).approx();
            format!("{section}: the kernel tried {}, and treated {}", size(*asked_bytes), size(*verified_bytes))
        }
        Line::PutBack { section } => format!("{section}: its knobs hold again what they held before"),
        Line::Paused { why } => format!("nothing acts: {why}"),
        Line::Resumed => "sections act again".to_owned(),
        Line::Stalled(stalled) => stalled_words(stalled),
        Line::Calmed { target } => format!("{target}: sections act on it again, if it is still there"),
        Line::Paced { section, stretch } => {
            format!("{}: {}", section.as_deref().unwrap_or("all sections"), pace_words(*stretch))
        }
        Line::Trouble { section, why } | Line::Forecast { section, words: why } => format!("{section}: {why}"),
        Line::NotReloaded { why } => format!("the new configuration is refused, the old one goes on: {why}"),
        Line::Ended { why, since_start_ns, cpu_ns, .. } => {
            let time = |ns| Duration::from_ns(ns).approx();
            format!("ended: {why}; {} of CPU time in {}", time(*cpu_ns), time(*since_start_ns))
        }
    }
}

/// Text of the pace of a section.
pub(crate) fn pace_words(stretch: u32) -> String {
    match stretch {
        1 => "as often as configured".to_owned(),
        _ => format!("{stretch} times less often than configured, to stay within max-cpu"),
    }
}

/// Text of what waits for memory, for lines and for the state.
pub(crate) fn stalled_words(stalled: &Stalled) -> String {
    let Stalled { target, sections, share_ppm } = stalled;
    format!(
        "{target}: all tasks waited for memory for {} of the time: {} {} not act on it until a minute below half of pressure-full",
        Ratio::from_ppm(*share_ppm).approx(),
        sections.join(", "),
        if sections.len() == 1 { "does" } else { "do" }
    )
}

fn act_words(act: &Act) -> String {
    let size = |bytes| Bytes::new(bytes).approx();
    let Act { action, target, write, asked_bytes, verified_bytes, effect, .. } = act;
    let asked = size(*asked_bytes);
    match effect {
        Effect::Would => format!("{target}: would {action} {asked}: `{write}`"),
        Effect::Refused { why } => format!("{target}: did not {action} {asked}: {why}"),
        Effect::Done | Effect::Partly => {
            format!("{target}: {action}: {} of {asked} done, as read back", size(*verified_bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::ColourChoice;

    #[test]
    fn lines_are_dated_and_old_files_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log/actions.jsonl");
        let status = StatusFile { folder: folder.path().to_owned(), configuration: "c.toml".into(), dry_run: true };
        let ui = Ui::new(true, ColourChoice::Never);
        let mut audit = Audit::open(&path, status.clone(), &ui).unwrap();
        audit.line(&Line::Resumed).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["event"], "resumed");
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");
        for number in 0..6 {
            audit.size = SIZE_MAX;
            audit.line(&Line::Paced { section: None, stretch: number + 2 }).unwrap();
        }
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1 + KEPT as usize);
        assert!(std::fs::read_to_string(path.with_extension("jsonl.1")).unwrap().contains("\"stretch\":6"));
        drop(audit);
        let again = Audit::open(&path, status, &ui).unwrap();
        assert!(again.size > 0, "it goes on where it was");
    }
}
