// SPDX-License-Identifier: GPL-2.0-or-later

//! Following `execve`. The emulator would run the new program natively and unseen, so the tracer makes the call itself,
//! just before the emulator would: it executes the emulator again, with this plugin, on the new program.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::plugin;
use crate::record::{Origin, Record};
use crate::spool::{Spool, emulator};
use crate::sys;
use crate::syscall::announce;
use crate::thread::Thread;

/// Longer paths, arguments and lists are refused by the kernel (`PATH_MAX`, `MAX_ARG_STRLEN`, `ARG_MAX` at its largest).
const STRING_BYTES: usize = 128 * 1024;
const STRINGS: usize = 1 << 20;
/// As in the kernel's `BINPRM_BUF_SIZE`.
const HEAD_BYTES: usize = 256;
/// As in the kernel: a script may name a script as its interpreter, five deep.
const SCRIPT_DEPTH: usize = 5;

/// The program calls `execve`: runs it under the emulator. Returns when that is not possible or the call would fail; the
/// emulator then makes the call as the program wanted it.
pub(crate) fn follow(thread: &mut Thread, spool: &Spool, path: u64, arguments: u64, environment: u64) {
    let Some(path) = string(path) else { return };
    let (Some(mut arguments), Some(environment)) = (strings(arguments), strings(environment)) else { return };
    let program = match resolve(path, &mut arguments) {
        Resolved::Program(program) => program,
        Resolved::CallFails => return,
        Resolved::Unfollowable { path, why } => return not_followed(thread, spool, &format!("{path} ({why})")),
    };
    let Some(emulator) = emulator() else { return };
    let uid = announce(thread, spool, Origin::Exec);
    let plugin = plugin::argument_for_exec(spool, uid, thread.uid, thread.now_ns());
    let (options, environment) = split_environment(environment);
    let mut line = vec![emulator.clone(), c"-L".into(), c"/".into(), c"-plugin".into(), plugin];
    line.extend(options);
    line.extend([c"-0".into(), arguments.first().cloned().unwrap_or_default(), program]);
    line.extend(arguments.into_iter().skip(1));
    let error = sys::exec(&emulator, &line, &environment);
    thread.event(spool, &Record::StartFailed { uid });
    not_followed(thread, spool, &format!("a program (the emulator cannot be started: {error})"));
}

/// Tells the user that a program runs unseen from here on.
pub(crate) fn not_followed(thread: &mut Thread, spool: &Spool, what: &str) {
    thread.event(spool, &Record::NotFollowed { text: what.as_bytes() });
    thread.flush(spool);
}

