//! Text of DynamoRIO's `view` tool, of all versions.

use isotherm_trace::import::ImportOptions;
use isotherm_trace::{EventKind, Fraction, TraceRow};

use crate::formats::{Case, defaults, requests};

/// Two threads, as printed by the view tool.
pub(crate) const VIEW: &str = "\
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:          70 <marker: version 6>
           2           0:          70 <marker: tid 70 on core 1>
           3           1:          70 ifetch       4 byte(s) @ 0x0000000000401ffe 48 8b 5c 24          mov    0x08(%rsp)[8byte] -> %rbx
           4           1:          70 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000401ffe
           5           2:          70 ifetch       5 byte(s) @ 0x0000000000402002 non-branch
------------------------------------------------------------
           6           3:          71 ifetch       1 byte(s) @ 0x0000000000401000 c3       ret
           7           3:          71 write        8 byte(s) @ 0x00007fdf64e2bff8 by PC 0x0000000000401000
           8           3:          71 pref-r-L1    8 byte(s) @ 0x0000000000999000 by PC 0x0000000000401000
           9           3:          71 <thread 71 exited>
          10           4:          70 ifetch       5 byte(s) @ 0x0000000000402007 non-branch
View tool results:
              4 : total instructions
";

#[test]
fn drmemtrace_sample() {
    let options =
        ImportOptions { epoch_ns: 3, ns_per_instruction: Fraction { numerator: 1, denominator: 1 }, ..defaults() };
    let case = Case::new("view.txt", VIEW);
    let (meta, rows) = case.import(None, &options).unwrap();
    let row = |time_ns, thread, page, pages, write| TraceRow { time_ns, thread, page, pages, write, kernel: false };
    // Thread 70 has made 2 instructions when 71 appears, and its epoch ends with its third.
    assert_eq!(
        rows,
        [
            row(0, 0, 0x401, 2, false),
            row(0, 0, 0x7_fdf6_4e2a, 1, false),
            row(0, 1, 0x401, 1, false),
            row(0, 1, 0x7_fdf6_4e2b, 1, true),
            row(3, 0, 0x402, 1, false),
        ]
    );
    let tids: Vec<_> = meta.threads.iter().map(|thread| (thread.tid, thread.process, thread.started_by)).collect();
    assert_eq!(tids, [(70, 0, None), (71, 0, Some(0))]);
    let events: Vec<_> =
        meta.events.iter().map(|event| (event.row, event.thread, event.time_ns, &event.kind)).collect();
    assert_eq!(events, [(2, 0, 2, &EventKind::StartThread { thread: 1 }), (4, 1, 1, &EventKind::EndThread)]);
    assert!(meta.complete && meta.notes.iter().any(|note| note.starts_with("1 prefetches")), "{:?}", meta.notes);
    assert!(meta.notes.iter().any(|note| note.starts_with("4 instructions")), "{:?}", meta.notes);
}

#[test]
fn a_thread_of_drmemtrace_is_started_by_one_that_lives() {
    let line = |tid: u32, rest: &str| format!("  1  1: {tid} {rest}\n");
    let touch = "read 8 byte(s) @ 0x1000 by PC 0x1";
    let text = [(70, touch), (71, touch), (71, "<thread 71 exited>"), (71, touch), (72, touch)];
    let text: String = text.iter().map(|&(tid, rest)| line(tid, rest)).collect();
    let (meta, _) = Case::new("view.txt", text).import(None, &defaults()).unwrap();
    let threads: Vec<_> = meta.threads.iter().map(|thread| (thread.tid, thread.started_by)).collect();
    assert_eq!(threads, [(70, None), (71, Some(0)), (71, Some(0)), (72, Some(2))], "a tid may come again");
}

