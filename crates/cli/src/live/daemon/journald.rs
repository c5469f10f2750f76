//! Structured logging: writes each line of the audit as an entry of journald, whose protocol is a datagram of `NAME=value` lines
//! (systemd.journal-fields(7), "Native Journal Protocol").

use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use serde_json::Value;

const SOCKET: &str = "/run/systemd/journal/socket";
/// Longest value that is sent, in bytes; the audit has the whole value.
const VALUE_MAX: usize = 16 << 10;

/// A connection to journald.
#[derive(Debug)]
pub(crate) struct Journald(UnixDatagram);

/// Priority of a line, with the numbers of syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Priority {
    Warning = 4,
    Info = 6,
}

impl Journald {
    /// The journal, if our standard error goes there (`JOURNAL_STREAM`, systemd.exec(5)).
    pub(crate) fn find() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let stderr = rustix::fs::fstat(rustix::stdio::stderr()).ok()?;
        let is_ours = stream == format!("{}:{}", stderr.st_dev, stderr.st_ino);
        is_ours.then(|| Self::at(Path::new(SOCKET)).ok()).flatten()
    }

    fn at(socket: &Path) -> io::Result<Self> {
        let datagram = UnixDatagram::unbound()?;
        datagram.connect(socket)?;
        // A journal that does not read must not block the daemon.
        datagram.set_nonblocking(true)?;
        Ok(Self(datagram))
    }

    /// Sends an entry: a sentence, and fields that begin with `ISOTHERM_`.
    ///
    /// # Errors
    /// journald does not take it.
    pub(crate) fn send(&self, message: &str, priority: Priority, fields: &Value) -> io::Result<()> {
        let mut entry = Vec::new();
        put(&mut entry, "MESSAGE", message);
        put(&mut entry, "PRIORITY", &(priority as u8).to_string());
        put(&mut entry, "SYSLOG_IDENTIFIER", "isotherm");
        put_all(&mut entry, "ISOTHERM", fields);
        self.0.send(&entry).map(|_| ())
    }
}

/// Adds numbers, strings and booleans under their keys; a value in a table has both keys.
fn put_all(entry: &mut Vec<u8>, name: &str, value: &Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.to_ascii_uppercase().replace('-', "_");
                put_all(entry, &format!("{name}_{key}"), value);
            }
        }
        Value::Null => {}
        Value::String(text) => put(entry, name, text),
        other => put(entry, name, &other.to_string()),
    }
}

fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    let end = value.floor_char_boundary(VALUE_MAX);
    let value = &value[..end];
    let written = if value.contains('\n') {
        // Length and bytes, because a value with line breaks cannot be a line.
        let length = (value.len() as u64).to_le_bytes();
        entry.write_all(name.as_bytes()).and_then(|()| entry.write_all(b"\n")).and_then(|()| entry.write_all(&length))
    } else {
        write!(entry, "{name}=")
    };
    debug_assert!(written.is_ok(), "memory takes it");
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_sentence_and_fields() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        assert!(Journald::at(&socket).is_err(), "nobody listens");
        let listener = UnixDatagram::bind(&socket).unwrap();
        let journald = Journald::at(&socket).unwrap();
        let fields = serde_json::json!({
            "event": "acted", "asked-bytes": 4096, "effect": { "refused": { "why": "two\nlines" } }, "none": null,
        });
        journald.send("web: 4 KiB", Priority::Warning, &fields).unwrap();
        let mut entry = vec![0; 4096];
        let length = listener.recv(&mut entry).unwrap();
        let text = String::from_utf8_lossy(&entry[..length]).into_owned();
        assert!(text.starts_with("MESSAGE=web: 4 KiB\nPRIORITY=4\nSYSLOG_IDENTIFIER=isotherm\n"), "{text}");
        assert!(text.contains("\nISOTHERM_ASKED_BYTES=4096\n") && text.contains("\nISOTHERM_EVENT=acted\n"), "{text}");
        let why = [b"ISOTHERM_EFFECT_REFUSED_WHY\n".as_slice(), &9u64.to_le_bytes(), b"two\nlines\n"].concat();
        assert!(entry[..length].windows(why.len()).any(|window| window == why), "{text}");
        assert!(!text.contains("NONE"), "{text}");
        drop(listener);
        assert!(journald.send("x", Priority::Info, &Value::Null).is_err());
    }

    #[test]
    fn long_values_are_cut_between_letters() {
        let mut entry = Vec::new();
        put(&mut entry, "A", &"ä".repeat(VALUE_MAX));
        assert_eq!(entry.len(), "A=".len() + VALUE_MAX + 1);
        assert!(std::str::from_utf8(&entry).is_ok());
    }
}
