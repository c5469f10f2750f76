//! Names in lines of JSON: the audit of the daemon, and its tape.

use isotherm_daemon::changes::protected_command;
use isotherm_daemon::config::{Config, TABLES};
use isotherm_daemon::control_loop::{Line, Texts};
use serde::Deserialize as _;
use serde_json::Value;

use super::names::{Kind, Names};
use crate::error::CliError;

/// Kind of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    Audit,
    Tape,
}

/// Kind of a file of lines, by its first line.
pub(super) fn sniff(head: &str) -> Option<Lines> {
    let first: Value = serde_json::from_str(head.lines().find(|line| !line.trim().is_empty())?).ok()?;
    if first.get("isotherm-tape").is_some() {
        return Some(Lines::Tape);
    }
    first.get("event").is_some_and(Value::is_string).then_some(Lines::Audit)
}

/// All lines with pseudonyms, and whether the last one was torn and is left out.
pub(super) fn scrub(text: &str, lines: Lines, place: &str, names: &mut Names) -> Result<(String, bool), CliError> {
    let (values, is_torn) = read(text, lines, place)?;
    for value in &values {
        one(&mut value.clone(), lines, names);
    }
    names.plan();
    let mut out = String::with_capacity(text.len());
    for mut value in values {
        one(&mut value, lines, names);
        out.push_str(&value.to_string());
        out.push('\n');
    }
    Ok((out, is_torn))
}

fn read(text: &str, lines: Lines, place: &str) -> Result<(Vec<Value>, bool), CliError> {
    let mut values: Vec<Value> = Vec::new();
    let all = (1..).zip(text.split_inclusive('\n')).filter(|(_, line)| !line.trim().is_empty());
    for (number, line) in all {
        let strange = |why: String| CliError::failed(format!("{place}:{number}: {why}"));
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(_) if !line.ends_with('\n') && !values.is_empty() => return Ok((values, true)),
            Err(error) => return Err(strange(format!("it is no line of JSON: {error}"))),
        };
        let is_one = match lines {
            Lines::Audit => value.get("event").is_some_and(Value::is_string),
            Lines::Tape if values.is_empty() => value.get("config").is_some(),
            Lines::Tape => value.as_array().is_some_and(|call| call.len() == 3 && call[0].is_string()),
        };
        if !is_one {
            let what = match lines {
                Lines::Audit => "a line of the audit is an object with an `event`",
                Lines::Tape => "a line of a tape is a list of a name, what was asked, and the answer",
            };
            return Err(strange(what.to_owned()));
        }
        values.push(value);
    }
    Ok((values, false))
}

fn one(value: &mut Value, lines: Lines, names: &mut Names) {
    match (lines, value) {
        (Lines::Tape, Value::Array(call)) => {
            if let [Value::String(name), asked, answer] = call.as_mut_slice() {
                a_call(name, asked, answer, names);
            }
        }
        (Lines::Tape, header) => {
            if let Some(value) = header.get_mut("config") {
                config(value, names);
            }
        }
        (Lines::Audit, line) => event(line, names),
    }
}

/// A call of the tape: the question and the answer.
fn a_call(name: &str, asked: &mut Value, answer: &mut Value, names: &mut Names) {
    match (name, &mut *asked) {
        ("groups" | "members" | "memcg" | "full-stall-of", Value::String(path)) => *path = names.group(path),
        ("guaranteed", Value::Array(asked)) => {
            if let Some(Value::String(path)) = asked.first_mut() {
                *path = names.group(path);
            }
            if let Value::String(path) = answer {
                *path = names.group(path);
            }
        }
        ("value" | "there", Value::String(path)) => {
            let is_of_pids = is_pid_file(path);
            *path = names.path(path);
            if is_of_pids {
                if let Some(held) = answer.get_mut("Ok") {
                    pid_text(held, names);
                }
                return;
            }
        }
        ("line", line) => event(line, names),
        ("forget", Value::String(section)) => *section = label(section, names),
        ("put-back", Value::Array(sections)) => {
            for section in sections {
                if let Value::String(section) = section {
                    *section = label(section, names);
                }
            }
        }
        ("group-file", Value::Array(asked)) => {
            if let Some(Value::String(group)) = asked.first_mut() {
                *group = names.group(group);
            }
        }
        ("cpu-of", pid) => number(pid, names),
        ("largest", Value::Array(asked)) => {
            let asked = asked.first_mut().and_then(Value::as_array_mut).into_iter().flatten();
            let answer = answer.as_array_mut().into_iter().flatten();
            asked.chain(answer).for_each(|pid| number(pid, names));
        }
        ("processes", asked) => running(asked, names),
        ("adopt", Value::Array(asked)) => {
            if let [_, pid] = asked.as_mut_slice() {
                number(pid, names);
            }
        }
        ("command", Value::Array(asked)) => {
            if let Some(Value::String(path)) = asked.first_mut() {
                *path = names.path(path);
            }
        }
        ("set" | "set-within" | "set-often", Value::Array(asked)) => {
            if let [Value::String(section), Value::String(path), value] = asked.as_mut_slice() {
                *section = label(section, names);
                let is_of_pids = is_pid_file(path);
                *path = names.path(path);
                if is_of_pids { pid_text(value, names) } else { fields(value, names) }
            }
        }
        (_, asked) => fields(asked, names),
    }
    match (name, answer.get_mut("Ok")) {
        ("groups", Some(Value::Array(paths))) => {
            for path in paths {
                if let Value::String(path) = path {
                    *path = names.group(path);
                }
            }
        }
        ("processes", Some(Value::Array(all))) => all.iter_mut().for_each(|one| running(one, names)),
        ("group-file", Some(Value::String(path))) => *path = names.path(path),
        ("configuration", Some(value)) => config(value, names),
        _ => fields(answer, names),
    }
}

