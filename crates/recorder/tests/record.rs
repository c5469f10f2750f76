//! Records real programs. Skipped with a message if the engine is not available; an error instead when ISOTHERM_REQUIRE_ALL=1.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{compile, engine_works, skip};
use isotherm_recorder::{RecordError, RecordOptions, Recording, Report, record};
use isotherm_trace::{Clock, ClockKind, EventKind, Fraction, MapKind, RowBatch, TraceMeta, TraceReader, TraceRow};

struct Trace {
    recording: Recording,
    meta: TraceMeta,
    rows: Vec<TraceRow>,
    warnings: Vec<String>,
}

impl Trace {
    /// Distinct pages that thread `thread` touched.
    fn pages_of(&self, thread: usize) -> BTreeSet<u64> {
        let own = self.rows.iter().filter(|row| row.thread as usize == thread);
        own.flat_map(|row| row.page..row.page + u64::from(row.pages)).collect()
    }
    fn maps(&self) -> impl Iterator<Item = &isotherm_trace::MapRange> {
        self.meta.events.iter().filter_map(|event| match &event.kind {
            EventKind::Map(map) => Some(map),
            _ => None,
        })
    }
}

fn options(directory: &Path, command: &[&str]) -> RecordOptions {
    RecordOptions::new(command.iter().map(OsString::from).collect(), directory.join("t.parquet"))
}

fn run(options: &RecordOptions) -> Trace {
    let mut warnings = Vec::new();
    let recording = record(options, &mut |report| {
        if let Report::Warning(warning) = report {
            warnings.push(warning);
        }
    })
    .unwrap();
    let mut reader = TraceReader::open(&options.output).unwrap();
    let (mut rows, mut batch) = (Vec::new(), RowBatch::new());
    while reader.next_batch(&mut batch).unwrap() {
        rows.extend(batch.rows());
    }
    Trace { recording, meta: reader.meta().clone(), rows, warnings }
}

#[test]
fn a_tiny_program_has_image_stack_and_libraries() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = run(&options(directory.path(), &["true"]));
    assert_eq!((trace.recording.exit_code, trace.recording.signal), (0, None));
    assert!(trace.recording.complete && trace.meta.complete);
    assert_eq!((trace.meta.processes.len(), trace.meta.threads.len()), (1, 1));
    assert_eq!(trace.meta.processes[0].name, "true");
    assert_eq!(trace.meta.exit_code, Some(0));
    assert_eq!(trace.recording.rows, trace.rows.len() as u64);
    let libc =
        trace.maps().find(|map| map.executable && map.file.as_ref().is_some_and(|file| file.contains("libc.so")));
    let libc = libc.expect("libc's code is mapped");
    let pages = trace.pages_of(0);
    assert!(pages.range(libc.start..libc.end).next().is_some(), "instruction fetches count as touches");
    for kind in [MapKind::Image, MapKind::Stack] {
        let map = trace.maps().find(|map| map.what == kind).unwrap_or_else(|| panic!("no {kind:?}"));
        assert!(pages.range(map.start..map.end).next().is_some(), "{kind:?} is not touched");
    }
    assert!(trace.recording.pages < 1000 && trace.recording.pages == pages.len() as u64);
}