#[test]
fn the_kernel_in_drmemtrace_is_no_memory_of_the_program() {
    let text = "\
  1  1: 70 ifetch       2 byte(s) @ 0x0000000000401000 0f 05  syscall
  2  1: 70 <marker: trace start for system call number 12>
  3  2: 70 ifetch       4 byte(s) @ 0xffffffff81000000 48 c1 ea 20  shr
  4  2: 70 read         8 byte(s) @ 0xffff888100000000 by PC 0xffffffff81000000
  5  2: 70 write        8 byte(s) @ 0x00007ffd00000ff8 by PC 0xffffffff81000000
  6  3: 70 ifetch       4 byte(s) @ 0x8000000000000000 non-branch
  7  3: 70 <marker: trace end for system call number 12>
  8  4: 70 ifetch       2 byte(s) @ 0x0000000000401002 f3 a4  rep movs
  9  4: 70 ifetch       2 byte(s) @ 0x0000000000401002 f3 a4  rep movs
 10  4: 70 ifetch       2 byte(s) @ 0x0000000000401002 non-fetched instruction
 11  4: 70 non-fetched  2 byte(s) @ 0x0000000000401002 f3 a4  rep movs
 12  5: 70 ifetch       1 byte(s) @ 0x0000000000401004 c3  ret
";
    let one_ns = Fraction { numerator: 1, denominator: 1 };
    let options = ImportOptions { epoch_ns: 5, ns_per_instruction: one_ns, ..defaults() };
    let (meta, rows) = Case::new("view.txt", text).import(None, &options).unwrap();
    let pages: Vec<_> = rows.iter().map(|row| (row.time_ns, row.page, row.write)).collect();
    assert_eq!(pages, [(0, 0x401, false), (0, 0x7_ffd0_0000, true), (5, 0x401, false)]);
    for words in ["5 instructions;", "3 references of kernel addresses"] {
        assert!(meta.notes.iter().any(|note| note.starts_with(words)), "{words}: {:?}", meta.notes);
    }
}

#[test]
fn drmemtrace_of_2022_and_before_is_known_by_its_content() {
    let with_t = "\
Output format:
<record#>: T<tid> <record details>
------------------------------------------------------------
        1: T70 <marker: version 4>
      101: T70 ifetch       3 byte(s) @ 0x0000000000402680 48 8b 07             mov    (%rdi), %rax
      102: T70 write        8 byte(s) @ 0x00007f0000002a70 by PC 0x0000000000402680
      103: T70 <thread 70 exited>
";
    let no_binaries = "\
      201: T70   0x402ffe  non-branch 1 byte(s)
      202: T70     write 1 byte(s) @ 0x7f000000290d
";
    let no_numbers = "\
T70   0x0000000000402680  48 8b 07             mov    (%rdi) -> %rax
T70     write 8 byte(s) @ 0x7f000000290d
";
    for text in [with_t, no_binaries, no_numbers] {
        let (meta, rows) = Case::new("view.txt", text).import(None, &defaults()).unwrap();
        assert_eq!(requests(&rows), [(0x402, false), (0x7_f000_0002, true)], "{text}");
        assert_eq!((meta.recorder.as_str(), meta.threads[0].tid), ("drmemtrace view", 70));
        assert!(meta.notes.iter().any(|note| note.starts_with("1 instructions")), "{:?}", meta.notes);
        assert!(!meta.notes.iter().any(|note| note.contains("no records")), "{:?}", meta.notes);
        for cut in 0..text.len() {
            let _ = Case::new("view.txt", &text[..cut]).import(Some("drmemtrace"), &defaults());
        }
    }
}

#[test]
fn programs_of_one_drmemtrace_have_their_own_memory() {
    let text: String = [(0, 7), (1, 7), (1, 8), (0, 7)]
        .map(|(workload, tid)| format!("  1  1: W{workload}.T{tid} read 8 byte(s) @ 0x1000 by PC 0x1\n"))
        .concat();
    let (meta, rows) = Case::new("view.txt", text).import(None, &defaults()).unwrap();
    let threads: Vec<_> = meta.threads.iter().map(|thread| (thread.process, thread.tid, thread.started_by)).collect();
    assert_eq!(threads, [(0, 7, None), (1, 7, None), (1, 8, Some(1))]);
    assert_eq!((meta.processes.len(), rows.len()), (2, 3));
}
