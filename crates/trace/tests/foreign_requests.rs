//! Requests of other tools: the clock of a file and its unit, and the unit of addresses.

use isotherm_trace::TraceRow;
use isotherm_trace::import::{IMPORTERS, IdUnit, ImportOptions, RequestClock, TimeUnit};

use crate::formats::{Case, defaults, records};

fn columns(spec: &str) -> ImportOptions {
    ImportOptions { csv_columns: Some(spec.into()), ..defaults() }
}

fn with_clock(spec: &str, time_unit: Option<TimeUnit>) -> ImportOptions {
    ImportOptions { clock: RequestClock::File, time_unit, ..columns(spec) }
}

fn times(rows: &[TraceRow]) -> Vec<u64> {
    rows.iter().map(|row| row.time_ns).collect()
}

#[test]
fn the_unit_of_times_is_that_of_the_option_the_column_or_a_date() {
    use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds, WindowsTicks};
    let second = 1_000_000_000;
    // (first line and times, option, nanoseconds, words of the note). Dates: 2 March 2008 in ticks, 14 September 2020 in the others.
    type Line = (&'static str, Option<TimeUnit>, [u64; 2], &'static str);
    let table: [Line; 14] = [
        (
            "time\n128489760000000000\n128489760033320716",
            None,
            [0, 3_332_071_600],
            "taken for ticks of 100 nanoseconds",
        ),
        ("time\n1600000000000767\n1600000000000891", None, [0, 124_000], "taken for microseconds"),
        ("time\n1600000000767\n1600000000891", None, [0, 124_000_000], "taken for milliseconds"),
        ("time\n1600000000000000767\n1600000000000000891", None, [0, 124], "taken for nanoseconds"),
        ("time\n1600000000\n1600000001.5", None, [0, 3 * second / 2], "taken for seconds because they give a date"),
        ("time\n0\n881", None, [0, 881 * second], "seconds are assumed (the requests then last 881 s)"),
        ("time\n0.25\n0.250001", None, [0, 1000], "last 0.000001 s"),
        ("time_us\n0\n881", None, [0, 881_000], "in microseconds by the name of its column"),
        ("time_us\n0\n881", Some(Milliseconds), [0, 881_000_000], "in milliseconds"),
        ("time\n0\n881", Some(Microseconds), [0, 881_000], "in microseconds"),
        ("time\n0\n881.9", Some(Nanoseconds), [0, 881], "in nanoseconds"),
        ("time\n1600000000\n1600000001", Some(WindowsTicks), [0, 100], "in ticks of 100 nanoseconds"),
        ("time\n0\n18446744073709551615", Some(Seconds), [0, i64::MAX as u64], "in seconds"),
        ("time\n0\n18446744073709551615", Some(Nanoseconds), [0, i64::MAX as u64], "in nanoseconds"),
    ];
    for (text, unit, expected, words) in table {
        let lines: String = text.lines().map(|line| format!("{line},1\n")).collect();
        let options = with_clock("time-col=1,obj-id-col=2,has-header=1", unit);
        let (meta, rows) = Case::new("a.csv", lines).import(None, &options).unwrap();
        assert_eq!(times(&rows), expected, "{text:?}");
        assert!(meta.notes.iter().any(|note| note.contains(words)), "{text:?}: {:?}", meta.notes);
    }
}

#[test]
fn the_unit_of_libcachesim_is_the_second_unless_another_is_given() {
    let bytes = records(&[(1_600_000_000, 1, 1, -1), (1_600_000_003, 2, 1, -1)]);
    for (unit, ns) in [(None, 3_000_000_000), (Some(TimeUnit::Milliseconds), 3_000_000)] {
        let options = ImportOptions { clock: RequestClock::File, time_unit: unit, ..defaults() };
        let (_, rows) = Case::new("a.oracleGeneral", &bytes).import(None, &options).unwrap();
        assert_eq!(times(&rows), [0, ns]);
    }
}

#[test]
fn times_that_cannot_be_are_refused_with_the_way_out() {
    let spec = "time-col=1,obj-id-col=2";
    let file = |text: &'static str| (text, with_clock(spec, None));
    let table: [((&str, ImportOptions), &[&str]); 6] = [
        (
            file("89967882718,1\n89967882719,1\n"),
            &["time-unit", "89967882718", "cannot be seconds", "--time-unit s|ms|us"],
        ),
        (file("0,1\n89967882718,1\n"), &["time-unit", "cannot be seconds"]),
        (file("1.28e17,1\n"), &["line 1", "`1.28e17` in column 1"]),
        (file("2016-02-22 16:00:00,1\n"), &["line 1", "is no time"]),
        (
            ("1,1\n", ImportOptions { time_unit: Some(TimeUnit::Seconds), ..columns(spec) }),
            &["time-unit", "--clock file"],
        ),
        (
            ("page,time_ns\n1,1\n", ImportOptions { csv_columns: None, ..with_clock(spec, Some(TimeUnit::Seconds)) }),
            &["time-unit", "nanoseconds"],
        ),
    ];
    for ((text, options), words) in table {
        let error = Case::new("a.csv", text).error(None, &options);
        assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
    }
}

fn pages(rows: &[TraceRow]) -> Vec<(u64, u32)> {
    rows.iter().map(|row| (row.page, row.pages)).collect()
}

/// First page and number of pages of each row.
type PageRuns = [(u64, u32)];