/// The number of a process.
fn number(value: &mut Value, names: &mut Names) {
    if let Some(pid) = value.as_u64().and_then(|number| u32::try_from(number).ok()) {
        *value = names.pid(pid).into();
    }
}

/// A process, or which ones are meant: its number, its program, its group.
fn running(value: &mut Value, names: &mut Names) {
    if let Some(pid) = value.get_mut("process") {
        number(pid, names);
    }
    for key in ["command", "file"] {
        match value.get_mut(key) {
            Some(Value::String(name)) => *name = command(name, names),
            // A program, and whose.
            Some(program @ Value::Object(_)) => running(program, names),
            _ => {}
        }
    }
    if let Some(Value::String(user)) = value.get_mut("user") {
        *user = names.name(Kind::User, user);
    }
    if let Some(Value::String(group)) = value.get_mut("group") {
        *group = names.group(group);
    }
}

/// The name of a program. Names that isotherm knows, and uses for decisions, stay.
fn command(name: &str, names: &mut Names) -> String {
    if protected_command(name).is_some() { name.to_owned() } else { names.name(Kind::Command, name) }
}

/// `process 12 (redis-server)`: a process that is a target by itself.
fn process_by_itself(text: &str) -> Option<(u32, &str)> {
    let (pid, name) = text.strip_prefix("process ")?.split_once(" (")?;
    Some((pid.parse().ok()?, name.strip_suffix(')')?))
}

fn is_pid_file(path: &str) -> bool {
    path.ends_with("/pid_target") || path.ends_with("/kdamond_pid") || path.ends_with("/pid")
}

/// A number of a process, as a file holds it. `-1`: none.
fn pid_text(value: &mut Value, names: &mut Names) {
    if let Value::String(text) = value
        && let Ok(pid) = text.trim().parse()
    {
        *text = names.pid(pid).to_string();
    }
}

/// `generations.cold`: a table and the name that the user gave.
fn label(section: &str, names: &mut Names) -> String {
    match section.split_once('.') {
        // The one table without a name of its own.
        Some(("tiering", _)) => section.to_owned(),
        Some((table, name)) => match name.split_once(" /") {
            // Of one of its groups.
            Some((name, group)) => {
                let group = names.group(&format!("/{group}"));
                format!("{table}.{} {group}", names.name(Kind::Section, name))
            }
            None => format!("{table}.{}", names.name(Kind::Section, name)),
        },
        None => section.to_owned(),
    }
}

/// A line of the audit. In a file of another version, names are found by their keys.
fn event(value: &mut Value, names: &mut Names) {
    let known = Line::deserialize(&*value).ok().and_then(|mut line| {
        line.each_text(names);
        serde_json::to_value(&line).ok()
    });
    match (known, value) {
        // Fields unknown to this version may hold a name, so they are removed.
        (Some(Value::Object(known)), Value::Object(map)) => {
            map.retain(|key, _| key == "time" || known.contains_key(key));
            map.extend(known);
        }
        (_, value) => fields(value, names),
    }
}

impl Texts for Names {
    fn section(&mut self, section: &mut String) {
        *section = label(section, self);
    }

    fn target(&mut self, target: &mut String) {
        *target = place(target, self);
    }

    fn write(&mut self, path: &mut String, value: &mut String) {
        let is_of_pids = is_pid_file(path);
        *path = if is_file(path) { self.path(path) } else { place(path, self) };
        match value.trim().parse() {
            Ok(pid) if is_of_pids => *value = self.pid(pid).to_string(),
            _ => *value = self.text(value),
        }
    }