#[test]
fn each_page_of_an_array_is_seen_with_its_writes() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <sys/mman.h>
        #include <stdio.h>
        int main() {
            char *a = mmap((void *)0x700000000, 64 * 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            volatile char *p = a;
            int sum = 0;
            for (int i = 0; i < 32; i++) p[i * 4096] = 1;
            for (int i = 40; i < 48; i++) sum += p[i * 4096];
            *(volatile long *)(p + 50 * 4096 - 4) = 1; /* across a boundary */
            munmap(a, 64 * 4096);
            return sum;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let trace = run(&options(directory.path(), &[program.to_str().unwrap()]));
    let base = 0x70_0000;
    let runs: Vec<_> = trace.rows.iter().filter(|row| (base..base + 64).contains(&row.page)).collect();
    let flat: Vec<_> = runs.iter().map(|row| (row.page - base, row.pages, row.write)).collect();
    assert_eq!(flat, [(0, 32, true), (40, 8, false), (49, 2, true)]);
    assert!(trace.maps().any(|map| (map.start, map.end, map.what) == (base, base + 64, MapKind::Anonymous)));
    let unmap = EventKind::Unmap { start: base, end: base + 64 };
    assert!(trace.meta.events.iter().any(|event| event.kind == unmap));
}

#[test]
fn threads_have_rows_of_their_own() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        static void *work(void *arg) {
            long k = (long)arg;
            volatile char *p = mmap((void *)(0x700000000 + k * 0x10000000), 256 * 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            for (int round = 0; round < 200; round++)
                for (int i = 0; i < 256; i++) p[i * 4096]++;
            return 0;
        }
        int main() {
            pthread_t t[3];
            for (long k = 0; k < 3; k++) pthread_create(&t[k], 0, work, (void *)k);
            for (int k = 0; k < 3; k++) pthread_join(t[k], 0);
            return 7;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let trace = run(&options(directory.path(), &[program.to_str().unwrap()]));
    assert_eq!(trace.recording.exit_code, 7);
    assert_eq!((trace.meta.processes.len(), trace.meta.threads.len()), (1, 4));
    let mut seen = BTreeMap::new();
    for thread in 1..4 {
        assert_eq!(trace.meta.threads[thread].started_by, Some(0));
        let pages = trace.pages_of(thread);
        for k in 0..3u64 {
            let base = 0x70_0000 + k * 0x1_0000;
            let touched = pages.range(base..base + 256).count();
            if touched > 0 {
                seen.insert(k, (thread, touched));
            }
        }
    }
    assert_eq!(seen.values().map(|&(_, touched)| touched).collect::<Vec<_>>(), [256, 256, 256]);
    assert_eq!(seen.values().map(|&(thread, _)| thread).collect::<BTreeSet<_>>().len(), 3);
    let count = |kind: fn(&EventKind) -> bool| trace.meta.events.iter().filter(|event| kind(&event.kind)).count();
    assert_eq!(count(|kind| matches!(kind, EventKind::StartThread { .. })), 3);
    assert_eq!(count(|kind| matches!(kind, EventKind::EndThread)), 4);
}

#[test]
fn a_forked_child_goes_on_in_the_same_recording() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main() {
            volatile char *p = mmap((void *)0x700000000, 128 * 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            for (int i = 0; i < 64; i++) p[i * 4096] = 1;
            if (fork() == 0) {
                for (int i = 32; i < 128; i++) p[i * 4096] = 2;
                _exit(3);
            }
            int status;
            wait(&status);
            return WEXITSTATUS(status);
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let trace = run(&options(directory.path(), &[program.to_str().unwrap()]));
    assert_eq!(trace.recording.exit_code, 3);
    assert_eq!(trace.meta.processes.len(), 2);
    assert_eq!(trace.meta.processes[1].forked_from, Some(0));
    assert_ne!(trace.meta.processes[1].pid, trace.meta.processes[0].pid);
    let child = trace.pages_of(1);
    assert_eq!(
        child.range(0x70_0000..0x70_0080).copied().collect::<Vec<_>>(),
        (0x70_0020..0x70_0080).collect::<Vec<_>>()
    );
}

#[test]
fn programs_started_by_the_program_are_followed() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("job");
    std::fs::write(&script, "#!/bin/sh\n/bin/echo one > \"$1\"\n\"$0.sub\" three\nexec /bin/ls /\n").unwrap();
    std::fs::write(directory.path().join("job.sub"), "#!/bin/sh\n/bin/echo two $1 >> \"${0%/*}/out\"\n").unwrap();
    for name in ["job", "job.sub"] {
        assert!(Command::new("chmod").arg("+x").arg(directory.path().join(name)).status().unwrap().success());
    }
    let out = directory.path().join("out");
    let trace = run(&options(directory.path(), &[script.to_str().unwrap(), out.to_str().unwrap()]));
    assert_eq!(trace.recording.exit_code, 0);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "one\ntwo three\n");
    let shells = trace.meta.processes.iter().filter(|process| process.name.contains("sh")).count();
    let named = |name: &str| trace.meta.processes.iter().filter(|process| process.name == name).count();
    assert!(shells >= 2, "{:?}", trace.meta.processes);
    assert_eq!((named("echo"), named("ls")), (2, 1), "{:?}", trace.meta.processes);
    assert_eq!(trace.warnings, Vec::<String>::new());
}

#[test]
fn death_by_signal_is_passed_on_and_nothing_is_lost() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            volatile char *p = mmap((void *)0x700000000, 64 * 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            for (int i = 0; i < 64; i++) p[i * 4096] = 1;
            mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* an event: rows before it are written out */
            kill(getpid(), atoi(argv[1]));
            pause();
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    for (signal, complete) in [(9, false), (11, true), (15, false)] {
        let trace = run(&options(directory.path(), &[program.to_str().unwrap(), &signal.to_string()]));
        assert_eq!((trace.recording.exit_code, trace.recording.signal), (128 + signal, Some(signal)));
        assert_eq!(trace.meta.exit_code, Some(128 + signal));
        assert_eq!(trace.meta.complete, complete, "signal {signal}");
        assert_eq!(trace.pages_of(0).range(0x70_0000..0x70_0040).count(), 64, "signal {signal}");
        assert!(trace.meta.events.iter().any(|event| event.kind == EventKind::EndThread));
    }
}

#[test]
fn python_with_threads_and_a_fork() {
    if !engine_works() {
        return;
    }
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return skip("no /usr/bin/python3");
    }
    let directory = tempfile::tempdir().unwrap();
    let code = "
import os, sys, threading, time
ts = [threading.Thread(target=lambda: (sum(range(20000)), time.sleep(0.2))) for _ in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
pid = os.fork()
if pid == 0: os._exit(5)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let trace = run(&options(directory.path(), &[python, "-S", "-c", code]));
    assert_eq!(trace.recording.exit_code, 5);
    assert_eq!((trace.meta.processes.len(), trace.meta.threads.len()), (2, 5));
    let idle_ns = |thread: u32| -> u64 {
        let own = trace.meta.events.iter().filter(|event| event.thread == thread);
        own.map(|event| if let EventKind::Idle { ns } = event.kind { ns } else { 0 }).sum()
    };
    // While other threads compute, a sleep lasts as long as their work meanwhile; the last one sleeps alone.
    let idle: Vec<u64> = (1..4).map(idle_ns).collect();
    assert!(idle.iter().all(|&ns| ns > 0) && idle.iter().any(|&ns| ns >= 100_000_000), "they slept {idle:?} ns");
    let mut latest = BTreeMap::new();
    for row in &trace.rows {
        let before = latest.insert(row.thread, row.time_ns);
        assert!(before.is_none_or(|before| before <= row.time_ns));
    }
}

#[test]
fn a_size_limit_stops_the_recording_and_not_the_program() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <stdlib.h>
        int main() {
            long n = 4096, pages = 20000;
            volatile char *p = malloc(n * pages);
            unsigned x = 1;
            for (int i = 0; i < 30000000; i++) { x = x * 1664525 + 1013904223; p[(x >> 8) % pages * n]++; }
            return 4;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let mut options = options(directory.path(), &[program.to_str().unwrap()]);
    options.max_bytes = Some(100_000);
    options.epoch = "50us".parse().unwrap();
    let trace = run(&options);
    assert_eq!(trace.recording.exit_code, 4);
    assert!(!trace.meta.complete);
    assert!(trace.meta.notes.iter().any(|note| note.contains("--max-size")), "{:?}", trace.meta.notes);
}

#[test]
fn what_the_kernel_touches_is_recorded() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Pages that only the kernel touches: by a call that takes one buffer, by one that takes a vector, and by one that fills a structure.
    let source = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/stat.h>
        #include <sys/uio.h>
        #include <unistd.h>
        int main() {
            char *p = mmap((void *)0x700000000, 16 * 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            int zero = open("/dev/zero", O_RDONLY);
            struct iovec one = { p + 8 * 4096, 4096 };
            int fails = read(zero, p + 2 * 4096, 4096) != 4096;
            fails += readv(zero, &one, 1) != 4096;
            fails += fstat(zero, (struct stat *)(p + 12 * 4096)) != 0;
            return fails;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let trace = run(&options(directory.path(), &[program.to_str().unwrap()]));
    assert_eq!(trace.recording.exit_code, 0);
    let pages = trace.pages_of(0);
    let touched: Vec<u64> = (0..16).filter(|page| pages.contains(&(0x70_0000 + page))).collect();
    assert_eq!(touched, [2, 8, 12]);
    assert!(trace.meta.kernel_accesses);
    let by_program = trace.rows.iter().filter(|row| !row.kernel);
    let own = by_program.flat_map(|row| row.page..row.page + u64::from(row.pages)).collect::<BTreeSet<_>>();
    assert!(touched.iter().all(|page| !own.contains(&(0x70_0000 + page))), "the program itself did not touch them");
}

#[test]
fn files_read_and_written_by_descriptor_are_in_the_trace() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recorder/valgrind/test/files.c");
    let Some(program) = compile(directory.path(), &std::fs::read_to_string(source).unwrap()) else { return };
    let data = directory.path().join("data");
    std::fs::write(&data, vec![0; 20 * 4096 + 100]).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let memory = memory.path().join("m");
    let command = [&program, &data, &memory].map(|path| path.to_str().unwrap());
    let trace = run(&options(directory.path(), &command));
    assert_eq!(trace.recording.exit_code, 0);
    let range = trace.meta.page_cache.expect("files read by descriptor are recorded");
    // Page numbers of the range as pages of files, by the mappings of the thread's process.
    let transfers = |thread: u32, path: &Path| -> Vec<(u64, u32, bool)> {
        let file = |page: u64| {
            let mut shown = trace.maps().filter(|map| map.start <= page && page < map.end);
            let map = shown.next().expect("it is shown before it is used");
            (map.file.clone().unwrap(), map.file_page + (page - map.start))
        };
        let used = trace.rows.iter().filter(|row| row.thread == thread && range.contains(row.page));
        let used = used.map(|row| (file(row.page), row));
        let of_path = used.filter(|((name, _), _)| Path::new(name) == path);
        of_path.map(|((_, page), row)| (page, row.pages, row.write)).collect()
    };
    // Expected from the program's source. A transfer of several pages takes one row for each piece of the file.
    let joined = |runs: Vec<(u64, u32, bool)>| -> Vec<(u64, bool)> {
        runs.into_iter()
            .flat_map(|(page, pages, write)| (page..page + u64::from(pages)).map(move |p| (p, write)))
            .collect()
    };
    let r = |pages: &[u64]| pages.iter().map(|&page| (page, false)).collect::<Vec<_>>();
    let w = |pages: &[u64]| pages.iter().map(|&page| (page, true)).collect::<Vec<_>>();
    let expected = [r(&[0, 1, 2, 3, 4, 20, 7, 8, 9, 10]), w(&[2, 4, 5]), r(&[5, 12, 13]), w(&[21])].concat();
    assert_eq!(joined(transfers(0, &data)), expected);
    assert_eq!(joined(transfers(0, &memory)), [w(&[0, 1, 1, 2]), r(&[0, 1, 2])].concat());
    let kind = |path: &Path| trace.maps().find(|map| map.file.as_deref() == path.to_str()).unwrap().what;
    assert_eq!((kind(&data), kind(&memory)), (MapKind::PageCache, MapKind::Shared));
    assert!(trace.rows.iter().all(|row| row.kernel || !range.contains(row.page)));
    let child = trace.meta.threads.iter().position(|thread| thread.process == 1).unwrap();
    assert_eq!(joined(transfers(u32::try_from(child).unwrap(), &data)), r(&[6]));
    assert!(trace.maps().all(|map| map.file.as_deref() != Some("/dev/null")));
}

#[test]
fn a_native_run_sets_the_clock() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // About half a second of divisions.
    let source = r#"
        int main(int argc, char **argv) {
            volatile unsigned long n = 0x123456789abcdefUL, d = argc + 6;
            for (int i = 0; i < 60000000; i++) n = n / d + 0x123456789abcdefUL;
            return 0;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let plain = options(directory.path(), &[program.to_str().unwrap()]);
    let (unset, set) = (run(&plain), run(&RecordOptions { native_first: true, ..plain }));
    assert!(unset.meta.clock.kind != ClockKind::Native && unset.meta.clock.error_percent.is_some());
    assert!(unset.recording.native.is_none() && unset.meta.native.is_none());
    let native = set.meta.native.expect("it ran by itself");
    assert_eq!((set.recording.clock, set.meta.clock), (Clock::NATIVE, Clock::NATIVE));
    assert!(native.cpu_ns >= 100_000_000 && native.peak_rss_bytes > 0, "{native:?}");
    let recorded = set.rows.iter().map(|row| row.time_ns).max().unwrap() + set.meta.epoch_ns;
    let (low, high) = (native.cpu_ns * 9 / 10, native.cpu_ns * 11 / 10);
    assert!((low..=high).contains(&recorded), "{recorded} ns recorded, {} ns native", native.cpu_ns);
    let differ = set.recording.instructions.abs_diff(unset.recording.instructions);
    assert!(differ < 1_000_000, "the same run again, but for {differ} instructions");
}

fn cpu_ns(trace: &Trace) -> u64 {
    let ends = trace.meta.events.iter().filter(|event| event.kind == EventKind::EndThread);
    ends.map(|event| event.time_ns).sum()
}

/// Equal numbers of divisions and additions.
#[test]
fn the_clock_is_what_the_trace_says() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        int main(int argc, char **argv) {
            unsigned long count = 2000000;
            if (argc > 1)
                __asm__ volatile("1: xor %%edx, %%edx; mov $99, %%eax; divq %0; dec %0; jnz 1b" : "+r"(count) : : "rax", "rdx", "cc");
            else
                __asm__ volatile("1: xor %%edx, %%edx; mov $99, %%eax; add $7, %%rdx; dec %0; jnz 1b" : "+r"(count) : : "rax", "rdx", "cc");
            return 0;
        }"#;
    let Some(program) = compile(directory.path(), source) else { return };
    let program = program.to_str().unwrap();
    let [adds, divides] = [vec![program], vec![program, "divide"]].map(|command| options(directory.path(), &command));
    let (added, divided) = (run(&adds), run(&divides));
    for trace in [&added, &divided] {
        assert_eq!(trace.recording.cpu.ns(), cpu_ns(trace), "the end of a thread is exact");
        assert_eq!(trace.recording.clock, trace.meta.clock);
    }
    let more = cpu_ns(&divided).saturating_sub(cpu_ns(&added));
    assert_eq!((added.meta.clock.kind, added.meta.ns_per_instruction), (ClockKind::InstructionMix, None));
    assert!(more > 1_000_000, "a division takes longer than an addition: {more} ns more");
    // A given time per instruction applies to all instructions.
    let given =
        |options| RecordOptions { ns_per_instruction: Some(Fraction { numerator: 3, denominator: 10 }), ..options };
    let (asked, added) = (given(divides), run(&given(adds)));
    let trace = run(&asked);
    let more = cpu_ns(&trace).abs_diff(cpu_ns(&added));
    assert!(more < 100_000, "{more} ns more");
    assert_eq!(trace.meta.clock, Clock { kind: ClockKind::Instructions, error_percent: None });
    assert_eq!(trace.meta.ns_per_instruction, asked.ns_per_instruction);
    // Each thread rounds to whole nanoseconds.
    assert!(cpu_ns(&trace).abs_diff(trace.recording.instructions * 3 / 10) <= 1, "{} ns", cpu_ns(&trace));
}

