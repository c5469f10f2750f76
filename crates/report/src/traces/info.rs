//! Contents of a trace.

use isotherm_trace::analysis::Info;
use isotherm_trace::{Clock, ClockKind};
use isotherm_units::Duration;

use super::{bytes, without_process};
use crate::unit::significant;
use crate::{Cell, Column, Table, Unit};

/// Rows of threads and mappings that people are shown at most.
const ROWS_MAX: usize = 20;

/// The file as a whole, its mappings, its threads.
pub fn info_tables(info: &Info) -> Vec<Table> {
    let mut tables = vec![summary(info)];
    let mut mappings = mapping_table(info);
    shorten(&mut mappings, info.mappings.len());
    tables.push(mappings);
    if info.threads.len() > 1 {
        let mut threads = thread_table(info);
        shorten(&mut threads, info.threads.len());
        tables.push(threads);
    }
    if info.threads.iter().all(|thread| thread.process == 0) {
        tables.iter_mut().for_each(|table| *table = without_process(table));
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// One row for each mapping.
pub fn info_csv(info: &Info) -> Table {
    mapping_table(info)
}

fn summary(info: &Info) -> Table {
    let mut table = Table::new("", vec![Column::text("trace"), Column::text("")]);
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            table.push(vec![name.into(), value.into()]);
        }
    };
    let size = |pages: u64| format!("{} ({pages} pages)", Unit::Bytes.approx(bytes(pages, info.page_bytes) as f64));
    let time = |ns: u64| Unit::Ns.approx(ns as f64);
    add("command", info.command.join(" "));
    add("recorder", info.recorder.clone());
    add("recorded on", info.host.clone());
    add("written by", info.created_by.clone());
    let exit = info.exit_code.map_or_else(|| "not known".to_owned(), |code| code.to_string());
    add("exit code", exit);
    add("complete", if info.complete { "yes" } else { "no: it does not reach the program's end" }.to_owned());
    let threads = match info.threads.len() {
        1 => "one thread".to_owned(),
        several => format!("{several} threads"),
    };
    add("duration", format!("{} ({} of CPU time in {threads})", time(info.footprint.duration_ns), time(info.cpu_ns)));
    add("clock", clock_words(&info.clock));
    if let Some(native) = &info.native {
        add("without recorder", format!("{} of CPU time in {}", time(native.cpu_ns), time(native.wall_ns)));
        let bytes = |bytes: u64| Unit::Bytes.approx(bytes as f64);
        let (resident, tables, swap) = (native.peak_rss_bytes, native.peak_page_table_bytes, native.peak_swap_bytes);
        add(
            "measured peak",
            format!("{} resident, {} of page tables, {} in swap", bytes(resident), bytes(tables), bytes(swap)),
        );
    }
    add(
        "epoch",
        if info.epoch_ns == 0 {
            "none: each row is a request".into()
        } else {
            Duration::from_ns(info.epoch_ns).to_string()
        },
    );
    add("page size", Unit::Bytes.approx(info.page_bytes as f64));
    add("touched", size(info.footprint.touched_pages));
    add("written", size(info.footprint.written_pages));
    if info.descriptor_accesses {
        add("of the page cache", size(info.footprint.page_cache_pages));
    }
    add(
        "peak resident",
        format!("{} at {}", size(info.footprint.peak_resident_pages), time(info.footprint.peak_time_ns)),
    );
    let share = |accesses: u64| Unit::Ppm.approx(accesses as f64 * 1e6 / info.accesses.max(1) as f64);
    let mut touches = format!("{} in {} rows, {} of them writes", info.accesses, info.rows, share(info.write_accesses));
    if info.kernel_accesses > 0 {
        touches.push_str(&format!(", {} by the kernel alone", share(info.kernel_accesses)));
    }
    add("touches", touches);
    add("events", info.events.to_string());
    let per_access = significant(info.milli_bytes_per_access as f64 / 1000.0, 3);
    add("file", format!("{} ({per_access} bytes a touch)", Unit::Bytes.approx(info.file_bytes as f64)));
    table
}

/// Source of the times, and how far they may be off; empty if the file does not say.
fn clock_words(clock: &Clock) -> String {
    let kind = match clock.kind {
        ClockKind::Unknown => return String::new(),
        ClockKind::Instructions => "instructions of one length",
        ClockKind::InstructionMix => "instructions, memory accesses and calls at prices",
        ClockKind::Native => "CPU time of a run without the recorder",
    };
    match clock.error_percent {
        Some(percent) => format!("{kind}; up to {percent} % off"),
        None => format!("{kind}; not judged"),
    }
}

