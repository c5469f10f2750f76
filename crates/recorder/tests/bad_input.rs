//! Difficult programs under the engine: errors are clear, and recorded data are kept.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::{compile, engine_works, skip};
use isotherm_recorder::{RecordError, RecordOptions, Recording, Report, record};
use isotherm_trace::{RowBatch, TraceMeta, TraceReader};

struct Trace {
    recording: Recording,
    meta: TraceMeta,
    /// Pages of the array at [`ARRAY`] that were touched.
    array: usize,
    warnings: Vec<String>,
}

/// First page of the array in the programs below.
const ARRAY: u64 = 0x70_0000;
const TOUCH_ARRAY: &str = "
    #include <sys/mman.h>
    static void touch(void) {
        volatile char *p = mmap((void *)0x700000000, 64 * 4096, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (int i = 0; i < 64; i++) p[i * 4096] = 1;
    }";

fn attempt(folder: &Path, command: &[&str]) -> Result<Trace, RecordError> {
    let command = command.iter().map(OsString::from).collect();
    let options = RecordOptions::new(command, folder.join("t.parquet"));
    let mut warnings = Vec::new();
    let recording = record(&options, &mut |report| {
        if let Report::Warning(warning) = report {
            warnings.push(warning);
        }
    })?;
    let mut reader = TraceReader::open(&options.output).expect("what was recorded opens");
    let (mut pages, mut batch) = (std::collections::BTreeSet::new(), RowBatch::new());
    while reader.next_batch(&mut batch).expect("what was recorded is whole") {
        pages.extend(batch.rows().flat_map(|row| row.page..row.page + u64::from(row.pages)));
    }
    Ok(Trace { recording, meta: reader.meta().clone(), array: pages.range(ARRAY..ARRAY + 64).count(), warnings })
}

fn program(folder: &Path, body: &str) -> Option<String> {
    let path = compile(folder, &format!("{TOUCH_ARRAY}\n{body}"))?;
    Some(path.to_str().expect("a temporary folder's name").to_owned())
}

fn file(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A whole 32-bit program: `exit(3)` by `int 0x80`.
fn program_of_32_bits() -> Vec<u8> {
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 3, 0, 0, 0, 0xcd, 0x80];
    let (address, header) = (0x0804_8000u32, 52 + 32u32);
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0".to_vec();
    let words = |elf: &mut Vec<u8>, words: &[u32]| elf.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    words(&mut elf, &[address + header, 52, 0, 0]);
    elf.extend([52u16, 32, 1, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    words(&mut elf, &[1, 0, address, address, header + 12, header + 12, 5, 4096]);
    elf.extend(code);
    elf
}

#[test]
fn a_static_program_is_recorded() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(dynamic) = program(folder.path(), "int main() { touch(); return 5; }") else { return };
    let source = PathBuf::from(&dynamic).with_extension("c");
    let linked = std::process::Command::new("cc").args(["-static", "-o", &dynamic]).arg(source).status().unwrap();
    if !linked.success() {
        return skip("no static libc");
    }
    let trace = attempt(folder.path(), &[&dynamic]).unwrap();
    assert_eq!((trace.recording.exit_code, trace.array, trace.meta.complete), (5, 64, true));
}

#[test]
fn what_is_no_program_for_this_machine_is_refused() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let table = [
        (file(folder, "elf32", &program_of_32_bits(), 0o755), "not a program for x86-64"),
        (file(folder, "torn", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0", 0o755), "without a program in it"),
        (file(folder, "text", b"hello\n", 0o755), "neither an ELF program nor a script"),
        (file(folder, "mode", b"#!/bin/sh\n", 0o644), "try `chmod +x`"),
        (folder.join("missing").to_str().unwrap().to_owned(), "not found"),
    ];
    for (path, words) in table {
        let error = attempt(folder, &[&path]).err().expect("it cannot be recorded");
        assert!(error.is_usage() && error.to_string().contains(words), "{path}: {error}");
        assert!(!folder.join("t.parquet").exists(), "{path}");
    }
}

#[test]
fn a_program_with_rights_of_its_own_is_refused_and_runs_unrecorded_as_a_child() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = program(folder.path(), "int main() { touch(); return 5; }") else { return };
    for (mode, words) in [(0o4755, "is set-user-ID"), (0o2755, "is set-group-ID")] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = attempt(folder.path(), &[&path]).err().expect("it cannot be recorded");
        assert!(error.is_usage() && error.to_string().contains(words), "{error}");
    }
    let trace = attempt(folder.path(), &["/bin/sh", "-c", &format!("{path}; exit $?")]).unwrap();
    assert_eq!(trace.recording.exit_code, 5, "{:?}", trace.warnings);
    assert_eq!(trace.array, 0);
    assert_eq!(trace.warnings, [format!("not recorded: {path} (set-user-ID)")]);
}

#[test]
fn a_program_of_another_machine_runs_unrecorded_as_a_child() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "elf32", &program_of_32_bits(), 0o755);
    let native = std::process::Command::new(&path).status();
    if !native.is_ok_and(|status| status.code() == Some(3)) {
        return skip("this kernel runs no 32-bit programs");
    }
    let trace = attempt(folder.path(), &["/bin/sh", "-c", &format!("{path}; exit $?")]).unwrap();
    assert_eq!(trace.recording.exit_code, 3);
    assert_eq!(trace.warnings, [format!("not recorded: {path} (not for x86-64)")]);
}

#[test]
fn a_crash_is_the_programs_own_end() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let crashes =
        [("*(volatile int *)0 = 1;", 11), ("__builtin_trap();", 4), ("raise(SIGABRT);", 6), ("raise(SIGFPE);", 8)];
    for (crash, signal) in crashes {
        // An event after the touches, so that the rows before it are sent: the last epoch may be lost in part.
        let event = "mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);";
        let body = format!("#include <signal.h>\nint main() {{ touch(); {event} {crash} return 0; }}");
        let Some(path) = program(folder.path(), &body) else { return };
        let trace = attempt(folder.path(), &[&path]).unwrap();
        assert_eq!((trace.recording.exit_code, trace.recording.signal), (128 + signal, Some(signal)), "{crash}");
        assert_eq!((trace.array, trace.meta.complete), (64, true), "{crash}");
    }
}

#[test]
fn a_program_that_forks_without_end_is_recorded_until_it_is_killed() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Every process forks without end, and each child does the same. At the 60th all of them are killed, as an administrator
    // would do.
    let body = "
        #include <signal.h>
        #include <unistd.h>
        int main() {
            touch();
            setpgid(0, 0);
            volatile int *forks = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            for (;;) {
                if (__sync_fetch_and_add(forks, 1) >= 60) kill(0, SIGKILL);
                fork();
            }
        }";
    let Some(path) = program(folder.path(), body) else { return };
    let trace = attempt(folder.path(), &[&path]).unwrap();
    assert_eq!((trace.recording.exit_code, trace.recording.signal), (137, Some(9)), "{:?}", trace.warnings);
    assert_eq!((trace.array, trace.meta.complete), (64, false));
    assert!(trace.recording.processes > 1, "{}", trace.recording.processes);
}

#[test]
fn a_program_that_closes_all_descriptors_is_recorded() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let body = "
        #include <unistd.h>
        int main() {
            for (int descriptor = 0; descriptor < 1024; descriptor++) close(descriptor);
            touch();
            return 6;
        }";
    let Some(path) = program(folder.path(), body) else { return };
    let trace = attempt(folder.path(), &[&path]).unwrap();
    assert_eq!((trace.recording.exit_code, trace.array, trace.meta.complete), (6, 64, true));
}
