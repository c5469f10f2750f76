//! Resolves a command to a file that the engine can run: an ELF file for x86-64, with its arguments.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::RecordError;
use crate::sys;

/// Bytes of a script's head that are read, as the kernel's `BINPRM_BUF_SIZE`.
const HEAD_BYTES: u64 = 256;
/// Depth of scripts, as in the kernel: a script's interpreter may be a script, up to five levels deep.
const SCRIPT_DEPTH: usize = 5;

/// The program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// An ELF file.
    pub(crate) path: PathBuf,
    /// Arguments, starting with the name that it is called by.
    pub(crate) arguments: Vec<OsString>,
}

/// Finds the program of `command` as a shell would, and follows scripts to their interpreters.
pub(crate) fn resolve(command: &[OsString], search: Option<&OsStr>) -> Result<Program, RecordError> {
    let Some(name) = command.first().filter(|name| !name.is_empty()) else { return Err(RecordError::NoCommand) };
    let mut path = find(name, search)?;
    let mut arguments = command.to_vec();
    for _ in 0..=SCRIPT_DEPTH {
        let not_executable = |why: &str| RecordError::NotExecutable { path: path.clone(), why: why.to_owned() };
        let status =
            std::fs::metadata(&path).map_err(|error| RecordError::io(format!("look at {}", path.display()), error))?;
        if status.is_dir() {
            return Err(not_executable("it is a directory"));
        }
        if !sys::may_execute(&path) {
            return Err(not_executable("no permission (try `chmod +x`)"));
        }
        let head = head_of(&path).map_err(|error| RecordError::io(format!("read {}", path.display()), error))?;
        match kind_of(&head) {
            Kind::Program => match privileges(&path, &status) {
                None => return Ok(Program { path, arguments }),
                Some(what) => {
                    return Err(not_executable(&format!(
                        "it {what}, and would run under the recorder without the rights that this gives. A copy of it (`cp`) is an \
                         ordinary program that can be recorded"
                    )));
                }
            },
            Kind::Broken => return Err(not_executable("it is an ELF file without a program in it")),
            Kind::OtherMachine => return Err(not_executable("it is not a program for x86-64")),
            Kind::Unknown => {
                return Err(not_executable("it is neither an ELF program nor a script with a `#!` line"));
            }
            Kind::Script { interpreter, argument } => {
                let script = std::mem::replace(&mut path, interpreter.clone()).into_os_string();
                arguments
                    .splice(..1, [Some(interpreter.into_os_string()), argument, Some(script)].into_iter().flatten());
            }
        }
    }
    Err(RecordError::NotExecutable { path, why: "its interpreters are scripts, more than five deep".into() })
}

/// Why a program would run with other rights than its caller's, which the engine cannot record.
fn privileges(path: &Path, status: &Metadata) -> Option<&'static str> {
    match status.mode() & 0o6000 {
        0 => sys::has_capabilities(path).then_some("has file capabilities"),
        0o2000 => Some("is set-group-ID"),
        _ => Some("is set-user-ID"),
    }
}

/// The file of a program: itself if its name has a slash, else the first of its name in the folders of `search` (`PATH`).
///
/// # Errors
/// [`RecordError::ProgramNotFound`].
pub fn find(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, RecordError> {
    let not_found = |in_path| RecordError::ProgramNotFound { name: name.to_string_lossy().into_owned(), in_path };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.exists() { Ok(path) } else { Err(not_found(false)) };
    }
    let directories = search.map(std::env::split_paths).into_iter().flatten();
    let candidates = directories.map(|directory| directory.join(name)).filter(|path| path.is_file());
    // The first that can be executed; else the first, so that the message can say why not.
    let mut candidates = candidates.peekable();
    let first = candidates.peek().cloned();
    candidates.find(|path| sys::may_execute(path)).or(first).ok_or(not_found(true))
}

fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Program,
    /// For this machine, but with a truncated header, or a header of a file that is no program.
    Broken,
    OtherMachine,
    Script {
        interpreter: PathBuf,
        argument: Option<OsString>,
    },
    Unknown,
}

fn kind_of(head: &[u8]) -> Kind {
    if head.starts_with(b"\x7fELF") {
        // 64 bits, little endian, EM_X86_64.
        let ours = head.len() >= 20 && head[4..6] == [2, 1] && head[18..20] == [62, 0];
        if !ours {
            return Kind::OtherMachine;
        }
        // A header of 64 bytes, ET_EXEC or ET_DYN, with program headers (`e_phnum`): the kernel requires the same.
        let is_whole = head.len() >= 64 && matches!(head[16..18], [2 | 3, 0]) && head[56..58] != [0, 0];
        return if is_whole { Kind::Program } else { Kind::Broken };
    }
    let Some(line) = head.strip_prefix(b"#!") else { return Kind::Unknown };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    if end == 0 {
        return Kind::Unknown;
    }
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let argument = Some(line[end..].trim_ascii()).filter(|rest| !rest.is_empty()).map(text);
    Kind::Script { interpreter: PathBuf::from(text(&line[..end])), argument }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn script(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_script_becomes_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let path = script(directory.path(), "job", "#! /bin/sh  -e \necho\n", 0o755);
        let program = resolve(&command(&["job", "1"]), Some(directory.path().as_os_str())).unwrap();
        assert_eq!(program.path, Path::new("/bin/sh"));
        assert_eq!(program.arguments, command(&["/bin/sh", "-e", path.to_str().unwrap(), "1"]));
    }

    #[test]
    fn what_cannot_run_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str, mode| {
            script(directory.path(), name, text, mode).into_os_string().into_string().unwrap()
        };
        let table = [
            (String::new(), "no program to record"),
            ("no-such-program-7".into(), "`no-such-program-7` not found in $PATH"),
            ("./no-such-program-7".into(), "`./no-such-program-7` not found"),
            ("/".into(), "directory"),
            (at("text", "hello", 0o755), "neither an ELF program nor a script"),
            (at("empty", "", 0o755), "neither an ELF program nor a script"),
            (at("bare", "#!\n", 0o755), "neither an ELF program nor a script"),
            (at("elf32", "\x7fELF\x01\x01", 0o755), "not a program for x86-64"),
            (at("torn", "\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0", 0o755), "without a program in it"),
            (at("lost", "#!/does/not/exist\n", 0o755), "look at /does/not/exist"),
            (at("loop", &format!("#!{}\n", directory.path().join("loop").display()), 0o755), "five deep"),
        ];
        for (name, part) in table {
            let message = resolve(&command(&[&name]), Some(OsStr::new("/usr/bin"))).unwrap_err().to_string();
            assert!(message.contains(part), "{name}: {message}");
        }
        assert!(matches!(resolve(&[], None), Err(RecordError::NoCommand)));
    }
}