/// A thread that calls `execve` ends there; its work before counts.
#[test]
fn short_programs_have_time() {
    if !engine_works() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = run(&options(directory.path(), &["sh", "-c", "/bin/true; exec /bin/true"]));
    let times = trace.meta.events.iter().filter(|event| event.kind == EventKind::EndThread).map(|event| event.time_ns);
    let times: Vec<u64> = times.collect();
    assert!(times.len() >= 4 && times.iter().all(|&ns| ns > 0), "{times:?}");
    assert_eq!(trace.recording.cpu.ns(), times.iter().sum::<u64>());
}

/// Checks that only the tool's own reader can make: sequence numbers, chunks left by a kill, calls counted as sleep.
#[test]
#[ignore = "nightly: times sleeps, and takes over a minute"]
fn the_valgrind_tool_passes_its_own_tests() {
    if !engine_works() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let tests = root.join("recorder/valgrind/test/run.py");
    // Some of them time sleeps, which other work on the machine can stretch, so a second run decides.
    let mut said = String::new();
    for _ in 0..2 {
        let output = Command::new("python3").arg(&tests).arg(target.join("release/valgrind")).output();
        let Ok(output) = output else { return skip("no python3") };
        if output.status.success() {
            return;
        }
        said += &String::from_utf8_lossy(&output.stdout);
        said += &String::from_utf8_lossy(&output.stderr);
    }
    panic!("{said}");
}

#[test]
fn a_command_that_cannot_start_is_an_error_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let options = RecordOptions::new(vec!["no-such-program-7".into()], directory.path().join("t.parquet"));
    let error = record(&options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RecordError::ProgramNotFound { .. }) && error.is_usage());
    assert!(!options.output.exists());
}

#[test]
fn an_epoch_out_of_bounds_is_refused_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    let asked = options(directory.path(), &["touch", ran.to_str().unwrap()]);
    let asked = RecordOptions { epoch: "1ns".parse().unwrap(), native_first: true, ..asked };
    let error = record(&asked, &mut |_| {}).unwrap_err();
    assert!(matches!(error, RecordError::Epoch { .. }) && error.is_usage(), "{error}");
    assert!(!ran.exists() && !asked.output.exists());
}