fn mapping_table(info: &Info) -> Table {
    let mut table = Table::new(
        "mappings",
        vec![
            Column::text("mapping"),
            Column::text("process"),
            Column::number("touched", Unit::Bytes),
            Column::number("written", Unit::Bytes),
            Column::number("accesses", Unit::Count),
            Column::number("share", Unit::Ppm),
        ],
    );
    for mapping in &info.mappings {
        table.push(vec![
            mapping.label.clone().into(),
            process_name(info, mapping.process).into(),
            bytes(mapping.touched_pages, info.page_bytes).into(),
            bytes(mapping.written_pages, info.page_bytes).into(),
            mapping.accesses.into(),
            mapping.share_ppm.into(),
        ]);
    }
    table
}

fn thread_table(info: &Info) -> Table {
    let mut table = Table::new(
        "threads",
        vec![
            Column::text("thread"),
            Column::text("process"),
            Column::number("tid", Unit::Count),
            Column::number("CPU time", Unit::Ns),
            Column::number("accesses", Unit::Count),
            Column::number("rows", Unit::Count),
        ],
    );
    for thread in &info.threads {
        table.push(vec![
            thread.name.clone().into(),
            process_name(info, thread.process).into(),
            if thread.tid == 0 { Cell::Missing } else { u64::from(thread.tid).into() },
            thread.cpu_ns.into(),
            thread.accesses.into(),
            thread.rows.into(),
        ]);
    }
    table
}

/// Name and number of a process, for programs that start several of the same name.
fn process_name(info: &Info, process: usize) -> String {
    let name =
        info.threads.iter().find(|thread| thread.process == process).map_or("", |thread| thread.process_name.as_str());
    let several = info.threads.iter().any(|thread| thread.process != process);
    match (name, several) {
        ("", false) => "0".to_owned(),
        ("", true) => process.to_string(),
        (name, false) => name.to_owned(),
        (name, true) => format!("{name} #{process}"),
    }
}

fn shorten(table: &mut Table, total: usize) {
    if total > ROWS_MAX {
        table.rows.truncate(ROWS_MAX);
        table.title = format!("{} ({ROWS_MAX} of {total}; all with --format json)", table.title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TermStyle;
    use isotherm_trace::analysis::{Footprint, MappingInfo, ThreadInfo};

    fn small() -> Info {
        let thread = ThreadInfo {
            process_name: "sqlite3".into(),
            name: "main".into(),
            accesses: 1200,
            rows: 400,
            cpu_ns: 2_000_000_000,
            ..ThreadInfo::default()
        };
        let mapping = |label: &str, accesses| MappingInfo {
            process: 0,
            what: None,
            file: None,
            label: label.into(),
            touched_pages: 512,
            written_pages: 1,
            accesses,
            share_ppm: accesses * 1_000_000 / 1200,
        };
        Info {
            command: vec!["sqlite3".into(), "index.db".into()],
            recorder: "qemu-user plugin".into(),
            created_by: "isotherm 0.1.0".into(),
            host: String::new(),
            exit_code: Some(0),
            complete: true,
            page_bytes: 4096,
            epoch_ns: 1_000_000,
            clock: Clock { kind: ClockKind::Instructions, error_percent: Some(50) },
            native: None,
            descriptor_accesses: true,
            rows: 400,
            accesses: 1200,
            write_accesses: 300,
            kernel_accesses: 12,
            events: 12,
            file_bytes: 2400,
            milli_bytes_per_access: 2000,
            cpu_ns: 2_000_000_000,
            footprint: Footprint {
                touched_pages: 1024,
                written_pages: 2,
                peak_resident_pages: 900,
                peak_time_ns: 5,
                page_cache_pages: 16,
                duration_ns: 2_000_000_000,
            },
            threads: vec![thread],
            mappings: vec![mapping("heap", 900), mapping("file <b>", 300)],
            notes: Vec::new(),
        }
    }

    #[test]
    fn people_see_sizes_and_shares() {
        let text: String = info_tables(&small()).iter().map(|table| table.to_text(&TermStyle::plain(100))).collect();
        insta::assert_snapshot!(text, @r#"
        trace
        command            sqlite3 index.db
        recorder           qemu-user plugin
        written by         isotherm 0.1.0
        exit code          0
        complete           yes
        duration           2 s (2 s of CPU time in one thread)
        clock              instructions of one length; up to 50 % off
        epoch              1ms
        page size          4 KiB
        touched            4 MiB (1024 pages)
        written            8 KiB (2 pages)
        of the page cache  64 KiB (16 pages)
        peak resident      3.52 MiB (900 pages) at 5 ns
        touches            1200 in 400 rows, 25 % of them writes, 1 % by the kernel alone
        events             12
        file               2.34 KiB (2 bytes a touch)
        mappings
        mapping   touched [MiB]  written [KiB]  accesses  share [%]
        heap               2.00           4.00       900       75.0
        file <b>           2.00           4.00       300       25.0
        "#);
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let mut info = small();
        info.mappings = vec![info.mappings[0].clone(); 50];
        let tables = info_tables(&info);
        assert_eq!(tables[1].rows.len(), 20);
        assert!(tables[1].title.contains("20 of 50"));
        assert_eq!(info_csv(&info).rows.len(), 50);
    }
}