    fn words(&mut self, words: &mut String) {
        *words = self.text(words);
    }
}

/// A group, a process, or another place in words.
fn place(text: &str, names: &mut Names) -> String {
    if let Some((group, pid)) = process_of(text) {
        return format!("{} (process {})", names.group(&group), names.pid(pid));
    }
    if let Some((pid, name)) = process_by_itself(text) {
        let name = command(name, names);
        return format!("process {} ({name})", names.pid(pid));
    }
    if text.starts_with('/') { names.group(text) } else { names.text(text) }
}

/// Names are found by their keys; other words by their contents.
fn fields(value: &mut Value, names: &mut Names) {
    match value {
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                let Some(value) = map.get_mut(&key) else { continue };
                match (key.as_str(), &mut *value) {
                    ("event" | "engine" | "effect" | "action" | "time", Value::String(_)) => {}
                    ("section", Value::String(section)) => *section = label(section, names),
                    ("target", Value::String(text)) => *text = place(text, names),
                    ("group" | "path", Value::String(path)) if path.starts_with('/') => {
                        *path = if key == "path" && is_file(path) { names.path(path) } else { names.group(path) };
                    }
                    ("processes", Value::Array(pids)) => {
                        for pid in pids {
                            if let Some(number) = pid.as_u64().and_then(|number| u32::try_from(number).ok()) {
                                *pid = names.pid(number).into();
                            }
                        }
                    }
                    _ => fields(value, names),
                }
            }
            // A PID, in a line that reports a write of it.
            if map.get("path").and_then(Value::as_str).is_some_and(is_pid_file)
                && let Some(value) = map.get_mut("value")
            {
                pid_text(value, names);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fields(value, names)),
        Value::String(text) => *text = names.text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A process as engines of our own call it: its group, and its number.
fn process_of(text: &str) -> Option<(String, u32)> {
    let (group, rest) = text.rsplit_once(" (process ")?;
    let pid = rest.strip_suffix(')')?.parse().ok()?;
    group.starts_with('/').then(|| (group.to_owned(), pid))
}

fn is_file(path: &str) -> bool {
    path.starts_with("/sys/") || path.starts_with("/proc/")
}

/// A live configuration.
fn config(value: &mut Value, names: &mut Names) {
    let Value::Object(map) = value else { return };
    if let Some(Value::Array(paths)) = map.get_mut("daemon").and_then(|daemon| daemon.get_mut("protect")) {
        paths.iter_mut().for_each(|path| target(path, names));
    }
    if let Some(Value::String(file)) = map.get_mut("guard").and_then(|guard| guard.get_mut("file")) {
        *file = names.path(file);
    }
    for table in map.get_mut("targets").and_then(Value::as_array_mut).into_iter().flatten() {
        for key in ["name", "cgroup"] {
            if let Some(value) = table.get_mut(key) {
                target(value, names);
            }
        }
        if let Some(process) = table.get_mut("process") {
            running(process, names);
        }
        if let Some(pid) = table.get_mut("pid") {
            number(pid, names);
        }
    }
    if let Some(metrics) = map.get_mut("metrics") {
        for key in ["listen", "textfile"] {
            if let Some(Value::String(place)) = metrics.get_mut(key) {
                *place = match place.strip_prefix("unix:") {
                    Some(path) => format!("unix:{}", names.path(path)),
                    None if place.starts_with('/') => names.path(place),
                    None => place.clone(),
                };
            }
        }
    }
    for table in TABLES {
        let sections = match map.get_mut(table.name) {
            Some(Value::Array(sections)) => &mut sections[..],
            Some(section) => std::slice::from_mut(section),
            None => continue,
        };
        for section in sections {
            if let Some(Value::String(name)) = section.get_mut("name") {
                *name = names.name(Kind::Section, name);
            }
            for entry in section.get_mut("targets").and_then(Value::as_array_mut).into_iter().flatten() {
                target(entry, names);
            }
            if let Some(entry) = section.get_mut("target") {
                target(entry, names);
            }
            if let Some(Value::Object(scales)) = section.get_mut("scales") {
                let entries = std::mem::take(scales).into_iter();
                *scales = entries.map(|(entry, scale)| (named_target(&entry, names), scale)).collect();
            }
            if let Some(config) = section.get_mut("config") {
                filters(config, names);
            }
        }
    }
}

/// The path of a group, or the name of a `[[targets]]` table.
fn target(value: &mut Value, names: &mut Names) {
    if let Value::String(text) = value {
        *text = named_target(text, names);
    }
}

fn named_target(text: &str, names: &mut Names) -> String {
    if text.starts_with('/') { names.group(text) } else { names.name(Kind::Target, text) }
}

/// Groups in filters and goals of schemes.
fn filters(value: &mut Value, names: &mut Names) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| filters(value, names)),
        Value::Array(values) => values.iter_mut().for_each(|value| filters(value, names)),
        Value::String(path) if path.starts_with('/') => *path = names.group(path),
        _ => {}
    }
}