/// What a path to execute leads to.
enum Resolved {
    /// An ELF program for x86-64.
    Program(CString),
    /// The kernel will refuse; the program learns so from the call itself.
    CallFails,
    /// The kernel can run it, the emulator cannot.
    Unfollowable { path: String, why: &'static str },
}

/// Goes from scripts to their interpreters, as `execve(2)` describes, changing `arguments` on the way.
fn resolve(mut path: CString, arguments: &mut Vec<CString>) -> Resolved {
    for _ in 0..=SCRIPT_DEPTH {
        let file_path = Path::new(OsStr::from_bytes(path.as_bytes()));
        let (Ok(status), true) = (std::fs::metadata(file_path), sys::may_execute(&path)) else {
            return Resolved::CallFails;
        };
        if !status.is_file() {
            return Resolved::CallFails;
        }
        let unfollowable = |why| Resolved::Unfollowable { path: file_path.display().to_string(), why };
        let Ok(head) = head_of(file_path) else { return unfollowable("not readable") };
        if is_x86_64_program(&head) {
            // The emulator would run it without the privileges.
            let privileged = status.mode() & 0o6000 != 0 && status.uid() != sys::effective_uid();
            return if privileged { unfollowable("set-user-ID") } else { Resolved::Program(path) };
        }
        let Some((interpreter, argument)) = script_interpreter(&head) else {
            return if head.starts_with(b"\x7fELF") { unfollowable("not for x86-64") } else { Resolved::CallFails };
        };
        let script = std::mem::replace(&mut path, interpreter.clone());
        let own_arguments: Vec<CString> = arguments.drain(..).skip(1).collect();
        arguments.push(interpreter);
        arguments.extend(argument);
        arguments.push(script);
        arguments.extend(own_arguments);
    }
    Resolved::CallFails
}

fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// 64-bit little-endian ELF, machine 62 (`EM_X86_64`).
fn is_x86_64_program(head: &[u8]) -> bool {
    head.len() >= 20 && head.starts_with(b"\x7fELF\x02\x01") && head[18..20] == [62, 0]
}

/// `#!interpreter [argument]`: the argument is the rest of the line, blanks at its ends cut.
fn script_interpreter(head: &[u8]) -> Option<(CString, Option<CString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(line.len());
    let interpreter = CString::new(&line[..end]).ok().filter(|name| !name.is_empty())?;
    let argument = line[end..].trim_ascii();
    Some((interpreter, if argument.is_empty() { None } else { Some(CString::new(argument).ok()?) }))
}

/// Variables of the dynamic loader are meant for the program, not for the emulator: they become its options. A value with
/// a comma cannot be said that way and stays.
fn split_environment(environment: Vec<CString>) -> (Vec<CString>, Vec<CString>) {
    let (mut options, mut rest) = (Vec::new(), Vec::new());
    for variable in environment {
        let bytes = variable.as_bytes();
        let for_loader = bytes.starts_with(b"LD_PRELOAD=") || bytes.starts_with(b"LD_LIBRARY_PATH=");
        if for_loader && !bytes.contains(&b',') {
            options.extend([c"-E".into(), variable]);
        } else {
            rest.push(variable);
        }
    }
    (options, rest)
}

/// The string at an address of the program.
fn string(address: u64) -> Option<CString> {
    let mut bytes = Vec::new();
    let mut piece = [0; 256];
    while bytes.len() < STRING_BYTES {
        let copied = sys::read_memory(address.checked_add(bytes.len() as u64)?, &mut piece);
        if copied == 0 {
            return None;
        }
        if let Some(end) = piece[..copied].iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(&piece[..end]);
            return CString::new(bytes).ok();
        }
        bytes.extend_from_slice(&piece[..copied]);
    }
    None
}

/// The strings of an array of pointers at an address of the program; none for a null pointer, as Linux has it.
fn strings(address: u64) -> Option<Vec<CString>> {
    let mut out = Vec::new();
    while address != 0 && out.len() < STRINGS {
        let mut pointer = [0; 8];
        if sys::read_memory(address.checked_add(8 * out.len() as u64)?, &mut pointer) != 8 {
            return None;
        }
        match u64::from_le_bytes(pointer) {
            0 => break,
            pointer => out.push(string(pointer)?),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_lines_are_read_as_execve_does() {
        let parse = |head: &[u8]| {
            script_interpreter(head).map(|(name, argument)| {
                let text = |string: CString| string.into_string().unwrap();
                (text(name), argument.map(text))
            })
        };
        assert_eq!(parse(b"#!/bin/sh\nrest"), Some(("/bin/sh".into(), None)));
        assert_eq!(parse(b"#! /usr/bin/env  python3 -u \n"), Some(("/usr/bin/env".into(), Some("python3 -u".into()))));
        assert_eq!(parse(b"#!\n"), None);
        assert_eq!(parse(b"\x7fELF"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn memory_is_read_up_to_its_end() {
        let text = CString::new("over here").unwrap();
        assert_eq!(string(text.as_ptr() as u64), Some(text));
        assert_eq!(string(8), None, "nothing is mapped there");
        assert_eq!(strings(0), Some(vec![]));
    }

    #[test]
    fn a_script_is_resolved_to_its_interpreter() {
        let mut arguments = vec![c"x".into(), c"1".into()];
        let script = CString::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/make")).unwrap();
        if let Resolved::Program(_) = resolve(script.clone(), &mut arguments) {
            assert_eq!(arguments[arguments.len() - 2..], [script, c"1".into()]);
        }
        assert!(matches!(resolve(c"/does/not/exist".into(), &mut vec![]), Resolved::CallFails));
        assert!(matches!(resolve(c"/".into(), &mut vec![]), Resolved::CallFails));
    }
}