#[test]
fn sectors_are_addresses() {
    let sectors = |spec: &str| ImportOptions { unit: IdUnit::Sectors, ..columns(spec) };
    let split = |spec: &str| ImportOptions { split_objects: true, ..sectors(spec) };
    let spec = "obj-id-col=1,obj-size-col=2";
    // Eight sectors of 512 bytes are a page: sector 15 with 513 bytes reaches into the page of sector 16.
    let text = "0,512\n7,512\n8,4096\n9,4096\n15,513\n";
    let by_sector = [(0, 1), (0, 1), (1, 1), (1, 2), (1, 2)];
    // Sizes in sectors; sectors of 4096 bytes.
    let in_sectors = ImportOptions { sizes_in_sectors: true, ..split(spec) };
    let large = ImportOptions { sector_bytes: 4096, ..in_sectors.clone() };
    let table: [(&str, ImportOptions, &PageRuns); 6] = [
        (text, split(spec), &by_sector),
        (text, sectors("obj-id-col=1"), &[(0, 1), (0, 1), (1, 1), (1, 1), (1, 1)]),
        ("0,8\n7,1\n7,2\n16,17\n", in_sectors, &[(0, 1), (0, 1), (0, 2), (2, 3)]),
        ("0,2\n7,1\n", large, &[(0, 2), (7, 1)]),
        ("36028797018963967,512\n", split(spec), &[((1 << 52) - 1, 1)]),
        ("0x10,512\n", split(spec), &[(2, 1)]),
    ];
    for (text, options, expected) in table {
        let (meta, rows) = Case::new("a.csv", text).import(None, &options).unwrap();
        assert_eq!(pages(&rows), expected, "{text:?}");
        assert!(!meta.notes.iter().any(|note| note.contains("one after the other")), "{:?}", meta.notes);
    }
    let options = ImportOptions { unit: IdUnit::Sectors, ..defaults() };
    let (_, rows) = Case::new("a.txt", "7 r\n8 w\n").import(None, &options).unwrap();
    assert_eq!(pages(&rows), [(0, 1), (1, 1)]);
    let bytes = records(&[(0, 7, 1024, -1), (0, 8, 4097, -1)]);
    let options = ImportOptions { split_objects: true, ..options };
    let (_, rows) = Case::new("a.oracleGeneral", bytes).import(None, &options).unwrap();
    assert_eq!(pages(&rows), [(0, 2), (1, 2)]);
}

#[test]
fn sectors_that_cannot_be_are_refused() {
    let spec = "obj-id-col=1,obj-size-col=2";
    let sectors = ImportOptions { unit: IdUnit::Sectors, split_objects: true, ..columns(spec) };
    let table: [(&str, ImportOptions, &[&str]); 7] = [
        ("36028797018963968,512\n", sectors.clone(), &["line 1", "sector 36028797018963968", "after the last"]),
        ("36028797018963967,513\n", sectors.clone(), &["line 1", "after the last address"]),
        (
            "0,18446744073709551615\n",
            ImportOptions { sizes_in_sectors: true, ..sectors.clone() },
            &["line 1", "no size"],
        ),
        ("0,1\n", ImportOptions { sector_bytes: 0, ..sectors.clone() }, &["sector-size", "allowed: 1 to"]),
        ("0,1\n", ImportOptions { sector_bytes: u64::MAX, ..sectors.clone() }, &["sector-size", "allowed: 1 to"]),
        ("0,1\n", ImportOptions { sizes_in_sectors: true, ..columns(spec) }, &["size-unit", "--split-objects"]),
        (
            "a,1\n",
            ImportOptions { csv_columns: Some(format!("{spec},obj-id-is-num=0")), ..sectors },
            &["unit", "names"],
        ),
    ];
    for (text, options, words) in table {
        let error = Case::new("a.csv", text).error(None, &options);
        assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
    }
}

#[test]
fn a_clock_that_is_not_in_the_file_is_refused() {
    let with_file = |options| ImportOptions { clock: RequestClock::File, ..options };
    let lackey = "I  0401ab70,3\n";
    let table = [
        ("a.csv", "10,4096\n", with_file(columns("obj-id-col=1")), "time-col"),
        ("a.csv", "page\n10\n", with_file(defaults()), "time_ns"),
        ("a.txt", "10\n20\n", with_file(defaults()), "text has no times"),
        ("a.log", lackey, with_file(defaults()), "lackey has no times"),
    ];
    for (name, text, options, words) in table {
        let error = Case::new(name, text).error(None, &options);
        assert!(error.contains("option `clock`") && error.contains(words) && error.contains("--clock file"), "{error}");
        let even = ImportOptions { clock: RequestClock::Even, ..options };
        Case::new(name, text).import(None, &even).unwrap();
    }
    assert!(IMPORTERS.iter().any(|importer| importer.has_clock));
}

#[test]
fn a_clock_that_stands_still_is_not_praised() {
    let options = ImportOptions { clock: RequestClock::File, ..defaults() };
    let still = records(&[(5, 1, 1, -1), (5, 2, 1, -1)]);
    let (meta, rows) = Case::new("a.oracleGeneral", still).import(None, &options).unwrap();
    assert_eq!(times(&rows), [0, 0]);
    assert!(meta.notes.iter().any(|note| note.starts_with("all requests have the same time")), "{:?}", meta.notes);
    assert!(!meta.notes.iter().any(|note| note.contains("own clock")), "{:?}", meta.notes);
}