/// Whether a tape's configuration still makes sense.
pub(super) fn is_fine(config: &Config) -> Result<(), String> {
    config.check().map_err(|error| format!("{}: {}", error.key, error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_targets_get_pseudonyms() {
        let tape = "{\"isotherm-tape\":1,\"config\":{\"targets\":[{\"name\":\"shop\",\"process\":{\"command\":\"checkout\",\"user\":\"shopper\"}},{\"name\":\"b\",\"pid\":4711}]}}\n\
                    [\"processes\",{\"command\":{\"command\":\"checkout\",\"user\":\"shopper\"}},{\"Ok\":[{\"process\":4711,\"command\":\"checkout\",\"group\":\"/app/shop\"},{\"process\":4712,\"command\":\"sshd\",\"group\":\"/\"}]}]\n\
                    [\"largest\",[[4711,4712],1],[4711]]\n\
                    [\"line\",{\"event\":\"came\",\"section\":\"monitors.x\",\"target\":\"process 4711 (checkout)\"},{\"Ok\":null}]\n";
        let mut names = Names::default();
        scrub(tape, Lines::Tape, "x", &mut names).unwrap();
        names.plan();
        let (text, _) = scrub(tape, Lines::Tape, "x", &mut names).unwrap();
        assert!(!text.contains("shop") && !text.contains("checkout") && !text.contains("4711"), "{text}");
        assert!(text.contains("\"target\":\"process 2 (command-1)\"") && text.contains("\"pid\":2"), "{text}");
        assert_eq!(text.matches("\"user\":\"user-1\"").count(), 2, "{text}");
        assert!(text.contains("\"sshd\""), "what is protected by name stays: {text}");
        let config = serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap()["config"].take();
        is_fine(&serde_json::from_value(config).unwrap()).unwrap();
    }

    #[test]
    fn processes_and_places_of_engines_of_our_own_get_pseudonyms() {
        let mut names = Names::default();
        let audit = "{\"event\":\"asks\",\"section\":\"monitors.secret\",\"target\":\"/app/shop (process 4711)\",\"write\":\"pageout 0x1 to 0x2\"}\n";
        let (text, _) = scrub(audit, Lines::Audit, "x", &mut names).unwrap();
        assert!(!text.contains("shop") && !text.contains("4711") && !text.contains("secret"), "{text}");
        assert!(text.contains(" (process ") && text.contains("pageout 0x1 to 0x2"), "{text}");
        let tape = "{\"isotherm-tape\":1,\"config\":{\"tiering\":{\"targets\":[\"/app/shop\"],\"scales\":{\"/app/shop\":3}},\"metrics\":{\"listen\":\"unix:/srv/shop/m.sock\"}}}\n[\"adopt\",[3,4711],{\"Ok\":null}]\n";
        let (text, _) = scrub(tape, Lines::Tape, "x", &mut Names::default()).unwrap();
        assert!(!text.contains("shop") && !text.contains("4711") && text.contains("[\"adopt\",[3,"), "{text}");
        let tiering = serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap()["config"]["tiering"].take();
        let entry = tiering["targets"][0].as_str().unwrap();
        assert_eq!(tiering["scales"][entry], 3, "a scale stays that of its target: {text}");
        assert_eq!(process_of("/a (b) (process 7)"), Some(("/a (b)".to_owned(), 7)));
        for other in ["/a", "node 0", "/a (process )", "/a (process x)", "(process 7)"] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }

    #[test]
    fn lines_of_other_versions_lose_no_name() {
        let audit = "{\"event\":\"slept\",\"section\":\"monitors.secret\",\"target\":\"/app/shop\"}\n\
                     {\"event\":\"went\",\"section\":\"monitors.secret\",\"target\":\"/app/shop\",\"heir\":\"shop\"}\n";
        let mut names = Names::default();
        let (text, _) = scrub(audit, Lines::Audit, "x", &mut names).unwrap();
        assert!(!text.contains("secret") && !text.contains("shop"), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["event"], &lines[1]["event"]), (&"slept".into(), &"went".into()));
        assert_eq!(lines[0]["target"], lines[1]["target"], "one name, whoever found it");
    }
}
